/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of Reorder steps: any layout to any other. A tensor is seen as [N, chunks, positions,
 * channels of a chunk], in which each layout is a set of strides.
 */
#include "cpu/cpu.h"
#include "cpu/math/move.h"
#include "ops/layout.h"

#include <string.h>

struct view {
	int64_t n, c, positions;
	enum layout layout;
};

static int64_t block_of(enum layout l)
{
	return l == LAYOUT_BLOCK8 ? 8 : l == LAYOUT_BLOCK16 ? 16 : 1;
}

/* Channels as they are stored: a last block that is not full is padded. */
static int64_t stored_channels(const struct view *v)
{
	int64_t block = block_of(v->layout);
	return (v->c + block - 1) / block * block;
}

/* Offset of channel c, which begins a chunk. */
static int64_t channel_at(const struct view *v, int64_t c)
{
	int64_t block = block_of(v->layout);
	if (v->layout == LAYOUT_ROW)
		return c * v->positions;
	return c / block * block * (block > 1 ? v->positions : 1) + c % block;
}

/* Strides of N, of chunks of `chunk` channels, of positions, and of channels in a chunk. */
static void view_strides(const struct view *v, int64_t chunk, int64_t *stride)
{
	int64_t block = block_of(v->layout);
	stride[0] = stored_channels(v) * v->positions;
	stride[1] = channel_at(v, chunk);
	stride[2] = v->layout == LAYOUT_ROW ? 1 : block > 1 ? block : v->c;
	stride[3] = v->layout == LAYOUT_ROW ? v->positions : 1;
}

/* `chunks` chunks of channels from channel c on. */
static void copy_chunks(const struct view *from, const struct view *to, int64_t c, int64_t chunks,
			int64_t chunk, const char *src, char *dst, size_t size)
{
	int64_t n[4] = {from->n, chunks, from->positions, chunk}, in[4], out[4];
	struct strided s;
	view_strides(from, chunk, in);
	view_strides(to, chunk, out);
	if (to->layout == LAYOUT_ROW) { /* the target's dense dimension last */
		int64_t t;
		t = n[2], n[2] = n[3], n[3] = t;
		t = in[2], in[2] = in[3], in[3] = t;
		t = out[2], out[2] = out[3], out[3] = t;
	}
	strided_set(&s, 4, n, in, out);
	strided_copy(&s, src + (size_t)channel_at(from, c) * size,
		     dst + (size_t)channel_at(to, c) * size, size);
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
	struct view from = {x->shape.dim[0], x->shape.dim[1],
			    shape_span(&x->shape, 2, x->shape.rank), x->layout};
	struct view to = from;
	to.layout = y->layout;
	int64_t a = block_of(from.layout), b = block_of(to.layout);
	int64_t chunk = a == 1 && b == 1 ? from.c : a == 1 ? b : b == 1 || a < b ? a : b;
	if (stored_channels(&to) != to.c)
		memset(y->data, 0, y->bytes);
	int64_t whole = chunk ? from.c / chunk : 0, tail = chunk ? from.c % chunk : 0;
	if (a > 1 && b > 1) /* chunks do not follow each other evenly in both */
		for (int64_t k = 0; k < whole; k++)
			copy_chunks(&from, &to, k * chunk, 1, chunk, x->data, y->data, size);
	else if (whole)
		copy_chunks(&from, &to, 0, whole, chunk, x->data, y->data, size);
	if (tail)
		copy_chunks(&from, &to, whole * chunk, 1, tail, x->data, y->data, size);
	return 0;
}

const struct kernel cpu_reorder = {.op = "Reorder", .run = reorder_run};

/* ---- transposes that change nothing in memory ------------------------------------------------- */

/* Whether perm takes the channels to the end (NCHW to NHWC), or from there to dimension 1. */
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

/* The same bytes, seen with other dims in another layout. */
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
