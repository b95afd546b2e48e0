#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What made somebody stumble who knew nothing but --help and the manual. The models come from test/check/make.c.

load helper

setup_file() {
	make_models <<-'END'
		case batch
		input x f32 batch,4
		output y f32 batch,4
		node Relu r x -> y

		case rows
		input x f32 rows
		output y f32 rows
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
	[[ $stderr == *"--batch: the first dimension of input 'x' is fixed by --shape"* ]]
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
	run -0 --separate-stderr "$INFER" profile "$S/rows/model.onnx" "$S/lookup/model.onnx" -n 20
	[[ $stderr == *"warning[W-DIM-DEFAULT]: $S/rows/model.onnx: nothing binds the free dimension 'rows'"* ]]
	[[ $stderr == *"warning[W-DIM-DEFAULT]: $S/lookup/model.onnx: nothing binds the free dimension 'n'"* ]]
	run -0 --separate-stderr "$INFER" profile "$S/rows/model.onnx" -n 20
	[[ $stderr == *"warning[W-DIM-DEFAULT]: nothing binds"* ]]
}

@test "Why a library is missing is told in a line; doctor -v lists the places" {
	mkdir -p "$BATS_TEST_TMPDIR/a/bin" "$BATS_TEST_TMPDIR/none" "$BATS_TEST_TMPDIR/bad"
	cp "$INFER" "$BATS_TEST_TMPDIR/a/bin/infer"
	printf 'no library' >"$BATS_TEST_TMPDIR/bad/libsoxr.so.0"
	run -0 env INFER_LIBRARY_PATH="$BATS_TEST_TMPDIR/none:$BATS_TEST_TMPDIR/bad" "$BATS_TEST_TMPDIR/a/bin/infer" doctor
	# the folders that the user named, and what is there but is no library, stay
	line=$(grep -A1 '^soxr' <<<"$output" | tail -1)
	[[ $(grep '^soxr' <<<"$output") == *"of the system"* || $line == *"$BATS_TEST_TMPDIR/bad/libsoxr.so.0: "*"too short"* ]]
	[[ $output != *"a/bin/../lib/libdnnl"* ]]
	if [[ $output == *"oneDNN       missing"* ]]; then
		[[ $(grep -A1 '^oneDNN' <<<"$output" | tail -1) =~ ^\ *$BATS_TEST_TMPDIR/none/libdnnl[^\;]*:\ not\ there\;.*no\ such\ file\ in\ [0-9]+\ other\ places$ ]]
		[[ $output == *"(infer doctor -v lists"* ]]
		run -0 "$BATS_TEST_TMPDIR/a/bin/infer" doctor -v
		[[ $output == *"a/bin/../lib/libdnnl.so.3: not there"* && $output != *"(infer doctor -v lists"* ]]
	fi
	run -0 "$BATS_TEST_TMPDIR/a/bin/infer" doctor --json
	[[ $output != *'"why": "no such file in'* ]]
}

@test "That ONNX Runtime is missing is one short message" {
	mkdir -p "$BATS_TEST_TMPDIR/a/bin"
	cp "$INFER" "$BATS_TEST_TMPDIR/a/bin/infer"
	run env -u VIRTUAL_ENV HOME="$BATS_TEST_TMPDIR" PATH=/nonexistent "$BATS_TEST_TMPDIR/a/bin/infer" check "$S/tanh/model.onnx" --compare onnxruntime
	[ "$status" -eq 8 ] || skip "ONNX Runtime is installed for all users"
	[[ $output == *"(libonnxruntime.so) cannot be opened: expected ONNX Runtime 1.11 or newer, got no such file in "*"places"* ]]
	[[ $output == *"pip install onnxruntime"* ]]
}

