/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structure decides, from both ends. Each node has a hash of all that leads to it and one of all that follows; nodes whose
 * hashes nothing else in their models has are counterparts, and stand from then on for themselves in the hashes of the
 * others, so that what lies between counterparts finds its own. Three levels of hashes tell what a node is by its operator and which of its
 * operands are constants (FORM), its attributes, bodies and integers as well (KIND), and the contents of its weights (FULL).
 * FORM comes first: a weight or an attribute that was changed is what a comparison looks for, and must not move a node to where
 * another has the old one.
 *
 * Exporters number their names, so that a name may stand for another node. Names count only where structure says nothing, and a kind
 * of names ("MatMul_#") that contradicts it anywhere counts nowhere. What neither tells apart has no counterpart: a guess
 * would accuse sound nodes.
 */
#include "check/counterparts.h"

#include "base/hash.h"
#include "ops/op.h"
#include "opt/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum level { FORM, KIND, FULL, LEVELS };

#define NONE UINT32_MAX

/* One of the two models. Nodes are numbered by their positions in the order, values by their ids. */
struct side {
	const struct graph *g;
	uint32_t *position; /* by node id */
	uint32_t *root; /* by value: the value that it copies; itself if it copies none */
	uint32_t *port; /* by value: which output of its node it is */
	bool *constant; /* by value */
	bool *copies;	/* by node: it only hands on its first operand, so that it stands in no hash */
	uint64_t *leaf; /* by value: hash of the contents of a constant, number of an input */
	bool *weighted; /* by node: it reads floats of more than FACTOR_BYTES */
	uint32_t *partner; /* by node: the other side's node, or NONE */
	uint32_t *output;  /* by output: its number among those of the reference */
	uint64_t *own[LEVELS], *up[LEVELS], *down[LEVELS]; /* by node */
	uint32_t made[LEVELS]; /* number of pairs for which up and down were made */
	struct keyed *keyed;
	struct map value_named, node_named; /* nodes by the names of their values, and by their own */
};

struct keyed {
	uint64_t key;
	uint32_t node;
};

struct alignment {
	struct arena *arena;
	struct side side[2]; /* reference, tested model */
	uint32_t pairs;
	uint32_t *meant; /* by value of the tested model: the value that has the meaning of its name, see meant_value */
	uint32_t *candidate[2][2]; /* by side, and up or down: see pair_one_way */
	struct map kinds; /* of names */
	uint32_t *agree, *contradict; /* how often names of a kind do so with structure */
	uint32_t nkinds, cap_kinds, agreed, contradicted;
	uint32_t *kind; /* by node of the tested model: the number of the kind of its name */
	uint64_t visits; /* of operands, see MOST_VISITS */
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	/* the finalizer of SplitMix64 (Steele, Lea, Flood, 2014) */
	h ^= v + 0x9e3779b97f4a7c15 + (h << 6) + (h >> 2);
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
	return h ^ (h >> 31);
}

static uint64_t hash_text(const char *s)
{
	return hash_bytes(s, strlen(s), 0);
}

static bool is_op(const struct node *n, const char *op)
{
	return !strcmp(n->type, op);
}

static const struct node *maker(const struct graph *g, uint32_t id)
{
	return id == NO_VALUE || g->value[id]->producer == NO_NODE ? NULL
								   : g->node[g->value[id]->producer];
}

static const struct node *node_at(const struct side *s, uint32_t i)
{
	return s->g->node[s->g->order[i]];
}

static uint32_t count_op(const struct graph *g, const char *op)
{
	uint32_t n = 0;

	for (uint32_t p = 0; p < g->norder; p++)
		n += is_op(g->node[g->order[p]], op);
	return n;
}

/* ---- what is a copy --------------------------------------------------------------------------- */

/* Returns the output of the one node that reads the value, if that is of this operator; otherwise NO_VALUE. */
static uint32_t after_only_user(const struct graph *g, uint32_t id, const char *op)
{
	const struct value *v = g->value[id];

	if (v->nusers != 1 || v->is_output || !is_op(g->node[v->users[0]], op))
		return NO_VALUE;
	return g->node[v->users[0]]->out[0];
}

/*
 * Returns the tested model's value that means the same as the reference's of its name. ONNX Runtime's quantizer drops a Relu or
 * Clip, whose range QuantizeLinear keeps to, and gives its name to the node before: then the value after the DequantizeLinear
 * is the one to compare.
 */
static uint32_t meant_value(const struct graph *ref, uint32_t there, const struct graph *got,
			    uint32_t id)
{
	const struct node *m = maker(ref, there), *n = maker(got, id);

	if (!m || !n || is_op(m, n->type) || (!is_op(m, "Relu") && !is_op(m, "Clip")))
		return id;
	uint32_t q = after_only_user(got, id, "QuantizeLinear");
	uint32_t dq = q == NO_VALUE ? NO_VALUE : after_only_user(got, q, "DequantizeLinear");
	return dq == NO_VALUE ? id : dq;
}

static bool is_float(const struct value *v)
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
	if (is_op(n, "Identity") || (is_op(n, "QuantizeLinear") && extra.codes))
		return true;
	if (is_op(n, "DequantizeLinear") && extra.codes) {
		const struct node *q = maker(g, x->id);
		return q && is_op(q, "QuantizeLinear");
	}
	return is_op(n, "Cast") && extra.casts && is_float(x) && is_float(y);
}

/* ---- constants -------------------------------------------------------------------------------- */

/* Bytes of a constant of which its hash is made, in blocks: reading the rest of a large one would tell no more. */
enum { BLOCKS = 16, BLOCK = 4096 };

static uint64_t hash_shape(const struct tensor *t)
{
	uint64_t h = mix(t->type.kind, (uint64_t)t->shape.rank);

	for (int i = 0; i < t->shape.rank; i++)
		h = mix(h, (uint64_t)t->shape.dim[i]);
	return h;
}

