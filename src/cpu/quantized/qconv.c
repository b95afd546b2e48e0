/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quantized/qconv.h"

#include "base/pool.h"
#include "cpu/math/move.h"
#include "cpu/quantized/qproduct.h"
#include "cpu/quantized/quant.h"
#include "cpu/math/window.h"
#include "ops/quant.h"

#include <string.h>

struct int_conv {
	struct window w;
	int64_t n, channels, group,
		/* number of images, channels per group, groups, and features (output channels) per group */
		features;
	int64_t k; /* length of a dot product: channels per group times taps (elements of the kernel) */
	int64_t pixels, inputs; /* number of elements in a channel of the output and of the input */
	size_t scratch, padded; /* bytes of igemm's scratch; bytes of an image with its pads */
	uint32_t x, wt, zx, zw; /* indices of the inputs: x, weights and their zero points */
	const struct packed *packed; /* the weights in narrow groups, or NULL */
	/*
	 * If `even` is set, the padded image is split into parts. A part holds the elements whose coordinates leave
	 * the same remainders when divided by the strides. Each tap of the kernel then reads one part, at a constant
	 * offset from the output element's position, also for strides above 1. The product has a column for each
	 * position of a part up to the last output. Positions at the end of a part's rows are not outputs, and are
	 * left out when results are stored. `even` is not set if pads are negative or the image is too large for
	 * 32-bit offsets; then the element that a tap reads is looked up for each pixel.
	 */
	bool even;
	int64_t columns, plane; /* number of columns of the product; number of elements in a part */
	int64_t part[MAX_RANK]; /* size of a part in each dimension */
	int64_t parts;		/* number of parts of a channel: the product of the strides */
	/* if `even` is set: for each index k of the dot product, the offset of the element read for output 0 */
	int32_t *offset;
};

struct conv_job {
	const struct int_conv *v;
	const uint8_t *x; /* input of one image and group */
	int32_t zero;	  /* zero point of x, in the type of x */
	uint8_t flip; /* mask for XOR that makes signed codes of x unsigned; 0 if they are unsigned */
	struct finish f;
	void *y;
	int64_t y_first, m_first;
};

/* Returns the offset, in the parts of a channel, of the element that a tap reads for output 0. */
static int64_t tap_offset(const struct int_conv *v, int64_t tap)
{
	const struct window *w = &v->w;
	int64_t at = 0, step = 1, part = 0, parts = 1;

	for (int d = w->n - 1; d >= 0; d--) {
		int64_t o = tap % w->kernel[d] * w->dilation[d];
		tap /= w->kernel[d];
		at += o / w->stride[d] * step;
		part += o % w->stride[d] * parts;
		step *= v->part[d];
		parts *= w->stride[d];
	}
	return part * v->plane + at;
}

/*
 * Computes the size of the parts of the padded image and the offset that each tap reads in the parts. Returns false
 * if the image cannot be split into parts.
 */
static bool set_parts(struct int_conv *v, struct site *s)
{
	const struct window *w = &v->w;
	int64_t last = 0, size = window_size(w), image;

	v->plane = v->parts = 1;
	for (int d = 0; d < w->n; d++) {
		if (w->begin[d] < 0 || w->end[d] < 0 || w->out[d] < 1)
			return false;
		/*
		 * this size leaves out elements at the end that no window reaches because the output size is rounded
		 * down
		 */
		v->part[d] = w->out[d] + (w->kernel[d] - 1) * w->dilation[d] / w->stride[d];
		if (v->part[d] > INT32_MAX / v->plane || w->stride[d] > INT32_MAX / v->parts)
			return false;
		v->plane *= v->part[d];
		v->parts *= w->stride[d];
		last = last * v->part[d] + w->out[d] - 1;
	}
	if (v->channels < 1 || __builtin_mul_overflow(v->plane, v->parts, &image) ||
	    image > INT32_MAX / v->channels ||
	    !size_mul((size_t)image, (size_t)(v->channels * v->group), &v->padded))
		return false;
	v->columns = last + 1;
	v->offset = arena_new_n(s->plan_arena, int32_t, (size_t)v->k);
	for (int64_t k = 0; k < v->k; k++)
		v->offset[k] = (int32_t)(k / size * image + tap_offset(v, k % size));
	return true;
}

