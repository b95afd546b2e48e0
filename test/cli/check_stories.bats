#!/usr/bin/env bats
# infer check: stories that start at what somebody sees and end at its cause. The models come from test/check/make.c;
# those with a fault that is planted while the model runs want the program of `make FAULTS=1` (FAULTS_INFER).

load helper

setup_file() {
	make_models <<-'END'
		case segmenter
		input image f32 1,3,16,16
		output mask f32 1,2,16,16
		init w f32 2,3,3,3 rand 1
		node Conv conv image,w -> a pads=[1,1,1,1]
		node Sigmoid sig a -> mask
		raw short.bin f32 1,3,16,12 rand 2
		raw right.bin f32 1,3,16,16 rand 2

		case kept
		input x f32 batch,8
		output y f32 batch,8
		init w f32 8,8 rand 1
		node MatMul first x,w -> a
		node Softmax second a -> y

		case pinned
		input x f32 batch,2,4
		output y f32 batch,8
		init s i64 2 1 -1
		node Reshape flat x,s -> h
		node Relu act h -> y
		npy one.npy f32 1,2,4 rand 1
		npy two.npy f32 2,2,4 rand 1
	END
}

setup() {
	S=$BATS_FILE_TMPDIR/cases
}

faults() {
	[ -x "${FAULTS_INFER:-}" ] || skip "no fault-injection build (make FAULTS=1)"
}

# "My tensor has fewer elements than the model's shape": refused before anything is computed, with both counts.
@test "A tensor with fewer elements than the model's shape is explained" {
	run "$INFER" run "$S/segmenter/model.onnx" --input "$S/segmenter/short.bin"
	[ "$status" -eq 4 ]
	run "$INFER" check "$S/segmenter/model.onnx" --input "$S/segmenter/short.bin"
	[ "$status" -eq 4 ]
	[[ $output == *"error[E-INPUT-BYTES]: input 'image'"* ]]
	[[ $output == *"3,072 bytes"* ]] # what the model takes
	[[ $output == *"2,304 bytes"* ]] # what the file has
	[[ $output != *"run          ok"* ]]
	run "$INFER" check "$S/segmenter/model.onnx" --input "$S/segmenter/right.bin"
	[ "$status" -eq 0 ]
}

# "It worked with one image; with two it says something about shapes": the session is fine, the model is not.
@test "A session whose input shape changes: the model fixes the batch size" {
	run "$INFER" run "$S/pinned/model.onnx" --input "$S/pinned/one.npy"
	[ "$status" -eq 0 ]
	run "$INFER" check "$S/pinned/model.onnx" --input "$S/pinned/two.npy"
	[[ $output == *"warning[W-MODEL-BATCH]: node 'flat' (Reshape)"* ]]
	[[ $output == *"use -1 or 0"* ]]
}

# "The second batch gives the first one's answers": something keeps what it made for the first shape.
@test "A session whose input shape changes: a node returns its earlier result" {
	faults
	run "$INFER" check "$S/kept/model.onnx" --shapes-sweep batch=2..3
	[ "$status" -eq 0 ]
	[[ $output == *"a run with batch=2 between two runs of the first shape"* ]]
	INFER_FAULT=second:stale run "$FAULTS_INFER" check "$S/kept/model.onnx" --shapes-sweep batch=2..3
	[ "$status" -eq 5 ]
	[[ $output == *"error[E-SHAPE-STATE]: node 'second' (Softmax)"*"output 'y'"* ]]
	[[ $output == *"after the shape changed"* ]]
}

# "Memory goes up with every request": for the first ones, until the largest shape was seen.
@test "A model that only fills an arena is not reported as a leak" {
	faults
	run "$INFER" check "$S/kept/model.onnx" --leak --shapes-sweep batch=1..32
	[ "$status" -eq 0 ]
	[[ $output != *"E-LEAK"* ]]
	INFER_FAULT=second:grow=65536 run "$FAULTS_INFER" check "$S/kept/model.onnx" --leak
	[ "$status" -eq 0 ]
	[[ $output == *"grows then flat (an arena, no leak)"* ]]
	[[ $output == *"N-LEAK-ARENA"*"MiB and then stayed flat"* ]]
}

