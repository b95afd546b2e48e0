#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What somebody types who does not know infer yet, or knows another tool: each answer names what to write.

load helper

setup() {
	in_test_data
	unset INFER_DEVICE
}

# answers HINT WORD...: exit status 2, and the hint
answers() {
	local hint
	hint=$(with_model "$@")
	shift
	run "$INFER" "$@"
	[ "$status" -eq 2 ] && [[ $output == *"hint: "*"$hint"* ]] || {
		echo "infer $*: status $status, expected 2 and: $hint"
		echo "$output"
		return 1
	}
}

@test "A file after the model is its input" {
	run "$INFER" run pic.onnx rgb.png -q --print 3
	[ "$status" -eq 0 ]
	given=$output
	run "$INFER" run pic.onnx --input rgb.png -q --print 3
	[ "$output" = "$given" ]
	answers "a file after the model is its input, but there is no such file" run pic.onnx nothere.png
	answers "for many pictures a pattern in quotes or a list" run pic.onnx rgb.png rgb.jpg
}

@test "mean and std may be separated by commas" {
	run "$INFER" run pic.onnx --input rgb.png,mean=0.5/0.25/0.125,std=1/2/4,dtype=u8 -q --print 0
	[ "$status" -eq 0 ]
	slashes=$output
	run "$INFER" run pic.onnx --input rgb.png,mean=0.5,0.25,0.125,std=1,2,4,dtype=u8 -q --print 0
	[ "$status" -eq 0 ] && [ "$output" = "$slashes" ]
	run "$INFER" run pic.onnx --input rgb.png,mean=0.5,quick -q
	[ "$status" -ne 0 ] && [[ $output == *"'quick' is not KEY=VALUE"* ]]
}

@test "A model in place of the subcommand" {
	answers "infer run pic.onnx runs it, infer inspect pic.onnx shows what it wants as inputs" pic.onnx
	answers "infer profile MODEL" benchmark pic.onnx
	answers "infer run MODEL" predict pic.onnx
	answers "infer check MODEL" validate pic.onnx
	answers "infer inspect MODEL" show pic.onnx
	answers "--version" -V
}

@test "A missing baseline can be saved, not forced" {
	run "$INFER" profile pic.onnx --baseline nothere.json
	[ "$status" -eq 2 ]
	[[ $output == *"--save-baseline nothere.json"* && $output != *"--force"* ]]
}

@test "Devices as other tools name them" {
	answers "did you mean 'cuda:0'?" run pic.onnx --device=0
	answers "did you mean 'cpu'?" run pic.onnx -d CPU
	answers "did you mean 'cuda'?" run pic.onnx -d GPU
	answers "did you mean 'cuda'?" run pic.onnx -d gpu:0
	answers "-d cuda" run pic.onnx --gpu
	answers "-d cpu or -d cuda:N" run pic.onnx --providers CUDAExecutionProvider
}

@test "Options of trtexec" {
	answers "infer profile pic.onnx" profile --onnx=pic.onnx
	answers "--shape NAME=" profile pic.onnx --shapes=x:1x3x8x8
	answers "--shape NAME=" profile pic.onnx --minShapes=x:1x3x8x8
	answers "--warmup" profile pic.onnx --warmUp=200
	answers "--precision fp16" profile pic.onnx --fp16
	answers "--precision fp16" profile pic.onnx --best
	answers "--input x=f" profile pic.onnx --loadInputs=x:f
	answers "--export f" profile pic.onnx --exportTimes=f
	answers "--nodes" profile pic.onnx --dumpProfile
	answers "--cuda-graph off" profile pic.onnx --useCudaGraph
	answers "--transfers exclude" profile pic.onnx --noDataTransfers
	answers "--cache DIR" profile pic.onnx --saveEngine=f
	answers "-n 10" profile pic.onnx --avgRuns=10
	answers "--streams 2" profile pic.onnx --infStreams=2
}

