#!/usr/bin/env bats
# What people try first, and what they must be told then: an output that is not what they want, a size that nobody gave, a
# weight file that is missing. The models come from test/check/make.c.

bats_require_minimum_version 1.5.0

setup_file() {
	: "${INFER:=$PWD/build/bin/infer}"
	export INFER
	"${CC:-cc}" -O1 -o "$BATS_FILE_TMPDIR/make" "$BATS_TEST_DIRNAME/../check/make.c" -lm
	cat >"$BATS_FILE_TMPDIR/tries" <<-'END'
		case log
		input x f32 4
		output y f32 4
		output z f32 4
		node Log l x -> y
		node Relu r x -> z
		npy minus.npy f32 4 -1 -2 -3 0
		npy plus.npy f32 4 1 2 3 4

		case tanh
		input x f32 3,4
		output y f32 3,4
		node Tanh t x -> y

		case weights-elsewhere
		input x f32 n,4
		output y f32 n,5
		external w f32 4,5 gone.bin
		init b f32 5 rand 1
		node MatMul product x,w -> h
		node Add sum h,b -> y

		case blue-first
		meta Image.BitmapPixelFormat Bgr8
		input x f32 1,3,h,w
		output y f32 1,3,h,w
		node Tanh t x -> y
	END
	"$BATS_FILE_TMPDIR/make" "$BATS_FILE_TMPDIR/tries" "$BATS_FILE_TMPDIR/cases"
}

need_numpy() {
	python3 -c 'import numpy' 2>/dev/null || skip "python3 has no numpy"
}

setup() {
	S=$BATS_FILE_TMPDIR/cases
}

@test "run and profile warn once of outputs that are not finite or all zero" {
	run -0 --separate-stderr "$INFER" run "$S/log/model.onnx" --input "$S/log/minus.npy"
	[[ $stderr == *"warning[W-OUT-NAN]: output 'y' f32 [4]: 3 NaN and 1 infinite of 4 elements"* ]]
	[[ $stderr == *"warning[W-OUT-ZERO]: output 'z' f32 [4]: all 4 elements are 0"* ]]
	[[ $stderr == *"infer check"* ]]
	run -0 --separate-stderr "$INFER" profile "$S/log/model.onnx" --input "$S/log/minus.npy" -n 20
	[ "$(grep -c 'W-OUT-NAN' <<<"$stderr")" = 1 ]
	[ "$(grep -c 'W-OUT-ZERO' <<<"$stderr")" = 1 ]
	for command in run "profile -n 5"; do
		# shellcheck disable=SC2086
		run -0 --separate-stderr "$INFER" $command "$S/log/model.onnx" --input "$S/log/plus.npy"
		[[ $stderr != *"W-OUT-"* ]]
	done
}

@test "check compares the order of channels with the model's metadata and with the means that are subtracted" {
	photo=$BATS_TEST_DIRNAME/../data/run/rgb.png model=$S/blue-first/model.onnx
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,scale=1/255"
	[[ $stderr == *"warning[W-INPUT-ORDER]: input 'x'"*Bgr8*"order=bgr"* ]]
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,scale=1/255,order=bgr"
	[[ $stderr != *W-INPUT* ]]
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,order=bgr,mean=123.675/116.28/103.53,std=58/57/57"
	[[ $stderr == *"warning[W-INPUT-ORDER]: input 'x'"*ImageNet* ]]
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,order=bgr,mean=103.53/116.28/123.675,std=57/57/58"
	[[ $stderr != *W-INPUT* ]]
}

@test "A reference in Fortran order is read, and elements of another size are not" {
	need_numpy
	python3 - "$BATS_TEST_TMPDIR" <<'PY'
import numpy as np, sys
x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
np.save(sys.argv[1] + "/x.npy", x)
np.save(sys.argv[1] + "/y.npy", np.asfortranarray(np.tanh(x)))
np.save(sys.argv[1] + "/bytes.npy", np.zeros((3, 4), "V1"))
PY
	cd "$BATS_TEST_TMPDIR" || return 1
	run -0 "$INFER" check "$S/tanh/model.onnx" --input x.npy --expect y.npy
	[[ $output == *"reference    ok"* ]]
	run -4 "$INFER" run "$S/tanh/model.onnx" --input bytes.npy
	[[ $output == *"E-INPUT-TYPE"* ]]
}

@test "inspect shows a model whose external data are missing, and says so" {
	run -3 --separate-stderr "$INFER" inspect "$S/weights-elsewhere/model.onnx" --nodes
	[[ $stderr == *"error[E-WEIGHT-EXTERNAL]"*"gone.bin"* ]]
	[[ $output == *"inputs      x  f32 [n,4]"* && $output == *"MatMul-13"* && $output == *"sum"* ]]
	run -3 --separate-stderr "$INFER" inspect "$S/weights-elsewhere/model.onnx" --weights
	[[ $output == *"w "*"[4,5]"*"missing"* ]]
	run -3 --separate-stderr "$INFER" inspect "$S/weights-elsewhere/model.onnx" --json
	[[ $output == *'"id": "E-WEIGHT-EXTERNAL"'* && $output == *'"name": "w"'* ]]
}
