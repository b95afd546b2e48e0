#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Command lines of trtexec, polygraphy, benchmark_app, onnxruntime_perf_test and hyperfine, as their documentation has them, and
# misspelt ones of our own: each is refused, with a hint that names what does it here.

load helper

setup() {
	in_test_data
}

@test "Command lines of trtexec" {
	answers_all 20 <<'END'
profile --onnx=pic.onnx | infer profile pic.onnx
profile --loadEngine=model.plan | MODEL
profile pic.onnx --minShapes=x:1x3x224x224 --optShapes=x:4x3x224x224 --maxShapes=x:16x3x224x224 | --shape
profile pic.onnx --shapes=images:1x3x16x24 | --shape
profile pic.onnx --inputIOFormats=fp16:chw | layout=
profile pic.onnx --loadInputs=images:x.bin | --input
profile pic.onnx --memPoolSize=workspace:1024MiB | --memory-limit
profile pic.onnx --saveEngine=model.plan | --cache
profile pic.onnx --fp16 | --precision fp16
profile pic.onnx --noTF32 | --precision fp32
profile pic.onnx --best | --precision
profile pic.onnx --builderOptimizationLevel=5 | --optimize
profile pic.onnx --timingCacheFile=cache | --cache
profile pic.onnx --warmUp=500 | --warmup
profile pic.onnx --avgRuns=100 | -n 100
profile pic.onnx --infStreams=2 | --streams
profile pic.onnx --noDataTransfers | --transfers exclude
profile pic.onnx --useCudaGraph | --cuda-graph
profile pic.onnx --dumpProfile --separateProfileRun | --nodes
profile pic.onnx --dumpOutput | --print
profile pic.onnx --exportOutput=out.json | -o DIR
profile pic.onnx --exportTimes=times.json | --export
profile pic.onnx --device=0 | cuda:0
profile pic.onnx --plugins=libp.so | --ops libp.so
profile pic.onnx --useDLACore=0 --allowGPUFallback | -d cuda:N
profile pic.onnx --dumpRawBindingsToFile | -o DIR
END
}

@test "Command lines of polygraphy" {
	answers_all 12 <<'END'
run pic.onnx --trt --onnxrt | -d cpu
run pic.onnx --val-range [0,1] --onnxrt | --random LO..HI
run pic.onnx --input-shapes images:[1,3,16,24] | --shape
run pic.onnx --trt-min-shapes images:[1,3,16,24] | --shape
run pic.onnx --load-inputs inputs.json | --input
run pic.onnx --save-outputs golden.json | -o DIR
run pic.onnx --load-outputs golden.json | --expect
check pic.onnx --abs 1e-3 --rel 1e-3 | --rtol
check pic.onnx --check-error-stat max | --rtol
run pic.onnx --trt-outputs mark all | --output NAME
run pic.onnx --iterations 5 | infer profile
run pic.onnx --warm-up 5 | --warmup
run pic.onnx --data-loader-script loader.py | --input
run pic.onnx --validate | infer check pic.onnx --nan
run pic.onnx rgb.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 | --input rgb.png,scale=1/255,mean=0.485,0.456,0.406,std=0.229,0.224,0.225
run pic.onnx rgb.png --scale 1/255 --mean 0.485,0.456,0.406 | --input rgb.png,scale=1/255,mean=0.485,0.456,0.406
run pic.onnx rgb.png --resize 224 | --input rgb.png,resize=224x224
run pic.onnx --normalize imagenet | scale=1/255,mean=0.485/0.456/0.406
profile pic.onnx --export-html p.html | --html p.html
ocr pic.onnx p.png | scale=1/255
detect pic.onnx p.png | scale=1/255
run pic.onnx --pool-limit workspace:1G | --memory-limit
inspect pic.onnx --show layers attrs weights | --nodes
surgeon extract pic.onnx | infer extract MODEL
END
}

