#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer selftest

setup_file() {
	. test/gpu/fake/use.bash
	fake_build
}

teardown_file() {
	. test/gpu/fake/use.bash
	fake_drop
}

setup() {
	. test/gpu/fake/use.bash
	T=$BATS_TEST_TMPDIR
	export INFER_WITHOUT=cudnn,cublaslt,nvrtc,cupti,nvml
}

@test "All cases pass on the CPU" {
	run "$INFER" selftest
	if "$INFER" doctor | grep -q '^cuda:0'; then skip "there is a GPU"; fi
	[ "$status" -eq 0 ]
	[[ $output =~ ^cpu\ +"$(wc -l <cmd/selftest.txt)"\ cases\ passed,\ 0\ failed ]]
}

@test "A device whose kernels do nothing fails, and each failure names the device and the case" {
	fake_use
	run "$INFER" selftest
	[ "$status" -eq 5 ]
	[[ $output == *"error[E-COMPARE]"*"cuda:0"* ]]
	[[ $output == *"test_gemm_alpha: output "*" differs from the stored result"* ]]
}

@test "--json tells each device, and doctor proposes the test" {
	run "$INFER" selftest --json
	[[ $output == *'"devices"'*'"device": "cpu"'*'"failed": 0'* ]]
	run "$INFER" doctor
	[[ $output == *"infer selftest" ]]
}

@test "Without /proc no device is blamed" {
	! grep -q __asan_init "$INFER" || skip "AddressSanitizer itself needs /proc"
	unshare -rm sh -c 'mount -t tmpfs none /proc' 2>/dev/null || skip "no name spaces here"
	run unshare -rm sh -c 'mount -t tmpfs none /proc && exec "$0" selftest' "$INFER"
	[ "$status" -eq 8 ]
	[[ $output == *"error[E-DEVICE]"*"cannot run without /proc"*"mount -t proc"* ]]
	[[ $output != *" failed, in "* ]]
}
