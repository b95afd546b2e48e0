#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a newcomer of the first day stumbles over: outputs of another shape than --decode wants, wrong options, keys with another
# tool's values, and several foreign words in one line, whose answer is one line that runs. The models come from test/check/make.c.

load helper

setup_file() {
	make_models <<-'END'
		case scores
		input x f32 batch,4
		output y f32 batch,4
		node Relu r x -> y

		case scalar
		input x f32 1,4
		output y f32 -
		node ReduceMean mean x -> y keepdims=0

		case classes
		input x f32 batch,3,8,8
		output y f32 batch,3
		node GlobalAveragePool pool x -> p
		node Flatten flat p -> y

		case steps
		input x f32 1,steps,3
		output y f32 1,steps,3
		node Relu r x -> y

		npy blanks.npy f32 1,2,3 9 0 1 9 0 1
		npy nans.npy f32 1,2,3 nan nan nan nan nan nan
		npy one_nan.npy f32 1,2,3 9 0 nan 9 0 1
		npy flat.npy f32 6 9 0 1 9 0 1

		case odd
		import com.vendor 1
		input x f32 n,4
		output y f32 n,4
		node Relu first x -> a
		node com.vendor:Fancy fancy a -> b
		node Relu last b -> y

		case declared
		import com.vendor 1
		input x f32 n,4
		output y f32 n,4
		value b f32 n,4
		node com.vendor:Fancy fancy x -> b
		node Relu last b -> y

		case bytes
		input img u8 1,8,8,3
		input flags u8 64
		output y f32 1,8,8,3
		output z f32 64
		node Cast one img -> y to=1
		node Cast two flags -> z to=1
	END
}

setup() {
	in_test_data
	S=$BATS_FILE_TMPDIR/cases
	cp "$S/classes/model.onnx" "$out/cls.onnx"
	cp rgb.png "$out/cat.png"
	cp rgb.png "$out/my cat.png"
	printf 'cat\ndog\nbird\n' >"$out/names.txt"
}

@test "--decode ctc refuses scores of one step, and an empty text is told" {
	for model in scores scalar classes; do
		fails_with 4 "no output can be decoded as text: expected an output of floats with shape [batch, steps, classes], got y" \
			run "$S/$model/model.onnx" --random --decode ctc
		[[ $stderr == *"hint: --decode ctc chooses a letter at each of many steps; --top 5 names the best classes of one"* ]]
	done
	# several pictures are no steps, either, and are refused before the run
	fails_with 4 "no output can be decoded as text" run "$S/classes/model.onnx" --random --dim batch=4 --decode ctc
	fails_with 4 "no output has classes along its last axis to rank" run "$S/scalar/model.onnx" --random --top 2
	[[ $stderr == *"hint: infer inspect $S/scalar/model.onnx shows the outputs"* ]]
	run -0 --separate-stderr "$INFER" run "$S/steps/model.onnx" "$S/steps/blanks.npy" --decode ctc
	[[ $output == "" && $stderr == *"N-LABELS]: the text is empty: the blank, class 0, has the best score at every step"* ]]
	run -0 --separate-stderr "$INFER" run "$S/steps/model.onnx" "$S/steps/blanks.npy" --decode ctc:blank=2
	[[ $output == 0 && $stderr != *"the text is empty"* ]]
}

@test "A wrong option of check is no finding about the model" {
	local option status
	while read -r status option; do
		run "-$status" "$INFER" check "$S/scores/model.onnx" "$option"
		[[ $output == *"error["* && $output != *"cannot be run"* && $output != *"exit status"* ]]
	done <<-'END'
		2 --output=nope
		2 --shapes-sweep=batch=a
		4 --dim=nope=3
		4 --random=nope=0..1
		4 --expect=nope=x.npy
		4 --feed=a=b
	END
	# what is wrong with the model or its input still has a report
	run -4 "$INFER" check "$S/scores/model.onnx" nan.npy
	[[ $output == *"exit status 4"* ]]
}

