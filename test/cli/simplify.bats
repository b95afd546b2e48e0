#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer simplify: the model that is written computes the same, bit by bit, with fewer nodes, and is valid ONNX.

load helper

setup() {
	INFER=$(realpath "$INFER")
	data=$(realpath "$BATS_TEST_DIRNAME/../data/run")
	cd "$BATS_TEST_TMPDIR" || return 1
	export INFER_DEVICE=cpu
	sizes=(--dim n=3)
}

# make NAME INPUTS OUTPUTS <<NODES: writes NAME.onnx. NODES is Python, which has node(), weight() and body() for its use.
make() {
	need_onnx
	cat >nodes.py
	python3 - "$@" <<-'PYTHON'
		import sys
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		name, inputs, outputs = sys.argv[1:4]
		nodes, weights, more = [], [], {"opset": 17}
		infos = lambda text: [h.make_tensor_value_info(w.split(":")[0], T.INT64 if "int" in w else T.FLOAT, eval(w.split(":")[1])) for w in text.split(";")]

		def node(op, ins, outs, **keys):
		    nodes.append(h.make_node(op, ins.split(), outs.split(), **keys))

		def weight(name, value):
		    weights.append(nh.from_array(np.asarray(value), name))

		def body(name, op, ins, out, inner=()):
		    made = [h.make_node(*x) for x in inner] + [h.make_node(op, ins.split(), [out])]
		    return h.make_graph(made, name, [], [h.make_tensor_value_info(out, T.FLOAT, None)])

		exec(open("nodes.py").read())
		g = h.make_graph(nodes, "graph of " + name, infos(inputs), infos(outputs), weights)
		m = h.make_model(g, opset_imports=[h.make_opsetid("", more["opset"])], ir_version=8, producer_name="somebody")
		m.metadata_props.add(key="made", value="here")
		for annotation in more.get("annotations", []):
		    m.graph.quantization_annotation.append(annotation)
		if more.get("check", True):
		    onnx.checker.check_model(m, full_check=True)
		onnx.save(m, name + ".onnx")
	PYTHON
}

# Simplifies NAME.onnx as simple.onnx, checks it, and compares all outputs of both. Prints the nodes.
same() { # NAME [OPTION]...; sizes: options of both runs
	"$INFER" simplify "$1.onnx" -o simple.onnx -q "${@:2}"
	for model in "$1" simple; do
		"$INFER" run "$model.onnx" --random -1..1 --seed 3 "${sizes[@]}" --optimize basic -o "out-$model" -q
	done
	diff -r "out-$1" out-simple
	rm -r "out-$1" out-simple
	python3 -c '
import onnx
onnx.checker.check_model("simple.onnx", full_check=True)
for n in onnx.load("simple.onnx").graph.node:
    print(n.name, n.op_type, "(" + ",".join(n.input) + ")", ",".join(n.output))' >nodes
	cat nodes
}

is() { # TEXT: the nodes that same() has printed
	diff <(printf '%s\n' "$1") nodes
}

initializers() {
	python3 -c 'import onnx; print(*sorted(t.name for t in onnx.load("simple.onnx").graph.initializer))'
}

@test "Constants are folded, and what changes nothing, is computed twice or read by nobody goes" {
	make net 'x:["n",4]' 'y:["n",1,4];z:["n",4]' <<-'NODES'
		weight("w", np.arange(16, dtype=np.float32).reshape(4, 4))
		weight("unused", np.ones(3, np.float32))
		weight("flat", np.array([-1, 2], np.int64))
		weight("square", np.array([-1, 1, 4], np.int64))
		node("Constant", "", "two", value_float=2.0)
		node("Mul", "w two", "w2", name="scale")
		node("Identity", "x", "x1", name="id")
		node("MatMul", "x1 w2", "m", name="product")
		node("MatMul", "x w2", "m2", name="product again")
		node("Reshape", "m2 flat", "r", name="flat")
		node("Reshape", "r square", "r2", name="back")
		node("Cast", "r2", "c", name="cast", to=T.FLOAT)
		node("Dropout", "c", "d mask", name="dropout")
		node("Elu", "d", "y", name="last", alpha=0.5)
		node("Add", "m m2", "z", name="sum")
		node("Neg", "m", "nobody", name="needless")
	NODES
	same net
	# 'back' reads what 'flat' has read: a Reshape of a Reshape
	is "product MatMul (x,w2) m
back Reshape (m,square) r2
last Elu (r2) y
sum Add (m,m) z"
	[ "$(initializers)" = "square w2" ]
	run -0 "$INFER" simplify net.onnx -o simple.onnx --json
	[ "$(jq -c '[.nodes, .nodes_before, .initializers, .folded, .inputs, .outputs, .path]' <<<"$output")" = '[4,11,2,1,["x"],["y","z"],"simple.onnx"]' ]
	python3 -c '
import onnx
a, b = onnx.load("net.onnx"), onnx.load("simple.onnx")
assert a.opset_import == b.opset_import and a.producer_name == b.producer_name and a.metadata_props == b.metadata_props
assert list(a.graph.input) == list(b.graph.input) and list(a.graph.output) == list(b.graph.output) and a.graph.name == b.graph.name
assert [n.attribute for n in a.graph.node if n.name == "last"] == [n.attribute for n in b.graph.node if n.name == "last"]'
}

