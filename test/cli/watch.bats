#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer check -- COMMAND and --pid, as far as they go without a GPU (with one: test/watch/run.sh).

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	bats_require_minimum_version 1.5.0
	. "$BATS_TEST_DIRNAME/../watch/fake/use.bash"
}

no_gpu() {
	! "$INFER" doctor 2>/dev/null | grep -q '^cuda:'
}

@test "Without a CUDA device, the program is not started, and the reason is given" {
	no_gpu || skip "this machine has a GPU"
	run --separate-stderr "$INFER" check -- touch "$BATS_TEST_TMPDIR/started"
	[ "$status" -eq 8 ]
	[[ $stderr == *"error[E-DEVICE]"*"'touch' was not started"* ]]
	[ ! -e "$BATS_TEST_TMPDIR/started" ]
}

@test "--json prints the same as a document" {
	no_gpu || skip "this machine has a GPU"
	run --separate-stderr "$INFER" check --json -- true
	[ "$status" -eq 8 ]
	[[ $output == *'"exit_code": 8'* ]]
	[[ $output == *'"id": "E-DEVICE"'* ]]
}

@test "-- requires a command" {
	run --separate-stderr "$INFER" check --
	[ "$status" -eq 2 ]
}

@test "--pid reports the memory of a process" {
	sleep 1000 3>&- &
	run --separate-stderr "$INFER" check --pid $! --duration 1s
	kill $!
	[ "$status" -eq 0 ]
	[[ $output == "process $!: "*" s, host private "*"too short a time for a verdict"* ]]
}

@test "--pid finds a leak" {
	# 32 KiB every 5 ms, while it is watched
	cat >"$BATS_TEST_TMPDIR/leaks.c" <<-'END'
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>
		int main(void)
		{
			for (int i = 0; i < 60000; i++) {
				char *p = malloc(32768);
				if (p)
					memset(p, 1, 32768);
				usleep(5000);
			}
		}
	END
	"${CC:-cc}" -O0 -o "$BATS_TEST_TMPDIR/leaks" "$BATS_TEST_TMPDIR/leaks.c"
	"$BATS_TEST_TMPDIR/leaks" 3>&- &
	# a busy machine lets it do nothing for a while, and it has to grow all the time
	for seconds in 4 16 60; do
		run --separate-stderr "$INFER" check --pid $! --duration ${seconds}s
		[ "$status" -ne 6 ] || break
	done
	kill $!
	[ "$status" -eq 6 ]
	[[ $stderr == *"error[E-LEAK]"*"keeps growing"* ]]
}

@test "--pid requires an existing process" {
	# one more than the largest that a kernel gives
	run --separate-stderr "$INFER" check --pid 4194304
	[ "$status" -eq 1 ]
	[[ $stderr == *"there is no process 4194304"* ]]
}

@test "--pid identifies an ended process, a kernel process and a thread" {
	command -v python3 >/dev/null || skip "no python3"
	python3 - "$INFER" <<-'END'
		import os, subprocess, sys, threading
		def look(pid):
		    r = subprocess.run([sys.argv[1], "check", "--pid", str(pid), "--duration", "300ms"], capture_output=True, text=True)
		    return r.returncode, r.stdout + r.stderr
		ended = subprocess.Popen(["true"])
		os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
		code, text = look(ended.pid)
		assert code == 1 and "has ended; its parent has not asked how" in text, text
		over = threading.Event()
		thread = threading.Thread(target=over.wait)
		thread.start()
		code, text = look(thread.native_id)
		over.set()
		assert code == 0 and f"process {os.getpid()}: " in text, text
		assert f"{thread.native_id} is a thread of process {os.getpid()}" in text, text
	END
}

@test "A missing suppressions file is an error" {
	run --separate-stderr "$INFER" check --suppressions /no/such/file -- true
	[ "$status" -eq 2 ]
	[[ $stderr == *"/no/such/file"* ]]
}

# ---- on a driver without a device (test/watch/fake), which reports its calls to CUPTI's listeners

setup_file() {
	. "$BATS_TEST_DIRNAME/../watch/fake/use.bash"
	fake_build "$BATS_FILE_TMPDIR"
}