static uint64_t hash_content(const struct tensor *t)
{
	uint64_t h = mix(hash_shape(t), t->type.dtype);

	if (t->type.kind != V_TENSOR || !t->data)
		return h;
	if (tensor_dtype(t) == DT_STRING) {
		for (int64_t i = 0; i < tensor_count(t) && i < BLOCK; i++) {
			size_t n;
			const char *s = tensor_string(t, i, &n);
			h = mix(h, n ? hash_bytes(s, n, 0) : 0);
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
	int64_t inner, along; /* elements after the axis of the scales, and their number; 0: one scale for all */
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

static bool read_elements(const struct side *s, uint32_t id, struct dequantized *q)
{
	const struct node *n = maker(s->g, id);
	double axis = 1;

	*q = (struct dequantized){.x = s->g->value[id]->init};
	if (n) {
		*q = (struct dequantized){constant_in(s->g, n, 0), constant_in(s->g, n, 1),
					  constant_in(s->g, n, 2), 1, 0};
		if (!q->scale || !q->scale->data || (q->zero && !q->zero->data))
			return false;
	}
	const struct tensor *x = q->x;
	if (!x || x->type.kind != V_TENSOR || !x->data || tensor_dtype(x) == DT_STRING ||
	    (!n && !(T_BIT(tensor_dtype(x)) & T_FLOATS_BF)))
		return false;
	int64_t scales = q->scale ? tensor_count(q->scale) : 1;
	if (scales == 1)
		return !q->zero || tensor_count(q->zero) == 1;
	(void)check_number(n, "axis", &axis);
	int k = (int)(axis < 0 ? axis + x->shape.rank : axis);
	if (k < 0 || k >= x->shape.rank || x->shape.dim[k] != scales ||
	    (q->zero && tensor_count(q->zero) != scales))
		return false;
	q->along = scales;
	for (int i = k + 1; i < x->shape.rank; i++)
		q->inner *= x->shape.dim[i];
	return true;
}

static bool sample(struct alignment *a, const struct side *s, uint32_t id, struct odd *o)
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
		o->sum += mix(1, i) & 1 ? v : -v;
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
static void match_near(struct alignment *a, struct odd *all, uint32_t n)
{
	qsort(all, n, sizeof(*all), by_sum);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = i + 1, seen = 0;
		     k < n && seen < NEXT_ONES && k < i + 4 * NEXT_ONES && all[k].shape == all[i].shape; k++)
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
	const struct node *n = maker(s->g, id);
	uint64_t h = 9;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct tensor *t = constant_in(s->g, n, i);
		h = mix(h, t ? hash_content(t) : i);
	}
	return h;
}

static void hash_constants(struct alignment *a)
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

static bool commutes(const struct node *n)
{
	return n->op && n->nin == 2 && (op_flags(n->op) & OP_COMMUTATIVE);
}

static uint64_t hash_operator(const struct node *n, enum level level)
{
	uint64_t h = mix(mix(hash_text(n->type), hash_text(n->domain)), n->nsub);

	if (level == FORM)
		return h;
	return mix(h, n->op && n->params ? params_hash(n->op, n->params, 0) : n->unread);
}

/* A constant's part in the hash of a node. Small sizes, axes and the like tell as much of a node as its attributes do. */
static uint64_t hash_constant(const struct tensor *t, uint64_t content, enum level level)
{
	if (level == FORM)
		return 7;
	bool whole = level == FULL || (t && t->type.kind == V_TENSOR &&
				       !(T_BIT(tensor_dtype(t)) & T_FLOATS_BF));
	return whole ? content : t ? hash_shape(t) : 8;
}

static uint64_t hash_bodies(const struct node *n, enum level level);

static uint64_t hash_body(const struct graph *g, enum level level)
{
	struct arena tmp = {0};
	uint64_t *of = arena_new_n(&tmp, uint64_t, (size_t)g->nvalues + 1), h = 11;

	for (uint32_t i = 0; i < g->nin; i++)
		of[g->in[i]] = mix(1, i);
	for (uint32_t j = 0; j < g->ncap; j++)
		of[g->in[g->nin + j]] = mix(2, g->capture[j]);
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->init)
			of[i] = hash_constant(g->value[i]->init,
					      level == FULL ||
							      g->value[i]->init->bytes <= BLOCK
						      ? hash_content(g->value[i]->init)
						      : 0,
					      level);
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = g->node[g->order[p]];
		uint64_t sum = mix(hash_operator(n, level), hash_bodies(n, level));
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			if (n->in[i] != NO_VALUE)
				sum += mix(commutes(n) ? 0 : i + 1, of[n->in[i]]);
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				of[n->out[k]] = mix(sum, k);
	}
	for (uint32_t i = 0; i < g->nout; i++)
		h = mix(h, of[g->out[i]]);
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
		h += mix(rank, hash_body(n->sub[k], level));
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
		    (!t || (t->bytes > FACTOR_BYTES && is_float(s->g->value[id]))))
			return true;
	}
	return false;
}

static uint64_t hash_own(const struct side *s, const struct node *n, enum level level)
{
	uint64_t h = mix(hash_operator(n, level), hash_bodies(n, level));

	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
		if (id != NO_VALUE && s->constant[id])
			h += mix(commutes(n) ? 0 : i + 1,
				 hash_constant(s->g->value[id]->init, s->leaf[id], level));
	}
	return h;
}

/* A node that has a counterpart stands for itself. */
static uint64_t hash_pair(const struct alignment *a, int side, uint32_t i)
{
	return mix(3, side ? a->side[1].partner[i] : i);
}

static void hash_up(const struct alignment *a, int side, enum level level)
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
			sum += mix(commutes(n) ? 0 : i + 1, mix(h, s->port[id]));
		}
		up[p] = s->partner[p] == NONE ? mix(4, sum) : hash_pair(a, side, p);
	}
}

