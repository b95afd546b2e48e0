#!/usr/bin/env bats
# infer run: inputs that do not fit are refused with exit 4, what was expected, what is there, the
# likeliest cause, and an option that makes it work.

setup_file() {
	gunzip -c "$BATS_TEST_DIRNAME/../data/run/img.bin.gz" >"$BATS_FILE_TMPDIR/img.bin"
}

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
}

# refuses CODE TEXT OPTION...: exit 4, error[CODE], TEXT somewhere, nothing on stdout
refuses() {
	local code=$1 text=$2
	shift 2
	run -4 --separate-stderr "$INFER" run "$@"
	[ -z "$output" ]
	[[ $stderr = "error[$code]: "* ]] || { echo "$stderr"; return 1; }
	[[ $stderr = *"$text"* ]] || { echo "$stderr"; return 1; }
}

# The option that the message proposes, in the last row; it must work.
follow() { # MODEL
	local hint
	hint=$(sed -n 's/^  try  *\(--input .*\)/\1/p' <<<"$stderr")
	[ -n "$hint" ] || { echo "$stderr"; return 1; }
	eval "$INFER run $1 $hint -q"
}

@test "The error message in the manual is exact" {
	cd "$BATS_FILE_TMPDIR"
	run -4 --separate-stderr "$INFER" run "$BATS_TEST_DIRNAME/../data/run/yolo.onnx" --input images=img.bin
	want="error[E-INPUT-BYTES]: input 'images' does not fit the model; nothing was read into it
  model expects  f32 [1,3,640,640]  1,228,800 elements  4,915,200 bytes
  img.bin has                                           1,228,800 bytes (25.0 %)
  reads as       u8 [640,640,3] (an HWC image without batch axis)
  try            --input images=img.bin,dtype=u8,layout=hwc,scale=1/255"
	[ "$stderr" = "$want" ] || { echo "$stderr"; return 1; }
}

@test "Bytes in place of floats: HWC and CHW are distinguished from the content" {
	refuses E-INPUT-BYTES "u8 [16,24,3] (an HWC image without batch axis)" pic.onnx --input images=hwc.u8.bin
	follow pic.onnx
	refuses E-INPUT-BYTES "u8 [1,3,16,24] (u8 where the model takes f32)" pic.onnx --input images=chw.u8.bin
	follow pic.onnx
}

@test "f64, f16 and bf16 in raw files are recognized" {
	for t in f64 f16 bf16; do
		refuses E-INPUT-BYTES "$t [1,3,16,24] ($t where the model takes f32)" \
			pic.onnx --input images=chw.$t.bin
		follow pic.onnx
	done
}

@test "RGBA data is recognized: raw, .npy and PNG" {
	for f in rgba.u8.bin rgba.npy rgba.png; do
		run -4 --separate-stderr "$INFER" run pic.onnx --input images=$f
		[[ $stderr = *"u8 [16,24,4] (an RGBA image)"* ]]
		follow pic.onnx
	done
}

@test "A gray picture for an RGB model is explained" {
	refuses E-INPUT-SHAPE "a gray image" pic.onnx --input gray.png
	follow pic.onnx
}

@test "A picture of another size is explained" {
	refuses E-INPUT-SHAPE "[1,3,640,640]" yolo.onnx --input rgb.png
	follow yolo.onnx
}

@test "A part of a batch, several tensors, or extra bytes are explained" {
	head -c 16 a.bin >"$BATS_TEST_TMPDIR/x.bin"
	refuses E-INPUT-BYTES "1 of a batch of 2" classes.onnx --input "$BATS_TEST_TMPDIR/x.bin"
	cat rgb.f32 rgb.f32 rgb.f32 >"$BATS_TEST_TMPDIR/x.bin"
	refuses E-INPUT-BYTES "3 tensors of this shape" pic.onnx --input "$BATS_TEST_TMPDIR/x.bin"
	printf 'xyz' >>"$BATS_TEST_TMPDIR/x.bin"
	refuses E-INPUT-BYTES "a file with 9,219 bytes too many" pic.onnx --input "$BATS_TEST_TMPDIR/x.bin"
}

@test "A truncated file is recognized: raw, .npy" {
	refuses E-INPUT-BYTES "a file cut short: 1,008 of 4,608 bytes are missing" pic.onnx --input images=short.bin
	refuses E-INPUT-BYTES "a file cut short: 1,736 of 4,608 bytes of elements are missing" pic.onnx --input cut.npy
	refuses E-INPUT-FORMAT "cut short in its header" pic.onnx --input head.npy
}

