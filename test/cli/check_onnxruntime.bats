#!/usr/bin/env bats
# infer check --compare onnxruntime, with the library of ONNX Runtime's wheel among the oracles of `make deps-dev`. The models with
# a difference draw random numbers: the standard does not say from which generator.

load helper

setup_file() {
	has_onnx || return 0 # setup() skips the tests
	cd "$BATS_FILE_TMPDIR" || return 1
	python3 - <<-'END'
		import numpy as np, onnx
		from onnx import helper as h, numpy_helper as nh, TensorProto as T
		rng = np.random.default_rng(1)
		def save(name, nodes, ins, outs, init=()):
		    g = h.make_graph(nodes, "g", ins, outs, list(init))
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name)
		def value(name, shape, t=T.FLOAT):
		    return h.make_tensor_value_info(name, t, shape)
		w = nh.from_array(rng.standard_normal((8, 8)).astype("f"), "w")
		save("same.onnx", [h.make_node("MatMul", ["x", "w"], ["a"], "first"), h.make_node("Tanh", ["a"], ["b"], "second"),
		    h.make_node("Softmax", ["b"], ["y"], "third")], [value("x", ["n", 8])], [value("y", ["n", 8])], [w])
		draws = [h.make_node("MatMul", ["x", "w"], ["a"], "first"),
		    h.make_node("RandomUniformLike", ["a"], ["r"], "draw", seed=1.0), h.make_node("Add", ["a", "r"], ["s"], "sum")]
		save("draws.onnx", draws + [h.make_node("Mul", ["s", "s"], ["y"], "square")], [value("x", [4, 8])], [value("y", [4, 8])], [w])
		save("hides.onnx", draws + [h.make_node("Sub", ["s", "s"], ["z"], "zero"), h.make_node("Add", ["z", "a"], ["y"], "last")],
		    [value("x", [4, 8])], [value("y", [4, 8])], [w])
		save("missing.onnx", [h.make_node("Relu", ["x"], ["y"], "shorts")], [value("x", [8], T.INT16)], [value("y", [8], T.INT16)])
		save("pad.onnx", [h.make_node("Pad", ["x", "pads"], ["y"], "mirror", mode="reflect")], [value("x", [1, "n"])], [value("y", None)],
		    [nh.from_array(np.array([0, 20, 0, 20]), "pads")])
		save("tail.onnx", [h.make_node("Sub", ["x", "far"], ["a"], "shift"), h.make_node("Sigmoid", ["a"], ["b"], "tail"), h.make_node("Neg", ["b"], ["y"], "last")],
		    [value("x", [64])], [value("y", [64])], [nh.from_array(np.linspace(12, 20, 64, dtype="f"), "far")])
		save("steps.onnx", [h.make_node("RandomUniformLike", ["x"], ["r"], "draw", low=1.0, high=1.00001, seed=1.0), h.make_node("Mul", ["r", "half"], ["a"], "edge"),
		    h.make_node("QuantizeLinear", ["a", "one", "zero"], ["q"], "codes"), h.make_node("Reshape", ["q", "flat"], ["f"], "flat"),
		    h.make_node("DequantizeLinear", ["f", "one", "zero"], ["y"], "numbers")], [value("x", [8, 8])], [value("y", [64])],
		    [nh.from_array(np.float32(v), n) for n, v in (("half", 100.4995), ("one", 1))] +
		    [nh.from_array(np.uint8(0), "zero"), nh.from_array(np.array([64]), "flat")])
		for name, scale in (("large", 1e3), ("small", 1e-2), ("middle", 1)):
		    np.save(name + ".npy", (scale * rng.standard_normal((4, 8))).astype("f"))
	END
}

setup() {
	need_onnx
	[ -d "$oracles/onnxruntime/capi" ] || skip "no library of ONNX Runtime"
	export INFER_DEVICE=cpu INFER_LIBRARY_PATH=$oracles/onnxruntime/capi
	cd "$BATS_FILE_TMPDIR" || return 1
}

@test "a model of which ONNX Runtime has the same outputs and tensors" {
	run -0 "$INFER" check same.onnx --compare onnxruntime
	[[ $output =~ 'compare      ok          ONNX Runtime 1.'[0-9.]+', not optimized: outputs within' ]]
	[[ $output != *'inner tensors'* ]]
	run -0 "$INFER" check same.onnx --compare onnxruntime --every-tensor
	[[ $output == *', 3 inner tensors within'* ]]
}

