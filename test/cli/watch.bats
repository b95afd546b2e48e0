#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer check -- COMMAND and --pid, as far as they go without a GPU (with one: test/watch/run.sh).

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	bats_require_minimum_version 1.5.0
}

no_gpu() {
	! "$INFER" doctor 2>/dev/null | grep -q '^cuda:'
}

@test "without a CUDA device the program is not started, and the reason is said" {
	no_gpu || skip "this machine has a GPU"
	run --separate-stderr "$INFER" check -- touch "$BATS_TEST_TMPDIR/started"
	[ "$status" -eq 8 ]
	[[ $stderr == *"error[E-DEVICE]"*"'touch' was not started"* ]]
	[ ! -e "$BATS_TEST_TMPDIR/started" ]
}

@test "the same as a document" {
	no_gpu || skip "this machine has a GPU"
	run --separate-stderr "$INFER" check --json -- true
	[ "$status" -eq 8 ]
	[[ $output == *'"exit_code": 8'* ]]
	[[ $output == *'"id": "E-DEVICE"'* ]]
}

@test "-- wants a command" {
	run --separate-stderr "$INFER" check --
	[ "$status" -eq 2 ]
}

@test "a process is looked at from outside" {
	sleep 5 &
	run --separate-stderr "$INFER" check --pid $! --duration 1s
	kill $!
	[ "$status" -eq 0 ]
	[[ $output == "process $!: host private "*"too short a time for a verdict"* ]]
}

@test "a process that leaks is found from outside" {
	# grows by a page or so each 5 ms for 6 s
	bash -c 's=; end=$((SECONDS + 8)); while ((SECONDS < end)); do printf -v x "%32768s"; s+=$x; read -rt 0.02 <> <(:); done' &
	run --separate-stderr "$INFER" check --pid $! --duration 6s
	kill $! || true
	[ "$status" -eq 6 ]
	[[ $stderr == *"error[E-LEAK]"*"keeps growing"* ]]
}

@test "there must be such a process" {
	run --separate-stderr "$INFER" check --pid 4194303
	[ "$status" -eq 1 ]
	[[ $stderr == *"there is no process 4194303"* ]]
}

@test "a file of suppressions that is not there is an error" {
	run --separate-stderr "$INFER" check --suppressions /no/such/file -- true
	[ "$status" -eq 2 ]
	[[ $stderr == *"/no/such/file"* ]]
}

# ---- on a driver without a device (test/watch/fake), which reports its calls to CUPTI's listeners

setup_file() {
	local cuda=${CUDA:-/usr/local/cuda} here=$BATS_TEST_DIRNAME/../watch
	export FAKE=$BATS_FILE_TMPDIR/fake CALLS=$BATS_FILE_TMPDIR/calls
	mkdir -p "$FAKE" "$CALLS"
	[ -e "$cuda/include/cupti.h" ] || return 0
	# what infer itself asks, and what the watched program has
	${CC:-cc} -shared -fPIC -w -o "$FAKE/libcuda.so.1" "$BATS_TEST_DIRNAME/../gpu/fake/cuda.c"
	${CC:-cc} -shared -fPIC -w -I"$cuda/include" -o "$CALLS/libcuda.so.1" "$here/fake/cuda.c"
	for name in libcupti.so.13 libnvidia-ml.so.1 libcudart.so.13; do
		ln -s libcuda.so.1 "$CALLS/$name"
	done
	local link=(-L"$CALLS" -l:libcuda.so.1)
	${CC:-cc} -O1 -w -I"$cuda/include" "$here/faults.c" -o "$CALLS/faults" "${link[@]}" -lpthread
	${CC:-cc} -shared -fPIC -w -I"$cuda/include" -DPART=1 "$here/late.c" -o "$CALLS/libfirst.so" "${link[@]}"
	${CC:-cc} -shared -fPIC -w -I"$cuda/include" -DPART=2 "$here/late.c" -o "$CALLS/libsecond.so" "${link[@]}"
	${CC:-cc} -w -I"$cuda/include" -DPART=0 "$here/late.c" -o "$CALLS/late" -l:libfirst.so -l:libsecond.so "${link[@]}"
}

needs_fake() {
	[ -x "$CALLS/late" ] || skip "no headers of CUPTI's"
	export INFER_LIBRARY_PATH=$FAKE:$CALLS LD_LIBRARY_PATH=$CALLS
	if "$INFER" doctor | grep -q 'no CUDA backend'; then skip "built without CUDA"; fi
}

