#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer convert: what onnx and protobuf read from our files is the model, and what they write is read by us.

load helper

setup() {
	INFER=$(realpath "$INFER")
	cd "$BATS_TEST_TMPDIR" || return 1
}

# all.onnx: names that need quotes, every element type, bodies, functions, awkward numbers; notes.onnx: fields beside the text form
models() {
	need_onnx
	cat >same.py <<-'PYTHON'
		import onnx
		from onnx import numpy_helper as nh

		def tensor(t, named):
		    data = tuple(t.string_data) if t.data_type == 8 else nh.to_array(t).tobytes()
		    return tuple(t.dims), t.data_type, data, t.name if named else ""

		def attribute(a):
		    if a.type == onnx.AttributeProto.TENSOR:
		        return a.name, tensor(a.t, False)
		    if a.type == onnx.AttributeProto.GRAPH:
		        return a.name, graph(a.g)
		    return a.SerializeToString(deterministic=True)

		def node(n):
		    return n.op_type, n.domain, n.overload, n.name, tuple(n.input), tuple(n.output), [attribute(a) for a in n.attribute]

		def graph(g):
		    infos = [[v.SerializeToString() for v in list] for list in (g.input, g.output, g.value_info)]
		    return [tensor(t, True) for t in g.initializer], infos, [node(n) for n in g.node]

		def function(f):
		    return (f.name, f.domain, list(f.input), list(f.output), list(f.attribute), [attribute(a) for a in f.attribute_proto],
		            [node(n) for n in f.node], list(f.opset_import))

		# the model without what the text form leaves open: names of bodies and of tensors in attributes, and how data are stored
		def meaning(m):
		    return (m.ir_version, m.producer_name, m.doc_string, list(m.opset_import), list(m.metadata_props), m.graph.name,
		            graph(m.graph), [function(f) for f in m.functions])
	PYTHON
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		value = h.make_tensor_value_info
		rng = np.random.default_rng(1)
		inits = []
		for kind in range(1, T.DataType.Value("INT2") + 1):
		    if kind == T.STRING:
		        inits.append(h.make_tensor("strings", kind, [3], [b"", b'a "quoted" \\ one', "z\u00e4hl\n".encode()]))
		        continue
		    dtype = h.tensor_dtype_to_np_dtype(kind)
		    bytes = rng.integers(0, 256, 64, np.uint8).tobytes()
		    if kind == T.BOOL:
		        bytes = rng.integers(0, 2, 8, np.uint8).tobytes()
		    size = 2 if kind in (T.INT2, T.UINT2) else 4 if kind in (T.INT4, T.UINT4, T.FLOAT4E2M1) else 8 * dtype.itemsize
		    inits.append(T(name=f"type/{kind}", data_type=kind, dims=[len(bytes) * 8 // size], raw_data=bytes))
		awkward = np.array([0.0, -0.0, 1e-45, -1e-38, 3.4028235e38, np.inf, -np.inf, np.nan, 0.1, 1 / 3, 16777217], np.float32)
		inits.append(nh.from_array(awkward, "awkward"))
		inits.append(h.make_tensor("typed", T.FLOAT, [11], awkward))
		inits.append(nh.from_array(np.array([5e-324, -0.0, 0.1, 1e308]), "double"))
		inits.append(nh.from_array(np.array([-(2**63), 2**63 - 1]), "wide"))
		inits.append(nh.from_array(np.zeros((0, 3), np.float32), "none"))
		inits.append(nh.from_array(np.array(7, np.int64), "scalar"))
		for i in inits:
		    nh.to_array(i) if i.data_type != T.STRING else None

		then = h.make_graph([h.make_node("Neg", ["x"], ["t out"])], "then/1", [], [value("t out", T.FLOAT, None)])
		other = h.make_graph([h.make_node("Abs", ["x"], ["o"], name="inner abs")], "float", [], [value("o", T.FLOAT, ["n", 2])],
		                     [nh.from_array(np.ones(2, np.float32), "k")])
		nodes = [
		    h.make_node("Greater", ["sum", "zero"], ["c"]),
		    h.make_node("If", ["c"], ["y/1"], name="a.choice", then_branch=then, else_branch=other),
		    h.make_node("Twice", ["y/1"], ["d"], domain="my.own", overload="", k=2),
		    h.make_node("Clip", ["d", "", "zero"], ["nan"], name="float"),
		    h.make_node("Attributes", ["nan"], ["e", "", "f"], domain="com.example", a=1, b=-1.5, c="s \"q\"", d=[1, -2], e=[1.0, float("-inf"), 0.1],
		                f=["x", ""], g=nh.from_array(np.arange(6).reshape(2, 3), "in node"), h=nh.from_array(np.array(2.5), "plain"), i=-0.0, j=2.0,
		                k=h.make_tensor_type_proto(T.FLOAT, ["n", None, 3]), l=2**63 - 1),
		    h.make_node("NoOperands", [], ["z"], domain="com.example"),
		]
		nodes[4].attribute.append(onnx.AttributeProto(name="empty", type=onnx.AttributeProto.INTS))
		twice = h.make_function("my.own", "Twice", ["v"], ["w"],
		                        [h.make_node("Constant", [], ["two"]), h.make_node("Mul", ["v", "two"], ["w"])], [h.make_opsetid("", 21)], ["k"])
		reference = twice.node[0].attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name="k")
		inits += [nh.from_array(np.array(0, np.float32), "zero")]
		inputs = [value("x", T.FLOAT, ["n", 2]), value("sum", T.FLOAT, []), value("in put", T.INT4, None),
		          h.make_value_info("list", h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, ["a b", 3]))),
		          h.make_value_info("maybe", h.make_optional_type_proto(h.make_tensor_type_proto(T.STRING, None))),
		          h.make_value_info("table", h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, [])))]
		g = h.make_graph(nodes, "main graph", inputs, [value("e", T.FLOAT, None), value("f", T.UINT8, [None, "m"])], inits,
		                 value_info=[value("c", T.BOOL, []), value("nan", T.FLOAT, ["n", 2])])
		m = h.make_model(g, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("my.own", 1), h.make_opsetid("com.example", 3)], ir_version=10,
		                 functions=[twice], producer_name='some "body"', doc_string="two\nlines")
		h.set_model_props(m, {"key": "value \\ 1", "other": ""})
		onnx.save(m, "all.onnx")
		m.graph.doc_string = "about the graph"
		m.graph.node[0].doc_string = "about a node"
		m.graph.node[0].metadata_props.add(key="a", value="b")
		m.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="zero")
		onnx.save(m, "notes.onnx")
		m.graph.sparse_initializer.append(h.make_sparse_tensor(h.make_tensor("s", T.FLOAT, [1], [2.0]), h.make_tensor("i", T.INT64, [1], [3]), [5]))
		onnx.save(m, "sparse.onnx")
	PYTHON
}