@test "Truncated pictures, and files that are no pictures, are refused" {
	for f in rgb.png rgb.jpg rgb.bmp rgb.ppm rgb.webp rgb.tiff rgb.jp2; do
		head -c 400 $f >"$BATS_TEST_TMPDIR/$f"
		run -4 --separate-stderr "$INFER" run pic.onnx --input "$BATS_TEST_TMPDIR/$f"
		[[ $stderr = "error[E-INPUT-FORMAT]: "*"$f"*"cut short"* ]] ||
			[[ $stderr = "error[E-INPUT-FORMAT]: "*"$f"*"damaged"* ]] || { echo "$stderr"; return 1; }
	done
	cp words.txt "$BATS_TEST_TMPDIR/no.png"
	refuses E-INPUT-FORMAT "no picture" pic.onnx --input "$BATS_TEST_TMPDIR/no.png"
}

@test "A picture that claims to be huge is refused from its header" {
	printf 'P6\n60000 60000\n255\n' >"$BATS_TEST_TMPDIR/huge.ppm"
	refuses E-INPUT-FORMAT "60000 x 60000" free.onnx --input "$BATS_TEST_TMPDIR/huge.ppm"
}

@test "An .npy header in a raw file is recognized" {
	refuses E-INPUT-BYTES "an .npy file, with a header of 128 bytes" pic.onnx --input images=npy.bin
	follow pic.onnx
}

@test "Big-endian data are refused with a cure" {
	refuses E-INPUT-FORMAT "big-endian" pic.onnx --input big.npy
	[[ $stderr = *newbyteorder* ]]
	refuses E-INPUT-TYPE "a type that ONNX has not" pic.onnx --input objects.npy
}

@test "An .npy file of another type, rank, size or layout is explained" {
	refuses E-INPUT-TYPE "f64 where the model takes f32" pic.onnx --input f64.npy
	follow pic.onnx
	refuses E-INPUT-RANK "no batch axis" pic.onnx --input chw.npy
	follow pic.onnx
	refuses E-INPUT-SHAPE "[1,3,8,8]" pic.onnx --input other.npy
	follow pic.onnx
	refuses E-INPUT-LAYOUT "an NHWC image" pic.onnx --input nhwc.npy
	follow pic.onnx
	refuses E-INPUT-TYPE "an HWC image without batch axis" pic.onnx --input hwc.npy
	follow pic.onnx
	refuses E-INPUT-RANK "as many elements in another shape" pic.onnx --input flat.npy
	follow pic.onnx
}

@test "A conflict with a dimension that another input determined names that input" {
	refuses E-INPUT-SHAPE "2, by input 'a' (a.npy)" two.onnx --input a=a.npy --input b=b3.npy
	refuses E-DIM "is 4 by --dim a.n=4" two.onnx --random 0..1 --dim a.n=4 --dim n=5
}

@test "For unknown inputs, keys and dimensions, the error suggests the nearest name" {
	refuses E-INPUT-NAME "did you mean 'images'" pic.onnx --input image=fits.npy
	refuses E-INPUT-KEY "did you mean 'dtype'" pic.onnx --input fits.npy,dtpe=u8
	refuses E-INPUT-KEY "got 'u7'" pic.onnx --input fits.npy,dtype=u7
	refuses E-DIM "free are: 'n'" two.onnx --random 0..1 --dim m=3
	refuses E-DIM "did you mean 'batch'" ids.onnx --random 0..1 --dim bach=3
	refuses E-DIM "did you mean 'images.batch'" batch.onnx --random 0..1 --dim image.batch=3
	refuses E-DIM "did you mean 'batch'" batch.onnx --random 0..1 --dim images.bach=3
	refuses E-INPUT-NAME "'a' and 'b'" two.onnx --input a.npy
	refuses E-INPUT-NAME "given twice" two.onnx --input a=a.npy --input a=a.bin --input b=a.npy
	refuses E-INPUT-NAME "'a' and 'b'" two.onnx --random aa=0..1
}

@test "A missing file, input or data set is an error" {
	refuses E-INPUT-OPEN "nofile.npy" pic.onnx --input nofile.npy
	refuses E-INPUT-MISSING "input 'b'" two.onnx --input a=a.npy
	refuses E-INPUT-OPEN "nodir/input_0.pb" two.onnx --data-set nodir
}

