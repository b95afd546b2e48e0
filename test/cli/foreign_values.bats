#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# More words of other tools: those of onnxsim and netron, values that our options do not take, and operands in place of options.

load helper

setup() {
	in_test_data
}

@test "Words of trtexec and polygraphy whose hints named another thing" {
	answers_all 18 <<'END'
profile pic.onnx --warmUp=200 | --warmup 200ms
profile pic.onnx --weightless | there is no engine to build
profile pic.onnx --useRuntime=lean | there is no engine to build
profile pic.onnx --setOptProfile=1 | needs no optimization profile
profile pic.onnx --maxAuxStreams=2 | --streams 2
--onnx=pic.onnx --fp16 | infer profile pic.onnx
--loadEngine=model.plan | the model is an operand
run pic.onnx --onnxrt | infer check MODEL --compare onnxruntime
run pic.onnx --save-inputs i.json | --seed
run pic.onnx --model-type onnx | the model is an operand
check pic.onnx --no-shape-inference | infer inspect MODEL --nodes
inspect model pic.onnx | infer inspect pic.onnx
run onnx pic.onnx | infer run pic.onnx
inspect pic.onnx --mode full | --weights
surgeon sanitize pic.onnx | infer simplify MODEL -o OUT
debug reduce pic.onnx | --bisect -o DIR
compare pic.onnx pic.onnx | infer diff pic.onnx pic.onnx
extract pic.onnx -i x -o y.onnx | --from x
END
}

@test "Words of onnxsim, onnxslim and netron" {
	answers_all 21 <<'END'
onnxsim pic.onnx out.onnx | infer simplify MODEL -o OUT
onnxslim pic.onnx out.onnx | infer simplify MODEL -o OUT
run pic.onnx --overwrite-input-shape x:1,3,16,24 | --shape NAME=
run pic.onnx --test-input-shape x:1,3,16,24 | --shape NAME=
run pic.onnx --skip-optimization | --optimize
inspect pic.onnx --skip-constant-folding | --optimize
run pic.onnx --skip-fuse-bn | --optimize
run pic.onnx --include-subgraph | --stage opt
run pic.onnx --unused-output y | --stage opt
run pic.onnx --no-large-tensor | --stage opt
check pic.onnx --check-n 3 | infer check A --compare B.onnx
run pic.onnx --custom-lib a.so | --ops a.so
open pic.onnx | infer inspect
browse pic.onnx | infer inspect
inspect pic.onnx --browse | --html FILE
inspect pic.onnx --port 8080 | --html FILE
inspect pic.onnx --host 0.0.0.0 | --html FILE
inspect pic.onnx -b | --html FILE
inspect pic.onnx --png m.png | --dot
inspect pic.onnx --find relu | grep -A4 relu
inspect pic.onnx --metadata | shows the metadata
inspect pic.onnx --layers | --nodes
END
}

@test "Words that a subcommand has otherwise than the others" {
	answers_all 14 <<'END'
profile pic.onnx -no_warmup | --warmup 0
profile pic.onnx -m times -r 100 | --duration
profile pic.onnx -m 10 -M 20 | -n N
profile pic.onnx -N | measures a model and not a command
check pic.onnx --checks nan | --nan
check pic.onnx --only nan | --nan
check pic.onnx --skip leak | --nan
convert pic.onnx --text | --form text
convert pic.onnx -o m.engine | infer writes models as ONNX only
extract pic.onnx --nodes 3 -o a.onnx | --from FIRST --to LAST
diff pic.onnx pic.onnx --summary | the exit status says
diff pic.onnx pic.onnx --weights | --ignore KIND
suite pic.onnx --junit out.xml | --export out.xml,
run pic.onnx --softmax | --top K
END
}

@test "Values of other tools that our options do not take" {
	answers_all 18 <<'END'
profile pic.onnx --precision float16 | --precision fp16
profile pic.onnx --precision FP16 | --precision fp16
profile pic.onnx --precision half | --precision fp16
profile pic.onnx --precision int8 | runs quantized models as they are
profile pic.onnx --precision float32 | --precision fp32
profile pic.onnx --optimize all | --optimize full is the default
profile pic.onnx --optimize 99 | --optimize full is the default
profile pic.onnx --optimize O0 | --optimize none
profile pic.onnx --color no | --color never
run pic.onnx --save-format numpy | --save-format npy
run pic.onnx --save-format csv | --print 0
profile pic.onnx --sort name | --sort order
profile pic.onnx --transfers none | --transfers exclude
convert pic.onnx out.txt --form onnxtxt | --form text
check pic.onnx --compare ort | 'onnxruntime'
check pic.onnx --compare onnxrt | 'onnxruntime'
run pic.onnx rgb.png --decode yolov8 | yolo
run pic.onnx rgb.png --decode softmax | --top K
END
}

