#!/usr/bin/env bats
# infer check --compare OTHER.onnx: two models, node by node, where their nodes correspond.

load helper

setup_file() {
	has_onnx || return 0 # setup() skips the tests
	cd "$BATS_FILE_TMPDIR" || return 1
	python3 - <<-'END'
		import numpy as np, onnx
		from onnx import helper as h, numpy_helper as nh, TensorProto as T
		rng = np.random.default_rng(3)
		w = [(rng.standard_normal((8, 8)) / 3).astype("f") for _ in range(3)]
		def value(name, shape=("n", 8)):
		    return h.make_tensor_value_info(name, T.FLOAT, list(shape))
		def model(path, w, name=lambda n: n, ins=("x",), quantized=None):
		    nodes, init = [], [nh.from_array(a, f"w{i}") for i, a in enumerate(w)]
		    at = ins[0]
		    for i in range(3):
		        source = at
		        if quantized is not None:
		            init += [nh.from_array(np.float32(quantized[i]), f"s{i}"), nh.from_array(np.int8(0), f"z{i}")]
		            nodes += [h.make_node("QuantizeLinear", [at, f"s{i}", f"z{i}"], [f"q{i}"], f"quantize{i}"),
		                h.make_node("DequantizeLinear", [f"q{i}", f"s{i}", f"z{i}"], [f"d{i}"], f"dequantize{i}")]
		            source = f"d{i}"
		        nodes += [h.make_node("MatMul", [source, f"w{i}"], [name(f"a{i}")], name(f"product{i}")),
		            h.make_node("Tanh", [name(f"a{i}")], [name(f"b{i}") if i < 2 else "y"], name(f"tanh{i}"))]
		        at = name(f"b{i}")
		    g = h.make_graph(nodes, "g", [value(i) for i in ins], [value("y")], init)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		other = [a.copy() for a in w]
		other[1][2, 3] += 0.5
		model("a.onnx", w)
		model("weight.onnx", other)
		model("renamed.onnx", w, lambda n: "other/" + n)
		model("renamed_weight.onnx", other, lambda n: "other/" + n)
		later = lambda n: n[:-1] + str(int(n[-1]) + 1)
		model("later.onnx", w, later)
		model("later_weight.onnx", other, later)
		model("two.onnx", w, ins=("x", "unused"))
		# a Relu, and what a quantizer makes of it: the range of the zero point -128 has no negative numbers
		x, s, z = [value("x")], nh.from_array(np.float32(0.02), "s"), nh.from_array(np.int8(-128), "z")
		def relu(path, nodes, init):
		    g = h.make_graph(nodes + [h.make_node("MatMul", [nodes[-1].output[0], "w1"], ["y"], "last")], "g", x, [value("y")], init)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		init = [nh.from_array(w[0], "w0"), nh.from_array(w[1], "w1")]
		relu("relu.onnx", [h.make_node("MatMul", ["x", "w0"], ["a"], "first"), h.make_node("Relu", ["a"], ["b"], "relu")], init)
		relu("dropped.onnx", [h.make_node("MatMul", ["x", "w0"], ["b"], "first"),
		    h.make_node("QuantizeLinear", ["b", "s", "z"], ["q"], "quantize"),
		    h.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dequantize")], init + [s, z])
		model("int8.onnx", w, quantized=(1 / 127, 0.2, 1 / 127))
		# attention over the positions before `until`, along an axis
		def attention(path, axis):
		    nodes = [h.make_node("Shape", ["x"], ["size"], "size", start=1, end=2), h.make_node("Squeeze", ["size"], ["n"], "n"),
		        h.make_node("Range", ["zero", "n", "one"], ["at"], "at"), h.make_node("Unsqueeze", ["until", "minus"], ["last"], "last"),
		        h.make_node("Less", ["at", "last"], ["seen"], "seen"), h.make_node("Unsqueeze", ["seen", "single"], ["mask"], "mask"),
		        h.make_node("Transpose", ["x"], ["t"], "turned", perm=[0, 2, 1]), h.make_node("MatMul", ["x", "t"], ["scores"], "scores"),
		        h.make_node("Where", ["mask", "scores", "least"], ["some"], "some"),
		        h.make_node("Softmax", ["some"], ["p"], "soft", axis=axis), h.make_node("MatMul", ["p", "x"], ["y"], "sum")]
		    init = [nh.from_array(np.int64(0), "zero"), nh.from_array(np.int64(1), "one"), nh.from_array(np.array([-1]), "minus"),
		        nh.from_array(np.array([1]), "single"), nh.from_array(np.float32(-np.inf), "least")]
		    g = h.make_graph(nodes, "g", [value("x", ("batch", "n", 8)), h.make_tensor_value_info("until", T.INT64, ["batch"])],
		        [value("y", ("batch", "n", 8))], init)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		# an operator's first output is left out, and its operands are not those that its name has in the other model
		def layers(path, first, second):
		    nodes = [h.make_node("Relu", ["x"], ["a"]), h.make_node("Sigmoid", ["x"], ["b"]),
		        h.make_node("LSTM", [first, "W", "R"], ["", "h1"], "l1", hidden_size=4),
		        h.make_node("LSTM", [second, "W", "R"], ["y2", "h2"], "l2", hidden_size=4), h.make_node("ReduceSum", ["y2"], ["q"], keepdims=0),
		        h.make_node("Add", ["h1", "h2"], ["z0"]), h.make_node("Add", ["z0", "q"], ["z"])]
		    init = [nh.from_array(rng.random((1, 16, 4)).astype("f"), n) for n in ("W", "R")]
		    g = h.make_graph(nodes, "g", [value("x", (3, 1, 4))], [h.make_tensor_value_info("z", T.FLOAT, None)], init)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		layers("ab.onnx", "a", "b")
		layers("ba.onnx", "b", "a")
		# each of eight nodes reads the one before it four times
		at, nodes = "w", []
		for i in range(8):
		    nodes, at = nodes + [h.make_node("Concat", [at] * 4, [f"c{i}"], axis=0)], f"c{i}"
		nodes += [h.make_node("ReduceMax", [at], ["s"], keepdims=0), h.make_node("Max", ["x", "s"], ["y"])]
		g = h.make_graph(nodes, "g", [value("x", (2,))], [value("y", (2,))], [nh.from_array(np.float32([-np.inf]), "w")])
		onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "fours.onnx")
		attention("rows.onnx", -1)
		attention("columns.onnx", -2)
	END
}

setup() {
	need_onnx
	export INFER_DEVICE=cpu
	cd "$BATS_FILE_TMPDIR" || return 1
}

@test "two files of the same model agree, whatever their names are" {
	run -0 "$INFER" check renamed.onnx --compare a.onnx
	[[ $output == *'compare      ok          6 of 6 nodes compared, outputs within '* ]]
}

@test "a changed weight is found in its node, by name and by the order of the operators" {
	run -5 "$INFER" check weight.onnx --compare a.onnx
	[[ $output == *"error[E-COMPARE-NODE]: node 'product1' (MatMul): this model and a.onnx begin to differ in this node"* ]]
	[[ $output != *'later node'* ]]
	run -5 "$INFER" check renamed_weight.onnx --compare a.onnx
	[[ $output == *"error[E-COMPARE-NODE]: node 'other/product1' (MatMul): "* && $output != *'later node'* ]]
}

@test "names that an exporter has numbered otherwise stand for other nodes" {
	run -0 "$INFER" check later.onnx --compare a.onnx
	[[ $output == *' nodes compared, outputs within 0,'* && $output == *'0 errors, 0 warnings'* ]]
	run -5 "$INFER" check later_weight.onnx --compare a.onnx
	[[ $output == *"they begin to differ at 'product2'"* ]]
}

@test "the error of a QuantizeLinear counts to the next node that has a counterpart" {
	run -5 "$INFER" check int8.onnx --compare a.onnx --rtol 0.05
	[[ $output == *"error[E-COMPARE-NODE]: node 'product1' (MatMul): "*"or before"*"2 nodes before it without a counterpart"*"inputs "*"of these nodes together: agree "*"try "*"infer diff int8.onnx a.onnx"* ]]
	run -5 "$INFER" check int8.onnx --compare a.onnx --rtol 0.05 --json
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "compare"]
		own = {n["node"]: n["of_its_own"] for n in c["nodes"]}
		assert set(own) == {f"{k}{i}" for k in ("product", "tanh") for i in range(3)}, own
		assert max(own, key=own.get) == "product1" and own["product1"] > 5 * own["product0"], own
	END
}