@test "inspect shows one JSON file of run -o: a tensor, maps, an array" {
	run -0 "$INFER" run "$S/tanh/model.onnx" "$S/tanh/x.npy" -q -o "$out/o" --save-format json
	run -0 "$INFER" inspect "$out/o/y.json"
	[[ ${lines[0]} == "y.json  f32 [1,6]  6 elements, 24 B" && ${lines[1]} == "  min -20, max 40, "* ]]
	run -0 "$INFER" inspect "$out/o/y.json" --json
	[[ $output == *'"tensors": ['*'"type": "f32"'* ]]
	echo '[{"cat": 0.25, "dog": 0.75}, {"cat": 1, "dog": 0}]' >"$out/o/maps.json"
	run -0 "$INFER" inspect "$out/o/maps.json"
	[[ ${lines[0]} == "maps.json  f64 [2,2]  4 elements, 32 B, 2 maps with the keys 'cat', 'dog'" && ${lines[1]} == "  min 0, max 1, mean 0.5, "* ]]
	run -0 "$INFER" inspect "$out/o"
	[[ $output == *"maps.json  f64 "* && $output == *"y.json "* && $output != *"left out"* ]]
	echo '[[1, 2, 3]]' >"$out/ids.json"
	run -0 "$INFER" inspect "$out/ids.json"
	[[ ${lines[0]} == "ids.json  i64 [1,3]  3 elements, 24 B" ]]
	# a report stays one, and what is neither is an error
	"$INFER" check "$S/tanh/model.onnx" "$S/tanh/x.npy" --json >"$out/report.json"
	run -0 "$INFER" inspect "$out/report.json"
	[[ $output == "report "* ]]
	echo '{"a": {"b": 1}}' >"$out/other.json"
	fails_with 4 "is neither a report of infer nor a tensor" inspect "$out/other.json"
	"$INFER" convert "$S/tanh/model.onnx" "$out/model.json"
	run -0 "$INFER" inspect "$out/model.json"
	[[ $output == "model "* ]]
}

@test "Folders and misspelt names in place of a model" {
	mkdir "$out/one" "$out/two" "$out/none"
	cp "$S/tanh/model.onnx" "$out/one/net.onnx"
	cp "$S/tanh/model.onnx" "$out/two/b.onnx"
	cp "$S/tanh/model.onnx" "$out/two/a.onnx"
	for command in run profile check; do
		run -3 "$INFER" $command "$out/one"
		[[ $output == *"hint: the folder has one model: $out/one/net.onnx"* ]]
		run -3 "$INFER" $command "$out/two"
		[[ $output == *"hint: name one of the folder's models, such as $out/two/a.onnx"* ]]
		run -3 "$INFER" $command "$out/none"
		[[ $output == *"hint: the folder has no .onnx file"* ]]
		run -3 "$INFER" $command "$out/one/nets.onnx"
		[[ $output == *"hint: did you mean $out/one/net.onnx?"* ]]
		run -3 "$INFER" $command "$out/nowhere/nets.onnx"
		[[ $output == *"hint: there is no folder $out/nowhere/"* ]]
	done
	cd "$out/one"
	run -3 "$INFER" run nett.onnx
	[[ $output == *"hint: did you mean net.onnx?"* ]]
}

@test "Files of other kinds in place of a model are called by their name" {
	kind() { # HINT BYTES
		# shellcheck disable=SC2059
		printf "$2" >"$out/file"
		fails_with 3 "$1" inspect "$out/file"
	}
	kind "this is a sound" 'RIFF\x10\x00\x00\x00WAVEfmt '
	kind "this is a sound" 'OggS\x00\x02'
	kind "this is a picture" 'RIFF\x10\x00\x00\x00WEBPVP8 '
	kind "Python pickle" '\x80\x04\x95\x0b'
	kind "safetensors" '\x40\x00\x00\x00\x00\x00\x00\x00{"w":{"dtype":"F32"'
	kind "TensorRT engine" 'ptrt\x00\x00\x00\x00'
	kind "unpack it first" '\xfd7zXZ\x00'
	kind "a program or a library" '\x7fELF\x02\x01'
	kind "a text file, and no model" 'cat.png,3\ndog.png,4\n'
	kind "a text file, and no model" 'hello\n'
	kind "SavedModel of TensorFlow" '\x08\x01\x12\x80\x01\x0a\x20\x22\x01\x00\x00\x00\x00\x00\x00\x00\x00'
	kind "perhaps a graph of TensorFlow" '\x0a\x08\x0a\x01x\x12\x03Add'
	# what is a model stays one, and a damaged one is not called text
	run -0 "$INFER" inspect "$S/tanh/model.onnx"
	head -c 60 "$S/tanh/model.onnx" >"$out/cut.onnx"
	fails_with 3 "E-MODEL-TRUNCATED" inspect "$out/cut.onnx"
}

