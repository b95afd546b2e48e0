/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_GEMM_H
#define CPU_MATH_GEMM_H
/*
 * Our own blocked matrix product, for every element type of MatMul. It is used when no faster
 * library is available, and inside convolutions, recurrent layers and attention.
 *
 * C = alpha * A B + beta * C. Element types: f32, f64, u32 and u64; the unsigned types also serve for
 * signed integers, because products that wrap have the same bits. A and B may have any strides, in
 * elements; each row of C is dense.
 */
#include "cpu/math/simd.h"
#include "ir/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gemm_type { GEMM_F32, GEMM_F64, GEMM_U32, GEMM_U64, GEMM_TYPES };
enum gemm_act {
	GEMM_PLAIN,
	GEMM_RELU,
	GEMM_HARDSWISH
}; /* x * (alpha * x + beta, at least 0 and at most 1) */

/*
 * Where the rows of A are parts of a picture: value k of a row is element k % length of the row's run k / length. Such a row begins at
 * an element of A, and each of its runs at a distance from there.
 */
struct gemm_runs {
	int64_t runs, length;
	const int64_t *offset; /* of each run */
	const void *zeros; /* a run of zeros, for runs that are outside of the picture; or NULL if there are none */
	/*
	 * Writes where rows m..m+count-1 begin and, if there are zeros, the bits of the runs that are outside; then there are at most
	 * GEMM_MASK runs. Several threads call it at the same time.
	 */
	void (*rows)(const void *arg, int64_t m, int64_t count, int64_t *begin, uint64_t *outside);
	const void *arg;
};
enum { GEMM_MASK = 64 };

struct gemm {
	int64_t m, n, k;
	const void *a, *b;
	int64_t a_row, a_col, b_row, b_col;
	void *c;
	int64_t c_row;
	double alpha, beta; /* for integers alpha is 1, and beta is 0 or 1 */
	/*
	 * If `row` is not NULL, B is not in memory, and row() computes the elements (k, n .. n+count-1) of B and
	 * writes them to dst. Several threads call it at the same time.
	 */
	void (*row)(const void *arg, int64_t k, int64_t n, int64_t count, void *dst);
	const void *arg;
	/*
	 * Unless 0 (for gemm_pack alone, where b_row is 1), the elements of the window of these weights. Element (k, n) of B is in column n of the
	 * memory at k % channels * taps + k / channels, for channels = K / taps.
	 */
	int64_t taps;
	/* Unless NULL, where the rows of A are in `a`; B is packed then, and the strides of A are not used. */
	const struct gemm_runs *runs;
	/*
	 * B as packed by gemm_pack, for several products with one B; or NULL. Then b and its strides are not used.
	 */
	const void *packed;
	/*
	 * With a packed B and at most GEMM_FEW rows: read B from its last columns to its first. A loop over one B that turns round
	 * each time finds in the cache what it has read last, also if B is larger than the cache.
	 */
	bool backwards;
	/*
	 * What is added to the product once: a row [n] to each of its rows, and a matrix with the rows of C; either may be NULL. Then comes
	 * one of the functions that tiles know, of floats.
	 */
	const void *bias, *residual;
	enum gemm_act act;
	float act_alpha, act_beta;
	/* Unless NULL, what is done with floats after that, while they are in the first cache; it has these parameters. */
	simd_map *map;
	const float *map_arg;
};

/* Packs B (n, k, b and its strides, or row(), in g) in the order in which the inner loop reads it, into gemm_packed_bytes bytes. */
size_t gemm_packed_bytes(enum gemm_type t, int64_t n, int64_t k);
void gemm_pack(enum gemm_type t, const struct gemm *g, void *to);
/* The order: strips of this number of columns, one after the other, each with k rows; columns beyond n are 0. */
int gemm_strip(enum gemm_type t);

/* Return the bytes of scratch for one thread (gemm_scratch_one) and for all threads of the pool (gemm_scratch). */
size_t gemm_scratch_one(enum gemm_type t);
size_t gemm_scratch(enum gemm_type t);
/*
 * Returns the bytes of scratch that gemm_run needs for this product, of which data need not be set yet: with a packed B at most a
 * copy of some rows of A for each thread.
 */
size_t gemm_scratch_for(enum gemm_type t, const struct gemm *g);
/* gemm_one runs on the calling thread with gemm_scratch_one bytes, gemm_run on the pool with gemm_scratch bytes. */
void gemm_one(enum gemm_type t, const struct gemm *g, void *scratch);
void gemm_run(enum gemm_type t, const struct gemm *g, void *scratch);
/* Computes columns n0..n1-1, where n0 is a multiple of 32, on the calling thread with gemm_scratch_one bytes. */
void gemm_columns(enum gemm_type t, const struct gemm *g, int64_t n0, int64_t n1, void *scratch);

/* ---- for gemm.c and gemm.simd.c only ---- */

/* A part of the product: rows m0..m1-1 and columns n0..n1-1 of C. */
struct gemm_piece {
	const struct gemm *g;
	int64_t m0, m1, n0, n1;
	void *scratch;
};
struct gemm_kernels {
	void (*piece[GEMM_TYPES])(const struct gemm_piece *);
	void (*pack[GEMM_TYPES])(const struct gemm *, void *to);
	int strip[GEMM_TYPES];
};
enum {
	GEMM_MC = 144,
	GEMM_KC = 256,
	GEMM_NC = 512,
	GEMM_KEPT = 3 << 16, /* elements of B that stay in the cache of a core */
	GEMM_PAD = 64,
	GEMM_COPY = GEMM_MC * (GEMM_KC + 16), /* elements of a copy of rows of A */
	GEMM_FEW = 6, /* with at most this number of rows a product reads packed weights at the speed of memory */
};

/*
 * Tiles read several rows of A side by side. They must be dense, and they must not be a multiple of 4,096 bytes apart, because
 * then all of them compete for the same few lines of the L1 cache.
 */
static inline bool gemm_copies_a(const struct gemm *g, size_t element)
{
	if (g->runs || (g->packed && g->m <= GEMM_FEW))
		return false;
	return g->a_col != 1 || ((size_t)g->a_row * element % 4096 == 0 && g->m > 1);
}
extern const struct gemm_kernels gemm_kernels_v0, gemm_kernels_v2, gemm_kernels_v3, gemm_kernels_v4;

#endif
