#!/usr/bin/env bats
# infer run: operands whose sizes or values only the run knows are refused before a kernel reads them.
# test/check/operands.txt has those that are refused when the model is loaded.

load helper

setup_file() {
	make_models <<-'END'
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
		case lookup
		input i i64 n
		output y f32 ?,4
		init t i8 32,4 ramp 0 1
		init s f32 - fill 0.5
		init z i8 - fill 0
		init w f32 4,4 rand 1
		node DequantizeLinear table t,s,z -> f
		node Gather look f,i -> e
		node QuantizeLinear look_quantized e,s,z -> q
		node DequantizeLinear back q,s,z -> g
		node MatMul dense g,w -> y
		case norm
		input x f32 ?,?,?
		output y f32 ?,?,?
		init s f32 6 rand 1
		node LayerNormalization norm x,s -> y
		npy six.npy f32 2,3,6 fill 1
		npy seven.npy f32 2,3,7 fill 1
		case paged
		import com.microsoft 1
		input q f16 2,8
		input k f16 2,4
		input cache f16 3,2,1,4
		input starts i32 2
		input past i32 1
		input table i32 1,2
		input slots i32 2
		output y f16 2,8
		node com.microsoft:PagedAttention attend q,k,k,cache,cache,starts,past,table,_,_,slots -> y num_heads=2 kv_num_heads=1
		npy starts.npy i32 2 0 2
		npy starts_more.npy i32 2 0 3
		npy starts_late.npy i32 2 1 2
		npy past.npy i32 1 1
		npy past_full.npy i32 1 3
		npy past_below.npy i32 1 -1
		npy table.npy i32 1,2 2 0
		npy table_beyond.npy i32 1,2 2 3
		npy table_below.npy i32 1,2 -1 0
		npy slots.npy i32 2 -1 5
		npy slots_beyond.npy i32 2 6 0
		npy slots_below.npy i32 2 0 -2
		case sparse
		import com.microsoft 1
		input q f32 1,1,16
		input k f32 1,1,8
		input cache f32 1,1,20,8
		input rows i32 1,3
		input cols i32 1,3
		input total i32 1
		input lens i32 1
		output y f32 1,1,16
		output pk f32 1,1,20,8
		output pv f32 1,1,20,8
		node com.microsoft:SparseAttention attend q,k,k,cache,cache,rows,cols,total,lens -> y,pk,pv num_heads=2 kv_num_heads=1 sparse_block_size=16
		npy rows.npy i32 1,3 0 1 2
		npy rows_more.npy i32 1,3 0 1 4
		npy rows_back.npy i32 1,3 0 3 2
		npy rows_below.npy i32 1,3 -1 1 2
		npy cols.npy i32 1,3 0 1 -1
		npy cols_beyond.npy i32 1,3 0 2 -1
		npy cols_below.npy i32 1,3 0 -1 -1
		npy 18.npy i32 1 18
		npy 0.npy i32 1 0
		npy 19.npy i32 1 19
		npy 21.npy i32 1 21
		case crop
		import com.microsoft 1
		input x f32 2,1,4,4
		input r f32 ?,?
		input at i32 ?
		init size i32 2 2 2
		output y f32 ?,?,?,?
		node com.microsoft:CropAndResize crop x,r,at,size -> y
		npy four.npy f32 1,4 0 0 1 1
		npy five.npy f32 1,5 0 0 1 1 1
		npy 1.npy i32 1 1
		npy 2.npy i32 1 2
		npy below.npy i32 1 -1
		case decoder
		import com.microsoft 1
		input q f32 1,1,8
		input past f32 1,2,3,4
		input at i32 1
		output y f32 1,1,8
		node com.microsoft:DecoderMaskedMultiHeadAttention attend q,q,q,_,_,past,past,at -> y num_heads=2 past_present_share_buffer=1
		npy 2.npy i32 1 2
		npy 3.npy i32 1 3
		npy below.npy i32 1 -1
	END
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

# paged [NAME VALUE]: the inputs of the case, one of them from another file
paged() {
	local names=(starts past table slots) name
	inputs=(--random q=0..1 --random k=0..1 --random cache=0..1)
	for name in "${names[@]}"; do
		inputs+=(--input "$name=$([ "$name" = "${1-}" ] && echo "$2" || echo "$name").npy")
	done
}

@test "Lengths and blocks of PagedAttention lie within its cache" {
	paged
	runs paged "${inputs[@]}"
	for name in starts_more starts_late past_full past_below table_beyond table_below slots_beyond slots_below; do
		paged "${name%%_*}" "$name"
		refuses paged "error[E-VALUE]: node 'attend' (com.microsoft::PagedAttention)" "${inputs[@]}"
	done
}

@test "Regions of CropAndResize have four numbers, also of undeclared sizes, and lie in one of the images" {
	runs crop --random x=0..1 --input r=four.npy --input at=1.npy
	refuses crop "error[E-SHAPE]: node 'crop' (com.microsoft::CropAndResize) input 1 'rois'" --random x=0..1 --input r=five.npy --input at=1.npy
	for at in 2 below; do
		refuses crop "error[E-VALUE]: node 'crop'" --random x=0..1 --input r=four.npy --input at=$at.npy
	done
}

@test "past_sequence_length of DecoderMaskedMultiHeadAttention is a row of the shared cache" {
	runs decoder --random q=0..1 --random past=0..1 --input at=2.npy
	for at in 3 below; do
		refuses decoder "error[E-VALUE]: node 'attend'" --random q=0..1 --random past=0..1 --input at=$at.npy
	done
}

@test "Blocks of SparseAttention lie within its matrix" {
	sparse=(--random q=0..1 --random k=0..1 --random cache=0..1)
	runs sparse "${sparse[@]}" --input rows=rows.npy --input cols=cols.npy --input total=18.npy --input lens=18.npy
	for name in rows_more rows_back rows_below; do
		refuses sparse "expected block_row_indices" "${sparse[@]}" --input rows=$name.npy --input cols=cols.npy \
			--input total=18.npy --input lens=18.npy
	done
	for name in cols_beyond cols_below; do
		refuses sparse "expected block_col_indices" "${sparse[@]}" --input rows=rows.npy --input cols=$name.npy \
			--input total=18.npy --input lens=18.npy
	done
}

@test "Lengths of SparseAttention lie within its cache" {
	sparse=(--random q=0..1 --random k=0..1 --random cache=0..1 --input rows=rows.npy --input cols=cols.npy)
	refuses sparse "expected at most 20, the rows of the cache, got 21" "${sparse[@]}" --input total=21.npy --input lens=18.npy
	for lens in 0 19; do
		refuses sparse "expected key_total_sequence_lengths" "${sparse[@]}" --input total=18.npy --input lens=$lens.npy
	done
}

@test "A node that a rewrite moves, such as a Gather of codes, keeps its name in the errors of the run" {
	model=$BATS_FILE_TMPDIR/cases/lookup/model.onnx
	"$INFER" run "$model" --input 'i=[31]'
	for level in none full; do
		run "$INFER" run "$model" --input 'i=[40]' --optimize $level
		[ "$status" = 3 ]
		[[ $output == *"E-VALUE"*"'look' (Gather)"*"got 40"* ]]
	done
}
