/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quantized/qlinear.h"

#include "base/arena.h"
#include "base/pool.h"
#include "cpu/math/broadcast.h"
#include "cpu/math/move.h"
#include "cpu/quantized/quant.h"
#include "ops/quant.h"

#include <string.h>

/* ---- QLinearConcat -------------------------------------------------------------------------------------------------------- */

struct qconcat_job {
	const uint8_t *x;
	uint8_t *y;
	int64_t part,
		row; /* product of the dimensions from the axis on: part is that of x, row that of y */
	const uint8_t *table; /* maps each code of x to the code of y; NULL if the codes are the same */
};

/* Copies elements begin to end - 1 of x into y. */
static void qconcat_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct qconcat_job *j = arg;

	(void)thread;
	for (int64_t i = begin; i < end;) {
		int64_t o = i / j->part, k = i % j->part, n = lesser(j->part - k, end - i);
		const uint8_t *x = j->x + i;
		uint8_t *y = j->y + o * j->row + k;
		if (!j->table)
			memcpy(y, x, (size_t)n);
		else
			igemm_kernels()->look_up(x, y, n, j->table);
		i += n;
	}
}

/*
 * Computes the table that maps each of the 256 codes of x to the code of y. Returns false if none is needed, because
 * x and y have the same type, scale and zero point.
 */
static bool requantize_table(const struct tensor *x, const struct tensor *xs,
			     const struct tensor *xz, const struct call *c, uint8_t *table)
{
	enum dtype t = tensor_dtype(x), yt = tensor_dtype(c->out[0]);
	float low, high, scale = scale_at(c->in[0], 0), zero = scale_at(c->in[1], 0);
	float from = scale_at(xs, 0), from_zero = scale_at(xz, 0);

	if (t == yt && from == scale && from_zero == zero)
		return false;
	int_range(yt, &low, &high);
	for (int k = 0; k < 256; k++) {
		float v = (float)(t == DT_I8 ? (int8_t)k : k);
		v = rintf((v - from_zero) * from / scale) + zero;
		table[k] = (uint8_t)(int)clamped(v, low, high);
	}
	return true;
}

int qconcat_run(const struct call *c)
{
	const struct qconcat_params *p = call_params(c);
	const struct shape *ys = &c->out[0]->shape;
	int axis = axis_of(p->axis, ys->rank);
	uint8_t table[256], *y = c->out[0]->data;

	for (uint32_t i = 2; i + 2 < c->step->node->nin; i += 3) {
		const struct tensor *x = c->in[i];
		struct qconcat_job j = {.x = x->data,
					.y = y,
					.part = shape_span(&x->shape, axis, ys->rank),
					.row = shape_span(ys, axis, ys->rank)};
		if (requantize_table(x, c->in[i + 1], c->in[i + 2], c, table))
			j.table = table;
		pool_for(tensor_count(x), MOVE_GRAIN, qconcat_piece, &j);
		y += j.part;
	}
	return 0;
}

/* ---- QLinearGlobalAveragePool ---------------------------------------------------------------------------------------------- */

struct qglobal_job {
	const uint8_t *x;
	struct tensor *y;
	int64_t pixels, channels;
	bool last, is_signed;
	float scale;
	int32_t zero_x, zero_y;
};

static int64_t sum_channel(const struct qglobal_job *j, int64_t k)
{
	uint8_t flip = j->is_signed ? IGEMM_FLIP : 0;
	int64_t sum = 0;

	if (!j->last) {
		sum = igemm_kernels()->sum_bytes(j->x + k * j->pixels, j->pixels, flip);
	} else {
		const uint8_t *x = j->x + k / j->channels * j->pixels * j->channels + k % j->channels;
		for (int64_t i = 0; i < j->pixels; i++)
			sum += x[i * j->channels] ^ flip;
	}
	return sum - flip * j->pixels;
}

static void qglobal_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct qglobal_job *j = arg;
	float low, high;

	(void)thread;
	int_range(tensor_dtype(j->y), &low, &high);
	for (int64_t k = begin; k < end; k++) {
		int64_t sum = sum_channel(j, k) - j->pixels * j->zero_x;
		float q = rintf((float)sum * j->scale) + (float)j->zero_y;
		elem_set_i64(tensor_dtype(j->y), j->y->data, k, (int64_t)clamped(q, low, high));
	}
}

int qglobal_run(const struct call *c)
{
	const struct qglobal_params *p = call_params(c);
	const struct tensor *x = c->in[0], *zx = c->in[2], *zy = optional_in(c, 4);
	const struct shape *s = &x->shape;
	int last = p->channels_last ? s->rank - 1 : 1;
	struct qglobal_job j = {.x = x->data,
				.y = c->out[0],
				.channels = s->dim[last],
				.last = p->channels_last != 0,
				.is_signed = tensor_dtype(x) == DT_I8};

	j.pixels = p->channels_last ? shape_span(s, 1, last) : shape_span(s, 2, s->rank);
	j.scale = scale_at(c->in[1], 0) / (scale_at(c->in[3], 0) * (float)j.pixels);
	j.zero_x = zx ? (int32_t)int8_at(zx->data, j.is_signed, 0) : 0;
	j.zero_y = zy ? (int32_t)int8_at(zy->data, tensor_dtype(zy) == DT_I8, 0) : 0;
	pool_for(tensor_count(c->out[0]), move_grain(j.pixels), qglobal_piece, &j);
	return 0;
}

