# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Runs before the first test of this folder: tuning results and a user's options stay out of the tests, and the tests out of the
# user's cache.
setup_suite() {
	export XDG_CACHE_HOME=$BATS_RUN_TMPDIR/cache XDG_CONFIG_HOME=$BATS_RUN_TMPDIR/config
}
