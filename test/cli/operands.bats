#!/usr/bin/env bats
# infer run: operands whose sizes or values only the run knows are refused before a kernel reads them.
# test/check/operands.txt has those that are refused when the model is loaded.

setup_file() {
	cat >"$BATS_FILE_TMPDIR/corpus" <<-'END'
		case conv
		input x f32 n,c,h,w
		output y f32 ?,8,?,?
		init w f32 8,3,3,3 rand 1
		init b f32 8 rand 2
		node Conv stem x,w,b -> c pads=[1,1,1,1]
		node Relu act c -> y
		npy nhwc.npy f32 1,24,32,3 fill 1
		npy nchw.npy f32 1,3,24,32 fill 1
		case gqa
		import com.microsoft 1
		input q f32 1,2,32
		input k f32 1,2,16
		input s i32 1
		input t i32 1
		output y f32 1,2,32
		node com.microsoft:GroupQueryAttention attend q,k,k,_,_,s,t -> y num_heads=2 kv_num_heads=1
		npy 0.npy i32 1 0
		npy 1.npy i32 1 1
		npy 2.npy i32 1 2
		npy 9.npy i32 1 9
		npy below.npy i32 1 -7
		case gemm
		input x f32 ?,?
		input c f32 ?
		output y f32 ?,4
		init w f32 3,4 rand 1
		node Gemm dense x,w,c -> g
		node Relu act g -> y
		npy x.npy f32 2,3 fill 1
		npy four.npy f32 4 fill 1
		npy five.npy f32 5 fill 1
		case norm
		input x f32 ?,?,?
		output y f32 ?,?,?
		init s f32 6 rand 1
		node LayerNormalization norm x,s -> y
		npy six.npy f32 2,3,6 fill 1
		npy seven.npy f32 2,3,7 fill 1
	END
	${CC:-cc} -O1 -o "$BATS_FILE_TMPDIR/make" "$BATS_TEST_DIRNAME/../check/make.c" -lm
	"$BATS_FILE_TMPDIR/make" "$BATS_FILE_TMPDIR/corpus" "$BATS_FILE_TMPDIR/cases"
}

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	bats_require_minimum_version 1.5.0
}

# refuses CASE TEXT INPUT...: exit 3, TEXT in the message, none of a library's words
refuses() {
	local text=$2
	cd "$BATS_FILE_TMPDIR/cases/$1" || return 1
	shift 2
	run -3 --separate-stderr "$INFER" run model.onnx "$@" -q
	[[ $stderr = *"$text"* && $stderr != *oneDNN* && $stderr != *dnnl* ]] || { echo "$stderr"; return 1; }
}

runs() { # CASE INPUT...
	cd "$BATS_FILE_TMPDIR/cases/$1" || return 1
	shift
	run -0 "$INFER" run model.onnx "$@" -q
}

@test "A picture with its channels last does not fit a convolution with free dimensions" {
	runs conv --input x=nchw.npy
	refuses conv "error[E-SHAPE]: node 'stem' (Conv) input 0 'X'" --input x=nhwc.npy
	[[ $stderr = *"expected [N,3,?,...], got [1,24,32,3]"* ]]
}

@test "The bias of a fused Gemm fits its columns" {
	runs gemm --input x=x.npy --input c=four.npy
	refuses gemm "error[E-SHAPE]: node 'dense' (Gemm) input 2 'C'" --input x=x.npy --input c=five.npy
}

@test "The scale of a LayerNormalization fits its rows" {
	runs norm --input x=six.npy
	refuses norm "error[E-SHAPE]: node 'norm' (LayerNormalization) input 1 'Scale'" --input x=seven.npy
}

@test "total_sequence_length holds the queries" {
	gqa=(--random q=0..1 --random k=0..1 --input s=1.npy)
	runs gqa "${gqa[@]}" --input t=2.npy
	runs gqa "${gqa[@]}" --input t=9.npy
	for t in 0 1 below; do
		refuses gqa "error[E-VALUE]: node 'attend' (com.microsoft::GroupQueryAttention) input 6" \
			"${gqa[@]}" --input t=$t.npy
	done
}

@test "seqlens_k lies within the cache" {
	for s in 9 below; do
		refuses gqa "expected seqlens_k that fit the cache" --random q=0..1 --random k=0..1 \
			--input s=$s.npy --input t=2.npy
	done
}
