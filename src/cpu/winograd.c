/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The points of a block of tiles are products of matrices, one for each point: a row for each tile, a column for each map, summed over the channels. A
 * thread transforms the pixels of a block, then takes some maps at a time, multiplies, and turns the points into outputs while they are in the cache.
 */
#include "cpu/winograd.h"

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/level.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "cpu/math/winograd.h"
#include "ops/fused.h"
#include "ops/window.h"

#include <string.h>

enum { IN_X, IN_W, IN_BIAS, IN_R };
enum {
	TAPS = 9,
	STRIP = 32, /* maps for which there are packed weights are a multiple of this */
	TILES = 48, /* most tiles whose points are multiplied at once */
	MAX_CHANNELS = 3 << 10, /* up to this, sums over the channels are not divided, so that they do not depend on blocks */
};

struct winograd {
	struct window w;
	int m;		/* a tile has m x m outputs */
	int64_t points; /* of a tile */
	int64_t images, channels, maps;
	int64_t tiles, size[2]; /* tiles of all pictures, and rows and columns of tiles in a picture */
	int64_t blocks, at_once; /* blocks of tiles, and how many tiles a block has at most */
	bool shared; /* a thread makes some maps of the tiles; otherwise all maps of some blocks of tiles */
	int64_t parts; /* of the tiles, if they are shared, for each group of maps */
	int64_t group; /* maps that are multiplied at once, whose weights are packed together */
	int64_t pitch; /* elements from a tile to the next in the transformed pixels */
	int act;
	float alpha, beta;
	bool has_bias, has_residual;
	const float *weights; /* for each group of maps: for each point a packed matrix [channels, maps] */
	size_t pixel_bytes, thread_bytes;
};

/* ---- weights ------------------------------------------------------------------------------------ */

/* How many columns the packed weights of the group have that begins at `map`: its maps, up to a multiple of STRIP. */
static int64_t width_of(const struct winograd *v, int64_t map)
{
	return (lesser(v->maps - map, v->group) + STRIP - 1) / STRIP * STRIP;
}

static int64_t groups_of(const struct winograd *v)
{
	return (v->maps + v->group - 1) / v->group;
}

struct weight_packing {
	const struct winograd *v;
	const float *from;
	float *to;
};

/* Transforms the weights of a strip of maps for all channels. */
static void pack_strips(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct weight_packing *p = arg;
	const struct winograd *v = p->v;
	int64_t strip = gemm_strip(GEMM_F32), c = v->channels;
	float w[TAPS * STRIP];

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t map = i * strip, first = map / v->group * v->group;
		int64_t point = width_of(v, first) * c;
		float *to = p->to + first * c * v->points + (map - first) * c;
		for (int64_t k = 0; k < c; k++, to += strip) {
			for (int64_t l = 0; l < strip; l++)
				for (int64_t t = 0; t < TAPS; t++)
					w[t * strip + l] =
						map + l < v->maps
							? p->from[((map + l) * c + k) * TAPS + t]
							: 0;
			winograd_kernels(v->m)->weights(w, strip, to, point);
		}
	}
}

static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	struct weight_packing *p = arg;
	int64_t padded = (p->v->maps + STRIP - 1) / STRIP * STRIP;

	p->from = t->data;
	p->to = dst;
	pool_for(padded / gemm_strip(GEMM_F32), 1, pack_strips, p);
	return 0;
}

/* ---- planning ------------------------------------------------------------------------------------ */

static bool sets_window(const struct site *s, struct window *w, struct diag *d, const char **wrong)
{
	const struct fused_conv *p = site_params(s);
	const struct window_attrs a = {p->auto_pad, p->dilations, p->kernel_shape, p->pads,
				       p->strides};

	*wrong = window_set(w, &a, &site_in(s, IN_X)->shape, &site_in(s, IN_W)->shape, false, d);
	return !*wrong;
}

/* The products of a channel and a map by tiles of m x m outputs. */
static double products(const struct window *w, int64_t images, int m)
{
	int64_t tiles = images * ((w->out[0] + m - 1) / m) * ((w->out[1] + m - 1) / m);

	return (double)tiles * (m + 2) * (m + 2);
}

/*
 * Returns 2 or 4, whichever takes less time, or 0 if windows are summed as fast. With few channels or maps the transforms take more time than
 * products save. Transformed weights are 16/9 as many bytes for m = 2 and four times as many for m = 4, which few tiles do not make up for.
 */