@test "Each fault is reported" {
	needs_fake
	watched 7 "error[E-CTX-FOREIGN]: a function of context A was launched on a stream of context B" -- ./faults foreign k
	# the program's own functions, which it does not export
	[[ $stderr == *" by faults("*"+0x"* && $stderr != *"faults(+0x"* ]]
	watched 7 "error[E-CTX-FOREIGN]: an event of context A" -- ./faults event k
	watched 7 "error[E-CTX-DESTROYED]: an event of a destroyed context" -- ./faults destroyed k
	watched 7 "error[E-CTX-DESTROYED]" -- ./faults reset k
	watched 7 "error[E-CTX-DESTROYED]: an allocation of a destroyed context" -- ./faults lost k
	watched 7 "error[E-CTX-DESTROYED]: a module of a destroyed context" -- ./faults module k
	watched 7 "error[E-CTX-DESTROYED]: a stream of a destroyed context" -- ./faults stream k
	watched 0 "warning[W-LEAK]: 300 blocks of 1.0 MiB of device memory" -- ./faults grows k
	watched 0 "was forked from" -- ./faults forked k
	watched 8 "error[E-CUDA-700]: cuCtxSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS (700), which an earlier launch raised" -- ./faults illegal k
	watched 8 "cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS (700), raised by this very call" --sync launch -- ./faults illegal k
	[[ $stderr == *"cuLaunchKernel('fill') = CUDA_ERROR_ILLEGAL_ADDRESS (700) at "*" by faults("* && $stderr != *"launched last"* ]]
	watched 8 "error[E-CUDA-1]" -- ./faults badvalue k
	watched 7 "open capture" -- ./faults capture k
	watched 1 "+ 4096 of 1.0 MiB, allocated by faults" -- ./faults devptr k
}

@test "For each failed call, the memory that it did not write is listed" {
	needs_fake
	watched 8 "(1.0 MiB) was not written" -- ./faults unwritten k
	[[ $stderr == *"(2.0 MiB) was not written"* ]]
}

@test "Copies past the end of host memory are reported before they run" {
	needs_fake
	watched 1 "4096 of its 16384 bytes can be reached" -- ./faults shorthost k
	watched 1 "(row 2 of plane 0)" -- ./faults pitch k
	watched 1 "2560 of its 3200 bytes are in a block of malloc's of 2560 bytes" -- ./faults volume k
	watched 1 "4000 of its 5000 bytes are in a block of malloc's of 4000 bytes" -- ./faults heap k
	watched 1 "8192 of its 12000 bytes are in a pinned allocation of 8192 bytes" -- ./faults pinned k
	watched 1 "2048 of its 3000 bytes" -- ./faults batch k
	watched 0 "" --heap off -- ./faults heap k
	[[ $stderr != *E-COPY-HOST* ]]
}

@test "A library that works on after another one reset its device is named, with the memory that it lost" {
	needs_fake
	watched 7 "error[E-CTX-DESTROYED]: libsecond.so works on after libfirst.so destroyed the context with its memory" -- ./late orphan k
	[[ $stderr == *"1 allocation, 1.0 MiB, made by libsecond.so(second_keeps+"* ]]
	[[ $stderr == *"cuMemset"*" by libsecond.so(second_goes_on+"* ]]
	watched 0 "" -- ./late orphan-ok k
	[[ $stderr != *"error["* ]]
}

@test "An error that a later call returned is reported with both calls" {
	needs_fake
	watched 8 "error[E-CUDA-LATE]" -- ./late late k
	[[ $stderr == *"cudaSetDevice = cudaErrorInvalidDevice (101) by libfirst.so(first_fails+"* ]]
	[[ $stderr == *"cudaGetLastError at "*" by libsecond.so(second_works+"* ]]
	watched 8 "after 1 launches that went well" -- ./late same k
	# a launch as <<<>>> makes it, whose error the driver and the runtime number otherwise
	watched 8 "error[E-CUDA-LATE]: an unchecked error, cudaErrorInvalidConfiguration (9), was reported" -- ./late wide k
	[[ $stderr == *"failed    cuLaunchKernel('fill') = CUDA_ERROR_INVALID_VALUE (1) by libfirst.so(first_launches_wide+"* ]]
	[[ $stderr == *"was not written by it"* ]]
	watched 8 "a kernel of libfirst.so(first_launches+" -- ./late sticky k
	[[ $stderr == *"cuCtxSynchronize = CUDA_ERROR_ILLEGAL_ADDRESS (700) at "*" by libsecond.so(second_waits+"* ]]
}

@test "Correct programs cause no findings" {
	needs_fake
	for twin in foreign event destroyed reset lost module stream grows forked illegal badvalue unwritten shorthost pitch volume heap pinned batch devptr \
		capture many child; do
		watched 0 "" -- ./faults $twin-ok k
		[[ $stderr != *"error["* && $stderr != *"did not end in order"* ]] || { echo "$twin: $stderr"; return 1; }
	done
	for twin in late wide sticky; do
		watched 0 "" -- ./late $twin-ok k
		[[ $stderr != *"error["* ]] || { echo "$twin: $stderr"; return 1; }
	done
}