@test "--dim and --shape fix shapes, which are computed then" {
	make net 'x:["n",3,"w"];k:["n"]' 'y:["n",None];z:["n"]' <<-'NODES'
		weight("zero", np.array(0, np.int64))
		weight("axis", np.array([0], np.int64))
		weight("rest", np.array([-1], np.int64))
		node("Shape", "x", "s", name="shape")
		node("Gather", "s zero", "b", name="first")
		node("Unsqueeze", "b axis", "b1", name="list")
		node("Concat", "b1 rest", "t", name="target", axis=0)
		node("Relu", "x", "a", name="relu")
		node("Reshape", "a t", "y", name="flat")
		node("Neg", "k", "z", name="neg")
	NODES
	sizes=(--shape x=3x3x5 --shape k=3)
	same net
	[ "$(wc -l <nodes)" = 7 ]
	same net --dim n=3 --dim x.w=5
	is "relu Relu (x) a
flat Reshape (a,t) y
neg Neg (k) z"
	shapes='import onnx; g = onnx.load("simple.onnx").graph
print([[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*g.input, *g.output]])'
	[ "$(python3 -c "$shapes")" = "[[3, 3, 5], [3], [3, 15], [3]]" ]
	same net --shape x=3x3x5
	[ "$(python3 -c "$shapes")" = "[[3, 3, 5], [3], [3, 15], [3]]" ]
	# what is not fixed stays free
	same net --dim x.w=5
	[ "$(python3 -c "$shapes")" = "[['n', 3, 5], ['n'], ['n', 15], ['n']]" ]
	fails_with 4 "--dim m=1" simplify net.onnx -o no.onnx --dim m=1
	fails_with 4 "--shape" simplify net.onnx -o no.onnx --shape x=3x4x5
	[ ! -e no.onnx ]
}

@test "Outputs keep their names: also one that is a copy, a constant or an input" {
	make net 'x:["n",4]' 'c:[4];c2:[4];w1:[4];y:["n",4];y2:["n",4];x1:["n",4];z:["n",4];parts:["n",2];tail:["n",2]' <<-'NODES'
		weight("w", np.arange(4, dtype=np.float32))
		node("Add", "w w", "c", name="constant")
		node("Identity", "c", "c2", name="constant again")
		node("Identity", "w", "w1", name="weight")
		node("Relu", "x", "a", name="relu")
		node("Identity", "a", "y", name="copy")
		node("Identity", "a", "y2", name="second copy")
		node("Identity", "x", "x1", name="input")
		node("Split", "a", "parts rest", name="split", axis=1)
		node("Identity", "rest", "tail", name="copy of a second output")
		node("Add", "a c2", "z", name="sum")
	NODES
	same net
	is "relu Relu (x) y
second copy Identity (y) y2
input Identity (x) x1
split Split (y) parts,tail
sum Add (y,c2) z"
	[ "$(initializers)" = "c c2 w1" ]
}

