/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/int8_conv.h"

#include "gpu/driver/tune.h"
#include "gpu/kernels/int8_conv.h"
#include "gpu/launch/channels_last.h"
#include "gpu/launch/packed.h"
#include "gpu/launch/window.h"
#include "gpu/ops/int8_boxes.h"
#include "gpu/ops/quant.h"
#include "ops/quant.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Our kernels. A block computes tiles of rows (pixels) x columns (output channels), `depth` bytes of a window in a step, of
 * which up to `stages` are in flight; a processor has registers for `blocks` of them. Those called group multiply with four
 * warps at a time, which only sm_90 can.
 */
static const struct tile {
	const char *name;
	int rows, columns, threads, depth, stages, blocks;
} tiles[] = {{"group_128x128", 128, 128, 256, 64, 4, 2}, {"group_128x64", 128, 64, 256, 64, 4, 3},
	     {"group_64x128", 64, 128, 128, 128, 4, 2},	 {"group_64x64", 64, 64, 128, 128, 4, 3},
	     {"128x128", 128, 128, 256, 64, 3, 2},	 {"4_warps", 128, 128, 128, 64, 3, 2},
	     {"128x64", 128, 64, 128, 64, 4, 2},	 {"64x128", 64, 128, 128, 64, 4, 2},
	     {"64x64", 64, 64, 128, 64, 4, 2},		 {"32x64", 32, 64, 128, 128, 3, 2}};
/* OWN_SHARED: bytes of shared memory, at most, that a block takes beside those of its launch. */
enum { TILES = sizeof(tiles) / sizeof(*tiles), MAX_EXTENT = 1 << 14, OWN_SHARED = 8 << 10 };
/* Behind these tiles come those of int8_boxes.h. */
enum { ALL_TILES = TILES + GPU_CODES_BOX_TILES };

/* A tile's kernel on one convolution. */
struct launch {
	int tile;
	void *fn;
	struct gpu_grid grid;
	struct gpu_codes_conv job;
	struct gpu_codes_boxes boxes; /* in place of job, if the tile is one of those */
};

struct codes_conv {
	struct gpu_codes_conv job;
	struct gpu_fold_codes fold; /* of x */
	struct gpu_fold_weights weights;
	struct gpu_qslots q;
	bool x_signed, folds; /* folds: x is rearranged before the convolution */
	/* what is known to be 0 is not read: a kernel would begin by waiting for it */
	bool x_from_0, y_from_0, sum_from_0;
	bool known; /* all but x and the residual are constants of the model */
	struct launch launch;
	void *fold_fn, *weights_fn;
	const void *packed;
	size_t x_at; /* offset of the rearranged x in the workspace */
};

static int round_to(int64_t n, int unit)
{
	return (int)((n + unit - 1) / unit * unit);
}

static bool all_zero(const struct site *s, int slot)
{
	const struct tensor *t = slot < 0 ? NULL : site_known(s, (uint32_t)slot);

	if (slot < 0 || !site_in(s, (uint32_t)slot))
		return true;
	for (int64_t i = 0; t && t->data && i < tensor_count(t); i++)
		if (((const int8_t *)t->data)[i])
			return false;
	return t && t->data;
}

/*
 * Plans how x becomes an image whose channels are a multiple of 16 bytes. If x has few channels and the windows step
 * over several pixels, these pixels become channels of one pixel, which leaves less of the 16 bytes empty.
 */
