#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Attributes and values at the edges of what ONNX allows: every --optimize gives the number that its text gives.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
}

levels() { # WANT [OPTION]...: each level prints WANT for the model in text form that standard input is
	local want=$1 level
	shift
	cat >model.onnxtxt
	"$INFER" convert -q model.onnxtxt model.onnx
	for level in none basic full; do
		run -0 --separate-stderr "$INFER" run model.onnx --optimize "$level" --print 8 "$@"
		[[ $output == *"$want"* ]] || {
			echo "--optimize $level: $output, not $want"
			return 1
		}
	done
}

type_number() { # NAME: its number in ONNX
	case $1 in
	float) echo 1 ;;
	uint8) echo 2 ;;
	int32) echo 6 ;;
	int64) echo 7 ;;
	esac
}

@test "Bounds of Clip that are not in order are fused behind a convolution and a product, whatever library computes them" {
	local bounds lo hi y
	for bounds in "1 -1 -1" "nan 3 3" "5 nan 5" "inf -inf -inf"; do
		read -r lo hi y <<<"$bounds"
		# x is 2 everywhere, so that c is 4
		levels "$y $y"$'\n'"$y $y" --random 2..2 <<-END
			<ir_version: 10, opset_import: ["": 21]>
			g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,1,1] w = {2}, float lo = {$lo}, float hi = {$hi}> {
				c = Conv (x, w)
				y = Clip (c, lo, hi)
			}
		END
		levels "$y $y"$'\n'"$y $y" --random 2..2 <<-END
			<ir_version: 10, opset_import: ["": 21]>
			g (float[2,1] x) => (float[2,2] y) <float[1,2] w = {2, 2}, float lo = {$lo}, float hi = {$hi}> {
				c = MatMul (x, w)
				y = Clip (c, lo, hi)
			}
		END
	done
}

@test "Celu with a negative alpha is the formula of its text" {
	# alpha * (exp(x / alpha) - 1) = -(e^2 - 1)
	levels "-6.389056" --random=-2..-2 <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[1] x) => (float[1] y) { y = Celu <alpha = -1.0> (x) }
	END
}

@test "A device that does not start is closed before it is tried again (LeakSanitizer tells)" {
	INFER_DEVICE=cpu run -2 --separate-stderr "$INFER" check "$BATS_TEST_DIRNAME/../data/run/pic.onnx" --all --precision tf32
	[[ $output$stderr == *"tf32 needs a GPU"* ]]
}

@test "The first piece of --slice may need room of its own before a device is open: with lead, a rest, or an axis inside" {
	printf '%s' '<ir_version: 10, opset_import: ["": 21]> g (float[2,N] x) => (float[2,N] y) { y = Identity (x) }' >slice.onnxtxt
	"$INFER" convert -q slice.onnxtxt slice.onnx
	local way
	for way in "x=3,lead=1" "x=2" "x.0=2,lead=1" "x=9"; do
		run -0 --separate-stderr "$INFER" run slice.onnx --input 'x=[[1,2,3,4],[5,6,7,8]]' --slice "$way" --by-step join:1 --print
	done
	run -0 --separate-stderr "$INFER" run slice.onnx --input 'x=[[1,2,3,4],[5,6,7,8]]' --slice x=3,lead=1 --by-step join:1 --print
	[[ $output == *"0 1 2 3 4 0"*"0 5 6 7 8 0"* ]]
}

@test "A timeout while the JSON document is written lets it end: a whole document, whatever the time" {
	need_python
	printf '%s' '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Identity (x) }' >small.onnxtxt
	"$INFER" convert -q small.onnxtxt small.onnx
	python3 - "$INFER" <<-'PYTHON'
		import json, subprocess, sys
		for i in range(1, 100):
		    words = [sys.argv[1], "run", "small.onnx", "--random", "--json", "--timeout=%.5f" % (i * 0.0001)]
		    end = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
		    assert end.returncode in (0, 124), end
		    json.loads(end.stdout)
	PYTHON
}

