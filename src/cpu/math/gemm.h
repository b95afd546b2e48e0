/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_GEMM_H
#define CPU_MATH_GEMM_H
/*
 * Our own blocked matrix product, for every type that MatMul has: what runs where no faster
 * library is, inside convolutions, recurrent layers and attention.
 *
 * C = alpha * A B + beta * C. Element types: f32, f64, and for integers u32 and u64 (they wrap, so
 * the signed ones are the same). A and B have any strides, in elements; rows of C are dense.
 */
#include "ir/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum gemm_type { GEMM_F32, GEMM_F64, GEMM_U32, GEMM_U64, GEMM_TYPES };

struct gemm {
	int64_t m, n, k;
	const void *a, *b;
	int64_t a_row, a_col, b_row, b_col;
	void *c;
	int64_t c_row;
	double alpha, beta; /* integers: alpha 1, beta 0 or 1 */
	/*
	 * Where not NULL: B is not in memory; put elements (k, n .. n+count-1) at dst. Called by
	 * many threads.
	 */
	void (*row)(const void *arg, int64_t k, int64_t n, int64_t count, void *dst);
	const void *arg;
	/* Not NULL: B as gemm_pack made it, for products that share it; b is still looked at for few rows. */
	const void *packed;
};

/* B in the order the inner loop wants it: bytes it takes, and making it (of n, k, b and its steps). */
size_t gemm_packed_bytes(enum gemm_type t, int64_t n, int64_t k);
void gemm_pack(enum gemm_type t, const struct gemm *g, void *to);

/* Scratch of one thread, and of all of them. */
size_t gemm_scratch_one(enum gemm_type t);
size_t gemm_scratch(enum gemm_type t);
/* On this thread, with gemm_scratch_one bytes; or on the pool, with gemm_scratch bytes. */
void gemm_one(enum gemm_type t, const struct gemm *g, void *scratch);
void gemm_run(enum gemm_type t, const struct gemm *g, void *scratch);

/* ---- for gemm.c and gemm.simd.c only ---- */

/* A piece of the product: rows m0..m1, columns n0..n1. */
struct gemm_piece {
	const struct gemm *g;
	int64_t m0, m1, n0, n1;
	void *scratch;
};
struct gemm_kernels {
	void (*piece[GEMM_TYPES])(const struct gemm_piece *);
	void (*pack[GEMM_TYPES])(const struct gemm *, void *to);
};
enum { GEMM_MC = 120, GEMM_KC = 256, GEMM_NC = 512, GEMM_PAD = 64 };
extern const struct gemm_kernels gemm_kernels_v0, gemm_kernels_v2, gemm_kernels_v3, gemm_kernels_v4;

#endif