@test "Operands that are keys, options of Ultralytics, or one file too many" {
	answers_all 6 <<'END'
run pic.onnx rgb.png resize=24x16 | --input rgb.png,resize=24x16
run pic.onnx --input rgb.png resize=24x16 | --input rgb.png,resize=24x16
run pic.onnx source=rgb.png imgsz=224 | --input rgb.png
run pic.onnx rgb.png conf=0.25 | yolo:score=0.25
run pic.onnx rgb.png rgb.png | --input NAME=FILE for each
check pic.onnx rgb.png rgb.png | --input NAME=FILE for each
END
	run -2 "$INFER" run pic.onnx rgb.png rgb.png
	[[ $output == *"unexpected operand 'rgb.png'"* ]]
	run -2 "$INFER" run pic.onnx rgb.png other
	[[ $output == *"unexpected operand 'other'"* ]]
	run -2 "$INFER" inspect model pic.onnx
	[[ $output == *"unexpected operand 'model'"* ]]
}

@test "Words of perf_analyzer, tvmc and TensorFlow Lite's benchmark_model" {
	answers_all 24 <<'END'
profile pic.onnx --concurrency-range 1:4 | --sessions 1,2,4
profile pic.onnx --request-rate-range 10:20 | infer has no rate of requests
profile pic.onnx --measurement-interval 5000 | --duration TIME
profile pic.onnx --request-count 100 | -n 100
profile pic.onnx --stability-percentage 10 | not steady
profile pic.onnx --max-trials 3 | not steady
profile pic.onnx --latency-threshold 5 | not steady
profile pic.onnx --input-data zero | --random 0..0
profile pic.onnx --latency-report-file a.csv | --export a.csv
profile pic.onnx --profile-export-file a.json | --export a.json
run pic.onnx --print-time | infer profile MODEL
run pic.onnx --print-top 5 | --top 5
run pic.onnx --print-metadata | shows the metadata
run pic.onnx --fill-mode zeros | --random 0..0
profile pic.onnx --end-to-end | --transfers split
run pic.onnx --target llvm | -d cpu or -d cuda:N
run pic.onnx --hardware gpu | -d cpu or -d cuda:N
profile pic.onnx --report-peak-memory-footprint | shows the memory of each phase anyway
profile pic.onnx --max-secs=10 | --duration TIME
profile pic.onnx --use-fp16 | --precision fp16
profile pic.onnx --enable_fp16 | --precision fp16
run pic.onnx --allow-fp16 | --precision fp16
profile pic.onnx --use-xnnpack | infer doctor lists the libraries
profile pic.onnx --enable-trace t.json | did you mean '--trace'?
run pic.onnx --input-layer-shape=1,3,16,24 | --shape NAME=
END
}

@test "Words that somebody guesses" {
	answers_all 30 <<'END'
run pic.onnx --zeros | --random 0..0
run pic.onnx --ones | --random 1..1
run pic.onnx --dummy-input | --random fills the inputs
run pic.onnx --input-dir pics | --input FOLDER
run pic.onnx --folder pics | --input FOLDER
run pic.onnx --list list.txt | --input @LIST
run pic.onnx --output-path out | -o DIR
run pic.onnx --json-out o.json | --json > o.json
run pic.onnx --csv o.csv | --jsonl FILE
run pic.onnx --no-print | -q
run pic.onnx --dry-run | infer check MODEL
run pic.onnx --output out.npy | -o DIR
check pic.onnx --output r.html | --export r.html
check pic.onnx --full | --all
check pic.onnx --quick | --all
check pic.onnx --inf | --nan
check pic.onnx --memory | --leak
diff pic.onnx pic.onnx --output d.html | --html d.html
selftest --device cpu | tests all devices
selftest --gpu | tests all devices
doctor --check | infer selftest
doctor pic.onnx | infer check pic.onnx
cache list | did you mean 'ls'?
cache rm | did you mean 'clear'?
cache clean | did you mean 'clear'?
extract pic.onnx out.onnx | -o out.onnx
extract pic.onnx --output-path a.onnx | name the file to write by -o FILE
convert pic.onnx --output-path a.txt | -o a.txt
inspect pic.onnx --show-nodes | did you mean '--nodes'?
profile pic.onnx --shape-infer | inferred anyway
run pic.onnx -o out.csv | --print 0
END
}
