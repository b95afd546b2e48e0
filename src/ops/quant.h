/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_QUANT_H
#define OPS_QUANT_H
#include "ops/window.h"

/* The .variant of a row; an operator that shares its functions with no other is QUANT_PLAIN. */
enum {
	QUANT_PLAIN,
	QUANT_UP,	  /* DequantizeLinear, against QuantizeLinear */
	QUANT_MULTIPLY,	  /* QLinearMul, against QLinearAdd */
	QUANT_LEAKY_RELU, /* QLinearLeakyRelu, against QLinearSigmoid */
	QUANT_GEMM,	  /* QGemm, in contrast to the other products of quantized matrices */
	QUANT_BNB	  /* MatMulBnb4, against MatMulNBits */
};

/* MatMulBlockQuantizedFp8Weight and MatMulBlockQuantizedFp4Weight */
struct block_weight {
	int64_t block_size;
};

struct quantize_params { /* QuantizeLinear, DequantizeLinear */
	int64_t axis, block_size, output_dtype, precision, saturate;
};
/* The inputs of infer::QConvAdd behind those of QLinearConv. */
enum qconv_add_in { QCONV_R = 9, QCONV_R_SCALE, QCONV_R_ZERO, QCONV_Y_SCALE, QCONV_Y_ZERO };
struct int_conv_params { /* ConvInteger, QLinearConv */
	struct window_attrs window;
	int64_t group, channels_last;
};
struct qgemm_params {
	float alpha;
	int64_t transA, transB;
};
struct matmul_nbits_params {
	int64_t K, N, bits, block_size, accuracy_level, weight_prepacked;
};
struct bnb_params { /* MatMulBnb4 */
	int64_t K, N, block_size, quant_type, transB, training_mode;
};
/* Values of the 16 codes of each quant_type, which is 0 for FP4 and 1 for NF4. */
extern const float bnb_values[2][16];
struct qconcat_params {
	int64_t axis;
};
struct qleaky_params {
	float alpha;
};
struct qpool_params {
	struct window_attrs window;
	int64_t ceil_mode, count_include_pad, channels_last;
};
struct qglobal_params {
	int64_t channels_last;
};
struct qsoftmax_params {
	int64_t axis, opset;
};
struct qattention_params {
	int64_t num_heads, unidirectional, do_rotary, past_present_share_buffer;
	float mask_filter_value, scale;
};

struct block_gather_params { /* GatherBlockQuantized */
	int64_t gather_axis, quantize_axis, block_size, bits;
};
/* Shape of the data in elements: uint8 data (type t) holds several elements of `bits` bits in a byte. */
struct shape block_gather_data(const struct shape *x, enum dtype t, int64_t bits);

/*
 * How scales are distributed over x: a single scale, a scale for each index of an axis, or a scale for each block
 * along an axis.
 */
struct granularity {
	enum { QUANT_TENSOR, QUANT_AXIS, QUANT_BLOCK } kind;
	int64_t outer, dim, inner; /* numbers of elements before, along and behind the axis */
	int64_t block, blocks;
};
/* Fills *g; the shapes of x and scale must be known. Returns NULL, or a text that says what is wrong. */
const char *granularity_set(struct granularity *g, const struct shape *x, const struct shape *scale,
			    int64_t axis, int64_t block_size);

#endif