@test "oneDNN computes the activation behind a depthwise convolution, in the same pass" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,32,12,12] x) => (float[1,32,12,12] y) {
		one = Constant <value = float[1] {0.5}> ()
		shape = Constant <value = int64[4] {32, 1, 3, 3}> ()
		w = Expand (one, shape)
		c = Conv <group = 32, pads = [1, 1, 1, 1]> (x, w)
		y = Relu (c)
	}' >model.onnxtxt
	ONEDNN_VERBOSE=1 run -0 --separate-stderr "$INFER" profile model.onnxtxt --random -1..1 --device cpu -n 5
	told=$(grep -E '(^|,)exec,cpu,convolution' <<<"$output$stderr") || skip "no oneDNN, or one that does not tell what it runs"
	[ "$(grep -vc eltwise_relu <<<"$told")" -eq 0 ]
}

@test "A program without oneDNN beside it computes products of many rows" {
	mkdir bin
	cp "$INFER" bin/infer
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[n,24] x) => (float[n,32] y) {
		half = Constant <value = float[1] {0.5}> ()
		shape = Constant <value = int64[2] {24, 32}> ()
		w = Expand (half, shape)
		y = MatMul (x, w)
	}' >model.onnxtxt
	run -0 --separate-stderr bin/infer run model.onnxtxt --random 1..1 --dim n=40 --print 2
	[[ $output == *"12 12"* ]]
	# and convolutions of one element
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,24,9,9] x) => (float[1,32,9,9] y) {
		half = Constant <value = float[1] {0.5}> ()
		shape = Constant <value = int64[4] {32, 24, 1, 1}> ()
		w = Expand (half, shape)
		y = Conv (x, w)
	}' >conv.onnxtxt
	run -0 --separate-stderr bin/infer run conv.onnxtxt --random 1..1 --print 2
	[[ $output == *"12 12"* ]]
}

@test "Resize with align_corners and a scale that is not whole: the whole length where PyTorch wrote the file, otherwise ONNX's fraction, with a warning" {
	# 5 elements by half: (5 - 1) / (2 - 1), or (5 - 1) / (2.5 - 1)
	local resize='y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"'
	levels "0 4" --input "x=[[0,1,2,3,4]]" <<-END
		<ir_version: 10, opset_import: ["": 21], producer_name: "pytorch">
		g (float[1,N] x) => (float[1,M] y) <float[2] s = {1, 0.5}> { $resize> (x, , s) }
	END
	run -0 --separate-stderr "$INFER" check model.onnx --dim N=5
	[[ $output != *AMBIGUOUS* ]]
	levels "0 4" --input "x=[[0,1,2,3,4]]" <<-END
		<ir_version: 10, opset_import: ["": 21], producer_name: "pytorch">
		g (float[1,N] x) => (float[1,M] y) <float[1] s = {0.5}> { $resize, axes = [1]> (x, , s) }
	END
	# 10 * 0.7 is 7 in fp32
	levels "f32 [1,7]" --random --dim N=10 <<-END
		<ir_version: 10, opset_import: ["": 21], producer_name: "pytorch">
		g (float[1,N] x) => (float[1,M] y) <float[2] s = {1, 0.7}> { $resize> (x, , s) }
	END
	levels "0 2.66666" --input "x=[[0,1,2,3,4]]" <<-END
		<ir_version: 10, opset_import: ["": 21]>
		g (float[1,N] x) => (float[1,M] y) <float[2] s = {1, 0.5}> { $resize> (x, , s) }
	END
	run -0 --separate-stderr "$INFER" check model.onnx --dim N=5
	[[ $output == *"warning[W-OP-AMBIGUOUS]"*"(Resize)"*"sizes in place of scales"* ]]
}