static int outputs_of_a_tile(const struct window *w, int64_t images, int64_t channels, int64_t maps)
{
	enum {
		MIN_CHANNELS = 24,
		MIN_MAPS = 24,
		MIN_MAPS_AVX2 = 16, /* with tiles of 4 x 4 */
		MIN_TILES = 25,	    /* whatever the number of weights */
		MIN_TILES_2 = 16,   /* of 2 x 2, unless there are many weights */
		MIN_TILES_4 = 12,   /* of 4 x 4, with few weights */
		FEW_WEIGHTS = 1 << 13,
		MANY_WEIGHTS = 1 << 15
	};
	double windows = (double)images * (double)w->out[0] * (double)w->out[1] * TAPS;
	double two = products(w, images, 2), four = products(w, images, 4);
	double tiles = four / WINOGRAD_POINTS;
	bool few = channels * maps <= FEW_WEIGHTS;

	if (channels < MIN_CHANNELS || maps < (simd_level() == 3 ? MIN_MAPS_AVX2 : MIN_MAPS))
		return 0;
	if (four < two && (tiles >= MIN_TILES || (tiles >= MIN_TILES_4 && few)))
		return 4;
	tiles = two / 16;
	return maps >= MIN_MAPS && two <= 0.6 * windows &&
			       (tiles >= MIN_TILES ||
				(tiles >= MIN_TILES_2 && channels * maps <= MANY_WEIGHTS))
		       ? 2
		       : 0;
}

bool winograd_accepts(const struct site *s, struct why *w)
{
	const struct fused_conv *p = site_params(s);
	const struct vinfo *x = site_in(s, IN_X);
	const struct shape *weight = &site_in(s, IN_W)->shape;
	struct window win;
	const char *wrong;

	if (simd_level() < 3)
		return refuse(w, "a processor without AVX2, for which it was not measured");
	if (s->config && s->config->optimize != OPTIMIZE_FULL)
		return refuse(w, "results that must be rounded as those of the nodes alone are");
	if (!s->store || !site_is_weight(s, IN_W) || !site_known(s, IN_W))
		return refuse(w, "weights that are no constant");
	if (x->shape.rank != 4 || weight->rank != 4 || p->group != 1 ||
	    shape_count(&x->shape) < 1 || shape_count(weight) < 1)
		return refuse(w, "groups, or no picture");
	if (!sets_window(s, &win, NULL, &wrong))
		return refuse(w, "a window that does not fit");
	for (int d = 0; d < 2; d++)
		if (win.kernel[d] != 3 || win.stride[d] != 1 || win.dilation[d] != 1 ||
		    win.begin[d] < 0 || win.end[d] < 0 || win.out[d] < 1)
			return refuse(w, "no window of 3 x 3 with stride 1");
	if (x->layout == LAYOUT_BLOCK8 || x->layout == LAYOUT_BLOCK16)
		return refuse(w, "channels in blocks");
	if (weight->dim[1] > MAX_CHANNELS)
		return refuse(w, "many channels");
	return outputs_of_a_tile(&win, x->shape.dim[0], weight->dim[1], weight->dim[0]) ||
	       refuse(w, "a picture for which sums over windows are as fast");
}

static void declare(const struct site *s, struct step *step)
{
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	const struct vinfo *x = site_in(s, IN_X), *y = site_out(s, 0);

	/* for a single position the two layouts are one */
	want[IN_X] = shape_span(&x->shape, 2, 4) == 1 ? x->layout : LAYOUT_CHANNELS_LAST;
	give[0] = shape_span(&y->shape, 2, 4) == 1 ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
	if (site_in(s, IN_R))
		want[IN_R] = give[0];
	step->want = want;
	step->give = give;
}

/* A thread's scratch memory: points of some tiles, the pixels of a tile, its outputs, and a row of a window. */
struct room {
	float *points, *patch, *outputs, *row;
};

static size_t point_bytes(const struct winograd *v)
{
	return scratch_size((size_t)(v->points * TILES * v->group) * sizeof(float));
}

static size_t patch_bytes(const struct winograd *v)
{
	return scratch_size((size_t)(v->points * v->channels) * sizeof(float));
}

static size_t output_bytes(const struct winograd *v)
{
	return scratch_size((size_t)(v->m * v->m * v->group) * sizeof(float));
}

static size_t row_bytes(const struct winograd *v)
{
	return scratch_size((size_t)(TAPS * v->channels) * sizeof(float));
}

