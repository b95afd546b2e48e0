#!/usr/bin/env bats
# infer run --score: the numbers of scikit-learn, jiwer, pycocotools and scikit-image (test/tools/make_score_data.py), what is
# refused, and that parts add up.

load helper

setup() {
	INFER=$(realpath "$INFER")
	data=$(realpath "$BATS_TEST_DIRNAME/../data/scores")
	cd "$BATS_TEST_TMPDIR" || return 1
	classes=("$data/classes.onnx" --input "$data/classes.npy,split=0")
	text=("$data/text.onnx" --input "$data/text.npy,split=0" --decode ctc --labels "$data/chars.txt")
	pixels=("$data/pixels.onnx" --input "$data/pixels.npy,split=0")
	boxes=("$data/boxes.onnx" --input "$data/boxes.npy,split=0" --decode "yolo:score=0.001,iou=1")
}

value() { # SCORE FILE: its value in a JSON document
	sed -n "/\"$1\": {/,/\"value\"/s/.*\"value\": \\([^,}]*\\).*/\\1/p" "$2"
}

# scores NAME WANTED OPTION...: the value in the document, within 1e-9 of that in want.txt
scores() {
	local name=$1 want
	want=$(awk -v k="$2" '$1 == k {print $2}' "$data/want.txt")
	shift 2
	"$INFER" run "$@" --json >"$name.json"
	awk -v a="$(value "$name" "$name.json")" -v b="$want" 'BEGIN {d = a - b; exit !(a != "" && b != "" && d < 1e-9 && -d < 1e-9)}' ||
		{ echo "$name: $(value "$name" "$name.json") instead of $want"; return 1; }
}

# fails STATUS CODE TEXT OPTION...
fails() {
	fails_with "$1" "error[$2]: " run "${@:4}" || return 1
	[[ $stderr = *"$3"* ]] || { echo "$stderr"; return 1; }
}

@test "top1 and top5 are scikit-learn's, by number and by label" {
	scores top1 top1 "${classes[@]}" --score top1="$data/classes.csv" --batch 7
	scores top5 top5 "${classes[@]}" --score top5="$data/classes.csv" --score top1="$data/classes.csv"
	scores top1 top1 "${classes[@]}" --score top1="$data/names.csv" --labels "$data/labels.txt"
}

@test "wer and cer are jiwer's, from CSV and from a table with tabs" {
	scores wer wer "${text[@]}" --score wer="$data/text.csv"
	scores cer cer "${text[@]}" --score cer="$data/text.csv"
	scores exact exact "${text[@]}" --score exact="$data/text.csv"
	scores cer cer "${text[@]}" --score cer="$data/text.tsv"
}

@test "map is pycocotools', by the order of the categories and by their names" {
	scores map map "${boxes[@]}" --score map="$data/coco.json"
	scores map map "${boxes[@]}" --score map="$data/coco.json" --labels "$data/kinds.txt"
}

@test "psnr is scikit-image's, and cosine scikit-learn's" {
	"$INFER" run "$data/pixels.onnx" --input "$data/reference/pixels.npy,split=0" -q -o ref
	scores psnr psnr "${pixels[@]}" --score psnr=ref
	scores cosine cosine "${pixels[@]}" --score cosine=ref
	scores psnr psnr2 "${pixels[@]}" --score psnr:range=2=ref
	"$INFER" run "${pixels[@]}" -q -o same
	"$INFER" run "${pixels[@]}" --score psnr=same --fail-below psnr=90 | grep -q '^psnr     inf dB  (10 of 10 inputs counted)$'
}

@test "Scores are printed as results, with how many inputs were counted" {
	run --separate-stderr "$INFER" run "${classes[@]}" --score top1="$data/classes.csv" -q --jsonl lines
	[[ $output =~ ^"top1     0."[0-9]+"  ("[0-9]+" of 40 right, 40 of 40 inputs counted)"$ ]]
	[ "$(grep -c '"scores": {"top1": {"value": [01], "inputs": 1, "sum": [01], "of": 1}}' lines)" -eq 40 ]
	run --separate-stderr "$INFER" run "${classes[@]}" --score top1="$data/classes.csv" -q --jsonl -
	[ "${#lines[@]}" -eq 40 ]
	[[ $stderr = "top1 "* ]]
}

