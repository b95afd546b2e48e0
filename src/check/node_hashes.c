/* SPDX-License-Identifier: Apache-2.0 */
#include "check/node_hashes.h"

#include "check/check.h"
#include "ops/op.h"
#include "opt/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool node_is(const struct node *n, const char *op)
{
	return !strcmp(n->type, op);
}

static uint32_t count_op(const struct graph *g, const char *op)
{
	uint32_t n = 0;

	for (uint32_t p = 0; p < g->norder; p++)
		n += node_is(g->node[g->order[p]], op);
	return n;
}

/* ---- what is a copy --------------------------------------------------------------------------- */

bool value_is_float(const struct value *v)
{
	return v->info.type.kind == V_TENSOR && (T_BIT(v->info.type.dtype) & T_FLOATS_BF);
}

/* What one of the models has more of than the other is not looked at: conversions of type, and rounding to codes. */
struct extra {
	bool casts, codes;
};

static bool copies(const struct graph *g, const struct node *n, struct extra extra)
{
	const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);

	if (!x || !y || *n->domain)
		return false;
	if (node_is(n, "Identity") || (node_is(n, "QuantizeLinear") && extra.codes))
		return true;
	if (node_is(n, "DequantizeLinear") && extra.codes) {
		const struct node *q = node_making(g, x->id);
		return q && node_is(q, "QuantizeLinear");
	}
	return node_is(n, "Cast") && extra.casts && value_is_float(x) && value_is_float(y);
}

/* ---- constants -------------------------------------------------------------------------------- */

/* Bytes of a constant of which its hash is made, in blocks: reading the rest of a large one would tell no more. */
enum { BLOCKS = 16, BLOCK = 4096 };

static uint64_t hash_shape(const struct tensor *t)
{
	uint64_t h = hash_mix(t->type.kind, (uint64_t)t->shape.rank);

	for (int i = 0; i < t->shape.rank; i++)
		h = hash_mix(h, (uint64_t)t->shape.dim[i]);
	return h;
}

static uint64_t hash_content(const struct tensor *t)
{
	uint64_t h = hash_mix(hash_shape(t), t->type.dtype);

	if (t->type.kind != V_TENSOR || !t->data)
		return h;
	if (tensor_dtype(t) == DT_STRING) {
		for (int64_t i = 0; i < tensor_count(t) && i < BLOCK; i++) {
			size_t n;
			const char *s = tensor_string(t, i, &n);
			h = hash_mix(h, n ? hash_bytes(s, n, 0) : 0);
		}
		return h;
	}
	if (t->bytes <= (size_t)BLOCKS * BLOCK)
		return hash_bytes(t->data, t->bytes, h);
	for (size_t i = 0; i < BLOCKS; i++)
		h = hash_bytes((const char *)t->data + (t->bytes - BLOCK) / (BLOCKS - 1) * i, BLOCK,
			       h);
	return h;
}

/* Elements of a constant by which two are compared, at equal distances. */
enum { SAMPLES = 256 };

/* A constant with contents that the other model has not. */
struct odd {
	uint64_t shape;
	uint32_t value;
	int side;
	uint32_t n; /* samples */
	float *sample;
	double sum, norm; /* sum: with signs that vary, by which near ones lie near each other */
	uint32_t nearest; /* among those of the other side; NONE: none is near */
	double distance;
};

/* Element i of a constant, or of what a DequantizeLinear makes of one. */
struct dequantized {
	const struct tensor *x, *scale, *zero;
	int64_t inner,
		along; /* elements after the axis of the scales, and their number; 0: one scale for all */
};

static double element(const struct dequantized *q, int64_t i)
{
	double v = elem_f64(tensor_dtype(q->x), q->x->data, i);

	if (!q->scale)
		return v;
	int64_t k = q->along ? i / q->inner % q->along : 0;
	double zero = q->zero ? elem_f64(tensor_dtype(q->zero), q->zero->data, k) : 0;
	return (v - zero) * elem_f64(tensor_dtype(q->scale), q->scale->data, k);
}

static const struct tensor *constant_in(const struct graph *g, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(g, n, i);
	return v ? v->init : NULL;
}

static bool is_numbers(const struct tensor *t)
{
	return t && t->type.kind == V_TENSOR && t->data && tensor_dtype(t) != DT_STRING;
}