# "Memory goes up with every request", without end: which node, how fast, how long until it is all gone.
@test "A leak in one node is found" {
	faults
	INFER_FAULT=second:leak=4096 run "$FAULTS_INFER" check "$S/kept/model.onnx" --leak --runs 500
	[ "$status" -eq 6 ]
	[[ $output == *"error[E-LEAK]: node 'second' (Softmax): memory grows by 4.0 KiB with each run"* ]]
	[[ $output == *"exhausted"*"after "*" runs"* ]]
	[[ $output == *"site"*"malloc"* ]]
	INFER_FAULT=first:leak-counted=512 run "$FAULTS_INFER" check "$S/kept/model.onnx" --leak --json
	[ "$status" -eq 6 ]
	[[ $output == *'"id": "E-LEAK"'* ]]
	[[ $output == *'"node": "first"'* ]]
	[[ $output == *'"verdict": "leak"'* ]]
}

@test "A node that hangs is named at the timeout" {
	faults
	# how long it takes to come to the node is the machine's
	for limit in 1 5 25 125; do
		INFER_FAULT=second:hang run "$FAULTS_INFER" check "$S/kept/model.onnx" --timeout $limit
		[ "$status" -eq 124 ]
		[[ $output != *"'second'"* ]] || break
	done
	[[ $output == *"error[E-TIMEOUT]: node 'second' (Softmax)"* ]]
	[[ $output == *"weights      ok"* ]] # what was gathered before
	for limit in $limit 125; do
		INFER_FAULT=second:hang run --separate-stderr "$FAULTS_INFER" check "$S/kept/model.onnx" --timeout $limit --json
		[ "$status" -eq 124 ]
		[[ $output != *'"second"'* ]] || break
	done
	[[ $output == *'"id": "E-TIMEOUT"'*'"node": "second"'* ]]
}

@test "Without a GPU, --contexts is skipped with the reason" {
	run "$INFER" check "$S/kept/model.onnx" --contexts --device cpu
	[ "$status" -eq 8 ]
	[[ $output == *"error[E-DEVICE]: --contexts"* ]]
}

@test "--html writes the report as a page" {
	run "$INFER" check "$S/pinned/model.onnx" --html "$BATS_TEST_TMPDIR/report.html"
	[ "$status" -eq 0 ]
	grep -q 'W-MODEL-BATCH' "$BATS_TEST_TMPDIR/report.html"
	grep -q 'the batch' "$BATS_TEST_TMPDIR/report.html" || grep -q 'fixes dimension 0' "$BATS_TEST_TMPDIR/report.html"
}