static void hash_down(const struct alignment *a, int side, enum level level)
{
	const struct side *s = &a->side[side];
	uint64_t *down = s->down[level];

	memset(down, 0, (size_t)s->g->norder * sizeof(*down));
	for (uint32_t k = 0; k < s->g->nout; k++) {
		uint32_t id = s->root[s->g->out[k]], from = s->g->value[id]->producer;
		if (from != NO_NODE)
			down[s->position[from]] += mix(mix(5, s->output[k]), s->port[id]);
	}
	for (uint32_t p = s->g->norder; p-- > 0;) {
		const struct node *n = node_at(s, p);
		if (s->copies[p])
			continue;
		down[p] = s->partner[p] == NONE ? mix(s->own[level][p], down[p])
						: hash_pair(a, side, p);
		for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
			uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
			uint32_t from = id == NO_VALUE ? NO_NODE : s->g->value[id]->producer;
			if (from != NO_NODE && !s->constant[id])
				down[s->position[from]] +=
					mix(mix(down[p], commutes(n) ? 0 : i + 1), s->port[id]);
		}
	}
}

static void make_hashes(struct alignment *a, enum level level)
{
	for (int k = 0; k < 2; k++) {
		if (a->side[k].made[level] == a->pairs + 1)
			continue;
		hash_up(a, k, level);
		hash_down(a, k, level);
		a->side[k].made[level] = a->pairs + 1;
	}
}

/* ---- names ------------------------------------------------------------------------------------ */

static const char *first_name(const struct graph *g, const struct node *n)
{
	for (uint32_t k = 0; k < n->nout; k++)
		if (n->out[k] != NO_VALUE)
			return g->value[n->out[k]]->name;
	return "";
}

/* Whether a node has a name of its own: "Relu_3" is what nodes without one are called, and says nothing. */
static bool has_name(const struct node *n)
{
	size_t k = strlen(n->type);

	if (strncmp(n->origin->name, n->type, k) != 0 || n->origin->name[k] != '_')
		return *n->origin->name;
	return n->origin->name[k + 1 + strspn(n->origin->name + k + 1, "0123456789")] != 0;
}

/* The reference's node that has the name of node i of the tested model: of its value or else, if that is new, its own. */
static uint32_t named_alike(const struct alignment *a, uint32_t i)
{
	const struct side *ref = &a->side[0];
	const struct node *n = node_at(&a->side[1], i);
	const char *name = first_name(a->side[1].g, n);
	int64_t k = *name ? map_get(&ref->value_named, name, strlen(name)) : -1;

	if (k < 0 && has_name(n))
		k = map_get(&ref->node_named, n->origin->name, strlen(n->origin->name));
	return k < 0 ? NONE : (uint32_t)k;
}

/*
 * Returns where the last number of a name begins, which exporters count up, and sets *length; 0 if it has none. "_output_0" is none, nor is
 * the number of a layer, which a '/' follows.
 */
static size_t last_number(const char *name, size_t *length)
{
	static const char output[] = "_output_";
	const char *o = NULL;

	for (const char *next = strstr(name, output); next; next = strstr(next + 1, output))
		o = next;
	size_t end = o ? (size_t)(o - name) : strlen(name);
	while (end && (name[end - 1] < '0' || name[end - 1] > '9') && name[end - 1] != '/')
		end--;
	size_t begin = end;
	while (begin && name[begin - 1] >= '0' && name[begin - 1] <= '9')
		begin--;
	*length = end - begin;
	return begin;
}

/* The number of the kind of a name: the name without its last number. */
static uint32_t kind_of_name(struct alignment *a, const char *name)
{
	size_t length, begin = last_number(name, &length), end = begin + length;
	const char *kind = arena_printf(a->arena, "%.*s#%s", (int)begin, name, name + end);
	int64_t k = map_get(&a->kinds, kind, strlen(kind));
	if (k >= 0)
		return (uint32_t)k;
	if (a->nkinds == a->cap_kinds) {
		uint32_t cap = a->cap_kinds ? 2 * a->cap_kinds : 64;
		a->agree = arena_grow(a->arena, a->agree, a->nkinds, cap, sizeof(*a->agree));
		a->contradict =
			arena_grow(a->arena, a->contradict, a->nkinds, cap, sizeof(*a->contradict));
		a->cap_kinds = cap;
	}
	a->agree[a->nkinds] = a->contradict[a->nkinds] = 0;
	map_set(&a->kinds, kind, strlen(kind), a->nkinds);
	return a->nkinds++;
}

static const char *name_of(const struct side *s, uint32_t i)
{
	const struct node *n = node_at(s, i);
	const char *name = first_name(s->g, n);

	return *name ? name : n->origin->name;
}

/* The node that makes what node i only hands on, or NONE. */
static uint32_t copied_node(const struct side *s, uint32_t i)
{
	const struct node *n = node_at(s, i);
	const struct node *m = n->nin && n->in[0] != NO_VALUE ? maker(s->g, s->root[n->in[0]]) : NULL;

	return m ? s->position[m->id] : NONE;
}

/* Counts which kinds of names agree with the pairs so far. */
static void judge_names(struct alignment *a)
{
	memset(a->agree, 0, a->nkinds * sizeof(*a->agree));
	memset(a->contradict, 0, a->nkinds * sizeof(*a->contradict));
	a->agreed = a->contradicted = 0;
	for (uint32_t i = 0; i < a->side[1].g->norder; i++) {
		uint32_t m = named_alike(a, i), is = a->side[1].partner[i];
		if (m != NONE && a->side[0].copies[m])
			m = copied_node(&a->side[0], m);
		if (m == NONE || (is == NONE && a->side[0].partner[m] == NONE) || a->side[1].copies[i])
			continue;
		uint32_t k = a->kind[i];
		/* where the name's node has a counterpart, and this one none, it may have been put in */
		a->agree[k] += m == is;
		a->contradict[k] += m != is;
		a->agreed += m == is;
		a->contradicted += m != is;
	}
}

static bool is_trusted(struct alignment *a, uint32_t i)
{
	uint32_t k = a->kind[i];

	return !a->contradict[k] && (a->agree[k] || a->contradicted <= 1 + a->agreed / 8);
}