@test "Options of polygraphy" {
	answers "-d cpu" run pic.onnx --trt
	answers "--shape NAME=" run pic.onnx --input-shapes x:[1,3,8,8]
	answers "--random LO..HI" run pic.onnx --val-range [0,1]
	answers "-o DIR" run pic.onnx --save-outputs f
	answers "--expect FILE" check pic.onnx --load-outputs f
	answers "--rtol" check pic.onnx --check-error-stats max
	answers "--nodes" inspect pic.onnx --show layers
}

@test "Options of benchmark_app" {
	answers "infer profile pic.onnx" profile -m pic.onnx
	answers "-n 100" profile pic.onnx -niter 100
	answers "--sessions 4" profile pic.onnx -nireq 4
	answers "--streams 2" profile pic.onnx -nstreams 2
	answers "-t 4" profile pic.onnx -nthreads 4
	answers "--sessions N" profile pic.onnx -hint throughput
	answers "--dim NAME=4" profile pic.onnx -b 4
	answers "--shape NAME=" profile pic.onnx -shape [1,3,8,8]
	answers "--nodes" profile pic.onnx -pc
	answers "--precision" profile pic.onnx -infer_precision f16
}

@test "Options of onnxruntime_perf_test and hyperfine" {
	answers "-d cpu or -d cuda:N" profile pic.onnx -e cuda
	answers "-n 100" profile pic.onnx -r 100
	answers "-t 4" profile pic.onnx -x 4
	answers "--sessions 2" profile pic.onnx -c 2
	answers "--trace f" profile pic.onnx -p f
	answers "--optimize none|basic|full" profile pic.onnx -o 99
	answers "--dim NAME=N" profile pic.onnx -f batch:4
	answers "-n 5" profile pic.onnx --runs 5
	answers "--warmup" profile pic.onnx -w 3
	answers "--export f" profile pic.onnx --export-json f
	answers "--export f" profile pic.onnx --export-markdown f
	answers "-n 3" profile pic.onnx --min-runs 3
}

