/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quantized/qlinear.h"

#include "base/arena.h"
#include "base/pool.h"
#include "cpu/math/broadcast.h"
#include "cpu/math/move.h"
#include "cpu/quantized/qconv.h"
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

enum {
	SUMMED_CHANNELS = 64, /* channels that lie side by side and are summed at once */
	SUMMED_PIXELS = 256   /* pixels of these that are summed at once */
};

static void store_average(const struct qglobal_job *j, int64_t k, int64_t sum, float low, float high)
{
	float q = rintf((float)(sum - j->pixels * j->zero_x) * j->scale) + (float)j->zero_y;

	elem_set_i64(tensor_dtype(j->y), j->y->data, k, (int64_t)clamped(q, low, high));
}

/* Averages SUMMED_CHANNELS channels of a picture for each index from begin to end - 1. */
static void qglobal_last_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct qglobal_job *j = arg;
	uint8_t flip = j->is_signed ? IGEMM_FLIP : 0;
	int64_t blocks = (j->channels + SUMMED_CHANNELS - 1) / SUMMED_CHANNELS;
	int8_t ones[SUMMED_PIXELS];
	float low, high;

	(void)thread;
	memset(ones, 1, sizeof(ones));
	int_range(tensor_dtype(j->y), &low, &high);
	for (int64_t b = begin; b < end; b++) {
		int64_t first = b % blocks * SUMMED_CHANNELS, sum[SUMMED_CHANNELS] = {0};
		int64_t n = lesser(SUMMED_CHANNELS, j->channels - first);
		const uint8_t *x = j->x + b / blocks * j->pixels * j->channels + first;
		for (int64_t p = 0, count; p < j->pixels; p += count) {
			int32_t part[SUMMED_CHANNELS];
			count = lesser(SUMMED_PIXELS, j->pixels - p);
			struct igemm_rows rows = {.base = x + p * j->channels, .row = j->channels};
			igemm_kernels()->add_rows(&rows, ones, 0, count, flip, 0, n, part);
			for (int64_t c = 0; c < n; c++)
				sum[c] += part[c] - flip * count;
		}
		for (int64_t c = 0; c < n; c++)
			store_average(j, b / blocks * j->channels + first + c, sum[c], low, high);
	}
}

static void qglobal_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct qglobal_job *j = arg;
	uint8_t flip = j->is_signed ? IGEMM_FLIP : 0;
	float low, high;

	(void)thread;
	int_range(tensor_dtype(j->y), &low, &high);
	for (int64_t k = begin; k < end; k++) {
		int64_t sum = igemm_kernels()->sum_bytes(j->x + k * j->pixels, j->pixels, flip);
		store_average(j, k, sum - flip * j->pixels, low, high);
	}
}

int qglobal_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct qglobal_params *p = site_params(s);
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout l = site_in(s, 0)->layout;

	(void)d;
	want[0] = l == LAYOUT_CHANNELS_LAST && !p->channels_last ? l : LAYOUT_ROW;
	st->want = want;
	return 0;
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
				.last = p->channels_last || x->layout == LAYOUT_CHANNELS_LAST,
				.is_signed = tensor_dtype(x) == DT_I8};

	j.pixels = p->channels_last ? shape_span(s, 1, last) : shape_span(s, 2, s->rank);
	j.scale = scale_at(c->in[1], 0) / (scale_at(c->in[3], 0) * (float)j.pixels);
	j.zero_x = zx ? (int32_t)int8_at(zx->data, j.is_signed, 0) : 0;
	j.zero_y = zy ? (int32_t)int8_at(zy->data, tensor_dtype(zy) == DT_I8, 0) : 0;
	if (j.last && j.channels)
		pool_for(s->dim[0] * ((j.channels + SUMMED_CHANNELS - 1) / SUMMED_CHANNELS),
			 move_grain(j.pixels * SUMMED_CHANNELS), qglobal_last_piece, &j);
	else
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

/* The inputs that are operands; scales and zero points follow each. */
static const uint32_t operands[] = {0, 3};