static bool read_elements(const struct side *s, uint32_t id, struct dequantized *q)
{
	const struct node *n = node_making(s->g, id);
	double axis = 1;

	*q = (struct dequantized){.x = s->g->value[id]->init};
	if (n) {
		*q = (struct dequantized){constant_in(s->g, n, 0), constant_in(s->g, n, 1),
					  constant_in(s->g, n, 2), 1, 0};
		if (!is_numbers(q->scale) || (q->zero && !is_numbers(q->zero)))
			return false;
	}
	const struct tensor *x = q->x;
	if (!is_numbers(x) || (!n && !(T_BIT(tensor_dtype(x)) & T_FLOATS_BF)))
		return false;
	int64_t scales = q->scale ? tensor_count(q->scale) : 1;
	if (scales == 1)
		return !q->zero || tensor_count(q->zero) == 1;
	(void)check_number(n, "axis", &axis);
	if (!(fabs(axis) <= MAX_RANK))
		return false;
	int k = (int)(axis < 0 ? axis + x->shape.rank : axis);
	if (k < 0 || k >= x->shape.rank || x->shape.dim[k] != scales ||
	    (q->zero && tensor_count(q->zero) != scales))
		return false;
	q->along = scales;
	for (int i = k + 1; i < x->shape.rank; i++)
		q->inner *= x->shape.dim[i];
	return true;
}

static bool sample(struct sides *a, const struct side *s, uint32_t id, struct odd *o)
{
	struct dequantized q;

	if (!read_elements(s, id, &q))
		return false;
	int64_t count = tensor_count(q.x);
	o->n = count < SAMPLES ? (uint32_t)count : SAMPLES;
	o->shape = hash_shape(q.x);
	o->sample = arena_new_n(a->arena, float, (size_t)o->n + 1);
	for (uint32_t i = 0; i < o->n; i++) {
		double v = element(&q, (int64_t)((double)count / o->n * i));
		o->sample[i] = (float)v;
		o->sum += hash_mix(1, i) & 1 ? v : -v;
		o->norm += v * v;
	}
	return true;
}

static int by_sum(const void *a, const void *b)
{
	const struct odd *x = a, *y = b;

	if (x->shape != y->shape)
		return x->shape < y->shape ? -1 : 1;
	if (x->sum != y->sum)
		return x->sum < y->sum ? -1 : 1;
	return (x->value > y->value) - (x->value < y->value);
}

static void take_if_nearer(struct odd *all, uint32_t i, uint32_t k)
{
	/* half of their size: weights that were trained or drawn apart are farther from each other, rounded and repaired ones nearer */
	const double near = 0.25;
	const struct odd *x = &all[i], *y = &all[k];
	double sum = 0;

	for (uint32_t s = 0; s < x->n; s++) {
		double d = (double)x->sample[s] - (double)y->sample[s];
		sum += d * d;
	}
	if (!(sum <= near * fmax(x->norm, y->norm)))
		return;
	for (int side = 0; side < 2; side++) {
		struct odd *o = &all[side ? k : i];
		if (o->nearest == NONE || sum < o->distance) {
			o->nearest = side ? i : k;
			o->distance = sum;
		}
	}
}

/* How many of the next ones of the other side, by their sums, a constant is compared with. */
enum { NEXT_ONES = 12 };

/* Gives constants of the two models that differ by little, as by rounding to fp16 or to codes, equal hashes. */
static void match_near(struct sides *a, struct odd *all, uint32_t n)
{
	qsort(all, n, sizeof(*all), by_sum);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = i + 1, seen = 0;
		     k < n && seen < NEXT_ONES && k < i + 4 * NEXT_ONES && all[k].shape == all[i].shape;
		     k++)
			if (all[k].side != all[i].side && all[k].n == all[i].n) {
				take_if_nearer(all, i, k);
				seen++;
			}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = all[i].nearest;
		if (!all[i].side && k != NONE && all[k].nearest == i)
			a->side[1].leaf[all[k].value] = a->side[0].leaf[all[i].value];
	}
}

static uint64_t leaf_of_constant(const struct side *s, uint32_t id)
{
	const struct value *v = s->g->value[id];

	if (v->init)
		return hash_content(v->init);
	const struct node *n = node_making(s->g, id);
	uint64_t h = 9;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct tensor *t = constant_in(s->g, n, i);
		h = hash_mix(h, t ? hash_content(t) : i);
	}
	return h;
}

