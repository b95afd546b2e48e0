/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that create a tensor: constants, identity matrices, ranges and random values. */
#include "ops/create.h"

#include "cpu/math/rng.h"
#include "cpu/math/util.h"

#include <math.h>
#include <string.h>

/* ---- filling --------------------------------------------------------------------------------- */

struct fill_job {
	char *y;
	const void *unit; /* one element, or one byte full of packed elements */
	size_t size;
};

static void fill_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct fill_job *j = arg;
	char *y = j->y + begin * (int64_t)j->size;
	size_t bytes = (size_t)(end - begin) * j->size, done = j->size;

	(void)thread;
	if (j->size == 1) {
		memset(y, *(const unsigned char *)j->unit, bytes);
		return;
	}
	memcpy(y, j->unit, j->size);
	for (; done < bytes && done < 4096; done *= 2) /* double the pattern up to 4096 bytes */
		memcpy(y + done, y, done < bytes - done ? done : bytes - done);
	for (size_t n; done < bytes; done += n) {
		n = bytes - done < 4096 ? bytes - done : 4096;
		memcpy(y + done, y, n);
	}
}

/* Sets every element of y to element 0 of `unit`, which has y's type. */
static void fill_tensor(struct tensor *y, const void *unit)
{
	enum dtype t = tensor_dtype(y);
	unsigned bits = dtype_bits(t);
	uint64_t packed[2] = {0};
	struct fill_job j = {y->data, unit, bits / 8};
	int64_t n = tensor_count(y);

	if (bits < 8) {
		for (int64_t i = 0; i < 8 / bits; i++)
			elem_set_f64(t, packed, i, elem_f64(t, unit, 0));
		j.unit = packed;
		j.size = 1;
		n = (n * bits + 7) / 8;
	}
	if (n > 0)
		pool_for(n, GRAIN, fill_piece, &j);
	if (bits < 8 && tensor_count(y) * bits % 8) /* clear the unused bits of the last byte */
		((uint8_t *)y->data)[n - 1] &= (uint8_t)((1u << tensor_count(y) * bits % 8) - 1);
}

static int constant_of_shape_run(const struct call *c)
{
	const struct constant_of_shape *p = call_params(c);
	static const float zero = 0;

	fill_tensor(c->out[0], p->value ? p->value->data : &zero);
	return 0;
}

static int constant_fill_run(const struct call *c)
{
	const struct constant_fill *p = call_params(c);
	uint64_t unit[2] = {0};

	elem_set_f64(tensor_dtype(c->out[0]), unit, 0, (double)p->value);
	fill_tensor(c->out[0], unit);
	return 0;
}

static int eye_run(const struct call *c)
{
	const struct eye_like *p = call_params(c);
	struct tensor *y = c->out[0];
	int64_t rows = y->shape.dim[0], columns = y->shape.dim[1];

	if (y->bytes)
		memset(y->data, 0, y->bytes);
	if (p->k < -rows || p->k > columns)
		return 0;
	for (int64_t i = 0; i < rows; i++)
		if (i + p->k >= 0 && i + p->k < columns)
			elem_set_i64(tensor_dtype(y), y->data, i * columns + i + p->k, 1);
	return 0;
}

/* ---- Range ----------------------------------------------------------------------------------- */

struct range_job {
	enum dtype t;
	void *y;
	double start, delta;
	int64_t istart, idelta;
};

/*
 * Computes an integer range, in unsigned arithmetic so that overflow wraps. Even and odd elements are two independent
 * sums, which run in parallel; with four such sums gcc 12 generates wrong vector code.
 */
#define RANGE(name, uint)                                                                          \
	static void name(const struct range_job *j, int64_t begin, int64_t end)                    \
	{                                                                                          \
		uint *y = j->y, step = (uint)j->idelta, even, odd;                                 \
		int64_t i = begin;                                                                 \
                                                                                                   \
		even = (uint)j->istart + (uint)begin * step;                                       \
		odd = even + step;                                                                 \
		for (; i + 2 <= end; i += 2) {                                                     \
			y[i] = even;                                                               \
			y[i + 1] = odd;                                                            \
			even += 2 * step;                                                          \
			odd += 2 * step;                                                           \
		}                                                                                  \
		if (i < end)                                                                       \
			y[i] = even;                                                               \
	}
RANGE(range_i64, uint64_t)
RANGE(range_i32, uint32_t)

static void range_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct range_job *j = arg;

	(void)thread;
	if (j->t == DT_I64 || j->t == DT_I32) {
		(j->t == DT_I64 ? range_i64 : range_i32)(j, begin, end);
		return;
	}
	for (int64_t i = begin; i < end; i++) {
		if (dtype_class(j->t) != DT_FLOAT)
			elem_set_i64(
				j->t, j->y, i,
				(int64_t)((uint64_t)j->istart + (uint64_t)i * (uint64_t)j->idelta));
		else if (j->t == DT_F32)
			((float *)j->y)[i] = (float)j->start + (float)i * (float)j->delta;
		else
			elem_set_f64(j->t, j->y, i, j->start + (double)i * j->delta);
	}
}

