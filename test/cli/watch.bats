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
