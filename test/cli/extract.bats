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
	fails_with "$1" "$2" extract "${@:3}"
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
	fails 2 "--save: no file is named for the part" chain.onnx --to y
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

# noted.onnx: y = Relu(x * w) * v, with all that a model can say besides, and fields that no schema knows
noted() {
	need_onnx
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		infos = lambda names: [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in names]
		w = nh.from_array(np.arange(1024, dtype=np.float32).reshape(32, 32), "w")
		w.doc_string = "the weights"
		w.metadata_props.add(key="of", value="layer 1")
		v = h.make_tensor("v", T.FLOAT, [512], np.arange(512, dtype=np.float32))  # float_data
		s = h.make_sparse_tensor(h.make_tensor("s", T.FLOAT, [1], [2.0]), h.make_tensor("i", T.INT64, [1], [3]), [512])
		scale = nh.from_array(np.array(0.5, np.float32), "scale")
		nodes = [
		    h.make_node("MatMul", ["x", "w"], ["a"]),
		    h.make_node("Relu", ["a"], ["b"]),
		    h.make_node("Flatten", ["b"], ["c"], axis=0),
		    h.make_node("Mul", ["c", "v"], ["d"]),
		    h.make_node("Add", ["d", "s"], ["y"]),
		]
		g = h.make_graph(nodes, "g", infos([("x", ["batch", 32])]), infos([("y", [1, 512])]), [w, v, scale],
		                 doc_string="the graph", value_info=infos([("a", ["batch", 32]), ("b", ["batch", 32]), ("d", None)]), sparse_initializer=[s])
		g.input[0].doc_string = "the input"
		g.value_info[0].doc_string = "the product"
		g.metadata_props.add(key="graph", value="noted")
		note = g.quantization_annotation.add(tensor_name="b")
		note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
		g.quantization_annotation.add(tensor_name="absent")
		m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=10)
		bytes = m.SerializeToString() + b"\xf5\x3f\x01\x02\x03\x04" + b"\xf9\x3f\x01\x02\x03\x04\x05\x06\x07\x08"  # fields 1022 and 1023
		open("noted.onnx", "wb").write(bytes)
		np.save("x.npy", np.random.default_rng(1).standard_normal((16, 32), np.float32))
	PYTHON
}

@test "A part keeps what the file says besides its nodes" {
	noted
	"$INFER" extract noted.onnx -o same.onnx -q
	"$INFER" extract noted.onnx --from a --to c -o part.onnx -q
	python3 - <<-'PYTHON'
		import onnx

		whole, same, part = (onnx.load(f"{n}.onnx") for n in ("noted", "same", "part"))
		onnx.checker.check_model(same)
		onnx.checker.check_model(part, full_check=True)
		for name in "doc_string", "metadata_props", "input", "output", "value_info", "sparse_initializer":
		    assert getattr(whole.graph, name) == getattr(same.graph, name), name
		by_name = lambda g: sorted(g.initializer, key=lambda t: t.name)
		assert by_name(whole.graph) == by_name(same.graph)
		assert [a.tensor_name for a in same.graph.quantization_annotation] == ["b"]
		tail = b"\xf5\x3f\x01\x02\x03\x04" + b"\xf9\x3f\x01\x02\x03\x04\x05\x06\x07\x08"
		assert tail in open("same.onnx", "rb").read() and tail in open("part.onnx", "rb").read()
		assert [v.name for v in part.graph.value_info] == ["b"] and part.graph.doc_string == "the graph"
		assert part.graph.input[0].doc_string == "the product"
		assert [t.name for t in part.graph.initializer] == ["scale"]
		assert [a.tensor_name for a in part.graph.quantization_annotation] == ["b"]
	PYTHON
}

@test "Weights go to a file of their own, and back" {
	noted
	mkdir to
	"$INFER" extract noted.onnx --external -o to/ext.onnx -q
	"$INFER" extract noted.onnx --external=w.bin -o to/other.onnx -q
	[ -s to/w.bin ]
	cmp to/w.bin to/ext.onnx.data
	"$INFER" extract to/ext.onnx -o back.onnx -q
	for m in noted to/ext to/other back; do
		"$INFER" run "$m.onnx" --input x=x.npy -o out -q
		mv out/y.npy "y-${m#to/}.npy"
	done
	cmp y-noted.npy y-ext.npy
	cmp y-noted.npy y-other.npy
	cmp y-noted.npy y-back.npy
	python3 - <<-'PYTHON'
		import onnx

		onnx.checker.check_model("to/ext.onnx")
		m = onnx.load("to/ext.onnx", load_external_data=False)
		where = {t.name: {e.key: e.value for e in t.external_data} for t in m.graph.initializer}
		assert where["w"] == {"location": "ext.onnx.data", "offset": "0", "length": "4096"}, where
		assert where["v"] == {"location": "ext.onnx.data", "offset": "4096", "length": "2048"}, where
		assert not where["scale"] and not any(t.raw_data for t in m.graph.initializer if t.external_data)
		assert [t.doc_string for t in m.graph.initializer if t.name == "w"] == ["the weights"]
		full = onnx.load("to/ext.onnx")
		for name in "noted", "back":
		    for a in onnx.load(f"{name}.onnx").graph.initializer:
		        b = next(t for t in full.graph.initializer if t.name == a.name)
		        assert onnx.numpy_helper.to_array(a).tobytes() == onnx.numpy_helper.to_array(b).tobytes()
	PYTHON
	fails 2 "is no name of another file" noted.onnx --external=../w.bin -o to/p.onnx
	fails 2 "is no name of another file" noted.onnx --external=p.onnx -o to/p.onnx
	fails 2 "standard output has no folder" noted.onnx --external -o -
	rm to/w.bin
	fails 3 "w.bin" to/other.onnx -o p.onnx
	[ ! -e p.onnx ]
}

@test "The part is not written over the model" {
	models
	cp chain.onnx own.onnx
	ln -s own.onnx link.onnx
	for to in own.onnx ./own.onnx link.onnx; do
		run -2 "$INFER" extract own.onnx --to b -o "$to"
		[[ $output == *"this is the model itself, whose other nodes would be lost"* ]]
		cmp chain.onnx own.onnx
	done
	run -0 "$INFER" extract own.onnx --to b -o part.onnx
	run -0 "$INFER" extract own.onnx --to b -o part.onnx
}