static void plan_fold(struct codes_conv *c, const struct gpu_int_conv *j, int64_t batch)
{
	struct gpu_fold_codes *f = &c->fold;
	struct gpu_plane *w = &c->job.win;
	const struct gpu_plane from = *w;
	bool joins = j->cin * w->stride[0] * w->stride[1] <= GPU_CODES_UNIT &&
		     w->dilation[0] == 1 && w->dilation[1] == 1;

	c->folds = j->cin % GPU_CODES_UNIT != 0;
	*f = (struct gpu_fold_codes){.channels = (int)j->cin, .stride = {1, 1}};
	for (int i = 0; i < 2; i++) {
		f->in[i] = f->out[i] = from.in[i];
		if (!c->folds || !joins)
			continue;
		f->stride[i] = from.stride[i];
		f->begin[i] = from.begin[i];
		w->kernel[i] = (from.kernel[i] + from.stride[i] - 1) / from.stride[i];
		w->in[i] = f->out[i] = from.out[i] + w->kernel[i] - 1;
		w->stride[i] = 1;
		w->begin[i] = 0;
	}
	f->room = round_to(j->cin * f->stride[0] * f->stride[1], GPU_CODES_UNIT);
	f->n = batch * f->out[0] * f->out[1] * (f->room / GPU_CODES_UNIT);
	c->job.channels = f->room;
	c->job.plain = w->kernel[0] * w->kernel[1] == 1 && w->stride[0] * w->stride[1] == 1 &&
		       !w->begin[0] && !w->begin[1] && w->in[0] == w->out[0] && w->in[1] == w->out[1];
	c->job.whole = true;
	for (int i = 0; i < 2; i++)
		c->job.whole &= !w->begin[i] &&
				(w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] <
					w->in[i];
	c->job.pitch = round_to((int64_t)w->kernel[0] * w->kernel[1] * f->room, GPU_CODES_PITCH);
	c->weights = (struct gpu_fold_weights){.channels = (int)j->cin,
					       .room = f->room,
					       .pitch = c->job.pitch,
					       .cout = (int)j->cout,
					       .kernel = {from.kernel[0], from.kernel[1]},
					       .folded = {w->kernel[0], w->kernel[1]},
					       .stride = {f->stride[0], f->stride[1]}};
}

static const char *refuse_window(const struct gpu_int_conv *j)
{
	const struct gpu_window *w = &j->win;
	int64_t units = gpu_volume(w->kernel) * ((j->cin + GPU_CODES_UNIT - 1) / GPU_CODES_UNIT);

	if (j->group != 1 || j->n < 1 || !gpu_window_flat(w))
		return "groups of channels, an empty output, or windows of three dimensions";
	if (j->cout % GPU_CODES_UNIT)
		return "output channels that are no multiple of 16";
	if (units > GPU_CODES_UNITS || gpu_volume(w->kernel) > GPU_CODES_TAPS)
		return "a window that is too large";
	for (int i = 1; i < GPU_SPACE; i++)
		if (w->in[i] > MAX_EXTENT || w->begin[i] < 0 || w->begin[i] > MAX_EXTENT ||
		    w->stride[i] > MAX_EXTENT || w->kernel[i] * w->dilation[i] > MAX_EXTENT)
			return "an image or a step that is too large";
	if (j->n >= INT32_MAX || j->cin > MAX_EXTENT ||
	    w->kernel[1] * w->dilation[1] * w->in[2] * (j->cin + GPU_CODES_UNIT) > INT32_MAX)
		return "an image that is too large";
	return NULL;
}

static bool all_known(const struct site *s, int x)
{
	for (uint32_t i = 0; i < s->node->nin; i++)
		if ((int)i != x && i != QCONV_R && site_in(s, i) && !site_is_weight(s, i))
			return false;
	return true;
}

static const char *fill_conv(const struct site *s, struct codes_conv *c)
{
	struct gpu_int_conv j = {.n = 0};
	const char *bad = gpu_quant_conv(s, &j);

	bad = bad ? bad : refuse_window(&j);
	if (bad)
		return bad;
	const struct gpu_qslots q = j.q;
	if (gpu_type(s, (uint32_t)q.b) != DT_I8 || !all_zero(s, q.b_zero) ||
	    !site_is_weight(s, (uint32_t)q.b))
		return "weights that are unsigned, have zero points or are not constant";
	if (j.count[q.a_scale] != 1 || j.count[q.a_zero] > 1 || j.count[q.y_scale] != 1 ||
	    j.count[q.y_zero] > 1 || gpu_type(s, (uint32_t)q.a_scale) != DT_F32)
		return "more than one scale of the input or of the output";
	*c = (struct codes_conv){.q = q,
				 .x_signed = gpu_type(s, (uint32_t)q.a) == DT_I8,
				 .job = {.m = j.n / j.cout,
					 .n = (int)j.cout,
					 .win = gpu_window_plane(&j.win),
					 .w_scales = j.count[q.b_scale] > 1,
					 .y_signed = gpu_out_type(s, 0) == DT_I8}};
	plan_fold(c, &j, site_in(s, (uint32_t)q.a)->shape.dim[0]);
	c->job.adds = s->node->op == op_named("infer::QConvAdd");
	c->x_from_0 = all_zero(s, q.a_zero);
	c->y_from_0 = all_zero(s, q.y_zero);
	c->sum_from_0 = c->job.adds && all_zero(s, QCONV_Y_ZERO);
	c->known = all_known(s, q.a);
	if (c->job.adds && !shape_equal(&site_in(s, QCONV_R)->shape, &site_out(s, 0)->shape))
		return "a residual of another shape";
	return NULL;
}