@test "An input that fails is not counted" {
	mkdir in
	for i in 1 2 3; do printf '[[%s, 0, 0, 0, 0, 0, 0, 0, 0, 1]]' "$i" >in/$i.json; done
	printf '[[1, 2' >in/2.json
	printf '%s,0\n' 1.json 2.json 3.json >truth.csv
	run -4 --separate-stderr "$INFER" run "$data/classes.onnx" --input in --score top1=truth.csv --keep-going -q --jsonl lines
	[[ $output =~ ^"top1     "[01.]+"  ("[012]" of 2 right, 2 of 3 inputs counted)"$ ]]
	# mended and resumed, all count, each once
	cp in/1.json in/2.json
	"$INFER" run "$data/classes.onnx" --input in --score top1=truth.csv -q --jsonl lines --resume >resumed
	grep -q '3 of 3 inputs counted' resumed
	# also if two runs at the same time have written each line twice, or if the list has become shorter
	cat lines lines >twice
	"$INFER" run "$data/classes.onnx" --input in --score top1=truth.csv -q --jsonl twice --resume | cmp - resumed
	cmp lines twice
	mkdir fewer
	cp in/1.json in/2.json fewer
	head -2 truth.csv >fewer.csv
	"$INFER" run "$data/classes.onnx" --input fewer --score top1=fewer.csv -q --jsonl lines --resume | grep -q '2 of 2 inputs counted'
	fails 2 E-OPTION "give --jsonl FILE to both runs" "$data/classes.onnx" --input in --score top1=truth.csv -o out --resume
	"$INFER" run "$data/classes.onnx" --input in -q --jsonl bare
	fails 10 E-OUTPUT "bare:1 does not have these scores" "$data/classes.onnx" --input in --score top1=truth.csv --jsonl bare --resume
}

@test "A resumed run gives the same scores, to the last digit" {
	"$INFER" run "$data/pixels.onnx" --input "$data/reference/pixels.npy,split=0" -q -o ref
	local options=(--score psnr=ref --score cosine=ref)
	"$INFER" run "${pixels[@]}" "${options[@]}" --json >whole
	"$INFER" run "${pixels[@]}" "${options[@]}" -q --jsonl lines >/dev/null
	sed -i 4q lines
	"$INFER" run "${pixels[@]}" "${options[@]}" --jsonl lines --resume --json >resumed
	[ "$(value psnr whole)" = "$(value psnr resumed)" ]
	[ "$(value cosine whole)" = "$(value cosine resumed)" ]
	"$INFER" run "${boxes[@]}" --score map="$data/coco.json" --json >whole
	"$INFER" run "${boxes[@]}" --score map="$data/coco.json" -q --jsonl lines >/dev/null
	sed -i 1,9d lines
	"$INFER" run "${boxes[@]}" --score map="$data/coco.json" --jsonl lines --resume --json >resumed
	[ "$(value map whole)" = "$(value map resumed)" ]
}

@test "--fail-below ends with 5; an error rate fails above it" {
	fails 5 E-SCORE "expected at least 0.99, got 0." "${classes[@]}" --score top1="$data/classes.csv" --fail-below 0.99
	"$INFER" run "${classes[@]}" -q --score top1="$data/classes.csv" --score top5="$data/classes.csv" --fail-below top1=0.1
	fails 5 E-SCORE "expected at most 0.01" "${text[@]}" --score wer="$data/text.csv" --fail-below wer=0.01
	"$INFER" run "${text[@]}" -q --score wer="$data/text.csv" --fail-below 2
	fails 2 E-OPTION "several scores" "${classes[@]}" --score top1="$data/classes.csv" --score top5="$data/classes.csv" --fail-below 1
	fails 2 E-OPTION "no --score has this name" "${classes[@]}" --score top1="$data/classes.csv" --fail-below top2=1
	fails 2 E-OPTION "no score is computed" "${classes[@]}" --fail-below 1
	fails 2 E-OPTION "this is no number" "${classes[@]}" --score top1="$data/classes.csv" --fail-below top1=high
}