@test "Bodies stay as they are, but for the names that they capture" {
	make net 'x:["n",4];k:[1]:int' 'y:["n",4];z:["n",4]' <<-'NODES'
		weight("w", np.arange(4, dtype=np.float32))
		node("Identity", "x", "a", name="copy")
		node("Mul", "w w", "v", name="square")
		node("Abs", "x", "p", name="abs")
		node("Abs", "x", "q", name="abs again")
		node("Cast", "k", "c1", name="cond", to=T.BOOL)
		node("Squeeze", "c1", "c", name="scalar")
		then = body("then", "Add", "a t", "o", [("Add", ["q", "v"], ["t"])])
		other = body("else", "Identity", "a", "e")
		node("If", "c", "i", name="choice", then_branch=then, else_branch=other)
		deep = body("deep", "If", "c", "u")
		deep.node[0].attribute.extend([h.make_attribute("then_branch", body("a", "Sub", "q v", "f")), h.make_attribute("else_branch", body("b", "Neg", "q", "f2"))])
		node("If", "c", "z", name="nested", then_branch=deep, else_branch=body("c", "Add", "p a", "g"))
		node("Add", "i p", "y", name="sum")
	NODES
	same net
	is "abs Abs (x) p
cond Cast (k) c1
scalar Squeeze (c1) c
choice If (c) i
nested If (c) z
sum Add (i,p) y"
	[ "$(initializers)" = v ]
	python3 -c '
import onnx
n = {n.name: n for n in onnx.load("simple.onnx").graph.node}
a = {a.name: a.g for a in n["choice"].attribute}
assert list(a["then_branch"].node[0].input) == ["p", "v"] and list(a["then_branch"].node[1].input) == ["x", "t"], a
assert list(a["else_branch"].node[0].input) == ["x"]
inner = {b.name: b.g for b in {a.name: a.g for a in n["nested"].attribute}["then_branch"].node[0].attribute}
assert list(inner["then_branch"].node[0].input) == ["p", "v"], inner'
}

@test "The branch that an If of constant condition takes is put in its place" {
	make net 'x:["n",4];k:[]:int' 'y:["n",4];z:["n",4];outer:["n",4];weight:[4];twice:["n",4];again:["n",4]' <<-'NODES'
		more["check"] = False  # it refuses a branch whose output is a value from outside, which exporters write
		weight("yes", np.array(True))
		weight("two", np.array(2, np.int64))
		node("Shape", "x", "s", name="shape")
		node("Size", "s", "rank", name="rank")
		node("Equal", "rank two", "is", name="flat")  # constant: the rank is known
		node("Abs", "x", "t", name="abs")
		w = nh.from_array(np.arange(4, dtype=np.float32), "w")
		def branch(name, outs, *inner, weights=()):
		    made = [h.make_node(op, i.split(), o.split(), name=title) for op, i, o, title in inner]
		    return h.make_graph(made, name, [], [h.make_tensor_value_info(o, T.FLOAT, None) for o in outs.split()], weights)
		other = branch("other", "v", ("Neg", "x", "v", "neg"))
		# both use the names u and v, which must not meet; the node's name 'abs' is taken
		node("If", "is", "y", name="first", then_branch=branch("a", "v", ("Mul", "t w", "u", "scale"), ("Exp", "u", "v", "abs"), weights=[w]), else_branch=other)
		deep = h.make_graph([h.make_node("Add", ["x", "t"], ["u"], name="sum"),
		    h.make_node("If", ["yes"], ["v"], name="deeper", then_branch=branch("b", "d", ("Sub", "u t", "d", "less")), else_branch=branch("c", "d2", ("Neg", "u", "d2", "")))],
		    "deep", [], [h.make_tensor_value_info("v", T.FLOAT, None)])
		node("If", "is", "z", name="second", then_branch=deep, else_branch=other)
		# outputs that are a value from outside, an initializer, and one value twice
		node("If", "yes", "outer weight", name="passed", then_branch=branch("d", "t w", weights=[w]), else_branch=branch("e", "n m", ("Neg", "x", "n", ""), ("Neg", "t", "m", "")))
		node("If", "yes", "twice again", name="double", then_branch=branch("f", "q q", ("Cos", "x", "q", "cos")), else_branch=branch("g", "n m", ("Neg", "x", "n", ""), ("Neg", "t", "m", "")))
	NODES
	same net
	! grep -q ' If ' nodes
	is "abs Abs (x) outer
scale Mul (outer,w_1) u_1
first/abs Exp (u_1) y
sum Add (x,outer) u
less Sub (u,outer) z
cos Cos (x) twice
again Identity (twice) again"
	python3 -c '
import onnx
g = onnx.load("simple.onnx").graph
made = [o for n in g.node for o in n.output] + [t.name for t in g.initializer] + [i.name for i in g.input]
assert len(made) == len(set(made)), made
assert len({n.name for n in g.node}) == len(g.node)'
	run -0 "$INFER" simplify net.onnx -o simple.onnx --json
	[ "$(jq .nodes_before <<<"$output")" = 8 ]
}