@test "the library is found in a Python environment, and its absence has a cure" {
	unset INFER_LIBRARY_PATH
	PYTHONPATH=$oracles run -0 "$INFER" check same.onnx --compare onnxruntime
	[[ $output == *'not optimized: outputs within'* ]]
	PYTHONPATH='' PATH=/nowhere HOME=/nowhere run "$INFER" check same.onnx --compare onnxruntime
	[ "$status" = 0 ] && skip "the system has ONNX Runtime"
	[[ $output == *'error[E-LIBRARY]: ONNX Runtime'\''s library'* && $output == *'pip install onnxruntime'* ]]
}

@test "the first node that differs is named, though later ones differ more" {
	run -5 "$INFER" check draws.onnx --compare onnxruntime
	[[ $output == *"error[E-COMPARE-NODE]: node 'draw' (RandomUniformLike): this run and ONNX Runtime begin to differ in this node"* ]]
	[[ $output == *"its output"*"'r' max diff"* && $output != *'later node'* ]]
	run -5 "$INFER" check draws.onnx --compare onnxruntime --json
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "compare"]
		assert c["verdict"] == "jump" and c["reference"].startswith("onnxruntime 1."), c
		assert [n["node"] for n in c["nodes"]] == ["first", "draw", "sum", "square"], c
		assert c["nodes"][0]["accumulated"] < 1e-5 < 1e-2 < c["nodes"][1]["accumulated"], c
	END
}

@test "a difference that no output shows is a warning, and found on demand" {
	run -0 "$INFER" check hides.onnx --compare onnxruntime
	[[ $output != *E-COMPARE* && $output != *W-COMPARE* ]]
	run -0 "$INFER" check hides.onnx --compare onnxruntime --every-tensor
	[[ $output == *"warning[W-COMPARE-NODE]: node 'draw' (RandomUniformLike): "*', but no output shows it'* ]]
}

@test "of several inputs the worst is told" {
	run -5 "$INFER" check draws.onnx --input '*.npy' --compare onnxruntime
	[[ $output == *'worst input'*'small.npy; 2 of 3 inputs are over the limit'* ||
		$output == *'worst input'*'small.npy; 3 of 3 inputs are over the limit'* ]]
	run -0 "$INFER" check same.onnx --input '*.npy' --compare onnxruntime
	[[ $output == *'outputs of 3 inputs, worst '*'.npy, within'* ]]
}

@test "what ONNX Runtime refuses is told in its words" {
	run -5 "$INFER" check missing.onnx --compare onnxruntime
	[[ $output == *'error[E-REFERENCE]: '*'ONNX Runtime 1.'*'cannot open the model: Could not find an implementation for Relu'* ]]
}

@test "a node that ONNX Runtime computes less exactly is a warning" {
	run -0 "$INFER" check tail.onnx --compare onnxruntime --rtol 1e-3 --atol 0
	[[ $output == *"warning[W-COMPARE-NODE]: node 'tail' (Sigmoid): this run and ONNX Runtime begin to differ in this node, where ONNX Runtime is off"* ]]
	[[ $output == *'exact'*'without rounding: this run is off by '*', ONNX Runtime by 0.0'* ]]
}

@test "a step of quantized numbers, which counts as none, is to blame for what is made of it" {
	run -5 "$INFER" check steps.onnx --compare onnxruntime
	[[ $output == *"error[E-COMPARE-DRIFT]: node 'codes' (QuantizeLinear): "*'they begin to differ here: '*' of 64 quantized elements are off by 1'* ]]
	[[ $output == *"a step of 1 at 'codes'"*"its inputs "*" agree within "*"same inputs "*" with ONNX Runtime's inputs: the same to the bit"* ]]
}

@test "sizes that were guessed, and that only we take, are guessed again" {
	run -0 "$INFER" check pad.onnx --compare onnxruntime --every-tensor
	[[ $output == *'the reference does not run with the sizes that were guessed, but with --dim n=32'* ]]
	[[ $output == *'not optimized: outputs within 0, 1 inner tensor'* ]]
	run -5 "$INFER" check pad.onnx --compare onnxruntime --dim n=1
	[[ $output == *E-REFERENCE*'mirror'* ]]
}

@test "--every-tensor needs ONNX Runtime" {
	run -2 "$INFER" check same.onnx --every-tensor
	[[ $output == *'--every-tensor needs --compare onnxruntime'* ]]
}

@test "DynamicQuantizeLSTM sums codes exactly, so that no step falls into other codes than ONNX Runtime's" {
	python3 - "$INFER" <<-'PYTHON'
		import subprocess, sys
		import numpy as np
		import onnx, onnxruntime as ort
		from onnx import TensorProto as T, helper as h, numpy_helper as nh
		steps, width, hidden = 60, 300, 96
		for seed in range(3):
		    r = np.random.default_rng(seed)
		    dirs, columns = 1 + seed % 2, seed != 2
		    # weights of 7 bits: without VNNI ONNX Runtime's sums of pairs would not hold more
		    codes = lambda k: r.integers(-63, 64, (dirs, k, 4 * hidden)).astype(np.int8)
		    scales = lambda: r.uniform(1e-3, 3e-3, (dirs, 4 * hidden) if columns else (dirs,)).astype(np.float32)
		    w = {"w": codes(width), "r": codes(hidden), "b": r.normal(0, .1, (dirs, 8 * hidden)).astype(np.float32), "ws": scales(), "rs": scales()}
		    w["wz"], w["rz"] = np.zeros_like(w["ws"], np.int8), np.zeros_like(w["rs"], np.int8)
		    node = h.make_node("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"], ["y"], domain="com.microsoft", hidden_size=hidden, direction="bidirectional" if dirs > 1 else "forward")
		    g = h.make_graph([node], "g", [h.make_tensor_value_info("x", T.FLOAT, [steps, 2, width])], [h.make_tensor_value_info("y", T.FLOAT, None)], [nh.from_array(v, k) for k, v in w.items()])
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8), "m.onnx")
		    x = r.standard_normal((steps, 2, width)).astype(np.float32)
		    np.save("x.npy", x)
		    o = ort.SessionOptions()
		    o.intra_op_num_threads = 1  # the states of each thread's sequences would have a scale of their own
		    theirs = ort.InferenceSession("m.onnx", o).run(None, {"x": x})[0]
		    subprocess.run([sys.argv[1], "run", "m.onnx", "--device", "cpu", "--input", "x=x.npy", "-o", "out", "-q"], check=True)
		    off = np.abs(np.load("out/y.npy") - theirs).max()
		    assert off < 5e-6, (seed, off)
	PYTHON
}

