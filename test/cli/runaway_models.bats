#!/usr/bin/env bats
# Models of some bytes that ask for time or memory without end.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/runaway" || return 1
	bats_require_minimum_version 1.5.0
}

@test "What does not fit into folding's memory stays in the graph, and a note says so once" {
	run -0 --separate-stderr "$INFER" inspect constants_128mib.onnx
	[[ $stderr == *"note[N-MODEL-FOLD]"*"the folded constants would take too much memory"* ]]
	[ "$(grep -c N-MODEL-FOLD <<<"$stderr")" = 1 ]
	run -0 "$INFER" run constants_128mib.onnx -q
}

@test "A pooling window of 2^31 elements costs no more than one as large as the input" {
	run -0 timeout 60 "$INFER" inspect pool_padding.onnx
	run -0 timeout 60 "$INFER" run pool_padding.onnx -q --optimize none
	run -0 timeout 60 "$INFER" run pool_padding.onnx -q
}

@test "More samples than a RoiAlign could ever take are refused before the run" {
	run -3 timeout 60 "$INFER" run roi_samples.onnx --random 0..1
	[[ $output == *"E-VALUE"*"sampling_ratio of at most 128, got 2147483647"* ]]
}

@test "A value that is far larger than the model and its inputs is refused, unless a limit allows it" {
	run -3 "$INFER" run constant_8gib.onnx
	[[ $output == *"E-MEMORY-LIMIT"*"at most "*"default"*"8,589,934,592 bytes"* ]]
	run -3 "$INFER" run constant_8gib.onnx --memory-limit 8GB
	[[ $output == *"E-MEMORY-LIMIT"*"at most 8,000,000,000 bytes,"* ]]
}

# The command ends a loop without end, and what it leaves behind says that the time was over.
ends() {
	run -124 --separate-stderr "$INFER" "$@" loop_endless.onnx --random 0..1 --timeout 1
	[[ $stderr == *"E-TIMEOUT"* ]]
}

@test "--timeout ends a loop without end, in every command that runs models" {
	ends run
	ends check
	ends profile
	[[ $stderr == *"E-TIMEOUT"* ]]
}

@test "The scan output of a loop without end is refused at the memory limit" {
	run -3 timeout 60 "$INFER" run loop_stacks.onnx --memory-limit 100MB
	[[ $output == *"E-MEMORY-LIMIT"*"at most 100,000,000 bytes"*"a scan output of"* ]]
}

@test "A configuration of 20,000 inputs takes memory in proportion to its lines" {
	(ulimit -v 2000000 && "$INFER" --version) || skip "the program reserves more addresses than the limit allows"
	{ echo "input:" && seq -f "  - a%.0f=x.npy" 20000; } >"$BATS_TEST_TMPDIR/many.yml"
	(ulimit -v 2000000 && run -4 timeout 60 "$INFER" run pool_padding.onnx --config "$BATS_TEST_TMPDIR/many.yml" &&
		[[ $output == *"E-INPUT-NAME"* ]])
}

@test "Additions of constants that become one, thousands of times, take memory in proportion to their number" {
	(ulimit -v 2000000 && "$INFER" --version) || skip "the program reserves more addresses than the limit allows"
	{
		echo '<ir_version: 8, opset_import: ["" : 17]> g (float[3,3] v0) => (float[3,3] y) <float one = {1.0}> {'
		seq 3000 | awk '{ printf "v%d = Add(v%d, one)\n", $1, $1 - 1 }'
		echo 'y = Relu(v3000) }'
	} >"$BATS_TEST_TMPDIR/sum.onnxtxt"
	(ulimit -v 2000000 && run -0 "$INFER" run "$BATS_TEST_TMPDIR/sum.onnxtxt" --random 0..0 && [[ $output == *"mean 3000"* ]])
	# each node once
	sed -e 's/y = Relu(v3000)/y = Relu(v3)/' -e '/^v[4-9]/d' -e '/^v[0-9][0-9]/d' "$BATS_TEST_TMPDIR/sum.onnxtxt" >"$BATS_TEST_TMPDIR/few.onnxtxt"
	run -0 "$INFER" inspect "$BATS_TEST_TMPDIR/few.onnxtxt" --stage opt
	[[ $output == *"# Relu_3, Add_2, Add_1, Add_0"$'\n'* ]]
}