fails() { # STATUS TEXT ARGUMENT...
	fails_with "$1" "$2" convert "${@:3}"
}

@test "JSON is that of protobuf's own writer and reader" {
	models
	"$INFER" convert sparse.onnx ours.json
	python3 - <<-'PYTHON'
		import onnx
		from google.protobuf import json_format

		m = onnx.load("sparse.onnx")
		a, b = json_format.Parse(open("ours.json").read(), onnx.ModelProto()), m
		assert a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)
		open("theirs.json", "w").write(json_format.MessageToJson(m))
		open("names.json", "w").write(json_format.MessageToJson(m, preserving_proto_field_name=True, use_integers_for_enums=True))
	PYTHON
	for f in ours theirs names; do
		"$INFER" convert "$f.json" "$f.onnx"
	done
	python3 -c 'import onnx; a = onnx.load("sparse.onnx").SerializeToString(); assert all(onnx.load(f + ".onnx").SerializeToString() == a for f in ("ours", "theirs", "names"))'
}

@test "The text form is read by onnx, and what onnx writes by us" {
	models
	"$INFER" convert all.onnx all.onnxtxt
	"$INFER" convert all.onnxtxt back.onnx
	"$INFER" convert all.onnxtxt - --form text | cmp - all.onnxtxt
	python3 - <<-'PYTHON'
		import onnx, onnx.parser, onnx.printer
		from onnx import TensorProto as T
		from same import meaning

		whole = onnx.load("all.onnx")
		assert str(meaning(onnx.parser.parse_model(open("all.onnxtxt", newline="").read()))) == str(meaning(whole))
		assert str(meaning(onnx.load("back.onnx"))) == str(meaning(whole))
		# onnx's printer leaves out some of what its parser reads
		text = '''<ir_version: 10, opset_import: ["" : 21, "this" : 1], metadata_props: ["a": "b"]>
		g (float[N, 2] x, int64[2] i = {1, 2}) => (float[N, 2] y, seq(float[?]) s)
		# a comment
		<float[2] w = {1.5, -2e-3}, float[N, 2] a, int8[1] e = ["location": "e.bin", "offset": "0", "length": "1"]>
		{ [first] a = Add(x, w)  y, z = If (c) <then_branch: graph = t () => (float[N] q) { q = Neg(a) }, else_branch = e () => (float[N] q) { q = this.F:v2<k=1>(a) }> s = Op(, a) }
		<domain: "this", overload: "v2", opset_import: ["" : 21], doc_string: "f">
		F <k, m: ints = [1, 2]> (float[1] p) => (q) { c = Constant<value_int: int = @k>() q = Mul<l: floats = [1, 2.5]>(p, c) }'''
		open("written.onnxtxt", "w").write(text)
		text = text.replace('int8[1] e = ["location": "e.bin", "offset": "0", "length": "1"]', "int8[1] e = {3}")
		open("inline.onnxtxt", "w").write(text)
		open("read.onnxtxt", "w").write(onnx.printer.to_text(onnx.parser.parse_model(text)))
	PYTHON
	printf '\003' >e.bin
	"$INFER" convert written.onnxtxt written.onnx
	"$INFER" convert read.onnxtxt read.onnx
	python3 - <<-'PYTHON'
		import onnx, onnx.parser
		from same import meaning

		a = onnx.parser.parse_model(open("read.onnxtxt").read())
		assert str(meaning(onnx.load("read.onnx"))) == str(meaning(a))
		b = onnx.load("written.onnx")
		assert b.graph.initializer[2].raw_data == b"\x03" and [f.doc_string for f in b.functions] == ["f"]
		a = onnx.parser.parse_model(open("inline.onnxtxt").read())
		assert str(meaning(b)) == str(meaning(a))
	PYTHON
}