/* ---- pairs ------------------------------------------------------------------------------------ */

static bool is_free(const struct side *s, uint32_t i)
{
	return s->partner[i] == NONE;
}

static bool same_operator(const struct alignment *a, uint32_t m, uint32_t n)
{
	const struct node *x = node_at(&a->side[0], m), *y = node_at(&a->side[1], n);

	return !strcmp(x->type, y->type) && !strcmp(x->domain, y->domain);
}

static void join(struct alignment *a, uint32_t m, uint32_t n)
{
	if (!is_free(&a->side[0], m) || !is_free(&a->side[1], n))
		return;
	a->side[0].partner[m] = n;
	a->side[1].partner[n] = m;
	a->pairs++;
}

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

/* OWN: the node alone, and only if it has weights. */
enum way { OWN, UP, DOWN, BOTH };

/* Lists the free nodes of a side, sorted by their hashes. */
static uint32_t list_keys(const struct side *s, enum level level, enum way way)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->g->norder; i++)
		if (is_free(s, i) && !s->copies[i] && (way != OWN || s->weighted[i]))
			s->keyed[n++] = (struct keyed){way == OWN ? s->own[level][i]
							: mix(way & UP ? s->up[level][i] : 0,
							      way & DOWN ? s->down[level][i] : 0),
						 i};
	qsort(s->keyed, n, sizeof(*s->keyed), by_key);
	return n;
}

static uint32_t run_length(const struct keyed *k, uint32_t n)
{
	uint32_t i = 1;

	while (i < n && k[i].key == k[0].key)
		i++;
	return i;
}

/* Pairs nodes that compute the same of the same: first those of equal names, as others may stand for them. */
static void join_equals(struct alignment *a, const struct keyed *p, uint32_t np,
			const struct keyed *q, uint32_t nq)
{
	uint32_t i = 0;

	for (uint32_t k = 0; k < nq && np > 1; k++) {
		uint32_t m = named_alike(a, q[k].node);
		if (m != NONE && is_free(&a->side[0], m) &&
		    bsearch(&(struct keyed){p->key, m}, p, np, sizeof(*p), by_key))
			join(a, m, q[k].node);
	}
	for (uint32_t k = 0; k < nq; k++) {
		if (!is_free(&a->side[1], q[k].node))
			continue;
		while (i < np && !is_free(&a->side[0], p[i].node))
			i++;
		if (i < np)
			join(a, p[i].node, q[k].node);
	}
}

/* ALONE: nodes whose hashes no other node has; EQUAL: as many as on the other side; ANY: as many as there are. */
enum group { ALONE, EQUAL, ANY };

static void pair_groups(struct alignment *a, enum level level, enum way way, enum group how)
{
	make_hashes(a, level);
	uint32_t np = list_keys(&a->side[0], level, way), nq = list_keys(&a->side[1], level, way);
	const struct keyed *p = a->side[0].keyed, *q = a->side[1].keyed;
	for (uint32_t i = 0, k = 0; i < np && k < nq;) {
		uint32_t x = run_length(p + i, np - i), y = run_length(q + k, nq - k);
		if (p[i].key < q[k].key) {
			i += x;
		} else if (p[i].key > q[k].key) {
			k += y;
		} else {
			if ((x == 1 && y == 1) || how == ANY || (how == EQUAL && x == y))
				join_equals(a, p + i, x, q + k, y);
			i += x;
			k += y;
		}
	}
}

static void pair_by_weights(struct alignment *a)
{
	pair_groups(a, FULL, OWN, ALONE);
}

static void find_candidates(struct alignment *a, enum level level, enum way way)
{
	uint32_t np = list_keys(&a->side[0], level, way), nq = list_keys(&a->side[1], level, way);
	const struct keyed *p = a->side[0].keyed, *q = a->side[1].keyed;

	for (int s = 0; s < 2; s++)
		memset(a->candidate[s][way == UP], 0xff,
		       (size_t)a->side[s].g->norder * sizeof(uint32_t));
	for (uint32_t i = 0, k = 0; i < np && k < nq;) {
		uint32_t x = run_length(p + i, np - i), y = run_length(q + k, nq - k);
		if (p[i].key < q[k].key) {
			i += x;
		} else if (p[i].key > q[k].key) {
			k += y;
		} else {
			if (x == 1 && y == 1) {
				a->candidate[0][way == UP][p[i].node] = q[k].node;
				a->candidate[1][way == UP][q[k].node] = p[i].node;
			}
			i += x;
			k += y;
		}
	}
}

/*
 * Pairs nodes that are alike and that what leads to them or what follows them tells apart, unless the one contradicts the other.
 */
static void pair_one_way(struct alignment *a, enum level level)
{
	make_hashes(a, level);
	find_candidates(a, level, UP);
	find_candidates(a, level, DOWN);
	for (uint32_t i = 0; i < a->side[1].g->norder; i++)
		for (int way = 0; way < 2; way++) {
			uint32_t m = a->candidate[1][way][i], other = a->candidate[1][!way][i];
			if (m == NONE || (other != NONE && other != m) ||
			    a->side[0].own[FULL][m] != a->side[1].own[FULL][i])
				continue;
			uint32_t back = a->candidate[0][!way][m];
			if (back == NONE || back == i)
				join(a, m, i);
		}
}

/* The free node that makes operand i, or NONE. */
static uint32_t free_maker(const struct side *s, const struct node *n, uint32_t i)
{
	uint32_t id = n->in[i] == NO_VALUE ? NO_VALUE : s->root[n->in[i]];
	uint32_t from = id == NO_VALUE || s->constant[id] ? NO_NODE : s->g->value[id]->producer;

	return from == NO_NODE || !is_free(s, s->position[from]) ? NONE : s->position[from];
}

/* No more readers of a value, and no more operands of a node, are looked at, for time. */
enum { MOST_READERS = 64 };

enum fit {
	FIT_NOT,
	FIT_OPEN /* neither has operands or readers that are known to correspond */,
	FIT_WELL /* one is */
};

