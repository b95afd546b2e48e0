/* SPDX-License-Identifier: Apache-2.0 */
/* The attention of cpu/attention/heads.h against the plain sums, where queries come in more than one block. */
#include "base/pool.h"
#include "cpu/attention/heads.h"
#include "test/unit/sample.h"

#include <math.h>

enum { HEADS = 2, QUERIES = 20, KEYS = 10000, SIZE = 4, VSIZE = 3 };

struct problem {
	struct arena arena;
	struct heads a;
	const struct tensor *q, *k, *v, *mask, *y, *qk;
};

static struct tensor *random_tensor(struct problem *p, enum dtype t, int64_t rows, int64_t columns)
{
	struct shape s = shape_of(3, (int64_t[]){HEADS, rows, columns});

	return sample_tensor(&p->arena, t, &s, -1, 1);
}

static void setup(struct problem *p, enum dtype t)
{
	struct heads *a = &p->a;

	*p = (struct problem){.a = {.real = heads_real(t),
				    .batch = 1,
				    .heads = HEADS,
				    .kv_heads = HEADS,
				    .queries = QUERIES,
				    .keys = KEYS,
				    .size = SIZE,
				    .vsize = VSIZE,
				    .scale = 0.5F,
				    .causal = true,
				    .left = 9000,
				    .right = -1,
				    .offset = KEYS - QUERIES - 100,
				    .hidden = -INFINITY,
				    .scores = HEADS_PROBABILITIES}};
	sample_seed = 1;
	p->q = random_tensor(p, t, QUERIES, SIZE);
	p->k = random_tensor(p, t, KEYS, SIZE);
	p->v = random_tensor(p, t, KEYS, VSIZE);
	p->mask = random_tensor(p, t, QUERIES, KEYS);
	p->y = random_tensor(p, t, QUERIES, VSIZE);
	p->qk = random_tensor(p, t, QUERIES, KEYS);
	a->q = heads_view(p->q->data, HEADS, QUERIES, SIZE, false);
	a->k = heads_view(p->k->data, HEADS, KEYS, SIZE, false);
	a->v = heads_view(p->v->data, HEADS, KEYS, VSIZE, false);
	a->mask[0].data = p->mask->data;
	heads_mask_steps(&p->mask->shape, KEYS, &a->mask[0]);
	a->y = p->y->data;
	a->y_batch = HEADS * QUERIES * VSIZE;
	a->y_head = QUERIES * VSIZE;
	a->y_row = VSIZE;
	a->qk = p->qk->data;
	a->scratch = arena_alloc(&p->arena, heads_scratch(a->real, QUERIES, KEYS));
}

static double number(const struct tensor *x, int64_t i)
{
	return elem_f64(tensor_dtype(x), x->data, i);
}

/* How far the probabilities and the results of one query are from the plain sums'. */
static double error_of(const struct problem *p, int64_t h, int64_t i)
{
	static double e[KEYS];
	int64_t row = h * QUERIES + i, at = p->a.offset + i;
	double sum = 0, most = 0;

	for (int64_t j = 0; j < KEYS; j++) {
		double dot = 0;
		for (int64_t n = 0; n < SIZE; n++)
			dot += number(p->q, row * SIZE + n) * number(p->k, (h * KEYS + j) * SIZE + n);
		bool seen = j <= at && j >= at - p->a.left;
		e[j] = seen ? exp(dot * (double)p->a.scale + number(p->mask, row * KEYS + j)) : 0;
		sum += e[j];
	}
	for (int64_t j = 0; j < KEYS; j++)
		most = fmax(most, fabs(e[j] / sum - number(p->qk, row * KEYS + j)) * KEYS);
	for (int64_t n = 0; n < VSIZE; n++) {
		double y = 0;
		for (int64_t j = 0; j < KEYS; j++)
			y += e[j] / sum * number(p->v, (h * KEYS + j) * VSIZE + n);
		most = fmax(most, fabs(y - number(p->y, row * VSIZE + n)));
	}
	return most;
}

static void agrees(enum dtype t, double tolerance)
{
	struct problem p;
	double most = 0;

	setup(&p, t);
	heads_run(&p.a);
	for (int64_t h = 0; h < HEADS; h++)
		for (int64_t i = 0; i < QUERIES; i++)
			most = fmax(most, error_of(&p, h, i));
	if (!CHECK(most <= tolerance))
		printf("# off by %g\n", most);
	arena_free(&p.arena);
}

static void blocks_of_queries_agree(void)
{
	agrees(DT_F32, 1e-4);
}

static void blocks_of_queries_agree_in_double(void)
{
	agrees(DT_F64, 1e-11);
}

int main(void)
{
	UNIT(blocks_of_queries_agree);
	UNIT(blocks_of_queries_agree_in_double);
	return unit_end();
}
