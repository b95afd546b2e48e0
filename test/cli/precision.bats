#!/usr/bin/env bats
# --precision on the CPU: fp16 and bf16 are computed in, tf32 is refused; never taken silently.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	M=$(ls -d test/data/run/*.onnx | head -1)
}

teardown() {
	rm -rf "$T"
}

@test "tf32 requires a GPU" {
	run "$INFER" run "$M" --random=-1..1 --device cpu --precision tf32
	[ "$status" -eq 2 ]
	[[ $output == *E-OPTION* ]]
	[[ $output == *"tf32 needs a GPU"* ]]
}

@test "fp8 requires a GPU" {
	run "$INFER" run "$M" --random=-1..1 --device cpu --precision fp8
	[ "$status" -eq 2 ]
	[[ $output == *"fp8 needs a GPU"* ]]
}

@test "An unknown precision is refused with a list of the valid ones" {
	run "$INFER" run "$M" --precision fp12
	[ "$status" -eq 2 ]
	[[ $output == *bf16* ]]
}

@test "fp16 and bf16 run on the CPU" {
	for p in fp16 bf16; do
		run "$INFER" run "$M" --random=-1..1 --device cpu --precision $p
		[ "$status" -eq 0 ]
	done
}

# Writes a layer CELL (of so many gates, with more attributes and operands) of 96 units over 5 steps of 3 sequences in two directions.
recurrent() {
	local cell=$1 gates=$2 attributes=$3 operands=$4 state='float[2,3,96]' cells=
	local w=$((2 * gates * 96 * 20)) r=$((2 * gates * 96 * 96)) b=$((2 * gates * 192))
	[ "$cell" != LSTM ] || cells=", $state yc"
	cat >"$T/$cell.onnxtxt" <<-END
		<ir_version: 8, opset_import: ["" : 17]>
		g (float[5,3,20] x, $state h, $state c) => (float[5,2,3,96] y, $state yh$cells) <int32[3] lens = {5, 2, 4}> {
			zero = Constant <value_float = 0.0> () one = Constant <value_float = 1.0> ()
			some = Constant <value_float = 0.37> () tenth = Constant <value_float = 0.1> ()
			n1 = Constant <value_float = $w.0> () i1 = Range (zero, n1, one) a1 = Mul (i1, some) v1 = Sin (a1)
			t1 = Mul (v1, tenth) s1 = Constant <value_ints = [2, $((gates * 96)), 20]> () w = Reshape (t1, s1)
			n2 = Constant <value_float = $r.0> () i2 = Range (zero, n2, one) a2 = Mul (i2, some) v2 = Cos (a2)
			t2 = Mul (v2, tenth) s2 = Constant <value_ints = [2, $((gates * 96)), 96]> () r = Reshape (t2, s2)
			n3 = Constant <value_float = $b.0> () i3 = Range (zero, n3, one) v3 = Sin (i3)
			t3 = Mul (v3, tenth) s3 = Constant <value_ints = [2, $((gates * 192))]> () b = Reshape (t3, s3)
			n4 = Constant <value_float = 576.0> () i4 = Range (zero, n4, one) v4 = Cos (i4)
			t4 = Mul (v4, tenth) s4 = Constant <value_ints = [2, 288]> () p = Reshape (t4, s4)
			y, yh${cells:+, yc} = $cell <hidden_size = 96, direction = "bidirectional"$attributes> (x, w, r, b, lens, h$operands)
		}
	END
}

@test "Recurrent layers in bf16 are close to fp32, with one thread and with threads that share the units" {
	recurrent RNN 1 ', clip = 0.9' ''
	recurrent GRU 3 '' ''
	recurrent LSTM 4 ', input_forget = 1' ', c, p'
	cp "$T/GRU.onnxtxt" "$T/GRU2.onnxtxt"
	sed -i 's/hidden_size = 96/hidden_size = 96, linear_before_reset = 1/' "$T/GRU2.onnxtxt"
	for m in RNN GRU GRU2 LSTM; do
		for threads in 1 2; do
			run "$INFER" check "$T/$m.onnxtxt" --random=-1..1 --device cpu --compare fp32,bf16 --threads $threads
			[ "$status" -eq 0 ]
			[[ $output =~ "outputs within "(0|[0-9.e-]+), ]]
			# a fifth of what the check lets bf16 have
			awk -v e="${BASH_REMATCH[1]}" 'BEGIN { exit !(e < 1e-2) }'
		done
	done
}
