#!/usr/bin/env bats
# Sounds and turned pictures: each is what soundfile, soxr and Pillow read (test/tools/make_media_data.py).

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	INFER=$(realpath "$INFER")
	cd "$BATS_TEST_DIRNAME/../data/media" || return 1
	bats_require_minimum_version 1.5.0
	out=$BATS_TEST_TMPDIR/out
}

# gives WANTED MODEL OPTION...: the one output's bytes are those of the file
gives() {
	local want=$1
	shift
	rm -rf "$out"
	"$INFER" run "$@" -q -o "$out" --save-format bin
	cmp "$out"/*.bin "$want" || { echo "$*"; return 1; }
}

# near LIMIT TYPE WANTED MODEL OPTION...: no element, of od's TYPE, differs by more than LIMIT
near() {
	local limit=$1 type=$2 want=$3
	shift 3
	rm -rf "$out"
	"$INFER" run "$@" -q -o "$out" --save-format bin
	paste <(od -An -v -w"${type:1}" -t "$type" "$out"/*.bin) <(od -An -v -w"${type:1}" -t "$type" "$want") |
		awk -v l="$limit" '{d = $1 - $2; if (NF != 2 || d > l || -d > l) {print "element " NR ": " $0; exit 1}}'
}

# refuses CODE TEXT MODEL OPTION...
refuses() {
	local code=$1 text=$2
	shift 2
	run --separate-stderr "$INFER" run "$@" -q
	[ "$status" -eq 4 ] || { echo "status $status: $stderr"; return 1; }
	[[ $stderr = *"error[$code]: "* ]] || { echo "$stderr"; return 1; }
	[[ $stderr = *"$text"* ]] || { echo "$stderr"; return 1; }
}

@test "WAV and FLAC have soundfile's samples, Ogg almost" {
	gives s_wav.f32 channels.onnx --input s.wav
	gives s_flac.f32 channels.onnx --input s.flac
	near 1e-6 f4 s_ogg.f32 channels.onnx --input s.ogg
}

@test "mono and rate= give soxr's samples of the mean, for inputs of rank 1, 2 and 3" {
	for model in flat mono channels; do
		near 1e-6 f4 s_wav_16k.f32 $model.onnx --input s.wav,rate=16000,mono
	done
	near 1e-6 f4 s_flac_16k.f32 mono.onnx --input s.flac,mono=on,rate=16000
	near 1e-6 f4 s_ogg_16k.f32 mono.onnx --input x=s.ogg,mono,rate=16000
}

@test "start= and duration= take a part" {
	gives part.f32 mono.onnx --input s.wav,mono,start=0.02,duration=0.02
	refuses E-INPUT-FORMAT "ends before start=9" mono.onnx --input s.wav,mono,start=9
	refuses E-INPUT-FORMAT "ends before duration=1 is over" mono.onnx --input s.wav,mono,duration=1
}

@test "Samples become the model's floats, and integers only with a scale" {
	"$INFER" run half.onnx --input s.wav,mono -q -o "$out"
	refuses E-INPUT-TYPE "scale=32768" ints.onnx --input s.wav,mono
	"$INFER" run ints.onnx --input s.wav,mono,scale=32768 -q -o "$out"
}

@test "A sound that does not fit is refused, with the key that makes it fit" {
	refuses E-INPUT-SHAPE "add the key mono" mono.onnx --input s.wav
	refuses E-INPUT-SHAPE "duration=" second.onnx --input s.wav,mono
	refuses E-INPUT-KEY "are for sound files" pixels.onnx --input 1.png,rate=8000
	refuses E-INPUT-KEY "exif is for pictures" mono.onnx --input s.wav,exif=off
	refuses E-INPUT-KEY "samples a second" mono.onnx --input s.wav,rate=0
}

@test "--slice walks along a sound" {
	"$INFER" run pieces.onnx --input s.wav,rate=16000,mono --slice x=32 --by-step join:1 -q -o "$out" --save-format bin
	head -c 3200 "$out/y.bin" >"$BATS_TEST_TMPDIR/stacked"
	"$INFER" run mono.onnx --input s.wav,rate=16000,mono -q -o "$BATS_TEST_TMPDIR/whole" --save-format bin
	head -c 3200 "$BATS_TEST_TMPDIR/whole/y.bin" | cmp - "$BATS_TEST_TMPDIR/stacked"
}

@test "Many sounds are inputs of one run" {
	mkdir "$BATS_TEST_TMPDIR/in"
	cp s.wav s.flac "$BATS_TEST_TMPDIR/in"
	"$INFER" run mono.onnx --input "$BATS_TEST_TMPDIR/in,rate=16000,mono" -q -o "$out" --save-format bin
	[ "$(find "$out" -name '*.bin' | wc -l)" -eq 2 ]
	for f in s.wav s.flac; do
		"$INFER" run mono.onnx --input "$f,rate=16000,mono" -q -o "$BATS_TEST_TMPDIR/one" --save-format bin
		cmp "$BATS_TEST_TMPDIR/one/y.bin" "$out/$f.bin"
	done
}

@test "A damaged sound is refused" {
	head -c 1000 s.flac >"$BATS_TEST_TMPDIR/cut.flac"
	refuses E-INPUT-FORMAT "cut.flac" mono.onnx --input "$BATS_TEST_TMPDIR/cut.flac,mono"
	printf 'RIFF\1\2\3\4WAVEfmt %1000s' '' >"$BATS_TEST_TMPDIR/a.wav"
	refuses E-INPUT-FORMAT "cannot be read (libsndfile" mono.onnx --input "$BATS_TEST_TMPDIR/a.wav"
	head -c 40 s.ogg >"$BATS_TEST_TMPDIR/cut.ogg"
	refuses E-INPUT-FORMAT "cut.ogg" mono.onnx --input "$BATS_TEST_TMPDIR/cut.ogg"
}

@test "A library that cannot be opened is named with its package" {
	# the library's file is hidden from this one program by a mount of its own
	command -v unshare >/dev/null && unshare -rm true 2>/dev/null || skip "no mount namespaces here"
	library=$(ldconfig -p | awk '$1 == "libsndfile.so.1" {print $NF; exit}')
	run --separate-stderr unshare -rm sh -c 'mount --bind /dev/null "$1" && shift && exec "$@"' - "$library" \
		"$INFER" run mono.onnx --input s.wav,mono -q
	[ "$status" -eq 8 ]
	[[ $stderr = *"libsndfile"*"install the package libsndfile1"* ]]
}

@test "Pictures are turned as their EXIF orientation says, in four formats" {
	for o in 1 2 3 4 5 6 7 8; do
		for ext in jpg png webp tif; do
			gives "${o}_$ext.u8" pixels.onnx --input "$o.$ext"
		done
	done
}

@test "exif=off takes the rows as they are stored" {
	gives 6_jpg_stored.u8 pixels.onnx --input 6.jpg,exif=off
	for o in 2 3 4 5 6 7 8; do
		gives 1_tif.u8 pixels.onnx --input "$o.tif,exif=off"
		gives 1_png.u8 pixels.onnx --input "$o.png,exif=off"
	done
	refuses E-INPUT-KEY "on or off" pixels.onnx --input 6.jpg,exif=no
}

@test "HEIF and AVIF pictures are read, and turned by what they say" {
	near 2 u1 p_heic.u8 pixels.onnx --input p.heic
	near 2 u1 p_avif.u8 pixels.onnx --input p.avif
	head -c 300 p.avif >"$BATS_TEST_TMPDIR/cut.avif"
	refuses E-INPUT-FORMAT "this AVIF cannot be decoded (libheif" pixels.onnx --input "$BATS_TEST_TMPDIR/cut.avif"
}
