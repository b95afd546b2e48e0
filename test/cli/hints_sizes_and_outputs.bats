#!/usr/bin/env bats
# What people try first, and what they must be told then: an output that is not what they want, a size that nobody gave, a
# weight file that is missing. The models come from test/check/make.c.

load helper

setup_file() {
	make_models <<-'END'
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

		case even
		input x f32 batch,3,?,w
		output y f32 batch,3,?,w
		init s f32 4 1 1 2 2
		node MaxPool half x -> h kernel_shape=[2,2] strides=[2,2]
		node Resize double h,_,s -> d mode="nearest"
		node Add sum x,d -> y
		npy odd.npy f32 1,3,7,9 rand 1

		case exported-for
		meta imgsz [96,64]
		meta stride 32
		input x f32 batch,3,?,?
		output y f32 batch,3,?,?
		init w f32 4,3,90,60 rand 1
		node Conv conv x,w -> y

		case only-64
		input x f32 n,m
		output y f32 n,m
		init b f32 64,77 rand 1
		node Add sum x,b -> y

		case blue-first
		meta Image.BitmapPixelFormat Bgr8
		input x f32 1,3,h,w
		output y f32 1,3,h,w
		node Tanh t x -> y
	END
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
	[[ $output == *"warning[W-INPUT-ORDER]: input 'x'"*Bgr8*"order=bgr"* ]]
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,scale=1/255,order=bgr"
	[[ $output != *W-INPUT* ]]
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,order=bgr,mean=123.675/116.28/103.53,std=58/57/57"
	[[ $output == *"warning[W-INPUT-ORDER]: input 'x'"*ImageNet* ]]
	run -0 --separate-stderr "$INFER" check "$model" --input "$photo,order=bgr,mean=103.53/116.28/123.675,std=57/57/58"
	[[ $output != *W-INPUT* ]]
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
	run -3 --separate-stderr "$INFER" inspect "$S/weights-elsewhere/model.onnx" --weights --json
	[[ $output == *'"id": "E-WEIGHT-EXTERNAL"'* && $output == *'"name": "w"'* ]]
}

@test "Sizes that nobody gives are searched if the model does not accept 1, and the message gives the options for them" {
	for command in run "profile -n 5"; do
		# shellcheck disable=SC2086
		run -0 --separate-stderr "$INFER" $command "$S/even/model.onnx" --random 0..1
		[[ $stderr == *"warning[W-DIM-DEFAULT]"*"x [1,3,8,8]"* && $stderr == *"--dim x.2=8 --dim w=8"* ]]
	done
	run -0 --separate-stderr "$INFER" run "$S/even/model.onnx" --random 0..1 --dim x.2=8 --dim w=8 --dim batch=1
	[[ $stderr != *W-DIM* ]]
	run -0 --separate-stderr "$INFER" run "$S/exported-for/model.onnx" --random 0..1
	[[ $stderr == *"x [1,3,96,64]"* ]]
	run -3 --separate-stderr "$INFER" run "$S/even/model.onnx" --random 0..1 --dim x.2=7 --dim w=7
	[[ $stderr == *"error[E-"*"batch"* ]]
	run -3 --separate-stderr "$INFER" run "$S/only-64/model.onnx" --random 0..1 --dim n=3
	[[ $stderr == *"error[E-SHAPE]"*"nothing gives the sizes of m"*"--dim NAME=N"* ]]
}

