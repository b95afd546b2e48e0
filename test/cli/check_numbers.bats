#!/usr/bin/env bats
# infer check: from a symptom in the numbers to its cause. Models are those of the corpus (test/check/numbers.txt);
# faults that no sound kernel has are planted by the build of make FAULTS=1 (FAULTS_INFER).

load helper

setup_file() {
	make_models <"$BATS_TEST_DIRNAME/../check/numbers.txt"
}

setup() {
	export INFER_DEVICE=cpu
	cases=$BATS_FILE_TMPDIR/cases
	net=$cases/net-sound/model.onnx
	data=$BATS_TEST_DIRNAME/../data/run
	out=$BATS_TEST_TMPDIR/out
	cd "$BATS_TEST_TMPDIR" || return 1
}

need_faults() {
	[ -x "${FAULTS_INFER:-}" ] || skip "no fault-injection build"
}

# planted SPEC OPTION...: check the net with a planted fault
planted() {
	INFER_FAULT=$1 run --separate-stderr "$FAULTS_INFER" check "$net" --random x=0..1 "${@:2}"
}

# The part that --bisect wrote has N nodes at most, and a check of it says ID.
part_shows() { # N SPEC ID OPTION...
	local most=$1 spec=$2 id=$3
	shift 3
	[ -f "$out/model.onnx" ] && [ -f "$out/test_data_set_0/input_0.pb" ]
	nodes=$("$INFER" inspect "$out/model.onnx" | sed -n 's/^operators *\([0-9]*\) node.*/\1/p')
	[ "$nodes" -ge 1 ] && [ "$nodes" -le "$most" ]
	# sound kernels run it
	"$INFER" run "$out/model.onnx" --data-set "$out/test_data_set_0" -q
	INFER_FAULT=$spec run -5 --separate-stderr "$FAULTS_INFER" check "$out/model.onnx" \
		--data-set "$out/test_data_set_0" "$@"
	[[ $output == *"[$id]"* ]]
}

# --- NaN, zeros

@test "NaN at an output is traced to its node, with inputs, outputs and cause" {
	run -5 --separate-stderr "$INFER" check "$cases/div0/model.onnx" --random x=0..1
	[[ $output == *"error[E-OUT-NAN]: output 'y'"*"has infinities"*"first node"*"'div' (Div)"* ]]
	[[ $output == *"its output"*" Inf of 12"* && $output == *"division by zero"* ]]
}

@test "NaN that follows from Inf is attributed to the node that overflows" {
	run -5 --separate-stderr "$INFER" check "$cases/fp16-overflow/model.onnx" --random x=0..1
	[[ $output == *"error[E-OUT-NAN]: output '"*"'more'"* && $output == *"65504 is the largest number of fp16"* ]]
}

@test "NaN in the input is attributed to the input" {
	run -4 --separate-stderr "$INFER" check "$cases/nan-input/model.onnx" --input x="$cases/nan-input/x.npy"
	[[ $output == *"has NaN, and so has an input"* && $output == *"input 'x'"*"1 NaN of 12"* ]]
}

@test "NaN that reaches no output is a warning, and only with --nan" {
	run -0 --separate-stderr "$INFER" check "$cases/nan-hidden/model.onnx" --random x=0..1
	[[ $output != *NUM-NAN* ]]
	run -0 --separate-stderr "$INFER" check "$cases/nan-hidden/model.onnx" --random x=0..1 --nan
	[[ $output == *"warning[W-NUM-NAN]: node 'div'"* ]]
}

@test "Zeros at an output are traced to the first node whose output is all 0" {
	run -5 --separate-stderr "$INFER" check "$cases/dead-relu/model.onnx" --random x=0..1
	[[ $output == *"error[E-OUT-ZERO]: output '"*"all 12 elements are 0"*"'relu'"* ]]
}

@test "An output that is the same for two inputs is found" {
	run -0 --separate-stderr "$INFER" check "$cases/blind/model.onnx" --random x=0..1
	run -5 --separate-stderr "$INFER" check "$cases/blind/model.onnx" --random x=0..1 --zero
	[[ $output == *"error[E-OUT-INDEPENDENT]"*"output 'y': is equal to the bit for all inputs that were tried"* ]]
}

# --- references

