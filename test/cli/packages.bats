#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Packages can be built again by anybody, in a folder of any name.

load helper

# As from a shell of its own: a make that runs these tests hands its variables on (SANITIZE, CC, OUT, ...), and some of
# them choose another build folder.
make_afresh() {
	env -i PATH="$PATH" HOME="${HOME:-/}" TMPDIR="${TMPDIR:-/tmp}" ${PKG_CONFIG_PATH:+PKG_CONFIG_PATH="$PKG_CONFIG_PATH"} make "$@"
}

@test "GPU code is the same in any folder" {
	local nvcc folder
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	[ -x "$nvcc" ] || skip "there is no nvcc"
	for folder in here elsewhere/deeper; do
		mkdir -p "$BATS_TEST_TMPDIR/$folder"
		cp -r Makefile gpu src onnx tools "$BATS_TEST_TMPDIR/$folder"
		printf '1.0\n0\n' >"$BATS_TEST_TMPDIR/$folder/VERSION"
		make_afresh -C "$BATS_TEST_TMPDIR/$folder" CUDA="${nvcc%/bin/nvcc}" GPU_ARCHS=90 GPU_PTX= build/gpu/cast.fatbin
	done
	cmp "$BATS_TEST_TMPDIR"/{here,elsewhere/deeper}/build/gpu/cast.fatbin
}

@test "A oneDNN of the system is opened by the name that it gives itself" {
	printf 'prefix=/usr\nlibdir=%s\nName: dnnl\nDescription: x\nVersion: 3.7.2\nLibs: -ldnnl\n' "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/dnnl.pc"
	echo 'int dnnl;' | gcc -shared -Wl,-soname,libdnnl.so.3.6 -o "$BATS_TEST_TMPDIR/libdnnl.so" -x c -
	PKG_CONFIG_PATH=$BATS_TEST_TMPDIR make_afresh -n -C "${BATS_TEST_DIRNAME}/../.." BUILD="$BATS_TEST_TMPDIR/build" CC=gcc CUDA=no all >/dev/null
	grep -q -- '-DDNNL_NAME=.*libdnnl.so.3.6' "$BATS_TEST_TMPDIR/build/flags"
}

@test "A build works after make -n" {
	local build=$BATS_TEST_TMPDIR/build
	make_afresh -n -C "${BATS_TEST_DIRNAME}/../.." BUILD="$build" CC=gcc CUDA=no all >/dev/null
	make_afresh -C "${BATS_TEST_DIRNAME}/../.." BUILD="$build" CC=gcc CUDA=no "$build/obj/selftest_cases.o"
}