@test "A reference of strings or large integers is told with its elements, not as numbers of nine digits" {
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]>
		g (string[2] x, int64[2] i) => (string[2] y, int64[2] j) {
		  y = Identity (x)
		  j = Identity (i)
		}
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	inputs=(--input 'x=["owl", "cat"]' --input 'i=[1234567890123, 5]')
	run -5 "$INFER" check "$out/m.onnx" "${inputs[@]}" --expect 'y=["owl", "dog"]'
	[[ $output == *"first   element [1]: expected 'dog', got 'cat'"* && $output != *"max diff"* && $output != *nan* ]]
	run -5 "$INFER" check "$out/m.onnx" "${inputs[@]}" --expect 'j=[1234567890124, 5]' --rtol 0 --atol 0
	[[ $output == *"worst    element [0]: expected 1234567890124, got 1234567890123, difference 1 "* ]]
}

@test "--output takes the name of a node for its outputs" {
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]>
		g (float[1,4] x) => (float[1,4] y) {
		  [first] a = Relu (x)
		  [parts] b, c = Split <axis = 1> (a)
		  [last] y = Concat <axis = 1> (c, b)
		}
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --random 1..1 --output parts,first --print 4 -q
	[[ ${lines[0]} == "b f32 [1,2]" && ${lines[2]} == "c f32 [1,2]" && ${lines[4]} == "a f32 [1,4]" ]]
	run -2 "$INFER" run "$out/m.onnx" --random 1..1 --output part
	[[ $output == *"the model has no output, tensor or node of this name"* ]]
	# a tensor comes before a node of the same name
	sed -i 's/\[first\]/[y]/' "$out/m.txt"
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --random 1..1 --output y --print 4 -q
	[[ ${lines[0]} == "y f32 [1,4]" ]]
}

@test "A run that prints numbers of classes says that the model has their names" {
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17], metadata_props: ["names" : "{0: 'cat', 1: 'dog', 2: 'owl'}", "author" : "x"]>
		g (float[1,3] x) => (float[1,3] y) {
		  y = Identity (x)
		}
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --input '[[1,3,2]]' --top 1
	[[ $stderr == *"note[N-LABELS]: the model's metadata hold the names of the classes under 'names'"*"--labels meta:names"* ]]
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --input '[[1,3,2]]' --top 1 --labels meta:names
	[[ $stderr != *N-LABELS* && $output == *dog* ]]
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --input '[[1,3,2]]' --print 1
	[[ $stderr != *N-LABELS* ]]
}

@test "Common words for dimensions are answered with the model's names" {
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]>
		g (float[p2o_0,3,h0,w0] x) => (float[p2o_0,3,h0,w0] y) { y = Relu (x) }
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	fails_with 4 "for axis 0 of input 'x' write p2o_0; free are: 'p2o_0', 'h0' and 'w0'" run "$out/m.onnx" --random --dim batch=4
	fails_with 4 "for axis 0 of input 'x' write p2o_0" profile "$out/m.onnx" --shapes-sweep batch=1..4 -n 5
	fails_with 4 "for axis 3 of input 'x' write w0" run "$out/m.onnx" --random --dim Width=4
	fails_with 4 "axis 1 of input 'x' is fixed by the model: [p2o_0,3,h0,w0]" run "$out/m.onnx" --random --dim channels=4
	fails_with 4 "axis 0 of input 'images' is fixed by the model: [1,3,16,24]" run pic.onnx --random --dim batch=4
	run -4 --separate-stderr "$INFER" run "$out/m.onnx" --random --dim foo=4
	[[ $stderr == *"hint: free are: 'p2o_0'"* ]]
}

@test "What to try for one file of a folder holds for the folder" {
	mkdir "$out/pics"
	cp rgb.png "$out/pics"
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]>
		g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Relu (x) }
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	fails_with 4 "--input $out/pics,resize=8x8" run "$out/m.onnx" --input "$out/pics"
	run -0 "$INFER" run "$out/m.onnx" --input "$out/pics,resize=8x8" -q
	fails_with 4 "--input '$out/pics/*.png,resize=8x8'" run "$out/m.onnx" --input "$out/pics/*.png"
	fails_with 4 "--input $out/pics/rgb.png,resize=8x8" run "$out/m.onnx" --input "$out/pics/rgb.png"
}

