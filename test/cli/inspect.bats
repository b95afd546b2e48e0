#!/usr/bin/env bats
# infer inspect: models and tensor files, as text and as JSON.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
}

@test "inspect shows inputs, outputs, opsets, operators and parameters" {
	run -0 --separate-stderr "$INFER" inspect batch.onnx
	[[ $output == *"inputs      "* ]]
	[[ $output == *"outputs     "* ]]
	[[ $output == *"opsets      ai.onnx "* ]]
	[[ $output == *"parameters  "* ]]
	[[ $output == *"all supported"* ]]
	[ -z "$stderr" ]
}

@test "--dim sets a free dimension and the shapes that depend on it" {
	run -0 "$INFER" inspect batch.onnx
	[[ $output == *"[batch,"* ]]
	run -0 "$INFER" inspect batch.onnx --dim batch=5
	[[ $output != *"[batch,"* ]]
	[[ $output == *"[5,"* ]]
}

@test "For an unknown dimension, the error suggests the nearest name" {
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

@test "--memory shows the plan, and --cost the operations" {
	run -0 "$INFER" inspect batch.onnx --memory --cost --dim batch=2
	[[ $output == *"planned peak"* ]]
	[[ $output == *"FLOPs"* ]]
}

@test "--stage prints the graph after each stage" {
	for stage in file graph opt; do
		run -0 --separate-stderr "$INFER" inspect batch.onnx --stage $stage
		[[ $output == "graph "* ]]
		[[ $output == *"return "* ]]
	done
	run -0 --separate-stderr "$INFER" inspect batch.onnx --stage plan
}

@test "--dot prints a digraph" {
	run -0 --separate-stderr "$INFER" inspect batch.onnx --dot
	[[ $output == "digraph model {"* ]]
	[[ $output == *"}" ]]
}

@test "--json prints one document" {
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

@test "A model's operators list the same devices as --ops" {
	run -0 --separate-stderr "$INFER" inspect --ops
	cuda=$(grep -c '^MatMul .* cpu, cuda ' <<<"$output") || true
	run -0 --separate-stderr "$INFER" inspect work.onnx
	[[ $output == *"MatMul-13  cpu"* ]]
	if [ "$cuda" -gt 0 ]; then
		[[ $output == *"MatMul-13  cpu, cuda"* ]]
	else
		[[ $output != *"cuda"* ]]
	fi
}

@test "A tensor file is shown with type, shape and statistics" {
	run -0 --separate-stderr "$INFER" inspect chw.npy
	[[ $output == *"chw.npy  f32 ["* ]]
	[[ $output == *"mean "* ]]
	[[ $output == *"likely layout CHW"* ]]
	run -0 --separate-stderr "$INFER" inspect ab.npz --json
	[[ $output == *'"tensors": ['* ]]
}

@test "A tensor file is read only once, so it may be a pipe" {
	mkfifo "$BATS_TEST_TMPDIR/p.npy"
	cat chw.npy >"$BATS_TEST_TMPDIR/p.npy" 3>&- &
	run -0 --separate-stderr timeout 600 "$INFER" inspect --json "$BATS_TEST_TMPDIR/p.npy"
	[[ $output == *'"name": "p.npy"'*'"likely_layout": "CHW"'* ]]
}

@test "A truncated or big-endian tensor file is refused with the reason" {
	run -4 "$INFER" inspect cut.npy
	[[ $output == *"truncated"* ]]
	run -4 "$INFER" inspect big.npy
	[[ $output == *"little-endian"* ]]
}

@test "A missing operand, a missing file and a file that is no model are errors" {
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
	run -10 "$INFER" inspect two.onnx --html /nowhere/m.html
}

@test "--passes lists the passes in order, with their changes" {
	run -0 --separate-stderr "$INFER" inspect work.onnx --passes
	[[ $output == "passes      "*" nodes before the first"* ]]
	[[ $output == *"import "*"fold "*"simplify "*"fuse "*"dce "*"pointwise "* ]]
	[[ $output != *"not at this level"* ]]
	run -0 --separate-stderr "$INFER" inspect work.onnx --passes --optimize none
	[[ $output == *"fuse "*"does not run at this level of --optimize"* ]]
}

@test "--explain lists the rewrites that were made, and why others were refused" {
	run -0 --separate-stderr "$INFER" inspect work.onnx --explain
	[[ $output == *"rewrites    "*" made"* && $output == *"refused     "* ]]
	[[ $output == *"these rewrites matched no part of the graph"* ]]
	run -0 --separate-stderr "$INFER" inspect work.onnx --explain --optimize none
	[[ $output == *"none are tried at this level"* ]]
}

@test "--explain gives a node for each rewrite and a reason for each refusal; the remaining nodes match the optimized graph" {
	command -v python3 >/dev/null || skip "no python3"
	"$INFER" inspect work.onnx --passes --explain --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
made = [r for r in d["rewrites"] if r["made"]]
assert made and all(r["rule"] and r["node"] for r in d["rewrites"])
assert all(r["why"] for r in d["rewrites"] if not r["made"])
names = [p["name"] for p in d["passes"]]
assert names[0] == "import" and names[-1] == "infer" and len(names) == 22, names
assert all(p["ran"] for p in d["passes"])
fuse = [p for p in d["passes"] if p["name"] == "fuse"][0]
assert fuse["changes"] > 0, d["passes"]
assert len(d["nodes"]) <= d["passes"][-1]["nodes"]'
	"$INFER" inspect work.onnx --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert "passes" not in d and "rewrites" not in d'
}

# escape.onnx: every name of it holds an escape sequence; one node's holds a line that looks like a message
@test "Names from a model cannot send control sequences to the terminal" {
	local -a ways=("inspect escape.onnx --nodes --cost --weights --memory" "inspect escape.onnx --stage file"
		"inspect escape.onnx --stage opt" "inspect escape.onnx --stage plan" "inspect escape.onnx --dot"
		"inspect escape.onnx --passes --explain" "inspect escape.onnx --json"
		"run escape.onnx --random 0..1 --print --top 1" "run escape.onnx --random 0..1 --json --print"
		"check escape.onnx" "profile escape.onnx --nodes -n 2 --warmup 1")
	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086
		"$INFER" $way >"$BATS_TEST_TMPDIR/out" 2>&1
		! grep -qP '[\x00-\x08\x0b-\x1f\x7f]' "$BATS_TEST_TMPDIR/out" || {
			echo "infer $way"
			cat -v "$BATS_TEST_TMPDIR/out"
			false
		}
		! grep -q '^error' "$BATS_TEST_TMPDIR/out" || {
			echo "infer $way"
			cat "$BATS_TEST_TMPDIR/out"
			false
		}
	done
	run -0 "$INFER" inspect escape.onnx
	[[ $output == *'in\x1b[31mred\x1b[0m\x07'* ]]
}

@test "--cost counts a free dimension as 1 with a note; the page asks for its size" {
	run -0 --separate-stderr "$INFER" inspect escape.onnx --cost
	[[ $stderr == *"N-DIM-DEFAULT"* ]]
	[[ $output == *"cost        0 MACs, 4 FLOPs, 32 B moved"* ]]
	run -0 --separate-stderr "$INFER" inspect escape.onnx --cost --shape 3x2
	[[ $output == *"cost        0 MACs, 12 FLOPs, 96 B moved"* && -z $stderr ]]
	run -0 "$INFER" inspect escape.onnx --html "$BATS_TEST_TMPDIR/m.html"
	grep -q 'depends on free dimensions: set them with --dim, or use --cost' "$BATS_TEST_TMPDIR/m.html"
}

@test "A report that another command wrote is shown with its findings" {
	"$INFER" check pic.onnx --input short.bin --json >"$BATS_TEST_TMPDIR/r.json" || [ $? -eq 4 ]
	run -0 --separate-stderr "$INFER" inspect "$BATS_TEST_TMPDIR/r.json"
	[ -z "$stderr" ]
	[[ $output == "report      $BATS_TEST_TMPDIR/r.json: from infer check, exit status 4"* ]]
	[[ $output == *"inputs       1 error"*"pic.onnx: 1 error"* ]]
	[[ $output == *"error[E-INPUT-BYTES]: input "*"model expects"*"short.bin has"* ]]
	"$INFER" run batch.onnx --random 0..1 --json -q >"$BATS_TEST_TMPDIR/r.json"
	run -0 --separate-stderr "$INFER" inspect "$BATS_TEST_TMPDIR/r.json"
	[[ $output == *"from infer run, exit status 0"*"output "* ]]
	run -0 --separate-stderr "$INFER" inspect "$BATS_TEST_TMPDIR/r.json" --json
	[[ $output == *'"report": {'*'"command": "run"'* ]]
	echo '{"a": {}}' >"$BATS_TEST_TMPDIR/other.json"
	run -4 "$INFER" inspect "$BATS_TEST_TMPDIR/other.json"
	[[ $output == *"is neither a report of infer nor a tensor"* ]]
	printf '{"schema": "infer/1"' >"$BATS_TEST_TMPDIR/cut.json"
	run -4 "$INFER" inspect "$BATS_TEST_TMPDIR/cut.json"
}

@test "Options that apply only to models are refused for other files" {
	run -2 "$INFER" inspect chw.npy --html "$BATS_TEST_TMPDIR/t.html"
	[[ $output == "error[E-USAGE]: --html: this option applies to models; 'chw.npy' is a tensor"* ]]
	[ ! -e "$BATS_TEST_TMPDIR/t.html" ]
	run -2 "$INFER" inspect chw.npy --nodes
	run -2 "$INFER" inspect batch.onnx --ops
	[[ $output == *"takes no model"* ]]
}

@test "A file that is no model is identified" {
	run -3 "$INFER" inspect rgb.png
	[[ $output == *"this is a picture: it belongs to --input"* ]]
	run -3 "$INFER" run rgb.jpg
	[[ $output == *"this is a picture"* ]]
	printf '{"schema": "infer/1"}' >"$BATS_TEST_TMPDIR/r.json"
	run -3 "$INFER" run "$BATS_TEST_TMPDIR/r.json"
	[[ $output == *"protobuf's JSON form: "*"infer inspect FILE.json"* ]]
	run -3 "$INFER" run ''
	[ "${lines[0]}" = "error[E-MODEL-OPEN]: an empty name is no file" ]
	run -3 "$INFER" run nowhere.onnx
	[[ $output == "error[E-MODEL-OPEN]: nowhere.onnx: cannot open: No such file or directory"*"hint: the models there are "* ]]
}

@test "An unknown operator is shown without a version" {
	# y = my.Foo(x)
	base64 -d >"$BATS_TEST_TMPDIR/m.onnx" <<-'END'
		CAg6OQoSCgF4EgF5IgNGb286BW15Lm9wEgFnWg8KAXgSCgoICAESBAoCCApiDwoBeRIKCggIARIECgIICkIECgAQEUIJCgVteS5v
		cBAB
	END
	run -3 "$INFER" inspect "$BATS_TEST_TMPDIR/m.onnx" --nodes
	[[ $output == *"1 node not supported"*"1  my.op::Foo  no device"* && $output != *"Foo-0"* ]]
}

@test "The planned peak counts each weight once, packed or in its original form" {
	# y = MatMul(x [4,256], w [256,256] in w.bin)
	base64 -d >"$BATS_TEST_TMPDIR/m.onnx" <<-'END'
		CAg6ZAoRCgF4CgF3EgF5IgZNYXRNdWwSAWcqIAiAAgiAAhABQgF3ahEKCGxvY2F0aW9uEgV3LmJpbnABWhQKAXgSDwoNCAESCQoC
		CAQKAwiAAmIUCgF5Eg8KDQgBEgkKAggECgMIgAJCBAoAEBE=
	END
	head -c 262144 /dev/zero >"$BATS_TEST_TMPDIR/w.bin"
	run -0 --separate-stderr "$INFER" inspect "$BATS_TEST_TMPDIR/m.onnx" --memory --json
	figure() { sed -n "/\"memory\"/,/}/s/.*\"$1\": \([0-9]*\).*/\1/p" <<<"$output"; }
	[ "$(figure weights)" -eq 262144 ]
	[ "$(figure peak)" -eq $(($(figure weights_in_place) + $(figure copied_weights) + $(figure packed_weights) + $(figure activations))) ]
	# whether it is packed is the processor's: of one without AVX-512 the kernel takes it as it is
	packed=$(figure packed_weights)
	[ "$(figure weights_in_place)" -eq $((packed ? 0 : 262144)) ]
	run -0 --separate-stderr "$INFER" inspect "$BATS_TEST_TMPDIR/m.onnx" --memory
	text='weights read in place in the file 256.0 KiB, copied weights 0 B, packed weights 0 B'
	[ "$packed" -eq 0 ] || text='weights read in place in the file 0 B, copied weights 0 B, packed weights 2'
	[[ $output == *"$text"* ]]
	# a run counts the same
	"$INFER" run "$BATS_TEST_TMPDIR/m.onnx" --random -d cpu --json -q >"$BATS_TEST_TMPDIR/run.json"
	[ "$(sed -n '/"packed_weights"/,/}/s/.*"live": \([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/run.json" | head -1)" -eq "$packed" ]
}

@test "A folder of outputs is one table of tensors, which names the files that are none" {
	dir=$BATS_TEST_TMPDIR/out
	mkdir "$dir"
	run -3 --separate-stderr "$INFER" inspect "$dir"
	[[ $stderr == *"has no tensor file"*"expected"*"genai_config.json"*"an empty folder"* ]]
	"$INFER" run batch.onnx --dim batch=2 --random 0..1 -o "$dir" 2>/dev/null >&2
	"$INFER" run batch.onnx --dim batch=2 --random 0..1 -o "$dir" --save-format json 2>/dev/null >&2
	"$INFER" run batch.onnx --dim batch=2 --random 0..1 -o "$dir" --save-format npz 2>/dev/null >&2
	"$INFER" run batch.onnx --dim batch=2 --random 0..1 -o "$dir" --save-format pb 2>/dev/null >&2
	echo '{"a": [1, 2]}' >"$dir/report.json"
	echo text >"$dir/notes.txt"
	echo '{"dtype": "bool", "shape": [2], "data": [true, false]}' >"$dir/z.json"
	mkfifo "$dir/pipe.npy"
	run -0 --separate-stderr "$INFER" inspect "$dir"
	[[ ${lines[0]} == name*type*shape*bytes*min*max*mean*NaN* ]]
	[[ ${lines[1]} == "output_0.pb "*"f32"*"[2,3,16,24]"*"9216"*" 0" ]]
	[[ ${lines[2]} == "outputs.npz/"*"f32"*"9216"*" 0" ]]
	[[ ${lines[3]} == "y.json "*"9216"*" 0" ]]
	[[ ${lines[4]} == "y.npy "*"9216"*" 0" ]]
	[[ ${lines[5]} == "z.json "*"bool"*"[2]"*" 0" ]]
	[ "${lines[6]}" = "left out, no tensors: notes.txt, pipe.npy, report.json" ]
	[ "${lines[3]##* 9216}" = "${lines[4]##* 9216}" ]
	run -0 --separate-stderr "$INFER" inspect "$dir" --json
	[[ $output == *'"name": "y.npy"'*'"bytes": 9216'*'"left_out": ["notes.txt", "pipe.npy", "report.json"]'* ]]
	run -2 "$INFER" inspect "$dir" --nodes
	[[ $output == *"is a folder of tensors"* ]]
	cp cut.npy "$dir"
	run -4 --separate-stderr "$INFER" inspect "$dir"
	[[ $output == *"y.npy "* && $stderr == *"cut.npy"* ]]
}