@test "Command lines of benchmark_app" {
	answers_all 16 <<'END'
profile -m pic.onnx -d CPU | infer profile pic.onnx
profile pic.onnx -i rgb.png | --input
profile pic.onnx -d GPU | 'cuda'
profile pic.onnx -hint throughput | --sessions
profile pic.onnx -hint latency | --sessions
profile pic.onnx -api async | --sessions
profile pic.onnx -niter 100 | -n 100
profile pic.onnx -nireq 4 | --sessions
profile pic.onnx -nstreams 2 | --streams
profile pic.onnx -nthreads 4 | -t 4
profile pic.onnx -b 8 | --dim NAME=8
profile pic.onnx -shape [1,3,16,24] | --shape
profile pic.onnx -data_shape [1,3,16,24] | --shape
profile pic.onnx -layout NCHW | layout=
profile pic.onnx -infer_precision f16 | --precision
profile pic.onnx -ip u8 | dtype=
profile pic.onnx -pc -pcsort sort | --nodes
profile pic.onnx -report_type detailed_counters | --export
profile pic.onnx -json_stats | --export
profile pic.onnx -latency_percentile 99 | --percentile
profile pic.onnx -cdir cache | --cache
profile pic.onnx -no_warmup | --warmup
profile pic.onnx -inference_only | --transfers
profile pic.onnx -load_config c.json | --config
profile pic.onnx -imean [123,117,104] | mean=
END
}

@test "Command lines of onnxruntime_perf_test" {
	answers_all 12 <<'END'
profile -e cuda -r 100 pic.onnx | -d cpu or -d cuda:N
profile -m times -r 100 pic.onnx | MODEL
profile -I pic.onnx | --random
profile -r 100 pic.onnx | -n 100
profile -x 4 -y 1 pic.onnx | -t 4
profile -c 2 pic.onnx | --sessions
profile -p trace pic.onnx | --trace
profile -o 99 pic.onnx | --optimize
profile -f n:4 pic.onnx | --dim NAME=N
profile -F DATA_BATCH:4 pic.onnx | --dim NAME=N
profile -s pic.onnx | --percentile
profile -S 1 pic.onnx | --seed
profile -A pic.onnx | --arena off
profile -M pic.onnx | --memory-plan off
profile -P pic.onnx | -t N
profile -R custom.so pic.onnx | --ops custom.so
END
}

@test "Command lines of hyperfine" {
	answers_all 10 <<'END'
profile pic.onnx --runs 10 | -n 10
profile pic.onnx --min-runs 10 --max-runs 20 | -n 10
profile pic.onnx -r 10 | -n 10
profile pic.onnx -w 3 | --warmup
profile pic.onnx --export-json out.json | --export
profile pic.onnx --export-markdown out.md | --export
profile pic.onnx --export-csv out.csv | --export
profile pic.onnx --export-asciidoc out.adoc | --export
profile pic.onnx --parameter-scan threads 1 4 | --shapes-sweep
profile pic.onnx -L threads 1,2,4 | --shapes-sweep
profile pic.onnx --prepare 'sync' | --warmup
profile pic.onnx --ignore-failure | man infer
profile pic.onnx --show-output | infer run MODEL --print N
profile pic.onnx --style none | -q
hyperfine pic.onnx | infer profile MODEL
END
}