/* Packs the weights of a convolution in one group if narrow groups are possible. */
static int pack_features(struct int_conv *v, struct site *s, struct diag *d)
{
	struct matmul_shape m = {.n = v->features, .k = v->k, .b_row = 1, .b_col = v->k};
	int r = 0;

	if (igemm_kernels()->split && v->k > 0 && v->features > 0)
		r = packed_get(s, v->wt, v->zw, &m, &v->packed, d);
	if (v->packed && !v->packed->is_narrow)
		v->packed = NULL;
	return r;
}

static int reshape_conv(struct site *s, struct step *st, struct diag *d, uint32_t x, uint32_t wt,
			uint32_t zx, uint32_t zw)
{
	const struct int_conv_params *p = site_params(s);
	struct int_conv *v = arena_new(s->plan_arena, struct int_conv);
	const struct shape *xs = &site_in(s, x)->shape, *ws = &site_in(s, wt)->shape;
	const char *bad = window_set(&v->w, &p->window, xs, ws, false, d);

	if (bad)
		return site_fail(s, d, E_SHAPE, bad, NULL);
	v->x = x;
	v->wt = wt;
	v->zx = zx;
	v->zw = zw;
	v->n = xs->dim[0];
	v->group = p->group;
	v->channels = ws->dim[1];
	v->features = ws->dim[0] / p->group;
	v->k = v->channels * window_size(&v->w);
	v->pixels = v->columns = window_outputs(&v->w);
	v->inputs = window_inputs(&v->w);
	v->scratch = igemm_scratch(v->features, v->k, true);
	v->even = v->pixels > 0 && v->k > 0 && set_parts(v, s);
	if (!v->even)
		v->padded = 0;
	int r = v->group == 1 && (v->channels > 1 || v->features > 1) ? pack_features(v, s, d) : 0;
	if (r)
		return r;
	if (v->packed)
		st->unread |= UINT64_C(1) << wt;
	if (!product_bytes(ws->dim[0], 1, v->k, v->scratch, &st->workspace) ||
	    !size_add(st->workspace, v->padded, &st->workspace))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	st->state = v;
	return 0;
}

enum { MAX_TAPS = 32 }; /* number of taps whose runs (struct run) are computed at once */

/*
 * A run: adjacent input elements that one tap reads for adjacent output pixels of a panel. struct taps holds the runs
 * of each tap; at pixels between the runs the tap reads padding.
 */
struct run {
	int32_t from;  /* offset of the first element in the channel */
	int16_t to, n; /* index of the first pixel in the panel; number of pixels */
};
struct taps {
	int64_t n;
	int runs[MAX_TAPS];
	struct run run[MAX_TAPS][IGEMM_NR];
};

static void add_tap(struct taps *t, int64_t tap, int64_t from, int64_t to)
{
	struct run *last = t->runs[tap] ? &t->run[tap][t->runs[tap] - 1] : NULL;

	if (last && last->from + last->n == from && last->to + last->n == to)
		last->n++;
	else
		t->run[tap][t->runs[tap]++] = (struct run){(int32_t)from, (int16_t)to, 1};
}

/*
 * Adds to the runs in t the elements that taps e0 to e0 + t->n - 1 read for `pixel`, which is column i of the panel.
 */
static void add_taps_of_pixel(const struct window *w, int64_t e0, int64_t pixel, int64_t i,
			      struct taps *t)
{
	int64_t origin[MAX_RANK], at[MAX_RANK], rest = e0;

