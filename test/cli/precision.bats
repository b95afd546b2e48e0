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

# Makes the model "$T/$1.onnx" of the text on stdin, in the form "(inputs) => (outputs) { nodes }".
model() {
	{ echo '<ir_version: 10, opset_import: ["" : 21]>'; echo "g $(cat)"; } >"$T/$1.onnxtxt"
	"$INFER" convert "$T/$1.onnxtxt" -o "$T/$1.onnx" -q
}

# What a model computes, without its names and types.
values() {
	"$INFER" run "$T/$1.onnx" "${@:2}" --device cpu --print 0 -q
}

@test "fp16 and bf16 do not round sizes, indices and positions" {
	model sizes <<-E
		(float[1,1,H,W] x) => (float[A,B,C,D] y) <float[2] k = {1.5, 1.5}, int64[2] one = {1, 1}> {
		 s = Shape<start=2, end=4>(x)
		 f = Cast<to=1>(s)
		 m = Mul(f, k)
		 r = Floor(m)
		 i = Cast<to=7>(r)
		 z = Concat<axis=0>(one, i)
		 y = Resize<mode="nearest">(x, "", "", z) }
	E
	model index <<-E
		(float[N] p, int64[M] q) => (int64[N] y, int64[M] z, bool[N] same, float[M] c) <float three = {3}, float one = {1}, float id = {4002}> {
		 a = Mul(p, three)
		 y = Cast<to=7>(a)
		 f = Cast<to=1>(q)
		 b = Mul(f, three)
		 z = Cast<to=7>(b)
		 g = Add(p, one)
		 same = Equal(g, id)
		 c = Cos(b) }
	E
	for p in fp16 bf16; do
		for o in none full; do
			run "$INFER" run "$T/sizes.onnx" --random=0..1 --shape x=1x1x263x301 --device cpu --precision $p --optimize $o
			[ "$status" -eq 0 ]
			[[ $output == *"[1,1,394,451]"* ]]
			[ "$(values index --input 'p=[357,4001]' --input 'q=[1667,30001]' --precision $p --optimize $o)" = \
				"$(values index --input 'p=[357,4001]' --input 'q=[1667,30001]' --optimize $o)" ]
		done
	done
}

@test "fp16 and bf16: what a mask hides wholly is the mean, at all levels" {
	model mask <<-E
		(float[1,4] x, float[4,4] w, float[1,4] m, int64[1,4] i) => (float[1,4] y, float[1,4] z) <float one = {1}, float low = {-3.4028234663852886e+38}> {
		 s = MatMul(x, w)
		 t = Add(s, m)
		 p = Softmax(t)
		 y = MatMul(p, w)
		 f = Cast<to=1>(i)
		 g = Sub(one, f)
		 h = Mul(g, low)
		 u = Add(s, h)
		 q = Softmax(u)
		 z = MatMul(q, w) }
	E
	for p in fp32 fp16 bf16; do
		for o in none basic full; do
			run values mask --input 'x=[[-64,1,2,4]]' --input 'w=[[1,2,3,4],[2,2,2,2],[4,0,4,0],[1,0,1,8]]' \
				--input 'm=[[-3.4e38,-3.4e38,-3.4e38,-3.4e38]]' --input 'i=[[0,0,0,0]]' --precision $p --optimize $o
			[ "$status" -eq 0 ]
			[ "$(grep -c '^2 1 2.5 3.5$' <<<"$output")" -eq 2 ]
		done
	done
}

@test "fp16 keeps small constants and what follows a square" {
	model small <<-E
		(float[1,4] x, float[4,4] w) => (float[1,4] y, float[1,1] z) <float e = {1e-12}, float k = {500}, float two = {2}, int64[1] ax = {1}> {
		 a = MatMul(x, w)
		 n = ReduceL2(a, ax)
		 c = Clip(n, e)
		 y = Div(a, c)
		 b = Mul(x, k)
		 q = Pow(b, two)
		 m = ReduceMean(q, ax)
		 v = Add(m, e)
		 z = Sqrt(v) }
	E
	for o in none full; do
		run values small --input 'x=[[0,0,0,0]]' --input 'w=[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]' --precision fp16 --optimize $o
		[ "$(grep -c '^0 0 0 0$' <<<"$output")" -eq 1 ]
		run values small --input 'x=[[1,1,1,1]]' --input 'w=[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]' --precision fp16 --optimize $o
		[ "$(grep -c '^500$' <<<"$output")" -eq 1 ]
	done
}

@test "A failure that fp16 alone has names --precision fp32, not the sizes" {
	model features <<-E
		(float[N,2] x, float[2,1] w, float[5000] table) => (float[N,1] y) {
		 a = MatMul(x, w)
		 i = Cast<to=7>(a)
		 y = Gather(table, i) }
	E
	run "$INFER" run "$T/features.onnx" --input 'x=[[2500,2499]]' --input 'w=[[1],[1]]' --random=0..1 --device cpu --precision fp16
	[ "$status" -eq 3 ]
	[[ $output == *"with --precision fp32 the model runs"* ]]
	[[ $output != *"does not accept these sizes"* ]]
	[[ $output != *"random values"* ]]
}