@test "A truth that does not fit is refused before the run, with its line" {
	local truth="$data/classes.csv"
	sed 's/^classes-07,.*/&\nclasses-07,1/' "$truth" >twice.csv
	fails 4 E-TRUTH "twice.csv:10: the input 'classes-07' is there twice" "${classes[@]}" --score top1=twice.csv
	sed 's/^classes-07/other/' "$truth" >missing.csv
	fails 4 E-TRUTH "it has no answer for the input '$data/classes.npy[7]'" "${classes[@]}" --score top1=missing.csv
	{ cat "$truth" && echo other,1; } >unknown.csv
	fails 4 E-TRUTH "unknown.csv:42: no input is called 'other'" "${classes[@]}" --score top1=unknown.csv
	sed '5s/,.*/,dog/' "$truth" >word.csv
	fails 4 E-TRUTH "word.csv:5: 'dog' is no class" "${classes[@]}" --score top1=word.csv
	sed '5s/,.*/,77/' "$truth" >large.csv
	fails 4 E-TRUTH "large.csv:5: the model has no class 77" "${classes[@]}" --score top1=large.csv
	sed '5s/$/,more/' "$truth" >wide.csv
	fails 4 E-TRUTH "wide.csv:5: this is no line of an input and its answer: expected INPUT,ANSWER, got 3 fields" "${classes[@]}" --score top1=wide.csv
	printf 'a,"b' >open.csv
	fails 4 E-TRUTH "open.csv:1: a quoted field does not end" "${classes[@]}" --score top1=open.csv
	printf 'a,b\0' >nul.csv
	fails 4 E-TRUTH "NUL byte" "${classes[@]}" --score top1=nul.csv
	: >empty.csv
	fails 4 E-TRUTH "it has no line" "${classes[@]}" --score top1=empty.csv
	fails 4 E-TRUTH "none.csv" "${classes[@]}" --score top1=none.csv
	mkdir empty
	fails 4 E-TRUTH "empty has nothing for the input" "${pixels[@]}" --score psnr=empty
}

@test "A COCO file that does not fit is refused, with the entry" {
	fails 4 E-TRUTH "no COCO file of boxes" "${boxes[@]}" --score map=<(echo '{"images": []}')
	sed 's/"image_id": [0-9]*/"image_id": 5/' "$data/coco.json" >image.json
	fails 4 E-TRUTH "there is no image 5" "${boxes[@]}" --score map=image.json
	sed 's/"category_id": [0-9]*/"category_id": 21/' "$data/coco.json" >category.json
	fails 4 E-TRUTH "there is no category 21" "${boxes[@]}" --score map=category.json
	sed 's/boxes-03/boxes-33/' "$data/coco.json" >name.json
	fails 4 E-TRUTH "no answer for the input" "${boxes[@]}" --score map=name.json
	printf 'a\nb\nc\n' >labels
	fails 4 E-TRUTH "has no category 'a'" "${boxes[@]}" --score map="$data/coco.json" --labels labels
}

@test "Words of --score that mean nothing are refused" {
	fails 2 E-OPTION "there is no such score" "${classes[@]}" --score top0=x
	fails 2 E-OPTION "there is no such score" "${classes[@]}" --score wer:range=1=x
	fails 2 E-OPTION "there is no such score" "${classes[@]}" --score psnr:range=0=x
	fails 2 E-OPTION "it does not say what is right" "${classes[@]}" --score top1
	fails 2 E-OPTION "given twice" "${classes[@]}" --score top1="$data/classes.csv" --score top1=x
	fails 2 E-OPTION "add --decode ctc" "${classes[@]}" --score wer="$data/text.csv"
	fails 2 E-OPTION "add --decode yolo" "${classes[@]}" --score map="$data/coco.json"
}

