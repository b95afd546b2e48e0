#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer run with many inputs on several devices. Several sessions on the CPU stand for several GPUs; test/gpu/several.sh has
# the same for real ones.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	INFER=$(realpath "$INFER")
	data=$BATS_TEST_DIRNAME/../data/run
	bats_require_minimum_version 1.5.0
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir pics
	for i in 1 2 3 4 5 6 7 8 9; do
		cp "$data/rgb.png" pics/a$i.png
		cp "$data/rgb.jpg" pics/b$i.jpg
		cp "$data/rgb.bmp" pics/c$i.bmp
	done
}

@test "Several sessions give the results of one, in its order" {
	"$INFER" run "$data/pic.onnx" --input pics -q --device cpu --jsonl one.jsonl -o one
	for list in cpu,cpu cpu,cpu,cpu,cpu; do
		rm -rf many
		"$INFER" run "$data/pic.onnx" --input pics -q --device $list --jsonl many.jsonl -o many
		diff -r one many
		sed 's/"many\//"one\//' many.jsonl | cmp - one.jsonl
	done
	"$INFER" run "$data/pic.onnx" --input pics --device cpu,cpu --json >doc.json
	[ "$(jq '[.devices[].inputs] | add' doc.json)" = 27 ]
	[ "$(jq '.devices | length' doc.json)" = 2 ]
}

@test "What fails is what fails with one session, in the same order" {
	echo junk >pics/a5.png
	echo junk >pics/c2.bmp
	run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics -q --device cpu --jsonl one.jsonl --keep-going
	[ "$status" -eq 4 ]
	one=$stderr
	run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics -q --device cpu,cpu,cpu --jsonl many.jsonl --keep-going
	[ "$status" -eq 4 ]
	[ "$stderr" = "$one" ]
	cmp one.jsonl many.jsonl
	run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics -q --device cpu,cpu,cpu --jsonl many.jsonl
	[ "$status" -eq 4 ]
	[ "$(jq -c 'has("error")' many.jsonl | tr '\n' ' ')" = "false false false false true " ]
}

@test "A device that cannot be opened is named, and the others do its work" {
	CUDA_VISIBLE_DEVICES='' run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics --device cuda:3,cpu --jsonl x.jsonl
	[ "$status" -eq 0 ]
	[[ $stderr = *"warning["*"cuda:3: "*"its inputs go to the other devices"* ]]
	[ "$(wc -l <x.jsonl)" -eq 27 ]
	CUDA_VISIBLE_DEVICES='' run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics --device cuda:3,4 --jsonl y.jsonl
	[ "$status" -eq 8 ]
	[[ $stderr = *"error["*"cuda:3: "*"error["*"cuda:4: "* ]]
	[ ! -e y.jsonl ]
}

@test "A device without memory gives its inputs to another; the last one says what failed" {
	[ -x "$FAULTS_INFER" ] || skip "no fault-injection build"
	INFER_FAULT=0:oom run --separate-stderr "$FAULTS_INFER" run "$data/pic.onnx" --input pics --device cpu,cpu --jsonl x.jsonl
	[ "$status" -eq 3 ]
	[[ $stderr = *"warning[W-MEMORY]"*"its inputs go to the other devices"* ]]
	[[ $stderr = *"error[E-MEMORY]"*"pics/a1.png"* ]]
}

@test "Lists of devices are checked, and are for many inputs" {
	run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics --device cpu,gpu
	[ "$status" -eq 2 ]
	[[ $stderr = *"unknown device 'gpu'"* ]]
	run --separate-stderr "$INFER" profile "$data/pic.onnx" --device cpu,cpu
	[ "$status" -eq 2 ]
	[[ $stderr = *"only infer run takes several"* ]]
	run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics/a1.png --device cpu,cpu
	[ "$status" -eq 8 ]
	[[ $stderr = *"many inputs"* ]]
}

@test "Several sessions that are interrupted have whole results, and --resume has the rest" {
	mkfifo pics/d.png
	"$INFER" run "$data/pic.onnx" --input pics --device cpu,cpu --jsonl x.jsonl -q &
	pid=$!
	for _ in $(seq 100); do
		[ "$(cat x.jsonl 2>/dev/null | wc -l)" -lt 27 ] || break
		sleep 0.05
	done
	kill -INT $pid
	run wait $pid
	[ "$(wc -l <x.jsonl)" -eq 27 ]
	rm pics/d.png
	cp "$data/rgb.png" pics/d.png
	"$INFER" run "$data/pic.onnx" --input pics --device cpu,cpu --jsonl x.jsonl -q --resume
	[ "$(wc -l <x.jsonl)" -eq 28 ]
	"$INFER" run "$data/pic.onnx" --input pics --device cpu --jsonl y.jsonl -q
	cmp x.jsonl y.jsonl
}