	for (int d = w->n - 1; d >= 0; d--) {
		origin[d] = pixel % w->out[d] * w->stride[d] - w->begin[d];
		pixel /= w->out[d];
		at[d] = rest % w->kernel[d];
		rest /= w->kernel[d];
	}
	for (int64_t e = 0; e < t->n; e++) {
		int64_t o = 0;
		bool inside = true;
		for (int d = 0; d < w->n; d++) {
			int64_t p = origin[d] + at[d] * w->dilation[d];
			inside &= p >= 0 && p < w->in[d];
			o = o * w->in[d] + p;
		}
		if (inside)
			add_tap(t, e, o, i);
		for (int d = w->n - 1; d >= 0 && ++at[d] == w->kernel[d]; d--)
			at[d] = 0;
	}
}

/* Gathers the bytes that a tap reads from channel x for all pixels of a panel; padding reads as the zero point. */
static void read_tap(const uint8_t *x, const struct taps *t, int64_t tap, uint8_t zero, uint8_t *to)
{
	const struct run *run = t->run[tap];

	if (t->runs[tap] == 1 && run->n == IGEMM_NR) {
		memcpy(to, x + run->from, IGEMM_NR);
		return;
	}
	memset(to, zero, IGEMM_NR);
	for (int r = 0; r < t->runs[tap]; r++)
		for (int i = 0; i < run[r].n; i++)
			to[run[r].to + i] = x[run[r].from + i];
}

/*
 * Packs a panel when t holds the runs of all taps of the kernel. Gathers the bytes in the order of k, and packs ROWS
 * rows of bytes at once.
 */
static void pack_channels(const struct conv_job *j, const struct taps *t, int64_t count, uint8_t *panel)
{
	enum { ROWS = 64 };
	uint8_t rows[ROWS][IGEMM_NR];
	struct igemm_rows b = {.base = rows[0], .row = IGEMM_NR};
	int64_t k = 0, first = 0;

	for (int64_t c = 0; c < j->v->channels; c++) {
		const uint8_t *x = j->x + c * j->v->inputs;
		for (int64_t e = 0; e < t->n; e++) {
			read_tap(x, t, e, (uint8_t)j->zero, rows[k++ - first]);
			if (k - first < ROWS && k < j->v->k)
				continue;
			igemm_kernels()->pack(&b, k - first, count, j->flip, panel + first * IGEMM_NR);
			first = k;
		}
	}
}

static void pack_taps(const struct conv_job *j, int64_t n0, int64_t count, uint8_t *panel)
{
	const struct int_conv *v = j->v;
	int64_t size = window_size(&v->w);
	uint8_t row[IGEMM_NR];
	struct taps t;

	memset(panel, 0, igemm_panel(v->k));
	for (int64_t e0 = 0; e0 < size; e0 += t.n) {
		t.n = lesser(MAX_TAPS, size - e0);
		memset(t.runs, 0, sizeof(t.runs));
		for (int64_t i = 0; i < count; i++)
			add_taps_of_pixel(&v->w, e0, n0 + i, i, &t);
		if (t.n == size) {
			pack_channels(j, &t, count, panel);
			return;
		}
		for (int64_t c = 0; c < v->channels; c++) {
			for (int64_t e = 0, k = c * size + e0; e < t.n; e++, k++) {
				uint8_t *to = panel + k / 4 * 4 * IGEMM_NR + k % 4;
				read_tap(j->x + c * v->inputs, &t, e, (uint8_t)j->zero, row);
				for (int64_t i = 0; i < count; i++)
					to[4 * i] = row[i] ^ j->flip;
			}
		}
	}
}

static void pack_pixels(const void *arg, int64_t n0, int64_t count, uint8_t *panel)
{
	const struct conv_job *j = arg;

	if (j->v->even) {
		struct igemm_rows rows = {.base = j->x + n0, .offset = j->v->offset};
		igemm_kernels()->pack(&rows, j->v->k, count, j->flip, panel);
	} else {
		pack_taps(j, n0, count, panel);
	}
}

/*
 * Sets *pixel to the output element of column n. Returns how many columns from n on are adjacent outputs, or 0 if
 * column n is not an output.
 */
