/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators with one input tensor, and the operators that copy their input. */
#include "ops/unary.h"

#include "cpu/math/function.h"
#include "cpu/math/rng.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"

#include <math.h>
#include <string.h>

/* ---- integers -------------------------------------------------------------------------------- */

static const struct {
	const char *op;
	enum vint f;
} int_ops[] = {
	{"Abs", VI_ABS},   {"Neg", VI_NEG},	   {"Sign", VI_SIGN},
	{"Relu", VI_RELU}, {"BitwiseNot", VI_NOT}, {"Not", VI_NOT},
};

/* ---- the kernel ------------------------------------------------------------------------------ */

struct unary {
	struct unary_function f;
	simd_int *ints; /* not NULL for integer and bool tensors */
	enum dtype t;
};

struct job {
	const struct unary *u;
	const void *x;
	void *y;
};

static void map_f32(const struct unary *u, const float *x, float *y, int64_t n)
{
	const float p[2] = {(float)u->f.param[0], (float)u->f.param[1]};

	simd()->map[u->f.number](x, y, n, p);
}

static double value_f64(const struct unary *u, double x)
{
	return function_f64[u->f.number](x, u->f.param[0], u->f.param[1]);
}

static void unary_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct unary *u = j->u;
	float buf[BLOCK];

	(void)thread;
	if (u->ints) {
		int64_t size = elem_size(u->t);
		u->ints(at(j->x, begin * size), at_mut(j->y, begin * size), end - begin);
	} else if (u->t == DT_F32) {
		map_f32(u, (const float *)j->x + begin, (float *)j->y + begin, end - begin);
	} else if (computes_in_f32(u->t)) {
		for (int64_t n; begin < end; begin += n) {
			n = end - begin < BLOCK ? end - begin : BLOCK;
			simd_to_f32(u->t, j->x, begin, n, buf);
			map_f32(u, buf, buf, n);
			simd_from_f32(u->t, buf, n, j->y, begin);
		}
	} else if (u->t == DT_F64) {
		const double *x = j->x;
		double *y = j->y;
		for (int64_t i = begin; i < end; i++)
			y[i] = value_f64(u, x[i]);
	} else {
		for (int64_t i = begin; i < end; i++)
			elem_set_f64(u->t, j->y, i, value_f64(u, elem_f64(u->t, j->x, i)));
	}
}

static int unary_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct unary *u = arena_new(s->plan_arena, struct unary);

	(void)d;
	u->t = site_type(s, 0);
	u->f = unary_function(s->node);
	for (size_t i = 0; i < sizeof(int_ops) / sizeof(*int_ops); i++)
		if (!strcmp(int_ops[i].op, s->node->op->name))
			u->ints = simd()->ints[int_ops[i].f][u->t];
	step->state = u;
	allow_inplace(step, 0, 0);
	return 0;
}

static int unary_run(const struct call *c)
{
	const struct unary *u = c->step->state;
	struct job j = {u, c->in[0]->data, c->out[0]->data};
	bool heavy = !u->ints && function_heavy[u->f.number];

	pool_for(physical_count(c->in[0]), heavy ? GRAIN_HEAVY : GRAIN, unary_piece, &j);
	return 0;
}

/* ---- Clip ------------------------------------------------------------------------------------ */

struct clip_job {
	enum dtype t;
	const void *x;
	void *y;
	float p[2];
	_Alignas(8) char lo[8], hi[8];
};

/* Writes the greatest value of type t to out if `high` is set, otherwise the least value. */
static void type_limit(enum dtype t, bool high, void *out)
{
	if (dtype_class(t) == DT_FLOAT)
		elem_set_f64(t, out, 0, high ? (double)INFINITY : -(double)INFINITY);
	else if (dtype_class(t) == DT_UINT)
		elem_set_i64(t, out, 0, high ? -1 : 0);
	else
		elem_set_i64(t, out, 0,
			     high ? INT64_MAX >> (64 - dtype_bits(t))
				  : INT64_MIN >> (64 - dtype_bits(t)));
}

static void clip_bound(const struct call *c, uint32_t i, enum dtype t, char *out)
{
	const struct tensor *b = optional_in(c, i);

	if (b && tensor_count(b) > 0)
		memcpy(out, b->data, (size_t)elem_size(t));
	else
		type_limit(t, i == 2, out);
}

