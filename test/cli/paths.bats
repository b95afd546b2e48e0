#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each place that takes a path is given pipes without a partner, folders, devices without an end and files that are not there:
# nothing is waited for, the status is that of the table, and the message names the path.

load helper

setup() {
	MODEL=$BATS_TEST_DIRNAME/../torture/model.onnx
	cd "$BATS_TEST_TMPDIR" || return 1
	mkfifo pipe
	mkdir folder
	: >empty
	ln -s itself itself
}

# The command ends by itself with the status and names the path. --timeout would give 124.
refuses() { # STATUS PATH ARGUMENT...
	local status_wanted=$1 path=$2
	shift 2
	run timeout -s KILL 60 "$INFER" "$@" --timeout 20
	echo "$* -> $status: $output"
	[ "$status" -eq "$status_wanted" ]
	[[ $output == *"error[E-"*"$path"* ]]
}

# What reads: model, inputs, lists, data sets, configurations, labels, truths, baselines, suppressions, suites.
refuses_to_read() { # PATH
	refuses 3 "$1" inspect "$1"
	refuses 3 "$1" run "$1"
	refuses 3 "$1" check "$1"
	refuses 3 "$1" profile "$1"
	refuses 4 "$1" run "$MODEL" --input "x=$1"
	refuses 4 "$1" check "$MODEL" --input "x=$1"
	refuses 4 "$1" run "$MODEL" --input "@$1"
	refuses 4 "$1" run "$MODEL" --data-set "$1"
	refuses 2 "$1" run "$MODEL" --config "$1"
	refuses 2 "$1" suite "$1"
	refuses 4 "$1" run "$MODEL" --random --labels "$1" --top 2
	refuses 2 "$1" profile "$MODEL" -n 2 --baseline "$1"
	refuses 2 "$1" check --suppressions "$1" -- true
	refuses 2 "$1" merge "$1"
}

@test "A pipe that no program writes to is refused wherever a path is read" {
	refuses_to_read pipe
	refuses 4 pipe run "$MODEL" --input x=pipe --score top1=pipe
}

@test "A folder is refused wherever a file is read" {
	refuses_to_read folder
}

@test "A device without an end is refused wherever a path is read" {
	refuses_to_read /dev/zero
}

@test "A missing file and a link that leads to itself are refused wherever a path is read" {
	refuses_to_read missing
	refuses_to_read itself
}

# What writes: lines, reports, pages, traces, baselines.
refuses_to_write() { # PATH
	refuses 10 "$1" run "$MODEL" --random --jsonl "$1"
	refuses 10 "$1" run "$MODEL" --random --report "$1"
	refuses 10 "$1" check "$MODEL" --html "$1"
	refuses 10 "$1" inspect "$MODEL" --html "$1"
	refuses 10 "$1" profile "$MODEL" -n 2 --save-baseline "$1"
	refuses 10 "$1" profile "$MODEL" -n 2 --trace "$1"
}

@test "A pipe that no program reads, a folder and a full device are refused wherever a file is written" {
	refuses_to_write pipe
	refuses_to_write folder
	refuses_to_write /dev/full
	refuses 10 pipe run "$MODEL" --random -o pipe
}

@test "A pipe without a writer as external data is refused" {
	need_onnx
	python3 - "$BATS_TEST_DIRNAME/../torture/model.onnx" <<-'PYTHON'
		import sys
		import onnx
		from onnx import TensorProto, helper
		w = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
		w.external_data.add(key="location", value="pipe")
		g = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g",
		                      [helper.make_tensor_value_info("x", 1, [4])], [helper.make_tensor_value_info("y", 1, [4])], [w])
		m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
		open("outside.onnx", "wb").write(m.SerializeToString())
	PYTHON
	refuses 3 pipe run outside.onnx --random
	refuses 3 pipe inspect outside.onnx
	rm pipe
	mkdir pipe
	refuses 3 pipe run outside.onnx --random
}

@test "What comes out of a pipe of the shell is there as often as it is read" {
	"$INFER" simplify "$MODEL" -o file.onnx -q
	"$INFER" simplify <(cat "$MODEL") -o pipe.onnx -q
	cmp file.onnx pipe.onnx
	cat "$MODEL" | "$INFER" simplify /dev/stdin -o pipe.onnx -q
	cmp file.onnx pipe.onnx
	"$INFER" extract "$MODEL" --to y -o file.onnx -q
	"$INFER" extract <(cat "$MODEL") --to y -o pipe.onnx -q
	cmp file.onnx pipe.onnx
	"$INFER" check <(cat "$MODEL") --random --compare none,full --determinism 2 -q
	"$INFER" check <(cat "$MODEL") --random --all --runs 3 -q
}
