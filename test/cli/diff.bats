#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer diff: an edit is told and nothing else, a model in other words is the same, and the exit status is that of diff(1).

load helper

setup() {
	INFER=$(realpath "$INFER")
	plant=$(realpath "$BATS_TEST_DIRNAME/../diff/plant.py")
	cd "$BATS_TEST_TMPDIR" || return 1
}

# models: a.onnx, and others that differ from it as their names say
models() {
	need_onnx
	python3 - <<-'PYTHON'
		import copy
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		r = np.random.default_rng(1)
		info = lambda n, s: h.make_tensor_value_info(n, T.FLOAT, s)
		body = lambda op, name: h.make_graph([h.make_node(op, ["b", "w2"], [name])], name, [], [info(name, None)])
		nodes = [
		    h.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
		    h.make_node("LeakyRelu", ["a"], ["b"], name="leaky", alpha=0.25),
		    h.make_node("ReduceMax", ["b"], ["m"], name="largest", keepdims=0),
		    h.make_node("Greater", ["m", "zero"], ["c"], name="positive"),
		    h.make_node("If", ["c"], ["d"], name="choice", then_branch=body("MatMul", "t"), else_branch=body("Add", "e")),
		    h.make_node("Tanh", ["d"], ["y"], name="last"),
		]
		weights = [nh.from_array(r.standard_normal((8, 8)).astype(np.float32), n) for n in ("w1", "w2")] + [nh.from_array(np.float32(0), "zero")]
		g = h.make_graph(nodes, "g", [info("x", ["batch", 8])], [info("y", ["batch", 8])], weights)
		a = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
		onnx.save(a, "a.onnx")

		def edited(name, edit):
		    m = copy.deepcopy(a)
		    edit(m)
		    onnx.save(m, name + ".onnx")

		def weight(m):
		    w = nh.to_array(m.graph.initializer[1]).copy()
		    w[3, 4] += 2
		    m.graph.initializer[1].CopyFrom(nh.from_array(w, "w2"))

		edited("weight", weight)
		edited("alpha", lambda m: setattr(m.graph.node[1].attribute[0], "f", 0.5))
		edited("branch", lambda m: setattr(m.graph.node[4].attribute[1].g.node[0], "op_type", "Sub"))
		def swapped(m, names):
		    then, other = m.graph.node[4].attribute
		    if names:
		        then.name, other.name = other.name, then.name
		    else:
		        m.graph.node[4].attribute.reverse()
		edited("swapped", lambda m: swapped(m, True))
		edited("reversed", lambda m: swapped(m, False))
		edited("batch", lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 4))
		edited("opset", lambda m: setattr(m.opset_import[0], "version", 16))
		edited("producer", lambda m: setattr(m, "producer_name", "somebody"))
		onnx.save(a, "outside.onnx", save_as_external_data=True, location="outside.data", size_threshold=0)
	PYTHON
}

told() { # B KIND WHAT
	run "$INFER" diff a.onnx "$1.onnx" --json
	[ "$status" -eq 1 ] || { echo "status $status: $output"; return 1; }
	printf '%s' "$output" >told.json
	python3 -c '
import json, sys
items = json.load(open("told.json"))["differences"]
assert [(i["kind"], i["what"]) for i in items] == [(sys.argv[1], sys.argv[2])], items' "$2" "$3"
}

@test "Each edit is told, and nothing else" {
	models
	told alpha attributes 'attribute alpha of LeakyRelu'
	told branch operators operator
	told batch interface input
	told opset opsets 'opset of ai.onnx'
	told producer metadata producer
	told weight weights 'input 1 (B) of Add' # its first reader
	python3 -c '
import json
far = json.load(open("told.json"))["differences"][0]["far"]
assert far["elements"] == 64 and far["differ"] == 1 and far["worst"] == 3 * 8 + 4 and abs(far["max_abs"] - 2) < 1e-6, far'
}

@test "The branches of an If are paired by the names of their attributes, not by their places in the file" {
	models
	for words in "" --exact; do
		run -1 "$INFER" diff a.onnx swapped.onnx $words
		[[ $output == *choice* ]]
		run -0 "$INFER" diff a.onnx reversed.onnx $words
		[[ $output == "no difference"* ]]
	done
}