/*
 * Chooses the layout with the channels last if an operand of the result's shape has it and the other can be brought into it, as the
 * scales [N,C,1,1] that squeeze-and-excitation blocks multiply pictures by can.
 */
static enum layout choose_layout(const struct site *s)
{
	const struct shape *y = &site_out(s, 0)->shape;
	enum layout found = LAYOUT_ROW;

	for (int k = 0; k < 2; k++) {
		const struct vinfo *v = site_in(s, operands[k]);
		if (v->shape.rank != y->rank && shape_count(&v->shape) != 1)
			return LAYOUT_ROW;
		if (v->layout == LAYOUT_CHANNELS_LAST && shape_equal(&v->shape, y))
			found = v->layout;
	}
	return found;
}

/* Whether the elements lie alike in both layouts, since there is one channel or one pixel. */
static bool any_layout(const struct shape *x)
{
	return x->rank < 3 || x->dim[1] == 1 || shape_span(x, 2, x->rank) == 1;
}

int qbinary_reshape(struct site *s, struct step *st, struct diag *d)
{
	struct bcast *b = arena_new(s->plan_arena, struct bcast);
	enum layout l = choose_layout(s),
		    *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	struct tensor in[2], out = {.type = type_tensor(DT_U8), .layout = l};
	const struct tensor *const all[] = {&in[0], &in[1]};

	for (uint32_t i = 1; i < s->node->nin; i++)
		if (i != 3 && site_in(s, i) && shape_count(&site_in(s, i)->shape) != 1)
			return site_fail(s, d, E_SHAPE, "one scale and one zero point", NULL);
	out.shape = site_out(s, 0)->shape;
	for (int k = 0; k < 2; k++) {
		const struct vinfo *v = site_in(s, operands[k]);
		in[k] = (struct tensor){.type = out.type, .layout = l, .shape = v->shape};
		want[operands[k]] =
			l == LAYOUT_CHANNELS_LAST && any_layout(&v->shape) ? v->layout : l;
	}
	if (!bcast_tensors(b, &out, all, 2))
		return site_fail(s, d, E_INTERNAL, NULL, NULL);
	give[0] = any_layout(&out.shape) ? LAYOUT_ROW : l;
	st->want = want;
	st->give = give;
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

/* ---- infer::QConvAdd: only GPUs have a kernel that needs no memory for the codes between -------------------------------------- */

static size_t codes_between(int64_t n)
{
	return ((size_t)n + 63) & ~(size_t)63;
}

int qconv_add_reshape(struct site *s, struct step *st, struct diag *d)
{
	int err = qlinear_conv_reshape(s, st, d);
	int64_t n = shape_count(&site_out(s, 0)->shape);

	if (!err && __builtin_add_overflow(st->workspace, codes_between(n), &st->workspace))
		return site_fail(s, d, E_MEMORY, NULL, NULL);
	return err;
}

int qconv_add_run(const struct call *c)
{
	enum dtype t = tensor_dtype(c->out[0]);
	uint8_t flip = flip_to(false, t);
	float y = scale_at(c->in[QCONV_Y_SCALE], 0);
	int64_t n = tensor_count(c->out[0]);
	struct tensor between = *c->out[0];
	struct tensor *out[] = {&between};
	struct call conv = *c;

	between.data = c->workspace;
	conv.out = out;
	conv.workspace = (char *)c->workspace + codes_between(n);
	int err = qlinear_conv_run(&conv);
	struct igemm_codes j = {
		.a_scale = scale_at(c->in[6], 0) / y,
		.b_scale = scale_at(c->in[QCONV_R_SCALE], 0) / y,
		.a_zero = zero_of(c->in[7], 0, 1, 0) + zero_move(false, flip),
		.b_zero = zero_of(c->in[QCONV_R_ZERO], 0, 1, 0) + zero_move(false, flip),
		.zero = (float)(zero_of(c->in[QCONV_Y_ZERO], 0, 1, 0) + zero_move(false, flip)),
		.flip = flip};
	if (!err)
		igemm_kernels()->add8(&j, between.data, c->in[QCONV_R]->data, c->out[0]->data, n);
	return err;
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
