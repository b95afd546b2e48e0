#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What findings say is true: the sizes that ran, the nodes of a cycle, what a file is, and which option did nothing.

load helper

setup() {
	INFER=$(realpath "$INFER")
	cd "$BATS_TEST_TMPDIR" || return 1
	export INFER_DEVICE=cpu
}

# model NAME TEXT: a model of IR version 10 and opset 21 in NAME.onnx, and its text in NAME.txt
model() {
	printf '<ir_version: 10, opset_import: ["": 21%s]>\n%s\n' "${3:-}" "$2" >"$1.txt"
	"$INFER" convert -q "$1.txt" "$1.onnx"
}

@test "check names the sizes that it ran with, if the guessed ones do not run" {
	model late 'g (float[1,1,M] x) => (float[1,1,K] y) <float[1,1,3] w = {1.0, 2.0, 3.0}, float zero = {0.0}> {
		s = ReduceMax <keepdims = 0> (x)
		c = Greater (s, zero)
		y = If (c) <then_branch = t () => (float[1,1,A] p) { p = Conv (x, w) },
		            else_branch = e () => (float[1,1,B] q) { q = Conv (x, w) }>
	}'
	run -0 "$INFER" check late.onnx
	[[ $output == *"the model does not run with the sizes that were guessed, but with --dim M=8"* ]]
	run -3 "$INFER" check late.onnx --dim M=1
	run -0 "$INFER" check late.onnx --dim M=8
	[[ $output != *"guessed"* ]]
}

@test "inspect --cost takes the sizes that --memory takes, if a free dimension cannot be 1" {
	model pool 'g (float[N,1,H,W] x) => (float[N,1,A,B] y) { y = MaxPool <kernel_shape = [3,3]> (x) }'
	for part in --memory --cost "--cost --memory"; do
		# shellcheck disable=SC2086
		run -0 --separate-stderr "$INFER" inspect pool.onnx $part
		[[ $stderr == "warning[W-DIM-DEFAULT]: "*"it runs with x [1,1,8,8]"* && $stderr != *warning*warning* && $stderr != *note* ]]
	done
	[[ $output == *"cost        0 MACs, 36 FLOPs, 400 B moved"* && $output == *"y  f32 [1,1,6,6]"* ]]
	run -0 "$INFER" inspect pool.onnx --cost --dim H=4
	[[ $output == *"x  f32 [1,1,4,8]"* ]]
	run -3 --separate-stderr "$INFER" inspect pool.onnx --cost --dim H=1
	[[ $stderr == *"error[E-SHAPE]: node 'MaxPool_0'"* && $stderr != *error*error* ]]
}

@test "A domain whose only node does not load is not called unused" {
	model attend 'g (float[1,2,4] q) => (float[1,2,4] y) { y = com.microsoft.MultiHeadAttention <num_heads = 4611686018427387904> (q, q, q) }' \
		', "com.microsoft": 1'
	run -3 "$INFER" check attend.onnx
	[[ $output == *"(com.microsoft::MultiHeadAttention)"* && $output != *"no node is of this domain"* ]]
	model unused 'g (float[2] x) => (float[2] y) { y = Relu (x) }' ', "com.microsoft": 1'
	run -0 "$INFER" check unused.onnx
	[[ $output == *"opset of 'com.microsoft': imported, but no node is of this domain"* ]]
}

@test "A cycle is told by its nodes alone, in order, not by those that only read it" {
	model cycle 'g (float[2] x) => (float[2] y) {
		[n0] p = Neg (b)
		[n1] q = Neg (p)
		[n2] r = Neg (q)
		[n3] s = Neg (r)
		[n4] t = Neg (s)
		[one] a = Add (x, c)
		[two] b = Relu (a)
		[three] c = Relu (b)
		[n5] y = Relu (c)
	}'
	for command in run inspect check; do
		run -3 "$INFER" "$command" cycle.onnx
		names=${output#*"these nodes depend on one another: "}
		names=${names%%$'\n'*}
		case $names in
		"'one', 'two', 'three'" | "'two', 'three', 'one'" | "'three', 'one', 'two'") ;;
		*) echo "$output"; return 1 ;;
		esac
	done
	model self 'g (float[2] x) => (float[2] y) { [own] y = Add (x, y) }'
	run -3 "$INFER" check self.onnx
	[[ $output == *"depend on one another: 'own'"$'\n'* ]]
}

@test "What cannot be folded has a hint that fits, and constant nodes that nothing reads are not named" {
	model big "g (float[1] x) => (float[1] y$(printf ', float[1048576] c%d' {1..20})) <int64[1] n = {1048576}> {
		y = Relu (x)
		$(for i in {1..20}; do echo "c$i = ConstantOfShape (n)"; done)
	}"
	run "$INFER" check big.onnx
	[[ $output == *"are computed in each run"* && $output == *"hint: make the constant smaller, or compute it from an input"* ]]
	model idle 'g (float[2] x) => (float[2] y) <float[2] a = {1.0, 2.0}> { z = Neg (a) y = Relu (x) }'
	run -0 "$INFER" check idle.onnx
	[[ $output == *"1 node depends on constants only"$'\n'* ]]
}

@test "A broken model in text or JSON is told by its file, its line and what is wrong there" {
	printf '<ir_version: 10, opset_import: ["": 21]>\ng (float[2] x => (float[2] y) { y = Relu (x) }\n' >bad.txt
	printf '{"irVersion": 10,\n "nope": 1}\n' >bad.json
	for command in "inspect bad.txt" "run bad.txt --random" "convert bad.txt bad.onnx"; do
		# shellcheck disable=SC2086
		run -3 "$INFER" $command
		[ "$output" = "error[E-MODEL-FORMAT]: bad.txt: line 2, column 16: ',' or the end of the list is expected" ]
	done
	run -3 "$INFER" convert bad.json bad.onnx
	[[ $output == "error[E-MODEL-FORMAT]: bad.json: line 2: this is no model in protobuf's JSON form: the schema has no field of this name"* ]]
	echo 'a letter and no model' >letter.txt
	run -3 "$INFER" inspect letter.txt
	[[ $output == *"hint: this is a text file, and no model"* ]]
}

@test "Options that do nothing beside others are told" {
	model one 'g (float[2] x) => (float[2] y) { y = Relu (x) }'
	run -0 "$INFER" check one.onnx --undo 3
	[[ $output == *"warning[W-OPTION]: --undo: this option has no effect without --sensitivity"* ]]
	for way in "--stage file --weights" "--dot --nodes" "--passes --nodes" "--explain --weights"; do
		# shellcheck disable=SC2086
		run -0 --separate-stderr "$INFER" inspect one.onnx $way
		[[ $stderr == "warning[W-OPTION]: ${way##* }: the table of ${way##*--} is left out, as ${way%% *} is printed alone"* ]] || { echo "$way: $stderr"; return 1; }
	done
	run -0 --separate-stderr "$INFER" inspect one.onnx --stage file --weights --json
	[ -z "$stderr" ]
}
