#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer cache: what tuning left on disk.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	unset INFER_CACHE_DIR
	DIR="$BATS_TEST_TMPDIR/cache"
	GPU="$DIR/v1/Some_GPU-sm90-132-driver13000"
}

fill() {
	mkdir -p "$GPU/blobs"
	printf 'infer choices 1\na key\ta value\nanother\tvalue\n' >"$GPU/choices.txt"
	printf 'infer blob 1\nk\n' >"$GPU/blobs/0123456789abcdef"
}

@test "cache ls reports an empty cache" {
	run "$INFER" cache ls --cache "$DIR"
	[ "$status" -eq 0 ]
	[ "$output" = "$DIR: empty" ]
}

@test "cache ls counts choices, plans and bytes" {
	fill
	run "$INFER" cache ls --cache "$DIR"
	[ "$status" -eq 0 ]
	[[ "$output" == *"$GPU"* ]]
	[[ "$output" == *"2 choices, 1 plans and kernels"* ]]
}

@test "cache ls --json prints a document" {
	fill
	run "$INFER" cache ls --cache "$DIR" --json
	[ "$status" -eq 0 ]
	[[ "$output" == *'"choices":2'* || "$output" == *'"choices": 2'* ]]
}

@test "cache clear removes only files of infer" {
	fill
	echo mine >"$DIR/notes"
	run "$INFER" cache clear --cache "$DIR"
	[ "$status" -eq 0 ]
	[[ "$output" == *"2 files"* ]]
	[ ! -e "$DIR/v1" ]
	[ -e "$DIR/notes" ]
}

@test "The cache folder can come from the environment" {
	fill
	INFER_CACHE_DIR="$DIR" run "$INFER" cache ls
	[[ "$output" == *"$GPU"* ]]
	mkdir -p "$BATS_TEST_TMPDIR/xdg"
	XDG_CACHE_HOME="$BATS_TEST_TMPDIR/xdg" run "$INFER" cache ls
	[ "$output" = "$BATS_TEST_TMPDIR/xdg/infer: empty" ]
}

@test "--cache off leaves nothing to list" {
	run "$INFER" cache ls --cache off
	[ "$status" -eq 2 ]
}

@test "cache accepts only ls and clear" {
	run "$INFER" cache lss --cache "$DIR"
	[ "$status" -eq 2 ]
	[[ "$output" == *"did you mean 'ls'"* ]]
}
