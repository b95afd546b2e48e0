#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is printed where: a result goes to standard output, whole and in order; messages about a run go to standard error.

load helper

setup() {
	in_test_data
	unset INFER_DEVICE
}

@test "A report of check that is sent to a file holds its findings, then the verdict" {
	run -3 --separate-stderr "$INFER" check nothere.onnx
	[ -z "$stderr" ]
	[[ ${lines[0]} == "error[E-MODEL-OPEN]: nothere.onnx: cannot open"* ]]
	[[ $output == *"E-MODEL-OPEN"*"file         1 error"* ]]
	[[ ${lines[-1]} == "nothere.onnx: 1 error, 0 warnings; device none;"*"exit status 3" ]]
	run -0 --separate-stderr "$INFER" check pic.onnx --input rgb.png -q
	[[ -z $stderr && $output != *N-MODEL-IDENTITY* && $output == *"exit status 0" ]]
	# an error in the command line is no finding of the model
	run -2 --separate-stderr "$INFER" check pic.onnx --rtol 2 --compare none
	[[ -z $output && $stderr == *E-TOLERANCE* ]]
	# the document has them as before, and nothing is told twice
	run -3 --separate-stderr "$INFER" check nothere.onnx --json
	[ -z "$stderr" ] && [ "$(grep -c '"id": "E-MODEL-OPEN"' <<<"$output")" = 1 ]
}

@test "A machine without a GPU is told of by doctor, and where somebody asked for one" {
	"$INFER" doctor | grep -q '^cuda .*missing' || skip "there is a GPU"
	run -0 --separate-stderr "$INFER" run pic.onnx --input rgb.png
	[[ $stderr == *"device  cpu"* && $stderr != *"GPU"* && $stderr != *CUDA* ]]
	run -0 --separate-stderr "$INFER" check pic.onnx --input rgb.png
	[[ $output == *"device       ok          cpu, 1 step"* && $output != *GPU* ]]
	run -0 --separate-stderr "$INFER" run pic.onnx --input rgb.png --device auto
	[[ $stderr == *"device  cpu (no usable GPU: "* ]]
	run -8 --separate-stderr "$INFER" run pic.onnx --input rgb.png --device cuda
	[[ $stderr == *CUDA* ]]
}
