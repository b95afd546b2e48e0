#!/usr/bin/env bats
# The scripts for a machine with a GPU, run beside the driver that only seems one: what they start, count and keep.

. test/gpu/fake/use.bash

setup_file() {
	fake_build refuse
}

teardown_file() {
	fake_drop
}

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	built=$(dirname "$(dirname "$INFER")")
	T=$(mktemp -d)
	fake_use
	unset FAKE_CUDA_LOG
	export XDG_CACHE_HOME=$T/cache
	[ -x "$built/conformance/run" ] || skip "tests are not built"
	# of the build what is wanted here; its program and libraries find each other as they lie
	export OUT=$T/out CUDA=/none CASES=$T/cases RESULTS=$T/results GPUS="0 1" SLOTS=1 TIME=600
	export MORE=$T/none LATE=$T/none LARGE=$T/none FAULTS=/none
	mkdir -p "$OUT/unit" "$OUT/conformance" "$CASES/node"
	ln -s "$built/bin" "$built/lib" "$OUT/"
	ln -s "$built/conformance/run" "$OUT/conformance/run"
	[ ! -x "$built/unit/gpu" ] || ln -s "$built/unit/gpu" "$OUT/unit/gpu"
	: >"$CASES/manifest.tsv"
}

teardown() {
	rm -rf "$T"
}

unit() { # NAME SCRIPT: a program in the units' place
	printf '#!/bin/sh\n%s\n' "$2" >"$OUT/unit/$1"
	chmod +x "$OUT/unit/$1"
}

@test "run.sh runs its parts on all devices, keeps their output and prints a table" {
	unit gpu 'echo "ok one on $CUDA_VISIBLE_DEVICES"; echo "ok two # SKIP not here"'
	unit gpu_a 'echo "ok one"; echo "not ok two"; echo "# why"; exit 1'
	unit gpu_b 'exit 3'
	ONLY='^unit' run test/gpu/run.sh
	[ "$status" -eq 1 ]
	[[ ${lines[-1]} == "2 passed, 2 failed" ]]
	grep -q '^unit/gpu  *1 passed  *0 failed' "$RESULTS/table"
	grep -q '^unit/gpu_a  *1 passed  *1 failed' "$RESULTS/table"
	grep -q '^unit/gpu_b  *0 passed  *1 failed .*exit status 3' "$RESULTS/table"
	[[ $output == *"  # why"* ]]
	grep -q 'ok one on [01]' "$RESULTS/unit-gpu.log"
	unit gpu_a 'echo "ok one"'
	rm "$OUT/unit/gpu_b"
	ONLY='^unit' run test/gpu/run.sh
	[ "$status" -eq 0 ]
	[[ ${lines[-1]} == "2 passed, 0 failed" ]]
}

@test "run.sh lists the parts that did not run or did not finish in time" {
	unit gpu 'echo "ok one"; sleep 100'
	ONLY='^unit' LIMIT=2 run test/gpu/run.sh
	[ "$status" -eq 1 ]
	[[ $output == *"unit/gpu "*" 1 failed "*"cut off after 2 s"* ]]
	unit gpu 'echo "ok one"'
	ONLY='^unit' TIME=0 run test/gpu/run.sh
	[ "$status" -eq 1 ]
	[[ $output == *"not begun: time was up"* ]]
	FAKE_CUDA_CALL=2:100 run test/gpu/run.sh
	[ "$status" -eq 8 ]
}

@test "run.sh distributes cases over devices and adds up the counts" {
	python=$(command -v python3) && "$python" -c 'import numpy, onnx.helper' 2>/dev/null || skip "no onnx for python3"
	"$python" - "$CASES" <<-'END'
		import os, sys, numpy as np, onnx
		from onnx import helper as h, numpy_helper as nh, TensorProto as T
		for i in range(5):
		    at = f"{sys.argv[1]}/node/view{i}"
		    os.makedirs(at + "/test_data_set_0")
		    x = np.arange(6, dtype=np.float32) + i
		    g = h.make_graph([h.make_node("Reshape", ["x", "s"], ["y"])], "g", [h.make_tensor_value_info("x", T.FLOAT, [6])],
		                     [h.make_tensor_value_info("y", T.FLOAT, [2, 3])], [nh.from_array(np.array([2, 3]), "s")])
		    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), at + "/model.onnx")
		    for name, t in (("input", x), ("output", x.reshape(2, 3))):
		        open(f"{at}/test_data_set_0/{name}_0.pb", "wb").write(nh.from_array(t).SerializeToString())
	END
	ONLY=conformance run test/gpu/run.sh
	[ "$status" -eq 0 ]
	[[ ${lines[-1]} == "5 passed, 0 failed" ]]
	parts=$(($(nproc) > 1 ? 2 : 1)) # one for each device, where there are so many cores
	[ "$(grep -c "^conformance [12]/$parts" "$RESULTS/table")" -eq "$parts" ]
	[[ $output == *"conformance: 5 of those passed ran wholly on the GPU"* ]]
}

