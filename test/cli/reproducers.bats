#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Models that once crashed, hung, swelled or misled: each command ends with a status of the table, in time and within 256 MiB.

load helper

@test "run, inspect, profile and check end in time and within bounds on every reproducer" {
	need_python
	local here=$BATS_TEST_DIRNAME
	! grep -q __asan_init "$INFER" || skip "sanitizers take more time and memory"
	INFER_DEVICE=cpu run "$here/../tools/reproducers.py" "$INFER" "$here/../data/reproducers" "$here/../mutants/found"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *" 0 wrong;"* ]]
}