static int64_t column_run(const struct int_conv *v, int64_t n, int64_t *pixel)
{
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t x = n % v->part[last], rest = n / v->part[last], at = 0, step = w->out[last];
	bool inside = x < w->out[last];

	for (int d = last - 1; d >= 0; d--) {
		int64_t o = rest % v->part[d];
		inside &= o < w->out[d];
		at += o * step;
		step *= w->out[d];
		rest /= v->part[d];
	}
	*pixel = at + x;
	return inside ? w->out[last] - x : 0;
}

enum { MAX_STORE_COLUMNS = 512 }; /* columns of a call of store_pixels */

/* A run of columns that are adjacent output elements. */
struct segment {
	int64_t pixel;
	int16_t from, n;
};

static int find_segments(const struct int_conv *v, int64_t n, int64_t cols, struct segment *to)
{
	int64_t width = v->part[v->w.n - 1], pixel;
	int count = 0;

	for (int64_t i = 0, rest; i < cols; i += rest) {
		int64_t run = column_run(v, n + i, &pixel);
		rest = lesser(width - (n + i) % width, cols - i);
		run = lesser(run, rest);
		if (run)
			to[count++] = (struct segment){pixel, (int16_t)i, (int16_t)run};
	}
	return count;
}

static void store_pixels(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			 const int32_t *sums, int64_t ld)
{
	const struct conv_job *j = arg;
	const struct int_conv *v = j->v;
	size_t size = dtype_bits(j->f.type) / 8;
	struct segment seg[MAX_STORE_COLUMNS];
	int32_t line[MAX_STORE_COLUMNS];
	int count;

	if (!v->even) {
		for (int64_t r = 0; r < rows; r++)
			finish_row(&j->f, j->m_first + m + r, n, cols, sums + r * ld, j->y,
				   j->y_first + (m + r) * v->pixels + n);
		return;
	}
	count = find_segments(v, n, cols, seg);
	for (int64_t r = 0; r < rows && count; r++) {
		char *y = (char *)j->y + (size_t)(j->y_first + (m + r) * v->pixels) * size;
		finish_row(&j->f, j->m_first + m + r, 0, cols, sums + r * ld, line, 0);
		for (int k = 0; k < count; k++)
			memcpy(y + (size_t)seg[k].pixel * size,
			       (const char *)line + (size_t)seg[k].from * size,
			       (size_t)seg[k].n * size);
	}
}

/* Copies all channels of an image, with pads, into parts (see struct int_conv). */
struct pad_job {
	const struct int_conv *v;
	const uint8_t *x;
	uint8_t *to, zero;
};

/* Copies n elements of a line of the image, every stride-th one. */
static void pad_line(const uint8_t *x, int64_t n, int64_t stride, uint8_t *to)
{
	if (stride == 1)
		memcpy(to, x, (size_t)n);
	else if (stride == 2)
		igemm_kernels()->every_other(x, n, to);
	else
		for (int64_t i = 0; i < n; i++)
			to[i] = x[i * stride];
}

/*
 * Fills one part of a channel with the elements whose coordinates leave the remainders rem when divided by the
 * strides.
 */
static void pad_part(const struct int_conv *v, const int64_t *rem, const uint8_t *x, uint8_t *to)
{
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t at[MAX_RANK] = {0}, stride = w->stride[last], width = v->part[last];
	int64_t first =
		rem[last] -
		/* the image coordinate of a line's first element; negative if that element is padding */
		w->begin[last];
	int64_t i = first < 0 ? (-first + stride - 1) / stride : 0;
	int64_t end = w->in[last] > first ? (w->in[last] - first + stride - 1) / stride : 0;

	end = lesser(end, width);
	for (const uint8_t *stop = to + v->plane; to < stop; to += width) {
		int64_t from = 0;
		bool inside = end > i;
		for (int d = 0; d < last; d++) {
			int64_t o = at[d] * w->stride[d] + rem[d] - w->begin[d];
			inside &= o >= 0 && o < w->in[d];
			from = from * w->in[d] + o;
		}
		if (inside)
			pad_line(x + from * w->in[last] + first + i * stride, end - i, stride, to + i);
		for (int d = last - 1; d >= 0 && ++at[d] == v->part[d]; d--)
			at[d] = 0;
	}
}

