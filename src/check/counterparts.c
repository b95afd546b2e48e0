/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structure decides, from both ends. Each node has a hash of all that leads to it and one of all that follows; nodes whose
 * hashes nothing else in their models has are counterparts, and stand from then on for themselves in the hashes of the
 * others, so that what lies between counterparts finds its own (check/node_hashes.h). Their FORM comes first: a weight or an attribute that was changed is what a comparison looks for, and must not move a node to where
 * another has the old one.
 *
 * Exporters number their names, so that a name may stand for another node. Names count only where structure says nothing, and a kind
 * of names ("MatMul_#") that contradicts it anywhere counts nowhere. What neither tells apart has no counterpart: a guess
 * would accuse sound nodes.
 */
#include "check/counterparts.h"

#include "base/hash.h"
#include "base/keyed.h"
#include "check/node_hashes.h"

#include <stdlib.h>
#include <string.h>

struct alignment {
	struct arena *arena;
	struct sides both;
	struct side *side;	/* both.side: reference, tested model */
	struct keyed *keyed[2]; /* room for the nodes of either */
	struct map value_named,
		node_named; /* nodes of the reference by the names of their values, and by their own */
	uint32_t pairs;
	uint32_t *meant; /* by value of the tested model: the value that has the meaning of its name, see meant_value */
	uint32_t *candidate[2][2];    /* by side, and up or down: see pair_one_way */
	struct map kinds;	      /* of names */
	uint32_t *agree, *contradict; /* how often names of a kind do so with structure */
	uint32_t nkinds, cap_kinds, agreed, contradicted;
	uint32_t *kind;	       /* by node of the tested model: the number of the kind of its name */
	uint32_t made[LEVELS]; /* number of pairs, and 1, for which the hashes of a level were made */
	uint64_t visits;       /* of operands, see MOST_VISITS */
};

/* Returns the output of the one node that reads the value, if that is of this operator; otherwise NO_VALUE. */
static uint32_t after_only_user(const struct graph *g, uint32_t id, const char *op)
{
	const struct value *v = g->value[id];

	if (v->nusers != 1 || v->is_output || !node_is(g->node[v->users[0]], op))
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
	const struct node *m = node_making(ref, there), *n = node_making(got, id);

	if (!m || !n || node_is(m, n->type) || (!node_is(m, "Relu") && !node_is(m, "Clip")))
		return id;
	uint32_t q = after_only_user(got, id, "QuantizeLinear");
	uint32_t dq = q == NO_VALUE ? NO_VALUE : after_only_user(got, q, "DequantizeLinear");
	return dq == NO_VALUE ? id : dq;
}

static void make_hashes(struct alignment *a, enum level level)
{
	if (a->made[level] != a->pairs + 1)
		sides_hash_around(&a->both, level);
	a->made[level] = a->pairs + 1;
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
	const struct node *n = node_at(&a->side[1], i);
	const char *name = first_name(a->side[1].g, n);
	int64_t k = *name ? map_get(&a->value_named, name, strlen(name)) : -1;

	if (k < 0 && has_name(n))
		k = map_get(&a->node_named, n->origin->name, strlen(n->origin->name));
	return k < 0 ? NONE : (uint32_t)k;
}

/*
 * Returns where the last number of a name begins, which exporters count up, and sets *length; 0 if it has none. "_output_0" is none, nor is
 * the number of a layer, which a '/' follows. *first: it has none because it is the first of its operator: "/a/Add" and then "/a/Add_1".
 */
static size_t last_number(const char *name, const char *type, size_t *length, bool *first)
{
	static const char output[] = "_output_";
	const char *o = NULL;
	size_t k = strlen(type);

	for (const char *next = strstr(name, output); next; next = strstr(next + 1, output))
		o = next;
	size_t end = o ? (size_t)(o - name) : strlen(name);
	*length = 0;
	*first = end > k && name[end - k - 1] == '/' && !memcmp(name + end - k, type, k);
	if (*first)
		return end;
	while (end && (name[end - 1] < '0' || name[end - 1] > '9') && name[end - 1] != '/')
		end--;
	size_t begin = end;
	while (begin && name[begin - 1] >= '0' && name[begin - 1] <= '9')
		begin--;
	*length = end - begin;
	return begin;
}

/* The number of the kind of a name: the name without its last number. */
static uint32_t kind_of_name(struct alignment *a, const char *name, const char *type)
{
	bool first;
	size_t length, begin = last_number(name, type, &length, &first), end = begin + length;
	const char *kind =
		arena_printf(a->arena, "%.*s%s#%s", (int)begin, name, first ? "_" : "", name + end);
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
	const struct node *m =
		n->nin && n->in[0] != NO_VALUE ? node_making(s->g, s->root[n->in[0]]) : NULL;

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

/* OWN: the node alone, and only if it has weights. */
enum way { OWN, UP, DOWN, BOTH };

static uint64_t key_of(const struct side *s, uint32_t i, enum level level, enum way way)
{
	if (way == OWN)
		return s->own[level][i];
	if (way != BOTH)
		return way == UP ? s->up[level][i] : s->down[level][i];
	return s->up[level][i] * 0x9fb21c651e98df25 + s->down[level][i];
}

/* Lists the free nodes of a side, sorted by their hashes. */
static uint32_t list_keys(struct alignment *a, int side, enum level level, enum way way)
{
	const struct side *s = &a->side[side];
	struct keyed *keyed = a->keyed[side];
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->g->norder; i++)
		if (is_free(s, i) && !s->copies[i] && (way != OWN || s->weighted[i]))
			keyed[n++] = (struct keyed){key_of(s, i, level, way), i};
	keyed_sort(keyed, n);
	return n;
}

