#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What newcomers noted although their tasks succeeded. The models come from test/check/make.c.

load helper

setup_file() {
	make_models <<-'END'
		case two
		input a f32 n,3
		input b f32 n,3
		output p f32 n,3
		output q f32 n,3
		node Relu one a -> p
		node Relu two b -> q

		case words
		input ids i64 batch,words
		output y i64 batch,words
		node Identity same ids -> y

		case pyramid
		input x f32 1,3,h,w
		output y f32 1,3,h,w
		init s f32 4 1 1 32 32
		node MaxPool down x -> p kernel_shape=[32,32] strides=[32,32]
		node Resize up p,_,s -> u mode="nearest"
		node Add sum x,u -> y
		npy x.npy f32 1,3,48,48 rand 1

		case scores
		input x f32 batch,4
		output y f32 batch,4
		node Relu r x -> y

		npy x.npy f32 1,4 1 2 3 400
		npy off.npy f32 1,4 1 2 3.0005 400.3
	END
}

setup() {
	in_test_data
	S=$BATS_FILE_TMPDIR/cases
}

@test "An input that the outputs of --output do not need is told as that" {
	for word in --input=b="$S/scores/x.npy" --shape=b=1x3 --random=b=0..1; do
		run -4 --separate-stderr "$INFER" run "$S/two/model.onnx" --output p --random a=0..1 "$word"
		[[ $stderr == *"none of the outputs of --output needs input 'b'"*"hint: leave it out, or name an output that needs it"* ]]
	done
	fails_with 4 "the model has no input 'zz'" run "$S/two/model.onnx" --output p --random zz=0..1
}

@test "The second --by-step for an output, and a --slice too large, are told" {
	fails_with 4 "--by-step p=last: --by-step p=stack has said what becomes of it" \
		run "$S/two/model.onnx" --random --slice a=1 --by-step p=stack --by-step p=last
	fails_with 4 "it does not say what becomes of the steps' outputs" \
		run "$S/two/model.onnx" --random --slice a=1 --by-step p= --by-step q=
	fails_with 4 "this number of elements is too large" \
		run "$S/two/model.onnx" --random --slice a=99999999999999999999999
}

@test "A batch of one needs no warning, any other size that nobody gave does" {
	run -0 --separate-stderr "$INFER" run "$S/scores/model.onnx" --random
	[[ $stderr == *"[1,4]"* && $stderr != *W-DIM-DEFAULT* ]]
	run -0 --separate-stderr "$INFER" run "$S/words/model.onnx" --random
	[[ $stderr == *"W-DIM-DEFAULT]: nothing binds the free dimension 'words'"* && $stderr != *"dimension 'batch'"* ]]
	fails_with 4 "nothing binds the free dimension 'batch'" run "$S/scores/model.onnx" --random --strict
}

@test "--atol alone allows no relative difference, and the line of the result says so" {
	m=("$INFER" check "$S/scores/model.onnx" "$S/scores/x.npy" --expect "$S/scores/off.npy")
	run -5 "${m[@]}" --atol 1e-3
	[[ $output == *"worst    element [0,3]"*"(allowed 0.001)"*"rtol 0 (as --atol is given alone), atol 0.001"* ]]
	run -0 "${m[@]}" --atol 1e-3 --rtol 1e-3
	[[ $output == *"within rtol 0.001, atol 0.001"* ]]
	run -0 "${m[@]}" --atol 0.5
	[[ $output == *"within rtol 0 (as --atol is given alone), atol 0.5"* ]]
	run -0 "${m[@]}"
	[[ $output == *"within rtol 0.001, atol 1e-07"* ]]
}

@test "The node is looked for by a second run, which is proposed once" {
	cp "$S/scores/off.npy" "$out/ref.npy"
	m=("$INFER" check "$S/scores/model.onnx" "$S/scores/x.npy" --expect "$out/ref.npy" --rtol 1e-4)
	run -5 "${m[@]}"
	[[ $output == *"try      --compare none, a second run without optimizations: if it differs from the first, the node is named"* ]]
	run -5 "${m[@]}" --compare none
	[[ $output == *"differs from"* && $output != *"--compare none"* ]]
}

@test "Only names that are similar without their extension are proposed" {
	cp work.onnx "$out/score.onnx"
	cd "$out"
	run -3 --separate-stderr "$INFER" run nope.onnx
	[[ $stderr == *"nope.onnx: cannot open"* && $stderr == *"hint: the model there is score.onnx" && $stderr != *"did you mean"* ]]
	fails_with 3 "did you mean score.onnx?" run scor.onnx
	fails_with 3 "did you mean score.onnx?" run scores.onnx
}

@test "Labels, a folder and a pipe where something else is wanted" {
	printf 'cat\ndog\n' >"$out/labels.txt"
	fails_with 4 "write --labels $out/labels.txt" run "$S/scores/model.onnx" "$out/labels.txt"
	fails_with 4 "the model has no metadata: give the labels as a file" \
		run "$S/scores/model.onnx" "$S/scores/x.npy" --top 2 --labels meta
	fails_with 2 "infer suite *.onnx takes its models" suite .
	fails_with 2 "infer suite $S/*.onnx takes its models" suite "$S"
	# a model out of a shell's pipe is compared with like one of a name
	run -0 "$INFER" check "$S/scores/model.onnx" --compare <(cat "$S/scores/model.onnx")
	[[ $output == *"compare      ok"* ]]
}