@test "sanitize.sh continues after an interruption until each case has run under each tool" {
	# in the tool's place: the tool's options go, the program runs, and one kernel is complained of
	cat >"$T/sanitizer" <<-'END'
		#!/bin/bash
		while [[ $1 == --* ]]; do [ "$1" = --tool ] && tool=$2; shift 2; done
		for a; do case $a in */[0-9]*) ls "$a"/*/ ;; esac; done >>"$SEEN.$tool"
		printf 'node/one\tfirst_kernel\n' >>"$LAUNCHES"
		ls "$2" 2>/dev/null | grep -q node && for c in "$2"/node/*; do printf 'node/%s\tfirst_kernel\n' "${c##*/}"; done >>"$LAUNCHES"
		[ "$tool" != racecheck ] || echo "=========     and Read access at first_kernel+0x10"
		echo "========= ERROR SUMMARY: 0 errors"
	END
	chmod +x "$T/sanitizer"
	rm -f "$OUT/unit"/*
	mkdir -p "$T/choice" "$MORE"
	: >"$MORE/manifest.tsv"
	echo first_kernel >"$T/choice/kernels"
	cp "$T/choice/kernels" "$T/choice/reached"
	printf 'node/test_abs\nnode/test_identity_example\n' >"$T/choice/chosen.1"
	: >"$T/choice/chosen.2"
	: >"$T/choice/chosen.3"
	# one of them has run under memcheck already
	printf 'memcheck\t1\tnode/test_abs\n' >"$T/choice/covered"
	SEEN=$T/seen CHOICE=$T/choice SANITIZER=$T/sanitizer TOOLS="memcheck racecheck" JOBS=1 BATCH=1 run test/gpu/sanitize.sh
	echo "$output"
	[ "$status" -eq 1 ]
	[ "$(head -n 1 "$T/seen.memcheck")" = test_identity_example ]
	[[ $output == *"ok memcheck: 1 of 1 kernels this time, 1 in all, 0 errors"* ]]
	[[ $output == *"ok memcheck: all 2 cases have run under it"* ]]
	[[ $output == *"not ok racecheck: 1 of 1 kernels this time, 1 in all, 2 errors"* ]]
	[[ $output == *"errors in kernel: "*" 2 first_kernel"* ]]
	# no time: said so, and kept
	sed -i '/racecheck.*identity/d' "$T/choice/covered"
	SEEN=$T/seen CHOICE=$T/choice SANITIZER=$T/sanitizer TOOLS=racecheck JOBS=1 TIME=0 run test/gpu/sanitize.sh
	[ "$status" -eq 1 ]
	[[ $output == *"not ok racecheck: 1 of 2 cases have run under it"* ]]
}

@test "sanitize.sh runs whole networks only for kernels that no smaller case reaches" {
	# in the cases' runner's place: which kernels each of them launches
	rm -f "$OUT/conformance/run" "$OUT/unit"/*
	cat >"$OUT/conformance/run" <<-'END'
		#!/bin/bash
		declare -A list=([light/net]="a b c d" [node/two]="a b" [node/one]="c")
		[ -z "${KERNELS:-}" ] || printf '%s\n' a b c d e >>"$KERNELS"
		for c in "$1"/*/*; do
			name=$(basename "$(dirname "$c")")/$(basename "$c")
			for k in ${list[$name]}; do printf '%s\t%s\n' "$name" "$k" >>"$LAUNCHES"; done
		done
	END
	chmod +x "$OUT/conformance/run"
	for c in light/net node/two node/one; do
		mkdir -p "$CASES/$c"
		: >"$CASES/$c/model.onnx"
	done
	mkdir -p "$MORE"
	: >"$MORE/manifest.tsv"
	CHOICE=$T/choice TOOLS= DEPTH=1 JOBS=1 run test/gpu/sanitize.sh
	[ "$(paste -s -d ' ' "$T/choice/chosen.1")" = "node/two node/one light/net" ]
	[[ $output == *"never: e"* ]]
	# without a kernel that is the network's alone
	rm -rf "$T/choice"
	sed -i 's/ d"/"/' "$OUT/conformance/run"
	CHOICE=$T/choice TOOLS= DEPTH=1 JOBS=1 run test/gpu/sanitize.sh
	[ "$(paste -s -d ' ' "$T/choice/chosen.1")" = "node/two node/one" ]
}