static struct keyed_walk walk_keys(struct alignment *a, enum level level, enum way way)
{
	return (struct keyed_walk){.p = a->keyed[0],
				   .q = a->keyed[1],
				   .p_left = list_keys(a, 0, level, way),
				   .q_left = list_keys(a, 1, level, way)};
}

/* Pairs nodes that compute the same of the same: first those of equal names, as others may stand for them. */
static void join_equals(struct alignment *a, const struct keyed *p, uint32_t np,
			const struct keyed *q, uint32_t nq)
{
	uint32_t i = 0;

	for (uint32_t k = 0; k < nq && np > 1; k++) {
		uint32_t m = named_alike(a, q[k].node);
		if (m != NONE && is_free(&a->side[0], m) &&
		    bsearch(&(struct keyed){p->key, m}, p, np, sizeof(*p), keyed_order))
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
	struct keyed_walk w = walk_keys(a, level, way);
	while (keyed_meet(&w))
		if ((w.np == 1 && w.nq == 1) || how == ANY || (how == EQUAL && w.np == w.nq))
			join_equals(a, w.p, w.np, w.q, w.nq);
}

static void pair_by_weights(struct alignment *a)
{
	pair_groups(a, FULL, OWN, ALONE);
}

static void find_candidates(struct alignment *a, enum level level, enum way way)
{
	struct keyed_walk w = walk_keys(a, level, way);

	for (int s = 0; s < 2; s++)
		memset(a->candidate[s][way == UP], 0xff,
		       (size_t)a->side[s].g->norder * sizeof(uint32_t));
	while (keyed_meet(&w)) {
		if (w.np != 1 || w.nq != 1)
			continue;
		a->candidate[0][way == UP][w.p->node] = w.q->node;
		a->candidate[1][way == UP][w.q->node] = w.p->node;
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
		const struct node *from = node_making(t->g, here);
		uint32_t p = from ? t->partner[t->position[from->id]] : NONE;
		if (from && p == NONE)
			continue;
		known = true;
		bool found = false;
		for (uint32_t i = 0; i < x->nin && i < MOST_READERS && !found; i++, a->visits++) {
			uint32_t there = x->in[i] == NO_VALUE ? NO_VALUE : s->root[x->in[i]];
			const struct node *like = node_making(s->g, there);
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
							(!node_commutes(by) &&
							 (i >= by->nin || by->in[i] != v->id))
						? NULL
						: node_making(s->g, s->root[like->in[i]]);
				if (from && s->position[from->id] == m)
					return true;
			}
		}
	}
	return false;
}

/* Pairs the free nodes that make operands i and k of a pair, in whose place they stand. */
static void pair_makers(struct alignment *a, const struct node *m, uint32_t i, const struct node *n,
			uint32_t k)
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
		if (!node_commutes(n) || !node_commutes(m)) {
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
	const struct node *m = node_making(s->g, there), *n = node_making(t->g, here);

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
		const struct node *n = node_making(t->g, t->root[t->g->out[k]]);
		const struct node *m =
			i < s->g->nout ? node_making(s->g, s->root[s->g->out[i]]) : NULL;
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
	if (value_is_float(v) && value_is_float(u))
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
		bool first;
		if (m == NONE || !is_free(&a->side[0], m) ||
		    a->side[0].copies[m] != a->side[1].copies[i])
			continue;
		(void)last_number(name_of(&a->side[1], i), node_at(&a->side[1], i)->type, &number,
				  &first);
		bool counted = number || first;
		/* a number may be that of a neighbour */
		if (counted && same_operator(a, m, i) &&
		    a->side[0].own[FORM][m] != a->side[1].own[FORM][i])
			continue;
		if ((numbered || !counted) && is_trusted(a, i) && names_agree(a, m, i) &&
		    !makes_other(a, m, i) &&
		    (fit_of_operands(a, m, i, !counted) != FIT_NOT || fits_readers(a, m, i)))
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
			uint32_t there = node_commutes(n) && node_commutes(m) ? only_computed(s, m)
									      : m->in[k];
			if (n->in[k] != v->id || there == NO_VALUE)
				continue;
			const struct node *from = node_making(s->g, s->root[there]);
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
		const struct node *n = node_at(t, i),
				  *from = node_making(t->g, n->nin ? n->in[0] : NO_VALUE);
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
	case 1: pair_groups(a, KIND, BOTH, ALONE); break;
	case 2: pair_groups(a, FULL, BOTH, EQUAL); break;
	case 3: pair_groups(a, FULL, UP, ALONE); break;
	case 4: pair_groups(a, FULL, DOWN, ALONE); break;
	case 5:
		/* these have equal values, whichever of them stands for which */
		pair_groups(a, FULL, UP, ANY);
		break;
	case 6: pair_by_names(a, false); break;
	case 7: pair_by_weights(a); break;
	case 8: pair_by_names(a, true); break;
	case 9: pair_one_way(a, KIND); break;
	default: pair_by_place(a); pair_outputs_by_place(a);
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

static void name_nodes(struct alignment *a)
{
	const struct side *s = &a->side[0];
	const struct graph *g = s->g;

	a->value_named = a->node_named = (struct map){.arena = a->arena};
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = node_at(s, p);
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE && *g->value[n->out[k]]->name)
				map_set(&a->value_named, g->value[n->out[k]]->name,
					strlen(g->value[n->out[k]]->name), p);
		if (has_name(n) &&
		    map_get(&a->node_named, n->origin->name, strlen(n->origin->name)) < 0)
			map_set(&a->node_named, n->origin->name, strlen(n->origin->name), p);
	}
}

