#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faulty and sound programs under `infer check --`, on a machine with a GPU: each fault must be named, no twin accused.
# INFER is the program; needs cc and nvcc, and for the mixes a Python with torch, cuda-bindings and CuPy (PYTHON).
# ONLY is a pattern of names; V=1 shows what was said.
set -u
cd "$(dirname "$0")" || exit 1
: "${INFER:=../../build/bin/infer}" "${PYTHON:=python3}" "${CUDA:=/usr/local/cuda}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

"${CC:-cc}" -O1 -I"$CUDA/include" faults.c -o "$work/faults" -L"$CUDA/lib64/stubs" -lcuda -lpthread || exit 1
libs=(-L"$CUDA/lib64/stubs" -L"$CUDA/lib64" -L"$CUDA/extras/CUPTI/lib64" -lcuda -lcudart -lcupti
	"-Wl,-rpath,$CUDA/lib64:$CUDA/extras/CUPTI/lib64" "-Wl,-rpath,\$ORIGIN")
for part in 1 2; do
	name=$([ $part = 1 ] && echo first || echo second)
	"${CC:-cc}" -shared -fPIC -I"$CUDA/include" -DPART=$part late.c -o "$work/lib$name.so" "${libs[@]}" || exit 1
done
"${CC:-cc}" -I"$CUDA/include" -DPART=0 late.c -o "$work/late" -L"$work" -lfirst -lsecond "${libs[@]}" || exit 1
"$CUDA/bin/nvcc" -arch=native -cubin kernels.cu -o "$work/kernels.cubin" || exit 1

