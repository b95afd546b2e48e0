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

@test "doctor --json reports the same" {
	run "$INFER" doctor --json
	[ "$status" -eq 0 ]
	[[ $output == *'"schema": "infer/1"'* ]]
	[[ $output == *'"libraries"'* ]]
}

@test "Without a GPU, doctor reports what each library needs and where it was searched, and a run exits with 8" {
	if "$INFER" doctor | grep -q 'built without CUDA'; then skip "built without CUDA"; fi
	mkdir "$T/none"
	export INFER_LIBRARY_PATH=$T/none INFER_WITHOUT=
	if has_gpu; then skip "there is a GPU"; fi
	run "$INFER" doctor
	[ "$status" -eq 0 ]
	[[ $output == *"cuda      missing: "* ]]
	[[ $output == *"a driver of CUDA 12.0 (release 525) or newer is wanted; "*"$T/none/libcuda.so.1: not there"* ]]
	for name in libnvidia-ml.so.1 libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13; do # found in a toolkit, or not
		[[ $output == *"$T/none/$name: not there"* || $output == *"/$name  ("* ]]
	done
	run "$INFER" run "$M" --random 0..1 --device cuda
	[ "$status" -eq 8 ]
	[[ $output == *"error[E-LIBRARY]: no usable CUDA driver: libcuda.so.1 was looked for"* ]]
	[[ $output == *"$T/none/libcuda.so.1: not there"* ]]
}

@test "A GPU that is named explicitly is never replaced by the CPU" {
	if has_gpu; then skip "there is a GPU"; fi
	run "$INFER" run "$M" --random 0..1 --device cuda
	[ "$status" -eq 8 ]
	[[ $output == *CUDA* || $output == *libcuda* ]]
}

@test "An invalid device number is refused" {
	run "$INFER" run "$M" --random 0..1 --device cuda:x
	[ "$status" -ne 0 ]
}

@test "auto uses the CPU if there is no GPU, and reports why" {
	if has_gpu; then skip "there is a GPU"; fi
	run "$INFER" run "$M" --random 0..1 --device auto
	[ "$status" -eq 0 ]
	[[ $output == *"no usable GPU"* ]]
}