/* Whether the operands of the nodes correspond as far as they are known: all of them, or (any) one of them. */
static enum fit fit_of_operands(struct alignment *a, uint32_t m, uint32_t n, bool any)
{
	const struct side *s = &a->side[0], *t = &a->side[1];
	const struct node *x = node_at(s, m), *y = node_at(t, n);
	bool known = false, well = false;

	for (uint32_t k = 0; k < y->nin && k < MOST_READERS; k++) {
		uint32_t here = y->in[k] == NO_VALUE ? NO_VALUE : t->root[y->in[k]];
		if (here == NO_VALUE || t->constant[here])
			continue;
		const struct node *from = maker(t->g, here);
		uint32_t p = from ? t->partner[t->position[from->id]] : NONE;
		if (from && p == NONE)
			continue;
		known = true;
		bool found = false;
		for (uint32_t i = 0; i < x->nin && i < MOST_READERS && !found; i++, a->visits++) {
			uint32_t there = x->in[i] == NO_VALUE ? NO_VALUE : s->root[x->in[i]];
			const struct node *like = maker(s->g, there);
			if (there == NO_VALUE || s->constant[there] || !like != !from)
				continue;
			found = like ? s->position[like->id] == p && s->port[there] == t->port[here]
				     : s->leaf[there] == t->leaf[here];
		}
		if (!found && !any)
			return FIT_NOT;
		well |= found;
	}
	return well ? FIT_WELL : known ? FIT_NOT : FIT_OPEN;
}

/* Whether a pair reads both nodes, in one place. */
static bool fits_readers(const struct alignment *a, uint32_t m, uint32_t n)
{
	const struct side *s = &a->side[0], *t = &a->side[1];
	const struct node *y = node_at(t, n);

	for (uint32_t k = 0; k < y->nout; k++) {
		const struct value *v = node_out(t->g, y, k);
		for (uint32_t u = 0; v && u < v->nusers && u < MOST_READERS; u++) {
			const struct node *by = t->g->node[v->users[u]];
			uint32_t p = t->partner[t->position[by->id]];
			const struct node *like = p == NONE ? NULL : node_at(s, p);
			for (uint32_t i = 0; like && i < like->nin && i < MOST_READERS; i++) {
				const struct node *from =
					like->in[i] == NO_VALUE ||
							(!commutes(by) &&
							 (i >= by->nin || by->in[i] != v->id))
						? NULL
						: maker(s->g, s->root[like->in[i]]);
				if (from && s->position[from->id] == m)
					return true;
			}
		}
	}
	return false;
}

/* Pairs the free nodes that make operands i and k of a pair, in whose place they stand. */
static void pair_makers(struct alignment *a, const struct node *m, uint32_t i,
			const struct node *n, uint32_t k)
{
	uint32_t p = free_maker(&a->side[0], m, i), q = free_maker(&a->side[1], n, k);

	if (p != NONE && q != NONE &&
	    a->side[0].port[a->side[0].root[m->in[i]]] == a->side[1].port[a->side[1].root[n->in[k]]] &&
	    fit_of_operands(a, p, q, same_operator(a, p, q)) == FIT_WELL)
		join(a, p, q);
}

/* Pairs nodes that stand in one place: a pair reads both, and they read what corresponds. */
static void pair_by_place(struct alignment *a)
{
	for (uint32_t p = a->side[1].g->norder; p-- > 0;) {
		if (is_free(&a->side[1], p) || a->side[1].copies[p])
			continue;
		const struct node *n = node_at(&a->side[1], p),
				  *m = node_at(&a->side[0], a->side[1].partner[p]);
		if (!commutes(n) || !commutes(m)) {
			for (uint32_t i = 0; i < n->nin + n->ncap && i < m->nin + m->ncap; i++)
				pair_makers(a, m, i, n, i);
			continue;
		}
		bool one = (free_maker(&a->side[0], m, 0) == NONE) !=
				   (free_maker(&a->side[0], m, 1) == NONE) &&
			   (free_maker(&a->side[1], n, 0) == NONE) !=
				   (free_maker(&a->side[1], n, 1) == NONE);
		for (uint32_t i = 0; i < 4 && one; i++)
			pair_makers(a, m, i / 2, n, i % 2);
	}
}

/*
 * Between what leads to a node and what follows it, its name decides, if the two do not correspond to one node: a pair reads value
 * `here` of the one and the free node that makes `there`, and both have one name.
 */
static void correct_by_name(struct alignment *a, uint32_t there, uint32_t here)
{
	struct side *s = &a->side[0], *t = &a->side[1];
	const struct node *m = maker(s->g, there), *n = maker(t->g, here);

	if (!m || !n || strcmp(s->g->value[there]->name, t->g->value[here]->name) != 0)
		return;
	uint32_t p = s->position[m->id], q = t->position[n->id];
	uint32_t kind = a->kind[q];
	if (!is_free(s, p) || is_free(t, q) || t->copies[q] || a->contradict[kind] > 1 ||
	    a->contradicted > 1 + a->agreed / 8)
		return;
	s->partner[t->partner[q]] = NONE;
	t->partner[q] = NONE;
	a->pairs--;
	join(a, p, q);
}

static void correct_by_names(struct alignment *a)
{
	judge_names(a);
	for (uint32_t p = 0; p < a->side[1].g->norder; p++) {
		if (is_free(&a->side[1], p) || a->side[1].copies[p])
			continue;
		const struct node *n = node_at(&a->side[1], p),
				  *m = node_at(&a->side[0], a->side[1].partner[p]);
		for (uint32_t i = 0; i < n->nin && i < m->nin; i++)
			if (n->in[i] != NO_VALUE && m->in[i] != NO_VALUE)
				correct_by_name(a, a->side[0].root[m->in[i]],
						a->side[1].root[n->in[i]]);
	}
}