static void pad_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pad_job *j = arg;
	const struct int_conv *v = j->v;

	(void)thread;
	for (int64_t c = begin; c < end; c++) {
		uint8_t *to = j->to + c * v->plane * v->parts;
		int64_t rem[MAX_RANK] = {0};
		memset(to, j->zero, (size_t)(v->plane * v->parts));
		for (int64_t p = 0; p < v->parts; p++) {
			pad_part(v, rem, j->x + c * v->inputs, to + p * v->plane);
			for (int d = v->w.n - 1; d >= 0 && ++rem[d] == v->w.stride[d]; d--)
				rem[d] = 0;
		}
	}
}

static bool has_no_pads(const struct int_conv *v)
{
	for (int d = 0; d < v->w.n; d++)
		if (v->w.begin[d] || v->w.stride[d] != 1 || v->part[d] != v->w.in[d])
			return false;
	return true;
}

/*
 * Returns the image that the taps read: the parts of x, written to the buffer `room`, or x itself if v is not
 * `even` or if the only part would equal x.
 */
static const uint8_t *padded_image(const struct int_conv *v, const uint8_t *x, uint8_t zero,
				   uint8_t *room)
{
	struct pad_job j = {v, x, room, zero};
	int64_t channels = v->channels * v->group;

	if (!v->even || has_no_pads(v))
		return x;
	pool_for(channels, 1 + 16384 / ((int64_t)v->padded / channels + 1), pad_piece, &j);
	return room;
}

/* The data that the threads share while they compute the groups of one image. */
struct groups_job {
	const struct conv_job *j;
	const struct igemm *g;
	void *scratch;
	int64_t image; /* bytes of a group's input */
};

static void run_group(const struct groups_job *a, int64_t group, bool alone, int thread)
{
	const struct int_conv *v = a->j->v;
	struct conv_job j = *a->j;
	struct igemm g = *a->g;
	int64_t m = group * v->features;

	j.x += group * a->image;
	j.m_first = m;
	j.y_first += m * v->pixels;
	g.a += m * igemm_depth(v->k);
	g.a_zero = g.a_zero ? g.a_zero + m : NULL;
	g.a_rest += m;
	g.arg = &j;
	if (alone)
		igemm_run_alone(&g, a->scratch, thread);
	else
		igemm_run(&g, a->scratch);
}

static void groups_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	for (int64_t g = begin; g < end; g++)
		run_group(arg, g, true, thread);
}

/*
 * Runs the depthwise convolution of one channel with one feature, as a weighted sum of the rows that the taps read,
 * without a matrix product.
 */
static void run_channel(const struct groups_job *a, int64_t channel)
{
	const struct int_conv *v = a->j->v;
	struct conv_job j = *a->j;
	const uint8_t *w = a->g->a + channel * igemm_depth(v->k);
	int32_t sums[MAX_STORE_COLUMNS], za = a->g->a_zero ? a->g->a_zero[channel] : 0, zero = 0;

	for (int64_t k = 0; k < v->k && a->g->b_zero; k++)
		zero += ((int8_t)w[k] - za) * *a->g->b_zero;
	j.x += channel * a->image;
	j.m_first = channel;
	j.y_first += channel * v->pixels;
	for (int64_t n = 0, cols; n < v->columns; n += cols) {
		struct igemm_rows rows = {.base = j.x + n, .offset = v->offset};
		cols = lesser(MAX_STORE_COLUMNS, v->columns - n);
		igemm_kernels()->add_rows(&rows, (const int8_t *)w, za, v->k, j.flip, -zero, cols,
					  sums);
		store_pixels(&j, 0, 1, n, cols, sums, cols);
	}
}

static void channels_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)thread;
	for (int64_t c = begin; c < end; c++)
		run_channel(arg, c);
}