@test "Fifty more command lines, written down from the tools' documentation before the table had them" {
	answers_all 50 <<'END'
profile pic.onnx --minShapes=x:1x4 | --shape NAME=
profile pic.onnx --memPoolSize=workspace:4096 | --memory-limit
profile pic.onnx --exportTimes=t.json | --export t.json
profile pic.onnx --dumpLayerInfo | --nodes
run pic.onnx --dumpOutput | --print N
run pic.onnx --loadInputs=x:x.bin | --input x=x.bin
profile pic.onnx --sleepTime=10 | infer has no pause between runs
profile pic.onnx --idleTime=5 | infer has no pause between runs
run pic.onnx --layerPrecisions=conv1:fp16 | --precision
run pic.onnx --staticPlugins=x.so | --ops x.so
check pic.onnx --onnxrt | --compare onnxruntime
check pic.onnx --check-error-stat median | --rtol
check pic.onnx --load-outputs ref.json | --expect FILE
check pic.onnx --fail-fast | the exit status is the lowest one
convert pic.onnx --fp-to-fp16 | infer run MODEL --precision fp16
run pic.onnx --onnx-outputs mark all | --output NAME
run pic.onnx --data-loader-script gen.py | --input FILE,
profile pic.onnx -hint latency | --sessions
profile pic.onnx -nireq 4 | --sessions 4
profile pic.onnx -pcseq | --nodes
profile pic.onnx -exec_graph_path g.xml | --nodes
profile pic.onnx -I | --random LO..HI
profile pic.onnx -e cuda | -d cuda:N
profile pic.onnx -g | --transfers exclude
profile pic.onnx -X | --ops LIBRARY.so
profile pic.onnx -z | has no option for it
profile pic.onnx -C key=value | --config FILE
profile pic.onnx --parameter-scan batch 1 8 | --shapes-sweep
profile pic.onnx --export-markdown x.md | --export x.md
profile pic.onnx --time-unit millisecond | --export FILE.csv
profile pic.onnx --prepare sync | --warmup
profile pic.onnx --reference-name main | infer profile A.onnx B.onnx
run pic.onnx --source bus.jpg | --input bus.jpg
run pic.onnx --save-txt | --decode yolo
run pic.onnx --half | --precision fp16
run pic.onnx --max-det 100 | --decode yolo:score=
run pic.onnx --agnostic-nms | --decode yolo:iou=
run pic.onnx --n-gpu-layers 32 | -d cuda
run pic.onnx -ngl 99 | -d cuda
profile pic.onnx --repetitions 5 | -n 5
run pic.onnx --ctx-size 4096 | --memory-limit
run pic.onnx --n-predict 64 | --steps 64
run pic.onnx --top-p 0.9 | --next IN=sample:OUT
run pic.onnx --execution_provider cuda | -d cpu or -d cuda:N
run pic.onnx --max_length 100 | --steps 100
profile pic.onnx --prompt_length 128 | --prefill 128
check pic.onnx --tolerence 1e-3 | --rtol
run pic.onnx --tempreature 0.5 | temperature=0.5
profile pic.onnx --exprot x.html | --export
predict pic.onnx | infer run MODEL
perf pic.onnx | infer profile MODEL
export pic.onnx | infer convert MODEL
surgeon pic.onnx | infer extract MODEL
END
}

@test "Command lines of onnxsim, onnxslim and polygraphy surgeon sanitize" {
	answers_all 12 <<'END'
onnxsim pic.onnx out.onnx | infer simplify MODEL
onnxslim pic.onnx out.onnx | infer simplify MODEL
sanitize pic.onnx --fold-constants | infer simplify MODEL
surgeon sanitize pic.onnx --fold-constants | infer simplify MODEL
simplfy pic.onnx | 'simplify'
optimize pic.onnx | infer simplify MODEL
simplify pic.onnx --overwrite-input-shape images:1,3,16,24 | --shape
simplify pic.onnx --fold-constants | folds constants
simplify pic.onnx --skip-fuse-bn | fuses nothing
simplify pic.onnx --save-external-data w.bin | --external w.bin
simplify pic.onnx --weight-strip | --strip-weights
run pic.onnx --save-optimized-model out.onnx | infer simplify MODEL
END
}