static void set_tiles(struct winograd *v)
{
	enum { PIXELS_AT_ONCE = 1 << 17, FEW_TILES = 24, MIN_OWN = 8 };
	int64_t threads = pool_threads(), most, blocks;

	v->tiles = v->images;
	for (int d = 0; d < 2; d++) {
		v->size[d] = (v->w.out[d] + v->m - 1) / v->m;
		v->tiles *= v->size[d];
	}
	most = greater(PIXELS_AT_ONCE / (v->points * v->channels), FEW_TILES);
	blocks = (v->tiles + most - 1) / most;
	v->shared = threads > 1 && v->tiles < threads * MIN_OWN;
	v->blocks = v->shared ? 1 : (blocks + threads - 1) / threads * threads;
	v->at_once = (v->tiles + v->blocks - 1) / v->blocks;
	v->parts = lesser((threads + groups_of(v) - 1) / groups_of(v),
			  (v->tiles + MIN_OWN - 1) / MIN_OWN);
	/* rows of matrices that are a multiple of 4,096 bytes apart would be copied (gemm_copies_a), and there is no room for copies */
	v->pitch = (v->channels + 15) / 16 * 16;
	v->pitch += v->pitch % 1024 ? 0 : 16;
}

int winograd_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, IN_X)->shape, *weight = &site_in(s, IN_W)->shape;
	struct winograd *v = arena_new(s->plan_arena, struct winograd);
	struct weight_packing pack = {.v = v};
	const char *wrong;
	size_t bytes, rooms, threads = (size_t)pool_threads();

	if (!sets_window(s, &v->w, d, &wrong))
		return FAIL(d, E_SHAPE, .expected = wrong);
	v->images = x->dim[0];
	v->channels = weight->dim[1];
	v->maps = weight->dim[0];
	v->m = outputs_of_a_tile(&v->w, v->images, v->channels, v->maps);
	v->points = (v->m + 2) * (v->m + 2);
	/* AVX-512 multiplies tiles of 12 x 32 as fast as wider ones, and half of the points stay in nearer caches */
	v->group = simd_level() == 4 ? STRIP : 2 * STRIP;
	v->act = p->act;
	v->alpha = p->act_alpha;
	v->beta = p->act_beta;
	v->has_bias = site_in(s, IN_BIAS) != NULL;
	v->has_residual = site_in(s, IN_R) != NULL;
	set_tiles(v);
	v->thread_bytes = point_bytes(v) + patch_bytes(v) + output_bytes(v) + row_bytes(v);
	if (!size_mul((size_t)(v->maps + STRIP - 1) / STRIP * STRIP,
		      (size_t)(v->channels * v->points) * sizeof(float), &bytes) ||
	    !size_mul((size_t)v->at_once, (size_t)(v->pitch * v->points) * sizeof(float),
		      &v->pixel_bytes) ||
	    !size_mul(v->pixel_bytes, v->shared ? 1 : threads, &step->workspace) ||
	    !size_mul(v->thread_bytes, threads, &rooms) ||
	    !size_add(step->workspace, rooms, &step->workspace))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Conv");
	v->weights = store_get(s->store, site_known(s, IN_W), v->m == 2 ? "winograd 2" : "winograd 4",
			       bytes, pack_weights, &pack, d);
	if (!v->weights)
		return -E_MEMORY;
	declare(s, step);
	step->state = v;
	if (v->has_residual)
		allow_inplace(step, 0, IN_R);
	return 0;
}

/* ---- running --------------------------------------------------------------------------------------- */

struct winograd_run {
	const struct winograd *v;
	const struct winograd_kernels *k;
	const float *x, *w, *bias, *residual;
	float *y;
	char *pixels, *rooms;
};

/* Where a tile is: its picture, and its first output. */
struct place {
	int64_t image, row, column;
};

static struct place place_of(const struct winograd *v, int64_t tile)
{
	int64_t each = v->size[0] * v->size[1];

	return (struct place){tile / each, tile % each / v->size[1] * v->m, tile % v->size[1] * v->m};
}

/*
 * Copies rows * columns positions of a picture [in[0], in[1], channels] to `to`, from row `top` and column `left` on; positions outside
 * become 0.
 */
static void copy_patch(const float *x, const int64_t *in, int64_t channels, int64_t top,
		       int64_t left, int64_t rows, int64_t columns, float *to)
{
	int64_t begin = lesser(greater(-left, 0), columns);
	int64_t end = greater(lesser(in[1] - left, columns), begin);

	for (int64_t r = top; r < top + rows; r++, to += columns * channels) {
		if (r < 0 || r >= in[0]) {
			memset(to, 0, (size_t)(columns * channels) * sizeof(*to));
			continue;
		}
		memset(to, 0, (size_t)(begin * channels) * sizeof(*to));
		memcpy(to + begin * channels, x + (r * in[1] + left + begin) * channels,
		       (size_t)((end - begin) * channels) * sizeof(*to));
		memset(to + end * channels, 0, (size_t)((columns - end) * channels) * sizeof(*to));
	}
}

