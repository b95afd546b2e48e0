#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that want a GPU, from a build (`make test-gpu`) or from a carried one: OUT is the build folder,
# CASES the folder of conformance cases (or its archive), LIST gets a line a case with what ran on the host.
# Ends with "N passed, N failed" of the conformance program; exit status 1 where anything failed.
set -u
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${LIST:=/dev/null}"
failed=0
"$OUT/bin/infer" doctor || true
for unit in "$OUT"/unit/gpu*; do
	case $unit in *.d | *.o) continue ;; esac
	[ -x "$unit" ] || continue
	"$unit" || failed=1
done
"$OUT/conformance/run" "$CASES" -d cuda -l "$LIST" || failed=1
exit $failed