static void hash_constants(struct sides *a)
{
	struct map of = {.arena = a->arena};
	uint32_t n = 0, all = 0;

	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < a->side[k].g->nvalues; i++) {
			struct side *s = &a->side[k];
			if (!s->constant[i])
				continue;
			s->leaf[i] = leaf_of_constant(s, i);
			int64_t seen = map_get(&of, (const char *)&s->leaf[i], sizeof(s->leaf[i]));
			map_set(&of, (const char *)&s->leaf[i], sizeof(s->leaf[i]),
				(uint32_t)(seen < 0 ? 0 : seen) | (1U << k));
			all++;
		}
	struct odd *odd = arena_new_n(a->arena, struct odd, (size_t)all + 1);
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < a->side[k].g->nvalues; i++) {
			struct side *s = &a->side[k];
			if (!s->constant[i] ||
			    map_get(&of, (const char *)&s->leaf[i], sizeof(s->leaf[i])) == 3)
				continue;
			odd[n] = (struct odd){.value = i, .side = k, .nearest = NONE};
			n += sample(a, s, i, &odd[n]);
		}
	match_near(a, odd, n);
}

/* ---- hashes of nodes -------------------------------------------------------------------------- */

bool node_commutes(const struct node *n)
{
	return n->op && n->nin == 2 && (op_flags(n->op) & OP_COMMUTATIVE);
}

static uint64_t hash_operator(const struct node *n, enum level level)
{
	uint64_t h = hash_mix(hash_mix(hash_text(n->type), hash_text(n->domain)), n->nsub);

	if (level == FORM)
		return h;
	return hash_mix(h, n->op && n->params ? params_hash(n->op, n->params, 0) : n->unread);
}

/* A constant's part in the hash of a node. Small sizes, axes and the like tell as much of a node as its attributes do. */
static uint64_t hash_constant(const struct tensor *t, uint64_t content, enum level level)
{
	if (level == FORM)
		return 7;
	bool whole = level == FULL ||
		     (t && t->type.kind == V_TENSOR && !(T_BIT(tensor_dtype(t)) & T_FLOATS_BF));
	return whole ? content : t ? hash_shape(t) : 8;
}

static uint64_t hash_bodies(const struct node *n, enum level level);

static uint64_t hash_body(const struct graph *g, enum level level)
{
	struct arena tmp = {0};
	uint64_t *of = arena_new_n(&tmp, uint64_t, (size_t)g->nvalues + 1), h = 11;

	for (uint32_t i = 0; i < g->nin; i++)
		of[g->in[i]] = hash_mix(1, i);
	for (uint32_t j = 0; j < g->ncap; j++)
		of[g->in[g->nin + j]] = hash_mix(2, g->capture[j]);
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->init)
			of[i] = hash_constant(g->value[i]->init,
					      level == FULL || g->value[i]->init->bytes <= BLOCK
						      ? hash_content(g->value[i]->init)
						      : 0,
					      level);
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = g->node[g->order[p]];
		uint64_t sum = hash_mix(hash_operator(n, level), hash_bodies(n, level));
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			if (n->in[i] != NO_VALUE)
				sum += hash_mix(node_commutes(n) ? 0 : i + 1, of[n->in[i]]);
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				of[n->out[k]] = hash_mix(sum, k);
	}
	for (uint32_t i = 0; i < g->nout; i++)
		h = hash_mix(h, of[g->out[i]]);
	arena_free(&tmp);
	return h;
}

/* Bodies count by what they compute, in the order of their attributes. */
static uint64_t hash_bodies(const struct node *n, enum level level)
{
	uint64_t h = 0;

	for (uint32_t k = 0; k < n->nsub && level != FORM; k++) {
		uint32_t rank;
		rank = params_body(n, k, &rank) ? rank : k;
		h += hash_mix(rank, hash_body(n->sub[k], level));
	}
	return h;
}

/* Floats of up to this size are factors and the like, and so are all integers. */
enum { FACTOR_BYTES = 16 };

static bool has_weight(const struct side *s, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
		const struct tensor *t = id == NO_VALUE ? NULL : s->g->value[id]->init;
		if (id != NO_VALUE && s->constant[id] &&
		    (!t || (t->bytes > FACTOR_BYTES && value_is_float(s->g->value[id]))))
			return true;
	}
	return false;
}