@test "Two contexts on one device are a note with the memory of each" {
	needs_fake
	watched 7 "making it took 400.0 MiB of device memory" -v -- ./faults foreign k
	[[ $stderr == *" by faults(own_context+"*") (thread "*"); making it took "* ]]
	[[ $stderr == *"note[N-CTX-STATE]: contexts of process"* ]]
}

@test "--contexts and --leak limit the findings" {
	needs_fake
	watched 0 "" --report-api-errors no -- ./faults badvalue k
	watched 0 "" --contexts -- ./faults badvalue k
	watched 7 "E-CTX-FOREIGN" --contexts -- ./faults foreign k
	watched 42 "E-CTX-FOREIGN" --error-exitcode 42 -- ./faults foreign k
	echo 'E-CTX-FOREIGN *cuLaunchKernel*' >"$BATS_TEST_TMPDIR/known"
	watched 0 "1 finding suppressed" --suppressions "$BATS_TEST_TMPDIR/known" -- ./faults foreign k
}

@test "Written suppressions match the same findings in the next run" {
	needs_fake
	local known=$BATS_TEST_TMPDIR/known
	for program in "faults foreign" "faults destroyed" "faults heap" "faults devptr" "faults capture" "late late"; do
		# shellcheck disable=SC2086 # a program and its argument
		run --separate-stderr "$INFER" check --write-suppressions "$known" -- ./$program k
		[ "$status" -ne 0 ]
		grep '^E-[A-Z0-9-]* .*\*' "$known"
		# shellcheck disable=SC2086
		watched 0 " suppressed" --suppressions "$known" -- ./$program k || [ "$status" -gt 128 ]
		[[ $stderr != *"error["* && $stderr != *"matched no finding"* ]]
	done
	watched 7 "E-CTX-FOREIGN" --suppressions "$known" -- ./faults foreign k
	watched 0 "" --write-suppressions "$known" -- ./faults foreign-ok k
	[ ! -s "$known" ]
	run --separate-stderr "$INFER" check --write-suppressions "$known" model.onnx
	[ "$status" -eq 2 ]
}

@test "Programs started with exec are watched, and the program's exit status is passed on" {
	needs_fake
	watched 7 "E-CTX-FOREIGN" -- sh -c './faults foreign k; exit 3'
	watched 3 "" -- sh -c './faults foreign-ok k; exit 3'
	watched 3 "no CUDA call of sh was seen" -- sh -c 'exit 3'
	watched 0 "clears its environment" -- env -i LD_LIBRARY_PATH="$CALLS" ./faults foreign-ok k
	watched 137 "" -- sh -c 'kill -KILL $$'
	run -127 --separate-stderr "$INFER" check -- ./no-such-program
	[[ $stderr == *E-WATCH-EXEC* ]]
	touch "$BATS_TEST_TMPDIR/plain"
	watched 126 "E-WATCH-EXEC" -- "$BATS_TEST_TMPDIR/plain"
	run bash -c 'echo in | "$0" check -q -- cat' "$INFER"
	[ "$output" = in ]
	# what is set for infer's own use of the driver is not the program's
	run env -u CUDA_MODULE_LOADING "$INFER" check -q -- sh -c 'echo "<$CUDA_MODULE_LOADING>"'
	[ "$output" = "<>" ]
	run env CUDA_MODULE_LOADING=EAGER "$INFER" check -q -- sh -c 'echo "<$CUDA_MODULE_LOADING>"'
	[ "$output" = "<EAGER>" ]
}

@test "Every signal sent to infer reaches the program, and infer stops and continues with it" {
	needs_fake
	command -v python3 >/dev/null || skip "no python3"
	timeout 900 python3 - "$INFER" <<-'END'
		import os, signal, subprocess, sys, time
		def until(what, *args):
		    for _ in range(20000):
		        if what(*args):
		            return
		        time.sleep(0.02)
		    sys.exit(f"never: {what.__name__} {args}")
		def stopped(pid):
		    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T"
		def goes_on(pid):
		    return not stopped(pid)
		# a session of our own, in which a group may be stopped
		if os.fork():
		    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
		os.setsid()
		program = 'trap "echo real" RTMIN+3; trap "echo more" IO; echo $$; while :; do sleep 0.05; done'
		p = subprocess.Popen([sys.argv[1], "check", "-q", "--", "bash", "-c", program], stdout=subprocess.PIPE, text=True,
		                     preexec_fn=lambda: os.setpgid(0, 0))
		child = int(p.stdout.readline())
		for name, number in ("real", signal.SIGRTMIN + 3), ("more", signal.SIGIO):
		    p.send_signal(number)
		    assert p.stdout.readline() == name + "\n"
		p.send_signal(signal.SIGTSTP)
		assert os.WIFSTOPPED(os.waitpid(p.pid, os.WUNTRACED)[1])
		until(stopped, child)
		p.send_signal(signal.SIGCONT)
		until(goes_on, p.pid)
		until(goes_on, child)
		p.send_signal(signal.SIGTERM)
		assert p.wait() == 128 + signal.SIGTERM, p.returncode
	END
}

