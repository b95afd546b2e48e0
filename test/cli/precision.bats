#!/usr/bin/env bats
# --precision on the CPU: fp16 and bf16 are computed in, tf32 is refused; never taken silently.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	M=$(ls -d test/data/run/*.onnx | head -1)
}

teardown() {
	rm -rf "$T"
}

@test "tf32 requires a GPU" {
	run "$INFER" run "$M" --random=-1..1 --device cpu --precision tf32
	[ "$status" -eq 2 ]
	[[ $output == *E-OPTION* ]]
	[[ $output == *"tf32 needs a GPU"* ]]
}

@test "fp8 requires a GPU" {
	run "$INFER" run "$M" --random=-1..1 --device cpu --precision fp8
	[ "$status" -eq 2 ]
	[[ $output == *"fp8 needs a GPU"* ]]
}

@test "An unknown precision is refused with a list of the valid ones" {
	run "$INFER" run "$M" --precision fp12
	[ "$status" -eq 2 ]
	[[ $output == *bf16* ]]
}

@test "fp16 and bf16 run on the CPU" {
	for p in fp16 bf16; do
		run "$INFER" run "$M" --random=-1..1 --device cpu --precision $p
		[ "$status" -eq 0 ]
	done
}
