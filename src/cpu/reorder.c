/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of Reorder steps, which converts a tensor from any layout to any other. Both tensors
 * are viewed as [N, chunks, positions, channels of a chunk]; each layout is a set of strides over
 * these four dimensions, so that the conversion consists of strided copies.
 */
#include "cpu/cpu.h"
#include "base/pool.h"
#include "cpu/math/move.h"
#include "ops/layout.h"

#include <string.h>

struct view {
	int64_t n, c, positions;
	enum layout layout;
};

static int64_t block_channels(enum layout l)
{
	return l == LAYOUT_BLOCK8 ? 8 : l == LAYOUT_BLOCK16 ? 16 : 1;
}

/* Number of channels in memory: a last block that is not full is padded to the block size. */
static int64_t stored_channels(const struct view *v)
{
	int64_t block = block_channels(v->layout);
	return (v->c + block - 1) / block * block;
}

/* Offset in memory, in elements, of channel c at position 0 of the first image. */
static int64_t channel_offset(const struct view *v, int64_t c)
{
	int64_t block = block_channels(v->layout);
	if (v->layout == LAYOUT_ROW)
		return c * v->positions;
	return c / block * block * (block > 1 ? v->positions : 1) + c % block;
}

/* Strides of the four dimensions [N, chunks, positions, channels of a chunk]. */
static void view_strides(const struct view *v, int64_t chunk, int64_t *stride)
{
	int64_t block = block_channels(v->layout);
	stride[0] = stored_channels(v) * v->positions;
	stride[1] = channel_offset(v, chunk);
	stride[2] = v->layout == LAYOUT_ROW ? 1 : block > 1 ? block : v->c;
	stride[3] = v->layout == LAYOUT_ROW ? v->positions : 1;
}

static void swap_dims(int64_t *n, int64_t *in, int64_t *out, int a, int b)
{
	int64_t *of[] = {n, in, out};

	for (int i = 0; i < 3; i++) {
		int64_t t = of[i][a];
		of[i][a] = of[i][b];
		of[i][b] = t;
	}
}

/* Copies `chunks` chunks of `chunk` channels each, starting at channel c. */
static void copy_chunks(const struct view *from, const struct view *to, int64_t c, int64_t chunks,
			int64_t chunk, const char *src, char *dst, size_t size)
{
	int64_t n[4] = {from->n, chunks, from->positions, chunk}, in[4], out[4];
	struct strided s;
	view_strides(from, chunk, in);
	view_strides(to, chunk, out);
	if (to->layout == LAYOUT_ROW) /* make the target's dense dimension, the positions, the last one */
		swap_dims(n, in, out, 2, 3);
	else if (from->layout !=
		 LAYOUT_ROW) /* a position's channels are all read, or all written, together */
		swap_dims(n, in, out, 1, 2);
	strided_set(&s, 4, n, in, out);
	strided_copy(&s, src + (size_t)channel_offset(from, c) * size,
		     dst + (size_t)channel_offset(to, c) * size, size);
}

/* The channels of a picture of 16-bit elements come side by side in half the time in a loop that knows their number. */
struct picture {
	const uint16_t *from;
	uint16_t *to;
	int64_t positions, channels;
};

static void interleave_three(const uint16_t *restrict x, uint16_t *restrict y, int64_t plane,
			     int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < 3; k++)
			y[i * 3 + k] = x[k * plane + i];
}

static void interleave_four(const uint16_t *restrict x, uint16_t *restrict y, int64_t plane, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < 4; k++)
			y[i * 4 + k] = x[k * plane + i];
}

static void interleave_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct picture *p = arg;

	(void)thread;
	if (p->channels == 3)
		interleave_three(p->from + begin, p->to + begin * 3, p->positions, end - begin);
	else
		interleave_four(p->from + begin, p->to + begin * 4, p->positions, end - begin);
}

static bool interleaves(const struct view *from, const struct view *to, size_t size)
{
	return from->layout == LAYOUT_ROW && to->layout == LAYOUT_CHANNELS_LAST && size == 2 &&
	       (from->c == 3 || from->c == 4);
}

