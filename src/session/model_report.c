/* SPDX-License-Identifier: Apache-2.0 */
#include "session/model_report.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct op_table {
	struct arena *arena;
	struct map by_name;
	struct op_count *v;
	size_t n, cap;
};

static void count_node(const struct graph *g, const struct node *n, void *arg)
{
	struct op_table *t = arg;
	const char *key = arena_printf(t->arena, "%s-%d", n->origin->op, n->origin->since);
	int64_t k = map_get(&t->by_name, key, strlen(key));

	(void)g;
	if (k < 0) {
		if (t->n == t->cap) {
			t->cap = t->cap ? 2 * t->cap : 32;
			t->v = arena_grow(t->arena, t->v, t->n, t->cap, sizeof(*t->v));
		}
		const struct op *op = n->op ? op_named(op_qualified(n->op)) : NULL;
		t->v[t->n] = (struct op_count){.name = n->origin->op, .since = n->origin->since};
		for (int b = 0; op && b < BACKENDS; b++)
			t->v[t->n].on[b] = backend_kernel(backends[b], op, 0) ||
					   (b == HOST_BACKEND && op_expressed(op));
		map_set(&t->by_name, key, strlen(key), (uint32_t)t->n);
		k = (int64_t)t->n++;
	}
	t->v[k].count++;
}

static int most_first(const void *a, const void *b)
{
	const struct op_count *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	int c = strcmp(x->name, y->name);
	return c ? c : x->since - y->since;
}

const char *report_devices(const struct op_count *op, struct arena *a)
{
	const char *text = NULL;

	for (int b = 0; b < BACKENDS; b++)
		if (op->on[b])
			text = text ? arena_printf(a, "%s, %s", text, backends[b]->name)
				    : backends[b]->name;
	return text ? text : "no device";
}

struct op_count *report_ops(const struct graph *g, struct arena *a, size_t *n)
{
	struct op_table t = {.arena = a, .by_name = {.arena = a}};

	graph_each_node(g, count_node, &t);
	if (t.n)
		qsort(t.v, t.n, sizeof(*t.v), most_first);
	*n = t.n;
	return t.v;
}

/* A body that reads a weight of the graph around it has a value of its own with the same tensor, which counts once. */
static void visit_weights(const struct graph *g, struct map *seen,
			  void (*f)(const struct value *, void *), void *arg)
{
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const struct value *v = g->value[i];
		const struct tensor *t = v->init ? v->init : v->missing;
		if (t && t->type.kind == V_TENSOR &&
		    map_set(seen, arena_dup(seen->arena, &t, sizeof(t)), sizeof(t), 0))
			f(v, arg);
	}
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; !g->node[i]->dead && k < g->node[i]->nsub; k++)
			visit_weights(g->node[i]->sub[k], seen, f, arg);
}

void report_each_weight(const struct graph *g, void (*f)(const struct value *, void *), void *arg)
{
	struct arena a = {0};
	struct map seen = {.arena = &a};

	visit_weights(g, &seen, f, arg);
	arena_free(&a);
}

static void add_weight(const struct value *v, void *arg)
{
	struct weight_sum *sums = arg;
	const struct tensor *t = v->init ? v->init : v->missing;
	enum dtype types[] = {DT_NONE, tensor_dtype(t)};

	sums[DT_NONE].missing += v->missing != NULL;
	for (int k = 0; k < 2; k++) {
		struct weight_sum *s = &sums[types[k]];
		s->dtype = types[k];
		s->tensors++;
		s->elements += (uint64_t)tensor_count(t);
		s->bytes += t->bytes + t->blob_bytes;
	}
}

void report_weights(const struct graph *g, struct weight_sum *sums)
{
	memset(sums, 0, DT_COUNT * sizeof(*sums));
	report_each_weight(g, add_weight, sums);
}

struct statistics report_statistics(const struct tensor *t)
{
	struct statistics s = {
		.count = tensor_count(t), .min = NAN, .max = NAN, .mean = NAN, .std = NAN};
	enum dtype type = tensor_dtype(t);
	double sum = 0, squares = 0, shift = 0;
	int64_t finite = 0;

	for (int64_t i = 0; i < s.count; i++) {
		double v = type == DT_F32 ? (double)((const float *)t->data)[i]
					  : elem_f64(type, t->data, i);
		s.zeros += v == 0;
		s.nans += isnan(v) != 0;
		s.infs += isinf(v) != 0;
		if (!isfinite(v))
			continue;
		if (!finite++) {
			s.min = s.max = shift = v;
		}
		s.min = v < s.min ? v : s.min;
		s.max = v > s.max ? v : s.max;
		sum += v - shift; /* subtract the first value: a large mean would otherwise cancel the digits of the deviation */
		squares += (v - shift) * (v - shift);
	}
	if (finite) {
		double mean = sum / (double)finite;
		double var = squares / (double)finite - mean * mean;
		s.mean = shift + mean;
		s.std = sqrt(var > 0 ? var : 0);
	}
	return s;
}

struct cost report_cost(const struct graph *g, const struct node *n, struct vinfo *info,
			struct arena *a)
{
	struct infer c = {.graph = g, .node = n, .info = info, .arena = a};
	struct cost r = {0};
	int64_t elements = 0;

	r.known = infer_bytes(&c, &r.bytes);
	for (uint32_t i = 0; i < n->nout; i++) {
		const struct vinfo *v = infer_out(&c, i);
		if (v && v->type.kind == V_TENSOR && shape_known(&v->shape))
			elements += shape_count(&v->shape);
	}
	if (!r.known || !n->op)
		return (struct cost){0};
	if (n->op->macs)
		r.macs = n->op->macs(&c);
	if (n->op->flags & OP_VIEW)
		r.bytes = 0;
	r.flops = r.macs ? 2 * r.macs : (n->op->flags & OP_VIEW) ? 0 : elements;
	return r;
}