@test "a Relu that the quantizer has dropped is no difference" {
	run -0 "$INFER" check dropped.onnx --compare relu.onnx --rtol 0.05
	[[ $output == *'compare      ok          2 of 4 nodes compared, outputs within '* ]]
}

@test "another model needs to be there and to take the same inputs" {
	run -5 "$INFER" check a.onnx --compare two.onnx
	[[ $output == *'the models have different numbers of inputs'* ]]
	run -3 "$INFER" check a.onnx --compare nowhere.onnx
	[[ $output == *'error[E-MODEL-OPEN]'*nowhere.onnx* ]]
}

@test "Sizes that are guessed for a comparison tell axes apart, and lengths leave nothing out" {
	run -0 "$INFER" check rows.onnx
	[[ $output == *"were guessed: 'x [1,1,8]', 'until [1]'"* ]]
	run -0 "$INFER" check rows.onnx --compare rows.onnx --rtol 0.01
	run -5 "$INFER" check columns.onnx --compare rows.onnx
	[[ $output == *"were guessed: 'x [2,16,8]', 'until [2]'"* ]]
	[[ $output == *"they begin to differ at 'soft'"* ]]
	run -0 "$INFER" run rows.onnx --random 0..1 --dim n=5
	[[ $output == *"until i64 [1], 8 bytes, generated: whole lengths; min 5, max 5"* ]]
	# a length of 0 would hide all positions, and the output would be NaN
	run -0 "$INFER" check rows.onnx --nan
	[[ $output == *"0 errors, 0 warnings"* ]]
}

