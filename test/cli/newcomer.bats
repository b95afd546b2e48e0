#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What made somebody stumble who knew nothing but --help and the manual. The models come from test/check/make.c.

load helper

setup_file() {
	"${CC:-cc}" -O1 -o "$BATS_FILE_TMPDIR/make" "$BATS_TEST_DIRNAME/../check/make.c" -lm
	cat >"$BATS_FILE_TMPDIR/models" <<-'END'
		case batch
		input x f32 batch,4
		output y f32 batch,4
		node Relu r x -> y

		case fixed
		input x f32 1,4
		output y f32 1,4
		node Relu r x -> y

		npy x.npy f32 1,4 1 2 3 4

		case lookup
		input ids i64 n
		input dense f32 n,3
		output y f32 n,8
		init table f32 100,5 rand 1
		node Gather lookup table,ids -> e axis=0
		node Concat join e,dense -> y axis=1
		npy far.npy i64 2 3 500
		npy dense.npy f32 2,3 rand 2
		npy near.npy i64 2 3 5

		case state
		input x f32 1,8
		input state f32 2,?,3
		input rate i64 -
		output y f32 1,8
		output next f32 2,?,3
		output r i64 -
		node Relu a x -> y
		node Relu b state -> next
		node Identity c rate -> r
		npy x.npy f32 1,8 rand 1

		case words
		input x str n
		output y str n
		node Identity i x -> y

		case tanh
		input x f32 1,6
		output y f32 1,6
		node Identity i x -> y
		npy x.npy f32 1,6 40 -20 0.001 3 4 5
		npy rounded.npy f32 1,6 40.00004 -20 0.0010005 3 4 5
		npy other.npy f32 1,6 40.02 -20 0.001 3.5 4 5
		npy nan.npy f32 1,6 nan -20 0.001 3 4 5
	END
	"$BATS_FILE_TMPDIR/make" "$BATS_FILE_TMPDIR/models" "$BATS_FILE_TMPDIR/cases"
}

setup() {
	in_test_data
	S=$BATS_FILE_TMPDIR/cases
}

@test "--batch of random values is the size of the model's batch" {
	run -0 --separate-stderr "$INFER" run "$S/batch/model.onnx" --random --batch 3
	[[ $stderr == *"x f32 [3,4]"* && $stderr == *"y f32 [3,4]"* && $stderr != *"W-DIM-DEFAULT"* ]]
	run -0 --separate-stderr "$INFER" run "$S/batch/model.onnx" --random --batch 3 --json
	[[ $output == *'"shape": [3, 4]'* ]]
	# every input has the batch as its first dimension
	run -0 --separate-stderr "$INFER" run "$S/lookup/model.onnx" --random --batch 2
	[[ $stderr == *"ids i64 [2]"* && $stderr == *"dense f32 [2,3]"* ]]
	# what --shape binds and what the model fixes cannot be another size
	run -2 --separate-stderr "$INFER" run "$S/batch/model.onnx" --random --batch 3 --shape x=2x4
	[[ $stderr == *"--batch: the first dimension of input 'x' is fixed"* ]]
	run -0 --separate-stderr "$INFER" run "$S/batch/model.onnx" --random --batch 3 --shape x=3x4
	run -2 --separate-stderr "$INFER" run "$S/fixed/model.onnx" --random --batch 3
	[[ $stderr == *"'x' is fixed by the model"*"free batch dimension"* ]]
	run -0 --separate-stderr "$INFER" run "$S/fixed/model.onnx" --random --batch 1
	# without values there is still an error
	run -4 --separate-stderr "$INFER" run "$S/batch/model.onnx" --batch 3
	[[ $stderr == *"E-INPUT-MISSING"* ]]
	# of files it is the number that is stacked, as before
	run -0 --separate-stderr "$INFER" run "$S/batch/model.onnx" --input "$S/fixed/x.npy" --batch 3
	[[ $stderr == *"note[N-BATCH]"* ]]
}

@test "A wrong value is not called a wrong size" {
	run -3 --separate-stderr "$INFER" run "$S/lookup/model.onnx" --input ids="$S/lookup/far.npy" --input dense="$S/lookup/dense.npy"
	[[ $stderr == *"error[E-VALUE]"*"got 500"*"look at the values of the inputs"* && $stderr != *multiples* ]]
	run -0 --separate-stderr "$INFER" run "$S/lookup/model.onnx" --input ids="$S/lookup/near.npy" --input dense="$S/lookup/dense.npy"
	run -3 --separate-stderr "$INFER" run "$S/batch/model.onnx" --random --memory-limit 1
	[[ $stderr == *"E-MEMORY-LIMIT"* && $stderr != *"no other size"* ]]
}