@test "A branch that folding or the graph around a body decides on is put in its place, in bodies too" {
	make net 'x:["n",4]' 'y:["n",4];z:["n",4];v:["n",4];u:["n",4]' <<-'NODES'
		weight("yes", np.array(True))
		weight("two", np.array(2, np.float32))
		weight("three", np.array(3, np.float32))
		weight("turns", np.array(3, np.int64))
		w = nh.from_array(np.arange(4, dtype=np.float32), "w")
		info = lambda name, type=T.FLOAT, shape=None: h.make_tensor_value_info(name, type, shape)
		def graph(name, ins, outs, *inner, weights=()):
		    return h.make_graph(list(inner), name, ins, [info(o) for o in outs.split()], weights)
		def inner(op, i, o, title="", **more):
		    return h.make_node(op, i.split(), o.split(), name=title, **more)
		def choice(c, o, title, then, other):
		    return inner("If", c, o, title, then_branch=then, else_branch=other)
		never = graph("never", [], "q", inner("Neg", "x", "q"))
		node("Sqrt", "three", "root", name="root")
		node("Less", "root two", "less", name="small")
		node("Not", "less", "no", name="large")
		node("ReduceSum", "x", "sum", name="sum", keepdims=0)
		node("Less", "sum two", "c", name="asked")
		scaled = graph("scaled", [], "t", inner("Mul", "x w", "p", "scale"), inner("Exp", "p", "t", "power"), weights=[w])
		nodes.append(choice("no", "y", "top", never, scaled))
		# the names p, q, t and w are used again, and w is another one outside of the branch; a branch gives an initializer
		deep = graph("deep", [], "r", inner("Add", "a w", "p", "more"), choice("no", "t", "inmost", never, graph("d", [], "q", inner("Sub", "p x", "q", "less by"))),
		    choice("c", "r", "stays", graph("e", [], "q", inner("Abs", "t", "q")), graph("f", [], "q", inner("Mul", "t p", "q"))), weights=[w])
		turn = graph("turn", [info("i", T.INT64, []), info("go", T.BOOL, []), info("a")], "on b", inner("Identity", "go", "on", "on"), inner("Cos", "a", "w", "wave"),
		    choice("yes", "r", "first", deep, never), choice("less", "s", "second", scaled, never), choice("yes", "k", "third", graph("g", [], "w", weights=[w]), never),
		    inner("Sum", "r s k", "d", "add"), inner("Add", "d w", "b", "last"))
		turn.output[0].CopyFrom(info("on", T.BOOL, []))
		node("Loop", "turns yes x", "z", name="loop", body=turn)
		nodes.append(choice("c", "v", "outer", graph("h", [], "q", inner("Tanh", "x", "q")), graph("k", [], "q", choice("no", "q", "inner", never, scaled))))
		node("Scan", "x", "u", name="scan", num_scan_inputs=1, body=graph("row", [info("r", shape=[4])], "q", choice("less", "q", "row", graph("m", [], "q", inner("Floor", "r", "q")), graph("o", [], "q", inner("Ceil", "r", "q")))))
		more["check"] = False  # q is an output of a body and a value of a branch in it, which runtimes take
	NODES
	same net
	python3 -c '
import onnx, onnxruntime as ort, numpy as np
m = onnx.load("simple.onnx")
def each(g, depth=0):
    for n in g.node:
        yield depth, n
        for a in n.attribute:
            if a.HasField("g"):
                yield from each(a.g, depth + 1)
ifs = [(d, n.name) for d, n in each(m.graph) if n.op_type == "If"]
assert ifs == [(1, "stays"), (0, "outer")], ifs
assert not any(n.op_type in ("Neg", "Ceil", "Sqrt") for d, n in each(m.graph))
def bits(path, x):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return [y.tobytes() for y in ort.InferenceSession(path, o).run(None, {"x": x})]
for seed in range(4):
    x = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
    assert bits("net.onnx", x) == bits("simple.onnx", x), seed'
}