@test "Boxes of many inputs are printed, and are in the lines" {
	"$INFER" run "${boxes[@]}" -q >printed
	[ "$(grep -c '^== ' printed)" -eq 16 ]
	"$INFER" run "${boxes[@]}" -q --jsonl lines
	[ "$(grep -c '"boxes": \[' lines)" -eq 16 ]
}

@test "infer merge adds up the scores of shards to the numbers of one run" {
	kinds=(--score top1="$data/classes.csv" --score top5="$data/classes.csv" --fail-below top1=0.01)
	"$INFER" run "${classes[@]}" "${kinds[@]}" -q --report one.json --json >run.json
	for i in 1 2 3; do
		"$INFER" run "${classes[@]}" "${kinds[@]}" -q --shard $i/3 --report "part-{shard}.json"
	done
	"$INFER" merge one.json --json >one.sum
	"$INFER" merge part-3-of-3.json part-1-of-3.json part-2-of-3.json --json >parts.sum
	cmp <(jq .scores one.sum) <(jq .scores parts.sum)
	cmp <(jq .scores one.sum) <(jq .scores run.json)
	[ "$(jq '.scores.top1.value > 0 and .scores.top1.inputs > 10' one.sum)" = true ]
	[[ $("$INFER" merge part-?-of-3.json) = *"top1 "*"counted)"* ]]
	# boxes of one picture each
	for i in 1 2; do
		"$INFER" run "${boxes[@]}" --score map="$data/coco.json" -q --shard $i/2 --report "map-$i.json"
	done
	"$INFER" run "${boxes[@]}" --score map="$data/coco.json" -q --json >whole.json
	cmp <(jq .scores.map.value whole.json) <("$INFER" merge map-2.json map-1.json --json | jq .scores.map.value)
}

@test "The report of a run that goes on after one was killed has the scores of all its lines" {
	kinds=(--score top1="$data/classes.csv" --jsonl lines.jsonl -q)
	"$INFER" run "${classes[@]}" "${kinds[@]}" --report one.json
	"$INFER" merge one.json --json >one.sum
	head -n 7 lines.jsonl >left && mv left lines.jsonl # a killed run writes no report
	"$INFER" run "${classes[@]}" "${kinds[@]}" --report resumed.json --resume
	"$INFER" merge resumed.json --json >resumed.sum
	cmp <(jq .scores one.sum) <(jq .scores resumed.sum)
	cmp <(jq '[.cases[].scores]' one.json) <(jq '[.cases[].scores]' resumed.json)
	# boxes as well
	"$INFER" run "${boxes[@]}" --score map="$data/coco.json" -q --jsonl b.jsonl --report b.json
	head -n 3 b.jsonl >left && mv left b.jsonl
	"$INFER" run "${boxes[@]}" --score map="$data/coco.json" -q --jsonl b.jsonl --report c.json --resume
	cmp <("$INFER" merge b.json --json | jq .scores) <("$INFER" merge c.json --json | jq .scores)
}

@test "infer merge fails where the sum is below its limit, and refuses reports without scores" {
	limit=(--score top1="$data/classes.csv" --fail-below top1=0.999)
	for i in 1 2; do
		"$INFER" run "${classes[@]}" "${limit[@]}" -q --shard $i/2 --report r$i.json || [ $? -eq 5 ]
	done
	run --separate-stderr "$INFER" merge r1.json r2.json
	[ "$status" -eq 5 ]
	[[ $stderr = *"error[E-SCORE]"* ]]
	jq 'del(.cases[0].scores)' r1.json >old.json
	run --separate-stderr "$INFER" merge old.json r2.json
	[ "$status" -eq 1 ]
	[[ $stderr = *"error[E-SHARD]: no report has the scores of "* ]]
	"$INFER" run "${classes[@]}" -q --shard 1/2 --report bare.json
	run --separate-stderr "$INFER" merge bare.json r2.json
	[ "$status" -eq 1 ]
	[[ $stderr = *"it is of another --score than bare.json"* || $stderr = *"another --fail-below than"* ]]
}