# watched STATUS TEXT OPTIONS... -- COMMAND...: the exit status, and what stderr must say
watched() {
	local want=$1 text=$2
	shift 2
	run --separate-stderr "$INFER" check "$@"
	[ "$status" -eq "$want" ] && [[ $stderr == *"$text"* ]] || {
		echo "status $status, expected $want and: $text"
		echo "$stderr"
		return 1
	}
}

@test "faults are named" {
	needs_fake
	cd "$CALLS"
	watched 7 "error[E-CTX-FOREIGN]: a function of context A was launched on a stream of context B" -- ./faults foreign k
	# the program's own functions, which it does not export
	[[ $stderr == *" by faults("*"+0x"* && $stderr != *"faults(+0x"* ]]
	watched 7 "error[E-CTX-FOREIGN]: an event of context A" -- ./faults event k
	watched 7 "error[E-CTX-DESTROYED]: an event of a destroyed context" -- ./faults destroyed k
	watched 7 "error[E-CTX-DESTROYED]" -- ./faults reset k
	watched 8 "error[E-CUDA-700]: cuCtxSynchronize failed with CUDA error 700, which an earlier launch raised" -- ./faults illegal k
	watched 8 "error[E-CUDA-1]" -- ./faults badvalue k
	watched 7 "open capture" -- ./faults capture k
	watched 1 "+ 4096 of 1.0 MiB, allocated by faults" -- ./faults devptr k
}

@test "what was not written is named, of each call that failed" {
	needs_fake
	cd "$CALLS"
	watched 8 "(1.0 MiB) was not written" -- ./faults unwritten k
	[[ $stderr == *"(2.0 MiB) was not written"* ]]
}

@test "copies that leave the host's memory are told before they run" {
	needs_fake
	cd "$CALLS"
	watched 1 "4096 of its 16384 bytes can be reached" -- ./faults shorthost k
	watched 1 "(row 2 of plane 0)" -- ./faults pitch k
	watched 1 "2560 of its 3200 bytes are in a block of malloc's of 2560 bytes" -- ./faults volume k
	watched 1 "4000 of its 5000 bytes are in a block of malloc's of 4000 bytes" -- ./faults heap k
	watched 1 "8192 of its 12000 bytes are in a pinned allocation of 8192 bytes" -- ./faults pinned k
	watched 1 "2048 of its 3000 bytes" -- ./faults batch k
	watched 0 "" --heap off -- ./faults heap k
	[[ $stderr != *E-COPY-HOST* ]]
}

@test "an error that a later call reported names both" {
	needs_fake
	cd "$CALLS"
	watched 8 "error[E-CUDA-LATE]" -- ./late late k
	[[ $stderr == *"cudaSetDevice = 101 by libfirst.so(first_fails+"* ]]
	[[ $stderr == *"cudaGetLastError at "*" by libsecond.so(second_works+"* ]]
	watched 8 "after 1 launches that went well" -- ./late same k
	# a launch as <<<>>> makes it, whose error the driver and the runtime number otherwise
	watched 8 "error[E-CUDA-LATE]: an unchecked CUDA error 9 was reported" -- ./late wide k
	[[ $stderr == *"failed    cuLaunchKernel('fill') = 1 by libfirst.so(first_launches_wide+"* ]]
	[[ $stderr == *"was not written by it"* ]]
	watched 8 "a kernel of libfirst.so(first_launches+" -- ./late sticky k
	[[ $stderr == *"cuCtxSynchronize = 700 at "*" by libsecond.so(second_waits+"* ]]
}

@test "sound twins are not accused" {
	needs_fake
	cd "$CALLS"
	for twin in foreign event destroyed reset illegal badvalue unwritten shorthost pitch volume heap pinned batch devptr \
		capture many child; do
		watched 0 "" -- ./faults $twin-ok k
		[[ $stderr != *"error["* && $stderr != *"did not end in order"* ]] || { echo "$twin: $stderr"; return 1; }
	done
	for twin in late wide sticky; do
		watched 0 "" -- ./late $twin-ok k
		[[ $stderr != *"error["* ]] || { echo "$twin: $stderr"; return 1; }
	done
}

@test "two contexts on one device are a note, with what each cost" {
	needs_fake
	cd "$CALLS"
	watched 7 "making it took 400.0 MiB of device memory" -v -- ./faults foreign k
	[[ $stderr == *"note[N-CTX-STATE]: contexts of process"* ]]
}