# expect STATUS ID NAME COMMAND...: the exit status, and the finding that must be there ("-": no error at all)
expect() {
	local status=$1 id=$2 name=$3 rc
	shift 3
	[[ $name =~ ${ONLY:-.} ]] || return
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

F="$work/faults" L="$work/late" K="$work/kernels.cubin"
expect 7 E-CTX-FOREIGN foreign "$F" foreign "$K"
expect 7 E-CTX-FOREIGN event "$F" event "$K"
expect 7 E-CTX-DESTROYED destroyed "$F" destroyed "$K"
expect 7 E-CTX-DESTROYED reset "$F" reset "$K"
expect 7 'an allocation of a destroyed context' lost "$F" lost "$K"
expect 7 'a module of a destroyed context' module "$F" module "$K"
expect 7 'a stream of a destroyed context' stream "$F" stream "$K"
expect 0 '300 blocks of 1.0 MiB of device memory' grows "$F" grows "$K"
expect 0 'was forked from' forked "$F" forked "$K"
expect 8 E-CUDA-700 illegal "$F" illegal "$K"
OPTIONS='--sync launch' expect 8 E-CUDA-700 illegal-launch "$F" illegal "$K"
expect 8 E-CUDA-1 badvalue "$F" badvalue "$K"
expect 8 'at 0x.* (2.0 MiB) was not written' unwritten "$F" unwritten "$K"
expect 1 E-COPY-HOST shorthost "$F" shorthost "$K"
expect 1 'row 2 of plane 0' pitch "$F" pitch "$K"
expect 1 '2560 of its 3200 bytes' volume "$F" volume "$K"
expect 1 '4000 of its 5000 bytes' heap "$F" heap "$K"
expect 1 'a pinned allocation of 8192' pinned "$F" pinned "$K"
expect 1 '2048 of its 3000 bytes' batch "$F" batch "$K"
expect 1 E-HOST-DEVPTR devptr "$F" devptr "$K"
expect 6 E-LEAK leak "$F" leak "$K"
expect 7 E-CTX-CAPTURE capture "$F" capture "$K"
expect 8 E-CUDA-LATE late "$L" late "$K"
expect 7 "libsecond.so works on after libfirst.so destroyed the context" orphan "$L" orphan "$K"
expect 0 - orphan-ok "$L" orphan-ok "$K"
expect 8 'after 1 launches that went well' late-same "$L" same "$K"
expect 8 'reported  cudaGetLastError at .*libsecond.so' late-wide "$L" wide "$K"
expect 8 'a kernel of libfirst.so' late-sticky "$L" sticky "$K"
for twin in foreign event destroyed reset lost module stream grows forked illegal badvalue unwritten shorthost pitch volume \
	heap pinned batch devptr leak capture many child; do
	expect 0 - "$twin-ok" "$F" "$twin-ok" "$K"
done
expect 0 - late-ok "$L" late-ok "$K"
expect 0 W-WATCH-BUSY profiler "$L" profiler "$K"
expect 0 - late-wide-ok "$L" wide-ok "$K"
expect 0 - late-sticky-ok "$L" sticky-ok "$K"
OPTIONS='--error-exitcode 42' expect 42 E-CTX-FOREIGN error-exitcode "$F" foreign "$K"
expect 127 E-WATCH-EXEC missing "$work/no-such-program"
expect 3 - status sh -c 'exit 3'

# handlers of the program's own: the fault is told, and what they print and how they end is what it is without
"${CC:-cc}" -O1 -w -I"$CUDA/include" handlers.c -o "$work/handlers" -L"$CUDA/lib64/stubs" -lcuda -lpthread || exit 1
for handler in info plain nodefer removed chain stack small early smashed reset sysv jumps reports vfork; do
	expect 1 E-HOST-DEVPTR "handlers-$handler" "$work/handlers" $handler
	alone=0
	timeout 60 "$work/handlers" $handler-ok >"$work/alone" 2>"$work/err" || alone=$?
	expect $alone - "handlers-$handler-ok" "$work/handlers" $handler-ok
	[[ handlers-$handler-ok =~ ${ONLY:-.} ]] || continue
	cmp "$work/alone" "$work/out" && passed=$((passed + 1)) || failed=$((failed + 1))
done

OPTIONS='--report-api-errors no' expect 0 - api-errors-no "$F" badvalue "$K"
OPTIONS='--contexts' expect 0 - contexts-alone "$F" badvalue "$K"
OPTIONS='--heap off' expect 0 - heap-off "$F" heap "$K"
echo 'E-CTX-FOREIGN *cuLaunchKernel*' >"$work/known"
OPTIONS="--suppressions $work/known" expect 0 '1 finding suppressed' suppressions "$F" foreign "$K"

# signal NAME: it reaches the program, whose status passes through
signal() {
	local name=$1 number pid rc
	[[ signal-$name =~ ${ONLY:-.} ]] || return
	number=$(kill -l "$name")
	"$INFER" check --interval 1s -- "$F" waits "$K" >"$work/out" 2>"$work/err" &
	pid=$!
	for _ in $(seq 100); do
		grep -q waiting "$work/out" && break
		sleep 0.1
	done
	kill -USR1 $pid # a report, which the program does not see
	sleep 1.5
	kill "-$name" $pid
	wait $pid
	rc=$?
	if [ $rc -eq "$number" ] && grep -q "signal $number" "$work/out" && [ "$(grep -c '^infer: after' "$work/err")" -ge 2 ]; then
		passed=$((passed + 1))
		echo "ok signal-$name"
	else
		failed=$((failed + 1))
		echo "not ok signal-$name: status $rc, expected $number"
		sed 's/^/  | /' "$work/out" "$work/err" | head -40
	fi
}
signal TERM
signal USR2

# the same by Python's ctypes alone
if [ -z "${NO_PYTHON:-}" ]; then
	export LD_LIBRARY_PATH=$CUDA/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	for fault in 7:E-CTX-FOREIGN:foreign 7:E-CTX-FOREIGN:event 7:E-CTX-DESTROYED:destroyed 7:E-CTX-DESTROYED:reset \
		7:E-CTX-DESTROYED:release 7:E-CTX-CAPTURE:capture 8:E-CUDA-700:illegal 8:E-CUDA-1:badvalue \
		8:E-CUDA-1:unwritten 8:E-CUDA-LATE:late 1:E-COPY-HOST:shorthost 1:E-COPY-HOST:pitch 1:E-COPY-HOST:volume \
		1:E-COPY-HOST:heap 1:E-COPY-HOST:pinned 1:E-COPY-HOST:batch 1:E-COPY-HOST:swapped 1:E-HOST-DEVPTR:devptr \
		6:E-LEAK:leak 6:E-LEAK:hostleak; do
		IFS=: read -r status id name <<<"$fault"
		expect "$status" "$id" "ctypes-$name" "$PYTHON" faults.py "$name" "$K"
		expect 0 - "ctypes-$name-ok" "$PYTHON" faults.py "$name-ok" "$K"
	done
fi

if [ -z "${NO_PYTHON:-}" ] && "$PYTHON" -c 'import torch, cuda.bindings' 2>/dev/null; then
	expect 7 E-CTX-FOREIGN py-foreign "$PYTHON" mixes.py foreign
	expect 7 E-CTX-FOREIGN py-event "$PYTHON" mixes.py event
	expect 7 E-CTX-DESTROYED py-destroyed "$PYTHON" mixes.py destroyed
	expect 7 'works on after' py-reset "$PYTHON" mixes.py reset
	expect 0 'was forked from' py-forked "$PYTHON" mixes.py forked
	expect 8 E-CUDA-710 py-illegal "$PYTHON" mixes.py illegal
	expect 8 E-CUDA-1 py-badvalue "$PYTHON" mixes.py badvalue
	expect 1 '4000 of its 5000 bytes' py-heap "$PYTHON" mixes.py heap
	expect 1 '32000 of its 32640 bytes' py-pitch "$PYTHON" mixes.py pitch
	expect 1 E-COPY-HOST py-shorthost "$PYTHON" mixes.py shorthost
	expect 1 E-HOST-DEVPTR py-devptr "$PYTHON" mixes.py devptr
	expect 7 E-CTX-CAPTURE py-capture "$PYTHON" mixes.py capture
	expect 8 E-CUDA-LATE py-late "$PYTHON" mixes.py late
	expect 6 E-LEAK py-leak "$PYTHON" mixes.py leak
	expect 6 E-LEAK py-hostleak "$PYTHON" mixes.py hostleak
	expect 0 N-CTX-STATE py-contexts "$PYTHON" mixes.py contexts
	expect 0 W-WATCH-BUSY py-profiler "$PYTHON" mixes.py profiler
	for twin in foreign event destroyed reset forked illegal badvalue heap pitch shorthost devptr capture late leak hostleak train cupy \
		multiprocess library graphs convolutions; do
		expect 0 - "py-$twin-ok" "$PYTHON" mixes.py "$twin-ok"
	done
fi
echo "watch: $passed passed, $failed failed"
[ $failed -eq 0 ]