static int range_run(const struct call *c)
{
	const struct tensor *s = c->in[0], *d = c->in[2];
	struct range_job j = {.t = tensor_dtype(s),
			      .y = c->out[0]->data,
			      .start = elem_f64(tensor_dtype(s), s->data, 0),
			      .delta = elem_f64(tensor_dtype(d), d->data, 0),
			      .istart = elem_i64(tensor_dtype(s), s->data, 0),
			      .idelta = elem_i64(tensor_dtype(d), d->data, 0)};

	if (tensor_count(c->out[0]) > 0)
		pool_for(tensor_count(c->out[0]), GRAIN, range_piece, &j);
	return 0;
}

/* ---- random numbers -------------------------------------------------------------------------- */

struct random_job {
	enum dtype t;
	void *y;
	double a, b;
	uint64_t seed;
	bool normal;
	const struct tensor *p; /* probabilities of Bernoulli; otherwise NULL */
};

static void random_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct random_job *j = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		double v;
		if (j->p)
			v = rng_unit(j->seed, (uint64_t)i) <
			    elem_f64(tensor_dtype(j->p), j->p->data, i);
		else if (j->normal)
			v = j->a + j->b * rng_normal(j->seed, (uint64_t)i);
		else
			v = j->a + (j->b - j->a) * rng_unit(j->seed, (uint64_t)i);
		elem_set_f64(j->t, j->y, i, v);
	}
}

static int random_run(const struct call *c)
{
	const struct random *p = call_params(c);
	struct tensor *y = c->out[0];
	struct random_job j = {.t = tensor_dtype(y),
			       .y = y->data,
			       .a = (double)p->a,
			       .b = (double)p->b,
			       .seed = rng_seed_float(p->seed),
			       .normal = c->step->node->op->variant == RANDOM_NORMAL};

	if (tensor_count(y) > 0)
		pool_for(tensor_count(y), GRAIN_HEAVY, random_piece, &j);
	return 0;
}

static int bernoulli_run(const struct call *c)
{
	const struct bernoulli *p = call_params(c);
	struct tensor *y = c->out[0];
	struct random_job j = {
		.t = tensor_dtype(y), .y = y->data, .seed = rng_seed_float(p->seed), .p = c->in[0]};

	if (tensor_count(y) > 0)
		pool_for(tensor_count(y), GRAIN_HEAVY, random_piece, &j);
	return 0;
}

/* Multinomial draws class indices. The input holds the unnormalized log-probabilities of the classes. */
static int multinomial_run(const struct call *c)
{
	const struct multinomial *p = call_params(c);
	const struct tensor *x = c->in[0];
	struct tensor *y = c->out[0];
	enum dtype t = tensor_dtype(x);
	int64_t rows = x->shape.dim[0], n = x->shape.dim[1], samples = y->shape.dim[1];
	uint64_t seed = rng_seed_float(p->seed);

	if (!n && tensor_count(y))
		return call_fail(c, E_SHAPE, "at least one class", "none");
	for (int64_t r = 0; r < rows; r++) {
		double max = -(double)INFINITY, sum = 0;
		for (int64_t k = 0; k < n; k++)
			max = fmax(max, elem_f64(t, x->data, r * n + k));
		for (int64_t k = 0; k < n; k++)
			sum += exp(elem_f64(t, x->data, r * n + k) - max);
		for (int64_t s = 0; s < samples; s++) {
			double left = rng_unit(seed, (uint64_t)(r * samples + s)) * sum;
			int64_t k = 0;
			for (; k < n - 1; k++) {
				left -= exp(elem_f64(t, x->data, r * n + k) - max);
				if (left < 0)
					break;
			}
			elem_set_i64(tensor_dtype(y), y->data, r * samples + s, k);
		}
	}
	return 0;
}

const struct kernel cpu_create[] = {
	{.op = "ConstantOfShape", .flags = K_REFERENCE, .run = constant_of_shape_run},
	{.op = "ConstantFill", .flags = K_REFERENCE, .run = constant_fill_run},
	{.op = "EyeLike", .flags = K_REFERENCE, .run = eye_run},
	{.op = "Range", .flags = K_REFERENCE, .run = range_run},
	{.op = "RandomNormal", .flags = K_REFERENCE, .run = random_run},
	{.op = "RandomUniform", .flags = K_REFERENCE, .run = random_run},
	{.op = "RandomNormalLike", .flags = K_REFERENCE, .run = random_run},
	{.op = "RandomUniformLike", .flags = K_REFERENCE, .run = random_run},
	{.op = "Bernoulli", .flags = K_REFERENCE, .run = bernoulli_run},
	{.op = "Multinomial", .flags = K_REFERENCE, .run = multinomial_run},
	{0}};
