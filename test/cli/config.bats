#!/usr/bin/env bats
# Where an option's value comes from: default, file, environment, command line.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	unset INFER_CONFIG INFER_DEVICE INFER_THREADS INFER_OPTIMIZE
	cd "$T"
}

teardown() {
	cd /
	rm -rf "$T"
}

config() { # TEXT: expects it to be refused with the rest of the arguments
	printf '%b' "$1" >c.yaml
	shift
	run "$INFER" run model.onnx --config c.yaml
	echo "$output"
	[ "$status" -eq 2 ]
	[[ $output == "error[E-CONFIG]: $1"* ]]
}

@test "Errors name the file and line" {
	config '# first\n\ndevise: cpu\n' "c.yaml:3: unknown option 'devise'"
	[[ $output == *"did you mean 'device'?"* ]]
	config 'threads: many\n' "c.yaml:1: threads: wrong value: expected an integer from 0 to 1024, got 'many'"
	config 'seed: 1\ndevice: gpu\n' "c.yaml:2: device: unknown device 'gpu'"
	config 'seed: [1\n' "c.yaml:"
	config 'seed: 1\nseed: 2\n' "c.yaml:2: seed: given twice"
}

@test "A missing configuration file is an error" {
	run "$INFER" run model.onnx --config none.yaml
	[ "$status" -eq 2 ]
	[[ $output == *"none.yaml: cannot open"* ]]
}

# A later source hides a wrong value of an earlier one only where the value itself can be read; which source
# wins is told by the origin in the message.
@test "The environment overrides the file, and the command line overrides both" {
	printf 'device: gpu1\n' >c.yaml
	run "$INFER" run model.onnx --config c.yaml
	[[ $output == *"c.yaml:1: device: unknown device 'gpu1'"* ]]
	INFER_DEVICE=gpu2 run "$INFER" run model.onnx --config c.yaml
	[[ $output == *"INFER_DEVICE: device: unknown device 'gpu2'"* ]]
	INFER_DEVICE=gpu2 run "$INFER" run model.onnx --config c.yaml --device gpu3
	[[ $output == *"--device: unknown device 'gpu3'"* ]]
	INFER_CONFIG=c.yaml run "$INFER" run model.onnx
	[[ $output == *"c.yaml:1: device: unknown device 'gpu1'"* ]]
}

@test "The file may hold options of other subcommands" {
	printf 'nodes: on\ndevice: gpu1\n' >c.yaml
	run "$INFER" run model.onnx --config c.yaml
	[[ $output == *"c.yaml:2: device"* ]]
	run "$INFER" completion bash --config c.yaml
	[ "$status" -eq 0 ]
}

@test "The sample configuration is valid as written, and with every line uncommented" {
	"$INFER" __gen yaml >sample.yaml
	sed 's/^#\([a-z]\)/\1/' sample.yaml >all.yaml
	run "$INFER" completion bash --config sample.yaml
	[ "$status" -eq 0 ]
	run "$INFER" completion bash --config all.yaml -q
	echo "$output" | head -n 3
	[ "$status" -eq 0 ]
	grep -q '^threads: 0$' all.yaml
}

@test "A value that turns out wrong after parsing is also reported with file and line" {
	cd "$BATS_TEST_DIRNAME/../data/run"
	refused() { # STATUS TEXT MESSAGE
		printf '%b' "$2" >"$T/c.yaml"
		run "$INFER" run batch.onnx --config "$T/c.yaml"
		echo "$output"
		[ "$status" -eq "$1" ]
		[[ $output == *": $T/c.yaml:$3"* ]]
	}
	refused 2 'seed: 1\ndecode: morse\n' "2: decode: wrong value: expected ctc or ctc:blank=N, or yolo, ssd or detr with :score=S,iou=I, got 'morse'"
	refused 4 'dim:\n  batch: 2\n  bacth: 3\n' "3: dim bacth=3: the model's inputs have no free dimension 'bacth'"
	refused 4 'random: 0..1\nshape: [x=1x1x1x1]\n' "2: shape x=1x1x1x1: "
	refused 4 'random:\n  - 5..1\n' "2: random 5..1: this is no range of numbers"
	refused 4 '\n\ninput: fits.npy,colour=red\n' "3: input: unknown input key 'colour'"
	refused 4 'random: 0..1\ntop: 1\nlabels: none.txt\n' "3: labels: none.txt: cannot open"
	refused 10 'random: 0..1\nsave: batch.onnx\n' "2: save: batch.onnx: "
}

@test "A mapping in the wrong place is an error that shows the right syntax" {
	config 'input:\n  - x: a.npy\n' "c.yaml:2: input takes a single value here"
	[[ $output == *'hint: write an item as text: - "[NAME=]FILE'* ]]
}

@test "A misspelt INFER_ variable causes a warning; other variables do not" {
	cd "$BATS_TEST_DIRNAME/../data/run"
	INFER_DEVCE=cuda INFER_CACHE=off INFER_SOMETHING=1 run "$INFER" run batch.onnx --random 0..1 --dim batch=1
	[ "$status" -eq 0 ]
	[[ $output == *"warning[W-OPTION]: INFER_DEVCE: this variable is not known"*"did you mean INFER_DEVICE?"* ]]
	[[ $output == *"did you mean INFER_CACHE_DIR?"* ]]
	[[ $output != *INFER_SOMETHING* ]]
	INFER_DEVICE=cpu INFER_LIBRARY_PATH=/nowhere INFER_OPENMP=own run "$INFER" run batch.onnx --random 0..1 --dim batch=1
	[[ $output != *W-OPTION* ]]
}

@test "An option whose value may be left out is given by true, as a flag is" {
	cp "$BATS_TEST_DIRNAME/../data/run/pic.onnx" model.onnx
	printf 'random: true\nseed: 4\n' >c.yaml
	run "$INFER" run model.onnx --config c.yaml --device cpu
	[ "$status" -eq 0 ]
	[[ $output == *"random 0..1, seed 4"* ]]
	printf 'random: "true"\n' >c.yaml
	run "$INFER" run model.onnx --config c.yaml --device cpu
	[[ $status -eq 4 && $output == *"no range of numbers"* ]]
}