@test "Words that mean another thing behind each subcommand, and the user's value in the hint" {
	answers_all 60 <<'END'
run pic.onnx --conf-thres 0.3 | --decode yolo:score=0.3
run pic.onnx --conf 0.5 | --decode yolo:score=0.5
run pic.onnx --conf high | --decode yolo:score=S
run pic.onnx --iou-thres=0.4 | --decode yolo:iou=0.4
run pic.onnx --imgsz 640 | resize=letterbox:640x640
run pic.onnx --boxes | --decode yolo --labels meta:names -o boxes.png
run pic.onnx --names n.txt | --labels n.txt
run pic.onnx --classes 0 | --labels FILE
run pic.onnx --ctc | --decode ctc
run pic.onnx --num-batches 4 | -n 4
run pic.onnx --set a=b | --config FILE
run pic.onnx --optimization all | --optimize
run pic.onnx --log-severity 1 | -vv
run pic.onnx --profiling | --trace FILE
run pic.onnx --prompt hello | --input input_ids=PROMPT.npy
run pic.onnx --tokenizer t.json | infer has no tokenizer
run pic.onnx --int-min 0 | --random LO..HI
run pic.onnx --trt-config-file x | does not use TensorRT
run pic.onnx --data x.npy | --input x.npy
run pic.onnx --memory | it belongs to infer inspect
profile pic.onnx --memory | infer inspect MODEL --memory
profile pic.onnx --min-benchmarking-time 5 | --duration
profile pic.onnx --plot | --export FILE.html
profile pic.onnx --flamegraph | --trace FILE
profile pic.onnx --vs b.onnx | infer profile A.onnx B.onnx
profile pic.onnx --compare cpu,cuda | --compare-device
profile pic.onnx --max-slowdown 5 | --fail-above 5%
profile pic.onnx --cold | --warmup 0
profile pic.onnx --affinity 0-3 | taskset
profile pic.onnx --nnuma 1 | numactl
profile pic.onnx --power | --fail-above-energy
profile pic.onnx --top-k 5 | --nodes --top 5
run pic.onnx --top-k 5 | --top 5
profile pic.onnx --max-tokens 20 | --decode 20
run pic.onnx --max-tokens 20 | --steps 20
profile pic.onnx --persistentCacheRatio 0.5 | --tune full
profile pic.onnx --versionCompatible | there is no engine to build
profile pic.onnx --noBuilderCache | --cache off
profile pic.onnx --dumpOptimizationProfile | --dim NAME=N
check pic.onnx --ref r.npy | --expect r.npy
check pic.onnx --against r.npy | --expect r.npy
check pic.onnx --epsilon 1e-3 | --atol 1e-3
check pic.onnx --gpu-vs-cpu | --compare cpu,cuda
check pic.onnx --warnings-as-errors | infer has no such option
check pic.onnx --sarif x | infer writes no SARIF
check pic.onnx --fix | infer check changes no model
check pic.onnx --nvrtc | INFER_WITHOUT=
inspect pic.onnx --graph | --dot
inspect pic.onnx --flops | --cost
inspect pic.onnx --params | --weights
inspect pic.onnx --display-as trt | --stage opt
convert pic.onnx --opset 17 | keeps the opset
convert pic.onnx --to json | --form
extract pic.onnx --inputs x | --from x
extract pic.onnx --output-names y | --to y
diff pic.onnx pic.onnx --rtol 1e-3 | infer check pic.onnx --compare
run pic.onnx -cache_dir d | --cache DIR
profile pic.onnx -num_streams 3 | --streams 3
profile pic.onnx -dump_config x | default.yaml in share/infer/configs
optimize pic.onnx | --stage opt
quantize pic.onnx | --precision fp16
config | .config/infer/config.yaml
settings | infer doctor
list pic.onnx | infer inspect --ops
tune pic.onnx | --tune full
serve pic.onnx | infer has no server
END
}