@test "Attributes of operators that this build does not know are compared" {
	need_onnx
	python3 - <<-'PYTHON'
		import onnx
		from onnx import TensorProto as T, helper as h
		info = lambda n: h.make_tensor_value_info(n, T.FLOAT, [4])
		for name, k in ("a", 1), ("b", 2):
		    g = h.make_graph([h.make_node("Mine", ["x"], ["y"], domain="my.own", k=k)], "g", [info("x")], [info("y")])
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("my.own", 1)], ir_version=8), name + ".onnx")
	PYTHON
	told b attributes 'attributes of my.own::Mine'
	"$INFER" diff b.onnx b.onnx
}

@test "The exit status is that of diff(1)" {
	models
	"$INFER" diff a.onnx a.onnx
	"$INFER" diff a.onnx outside.onnx
	"$INFER" diff a.onnx producer.onnx --ignore metadata -q
	run "$INFER" diff a.onnx weight.onnx -q
	[ "$status" -eq 1 ] && [ -z "$output" ]
	run "$INFER" diff a.onnx missing.onnx
	[ "$status" -eq 2 ]
	rm outside.data
	run "$INFER" diff a.onnx outside.onnx --json
	[ "$status" -eq 2 ] && [[ $output == *'"exit_code": 2'* ]]
	run "$INFER" diff a.onnx a.onnx --ignore weigths
	[ "$status" -eq 2 ] && [[ $output == *"did you mean 'weights'"* ]]
	run "$INFER" diff a.onnx
	[ "$status" -eq 2 ]
}

@test "A network of other widths corresponds layer by layer" {
	need_onnx
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		def save(path, seed, widths, added=False):
		    r, c, at, nodes, init = np.random.default_rng(seed), 3, "x", [], []
		    for k, w in enumerate(widths):
		        init.append(nh.from_array(r.standard_normal((c, w)).astype("f"), f"w{k}"))
		        nodes += [h.make_node("MatMul", [at, f"w{k}"], [f"m{k}"], f"layer{k}"), h.make_node("Relu", [f"m{k}"], [f"r{k}"], f"relu{k}")]
		        c, at = w, f"r{k}"
		        if added and k == 1:
		            nodes.append(h.make_node("Neg", [at], ["n"], "added"))
		            at = "n"
		    nodes[-1].output[0] = "y"
		    info = lambda n, s: h.make_tensor_value_info(n, T.FLOAT, s)
		    g = h.make_graph(nodes, "g", [info("x", [2, 3])], [info("y", None)], init)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		save("narrow.onnx", 1, [4, 8, 16, 32])
		save("wide.onnx", 2, [8, 16, 32, 64])
		save("more.onnx", 3, [8, 16, 32, 64], True)
	PYTHON
	for other in wide more; do
		run -1 "$INFER" diff narrow.onnx $other.onnx --ignore interface --json
		python3 - "$output" <<-'PYTHON'
			import json, sys
			items = json.loads(sys.argv[1])["differences"]
			weights = [(i["where_a"].split()[0], i["where_b"].split()[0]) for i in items if i["kind"] == "weights"]
			assert weights == [(f"layer{k}",) * 2 for k in range(4)], items
			assert [i["where_b"] for i in items if i["kind"] != "weights"] in ([], ["added"]), items
		PYTHON
	done
}

@test "A page shows both models side by side" {
	models
	run "$INFER" diff a.onnx weight.onnx --html page.html -q
	[ "$status" -eq 1 ]
	grep -q 'Nodes side by side' page.html
	grep -q '1 of 64 elements, max abs 2' page.html
}

@test "Planted edits are found, and other words make no difference" {
	models
	python3 "$plant" "$INFER" 7 12 8 a.onnx
}

@test "Exports of one network by two exporters with other options differ in no weight, operator or attribute" {
	tar xf "$BATS_TEST_DIRNAME/../data/diff/exports.tar.xz"
	for model in *.onnx; do
		run -0 "$INFER" diff "${model%%.*}.0.onnx" "$model" --ignore interface,opsets,metadata
		[[ $output == "no difference"* ]]
	done
	run -0 "$INFER" diff pictures.0.onnx pictures.dynamo.onnx --ignore interface,opsets,metadata
	[[ $output == *"in normal form"*"written in other words in "*" places"*"(--exact tells them)"* ]]
	run -1 "$INFER" diff pictures.0.onnx pictures.unfolded.onnx --ignore interface,opsets,metadata --exact
	[[ $output == *"node added"*"BatchNormalization"* ]]
}

