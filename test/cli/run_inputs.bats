#!/usr/bin/env bats
# infer run: every kind of input, every key, every way to bind a dimension.
# test/tools/make_run_data.py wrote the files; most models give back what they get.

setup_file() {
	"${CC:-cc}" -O1 -o "$BATS_FILE_TMPDIR/maxdiff" "$BATS_TEST_DIRNAME/../tools/maxdiff.c" -lm
	gunzip -c "$BATS_TEST_DIRNAME/../data/run/img.bin.gz" >"$BATS_FILE_TMPDIR/img.bin"
}

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
	out=$BATS_TEST_TMPDIR/out
}

# gives WANTED MODEL OPTION...: the one output's bytes are those of the file
gives() {
	local want=$1
	shift
	rm -rf "$out"
	"$INFER" run "$@" -q -o "$out" --save-format bin
	cmp "$out"/*.bin "$want"
}

# close_to LIMIT WANTED MODEL OPTION...: the output, of f32, differs by LIMIT at most
close_to() {
	local limit=$1 want=$2 diff
	shift 2
	rm -rf "$out"
	"$INFER" run "$@" -q -o "$out" --save-format bin
	diff=$("$BATS_FILE_TMPDIR/maxdiff" "$out"/*.bin "$want")
	awk -v d="$diff" -v l="$limit" 'BEGIN {exit !(d <= l)}' || { echo "differs by $diff"; return 1; }
}

prints() { # WANTED MODEL OPTION...: stdout, whatever stderr says
	local want=$1 got
	shift
	got=$("$INFER" run "$@" 2>/dev/null)
	[ "$got" = "$want" ] || { printf 'got:\n%s\n' "$got"; return 1; }
}

@test "PNG, BMP and PPM give the same pixels, in the model's type and axis order" {
	for f in rgb.png rgb.bmp rgb.ppm text.ppm; do gives rgb.f32 pic.onnx --input $f; done
}

@test "A JPEG picture is read" { gives jpg.f32 pic.onnx --input rgb.jpg; }
@test "A WebP picture is read" { gives rgb.f32 pic.onnx --input rgb.webp; }
@test "A TIFF picture is read" { gives rgb.f32 pic.onnx --input rgb.tiff; }
@test "A JPEG 2000 picture is read" { gives rgb.f32 pic.onnx --input rgb.jp2; }
@test "A PNG with a palette is read" { gives palette.f32 pic.onnx --input palette.png; }

@test "Gray pictures are read: PNG, PGM and 16 bits" {
	gives gray.f32 grays.onnx --input gray.png
	gives gray.f32 grays.onnx --input gray.pgm
	gives deep.u16 wide.onnx --input deep.png
}

@test "A picture is converted for a model with NHWC input, as bytes and as floats" {
	gives hwc.u8.bin bytes.onnx --input rgb.png
	"$INFER" run nhwc.onnx --input rgb.png -q -o "$out" --save-format bin
	[ "$(stat -c %s "$out/y.bin")" = 4608 ]
}

@test "order=bgr and conversions from RGBA and gray work" {
	gives bgr.f32 pic.onnx --input rgb.png,order=bgr
	gives rgb.f32 pic.onnx --input rgba.png,order=rgb
	"$INFER" run pic.onnx --input gray.png,order=rgb -q
	"$INFER" run grays.onnx --input rgb.png,order=gray -q
}

@test "resize is bilinear with half-pixel centres, followed by scale, mean and std" {
	close_to 2e-6 resized.f32 free.onnx \
		--input rgb.png,resize=13x10,scale=1/255,mean=0.485/0.456/0.406,std=0.229/0.224/0.225
}

@test "letterbox keeps the aspect ratio, centres and pads" {
	close_to 2e-6 letterbox.f32 free.onnx --input rgb.png,order=bgr,resize=letterbox:32x32,pad=114,scale=1/255
}

@test "resize with one side keeps the aspect ratio" {
	run -0 "$INFER" run free.onnx --input rgb.png,resize=x8
	[[ $output = *"x f32 [1,3,8,12]"* ]]
	run -0 "$INFER" run free.onnx --input rgb.png,resize=48x
	[[ $output = *"x f32 [1,3,32,48]"* ]]
}

@test "Raw files are read as they are, and with dtype, layout, shape and scale" {
	gives rgb.f32 pic.onnx --input images=rgb.f32,format=raw
	gives rgb.f32 pic.onnx --input images=hwc.u8.bin,dtype=u8,layout=hwc
	gives rgb.f32 pic.onnx --input images=chw.u8.bin,dtype=u8
	gives rgb.f32 pic.onnx --input images=chw.f64.bin,dtype=f64,scale=255
	gives rgb.f32 pic.onnx --input images=rgba.u8.bin,dtype=u8,layout=hwc,shape=16x24x4,order=rgb
}

@test "The example in the manual works as its message says" {
	"$INFER" run yolo.onnx --input images="$BATS_FILE_TMPDIR/img.bin",dtype=u8,layout=hwc,scale=1/255 -q
}

@test ".npy files are read as they are, or with another type, layout or shape" {
	gives rgb.f32 pic.onnx --input fits.npy
	gives rgb.f32 pic.onnx --input images:fits.npy
	gives rgb.f32 pic.onnx --input images=f64.npy,dtype=f64
	gives rgb.f32 pic.onnx --input images=f64.npy,dtype=f32
	gives rgb.f32 pic.onnx --input nhwc.npy,layout=nhwc
	gives rgb.f32 pic.onnx --input hwc.npy,dtype=u8,layout=hwc
	gives rgb.f32 pic.onnx --input chw.npy,shape=1x3x16x24
	gives rgb.f32 pic.onnx --input fortran.npy
	gives rgb.f32 pic.onnx --input npy.bin,format=npy
}

@test "The format of standard input is detected from the content" {
	gives rgb.f32 pic.onnx --input - <fits.npy
	gives rgb.f32 pic.onnx - <fits.npy
	gives rgb.f32 pic.onnx --input images=-,dtype=u8,layout=hwc <hwc.u8.bin
	gives rgb.f32 pic.onnx --input - <rgb.png
	cat a.json | prints $'sum f32 [2,4]\n0 2 4 6\n8 10 12 14\ndiff f32 [2,4]\n0 0 0 0\n0 0 0 0' \
		two.onnx --input a=- --input b=a.npy --print
}

sums=$'sum f32 [2,4]\n1 2 3 4\n5 6 7 8\ndiff f32 [2,4]\n-1 0 1 2\n3 4 5 6'

@test ".npz keys are input names; stored, deflated and zip64 archives work" {
	for f in ab.npz ab_packed.npz ab64.npz; do prints "$sums" two.onnx --input $f --print; done
	prints "$sums" two.onnx --input a=ab.npz --input b=ab_packed.npz --print
}

@test "--data-set reads input_K.pb by position" {
	prints "$sums" two.onnx --data-set set --print
}

@test "A sequence can be read from a .pb file" {
	prints $'y f32 [4,4]\n0 1 2 3\n4 5 6 7\n1 1 1 1\n1 1 1 1' seq.onnx --input s.pb --print
}

@test "Strings and small tensors can be read from text, JSON and .npy files" {
	prints $'y string [4]\n"plain" "two words" "" "ümläut"' words.onnx --input words.txt --print
	prints $'y string [3]\n"a\\"b" "é😀" ""' words.onnx --input words.json --print
	prints $'y string [2]\n"plain" "ümläut"' words.onnx --input words.npy --print
	prints $'sum f32 [2,4]\n0 2 4 6\n8 10 12 14\ndiff f32 [2,4]\n0 0 0 0\n0 0 0 0' \
		two.onnx --input a=a.txt --input b=a.json --print
	printf '[3, -4, 1e2]' | prints $'y i64 [3]\n3 -4 100' ints.onnx --input - --print
}

@test "--random draws the strings that an encoder knows, of each column its own" {
	echo '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (string[20,2] x) => (float[20,1,2] y, float[20,1,2] z) <int64[1] zero = {0}, int64[1] one = {1}> {
		a = Gather <axis = 1> (x, zero)
		b = ai.onnx.ml.ArrayFeatureExtractor (x, one)
		y = ai.onnx.ml.OneHotEncoder <cats_strings = ["red", "green"], zeros = 0> (a)
		z = ai.onnx.ml.OneHotEncoder <cats_strings = ["small", "large"], zeros = 0> (b)
	}' >"$BATS_TEST_TMPDIR/cats.txt"
	run -0 "$INFER" check "$BATS_TEST_TMPDIR/cats.txt"
	[[ $output == *"0 errors"* ]]
}

@test "--random leaves a mask open that hides where it is true" {
	local hides
	for hides in 'low, zero' 'zero, low'; do
		echo "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2,4] x, bool[2,4] padding_mask) => (float[2,4] y) <float low = {-1e9}, float zero = {0}> {
			w = Where (padding_mask, $hides) s = Add (x, w) y = Softmax (s)
		}" >"$BATS_TEST_TMPDIR/mask.txt"
		run -0 "$INFER" run "$BATS_TEST_TMPDIR/mask.txt" --random
		[[ $output == *"generated: all $([ "$hides" = 'low, zero' ] && echo zeros || echo ones) (a mask"* ]]
	done
}

@test "--random hides nothing by a mask that the model computes with" {
	local type steps want
	while IFS='|' read -r type steps want; do
		echo "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2,4,4] x, $type[2,4] attention) => (float[2,4,4] y) <float low = {-1e9}, float one = {1}, int64 whole = {1},
			float least = {-3.4e38}, int64[1] axis = {1}, int64 zero = {0}> {
			$steps
			m = Unsqueeze (h, axis) s = Add (x, m) y = Softmax (s)
		}" >"$BATS_TEST_TMPDIR/mask.txt"
		run -0 "$INFER" run "$BATS_TEST_TMPDIR/mask.txt" --random
		[[ $output == *"attention "*"generated: all $want (a mask"* ]] || { echo "$type $steps: $output"; return 1; }
	done <<-'END'
		float|k = Sub (one, attention) h = Mul (k, low)|ones
		int64|f = Cast <to = 1> (attention) k = Sub (one, f) h = Mul (k, least)|ones
		int64|k = Sub (whole, attention) f = Cast <to = 1> (k) h = Mul (low, f)|ones
		float|h = Mul (attention, low)|zeros
		int64|f = Cast <to = 1> (attention) h = Mul (f, least)|zeros
		bool|f = Cast <to = 1> (attention) h = Mul (f, low)|zeros
		float|h = Log (attention)|ones
		int64|k = Greater (attention, zero) n = Not (k) f = Cast <to = 1> (n) h = Mul (f, low)|ones
		int64|k = Equal (attention, zero) f = Cast <to = 1> (k) h = Mul (f, low)|ones
		float|k = Sub (attention, one) n = Neg (low) h = Mul (k, n)|ones
		bool|n = Not (attention) f = Cast <to = 1> (n) z = CastLike (low, f) h = Mul (f, z)|ones
		float|k = Sub (one, attention) d = Shape (x) e = ConstantOfShape <value = float[1] {-10000}> (d) r = ReduceMax <keepdims = 0> (e) h = Mul (k, r)|ones
	END
	# numbers that are no masks
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x, float[2,4] v) => (float[2,4] y) <float low = {-1e9}> {
		h = Mul (v, low) s = Add (x, h) y = Tanh (s) }' >"$BATS_TEST_TMPDIR/mask.txt"
	run -0 "$INFER" run "$BATS_TEST_TMPDIR/mask.txt" --random
	[[ $output != *"a mask"* ]]
}

@test "--random gives the same values for the same seed, and sensible integers for ids and masks" {
	run -0 "$INFER" run ids.onnx --random 0..1 --dim batch=2 --dim seq=5
	[[ $output = *"input_ids i64 [2,5]"*"random integers 0..6 (ids), seed 0"* ]]
	[[ $output = *"attention_mask i64 [2,5]"*"generated: all ones (a mask)"* ]]
	a=$("$INFER" run two.onnx --random -1..1 --seed 7 --dim n=3 --print 2>/dev/null)
	b=$("$INFER" run two.onnx --random -1..1 --seed 7 --dim n=3 --print 2>/dev/null)
	c=$("$INFER" run two.onnx --random -1..1 --seed 8 --dim n=3 --print 2>/dev/null)
	[ "$a" = "$b" ]
	[ "$a" != "$c" ]
}

# Writes the lengths that --random gives the model on standard input, whose input they are: whole lengths of WANT.
whole_lengths() { # WANT NAME ARGS...
	local want=$1 name=$2
	{ echo '<ir_version: 8, opset_import: ["": 17]> g '; cat; } >"$BATS_TEST_TMPDIR/lengths.onnxtxt"
	run -0 "$INFER" run "$BATS_TEST_TMPDIR/lengths.onnxtxt" --random 0..1 "${@:3}"
	[[ $output == *"input   $name i"*", generated: whole lengths; min $want, max $want"* ]] || { echo "not $want: $output"; return 1; }
}

@test "--random gives lengths of whole sequences, which the nodes that read them tell" {
	local mask='t = Squeeze (size) at = Range (zero, t, one) behind = Unsqueeze (lens, last) seen = Less (at, behind) y = Cast <to = 1> (seen)'
	local numbers='<int64 zero = {0}, int64 one = {1}, int64[1] last = {-1}>'
	# a mask, along the axis whose size the positions end at
	whole_lengths 200 lens --dim time=200 <<<"(float[batch,80,time] audio, int64[batch] lens) => (float[batch,n] y) $numbers { size = Shape <start = 2, end = 3> (audio) $mask }"
	whole_lengths 7 lens --dim b=7 <<<"(float[a,b,8] x, int64[c] lens) => (float[c,n] y) $numbers { size = Shape <start = 1, end = 2> (x) $mask }"
	whole_lengths 7 lens --dim time=7 <<<"(float[batch,time,8] x, int64[1] lens) => (float[1,n] y) $numbers { size = Shape <start = 1, end = 2> (x) $mask }"
	whole_lengths 7 lens --dim t=7 <<<"(float[b,t,8] x, float[b,256] speaker, int64[b] lens) => (float[b,n] y, float[b,256] z) $numbers { size = Shape <start = 1, end = 2> (x) $mask z = Neg (speaker) }"
	whole_lengths 7 lens --dim t=7 <<<"(float[b,8,t] x, int64[b] lens) => (float[b,n] y) $numbers { xt = Transpose <perm = [0, 2, 1]> (x) h = Relu (xt) sizes = Shape (h) size = Gather (sizes, one) $mask }"
	whole_lengths 4 lens <<<"(float[2,9,8] x, int64[2] lens) => (float[2,n] y) <int64[4] at = {0, 1, 2, 3}, int64[1] last = {-1}> { behind = Unsqueeze (lens, last) seen = Less (at, behind) y = Cast <to = 1> (seen) }"
	# a convolution halves the sequence, and arithmetic the lengths
	whole_lengths 64 lens --dim t=64 <<<"(float[b,1,t] x, int64[b] lens) => (float[b,n] y) <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] last = {-1}, float[1,1,2] w = {1, 1}> {
		h = Conv <strides = [2]> (x, w) size = Shape <start = 2, end = 3> (h) t = Squeeze (size) at = Range (zero, t, one)
		half = Div (lens, two) behind = Unsqueeze (half, last) seen = Less (at, behind) y = Cast <to = 1> (seen) }"
	# no node tells: the input after which the lengths are called, and the axis that is neither the batch nor fixed
	whole_lengths 9 y_lengths --dim t=9 --dim s=5 <<<"(float[b,80,t] y, float[b,s] x, int64[b] y_lengths) => (float[b,n] m, float[b,80,t] v, float[b,s] w) $numbers {
		long = ReduceMax <keepdims = 0> (y_lengths) at = Range (zero, long, one) behind = Unsqueeze (y_lengths, last) seen = Less (at, behind) m = Cast <to = 1> (seen) v = Neg (y) w = Neg (x) }"
	whole_lengths 6 lens --dim t=6 <<<'(float[b,t,2] x, int64[b] lens) => (float[b,t,2] y) { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lens) }'
	whole_lengths 9 lens --dim t=9 <<<"(float[b,t,80] x, float[b,192] speaker, int64[b] lens) => (float[b,n] m, float[b,t,80] v, float[b,192] w) $numbers {
		long = ReduceMax <keepdims = 0> (lens) at = Range (zero, long, one) behind = Unsqueeze (lens, last) seen = Less (at, behind) m = Cast <to = 1> (seen) v = Neg (x) w = Neg (speaker) }"
	# of recurrent layers, which refuse longer ones
	local layer='shape_w = Constant <value = int64[3] {1, 12, 8}> () shape_r = Constant <value = int64[3] {1, 12, 4}> () W = ConstantOfShape (shape_w) R = ConstantOfShape (shape_r)'
	whole_lengths 3 lens <<<"(float[3,3,8] x, int32[3] lens) => (float[1,3,4] h) { $layer ys, h = GRU <hidden_size = 4> (x, W, R, , lens) }"
	whole_lengths 5 lens --dim t=5 <<<"(float[b,t,8] x, int32[b] lens) => (float[1,b,4] h) { $layer xt = Transpose <perm = [1, 0, 2]> (x) ys, h = GRU <hidden_size = 4> (xt, W, R, , lens) }"
	whole_lengths 3 xl --dim s=3 --dim t=5 <<<"(float[s,b,8] x, float[t,b,8] y, int32[b] xl, int32[b] yl) => (float[1,b,4] h, float[1,b,4] k) {
		$layer xs, h = GRU <hidden_size = 4> (x, W, R, , xl) ys, k = GRU <hidden_size = 4> (y, W, R, , yl) }"
	[[ $output == *"yl i32 [1], 4 bytes, generated: whole lengths; min 5"* ]]
}

@test "A length is found behind any number of other nodes that read it" {
	{
		echo '(float[b,t] x, int64[b] lens) => (float[b,n] y, int64[b] z) <int64 zero = {0}, int64 one = {1}, int64[1] last = {-1}> {'
		seq -f 'a%.0f = Sub (lens, one)' 1500
		echo "z = Max ($(seq -s , -f 'a%.0f' 1500))"
		echo 'size = Shape <start = 1, end = 2> (x) t = Squeeze (size) at = Range (zero, t, one) behind = Unsqueeze (lens, last) seen = Less (at, behind) y = Cast <to = 1> (seen) }'
	} | whole_lengths 7 lens --dim t=7
}

@test "--random LO..HI without a name draws sizes, too, if LO is a size" {
	echo '<ir_version: 8, opset_import: ["": 17]> g (int64 n) => (int64[k] y) <int64 zero = {0}, int64 one = {1}> { y = Range (zero, n, one) }' >"$BATS_TEST_TMPDIR/size.onnxtxt"
	run -0 "$INFER" run "$BATS_TEST_TMPDIR/size.onnxtxt" --random 3..3
	[[ $output == *"n i64 [], 8 bytes, random integers 3..3, seed 0; min 3, max 3"* ]]
	run -0 "$INFER" run "$BATS_TEST_TMPDIR/size.onnxtxt" --random -1..1
	[[ $output == *"n i64 [], 8 bytes, generated: all ones (sizes)"* ]]
}

@test "--random NAME=LO..HI applies to one input only" {
	run -0 "$INFER" run two.onnx --input a=a.npy --random b=5..5 --print
	[[ $output = *$'diff f32 [2,4]\n-5 -4 -3 -2'* ]]
}

@test "A free dimension gets its size from the file, --dim, --shape or another input" {
	run -0 "$INFER" run batch.onnx --input images=hwc.u8.bin,dtype=u8,layout=hwc
	[[ $output = *"note[N-DIM]: batch = 1, from the size of hwc.u8.bin"* ]]
	run -0 "$INFER" run two.onnx --random 0..1 --dim n=3
	[[ $output = *"a f32 [3,4]"* ]]
	run -0 "$INFER" run two.onnx --random 0..1 --dim a.n=3
	[[ $output = *"b f32 [3,4]"* ]]
	run -0 "$INFER" run two.onnx --random 0..1 --dim b.0=3
	[[ $output = *"a f32 [3,4]"* ]]
	run -0 "$INFER" run two.onnx --random 0..1 --shape a=3x4
	[[ $output = *"b f32 [3,4]"* ]]
	run -0 "$INFER" run two.onnx --input a=a.bin --random 0..1
	[[ $output = *"b f32 [2,4]"* ]]
	run -0 "$INFER" run free.onnx --input x=hwc.u8.bin,dtype=u8,layout=hwc --dim h=16 --dim batch=1
	[[ $output = *"x f32 [1,3,16,24]"* ]]
}

@test "A free dimension without a size becomes 1, unless it is a batch with a warning; with --strict it is an error" {
	run -0 "$INFER" run free.onnx --random 0..1
	[[ $output = *"warning[W-DIM-DEFAULT]"*"'h'"*"taken as 1"* && $output != *"'batch'"*"taken as 1"* ]]
	run -0 "$INFER" run two.onnx --random 0..1
	[[ $output != *"W-DIM-DEFAULT"* ]]
	run -4 "$INFER" run two.onnx --random 0..1 --strict
	[[ $output = *"error[E-DIM-DEFAULT]"*"--dim n=N"* ]]
}

@test "A dimension of size 0 and a scalar are accepted" {
	run -0 "$INFER" run two.onnx --random 0..1 --dim n=0
	[[ $output = *"sum f32 [0,4], 0 bytes"* ]]
	printf 2.5 | prints $'y f32 []\n2.5' scalar.onnx --input - --print
}

@test "An input with a default uses the given value, or its default as a constant" {
	gives by_default.f32 default.onnx --input x=three.bin
	gives by_half.f32 default.onnx --input x=three.bin --input factor=half.bin
	"$INFER" run default.onnx --input x=three.bin --random factor=0..1 -q >/dev/null
}

@test "A value stands for itself where a file could stand" {
	prints $'y f32 []\n2.5' scalar.onnx --input x=2.5 --print 0 -q
	prints $'y f32 []\n-3' scalar.onnx --input -3 --print 0 -q
	prints $'y bf16 [3]\n1 2 3' many.onnx --input 'x=[1,2,3]' --print 0 -q
	prints $'y string [2]\n"a,b" "c=d,shape=3"' words.onnx --input 'x=["a,b","c=d,shape=3"]' --print 0 -q
	prints $'y string [1]\n"a cat"' words.onnx --input 'x="a cat",shape=1' --print 0 -q
	prints $'sum f32 [1,4]\n2 3 4 5\ndiff f32 [1,4]\n0 1 2 3' two.onnx --input 'a=[[1,2,3,4]]' --input 'b=[[1,1,1,1]]' --print 0 -q
	prints $'y bf16 [3]\n1 -inf nan' many.onnx --input 'x=[1,-inf,NaN]' --print 0 -q
	prints $'y f32 []\n-inf' scalar.onnx --input x=-inf --print 0 -q
	prints $'y string [2]\n"inf" "[nan,"' words.onnx --input 'x=["inf","[nan,"]' --print 0 -q
	run -4 "$INFER" run many.onnx --input x=7
	[[ $output = *"7 has"*"1 element"* ]]
	run -4 "$INFER" run ints.onnx --input '[1,2.5]'
	[[ $output = *"[1,2.5], line 1, at '2.5]': the model takes integers"* ]]
	# a file of that name comes first
	cp a.npy "$BATS_TEST_TMPDIR/5"
	cd "$BATS_TEST_TMPDIR"
	run -0 "$INFER" run "$BATS_TEST_DIRNAME/../data/run/two.onnx" --input a=5 --input b=5 --output sum --print 0 -q
	[[ $output = "sum f32 [2,4]"* ]]
}