@test "A mismatch with a reference is reported with the worst element, counts, metrics and a likely cause" {
	d=$cases/reference-reversed
	run -5 --separate-stderr "$INFER" check "$d/model.onnx" --input x="$d/x.npy" --expect y="$d/y.npy"
	[[ $output == *"error[E-COMPARE]: output 'y' f32 [2,6]: differs from $d/y.npy"* ]]
	[[ $output == *"worst"*"element ["*"difference "*"(allowed "* && $output == *"first"*"element [0,0]: expected 22.16666"* ]]
	[[ $output == *"12 of 12 elements"* && $output == *"cosine distance"* ]]
	[[ $output == *"the same numbers in another order"* ]]
	d=$cases/reference-scale
	run -5 --separate-stderr "$INFER" check "$d/model.onnx" --input x="$d/x.npy" --expect "$d/y.npy"
	[[ $output == *"the same up to a factor of 2"* ]]
}

@test "The outputs of a data set are used as references" {
	"$INFER" run "$net" --random x=0..1 -q -o ds --save-format pb
	"$INFER" run "$cases/reference-sound/model.onnx" --input x="$cases/reference-sound/x.npy" -q -o ds2 --save-format pb
	run -0 --separate-stderr "$INFER" check "$net" --random x=0..1 --expect ds/output_0.pb
	[[ $output == *"reference    ok"*"1 output within rtol"* ]]
	# of the other model the shape is another
	run -4 --separate-stderr "$INFER" check "$net" --random x=0..1 --expect ds2/output_0.pb
	[[ $output == *"E-INPUT-SHAPE]: the reference does not fit output "*"f32 [2,6]"* ]]
}

@test "A tolerance that nothing could exceed is refused" {
	d=$cases/tolerance-absolute
	for t in '--rtol 1' '--rtol 1e9' '--atol 100' '--rtol 0.5 --atol 30' '--metric l2 --rtol 1' '--metric cosine --rtol 2'; do
		run -2 --separate-stderr "$INFER" check "$d/model.onnx" --input x="$d/x.npy" --expect "$d/y.npy" $t
		[[ $stderr == *"error[E-TOLERANCE]"* ]]
	done
	run -2 --separate-stderr "$INFER" check "$net" --random x=0..1 --compare none --rtol 1
	[[ $stderr == *"error[E-TOLERANCE]"* ]]
}

@test "A reference for an unknown output is refused with a list of the outputs" {
	run -4 --separate-stderr "$INFER" check "$cases/random-node/model.onnx" --random x=0..1 --expect z=nowhere.npy
	[[ $stderr == *"E-INPUT-OPEN"* || $stderr == *"E-INPUT-NAME"* ]]
}

@test "NaN, infinities and zeros that the reference has too are no error" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] n, float[4] i, float[4] z) <float zero = {0}> {
		n = Log (x) s = Abs (x) i = Div (s, zero) z = Mul (x, zero)
	}' >meant.onnxtxt
	"$INFER" run meant.onnxtxt --random x=-2..-1 -q -o meant --save-format pb
	run -5 "$INFER" check meant.onnxtxt --random x=-2..-1
	local all=(--expect n=meant/output_0.pb --expect i=meant/output_1.pb --expect z=meant/output_2.pb)
	run -0 "$INFER" check meant.onnxtxt --random x=-2..-1 "${all[@]}"
	[[ $output == *"note[N-OUT-NAN]"*"has NaN, and so has the reference"*"note[N-OUT-ZERO]"*"NaN or infinities as expected"* ]]
	# an output that no reference confirms
	run -5 "$INFER" check meant.onnxtxt --random x=-2..-1 "${all[@]:0:4}"
	run -5 "$INFER" check meant.onnxtxt --random x=-2..-1 --expect n=meant/output_1.pb "${all[@]:2}"
}

# --- a picture fed as NHWC to an NCHW model

