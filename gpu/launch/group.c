/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/launch/group.h"

/* clang-format off */
const struct gpu_group_tile gpu_group_tiles[] = {
#define TILE(rows_, columns_, stages_, in_turns)                                                   \
	{.family = "product", .name = #rows_ "x" #columns_, .rows = (rows_),                       \
	 .columns = (columns_), .threads = GPU_GROUP_THREADS,                                      \
	 .shared = GPU_GROUP_SHARED(rows_, columns_, stages_), .least = 128},
#define SHARE(size, stages_)                                                                       \
	{.family = "share", .name = #size, .rows = GPU_SHARE_ROWS, .columns = GPU_SHARE_COLUMNS,   \
	 .threads = GPU_SHARE_THREADS, .shared = GPU_SHARE_SHARED(stages_), .shares = (size),      \
	 .stages = (stages_), .least = 32},
	GPU_GROUP_TILES(TILE)
	GPU_GROUP_SHARES(SHARE)
#define TILE_F8(rows_, columns_, stages_, in_turns)                                                \
	{.family = "product", .name = #rows_ "x" #columns_, .rows = (rows_),                       \
	 .columns = (columns_), .threads = GPU_GROUP_THREADS,                                      \
	 .shared = GPU_GROUP_SHARED(rows_, columns_, stages_), .least = 128, .float8 = true},
	GPU_GROUP_TILES_F8(TILE_F8)
#undef TILE_F8
#undef TILE
#undef SHARE
};
/* clang-format on */

bool gpu_group_has(const struct device *device, enum dtype t)
{
	const struct device_facts *f = cuda_facts(device);

	return f && f->major == 9 && f->minor == 0 && gpu_can_describe_boxes(device) &&
	       (t == DT_F16 || t == DT_BF16 || t == DT_F32 || t == DT_F8E4M3FN);
}

bool gpu_group_acts(int act)
{
	return act == GPU_ACT_NONE || act == GPU_ACT_RELU || act == GPU_ACT_GELU ||
	       act == GPU_ACT_GELU_TANH || act == GPU_ACT_SWISH || act == GPU_ACT_HARDSWISH;
}

void *gpu_group_kernel(const struct site *s, int tile, enum dtype t, enum dtype result)
{
	const struct gpu_group_tile *of = &gpu_group_tiles[tile];
	const char *type = t == DT_F32	  ? "f32"
			   : t == DT_BF16 ? "bf16"
			   : t == DT_F16  ? "f16"
			   : result == t  ? "f8f8"
					  : "f8";
	char name[48];

	snprintf(name, sizeof(name), "group_%s_%s_%s", of->family, type, of->name);
	/* tiles of different stages have the same kernel */
	return gpu_kernel_sharing(s, "group_product", name,
				  of->shares ? GPU_SHARE_SHARED(GPU_SHARE_MANY) : of->shared, NULL);
}

int64_t gpu_group_blocks(int tile, int64_t m, int64_t n)
{
	const struct gpu_group_tile *t = &gpu_group_tiles[tile];

	return (m + t->rows - 1) / t->rows * ((n + t->columns - 1) / t->columns) *
	       (t->shares ? t->shares : 1);
}

bool gpu_group_suits(const struct device *device, int tile, enum dtype t, int64_t m, int64_t n,
		     int64_t k)
{
	enum { MAX_ROUNDS = 4 }; /* of blocks: more of them had better go on from tile to tile */
	const struct gpu_group_tile *of = &gpu_group_tiles[tile];

	return m >= of->least && (!of->float8 || t == DT_F8E4M3FN) &&
	       (!of->shares ||
		(of->shares <= cuda_facts(device)->processors && gpu_group_steps(t, k) >= of->shares &&
		 (of->stages == GPU_SHARE_FEW || gpu_group_steps(t, k) > GPU_SHARE_FEW * of->shares) &&
		 gpu_group_blocks(tile, m, n) / MAX_ROUNDS <= cuda_facts(device)->processors));
}

int gpu_group_launch(const struct call *c, void *fn, int tile, enum dtype t,
		     struct gpu_group_product *job, const void *a, int64_t a_row, const void *b,
		     int64_t b_row)
{
	const struct gpu_group_tile *of = &gpu_group_tiles[tile];
	const int64_t blocks = gpu_group_blocks(tile, job->m, job->n),
		      processors = cuda_facts(cuda_device(c->stream))->processors;
	const struct gpu_grid grid = {
		(unsigned)(of->shares || blocks < processors ? blocks : processors), 1, 1,
		of->threads, of->shared};
	if (((uintptr_t)a | (uintptr_t)b | (uintptr_t)job->r | (uintptr_t)job->y) % 16)
		return call_fail(c, E_INTERNAL, "operands at multiples of 16 bytes", "others");
	job->stages = of->stages;
	int err =
		gpu_describe_box(c, &job->a, t, a, job->m, job->k, a_row, of->rows, GPU_GROUP_DEPTH);

	err = err ? err
		  : gpu_describe_box(c, &job->b, t, b, job->n, job->k, b_row, of->columns,
				     GPU_GROUP_DEPTH);
	return err ? err : gpu_launch_boxes(c, fn, grid, job, sizeof(*job));
}

void *gpu_group_rounder(const struct site *s)
{
	return gpu_kernel(s, "group_product", "group_round", NULL);
}

int gpu_group_round(const struct call *c, void *fn, const void *x, void *y, int64_t n)
{
	const struct gpu_group_round job = {.x = x, .y = y, .n = n};

	return gpu_launch_early(c, fn, gpu_grid(n), &job, sizeof(job));
}