/* Transforms the pixels of `count` tiles from `first` on. */
static void transform_tiles(const struct winograd_run *j, const struct room *room, int64_t first,
			    int64_t count, float *to)
{
	const struct winograd *v = j->v;
	const int64_t *in = v->w.in, c = v->channels, side = v->m + 2;
	const int64_t point = v->at_once * v->pitch;

	for (int64_t i = first; i < first + count; i++, to += v->pitch) {
		struct place p = place_of(v, i);
		int64_t top = p.row - v->w.begin[0], left = p.column - v->w.begin[1];
		const float *x = j->x + p.image * in[0] * in[1] * c;
		if (top >= 0 && left >= 0 && top + side <= in[0] && left + side <= in[1]) {
			j->k->pixels(x + (top * in[1] + left) * c, in[1] * c, c, c, to, point);
		} else {
			copy_patch(x, in, c, top, left, side, side, room->patch);
			j->k->pixels(room->patch, side * c, c, c, to, point);
		}
	}
}

/*
 * Sums the windows of a tile's outputs one by one. Where an output is infinite the algorithm gives NaN, also in outputs beside it, whose windows do not have
 * the infinity, and sums of transformed numbers may overflow.
 */
static void sum_windows(const struct winograd_run *j, const struct room *room,
			const struct place *p, int64_t map, int64_t maps)
{
	const struct winograd *v = j->v;
	const int64_t *in = v->w.in, c = v->channels;
	const float *x = j->x + p->image * in[0] * in[1] * c;
	float *patch = room->patch, *row = room->row, *y = room->outputs;

	for (int64_t o = 0; o < v->m * v->m; o++, y += maps) {
		copy_patch(x, in, c, p->row + o / v->m - v->w.begin[0],
			   p->column + o % v->m - v->w.begin[1], 3, 3, patch);
		for (int64_t t = 0; t < TAPS; t++)
			for (int64_t k = 0; k < c; k++)
				row[k * TAPS + t] = patch[t * c + k];
		for (int64_t i = 0; i < maps; i++)
			y[i] = simd()->dot(row, j->w + (map + i) * c * TAPS, c * TAPS) +
			       (j->bias ? j->bias[map + i] : 0);
	}
}

/* Makes outputs of the points of a tile for some maps, where they need more than plain stores. */
static void finish_tile(const struct winograd_run *j, const struct room *room,
			const struct place *p, int64_t map, int64_t maps)
{
	const struct winograd *v = j->v;
	float *from = room->outputs;
	int64_t rows = lesser(v->m, v->w.out[0] - p->row),
		columns = lesser(v->m, v->w.out[1] - p->column);

	for (int64_t r = 0; r < rows && j->residual; r++)
		for (int64_t i = 0; i < columns; i++) {
			float *y = from + (r * v->m + i) * maps;
			int64_t at =
				(p->image * v->w.out[0] + p->row + r) * v->w.out[1] + p->column + i;
			simd()->bin[VB_ADD][DT_F32](y, j->residual + at * v->maps + map, y, maps);
		}
	if (v->act != ACT_NONE)
		act_f32(v->act, v->alpha, v->beta, from, v->m * v->m * maps);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < columns; i++) {
			int64_t at =
				(p->image * v->w.out[0] + p->row + r) * v->w.out[1] + p->column + i;
			memcpy(j->y + at * v->maps + map, from + (r * v->m + i) * maps,
			       (size_t)maps * sizeof(float));
		}
}

static void write_tile(const struct winograd_run *j, const struct room *room, const float *points,
		       int64_t point, int64_t tile, int64_t map, int64_t maps)
{
	const struct winograd *v = j->v;
	const int64_t *out = v->w.out;
	const float *bias = j->bias ? j->bias + map : NULL;
	struct place p = place_of(v, tile);
	bool plain = !j->residual && (v->act == ACT_NONE || v->act == ACT_RELU) &&
		     p.row + v->m <= out[0] && p.column + v->m <= out[1];

	if (plain) {
		float *y = j->y + ((p.image * out[0] + p.row) * out[1] + p.column) * v->maps + map;
		if (j->k->outputs(points, point, maps, bias, v->act == ACT_RELU, y,
				  out[1] * v->maps, v->maps))
			return;
		sum_windows(j, room, &p, map, maps);
	} else if (!j->k->outputs(points, point, maps, bias, false, room->outputs, v->m * maps, maps)) {
		sum_windows(j, room, &p, map, maps);
	}
	finish_tile(j, room, &p, map, maps);
}

