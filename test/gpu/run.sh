#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests that want a GPU, from a build (`make test-gpu`) or from a carried one: wanted are the folders test/gpu and OUT
# with bin/infer, unit/* and conformance/run (`make tests`). Ends with "N passed, N failed"; exit status 1 where
# anything failed, 8 where there is no GPU.
#
#   OUT       the build folder
#   CASES     the folder of conformance cases, unpacked or its archives
#   MORE      the cases of test/gpu/kernels.py: made here where python3 has onnx
#   FAULTS    the program of `make FAULTS=1`: faults are planted where it is there
#   MODELS    a folder of models with their weights: each on the GPU against the CPU (bench/gpu_models of `make tests`)
#   SANITIZE  1: compute-sanitizer over all kernels, too (minutes)
#   LIST      a file that gets a line a case with what ran on the host
set -u
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${LIST:=/dev/null}" "${FAULTS:=$OUT/faults/bin/infer}"
[ -x "$FAULTS" ] || FAULTS=${OUT%/}-faults/bin/infer
export OUT CASES FAULTS
here=$(dirname "$0")
passed=0 failed=0
log=$(mktemp) folder=$(mktemp -d)
trap 'rm -rf "$log" "$folder"' EXIT

count() { # NAME PASSED FAILED
	printf '%-28s %5d passed %4d failed\n' "$@"
	passed=$((passed + $2)) failed=$((failed + $3))
	[ "$3" = 0 ] || grep -v '^ok \|^[0-9]*\.\.[0-9]*$' "$log" | tail -n 60 | sed 's/^/  /'
}

tap() { # NAME COMMAND...: counts the TAP lines that the command prints
	local name=$1 rc ok bad
	shift
	timeout -k 10 "${TEST_TIMEOUT:-1800}" "$@" >"$log" 2>&1
	rc=$?
	ok=$(grep '^ok ' "$log" | grep -c -v -i '# skip') bad=$(grep -c '^not ok ' "$log")
	# it broke off, or ran nothing
	if [ "$bad" = 0 ] && { [ $rc != 0 ] || ! grep -q '^ok ' "$log"; }; then
		echo "exit status $rc" >>"$log"
		bad=1
	fi
	count "$name" "$ok" "$bad"
}

cases() { # NAME FOLDER OPTION...
	local name=$1
	shift
	timeout -k 10 "${TEST_TIMEOUT:-1800}" "$OUT/conformance/run" "$@" -d cuda >"$log" 2>&1
	if ! grep -q '^conformance: [0-9]* passed' "$log"; then
		count "$name" 0 1
		return
	fi
	count "$name" "$(sed -n 's/^conformance: \([0-9]*\) passed.*/\1/p' "$log")" \
		"$(sed -n 's/^conformance: .* passed, \([0-9]*\) failed.*/\1/p' "$log")"
	grep '^on cuda' "$log"
}

"$OUT/bin/infer" doctor | tee "$log"
grep -q '^cuda:' "$log" || { echo "no GPU: nothing was tested"; exit 8; }
for unit in "$OUT"/unit/gpu* "$OUT/unit/cudnn" "$OUT/unit/cupti"; do
	case $unit in *.d | *.o) continue ;; esac
	[ ! -x "$unit" ] || tap "unit/${unit##*/}" "$unit"
done
[ ! -x "$FAULTS" ] || tap faults "$here/faults.sh"
cases conformance "$CASES" -l "$LIST"
if [ -z "${MORE:-}" ]; then
	python3 "$here/kernels.py" "$folder/more" >/dev/null 2>&1 && MORE=$folder/more
fi
[ -z "${MORE:-}" ] || cases "kernels in every type" "$MORE" -c
if [ -n "${MODELS:-}" ]; then
	tap models "$here/models.sh"
fi
# another program, watched: built here
if [ -e "$here/../watch/run.sh" ] && command -v "${CC:-cc}" >/dev/null && [ -x "${CUDA:-/usr/local/cuda}/bin/nvcc" ]; then
	INFER=$(realpath "$OUT/bin/infer") tap watch "$here/../watch/run.sh"
fi
if [ -n "${SANITIZE:-}" ]; then
	MORE=${MORE:-} tap sanitize "$here/sanitize.sh"
	grep '^ok \|^# .*kernels;' "$log" | sed 's/^/  /'
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
