#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer extract: parts compute what the whole model does, and what is no part is refused.

load helper

setup() {
	INFER=$(realpath "$INFER")
	data=$(realpath "$BATS_TEST_DIRNAME/../data/run")
	cd "$BATS_TEST_TMPDIR" || return 1
	export INFER_DEVICE=cpu
}

# models: chain.onnx (x [batch,4] -> a -> b -> y, and z beside it), and branch.onnx, whose If reads w and a from outside
models() {
	need_onnx
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		def save(name, nodes, outs, inits=(), **more):
		    infos = lambda names: [h.make_tensor_value_info(n, t, s) for n, t, s in names]
		    g = h.make_graph(nodes, "g", infos([("x", T.FLOAT, ["batch", 4])]), infos(outs), list(inits))
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8, **more), name)

		w = nh.from_array(np.arange(16, dtype=np.float32).reshape(4, 4) / 10, "w")
		v = nh.from_array(np.ones(4, np.float32), "v")
		nodes = [
		    h.make_node("MatMul", ["x", "w"], ["a"], name="first"),
		    h.make_node("Relu", ["a"], ["b"]),
		    h.make_node("Add", ["b", "v"], ["y"], name="last"),
		    h.make_node("Neg", ["x"], ["z"], name="beside"),
		]
		save("chain.onnx", nodes, [("y", T.FLOAT, ["batch", 4]), ("z", T.FLOAT, ["batch", 4])], [w, v], producer_name="somebody")
		out = [h.make_tensor_value_info("o", T.FLOAT, None)]
		then = h.make_graph([h.make_node("MatMul", ["a", "w"], ["o"])], "then", [], out)
		other = h.make_graph([h.make_node("Neg", ["a"], ["o"])], "else", [], out)
		c = nh.from_array(np.array(True), "c")
		save("branch.onnx", [h.make_node("Abs", ["x"], ["a"]), h.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other)], [("y", T.FLOAT, ["batch", 4])], [w, c])
	PYTHON
}

fails() { # STATUS TEXT ARGUMENT...
	local want=$1 text=$2
	shift 2
	run --separate-stderr "$INFER" extract "$@"
	[ "$status" -eq "$want" ] || { echo "status $status: $stderr"; return 1; }
	[[ $stderr == *"$text"* ]] || { echo "$stderr"; return 1; }
}

@test "A part computes what the whole model computes" {
	models
	"$INFER" run chain.onnx --random -1..1 --dim batch=3 --output a,b,y -o whole -q
	"$INFER" extract chain.onnx --from a --to b,y -o part.onnx
	"$INFER" run part.onnx --input whole/a.npy -o part -q
	cmp whole/b.npy part/b.npy
	cmp whole/y.npy part/y.npy
	# without --from it begins at the model's inputs, without --to it ends at its outputs
	"$INFER" extract chain.onnx --to b -o head.onnx -q
	"$INFER" run head.onnx --random -1..1 --dim batch=3 -o head -q
	cmp whole/b.npy head/b.npy
	"$INFER" extract chain.onnx --from b -o tail.onnx -q
	[ "$("$INFER" inspect tail.onnx --json | jq -c '[.inputs[].name, .outputs[].name]')" = '["x","b","y","z"]' ]
	# nodes stand for what they read and make
	"$INFER" extract chain.onnx --from last --to last -o last.onnx -q
	"$INFER" run last.onnx --input whole/b.npy -o last -q
	cmp whole/y.npy last/y.npy
	[ "$("$INFER" extract chain.onnx --from a --to y -o p.onnx --json | jq -c '[.nodes, .inputs, .outputs]')" = '[2,["a"],["y"]]' ]
	python3 - <<-'PYTHON'
		import onnx
		for name in "part", "head", "tail", "last":
		    onnx.checker.check_model(f"{name}.onnx", full_check=True)
		part = onnx.load("part.onnx")
		assert part.producer_name == "somebody" and [i.name for i in part.graph.initializer] == ["v"]
		assert [d.dim_param or d.dim_value for d in part.graph.input[0].type.tensor_type.shape.dim] == ["batch", 4]
	PYTHON
}

@test "What a body captures comes along" {
	models
	"$INFER" run branch.onnx --random -1..1 --dim batch=2 --output a,y -o whole -q
	"$INFER" extract branch.onnx --from a --to choice -o part.onnx -q
	[ "$("$INFER" inspect part.onnx --json | jq -c '[.inputs[].name]')" = '["a"]' ]
	"$INFER" run part.onnx --input whole/a.npy -o part -q
	cmp whole/y.npy part/y.npy
}

@test "What is no part is refused" {
	models
	fails 2 "no file is named for the part" chain.onnx --to y
	fails 2 "the model has no tensor or node 'nothing'" chain.onnx --to nothing -o p.onnx
	fails 2 "the model has no tensor or node 'nothing'" chain.onnx --from x,nothing -o p.onnx
	fails 2 "'z' does not lead to what --to names" chain.onnx --from z --to y -o p.onnx
	fails 2 "no node is between" chain.onnx --from y --to y -o p.onnx
	fails 10 "folder" chain.onnx --to y -o folder/p.onnx
	fails 3 absent.onnx absent.onnx --to y -o p.onnx
	[ ! -e p.onnx ]
	head -c 120 chain.onnx >cut.onnx
	fails 3 "" cut.onnx --to y -o p.onnx
	[ ! -e p.onnx ]
}

@test "Parts need no Python: a model of the tests" {
	"$INFER" run "$data/work.onnx" --random -1..1 --dim n=2 --json -q >whole.json
	out=$(jq -r '.outputs[0].name' whole.json)
	"$INFER" extract "$data/work.onnx" --to "$out" -o same.onnx -q
	"$INFER" run same.onnx --random -1..1 --dim n=2 --json -q >part.json
	[ "$(jq -c '.outputs[0] | del(.path)' whole.json)" = "$(jq -c '.outputs[0] | del(.path)' part.json)" ]
}