bool gpu_codes_conv_accepts(const struct site *s, struct why *w)
{
	struct codes_conv c;
	const char *bad = fill_conv(s, &c);

	return bad ? refuse(w, "%s", bad) : true;
}

static size_t weight_bytes(const struct codes_conv *c)
{
	return (size_t)c->weights.cout * (size_t)c->weights.pitch;
}

static int pack_weights(const struct call *call, void *dst, const void *src, const void *arg)
{
	const struct codes_conv *c = arg;
	struct gpu_fold_weights job = c->weights;

	job.x = src;
	job.y = dst;
	job.sum = (int32_t *)((char *)dst + weight_bytes(c));
	return gpu_launch(call, c->weights_fn, gpu_blocks(job.cout, 256), &job, sizeof(job));
}

/* ---- choosing a tile ------------------------------------------------------------------------- */

static int64_t round_down(int64_t n, int64_t unit)
{
	return n / unit * unit;
}

/* The bytes of a tile of codes, whose rows are 16 bytes apart; where a residual is added there are two of them. */
static int codes_bytes(const struct tile *t, bool adds)
{
	return (adds ? 2 : 1) * t->rows * (t->columns + GPU_CODES_UNIT);
}

/* The bytes of the steps in flight, of which there are no more than the window has: the fewer, the more blocks fit. */
static int steps_bytes(const struct gpu_codes_conv *j, const struct tile *t)
{
	int64_t window = (int64_t)j->win.kernel[0] * j->win.kernel[1] * j->channels,
		steps = (window + t->depth - 1) / t->depth;

	return (int)(steps < t->stages ? steps : t->stages) * (t->rows + t->columns) * t->depth;
}

static unsigned most_shared(const struct tile *t)
{
	return (unsigned)(t->stages * (t->rows + t->columns) * t->depth + codes_bytes(t, true));
}

static int64_t tiles_of(const struct gpu_codes_conv *j, const struct tile *t)
{
	return (j->m + t->rows - 1) / t->rows * ((j->n + t->columns - 1) / t->columns);
}

/*
 * The grid has as many blocks as the device holds at a time, and each block computes several tiles, one after the other, all of the same
 * columns. If the device does not even hold one block for each group of columns, there is a block for each tile.
 */
static struct gpu_grid grid_of(const struct device_facts *f, const struct gpu_codes_conv *j,
			       const struct tile *t)
{
	int64_t shared = j->tiles + codes_bytes(t, j->adds), blocks = tiles_of(j, t),
		fit = f ? f->shared_memory / (shared + OWN_SHARED) : 0,
		most = f ? round_down(f->processors * (fit < 1		 ? 1
						       : fit < t->blocks ? fit
									 : t->blocks),
				      (j->n + t->columns - 1) / t->columns)
			 : 0;

	return (struct gpu_grid){(unsigned)(most && most < blocks ? most : blocks), 1, 1,
				 (unsigned)t->threads, (unsigned)shared};
}

static void *tile_kernel(const struct site *s, const struct codes_conv *c, int tile, struct diag *d)
{
	char name[48];

	snprintf(name, sizeof(name), "int8_conv_%s_%s", c->x_signed ? "i8" : "u8", tiles[tile].name);
	return gpu_kernel_sharing(s, "int8_conv", name, most_shared(&tiles[tile]), d);
}

/* Fills in a tile's launch. Returns whether the device has its kernel, and the kernel computes this convolution. */
static bool plan_tile(const struct site *s, const struct codes_conv *c, int tile, struct launch *l,
		      struct diag *d)
{
	l->tile = tile;
	if (tile >= TILES) {
		l->fn = gpu_codes_boxes_accept(s->device, &c->job, c->x_from_0)
				? gpu_codes_boxes_plan(s, tile - TILES, c->x_signed, &c->job,
						       &l->boxes, &l->grid)
				: NULL;
		l->boxes.known = c->known;
		return l->fn;
	}
	l->job = c->job;
	l->job.tiles = steps_bytes(&c->job, &tiles[tile]);
	l->grid = grid_of(cuda_facts(s->device), &l->job, &tiles[tile]);
	l->fn = tile_kernel(s, c, tile, d);
	return l->fn;
}