@test "The members of JSON that the help names are there" {
	command -v jq >/dev/null || skip "no jq"
	for command in run inspect profile check; do
		words=$("$INFER" "$command" --help | grep -o "infer $command model.onnx.*--json.*| jq .*" | head -1)
		[ -n "$words" ] || { echo "no example of jq in infer $command --help"; return 1; }
		words=${words/infer/\"\$INFER\"}
		got=$(cd "$out" && cp "$S/scores/model.onnx" . && eval "$words" 2>/dev/null)
		[[ $command == check || (-n $got && $got != *null*) ]] || { echo "$words: $got"; return 1; }
	done
	"$INFER" check "$out/none.onnx" --json 2>/dev/null | jq -er '.findings[] | [.id, .message] | @tsv'
}

@test "A formula as the name of a size is shortened in its middle, but not in JSON" {
	formula=$(printf 'floor((height-3)/2)+1+%.0s' {1..20})
	printf 'case long\ninput x f32 %s,4\noutput y f32 %s,4\nnode Relu r x -> y\n' "$formula" "$formula" >"$out/m"
	mkdir "$out/long"
	"$BATS_FILE_TMPDIR/make" "$out/m" "$out/long"
	run -0 "$INFER" inspect "$out/long/long/model.onnx"
	while read -r line; do
		[ "${#line}" -lt 200 ]
	done < <(grep -E '^(inputs|outputs)' <<<"$output")
	[[ $output == *"[floor"*"..."*",4]"* || $output == *"[floor"*"…"*",4]"* ]]
	"$INFER" inspect "$out/long/long/model.onnx" --json | grep -qF "$formula"
}

@test "The multiple that sizes have to be is the one that holds" {
	run -3 --separate-stderr "$INFER" run "$S/pyramid/model.onnx" --input "$S/pyramid/x.npy"
	[[ $stderr == *"error[E-SHAPE]"*"multiples of 32, such as x [1,3,64,64]"* && $stderr != *"of 16"* ]]
}

@test "Pictures for a model of Ultralytics are proposed with their scale, and doubted behind the boxes, where the eye is" {
	echo '<ir_version: 8, opset_import: ["" : 17], metadata_props: ["author": "Ultralytics"]> g (float[1,3,32,32] x) => (float[1,6,512] y)
	{ s = Constant <value_ints = [1, 6, 512]> () y = Reshape (x, s) }' >"$out/u.onnxtxt"
	fails_with 4 "--input rgb.png,resize=32x32,scale=1/255" run "$out/u.onnxtxt" rgb.png
	run -0 "$INFER" run "$out/u.onnxtxt" rgb.png,resize=32x32 --decode yolo
	[[ $output == *$'\n'[01]' '[0-9]*"W-INPUT-RANGE"*"the results are wrong"*"hint: --input rgb.png,resize=32x32,scale=1/255" ]]
	boxes=$(grep -cE '^[01] [0-9.]+ ' <<<"$output")
	[ "$boxes" -gt 20 ]
	if command -v script >/dev/null; then
		run -0 script -qec "'$INFER' run '$out/u.onnxtxt' rgb.png,resize=32x32 --decode yolo" /dev/null
		[[ $output == *"and $((boxes - 20)) more boxes; into a file or a pipe all are written"* ]]
	fi
}

@test "Labels in the metadata as a list or dictionary of JSON" {
	for labels in "['ham', \\\"eggs\\\", 'a, b']" '{\"2\": \"a, b\", \"0\": \"ham\", \"1\": \"eggs\"}'; do
		echo "<ir_version: 8, opset_import: [\"\" : 17], metadata_props: [\"classes\": \"$labels\"]> g (float[1,3] x) => (float[1,3] y) { y = Relu (x) }" >"$out/l.onnxtxt"
		run -0 --separate-stderr "$INFER" run "$out/l.onnxtxt" --input 'x=[[1,2,3]]' --top 3 --labels meta:classes -q
		[[ $output == *"a, b"*"eggs"*"ham"* ]]
	done
}

@test "check refuses -o for what is no report and nothing else" {
	run -2 "$INFER" check "$S/scores/model.onnx" -o "$out/findings.pdf"
	[[ $output == *"E-OPTION"*"findings.pdf' is no file for a report"*"-o FILE.txt"* ]]
	run -2 "$INFER" check "$S/scores/model.onnx" -o "$out/folder"
	[ ! -e "$out/folder" ]
	"$INFER" check "$S/scores/model.onnx" "$S/scores/x.npy" -o "$out/findings.txt"
	[ -s "$out/findings.txt" ]
}

@test "The interval of many runs, of which only a part is drawn, holds their median" {
	run -0 --separate-stderr "$INFER" profile "$S/scores/model.onnx" --random -n 20000 --warmup 0 -q --json
	jq -e '.summary[0] | .median_interval[0] <= .median and .median <= .median_interval[1] and .runs == 20000' <<<"$output"
}

@test "A folder that run -o has written is a reference of check" {
	run -0 "$INFER" run "$S/two/model.onnx" --random --seed 3 -o "$out/written" -q
	run -0 "$INFER" check "$S/two/model.onnx" --random --seed 3 --expect "$out/written"
	[[ $output == *"reference    ok          2 outputs within"* ]]
	run -5 "$INFER" check "$S/two/model.onnx" --random --seed 4 --expect "$out/written"
	[[ $output == *"E-COMPARE"* ]]
	rm "$out/written/p.npy"
	run -0 "$INFER" check "$S/two/model.onnx" --random --seed 3 --expect "$out/written"
	[[ $output == *"reference    ok          1 output within"* ]]
	rm "$out/written/q.npy"
	run -4 "$INFER" check "$S/two/model.onnx" --random --seed 3 --expect "$out/written"
	[[ $output == *"no file in this folder is named after an output"*"q.npy"* ]]
}
