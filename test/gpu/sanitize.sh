#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: compute-sanitizer over our kernels, by the conformance cases. OUT is the build folder, CASES
# the cases; FILTERS are parts of their names (default: by letter, which is all), TOOLS the checks, JOBS how many run
# side by side. TAP on standard output.
set -u
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${TOOLS:=memcheck initcheck racecheck synccheck}"
: "${FILTERS:=$(printf '/test_%s ' a b c d e f g h i j k l m n o p q r s t u v w x y z)}"
: "${SECONDS_EACH:=1200}" "${JOBS:=$(nproc)}"
export OUT CASES SECONDS_EACH
# our kernels alone: those of libraries read memory that nobody wrote, and race, where that does no harm
export INFER_WITHOUT=cudnn,cublaslt
PATH=$PATH:/usr/local/cuda/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder

one() { # TOOL FILTER
	local out=$folder/$1.${2//\//_}
	timeout "$SECONDS_EACH" compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 8 \
		"$OUT/conformance/run" "$CASES" -f "$2" -d cuda >"$out" 2>&1
	local rc=$?
	if grep -q '^conformance: 0 passed, 0 failed' "$out" || ! grep -q '=====' "$out"; then
		return # no such cases
	fi
	if grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$out"; then
		echo "ok $1 $2: $(grep '^conformance:' "$out")"
		return
	fi
	echo "not ok $1 $2 (exit $rc)"
	grep -A "${LINES_EACH:-3}" '^=========.*\(Invalid\|Uninit\|hazard\|Barrier\|Program hit\|SUMMARY\)' "$out" |
		grep -v 'Host Frame\|Saved host' | head -n 16 | sed 's/^/# /'
}
export -f one

for tool in $TOOLS; do
	for filter in $FILTERS; do
		printf '%s\0%s\0' "$tool" "$filter"
	done
done | xargs -0 -n 2 -P "$JOBS" bash -c 'one "$@"' one | tee "$folder/all"
echo "1..$(grep -c '^ok\|^not ok' "$folder/all")"
! grep -q '^not ok' "$folder/all"