static void clip_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct clip_job *j = arg;
	int64_t size = elem_size(j->t);
	float buf[BLOCK];

	(void)thread;
	if (j->t == DT_F32) {
		simd()->map[VF_CLIP]((const float *)j->x + begin, (float *)j->y + begin,
				     end - begin, j->p);
		return;
	}
	if (!computes_in_f32(j->t)) {
		simd()->clip[j->t](at(j->x, begin * size), at_mut(j->y, begin * size), end - begin,
				   j->lo, j->hi);
		return;
	}
	for (int64_t n; begin < end; begin += n) {
		n = end - begin < BLOCK ? end - begin : BLOCK;
		simd_to_f32(j->t, j->x, begin, n, buf);
		simd()->map[VF_CLIP](buf, buf, n, j->p);
		simd_from_f32(j->t, buf, n, j->y, begin);
	}
}

/* Plans operators whose output 0 may overwrite input 0. */
static int inplace_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)s;
	(void)d;
	allow_inplace(step, 0, 0);
	return 0;
}

static int clip_run(const struct call *c)
{
	struct clip_job j = {.t = tensor_dtype(c->in[0]), .x = c->in[0]->data, .y = c->out[0]->data};

	clip_bound(c, 1, j.t, j.lo);
	clip_bound(c, 2, j.t, j.hi);
	if (dtype_class(j.t) == DT_FLOAT) {
		j.p[0] = (float)elem_f64(j.t, j.lo, 0);
		j.p[1] = (float)elem_f64(j.t, j.hi, 0);
	}
	pool_for(physical_count(c->in[0]), GRAIN, clip_piece, &j);
	return 0;
}

/* ---- IsNaN, IsInf ---------------------------------------------------------------------------- */

struct class_job {
	enum dtype t;
	const void *x;
	uint8_t *y;
	bool nan, neg, pos;
};

static bool is_nan_or_inf(const struct class_job *j, double v)
{
	return j->nan ? isnan(v) : isinf(v) && (v > 0 ? j->pos : j->neg);
}

static void class_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct class_job *j = arg;
	const float *f = j->x;
	const uint16_t *h = j->x;
	uint16_t inf = j->t == DT_F16 ? 0x7c00 : 0x7f80;

	(void)thread;
	if (j->t == DT_F32 && j->nan) {
		simd()->is_nan(f + begin, j->y + begin, end - begin);
	} else if (j->t == DT_F32) {
		simd()->is_inf(f + begin, j->y + begin, end - begin, j->neg, j->pos);
	} else if (j->t == DT_F16 || j->t == DT_BF16) {
		for (int64_t i = begin; i < end; i++)
			j->y[i] = j->nan ? (h[i] & 0x7fff) > inf
					 : (h[i] & 0x7fff) == inf &&
						   (h[i] & 0x8000 ? j->neg : j->pos);
	} else {
		for (int64_t i = begin; i < end; i++)
			j->y[i] = is_nan_or_inf(j, elem_f64(j->t, j->x, i));
	}
}

static int is_nan_run(const struct call *c)
{
	struct class_job j = {
		tensor_dtype(c->in[0]), c->in[0]->data, c->out[0]->data, true, false, false};

	pool_for(physical_count(c->in[0]), GRAIN, class_piece, &j);
	return 0;
}

static int is_inf_run(const struct call *c)
{
	const struct is_inf *p = call_params(c);
	struct class_job j = {tensor_dtype(c->in[0]),  c->in[0]->data,
			      c->out[0]->data,	       false,
			      p->detect_negative != 0, p->detect_positive != 0};

	pool_for(physical_count(c->in[0]), GRAIN, class_piece, &j);
	return 0;
}

/* ---- Identity, BitCast, Dropout -------------------------------------------------------------- */

static int identity_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct vinfo *v = site_in(s, 0);

	(void)d;
	step->nop = v && v->type.kind == V_TENSOR && v->type.dtype != DT_STRING;
	return 0;
}

static int identity_run(const struct call *c)
{
	if (c->in[0]->type.kind != V_TENSOR || tensor_dtype(c->in[0]) == DT_STRING)
		return call_copy(c, 0, c->in[0]);
	if (c->in[0]->bytes && c->out[0]->data != c->in[0]->data)
		memcpy(c->out[0]->data, c->in[0]->data, c->in[0]->bytes);
	return 0;
}