@test "extract cuts out operators that the build does not know, and inspect infers the types around them" {
	run -0 "$INFER" extract "$S/odd/model.onnx" --to a -o "$out/part.onnx"
	run -0 "$INFER" run "$out/part.onnx" --random
	run -0 "$INFER" extract "$S/odd/model.onnx" --from fancy --to b -o "$out/part.onnx"
	[[ $output == *"output 'b' of the part: its type is not known"* ]]
	run -3 "$INFER" inspect "$out/part.onnx"
	[[ $output == *"a  f32 [n,4]"* ]]
	fails_with 3 "input 'b' of the part: its type is not known" extract "$S/odd/model.onnx" --from last -o "$out/no.onnx"
	[[ $stderr == *"hint: begin at another tensor, or add a value_info"* && ! -e $out/no.onnx ]]
	run -0 "$INFER" extract "$S/declared/model.onnx" --from last -o "$out/part.onnx"
	run -0 "$INFER" run "$out/part.onnx" --random
	run -3 "$INFER" inspect "$S/odd/model.onnx" --nodes
	[[ $output == *"out  a: f32 [n,4]"* && $output == *"out  b: ?"* ]]
}

@test "A value of a key that other tools use is told as ours" {
	local given wanted
	while read -r given wanted; do
		run -4 "$INFER" run "$out/cls.onnx" "$out/cat.png,$given"
		[[ $output == *"hint: "*"write ${wanted//_/ }"* ]] || { echo "$given: $output"; return 1; }
	done <<-'END'
		order=BGR order=bgr
		order=grayscale order=gray
		layout=NCHW layout=nchw
		layout=channels_last layout=nhwc
		dtype=F32 dtype=f32
		resize=64 resize=64x64
		resize=64x64x3 resize=64x64
		resize=crop:64x64 resize=64x64
		resize=letterbox:64 resize=letterbox:64x64
		resize=0x0 the_width_and_height
		scale=0 scale=1/255
		scale=1/0 scale=1/255
		mean=0.5:0.5:0.5 mean=0.5/0.5/0.5
		mean=(0.5) mean=0.5
		mean=[0.5,0.5,0.5] numbers_without_brackets
		exif=no exif=off
		mono=yes mono=on
		format=png format=image
		rate=16k rate=16000
	END
}

@test "A key with which a picture cannot fit is left out of the line that fits" {
	local keys wanted
	while read -r keys wanted; do
		run -4 "$INFER" run "$out/cls.onnx" "$out/cat.png,$keys"
		[[ $output == *"--input $out/cat.png,$wanted"* ]] || { echo "$keys: $output"; return 1; }
		run -0 "$INFER" run "$out/cls.onnx" --input "$out/cat.png,$wanted"
	done <<-'END'
		layout=nhwc resize=8x8
		scale=1/255,layout=nhwc,mean=0.5 scale=1/255,mean=0.5,resize=8x8
		shape=1,3,64,64,scale=1/255 scale=1/255,resize=8x8
		resize=4x4 resize=8x8
		mean=0.5/0.5 resize=8x8
	END
}

@test "Random bytes are pixels if they have the axes of a picture, and a range that is given holds" {
	run -0 --separate-stderr "$INFER" run "$S/bytes/model.onnx" --random
	[[ $stderr == *"img u8 [1,8,8,3]"*"random integers 0..255"*"flags u8 [64]"*"random integers 0..1,"* ]]
	run -0 --separate-stderr "$INFER" run "$S/bytes/model.onnx" --random 0..3
	[[ $stderr == *"img u8 [1,8,8,3]"*"random integers 0..3"* ]]
	run -0 --separate-stderr "$INFER" run "$S/bytes/model.onnx" --random img=0..1 --random flags=0..1
	[[ $stderr == *"img u8 [1,8,8,3]"*"random integers 0..1,"* ]]
}