@test "A second list, of words that the table did not have either, and letters that mean nothing alone" {
	answers_all 25 <<'END'
profile pic.onnx --getPlanVersionOnly | there is no engine to build
profile pic.onnx --weightStreamingBudget=50% | there is no engine to build
run pic.onnx --markDebug=x | --output NAME
profile pic.onnx -stream_output | -q
profile pic.onnx -progress | -q
profile pic.onnx -op f32 | --precision
run pic.onnx --log-file x.log | 2> x.log
run pic.onnx --tensor-formats x | layout=
check pic.onnx --show-error-metrics-plot | --html FILE
run pic.onnx --weights best.pt | the model is an operand
run pic.onnx --view-img | -o boxes.png
run pic.onnx --vid-stride 2 | infer reads pictures and no videos
run pic.onnx -fa on | infer has no option for it
run pic.onnx --no-mmap | infer has no option for it
run pic.onnx -p hello | infer has no tokenizer
profile pic.onnx -p out.json | --trace out.json
profile pic.onnx --shrink_arena_between_runs cpu:0 | --arena off
profile pic.onnx --list_ep_devices | infer doctor
profile pic.onnx --opt_data f | --stage opt
convert pic.onnx -f json | --form
check pic.onnx --full-check | --all
profile pic.onnx --confidence 0.99 | --percentile
profile pic.onnx --lock-clocks | nvidia-smi -lgc
run pic.onnx --max-batch 8 | --dim NAME=8
run pic.onnx -stuff | words of several letters have two dashes
run pic.onnx -frobnicate | words of several letters have two dashes
run pic.onnx --xyzzy | see infer run --help
END
}

@test "doctor says which file of options is read" {
	mkdir -p "$out/infer"
	XDG_CONFIG_HOME=$out run -0 "$INFER" doctor
	[[ $output == *"settings     none; "*"$out/infer/config.yaml, as lines such as 'threads: 4'"* ]]
	echo 'threads: 1' >"$out/infer/config.yaml"
	XDG_CONFIG_HOME=$out run -0 "$INFER" doctor
	[[ $output == *"settings     $out/infer/config.yaml is read for all runs"* ]]
	XDG_CONFIG_HOME=$out INFER_CONFIG='' run -0 "$INFER" doctor
	[[ $output == *"no file is read, because INFER_CONFIG is empty"* ]]
}

@test "Keys of --input as options, one dash for two, and words that are misspelt" {
	answers_all 20 <<'END'
run pic.onnx rgb.png --resize 24x16 | --input rgb.png,resize=24x16
run pic.onnx rgb.png --mean=0.5/0.5/0.5 | --input rgb.png,scale=1/255,mean=0.5/0.5/0.5
run pic.onnx rgb.png --std 0.5 | --input rgb.png,scale=1/255,std=0.5
run pic.onnx rgb.png --scale 1/255 | --input rgb.png,scale=1/255
run pic.onnx rgb.png --dtype u8 | --input rgb.png,dtype=u8
run pic.onnx rgb.png --layout nhwc | --input rgb.png,layout=nhwc
run pic.onnx rgb.png --order | --input rgb.png,order=VALUE
run pic.onnx rgb.png --normalize | mean=
run pic.onnx --output out | -o DIR
run pic.onnx -threads 4 | --threads
run pic.onnx -device cpu | --device
run pic.onnx --thread 4 --devcie cpu | --device
run pic.onnx --devise cpu | --device
run pic.onnx --inptu rgb.png | --input
run pic.onnx --sahpe images=1x3x16x24 | --shape
profile pic.onnx --p99 | --percentile
profile pic.onnx --percentiles 99 | --percentile
profile pic.onnx --batch_size 4 | --dim NAME=4
profile pic.onnx --batchSize=4 | --dim NAME=4
profile pic.onnx --saev-baseline b.json | --save-baseline
profile pic.onnx --wramup 3 | --warmup
inpsect pic.onnx | 'inspect'
profil pic.onnx | 'profile'
END
}