@test "Each value is looked at once, however many paths lead to it" {
	local dir=$BATS_TEST_TMPDIR from=x level
	{
		echo '<ir_version: 8, opset_import: ["": 17]> g (float[1,3,64,8] x) => (float[1,3,n,8] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] axis = {2}> {'
		for level in a b c d e f; do # 10^12 paths
			seq -f "$level%.0f = Slice ($from, zero, one, axis)" 100
			from=joined_$level
			echo "$from = Concat <axis = 2> ($(seq -s , -f "$level%.0f" 100))"
		done
		echo "y = Relu ($from) }"
	} >"$dir/fan.onnxtxt"
	{ printf 'P6 8 64 255\n' && head -c 1536 /dev/zero | tr '\0' '\50'; } >"$dir/p.ppm"
	run -0 timeout 60 "$INFER" check "$dir/fan.onnxtxt" --input x="$dir/p.ppm"
	run -0 timeout 60 "$INFER" run "$dir/fan.onnxtxt" --input x="$dir/p.ppm" -q
}

@test "A constant with more than a thousand readers that mean its infinities is no finding" {
	{
		echo '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) <float zero = {0}, float low = {-inf}> { c = Greater (x, zero)'
		seq -f 'w%.0f = Where (c, x, low)' 1500
		echo "y = Max (x, $(seq -s , -f 'w%.0f' 1500)) }"
	} >"$BATS_TEST_TMPDIR/where.onnxtxt"
	run -0 "$INFER" check "$BATS_TEST_TMPDIR/where.onnxtxt"
	[[ $output == *"0 errors, 0 warnings"* ]]
}

@test "Thousands of sizes that look fixed take memory in proportion to their number" {
	(ulimit -v 2000000 && "$INFER" --version) || skip "the program reserves more addresses than the limit allows"
	{
		echo '<ir_version: 8, opset_import: ["": 17]> g (float[n,4] x, float[m,4] z) => (float[1,4] y) <int64[2] to = {1, 4}> {'
		seq -f 'r%.0f = Reshape (x, to)' 1 2 16000
		seq -f 'r%.0f = Reshape (z, to)' 2 2 16000
		echo "y = Max ($(seq -s , -f 'r%.0f' 16000)) }"
	} >"$BATS_TEST_TMPDIR/fixed.onnxtxt"
	(ulimit -v 2000000 && run -0 timeout 120 "$INFER" check "$BATS_TEST_TMPDIR/fixed.onnxtxt" && [[ $output == *"sizes        16000 warnings"* ]])
}

@test "A refusal of memory names the model, also in the document" {
	INFER_FAIL_ALLOC=20 run -3 --separate-stderr "$INFER" run pool_padding.onnx --json
	[[ $stderr == "error[E-MEMORY]: pool_padding.onnx: "* ]]
	[ "$(jq -r '.findings[0].where.model, .exit_code' <<<"$output")" = $'pool_padding.onnx\n3' ]
}

# A model in text form: awk prints what stands between the braces, N times or whatever the program likes.
text_model() { # HEAD AWK-PROGRAM
	echo "<ir_version: 8, opset_import: [\"\" : 17]> $1 {"
	awk "BEGIN { $2 }"
	echo '}'
}