@test "What the text form leaves out is told, and what it has no words for is refused" {
	models
	run --separate-stderr "$INFER" convert notes.onnx notes.onnxtxt
	[ "$status" -eq 0 ]
	[[ $stderr == *"no place for 5 fields"* ]] || { echo "$stderr"; return 1; }
	fails 3 "sparse initializer" sparse.onnx s.onnxtxt
	[ ! -e s.onnxtxt ]
}

@test "Weights go to a file of their own in each form, and back" {
	models
	python3 - <<-'PYTHON'
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		w = nh.from_array(np.arange(400, dtype=np.float32).reshape(20, 20), "w")
		c = h.make_node("Constant", [], ["c"], value=nh.from_array(np.arange(400, dtype=np.int64)))
		info = lambda n: h.make_tensor_value_info(n, T.FLOAT, ["n", 20])
		g = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"]), c], "g", [info("x")], [info("y")], [w])
		onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "m.onnx")
	PYTHON
	mkdir e
	for f in onnx json onnxtxt; do
		"$INFER" convert m.onnx "e/m.$f" --external="w.$f"
		[ "$(stat -c %s "e/w.$f")" = 1600 ]
		"$INFER" convert "e/m.$f" "$f.onnx"
		python3 -c "import onnx; from same import meaning; assert str(meaning(onnx.load('$f.onnx'))) == str(meaning(onnx.load('m.onnx')))"
	done
	python3 -c 'import onnx; onnx.checker.check_model("e/m.onnx", full_check=True)'
	rm e/w.onnx
	for f in onnx json onnxtxt; do
		fails 3 "w.onnx" e/m.onnx "none.$f"
		[ ! -e "none.$f" ]
	done
}

@test "Hostile and mistaken files are refused with the place" {
	printf '{"irVersion": 8,\n "graph": {"node": [{"opType": 3}]}}' >a.json
	fails 3 "line 2" a.json b.onnx
	printf '{"irVersion": "8x", "graph": {}}' >a.json
	fails 3 "an integer is expected" a.json b.onnx
	printf '{"irVersion": 8, "grahp": {}}' >a.json
	fails 3 "no field of this name" a.json b.onnx
	printf '{"irVersion": 8, "graph": {"initializer": [{"rawData": "A*=="}]}}' >a.json
	fails 3 "base64" a.json b.onnx
	printf '{"irVersion": 8}' >a.json
	fails 3 "a model with a graph" a.json b.onnx
	for n in 40 4000 400000; do
		{ printf '{"graph": '; head -c "$n" /dev/zero | tr '\0' 'x' | sed 's/x/{"node": [{"attribute": [{"g": /g'; } >a.json
		fails 3 "" a.json b.onnx
		{ printf 'a () => (x) { b = c <d: graph = '; head -c "$n" /dev/zero | tr '\0' 'x' | sed 's/x/e () => (x) {b = c <d: graph = /g'; } >a.onnxtxt
		fails 3 "" a.onnxtxt b.onnx
		{ printf '<ir_version: 8> g ('; head -c "$n" /dev/zero | tr '\0' 'x' | sed 's/x/seq(/g'; } >a.onnxtxt
		fails 3 "" a.onnxtxt b.onnx
	done
	# bodies in one another are counted until they end, not until their nodes begin
	{ printf '<ir_version: 8>\ng (float[1] x) => (float[1] y) {'; head -c 50000 /dev/zero | tr '\0' 'x' | sed 's/x/y = If<then_branch = g() => (float y) {/g'; } >a.onnxtxt
	fails 3 "nested too deeply" a.onnxtxt b.onnx
	printf '<ir_version: 8>\ng (float[2] x) => (float[2] y) { y = Relu(x }' >a.onnxtxt
	fails 3 "line 2, column" a.onnxtxt b.onnx
	printf '<ir_version: 8>\ng () => () <float[4000000000, 4000000000, 4] w = {1}> {}' >a.onnxtxt
	fails 3 "" a.onnxtxt b.onnx
	printf '<ir_version: 8> g () => () <int8[1] w = {300}> {}' >a.onnxtxt
	fails 3 "does not fit" a.onnxtxt b.onnx
	printf '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }' >a.onnxtxt
	for n in $(seq 60); do
		head -c "$n" a.onnxtxt >cut.onnxtxt
		fails 3 "" cut.onnxtxt b.onnx
	done
	[ ! -e b.onnx ]
	fails 2 "add --form" a.onnxtxt b.what
	fails 10 "folder" a.onnxtxt folder/b.onnx
	fails 3 "absent" absent.onnx b.onnx
	"$INFER" convert a.onnxtxt b.onnx
	[ "$("$INFER" convert a.onnxtxt b.onnx --json | jq -r '.form')" = binary ]
	[ "$("$INFER" run b.onnx --random -1..1 --device cpu --json -q | jq -r '.outputs[0].name')" = y ]
}

