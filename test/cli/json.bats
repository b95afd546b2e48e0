#!/usr/bin/env bats
# --json: whatever happens, standard output is one document, which knows the exit status.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
}

# document STATUS OPTION...: the command ends with it, and so says the one document
document() {
	local want=$1
	shift
	run --separate-stderr "$INFER" "$@"
	[ "$status" -eq "$want" ] || { echo "$*: exit $status, want $want"; return 1; }
	[ "$(grep -c '^{$' <<<"$output")" -eq 1 ] && [ "$(grep -c '^}$' <<<"$output")" -eq 1 ] &&
		[ "$(grep -c '^  "schema": "infer/1",$' <<<"$output")" -eq 1 ] &&
		[ "$(grep -c "^  \"exit_code\": $want,\$" <<<"$output")" -eq 1 ] &&
		[ "$(grep -c '^  "findings": \[' <<<"$output")" -eq 1 ] || { echo "$*: $output"; return 1; }
}

@test "Every command prints a valid document on success" {
	document 0 run --json pic.onnx --random 0..1
	document 0 inspect --json pic.onnx
	document 0 inspect --json pic.onnx --nodes --weights --cost --memory
	document 0 inspect --json --ops
	document 0 inspect --json nan.npy
	document 0 check --json pic.onnx
	document 0 profile --json pic.onnx --random 0..1 -n 2
	document 0 doctor --json
	document 0 cache --json ls --cache "$BATS_TEST_TMPDIR"
	document 0 completion --json bash
}

@test "run lists fallback kernels, of which the CPU has none" {
	run --separate-stderr "$INFER" run --json pic.onnx --random 0..1 --device cpu
	[ "$status" -eq 0 ]
	grep -q '"fallbacks": \[\]' <<<"$output"
}

@test "Every command prints a valid document on failure" {
	document 3 run --json nofile.onnx
	document 2 run --json
	document 4 run --json pic.onnx
	document 2 run --json pic.onnx --nope
	document 3 inspect --json nofile.onnx
	document 4 inspect --json cut.npy
	document 3 check --json nofile.onnx
	document 3 profile --json nofile.onnx
	document 2 cache --json nope
	document 2 completion --json nope
	document 4 check --json nan.onnx --input nan.npy
}