@test "Text with the wrong count, range or kind of elements is refused" {
	printf '1 2 3' >"$BATS_TEST_TMPDIR/x.txt"
	refuses E-INPUT-BYTES "3 elements" two.onnx --input a="$BATS_TEST_TMPDIR/x.txt" --input b=a.npy
	printf '[1, 2.5, 3]' >"$BATS_TEST_TMPDIR/x.json"
	refuses E-INPUT-FORMAT "at '2.5, 3]'" ints.onnx --input "$BATS_TEST_TMPDIR/x.json"
	printf '[[1, 2], [3]]' >"$BATS_TEST_TMPDIR/x.json"
	refuses E-INPUT-FORMAT "different lengths" two.onnx --input a="$BATS_TEST_TMPDIR/x.json" --input b=a.npy
	refuses E-INPUT-FORMAT "words.txt, line 1, at 'plain'" ints.onnx --input words.txt
	refuses E-INPUT-TYPE "string" words.onnx --input a.npy
}

@test "Sequences and optionals are accepted from .pb files only" {
	refuses E-INPUT-FORMAT "seq(f32)" seq.onnx --input a.npy
	refuses E-INPUT-MISSING "seq(f32)" seq.onnx --random 0..1
}

@test "Damaged archives are refused" {
	head -c 300 ab.npz >"$BATS_TEST_TMPDIR/x.npz"
	refuses E-INPUT-FORMAT "no valid .npz archive" two.onnx --input "$BATS_TEST_TMPDIR/x.npz"
	cp ab.npz "$BATS_TEST_TMPDIR/x.npz"
	printf '\377' | dd of="$BATS_TEST_TMPDIR/x.npz" bs=1 seek=170 conv=notrunc 2>/dev/null
	refuses E-INPUT-FORMAT "member 'a' is damaged" two.onnx --input "$BATS_TEST_TMPDIR/x.npz"
	refuses E-INPUT-NAME "no input 'a'" pic.onnx --input ab.npz
}

@test "For a raw file with several free dimensions, the error lists what to set" {
	refuses E-DIM "--dim batch=N --dim h=N --dim w=N" free.onnx --input x=hwc.u8.bin
}

@test "With --json, the finding is in the document on stdout" {
	run -4 --separate-stderr "$INFER" run pic.onnx --input images=hwc.u8.bin --json
	[[ $output = *'"exit_code": 4'*'"id": "E-INPUT-BYTES"'*'"label": "reads as"'* ]]
	[ -z "$stderr" ]
}

@test "An endless input is refused, not read until memory runs out" {
	# no way out by reading much; AddressSanitizer wants more than that itself
	if (ulimit -v 4000000 && "$INFER" --version >/dev/null 2>&1); then ulimit -v 4000000; fi
	refuses E-INPUT-OPEN "/dev/zero does not end" pic.onnx --input images=/dev/zero
	refuses E-INPUT-OPEN "standard input does not end" pic.onnx --input images=- </dev/zero
	refuses E-INPUT-OPEN "standard input does not end" pic.onnx --input images=- < <(yes)
	refuses E-LABELS "/dev/zero does not end" classes.onnx --input classes.npy --top 1 --labels /dev/zero
	run -3 --separate-stderr "$INFER" run /dev/zero --random 0..1
	[[ $stderr = "error[E-MODEL-OPEN]: "*"does not end"* ]]
	run -2 --separate-stderr "$INFER" run pic.onnx --random 0..1 --config /dev/zero
	[[ $stderr = *"does not end"* ]]
	refuses E-INPUT-BYTES "0 bytes" pic.onnx --input images=/dev/null
	# shellcheck disable=SC2002 # a pipe, not a file
	cat rgb.png | "$INFER" run pic.onnx --input images=- -q
}

@test "An input that exceeds the memory is refused with its size" {
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:allocator_may_return_null=1
	run -3 --separate-stderr "$INFER" run free.onnx --random 0..1 --dim batch=99999999999 --dim h=99 --dim w=99
	[[ $stderr = *"error[E-SIZE]: input 'x'"*"at most 2^40 elements, got [99999999999,3,99,99]"* ]]
	run -3 --separate-stderr "$INFER" run free.onnx --random 0..1 --dim batch=9999999 --dim h=99 --dim w=99
	[[ $stderr = *"error[E-MEMORY]: input 'x'"*"refused 1.1 TiB for f32 [9999999,3,99,99]"* ]]
}

