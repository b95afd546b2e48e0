#!/usr/bin/env bats
# The host's side of the CUDA backend on a stand-in (test/gpu/fake/cuda.c) that does nothing before somebody waits for
# it, closes the device's memory to the host and leaves no room at the ends: what a GPU shows only at times.

. test/gpu/fake/use.bash

setup_file() {
	fake_build
}

teardown_file() {
	fake_drop
}

setup() {
	: "${INFER:=$PWD/build/bin/infer}" "${OUT:=$(dirname "$(dirname "$INFER")")}"
	T=$(mktemp -d)
	fake_use
	export INFER_WITHOUT=cudnn,cublaslt,nvrtc
}

teardown() {
	rm -rf "$T"
}

# Nothing of the driver's is kept.
nothing_left() {
	! grep '^left' "$T/log"
}

@test "The runtime's unit tests pass on a device that runs late, and on one whose streams overtake each other" {
	for late in 1 others; do
		for unit in gpu_runtime gpu_copies; do
			[ -x "$OUT/unit/$unit" ] || skip "unit tests are not built"
			rm -f "$T/log"
			FAKE_CUDA_LATE=$late run "$OUT/unit/$unit"
			[ "$status" -eq 0 ]
			grep -q '^free' "$T/log"
			nothing_left
		done
	done
}

@test "The host accesses no device memory, and nothing outside its allocations" {
	for guard in 1 before; do
		[ -x "$OUT/unit/gpu_runtime" ] || skip "unit tests are not built"
		FAKE_CUDA_HIDE=1 FAKE_CUDA_GUARD=$guard run "$OUT/unit/gpu_runtime"
		[ "$status" -eq 0 ]
	done
}

# Steps of the host between others of the device: branch.onnx a = Scaler(x), y = If(c, a), z = Scaler(Scaler(a));
# turns.onnx v = Scaler(v) in a Loop of n turns, which stacks them.
@test "The host may overwrite its values after their copy to the device was queued" {
	declare -A input
	printf '\001' >"$T/c"
	printf '\004\0\0\0\0\0\0\0' >"$T/n"
	input=([branch]="c=$T/c,dtype=bool,shape=,format=raw" [turns]="n=$T/n,dtype=i64,shape=,format=raw")
	for model in branch turns; do
		for device in cpu cuda; do
			FAKE_CUDA_LATE=1 FAKE_CUDA_HIDE=1 FAKE_CUDA_GUARD=1 run "$INFER" run \
				"test/gpu/data/$model.onnx" --input "${input[$model]}" --random x=-1..1 \
				--device $device --save "$T/$model.$device"
			[ "$status" -eq 0 ]
		done
		run diff -r "$T/$model.cpu" "$T/$model.cuda"
		[ "$status" -eq 0 ]
	done
	[ -s "$T/branch.cpu/y.npy" ] && [ -s "$T/turns.cpu/all.npy" ]
	nothing_left
}

@test "The stand-in reports a host access to device memory, and an access past the end of an allocation" {
	cat >"$T/look.c" <<-'END'
		#include <stdlib.h>
		int cuInit(unsigned), cuMemAlloc_v2(unsigned long long *, size_t), cuDevicePrimaryCtxRetain(void **, int);
		int cuCtxPushCurrent_v2(void *);
		int main(int argc, char **argv)
		{
			unsigned long long p;
			void *c;
			cuInit(0), cuDevicePrimaryCtxRetain(&c, 0), cuCtxPushCurrent_v2(c);
			if (cuMemAlloc_v2(&p, 4096))
				return 1;
			return ((volatile char *)p)[atoi(argv[1])] == 'x';
		}
	END
	${CC:-gcc} -w -o "$T/look" "$T/look.c" "$FAKE/libcuda.so.1" -Wl,-rpath,"$FAKE"
	FAKE_CUDA_HIDE=1 run "$T/look" 5
	[ "$status" -eq 139 ]
	[[ $output == *"the host touches memory of the device, at 5 of 4096 bytes"* ]]
	FAKE_CUDA_GUARD=1 run "$T/look" 4096
	[ "$status" -eq 139 ]
	[[ $output == *"0 bytes behind the end of 4096 bytes"* ]]
	FAKE_CUDA_GUARD=before run "$T/look" -1
	[ "$status" -eq 139 ]
	[[ $output == *"1 bytes before 4096 bytes"* ]]
	run "$T/look" 5
	[ "$status" -eq 0 ]
}

@test "A Loop whose final carried values are unused runs" {
	printf '\003\0\0\0\0\0\0\0' >"$T/n"
	for device in cpu cuda; do
		run "$INFER" run test/gpu/data/unwanted.onnx --input "n=$T/n,dtype=i64,shape=,format=raw" \
			--random 1..1 --device $device --print
		[ "$status" -eq 0 ]
		# 1 doubled in each turn; the stand-in's kernels compute nothing
		[ $device = cuda ] || [[ $output == *"y0 f32 [2]"*"8"*"8"* ]]
	done
}

@test "A decoder's step is the CUDA graph of the one before, changed where it differs, and never one of memory that is gone" {
	local speak=(--feed 'present.*=past_key_values.*' --next input_ids=argmax:logits --input "input_ids=test/data/steps/prompt.npy")
	FAKE_CUDA_REUSE=1 FAKE_CUDA_LATE=1 run "$INFER" run test/data/steps/gpt.onnx "${speak[@]}" --steps 24 --device cuda
	[ "$status" -eq 0 ]
	# a step is one graph; the rooms of the states grow in the first steps, and each time with new graphs
	[ "$(grep -c '^replay' "$T/log")" -ge 15 ]
	[ "$(grep -c '^replay' "$T/log")" -le 24 ]
	[ "$(grep -c '^instantiate' "$T/log")" -le 12 ]
	# of 35 launches only those change that the length of the cache concerns
	[ "$(grep -c '^change' "$T/log")" -ge 100 ]
	[ "$(grep -c '^change' "$T/log")" -le 300 ]
	! grep 'stale graph' "$T/log"
	nothing_left
}

@test "A decoder's long first plan is freed while a step runs, and the step's scores stay" {
	local speak=(--feed 'present.*=past_key_values.*' --next input_ids=argmax:logits --prefill 100 --decode 20 --dim batch=1)
	FAKE_CUDA_LATE=1 run "$INFER" profile test/data/steps/gpt.onnx "${speak[@]}" --device cuda
	[ "$status" -eq 0 ]
	[[ $output == *"20 ids a round"* ]]
	nothing_left
}