@test "A missing model, and a file of options with another form, are told with what would do" {
	cd "$out"
	fails_with 3 "hint: the model there is cls.onnx" run nope.onnx --random
	fails_with 3 "hint: there is no folder nowhere/" run nowhere/cls.onnx --random
	mkdir empty
	fails_with 3 "hint: there is no .onnx file in that folder" run empty/cls.onnx --random
	for text in 'threads 4' 'threads=4' '- threads'; do
		echo "$text" >c.yaml
		fails_with 2 "hint: write an option a line, without dashes and with a colon: threads: 4" run cls.onnx --random --config c.yaml
	done
}

@test "No message names a file that an installation does not have" {
	cd "$BATS_TEST_DIRNAME/../.."
	# C sources and tables: what stands in quotes, without the folder's place in an installation before it
	run ! grep -rnE '"[^"]*[ (](docs|configs)/[a-z]' --include='*.c' --include='*.def' src onnx gpu \
		cmd/*.c cmd/*/*.def cmd/check cmd/inspect cmd/profile cmd/run cmd/output cmd/watch
}

# Runs the line that a hint ends with, as if it had been pasted.
paste_whole_line() { # WORD...
	run -2 "$INFER" "$@"
	[[ $output == *"; the whole line: infer "* ]] || { echo "$* : $output"; return 1; }
	local line=${output##*; the whole line: }
	PATH=$(dirname "$INFER"):$PATH run -0 bash -c "$line"
}

@test "Several words of other tools are answered by one line that runs when it is pasted" {
	cd "$out"
	paste_whole_line run cls.onnx cat.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --names names.txt --topk 2
	[[ $output == *"cat"* || $output == *"dog"* || $output == *"bird"* ]]
	[[ $output != *W-INPUT-RANGE* ]]
	paste_whole_line run cls.onnx "my cat.png" --topk 2
	paste_whole_line run cls.onnx --image 'my cat.png' --resize 8 --scale 1/255
	paste_whole_line run -m cls.onnx -d CPU
	paste_whole_line run --onnx=cls.onnx --loadInputs=x:cat.png
	paste_whole_line profile -m cls.onnx -d CPU -niter 3 -hint latency
	[[ $output == *"p50"* ]]
	paste_whole_line profile --onnx=cls.onnx --iterations=3 --avgRuns=10 --dumpProfile
	paste_whole_line profile cls.onnx -w 1 -r 3
	paste_whole_line benchmark_app -m cls.onnx -d CPU -niter 3
	paste_whole_line trtexec --onnx=cls.onnx --iterations=3
	paste_whole_line run --onnx=cls.onnx --minShapes=x:1x3x8x8 --optShapes=x:2x3x8x8 --maxShapes=x:4x3x8x8
	[[ $output == *"x f32 [2,3,8,8]"* ]]
	paste_whole_line run cls.onnx --input-shapes 'x:[2,3,8,8]' --providers CPUExecutionProvider
	paste_whole_line run -m cls.onnx -shape 'x[2,3,8,8]' -d CPU
	[[ $output == *"x f32 [2,3,8,8]"* ]]
	run -2 "$INFER" profile -I -m times -r 10 -e cpu cls.onnx
	[[ $output == *"the whole line: infer profile cls.onnx -n 10 -d cpu" ]]
	run -2 "$INFER" check cls.onnx --onnxrt --input-shape x:2,3,8,8
	[[ $output == *"the whole line: infer check cls.onnx --compare onnxruntime --shape x=2x3x8x8" ]]
	# a shape that belongs to no input by name, or is none
	run -2 "$INFER" run --onnx=cls.onnx --shapes=1x3x8x8 --iterations=3
	[[ $output != *"the whole line"* ]]
	# -t is a number of seconds for the tools that have -m
	run -2 "$INFER" profile -m cls.onnx -t 5 -api async
	[[ $output == *"the whole line: infer profile cls.onnx --duration 5s" ]]
	# a line with a word that cannot be carried over is not proposed
	run -2 "$INFER" profile -m cls.onnx -niter 3 --qps 5
	[[ $output != *"the whole line"* ]]
}

@test "Words of a first day are answered by the option that does it" {
	cd "$out"
	cp cls.onnx b.onnx
	answers_all 18 <<-'END'
		run cls.onnx cat.png -k 5 | print the K largest values by --top 5
		run cls.onnx cat.png --imagenet | --input cat.png,resize=224x224,scale=1/255,mean=0.485/0.456/0.406
		run cls.onnx cat.png --size 64 | --input cat.png,resize=64x64
		run cls.onnx cat.png --crop 64 | --input cat.png,resize=64x64
		run cls.onnx cat.png --bgr | --input cat.png,order=bgr
		run cls.onnx --random --max | --json -q | jq .outputs[0].max
		run cls.onnx --random --jq .outputs | --json -q | jq
		run cls.onnx --file cat.png | by --input cat.png
		profile cls.onnx -w 3 | --warmup 3
		profile cls.onnx -p prof.json | --trace prof.json
		profile cls.onnx -o 99 | --optimize none|basic|full
		profile cls.onnx --export-json t.json | --export t.json
		profile cls.onnx b.onnx --sort mean-time | --sort time
		inspect cls.onnx --dumpLayerInfo | by --nodes
		polygraphy inspect model cls.onnx | infer inspect cls.onnx shows a model
		hyperfine cls.onnx b.onnx | infer profile cls.onnx b.onnx says which is faster
		trtexec --onnx=cls.onnx | infer profile cls.onnx measures a model
		doctor cuda | infer doctor takes no operand
	END
}

@test "The first answer is enough: reading a line, nodes of a graph, several models for JUnit, a model behind its input" {
	run -2 --separate-stderr "$INFER" run classes.onnx --input line.png --ctc
	[[ $stderr == *"scale=1/255"*"--decode ctc --labels meta:character"* ]]
	run -2 --separate-stderr "$INFER" graph classes.onnx
	[[ $stderr == *"--nodes"*"--html"* ]]
	run -2 --separate-stderr "$INFER" check classes.onnx classes.onnx --junit ci.xml
	[[ $stderr == *"infer suite"*"--export FILE.xml"* ]]
	: >"$out/picture.png"
	run -2 --separate-stderr "$INFER" run "$out/picture.png" classes.onnx
	[[ $stderr == *"the model comes first: infer run classes.onnx $out/picture.png"* ]]
}

@test "A reference beside inputs that were made up: the first thing to doubt is the inputs" {
	"$INFER" run classes.onnx --random=0..1 --seed 3 -q -o "$out/ref"
	run -5 --separate-stderr "$INFER" check classes.onnx --expect "$out/ref"
	[[ $output == *"likely   other inputs: they were made up"* ]]
	run -5 --separate-stderr "$INFER" check classes.onnx --random=0..1 --seed 4 --expect "$out/ref"
	[[ $output != *"they were made up"* ]]
}

@test "doctor tells a configuration file that is wrong, and everything else" {
	mkdir -p "$out/infer" && echo 'bogus: 3' >"$out/infer/config.yaml"
	XDG_CONFIG_HOME=$out run -2 --separate-stderr "$INFER" doctor
	[[ $stderr == *"E-CONFIG"*"unknown option 'bogus'"* ]]
	[[ $output == *"cpu "*"memory"* ]]
}

@test "NaN on one side is told as NaN, not as a difference of 0 or a missing scale" {
	local metric
	for metric in maxabs cosine l2; do
		run "$INFER" check "$S/steps/model.onnx" "$S/steps/blanks.npy" --expect "y=$S/steps/nans.npy" --metric "$metric"
		[ "$status" -ne 0 ]
		[[ $output == *"metrics  NaN in 0 elements of the output and 6 of the reference alone"* ]] || { echo "$output"; return 1; }
		[[ $output == *"the reference is not finite"* && $output != *"max diff"* && $output != *"a scale is missing"* ]]
		run "$INFER" check "$S/steps/model.onnx" "$S/steps/blanks.npy" --expect "y=$S/steps/one_nan.npy" --metric "$metric"
		[[ $output == *"1 of the reference alone; of the others: max diff 0, cosine distance 0, l2 0"* ]]
	done
	run "$INFER" check "$S/steps/model.onnx" "$S/steps/nans.npy" --expect "y=$S/steps/blanks.npy"
	[[ $output == *"metrics  NaN in 6 elements of the output and 0 of the reference alone"* && $output == *"--nan finds the first node"* ]]
	[[ $output != *"a scale is missing"* ]]
}

# Writes an .npy file with this header and so many bytes of zeros.
npy_file() { # FILE DESCR SHAPE BYTES
	local head="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
	{
		printf '\x93NUMPY\x01\x00'
		# shellcheck disable=SC2059
		printf "\\x$(printf %x $((${#head} + 1)))\\x00"
		printf '%s\n' "$head"
		head -c "$4" /dev/zero
	} >"$1"
}

@test "Complex numbers are not read into an input of real ones, whatever dtype= says" {
	local key
	npy_file "$out/c8.npy" '<c8' '(1, 2, 3)' 48
	npy_file "$out/c16.npy" '<c16' '(1, 2, 3)' 96
	for key in c8.npy c8.npy,dtype=c64 c8.npy,dtype=f32 c8.npy,scale=2 c16.npy c16.npy,dtype=c128; do
		fails_with 4 "error[E-INPUT-TYPE]: input 'x' does not fit the model" run "$S/steps/model.onnx" "$out/$key"
		[[ $stderr == *"numpy.save(file, a.real)"* && $stderr != *"--input $out"* ]] || { echo "$key: $stderr"; return 1; }
	done
}

@test "What is wrong with an .npy file is said, and run and inspect say the same" {
	npy_file "$out/negative.npy" '<f4' '(1, -2, 3)' 24
	npy_file "$out/large.npy" '<f4' '(99999999999999999999,)' 24
	: >"$out/empty.npy"
	for command in "run $S/steps/model.onnx" inspect; do
		# shellcheck disable=SC2086
		fails_with 4 "negative.npy is no valid .npy file: its header cannot be read, as a dimension of its shape is negative: {" $command "$out/negative.npy"
		# shellcheck disable=SC2086
		fails_with 4 "as a dimension of its shape is too large" $command "$out/large.npy"
		# shellcheck disable=SC2086
		fails_with 4 "empty.npy: the file is empty: expected an .npy file, got 0 bytes" $command "$out/empty.npy"
	done
}

@test "An array with the right number of elements is told its shape, with free sizes, too" {
	fails_with 4 "as many elements in another shape" run "$S/steps/model.onnx" "$S/steps/flat.npy"
	[[ $stderr == *"--input $S/steps/flat.npy,shape=1x2x3"* ]]
	run -0 "$INFER" run "$S/steps/model.onnx" --input "$S/steps/flat.npy,shape=1x2x3"
}

@test "A value that begins with a bracket is JSON, and it is said where it breaks" {
	local text
	while IFS='|' read -r text message; do
		for command in run check; do
			run -4 "$INFER" $command two.onnx --input "a=$text"
			[[ $output == *"error[E-INPUT-FORMAT]: '$text': no JSON: $message"* ]] || { echo "$command $text: $output"; return 1; }
		done
	done <<-'END'
		[[1,2|a comma or a closing bracket is missing at byte 5
		[1,2|a comma or a closing bracket is missing at byte 4
		[1 2]|a comma or a closing bracket is missing at byte 3
		[[1,2]];|something stands behind its end at byte 7
	END
	# a pattern is one, and keys may stand behind the array
	fails_with 4 "[x]y.npy: no file matches this pattern" run two.onnx --input 'a=[x]y.npy'
	run -0 "$INFER" run two.onnx --input 'a=[[1,2,3,4]],dtype=f32' --input 'b=[[1,2,3,4]]'
}

@test "Bytes behind a model are told from a truncated one" {
	local size
	size=$(stat -c %s "$S/steps/model.onnx")
	{ cat "$S/steps/model.onnx"; printf junkjunkjunk; } >"$out/junk.onnx"
	fails_with 3 "error[E-MODEL-FORMAT]: $out/junk.onnx: byte $size: bytes that are no part of a model stand behind it: expected the end of the file, got 12 more bytes" \
		inspect "$out/junk.onnx"
	head -c $((size - 1)) "$S/steps/model.onnx" >"$out/cut.onnx"
	fails_with 3 "error[E-MODEL-TRUNCATED]" inspect "$out/cut.onnx"
}

@test "-o that cannot be a folder is refused in words about folders" {
	local ending
	cd "$out"
	fails_with 10 "the name of the folder is empty" run cls.onnx cat.png -o ''
	fails_with 10 "/dev/full: this is no folder, and a folder is wanted here" run cls.onnx cat.png -o /dev/full
	for ending in jpg jpeg gif bmp webp tiff JPG; do
		fails_with 2 "'b.$ending' looks like a file, but outputs are written to a folder" run cls.onnx cat.png --decode yolo -o "b.$ending"
		[[ $stderr == *"-o b.png draws the boxes"* && ! -e b.$ending ]]
	done
}

@test "Hints about files that begin with a dash, libraries and trtexec's inputs can be followed" {
	cd "$out"
	fails_with 2 "a file whose name begins with a dash is named ./-cat.png" run cls.onnx -cat.png
	cp cat.png ./-cat.png
	run -0 "$INFER" run cls.onnx --input ./-cat.png,resize=8x8
	fails_with 2 "--ops takes a library with operators, --ops LIBRARY.so; infer inspect cls.onnx names the operators" inspect cls.onnx --ops cls.onnx
	fails_with 2 "--input x=cat.png" run cls.onnx --loadInputs=x:cat.png
}

@test "Messages count their things and name a file once" {
	cd "$out"
	run -3 "$INFER" profile cls.onnx nosuch.onnx -n 3
	[[ $output == *"error[E-MODEL-OPEN]: nosuch.onnx: cannot open"* && $output != *"nosuch.onnx: nosuch.onnx"* ]]
	mkdir pics
	: >pics/a.npy
	run -4 "$INFER" run cls.onnx --input pics
	[[ $output == *"inputs   none was run"* && $output != *"on none"* ]]
}

# Runs the command that begins with "infer run" in the hint, up to a text that comes behind it.
paste_command() { # END WORD...
	local end=$1
	shift
	run -2 "$INFER" "$@"
	local line=${output##*hint: }
	[[ $line == infer\ *"$end"* ]] || { echo "$* : $output"; return 1; }
	PATH=$(dirname "$INFER"):$PATH run -0 bash -c "${line%%"$end"*}"
}

@test "Commands in hints have the files of the line, so that they can be pasted" {
	cd "$out"
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,h,w] x) => (float[1,3] y)
		{ p = GlobalAveragePool (x) y = Flatten (p) }' >any.onnxtxt
	"$INFER" convert any.onnxtxt cls.onnx
	cp cls.onnx b.onnx
	paste_command '; ' classify cls.onnx 'my cat.png'
	paste_command ' runs a model once' predict cls.onnx x:cat.png
	paste_command ' compares' compare cls.onnx b.onnx
	answers_all 7 <<-'END'
		ocr cls.onnx cat.png | infer run cls.onnx cat.png,scale=1/255,mean=0.5,std=0.5 --decode ctc --labels meta:character
		detect cls.onnx 'my cat.png' | infer run cls.onnx 'my cat.png',resize=letterbox:640x640,scale=1/255
		run cls.onnx --input x=cat.png,scale=1/255 --bgr | --input cat.png,order=bgr
		run cls.onnx cat.png --height 48 | --input cat.png,resize=x48
		run cls.onnx cat.png --expect names.txt | infer check cls.onnx cat.png --expect names.txt
		run cls.onnx --labels names.txt --expect names.txt | infer check cls.onnx FILE --expect names.txt
		diff cls.onnx b.onnx --rtol 1e-3 | infer check cls.onnx --compare b.onnx --rtol 1e-3
	END
}

@test "A height that the model fixes is told, and not multiples of a size that runs" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,h,w] x) => (float[1,3,n] y)
		{ p = AveragePool <kernel_shape = [48, 1], strides = [48, 1]> (x) a = Constant <value_ints = [2]> () y = Squeeze (p, a) }' >"$out/line.onnxtxt"
	fails_with 3 "it accepts, for example, x [1,3,48,63]: resize=x48" run "$out/line.onnxtxt" rgb.png,resize=42x32
	run -0 "$INFER" run "$out/line.onnxtxt" rgb.png,resize=x48
}

