#!/usr/bin/env bats
# --device, and doctor. Holds on machines without a GPU; those with one skip what needs none.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	M=$(ls -d test/data/run/*.onnx | head -1)
}

teardown() {
	rm -rf "$T"
}

has_gpu() {
	"$INFER" doctor | grep -q '^cuda:'
}

@test "doctor lists the devices and every library" {
	run "$INFER" doctor
	[ "$status" -eq 0 ]
	[[ $output == cpu* ]]
	for name in 'CUDA driver' NVML cuBLASLt cuDNN NVRTC oneDNN libpng; do
		[[ $output == *"$name"* ]]
	done
}

@test "doctor says in JSON the same" {
	run "$INFER" doctor --json
	[ "$status" -eq 0 ]
	[[ $output == *'"schema": "infer/1"'* ]]
	[[ $output == *'"libraries"'* ]]
}

@test "a GPU that is asked for by name is not replaced" {
	if has_gpu; then skip "there is a GPU"; fi
	run "$INFER" run "$M" --random 0..1 --device cuda
	[ "$status" -eq 8 ]
	[[ $output == *CUDA* || $output == *libcuda* ]]
}

@test "a device number that is none is refused" {
	run "$INFER" run "$M" --random 0..1 --device cuda:x
	[ "$status" -ne 0 ]
}

@test "auto takes the CPU where there is no GPU and says why" {
	if has_gpu; then skip "there is a GPU"; fi
	run "$INFER" run "$M" --random 0..1 --device auto
	[ "$status" -eq 0 ]
	[[ $output == *"no usable GPU"* ]]
}