@test "check looks at thousands of Casts, weights and outputs once, not once for each other" {
	local n=10000 file=$BATS_TEST_TMPDIR/many.onnxtxt
	# in seconds of the processor; before, each took more than twice that
	text_model 'g (float[2] x) => (float[2] y)' 'p = "x"; for (i = 0; i < 30000; i++) {
		printf "h%d = Cast <to = 10> (%s)\nx%d = Cast <to = 1> (h%d)\n", i, p, i, i; p = "x" i } print "y = Relu (" p ")"' >"$file"
	(ulimit -t 15 && run -0 "$INFER" check "$file" --input 'x=[0.1, 0.2]' && [[ $output == *"casts "* ]])
	for node in 'Mul (x, zero)' 'Log (low)'; do
		{
			printf '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => ('
			awk "BEGIN { for (i = 0; i < $n; i++) printf \"%sfloat[2] y%d\", i ? \", \" : \"\", i }"
			echo ') <float zero = {0}, float far = {5}> { low = Sub (x, far)'
			awk "BEGIN { for (i = 0; i < $n; i++) print \"y\" i \" = $node\" }"
			echo '}'
		} >"$file"
		(ulimit -t 10 && run -5 "$INFER" check "$file" --random 0..1 && [[ $output == *"output 'y9999'"* ]])
	done
}

@test "Thousands of operands, inputs and outputs are looked at once, not once for each other" {
	local i file=$BATS_TEST_TMPDIR/many.onnxtxt
	# in seconds of the processor, of which they take a tenth; before, it was 8 and 20
	text_model 'g (float[2] x) => (float[2] y)' 'printf "y = Sum (x"; for (i = 0; i < 60000; i++) printf ", x"; print ")"' | sed 's/"" : 17/"" : 8/' >"$file"
	(ulimit -t 6 && run -0 "$INFER" check "$file" --device cpu)
	{
		printf '<ir_version: 8, opset_import: ["" : 17]> g (float[1] in0'
		seq -f ', float[1] in%.0f' 5000
		printf ') => (float[1] out0'
		seq -f ', float[1] out%.0f' 5000
		printf ') { out0 = Neg (in0) '
		for i in {1..5000}; do echo "out$i = Neg (in$i)"; done
		echo '}'
	} >"$file"
	(ulimit -t 6 && run -0 "$INFER" check "$file" --device cpu)
	# six nodes that each read the one before it a hundred times: 10^12 ways
	text_model 'g (float[4,8] x) => (float[8,4] y)' 'print "p0 = Sigmoid (x)"; for (i = 0; i < 6; i++) {
		printf "p%d = Max (p%d", i + 1, i; for (k = 1; k < 100; k++) printf ", p%d", i; print ")" } print "y = Transpose <perm = [1, 0]> (p6)"' >"$file"
	echo '<ir_version: 8, opset_import: ["" : 17]> g (float[4,8] x) => (float[8,4] y) <float sc = {0.05}, uint8 z = {0}> { p0 = Sigmoid (x)
		p0_quantized = QuantizeLinear (p0, sc, z) q = Transpose <perm = [1, 0]> (p0_quantized) y = DequantizeLinear (q, sc, z) }' >"$BATS_TEST_TMPDIR/q.onnxtxt"
	(ulimit -t 6 && run "$INFER" check "$BATS_TEST_TMPDIR/q.onnxtxt" --compare "$file" --sensitivity && [[ $output == *"loss"* ]])
}

@test "A kernel that does not come back keeps neither --timeout nor Ctrl-C waiting" {
	for command in run check profile; do
		start=${EPOCHREALTIME/./}
		run -124 --separate-stderr "$INFER" $command pool_long.onnx --random 0..1 --timeout 1 --json
		[ $((${EPOCHREALTIME/./} - start)) -lt 10000000 ]
		[ "$(jq .exit_code <<<"$output")" = 124 ]
		run -130 --separate-stderr timeout --preserve-status -s INT -k 20 2 "$INFER" $command pool_long.onnx --random 0..1 --json
		[ "$(jq .exit_code <<<"$output")" = 130 ]
	done
}
