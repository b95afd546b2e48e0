#!/usr/bin/env bats
# What is wrong on the command line is said, with the nearest that would be right; exit status 2.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	unset "${!INFER_@}" 2>/dev/null || true
}

# `unset` above takes INFER_* only.
wrong() { # EXPECTED COMMAND...
	local expected=$1
	shift
	run "$INFER" "$@"
	echo "$output"
	[ "$status" -eq 2 ]
	[[ $output == *"$expected"* ]]
}

teardown() {
	rm -rf "$T"
}

@test "For an unknown subcommand, the error suggests the nearest one" {
	wrong "did you mean 'inspect'?" inpsect m.onnx
	wrong "did you mean '--version'?" version
	wrong "did you mean '--version'?" --verison
	wrong "unknown subcommand 'elephant'" elephant
}

@test "For an unknown option, the error suggests the nearest one" {
	wrong "did you mean '--device'?" run m.onnx --devise cpu
	wrong "did you mean '--save-format'?" run m.onnx --save-fromat=npy
	wrong "unknown option '-z'" run m.onnx -z
}

@test "For an option of another subcommand, the error names that subcommand" {
	wrong "it belongs to infer inspect" run m.onnx --nodes
	wrong "it belongs to infer run" inspect m.onnx --top 5
}

@test "For an unknown value, the error suggests the nearest one" {
	wrong "did you mean 'basic'?" run m.onnx --optimize=basci
	wrong "expected one of none, basic, full, got 'x'" run m.onnx --optimize x
	wrong "expected an integer from 0 to 1024, got '-1'" run m.onnx --threads -1
	wrong "expected a size such as 512MiB, got '12Q'" run m.onnx --memory-limit 12Q
	wrong "did you mean 'bash'?" completion bsh
}

@test "A missing value and a missing or extra operand are errors" {
	wrong "--device: the value is missing" run m.onnx --device
	wrong "--shape: the value is missing: NAME=1x3x224x224" run m.onnx --shape --dim n=2
	wrong "needs an operand" run
	wrong "unexpected operand 'n.onnx'" run m.onnx n.onnx
}

@test "An ambiguous abbreviation is an error" {
	wrong "it matches --memory-plan and --memory-limit" run m.onnx --memory-=1
}

@test "Options before the subcommand are an error" {
	wrong "comes before the subcommand" --json run m.onnx
}

@test "Messages go to stderr, or with --json into one document on stdout" {
	"$INFER" run m.onnx --devise >"$T/out" 2>"$T/err" || true
	[ ! -s "$T/out" ]
	grep -q '^error\[E-OPTION\]' "$T/err"
	"$INFER" run m.onnx --json --devise >"$T/out" 2>"$T/err" || status=$?
	[ "$status" -eq 2 ]
	[ ! -s "$T/err" ]
	grep -q '"schema": "infer/1"' "$T/out"
	grep -q '"exit_code": 2' "$T/out"
	grep -q '"id": "E-OPTION"' "$T/out"
	! command -v python3 >/dev/null || python3 -m json.tool "$T/out" >/dev/null
}

@test "Color is used only on request or on a terminal" {
	"$INFER" run 2>"$T/err" || true
	! grep -q $'\033' "$T/err"
	INFER_COLOR=always "$INFER" run --bogus 2>"$T/err" || true
	INFER_COLOR=always "$INFER" run a b 2>"$T/err" || true
	grep -q $'\033' "$T/err"
	"$INFER" run a b --color always 2>"$T/err" || true
	grep -q $'\033' "$T/err"
	INFER_COLOR=always "$INFER" run a b --color=never 2>"$T/err" || true
	! grep -q $'\033' "$T/err"
}

@test "--timeout ends the program with status 124, even while it reads standard input" {
	mkfifo "$T/pipe"
	sleep 1000 3>&- >"$T/pipe" &
	writer=$!
	run "$INFER" inspect "$T/pipe" --timeout 200ms
	kill "$writer"
	echo "$output"
	[ "$status" -eq 124 ]
	[[ $output == *"error[E-TIMEOUT]: not done within the 0.2 s"* ]]
}

# Opening a pipe to write waits for the reader: then the program has begun to read, which never ends.
interrupt_reader() { # OPTION...
	mkfifo "$T/pipe"
	# a job in the background would ignore interrupts, and so would what it starts
	env --default-signal=INT "$INFER" inspect "$T/pipe" "$@" >"$T/out" 2>"$T/err" 3>&- &
	reader=$!
	exec 8>"$T/pipe"
	kill -INT "$reader"
	status=0
	wait "$reader" || status=$?
	exec 8>&-
	rm "$T/pipe"
	cat "$T/out" "$T/err"
	[ "$status" -eq 130 ]
}

@test "An interrupt ends the program with status 130" {
	interrupt_reader
	grep -q '^error\[E-INTERRUPTED\]' "$T/err"
	interrupt_reader --json
	grep -qF '"exit_code": 130' "$T/out"
}