static void pair_outputs_by_place(struct alignment *a)
{
	const struct side *s = &a->side[0], *t = &a->side[1];

	for (uint32_t k = 0; k < t->g->nout; k++) {
		uint32_t i = t->output[k];
		const struct node *n = maker(t->g, t->root[t->g->out[k]]);
		const struct node *m = i < s->g->nout ? maker(s->g, s->root[s->g->out[i]]) : NULL;
		if (m && n &&
		    fit_of_operands(a, s->position[m->id], t->position[n->id], false) == FIT_WELL)
			join(a, s->position[m->id], t->position[n->id]);
	}
}

/* Whether types or shapes say that the nodes make something else. Models that compute in other floats may correspond. */
static bool makes_other(const struct alignment *a, uint32_t m, uint32_t n)
{
	const struct value *v = node_out(a->side[0].g, node_at(&a->side[0], m), 0),
			   *u = node_out(a->side[1].g, node_at(&a->side[1], n), 0);

	if (!v || !u)
		return false;
	struct vinfo like = v->info;
	if (is_float(v) && is_float(u))
		like.type.dtype = u->info.type.dtype;
	return vinfo_contradicts(&like, &u->info);
}

/* Whether the values have one name. A node's own name stays when an optimizer has moved it, and its value is another then. */
static bool names_agree(const struct alignment *a, uint32_t m, uint32_t n)
{
	const char *name = first_name(a->side[0].g, node_at(&a->side[0], m));

	return (*name && !strcmp(name, first_name(a->side[1].g, node_at(&a->side[1], n)))) ||
	       a->side[0].own[KIND][m] == a->side[1].own[KIND][n];
}

/* Pairs nodes of one name that read, or are read by, what corresponds, as far as that is known. */
static void pair_by_names(struct alignment *a, bool numbered)
{
	judge_names(a);
	for (uint32_t i = 0; i < a->side[1].g->norder; i++) {
		uint32_t m = is_free(&a->side[1], i) ? named_alike(a, i) : NONE;
		size_t number;
		if (m == NONE || !is_free(&a->side[0], m) ||
		    a->side[0].copies[m] != a->side[1].copies[i])
			continue;
		(void)last_number(name_of(&a->side[1], i), &number);
		/* a number may be that of a neighbour */
		if (number && same_operator(a, m, i) && a->side[0].own[FORM][m] != a->side[1].own[FORM][i])
			continue;
		if ((numbered || !number) && is_trusted(a, i) && names_agree(a, m, i) &&
		    !makes_other(a, m, i) &&
		    (fit_of_operands(a, m, i, !number) != FIT_NOT || fits_readers(a, m, i)))
			join(a, m, i);
	}
}

/* The one computed operand of a commutative node with a constant; NO_VALUE if both are computed. */
static uint32_t only_computed(const struct side *s, const struct node *n)
{
	bool first = n->in[0] != NO_VALUE && s->constant[s->root[n->in[0]]],
	     second = n->in[1] != NO_VALUE && s->constant[s->root[n->in[1]]];

	return first == second ? NO_VALUE : n->in[first];
}

/* What the partner of a reader of node i reads in its place; NONE if none is known. */
static uint32_t wanted_by_readers(const struct alignment *a, uint32_t i)
{
	const struct side *s = &a->side[0], *t = &a->side[1];
	const struct value *v = node_out(t->g, node_at(t, i), 0);

	for (uint32_t u = 0; v && u < v->nusers && u < MOST_READERS; u++) {
		const struct node *n = t->g->node[v->users[u]];
		uint32_t p = t->partner[t->position[n->id]];
		const struct node *m = p == NONE ? NULL : node_at(s, p);
		for (uint32_t k = 0; m && k < n->nin && k < m->nin && k < MOST_READERS; k++) {
			uint32_t there = commutes(n) && commutes(m) ? only_computed(s, m) : m->in[k];
			if (n->in[k] != v->id || there == NO_VALUE)
				continue;
			const struct node *from = maker(s->g, s->root[there]);
			if (from)
				return s->position[from->id];
		}
	}
	return NONE;
}

/*
 * Where two nodes have exchanged their weights, these would lead what reads them astray: both stay in their places, unless their names
 * say otherwise.
 */
static void keep_places(struct alignment *a)
{
	struct side *s = &a->side[0], *t = &a->side[1];

	judge_names(a);
	for (uint32_t i = t->g->norder; i-- > 0;) {
		uint32_t m = t->partner[i], to = m == NONE ? NONE : wanted_by_readers(a, i);
		uint32_t other = to == NONE ? NONE : s->partner[to];
		if (to == m || other == NONE || wanted_by_readers(a, other) != m ||
		    s->own[FORM][to] != t->own[FORM][i] || s->own[FORM][m] != t->own[FORM][other] ||
		    (named_alike(a, i) == m && is_trusted(a, i)))
			continue;
		if (t->weighted[i] && (fit_of_operands(a, to, i, false) != FIT_WELL ||
				       fit_of_operands(a, m, other, false) != FIT_WELL))
			continue;
		s->partner[to] = i;
		t->partner[i] = to;
		s->partner[m] = other;
		t->partner[other] = m;
	}
}

/* Pairs nodes that only hand on a value, by what they hand on. */
static void pair_copies(struct alignment *a)
{
	const struct side *s = &a->side[0], *t = &a->side[1];

	for (uint32_t i = 0; i < t->g->norder; i++) {
		const struct node *n = node_at(t, i), *from = maker(t->g, n->nin ? n->in[0] : NO_VALUE);
		uint32_t p = from ? t->partner[t->position[from->id]] : NONE, found = NONE;
		if (!t->copies[i] || !is_free(t, i) || p == NONE)
			continue;
		uint32_t port = t->port[n->in[0]];
		const struct node *m = node_at(s, p);
		const struct value *v = port < m->nout ? node_out(s->g, m, port) : NULL;
		for (uint32_t u = 0; v && u < v->nusers && u < MOST_READERS; u++) {
			uint32_t k = s->position[v->users[u]];
			if (s->copies[k] && is_free(s, k) && same_operator(a, k, i))
				found = found == NONE ? k : NONE - 1;
		}
		if (found < NONE - 1)
			join(a, found, i);
	}
}