@test "A taken branch may give sequences and pass on those from outside" {
	make net 'x:["n",4]' 'y:["n",4];z:["n",4];w:["n",4]' <<-'NODES'
		more["check"] = False  # a branch whose output is a value from outside
		weight("yes", np.array(True))
		weight("i", np.array(1, np.int64))
		seq = lambda name: h.make_tensor_sequence_value_info(name, T.FLOAT, None)
		node("SequenceConstruct", "x x", "held", name="hold")
		made = h.make_graph([h.make_node("Abs", ["x"], ["u"], name="abs"), h.make_node("SequenceConstruct", ["x", "u"], ["s"], name="pair")], "a", [], [seq("s"), seq("held")])
		other = h.make_graph([h.make_node("SequenceConstruct", ["x"], ["s2"]), h.make_node("SequenceConstruct", ["x"], ["s3"])], "b", [], [seq("s2"), seq("s3")])
		node("If", "yes", "first second", name="choose", then_branch=made, else_branch=other)
		node("SequenceAt", "first i", "y", name="take")
		node("SequenceAt", "second i", "z", name="held")
		node("SequenceAt", "first i", "w", name="again")
	NODES
	same net
	! grep -q ' If ' nodes
	is "hold SequenceConstruct (x,x) held
abs Abs (x) u
pair SequenceConstruct (x,u) first
take SequenceAt (first,i) y
held SequenceAt (held,i) z
again SequenceAt (first,i) w"
}

@test "An If that stays in a taken branch captures the branch's values by their new names" {
	make net 'x:["n",4];k:[]:int' 'y:["n",4]' <<-'NODES'
		weight("yes", np.array(True))
		node("Cast", "k", "c", name="cond", to=T.BOOL)
		node("Neg", "x", "u", name="taken name")
		keep = h.make_node("If", ["c"], ["r"], name="stays", then_branch=body("a", "Add", "v t", "o", [("Mul", ["v", "x"], ["t"])]), else_branch=body("b", "Abs", "v", "e"))
		then = h.make_graph([h.make_node("Sin", ["x"], ["v"], name="sin"), keep], "then", [], [h.make_tensor_value_info("r", T.FLOAT, None)])
		node("If", "yes", "i", name="goes", then_branch=then, else_branch=body("c", "Neg", "x", "v"))
		other = h.make_graph([h.make_node("Cos", ["x"], ["v"], name="cos"), h.make_node("Add", ["v", "u"], ["w"], name="sum")], "then", [], [h.make_tensor_value_info("w", T.FLOAT, None)])
		node("If", "yes", "j", name="goes too", then_branch=other, else_branch=body("d", "Neg", "x", "v"))
		node("Add", "i j", "y", name="last")
	NODES
	same net
	[ "$(grep -c ' If ' nodes)" = 1 ]
	grep -q '^sin Sin (x) v_1$' nodes
	grep -q '^cos Cos (x) v$' nodes
	python3 -c '
import onnx
n = next(n for n in onnx.load("simple.onnx").graph.node if n.op_type == "If")
a = {a.name: a.g for a in n.attribute}
assert [list(m.input) for m in a["then_branch"].node] == [["v_1", "x"], ["v_1", "t"]] and list(a["else_branch"].node[0].input) == ["v_1"]'
}