@test "Masks that are generated hide nothing, and integers that are to blame for NaN are named" {
	local way want
	# in PyTorch true hides, or keeps, by the operator
	while IFS='|' read -r way want; do
		echo "<ir_version: 10, opset_import: [\"\": 21]>
		g (float[1,3] x, bool[1,3] hidden) => (float[1,3] y) <float low = {-inf}, float zero = {0}> { $way y = Softmax (s) }" >mask.onnxtxt
		run -0 "$INFER" check mask.onnxtxt --nan
		[[ $output == *"numbers      ok"* ]]
		run -0 "$INFER" run mask.onnxtxt --random
		[[ $output == *"hidden bool [1,3], 3 bytes, generated: all $want (a mask"* ]] || { echo "$way: $output"; return 1; }
	done <<-'END'
		m = Where (hidden, low, zero) s = Add (x, m)|zeros
		m = Where (hidden, zero, low) s = Add (x, m)|ones
		k = Not (hidden) s = Where (k, low, x)|ones
	END
	echo '<ir_version: 10, opset_import: ["": 21]>
		g (float[4,5] x, int64[1] start, int64[1] end) => (float[1,5] y) <int64[1] axis = {0}> { s = Slice (x, start, end, axis) y = ReduceMax (s, axis) }' >slice.onnxtxt
	run -0 "$INFER" check slice.onnxtxt
	[[ $output == *"warning[W-OUT-NAN]"*"'s' has no elements"*"with 0, 1, 2, ... in 'start', 'end', which were generated"* ]]
}

@test "--random for one input leaves the others generated, so that a comparison takes place" {
	run -5 "$INFER" check columns.onnx --compare rows.onnx --random until=3..3 --dim n=4
	[[ $output == *"they begin to differ at 'soft'"* ]]
}

@test "Nodes that an exporter numbered otherwise are compared with those that read the same" {
	need_onnx
	cd "$BATS_TEST_TMPDIR"
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		r = np.random.default_rng(3)
		w = [r.standard_normal((8, 8)).astype(np.float32) for _ in range(2)]
		def save(name, numbers, scale=1):
		    norm = lambda source, k: h.make_node("ReduceL2", [source], [f"norm_{k}"], name=f"norm_{k}", axes=[1])
		    nodes = [
		        h.make_node("MatMul", ["x", "w1"], ["first"], name="first"),
		        h.make_node("MatMul", ["first", "w2"], ["second"], name="second"),
		        norm("first", numbers[0]),
		        norm("second", numbers[1]),
		        h.make_node("Sub", [f"norm_{numbers[0]}", f"norm_{numbers[1]}"], ["y"], name="last"),
		    ]
		    inits = [nh.from_array(w[0], "w1"), nh.from_array(w[1] * np.float32(scale), "w2")]
		    ports = [h.make_tensor_value_info("x", T.FLOAT, [4, 8]), h.make_tensor_value_info("y", T.FLOAT, [4, 1])]
		    onnx.save(h.make_model(h.make_graph(nodes, "g", ports[:1], ports[1:], inits), opset_imports=[h.make_opsetid("", 17)], ir_version=8), name)
		save("a.onnx", (1, 2))
		save("b.onnx", (2, 1))
		save("fault.onnx", (1, 2), 1.5)
	PYTHON
	run "$INFER" check a.onnx --compare b.onnx
	[ "$status" -eq 0 ]
	[[ $output != *COMPARE-NODE* ]]
	run "$INFER" check fault.onnx --compare b.onnx
	[ "$status" -eq 5 ]
	[[ $output == *"E-COMPARE-NODE]: node 'second'"* ]]
}