@test "Convolutions that oneDNN 3.2 computes wrong on a processor with AMX: even kernels and strides in bf16, few single pixels of 8-bit codes, and pads of rows alone" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,48,8,8] x) => (float[1,88,4,4] y) {
		half = Constant <value = float[1] {0.5}> ()
		shape = Constant <value = int64[4] {88, 48, 2, 2}> ()
		w = Expand (half, shape)
		y = Conv <strides = [2, 2]> (x, w)
	}' >even.onnxtxt
	run -0 --separate-stderr "$INFER" check even.onnxtxt --random 0..1 --compare bf16,fp32
	echo '<ir_version: 8, opset_import: ["" : 17]> g (uint8[1,64,6,8] x) => (uint8[1,88,6,8] y) <float one = {1}, uint8 three = {3}, uint8 none = {0}, int8 zero = {0}> {
		two = Constant <value = int64[1] {2}> ()
		code = Cast <to = 3> (two)
		shape = Constant <value = int64[4] {88, 64, 1, 1}> ()
		w = Expand (code, shape)
		y = QLinearConv (x, one, three, w, one, zero, one, none)
	}' >pixels.onnxtxt
	run -0 --separate-stderr "$INFER" run pixels.onnxtxt --random 4..4 --print 5000
	[ "$(grep -o -w 128 <<<"$output" | wc -l)" -eq 4224 ]
	# codes with a zero point: 64 channels of (4 - 3) * 2, of which the first and the last row have two taps, and the others three
	echo '<ir_version: 8, opset_import: ["" : 17]> g (uint8[1,64,10,35] x) => (uint8[1,88,10,33] y)
		<float one = {1}, float eight = {8}, uint8 three = {3}, uint8 none = {0}, int8 zero = {0}> {
		two = Constant <value = int64[1] {2}> ()
		code = Cast <to = 3> (two)
		shape = Constant <value = int64[4] {88, 64, 3, 3}> ()
		w = Expand (code, shape)
		y = QLinearConv <pads = [1, 0, 1, 0]> (x, one, three, w, one, zero, eight, none)
	}' >rows.onnxtxt
	run -0 --separate-stderr "$INFER" run rows.onnxtxt --random 4..4 --print 40000
	[ "$(grep -o -w 96 <<<"$output" | wc -l)" -eq $((88 * 2 * 33)) ]
	[ "$(grep -o -w 144 <<<"$output" | wc -l)" -eq $((88 * 8 * 33)) ]
}

@test "A bias behind a Gemm with a beta counts whole, and pads of both signs shift" {
	levels "6 7" --random 1..1 <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 1, 1, 1}, float[2] c = {4, 5}> {
			t = Gemm <beta = 0.5> (x, w)
			y = Add (t, c)
		}
	END
	levels "0 1 2" --input "x=[1,2,3]" <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[3] x) => (float[3] y) <int64[2] pads = {1, -1}> { y = Pad (x, pads) }
	END
}