@test "An edit within another export is found, and nothing else" {
	need_onnx
	tar xf "$BATS_TEST_DIRNAME/../data/diff/exports.tar.xz"
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import numpy_helper as nh
		m = onnx.load("pictures.unfolded.onnx")
		norm = [n for n in m.graph.node if n.op_type == "BatchNormalization"][1]
		norm.attribute[0].f = 0.5
		onnx.save(m, "epsilon.onnx")
		m = onnx.load("text.dynamo.onnx")
		t = [t for t in m.graph.initializer if t.name == "wide.weight" or list(t.dims) in ([8, 16], [16, 8])][0]
		w = nh.to_array(t).copy()
		w[2, 3] += 0.5
		t.CopyFrom(nh.from_array(w, t.name))
		onnx.save(m, "weight.onnx")
		m = onnx.load("text.dynamo.onnx")
		t = [t for t in m.graph.initializer if list(t.dims) in ([8, 16], [16, 8])][0]
		t.CopyFrom(nh.from_array(nh.to_array(t) * np.float32(1 + 2e-7), t.name))
		onnx.save(m, "rounded.onnx")
		m = onnx.load("maps.dynamo.onnx")
		relu = [n for n in m.graph.node if n.op_type == "Relu"][0]
		for n in m.graph.node:
		    n.input[:] = [relu.input[0] if i == relu.output[0] else i for i in n.input]
		m.graph.node.remove(relu)
		onnx.save(m, "relu.onnx")
	PYTHON
	run -1 "$INFER" diff pictures.0.onnx epsilon.onnx --ignore interface,opsets,metadata
	[[ $output == *"input 1 (W) of Conv  at /b/Conv"*"input 2 (B) of Conv  at /b/Conv"*"weights     2 differences"* ]]
	run -1 "$INFER" diff text.0.onnx weight.onnx --ignore interface,opsets,metadata
	[[ $output == *"1 of 128 elements, max abs 0.5, "*"weights     1 difference"* ]]
	run -0 "$INFER" diff text.0.onnx rounded.onnx --ignore interface,opsets,metadata
	[[ $output == *"  1 weight equal within rounding, "*e-0*" at most"* ]]
	run -0 "$INFER" diff text.dynamo.onnx rounded.onnx
	[[ $output == "no difference"*"  1 weight equal within rounding, "*e-0*" at most"* ]]
	run -1 "$INFER" diff text.dynamo.onnx rounded.onnx --exact
	run -1 "$INFER" diff maps.0.onnx relu.onnx --ignore interface,opsets,metadata
	[[ $output == *"node removed  at /Relu | -"*"operators   1 difference"* ]]
}