@test "Two models are compared on inputs of both signs as well" {
	need_onnx
	cd "$BATS_TEST_TMPDIR"
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		def save(name, *ins, op, **attributes):
		    ports = [h.make_tensor_value_info(n, T.FLOAT, [2, 8]) for n in "xy"]
		    inits = [nh.from_array(np.float32(v), n) for n, v in (("low", 0), ("high", 6)) if n in ins]
		    g = h.make_graph([h.make_node(op, ["x", *ins], ["y"], name="node", **attributes)], "g", ports[:1], ports[1:], inits)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name)
		save("leaky1.onnx", op="LeakyRelu", alpha=0.01)
		save("leaky2.onnx", op="LeakyRelu", alpha=0.02)
		save("six.onnx", "low", "high", op="Clip")
		save("open.onnx", "low", op="Clip")
	PYTHON
	run "$INFER" check leaky1.onnx --compare leaky2.onnx
	[ "$status" -eq 5 ]
	[[ $output == *"E-COMPARE-NODE]: node 'node'"*"from -8 to 8"* ]]
	run "$INFER" check six.onnx --compare open.onnx
	[ "$status" -eq 5 ]
	"$INFER" check six.onnx --compare six.onnx
	"$INFER" check leaky1.onnx --compare leaky2.onnx --random 0..1
}

@test "A node without its first output has counterparts, and each reader of a constant is looked at once" {
	run -5 "$INFER" check ba.onnx --compare ab.onnx
	[[ $output == *"they begin to differ at 'l1'"* ]]
	run -0 timeout 60 "$INFER" check fours.onnx
	[[ $output == *"0 errors"* ]]
}

@test "Names stand for other nodes where an exporter counted otherwise, and siblings differ by attributes, bodies and places" {
	cd "$BATS_TEST_TMPDIR"
	python3 - <<-'PYTHON'
		import numpy as np, onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		r = np.random.default_rng(5)
		N = h.make_node
		w = [(r.standard_normal((8, 8)) / 3).astype("f") for _ in range(4)]
		half = [a.astype(np.float16).astype("f") for a in w]
		wrong = [a.copy() for a in w]
		wrong[3][2, 3] += 1
		def port(name, shape=(5, 8), type=T.FLOAT):
		    return h.make_tensor_value_info(name, type, list(shape))
		def save(path, nodes, ins, outs, init=()):
		    g = h.make_graph(nodes, "g", ins, outs, [nh.from_array(np.asarray(a), n) for n, a in init])
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		def chain(path, k, w, front=False):
		    at, nodes = "x", []
		    if front:
		        nodes, at, k = [N("Mul", ["x", "one"], [str(k)], f"Mul_{k}")], str(k), k + 1
		    for i in range(4):
		        nodes += [N("MatMul", [at, f"w{i}"], [str(k)], f"MatMul_{k}"), N("Tanh", [str(k)], [str(k + 1)], f"Tanh_{k + 1}")]
		        at, k = str(k + 1), k + 2
		    save(path, nodes, [port("x")], [port(at)], [("one", np.float32(1))] * front + [(f"w{i}", a) for i, a in enumerate(w)])
		chain("nine.onnx", 9, w)
		chain("ten.onnx", 10, w)
		chain("ten_wrong.onnx", 10, wrong)
		chain("front.onnx", 9, w, True)
		def leaky(path, k):
		    nodes = [N("LeakyRelu", ["x"], [f"{k + i}"], f"L_{k + i}", alpha=a) for i, a in enumerate((0.1, 0.9))]
		    save(path, nodes + [N("Sub", [f"{k}", f"{k + 1}"], ["y"])], [port("x")], [port("y")])
		leaky("leaky0.onnx", 0)
		leaky("leaky1.onnx", 1)
		def branches(path, k):
		    factors = [("two", 2), ("three", 3), ("five", 5), ("seven", 7)]
		    body = lambda c, n: h.make_graph([N("Mul", ["x", c], [f"{c}_{n}"])], c, [], [port(f"{c}_{n}")])
		    nodes = [N("If", ["c"], [f"If_{k + i}"], f"If_{k + i}", then_branch=body(factors[2 * i][0], k), else_branch=body(factors[2 * i + 1][0], k)) for i in range(2)]
		    save(path, nodes + [N("Sub", [f"If_{k}", f"If_{k + 1}"], ["y"])], [port("x"), port("c", (), T.BOOL)], [port("y")], [(n, np.float32(v)) for n, v in factors])
		branches("if0.onnx", 0)
		branches("if1.onnx", 1)
		def attention(path, wq, wk, q="wq", k="wk"):
		    nodes = [N("Tanh", ["x"], ["n"], "norm"), N("MatMul", ["n", q], ["q"], "q_proj"), N("MatMul", ["n", k], ["k"], "k_proj"),
		        N("Transpose", ["k"], ["kt"], "kt", perm=[1, 0]), N("MatMul", ["q", "kt"], ["s"], "scores"), N("Softmax", ["s"], ["p"], "soft"), N("MatMul", ["p", "n"], ["y"], "out")]
		    save(path, nodes, [port("x")], [port("y")], [(q, wq), (k, wk)])
		attention("qk.onnx", w[0], w[1])
		attention("kq.onnx", w[1], w[0])
		attention("m100.onnx", w[0], w[1], "onnx::MatMul_100", "onnx::MatMul_101")
		attention("m101.onnx", half[0], half[1], "onnx::MatMul_101", "onnx::MatMul_102")
		def two(path, inner, out, w):
		    save(path, [N("MatMul", ["x", "w0"], [inner], "mm0"), N("Tanh", [inner], ["t"], "th0"), N("MatMul", ["t", "w1"], [out], "mm1")],
		        [port("x")], [port(out)], [("w0", w[0]), ("w1", w[3])])
		two("inner.onnx", "y", "z", w)
		two("outer.onnx", "h", "y", w)
		two("outer_wrong.onnx", "h", "y", wrong)
	PYTHON
	local pair
	for pair in ten:nine nine:ten front:nine nine:front leaky1:leaky0 if1:if0 m101:m100 outer:inner; do
		run -0 "$INFER" check "${pair%:*}.onnx" --compare "${pair#*:}.onnx"
		[[ $output == *'0 errors, 0 warnings'* ]] || { echo "$pair: $output"; return 1; }
	done
	run -5 "$INFER" check ten_wrong.onnx --compare nine.onnx
	[[ $output == *"E-COMPARE-NODE]: node 'MatMul_16' (MatMul): this model and nine.onnx begin to differ in this node"*"its weight "*"'w3' max diff 1"* && $output != *'later node'* ]]
	run -5 "$INFER" check kq.onnx --compare qk.onnx
	[[ $output == *"E-COMPARE-NODE]: node 'q_proj' (MatMul)"*"its weight "*"'wq' "*"1 later node"* ]]
	run -5 "$INFER" check outer_wrong.onnx --compare inner.onnx
	[[ $output == *"E-COMPARE-NODE]: node 'mm1' (MatMul): this model and inner.onnx begin to differ in this node"* ]]
}

