#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer check -- COMMAND: what libraries do together, and programs that behave oddly, on a driver without a device.

setup_file() {
	. "$BATS_TEST_DIRNAME/../watch/fake/use.bash"
	fake_build "$BATS_FILE_TMPDIR"
}

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	bats_require_minimum_version 1.5.0
	. "$BATS_TEST_DIRNAME/../watch/fake/use.bash"
	needs_fake
}

@test "Correct combinations of libraries cause no findings" {
	for mix in retain release-ok streams graph-ok recycled-ok pools segments-ok arrays-ok managed shared peer registered swapped-ok \
		often-ok tears handler-ok hostpool-ok peers-ok orphan-ok renamed-ok; do
		watched 0 "" -- ./mixes $mix k
		[[ $stderr != *"error["* && $stderr != *"warning["* && $stderr != *"not end in order"* ]] || {
			echo "$mix: $stderr"
			return 1
		}
	done
}

@test "Uses of a released context, and of a graph of another context, are found" {
	watched 7 "error[E-CTX-DESTROYED]: an event of a destroyed context" -- ./mixes release k
	[[ $stderr == *"destroyed at "*" by mixes(release+"* ]]
	watched 7 "error[E-CTX-DESTROYED]: a function of a destroyed context" -- ./mixes recycled k
	watched 7 "error[E-CTX-FOREIGN]: a graph of context A was launched on a stream of context B" -- ./mixes graph k
	[[ $stderr == *"CUDA_ERROR_INVALID_HANDLE (400) at "*"first of 20"* ]]
}

@test "Objects of a destroyed context are found in any call, also with --contexts" {
	watched 7 "error[E-CTX-DESTROYED]: a stream of a destroyed context" -- ./mixes orphan k
	[[ $stderr == *"call     cuMemsetD8Async at "*" by mixes(orphan+"* ]]
	watched 7 "error[E-CTX-DESTROYED]: a stream" --contexts -- ./mixes orphan k
	for how in destroyed reset; do
		watched 7 "error[E-CTX-DESTROYED]: an event" --contexts -- ./faults $how k
		watched 0 "" --contexts -- ./faults $how-ok k
		[[ $stderr != *"error["* ]]
	done
}

@test "Every relevant driver call is watched, or listed as an exception" {
	command -v python3 >/dev/null || skip "no python3"
	local headers=${CUDA:-/usr/local/cuda}/include list=$BATS_TEST_DIRNAME/../watch/calls.txt
	grep -q "define $(grep -o 'CUDA_VERSION [0-9]*' "$list")" "$headers/cuda.h" || skip "calls.txt is of another CUDA"
	python3 "$BATS_TEST_DIRNAME/../watch/calls.py" "$headers"
}

@test "A kernel at the address of an unloaded one is reported under its own name" {
	watched 8 "launched last  'scale' on the default stream" -- ./mixes renamed k
	[[ $stderr != *"'fill'"* ]]
}

@test "Virtual memory counts while it is mapped, and arrays until they are destroyed" {
	watched 8 "device 16.0 MiB (peak 16.0 MiB)" -- ./mixes segments k
	[[ $stderr == *"byte 4096 of the 2.0 MiB at "*"was not written"* ]]
	watched 0 "device 0 bytes (peak 16.0 MiB)" -- ./mixes segments-ok k
	watched 0 "device 16.0 MiB (peak 16.0 MiB)" -- ./mixes arrays k
	watched 0 "device 0 bytes (peak 16.0 MiB)" -- ./mixes pools k
	watched 0 "device 0 bytes (peak 0 bytes), pinned 1.0 MiB" -- ./mixes hostpool k
	watched 0 "device 0 bytes (peak 0 bytes), pinned 0 bytes" -- ./mixes hostpool-ok k
}

@test "A device address in place of a host address is found, and reported once for a thousand copies" {
	watched 1 "at an address of the device" -- ./mixes swapped k
	[[ $stderr == *" + 1024 of 4.0 KiB, allocated by mixes(swapped+"* ]]
	watched 1 "3000 of its 3072 bytes are in a block of malloc's of 3000 bytes" -- ./mixes peers k
	watched 1 "first of 1000" -- ./mixes often k
	[ "$(grep -c 'E-COPY-HOST' <<<"$stderr")" -eq 1 ]
}