/* Launches it on the operands of `job`. */
static int launch(const struct call *call, const struct launch *l, const struct gpu_codes_conv *job)
{
	struct gpu_codes_conv own = *job;

	if (l->tile >= TILES) {
		struct gpu_codes_boxes boxes = l->boxes;
		boxes.conv = own;
		return gpu_codes_boxes_launch(call, l->fn, l->tile - TILES, l->grid, &boxes);
	}
	own.tiles = l->job.tiles;
	return gpu_launch_early(call, l->fn, l->grid, &own, sizeof(own));
}

struct trial {
	struct call call;
	struct gpu_codes_conv job;
	struct launch launch;
};

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	return launch(&t->call, &t->launch, &t->job);
}

static bool place_trial_operands(struct site *s, struct trial *t)
{
	struct gpu_codes_conv *j = &t->job;
	int64_t images = j->m / ((int64_t)j->win.out[0] * j->win.out[1]);
	size_t x = cuda_aligned((size_t)(images * j->win.in[0] * j->win.in[1] * j->channels)),
	       w = cuda_aligned((size_t)((int64_t)j->n * j->pitch)),
	       y = cuda_aligned((size_t)(j->m * j->n)),
	       sums = cuda_aligned((size_t)(4 * (int64_t)j->n));
	char *p = tune_memory(s->device, x + w + y + 2 * sums);

	if (!p)
		return false;
	j->x = p;
	j->w = p + x;
	j->y = p + x + w;
	j->sum = (const int32_t *)(p + x + w + y);
	j->x_scale = j->w_scale = j->y_scale = (const float *)(p + x + w + y + sums);
	j->r = j->y;
	j->r_scale = j->sum_scale = j->x_scale;
	return true;
}

/*
 * Chooses without timing: the first tile with which at least three quarters of the processors still get a block, or the tile with most blocks; where
 * the copy engine can bring the windows, among its tiles, which took 0.75 of the others' time in all of a resnet50.
 */
static int guess_tile(const struct site *s, const struct codes_conv *c)
{
	const struct gpu_codes_conv *j = &c->job;
	const struct device_facts *f = cuda_facts(s->device);
	int64_t enough = f ? f->processors * 3 / 4 : 64;
	unsigned blocks = 0;
	int best = -1;
	struct launch l;

	for (int i = TILES; i < ALL_TILES && blocks < enough; i++)
		if (plan_tile(s, c, i, &l, NULL) && l.grid.x > blocks) {
			best = i;
			blocks = l.grid.x;
		}
	if (best >= 0)
		return best;
	for (int i = 0; i < TILES; i++)
		if (f && most_shared(&tiles[i]) + OWN_SHARED <= (unsigned)f->shared_memory &&
		    tiles[i].columns <= j->n && tiles_of(j, &tiles[i]) >= enough &&
		    tile_kernel(s, c, i, NULL))
			return i;
	return TILES - 1;
}

static int time_tiles(struct site *s, const struct codes_conv *c, double *least)
{
	static const struct step none;
	struct trial t = {.call = {.step = &none, .stream = cuda_stream(s->device)}, .job = c->job};
	int best = -1;

	for (int i = 0; i < ALL_TILES && (i || place_trial_operands(s, &t)); i++) {
		double us = plan_tile(s, c, i, &t.launch, NULL)
				    ? tune_time(s->device, enqueue_trial, &t, *least)
				    : -1;
		if (us > 0 && (best < 0 || us < *least)) {
			*least = us;
			best = i;
		}
	}
	return best;
}

static int choose_tile(struct site *s, const struct codes_conv *c)
{
	const struct gpu_codes_conv *j = &c->job;
	const struct gpu_plane *w = &j->win;
	const char *key = arena_printf(s->plan_arena,
				       "infer codes conv 2 m%" PRId64
				       " n%d c%d in%d,%d out%d,%d window%d,%d stride%d,%d %s%s%s",
				       j->m, j->n, j->channels, w->in[0], w->in[1], w->out[0],
				       w->out[1], w->kernel[0], w->kernel[1], w->stride[0],
				       w->stride[1], c->x_signed ? "i8" : "u8",
				       j->adds ? " add" : "", c->x_from_0 ? " from 0" : "");
	const char *known = tune_get(s->device, key);
	int tile = known ? (int)strtol(known, NULL, 10) : -1;
	struct launch l;
	double us = 0;

	if (tile >= 0 && tile < ALL_TILES && plan_tile(s, c, tile, &l, NULL))
		return tile;
	if (!tune_may(s->device)) {
		tune_skipped(s->device);
		return guess_tile(s, c);
	}
	tune_begin(s->device, "convolutions of integers");
	tile = time_tiles(s, c, &us);
	tune_end(s->device);
	if (tile < 0)
		return guess_tile(s, c);
	tune_put(s->device, key, arena_printf(s->plan_arena, "%d %.2f", tile, us));
	return tile;
}