@test "strings are compared, and a comparison of which nothing can be compared fails" {
	python3 - <<-'END'
		import onnx
		from onnx import helper as h, TensorProto as T
		def save(name, nodes, ins, outs):
		    onnx.save(h.make_model(h.make_graph(nodes, "g", ins, outs), opset_imports=[h.make_opsetid("", 17)], ir_version=8), name)
		def value(name, t=T.FLOAT):
		    return h.make_tensor_value_info(name, t, [3])
		sequence = h.make_tensor_sequence_value_info("z", T.FLOAT, [3])
		save("words.onnx", [h.make_node("Identity", ["x"], ["y"], "same")], [value("x", T.STRING)], [value("y", T.STRING)])
		save("drawn-words.onnx", [h.make_node("RandomUniformLike", ["x"], ["r"], "draw", seed=1.0), h.make_node("Cast", ["r"], ["y"], "write", to=T.STRING)],
		    [value("x")], [value("y", T.STRING)])
		save("written.onnx", [h.make_node("Cast", ["x"], ["y"], "write", to=T.STRING)], [value("x")], [value("y", T.STRING)])
		pack = h.make_node("SequenceConstruct", ["x", "x"], ["z"], "pack")
		save("sequence.onnx", [pack], [value("x")], [sequence])
		save("half.onnx", [pack, h.make_node("Relu", ["x"], ["y"], "relu")], [value("x")], [value("y"), sequence])
	END
	run -0 "$INFER" check words.onnx --compare onnxruntime --input 'x=["one","","drei \u00e4"]'
	[[ $output == *'compare      ok '*'outputs within 0'* ]]
	run -5 "$INFER" check drawn-words.onnx --compare onnxruntime
	[[ $output == *"error[E-COMPARE-NODE]: node 'draw'"*"output 'y'"*"of 3 strings differ"* ]]
	# ONNX Runtime writes 8 digits of a float, infer as many as tell it from others
	run -0 "$INFER" check written.onnx --compare onnxruntime --input 'x=[0.123456789,1234567.8,2e-30]'
	[[ $output == *'compare      ok '* ]]
	run -5 "$INFER" check sequence.onnx --compare onnxruntime
	[[ $output == *"error[E-REFERENCE]: outputs: 'z' was not compared"*'no output could be compared'* && $output != *'compare      skipped'* ]]
	run -0 "$INFER" check half.onnx --compare onnxruntime
	[[ $output == *"warning[W-REFERENCE]: outputs: 'z' was not compared"* ]]
}

@test "a tolerance that is given is kept for outputs that were computed in fp16" {
	python3 - <<-'END'
		import numpy as np, onnx
		from onnx import helper as h, numpy_helper as nh, TensorProto as T
		rng = np.random.default_rng(1)
		w = [nh.from_array(rng.standard_normal((64, 64)).astype(np.float16), "w%d" % i) for i in range(2)]
		nodes = [h.make_node("Cast", ["x"], ["a"], "down", to=T.FLOAT16), h.make_node("MatMul", ["a", "w0"], ["b"], "one"),
		    h.make_node("MatMul", ["b", "w1"], ["c"], "two"), h.make_node("Cast", ["c"], ["y"], "up", to=T.FLOAT)]
		v = lambda n: h.make_tensor_value_info(n, T.FLOAT, [4, 64])
		onnx.save(h.make_model(h.make_graph(nodes, "g", [v("x")], [v("y")], w), opset_imports=[h.make_opsetid("", 17)], ir_version=8), "fp16.onnx")
	END
	run -0 "$INFER" check fp16.onnx --compare onnxruntime
	run -5 "$INFER" check fp16.onnx --compare onnxruntime --rtol 1e-7
	[[ $output == *'limit'*'1e-07 of the largest element (--rtol)'* ]]
}
