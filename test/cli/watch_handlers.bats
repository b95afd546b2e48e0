#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer check -- COMMAND: programs with handlers of SIGSEGV of their own behave as without it, and are explained.

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

# the_same NAME: stdout and the status of ./handlers NAME are what they are without infer, its finding left aside
the_same() {
	local rc=0 watched=0
	timeout 300 ./handlers "$1" >"$BATS_TEST_TMPDIR/plain" 2>"$BATS_TEST_TMPDIR/error" || rc=$?
	timeout 300 "$INFER" check --suppressions <(echo E-HOST-DEVPTR) -- ./handlers "$1" >"$BATS_TEST_TMPDIR/watched" \
		2>"$BATS_TEST_TMPDIR/error" || watched=$?
	[ $rc -eq $watched ] && [ $rc -ne 124 ] && [ $rc -lt 90 -o $rc -gt 128 ] &&
		diff "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/watched" || {
		echo "$1: status $rc alone, $watched watched"
		cat "$BATS_TEST_TMPDIR/error"
		return 1
	}
}

# told NAME...: the same as without, and the fault is explained; of its twin nothing is said
told() {
	local name
	for name; do
		the_same "$name"
		the_same "$name-ok"
		watched 1 "error[E-HOST-DEVPTR]" -- ./handlers "$name"
		[[ $stderr == *" = 0x"*" + "*" of 1.0 MiB, allocated by handlers("* ]]
		run --separate-stderr "$INFER" check -- ./handlers "$name-ok"
		[[ $stderr != *"error["* ]] || { echo "$name: $stderr"; return 1; }
	done
}

@test "With a handler that is installed after CUDA started, the fault is reported and the handler runs unchanged" {
	told info plain nodefer removed chain
	watched 1 "  at       handlers(" -- ./handlers info
}

@test "Handlers on alternate stacks work, even on small ones" {
	told stack small early smashed
	the_same tiny
	the_same overflow
	the_same full
}

@test "One-shot handlers (SA_RESETHAND) and permanent ones work" {
	told reset sysv jumps
	watched 1 ", first of 100" -- ./handlers jumps
	the_same repairs-ok
	# of faults on the host's memory the last one, after a thousand that the program lived with
	watched 139 "note[N-HOST-DEVPTR]" -- ./handlers lives-ok
	[ "$(grep -c 'note\[N-HOST-DEVPTR\]' <<<"$stderr")" -eq 1 ]
	[[ $stderr == *"segmentation fault at 0x2a, "*", by handlers(with_lives+"* ]]
	the_same bus
}

@test "sigaction() and its relatives return the same as without infer" {
	told reports
	the_same threads
	the_same kill
}

@test "Children inherit the program's handlers, or what exec leaves of them" {
	told vfork
	the_same ignored
	the_same exec
	the_same fork
}

@test "With --heap off, a handler that is installed later runs first" {
	watched 42 "" --heap off -- ./handlers info
	[[ $stderr != *E-HOST-DEVPTR* ]]
}

@test "Python's faulthandler prints its trace, and the fault is explained" {
	command -v python3 >/dev/null || skip "no python3"
	cat >"$BATS_TEST_TMPDIR/reads.py" <<-'END'
		import ctypes, faulthandler, sys
		cuda = ctypes.CDLL("libcuda.so.1")
		context, p = ctypes.c_void_p(), ctypes.c_uint64()
		cuda.cuInit(0)
		cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
		cuda.cuCtxSetCurrent(context)
		cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
		if sys.argv[1] == "-B":
		    faulthandler.enable()
		print("reads", flush=True)
		ctypes.string_at(p.value + 8, 16)
	END
	for how in "-X faulthandler" -B; do
		# shellcheck disable=SC2086 # options are words
		watched 1 "error[E-HOST-DEVPTR]" -- python3 $how "$BATS_TEST_TMPDIR/reads.py" "${how#-X fault}"
		[[ $stderr == *"Fatal Python error: Segmentation fault"*"reads.py\", line "*"ended by signal 11"* ]]
	done
}