@test "A name that a body defines itself is given to nothing outside; random values stay apart; quantized weights stay so" {
	make net 'x:["n",4];k:[]:int' 'y:["n",4];r:[2];s:["n",4]' <<-'NODES'
		weight("q", np.arange(-8, 8, dtype=np.int8).reshape(4, 4))
		weight("scale", np.float32(0.5))
		weight("zero", np.int8(1))
		weight("shape", np.array([4096], np.int64))
		node("Abs", "x", "t", name="outer")
		node("Abs", "x", "u", name="outer again")
		node("Cast", "k", "c", name="cond", to=T.BOOL)
		then = body("then", "Add", "u t2", "o", [("Neg", ["u"], ["t2"])])
		other = body("else", "Identity", "u", "e")
		node("If", "c", "y", name="choice", then_branch=then, else_branch=other)
		node("RandomNormal", "", "r1", name="dice", shape=[2], seed=1.0)
		node("RandomNormal", "", "r2", name="dice again", shape=[2], seed=1.0)
		node("Sub", "r1 r2", "r", name="difference")
		node("DequantizeLinear", "q scale zero", "d", name="weights")
		node("MatMul", "t d", "m", name="product")
		node("ConstantOfShape", "shape", "many", name="filled")
		node("ReduceSum", "many", "sum", name="no sum", keepdims=0)
		node("Add", "m sum", "s", name="last")
	NODES
	same net
	grep -q '^dice RandomNormal' nodes
	grep -q '^dice again RandomNormal' nodes
	grep -q '^weights DequantizeLinear (q,scale,zero) d$' nodes
	grep -q '^last Add (m,sum) s$' nodes
	! grep -q 'outer again\|filled' nodes
	[ "$(stat -c %s simple.onnx)" -lt 3000 ]
}

@test "Weights in the model's own file, in nodes or in small pieces, are never in memory together" {
	need_onnx
	nm "$INFER" | grep -q __asan_init && skip "AddressSanitizer has memory of its own"
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		for name, size, layers in ("small", 224, 450), ("middle", 640, 56):  # 88 MiB each
		    nodes, weights, last = [], [], "x"
		    for i in range(layers):
		        w = nh.from_array(np.full((size, size), i, np.float32), f"{'weight' if i % 3 else 'w'}{i}")
		        if i % 2:
		            weights.append(w)
		        else:
		            nodes.append(h.make_node("Constant", [], [w.name], value=w))
		        nodes.append(h.make_node("MatMul", [last, w.name], [f"y{i}"]))
		        last = f"y{i}"
		    info = lambda name: h.make_tensor_value_info(name, T.FLOAT, [1, size])
		    g = h.make_graph(nodes, "g", [info("x")], [info(last)], weights)
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
	PYTHON
	# 14,000 nodes, with weights that equal one another by their hash's low bits only now and then
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		values = np.random.default_rng(1).standard_normal((14000, 256), dtype=np.float32)
		name = lambda i: f"/layers.{i}/attention/out"
		nodes = [h.make_node("Add", [name(i - 1) if i else "x", f"layers.{i}.weight"], [name(i)], f"/layers.{i}/Add") for i in range(len(values))]
		info = lambda name: h.make_tensor_value_info(name, T.FLOAT, [1, 256])
		weights = [nh.from_array(w, f"layers.{i}.weight") for i, w in enumerate(values)]
		g = h.make_graph(nodes, "g", [info("x")], [info(nodes[-1].output[0])], weights)
		onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "many.onnx")
	PYTHON
	for form in onnxtxt json; do
		"$INFER" convert many.onnx many.$form
		"$INFER" convert middle.onnx middle.$form
	done
	for model in small.onnx middle.onnx many.onnx many.onnxtxt many.json middle.onnxtxt middle.json; do
		for words in "extract $model -o new.onnx" "simplify $model -o new.onnx" "convert $model new.onnx"; do
			[[ $model != *.onnx && $words = extract* ]] && continue
			python3 - "$INFER" $words -q >peak <<-'PYTHON'
				import resource, subprocess, sys
				subprocess.run(sys.argv[1:], check=True)
				print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
			PYTHON
			# 1.2 times the largest tensor (0.2 and 1.6 MiB) and 64 MiB
			[ "$(cat peak)" -lt $((64 << 10)) ] || { echo "$words: $(cat peak) KiB"; return 1; }
		done
		mv new.onnx "$model.new"
	done
	python3 -c '
import onnx
for a, b in ("many", "json"), ("middle", "onnxtxt"), ("middle", "json"):
    assert onnx.load(f"{a}.onnx.new") == onnx.load(f"{a}.{b}.new"), (a, b)'
}