@test "Files of other programs are told by what they are, as inputs and as models" {
	local file
	cd "$out"
	mkdir t && printf 'x' >t/data.pkl && cp cls.onnx t/m.onnx
	printf '\0\0\0\x18ftypmp42%064d' 0 >film.mp4
	printf '\x80\x04\x95%064d' 0 >p.pkl
	fails_with 4 "film.mp4 is a film, no bare elements" run cls.onnx film.mp4
	[[ $stderr == *"ffmpeg -i film.mp4 frame%d.png"* ]]
	fails_with 4 "p.pkl is a Python pickle" run cls.onnx p.pkl
	fails_with 2 "the file to write is named by -o 'my out.onnx'" simplify cls.onnx 'my out.onnx'
	need_python
	python3 -c 'import zipfile as z
z.ZipFile("t.pt", "w").write("t/data.pkl"); z.ZipFile("m.zip", "w").write("t/m.onnx")'
	fails_with 4 "t.pt is an archive of PyTorch, and no .npz file" run cls.onnx t.pt
	[[ $stderr == *"torch.load('t.pt').numpy()"* ]]
	fails_with 3 "hint: this is a zip archive with an ONNX model: unpack it first" run m.zip --random
}

@test "Several models in one line, a node behind a model, and what a look at the model for a warning costs" {
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,8,8] x) => (float[1,1,8,8] y) <float[1,3,1,1] w = {1, 2, 3}>
		{ one = Constant <value_float = 1.0> () c = Conv (x, w) y = Mul (c, one) }' >"$out/conv.onnxtxt"
	cp pic.onnx rgb.png "$out"
	cd "$out"
	"$INFER" convert conv.onnxtxt conv.onnx
	fails_with 2 "hint: infer inspect conv.onnx && infer inspect pic.onnx" inspect conv.onnx pic.onnx
	fails_with 2 "--from and --to name the tensors or nodes between which to cut: --to /conv2" extract conv.onnx /conv2 -o part.onnx
	run -0 "$INFER" simplify conv.onnx -o s.onnx
	[[ $output == *"1 node of 2, 1 initializer"* ]]
	run -0 --separate-stderr "$INFER" check conv.onnx --precision bf16
	[[ $stderr$output != *W-MODEL-OPSET* ]]
	need_python
	run -0 --separate-stderr "$INFER" run conv.onnx rgb.png,resize=8x8,scale=1/255 --json
	local quiet=$output
	run -0 --separate-stderr "$INFER" run conv.onnx rgb.png,resize=8x8 --json
	python3 -c 'import json, sys
one, other = (json.loads(a)["memory"]["host"]["model"]["calls"] for a in sys.argv[1:])
assert one == other, (one, other)' "$quiet" "$output"
	[[ $output == *W-INPUT-RANGE* ]]
}