@test "A scale that leaves pixels only 0 and 1, and a sound whose channels become the batch" {
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]>
		g (uint8[1,3,16,24] x) => (uint8[1,3,16,24] y) { y = Identity (x) }
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --input rgb.png,scale=1/255
	[[ $stderr == *"warning[W-INPUT-RANGE]: input 'x': scale=0.00392157 leaves its elements, which are of type u8, no values but 0 and 1"* ]]
	for keys in '' ,scale=1/2; do
		run -0 --separate-stderr "$INFER" run "$out/m.onnx" --input "rgb.png$keys"
		[[ $stderr != *W-INPUT-RANGE* ]]
	done
	run -0 --separate-stderr "$INFER" run pic.onnx --input rgb.png,scale=1/255
	[[ $stderr != *W-INPUT-RANGE* ]]

	sed -i 's/uint8\[1,3,16,24\]/float[batch,n]/g' "$out/m.txt"
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	# a WAV file of 16 bits, 8000 Hz and two channels, with four samples of each
	printf 'RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x40\x1f\0\0\x00\x7d\0\0\x04\0\x10\0data\x10\0\0\0' >"$out/two.wav"
	printf '\0\x10\0\x20\0\x30\0\x40\0\x10\0\x20\0\x30\0\x40' >>"$out/two.wav"
	run --separate-stderr "$INFER" run "$out/m.onnx" --input "$out/two.wav"
	[[ $status -eq 0 || $stderr != *libsndfile* ]] || skip "no libsndfile"
	[ "$status" -eq 0 ]
	[[ $stderr == *"note[N-INPUT-LAYOUT]: input 'x': the 2 channels of $out/two.wav are taken as its first axis, batch = 2"*"--input x=$out/two.wav,mono"* ]]
	run -0 --separate-stderr "$INFER" run "$out/m.onnx" --input "$out/two.wav,mono"
	[[ $stderr != *N-INPUT-LAYOUT* && $stderr == *"x f32 [1,4]"* ]]
}

@test "A baseline of another model names the files" {
	cp batch.onnx "$out/a.onnx"
	cp work.onnx "$out/b.onnx"
	"$INFER" profile "$out/a.onnx" -n 40 -q --save-baseline "$out/a.json" >/dev/null
	run -2 --separate-stderr "$INFER" profile "$out/b.onnx" -n 40 -q --baseline "$out/a.json"
	[[ $stderr == *"of another measurement: model: a.onnx then, b.onnx now"* ]]
	cp batch.onnx "$out/c.onnx"
	"$INFER" convert batch.onnx "$out/c.json" && sed 's/"name": "y"/"name": "z"/g; s/"output": \["y"\]/"output": ["z"]/' "$out/c.json" >"$out/d.json" && "$INFER" convert "$out/d.json" "$out/d.onnx"
	run -2 --separate-stderr "$INFER" profile "$out/d.onnx" -n 40 -q --baseline "$out/a.json"
	[[ $stderr == *"model: a.onnx then, d.onnx now"*"a file of the same name is compared as a new version"*"--force"* ]]
}

@test "Ranges of random values in other forms, and times with units that are written out" {
	fails_with 4 "write --random 0..1" run pic.onnx --random 0,1
	fails_with 4 "write --random -1..1" run pic.onnx --random '[-1,1]'
	fails_with 4 "write --random images=0..255" run pic.onnx --random images=0:255
	fails_with 4 "--random 5..5 fills in this number" run pic.onnx --random 5
	fails_with 4 "--random images=0..0 fills in zeros" run pic.onnx --random images=zeros
	fails_with 4 "uniform between two numbers" run pic.onnx --random normal
	run -4 --separate-stderr "$INFER" run pic.onnx --random nonsense
	[[ $stderr != *hint:* ]]
	run -0 "$INFER" run pic.onnx --random -q --timeout 300secs
	fails_with 2 "expected a time such as 200ms" run pic.onnx --random --timeout 300parsecs
}

