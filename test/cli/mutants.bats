#!/usr/bin/env bats
# Models that once crashed, found by mutating others (test/mutants): each is refused with a finding.

setup() {
	bats_require_minimum_version 1.5.0
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../mutants/found" || return 1
}

# Runs the command on each model and prints those that do not end with exit status 3 and the finding.
refused() { # COMMAND... -- lines "MODEL ID"
	local model id rc bad=0
	while read -r model id; do
		rc=0
		"$INFER" "$@" "$model.onnx" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || rc=$?
		if [ "$rc" != 3 ] || ! grep -q "^error\[$id\]" "$BATS_TEST_TMPDIR/err"; then
			echo "$model: exit $rc, want 3 and $id"
			head -n 3 "$BATS_TEST_TMPDIR/err"
			bad=1
		fi
	done
	return $bad
}

operands='concat_omitted E-OP-INPUTS
max_omitted E-OP-INPUTS
mean_omitted E-OP-INPUTS
momentum_omitted E-OP-INPUTS
seqconstruct_omitted E-OP-INPUTS
sum_omitted E-OP-INPUTS'

@test "An operand left out of a variadic slot is refused by inspect" {
	refused inspect <<<"$operands"
}

@test "An operand left out of a variadic slot is refused by run" {
	refused run --random 0..1 <<<"$operands
adam_missing_input E-OP-INPUTS"
}

@test "A kernel does not run when its output's size follows from no operand" {
	refused run --random 0..1 <<<'affinegrid_empty E-SHAPE
window_empty E-SHAPE'
}

@test "FeatureVectorizer refuses inputs of a negative size" {
	refused run --random 0..1 --shape a=2x3 --shape b=2x3 <<<'featvec_neg E-OP-ATTRIBUTE'
}

@test "inspect of a model whose output sizes cannot be known does not crash" {
	for model in affinegrid_empty window_empty featvec_neg; do
		run "$INFER" inspect $model.onnx
		[ "$status" = 0 ] || [ "$status" = 3 ]
	done
}

@test "A dtype of 0 names no type" {
	refused run --random 0..1 <<<'randomlike_dtype0 E-OP-ATTRIBUTE'
}

@test "STFT refuses a frame that is longer than its signal" {
	refused run --random frame_step=8..8 --random frame_length=1000..1000 --random 0..1 <<<'stft_frame E-VALUE'
}

@test "Sizes that could overflow are refused while the model is loaded" {
	refused inspect <<<'attribute_wide E-OP-ATTRIBUTE
empty_huge E-SIZE'
}

@test "Scales, zero points and images of a shape that kernels do not expect are refused" {
	refused run --random 0..1 <<<'groupnorm_rank1 E-SHAPE
matmulinteger_zero E-SHAPE
qconcat_scale E-SHAPE
qconcat_type E-TYPE'
}

@test "RoiAlign takes no longer for regions that are far larger than the feature map" {
	run -0 timeout 20 "$INFER" run roialign_far.onnx --random 0..1
}

@test "Rows of four bytes behind an odd offset are gathered" {
	run -0 "$INFER" run gather_u8.onnx --random 0..3
}

@test "A Loop refuses a condition that is an optional without a value" {
	refused run <<<'loop_optional E-VALUE'
}
