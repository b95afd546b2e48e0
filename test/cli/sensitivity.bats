#!/usr/bin/env bats
# infer check --sensitivity: which nodes cause the loss of a quantized model, or of a run in less precision.

load helper

setup_file() {
	has_onnx || return 0 # setup() skips the tests
	cp "$BATS_TEST_DIRNAME/sensitivity.py" "$BATS_FILE_TMPDIR" || return 1
	cd "$BATS_FILE_TMPDIR" || return 1
	python3 sensitivity.py
}

setup() {
	need_onnx
	export INFER_DEVICE=cpu
	cd "$BATS_FILE_TMPDIR" || return 1
}

# The node at fault is ranked first by each metric, and little of the loss is left with it in fp32.
finds_first() { # MODEL NODE
	local metric
	for metric in maxabs cosine l2 kl; do
		run -0 "$INFER" check "$1" --compare fp32.onnx --sensitivity --metric $metric --data-set 'set_*' --json
		python3 - "$output" "$2" <<-'END' || { echo "$metric"; return 1; }
			import json, sys
			[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
			first = c["nodes"][0]
			assert first["node"] == sys.argv[2], [(n["node"], n["share"], n["spared"]) for n in c["nodes"]]
			assert first["loss_if_requantized"] < c["loss"] / 3, first
			assert c["exclude"][0] == sys.argv[2] and c["loss_with_first_undone"][1] < c["loss"] / 3, c
		END
	done
}

@test "a wrong scale of weights is found first" {
	finds_first weight.onnx conv2
}

@test "a wrong scale of an activation is found first, at the node that makes it" {
	finds_first activation.onnx conv1
}

@test "a wrong scale of one channel is found first" {
	finds_first channel.onnx conv3
}

@test "a wrong scale of the QOperator form is found first" {
	finds_first qoperator.onnx conv2
}

@test "codes of a convolution whose Relu the quantizer dropped are those of the Relu" {
	finds_first dropped.onnx conv2
	run -0 "$INFER" check dropped.onnx --compare fp32.onnx --sensitivity --data-set 'set_*' --json
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
		assert [n["error"] < 0.05 for n in c["nodes"] if n["node"] in ("conv0", "conv1")] == [True, True], c["nodes"]
	END
}

@test "the QOperator form: codes around an operator left in float, and those of an operator that others express" {
	local node
	run -0 "$INFER" check form.onnx --compare form.fp32.onnx --sensitivity --metric l2 --data-set 'form_[0-9]' --undo 100 --json
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
		nodes = {n["node"]: n for n in c["nodes"]}
		assert set(nodes) == {"x", "wide", "down", "up", "skip", "mix", "smooth", "last"}, nodes.keys()
		assert all(n["error"] < 0.05 and -0.05 < n["share"] < 0.6 for n in nodes.values()), c["nodes"]
		assert all(abs(n["share"] - 1 + n["loss_if_undone"] / c["loss"]) < 0.15 for n in nodes.values()), c["nodes"]
		assert nodes["up"]["output_scale"] == "t_scale" and nodes["up"]["output_part"] > 0.9, nodes["up"]
		assert nodes["smooth"]["output_scale"] == "p_scale" and nodes["smooth"]["output_part"] > 0.9, nodes["smooth"]
		assert nodes["mix"]["output_part"] < 0.5, nodes["mix"]
	END
	for node in up smooth down; do
		run -0 "$INFER" check form_$node.onnx --compare form.fp32.onnx --sensitivity --metric l2 --data-set 'form_[0-9]' --json
		python3 - "$output" $node <<-'END' || { echo $node; return 1; }
			import json, sys
			[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
			first = c["nodes"][0]
			assert first["node"] == sys.argv[2] and first["share"] > 0.6 and first["loss_if_undone"] < c["loss"] / 100, c["nodes"]
			assert c["exclude"][0] == sys.argv[2] and c["loss_with_first_undone"][1] < c["loss"] / 100, c["exclude"]
			assert all(-0.05 < n["share"] < 0.05 for n in c["nodes"][1:]), c["nodes"]
		END
	done
}

@test "a mask whose range leaves nothing of the scores beside it is found first" {
	run -0 "$INFER" check mask8.onnx --compare mask.onnx --sensitivity --metric l2 --json
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
		first, *others = c["nodes"]
		assert first["node"] == "mask" and first["loss_if_undone"] < c["loss"] / 100, c["nodes"]
		assert all(n["loss_if_undone"] > c["loss"] * 0.9 for n in others), c["nodes"]
	END
}

@test "the finding names node, scale and what would remain" {
	run -0 "$INFER" check activation.onnx --compare fp32.onnx --sensitivity --metric l2 --data-set 'set_*'
	[[ $output == *"warning[W-SENSITIVITY]: node 'conv1' (Conv): "*"% of the loss between this model and fp32.onnx comes from this node, of "* ]]
	[[ $output == *"'conv1' (Conv): "*" left of "*"; the rounding of its output by 'relu1_scale'"* ]]
	[[ $output == *"keep in fp32  'conv1', 'conv2'"*" would remain"* ]]
}

@test "the list of nodes to exclude is JSON, or one name a line" {
	run -0 "$INFER" check weight.onnx --compare fp32.onnx --sensitivity --metric l2 --exclude-list "$BATS_TEST_TMPDIR/list.json"
	run -0 python3 -c 'import json, sys; print(*json.load(open(sys.argv[1])))' "$BATS_TEST_TMPDIR/list.json"
	[[ $output == conv2* ]]
	run -0 "$INFER" check weight.onnx --compare fp32.onnx --sensitivity --metric l2 --exclude-list "$BATS_TEST_TMPDIR/list"
	run -0 head -1 "$BATS_TEST_TMPDIR/list"
	[ "$output" = conv2 ]
}

@test "the pass ranks nodes as undoing each of them does" {
	for metric in cosine l2 kl; do
		run -0 "$INFER" check deep8.onnx --compare deep.onnx --sensitivity --metric $metric --undo 1000 --data-set 'deep_*' --json
		python3 - "$output" <<-'END' || { echo "$metric"; return 1; }
			import json, sys, numpy as np
			[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
			rank = lambda v: np.argsort(np.argsort(v))
			nodes = c["nodes"]
			assert len(nodes) >= 20 and c["inputs"] == 24, len(nodes)
			share = rank([n["share"] for n in nodes])
			undone = rank([-n["loss_if_undone"] for n in nodes])
			rho = np.corrcoef(share, undone)[0, 1]
			assert rho >= 0.9, rho
		END
	done
}

@test "every rule gives the derivative: a single small error causes all of the loss" {
	for model in op_*.fp32.onnx; do
		run -0 "$INFER" check "${model/fp32/int8}" --compare "$model" --sensitivity --metric l2 --undo 0 --data-set "${model%.fp32.onnx}.set" --json
		python3 - "$output" <<-'END' || { echo "$model"; return 1; }
			import json, sys
			[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
			[n] = c["nodes"]
			assert not n["without_derivative"] and n["op"] == "input", n
			assert 0.93 < n["share"] < 1.07, (n["share"], c["loss"])
		END
	done
}

@test "a node before an operator without a derivative is undone instead" {
	run -0 "$INFER" check lstm8.onnx --compare lstm.onnx --sensitivity --metric l2 --undo 0 --json
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
		nodes = {n["node"]: n for n in c["nodes"]}
		assert nodes["before"]["without_derivative"] and nodes["before"]["loss_if_undone"] < c["loss"], nodes
		assert not nodes["after"]["without_derivative"] and nodes["after"]["share"] != 0, nodes
	END
}

@test "with --precision fp16 the node is found that rounds away what the others need" {
	run -0 "$INFER" check large.onnx --precision fp16 --sensitivity --metric l2 --json --exclude-list "$BATS_TEST_TMPDIR/list"
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
		assert c["reference"] == "fp32" and c["compared"] == "fp16", c
		assert c["nodes"][0]["node"] == "raise", [(n["node"], n["spared"]) for n in c["nodes"]]
	END
	run -0 cat "$BATS_TEST_TMPDIR/list"
	[[ $output == raise* ]]
}

@test "with --precision fp8 the product is found whose weights have an outlier, on the CPU" {
	run -0 "$INFER" check outlier.onnx --precision fp8 --sensitivity --metric l2 --json --exclude-list "$BATS_TEST_TMPDIR/list"
	python3 - "$output" <<-'END'
		import json, sys
		[c] = [c for c in json.loads(sys.argv[1])["checks"] if c["name"] == "sensitivity"]
		assert c["reference"] == "fp32" and c["compared"] == "fp8", c
		first, second = c["nodes"][:2]
		assert first["node"] == "outlier" and first["loss_if_undone"] < c["loss"] / 3, c["nodes"]
		assert second["share"] > 0, second
	END
	run -0 head -1 "$BATS_TEST_TMPDIR/list"
	[ "$output" = outlier ]
	fails_with 2 'fp8 needs a GPU' check outlier.onnx --precision fp8
}

@test "quantized nodes that correspond to nothing are named" {
	run -0 "$INFER" check more.onnx --compare fp32.onnx --sensitivity --metric l2
	[[ $output == *"no counterpart  'stray'"* ]]
}

@test "equal models have no loss" {
	run -0 "$INFER" check fp32.onnx --compare fp32.onnx --sensitivity
	[[ $output == *"sensitivity  ok          no node has an error of its own: the maxabs is 0"* ]]
}

@test "an output that is not finite is said so" {
	run "$INFER" check infinite.onnx --compare fp32.onnx --sensitivity --metric l2
	[[ $output == *"node 'classify' (Gemm): an output of this model is not finite, so that the nodes cannot be ranked; this node is the first"* ]]
}

@test "wrong use is refused with what is missing" {
	fails_with 2 'nothing to compare with: expected --compare FILE.onnx' check fp32.onnx --sensitivity
	fails_with 2 'ONNX Runtime cannot be its reference' check fp32.onnx --sensitivity --compare onnxruntime
	fails_with 2 '--exclude-list: it needs --sensitivity' check fp32.onnx --exclude-list x
	fails_with 2 '--metric kl: it needs --sensitivity' check fp32.onnx --metric kl
}

@test "models with different inputs are refused, and a missing one is named" {
	run -5 "$INFER" check weight.onnx --compare lstm2.onnx --sensitivity
	[[ $output == *'the models have different numbers of inputs'* ]]
	run -3 "$INFER" check weight.onnx --compare nowhere.onnx --sensitivity
	[[ $output == *'nowhere.onnx'* ]]
}

@test "a time limit ends the study" {
	run -124 "$INFER" check deep8.onnx --compare deep.onnx --sensitivity --undo 1000 --timeout 1ms
	[[ $output == *E-TIMEOUT* ]]
}

@test "values are held within --memory-limit" {
	run "$INFER" check deep8.onnx --compare deep.onnx --sensitivity --memory-limit 100KiB
	[[ $output == *'--sensitivity holds every value between the nodes at once: expected at most 102,400 bytes'* ]]
}