/* Finds the Relus and Clips of the reference that the quantizer has dropped, and looks through them. */
static void find_dropped(struct alignment *a)
{
	struct side *s = &a->side[0], *t = &a->side[1];

	for (uint32_t i = 0; i < t->g->nvalues; i++) {
		const char *name = t->g->value[i]->name;
		int64_t k = *name && node_making(t->g, i)
				    ? map_get(&a->value_named, name, strlen(name))
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
	a->both.arena = a->arena;
	a->side = a->both.side;
	sides_make(&a->both, ref, got);
	a->kinds = (struct map){.arena = a->arena};
	a->meant = arena_new_n(a->arena, uint32_t, (size_t)got->nvalues + 1);
	for (int k = 0; k < 2; k++) {
		size_t n = (size_t)a->side[k].g->norder + 1;
		a->keyed[k] = arena_new_n(a->arena, struct keyed, n);
		for (int way = 0; way < 2; way++)
			a->candidate[k][way] = arena_new_n(a->arena, uint32_t, n);
	}
	name_nodes(a);
	a->kind = arena_new_n(a->arena, uint32_t, (size_t)got->norder + 1);
	for (uint32_t i = 0; i < got->norder; i++)
		a->kind[i] = kind_of_name(a, name_of(&a->side[1], i), node_at(&a->side[1], i)->type);
	find_dropped(a);
	sides_hash(&a->both);
	pair_nodes(a);
}

/* ---- values ----------------------------------------------------------------------------------- */

/*
 * Matches two values, if both are of their files, or both inside an operator that others express. QLinearAveragePool is expressed by an
 * AveragePool of unscaled integers, whose result is not that of the reference's AveragePool.
 */
static void set_match(const struct alignment *a, uint32_t *of_ref, uint32_t *of_got, uint32_t ref,
		      uint32_t got)
{
	if (of_ref[ref] != NO_VALUE || of_got[got] != NO_VALUE ||
	    !*a->side[0].g->value[ref]->name != !*a->side[1].g->value[got]->name)
		return;
	of_ref[ref] = got;
	of_got[got] = ref;
}

static void match_outputs(const struct alignment *a, uint32_t *of_ref, uint32_t *of_got)
{
	const struct graph *ref = a->side[0].g, *got = a->side[1].g;

	for (uint32_t k = 0; k < got->nout; k++) {
		uint32_t i = a->side[1].output[k];
		if (i >= ref->nout || !node_making(ref, ref->out[i]) || !node_making(got, got->out[k]))
			continue;
		set_match(a, of_ref, of_got, ref->out[i], got->out[k]);
	}
}

static void match_values(const struct alignment *a, uint32_t *of_ref, uint32_t *of_got)
{
	const struct graph *got = a->side[1].g;

	for (uint32_t i = 0; i < got->nvalues; i++)
		if (a->meant[i] != i)
			set_match(a, of_ref, of_got,
				  node_at(&a->side[0],
					  (uint32_t)map_get(&a->value_named, got->value[i]->name,
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
				set_match(a, of_ref, of_got, m->out[k], n->out[k]);
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
		/*
		 * Both loads of the file number its values alike. Names need not be unique: functions that are called by nodes of one
		 * name give theirs to several values.
		 */
		if (k >= 0 && i < a->nvalues && a->value[i]->producer != NO_NODE &&
		    !strcmp(a->value[i]->name, v->name))
			k = i;
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
		named &= map_get(&names, g->value[g->in[i]]->name,
				 strlen(g->value[g->in[i]]->name)) >= 0;
	for (uint32_t i = 0; i < own->nin; i++)
		out[i] = in[named ? map_get(&names, g->value[g->in[i]]->name,
					    strlen(g->value[g->in[i]]->name))
				  : i];
	return out;
}