static int reorder_run(const struct call *c)
{
	const struct tensor *x = c->in[0];
	struct tensor *y = c->out[0];
	size_t size = dtype_bits(tensor_dtype(x)) / 8;
	if (x->layout == y->layout || x->shape.rank < 3) {
		move_bytes(y->data, x->data, y->bytes);
		return 0;
	}
	if (!size)
		return call_fail(c, E_TYPE, "a type whose elements take whole bytes", NULL);
	struct view from = {x->shape.dim[0], x->shape.dim[1],
			    shape_span(&x->shape, 2, x->shape.rank), x->layout};
	struct view to = from;
	to.layout = y->layout;
	if (interleaves(&from, &to, size)) {
		for (int64_t i = 0; i < from.n; i++) {
			int64_t at = i * from.c * from.positions;
			struct picture p = {(const uint16_t *)x->data + at,
					    (uint16_t *)y->data + at, from.positions, from.c};
			pool_for(p.positions, 1 << 14, interleave_piece, &p);
		}
		return 0;
	}
	int64_t a = block_channels(from.layout), b = block_channels(to.layout);
	int64_t chunk = a == 1 && b == 1 ? from.c : a == 1 ? b : b == 1 || a < b ? a : b;
	if (stored_channels(&to) != to.c)
		memset(y->data, 0, y->bytes);
	int64_t whole = chunk ? from.c / chunk : 0, tail = chunk ? from.c % chunk : 0;
	/* the chunks do not have a constant stride in both layouts, so copy them one by one */
	if (a > 1 && b > 1)
		for (int64_t k = 0; k < whole; k++)
			copy_chunks(&from, &to, k * chunk, 1, chunk, x->data, y->data, size);
	else if (whole)
		copy_chunks(&from, &to, 0, whole, chunk, x->data, y->data, size);
	if (tail)
		copy_chunks(&from, &to, whole * chunk, 1, tail, x->data, y->data, size);
	return 0;
}

const struct kernel cpu_reorder = {.op = "Reorder", .run = reorder_run};

/* ---- transposes that move no data ------------------------------------------------------------- */

/*
 * Returns whether perm moves the channels to the end, as from NCHW to NHWC, if `last` is set;
 * otherwise whether perm moves the channels from the end to dimension 1.
 */
static bool channels_move(const struct transpose_params *p, int rank, bool last)
{
	if (p->perm.n != rank || rank < 3 || rank > 5 || p->perm.v[0] != 0)
		return false;
	for (int i = 1; i < rank; i++) {
		int from = last ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1);
		if (p->perm.v[i] != from && p->perm.v[i] + rank != from)
			return false;
	}
	return true;
}

bool transpose_view_accepts(const struct site *s, struct why *w)
{
	const struct transpose_params *p = site_params(s);
	const struct vinfo *x = site_in(s, 0);
	if (x->type.kind != V_TENSOR || dtype_bits((enum dtype)x->type.dtype) < 8 ||
	    x->type.dtype == DT_STRING)
		return refuse(w, "no plain elements");
	if (channels_move(p, x->shape.rank, true) && x->layout == LAYOUT_CHANNELS_LAST)
		return true;
	return (channels_move(p, x->shape.rank, false) && x->layout == LAYOUT_ROW) ||
	       refuse(w, "elements move");
}

/*
 * The output has the same bytes as the input. An NCHW tensor in channels-last layout has the bytes of
 * an NHWC tensor in row-major layout, so only the layout and the shape change.
 */
int transpose_view_reshape(struct site *s, struct step *step, struct diag *d)
{
	enum layout *want = arena_new_n(s->plan_arena, enum layout, 1);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, 1);
	(void)d;
	want[0] = site_in(s, 0)->layout;
	give[0] = want[0] == LAYOUT_ROW ? LAYOUT_CHANNELS_LAST : LAYOUT_ROW;
	step->want = want;
	step->give = give;
	step->nop = true;
	return 0;
}

int transpose_view_run(const struct call *c)
{
	move_bytes(c->out[0]->data, c->in[0]->data, c->out[0]->bytes);
	return 0;
}