/* Whether it is known before the run that training_mode (input 2) is false or left out. */
static bool known_inference_mode(const struct site *s)
{
	const struct tensor *mode = s->node->nin > 2 ? site_known(s, 2) : NULL;

	return !site_in(s, 2) ||
	       (mode && tensor_count(mode) == 1 && !elem_i64(DT_BOOL, mode->data, 0));
}

static int dropout_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)d;
	step->nop = known_inference_mode(s) && !site_out(s, 1);
	allow_inplace(step, 0, 0);
	return 0;
}

struct dropout_job {
	const struct tensor *x;
	struct tensor *y;
	uint8_t *mask;
	double ratio;
	uint64_t seed;
};

static void dropout_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct dropout_job *j = arg;
	enum dtype t = tensor_dtype(j->x);

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		bool keep = rng_unit(j->seed, (uint64_t)i) >= j->ratio;
		double v = elem_f64(t, j->x->data, i);
		if (j->y)
			elem_set_f64(t, j->y->data, i, keep ? v / (1 - j->ratio) : 0);
		if (j->mask)
			j->mask[i] = keep;
	}
}

static int dropout_run(const struct call *c)
{
	const struct dropout *p = call_params(c);
	const struct tensor *x = c->in[0];
	const struct tensor *ratio = c->step->nin > 1 ? c->in[1] : NULL;
	const struct tensor *mode = c->step->nin > 2 ? c->in[2] : NULL;
	struct tensor *mask = c->step->nout > 1 ? c->out[1] : NULL;
	bool train = mode && tensor_count(mode) == 1 && elem_i64(DT_BOOL, mode->data, 0);
	struct dropout_job j = {x, c->out[0], mask ? mask->data : NULL, 0.5, rng_seed_int(p->seed)};

	if (ratio && tensor_count(ratio) == 1)
		j.ratio = elem_f64(tensor_dtype(ratio), ratio->data, 0);
	if (train && j.ratio > 0) {
		pool_for(tensor_count(x), GRAIN_HEAVY, dropout_piece, &j);
		return 0;
	}
	if (c->out[0] && x->bytes && c->out[0]->data != x->data)
		memcpy(c->out[0]->data, x->data, x->bytes);
	if (mask && mask->bytes)
		memset(mask->data, p->mask_zero ? 0 : 1, mask->bytes);
	return 0;
}

/* ---- ImageScaler ----------------------------------------------------------------------------- */

static void image_scaler_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct call *c = arg;
	const struct image_scaler *p = call_params(c);
	const struct shape *s = &c->in[0]->shape;
	enum dtype t = tensor_dtype(c->in[0]);
	int64_t inner = s->rank > 2 ? shape_span(s, 2, s->rank) : 1;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		double bias = p->bias.n > 0 ? (double)p->bias.v[i / inner % p->bias.n] : 0;
		elem_set_f64(t, c->out[0]->data, i,
			     elem_f64(t, c->in[0]->data, i) * (double)p->scale + bias);
	}
}

static int image_scaler_run(const struct call *c)
{
	struct call copy = *c;

	pool_for(tensor_count(c->in[0]), GRAIN, image_scaler_piece, &copy);
	return 0;
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		(name), 0, K_REFERENCE | K_ANY_LAYOUT, NULL, NULL, unary_reshape, unary_run, NULL, \
			NULL                                                                       \
	}

const struct kernel cpu_unary[] = {
#define UNARY(op, id, types, nparams) ROW(op),
#include "ops/unary.def"
	ROW("com.microsoft::Gelu"),
	ROW("com.microsoft::QuickGelu"),
	{.op = "Clip", .flags = K_REFERENCE | K_ANY_LAYOUT, .reshape = inplace_reshape, .run = clip_run},
	{.op = "IsNaN", .flags = K_REFERENCE | K_ANY_LAYOUT, .run = is_nan_run},
	{.op = "IsInf", .flags = K_REFERENCE | K_ANY_LAYOUT, .run = is_inf_run},
	{.op = "Identity", .flags = K_REFERENCE, .reshape = identity_reshape, .run = identity_run},
	{.op = "BitCast", .flags = K_REFERENCE, .reshape = inplace_reshape, .run = identity_run},
	{.op = "ImageScaler", .flags = K_REFERENCE, .run = image_scaler_run},
	{.op = "Dropout", .flags = K_REFERENCE, .reshape = dropout_reshape, .run = dropout_run},
	{0}};