@test "Trees without a root, with two, or with branches in a circle are refused, with the node" {
	local links expected
	while IFS=: read -r links expected; do
		echo "<ir_version: 10, opset_import: [\"\": 21, \"ai.onnx.ml\": 3]>
		g (float[N,1] x) => (float[N,1] y) {
			y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [7, 7, 7, 7, 7], nodes_nodeids = [0, 1, 2, 3, 4],
				nodes_featureids = [0, 0, 0, 0, 0], nodes_values = [0.5, 0.25, 0.0, 0.0, 0.0], $links
				nodes_modes = [\"BRANCH_LEQ\", \"BRANCH_LEQ\", \"LEAF\", \"LEAF\", \"LEAF\"],
				target_ids = [0, 0, 0], target_nodeids = [2, 3, 4], target_treeids = [7, 7, 7], target_weights = [1.0, 2.0, 3.0]> (x)
		}" >tree.onnxtxt
		if [ "$expected" = sound ]; then
			run -0 --separate-stderr "$INFER" run tree.onnxtxt --input 'x=[[0.1],[0.3],[0.9]]' --print 3
			[[ $output == *$'\n1\n2\n3'* ]]
		else
			fails_with 3 "$expected" run tree.onnxtxt --random
		fi
	done <<-'END'
		nodes_truenodeids = [1, 2, 0, 0, 0], nodes_falsenodeids = [4, 3, 0, 0, 0],:sound
		nodes_truenodeids = [0, 2, 0, 0, 0], nodes_falsenodeids = [4, 3, 0, 0, 0],:in a circle, at node 0 of tree 7
		nodes_truenodeids = [1, 0, 0, 0, 0], nodes_falsenodeids = [4, 3, 0, 0, 0],:in a circle, at node 0 of tree 7
		nodes_truenodeids = [4, 2, 0, 0, 0], nodes_falsenodeids = [4, 3, 0, 0, 0],:node 1 of tree 7, which no other node leads to
		nodes_truenodeids = [2, 1, 0, 0, 0], nodes_falsenodeids = [3, 1, 0, 0, 0],:in a circle, at node 1 of tree 7
	END
}

@test "A leaf after the root that no branch leads to is not counted, as ONNX Runtime has it" {
	local how
	for how in AVERAGE SUM MIN MAX; do
		levels "1"$'\n'"2" --input 'x=[[0.1],[0.9]]' <<-END
			<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
			g (float[2,1] x) => (float[2,1] y) {
				y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [7, 7, 7, 7], nodes_nodeids = [0, 1, 2, 3],
					nodes_featureids = [0, 0, 0, 0], nodes_values = [0.5, 0.0, 0.0, 0.0], aggregate_function = "$how",
					nodes_truenodeids = [1, 0, 0, 0], nodes_falsenodeids = [2, 0, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
					target_ids = [0, 0, 0], target_nodeids = [1, 2, 3], target_treeids = [7, 7, 7], target_weights = [1.0, 2.0, 99.0]> (x)
			}
		END
	done
}

@test "Attributes of trees that are tensors of another type than numbers are refused, not read as 0" {
	local changed expected values weights base splits leaves modes
	while IFS=: read -r changed expected; do
		values='double[3] {0.5, 0.0, 0.0}' weights='double[2] {1.0, 2.0}' base='float[1] {0.0}'
		[ "$changed" = sound ] || eval "$changed"
		echo "<ir_version: 10, opset_import: [\"\": 21, \"ai.onnx.ml\": 3]>
		g (float[N,1] x) => (float[N,1] y) {
			y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [7, 7, 7], nodes_nodeids = [0, 1, 2],
				nodes_featureids = [0, 0, 0], nodes_values_as_tensor = $values, base_values_as_tensor = $base,
				nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"],
				target_ids = [0, 0], target_nodeids = [1, 2], target_treeids = [7, 7], target_weights_as_tensor = $weights> (x)
		}" >tree.onnxtxt
		if [ "$changed" = sound ]; then
			run -0 "$INFER" run tree.onnxtxt --random
		else
			fails_with 3 "$expected" run tree.onnxtxt --random
		fi
	done <<-'END'
		sound:
		values='string[3] {"0.5", "0", "0"}':attribute 'nodes_values_as_tensor' of f32, f16, f64, bf16, got string
		weights='string[2] {"1", "2"}':attribute 'target_weights_as_tensor' of f32, f16, f64, bf16, got string
		weights='int64[2] {1, 2}':attribute 'target_weights_as_tensor' of f32, f16, f64, bf16, got i64
		base='string[1] {"1"}':attribute 'base_values_as_tensor' of f32, f16, f64, bf16, got string
	END
	while IFS=: read -r changed expected; do
		splits='float[1] {0.5}' leaves='float[2] {1.0, 2.0}' modes='uint8[1] {0}'
		[ "$changed" = sound ] || eval "$changed"
		echo "<ir_version: 10, opset_import: [\"\": 21, \"ai.onnx.ml\": 5]>
		g (float[N,1] x) => (float[N,1] y) {
			y = ai.onnx.ml.TreeEnsemble <n_targets = 1, tree_roots = [0], nodes_featureids = [0], nodes_splits = $splits, nodes_modes = $modes,
				nodes_truenodeids = [0], nodes_trueleafs = [1], nodes_falsenodeids = [1], nodes_falseleafs = [1],
				leaf_targetids = [0, 0], leaf_weights = $leaves> (x)
		}" >tree.onnxtxt
		if [ "$changed" = sound ]; then
			run -0 "$INFER" run tree.onnxtxt --random
		else
			fails_with 3 "$expected" run tree.onnxtxt --random
		fi
	done <<-'END'
		sound:
		splits='string[1] {"1"}':attribute 'nodes_splits' of f32, got string
		splits='double[1] {1.0}':attribute 'nodes_splits' of f32, got f64
		leaves='string[2] {"1", "2"}':attribute 'leaf_weights' of f32, got string
		modes='string[1] {"0"}':attribute 'nodes_modes' of u8, got string
	END
}

@test "check warns of a Transpose that counts axes from the end, which ONNX Runtime refuses" {
	echo '<ir_version: 10, opset_import: ["": 21]> g (float[2,3,4] x) => (float[2,4,3] y) { y = Transpose <perm = [0, -1, 1]> (x) }' >perm.onnxtxt
	run -0 "$INFER" check perm.onnxtxt
	[[ $output == *"warning[W-OP-AMBIGUOUS]"*"(Transpose)"*"perm has -1"* ]]
	sed -i 's/-1/2/' perm.onnxtxt
	run -0 "$INFER" check perm.onnxtxt
	[[ $output != *W-OP-AMBIGUOUS* ]]
}

@test "A Tokenizer needs what it splits by, and refuses strings that are not UTF-8" {
	local attributes said
	while IFS='|' read -r attributes said; do
		echo "<ir_version: 8, opset_import: [\"\": 17, \"com.microsoft\": 1]> g (string[1] x) => (string[1,D] y) {
			y = com.microsoft.Tokenizer <mark = 0, pad_value = \"#\", $attributes> (x) }" >token.onnxtxt
		run "$INFER" run token.onnxtxt --input 'x=["a b"]'
		[[ $status -eq 3 && $output == *"::Tokenizer)"*"$said"* ]] || { echo "$attributes: $output"; return 1; }
	done <<-'END'
		mincharnum = 1|separators or a tokenexp that is not empty
		mincharnum = 1, tokenexp = ""|separators or a tokenexp that is not empty
		mincharnum = 0, separators = [" "]|mincharnum of 1 or more
		mincharnum = 2, separators = [""]|mincharnum of 1 for tokens of one character
		mincharnum = 2, tokenexp = "."|mincharnum of 1 for tokens of one character
		mincharnum = 1, separators = ["("]|a group without ')'
		mincharnum = 1, tokenexp = "(a)\\1"|an escape that is not known
	END
	sed -i 's/mincharnum.*>/mincharnum = 1, separators = [" "]>/' token.onnxtxt
	printf 'a \351' >latin1.txt
	run "$INFER" run token.onnxtxt --input x=latin1.txt
	[[ $status -ne 0 && $output == *UTF-8* ]]
}

@test "check warns of a SplitToSequence whose keepdims ONNX Runtime does not ignore" {
	local keeps
	for keeps in 'keepdims = 0' 'keepdims = 1' 'axis = 0'; do
		echo "<ir_version: 8, opset_import: [\"\": 17]> g (float[4,2] x) => (float[4,2] y) <int64 size = {2}> {
			s = SplitToSequence <$keeps> (x, size) y = ConcatFromSequence <axis = 0> (s) }" >split.onnxtxt
		run -0 "$INFER" check split.onnxtxt
		if [ "$keeps" = 'keepdims = 0' ]; then
			[[ $output == *"warning[W-OP-AMBIGUOUS]"*"(SplitToSequence)"*"keepdims is 0 beside a single size"* ]]
		else
			[[ $output != *AMBIGUOUS* ]]
		fi
	done
}

# An If of CONDITION with a node in a branch whose operands do not fit, in the main graph or in another branch.
choice() { # CONDITION THEN ELSE
	echo "<ir_version: 8, opset_import: [\"\": 17]> g (float[2,3] x, bool maybe) => (float[2,3] y) <bool yes = {1}, bool no = {0}, float[4] w = {1, 2, 3, 4}> {
		y = If ($1) <then_branch = a () => (float[2,3] t) { $2 }, else_branch = b () => (float[2,3] e) { $3 }> }" >choice.onnxtxt
}