@test "Weights of any size take no memory: --external, and without them --strip-weights" {
	need_onnx
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		n, layers = 2048, 12  # 16 MiB each
		weights, nodes, last = [nh.from_array(np.ones(n, np.float32), "one")], [], "x"
		with open("large.bin", "wb") as f:
		    f.truncate(n * n * 4 * layers)
		    for i in range(layers):
		        t = onnx.TensorProto(name=f"w{i}", data_type=T.FLOAT, dims=[n, n], data_location=1)
		        for k, v in ("location", "large.bin"), ("offset", str(i * n * n * 4)), ("length", str(n * n * 4)):
		            t.external_data.add(key=k, value=v)
		        f.seek(i * n * n * 4)
		        f.write(np.eye(8, n, i, dtype=np.float32).tobytes())
		        weights.append(t)
		        nodes += [h.make_node("Identity", [last], [f"i{i}"]), h.make_node("MatMul", [f"i{i}", f"w{i}"], [f"m{i}"]), h.make_node("Add", ["one", "one"], [f"b{i}"]), h.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"])]
		        last = f"a{i}"
		info = lambda name: h.make_tensor_value_info(name, T.FLOAT, ["n", n])
		g = h.make_graph(nodes, "g", [info("x")], [info(last)], weights)
		onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "large.onnx")
	PYTHON
	mkdir new
	python3 - "$INFER" >peak <<-'PYTHON'
		import resource, subprocess, sys
		subprocess.run([sys.argv[1], "simplify", "large.onnx", "-o", "new/simple.onnx", "--external", "-q"], check=True)
		print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	PYTHON
	# 1.2 times the largest tensor and 64 MiB; all weights together have 192
	nm "$INFER" | grep -q __asan_init || [ "$(cat peak)" -lt $((83 << 10)) ] || { cat peak; return 1; }
	python3 -c '
import onnx
onnx.checker.check_model("new/simple.onnx", full_check=True)
m = onnx.load("new/simple.onnx", load_external_data=False)
assert len(m.graph.node) == 24 and len(m.graph.initializer) == 24
places = [{e.key: e.value for e in t.external_data} for t in m.graph.initializer]
assert {p["location"] for p in places} == {"simple.onnx.data"} and all(int(p["offset"]) % 4096 == 0 for p in places)'
	for model in large new/simple; do
		"$INFER" run $model.onnx --random 0..1 --dim n=1 --optimize basic -o "out/$(basename $model)" -q
	done
	diff -r out/large out/simple

	"$INFER" simplify large.onnx -o bare.onnx --strip-weights -q
	[ "$(stat -c %s bare.onnx)" -lt 8000 ]
	[ ! -e bare.onnx.data ]
	run -3 "$INFER" inspect bare.onnx
	[[ $output == *"the data of 24 are missing"* ]]
	fails_with 3 "bare.onnx.data" run bare.onnx --random 0..1 --dim n=1
	cp new/simple.onnx.data bare.onnx.data # the file of the weights is all that it lacks
	"$INFER" run bare.onnx --random 0..1 --dim n=1 --optimize basic -o out/bare -q
	diff -r out/large out/bare
	"$INFER" simplify large.onnx -o bare.onnx --strip-weights --external=other.bin -q
	[ ! -e other.bin ]
	grep -q other.bin bare.onnx
	mkdir elsewhere && mv large.bin elsewhere
	fails_with 3 large.bin simplify large.onnx -o new/again.onnx --external
	"$INFER" simplify large.onnx -o new/again.onnx --external -q --external-root elsewhere
	cmp new/simple.onnx.data new/again.onnx.data
	mv elsewhere/large.bin .
	"$INFER" simplify large.onnx -o - --strip-weights -q >piped.onnx
	grep -q model.onnx.data piped.onnx
}

@test "What cannot be simplified is refused, and nothing is written" {
	"$INFER" simplify "$data/work.onnx" -o same.onnx -q # needs no Python
	out=$("$INFER" run "$data/work.onnx" --random -1..1 --dim n=2 --json -q --optimize basic | jq -c '.outputs[] | del(.path)')
	[ "$out" = "$("$INFER" run same.onnx --random -1..1 --dim n=2 --json -q --optimize basic | jq -c '.outputs[] | del(.path)')" ]
	"$INFER" simplify - -o - -q <"$data/work.onnx" | cmp - same.onnx
	cp same.onnx in_place.onnx
	"$INFER" simplify in_place.onnx -o in_place.onnx -q
	cmp same.onnx in_place.onnx
	fails_with 2 "--save: no file is named for the model" simplify same.onnx
	fails_with 2 "--external" simplify same.onnx -o - --external
	fails_with 2 "no name of another file" simplify same.onnx -o p.onnx --external=p.onnx
	fails_with 3 absent.onnx simplify absent.onnx -o p.onnx
	fails_with 10 folder simplify same.onnx -o folder/p.onnx
	head -c 100 same.onnx >cut.onnx
	fails_with 3 cut.onnx simplify cut.onnx -o p.onnx
	[ ! -e p.onnx ]
}

