/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/attention/rotary.h"

#include "base/pool.h"
#include "cpu/attention/kernels.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <string.h>

static int64_t cache_row(const struct rotation *t, int64_t b, int64_t s, int64_t stream)
{
	if (t->position)
		return t->position[stream * t->stream_step + b * t->position_batch + s * t->position_row];
	if (t->counted)
		return (t->starts ? t->starts[b] : t->start) + s;
	return b * t->length + s;
}

static void rotate_positions(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct rotation *t = arg;
	int64_t half = t->turned / 2;
	void (*turn)(const float *, float *, int64_t, const float *, const float *) =
		t->interleaved ? simd()->turn_pairs : simd()->turn_halves;

	(void)thread;
	for (int64_t i = begin; i < end; i++) { /* i = batch * length + position */
		int64_t b = i / t->length, s = i % t->length, r = cache_row(t, b, s, 0);
		const float *co = t->cos + r * half, *si = t->sin + r * half;
		for (int64_t n = 0; n < t->heads; n++) {
			int64_t at = b * t->batch + s * t->row + n * t->head;
			const float *x = t->x + at;
			float *y = t->y + at;
			if (!t->stream)
				turn(x, y, half, co, si);
			for (int64_t k = 0; t->stream && k < half; k++) {
				int64_t p = t->interleaved ? 2 * k : k,
					q = t->interleaved ? 2 * k + 1 : k + half;
				float u = x[p], v = x[q];
				r = cache_row(t, b, s, t->stream[k]);
				co = t->cos + r * half;
				si = t->sin + r * half;
				y[p] = co[k] * u - si[k] * v;
				y[q] = si[k] * u + co[k] * v;
			}
			if (y != x)
				memcpy(y + t->turned, x + t->turned,
				       (size_t)(t->size - t->turned) * sizeof(float));
		}
	}
}

void rotary_turn(struct rotation *t, int64_t grain)
{
	pool_for(t->batches * t->length, grain, rotate_positions, t);
}

bool rotary_fits(const struct rotation *t, int64_t rows)
{
	for (int64_t b = 0; b < t->batches; b++)
		for (int64_t i = 0; i < t->length * (t->stream ? t->streams : 1); i++) {
			int64_t r = cache_row(t, b, i % t->length, i / t->length);
			if (r < 0 || r >= rows)
				return false;
		}
	return true;
}

/* mrotary: NULL, or the params of MRotaryEmbedding, whose positions are [3, batch, length] */
static int rotary_common(const struct call *c, uint32_t cos_at, uint32_t position_at, bool ms,
			 const struct mrotary *mrotary)
{
	const struct rotary *p = call_params(c);
	const struct tensor *x = c->in[0], *cos = c->in[cos_at], *sin = c->in[cos_at + 1];
	const struct tensor *position = optional_in(c, position_at);
	struct scratch s = scratch_of(c);
	int64_t half = cos->shape.dim[cos->shape.rank - 1], n = p->num_heads,
		hidden = x->shape.dim[x->shape.rank - 1];
	struct rotation t = {.batches = x->shape.dim[0], .interleaved = p->interleaved != 0};

	if (x->shape.rank == 4) {
		t.heads = x->shape.dim[1];
		t.length = x->shape.dim[2];
		t.size = hidden;
	} else {
		/* without num_heads, the width of the cos cache determines the size of a head */
		t.size = n > 0 ? hidden / n : p->rotary_embedding_dim > 0 ? 0 : 2 * half;
		t.heads = n > 0 ? n : t.size > 0 ? hidden / t.size : 0;
		t.length = x->shape.dim[1];
	}
	t.turned = p->rotary_embedding_dim > 0 ? p->rotary_embedding_dim : t.size;
	if (t.size < 1 || t.turned > t.size || t.turned != 2 * half ||
	    t.heads * t.size != (x->shape.rank == 4 ? t.heads : 1) * hidden)
		return call_fail(c, E_SHAPE, "caches and heads that fit the input", NULL);
	t.batch = t.heads * t.length * t.size;
	t.head = x->shape.rank == 4 ? t.length * t.size : t.size;
	t.row = x->shape.rank == 4 ? t.size : t.heads * t.size;
	if (mrotary) {
		uint8_t *stream = scratch_take(&s, (size_t)half);
		for (int64_t k = 0; k < half; k++)
			stream[k] = (uint8_t)mrotary_stream(mrotary, k);
		t.stream = stream;
		t.streams = 3;
		t.stream_step = t.batches * t.length;
		t.position = position->data;
		t.position_batch = t.length;
		t.position_row = 1;
	} else if (position && ms && tensor_count(position) == 1 && t.batches * t.length != 1) {
		t.counted = true;
		/* a position that no cache has, but to which the length can be added */
		t.start = greater(-1, lesser(*(const int64_t *)position->data, INT64_MAX / 2));
	} else if (position) {
		t.position = position->data;
		t.position_batch = position->shape.dim[0] == 1 ? 0 : t.length;
		t.position_row = 1;
		if (tensor_count(position) != t.batches * t.length && t.position_batch)
			return call_fail(c, E_SHAPE, "position_ids of every batch and position", NULL);
	}
	t.cos = wide_in(&s, cos);
	t.sin = wide_in(&s, sin);
	if (half && !rotary_fits(&t, tensor_count(cos) / half))
		return call_fail(c, E_VALUE, "positions that the caches have", NULL);
	t.x = wide_in(&s, x);
	t.y = wide_out(&s, c->out[0]);
	rotary_turn(&t, 1 + 8192 / (t.heads * t.size + 1));
	wide_done(c->out[0], t.y);
	return 0;
}

int rotary_run(const struct call *c)
{
	return rotary_common(c, 1, 3, false, NULL);
}

int ms_rotary_run(const struct call *c)
{
	return rotary_common(c, 2, 1, true, NULL);
}

bool ms_rotary_accepts(const struct site *s, struct why *why)
{
	const struct rotary *p = site_params(s);

	if (p->is_packed_batching)
		return refuse(why, "packed batching");
	if (p->scale != 1)
		return refuse(why, "scale %g", (double)p->scale);
	return true;
}

int mrotary_reshape(struct site *site, struct step *step, struct diag *d)
{
	(void)d;
	step->workspace = wide_workspace(site) + scratch_size((size_t)site_shape(site, 2)->dim[1]);
	return 0;
}

int mrotary_run(const struct call *c)
{
	return rotary_common(c, 2, 1, true, call_params(c));
}