@test "Every command reads a model in text form and in JSON, its external data too" {
	local f
	printf '<ir_version: 10, opset_import: ["": 21]>\ng (float[n,2] x) => (float[n,2] y) <float[2] w = {3, 4}> { t = Relu(x)\n y = Mul(t, w) }' >m.onnxtxt
	"$INFER" convert m.onnxtxt m.onnx
	"$INFER" convert m.onnxtxt m.json
	printf '# a comment\n\n' | cat - m.onnxtxt >comment.txt
	for f in m.onnx m.onnxtxt m.json comment.txt /dev/stdin; do
		[ "$("$INFER" run "$f" --input 'x=[[1,-2],[3,4]]' --device cpu --json -q <m.onnxtxt | jq -c '[.outputs[].checksum, .outputs[].shape]')" = \
			"$("$INFER" run m.onnx --input 'x=[[1,-2],[3,4]]' --device cpu --json -q | jq -c '[.outputs[].checksum, .outputs[].shape]')" ]
		run -0 --separate-stderr "$INFER" inspect "$f" --json <m.onnxtxt
		[ "$(jq -r '.inputs[0].name' <<<"$output")" = x ]
	done
	for f in m.onnxtxt m.json; do
		"$INFER" check "$f" --device cpu >/dev/null
		"$INFER" profile "$f" -n 1 -q --device cpu --json | jq -e '.schema == "infer/1"' >/dev/null
		"$INFER" diff m.onnx "$f"
		"$INFER" check m.onnx --compare "$f" --device cpu >/dev/null
		"$INFER" extract "$f" --to t -o part.onnx
		[ "$("$INFER" run part.onnx --input 'x=[[1,-2]]' --print --device cpu -q | head -n 1 | grep -c 't')" = 1 ]
	done
	printf '{"schema": "other/1"}' >a.json
	run -3 "$INFER" run a.json --device cpu
	[[ $output == *"E-MODEL-FORMAT"*"infer inspect FILE.json"* ]]
	printf '<html><body>404</body></html>' >page.onnx
	run -3 "$INFER" run page.onnx
	[[ $output == *"web page"* ]]
}

@test "convert: the file to write may be given by -o" {
	cp "$BATS_TEST_DIRNAME/../data/steps/walk.onnx" .
	run "$INFER" convert walk.onnx -o walk.json
	[ "$status" -eq 0 ]
	run "$INFER" convert walk.onnx other.json
	cmp walk.json other.json
	run "$INFER" convert walk.onnx
	[ "$status" -eq 2 ]
	[[ $output == *"no file to write is given"*"-o OUT"* ]]
	run "$INFER" convert walk.onnx one.json -o two.json
	[ "$status" -eq 2 ]
	[[ $output == *"two files to write"* ]]
	[ ! -e one.json ] && [ ! -e two.json ]
}

@test "--external FILE may stand behind the model without =, also if the file is there already" {
	cp "$BATS_TEST_DIRNAME/../data/run/work.onnx" .
	for command in simplify convert "extract --to y"; do
		for _ in 1 2; do
			# shellcheck disable=SC2086
			"$INFER" $command work.onnx --external w.data -o out.onnx
			[ -e w.data ]
		done
		rm w.data out.onnx
	done
	"$INFER" simplify --external work.onnx -o out.onnx
	[ -e out.onnx.data ]
}
