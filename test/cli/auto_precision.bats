#!/usr/bin/env bats
# --precision auto: on the CPU; on a driver whose kernels compute nothing (test/gpu/fake/cuda.c), where nothing may be
# taken for precise; and what is kept of it.

. test/gpu/fake/use.bash

setup_file() {
	fake_build
}

teardown_file() {
	fake_drop
}

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	chain=test/gpu/data/chain.onnx
	args=(--random 0..1 --dim n=2)
	export INFER_CACHE_DIR=$T/cache
}

teardown() {
	rm -rf "$T"
}

on_the_fake() {
	fake_use
	args+=(--device cuda --optimize none)
}

launches() {
	grep -c '^run ' "$T/log"
}

@test "On the CPU, auto chooses fp32 and reports it as text and JSON" {
	run "$INFER" run "$chain" "${args[@]}" --device cpu --precision auto
	[ "$status" -eq 0 ]
	[[ $output == *"auto is fp32: the CPU computes"* ]]
	run "$INFER" run "$chain" "${args[@]}" --device cpu --precision auto --json
	[ "$status" -eq 0 ]
	[[ $output == *'"precision": "fp32"'* ]]
	[[ $output == *'"taken": "fp32"'* ]]
	[[ $output != *"auto is"* ]]
}

@test "--quiet does not print the choice" {
	run "$INFER" run "$chain" "${args[@]}" --device cpu --precision auto --quiet
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "auto works from the environment, from a configuration file, and in every command that runs a model" {
	INFER_PRECISION=auto run "$INFER" run "$chain" "${args[@]}" --device cpu
	[[ $output == *"auto is fp32"* ]]
	printf 'precision: auto\n' >"$T/c.yaml"
	run "$INFER" run "$chain" "${args[@]}" --device cpu --config "$T/c.yaml"
	[[ $output == *"auto is fp32"* ]]
	run "$INFER" check "$chain" --device cpu --precision auto
	[ "$status" -eq 0 ]
	[[ $output == *"auto is fp32"* ]]
	run "$INFER" profile "$chain" --device cpu --precision auto -n 3 --warmup 1
	[ "$status" -eq 0 ]
	[[ $output == *"auto is fp32"* ]]
}

@test "A comparison of several precisions lists auto under its own name" {
	run "$INFER" profile "$chain" --device cpu --precision fp32,auto -n 3 --warmup 1
	[ "$status" -eq 0 ]
	[[ $output == *"precision=auto: auto is fp32"* ]]
	[[ $output == *"precision=fp32"* ]]
}

@test "A precision that computes the same numbers as fp32, or none, is rejected" {
	on_the_fake
	run "$INFER" run "$chain" "${args[@]}" --precision auto
	[ "$status" -eq 0 ]
	[[ $output == *"auto is fp32"* ]]
	for p in tf32 fp16 bf16; do
		[[ $output == *"$p "*" a run, "*": rejected: "* ]]
	done
	[[ $output != *"auto is tf32"* && $output != *"auto is fp16"* && $output != *"auto is bf16"* ]]
}

@test "The choice is cached: the second run measures nothing, but another shape or no cache does" {
	on_the_fake
	run "$INFER" run "$chain" "${args[@]}" --precision auto
	[ "$status" -eq 0 ]
	[ "$(launches)" -gt 50 ]
	rm "$T/log"
	run "$INFER" run "$chain" "${args[@]}" --precision auto
	[ "$status" -eq 0 ]
	[[ $output == *"(from the cache)"* ]]
	[ "$(launches)" -eq 6 ]
	rm "$T/log"
	run "$INFER" run "$chain" "${args[@]/n=2/n=3}" --precision auto
	[[ $output == *"f32 [3,64]"* ]]
	[[ $output != *"from the cache)"* ]]
	[ "$(launches)" -gt 50 ]
	rm "$T/log"
	run "$INFER" run "$chain" "${args[@]}" --precision auto --cache off
	[[ $output != *"from the cache)"* ]]
	[ "$(launches)" -gt 50 ]
}

@test "A damaged cache entry is replaced by a new choice" {
	on_the_fake
	"$INFER" run "$chain" "${args[@]}" --precision auto
	for f in "$T"/cache/v1/*/blobs/*; do printf 'x' | dd of="$f" bs=1 seek=200 conv=notrunc status=none; done
	run "$INFER" run "$chain" "${args[@]}" --precision auto
	[ "$status" -eq 0 ]
	[[ $output != *"from the cache)"* ]]
}

@test "A model from a pipe can be read twice" {
	on_the_fake
	run bash -c 'cat "$0" | "$1" run - "${@:2}" --precision auto' "$chain" "$INFER" "${args[@]}"
	[ "$status" -eq 0 ]
	[[ $output == *"auto is fp32"* ]]
	[[ $output == *"output  y f32 [2,64]"* ]]
}

@test "A model that fp32 cannot run is reported by the run itself" {
	on_the_fake
	FAKE_CUDA_REFUSE=1:1 run "$INFER" run "$chain" "${args[@]}" --precision auto
	[ "$status" -eq 8 ]
	[[ $output == *"fp32 did not run"* ]]
	run "$INFER" run "$T/none.onnx" "${args[@]}" --precision auto
	[ "$status" -eq 3 ]
	[[ $output == *"E-MODEL-OPEN"* ]]
}