@test "A program that closes all file descriptors keeps working and stays watched" {
	watched 8 "error[E-CUDA-1]" -- ./mixes closes "$BATS_TEST_TMPDIR/own"
	[ "$(cat "$BATS_TEST_TMPDIR/own")" = own ]
	watched 0 "" -- ./mixes closes-ok "$BATS_TEST_TMPDIR/own"
}

@test "Programs before and after exec are reported separately" {
	watched 0 "it replaced itself by another program" -- ./mixes again-ok k
	[ "$(grep -c '^process' <<<"$stderr")" -eq 2 ]
	[[ $stderr != *"N-CTX-STATE"* && $stderr == *"replaced itself"*"device 1.0 MiB"*"device 4.0 KiB"* ]]
	run --separate-stderr "$INFER" check --json -- ./mixes again k
	[ "$status" -eq 1 ]
	python3 - "$output" <<-'END'
		import json, sys
		d = json.loads(sys.argv[1])
		one, two = d["processes"]
		assert one["pid"] == two["pid"] and not one["ended"] and two["ended"]
		assert one["memory"]["device"]["bytes"] == 1 << 20 and two["copies"] == 1000
		assert "host_private" in two["memory"] and [f["id"] for f in d["findings"]] == ["E-COPY-HOST"]
	END
}

@test "CUDA in a forked child is reported; no child hangs, and one that only cleans up causes no finding" {
	watched 0 "was forked from" -- ./mixes forks k
	[[ $stderr == *"warning[W-CUDA-3]"*"cuMemAlloc_v2 = CUDA_ERROR_NOT_INITIALIZED (3)"*spawn* ]]
	watched 0 "" -- ./mixes forks-ok k
	[[ $stderr != *"warning["* ]]
	watched 0 "first of 40" -- timeout 300 ./mixes crowd k
	watched 0 "" --report-api-errors no -- ./mixes forks k
	[[ $stderr != *"warning["* ]]
}

@test "An end by _exit() counts as a normal end" {
	watched 7 "1 context" -- ./mixes leaves k
	[[ $stderr != *"in order"* && $stderr != *"error["* ]]
	command -v python3 >/dev/null || skip "no python3"
	cat >"$BATS_TEST_TMPDIR/leaves.py" <<-'END'
		import ctypes, os
		cuda = ctypes.CDLL("libcuda.so.1")
		cuda.cuInit(0)
		cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0)
		os._exit(9)
	END
	watched 9 "1 context" -- python3 "$BATS_TEST_TMPDIR/leaves.py"
	[[ $stderr != *"in order"* ]]
}

@test "Exit handlers and running threads at the end cause no errors" {
	watched 5 "" -- timeout 300 ./mixes ends k
	[[ $stderr != *"error["* ]]
}

@test "For a memory fault the program's handler decides, and a SIGSEGV from kill() is passed on" {
	watched 1 "allocated by mixes(handler+" -- ./mixes handler k
	watched 42 "" --suppressions <(echo E-HOST-DEVPTR) -- ./mixes handler k
	watched 139 "" -- ./mixes killed k
	[[ $stderr != *"DEVPTR"* ]]
}

@test "Ctrl-C reaches the program, and the results so far are reported" {
	run --separate-stderr python3 - "$INFER" <<-'END'
		import os, signal, subprocess, sys
		p = subprocess.Popen(["env", "--default-signal=INT", sys.argv[1], "check", "--", "./faults", "waits", "k"],
		                     stdout=subprocess.PIPE, start_new_session=True)
		p.stdout.readline()
		os.killpg(p.pid, signal.SIGINT)
		sys.exit(p.wait())
	END
	[ "$status" -eq 130 ]
	[[ $stderr == "process "*"; ended by signal 2 (Interrupt)"* ]]
}

@test "A program with its own malloc works, even if it crashes while holding its lock" {
	watched 0 "3 launches" -- timeout 300 ./own streams k
	watched 1 "  at       own(malloc+" -- timeout 300 ./own poisoned k
}

# leaks COMMAND...: COUNT times a little, more often until it is told: on a busy machine one of the two stands still at times
leaks() {
	for COUNT in 400 1600 6400; do
		COUNT=$COUNT run --separate-stderr "$INFER" check -- "$@"
		[ "$status" -ne 6 ] || return 0
	done
	echo "status $status: $stderr"
	return 1
}