/* Both models are gone through until so many operands were visited, for time: hostile models need that once for each pair. */
static const uint64_t MOST_VISITS = 50000000;

static uint64_t count_operands(const struct graph *g)
{
	uint64_t n = g->norder;

	for (uint32_t p = 0; p < g->norder; p++)
		n += g->node[g->order[p]]->nin + g->node[g->order[p]]->ncap;
	return n;
}

/* Each step is tried when those before it find nothing more. */
static void pair_step(struct alignment *a, int step)
{
	switch (step) {
	case 0:
		/* the same place in all of the network says more than an equal weight, or than a name */
		pair_groups(a, FORM, BOTH, ALONE);
		break;
	case 1:
		pair_groups(a, KIND, BOTH, ALONE);
		break;
	case 2:
		pair_groups(a, FULL, BOTH, EQUAL);
		break;
	case 3:
		pair_groups(a, FULL, UP, ALONE);
		break;
	case 4:
		pair_groups(a, FULL, DOWN, ALONE);
		break;
	case 5:
		/* these have equal values, whichever of them stands for which */
		pair_groups(a, FULL, UP, ANY);
		break;
	case 6:
		pair_by_names(a, false);
		break;
	case 7:
		pair_by_weights(a);
		break;
	case 8:
		pair_by_names(a, true);
		break;
	case 9:
		pair_one_way(a, KIND);
		break;
	default:
		pair_by_place(a);
		pair_outputs_by_place(a);
	}
}

enum { STEPS = 11 };

static void pair_nodes(struct alignment *a)
{
	uint64_t once = count_operands(a->side[0].g) + count_operands(a->side[1].g);

	for (int step = 0; step < STEPS && a->visits < MOST_VISITS; a->visits += once) {
		uint32_t before = a->pairs;
		pair_step(a, step);
		step = a->pairs > before ? 0 : step + 1;
	}
	correct_by_names(a);
	keep_places(a);
	pair_copies(a);
}

/* ---- the two sides ---------------------------------------------------------------------------- */

static void name_nodes(struct alignment *a, struct side *s)
{
	const struct graph *g = s->g;

	s->value_named = s->node_named = (struct map){.arena = a->arena};
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = node_at(s, p);
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE && *g->value[n->out[k]]->name)
				map_set(&s->value_named, g->value[n->out[k]]->name,
					strlen(g->value[n->out[k]]->name), p);
		if (has_name(n) && map_get(&s->node_named, n->origin->name, strlen(n->origin->name)) < 0)
			map_set(&s->node_named, n->origin->name, strlen(n->origin->name), p);
	}
}

static void make_side(struct alignment *a, struct side *s, const struct graph *g)
{
	struct arena *arena = a->arena;
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
	s->keyed = arena_new_n(arena, struct keyed, n);
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
	name_nodes(a, s);
}

static void follow_copies(struct side *s, struct extra extra)
{
	const struct graph *g = s->g;

	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = node_at(s, p);
		const struct tensor *x = constant_in(g, n, 0);
		/* what a DequantizeLinear makes of a constant is one */
		if (extra.codes && is_op(n, "DequantizeLinear") && x && n->out[0] != NO_VALUE) {
			s->constant[n->out[0]] = true;
			s->copies[p] = true;
		}
		s->copies[p] |= copies(g, n, extra);
		if (s->copies[p] && !s->constant[n->out[0]])
			s->root[n->out[0]] = s->root[n->in[0]];
	}
}

static int64_t input_named(const struct map *names, const char *name)
{
	return map_get(names, name, strlen(name));
}

static void name_inputs(struct map *names, struct arena *arena, const struct graph *g)
{
	*names = (struct map){.arena = arena};
	for (uint32_t i = g->nin; i-- > 0;)
		map_set(names, g->value[g->in[i]]->name, strlen(g->value[g->in[i]]->name), i);
}

/* Gives equal numbers to inputs that correspond: by their names or else, if both names are new, by their places. */
static void number_inputs(struct alignment *a)
{
	const struct graph *ref = a->side[0].g, *got = a->side[1].g;
	struct map there, here;

	name_inputs(&there, a->arena, ref);
	name_inputs(&here, a->arena, got);
	for (uint32_t i = 0; i < ref->nin; i++)
		a->side[0].leaf[ref->in[i]] = mix(6, i);
	for (uint32_t i = 0; i < got->nin; i++) {
		int64_t k = input_named(&there, got->value[got->in[i]]->name);
		if (k < 0 && i < ref->nin && input_named(&here, ref->value[ref->in[i]]->name) < 0)
			k = i;
		a->side[1].leaf[got->in[i]] = k < 0 ? mix(7, i) : mix(6, (uint64_t)k);
	}
}

/* Numbers the outputs alike: by their names or else, for those left over, by their places. */
static void number_outputs(struct alignment *a)
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

/* Finds the Relus and Clips of the reference that the quantizer has dropped, and looks through them. */
static void find_dropped(struct alignment *a)
{
	struct side *s = &a->side[0], *t = &a->side[1];

	for (uint32_t i = 0; i < t->g->nvalues; i++) {
		const char *name = t->g->value[i]->name;
		int64_t k = *name && maker(t->g, i)
				    ? map_get(&s->value_named, name, strlen(name))
				    : -1;
		a->meant[i] = i;
		if (k < 0)
			continue;
		const struct node *m = node_at(s, (uint32_t)k);
		if (m->nin && m->in[0] != NO_VALUE && m->nout == 1 && m->out[0] != NO_VALUE)
			a->meant[i] = meant_value(s->g, m->out[0], t->g, i);
		s->copies[k] |= a->meant[i] != i;
	}
}

