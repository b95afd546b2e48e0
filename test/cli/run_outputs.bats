#!/usr/bin/env bats
# infer run: files, values, best classes, text, the summary, JSON.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
	out=$BATS_TEST_TMPDIR/out
}

@test "Every output format can be read back as an input" {
	for f in npy pb json bin; do
		"$INFER" run pic.onnx --input rgb.png -q -o "$out" --save-format $f
		file=$(ls "$out"/*."$f")
		"$INFER" run pic.onnx --input images="$file" -q -o "$out/again" --save-format bin
		cmp "$out/again/y.bin" rgb.f32
	done
	[ -e "$out/output_0.pb" ]
	"$INFER" run two.onnx --data-set set -q -o "$out" --save-format npz
	cp "$out/outputs.npz" "$out/in.npz"
	run -4 "$INFER" run two.onnx --input "$out/in.npz"
	[[ $output = *"no input 'sum'"* ]]
}

@test "An archive in which a name would be there twice, or is longer than archives allow, is refused" {
	cat >"$BATS_TEST_TMPDIR/twice.onnxtxt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]>
		g (float[2] x) => (seq(float) a, float[2] "a.0") {
			a = SplitToSequence (x)
			"a.0" = Relu (x)
		}
	END
	run -10 "$INFER" run "$BATS_TEST_TMPDIR/twice.onnxtxt" --random -q -o "$out" --save-format npz
	[[ $output = "error[E-OUTPUT]: an .npz file cannot name an array 'a.0' twice"* ]]
	[ ! -e "$out/outputs.npz" ]
	long=$(printf '%065533d' 0 | tr 0 n)
	printf '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] %s) { %s = Relu (x) }' "$long" "$long" \
		>"$BATS_TEST_TMPDIR/long.onnxtxt"
	run -10 "$INFER" run "$BATS_TEST_TMPDIR/long.onnxtxt" --random -q -o "$out" --save-format npz
	[[ $output = "error[E-OUTPUT]: an .npz file cannot name an array 'nnn"* ]]
	[ ! -e "$out/outputs.npz" ]
}

@test "Complex numbers keep their imaginary part in text" {
	base64 -d >"$BATS_TEST_TMPDIR/complex.onnx" <<<'CAg6NwoQCgF4EgF5IghJZGVudGl0eRIBZ1oPCgF4EgoKCAgOEgQKAggCYg8KAXkSCgoICA4SBAoCCAJCBAoAEBE='
	echo '[[1, 2], [3, -4]]' >"$BATS_TEST_TMPDIR/in.json"
	echo '1 2 3 -4' >"$BATS_TEST_TMPDIR/in.txt"
	"$INFER" run "$BATS_TEST_TMPDIR/complex.onnx" --input "$BATS_TEST_TMPDIR/in.json" -q -o "$out" --save-format json
	for f in in.json in.txt out/y.json; do
		run -0 "$INFER" run "$BATS_TEST_TMPDIR/complex.onnx" --input "$BATS_TEST_TMPDIR/$f" -q --print
		[ "$output" = $'y c64 [2]\n1+2i 3-4i' ]
	done
	echo '1 2 3' >"$BATS_TEST_TMPDIR/in.txt"
	run -4 "$INFER" run "$BATS_TEST_TMPDIR/complex.onnx" --input "$BATS_TEST_TMPDIR/in.txt"
	[[ $output = *"no imaginary part"* ]]
}

@test "The png format reproduces a picture" {
	"$INFER" run bytes.onnx --input rgb.png -q -o "$out" --save-format png
	"$INFER" run bytes.onnx --input "$out/y.png" -q -o "$out" --save-format bin
	cmp "$out/y.bin" hwc.u8.bin
	run -10 "$INFER" run batch.onnx --random 0..1 --dim batch=2 -q -o "$out" --save-format png
	[[ $output = *"E-OUTPUT"*"no picture"* ]]
}

@test "Strings and types unknown to numpy are saved" {
	"$INFER" run words.onnx --input words.txt -q -o "$out"
	run -0 --separate-stderr "$INFER" run words.onnx --input "$out/y.npy" --print
	[ "$output" = $'y string [4]\n"plain" "two words" "" "ümläut"' ]
	run -0 "$INFER" run many.onnx --random 1..1 -o "$out"
	[[ $output = *"numpy has no type bf16: 'y' is written as f32"* ]]
	run -10 "$INFER" run words.onnx --input words.txt -o "$out" --save-format bin
	[[ $output = *"E-OUTPUT"*"strings"* ]]
}

@test "Maps (ZipMap) are saved in one file, which --expect and --input read" {
	mkdir "$out" && cd "$out"
	cat >zip.txt <<-'END'
		<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
		g (float[2,3] x) => (seq(map(int64, float)) classes, seq(map(string, float)) names) {
		  classes = ai.onnx.ml.ZipMap <classlabels_int64s = [-1, 5, 9007199254740993]> (x)
		  names = ai.onnx.ml.ZipMap <classlabels_strings = ["a\"b", "ü", ""]> (x)
		}
	END
	"$INFER" convert zip.txt zip.onnx
	echo '[[0.1, 16777215, 3e-10], [0.33333334, -0.25, 1e38]]' >x.json
	for f in npy bin json; do
		"$INFER" run zip.onnx --input x.json -q -o $f --save-format $f
		[ "$(ls $f)" = $'classes.json\nnames.json' ]
		[ "$(<$f/classes.json)" = '[
  {"-1": 0.1, "5": 16777215, "9007199254740993": 3e-10},
  {"-1": 0.33333334, "5": -0.25, "9007199254740993": 1e+38}
]' ]
		[ "$(<$f/names.json)" = '[
  {"a\"b": 0.1, "ü": 16777215, "": 3e-10},
  {"a\"b": 0.33333334, "ü": -0.25, "": 1e+38}
]' ]
	done
	"$INFER" check zip.onnx --input x.json --expect classes=npy/classes.json --expect names=npy/names.json \
		--rtol 0 --atol 0
	"$INFER" run zip.onnx --input x.json -q -o pb --save-format pb
	"$INFER" check zip.onnx --input x.json --expect classes=pb/output_0.pb --rtol 0 --atol 0
	sed s/-0.25/-0.26/ npy/names.json >wrong.json
	run -5 "$INFER" check zip.onnx --input x.json --expect names=wrong.json
	[[ $output = *"E-COMPARE"*"'names' seq(map(string,f32)) of 2: differs from wrong.json"*"1 of 12 elements"* ]]
	[[ $output = *"worst    element [1]['ü']: expected -0.2"*"first    element [1]['ü']: "* ]]
	sed s/16777215/1677721/ npy/classes.json >wrong.json
	run -5 "$INFER" check zip.onnx --input x.json --expect classes=wrong.json
	[[ $output = *"worst    element [0][5]: expected 1677721, got 16777215"* ]]
	sed s/ü/u/ npy/names.json >wrong.json
	run -5 "$INFER" check zip.onnx --input x.json --expect names=wrong.json
	[[ $output = *"first    element [0] key 1: expected 'u', got 'ü'"* ]]
	run -0 "$INFER" inspect npy/names.json
	[[ $output = *"names.json  f64 [2,3]"*"2 maps with the keys 'a\"b', 'ü', ''"* ]]

	"$INFER" run zip.onnx --input '[["NaN", "Infinity", "-Infinity"], [0, 0, 0]]' -q -o odd
	run -0 "$INFER" inspect odd
	[[ $output = *"classes.json  f64 "* && $output != *"left out"* ]]
	[ "$(sed -n 2p odd/classes.json)" = '  {"-1": "NaN", "5": "Infinity", "9007199254740993": "-Infinity"},' ]

	while IFS='|' read -r text message; do
		echo "$text" >wrong.json
		run "$INFER" check zip.onnx --input x.json --expect classes=wrong.json
		[ "$status" -ne 0 ]
		[[ $output = *"$message"* ]] || { echo "$text: $output"; return 1; }
	done <<-'END'
		[{"1": 1},|line 2, at the end: a map is a JSON object
		{"1": 1}|a sequence of maps is an array of JSON objects
		[{"1": "a"}]|a string stands here, and the model takes numbers
		[{"1": [2]}]|this is no number
		[{"one": 2}]|this is no integer
		[{"9223372036854775808": 2}]|out of the type's range
		[{"1": 2] |a comma or a closing brace is missing here
		[{"1": 2} {}]|a comma or a closing bracket is missing here
		[{"1": 2}] x|something stands behind the end
		[{}]|has another type or shape
	END

	cat >cast.txt <<-'END'
		<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
		g (map(int64, float) m) => (float[1,n] y, map(int64, float) m) { y = ai.onnx.ml.CastMap (m) }
	END
	"$INFER" convert cast.txt cast.onnx
	echo '{"3": 1.5, "1": 2}' >m.json
	"$INFER" run cast.onnx --input m.json -q -o cast
	cmp m.json cast/m.json
	"$INFER" check cast.onnx --input m.json --expect m=cast/m.json --rtol 0 --atol 0
	run -0 --separate-stderr "$INFER" run cast.onnx --input m=- --output y -q --print <cast/m.json
	[ "$output" = $'y f32 [1,2]\n2 1.5' ]

	# a case whose last output is a map is known to be done
	printf '%s\n' x.json x.json >list
	run -0 "$INFER" run zip.onnx --input @list -o many
	run -0 "$INFER" run zip.onnx --input @list -o many --resume
	[[ $output = *"skipped  2 inputs, done before"* ]]
}

@test "A folder that cannot be written is refused before anything runs" {
	run -10 --separate-stderr "$INFER" run nofile.onnx -o words.txt/x
	[[ $stderr = "error[E-OUTPUT]: "*"words.txt/x"* ]]
	run -10 --separate-stderr "$INFER" run pic.onnx --input rgb.png -o /proc/nowhere
	[[ $stderr = "error[E-OUTPUT]: /proc/nowhere"* ]]
}

@test "A full disk leaves no partial file" {
	mkdir "$out"
	ln -s /dev/full "$out/y.npy"
	run -10 --separate-stderr "$INFER" run pic.onnx --input rgb.png -o "$out"
	[[ $stderr = *"E-OUTPUT"*"No space left"* ]]
	run -10 bash -c "'$INFER' run two.onnx --data-set set --print 2>&1 >/dev/full"
	[[ $output = *"E-OUTPUT"*"No space left"* ]]
	rm "$out/y.npy"
	run bash -c "ulimit -f 1; trap '' XFSZ; '$INFER' run pic.onnx --input rgb.png -o '$out' 2>&1"
	[ "$status" = 10 ]
	[[ $output = *"E-OUTPUT"* ]]
	run -10 bash -c "ulimit -f 1; '$INFER' run pic.onnx --input rgb.png -o '$out' 2>&1"
	[ -z "$(ls -A "$out")" ]
}

@test "A reader that closes the pipe ends the program without a message" {
	local line
	# inspect --ops and the 64 rows are more than the stream's buffer holds: an earlier write has failed, not the last one
	for line in "inspect --ops" "inspect two.onnx --nodes" "inspect two.onnx --json" "--help" "run --help" "convert two.onnx --form text -o -" \
		"run batch.onnx --random --dim batch=64 --print 0 -q" "run pic.onnx --input rgb.png --jsonl - -q" \
		"profile two.onnx -n 3 --data-set set --trace -"; do
		run -141 --separate-stderr bash -c "(sleep 0.3; exec '$INFER' $line) | true; exit \${PIPESTATUS[0]}"
		[[ $stderr != *E-OUTPUT* && $stderr != *"Broken pipe"* ]] || { echo "$line: $stderr"; return 1; }
	done
	# an error keeps its status and its message
	run -2 --separate-stderr bash -c "(sleep 0.3; exec '$INFER' run two.onnx --nosuch --json) | true; exit \${PIPESTATUS[0]}"
}

@test "--print N stops after N values of each output" {
	run -0 --separate-stderr "$INFER" run two.onnx --data-set set --print=3
	[ "$output" = $'sum f32 [2,4]\n1 2 3\n... 3 of 8 values\ndiff f32 [2,4]\n-1 0 1\n... 3 of 8 values' ]
	run -0 --separate-stderr "$INFER" run nan.onnx --input nan.npy --print=0
	[ "$output" = $'y f32 [4]\n1 nan inf 3' ]
}

@test "--top ranks the values of the last axis with labels, NaN last" {
	run -0 --separate-stderr "$INFER" run classes.onnx --input classes.npy --top 3 --labels classes.txt
	[ "$(awk '{print $1, $2, $3}' <<<"$output")" = $'y [0] \n1 0.7 dog\n2 0.15 bird\n0 0.1 cat\ny [1] \n3 6 fish\n0 5 cat\n2 5 bird' ]
	run -4 --separate-stderr "$INFER" run classes.onnx --input classes.npy --top 3 --labels labels3.txt
	[[ $stderr = *"E-LABELS"*"expected 4 labels, got 3"* ]]
	[[ $stderr = *"hint: a model that reads text has classes for a blank and a space"*"--decode ctc"* ]]
}

@test "--decode ctc merges repeats and drops blanks, with and without labels for blank and space" {
	decode() { "$INFER" run ctc.onnx --decode "$@" 2>/dev/null; }
	[ "$(decode ctc --input ctc.npy --labels meta:character)" = "hello h" ]
	[ "$(decode ctc --input ctc.npy --labels labels4.txt)" = "hello h" ]
	[ "$(decode ctc --input ctc.npy --labels labels5.txt)" = "hello!h" ]
	[ "$(decode ctc --input ctc.npy --labels labels6.txt)" = "hello!h" ]
	[ "$(decode ctc:blank=5 --input ctc_last.npy --labels labels5.txt)" = "hello!h" ]
	[ "$(decode ctc --input ctc.npy)" = "1 2 3 3 4 5 1" ]
	for n in 3 7; do
		run -4 "$INFER" run ctc.onnx --input ctc.npy --decode ctc --labels labels$n.txt
		[[ $output = *"E-LABELS"*"$n labels"* ]]
	done
	run -4 "$INFER" run ctc.onnx --input ctc.npy --decode ctc --labels meta:characters
	[[ $output = *"did you mean 'meta:character'"* ]]
	run -2 "$INFER" run ctc.onnx --input ctc.npy --decode beam
	run -4 "$INFER" run ctc.onnx --input ctc.npy --decode ctc:blank=6
}

@test "The summary on stderr shows model, device, inputs, outputs, times and memory" {
	run -0 --separate-stderr "$INFER" run nan.onnx --input nan.npy
	[ -z "$output" ]
	for word in model device input output times memory; do [[ $'\n'$stderr = *$'\n'"$word "* ]]; done
	[[ $stderr = *"y f32 [4], 16 bytes; min 1, max 3, mean 2, 1 NaN, 1 infinite"* ]]
	run -0 --separate-stderr "$INFER" run nan.onnx --input nan.npy -q
	[ -z "$stderr" ]
}

@test "--json prints one document with the same content" {
	run -0 --separate-stderr "$INFER" run ctc.onnx --input ctc.npy --decode ctc --top 2 --print=2 \
		--labels labels6.txt --json
	[ -z "$stderr" ]
	for key in schema command ok exit_code env model device inputs times memory outputs findings values top text; do
		[[ $output = *"\"$key\": "* ]] || { echo "no $key"; return 1; }
	done
	[[ $output = *'"schema": "infer/1"'* ]]
	[[ $output = *'"hello!h"'* ]]
}

@test "Output names become valid file names" {
	"$INFER" run two.onnx --data-set set -q -o "$out"
	[ "$(ls "$out")" = $'diff.npy\nsum.npy' ]
}

@test "Options without effect cause a warning" {
	run -0 --separate-stderr "$INFER" run batch.onnx --random 0..1 --dim batch=1 --save-format npz --labels labels3.txt
	[[ $stderr = *"warning[W-OPTION]: --save-format: no file is written without -o"* ]]
	[[ $stderr = *"warning[W-OPTION]: --labels: labels are used only with --top or --decode"* ]]
}

@test "The summary counts the nodes in the file and the nodes that run" {
	run -0 --separate-stderr "$INFER" run work.onnx --random 0..1
	[[ $stderr =~ "model   work.onnx: IR "[0-9]+", opset "[0-9]+", "([0-9]+)" nodes ("([0-9]+)" when optimized)" ]]
	[ "${BASH_REMATCH[1]}" -gt "${BASH_REMATCH[2]}" ]
	nodes=${BASH_REMATCH[1]}
	run -0 "$INFER" inspect work.onnx
	[[ $output =~ "operators   "([0-9]+)" nodes ("([0-9]+)" in bodies)" ]]
	[ $((BASH_REMATCH[1] - BASH_REMATCH[2])) -eq "$nodes" ]
}

@test "--output computes only what it names, in that order" {
	run -0 --separate-stderr "$INFER" run two.onnx --data-set set --output diff --print 1 -q
	[[ $output = "diff f32 "* ]]
	[[ $output != *sum* ]]
	run -0 --separate-stderr "$INFER" run two.onnx --data-set set --output diff,sum -o "$out" --print 1 -q
	[ "$(grep -o '^[a-z]* f32' <<<"$output" | paste -sd ' ')" = "diff f32 sum f32" ]
	"$INFER" run two.onnx --data-set set -q -o "$out/all"
	cmp "$out/diff.npy" "$out/all/diff.npy"
	cmp "$out/sum.npy" "$out/all/sum.npy"
}

@test "--output reaches tensors that the optimizer would fuse away" {
	# in the optimized graph tanh is a part of the first product: m0 is not there
	run -0 "$INFER" run work.onnx --random 0..1 --dim n=1 --output m0 --output t0 --print 1 -q
	awk '/^m0/ {getline m} /^t0/ {getline t} END {
		e = exp(2 * m); d = t - (e - 1) / (e + 1); exit !(m != 0 && d < 1e-6 && d > -1e-6)}' <<<"$output"
	"$INFER" run work.onnx --random 0..1 --dim n=1 --output '*0' -q -o "$out"
	[ "$(ls "$out")" = $'m0.npy\nt0.npy' ]
	"$INFER" run work.onnx --random 0..1 --dim n=1 --output '*' -q -o "$out/own"
	[ "$(ls "$out/own")" = y.npy ]
}

@test "--output leaves out inputs that nothing needs, and keeps the places of the others" {
	printf '[[1, 2]]' >"$BATS_TEST_TMPDIR/ids.json"
	run -0 "$INFER" run ids.onnx --input "$BATS_TEST_TMPDIR/ids.json" --output e --print 0 -q
	[[ $output = "e f32 [1,2,2]"* ]]
	run -4 "$INFER" run ids.onnx --input "$BATS_TEST_TMPDIR/ids.json"
	mkdir "$out"
	"$INFER" run ids.onnx --random 1..1 --dim batch=1 --dim seq=3 \
		--output attention_mask -o "$out" -q
	mv "$out/attention_mask.npy" "$out/input_1.npy"
	run -0 "$INFER" run ids.onnx --data-set "$out" --output m3 --print 0 -q
	[[ $output = "m3 f32 [1,3,1]"$'\n'1* ]]
}

@test "--output refuses names that the model lacks" {
	run -2 "$INFER" run two.onnx --data-set set --output dif
	[[ $output = *"error[E-OPTION]: two.onnx: --output dif: the model has no output, tensor or node of this name"* ]]
	[[ $output = *"did you mean 'diff'? its outputs are 'sum', 'diff'"* ]]
	run -2 "$INFER" run two.onnx --data-set set --output 'x*'
	[[ $output = *"--output x*: no output and no tensor of the model matches"* ]]
	run -2 "$INFER" profile two.onnx --random 0..1 -n 1 --output sum,
	[[ $output = *"E-OPTION"* ]]
}

@test "--output works in profile and check" {
	run -0 "$INFER" profile work.onnx --random 0..1 -n 1 --nodes --output m0
	[[ $output = *first* ]]
	[[ $output != *second* ]]
	run -0 "$INFER" check work.onnx --random 0..1 --all --output m0
	[[ $output = *"0 errors, 0 warnings"* ]]
	printf '[[1, 1, 1]]' >"$BATS_TEST_TMPDIR/m.json"
	run -0 "$INFER" check ids.onnx --random 1..1 --dim batch=1 --dim seq=3 --output m --expect m="$BATS_TEST_TMPDIR/m.json"
	[[ $output = *"1 output within"* ]]
}