@test "A leak is reported with its rate, its time until memory runs out, and its caller" {
	leaks ./faults leak k
	[[ $stderr == *"error[E-LEAK]: device memory of process"* ]]
	[[ $stderr == *"a second (99 % interval"*"exhausted  in "*"are left"*" in $COUNT allocations"* ]]
}

# python STATUS TEXT NAME...: faults.py, by ctypes alone
python() {
	local want=$1 text=$2 name
	shift 2
	for name; do
		watched "$want" "$text" -- python3 "$BATS_TEST_DIRNAME/../watch/faults.py" "$name" k
	done
}

@test "Faults in Python programs are reported" {
	python 7 "error[E-CTX-FOREIGN]" foreign event
	[[ $stderr == *" by libffi.so"*"_ctypes"* ]]
	python 7 "error[E-CTX-DESTROYED]" destroyed reset release
	python 7 "open capture" capture
	python 8 "error[E-CUDA-700]" illegal
	python 8 "error[E-CUDA-1]" badvalue
	python 8 "(2.0 MiB) was not written" unwritten
	python 8 "error[E-CUDA-LATE]" late
	python 1 "4096 of its 16384 bytes can be reached" shorthost
	python 1 "(row 2 of plane 0)" pitch
	python 1 "2560 of its 3200 bytes are in a block of malloc's" volume
	python 1 "4000 of its 5000 bytes are in a block of malloc's" heap
	python 1 "in a pinned allocation of 8192 bytes" pinned
	python 1 "2048 of its 3000 bytes" batch
	python 1 "at an address of the device" swapped
	python 1 "+ 4096 of 1.0 MiB, allocated by libffi" devptr
	leaks python3 "$BATS_TEST_DIRNAME/../watch/faults.py" hostleak k
	[[ $stderr == *"error[E-LEAK]: private memory of the host"* ]]
}

@test "Correct Python programs cause no findings" {
	watched 0 "process" -- sh -c 'for twin; do python3 "$0" $twin-ok k || exit 9; done' \
		"$BATS_TEST_DIRNAME/../watch/faults.py" foreign event destroyed reset release capture illegal badvalue \
		unwritten late shorthost pitch volume heap pinned batch swapped devptr
	[ "$(grep -c '^process' <<<"$stderr")" -eq 18 ]
	[[ $stderr != *"error["* && $stderr != *"warning["* ]] || { echo "$stderr"; return 1; }
}