@test "check tells of operands that do not fit in a branch: a note if the condition is constant and never takes it" {
	local fits='e = Neg (x)' not='e = Add (x, w)' inner
	choice yes 't = Relu (x)' "$not"
	run -0 "$INFER" check choice.onnxtxt
	[[ $output == *"note[N-SHAPE]: node 'Add_0' (Add) input 1 'B': "*"in else_branch of 'If_0', which its constant condition never takes"* ]]
	[[ $output == *"0 errors"* && $output != *W-SHAPE* ]]
	choice no 't = Add (x, w)' "$fits"
	run -0 "$INFER" check choice.onnxtxt
	[[ $output == *"note[N-SHAPE]: node 'Add_0' (Add)"*"in then_branch of 'If_0', which its constant condition never takes"* ]]
	choice maybe 't = Relu (x)' "$not"
	run -0 "$INFER" check choice.onnxtxt --random maybe=1..1 --random
	[[ $output == *"warning[W-SHAPE]: node 'Add_0' (Add)"*"in else_branch of 'If_0': a run that takes it fails"* ]]
	# a branch inside of one that is taken, and operators of an old version
	inner="e = If (no) <then_branch = c () => (float[2,3] i) { s = Squeeze (x, one) i = Add (s, w) }, else_branch = d () => (float[2,3] j) { j = Neg (x) }>"
	choice no 't = Relu (x)' "one = Constant <value_ints = [1]> () $inner"
	run -0 "$INFER" check choice.onnxtxt
	[[ $output == *"note[N-SHAPE]: node 'Squeeze_0' (Squeeze)"*"in then_branch of "*", which its constant condition never takes"* ]]
	choice maybe 't = Relu (x)' "$fits"
	run -0 "$INFER" check choice.onnxtxt --random maybe=0..1 --random
	[[ $output != *SHAPE* ]]
	# what always runs is an error
	choice yes "t = Add (x, w)" "$fits"
	run -3 "$INFER" check choice.onnxtxt
	[[ $output == *"error[E-SHAPE]"* && $output != *"N-SHAPE"* ]]
}