@test "what is wanted can be limited" {
	needs_fake
	cd "$CALLS"
	watched 0 "" --report-api-errors no -- ./faults badvalue k
	watched 0 "" --contexts -- ./faults badvalue k
	watched 7 "E-CTX-FOREIGN" --contexts -- ./faults foreign k
	watched 42 "E-CTX-FOREIGN" --error-exitcode 42 -- ./faults foreign k
	echo 'E-CTX-FOREIGN *cuLaunchKernel*' >"$BATS_TEST_TMPDIR/known"
	watched 0 "1 finding suppressed" --suppressions "$BATS_TEST_TMPDIR/known" -- ./faults foreign k
}

@test "children that are exec'ed are followed, and the program's status passes through" {
	needs_fake
	cd "$CALLS"
	watched 7 "E-CTX-FOREIGN" -- sh -c './faults foreign k; exit 3'
	watched 3 "" -- sh -c './faults foreign-ok k; exit 3'
	watched 3 "sh made no CUDA call" -- sh -c 'exit 3'
	watched 137 "" -- sh -c 'kill -KILL $$'
	run -127 --separate-stderr "$INFER" check -- ./no-such-program
	[[ $stderr == *E-WATCH-EXEC* ]]
	touch "$BATS_TEST_TMPDIR/plain"
	watched 126 "E-WATCH-EXEC" -- "$BATS_TEST_TMPDIR/plain"
	run bash -c 'echo in | "$0" check -q -- cat' "$INFER"
	[ "$output" = in ]
}

@test "signals reach the program, USR1 and --interval report" {
	needs_fake
	cd "$CALLS"
	for name in TERM USR2; do
		"$INFER" check --interval 1s -- ./faults waits k >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" &
		pid=$!
		for _ in $(seq 100); do
			grep -q waiting "$BATS_TEST_TMPDIR/out" && break
			sleep 0.1
		done
		kill -USR1 $pid
		sleep 1.5
		kill -$name $pid
		rc=0
		wait $pid || rc=$?
		[ $rc -eq "$(kill -l $name)" ]
		grep -q "signal $rc" "$BATS_TEST_TMPDIR/out"
		[ "$(grep -c '^infer: after' "$BATS_TEST_TMPDIR/err")" -ge 2 ]
	done
}

@test "without CUPTI the program is not started, and the reason is said" {
	needs_fake
	cd "$CALLS"
	INFER_WITHOUT=cupti watched 8 "error[E-LIBRARY]" -- touch "$BATS_TEST_TMPDIR/started"
	[[ $stderr == *CUPTI* && ! -e $BATS_TEST_TMPDIR/started ]]
}

@test "another client of CUPTI's: one that is there is named, one that comes is let in" {
	needs_fake
	cd "$CALLS"
	FAKE_CUPTI_TAKEN=1 watched 8 "error[E-WATCH-BUSY]" -- ./faults foreign-ok k
	[[ $stderr == *"in use by another tool"* ]]
	watched 0 "warning[W-WATCH-BUSY]: CUPTI was given to late" -- ./late profiler k
	[ "$output" = "heard: yes" ]
}

@test "events without end: those of findings are kept, the memory is bounded" {
	needs_fake
	cd "$CALLS"
	# what the driver here remembers of contexts is never given back
	echo E-LEAK >"$BATS_TEST_TMPDIR/known"
	watched 8 "error[E-CUDA-1]" --suppressions "$BATS_TEST_TMPDIR/known" -- ./faults flood k
	[[ $stderr == *"events were more than are kept"* && $stderr != *"live on one device"* ]]
	watched 0 "events were more than are kept" --suppressions "$BATS_TEST_TMPDIR/known" -- ./faults flood-ok k
	COUNT=200000 run --separate-stderr python3 "$BATS_TEST_DIRNAME/../watch/memory.py" "$INFER" check -- ./faults many-ok k
	echo "$output"
	[[ $output =~ faults:\ at\ most\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -lt 100 ]
}

@test "as a document" {
	needs_fake
	cd "$CALLS"
	run --separate-stderr "$INFER" check --json -- ./faults heap k
	[ "$status" -eq 1 ]
	[[ $output == *'"processes"'*'"copies": 2'*'"id": "E-COPY-HOST"'* ]]
}