@test "Labels that do not fit are refused before anything runs" {
	refuses E-LABELS "expected 4 labels, got 3" classes.onnx --input nofile.npy --top 3 --labels labels3.txt
	refuses E-LABELS "blank= below" ctc.onnx --input nofile.npy --decode ctc:blank=99
	refuses E-LABELS "no output can be decoded as text" scalar.onnx --input nofile.npy --decode ctc
}

@test "An empty file is an empty batch only if --dim says so" {
	: >"$BATS_TEST_TMPDIR/e.bin"
	refuses E-INPUT-BYTES "reads as       an empty file" batch.onnx --input "$BATS_TEST_TMPDIR/e.bin"
	[[ $stderr = *"--dim batch=0 where no element is meant"* ]]
	run -0 "$INFER" run batch.onnx -q --input "$BATS_TEST_TMPDIR/e.bin" --dim batch=0
	for ext in npy png json; do
		: >"$BATS_TEST_TMPDIR/e.$ext"
		refuses E-INPUT-FORMAT "the file is empty" batch.onnx --input "$BATS_TEST_TMPDIR/e.$ext"
	done
}

@test "A raw file that does not hold a whole number of batches is explained" {
	head -c 4604 /dev/zero >"$BATS_TEST_TMPDIR/short.bin"
	refuses E-INPUT-BYTES "a file cut short: 4 of 4,608 bytes are missing" batch.onnx \
		--input "$BATS_TEST_TMPDIR/short.bin"
	head -c 9220 /dev/zero >"$BATS_TEST_TMPDIR/long.bin"
	refuses E-INPUT-BYTES "2 of 4,608 bytes each, and 4 bytes more" batch.onnx \
		--input "$BATS_TEST_TMPDIR/long.bin"
}

@test "Files of known other formats are identified, not read as bare elements" {
	printf 'GIF89a%1000s' '' >"$BATS_TEST_TMPDIR/a.gif"
	refuses E-INPUT-FORMAT "a.gif is a GIF picture, no bare elements" batch.onnx --input "$BATS_TEST_TMPDIR/a.gif"
	# asked for by name, its bytes are elements
	refuses E-INPUT-BYTES "does not fit" pic.onnx --input "$BATS_TEST_TMPDIR/a.gif,format=raw"
}

@test "A key that is given twice or without a value is an error" {
	refuses E-INPUT-KEY "'dtype' is given twice" pic.onnx --input fits.npy,dtype=u8,dtype=f32
	refuses E-INPUT-KEY "'dtype' has no value" pic.onnx --input fits.npy,dtype
	refuses E-INPUT-KEY "at most 65536 pixels a side" pic.onnx --input rgb.png,resize=100000x3
}

@test "Standard input cannot be both the model and an input" {
	run -2 --separate-stderr "$INFER" run - --input images=- <batch.onnx
	[[ $stderr == "error[E-OPTION]: --input: standard input already holds the model"* ]]
}

@test "A missing weights file is reported with the places searched and a cure" {
	# y = MatMul(x [4,256], w [256,256] in w.bin)
	base64 -d >"$BATS_TEST_TMPDIR/m.onnx" <<-'END'
		CAg6ZAoRCgF4CgF3EgF5IgZNYXRNdWwSAWcqIAiAAgiAAhABQgF3ahEKCGxvY2F0aW9uEgV3LmJpbnABWhQKAXgSDwoNCAESCQoC
		CAQKAwiAAmIUCgF5Eg8KDQgBEgkKAggECgMIgAJCBAoAEBE=
	END
	run -3 --separate-stderr "$INFER" run "$BATS_TEST_TMPDIR/m.onnx" --random 0..1
	[[ $stderr == *"error[E-WEIGHT-EXTERNAL]: "*"the file 'w.bin', got no such file in '$BATS_TEST_TMPDIR'"*"--external-root DIR"* ]]
}