@test "A factor near 1 is no 1" {
	make net 'x:["n",4]' 'a:["n",4];b:["n",4];c:["n",4];d:["n",4]' <<-'NODES'
		weight("near", np.float32(1.00005))
		weight("one", np.float32(1))
		for op, out in ("Mul", "a"), ("Div", "b"), ("Pow", "c"):
		    node(op, "x near", out + "1", name=op)
		    node("Neg", out + "1", out, name="negative " + op)
		node("Mul", "x one", "d1", name="one")
		node("Neg", "d1", "d", name="negative")
	NODES
	same net
	[ "$(grep -c near nodes)" = 3 ]
	! grep -q "one" nodes
	"$INFER" run net.onnx --input 'x=[[1000,1000,1000,1000]]' --optimize basic --print 1 -q --output a >printed
	grep -q -- '-1000.0' printed && ! grep -qx -- '-1000' printed
}

@test "An input with a default value is told by inspect, and by what makes it a constant" {
	cat >with_default.onnxtxt <<-'TEXT'
		<ir_version: 8, opset_import: ["": 17]>
		g (float[n,4] x, float[4] w) => (float[n,4] y) <float[4] w = {1,2,3,4}> {
		 a = Mul(x, w)
		 y = Relu(a)
		}
	TEXT
	"$INFER" convert with_default.onnxtxt -o with_default.onnx
	run -0 "$INFER" inspect with_default.onnx
	[[ $output == *"defaults    w  (inputs that have a value if none is given)"* ]]
	for words in "simplify with_default.onnx -o s.onnx" "extract with_default.onnx --to a -o s.onnx"; do
		run -0 "$INFER" $words
		[[ $output == *"note[N-MODEL-FOLD]"*"inputs that have default values: w: constants in the model that is written"* ]]
	done
	run -0 "$INFER" simplify s.onnx -o t.onnx
	[[ $output != *"default"* ]]
}

@test "Operators that nobody knows are left as they are, and so are the readers of their results" {
	cat >odd.onnxtxt <<-'TEXT'
		<ir_version: 8, opset_import: ["" : 17, "com.vendor" : 1]>
		g (float[n,4] x) => (float[n,4] y, float[n,4] z) {
		 t = Constant <value = bool {1}> ()
		 one = Constant <value_float = 1.0> ()
		 two = Add(one, one)
		 x0 = Identity(x)
		 [each] b = com.vendor.Each <body = q (float[n,4] e) => (float[n,4] r) { r = Add(e, x0) }> (x0, , two)
		 [same] b0 = com.vendor.Each (x0, , two)
		 [shape] s = Shape(b)
		 [reshape] y = Reshape(b0, s)
		 z = If (t) <then_branch = p () => (float[n,4] v) { v = com.vendor.Fancy(x0) }, else_branch = d () => (float[n,4] w) { w = Relu(x) }>
		}
	TEXT
	"$INFER" convert odd.onnxtxt -o odd.onnx
	run -0 "$INFER" simplify odd.onnx -o odd2.onnx
	[[ $output == *"5 nodes of 7"*"note[N-OP-UNSUPPORTED]: odd.onnx: 2 operators, of 3 nodes, that this build cannot run: they are left as they are"* ]]
	"$INFER" convert odd2.onnx odd2.onnxtxt
	for text in 'com.vendor.Each (x, "", two) <body' 'r = Add (e, x)' 'b0 = com.vendor.Each (x, "", two)' \
		's = Shape (b)' 'y = Reshape (b0, s)' 'z = com.vendor.Fancy (x)' 'two = {2.0}'; do
		grep -qF "$text" odd2.onnxtxt || { echo "$text"; cat odd2.onnxtxt; return 1; }
	done
	# what is wrong elsewhere is still told by the commands that run a model
	run -3 "$INFER" check odd2.onnx
}