static uint64_t hash_own(const struct side *s, const struct node *n, enum level level)
{
	uint64_t h = hash_mix(hash_operator(n, level), hash_bodies(n, level));

	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
		if (id != NO_VALUE && s->constant[id])
			h += hash_mix(node_commutes(n) ? 0 : i + 1,
				      hash_constant(s->g->value[id]->init, s->leaf[id], level));
	}
	return h;
}

/* A node that has a counterpart stands for itself. */
static uint64_t hash_pair(const struct sides *a, int side, uint32_t i)
{
	return hash_mix(3, side ? a->side[1].partner[i] : i);
}

static void hash_up(const struct sides *a, int side, enum level level)
{
	const struct side *s = &a->side[side];
	uint64_t *up = s->up[level];

	for (uint32_t p = 0; p < s->g->norder; p++) {
		const struct node *n = node_at(s, p);
		uint64_t sum = s->own[level][p];
		for (uint32_t i = 0; i < n->nin + n->ncap && !s->copies[p]; i++) {
			uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
			if (id == NO_VALUE || s->constant[id])
				continue;
			uint32_t from = s->g->value[id]->producer;
			uint64_t h = from == NO_NODE ? s->leaf[id] : up[s->position[from]];
			sum += hash_mix(node_commutes(n) ? 0 : i + 1, hash_mix(h, s->port[id]));
		}
		up[p] = s->partner[p] == NONE ? hash_mix(4, sum) : hash_pair(a, side, p);
	}
}

static void hash_down(const struct sides *a, int side, enum level level)
{
	const struct side *s = &a->side[side];
	uint64_t *down = s->down[level];

	memset(down, 0, (size_t)s->g->norder * sizeof(*down));
	for (uint32_t k = 0; k < s->g->nout; k++) {
		uint32_t id = s->root[s->g->out[k]], from = s->g->value[id]->producer;
		if (from != NO_NODE)
			down[s->position[from]] += hash_mix(hash_mix(5, s->output[k]), s->port[id]);
	}
	for (uint32_t p = s->g->norder; p-- > 0;) {
		const struct node *n = node_at(s, p);
		if (s->copies[p])
			continue;
		down[p] = s->partner[p] == NONE ? hash_mix(s->own[level][p], down[p])
						: hash_pair(a, side, p);
		for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
			uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
			uint32_t from = id == NO_VALUE ? NO_NODE : s->g->value[id]->producer;
			if (from != NO_NODE && !s->constant[id])
				down[s->position[from]] +=
					hash_mix(hash_mix(down[p], node_commutes(n) ? 0 : i + 1),
						 s->port[id]);
		}
	}
}

static void make_side(struct arena *arena, struct side *s, const struct graph *g)
{
	size_t n = (size_t)g->norder + 1, v = (size_t)g->nvalues + 1;

	s->g = g;
	s->position = arena_new_n(arena, uint32_t, (size_t)g->nnodes + 1);
	s->root = arena_new_n(arena, uint32_t, v);
	s->port = arena_new_n(arena, uint32_t, v);
	s->constant = arena_new_n(arena, bool, v);
	s->leaf = arena_new_n(arena, uint64_t, v);
	s->copies = arena_new_n(arena, bool, n);
	s->weighted = arena_new_n(arena, bool, n);
	s->partner = arena_new_n(arena, uint32_t, n);
	s->output = arena_new_n(arena, uint32_t, (size_t)g->nout + 1);
	for (int k = 0; k < LEVELS; k++) {
		s->own[k] = arena_new_n(arena, uint64_t, n);
		s->up[k] = arena_new_n(arena, uint64_t, n);
		s->down[k] = arena_new_n(arena, uint64_t, n);
	}
	for (uint32_t i = 0; i < g->nvalues; i++) {
		s->root[i] = i;
		s->constant[i] = g->value[i]->init != NULL;
	}
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *m = g->node[g->order[p]];
		s->position[m->id] = p;
		s->partner[p] = NONE;
		for (uint32_t k = 0; k < m->nout; k++)
			if (m->out[k] != NO_VALUE)
				s->port[m->out[k]] = k;
	}
}

