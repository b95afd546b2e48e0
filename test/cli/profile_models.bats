#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer profile: what the machine can do, sums by operator, names of fused nodes, and several models in one command.

load helper

setup() {
	in_test_data
}

@test "The roofline is the machine's, of which no model takes more than all" {
	command -v python3 >/dev/null || skip "no python3"
	# the peak is that of multiply-adds between registers: any product stays below it
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=512 -n 50 --nodes
	[[ $output == *"work      "*" of the machine's "*"FLOP/s"* || $output == *"(more than multiply-adds of fp32 give:"* ]]
	for share in $(grep -o '[0-9.]* % of the machine' <<<"$output" | cut -d' ' -f1); do
		python3 -c "assert float('$share') <= 100"
	done
}

@test "--nodes sums up by operator, and calls a fused node after the operator of the file" {
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 5 --nodes
	[[ $output == *"  operator"*"nodes"*"share"* ]]
	[[ $output != *"infer::"* ]]
	[[ $output =~ first.*\ (Gemm|MatMul)\ \+\ [0-9] ]]
}

@test "Several models are ranked with intervals" {
	cp work.onnx "$out/other.onnx"
	run -0 --separate-stderr "$INFER" profile batch.onnx work.onnx "$out/other.onnx" -n 50
	[[ $output == *"models    batch.onnx, work.onnx, $out/other.onnx"* && $output != *"+-"* ]]
	[[ $output == *$'\nranking   '*".onnx"* && $output == *"the fastest is (95 % interval)"* ]]
	# each other model has a ratio, its interval and a verdict
	[ "$(grep -cE '\.onnx +[0-9.]+ [num]?s +[0-9.]+ \([0-9.]+ to [0-9.]+\)( times as fast|: no difference shown|: not known)' <<<"$output")" = 2 ]
	# models of the same name are told apart by their folders
	mkdir "$out/a" "$out/b"
	cp batch.onnx "$out/a/model.onnx"
	cp batch.onnx "$out/b/model.onnx"
	run -0 --separate-stderr "$INFER" profile "$out"/[ab]/model.onnx -n 20
	[[ $output == *$'\n'"a/model.onnx "* && $output == *$'\n'"b/model.onnx "* ]]
	# one that cannot be measured does not end the others
	echo nonsense >"$out/bad.onnx"
	run -3 --separate-stderr "$INFER" profile batch.onnx "$out/bad.onnx" -n 20
	[[ $output == *"bad.onnx"*"failed"* && $stderr == *"E-MODEL-"* ]]
}

@test "What holds one model is refused for several" {
	for option in --save-baseline=x.json --trace=x.json --precision=auto; do
		run -2 --separate-stderr "$INFER" profile batch.onnx work.onnx "$option" -n 5
	done
	run -2 --separate-stderr "$INFER" profile batch.onnx rgb.png work.onnx
	[[ $stderr == *"unexpected operand 'rgb.png'"* ]]
	[ ! -e x.json ]
}

@test "A model is not called faster than itself" {
	run -0 --separate-stderr "$INFER" profile work.onnx work.onnx -n 200
	# one interval in twenty may miss 1; then the interval says so
	[[ $output == *"no difference shown between work.onnx and work.onnx"*": no difference shown"* ||
		$output == *"not known whether work.onnx or work.onnx is the fastest; measure more runs: -n 800"*": not known"* ||
		$output == *"work.onnx is the fastest"*"times as fast"* ]]
}

@test "Models take turns in several processes, and JSON has the ranking" {
	need_python
	run -0 --separate-stderr "$INFER" profile batch.onnx work.onnx -n 60 --json -q
	python3 -c "
import json, sys
d = json.loads(sys.argv[1])
first, second = d['ranking']
assert first['verdict'] == 'fastest' and first['ratio'] == 1, first
assert second['verdict'] in ('slower', 'not known', 'no difference shown'), second
low, high = second['interval']
assert low <= second['ratio'] <= high
for r in d['records']:
    p = r['points'][0]
    assert len(p['turn_means']) == 30 and len(p['samples']) == 60, p
    assert min(p['samples']) <= min(p['turn_means']) <= max(p['samples'])
    assert p['turns_a_process'] * len(p.get('rounds', [60])) == 30, p
" "$output"
}

@test "Few turns decide nothing" {
	run -0 --separate-stderr "$INFER" profile batch.onnx work.onnx -n 3
	[[ $output == *"not known whether "*" is the fastest; measure more runs: -n 12"*": not known, too few turns"* ]]
}
