#!/usr/bin/env bats
# infer run with many inputs: patterns, folders, lists, slices; batches; results by input; what a killed run leaves.

load helper

setup() {
	INFER=$(realpath "$INFER")
	data=$BATS_TEST_DIRNAME/../data/run
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir pics
	cp "$data"/rgb.png pics/a.png
	cp "$data"/rgb.jpg pics/b.jpg
	cp "$data"/rgb.bmp pics/c.bmp
}

# fails STATUS CODE TEXT OPTION...: exit status, error[CODE], TEXT somewhere
fails() {
	fails_with "$1" "error[$2]: " run "${@:4}" || return 1
	[[ $stderr = *"$3"* ]] || { echo "$stderr"; return 1; }
}

names() { # FILE: the names of its lines, in order; behind those of inputs that failed a "!"
	sed 's/^{"input": "[^"]*", "name": "\([^"]*\)", "error": \[{.*/\1!/; s/^{"input": "[^"]*", "name": "\([^"]*\)".*/\1/' "$1" |
		paste -sd ' '
}

# alone DIR MODEL FILE...: each file in DIR is what a run of its own gives
alone() {
	local dir=$1 model=$2 f name
	shift 2
	for f in "$@"; do
		rm -rf one
		"$INFER" run "$model" --input "$f" -q -o one
		name=${f##*/}
		cmp one/y.npy "$dir/${name%.*}.npy"
	done
}

@test "A pattern, a folder and a list give the same results, named after their files, in their order" {
	"$INFER" run "$data/pic.onnx" --input 'images=pics/*' -q -o pattern --jsonl pattern.jsonl
	"$INFER" run "$data/pic.onnx" --input pics -q -o folder --jsonl folder.jsonl
	printf 'pics/a.png\r\n\npics/b.jpg\npics/c.bmp' >list.txt
	"$INFER" run "$data/pic.onnx" --input @list.txt,order=rgb -q -o list --jsonl list.jsonl
	[ "$(ls pattern)" = $'a.npy\nb.npy\nc.npy' ]
	alone pattern "$data/pic.onnx" pics/*
	diff -r pattern folder
	diff -r pattern list
	[ "$(names pattern.jsonl)" = "a b c" ]
	[ "$(names list.jsonl)" = "a b c" ]
	printf 'pics/c.bmp\npics/a.png\n' >list.txt
	"$INFER" run "$data/pic.onnx" --input @list.txt -q --jsonl list.jsonl
	[ "$(names list.jsonl)" = "c a" ]
}

@test "A folder is read with its subfolders, without hidden files" {
	mkdir pics/more
	mv pics/b.jpg pics/more
	touch pics/.hidden
	"$INFER" run "$data/pic.onnx" --input pics -q -o out
	[ "$(cd out && find . -type f | sort)" = $'./a.npy\n./c.npy\n./more/b.npy' ]
}

@test "A file whose own name looks like a pattern or a list is one input" {
	cp pics/a.png 'pics/[x].png'
	cp pics/a.png @list.png
	run -0 "$INFER" run "$data/pic.onnx" --input 'images=pics/[x].png' --print 1
	[[ $output != *==* ]]
	run -0 "$INFER" run "$data/pic.onnx" --input @list.png --print 1
	[[ $output != *==* ]]
}

@test "Names of results are unique, and stay in the folder" {
	cp pics/a.png pics/b.png
	"$INFER" run "$data/pic.onnx" --input pics -q -o out
	[ "$(ls out)" = $'a.npy\nb.jpg.npy\nb.png.npy\nc.npy' ]
	printf '%s\n' pics/a.png pics/a.png pics/../pics/a.png "$PWD/pics/c.bmp" >list.txt
	"$INFER" run "$data/pic.onnx" --input @list.txt -q -o deep/out
	[ "$(find deep -type f | wc -l)" -eq 4 ]
	[ "$(find . -name '*.npy' | grep -vc '^./deep/out/\|^./out/')" -eq 0 ]
}

@test "Names that are alike when they have become file names do not replace one another's results" {
	local long
	long=$(printf '%0240d' 0)
	for name in "a b" "a_b" "a_b.png_2" "a_b_2" "${long}1" "${long}2" "${long}3"; do
		cp pics/a.png "pics/$name.png"
	done
	"$INFER" run "$data/pic.onnx" --input 'pics/*[_0 ]*.png' -q -o out --jsonl out.jsonl
	[ "$(find out -name '*.npy' | wc -l)" -eq 7 ]
	[ "$(sed 's/.*"path": "out\/\([^"]*\).npy".*/\1/' out.jsonl)" = "$(names out.jsonl | tr ' ' '\n')" ]
}

@test "Several outputs get a folder for each input" {
	cp "$data/a.npy" one.npy
	cp "$data/a.npy" two.npy
	"$INFER" run "$data/two.onnx" --input 'a=*.npy' --input "b=$data/a.npy" -q -o out
	[ "$(cd out && find . -type f | sort)" = $'./one/diff.npy\n./one/sum.npy\n./two/diff.npy\n./two/sum.npy' ]
}

@test "Without a file to write, results are printed under the name of each input" {
	run -0 --separate-stderr "$INFER" run "$data/pic.onnx" --input 'pics/*' --print 1
	[ "$(grep -c '^== pics/' <<<"$output")" -eq 3 ]
	[[ $stderr = "inputs   3 inputs in "* ]]
	"$INFER" run "$data/pic.onnx" --input 'pics/*' --json >doc.json
	grep -qF '"total": 3' doc.json
	grep -qF '"done": 3' doc.json
}

@test "Batches give the same results as runs of one input; the last one is smaller" {
	for b in 1 2 3 7; do
		rm -rf out
		"$INFER" run "$data/batch.onnx" --input 'pics/*' --batch $b -q -o out --jsonl out.jsonl
		alone out "$data/batch.onnx" pics/*
		[ "$(names out.jsonl)" = "a b c" ]
	done
	run -0 "$INFER" run "$data/batch.onnx" --input 'pics/*' --batch 2
	[[ $output = *"2 inputs a run"* ]]
}

@test "A batch that the model fixes is filled up, and never exceeded" {
	# classes.onnx takes [2,4]; b3.npy has 3 rows
	"$INFER" run "$data/classes.onnx" --input "$data/b3.npy,split=0" -q -o out --save-format bin
	cat out/b3-0.bin out/b3-1.bin out/b3-2.bin >joined
	tail -c 48 "$data/b3.npy" | cmp - joined
	fails 4 E-BATCH "--batch 2 at most" "$data/classes.onnx" --input "$data/b3.npy,split=0" --batch 3
}

@test "Inputs of another size begin a new run" {
	"$INFER" run "$data/free.onnx" --input "$data/other.npy" -q -o one
	cp "$data/other.npy" pics/bb.npy
	"$INFER" run "$data/free.onnx" --input pics --batch 4 -q -o out
	cmp one/y.npy out/bb.npy
	alone out "$data/free.onnx" pics/a.png pics/b.jpg pics/c.bmp
}

@test "Inputs of two names are paired in order, and must be equally many" {
	mkdir l r
	for i in 1 2; do cp "$data/a.npy" l/$i.npy; cp "$data/a.npy" r/$i.npy; done
	"$INFER" run "$data/two.onnx" --input a=l --input 'b=r/*.npy' --batch 2 -q -o out
	"$INFER" run "$data/two.onnx" --input a=l/1.npy --input b=r/1.npy -q -o one
	cmp one/sum.npy out/2/sum.npy
	cp "$data/a.npy" l/3.npy
	fails 4 E-INPUT-COUNT "got 2 in r/*.npy" "$data/two.onnx" --input a=l --input 'b=r/*.npy'
}

@test "An array is split along an axis" {
	"$INFER" run "$data/two.onnx" --input "a=$data/b3.npy,split=0" --random b=0..0 --batch 2 -q -o out --save-format bin
	cat out/b3-{0,1,2}/sum.bin >joined
	tail -c 48 "$data/b3.npy" | cmp - joined
	"$INFER" run "$data/free.onnx" --input "$data/fits.npy,split=3" -q -o columns --save-format bin
	[ "$(ls columns | wc -l)" -eq 24 ]
	# column 5 of a row-major array [1,3,16,24] of floats
	tail -c 4608 "$data/fits.npy" >all
	for i in $(seq 0 47); do tail -c +$((i * 96 + 5 * 4 + 1)) all | head -c 4; done | cmp - columns/fits-05.bin
	fails 4 E-INPUT-FORMAT "Fortran order" "$data/free.onnx" --input "$data/fortran.npy,split=0"
	fails 4 E-INPUT-KEY "along axis 7" "$data/free.onnx" --input "$data/fits.npy,split=7"
	fails 4 E-INPUT-KEY "an axis, as 0" "$data/free.onnx" --input "$data/fits.npy,split=x"
	fails 4 E-INPUT-KEY "split= takes one array" "$data/free.onnx" --input "$data/*.npy,split=0"
}

@test "Several test-data folders are run" {
	cp -r "$data/set" set_0
	cp -r "$data/set" set_1
	"$INFER" run "$data/two.onnx" --data-set 'set_*' -q -o out
	"$INFER" run "$data/two.onnx" --data-set set_0 -q -o one
	cmp one/sum.npy out/set_0/sum.npy
	cmp one/sum.npy out/set_1/sum.npy
	fails 4 E-INPUT-OPEN "no folder matches" "$data/two.onnx" --data-set 'nothing_*'
}

@test "What names no file is refused" {
	mkdir empty
	: >none.txt
	fails 4 E-INPUT-OPEN "empty: the folder holds no file" "$data/pic.onnx" --input empty
	fails 4 E-INPUT-OPEN "pics/*.gif: no file matches this pattern" "$data/pic.onnx" --input 'pics/*.gif'
	fails 4 E-INPUT-OPEN "none.txt lists no file" "$data/pic.onnx" --input @none.txt
	fails 4 E-INPUT-OPEN "nolist.txt" "$data/pic.onnx" --input @nolist.txt
}

@test "Other commands say that they take one input" {
	run -4 "$INFER" profile "$data/pic.onnx" --input 'pics/*.png' -n 1
	[[ $output = *"infer run takes many inputs"* ]]
	run -4 "$INFER" profile "$data/pic.onnx" --input pics -n 1
	[[ $output = *"infer run takes many inputs"* ]]
	run -4 "$INFER" profile "$data/pic.onnx" --input pics -n 1
	[[ $output = *"infer run takes many inputs"* ]]
	run -4 "$INFER" check "$data/pic.onnx" --input "$data/fits.npy,split=0"
	[[ $output = *"infer run takes many inputs"* ]]
}

@test "What cannot share a run is refused before anything is written" {
	cp "$data/words.npy" w1.npy
	cp "$data/words.npy" w2.npy
	fails 4 E-BATCH "cannot be stacked" "$data/words.onnx" --input 'w?.npy' --batch 2 -o out
	for i in 1 2; do echo $i.5 >s$i.txt; done
	fails 4 E-BATCH "it differs between inputs but has no batch" "$data/scalar.onnx" --input 's?.txt' --batch 2 -o out
	[ ! -e out ]
	"$INFER" run "$data/words.onnx" --input 'w?.npy' -q -o out
}

@test "An input that fails ends the run after those before it, and is named" {
	printf junk >pics/b.jpg
	run -4 "$INFER" run "$data/batch.onnx" --input pics --batch 3 --jsonl out.jsonl
	[[ $output = *pics/b.jpg* ]]
	[ "$(names out.jsonl)" = "a b!" ]
}

@test "--keep-going lists what failed, and ends with its exit status" {
	head -c 300 "$data/rgb.jpg" >pics/b.jpg
	cp "$data/other.npy" pics/bb.npy
	run -4 --separate-stderr "$INFER" run "$data/batch.onnx" --input pics --batch 3 --jsonl out.jsonl --keep-going
	[ "$(names out.jsonl)" = "a b! bb! c" ]
	[[ $stderr = *"failed   2 inputs"* ]]
	[[ $stderr = *pics/b.jpg* ]]
	[[ $stderr = *pics/bb.npy* ]]
	[ "$(grep -c '^error' <<<"$stderr")" -eq 2 ]
}

@test "--keep-going ends when nothing can be written" {
	"$INFER" run "$data/pic.onnx" --input pics -q --jsonl /dev/full --keep-going && return 1
	run -10 "$INFER" run "$data/pic.onnx" --input pics --jsonl /dev/full --keep-going
	[ "$(grep -c '^error\[E-OUTPUT\]' <<<"$output")" -eq 1 ]
	[[ $output = *"pics/a.png: /dev/full: cannot write"* ]]
}

@test "An output whose first dimension has the batch's size by chance, or that mixes the rows of a batch, is not taken apart" {
	local head='<ir_version: 10, opset_import: ["" : 21]> g (float[N,4] x) =>'
	echo "$head (float[3,N] y) { z = Transpose(x) y = Slice(z, begin, end) }" >chance.txt
	sed -i 's/ { / <int64[1] begin = {0}, int64[1] end = {3}> { /' chance.txt
	echo "$head (float[N,N] y) { t = Transpose(x) y = MatMul(x, t) }" >pairs.txt
	echo '<ir_version: 10, opset_import: ["" : 21]> g (float[3,4] x) => (float[3,3,4] y) <int64[3] s = {3, 3, 4}> { y = Expand(x, s) }' >fixed.txt
	sed 's/N/3/g' pairs.txt >classes.txt
	for model in chance pairs; do
		fails 4 E-BATCH "the batch, and the batch in no other dimension" $model.txt --input "x=$data/b3.npy,split=0" --batch 3
		run -0 "$INFER" run $model.txt --input "x=$data/b3.npy,split=0" --batch 1 -q
	done
	fails 4 E-BATCH "the batch, and the batch in no other dimension" fixed.txt --input "x=$data/b3.npy,split=0"
	# of a batch that is a number another dimension may be as large by chance
	local fixed='<ir_version: 10, opset_import: ["" : 21]> g (float[3,4] x) =>'
	sed 's/N/3/g' pairs.txt >fixed_pairs.txt
	echo "$fixed (float[3,2] y) <float[3,2] y = {1, 2, 3, 4, 5, 6}> { z = Identity(x) }" >table.txt
	echo "$fixed (float[2,3,4] y) <int64[3] s = {2, 3, 4}> { y = Expand(x, s) }" >layers.txt
	for model in fixed_pairs table layers; do
		fails 4 E-BATCH "the batch, and the batch in no other dimension" $model.txt --input "x=$data/b3.npy,split=0"
	done
	echo "$fixed (float[3,3] y) <int64[2] to = {1, 3}, int64[1] one = {1}> {
		m = ReduceMean <keepdims = 1> (x, one) y = Expand(m, to) }" >classes.txt
	echo "$fixed (float[3,3,4] y) <int64[3] to = {1, 3, 1}, int64[1] one = {1}> { m = Unsqueeze(x, one) y = Expand(m, to) }" >pixels.txt
	for model in classes pixels; do
		run -0 "$INFER" run $model.txt --input "x=$data/b3.npy,split=0" -q
	done
	# nothing is known behind a Reshape to constant sizes
	echo "$fixed (float[3,3] y) <int64[2] to = {3, 4}, int64[2] twice = {1, 3}, int64[1] one = {1}> {
		z = Reshape(x, to) m = ReduceMean <keepdims = 1> (z, one) y = Expand(m, twice) }" >reshaped.txt
	run -0 "$INFER" run reshaped.txt --input "x=$data/b3.npy,split=0" -q
}

@test "A run that fails for one input of a batch names that input" {
	# Gather's index 99 is out of its table: ids.onnx has fewer rows
	printf '[[1, 2]]' >i1.json
	printf '[[1, 99999]]' >i2.json
	printf '[[2, 1]]' >i3.json
	run -3 --separate-stderr "$INFER" run "$data/ids.onnx" --input 'input_ids=i?.json' \
		--random attention_mask=1..1 --batch 3 --keep-going --jsonl out.jsonl
	echo "$stderr"
	[[ $stderr = *"i2.json"* ]]
	[ "$(names out.jsonl)" = "i1 i2! i3" ]
}

@test "--resume leaves out what is done, and tries again what failed" {
	cp pics/b.jpg good.jpg
	printf junk >pics/b.jpg
	run -4 "$INFER" run "$data/pic.onnx" --input pics --keep-going -o out --jsonl out.jsonl
	[ "$(names out.jsonl)" = "a b! c" ]
	grep -q '"error": \[{"id": "E-INPUT' out.jsonl
	mv good.jpg pics/b.jpg
	run -0 "$INFER" run "$data/pic.onnx" --input pics -o out --jsonl out.jsonl --resume
	[[ $output = *"inputs   1 input in "* ]]
	[[ $output = *"skipped  2 inputs, done before"* ]]
	[ "$(names out.jsonl)" = "a c b" ]
	rm out/a.npy
	run -0 "$INFER" run "$data/pic.onnx" --input pics -o out --jsonl out.jsonl --resume
	[ -f out/a.npy ]
	[ "$(names out.jsonl)" = "a c b" ]
	run -0 "$INFER" run "$data/pic.onnx" --input pics -o out --jsonl out.jsonl --resume
	[[ $output = *"skipped  3 inputs"* ]]
}

@test "--resume cuts off an incomplete line, and refuses a file that is none of its own" {
	"$INFER" run "$data/pic.onnx" --input pics -q --jsonl out.jsonl
	cp out.jsonl whole.jsonl
	truncate -s -20 out.jsonl
	"$INFER" run "$data/pic.onnx" --input pics -q --jsonl out.jsonl --resume
	cmp out.jsonl whole.jsonl
	printf '{"x": 1}\n' >other.jsonl
	fails 10 E-OUTPUT "other.jsonl:1" "$data/pic.onnx" --input pics --jsonl other.jsonl --resume
	[ "$(cat other.jsonl)" = '{"x": 1}' ]
	fails 2 E-OPTION "no file says which inputs are done" "$data/pic.onnx" --input pics --resume
	fails 2 E-OPTION "does not tell what is done" "$data/pic.onnx" --input pics --resume --jsonl -
	fails 2 E-OPTION "many inputs do not run step by step" "$data/pic.onnx" --input pics --slice images=8
	run -2 "$INFER" run "$data/pic.onnx" --input pics --json --jsonl -
	[[ $output = *"has the document of --json"* ]]
}

@test "A line has classes and text as asked for" {
	"$INFER" run "$data/classes.onnx" --input "$data/classes.npy,split=0" -q --top 1 --jsonl - >top.jsonl
	[ "$(wc -l <top.jsonl)" -eq 2 ]
	grep -qF '"top": [[{"class": ' top.jsonl
	echo "$data/ctc.npy" >list.txt
	"$INFER" run "$data/ctc.onnx" --input @list.txt -q --decode ctc --labels "$data/labels5.txt" --jsonl - >text.jsonl
	grep -qF '"text": ["' text.jsonl
}

@test "Ctrl-C writes what was finished, even while a file is waited for" {
	mkfifo pipe
	printf '%s\n' pics/a.png pics/b.jpg pipe pics/c.bmp >list.txt
	env --default-signal=INT "$INFER" run "$data/pic.onnx" --input @list.txt --jsonl out.jsonl -o out 2>err 3>&- &
	exec 8>pipe
	until [ "$(wc -l <out.jsonl)" -eq 2 ]; do sleep 0.02; done
	kill -INT $!
	status=0
	wait $! || status=$?
	exec 8>&-
	cat err
	[ "$status" -eq 130 ]
	grep -qF 'stopped after 2 of 4 inputs' err
	rm pipe
	cp pics/a.png pipe
	"$INFER" run "$data/pic.onnx" --input @list.txt --jsonl out.jsonl -o out -q --resume
	[ "$(wc -l <out.jsonl)" -eq 4 ]
	[ "$(find out -type f | wc -l)" -eq 4 ]
}

@test "--timeout ends with its own status, and what was finished is there" {
	mkfifo pipe
	printf '%s\n' pics/a.png pics/b.jpg pipe pics/c.bmp >list.txt
	sleep 20 8>&- >pipe 3>&- &
	sleeper=$!
	run --separate-stderr "$INFER" run "$data/pic.onnx" --input @list.txt --jsonl out.jsonl --timeout 3s
	kill $sleeper
	[ "$status" -eq 124 ]
	[[ $stderr = *"error[E-TIMEOUT]: stopped after 2 of 4 inputs"* ]]
	[ "$(wc -l <out.jsonl)" -eq 2 ]
}

@test "A run that --timeout cuts short is no error of its input" {
	[ -x "$FAULTS_INFER" ] || skip "no fault-injection build"
	INFER_FAULT=0:hang run --separate-stderr "$FAULTS_INFER" run "$data/pic.onnx" --input pics --jsonl out.jsonl --timeout 3s
	[ "$status" -eq 124 ]
	[[ $stderr != *E-INTERRUPTED* ]]
}

@test "Steps are for one input" {
	fails 2 E-OPTION "many inputs do not run step by step" "$data/two.onnx" --input 'a=pics' --feed s=a
}

@test "Threads that read pictures at once open one library" {
	for i in $(seq 8); do cp pics/a.png pics/a$i.png; cp pics/b.jpg pics/b$i.jpg; done
	for _ in $(seq 20); do
		"$INFER" run "$data/pic.onnx" --input pics -q
	done
}

@test "Runs that are killed at 20 moments and resumed give each result once" {
	# 3,000 rows of [1,4]: a pattern of the words of this test, as bare floats with numpy's head
	{
		head=$(printf "{'descr': '<f4', 'fortran_order': False, 'shape': (3000, 4), }")
		printf '\223NUMPY\1\0\166\0%-117s\n' "$head"
		seq 1 12000 | awk '{printf "%08d", $1}' | head -c 48000
	} >rows.npy
	arguments=(run "$data/two.onnx" --input "a=rows.npy,split=0" --random b=0..1 --batch 8 -q --jsonl out.jsonl --print 0)
	"$INFER" "${arguments[@]}"
	mv out.jsonl want.jsonl
	killed=0
	for moment in $(seq 1 20); do
		"$INFER" "${arguments[@]}" --resume 3>&- &
		until [ "$(wc -l <out.jsonl 2>/dev/null || echo 0)" -ge $((moment * 100)) ]; do :; done
		kill -9 $! && killed=$((killed + 1))
		wait $! || true
	done 2>/dev/null
	"$INFER" "${arguments[@]}" --resume
	[ "$(wc -l <out.jsonl)" -eq 3000 ]
	cmp out.jsonl want.jsonl
	echo "killed $killed"
}

@test "Inputs of many sizes are prepared once a size, not once an input" {
	{
		echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,6,w] c4) => (float[1,20,6,w] c20) {'
		echo 'half = Constant <value = float[1] {0.5}> ()'
		for i in $(seq 4 19); do
			echo "s$i = Constant <value = int64[4] {$((i + 1)), $i, 3, 3}> ()"
			echo "w$i = Expand (half, s$i)"
			echo "c$((i + 1)) = Conv <pads = [1, 1, 1, 1]> (c$i, w$i)"
		done
		echo '}'
	} >model.onnxtxt
	mkdir in
	for w in $(seq 30 109); do
		head=$(printf "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4, 6, %d), }" "$w")
		{
			printf '\223NUMPY\1\0\166\0%-117s\n' "$head"
			head -c $((96 * w)) /dev/zero
		} >"in/$w.npy"
	done
	printf "%s\n" in/*.npy in/*.npy >list.txt
	ONEDNN_VERBOSE=2 "$INFER" run model.onnxtxt --input @list.txt --device cpu -t 1 -q --jsonl lines >told 2>&1
	[ "$(wc -l <lines)" -eq 160 ]
	made=$(grep -c 'create:cache_miss,cpu,convolution' told) || skip "no oneDNN, or one that does not tell what it makes"
	[ "$made" -le $((80 * 16 + 40)) ]
}