@test "The worst element is one that is beyond the tolerance, and rounding is called rounding" {
	run -5 --separate-stderr "$INFER" check "$S/tanh/model.onnx" "$S/tanh/x.npy" --expect "$S/tanh/rounded.npy" --rtol 1e-4
	# 40 differs by more, but only 0.001 by more than is allowed
	[[ $output$stderr == *"worst    element [0,2]: expected 0.0010005"* ]]
	[[ $output$stderr == *"likely   rounding: "*"of the largest value, 40"* ]]
	atol=$(grep -o -e '--atol [0-9e.-]*' <<<"$output$stderr" | head -1)
	# shellcheck disable=SC2086
	run -0 "$INFER" check "$S/tanh/model.onnx" "$S/tanh/x.npy" --expect "$S/tanh/rounded.npy" --rtol 1e-4 $atol
	run -5 --separate-stderr "$INFER" check "$S/tanh/model.onnx" "$S/tanh/x.npy" --expect "$S/tanh/other.npy" --rtol 1e-3
	[[ $output$stderr == *"worst    element [0,3]: expected 3.5"*"(allowed 0.0035)"*"try      --compare none"* ]]
	[[ $output$stderr != *rounding* ]]
	run -5 --separate-stderr "$INFER" check "$S/tanh/model.onnx" "$S/tanh/x.npy" --expect "$S/tanh/nan.npy" --rtol 1e-3
	[[ $output$stderr == *"first    element [0,0]"* && $output$stderr != *"worst  "* ]]
	# the metrics of whole outputs keep the largest difference
	run -5 --separate-stderr "$INFER" check "$S/tanh/model.onnx" "$S/tanh/x.npy" --expect "$S/tanh/other.npy" --metric l2 --rtol 1e-6
	[[ $output$stderr == *"worst    element [0,3]"* && $output$stderr != *allowed* ]]
}

@test "Hints about inputs have the model's names" {
	fails_with 4 "give --input state=FILE, or --random" run "$S/state/model.onnx" --input x="$S/state/x.npy"
	fails_with 4 "give --input rate=NUMBER, or --random" run "$S/state/model.onnx" --input x="$S/state/x.npy"
	fails_with 4 "--random state=0..0, which fills the whole input with 0" run "$S/state/model.onnx" --input x="$S/state/x.npy" --input state=0 --input rate=16000
	run -0 "$INFER" run "$S/state/model.onnx" --input x="$S/state/x.npy" --random state=0..0 --input rate=16000 -q --print 3
	[[ $output == *"16000"* ]]
	fails_with 4 "--input 'x=[\"hello\"]'" run "$S/words/model.onnx" --input x=hello
	run -0 "$INFER" run "$S/words/model.onnx" --input 'x=["hello"]' -q --print 3
	[[ $output == *'"hello"'* ]]
	fails_with 4 "--input 'ids=[3,5]'" run "$S/lookup/model.onnx" --input ids=3,5 --random
	run -0 "$INFER" run "$S/lookup/model.onnx" --input 'ids=[3,5]' --random -q
}

@test "Keys of other programs, and keys that stand alone" {
	fails_with 4 "resize is a key, and stands behind the file that it is for: --input FILE,resize=24x16" run pic.onnx --input resize=24x16
	fails_with 4 "write resize=WxH" run pic.onnx --input rgb.png,imgsz=24
	fails_with 4 "write order=bgr" run pic.onnx --input rgb.png,resize=24x16,bgr
	fails_with 4 "write layout=nhwc" run pic.onnx --input rgb.png,resize=24x16,nhwc
	fails_with 4 "write scale=1/255" run pic.onnx --input rgb.png,resize=24x16,normalize
	fails_with 4 "did you mean 'scale'?" run pic.onnx --input rgb.png,scael=1/255
}

@test "Warnings of profile name the model if there are several" {
	run -0 --separate-stderr "$INFER" profile "$S/batch/model.onnx" "$S/lookup/model.onnx" -n 20
	[[ $stderr == *"warning[W-DIM-DEFAULT]: $S/batch/model.onnx: nothing binds the free dimension 'batch'"* ]]
	[[ $stderr == *"warning[W-DIM-DEFAULT]: $S/lookup/model.onnx: nothing binds the free dimension 'n'"* ]]
	run -0 --separate-stderr "$INFER" profile "$S/batch/model.onnx" -n 20
	[[ $stderr == *"warning[W-DIM-DEFAULT]: nothing binds"* ]]
}