@test "Hints of what was tried first: other operators, ranges of sizes, references of another shape, values and reports" {
	echo '<ir_version: 8, opset_import: ["" : 17, "my.domain" : 1]> g (float[n,4] x) => (float[n,4] y) { y = my.domain.Foo (x) }' >"$out/odd.onnxtxt"
	run -3 "$INFER" inspect "$out/odd.onnxtxt"
	[[ $output == *"my.domain::Foo-1"*"try "*"--ops LIBRARY.so"*"infer/op.h"* ]]
	answers "write -n, with one dash, or --iterations" profile batch.onnx --n 20
	answers "write -t, with one dash, or --threads" run batch.onnx --t 4
	answers "write JUnit's XML by --export FILE.xml" suite batch.onnx --output
	run -4 "$INFER" profile batch.onnx --dim batch=1..8
	[[ $output == *"wrong size"*"--shapes-sweep batch=1..8"* ]]
	run -4 "$INFER" run batch.onnx --dim batch=four
	[[ $output == *"wrong size"* && $output != *"--shapes-sweep"* ]]
	run -0 "$INFER" run batch.onnx --random --dim batch=2 -q -o "$out/y"
	for file in "$out"/y/*.npy; do break; done
	run -4 "$INFER" check batch.onnx --dim batch=3 --expect "$file"
	[[ $output == *"the reference does not fit output '"*"; nothing was compared"*"the output is  "*"a reference that was made from the same inputs"* ]]
	[[ $output != *"input '"*"does not fit the model"* ]]
	run -4 "$INFER" run pic.onnx --input images=abc
	[[ $output == *"abc: cannot open"*"a value in place of a file is a number or JSON"* ]]
	run -2 "$INFER" merge pic.onnx
	[[ $output == *"pic.onnx is a model, and no report"*"--shard I/N --report FILE.json"* ]]
}

@test "Many pictures without a scale, and a model from standard input, are doubted once" {
	cat >"$out/c.onnxtxt" <<-'END'
		<ir_version: 8, opset_import: ["" : 17]> g (float[n,3,16,24] x) => (float[n,3] y)
		  <float[3] one = {1, 1, 1}, float[3] mean = {0.1, 0.2, 0.1}, float[3] var = {0.2, 0.3, 0.2}> {
		  b = BatchNormalization (x, one, one, mean, var)
		  p = GlobalAveragePool (b)
		  y = Flatten (p)
		}
	END
	"$INFER" convert "$out/c.onnxtxt" "$out/c.onnx"
	mkdir "$out/pics"
	cp rgb.png "$out/pics/1.png"
	cp rgb.png "$out/pics/2.png"
	run -0 "$INFER" run "$out/c.onnx" rgb.png,resize=24x16 --top 1
	[[ $output == *"W-INPUT-RANGE"* ]]
	run -0 "$INFER" run "$out/c.onnx" "$out/pics,resize=24x16" --top 1
	[ "$(grep -c W-INPUT-RANGE <<<"$output")" -eq 1 ]
	run -0 "$INFER" run - rgb.png,resize=24x16 --top 1 <"$out/c.onnx"
	[[ $output == *"W-INPUT-RANGE"* ]]
	run -0 "$INFER" run "$out/c.onnx" "$out/pics,resize=24x16,scale=1/255" --top 1
	[[ $output != *"W-INPUT-RANGE"* ]]
}

@test "A batch of one file, ImageNet's mean without a scale, and a raw picture for a model of Ultralytics" {
	run -4 "$INFER" run batch.onnx --input images=rgb.png --dim batch=4
	[[ $output == *"try "*"one file is one row of a batch"*"--batch 4 stacks 4 files"* ]]
	run -0 "$INFER" run batch.onnx --input images=rgb.png --batch 4
	[[ $output == *"note[N-BATCH]: --batch 4 stacks so many inputs, and there is only 1"* ]]
	[[ $output == *"1 input in "*", 1 input a run"* ]]
	run -0 "$INFER" run pic.onnx rgb.png,mean=0.485/0.456/0.406,std=0.229/0.224/0.225
	[[ $output == *"W-INPUT-RANGE"*"the mean and the deviation look like those of values from 0 to 1"*"add scale=1/255"* ]]
	for keys in scale=1/255,mean=0.485/0.456/0.406,std=0.229/0.224/0.225 mean=123/116/103,std=58/57/57; do
		run -0 "$INFER" run pic.onnx "rgb.png,$keys"
		[[ $output != *"W-INPUT-RANGE"* ]]
	done
	run -0 "$INFER" run pic.onnx rgb.png,mean=0.485,0.456,0.406
	[[ $output == *"W-INPUT-RANGE"*"values from 0 to 1, but the pixels reach 255"* ]]
	run -0 "$INFER" run pic.onnx rgb.png,scale=255
	[[ $output == *"W-INPUT-RANGE"*"the scale makes the largest pixel 65025"* ]]
	run -0 "$INFER" run pic.onnx rgb.png,scale=1/255,mean=123.675/116.28/103.53,std=58.395/57.12/57.375
	[[ $output == *"W-INPUT-RANGE"*"those of pixels from 0 to 255, but scale= makes the largest 1"*"leave scale= out"* ]]
	echo '<ir_version: 8, opset_import: ["" : 17], metadata_props: ["author": "Ultralytics"]> g (float[1,3,16,24] x) => (float[1,3,16,24] y) { y = Relu (x) }' >"$out/u.onnxtxt"
	"$INFER" convert "$out/u.onnxtxt" "$out/u.onnx"
	run -0 "$INFER" run "$out/u.onnx" rgb.png,resize=24x16 --top 1 -q
	[[ $output != *"Ultralytics"* ]]
	run -0 "$INFER" run "$out/u.onnx" rgb.png,resize=24x16 --top 1
	[[ $output == *"W-INPUT-RANGE"*"Ultralytics made it"*"scale=1/255"* ]]
}
