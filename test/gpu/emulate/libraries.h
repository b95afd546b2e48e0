/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATE_LIBRARIES_H
#define EMULATE_LIBRARIES_H
/* What the stand-ins for cuBLASLt and cuDNN (test/gpu/fake) have computed, by the kernels of libraries.cu. */
#include <stdint.h>

enum { LIBRARY_F32, LIBRARY_F16, LIBRARY_BF16, LIBRARY_F64, LIBRARY_I8, LIBRARY_I32, LIBRARY_F8 };
enum { LIBRARY_PLAIN, LIBRARY_RELU, LIBRARY_GELU };

/*
 * d = act(alpha *factor op(a) op(b) + beta c + bias) *after, all by columns: m of a, n of b; `factor` and `after` may be
 * null. c and bias have the type `side`.
 */
struct library_product {
	const void *a, *b, *c, *bias;
	void *d;
	const float *factor, *after;
	int32_t type, out, side, turn_a, turn_b, act;
	int64_t m, n, k, lda, ldb, ldc, ldd;
	int64_t batch, step_a, step_b, step_c, step_d;
	double alpha, beta;
};

enum { LIBRARY_SPACE = 3 };
struct library_tensor {
	int64_t dim[2 + LIBRARY_SPACE],
		step[2 + LIBRARY_SPACE]; /* of one element in what is not there */
};
/* y of x and w; or, back, x of y and w */
struct library_conv {
	const void *x, *w, *y;
	void *to;
	int32_t type, back;
	struct library_tensor tx, tw, ty;
	int64_t begin[LIBRARY_SPACE], stride[LIBRARY_SPACE], dilation[LIBRARY_SPACE];
};

#endif