static void follow_copies(struct side *s, struct extra extra)
{
	const struct graph *g = s->g;

	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = node_at(s, p);
		const struct tensor *x = constant_in(g, n, 0);
		/* what a DequantizeLinear makes of a constant is one */
		if (extra.codes && node_is(n, "DequantizeLinear") && x && n->out[0] != NO_VALUE) {
			s->constant[n->out[0]] = true;
			s->copies[p] = true;
		}
		s->copies[p] |= copies(g, n, extra);
		if (s->copies[p] && !s->constant[n->out[0]])
			s->root[n->out[0]] = s->root[n->in[0]];
	}
}

void name_inputs(struct map *names, struct arena *arena, const struct graph *g)
{
	*names = (struct map){.arena = arena};
	for (uint32_t i = g->nin; i-- > 0;)
		map_set(names, g->value[g->in[i]]->name, strlen(g->value[g->in[i]]->name), i);
}

static int64_t named(const struct map *names, const char *name)
{
	return map_get(names, name, strlen(name));
}

/* Gives equal numbers to inputs that correspond: by their names or else, if both names are new, by their places. */
static void number_inputs(struct sides *a)
{
	const struct graph *ref = a->side[0].g, *got = a->side[1].g;
	struct map there, here;

	name_inputs(&there, a->arena, ref);
	name_inputs(&here, a->arena, got);
	for (uint32_t i = 0; i < ref->nin; i++)
		a->side[0].leaf[ref->in[i]] = hash_mix(6, i);
	for (uint32_t i = 0; i < got->nin; i++) {
		int64_t k = named(&there, got->value[got->in[i]]->name);
		if (k < 0 && i < ref->nin && named(&here, ref->value[ref->in[i]]->name) < 0)
			k = i;
		a->side[1].leaf[got->in[i]] = k < 0 ? hash_mix(7, i) : hash_mix(6, (uint64_t)k);
	}
}

/* Numbers the outputs alike: by their names or else, for those left over, by their places. */
static void number_outputs(struct sides *a)
{
	const struct graph *ref = a->side[0].g, *got = a->side[1].g;
	struct map names = {.arena = a->arena};
	bool *taken = arena_new_n(a->arena, bool, (size_t)ref->nout + 1);

	for (uint32_t i = ref->nout; i-- > 0;) {
		map_set(&names, ref->out_name[i], strlen(ref->out_name[i]), i);
		a->side[0].output[i] = i;
	}
	for (uint32_t k = 0; k < got->nout; k++) {
		int64_t i = map_get(&names, got->out_name[k], strlen(got->out_name[k]));
		a->side[1].output[k] = i < 0 || taken[i] ? NONE : (uint32_t)i;
		if (a->side[1].output[k] != NONE)
			taken[i] = true;
	}
	for (uint32_t k = 0; k < got->nout; k++)
		if (a->side[1].output[k] == NONE) {
			a->side[1].output[k] = k < ref->nout && !taken[k] ? k : ref->nout + k;
			if (k < ref->nout)
				taken[k] = true;
		}
}

void sides_make(struct sides *a, const struct graph *ref, const struct graph *got)
{
	make_side(a->arena, &a->side[0], ref);
	make_side(a->arena, &a->side[1], got);
}

void sides_hash(struct sides *a)
{
	const struct graph *ref = a->side[0].g, *got = a->side[1].g;
	struct extra extra = {count_op(ref, "Cast") != count_op(got, "Cast"),
			      count_op(ref, "DequantizeLinear") != count_op(got, "DequantizeLinear")};

	follow_copies(&a->side[0], extra);
	follow_copies(&a->side[1], extra);
	number_inputs(a);
	number_outputs(a);
	hash_constants(a);
	for (int k = 0; k < 2; k++)
		for (uint32_t p = 0; p < a->side[k].g->norder; p++) {
			const struct node *n = node_at(&a->side[k], p);
			a->side[k].weighted[p] = has_weight(&a->side[k], n);
			for (int level = 0; level < LEVELS; level++)
				a->side[k].own[level][p] =
					hash_own(&a->side[k], n, (enum level)level);
		}
}

void sides_hash_around(struct sides *a, enum level level)
{
	for (int k = 0; k < 2; k++) {
		hash_up(a, k, level);
		hash_down(a, k, level);
	}
}