@test "Signals reach the program; USR1 and --interval print reports" {
	needs_fake
	local out=$BATS_TEST_TMPDIR/out err=$BATS_TEST_TMPDIR/err
	for name in TERM USR2; do
		for interval in 0 50ms; do
			: >"$out" >"$err"
			"$INFER" check --interval $interval -- ./faults waits k >"$out" 2>"$err" 3>&- &
			pid=$!
			until_there 1 waiting "$out"
			if [ $interval = 0 ]; then
				kill -USR1 $pid
				until_there 1 '^infer: after' "$err"
			else
				until_there 2 '^infer: after' "$err"
			fi
			kill -$name $pid
			rc=0
			wait $pid || rc=$?
			[ $rc -eq "$(kill -l $name)" ]
			grep -q "signal $rc" "$out"
		done
	done
}

@test "Without CUPTI, the program is not started, and the reason is given" {
	needs_fake
	INFER_WITHOUT=cupti watched 8 "error[E-LIBRARY]" -- touch "$BATS_TEST_TMPDIR/started"
	[[ $stderr == *CUPTI* && ! -e $BATS_TEST_TMPDIR/started ]]
}

@test "An earlier client of CUPTI is named, and a later one is let in" {
	needs_fake
	FAKE_CUPTI_TAKEN=1 watched 8 "error[E-WATCH-BUSY]" -- ./faults foreign-ok k
	[[ $stderr == *"in use by another tool"* ]]
	watched 0 "warning[W-WATCH-BUSY]: CUPTI was given to late" -- ./late profiler k
	[ "$output" = "heard: yes" ]
}

@test "With endless events, the memory stays bounded and events of findings are kept" {
	needs_fake
	# what the driver here remembers of contexts is never given back
	echo E-LEAK >"$BATS_TEST_TMPDIR/known"
	watched 8 "error[E-CUDA-1]" --suppressions "$BATS_TEST_TMPDIR/known" -- ./faults flood k
	[[ $stderr == *"events did not fit into the buffer"* && $stderr != *"live on one device"* ]]
	watched 0 "events did not fit into the buffer" --suppressions "$BATS_TEST_TMPDIR/known" -- ./faults flood-ok k
	command -v python3 >/dev/null || skip "no python3"
	# memory.py looks now and then: the program lives until it was seen
	for count in 200000 1000000 5000000; do
		COUNT=$count run --separate-stderr python3 "$BATS_TEST_DIRNAME/../watch/memory.py" "$INFER" check -- ./faults many-ok k
		echo "$output"
		[[ ! $output =~ faults:\ at\ most\ ([0-9]+) ]] || break
	done
	[[ $output =~ faults:\ at\ most\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -lt 100 ]
}

@test "The --json document has the processes and findings" {
	needs_fake
	run --separate-stderr "$INFER" check --json -- ./faults heap k
	[ "$status" -eq 1 ]
	[[ $output == *'"processes"'*'"copies": 2'*'"id": "E-COPY-HOST"'* ]]
	command -v python3 >/dev/null || skip "no python3"
	run --separate-stderr "$INFER" check --json -- ./faults foreign k
	python3 - "$output" <<-'END'
		import json, sys
		d = json.loads(sys.argv[1])
		(p,) = d["processes"]
		made, own = p["context_list"]
		assert p["contexts"] == 2 and made["primary"] and not own["primary"]
		assert made["by"].startswith("faults(main+") and own["by"].startswith("faults(own_context+")
		assert own["gone_by"].startswith("faults(foreign+") and own["gone_seconds"] >= own["seconds"]
		assert made["thread"] == p["pid"] and made["cost_bytes"] == 400 << 20
		assert [u["call"] for u in own["uses"]] == ["cuCtxDestroy_v2"]
		assert made["uses"][0]["call"] == "cuCtxSetCurrent" and made["uses"][0]["thread"] == p["pid"]
	END
}
