#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Command lines of trtexec, polygraphy, benchmark_app, onnxruntime_perf_test and hyperfine, as their documentation has them, and
# misspelt ones of our own: each is refused, with a hint that names what does it here.

load helper

setup() {
	in_test_data
}

# Reads lines "COMMAND LINE | HINT" and expects the hint, of which it may be a part, for each of them.
answers_all() {
	local line hint wrong=0 n=0
	local -a words
	while IFS='|' read -r line hint; do
		hint=${hint# }
		eval "words=($line)"
		run "$INFER" "${words[@]}"
		n=$((n + 1))
		[ "$status" -eq 2 ] && [[ $output == *"hint: "*"$hint"* ]] && continue
		printf 'infer %s\n  expected: %s\n  got (%s): %s\n' "$line" "$hint" "$status" "$output"
		wrong=$((wrong + 1))
	done
	[ "$wrong" -eq 0 ] && [ "$n" -ge "$1" ]
}

@test "Command lines of trtexec" {
	answers_all 20 <<'END'
profile --onnx=pic.onnx | MODEL
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
profile pic.onnx --avgRuns=100 | -n COUNT
profile pic.onnx --infStreams=2 | --streams
profile pic.onnx --noDataTransfers | --transfers exclude
profile pic.onnx --useCudaGraph | --cuda-graph
profile pic.onnx --dumpProfile --separateProfileRun | --nodes
profile pic.onnx --dumpOutput | --print
profile pic.onnx --exportOutput=out.json | -o DIR
profile pic.onnx --exportTimes=times.json | --export
profile pic.onnx --device=0 | cuda:0
profile pic.onnx --plugins=libp.so | infer inspect
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
run pic.onnx --validate | infer check
run pic.onnx --pool-limit workspace:1G | --memory-limit
inspect pic.onnx --show layers attrs weights | --nodes
surgeon extract pic.onnx | --bisect
END
}

@test "Command lines of benchmark_app" {
	answers_all 16 <<'END'
profile -m pic.onnx -d CPU | MODEL
profile pic.onnx -i rgb.png | --input
profile pic.onnx -d GPU | 'cuda'
profile pic.onnx -hint throughput | --sessions
profile pic.onnx -hint latency | --sessions
profile pic.onnx -api async | --sessions
profile pic.onnx -niter 100 | -n COUNT
profile pic.onnx -nireq 4 | --sessions
profile pic.onnx -nstreams 2 | --streams
profile pic.onnx -nthreads 4 | -t N
profile pic.onnx -b 8 | --dim NAME=N
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
profile -r 100 pic.onnx | -n COUNT
profile -x 4 -y 1 pic.onnx | -t N
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
profile -R custom.so pic.onnx | infer inspect
END
}

@test "Command lines of hyperfine" {
	answers_all 10 <<'END'
profile pic.onnx --runs 10 | -n COUNT
profile pic.onnx --min-runs 10 --max-runs 20 | -n COUNT
profile pic.onnx -r 10 | -n COUNT
profile pic.onnx -w 3 | --warmup
profile pic.onnx --export-json out.json | --export
profile pic.onnx --export-markdown out.md | --export
profile pic.onnx --export-csv out.csv | --export
profile pic.onnx --export-asciidoc out.adoc | --export
profile pic.onnx --parameter-scan threads 1 4 | --shapes-sweep
profile pic.onnx -L threads 1,2,4 | --shapes-sweep
profile pic.onnx --prepare 'sync' | --warmup
profile pic.onnx --ignore-failure | man infer
profile pic.onnx --show-output | man infer
profile pic.onnx --style none | -q
hyperfine pic.onnx | infer profile MODEL
END
}

@test "Keys of --input as options, one dash for two, and words that are misspelt" {
	answers_all 20 <<'END'
run pic.onnx rgb.png --resize 24x16 | --input FILE,resize=24x16
run pic.onnx rgb.png --mean=0.5/0.5/0.5 | --input FILE,mean=0.5/0.5/0.5
run pic.onnx rgb.png --std 0.5 | --input FILE,std=0.5
run pic.onnx rgb.png --scale 1/255 | --input FILE,scale=1/255
run pic.onnx rgb.png --dtype u8 | --input FILE,dtype=u8
run pic.onnx rgb.png --layout nhwc | --input FILE,layout=nhwc
run pic.onnx rgb.png --order | --input FILE,order=VALUE
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
profile pic.onnx --batch_size 4 | --dim NAME=N
profile pic.onnx --batchSize=4 | --dim NAME=N
profile pic.onnx --saev-baseline b.json | --save-baseline
profile pic.onnx --wramup 3 | --warmup
inpsect pic.onnx | 'inspect'
profil pic.onnx | 'profile'
END
}

@test "Each option that a hint for other tools' words names exists" {
	for command in run inspect profile check suite doctor; do
		"$INFER" "$command" --help
	done >"$BATS_TEST_TMPDIR/help"
	"${CC:-cc}" -E -P '-DFOREIGN(words, hint)=hint' -x c "$BATS_TEST_DIRNAME/../../cmd/options/foreign.def" |
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
	run -2 "$INFER" run pic.onnx rgb.png -o "$out/y.npz"
	[[ $output == *"-o DIR"*"--save-format npz"* ]]
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
	run -2 "$INFER" check pic.onnx rgb.png --export "$out/c.txt"
	[[ $output == *".html, .json or .xml"*"for text, write > '$out/c.txt' instead"* ]]
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