/* Multiplies `count` tiles from `first` on, whose pixels are tiles 0 and following of `pixels`, by the weights of a group of maps. */
static void multiply(const struct winograd_run *j, const struct room *room, const float *pixels,
		     int64_t first, int64_t count, int64_t map)
{
	const struct winograd *v = j->v;
	int64_t width = width_of(v, map), maps = lesser(v->maps - map, v->group);
	int64_t lanes = gemm_strip(GEMM_F32) / 2;
	const float *weights = v->weights + map * v->channels * v->points;
	int64_t parts = (count + TILES - 1) / TILES;

	for (int64_t i = 0; i < parts; i++) {
		int64_t at = count * i / parts, n = count * (i + 1) / parts - at, point = n * width;
		struct gemm g = {.m = n,
				 .n = (maps + lanes - 1) / lanes * lanes,
				 .k = v->channels,
				 .a_row = v->pitch,
				 .a_col = 1,
				 .c_row = width,
				 .alpha = 1};
		for (int64_t p = 0; p < v->points; p++) {
			g.a = pixels + (p * v->at_once + at) * v->pitch;
			g.packed = weights + p * width * v->channels;
			g.c = room->points + p * point;
			gemm_one(GEMM_F32, &g, NULL);
		}
		for (int64_t t = 0; t < n; t++)
			write_tile(j, room, room->points + t * width, point, first + at + t, map,
				   maps);
	}
}

static struct room room_of(const struct winograd_run *j, int thread)
{
	const struct winograd *v = j->v;
	struct scratch s = {.at = j->rooms + (size_t)thread * v->thread_bytes};
	float *points = scratch_take(&s, point_bytes(v)), *patch = scratch_take(&s, patch_bytes(v));
	float *outputs = scratch_take(&s, output_bytes(v)), *row = scratch_take(&s, row_bytes(v));

	return (struct room){points, patch, outputs, row};
}

/* Some blocks of tiles with all maps. */
static void run_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct winograd_run *j = arg;
	const struct winograd *v = j->v;
	struct room room = room_of(j, thread);
	float *pixels = (float *)(void *)(j->pixels + (size_t)thread * v->pixel_bytes);

	for (int64_t i = begin; i < end; i++) {
		int64_t first = v->tiles * i / v->blocks;
		int64_t count = v->tiles * (i + 1) / v->blocks - first;
		transform_tiles(j, &room, first, count, pixels);
		for (int64_t map = 0; map < v->maps; map += v->group)
			multiply(j, &room, pixels, first, count, map);
	}
}

static void transform_shared(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct winograd_run *j = arg;
	struct room room = room_of(j, thread);

	transform_tiles(j, &room, begin, end - begin,
			(float *)(void *)j->pixels + begin * j->v->pitch);
}

/* A part of the tiles with a group of maps. */
static void run_groups(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct winograd_run *j = arg;
	const struct winograd *v = j->v;
	struct room room = room_of(j, thread);
	const float *pixels = (const float *)(const void *)j->pixels;

	for (int64_t i = begin; i < end; i++) {
		int64_t part = i % v->parts, first = v->tiles * part / v->parts;
		int64_t count = v->tiles * (part + 1) / v->parts - first;
		multiply(j, &room, pixels + first * v->pitch, first, count, i / v->parts * v->group);
	}
}

int winograd_run(const struct call *c)
{
	const struct winograd *v = c->step->state;
	struct winograd_run j = {.v = v,
				 .k = winograd_kernels(v->m),
				 .x = c->in[IN_X]->data,
				 .w = c->in[IN_W]->data,
				 .bias = v->has_bias ? c->in[IN_BIAS]->data : NULL,
				 .residual = v->has_residual ? c->in[IN_R]->data : NULL,
				 .y = c->out[0]->data,
				 .pixels = c->workspace};

	j.rooms = j.pixels + v->pixel_bytes * (v->shared ? 1 : (size_t)pool_threads());
	if (v->shared) {
		pool_for(v->tiles, 1, transform_shared, &j);
		pool_for(groups_of(v) * v->parts, 1, run_groups, &j);
	} else {
		pool_for(v->blocks, 1, run_blocks, &j);
	}
	return 0;
}
