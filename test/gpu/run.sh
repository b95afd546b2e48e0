#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that want a GPU, from a build (`make test-gpu`) or from a carried one: OUT is the build folder,
# CASES the folder of conformance cases (or its archive), LIST gets a line a case with what ran on the host;
# FAULTS names the program of `make FAULTS=1`, where it was built; SANITIZE=1 adds compute-sanitizer (half an hour).
# Ends with "N passed, N failed" of the conformance program; exit status 1 where anything failed.
set -u
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${LIST:=/dev/null}" "${FAULTS:=$OUT/faults/bin/infer}"
export OUT CASES FAULTS
here=$(dirname "$0")
failed=0
"$OUT/bin/infer" doctor || true
for unit in "$OUT"/unit/gpu*; do
	case $unit in *.d | *.o) continue ;; esac
	[ -x "$unit" ] || continue
	"$unit" || failed=1
done
if [ -x "$FAULTS" ]; then
	"$here/faults.sh" || failed=1
fi
if [ -n "${SANITIZE:-}" ]; then
	"$here/sanitize.sh" || failed=1
fi
"$OUT/conformance/run" "$CASES" -d cuda -l "$LIST" || failed=1
exit $failed