@test "--top ranks the maps of a classifier of scikit-learn by their keys" {
	cat >"$out/m.txt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
		g (float[2,3] x) => (seq(map(string, float)) names, seq(map(int64, float)) numbers) {
		  names = ai.onnx.ml.ZipMap <classlabels_strings = ["cat", "dog", "owl"]> (x)
		  numbers = ai.onnx.ml.ZipMap <classlabels_int64s = [7, 8, 9]> (x)
		}
	END
	"$INFER" convert "$out/m.txt" "$out/m.onnx"
	run -0 "$INFER" run "$out/m.onnx" --input '[[0.25, 0.5, 0.125], [1, 0, 0.75]]' --top 2 -q
	[ "$output" = 'names [0]
       1  0.5            dog
       0  0.25           cat
names [1]
       0  1              cat
       2  0.75           owl
numbers [0]
       1  0.5            8
       0  0.25           7
numbers [1]
       0  1              7
       2  0.75           9' ]
	run -0 "$INFER" run "$out/m.onnx" --input '[[0.25, 0.5, 0.125], [1, 0, 0.75]]' --top 1 -q --json
	[[ $output == *'"label": "dog"'*'"label": "8"'* ]]
	printf 'a\nb\n' >"$out/two.txt"
	fails_with 4 "not as many as there are labels" run "$out/m.onnx" --random --top 1 --labels "$out/two.txt"
}

@test "Misspelt files of inputs and references, and names of outputs that are none" {
	cp rgb.png "$out/photo.png"
	cp pic.onnx "$out/m.onnx"
	cd "$out"
	fails_with 4 "did you mean photo.png?" run m.onnx --input phto.png
	fails_with 4 "did you mean $out/photo.png?" run m.onnx --input "$out/photo.jpg"
	fails_with 2 "there is no such file; did you mean photo.png?" run m.onnx photo.jpg
	fails_with 2 "there is no such file" run m.onnx elsewhere/photo.jpg
	[[ $stderr != *"did you mean"* ]]
	# a file that has the name of an input
	: >ids.npy
	fails_with 4 "write --input ids=ids.npy; " run "$S/lookup/model.onnx" --input ids.npy
	# references are spoken of as such
	cp "$S/tanh/x.npy" x.npy
	run -4 "$INFER" check "$S/tanh/model.onnx" x.npy --expect logits=x.npy
	[[ $output == *"--expect logits=x.npy names no output: expected NAME=FILE with a NAME of 'y'"* ]]
	run -4 "$INFER" check "$S/tanh/model.onnx" x.npy --expect nowhere/z.npy
	[[ $output == *"cannot open"*"--expect 'y=[[1,2,3]]'"* && $output != *"--input"* ]]
	run -0 "$INFER" check "$S/tanh/model.onnx" x.npy --expect y=x.npy
}

@test "profile and check take --batch, for random values" {
	run -0 --separate-stderr "$INFER" profile "$S/batch/model.onnx" --batch 3 -n 20
	[[ $output == *"inputs    x f32 [3,4], random values"* && $stderr != *W-DIM-DEFAULT* ]]
	run -0 "$INFER" profile "$S/lookup/model.onnx" --batch 2 -n 20
	[[ $output == *"ids i64 [2], dense f32 [2,3]"* ]]
	run -0 "$INFER" check "$S/batch/model.onnx" --batch 3
	[[ $output == *"1 output of 48 bytes"* && $output != *"were guessed"* ]]
	run -2 --separate-stderr "$INFER" profile "$S/fixed/model.onnx" --batch 3 -n 20
	[[ $stderr == *"--batch: the first dimension of input 'x' is fixed by the model"* ]]
	for command in profile check; do
		run -2 --separate-stderr "$INFER" $command "$S/fixed/model.onnx" "$S/fixed/x.npy" --batch 3
		[[ $stderr == *"--batch: infer $command takes one file for each input, and stacks none"* ]]
	done
	# a suite hands the options of a model on to both
	printf 'models:\n  - %s --batch 3\nprofile: -n 20\n' "$S/batch/model.onnx" >"$out/s.yaml"
	run -0 --separate-stderr "$INFER" suite "$out/s.yaml"
	[[ $output == *"1 model, 0 failed"* ]]
}

@test "What an option does nothing for is said: -o of check --all; each report has its own formats" {
	run --separate-stderr "$INFER" check batch.onnx --all -o "$BATS_TEST_TMPDIR/findings" --device cpu --timeout 60
	[[ $stderr$output == *"nothing is saved but what --bisect finds"*"-o FILE.txt"* ]]
	run -2 "$INFER" check batch.onnx --report findings.md
	[[ $output == *"--export FILE.json, FILE.html or FILE.xml"* && $output != *"FILE.md"* ]]
	run -0 "$INFER" run --help
	[[ $(tr -s ' \n' ' ' <<<"$output") == *"boxes of --decode yolo"* ]]
}

@test "Short forms: -o FILE of check, --html, --top and --sort of profile, A-B of a sweep, brackets of a shape" {
	run -0 "$INFER" check "$S/batch/model.onnx" -o "$out/f.txt"
	[[ $(tail -1 "$out/f.txt") == *"exit status 0"* && $output == *"note[N-DIM-DEFAULT]"* ]]
	grep -q 'N-DIM-DEFAULT' "$out/f.txt"
	run -0 "$INFER" check "$S/batch/model.onnx" -o "$out/f.json"
	[[ $(head -c 1 "$out/f.json") == "{" ]]
	run -0 "$INFER" profile "$S/batch/model.onnx" --shapes-sweep batch=1-2 -n 5 --html "$out/p.html" -q
	[[ $output == *"batch=1 "*"batch=2 "* && -s $out/p.html ]]
	run -0 "$INFER" profile "$S/batch/model.onnx" --batch 2 -n 5 --top 3 -q
	[[ $output == *"operator"*"Relu"* ]]
	run -0 "$INFER" run "$S/batch/model.onnx" --random --shape 'x=[3,4]'
	[[ $output == *"x f32 [3,4]"* ]]
}

@test "The first message has what to write: keys, models, values behind options" {
	cp rgb.png "$out/p.png"
	fails_with 2 "--input $out/p.png,resize=24x16,scale=1/255" run pic.onnx "$out/p.png" --resize 24x16 --scale 1/255
	fails_with 4 "unknown input key 'crop'" run pic.onnx rgb.png,resize=24x16,crop=2
	fails_with 4 "write resize=24x24" run pic.onnx rgb.png,resize=24
	fails_with 4 "scale=1/255,mean=0.485/0.456/0.406,std=0.229/0.224/0.225" run pic.onnx rgb.png,mean=imagenet
	fails_with 4 "scale=1/255,mean=0.485/0.456/0.406,std=0.229/0.224/0.225" run pic.onnx rgb.png,imagenet
	fails_with 4 "--random in place of --input" run pic.onnx --input random
	fails_with 4 "write --random x=0..1" run "$S/batch/model.onnx" --random x
	fails_with 4 "its input is 'x': --input x=" run "$S/fixed/model.onnx" --input y="$S/fixed/x.npy"
	fails_with 2 "write --dim batch=4" run "$S/batch/model.onnx" --random --dim batch 4
	fails_with 2 "write --output y --print" run "$S/batch/model.onnx" --random --print y
	fails_with 2 "write --nodes --top 3" profile pic.onnx --nodes 3
	fails_with 2 "infer profile pic.onnx --shapes-sweep batch=1..8" profile pic.onnx --batch 1..8
	fails_with 4 "--shapes-sweep batch=1-8" profile "$S/batch/model.onnx" --dim batch=1-8
	fails_with 2 "infer check pic.onnx --nan" run pic.onnx --nan
	fails_with 2 "infer suite pic.onnx batch.onnx work.onnx" check pic.onnx batch.onnx work.onnx
	fails_with 2 "infer profile pic.onnx batch.onnx" profile pic.onnx vs batch.onnx
	fails_with 2 "infer profile batch.onnx pic.onnx compares two models" profile pic.onnx --baseline batch.onnx
	fails_with 2 "infer doctor" gpu
	fails_with 2 "infer inspect pic.onnx --nodes" nodes pic.onnx
	fails_with 2 "~/.config/infer/config.yaml" defaults
	fails_with 2 "write it behind the subcommand: infer run MODEL --threads" --threads 2 run other.onnx
	fails_with 2 "--expect $S/fixed/x.npy" diff "$S/fixed/x.npy" "$S/fixed/x.npy"
	fails_with 4 "another file, with the type and shape that the model expects" run "$S/fixed/model.onnx" rgb.png
}