@test "No malformed file crashes the checks" {
	mkdir -p "$BATS_TEST_TMPDIR/sub/hostile"
	"${CC:-cc}" -o "$BATS_TEST_TMPDIR/models" "$BATS_TEST_DIRNAME/../tools/models.c"
	"$BATS_TEST_TMPDIR/models" "$BATS_TEST_TMPDIR/sub/hostile"
	for m in "$BATS_TEST_TMPDIR"/sub/hostile/*.onnx; do
		status=0
		timeout 300 "$INFER" check "$m" --all --runs 5 >"$BATS_TEST_TMPDIR/out" 2>&1 || status=$?
		case $status in
		0 | 4 | 5 | 6) ;;
		3) ! grep -q 'the program crashed' "$BATS_TEST_TMPDIR/out" ;;
		*)
			echo "$m: exit status $status"
			cat "$BATS_TEST_TMPDIR/out"
			return 1
			;;
		esac
	done
}

@test "A page that cannot be written is refused before the first check" {
	"$INFER" check "$BATS_TEST_DIRNAME/../data/run/batch.onnx" --html "$BATS_TEST_TMPDIR/p.html"
	grep -q '</html>' "$BATS_TEST_TMPDIR/p.html"
	run -10 --separate-stderr "$INFER" check "$BATS_TEST_DIRNAME/../data/run/batch.onnx" --html "$BATS_TEST_TMPDIR"
	[[ -z $output && $stderr == "error[E-OUTPUT]: "* ]]
}

@test "What is declared for a constant is compared with it: a value_info is a hint, an input is refused" {
	need_onnx
	python3 - "$BATS_TEST_TMPDIR" <<-'END'
		import sys
		import numpy as np
		import onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh

		w = nh.from_array(np.ones((2, 4), np.float32), "w")
		def save(name, nodes, inits, infos=(), inputs=()):
		    tensors = lambda list: [h.make_tensor_value_info(*i) for i in list]
		    g = h.make_graph(nodes, "g", tensors([("x", T.FLOAT, [2, 4]), *inputs]), tensors([("y", T.FLOAT, [2, 4])]), inits, value_info=tensors(infos))
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")
		add, constant = h.make_node("Add", ["x", "w"], ["y"]), h.make_node("Constant", [], ["w"], value=w)
		for kind, info in ("type", ("w", T.INT64, [2, 4])), ("shape", ("w", T.FLOAT, [4, 2])), ("right", ("w", T.FLOAT, ["n", 4])):
		    save(f"weight_{kind}", [add], [w], infos=[info])
		    save(f"constant_{kind}", [constant, add], [], infos=[info])
		    save(f"input_{kind}", [add], [w], inputs=[info])
	END
	cd "$BATS_TEST_TMPDIR"
	for f in weight constant; do
		run -0 "$INFER" check ${f}_right.onnx
		[[ $output != *W-MODEL-DECLARED* ]]
		run -0 "$INFER" check ${f}_type.onnx
		[[ $output == *"warning[W-MODEL-DECLARED]: value 'w': "*"expected i64 [2,4], as declared, got f32 [2,4]"* ]]
		run -0 "$INFER" check ${f}_shape.onnx
		[[ $output == *"warning[W-MODEL-DECLARED]: value 'w': "*"expected f32 [4,2], as declared, got f32 [2,4]"* ]]
		run -0 --separate-stderr "$INFER" run ${f}_type.onnx --random 0..1 -q
		[ -z "$stderr" ]
	done
	run -0 "$INFER" check input_right.onnx
	for f in type shape; do
		run -3 --separate-stderr "$INFER" run input_$f.onnx --random 0..1
		[[ $stderr == *"error[E-MODEL-DECLARED]: "*"input 'w': the initializer of this name has another type or shape"* ]]
	done
}

@test "Element types that attributes name are those of the operator" {
	need_onnx
	python3 - "$BATS_TEST_TMPDIR" <<-'END'
		import sys
		import onnx
		from onnx import TensorProto as T, helper as h

		def save(name, *node, shape=(3, 4), inputs=("x",), **attributes):
		    g = h.make_graph([h.make_node(*node, **attributes)], "g", [h.make_tensor_value_info(i, T.FLOAT, shape if i == "x" else [shape[-1]] if i == "w" else []) for i in inputs], [onnx.ValueInfoProto(name="y")])
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 23)], ir_version=10), f"{sys.argv[1]}/{name}.onnx")
		for t in T.FLOAT, T.STRING, T.BOOL, T.INT8, T.COMPLEX64, T.FLOAT16, 99, -1:
		    save(f"quantize_{t}", "QuantizeLinear", ["x", "s"], ["y"], inputs=("x", "s"), output_dtype=t)
		    save(f"precision_{t}", "QuantizeLinear", ["x", "s"], ["y"], inputs=("x", "s"), precision=t)
		    save(f"softmax_{t}", "Attention", ["x", "x", "x"], ["y"], shape=(1, 2, 3, 4), softmax_precision=t)
		    save(f"stash_{t}", "LayerNormalization", ["x", "w"], ["y"], inputs=("x", "w"), stash_type=t)
	END
	cd "$BATS_TEST_TMPDIR"
	for kind in quantize precision softmax stash; do
		for t in 1 8 9 3 14 10 99 -1; do
			want=3
			case $kind-$t in quantize-3 | precision-1 | precision-10 | softmax-1 | softmax-10 | stash-1 | stash-10) want=0 ;; esac
			run --separate-stderr "$INFER" run "${kind}_$t.onnx" --random 1..2 -q
			[ "$status" -eq $want ] || { echo "$kind $t: $status $stderr"; return 1; }
			[ $want = 0 ] || [[ $stderr == *"error[E-TYPE]"* || $stderr == *"error[E-OP-ATTRIBUTE]"* ]]
		done
	done
}

# body NAME TEXT: a model of opset 21 in NAME.txt
body() {
	printf '<ir_version: 10, opset_import: ["": 21]>\n%s\n' "$2" >"$BATS_TEST_TMPDIR/$1.txt"
}

@test "What a body declares is compared with what it computes, as at the top level" {
	cd "$BATS_TEST_TMPDIR"
	branches='else_branch = e () => (float[2,3] r) { r = Neg(x) }> }'
	for declared in 'float[2,9] p' 'int64[2,3] p' 'float[2,3] p' 'float[N,3] p'; do
		body "${declared//[\[\], ]/_}" "g (float[2,3] x, bool c) => (float[2,3] y) {
			y = If(c) <then_branch = t () => ($declared) { p = Relu(x) }, $branches"
	done
	run -0 "$INFER" check float_2_9__p.txt
	[[ $output == *"warning[W-MODEL-DECLARED]: node 'Relu_0' (Relu) output 'p' in then_branch of 'If_0': "*"expected f32 [2,9], as declared, got f32 [2,3]"* ]]
	run -3 "$INFER" check int64_2_3__p.txt
	[[ $output == *"error[E-MODEL-DECLARED]: node 'Relu_0' (Relu) output 'p' in then_branch of 'If_0': "*"expected i64 [2,3], as declared, got f32 [2,3]"* ]]
	for sound in float_2_3__p float_N_3__p; do
		run -0 "$INFER" check $sound.txt
		[[ $output != *MODEL-DECLARED* ]]
	done
	# a branch that is taken for certain, and has become part of the graph
	body taken "g (float[2,3] x) => (float[2,3] y) <bool c = {1}> {
		y = If(c) <then_branch = t () => (float[2,9] p) { p = Relu(x) }, $branches"
	run -0 "$INFER" check taken.txt
	[[ $output == *"output 'p' in then_branch of 'If_0': "*"got f32 [2,3]"* ]]
	# sizes that change from turn to turn contradict nothing; a body inside of a body is looked at
	body turns 'g (float[1,3] x, int64 n) => (float[K,3] y) { c = Constant <value = bool {1}> ()
		y = Loop(n, c, x) <body = b (int64 i, bool d, float[1,3] s) => (bool e, float[1,3] o) {
			e = Identity(d) z = Concat <axis = 0> (s, x)
			o = If(d) <then_branch = t () => (float[M,3] p) { p = Relu(z) }, else_branch = f () => (float[M,4] q) { q = Neg(z) }> }> }'
	run -0 "$INFER" check turns.txt
	[[ $output == *"node 'Neg_0' (Neg) output 'q' in else_branch of 'If_"*"expected f32 [M,4], as declared, got f32 [?,3]"* ]]
	[ "$(grep -c W-MODEL-DECLARED <<<"$output")" = 1 ]
	body state 'g (float[4,3] x, int64 n) => (float[4,3] y) { c = Constant <value = bool {1}> ()
		y = Loop(n, c, x) <body = b (int64 i, bool d, float[2,3] s) => (bool e, float[4,3] o) <int64[4,3] q> { e = Identity(d) q = Relu(s) o = Neg(q) }> }'
	run -3 "$INFER" check state.txt
	[[ $output == *"warning[W-MODEL-DECLARED]: node 'Loop_1' (Loop) input 's' in body of 'Loop_1': "*"expected f32 [2,3], as declared, got f32 [4,3]"* ]]
	[[ $output == *"error[E-MODEL-DECLARED]: node 'Relu_"*" (Relu) value 'q' in body of 'Loop_1': "*"expected i64 [4,3], as declared, got f32 [4,3]"* ]]
}

@test "Declarations that cannot be true together are told: a constant as an output, a value twice, a size of -1, a multiple of a free size" {
	cd "$BATS_TEST_TMPDIR"
	body constant 'g (float[2] x) => (float[2] y, float[4] w) <float[3] w = {1, 2, 3}> { y = Relu(x) }'
	run -0 "$INFER" check constant.txt
	[[ $output == *"warning[W-MODEL-DECLARED]: value 'w': "*"declared for this constant"*"expected f32 [4], as declared, got f32 [3]"* ]]
	body twice 'g (float[2] x) => (float[2] y) <float[2] a, float[3] a> { a = Relu(x) y = Neg(a) }'
	run -0 "$INFER" check twice.txt
	[[ $output == *"warning[W-MODEL-DECLARED]: value 'a': it is declared twice, and not alike"*"expected f32 [3], as declared, got f32 [2]"* ]]
	body input 'g (float[2] x) => (float[2] y) <float[3] x> { y = Relu(x) }'
	run -0 "$INFER" check input.txt
	[[ $output == *"warning[W-MODEL-DECLARED]: value 'x': it is declared twice"* ]]
	for size in 2 N; do
		body "size$size" "g (float[2] x) => (float[$size] y) <float[2] a, float[2] a> { a = Relu(x) y = Neg(a) }"
		run -0 "$INFER" check "size$size.txt"
		[[ $output != *W-MODEL-DECLARED* ]]
	done
	body times 'g (float[N,2,3] x) => (float[N,3] y) <int64[2] to = {-1, 3}> { y = Reshape(x, to) }'
	run -0 "$INFER" check times.txt
	[[ $output == *"warning[W-MODEL-DECLARED]: "*" output 'y': "*"expected f32 [N,3], as declared, got f32 [N*2,3]"* ]]
	sed 's/(float\[N,3\] y)/(float[M,3] y)/' times.txt >other.txt
	run -0 "$INFER" check other.txt
	[[ $output != *W-MODEL-DECLARED* ]]
	body below 'g (float[2] x) => (float[7] y) { y = Relu(x) }'
	"$INFER" convert -q below.txt below.json
	sed -i 's/"7"/"-1"/' below.json
	run -0 "$INFER" check below.json
	[[ $output == *"note[N-MODEL-DECLARED]: value 'y': it is declared with a size of -1"* ]]
}

@test "External data with a key twice is told, and a sweep says once what it took for the other sizes" {
	need_onnx
	cd "$BATS_TEST_TMPDIR"
	python3 - <<-'END'
		import numpy as np, onnx
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		w = nh.from_array(np.ones(4, np.float32), "w")
		info = lambda n: h.make_tensor_value_info(n, T.FLOAT, ["N", 3, "W", 4])
		g = h.make_graph([h.make_node("Mul", ["x", "w"], ["y"])], "g", [info("x")], [info("y")], [w])
		m = h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
		open("w.bin", "wb").write(w.raw_data)
		for name, keys in (("once", ["w.bin"]), ("twice", ["nowhere.bin", "w.bin"])):
		    t = m.graph.initializer[0]
		    t.ClearField("raw_data")
		    t.data_location = T.EXTERNAL
		    del t.external_data[:]
		    for value in keys:
		        t.external_data.add(key="location", value=value)
		    open(name + ".onnx", "wb").write(m.SerializeToString())
	END
	run -0 "$INFER" check twice.onnx
	[[ $output == *"warning[W-WEIGHT-EXTERNAL]: "*"initializer 'w': its external data has the key 'location' twice"* ]]
	run -0 "$INFER" check once.onnx
	[[ $output != *W-WEIGHT-EXTERNAL* ]]
	run "$INFER" check once.onnx --leak --shapes-sweep N=1..20
	[ "$(grep -c DIM-DEFAULT <<<"$output")" = 1 ]
}

@test "Messages tell a number out of range, an output that one node lists twice, and the condition that a body gave" {
	cd "$BATS_TEST_TMPDIR"
	body wide 'g (uint64[1] x) => (uint64[1] y) { y = Identity(x) }'
	for number in 18446744073709551616 -1; do
		run -4 "$INFER" run wide.txt --input "x=[$number]"
		[[ $output == *"this number is out of the type's range"* ]]
	done
	run -0 "$INFER" run wide.txt --input 'x=[18446744073709551615]' -q
	body free 'g (float[N] x) => (float[N] y) { y = Relu(x) }'
	run -4 "$INFER" run free.txt --random --dim N=9223372036854775807
	[[ $output == *"expected a whole number from 0 to 4611686018427387903, got '9223372036854775807'"* ]]
	body list 'g (float[4] x) => (float[2] y) { a, a = Split <num_outputs = 2> (x) y = Neg(a) }'
	run -3 "$INFER" check list.txt
	[[ $output == *"got an output that the node lists twice"* ]]
	body turn 'g (float[1] x, int64 n, int64[1] k) => (float[1] y) { c = Constant <value = bool {1}> ()
		y = Loop(n, c, x) <body = b (int64 i, bool d, float[1] s) => (bool[K] e, float[1] o) { e = Expand(d, k) o = Neg(s) }> }'
	run -3 "$INFER" run turn.txt --random x=0..1 --input n=1 --input 'k=[2]'
	[[ $output == *"expected one condition from the body, got bool [2]"* ]]
}

@test "A sweep leaves out sizes that the model does not take, outbids --dim, and tells a dimension that no input has" {
	cd "$BATS_TEST_TMPDIR"
	body patch 'g (float[B,N] x) => (float[R,4] y) <int64[2] s = {-1, 4}> { r = Reshape(x, s) y = Relu(r) }'
	run -0 "$INFER" check patch.txt --shapes-sweep N=1..8 --leak --runs 20
	[[ $output == *"leak "*"the model does not take 'N=1', 'N=2', 'N=3', 'N=5' and 2 more; stable over "* ]]
	[[ $output == *"a run with N=4 between two runs"* ]]
	run -0 "$INFER" check patch.txt --shapes-sweep x.1=4,12 --dim N=8 --leak --runs 20
	[[ $output == *"a run with x.1=4 between two runs"* && $output != *"does not take"* ]]
	run -4 "$INFER" check patch.txt --shapes-sweep N=4 --shapes-sweep Q=4
	[[ $output == *"no free dimension 'Q'"* ]]
}