@test "Counterparts are found in time, whatever reads what" {
	cd "$BATS_TEST_TMPDIR"
	python3 - <<-'PYTHON'
		import numpy as np, onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		N = h.make_node
		def save(path, nodes, ins, out, init=()):
		    port = lambda n, t, s: h.make_tensor_value_info(n, t, s)
		    g = h.make_graph(nodes, "g", [port(*i) for i in ins], [port(*out)], init)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
		# each of 64 nodes reads each of 100 inputs
		names = [f"in_{i:05}" for i in range(100)]
		for path, last in ("a.onnx", "s"), ("b.onnx", "r"):
		    nodes = [N("Relu", names[:1], ["r"], "r"), N("Neg", names[:1], ["s"], "s"), N("Add", ["r", "s"], ["rs"], "rs")]
		    nodes += [N("Concat", [*names, last, names[k]], [f"c{k}{last}"], f"n{k}", axis=0) for k in range(64)]
		    save(path, [*nodes, N("Sum", [f"c{k}{last}" for k in range(64)] + ["rs"], ["y"], "sum")], [(n, T.FLOAT, [1]) for n in names], ("y", T.FLOAT, [102]))
		# 3000 nodes read one table
		table = nh.from_array(np.ones((1 << 18, 64), np.float32), "t")
		nodes = [N("Gather", ["t", "i"], [f"g{k}"], f"n{k}") for k in range(3000)]
		save("table.onnx", [*nodes, N("Sum", [f"g{k}" for k in range(3000)], ["y"], "sum")], [("i", T.INT64, [1])], ("y", T.FLOAT, [1, 64]), [table])
	PYTHON
	run -5 timeout 20 "$INFER" check b.onnx --compare a.onnx
	[[ $output == *"E-COMPARE-NODE]: node 'n0' (Concat)"* ]]
	run -0 timeout 20 "$INFER" check table.onnx --compare table.onnx
}