@test "Each option that a hint for other tools' words names exists" {
	for command in run inspect profile check suite doctor extract simplify convert diff merge; do
		"$INFER" "$command" --help
	done >"$BATS_TEST_TMPDIR/help"
	"${CC:-cc}" -E -P '-DFOREIGN(words, hint)=hint' '-DFOREIGN_IN(commands, words, hint)=hint' '-DFOREIGN_VALUE(option, values, hint)=hint' '-DIN_A_LINE(words, becomes, ours)=' -x c "$BATS_TEST_DIRNAME/../../cmd/options/foreign.def" |
		grep -o -e '--[a-z][a-z-]*' | sort -u >"$BATS_TEST_TMPDIR/named"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/named")" -gt 20 ]
	while read -r word; do
		grep -q -e " $word\b" "$BATS_TEST_TMPDIR/help" || {
			echo "no subcommand has $word"
			return 1
		}
	done <"$BATS_TEST_TMPDIR/named"
}

@test "A file with its keys may stand behind the model, and --random needs no range" {
	run -0 "$INFER" run pic.onnx rgb.png,scale=1/255 -q --print 3
	given=$output
	run -0 "$INFER" run pic.onnx --input rgb.png,scale=1/255 -q --print 3
	[ "$output" = "$given" ]
	run -0 "$INFER" run pic.onnx --print 3 --random 0..1 -q
	given=$output
	for words in "pic.onnx --random --print 3" "--random pic.onnx --print 3"; do
		# shellcheck disable=SC2086
		run -0 "$INFER" run $words -q
		[ "$output" = "$given" ]
	done
	run "$INFER" run pic.onnx --random 5
	[ "$status" -eq 4 ] && [[ $output == *"expected [NAME=]LO..HI"* ]]
}

@test "Files of outputs, references and reports are named as somebody would who has not read the manual" {
	run -2 "$INFER" run pic.onnx rgb.png -o "$out/boxes.png"
	[[ $output == *"looks like a file"*"-o DIR"*"--decode"* ]]
	[ ! -e "$out/boxes.png" ]
	run -2 "$INFER" run pic.onnx rgb.png -o "$out/y.npy"
	[[ $output == *"-o $out/y --save-format npy"* ]]
	run -0 "$INFER" run pic.onnx rgb.png -o "$out/y.npz"
	run -0 "$INFER" check pic.onnx rgb.png --expect "$out/y.npz"
	run -2 "$INFER" check pic.onnx rgb.png --compare reference.npy
	[[ $output == *"--expect FILE"* ]]
	run -0 "$INFER" check pic.onnx rgb.png --rtol 1e-2
	[[ $output == *"nothing is compared without a reference"*"--expect FILE"* ]]
	run -4 "$INFER" run pic.onnx rgb.png,resize=48
	[[ $output == *"width x height, as 224x224"* ]]
	run -0 "$INFER" check pic.onnx rgb.png --export "$out/c.json" --export "$out/c.html" --export "$out/c.xml"
	printed=$output
	run -0 "$INFER" inspect "$out/c.json"
	[[ $output == *"numbers      ok"* && $printed == *"numbers      ok"* ]]
	grep -q '<h2>Findings' "$out/c.html"
	grep -q '<testsuite' "$out/c.xml"
	run -0 "$INFER" check pic.onnx rgb.png --export "$out/c.txt"
	diff <(grep -v ' s; exit status\|one run in' <<<"$output") <(grep -v ' s; exit status\|one run in' "$out/c.txt")
	run -2 "$INFER" check pic.onnx rgb.png --export "$out/c.md"
	[[ $output == *".txt, .html, .json or .xml"* ]]
	run -2 "$INFER" profile pic.onnx rgb.png --export "$out/p.txt"
	[[ $output == *"for text, write > '$out/p.txt' instead"* ]]
}

@test "No message names a placeholder in place of the subcommand" {
	for words in "run" "run a b c d" "inspect --nonsense" "suite" "cache nonsense" "completion nonsense"; do
		# shellcheck disable=SC2086
		run "$INFER" $words
		[ "$status" -eq 2 ] && [[ $output != *"infer COMMAND --help"* ]]
	done
}