@test "NHWC data for an NCHW model is detected from the bytes, with the key that cures it" {
	# the same picture twice: as an NHWC model takes it, and as an NCHW model does
	"$INFER" run "$data/nhwc.onnx" --input x="$data/rgb.png" -q -o hwc --save-format bin
	"$INFER" run "$data/pic.onnx" --input images="$data/rgb.png" -q -o chw --save-format bin
	run -4 --separate-stderr "$INFER" check "$data/pic.onnx" --input "images=$(echo hwc/*.bin)" --layout
	[[ $output == *"error[E-INPUT-LAYOUT]: input 'images' [1,3,16,24]: the model reads NCHW, but the bytes look like NHWC"* ]]
	[[ $output == *"neighbours"* && $output == *"layout=hwc"* ]]
	run -0 --separate-stderr "$INFER" check "$data/pic.onnx" --input "images=$(echo chw/*.bin)" --layout
	[[ $output == *"layout       ok"* && $output != *E-INPUT-LAYOUT* ]]
	# and the cure cures it
	run -0 --separate-stderr "$INFER" check "$data/pic.onnx" --input "images=$(echo hwc/*.bin),layout=hwc" --layout
}

@test "--layout gives no verdict on noise and on random pictures" {
	run -0 --separate-stderr "$INFER" check "$data/pic.onnx" --random images=0..1 --layout
	[[ $output == *"layout "*"skipped "*"the picture is random"* ]]
	"$INFER" run "$data/pic.onnx" --random images=0..1 -q -o noise --save-format bin
	run -0 --separate-stderr "$INFER" check "$data/pic.onnx" --input "images=$(echo noise/*.bin)" --layout
	[[ $output == *"layout       skipped "*"its layout cannot be judged"* ]]
}

# --- determinism

@test "--determinism names the node that draws random numbers" {
	run -5 --separate-stderr "$INFER" check "$cases/random-node/model.onnx" --random x=0..1 --determinism 4
	[[ $output == *"error[E-DETERMINISM]: output 'y': 3 of 4 runs"*"first node"*"'lots' (RandomNormalLike)"* ]]
	run -0 --separate-stderr "$INFER" check "$net" --random x=0..1 --determinism 4
	[[ $output == *"4 runs, the same bits"* ]]
}

# --- comparing

@test "--compare: two correct runs agree, in text and JSON" {
	run -0 --separate-stderr "$INFER" check "$net" --random x=0..1 --compare none,full
	[[ $output == *"compare      ok"*"nodes compared, outputs within"* ]]
	run -0 --separate-stderr "$INFER" check "$net" --random x=0..1 --compare cpu:none,cpu:noplan --json
	[[ $output == *'"verdict": "agree"'* && $output == *'"of_its_own"'* ]]
}

@test "--compare: a view that reaches a fused node transposed comes in its own shape" {
	local shape
	for shape in 6,4,3 n,4,3; do # of sizes that are known, and not
		echo "<ir_version: 8, opset_import: [\"\" : 17]>
		g (float[$shape] x, float[2,8,3] s) => (float[2,8,3] y)
		<int64[3] to = {-1, 3, 8}, float[3,2] w = {0.5, -1, 2, 0.25, -0.75, 1.5}, float half = {0.5}, float one = {1}, float root = {1.4142135}> {
			p = MatMul (x, w)
			d = Div (p, root)
			e = Erf (d)
			f = Add (e, one)
			h = Mul (p, f)
			q = Mul (h, half)
			v = Reshape (q, to)
			t = Transpose <perm = [0, 2, 1]> (v)
			m = Mul (t, s)
			y = Add (m, s)
		}" >view.onnxtxt
		run -0 --separate-stderr "$INFER" check view.onnxtxt --shape x=6,4,3 --compare none
		[[ $output == *"compare      ok"* && $stderr$output != *W-COMPARE-NODE* ]]
	done
}

@test "--compare refuses unknown words, and two identical sides" {
	run -2 --separate-stderr "$INFER" check "$net" --random x=0..1 --compare cpu,gpu
	[[ $stderr == *"'gpu' is not a way to run a model"* ]]
	run -2 --separate-stderr "$INFER" check "$net" --random x=0..1 --compare cpu,cpu
	[[ $stderr == *"both sides are the same run"* ]]
	[ -z "$output" ] # before anything is checked
	run -2 --separate-stderr "$INFER" check "$net" --random x=0..1 --compare cpu,cpu:none --rtol 1
	[[ $stderr == *"an --rtol below 1"* && -z $output ]]
}

@test "A missing device is a device error" {
	CUDA_VISIBLE_DEVICES='' run --separate-stderr "$INFER" check "$net" --random x=0..1 --compare cpu,cuda
	[ "$status" = 8 ] || skip "there is a CUDA device"
	[[ $output == *"E-DEVICE"* || $output == *"E-LIBRARY"* ]]
}