# One tree whose left leaf has two votes of 0.25 and 0.5 for the one target; ARGS: more attributes of the operator.
forest() { # [OPERATOR OUTPUTS ARGS]
	local votes=${1:-target}
	cat <<-END
		<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
		g (float[N,1] x) => (${2:-float[N,T] y}) {
			${3:-y} = ai.onnx.ml.${4:-TreeEnsembleRegressor} <nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],
				nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
				nodes_falsenodeids = [2, 0, 0], ${votes}_treeids = [0, 0, 0], ${votes}_nodeids = [1, 1, 2], ${votes}_ids = [0, 0, 0],
				${votes}_weights = [0.25, 0.5, 2.0], ${5:-n_targets = 1}> (x)
		}
	END
}

@test "check warns of a leaf with several votes for the only target, of which ONNX Runtime takes the first" {
	forest >forest.onnxtxt
	run -0 "$INFER" check forest.onnxtxt --dim N=2
	[[ $output == *"warning[W-OP-AMBIGUOUS]"*"(TreeEnsembleRegressor)"*"leaf 1 of tree 0 has several weights"*"0.75"*"ONNX Runtime takes the first, 0.25"* ]]
	forest target '' '' '' 'n_targets = 1, aggregate_function = "MAX"' >forest.onnxtxt
	run -0 "$INFER" check forest.onnxtxt --dim N=2
	[[ $output == *"warning[W-OP-AMBIGUOUS]"*"0.5"*"ONNX Runtime takes the first, 0.25"* ]]
	# the first is the smallest, and of two targets ONNX Runtime adds the votes up
	for args in 'n_targets = 1, aggregate_function = "MIN"' 'n_targets = 2'; do
		forest target '' '' '' "$args" >forest.onnxtxt
		run -0 "$INFER" check forest.onnxtxt --dim N=2
		[[ $output != *AMBIGUOUS* ]] || { echo "$args"; return 1; }
	done
	forest class 'int64[N] y, float[N,C] z' 'y, z' TreeEnsembleClassifier 'classlabels_int64s = [7]' >forest.onnxtxt
	run -0 "$INFER" check forest.onnxtxt --dim N=2
	[[ $output == *"warning[W-OP-AMBIGUOUS]"*"(TreeEnsembleClassifier)"*"several weights"* ]]
	forest class 'int64[N] y, float[N,C] z' 'y, z' TreeEnsembleClassifier 'classlabels_int64s = [7, 8]' >forest.onnxtxt
	run -0 "$INFER" check forest.onnxtxt --dim N=2
	[[ $output != *AMBIGUOUS* ]]
}

@test "An SVMClassifier is not certain of a class for NaN" {
	echo '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 1]>
	g (float[N,1] x) => (int64[N] y, float[N,2] z) {
		y, z = ai.onnx.ml.SVMClassifier <classlabels_ints = [0, 1], vectors_per_class = [1, 1], support_vectors = [1.0, 2.0], coefficients = [1.0, -1.0],
			rho = [0.0], prob_a = [-1.0], prob_b = [0.0], kernel_params = [1.0, 0.0, 0.0], kernel_type = "RBF"> (x)
	}' >svm.onnxtxt
	echo '[[NaN]]' >x.json
	run -0 --separate-stderr "$INFER" run svm.onnxtxt --input x.json --print
	[[ $output == *$'z f32 [1,2]\n0.5 0.5'* ]] # as ONNX Runtime says
}