@test "What one export folds and another computes is no difference, but with --exact; another weight is one" {
	cat >computed.onnxtxt <<-'TEXT'
		<ir_version: 8, opset_import: ["": 13]>
		g (float[n,4] x) => (float[n,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, int64[1] axes = {0}> {
		 i = Identity(w)
		 wt = Transpose<perm=[1,0]>(i)
		 s = Shape(w)
		 one = Constant<value_int=0>()
		 d = Gather(s, one)
		 f = Cast<to=1>(d)
		 m = MatMul(x, wt)
		 z = Mul(m, f)
		 y = Relu(z)
		}
	TEXT
	cat >folded.onnxtxt <<-'TEXT'
		<ir_version: 8, opset_import: ["": 17]>
		other (float[n,4] x) => (float[n,4] y) <float[4,4] a = {1,5,9,4,2,6,1,5,3,7,2,6,4,8,3,7}, float b = {4}> {
		 p = MatMul(x, a)
		 q = Mul(p, b)
		 y = Relu(q)
		}
	TEXT
	run -1 "$INFER" diff computed.onnxtxt folded.onnxtxt --ignore opsets --exact
	[[ $output == *"node removed"* ]]
	run -0 "$INFER" diff computed.onnxtxt folded.onnxtxt --ignore opsets
	[[ $output == "no difference: 3 nodes of 3 and 3 correspond in normal form"*"written in other words in "*" places"* ]]
	sed 's/b = {4}/b = {5}/' folded.onnxtxt >other.onnxtxt
	run -1 "$INFER" diff computed.onnxtxt other.onnxtxt --ignore opsets
	[[ $output == *"input 1 (B) of Mul"*"< f32 [] = 4"*"> f32 [] = 5"*"weights     1 difference"* ]]
	run -0 "$INFER" simplify computed.onnxtxt -o simple.onnx
	run -1 "$INFER" diff computed.onnxtxt simple.onnx --exact
	run -0 "$INFER" diff computed.onnxtxt simple.onnx
	run -0 "$INFER" diff computed.onnxtxt simple.onnx --simplify
	run -2 "$INFER" diff computed.onnxtxt simple.onnx --simplify --exact
	[[ $output == *"E-USAGE"*"opposites"* ]]
	run -2 "$INFER" diff computed.onnxtxt nowhere.onnx
	[[ $output == *"E-MODEL-OPEN"* ]]
}

@test "A Gather whose numbers pass the end is no Slice" {
	local head='<ir_version: 10, opset_import: ["" : 21]> g (float[4,3] x) => (float[3] y)'
	echo "$head <int64[2] i = {-1, 0}> { g = Gather(x, i) y = ReduceMax<keepdims=0>(g, axis) }" | sed 's/> {/, int64[1] axis = {0}> {/' >"$BATS_TEST_TMPDIR/around.txt"
	sed 's/int64\[2\] i = {-1, 0}/int64[1] i = {-1}/' "$BATS_TEST_TMPDIR/around.txt" >"$BATS_TEST_TMPDIR/last.txt"
	run -1 "$INFER" diff "$BATS_TEST_TMPDIR/around.txt" "$BATS_TEST_TMPDIR/last.txt"
	[[ $output == *"input 1 (indices) of Gather"* ]]
	sed 's/int64\[2\] i = {-1, 0}/int64[2] i = {-2, -1}/' "$BATS_TEST_TMPDIR/around.txt" >"$BATS_TEST_TMPDIR/end.txt"
	run -0 "$INFER" run "$BATS_TEST_TMPDIR/end.txt" --random -q
}

@test "Attributes of an unknown operator are compared by what they say, not by how the file writes them" {
	foo() { # INTS FILE
		echo "<ir_version: 8, opset_import: [\"\" : 17, \"my\" : 1]> g (float[2] x) => (float[2] y) { y = my.Foo <a = [$1], f = 0.5, t = float[2] {1, 2}> (x) }" >foo.txt
		"$INFER" convert foo.txt "$2" --form binary
	}
	foo 1,2 list.onnx
	foo 1,3 other.onnx
	foo 2,1 order.onnx
	# JSON is read to packed lists; the text form is not
	"$INFER" convert list.onnx list.json --form json
	"$INFER" convert list.json packed.onnx --form binary
	! cmp -s list.onnx packed.onnx || { echo "the files are the same"; return 1; }
	run -0 "$INFER" diff list.onnx packed.onnx
	run -1 "$INFER" diff packed.onnx other.onnx
	[[ $output == *"attributes of my::Foo"* ]]
	run -1 "$INFER" diff list.onnx order.onnx
}

@test "Versions of an operator that mean something else differ, and those that mean the same do not" {
	need_onnx
	python3 - <<-'PYTHON'
		import onnx
		from onnx import TensorProto as T, helper as h
		def save(name, opset, **attributes):
		    ports = [h.make_tensor_value_info(n, T.FLOAT, [2, 3, 4]) for n in "xy"]
		    g = h.make_graph([h.make_node("Softmax", ["x"], ["y"], name="s", **attributes)], "g", ports[:1], ports[1:])
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", opset)], ir_version=8), name + ".onnx")
		save("flat", 11, axis=1)
		save("one", 13, axis=1)
		save("last11", 11, axis=2)
		save("last13", 13)
	PYTHON
	run "$INFER" diff flat.onnx one.onnx --ignore opsets,metadata
	[ "$status" -eq 1 ]
	[[ $output == *"version of Softmax"* ]]
	"$INFER" diff last11.onnx last13.onnx --ignore opsets,metadata
}

@test "A list of sizes that a model computes has a normal form" {
	need_onnx
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		def save(name, opset):
		    list_of = lambda n, *v: nh.from_array(np.array(v, np.int64), n)
		    axes = {"axes": [0]} if opset < 13 else {}
		    nodes = [
		        h.make_node("Shape", ["x"], ["s"]),
		        h.make_node("Gather", ["s", "one"], ["n"]),
		        h.make_node("Unsqueeze", ["n"] if axes else ["n", "zero"], ["l"], **axes),
		        h.make_node("Concat", ["two", "l", "eight"], ["state"], axis=0),
		        h.make_node("ConstantOfShape", ["state"], ["y"]),
		    ]
		    ports = [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in (("x", ["t", "b", 8]), ("y", [2, "b", 8]))]
		    inits = [nh.from_array(np.int64(1), "one"), list_of("zero", 0), list_of("two", 2), list_of("eight", 8)]
		    onnx.save(h.make_model(h.make_graph(nodes, "g", ports[:1], ports[1:], inits), opset_imports=[h.make_opsetid("", opset)], ir_version=8), name)
		save("a.onnx", 11)
		save("b.onnx", 17)
	PYTHON
	"$INFER" diff a.onnx b.onnx --ignore opsets,metadata
}

# Two models of the nodes given, on x f32 [1,4,6,6], with some constants.
pair() { # NODES OF A, NODES OF B
	local head='<ir_version: 8, opset_import: ["" : 20]> g (float[1,4,6,6] x) => (float[?] y)
		<float z = {0.0}, float one = {1.0}, float six = {6.0}, float low = {-1.0}, float[3,3] row = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0},
		float[4] four = {1.0, 2.0, 3.0, 4.0}, float[4] none = {0.0, 0.0, 0.0, 0.0}, int64[2] hw = {2, 3}, int64[2] nhwc = {1, 2},
		float[6,2] left = {1.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 1.0, 5.0, 1.0, 2.0}, float[6,1] right = {7.0, 1.0, 2.0, 1.0, 2.0, 6.0},
		float[6,3] both = {1.0, 2.0, 7.0, 1.0, 2.0, 1.0, 3.0, 2.0, 2.0, 1.0, 2.0, 1.0, 1.0, 5.0, 2.0, 1.0, 2.0, 6.0}, int64[2] parts = {2, 1},
		int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[4] pads2 = {1, 1, 1, 1}, int64[3] rows = {1, 36, 4}, int64[3] planes = {1, 4, 36}>'
	sed "s/float\[?\]/float[${3:-1,4,6,6}]/" <<<"$head { $1 }" >a.onnxtxt
	sed "s/float\[?\]/float[${3:-1,4,6,6}]/" <<<"$head { $2 }" >b.onnxtxt
}

same() {
	pair "$@"
	run "$INFER" diff a.onnxtxt b.onnxtxt
	[ "$status" -eq 0 ] || { echo "$1 | $2"; echo "$output"; return 1; }
}

unlike() {
	pair "$@"
	run "$INFER" diff a.onnxtxt b.onnxtxt
	[ "$status" -eq 1 ] || { echo "$1 | $2"; echo "$output"; return 1; }
}

@test "Bounds are alike in the words of Clip, Relu, Max and Min, and other bounds are not" {
	same 'y = Clip(x, z, six)' 'a = Max(x, z) y = Min(a, six)'
	same 'y = Clip(x, z, six)' 'a = Relu(x) y = Min(six, a)'
	same 'y = Relu(x)' 'y = Max(z, x)'
	same 'a = Clip(x, low, one) y = Relu(a)' 'y = Clip(x, z, one)'
	same 'a = Clip(x, z, six) y = Clip(a, low, one)' 'y = Clip(x, z, one)'
	unlike 'y = Clip(x, z, six)' 'y = Clip(x, z, one)'
	unlike 'y = Clip(x, z, six)' 'a = Min(x, z) y = Max(a, six)'
	unlike 'y = Relu(x)' 'y = Max(x, low)'
	unlike 'a = Clip(x, z, six) y = Clip(a, low, one)' 'a = Clip(x, low, six) y = Clip(a, low, one)'
}

@test "A padding is alike by name, by numbers and by a ceil_mode, as far as windows reach" {
	same 'y = MaxPool<kernel_shape=[3,3], auto_pad="SAME_UPPER">(x)' 'y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)'
	same 'y = MaxPool<kernel_shape=[2,2], strides=[2,2], pads=[0,0,1,1]>(x)' 'y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)' 1,4,3,3
	same 'y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)' 'y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1]>(x)' 1,4,3,3
	unlike 'y = MaxPool<kernel_shape=[2,2], auto_pad="SAME_UPPER">(x)' 'y = MaxPool<kernel_shape=[2,2], auto_pad="SAME_LOWER">(x)'
	unlike 'y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(x)' 'y = AveragePool<kernel_shape=[3,3], auto_pad="SAME_UPPER">(x)'
	unlike 'y = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1, count_include_pad=1>(x)' \
		'y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1], count_include_pad=1>(x)' 1,4,3,3
	same 'y = Pad(x, pads)' 'y = Pad(x, pads2, z, hw)' 1,4,8,8
	unlike 'y = Pad(x, pads)' 'y = Pad(x, pads2, one, hw)' 1,4,8,8
}

@test "Channels last are alike to channels first wherever the Transposes stand, and a forgotten one is not" {
	same 't = Transpose<perm=[0,2,3,1]>(x) a = Tanh(t) y = Transpose<perm=[0,3,1,2]>(a)' 'y = Tanh(x)'
	same 't = Transpose<perm=[0,2,3,1]>(x) a = Add(t, four) y = Transpose<perm=[0,3,1,2]>(a)' \
		's = Unsqueeze(four, nhwc) y = Add(x, s)'
	same 't = Transpose<perm=[0,2,3,1]>(x) y = ReduceMean<keepdims=0>(t, nhwc)' 'y = ReduceMean<keepdims=0>(x, hw)' 1,4
	same 't = Transpose<perm=[0,2,3,1]>(x) y = Reshape(t, rows)' 'r = Reshape(x, planes) y = Transpose<perm=[0,2,1]>(r)' 1,36,4
	unlike 't = Transpose<perm=[0,2,3,1]>(x) y = Reshape(t, rows)' 'y = Reshape(x, rows)' 1,36,4
	unlike 't = Transpose<perm=[0,2,3,1]>(x) y = Reshape(t, rows)' 't = Transpose<perm=[0,3,2,1]>(x) y = Reshape(t, rows)' 1,36,4
	unlike 't = Transpose<perm=[0,1,3,2]>(x) y = Tanh(t)' 'y = Tanh(x)'
	unlike 't = Transpose<perm=[0,2,3,1]>(x) a = Softmax<axis=1>(t) y = Transpose<perm=[0,3,1,2]>(a)' 'y = Softmax<axis=3>(x)'
	same 't = Transpose<perm=[0,2,3,1]>(x) a = Softmax<axis=1>(t) y = Transpose<perm=[0,3,1,2]>(a)' 'y = Softmax<axis=2>(x)'
}

@test "Parts of a joined product are alike to products of parts, in their order" {
	same 'a = MatMul(x, both) b, c = Split<axis=-1>(a, parts) y = Sub(b, c)' 'b = MatMul(x, left) c = MatMul(x, right) y = Sub(b, c)' 1,4,6,2
	unlike 'a = MatMul(x, both) b, c = Split<axis=-1>(a, parts) y = Sub(b, c)' 'b = MatMul(x, left) c = MatMul(x, right) d = Neg(c) y = Sub(b, d)' 1,4,6,2
}

@test "Networks that random exporters write differently are alike or not as ONNX Runtime computes them" {
	need_onnx
	python3 -c 'import onnxruntime' 2>/dev/null || skip "python3 has no onnxruntime"
	python3 "$BATS_TEST_DIRNAME/../diff/exporters.py" "$INFER" 1 $(grep -q __asan_init "$INFER" && echo 40 || echo 120) .
}

@test "Operands of a Concat that were swapped are told there, not at the nodes that make them" {
	need_onnx
	python3 - <<-'PYTHON'
		import onnx
		from onnx import TensorProto as T, helper as h
		def save(name, a, b):
		    nodes = [h.make_node(o, [i], [o + i[-1]], name=o + i[-1]) for i in ("x1", "x2") for o in ("Abs",)]
		    nodes += [h.make_node(o, [i + n], [o + n], name=o + n) for n in "12" for i, o in (("Abs", "Sin"), ("Sin", "Tanh"))]
		    nodes += [h.make_node("Concat", [a, b], ["c"], name="concat", axis=0), h.make_node("Neg", ["c"], ["y"], name="last")]
		    ports = [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in (("x1", [4]), ("x2", [4]), ("y", [8]))]
		    onnx.save(h.make_model(h.make_graph(nodes, "g", ports[:2], ports[2:]), opset_imports=[h.make_opsetid("", 17)], ir_version=8), name)
		save("a.onnx", "Tanh1", "Tanh2")
		save("b.onnx", "Tanh2", "Tanh1")
	PYTHON
	run -1 "$INFER" diff a.onnx b.onnx
	[[ $output == *'input 0 (inputs) of Concat  at concat'*'input 1 (inputs) of Concat  at concat'*'operators   2 differences'* ]]
}

@test "Versions of each operator are alike or not as ONNX Runtime computes them" {
	need_onnx
	python3 -c 'import onnxruntime' 2>/dev/null || skip "python3 has no onnxruntime"
	# a sanitized program takes several times as long
	python3 "$BATS_TEST_DIRNAME/../diff/versions.py" "$INFER" . '' $(grep -q __asan_init "$INFER" && echo 5 || echo 1)
}