@test "--all compares with the unoptimized run" {
	run -0 --separate-stderr "$INFER" check "$net" --random x=0..1 --all --runs 30
	[[ $output == *"compare      ok"*"nodes compared"* ]]
}

# --- planted faults

@test "A build without fault injection refuses INFER_FAULT" {
	INFER_FAULT=fc:zero run -2 --separate-stderr "$INFER" run "$net" --random x=0..1
	[[ $stderr == *"INFER_FAULT is set ('fc:zero'), but this build plants no faults"* ]]
}

@test "The fault-injection build reports unknown faults, and faults that it did not plant" {
	need_faults
	INFER_FAULT=fc:explode run -2 --separate-stderr "$FAULTS_INFER" run "$net" --random x=0..1
	[[ $stderr == *"unknown kind 'explode'"* ]]
	INFER_FAULT=fc run -2 --separate-stderr "$FAULTS_INFER" run "$net" --random x=0..1
	INFER_FAULT=fc:zero@moon run -2 --separate-stderr "$FAULTS_INFER" run "$net" --random x=0..1
	INFER_FAULT=nobody:zero run -0 --separate-stderr "$FAULTS_INFER" run "$net" --random x=0..1
	[[ $stderr == *"no step belongs to node 'nobody'"* ]]
}

@test "--compare names the faulty node rather than the nodes after it, and the cut-down model reproduces the fault" {
	need_faults
	for kind in zero scale=2 perturb=0.9 constant=3 nan; do
		rm -rf "$out"
		planted "gap:$kind@full" --compare none --bisect -o "$out"
		[ "$status" = 5 ]
		[[ $output == *"error[E-COMPARE-NODE]: node 'gap' (GlobalAveragePool): this run and none begin to differ in this node"* ]]
		[[ $output == *"its inputs"*"agree"* && $output == *"note[N-BISECT]: node 'gap'"* ]]
		part_shows 3 "gap:$kind@full" E-COMPARE-NODE --compare none
	done
}

@test "The cut-down model of a fused node contains only the faulty node" {
	need_faults
	planted conv1:perturb=0.9@full --compare none --bisect -o "$out"
	[ "$status" = 5 ]
	[[ $output == *"'conv1' (Conv)"* ]]
	part_shows 3 conv1:perturb=0.9@full E-COMPARE-NODE --compare none
}

@test "Small differences that accumulate are drift, not a jump" {
	need_faults
	planted relu1:scale=1.0006@full,gap:scale=1.0006@full,fc:scale=1.0006@full,soft:scale=1.0006@full --compare none
	[ "$status" = 5 ]
	[[ $output == *"error[E-COMPARE-DRIFT]"*"drift apart"* && $output == *"largest error"* ]]
	[[ $output != *E-COMPARE-NODE* ]]
}

@test "The cut-down model reproduces zeros, NaN and nondeterminism" {
	need_faults
	planted soft:zero --bisect -o "$out"
	part_shows 1 soft:zero E-OUT-ZERO
	rm -rf "$out"
	planted gap:nan --bisect -o "$out"
	[[ $output == *"error[E-OUT-NAN]: output 'y'"*"first node  'gap'"* ]]
	part_shows 1 gap:nan E-OUT-NAN
	rm -rf "$out"
	planted fc:nondeterministic=0.01 --determinism 10 --bisect -o "$out"
	[[ $output == *"error[E-DETERMINISM]: output 'y'"*"first node  'fc'"* ]]
	part_shows 1 fc:nondeterministic=0.01 E-DETERMINISM --determinism 10
}

@test "A node that crashes the process is found, and infer run reproduces the crash" {
	need_faults
	planted gap:crash --bisect -o "$out"
	[ "$status" = 3 ]
	[[ $output == *"error[E-RUN]: node 'gap' (GlobalAveragePool): a run is killed by signal 11"* ]]
	[[ $output == *"a run crashes the process"* ]]
	INFER_FAULT=gap:crash run -139 "$FAULTS_INFER" run "$out/model.onnx" --data-set "$out/test_data_set_0"
	"$INFER" run "$out/model.onnx" --data-set "$out/test_data_set_0" -q
}