@test "Sizes are searched for lines of JSON, for the points of a sweep, and for the plan of inspect; guesses are told once" {
	run -0 --separate-stderr "$INFER" run "$S/even/model.onnx" --random --jsonl "$BATS_TEST_TMPDIR/lines"
	grep -q '"shape": \[1, 3, 8, 8\]' "$BATS_TEST_TMPDIR/lines"
	[ "$(grep -c W-DIM-DEFAULT <<<"$stderr")" = 1 ]
	run -0 --separate-stderr "$INFER" run "$S/even/model.onnx" --random
	[ "$(grep -c W-DIM-DEFAULT <<<"$stderr")" = 1 ] && [[ $stderr == *"x [1,3,8,8]"* ]]
	run -0 --separate-stderr "$INFER" profile "$S/even/model.onnx" --shapes-sweep batch=1..3 -n 5
	[ "$(grep -c W-DIM-DEFAULT <<<"$stderr")" = 1 ] && [ "$(grep -c '^batch=[123] ' <<<"$output")" = 3 ]
	run -0 --separate-stderr "$INFER" inspect "$S/even/model.onnx" --memory
	[[ $stderr == *"x [1,3,8,8]"* && $output == *"planned peak"* ]]
	# a batch of random values is a size of the model; of lines of JSON it is not known what to stack
	run -0 --separate-stderr "$INFER" run "$S/even/model.onnx" --random --batch 4
	[[ $stderr == *"x f32 [4,3,8,8]"* ]]
	run -2 --separate-stderr "$INFER" run "$S/even/model.onnx" --random --batch 4 --jsonl -
	[[ $stderr == *"--dim batch=4"* ]]
	run -4 --separate-stderr "$INFER" run "$S/even/model.onnx" --jsonl -
	[[ $stderr == *"E-INPUT-MISSING"* && $stderr != *"random values:"* ]]
}

@test "Sizes of a file that the model does not accept: the message says which it does" {
	for command in run check; do
		run -3 --separate-stderr "$INFER" $command "$S/even/model.onnx" --input "$S/even/odd.npy"
		[[ $stderr$output == *"error[E-SHAPE]"*"multiples of 2, such as x [1,3,8,10]"* ]]
	done
}

@test "Dimensions without a name have one to bind, which inspect and the completion show" {
	run -0 "$INFER" inspect "$S/even/model.onnx"
	[[ $output == *"x  f32 [batch,3,?,w]  (unnamed: x.2; --dim x.2=N)"* ]]
	run -0 "$INFER" inspect "$S/even/model.onnx" --json
	[[ $output == *'"free"'*'"batch"'*'"x.2"'*'"w"'* ]]
	run -0 "$INFER" __complete dims "$S/even/model.onnx"
	[ "$output" = $'batch\nx.2\nw' ]
}

@test "Classes and texts of a picture that the model was trained on scaled are doubted" {
	picture=$BATS_TEST_DIRNAME/../data/run/rgb.png
	run -0 --separate-stderr "$INFER" run "$S/exported-for/model.onnx" "$picture,resize=64x96" --top 1
	[[ $stderr == *"warning[W-INPUT-RANGE]: input 'x'"*"Conv 'conv'"*"scale=1/255"*"order=bgr"* ]]
	run -0 --separate-stderr "$INFER" run "$S/exported-for/model.onnx" "$picture,resize=64x96,scale=1/255" --top 1
	[[ $stderr != *"W-INPUT-RANGE"* ]]
	# also if nothing reads meaning into the values
	run -0 --separate-stderr "$INFER" run "$S/exported-for/model.onnx" "$picture,resize=64x96"
	[[ $stderr == *"W-INPUT-RANGE"* ]]
}

@test "A decoder whose mask has the cached positions and the new ones gets sizes that fit, for run and check" {
	cd "$BATS_TEST_TMPDIR" || return 1
	cat >decoder.onnxtxt <<-'END'
		<ir_version: 10, opset_import: ["": 21]>
		g (int64[B,N] ids, int64[C,M] mask, float[B,2,P,4] past) => (float[B,2,T,4] present, int64[C,1] last) {
			new = Constant <value = float[1,2,1,4] {1, 2, 3, 4, 5, 6, 7, 8}> ()
			one = Constant <value = int64[1] {1}> ()
			shape = Shape (ids)
			tail = Constant <value = int64[2] {1, 1}> ()
			wanted = Concat <axis = 0> (shape, tail)
			order = Constant <value = int64[4] {0, 2, 1, 3}> ()
			grown = Gather <axis = 0> (wanted, order)
			rows = Expand (new, grown)
			present = Concat <axis = 2> (past, rows)
			length = Shape <start = 2, end = 3> (present)
			index = Sub (length, one)
			last = Gather <axis = 1> (mask, index)
		}
	END
	run -0 --separate-stderr "$INFER" run decoder.onnxtxt --random
	[[ $stderr == *"it runs with ids [1,1], mask [1,2], past [1,2,1,4]"* ]]
	run -0 --separate-stderr "$INFER" check decoder.onnxtxt
	[[ $output == *"0 errors"* ]]
}