/* ---- plans and runs -------------------------------------------------------------------------- */

static void set_fold_strides(const struct site *s, struct codes_conv *c)
{
	const struct vinfo *x = site_in(s, (uint32_t)c->q.a);
	int64_t st[MAX_RANK];
	int rank = x->shape.rank;

	gpu_layout_strides(&x->shape, x->layout, st);
	c->fold.xs[0] = st[0];
	c->fold.xs[1] = st[1];
	c->fold.xs[2] = rank > 3 ? st[rank - 2] : 0;
	c->fold.xs[3] = st[rank - 1];
}

int gpu_codes_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct codes_conv *c = arena_new(s->plan_arena, struct codes_conv);
	enum layout *want, *give;
	char form[96];

	fill_conv(s, c);
	set_fold_strides(s, c);
	uint32_t a = (uint32_t)c->q.a, b = (uint32_t)c->q.b;
	gpu_layouts(s, step, &want, &give);
	want[a] = c->folds ? site_in(s, a)->layout : gpu_channels_last(&site_in(s, a)->shape);
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	if (c->job.adds)
		want[QCONV_R] = give[0];
	int tile = choose_tile(s, c);
	if (!plan_tile(s, c, tile, &c->launch, d))
		return -E_DEVICE;
	c->weights.dealt = tile >= TILES;
	c->weights_fn = gpu_kernel(s, "int8_conv", "int8_fold_weights", d);
	c->fold_fn = c->folds ? gpu_kernel(s, "int8_conv", "int8_fold_codes", d) : NULL;
	if (!c->weights_fn || (c->folds && !c->fold_fn))
		return -E_DEVICE;
	if (c->folds)
		c->x_at = gpu_room(step, (size_t)c->fold.n * GPU_CODES_UNIT);
	snprintf(form, sizeof(form), "codes %d %d %d,%d%s", c->weights.room, c->weights.pitch,
		 c->weights.stride[0], c->weights.stride[1], c->weights.dealt ? " dealt" : "");
	c->packed = gpu_packed(s, b, form, weight_bytes(c) + (size_t)c->job.n * sizeof(int32_t),
			       pack_weights, c, d);
	step->unread |= UINT64_C(1) << b;
	step->state = c;
	return c->packed ? 0 : -E_DEVICE;
}

static void set_residual(const struct call *call, bool from_0, struct gpu_codes_conv *job)
{
	job->r = gpu_data(call, QCONV_R);
	job->r_scale = gpu_data(call, QCONV_R_SCALE);
	job->r_zero = gpu_data(call, QCONV_R_ZERO);
	job->sum_scale = gpu_data(call, QCONV_Y_SCALE);
	job->sum_zero = from_0 ? NULL : gpu_data(call, QCONV_Y_ZERO);
}

static const void *operand(const struct call *call, int slot)
{
	return slot < 0 ? NULL : gpu_data(call, (uint32_t)slot);
}

int gpu_codes_conv_run(const struct call *call)
{
	const struct codes_conv *c = call->step->state;
	struct gpu_codes_conv job = c->job;
	int err = 0;

	job.x = operand(call, c->q.a);
	job.x_zero = c->x_from_0 ? NULL : operand(call, c->q.a_zero);
	if (c->folds) {
		struct gpu_fold_codes fold = c->fold;
		fold.x = job.x;
		fold.zero = job.x_zero;
		fold.y = gpu_at(call, c->x_at);
		err = gpu_launch_early(call, c->fold_fn, gpu_grid(fold.n), &fold, sizeof(fold));
		job.x = fold.y;
	}
	job.w = c->packed;
	job.sum = (const int32_t *)((const char *)c->packed + weight_bytes(c));
	job.bias = operand(call, c->q.add);
	job.x_scale = operand(call, c->q.a_scale);
	job.w_scale = operand(call, c->q.b_scale);
	job.y_scale = operand(call, c->q.y_scale);
	job.y_zero = c->y_from_0 ? NULL : operand(call, c->q.y_zero);
	job.y = gpu_out(call, 0);
	if (c->job.adds)
		set_residual(call, c->sum_from_0, &job);
	return err ? err : launch(call, &c->launch, &job);
}