/* Sets what g has of the weights: those that were packed, or copies in `room`. */
static void prepare_weights(const struct call *c, struct product_room *room, struct igemm *g)
{
	const struct int_conv *v = c->step->state;
	int64_t features = v->features * v->group;

	if (v->packed) {
		g->narrow_rows = &v->packed->narrow;
		g->a_rest = v->packed->sums;
		return;
	}
	struct code_job code = {.to = room->rows,
				.sum = room->rest,
				.from = c->in[v->wt]->data,
				.k = v->k,
				.row = v->k,
				.col = 1,
				.flip = flip_to(true, tensor_dtype(c->in[v->wt])),
				.is_signed = true};
	code_rows(&code, features);
	g->a_rest = room->rest;
	if (zeros_of(optional_in(c, v->zw), zero_move(true, code.flip), features, 0, room->za))
		g->a_zero = room->za;
	for (int64_t m = 0; m < features; m++)
		room->rest[m] =
			(int32_t)((uint32_t)room->rest[m] - (uint32_t)v->k * (uint32_t)room->za[m]);
}

static int run_conv(const struct call *c, const struct finish *f)
{
	const struct int_conv *v = c->step->state;
	const struct tensor *x = c->in[v->x], *zx = optional_in(c, v->zx);
	int64_t features = v->features * v->group, channels = v->channels * v->group;
	struct product_room room = product_room((char *)c->workspace + v->scratch, features, 1, v->k);
	struct conv_job j = {
		.v = v, .flip = flip_to(false, tensor_dtype(x)), .f = *f, .y = c->out[0]->data};
	struct igemm g = {.m = v->features,
			  .n = v->columns,
			  .k = v->k,
			  .a = room.rows,
			  .a_signed = true,
			  .pack = pack_pixels,
			  .store = store_pixels};
	struct groups_job groups = {&j, &g, c->workspace,
				    v->even ? (int64_t)v->padded / v->group : v->channels * v->inputs};

	if (zx && tensor_count(zx) != 1)
		return call_fail(c, E_SHAPE, "one zero point of x", NULL);
	if (!v->pixels || !features)
		return 0;
	j.zero = zero_of(zx, 0, 1, 0);
	j.f.by_row = true;
	j.f.rows = features;
	finish_prepare(&j.f, room.factor);
	room.zb[0] = j.zero + zero_move(false, j.flip);
	if (room.zb[0])
		g.b_zero = room.zb;
	prepare_weights(c, &room, &g);
	for (int64_t i = 0; i < v->n; i++) {
		j.x = padded_image(v, (const uint8_t *)x->data + i * channels * v->inputs,
				   (uint8_t)j.zero, (uint8_t *)(room.zb + 1));
		j.y_first = i * features * v->pixels;
		if (v->even && v->channels == 1 && v->features == 1)
			pool_for(v->group, 1 + 16384 / (v->columns * v->k + 1), channels_piece,
				 &groups);
		else if (v->group >= 2 * pool_threads())
			pool_for(v->group, 1, groups_piece, &groups);
		else
			for (int64_t k = 0; k < v->group; k++)
				run_group(&groups, k, false, 0);
	}
	return 0;
}

int conv_integer_reshape(struct site *s, struct step *st, struct diag *d)
{
	return reshape_conv(s, st, d, 0, 1, 2, 3);
}

int conv_integer_run(const struct call *c)
{
	return run_conv(c, &(struct finish){.type = DT_I32});
}

int qlinear_conv_reshape(struct site *s, struct step *st, struct diag *d)
{
	return reshape_conv(s, st, d, 0, 3, 2, 5);
}

int qlinear_conv_run(const struct call *c)
{
	const struct tensor *bias = optional_in(c, 8);
	struct finish f = {.type = tensor_dtype(c->out[0]),
			   .alpha = 1,
			   .ascale = c->in[1],
			   .bscale = c->in[4],
			   .yscale = c->in[6],
			   .yzero = c->in[7],
			   .add = bias ? bias->data : NULL,
			   .add_row = 1};

	return run_conv(c, &f);
}
