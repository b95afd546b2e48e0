/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/int8_boxes.h"

static const struct box_kernel {
	const char *name;
	int rows, columns, depth;
	bool stay;
	int blocks;
} kernels[] = {
#define TILE(groups, columns, depth, stay, blocks)                                                 \
	{#groups "_" #columns "_" #depth "_" #stay, 64 * (groups), columns, depth, stay, blocks},
	GPU_CODES_BOXES(TILE)
#undef TILE
};

/*
 * Limits of the copy engine: MAX_BEGIN, pixels from where the first and the last window begin to the image's edges; MAX_STEP, from a window to
 * the next; MAX_REACH, from where a window begins to its last pixel. MIN_STAGES: fewer steps in flight are too slow. ROWS: pixels that a warpgroup
 * multiplies.
 */
enum { MAX_BEGIN = 127, MAX_STEP = 8, MAX_REACH = 255, MIN_STAGES = 3, ROWS = 64 };

static int last_begin(const struct gpu_plane *w, int i)
{
	return (w->out[i] - 1) * w->stride[i] - w->begin[i] - (w->in[i] - 1);
}

bool gpu_codes_boxes_accept(const struct device *device, const struct gpu_codes_conv *conv, bool from_0)
{
	const struct device_facts *f = cuda_facts(device);
	const struct gpu_plane *w = &conv->win;

	if (!f || f->major != 9 || f->minor != 0 || !gpu_can_describe_boxes(device) ||
	    conv->channels % 64 || !(from_0 || conv->whole))
		return false;
	for (int i = 0; i < 2; i++)
		if (w->begin[i] > MAX_BEGIN || last_begin(w, i) > MAX_BEGIN ||
		    last_begin(w, i) < -MAX_BEGIN || w->stride[i] > MAX_STEP ||
		    (w->kernel[i] - 1) * w->dilation[i] > MAX_REACH)
			return false;
	return true;
}

/*
 * Shares a processor's memory out to `blocks` blocks: weights that stay, tiles of codes (if a residual is added, that of the next tile is fetched while one
 * is finished), steps in flight. Returns the bytes of each, or 0 if fewer than MIN_STAGES steps would be in flight.
 */
static int share_out(const struct device_facts *f, const struct box_kernel *k, int blocks,
		     struct gpu_codes_boxes *job)
{
	const int64_t weights = (int64_t)k->columns * k->depth,
		      step = (int64_t)k->rows * k->depth + (k->stay ? 0 : weights),
		      rest = (int64_t)(job->conv.adds ? 2 : 1) * k->rows * k->columns +
			     (k->stay ? job->steps * weights : 0),
		      stages = (f->shared_memory / blocks - GPU_CODES_BOXES_OWN - rest) / step;

	if (stages < MIN_STAGES)
		return 0;
	job->stages = (int)(stages < GPU_CODES_STAGES ? stages : GPU_CODES_STAGES);
	return (int)(rest + job->stages * step);
}

/* Returns how many blocks a processor takes, with *shared bytes each, or 0. */
static int fit(const struct device_facts *f, const struct box_kernel *k, bool alone,
	       struct gpu_codes_boxes *job, int *shared)
{
	int blocks = k->blocks;

	while (blocks && !(*shared = share_out(f, k, blocks, job)))
		blocks--;
	if (!alone)
		return blocks;
	*shared = blocks > 1 && !k->stay ? share_out(f, k, 1, job) : 0;
	return *shared > 0;
}

void *gpu_codes_boxes_plan(const struct site *s, int tile, bool is_signed,
			   const struct gpu_codes_conv *conv, struct gpu_codes_boxes *job,
			   struct gpu_grid *grid)
{
	const struct device_facts *f = cuda_facts(s->device);
	const struct box_kernel *k = &kernels[tile / 2];
	const int64_t across = (conv->n + k->columns - 1) / k->columns,
		      all = (conv->m + k->rows - 1) / k->rows * across;
	int shared;
	char name[48];

	/* a step lies within a pixel; where one can take 128 bytes, one of 64 is slower */
	if (conv->channels % k->depth || (k->depth == 64 && conv->channels % 128 == 0) ||
	    (k->columns > 64 && conv->n <= 64))
		return NULL;
	*job = (struct gpu_codes_boxes){.conv = *conv,
					.steps = conv->win.kernel[0] * conv->win.kernel[1] *
						 conv->channels / k->depth};
	const int blocks = fit(f, k, tile % 2, job, &shared);
	if (!blocks)
		return NULL;
	const int64_t most = f->processors * blocks / across * across;
	*grid = (struct gpu_grid){(unsigned)(most && most < all ? most : all), 1, 1,
				  (unsigned)(k->rows * 2 + 32), (unsigned)shared};
	snprintf(name, sizeof(name), "int8_boxes_%s_%s", is_signed ? "i8" : "u8", k->name);
	return gpu_kernel_sharing(s, "int8_boxes", name,
				  (unsigned)(f->shared_memory - GPU_CODES_BOXES_OWN), NULL);
}

static int describe_windows(const struct call *c, const struct box_kernel *k,
			    struct gpu_codes_boxes *job)
{
	const struct gpu_codes_conv *conv = &job->conv;
	const struct gpu_plane *w = &conv->win;
	const struct gpu_windows windows = {.images = conv->m / ((int64_t)w->out[0] * w->out[1]),
					    .in = {w->in[1], w->in[0]},
					    .channels = conv->channels,
					    .first = {-w->begin[1], -w->begin[0]},
					    .last = {last_begin(w, 1), last_begin(w, 0)},
					    .stride = {w->stride[1], w->stride[0]}};

	return gpu_describe_windows(c, &job->x, conv->x, &windows, k->rows, k->depth);
}

static int describe_pixels(const struct call *c, const struct box_kernel *k, struct gpu_box *box,
			   const void *at, const struct gpu_codes_conv *conv)
{
	return gpu_describe_box(c, box, DT_U8, at, conv->m, conv->n, conv->n, ROWS, k->columns);
}

int gpu_codes_boxes_launch(const struct call *c, void *fn, int tile, struct gpu_grid grid,
			   struct gpu_codes_boxes *job)
{
	const struct gpu_codes_conv *conv = &job->conv;
	const struct box_kernel *k = &kernels[tile / 2];

	if (((uintptr_t)conv->x | (uintptr_t)conv->w | (uintptr_t)conv->r | (uintptr_t)conv->y) % 16)
		return call_fail(c, E_INTERNAL, "operands at multiples of 16 bytes", "others");
	int err = conv->plain ? gpu_describe_box(c, &job->x, DT_U8, conv->x, conv->m,
						 conv->channels, conv->channels, k->rows, k->depth)
			      : describe_windows(c, k, job);

	err = err ? err
		  : gpu_describe_box(c, &job->w, DT_U8, conv->w, conv->n, conv->pitch, conv->pitch,
				     k->columns, k->depth);
	err = err ? err : describe_pixels(c, k, &job->y, conv->y, conv);
	if (!err && conv->adds)
		err = describe_pixels(c, k, &job->r, conv->r, conv);
	return err ? err : gpu_launch_boxes(c, fn, grid, job, sizeof(*job));
}