@test "Counts of vectors below 0 are refused, and a loss over no class reads none" {
	echo '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 1]>
	g (float[N,1] x) => (int64[N] y, float[N,M] z) {
		y, z = ai.onnx.ml.SVMClassifier <classlabels_ints = [0, 1, 2], vectors_per_class = [-5, 5, 3], support_vectors = [1.0, 2.0, 3.0],
			coefficients = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], rho = [0.0, 0.0, 0.0], kernel_params = [1.0, 0.0, 0.0], kernel_type = "LINEAR"> (x)
	}' >svm.onnxtxt
	fails_with 3 "labels, vectors, coefficients and rho that fit" run svm.onnxtxt --random
	echo '<ir_version: 10, opset_import: ["": 21]>
	g (float[1,0,4194304] x, int64[1,4194304] t) => (float y) { y = SoftmaxCrossEntropyLoss <ignore_index = 0> (x, t) }' >loss.onnxtxt
	run -0 --separate-stderr "$INFER" run loss.onnxtxt --random x=0..1 --random t=0..0
}

@test "Attributes that ONNX Runtime writes by default are taken, and other values of them are refused by name" {
	nbits() {
		echo "<ir_version: 10, opset_import: [\"\": 21, \"com.microsoft\": 1]>
		g (float[1,16] x) => (float[1,1] y) <uint8[1,1,8] b = {153, 153, 153, 153, 153, 153, 153, 153}, float[1] scale = {0.5}> {
			y = com.microsoft.MatMulNBits <K = 16, N = 1, bits = 4, block_size = 16, weight_prepacked = $1> (x, b, scale)
		}" >nbits.onnxtxt
	}
	nbits 0
	# 16 products of 1 and (9 - 8) * 0.5
	run -0 --separate-stderr "$INFER" run nbits.onnxtxt --random 1..1 --print
	[[ $output == *$'\n8'* ]]
	nbits 2
	fails_with 3 "weight_prepacked of 0" run nbits.onnxtxt --random
}

@test "Queries and keys of GroupQueryAttention may be normalized with epsilons of their own" {
	attend() {
		echo "<ir_version: 10, opset_import: [\"\": 21, \"com.microsoft\": 1]>
		g (float[1,2,8] q, float[1,2,8] k, float[1,2,8] v) => (float[1,2,8] y, float[1,1,2,8] pk, float[1,1,2,8] pv)
		<int32[1] last = {1}, int32 total = {2}, float[8] one = {1, 1, 1, 1, 1, 1, 1, 1}> {
			y, pk, pv = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1, $1>
				(q, k, v, , , last, total, , , , , , , , one, one)
		}" >gqa.onnxtxt
		"$INFER" run gqa.onnxtxt --random 0..1 --print 99 -q
	}
	both=$(attend "qk_norm_epsilon = 0.5")
	[ "$(attend "q_norm_epsilon = 0.5, k_norm_epsilon = 0.5")" = "$both" ]
	[ "$(attend "qk_norm_epsilon = 0.5, k_norm_epsilon = 0.25")" != "$both" ]
	[ "$(attend "qk_norm_epsilon = 0.25, q_norm_epsilon = 0.5, k_norm_epsilon = 0.5")" = "$both" ]
	[ "$(attend "qk_norm_epsilon = 0.5, q_norm_epsilon = 0.25")" != "$both" ]
}

