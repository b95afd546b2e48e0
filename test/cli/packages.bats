#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Packages can be built again by anybody, in a folder of any name.

load helper

@test "GPU code is the same in any folder" {
	local nvcc folder
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	[ -x "$nvcc" ] || skip "there is no nvcc"
	for folder in here elsewhere/deeper; do
		mkdir -p "$BATS_TEST_TMPDIR/$folder"
		cp -r Makefile gpu src onnx tools "$BATS_TEST_TMPDIR/$folder"
		printf '1.0\n0\n' >"$BATS_TEST_TMPDIR/$folder/VERSION"
		env -u MAKEFLAGS -u MAKELEVEL make -C "$BATS_TEST_TMPDIR/$folder" CUDA="${nvcc%/bin/nvcc}" GPU_ARCHS=90 GPU_PTX= build/gpu/cast.fatbin
	done
	cmp "$BATS_TEST_TMPDIR"/{here,elsewhere/deeper}/build/gpu/cast.fatbin
}