@test "A shape that is known only in the run must fit: Expand to another size is an error, and is no view of its input" {
	cat >"$BATS_TEST_TMPDIR/expand.txt" <<-'T'
		<ir_version: 10, opset_import: ["" : 21]> g (float[2,3] x, int64[2] s) => (float[C,D] y) { y = Expand(x, s) }
	T
	for s in 4,3 0,3 2,2 3,2; do
		run -3 --separate-stderr "$INFER" run "$BATS_TEST_TMPDIR/expand.txt" --random --input "s=[$s]" -q
		[[ $stderr = *"error[E-SHAPE]: node 'Expand_0' (Expand) input 1 'shape': "*"broadcasts with [2,3], got [${s/,/,}]"* ]] || { echo "$stderr"; return 1; }
	done
	for s in 2,3 1,3 2,1 1,1 -1,3; do
		run -0 --separate-stderr "$INFER" run "$BATS_TEST_TMPDIR/expand.txt" --random --input "s=[$s]" --print 0 -q
		[[ $output = "y f32 [2,3]"* ]]
	done
}

@test "A loop whose body gives back another type, or a condition that is no bool, is refused before it runs" {
	local loop='<ir_version: 10, opset_import: ["" : 21]> g (float[3] x, int64 n, bool t) => (int64[1] y) {
		z = Loop(n, t, x) <body = b (int64 i, bool c, float[3] v) => (COND co, TYPE w) { co = Identity(FROM) w = BODY } > y = Shape(z) }'
	made() { sed "s/COND/$1/; s/FROM/$2/; s/TYPE/$3/; s/BODY/$4/" <<<"$loop" >"$BATS_TEST_TMPDIR/loop.txt"; }
	made bool c 'int64[1]' 'Shape(v)'
	run -3 --separate-stderr "$INFER" run "$BATS_TEST_TMPDIR/loop.txt" --random -q
	[[ $stderr = *"error[E-TYPE]: "*"node 'Loop_0' (Loop) input 2 'v_initial': "*"expected i64, as the body gives it back, got f32"* ]]
	made int64 i 'float[3]' 'Neg(v)'
	run -3 --separate-stderr "$INFER" run "$BATS_TEST_TMPDIR/loop.txt" --random -q
	[[ $stderr = *"error[E-TYPE]: "*"expected bool as condition of the body, got i64"* ]]
	made bool c 'float[3]' 'Neg(v)'
	run -0 --separate-stderr "$INFER" run "$BATS_TEST_TMPDIR/loop.txt" --random --input n=2 --input t=true -q
}

@test "An input smaller than the window of a convolution is refused, quantized or not, whatever is optimized" {
	cat >"$BATS_TEST_TMPDIR/codes.txt" <<-'EOF'
		<ir_version: 8, opset_import: ["" : 17]>
		g (float[1,1,L] x) => (float[1,1,M] y)
		<float s = {0.01}, int8 z = {0}, int8[1,1,5] w = {1, -2, 3, 4, -5}> {
		    q = QuantizeLinear(x, s, z)
		    d = DequantizeLinear(q, s, z)
		    v = DequantizeLinear(w, s, z)
		    c = Conv<pads = [1, 1]>(d, v)
		    r = QuantizeLinear(c, s, z)
		    y = DequantizeLinear(r, s, z)
		}
	EOF
	cat >"$BATS_TEST_TMPDIR/linear.txt" <<-'EOF'
		<ir_version: 8, opset_import: ["" : 17]>
		g (uint8[1,1,L] x) => (uint8[1,1,M] y)
		<float s = {0.01}, uint8 z = {0}, int8 o = {0}, int8[1,1,5] w = {1, -2, 3, 4, -5}> {
		    y = QLinearConv<pads = [1, 1]>(x, s, z, w, s, o, s, z)
		}
	EOF
	cat >"$BATS_TEST_TMPDIR/integer.txt" <<-'EOF'
		<ir_version: 8, opset_import: ["" : 17]>
		g (uint8[1,1,L] x) => (int32[1,1,M] y)
		<int8[1,1,5] w = {1, -2, 3, 4, -5}> { y = ConvInteger<pads = [1, 1]>(x, w) }
	EOF
	for model in codes linear integer; do
		for level in none basic full; do
			run -0 "$INFER" run "$BATS_TEST_TMPDIR/$model.txt" --dim L=3 --random --optimize $level
			run -3 "$INFER" run "$BATS_TEST_TMPDIR/$model.txt" --dim L=2 --random --optimize $level
			[[ $output == *"E-SHAPE"*"as large as the kernel"* ]]
		done
	done
	run -0 "$INFER" check "$BATS_TEST_TMPDIR/codes.txt"
}