@test "Operands that broadcast to more than a fused operator takes are left as they are" {
	levels $'1\n1\n1' --random 1..1 --dim B=3 <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[1,1,1,1] q, float[B,1,1,1] k, float[B,1,1,1] v) => (float[B,1,1,1] y) {
			s = MatMul (q, k)
			p = Softmax <axis = -1> (s)
			y = MatMul (p, v)
		}
	END
	levels $'1\n1\n1' --random 1..1 --dim B=1 <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[B,1,1,1] q, float[B,1,1,1] k, float[B,1,1,1] v) => (float[M,1,1,1] y) <float[3,1,1,1] m = {1, 2, 3}> {
			s = MatMul (q, k)
			t = Add (s, m)
			p = Softmax <axis = -1> (t)
			y = MatMul (p, v)
		}
	END
	levels $'1 2 3\n-1 -2 -3' --input 'x=[[2],[-2]]' <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[2,1] x) => (float[2,3] y) <float two = {2}, int64[1] a = {-1}, float e = {1e-9}, float[3] s = {1, 2, 3}> {
			p = Pow (x, two)
			u = ReduceMean <keepdims = 1> (p, a)
			f = Add (u, e)
			r = Sqrt (f)
			d = Div (x, r)
			y = Mul (d, s)
		}
	END
	levels $'0 0 0\n0 0 0' --input 'x=[[2],[-2]]' <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (float[2,1] x) => (float[2,3] y) <float two = {2}, int64[1] a = {-1}, float e = {1e-9}, float[1] s = {5}, float[3] b = {0, 0, 0}> {
			u = ReduceMean <keepdims = 1> (x, a)
			d = Sub (x, u)
			p = Pow (d, two)
			q = ReduceMean <keepdims = 1> (p, a)
			f = Add (q, e)
			r = Sqrt (f)
			n = Div (d, r)
			m = Mul (n, s)
			y = Add (m, b)
		}
	END
}

@test "A Conv over an axis of no elements gives none, fused or not" {
	local model='<ir_version: 10, opset_import: ["": 21]>
		g (float[1,1,H,4] x) => (float[1,1,M,N] y) <float[1,1,1,1] w = {2}> { y = Conv (x, w) }'
	echo "$model" >conv.onnxtxt
	local level
	for level in none full; do
		run -0 "$INFER" run conv.onnxtxt --optimize "$level" --random --dim H=0
		[[ $output == *"[1,1,0,4]"* ]]
	done
}

@test "infer diff: a factor of -1.00001 is no Neg, and one of -1 is" {
	local factor
	for factor in -1 -1.00001; do
		echo "<ir_version: 10, opset_import: [\"\": 21]>
		g (float[2] x) => (float[2] y) <float c = {$factor}> { y = Mul (x, c) }" >mul.onnxtxt
		echo '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Neg (x) }' >neg.onnxtxt
		run "$INFER" diff mul.onnxtxt neg.onnxtxt
		echo "$factor: $status $output"
		if [ "$factor" = -1 ]; then [ "$status" -eq 0 ]; else [ "$status" -ne 0 ]; fi
	done
}

@test "Updates of a tensor without elements are refused by their index" {
	echo '<ir_version: 10, opset_import: ["": 21]>
	g (float[N,3] x, float[1,3] u) => (float[N,3] y) <int64[1,1] i = {0}> { y = ScatterND (x, i, u) }' >scatter.onnxtxt
	run -0 "$INFER" run scatter.onnxtxt --random --dim N=1
	fails_with 3 "got 0" run scatter.onnxtxt --random --dim N=0
}

@test "A window of one element is NaN, and as an integer what Cast makes of NaN" {
	local type value
	while read -r type value; do
		levels "$value" <<-END
			<ir_version: 10, opset_import: ["": 21]>
			g () => ($type[1] y) <int64 n = {1}> { y = HannWindow <periodic = 0, output_datatype = $(type_number "$type")> (n) }
		END
	done <<-'END'
		float nan
		int32 -2147483648
		int64 -9223372036854775808
		uint8 0
	END
}

@test "With ceil_mode a pool takes a window that is larger than its input by less than a stride" {
	local op value
	while read -r op value; do
		levels "$value" --input 'x=[[[1,3]]]' <<-END
			<ir_version: 10, opset_import: ["": 22]>
			g (float[1,1,2] x) => (float[1,1,1] y) { y = $op <kernel_shape = [4], strides = [3], ceil_mode = 1> (x) }
		END
	done <<-'END'
		AveragePool 2
		MaxPool 3
		LpPool 3.162
	END
	echo '<ir_version: 10, opset_import: ["": 22]>
	g (float[1,1,2] x) => (float[1,1,N] y) { y = MaxPool <kernel_shape = [5], strides = [3], ceil_mode = 1> (x) }' >pool.onnxtxt
	fails_with 3 "as large as the window" run pool.onnxtxt --random
}