static void align(struct alignment *a, const struct graph *ref, const struct graph *got)
{
	struct extra extra = {count_op(ref, "Cast") != count_op(got, "Cast"),
			      count_op(ref, "DequantizeLinear") != count_op(got, "DequantizeLinear")};

	make_side(a, &a->side[0], ref);
	make_side(a, &a->side[1], got);
	a->kinds = (struct map){.arena = a->arena};
	a->meant = arena_new_n(a->arena, uint32_t, (size_t)got->nvalues + 1);
	for (int i = 0; i < 4; i++)
		a->candidate[i / 2][i % 2] = arena_new_n(a->arena, uint32_t,
							 (size_t)a->side[i / 2].g->norder + 1);
	a->kind = arena_new_n(a->arena, uint32_t, (size_t)got->norder + 1);
	for (uint32_t i = 0; i < got->norder; i++)
		a->kind[i] = kind_of_name(a, name_of(&a->side[1], i));
	find_dropped(a);
	follow_copies(&a->side[0], extra);
	follow_copies(&a->side[1], extra);
	number_inputs(a);
	number_outputs(a);
	hash_constants(a);
	for (int k = 0; k < 2; k++)
		for (uint32_t p = 0; p < a->side[k].g->norder; p++) {
			a->side[k].weighted[p] = has_weight(&a->side[k], node_at(&a->side[k], p));
			for (int level = 0; level < LEVELS; level++)
				a->side[k].own[level][p] =
					hash_own(&a->side[k], node_at(&a->side[k], p), (enum level)level);
		}
	pair_nodes(a);
}

/* ---- values ----------------------------------------------------------------------------------- */

static void set_match(uint32_t *of_ref, uint32_t *of_got, uint32_t ref, uint32_t got)
{
	if (of_ref[ref] != NO_VALUE || of_got[got] != NO_VALUE)
		return;
	of_ref[ref] = got;
	of_got[got] = ref;
}

static void match_outputs(const struct alignment *a, uint32_t *of_ref, uint32_t *of_got)
{
	const struct graph *ref = a->side[0].g, *got = a->side[1].g;

	for (uint32_t k = 0; k < got->nout; k++) {
		uint32_t i = a->side[1].output[k];
		if (i >= ref->nout || !maker(ref, ref->out[i]) || !maker(got, got->out[k]))
			continue;
		set_match(of_ref, of_got, ref->out[i], got->out[k]);
	}
}

static void match_values(const struct alignment *a, uint32_t *of_ref, uint32_t *of_got)
{
	const struct graph *got = a->side[1].g;

	for (uint32_t i = 0; i < got->nvalues; i++)
		if (a->meant[i] != i)
			set_match(of_ref, of_got,
				  node_at(&a->side[0],
					  (uint32_t)map_get(&a->side[0].value_named,
							    got->value[i]->name,
							    strlen(got->value[i]->name)))
					  ->out[0],
				  a->meant[i]);
	for (uint32_t p = 0; p < got->norder; p++) {
		if (is_free(&a->side[1], p))
			continue;
		const struct node *n = node_at(&a->side[1], p),
				  *m = node_at(&a->side[0], a->side[1].partner[p]);
		for (uint32_t k = 0; k < n->nout && k < m->nout; k++)
			if (n->out[k] != NO_VALUE && m->out[k] != NO_VALUE &&
			    a->meant[n->out[k]] == n->out[k])
				set_match(of_ref, of_got, m->out[k], n->out[k]);
	}
}

void counterparts_find(const struct graph *ref, const struct graph *got, uint32_t *of_ref,
		       uint32_t *of_got)
{
	struct arena tmp = {0};
	struct alignment *a = arena_new(&tmp, struct alignment);

	*a = (struct alignment){.arena = &tmp};
	align(a, ref, got);
	for (uint32_t i = 0; i < ref->nvalues; i++)
		of_ref[i] = NO_VALUE;
	for (uint32_t i = 0; i < got->nvalues; i++)
		of_got[i] = NO_VALUE;
	/* what is compared in the end are the outputs, whatever became of the nodes that make them */
	match_outputs(a, of_ref, of_got);
	match_values(a, of_ref, of_got);
	arena_free(&tmp);
}

void counterparts_same(const struct graph *a, const struct graph *b, uint32_t *of_a, uint32_t *of_b)
{
	struct arena tmp = {0};
	struct map of = {.arena = &tmp};

	for (uint32_t i = 0; i < a->nvalues; i++) {
		of_a[i] = NO_VALUE;
		if (*a->value[i]->name && a->value[i]->producer != NO_NODE)
			map_set(&of, a->value[i]->name, strlen(a->value[i]->name), i);
	}
	for (uint32_t i = 0; i < b->nvalues; i++) {
		const struct value *v = b->value[i];
		int64_t k = *v->name && v->producer != NO_NODE
				    ? map_get(&of, v->name, strlen(v->name))
				    : -1;
		of_b[i] = k < 0 ? NO_VALUE : (uint32_t)k;
		if (k >= 0)
			of_a[k] = i;
	}
	/* a model output corresponds to the other side's output of the same position, even if their values' names differ */
	for (uint32_t k = 0; k < a->nout && k < b->nout; k++) {
		of_a[a->out[k]] = b->out[k];
		of_b[b->out[k]] = a->out[k];
	}
	arena_free(&tmp);
}

const struct tensor *const *counterparts_inputs(struct check_context *c, const struct graph *g,
						const char *path, const struct tensor *const *in)
{
	const struct graph *own = session_model(c->session)->graph;
	struct map names;
	bool named = true;

	if (own->nin != g->nin) {
		FAIL(c->d, E_REFERENCE, .model = path,
		     .message = "the models have different numbers of inputs",
		     .hint = "compare models that take the same inputs",
		     .expected = fmt(c->d, "%u", own->nin), .actual = fmt(c->d, "%u", g->nin));
		return NULL;
	}
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)own->nin + 1);
	name_inputs(&names, &c->arena, own);
	for (uint32_t i = 0; i < own->nin; i++)
		named &= input_named(&names, g->value[g->in[i]]->name) >= 0;
	for (uint32_t i = 0; i < own->nin; i++)
		out[i] = in[named ? input_named(&names, g->value[g->in[i]]->name) : i];
	return out;
}