@test "--bisect without a finding writes nothing" {
	run -0 --separate-stderr "$INFER" check "$net" --random x=0..1 --bisect -o "$out"
	[[ $output == *"no finding names a node to start from"* ]]
	[ ! -e "$out/model.onnx" ]
}

@test "A run's output that has not the declared shape is a finding, whether data or the inputs' sizes decide it" {
	local head='<ir_version: 10, opset_import: ["" : 21]> g (float[4,3] x, bool[4] c)'
	echo "$head => (float[4,3] y) { y = Compress<axis=0>(x, c) }" >"$BATS_TEST_TMPDIR/rows.txt"
	run -0 "$INFER" check "$BATS_TEST_TMPDIR/rows.txt" --random x=0..1 --input 'c=[true,false,true,false]'
	[[ $output == *"warning[W-MODEL-DECLARED]: node 'Compress_0' (Compress) output 'y': the run gave another shape than is declared: expected [4,3], as declared, got [2,3]"* ]]
	run -0 "$INFER" check "$BATS_TEST_TMPDIR/rows.txt" --random x=0..1 --input 'c=[true,true,true,true]'
	[[ $output != *MODEL-DECLARED* ]]
	echo "<ir_version: 10, opset_import: [\"\" : 21]> g (float[N,3] x) => (float[N,3] y) { y = Concat<axis=0>(x, x) }" >"$BATS_TEST_TMPDIR/twice.txt"
	run -0 "$INFER" check "$BATS_TEST_TMPDIR/twice.txt" --dim N=2
	[[ $output == *"expected [N,3], as declared, got [4,3]"* ]]
}

@test "--compare keeps a tolerance that is given, whatever precision a side has" {
	run -0 "$INFER" check "$net" --random x=0..1 --compare fp32,fp16
	run -5 "$INFER" check "$net" --random x=0..1 --compare fp32,fp16 --rtol 1e-6
	[[ $output == *"error[E-COMPARE-DRIFT]"*"limit"*"1e-06 of the largest element (--rtol)"* ]]
}

@test "The limit of strings is no share of a largest element" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (string[2] y) { y = Cast <to = 8> (x) }' >words.onnxtxt
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (string[2] y) { z = Neg (x) y = Cast <to = 8> (z) }' >others.onnxtxt
	run -5 "$INFER" check words.onnxtxt --compare others.onnxtxt --input 'x=[1,2]'
	[[ $output == *"2 of 2 strings differ"*"limit"*"none: strings must be equal"* && $output != *"largest element"* ]]
}

@test "A leak that could not be looked for is told as that" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[n,4] x) => (float[m,3,4] y) <int64[3] to = {-1, 3, 4}> { y = Reshape (x, to) }' >thirds.onnxtxt
	run -3 "$INFER" check thirds.onnxtxt --dim n=3 --leak --shapes-sweep n=4..5
	[[ $output == *"leak         aborted     the model does not take 'n=4', 'n=5'; no run succeeded, so that memory was not judged"* ]]
}

@test "--compare tells values of one name apart, which two calls of a function from nodes of one name have" {
	need_onnx
	python3 - <<-'END'
		import numpy as np, onnx
		from onnx import helper as h, numpy_helper as nh, TensorProto as T
		op = [h.make_opsetid("", 17)]
		f = h.make_function("own", "f", ["x", "s"], ["o"], [h.make_node("Mul", ["x", "s"], ["m"], "mul"), h.make_node("Tanh", ["m"], ["o"], "tanh")], op)
		v = lambda n: h.make_tensor_value_info(n, T.FLOAT, [4])
		g = h.make_graph([h.make_node("f", ["x", "a"], ["p"], "call", domain="own"), h.make_node("f", ["x", "b"], ["q"], "call", domain="own"),
		    h.make_node("Add", ["p", "q"], ["y"], "add")], "g", [v("x")], [v("y")], [nh.from_array(np.float32(2), "a"), nh.from_array(np.float32(-3), "b")])
		onnx.save(h.make_model(g, opset_imports=op + [h.make_opsetid("own", 1)], functions=[f], ir_version=8), "calls.onnx")
	END
	run -0 "$INFER" check calls.onnx --compare none,basic
	[[ $output == *"compare      ok          5 of 5 nodes compared"* ]]
}
