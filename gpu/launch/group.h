/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_GROUP_H
#define GPU_LAUNCH_GROUP_H
/*
 * Launches of gpu/kernels/group_product.cu: products of large matrices, and convolutions that are such products, on devices of
 * compute capability 9.0, in float16, bfloat16, TF32 and float8e4m3fn.
 */
#include "gpu/kernels/group_product.h"
#include "gpu/launch/util.h"

struct gpu_group_tile {
	const char *family, *name; /* of the kernel */
	int rows, columns;
	unsigned threads, shared;
	int shares; /* blocks of a cluster that share a tile's k; 0: a block goes on from tile to tile */
	int stages;  /* of blocks that share */
	int least;   /* rows of a product that is worth trying */
	bool float8; /* for float8e4m3fn alone */
};
#define COUNT(...) +1
/* Tiles of all types, then those of float8e4m3fn alone. */
enum {
	GPU_GROUP_KINDS = GPU_GROUP_TILES(COUNT) GPU_GROUP_SHARES(COUNT),
	GPU_GROUP_ALL_KINDS = GPU_GROUP_KINDS GPU_GROUP_TILES_F8(COUNT)
};
#undef COUNT
extern const struct gpu_group_tile gpu_group_tiles[GPU_GROUP_ALL_KINDS];

/* Whether the device has the kernels, for elements of this type: f32 if they may be rounded to TF32. */
bool gpu_group_has(const struct device *device, enum dtype t);
/* Whether the kernels apply this activation (GPU_ACT_...) to a product. */
bool gpu_group_acts(int act);
/*
 * Returns the kernel of a tile for operands of type t, or NULL where this build has only PTX, which does not have it. result: the type of y, which is
 * t unless that is float8e4m3fn.
 */
void *gpu_group_kernel(const struct site *s, int tile, enum dtype t, enum dtype result);
/* The blocks of a product of m x n elements, those that share a tile counted each. */
int64_t gpu_group_blocks(int tile, int64_t m, int64_t n);
/* Whether a tile suits a product of m rows and n columns, whose elements are sums over k. */
bool gpu_group_suits(const struct device *device, int tile, enum dtype t, int64_t m, int64_t n,
		     int64_t k);
/* Steps along k. */
static inline int64_t gpu_group_steps(enum dtype t, int64_t k)
{
	const int64_t each = GPU_GROUP_DEPTH / gpu_size(t);

	return k / each + (k % each != 0);
}
/*
 * Launches fn, the kernel of `tile`. job is filled in but for the matrices: A, whose rows begin a_row elements apart, and B,
 * transposed, with b_row; float32 in B is rounded (gpu_group_round). All begin at multiples of 16 bytes. Returns 0 or -code.
 */
int gpu_group_launch(const struct call *c, void *fn, int tile, enum dtype t,
		     struct gpu_group_product *job, const void *a, int64_t a_row, const void *b,
		     int64_t b_row);
/* Returns the kernel that rounds weights of float32, which the kernels do not do themselves, or NULL. */
void *gpu_group_rounder(const struct site *s);
/* Rounds n weights. y may be x. Returns 0 or -code. */
int gpu_group_round(const struct call *c, void *fn, const void *x, void *y, int64_t n);

#endif
