#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faulty and sound programs under `infer check --`, on a machine with a GPU: each fault must be named, no twin accused.
# INFER is the program; needs cc and nvcc, and for the mixes a Python with torch, cuda-bindings and CuPy (PYTHON).
set -u
cd "$(dirname "$0")" || exit 1
: "${INFER:=../../build/bin/infer}" "${PYTHON:=python3}" "${CUDA:=/usr/local/cuda}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

"${CC:-cc}" -O1 -I"$CUDA/include" faults.c -o "$work/faults" -L"$CUDA/lib64/stubs" -lcuda -lpthread || exit 1
"$CUDA/bin/nvcc" -arch=native -cubin kernels.cu -o "$work/kernels.cubin" || exit 1

# expect STATUS ID NAME COMMAND...: the exit status, and the finding that must be there ("-": no error at all)
expect() {
	local status=$1 id=$2 name=$3 rc
	shift 3
	# shellcheck disable=SC2086 # options are words
	timeout 60 "$INFER" check ${OPTIONS:-} -- "$@" >"$work/out" 2>"$work/err"
	rc=$?
	if [ $rc -eq "$status" ] && { [ "$id" = - ] && ! grep -q '^error' "$work/err" || grep -q "$id" "$work/err"; }; then
		passed=$((passed + 1))
		echo "ok $name"
	else
		failed=$((failed + 1))
		echo "not ok $name: status $rc, expected $status with $id"
		sed 's/^/  | /' "$work/err" | head -40
	fi
	[ -z "${V:-}" ] || sed 's/^/  > /' "$work/err" | head -40
}

F="$work/faults" K="$work/kernels.cubin"
expect 7 E-CTX-FOREIGN foreign "$F" foreign "$K"
expect 0 - foreign-ok "$F" foreign-ok "$K"
expect 7 E-CTX-FOREIGN event "$F" event "$K"
expect 0 - event-ok "$F" event-ok "$K"
expect 7 E-CTX-DESTROYED destroyed "$F" destroyed "$K"
expect 0 - destroyed-ok "$F" destroyed-ok "$K"
expect 8 E-CUDA-700 illegal "$F" illegal "$K"
OPTIONS='--sync launch' expect 8 E-CUDA-700 illegal-launch "$F" illegal "$K"
expect 0 - illegal-ok "$F" illegal-ok "$K"
expect 8 E-CUDA-1 badvalue "$F" badvalue "$K"
expect 0 - badvalue-ok "$F" badvalue-ok "$K"
expect 1 E-COPY-HOST shorthost "$F" shorthost "$K"
expect 0 - shorthost-ok "$F" shorthost-ok "$K"
expect 1 E-HOST-DEVPTR devptr "$F" devptr "$K"
expect 0 - devptr-ok "$F" devptr-ok "$K"
expect 6 E-LEAK leak "$F" leak "$K"
expect 0 - leak-ok "$F" leak-ok "$K"
expect 7 E-CTX-CAPTURE capture "$F" capture "$K"
expect 0 - capture-ok "$F" capture-ok "$K"
OPTIONS='--error-exitcode 42' expect 42 E-CTX-FOREIGN error-exitcode "$F" foreign "$K"
expect 127 E-WATCH-EXEC missing "$work/no-such-program"
expect 3 - status sh -c 'exit 3'

if [ -z "${NO_PYTHON:-}" ] && "$PYTHON" -c 'import torch, cuda.bindings' 2>/dev/null; then
	expect 7 E-CTX-FOREIGN py-foreign "$PYTHON" mixes.py foreign
	expect 0 - py-foreign-ok "$PYTHON" mixes.py foreign-ok
	expect 0 N-CTX-STATE py-contexts "$PYTHON" mixes.py contexts
	expect 0 - py-train-ok "$PYTHON" mixes.py train-ok
	expect 6 E-LEAK py-leak "$PYTHON" mixes.py leak
	expect 0 - py-leak-ok "$PYTHON" mixes.py leak-ok
	expect 0 - py-cupy-ok "$PYTHON" mixes.py cupy-ok
fi
echo "watch: $passed passed, $failed failed"
[ $failed -eq 0 ]
