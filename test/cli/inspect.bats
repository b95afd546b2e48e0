#!/usr/bin/env bats
# infer inspect: models and tensor files, as text and as JSON.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
}

@test "inputs, outputs, opsets, operators and parameters are shown" {
	run -0 --separate-stderr "$INFER" inspect batch.onnx
	[[ $output == *"inputs      "* ]]
	[[ $output == *"outputs     "* ]]
	[[ $output == *"opsets      ai.onnx "* ]]
	[[ $output == *"parameters  "* ]]
	[[ $output == *"all supported"* ]]
	[ -z "$stderr" ]
}

@test "--dim binds a free dimension, and what follows from it" {
	run -0 "$INFER" inspect batch.onnx
	[[ $output == *"[batch,"* ]]
	run -0 "$INFER" inspect batch.onnx --dim batch=5
	[[ $output != *"[batch,"* ]]
	[[ $output == *"[5,"* ]]
}

@test "an unknown dimension is an error that names the nearest" {
	run -4 "$INFER" inspect batch.onnx --dim bach=5
	[[ $output == *"E-DIM"* ]]
	[[ $output == *"batch"* ]]
}

@test "--nodes shows each node with the shapes of its inputs and outputs" {
	run -0 "$INFER" inspect ctc.onnx --nodes
	[[ $output == *"nodes"* ]]
	[[ $output == *"in   "* ]]
	[[ $output == *"out  "* ]]
}

@test "--memory plans and --cost counts" {
	run -0 "$INFER" inspect batch.onnx --memory --cost --dim batch=2
	[[ $output == *"planned peak"* ]]
	[[ $output == *"FLOPs"* ]]
}

@test "each stage of the pipeline can be seen" {
	for stage in file graph opt; do
		run -0 --separate-stderr "$INFER" inspect batch.onnx --stage $stage
		[[ $output == "graph "* ]]
		[[ $output == *"return "* ]]
	done
	run -0 --separate-stderr "$INFER" inspect batch.onnx --stage plan
}

@test "--dot is a digraph" {
	run -0 --separate-stderr "$INFER" inspect batch.onnx --dot
	[[ $output == "digraph model {"* ]]
	[[ $output == *"}" ]]
}

@test "--json is one document" {
	run -0 --separate-stderr "$INFER" inspect batch.onnx --json --weights --memory
	[[ $output == "{"* ]]
	[[ $output == *'"schema": "infer/1"'* ]]
	[[ $output == *'"command": "inspect"'* ]]
	[[ $output == *'"operators": ['* ]]
	[[ $output == *'"memory": {'* ]]
	if command -v python3 >/dev/null; then
		printf '%s' "$output" | python3 -c 'import json, sys; json.load(sys.stdin)'
	fi
}

@test "--ops needs no model and lists versions, types and devices" {
	run -0 --separate-stderr "$INFER" inspect --ops
	[[ $output == *"Softmax"* ]]
	[[ $output == *"com.microsoft::Gelu"* ]]
	[[ $output != *"infer::"* ]]
}

@test "a tensor file: type, shape, statistics" {
	run -0 --separate-stderr "$INFER" inspect chw.npy
	[[ $output == *"chw.npy  f32 ["* ]]
	[[ $output == *"mean "* ]]
	[[ $output == *"likely layout CHW"* ]]
	run -0 --separate-stderr "$INFER" inspect ab.npz --json
	[[ $output == *'"tensors": ['* ]]
}

@test "a tensor file is read once, so that a pipe will do" {
	mkfifo "$BATS_TEST_TMPDIR/p.npy"
	cat chw.npy >"$BATS_TEST_TMPDIR/p.npy" &
	run -0 --separate-stderr timeout 10 "$INFER" inspect --json "$BATS_TEST_TMPDIR/p.npy"
	[[ $output == *'"name": "p.npy"'*'"likely_layout": "CHW"'* ]]
}

@test "a tensor file that is cut short or of another byte order says so" {
	run -4 "$INFER" inspect cut.npy
	[[ $output == *"cut short"* ]]
	run -4 "$INFER" inspect big.npy
	[[ $output == *"little-endian"* ]]
}

@test "no model, no such file, not a model" {
	run -2 "$INFER" inspect
	run -3 "$INFER" inspect nowhere.onnx
	[[ $output == *"E-MODEL-OPEN"* ]]
	run -3 "$INFER" inspect a.txt
}

@test "--html writes a page that needs no network" {
	run -0 --separate-stderr "$INFER" inspect two.onnx --html "$BATS_TEST_TMPDIR/m.html"
	[[ $output == *"inputs      "* ]]
	grep -q '</html>' "$BATS_TEST_TMPDIR/m.html"
	grep -q '>Sub<' "$BATS_TEST_TMPDIR/m.html"
	! grep -qE 'https?://|src=|@import|url\(' "$BATS_TEST_TMPDIR/m.html"
	run -4 "$INFER" inspect two.onnx --html /nowhere/m.html
}
