/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_GROUP_PRODUCT_H
#define GPU_KERNELS_GROUP_PRODUCT_H
/* Products of 32 rows and more by warpgroups (group_product.cu): parameters and tiles. */
#include "params.h"

/* A matrix in memory, and the part of it that is copied at a time, as the driver describes both to the copy engine (CUtensorMap). */
struct gpu_box {
#ifdef __cplusplus
	alignas(64) uint64_t word[16];
#else
	_Alignas(64) uint64_t word[16];
#endif
};

/*
 * y = act(alpha * A * B^T + bias + R). A has m rows of k elements, B has n. Rows of R and y have n elements and begin at multiples of 16 bytes. If
 * the elements are float32, those of B were rounded by gpu_group_round. If they are float8e4m3fn, bias and R are float16, and y is float16 or, without
 * an R, float8e4m3fn.
 */
struct gpu_group_product {
	struct gpu_box a, b;
	const void *bias, *r; /* NULL if there is none; bias: n elements */
	/* of float8e4m3fn: factors of alpha and of a y of this type, or NULL for 1 */
	const float *s, *d;
	void *y;
	int64_t m, n, k;
	float alpha, act_alpha, act_beta;
	int act;	 /* GPU_ACT_NONE, _RELU, _GELU, _GELU_TANH, _SWISH or _HARDSWISH */
	int b_is_weight; /* B may be read while the kernels before this one still run */
	int stages;	 /* of blocks that share a tile */
};

/* y[i] = x[i], rounded to the float32 numbers that tensor cores multiply. */
struct gpu_group_round {
	const uint32_t *x;
	uint32_t *y;
	int64_t n;
};

/*
 * A block's tile of the result: X(rows, columns, stages, in_turns). Of three warpgroups one has copies made, of up to `stages` steps of 128 bytes along
 * k. The others multiply: half of a tile's rows each, or tiles in turns, so that one finishes its tile while the other multiplies.
 */
#define GPU_GROUP_TILES(X) X(128, 128, 6, 1) X(128, 192, 5, 0)
/* More of them, for float8e4m3fn alone. */
#define GPU_GROUP_TILES_F8(X) X(64, 192, 6, 1)
/*
 * Of products with few tiles: X(blocks of a cluster that share a tile's k, stages). Their tiles are GPU_SHARE_ROWS x GPU_SHARE_COLUMNS. With few stages a
 * processor has room for two blocks, with many a block has more copies under way.
 */
#define GPU_GROUP_SHARES(X) X(1, 3) X(2, 3) X(4, 3) X(8, 3) X(1, 7) X(2, 7) X(4, 7) X(8, 7)
enum {
	GPU_SHARE_FEW = 3, /* stages */
	GPU_SHARE_MANY = 7,
	GPU_SHARE_ROWS = 128,
	GPU_SHARE_COLUMNS = 64,
	GPU_SHARE_THREADS = 288 /* two warpgroups, and a warp that has copies made */
};
enum {
	GPU_GROUP_THREADS = 384,
	GPU_GROUP_DEPTH = 128, /* bytes along k in a step */
	GPU_GROUP_PUT =
		8 * 16 *
		128, /* bytes of results on their way to memory: 16 rows of 128 bytes for each warp */
	GPU_GROUP_BARRIERS = 256
};
/* Bytes of shared memory that a block takes: steps, results, each warp's bias as floats, barriers. */
#define GPU_GROUP_SHARED(rows, columns, stages)                                                    \
	((stages) * ((rows) + (columns)) * GPU_GROUP_DEPTH + GPU_GROUP_PUT + 8 * 4 * (columns) +   \
	 GPU_GROUP_BARRIERS)
/* The same of a block that shares a tile: steps, the cluster's sums of this block's rows, barriers. */
#define GPU_SHARE_SHARED(stages)                                                                   \
	((stages) * (GPU_SHARE_ROWS + GPU_SHARE_COLUMNS) * GPU_GROUP_DEPTH +                       \
	 GPU_SHARE_ROWS * GPU_SHARE_COLUMNS * 4 + GPU_GROUP_BARRIERS)

#endif