@test "Eight threads cause no data race" {
	local cc="${CC:-cc} -fsanitize=thread -g -w -I${CUDA:-/usr/local/cuda}/include -I$BATS_TEST_DIRNAME/../.."
	local here=$BATS_TEST_DIRNAME/../watch dir=$BATS_TEST_TMPDIR sources
	mkdir "$dir/calls" "$dir/out"
	$cc -shared -fPIC -o "$dir/calls/libcuda.so.1" "$here/fake/cuda.c" || skip "no ThreadSanitizer"
	ln -s libcuda.so.1 "$dir/calls/libcupti.so.13"
	$cc "$here/mixes.c" -o "$dir/mixes" -L"$dir/calls" -l:libcuda.so.1 -lpthread
	# blocks of malloc's are the sanitizer's here
	echo '_Bool heap_find(const void *p, const char **start, unsigned long *n) { return 0; }' >"$dir/heap.c"
	mapfile -t sources < <(ls "$here"/../../src/watch/inject/*.c | grep -v /heap.c)
	$cc -shared -fPIC -std=gnu17 -D_GNU_SOURCE -fvisibility=hidden -I"$here/../../src" "${sources[@]}" "$dir/heap.c" -o "$dir/inject.so"
	export LD_LIBRARY_PATH=$dir/calls CUDA_INJECTION64_PATH=$dir/inject.so INFER_WATCH_DIR=$dir/out
	run setarch -R "$dir/mixes" threads k
	[[ $output != *"unexpected memory mapping"* && $output != *"personality"* ]] || skip "no room for ThreadSanitizer"
	echo "$output" | head -30
	[ "$status" -eq 0 ]
	[[ $output != *"data race"* ]]
	grep -q "call=cuLaunchKernel" "$dir"/out/*.log
}

# ---- around the program

@test "Folders with spaces, missing folders and an ignored SIGCHLD are handled" {
	mkdir "$BATS_TEST_TMPDIR/a b"
	cp faults "$BATS_TEST_TMPDIR/a b/the faults"
	TMPDIR="$BATS_TEST_TMPDIR/a b" watched 7 "E-CTX-FOREIGN" -- "$BATS_TEST_TMPDIR/a b/the faults" foreign k
	[[ $stderr != *"cannot be preloaded"* ]]
	mkdir "$BATS_TEST_TMPDIR/t"
	cd "$BATS_TEST_TMPDIR"
	TMPDIR=t watched 1 "4000 of its 5000 bytes" -- sh -c "cd / && exec '$CALLS/faults' heap k"
	[ -z "$(ls t)" ]
	TMPDIR=/no/such/folder watched 125 "no temporary folder in /no/such/folder" -- true
	mkdir gone && cd gone && rmdir ../gone
	watched 7 "E-CTX-FOREIGN" -- "$CALLS/faults" foreign k
	cd "$CALLS"
	# who started infer does not want to hear of children: there are some to wait for all the same
	run -3 timeout 300 python3 -c '
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], ["infer", "check", "--", "sh", "-c", "exit 3"])' "$INFER"
}

@test "A shell command line as one word is an error that shows sh -c" {
	run -127 --separate-stderr "$INFER" check -- './faults foreign k | cat'
	[[ $stderr == *"a shell's: -- sh -c"* ]]
}

# in_time COMMAND...: with more and more time (the first argument's @), until it does not fail: how long it takes until there is
# something to tell is the machine's
in_time() {
	local limit
	for limit in ${LIMITS:-1 5 25}; do
		if "${@//@/$limit}" >/dev/null; then return 0; fi
	done
	"${@//@/125}"
}

@test "--timeout ends the program and reports the results so far" {
	gathered() {
		watched 124 "error[E-TIMEOUT]" --timeout "$1" -- sh -c './faults child-ok k; sleep 1000' &&
			[[ $stderr == *"process "*"(faults)"* ]]
	}
	in_time gathered @
	in_time watched 7 "error[E-TIMEOUT]" --timeout @ -- sh -c './faults foreign k; exec sleep 1000'
}

@test "The user's own injected library loads first, and is named if it takes CUPTI" {
	cat >"$BATS_TEST_TMPDIR/tool.c" <<-'END'
		#include <cupti.h>
		#include <unistd.h>
		static void hear(void *u, CUpti_CallbackDomain d, CUpti_CallbackId i, const void *p) {}
		int InitializeInjection(void)
		{
			CUpti_SubscriberHandle s;
			(void)!write(2, "tool is here\n", 13);
			if (TAKES)
				cuptiSubscribe(&s, (CUpti_CallbackFunc)hear, 0);
			return 1;
		}
	END
	for takes in 0 1; do
		"${CC:-cc}" -w -shared -fPIC -DTAKES=$takes -I"${CUDA:-/usr/local/cuda}/include" "$BATS_TEST_TMPDIR/tool.c" \
			-o "$BATS_TEST_TMPDIR/tool$takes.so" -L"$CALLS" -l:libcupti.so.13
	done
	CUDA_INJECTION64_PATH=$BATS_TEST_TMPDIR/tool0.so watched 7 "E-CTX-FOREIGN" -- ./faults foreign k
	[[ $stderr == *"tool is here"* ]]
	CUDA_INJECTION64_PATH=$BATS_TEST_TMPDIR/tool1.so watched 8 "error[E-WATCH-BUSY]" --heap off -- ./faults foreign-ok k
	[[ $stderr == *"tool is here"*"in use by "* ]]
}

@test "A process that outlives the program is reported, and can start others" {
	export TMPDIR=$BATS_TEST_TMPDIR
	watched 0 "still running, and no longer watched" -- sh -c './faults waits k >/dev/null 2>&1 & until grep -q waits /proc/$!/cmdline && ls $INFER_WATCH_DIR/$!.mem; do sleep 0.05; done; sleep 0.3; echo $! >'"$BATS_TEST_TMPDIR/pid"
	[[ $stderr == *"processes that are still running use $TMPDIR/infer-watch-"* ]]
	kill -TERM "$(cat "$BATS_TEST_TMPDIR/pid")"
}

@test "Invalid suppression lines are errors, and unused ones are listed" {
	local known=$BATS_TEST_TMPDIR/known
	printf '# known\n\n  E-CTX-* *cuLaunchKernel*\t\r\nE-LEAK\n' >"$known"
	watched 0 "$known:4: 'E-LEAK' matched no finding" --suppressions "$known" -- ./faults foreign k
	[[ $stderr == *"1 finding suppressed"* && $stderr != *"error["* ]]
	printf 'E-LEAK\nE-CTX-FOREIN *x*\n' >"$known"
	watched 2 "$known:2: no finding has the id 'E-CTX-FOREIN'" --suppressions "$known" -- touch "$BATS_TEST_TMPDIR/started"
	[[ $stderr == *"did you mean E-CTX-FOREIGN?"* && ! -e $BATS_TEST_TMPDIR/started ]]
	printf 'E-CTX-FOREIGN *another library*\n' >"$known"
	watched 7 "matched no finding" --suppressions "$known" -- ./faults foreign k
	run --separate-stderr "$INFER" check --json --suppressions "$known" -- ./faults foreign k
	[[ $output == *'"suppressed": 0'*'"unused_suppressions": ['* ]]
}

@test "-q leaves only errors on stderr" {
	run --separate-stderr "$INFER" check -q -- ./faults foreign k
	[ "$status" -eq 7 ]
	[[ -z $output && $stderr == "error[E-CTX-FOREIGN]"* && $stderr != *"note["* ]]
}

@test "Options for models and for programs cannot be combined" {
	watched 2 "--nan cannot be used with -- COMMAND" --nan -- touch "$BATS_TEST_TMPDIR/started"
	watched 2 "--html cannot be used with --pid" --html x.html --pid $$
	watched 2 "--pid cannot be used with" --pid $$ -- true
	watched 2 "--suppressions cannot be used with a model" model.onnx --suppressions known
	[ ! -e "$BATS_TEST_TMPDIR/started" ]
	# what was not run has no errors for --error-exitcode
	INFER_WITHOUT=cupti watched 8 "E-LIBRARY" --error-exitcode 42 -- true
}

# ---- a process from outside

@test "--pid reports device memory from NVML, intermediate reports, and the verdict at Ctrl-C and --timeout" {
	sleep 1000 3>&- &
	local pid=$!
	export FAKE_DEVICE_GROWS=$pid
	LIMITS='4 16 60' in_time watched 6 "error[E-LEAK]: device memory of process $pid keeps growing" \
		--pid $pid --duration @s --interval 1s
	kill $pid
	[[ $stderr == *"infer: after "*"process $pid: "*" device "*"exhausted"* ]]
	[[ $output == "process $pid: "*"(stable); device "*"(it keeps growing)" ]]
}

# looked_at COMMAND...: looks at $pid until it has told something, then the command; the exit status is in $rc
looked_at() {
	local looks
	: >"$BATS_TEST_TMPDIR/err" # of the one before
	env --default-signal=INT "$INFER" check --pid $pid --interval 50ms "${options[@]}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	looks=$!
	until_there 1 '^infer: after' "$BATS_TEST_TMPDIR/err"
	"${@//@/$looks}"
	rc=0
	wait $looks || rc=$?
}

@test "--pid handles signals, a timeout, a process that ends and one that has ended" {
	sleep 1000 3>&- &
	local pid=$! rc=0 options=()
	gathered() {
		watched 124 "error[E-TIMEOUT]" --pid $pid --timeout "$1" && [[ $output == "process $pid: "*"host private"* ]]
	}
	in_time gathered @
	looked_at kill -INT @
	[ $rc -eq 0 ]
	grep -q "^process $pid: .*device not known" "$BATS_TEST_TMPDIR/out"
	options=(--duration 1000s)
	looked_at kill -INT @
	[ $rc -eq 130 ]
	grep -q "^process $pid: " "$BATS_TEST_TMPDIR/out"
	grep -qF "error[E-INTERRUPTED]" "$BATS_TEST_TMPDIR/err"
	options=()
	looked_at kill -9 $pid
	[ $rc -eq 0 ]
	wait $pid || true
	watched 1 "there is no process $pid" --pid $pid
	watched 2 "" --pid 0
	run --separate-stderr "$INFER" check --pid $$ --duration 0.3s --json
	[[ $output == *'"host_private": {'*'"verdict": "too short a time for a verdict"'* ]]
}
