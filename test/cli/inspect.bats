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

@test "--passes lists the passes in their order, with what each did" {
	run -0 --separate-stderr "$INFER" inspect work.onnx --passes
	[[ $output == "passes      "*" nodes before the first"* ]]
	[[ $output == *"import "*"fold "*"simplify "*"fuse "*"dce "*"pointwise "* ]]
	[[ $output != *"not at this level"* ]]
	run -0 --separate-stderr "$INFER" inspect work.onnx --passes --optimize none
	[[ $output == *"fuse "*"not at this level of --optimize"* ]]
}

@test "--explain names the rewrites that were made, and why others were not" {
	run -0 --separate-stderr "$INFER" inspect work.onnx --explain
	[[ $output == *"rewrites    "*" made"* && $output == *"refused     "* ]]
	[[ $output == *"these lay over no part of the graph"* ]]
	run -0 --separate-stderr "$INFER" inspect work.onnx --explain --optimize none
	[[ $output == *"none are tried at this level"* ]]
}

@test "--explain: each rewrite has its node, each refusal its reason; the nodes left are the optimized graph's" {
	command -v python3 >/dev/null || skip "no python3"
	"$INFER" inspect work.onnx --passes --explain --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
made = [r for r in d["rewrites"] if r["made"]]
assert made and all(r["rule"] and r["node"] for r in d["rewrites"])
assert all(r["why"] for r in d["rewrites"] if not r["made"])
names = [p["name"] for p in d["passes"]]
assert names[0] == "import" and names[-1] == "infer" and len(names) == 18, names
assert all(p["ran"] for p in d["passes"])
fuse = [p for p in d["passes"] if p["name"] == "fuse"][0]
assert fuse["changes"] > 0, d["passes"]
assert len(d["nodes"]) <= d["passes"][-1]["nodes"]'
	"$INFER" inspect work.onnx --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert "passes" not in d and "rewrites" not in d'
}