/* ---- QLinearAdd, QLinearMul -------------------------------------------------------------------------------------------------- */

static void add_codes(void *arg, const void *const *in, void *y, int64_t n)
{
	igemm_kernels()->add8(arg, in[0], in[1], y, n);
}

static void multiply_codes(void *arg, const void *const *in, void *y, int64_t n)
{
	igemm_kernels()->multiply8(arg, in[0], in[1], y, n);
}

int qbinary_reshape(struct site *s, struct step *st, struct diag *d)
{
	struct bcast *b = arena_new(s->plan_arena, struct bcast);
	const struct shape *in[] = {&site_in(s, 0)->shape, &site_in(s, 3)->shape};

	for (uint32_t i = 1; i < s->node->nin; i++)
		if (i != 3 && site_in(s, i) && shape_count(&site_in(s, i)->shape) != 1)
			return site_fail(s, d, E_SHAPE, "one scale and one zero point", NULL);
	bcast_make(b, &site_out(s, 0)->shape, in, 2, (int64_t[]){1, 1}, 1);
	st->state = b;
	return 0;
}

static int qbinary_run(const struct call *c, bool multiply)
{
	enum dtype t = tensor_dtype(c->in[0]);
	const void *in[] = {c->in[0]->data, c->in[3]->data};
	uint8_t flip = flip_to(false, t);
	float a = scale_at(c->in[1], 0), b = scale_at(c->in[4], 0), y = scale_at(c->in[6], 0);
	struct igemm_codes j = {
		.a_scale = multiply ? a * b / y : a / y,
		.b_scale = b / y,
		.a_zero = zero_of(c->in[2], 0, 1, 0) + zero_move(false, flip),
		.b_zero = zero_of(c->in[5], 0, 1, 0) + zero_move(false, flip),
		.zero = (float)(zero_of(optional_in(c, 7), 0, 1, 0) + zero_move(false, flip)),
		.flip = flip};

	bcast_run(c->step->state, in, c->out[0]->data, 1 << 14,
		  multiply ? multiply_codes : add_codes, &j);
	return 0;
}

int qadd_run(const struct call *c)
{
	return qbinary_run(c, false);
}

int qmultiply_run(const struct call *c)
{
	return qbinary_run(c, true);
}

/* ---- QLinearSigmoid, QLinearLeakyRelu: look-up in a table of the result of each code -------------------------------------- */

struct table_job {
	const uint8_t *x;
	uint8_t *y, table[256];
};

static void table_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct table_job *j = arg;

	(void)thread;
	igemm_kernels()->look_up(j->x + begin, j->y + begin, end - begin, j->table);
}

int qtable_reshape(struct site *s, struct step *st, struct diag *d)
{
	(void)st;
	for (uint32_t i = 1; i < s->node->nin; i++)
		if (site_in(s, i) && shape_count(&site_in(s, i)->shape) != 1)
			return site_fail(s, d, E_SHAPE, "one scale and one zero point", NULL);
	return 0;
}

static int table_run(const struct call *c, float (*f)(float, float), float alpha)
{
	struct table_job j = {.x = c->in[0]->data, .y = c->out[0]->data};
	bool is_signed = tensor_dtype(c->in[0]) == DT_I8;
	const struct tensor *zx = optional_in(c, 2), *zy = optional_in(c, 4);
	float from = scale_at(c->in[1], 0), to = scale_at(c->in[3], 0), low, high;

	int_range(tensor_dtype(c->out[0]), &low, &high);
	for (int k = 0; k < 256; k++) {
		int32_t code = is_signed ? (int8_t)k : k;
		float v = f((float)(code - zero_of(zx, 0, 1, 0)) * from, alpha);
		v = rintf(v / to) + (float)zero_of(zy, 0, 1, 0);
		j.table[k] = (uint8_t)(int32_t)clamped(v, low, high);
	}
	pool_for(tensor_count(c->in[0]), 1 << 15, table_piece, &j);
	return 0;
}

/* Codes are looked up in whatever order they lie. */
int code_table_reshape(struct site *s, struct step *st, struct diag *d)
{
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);

	(void)d;
	want[0] = give[0] = site_in(s, 0)->layout;
	st->want = want;
	st->give = give;
	st->inplace[st->ninplace++].in = 0;
	return 0;
}

int code_table_run(const struct call *c)
{
	struct table_job j = {.x = c->in[0]->data, .y = c->out[0]->data};

	memcpy(j.table, c->in[1]->data, sizeof(j.table));
	pool_for((int64_t)c->out[0]->bytes, 1 << 15, table_piece, &j);
	return 0;
}

int all_codes_run(const struct call *c)
{
	for (int i = 0; i < 256; i++)
		((uint8_t *)c->out[0]->data)[i] = (uint8_t)i;
	return 0;
}

static float sigmoid(float x, float alpha)
{
	(void)alpha;
	return 1 / (1 + expf(-x));
}

static float leaky(float x, float alpha)
{
	return x < 0 ? alpha * x : x;
}

int qsigmoid_run(const struct call *c)
{
	return table_run(c, sigmoid, 0);
}

int qleaky_run(const struct call *c)
{
	const struct qleaky_params *p = call_params(c);

	return table_run(c, leaky, p->alpha);
}
