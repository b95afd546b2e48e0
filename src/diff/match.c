/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/match.h"

#include "base/hash.h"
#include "base/keyed.h"
#include "ops/op.h"
#include "opt/params.h"

#include <stdlib.h>
#include <string.h>

/* How many steps around a node the finest comparison of neighbourhoods sees. */
enum { RADIUS = 4 };

/* From how many bytes on a constant is told from others by what is in it. */
enum { WEIGHT_BYTES = 64 };

/* ---- hashes */

/* Reads eight bytes at a time, because it reads all weights. */
static uint64_t hash_data(const void *data, size_t n, uint64_t h)
{
	const char *p = data;

	for (; n >= 8; p += 8, n -= 8) {
		uint64_t v;
		memcpy(&v, p, 8);
		h = (h ^ v) * 0x9fb21c651e98df25;
		h ^= h >> 32;
	}
	return n ? hash_bytes(p, n, h | 1) : h;
}

static uint64_t hash_shape(const struct tensor *t)
{
	uint64_t h = hash_mix(t->type.dtype, t->type.kind);

	for (int i = 0; i < t->shape.rank; i++)
		h = hash_mix(h, (uint64_t)t->shape.dim[i]);
	return h;
}

static uint64_t hash_tensor(const struct tensor *t)
{
	uint64_t h = hash_shape(t);

	if (t->type.kind != V_TENSOR)
		return h;
	if (tensor_dtype(t) != DT_STRING)
		return hash_data(t->data, t->bytes, h);
	for (int64_t i = 0; i < tensor_count(t); i++) {
		size_t n;
		const char *s = tensor_string(t, i, &n);
		h = hash_mix(h, n ? hash_bytes(s, n, 0) : 0);
	}
	return h;
}

int match_old_meaning(const struct node *n)
{
	if (!n->op)
		return 0;
	struct op row = op_resolved(n->op);
	return row.upgrade ? (int)row.since : 0;
}

uint64_t match_attributes_hash(const struct node *n)
{
	struct arena a = {0};
	uint64_t h = 0;

	if (!n->op || !n->params)
		return n->unread;
	struct op row = op_resolved(n->op);
	void *plain = arena_alloc(&a, row.params_size + 1);
	if (row.attrs)
		field_defaults(row.attrs, plain, &a);
	for (const struct field *f = row.attrs; f && f->name; f++) {
		const char *text = field_print(f, n->params, &a);
		const char *usual = field_print(f, plain, &a);
		if (f->type == F_TENSOR) {
			const struct tensor *t =
				*(const struct tensor *const *)((const char *)n->params + f->off);
			h += t ? hash_mix(hash_text(f->name), hash_tensor(t)) : 0;
		} else if (text && f->type != F_GRAPH && (!usual || strcmp(text, usual) != 0)) {
			h += hash_mix(hash_text(f->name), hash_text(text)); /* in any order */
		}
	}
	arena_free(&a);
	return h;
}

bool match_commutes(const struct match_node *n)
{
	return n->node->op && n->noperands == 2 && (op_flags(n->node->op) & OP_COMMUTATIVE);
}

const char *match_operator(const struct match_node *n, struct arena *a)
{
	/* the operators of normal forms are named as those of files are */
	return *n->node->domain && strcmp(n->node->domain, "infer") != 0
		       ? arena_printf(a, "%s::%s", n->node->domain, n->node->type)
		       : n->node->type;
}

/* ---- the flat list */

struct flattener {
	struct arena *arena;
	struct match_side *side;
	uint32_t depth;
};

/* Numbers of the values of one graph, by id. */
static uint32_t *number_values(struct flattener *f, const struct graph *g)
{
	struct match_side *s = f->side;
	uint32_t *number = arena_new_n(f->arena, uint32_t, (size_t)g->nvalues + 1);

	while (s->cap_values - s->nvalues < g->nvalues) {
		uint32_t cap = s->cap_values ? 2 * s->cap_values : 256;
		s->value = arena_grow(f->arena, s->value, s->nvalues, cap, sizeof(*s->value));
		s->cap_values = cap;
	}
	for (uint32_t i = 0; i < g->nvalues; i++) {
		number[i] = s->nvalues;
		s->value[s->nvalues++] = (struct match_value){.value = g->value[i],
							      .graph = g,
							      .init = g->value[i]->init,
							      .node = NO_MATCH,
							      .input = NO_MATCH,
							      .depth = f->depth};
	}
	return number;
}

static bool is_false(const struct value *v)
{
	return v && v->init && tensor_dtype(v->init) == DT_BOOL && tensor_count(v->init) == 1 &&
	       !*(const uint8_t *)v->init->data;
}

static bool is_zero(const struct value *v)
{
	return v && v->init && v->init->type.kind == V_TENSOR &&
	       dtype_class(tensor_dtype(v->init)) == DT_FLOAT && tensor_count(v->init) == 1 &&
	       elem_f64(tensor_dtype(v->init), v->init->data, 0) == 0;
}

/* Whether output 0 is input 0. */
static bool only_copies(const struct graph *g, const struct node *n)
{
	if (!n->op || n->domain[0] || n->nin < 1 || n->in[0] == NO_VALUE || n->nout < 1 ||
	    n->out[0] == NO_VALUE)
		return false;
	if (!strcmp(n->type, "Identity"))
		return true;
	if (strcmp(n->type, "Dropout") != 0 || n->op->since < 7)
		return false;
	for (uint32_t i = 1; i < n->nout; i++)
		if (node_out(g, n, i) &&
		    (g->value[n->out[i]]->nusers || g->value[n->out[i]]->is_output))
			return false;
	return n->nin < 3 || n->in[2] == NO_VALUE || is_false(node_in(g, n, 2)) ||
	       is_zero(node_in(g, n, 1));
}

static void flatten(struct flattener *f, const struct graph *g, uint32_t *number,
		    uint32_t first_value, uint32_t owner);

/* What a body is to its node: the number of its attribute among those of the operator, as a file has them in any order. */
static uint32_t body_rank(const struct node *n, uint32_t k)
{
	uint32_t rank;

	return params_body(n, k, &rank) ? rank : rank + k;
}

/* The bodies of a node in the order of their ranks. */
static const uint32_t *order_bodies(const struct node *n, struct arena *a)
{
	uint32_t *order = arena_new_n(a, uint32_t, (size_t)n->nsub + 1);

	for (uint32_t k = 0; k < n->nsub; k++) {
		uint32_t i = k, rank = body_rank(n, k);
		for (; i && body_rank(n, order[i - 1]) > rank; i--)
			order[i] = order[i - 1];
		order[i] = k;
	}
	return order;
}

/* Puts the nodes of a body into the list, and returns the numbers of the values that it gives. */
static const uint32_t *flatten_body(struct flattener *f, const struct node *n, uint32_t k,
				    const uint32_t *outer, uint32_t owner)
{
	const struct graph *body = n->sub[k];

	f->depth++;
	uint32_t first_value = f->side->nvalues;
	uint32_t *number = number_values(f, body);
	for (uint32_t i = 0; i < body->nin; i++) {
		struct match_value *v = &f->side->value[number[body->in[i]]];
		v->body = body_rank(n, k) + 1;
		v->position = i;
	}
	for (uint32_t j = 0; j < body->ncap; j++) {
		uint32_t from = n->in[n->nin + body->capture[j]];
		if (from != NO_VALUE)
			number[body->in[body->nin + j]] = outer[from];
	}
	flatten(f, body, number, first_value, owner);
	uint32_t *out = arena_new_n(f->arena, uint32_t, (size_t)body->nout + 1);
	for (uint32_t i = 0; i < body->nout; i++)
		out[i] = number[body->out[i]];
	f->depth--;
	return out;
}

static void add_node(struct flattener *f, const struct graph *g, const struct node *n,
		     uint32_t *number, uint32_t first_value, uint32_t owner)
{
	struct match_side *s = f->side;
	const uint32_t **gives = arena_new_n(f->arena, const uint32_t *, (size_t)n->nsub + 1);
	const uint32_t *order = order_bodies(n, f->arena);
	size_t most = n->nin;

	/* its bodies stand before it, so its own number is not known yet: they learn it afterwards */
	uint32_t first = s->nnodes;
	for (uint32_t j = 0; j < n->nsub; j++) {
		uint32_t k = order[j];
		gives[k] = flatten_body(f, n, k, number, NO_MATCH - 1);
		most += n->sub[k]->nout;
	}
	if (s->nnodes == s->cap_nodes) {
		s->cap_nodes = s->cap_nodes ? 2 * s->cap_nodes : 256;
		s->node = arena_grow(f->arena, s->node, s->nnodes, s->cap_nodes, sizeof(*s->node));
	}
	for (uint32_t i = first; i < s->nnodes; i++)
		if (s->node[i].owner == NO_MATCH - 1)
			s->node[i].owner = s->nnodes;
	uint32_t *operand = arena_new_n(f->arena, uint32_t, most + 1);
	uint32_t *slot = arena_new_n(f->arena, uint32_t, most + 1), count = 0;
	for (uint32_t i = 0; i < n->nin; i++)
		if (n->in[i] != NO_VALUE) {
			operand[count] = number[n->in[i]];
			slot[count++] = i;
		}
	for (uint32_t j = 0; j < n->nsub; j++) {
		uint32_t k = order[j];
		for (uint32_t i = 0; i < n->sub[k]->nout; i++) {
			operand[count] = gives[k][i];
			slot[count++] = (body_rank(n, k) + 1) * MATCH_BODY_SLOT + i;
		}
	}
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] != NO_VALUE) {
			s->value[number[n->out[i]]].node = s->nnodes;
			s->value[number[n->out[i]]].port = i;
		}
	s->node[s->nnodes++] = (struct match_node){.node = n,
						   .graph = g,
						   .owner = owner,
						   .operand = operand,
						   .slot = slot,
						   .noperands = count,
						   .first_value = first_value,
						   .partner = NO_MATCH};
}

static void flatten(struct flattener *f, const struct graph *g, uint32_t *number,
		    uint32_t first_value, uint32_t owner)
{
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		if (only_copies(g, n))
			number[n->out[0]] = number[n->in[0]];
		else
			add_node(f, g, n, number, first_value, owner);
	}
}

static void link_users(struct match_side *s, struct arena *a)
{
	for (uint32_t i = 0; i < s->nnodes; i++)
		for (uint32_t k = 0; k < s->node[i].noperands; k++)
			s->value[s->node[i].operand[k]].nusers++;
	for (uint32_t i = 0; i < s->nvalues; i++) {
		struct match_value *v = &s->value[i];
		v->users = arena_new_n(a, uint32_t, (size_t)v->nusers + 1);
		v->slots = arena_new_n(a, uint32_t, (size_t)v->nusers + 1);
		v->nusers = 0;
	}
	for (uint32_t i = 0; i < s->nnodes; i++)
		for (uint32_t k = 0; k < s->node[i].noperands; k++) {
			struct match_value *v = &s->value[s->node[i].operand[k]];
			v->users[v->nusers] = i;
			v->slots[v->nusers++] = s->node[i].slot[k];
		}
}

static void mark_live(struct match_side *s, uint32_t nout)
{
	for (uint32_t i = 0; i < nout; i++)
		if (s->value[s->out[i]].node != NO_MATCH)
			s->node[s->value[s->out[i]].node].live = true;
	for (uint32_t i = s->nnodes; i-- > 0;)
		for (uint32_t k = 0; s->node[i].live && k < s->node[i].noperands; k++) {
			uint32_t from = s->value[s->node[i].operand[k]].node;
			if (from != NO_MATCH)
				s->node[from].live = true;
		}
}

static void make_side(struct match_side *s, const struct model *m, struct arena *a)
{
	struct flattener f = {.arena = a, .side = s};
	const struct graph *g = m->graph;
	uint32_t *in = arena_new_n(a, uint32_t, (size_t)g->nin + 1);
	uint32_t *out = arena_new_n(a, uint32_t, (size_t)g->nout + 1);

	s->model = m;
	uint32_t *number = number_values(&f, g);
	for (uint32_t i = 0; i < g->nin; i++)
		in[i] = number[g->in[i]];
	flatten(&f, g, number, 0, NO_MATCH);
	for (uint32_t i = 0; i < g->nout; i++)
		out[i] = number[g->out[i]];
	s->in = in;
	s->out = out;
	link_users(s, a);
	mark_live(s, g->nout);
}

/* ---- inputs and outputs */

static bool fits(const struct match_side *a, uint32_t i, const struct match_side *b, uint32_t j,
		 bool out)
{
	const struct vinfo *x = &a->value[out ? a->out[i] : a->in[i]].value->info;
	const struct vinfo *y = &b->value[out ? b->out[j] : b->in[j]].value->info;

	return out || type_equal(x->type, y->type);
}

static const char *port_name(const struct match_side *s, uint32_t i, bool out)
{
	const struct graph *g = s->model->graph;

	return out ? g->out_name[i] : g->value[g->in[i]]->name;
}

static void pair_ports(struct match *m, bool out)
{
	struct match_side *a = &m->side[0], *b = &m->side[1];
	uint32_t na = out ? a->model->graph->nout : a->model->graph->nin;
	uint32_t nb = out ? b->model->graph->nout : b->model->graph->nin;
	uint32_t *to = arena_new_n(m->arena, uint32_t, (size_t)na + 1);
	uint32_t *from = arena_new_n(m->arena, uint32_t, (size_t)nb + 1);
	struct map named = {.arena = m->arena};

	memset(to, 0xff, na * sizeof(*to));
	memset(from, 0xff, nb * sizeof(*from));
	for (uint32_t j = 0; j < nb; j++)
		map_set(&named, port_name(b, j, out), strlen(port_name(b, j, out)), j);
	for (uint32_t i = 0; i < na; i++) {
		const char *name = port_name(a, i, out);
		int64_t j = map_get(&named, name, strlen(name));
		if (j >= 0 && from[j] == NO_MATCH) {
			to[i] = (uint32_t)j;
			from[j] = i;
		}
	}
	for (uint32_t i = 0, j = 0; i < na && j < nb; i++) {
		if (to[i] != NO_MATCH)
			continue;
		while (j < nb && from[j] != NO_MATCH)
			j++;
		if (j < nb && fits(a, i, b, j, out)) {
			to[i] = j;
			from[j] = i;
		}
	}
	*(out ? &a->out_partner : &a->in_partner) = to;
	*(out ? &b->out_partner : &b->in_partner) = from;
}

/* Gives equal numbers to inputs that correspond, and numbers of their own to the others. */
static void number_inputs(struct match *m)
{
	const struct match_side *b = &m->side[1];
	uint32_t na = m->side[0].model->graph->nin;

	for (uint32_t i = 0; i < na; i++)
		m->side[0].value[m->side[0].in[i]].input = i;
	for (uint32_t j = 0; j < b->model->graph->nin; j++)
		b->value[b->in[j]].input = b->in_partner[j] != NO_MATCH ? b->in_partner[j] : na + j;
}

/* ---- hashes of nodes */

struct hashes {
	/* each has one hash a node */
	uint64_t *local; /* of the operator, its attributes, and the contents of the constants that it reads */
	uint64_t *weak;	     /* of the operator and the shapes of its constants */
	uint64_t *form;	     /* of the operator and which of its operands are constants */
	uint64_t *up, *down; /* of `local` of all that leads to the node, of all that follows it */
	uint64_t *form_up, *form_down; /* the same of `form` */
	uint64_t *place;	       /* of the `form` of a node and of those around it */
	uint64_t *content; /* `local` of a node with a weight; others, as a Reshape to a size that many have, are like none */
	uint64_t *around, *next;
};

static void hash_leaves(struct match_side *s)
{
	for (uint32_t i = 0; i < s->nvalues; i++) {
		struct match_value *v = &s->value[i];
		if (v->init)
			v->hash = v->nusers ? hash_tensor(v->init) : 0;
		else if (v->input != NO_MATCH)
			v->hash = hash_mix(1, v->input);
		else
			v->hash = hash_mix(hash_mix(hash_mix(2, v->depth), v->body), v->position);
	}
}

static void hash_local(const struct match_side *s, int side, struct hashes *h)
{
	for (uint32_t i = 0; i < s->nnodes; i++) {
		bool weight = false;
		const struct match_node *n = &s->node[i];
		uint64_t op = hash_mix(hash_text(n->node->type), hash_text(n->node->domain));
		uint64_t attributes = match_attributes_hash(n->node);
		bool commutes = match_commutes(n);
		h->form[i] = h->weak[i] = hash_mix(op, n->noperands);
		h->local[i] = hash_mix(h->weak[i], attributes);
		for (uint32_t k = 0; k < n->noperands; k++) {
			const struct match_value *v = &s->value[n->operand[k]];
			uint32_t slot = commutes ? 0 : n->slot[k];
			if (v->init) {
				h->form[i] += hash_mix(7, slot);
				h->weak[i] += hash_mix(slot, hash_shape(v->init));
				h->local[i] += hash_mix(slot, v->hash);
				weight |= v->init->bytes >= WEIGHT_BYTES;
			}
		}
		h->content[i] = weight ? h->local[i] : hash_mix(hash_mix(8, (uint64_t)side), i);
	}
}

/* Hashes of all that leads to each node, made of those of the nodes, which tell the constants as well. */
static void hash_up(const struct match_side *s, const uint64_t *own, uint64_t *up)
{
	for (uint32_t i = 0; i < s->nnodes; i++) {
		const struct match_node *n = &s->node[i];
		bool commutes = match_commutes(n);
		uint64_t sum = 0;
		for (uint32_t k = 0; k < n->noperands; k++) {
			const struct match_value *v = &s->value[n->operand[k]];
			uint64_t from =
				v->node == NO_MATCH ? v->hash : hash_mix(up[v->node], v->port);
			if (!v->init)
				sum += hash_mix(commutes ? 0 : n->slot[k] + 1, from);
		}
		up[i] = hash_mix(own[i], sum);
	}
}

/* The same of all that follows. */
static void hash_down(const struct match *m, int side, const uint64_t *own, uint64_t *down)
{
	const struct match_side *s = &m->side[side];
	const struct graph *g = s->model->graph;

	memset(down, 0, s->nnodes * sizeof(*down));
	for (uint32_t i = 0; i < g->nout; i++) {
		const struct match_value *v = &s->value[s->out[i]];
		uint32_t number = side && s->out_partner[i] != NO_MATCH ? s->out_partner[i] : i;
		if (v->node != NO_MATCH)
			down[v->node] += hash_mix(hash_mix(3, number), v->port);
	}
	for (uint32_t i = s->nnodes; i-- > 0;) {
		const struct match_node *n = &s->node[i];
		bool commutes = match_commutes(n);
		down[i] = hash_mix(own[i], down[i]);
		for (uint32_t k = 0; n->live && k < n->noperands; k++) {
			const struct match_value *v = &s->value[n->operand[k]];
			if (v->node != NO_MATCH)
				down[v->node] += hash_mix(
					hash_mix(down[i], commutes ? 0 : n->slot[k]), v->port);
		}
	}
}

/* One more step of the neighbourhoods: h->next from h->around. */
static void widen(const struct match_side *s, struct hashes *h)
{
	for (uint32_t i = 0; i < s->nnodes; i++)
		h->next[i] = hash_mix(4, h->around[i]);
	for (uint32_t i = 0; i < s->nnodes; i++) {
		const struct match_node *n = &s->node[i];
		bool commutes = match_commutes(n);
		for (uint32_t k = 0; n->live && k < n->noperands; k++) {
			const struct match_value *v = &s->value[n->operand[k]];
			uint64_t slot = commutes ? 0 : n->slot[k];
			if (v->node == NO_MATCH)
				continue;
			h->next[i] += hash_mix(hash_mix(5, slot), h->around[v->node]);
			h->next[v->node] += hash_mix(hash_mix(6, slot), h->around[i]);
		}
	}
	memcpy(h->around, h->next, s->nnodes * sizeof(*h->around));
}

/* Hashes of the neighbourhoods of this radius, into h->around. */
static void hash_around(const struct match_side *s, struct hashes *h, const uint64_t *own, int radius)
{
	memcpy(h->around, own, s->nnodes * sizeof(*own));
	for (int r = 0; r < radius; r++)
		widen(s, h);
}

/* ---- pairs */

struct matcher {
	struct match *m;
	struct hashes h[2];
	uint32_t *queue; /* nodes of A whose neighbours are still to be looked at */
	uint32_t head, tail;
	struct keyed *keyed[2];
};

static void join(struct matcher *x, uint32_t a, uint32_t b)
{
	x->m->side[0].node[a].partner = b;
	x->m->side[1].node[b].partner = a;
	x->queue[x->tail++] = a;
}

static bool is_free(const struct match_node *n)
{
	return n->live && n->partner == NO_MATCH;
}

static bool same_operator(const struct match_node *a, const struct match_node *b)
{
	return !strcmp(a->node->type, b->node->type) && !strcmp(a->node->domain, b->node->domain);
}

/* Lists the free nodes of a side, sorted by key. */
static uint32_t list_keys(struct matcher *x, int side, const uint64_t *key, const uint64_t *more)
{
	const struct match_side *s = &x->m->side[side];
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->nnodes; i++)
		if (is_free(&s->node[i]))
			x->keyed[side][n++] =
				(struct keyed){more ? hash_mix(key[i], more[i]) : key[i], i};
	keyed_sort(x->keyed[side], n);
	return n;
}

/* How pair_groups pairs nodes with equal keys: in order, only if there are as many on each side, or only if there is one. */
enum group { GROUP_ANY, GROUP_EQUAL, GROUP_SINGLE };

static void pair_groups(struct matcher *x, const uint64_t *a, const uint64_t *b,
			const uint64_t *more_a, const uint64_t *more_b, enum group how)
{
	struct keyed_walk w = {.p = x->keyed[0],
			       .q = x->keyed[1],
			       .p_left = list_keys(x, 0, a, more_a),
			       .q_left = list_keys(x, 1, b, more_b)};

	while (keyed_meet(&w)) {
		bool take = how == GROUP_ANY || (how == GROUP_EQUAL && w.np == w.nq) ||
			    (w.np == 1 && w.nq == 1);
		for (uint32_t k = 0; take && k < w.np && k < w.nq; k++)
			if (same_operator(&x->m->side[0].node[w.p[k].node],
					  &x->m->side[1].node[w.q[k].node]))
				join(x, w.p[k].node, w.q[k].node);
	}
}

/* How alike two neighbours of a pair must be to become a pair as well. */
enum alike { ALIKE_LOCAL, ALIKE_WEAK, ALIKE_PLACE, ALIKE_OPERATOR };

static uint64_t likeness(const struct matcher *x, int side, uint32_t node, enum alike how)
{
	const struct match_node *n = &x->m->side[side].node[node];

	if (how == ALIKE_LOCAL)
		return x->h[side].local[node];
	if (how == ALIKE_WEAK)
		return x->h[side].weak[node];
	if (how == ALIKE_PLACE)
		return x->h[side].place[node];
	return hash_mix(hash_text(n->node->type), hash_text(n->node->domain));
}

static uint32_t list_users(struct matcher *x, int side, const struct match_value *v, enum alike how)
{
	const struct match_side *s = &x->m->side[side];
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->nusers && n < s->nnodes; i++) {
		const struct match_node *u = &s->node[v->users[i]];
		if (is_free(u))
			x->keyed[side][n++] =
				(struct keyed){hash_mix(likeness(x, side, v->users[i], how),
							match_commutes(u) ? 0 : v->slots[i]),
					       v->users[i]};
	}
	keyed_sort(x->keyed[side], n);
	return n;
}

/* Pairs users of two values that correspond, where only one on each side is alike. */
static void pair_users(struct matcher *x, const struct match_value *a, const struct match_value *b,
		       enum alike how)
{
	struct keyed_walk w = {.p = x->keyed[0],
			       .q = x->keyed[1],
			       .p_left = list_users(x, 0, a, how),
			       .q_left = list_users(x, 1, b, how)};

	while (keyed_meet(&w)) {
		struct match_node *u = &x->m->side[0].node[w.p->node],
				  *v = &x->m->side[1].node[w.q->node];
		if (w.np == 1 && w.nq == 1 && is_free(u) && is_free(v) && same_operator(u, v))
			join(x, w.p->node, w.q->node);
	}
}

/* Pairs the makers of two operands in the same place. */
static void pair_makers(struct matcher *x, uint32_t value_a, uint32_t value_b, enum alike how)
{
	const struct match_side *a = &x->m->side[0], *b = &x->m->side[1];
	const struct match_value *v = &a->value[value_a], *w = &b->value[value_b];

	if (v->node == NO_MATCH || w->node == NO_MATCH || v->port != w->port ||
	    !is_free(&a->node[v->node]) || !is_free(&b->node[w->node]) ||
	    !same_operator(&a->node[v->node], &b->node[w->node]) ||
	    likeness(x, 0, v->node, how) != likeness(x, 1, w->node, how))
		return;
	join(x, v->node, w->node);
}

static bool free_maker(const struct match_side *s, uint32_t value)
{
	return s->value[value].node != NO_MATCH && is_free(&s->node[s->value[value].node]);
}

/* Whether both operands have free makers that are alike, so that nothing here tells which of them is which. */
static bool ambiguous(const struct matcher *x, int side, const struct match_node *n, enum alike how)
{
	const struct match_side *s = &x->m->side[side];

	return free_maker(s, n->operand[0]) && free_maker(s, n->operand[1]) &&
	       likeness(x, side, s->value[n->operand[0]].node, how) ==
		       likeness(x, side, s->value[n->operand[1]].node, how);
}

/* Pairs the makers of the operands of a commutative operator, whichever way round they are. */
static void pair_either(struct matcher *x, const struct match_node *a, const struct match_node *b,
			enum alike how)
{
	if (ambiguous(x, 0, a, how) || ambiguous(x, 1, b, how))
		return;
	for (uint32_t i = 0; i < 2; i++) {
		pair_makers(x, a->operand[i], b->operand[i], how);
		pair_makers(x, a->operand[i], b->operand[1 - i], how);
	}
}

static void pair_operands(struct matcher *x, const struct match_node *a, const struct match_node *b,
			  enum alike how)
{
	if (match_commutes(a) && match_commutes(b)) {
		pair_either(x, a, b, how);
		return;
	}
	for (uint32_t i = 0, j = 0; i < a->noperands && j < b->noperands;) {
		if (a->slot[i] != b->slot[j]) {
			*(a->slot[i] < b->slot[j] ? &i : &j) += 1;
			continue;
		}
		pair_makers(x, a->operand[i++], b->operand[j++], how);
	}
}

/* Returns the number of the value that output `port` of a node is, or NO_MATCH if nothing of the side has it. */
static uint32_t match_output(const struct match *m, int side, uint32_t node, uint32_t port)
{
	const struct match_side *s = &m->side[side];
	const struct match_node *n = &s->node[node];

	/* the values of a graph have consecutive numbers, and those of a node's outputs are its own */
	if (port >= n->node->nout || n->node->out[port] == NO_VALUE)
		return NO_MATCH;
	uint32_t v = n->first_value + n->node->out[port];
	return s->value[v].node == node ? v : NO_MATCH;
}

/* Goes out from all pairs, the inputs and the outputs, as long as neighbours become pairs. */
static void spread(struct matcher *x, enum alike how)
{
	struct match_side *a = &x->m->side[0], *b = &x->m->side[1];
	const struct graph *g = a->model->graph;

	x->head = x->tail = 0;
	for (uint32_t i = 0; i < a->nnodes; i++)
		if (a->node[i].partner != NO_MATCH)
			x->queue[x->tail++] = i;
	for (uint32_t i = 0; i < g->nout; i++)
		if (a->out_partner[i] != NO_MATCH)
			pair_makers(x, a->out[i], b->out[a->out_partner[i]], how);
	for (uint32_t i = 0; i < g->nin; i++)
		if (a->in_partner[i] != NO_MATCH)
			pair_users(x, &a->value[a->in[i]], &b->value[b->in[a->in_partner[i]]], how);
	while (x->head < x->tail) {
		uint32_t at = x->queue[x->head++];
		const struct match_node *n = &a->node[at], *p = &b->node[n->partner];
		pair_operands(x, n, p, how);
		for (uint32_t k = 0; k < n->node->nout && k < p->node->nout; k++) {
			uint32_t v = match_output(x->m, 0, at, k);
			uint32_t w = match_output(x->m, 1, n->partner, k);
			if (v != NO_MATCH && w != NO_MATCH)
				pair_users(x, &a->value[v], &b->value[w], how);
		}
	}
}

/* A node in whose place another operator stands: all that it reads and at least one thing that reads it correspond. */
static bool stands_for(const struct match *m, const struct match_node *a, const struct match_node *b)
{
	const struct match_side *sa = &m->side[0], *sb = &m->side[1];
	bool any = false;

	for (uint32_t i = 0, j = 0; i < a->noperands && j < b->noperands; i++, j++) {
		const struct match_value *v = &sa->value[a->operand[i]],
					 *w = &sb->value[b->operand[j]];
		if (v->init || w->init)
			continue;
		if (v->node != NO_MATCH ? w->node == NO_MATCH || sa->node[v->node].partner != w->node ||
						  v->port != w->port
					: w->node != NO_MATCH || v->hash != w->hash)
			return false;
		any = true;
	}
	return any && a->node->nsub == b->node->nsub;
}

static void pair_replaced(struct matcher *x, uint32_t value_a, uint32_t value_b)
{
	struct match_side *a = &x->m->side[0], *b = &x->m->side[1];
	const struct match_value *v = &a->value[value_a], *w = &b->value[value_b];

	if (v->node != NO_MATCH && w->node != NO_MATCH && v->port == w->port &&
	    is_free(&a->node[v->node]) && is_free(&b->node[w->node]) &&
	    stands_for(x->m, &a->node[v->node], &b->node[w->node]))
		join(x, v->node, w->node);
}

/* Pairs nodes of different operators that stand in the same place. */
static void find_replaced(struct matcher *x)
{
	struct match_side *a = &x->m->side[0], *b = &x->m->side[1];

	x->tail = 0;
	for (uint32_t i = 0; i < a->model->graph->nout; i++)
		if (a->out_partner[i] != NO_MATCH)
			pair_replaced(x, a->out[i], b->out[a->out_partner[i]]);
	for (uint32_t i = 0; i < a->nnodes; i++) {
		const struct match_node *n = &a->node[i];
		const struct match_node *p = n->partner == NO_MATCH ? NULL : &b->node[n->partner];
		for (uint32_t k = 0; p && k < n->noperands && k < p->noperands; k++)
			if (n->slot[k] == p->slot[k])
				pair_replaced(x, n->operand[k], p->operand[k]);
	}
}

static void make_hashes(struct matcher *x, int side)
{
	struct match_side *s = &x->m->side[side];
	struct hashes *h = &x->h[side];
	uint64_t **all[] = {&h->local,	 &h->weak,    &h->form,	     &h->up,
			    &h->down,	 &h->form_up, &h->form_down, &h->place,
			    &h->content, &h->around,  &h->next};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		*all[i] = arena_new_n(x->m->arena, uint64_t, (size_t)s->nnodes + 1);
	x->keyed[side] = arena_new_n(x->m->arena, struct keyed, (size_t)s->nnodes + 1);
	hash_leaves(s);
	hash_local(s, side, h);
	hash_up(s, h->local, h->up);
	hash_down(x->m, side, h->local, h->down);
	hash_up(s, h->form, h->form_up);
	hash_down(x->m, side, h->form, h->form_down);
	hash_around(s, h, h->form, RADIUS / 2);
	memcpy(h->place, h->around, s->nnodes * sizeof(*h->place));
}

/* Pairs what has equal neighbourhoods, the largest first. */
static void pair_around(struct matcher *x, const uint64_t *from_a, const uint64_t *from_b, int least)
{
	struct hashes *a = &x->h[0], *b = &x->h[1];

	for (int radius = RADIUS; radius >= least; radius--) {
		hash_around(&x->m->side[0], a, from_a, radius);
		hash_around(&x->m->side[1], b, from_b, radius);
		pair_groups(x, a->around, b->around, NULL, NULL, GROUP_SINGLE);
		spread(x, ALIKE_LOCAL);
	}
}

static void pair_nodes(struct matcher *x)
{
	const struct hashes *a = &x->h[0], *b = &x->h[1];

	/* what computes the same may stand for one another, but which of them did an edit leave? Their surroundings tell */
	pair_groups(x, a->up, b->up, a->down, b->down, GROUP_EQUAL);
	/* before operands are paired by their places, which an edit may have swapped */
	pair_groups(x, a->up, b->up, NULL, NULL, GROUP_SINGLE);
	spread(x, ALIKE_LOCAL);
	pair_groups(x, a->down, b->down, NULL, NULL, GROUP_SINGLE);
	spread(x, ALIKE_LOCAL);
	/* the same place in all of the network says more than an equal weight: with other widths, one layer's size is another's */
	pair_groups(x, a->form_up, b->form_up, a->form_down, b->form_down, GROUP_SINGLE);
	spread(x, ALIKE_LOCAL);
	pair_around(x, a->local, b->local, 1);
	pair_groups(x, a->content, b->content, NULL, NULL, GROUP_SINGLE);
	spread(x, ALIKE_LOCAL);
	pair_groups(x, a->up, b->up, NULL, NULL, GROUP_ANY);
	spread(x, ALIKE_WEAK);
	pair_groups(x, a->form_up, b->form_up, NULL, NULL, GROUP_SINGLE);
	pair_groups(x, a->form_down, b->form_down, NULL, NULL, GROUP_SINGLE);
	spread(x, ALIKE_PLACE);
	pair_groups(x, a->local, b->local, NULL, NULL, GROUP_SINGLE);
	spread(x, ALIKE_LOCAL);
	pair_around(x, a->weak, b->weak, 0);
	spread(x, ALIKE_OPERATOR);
	find_replaced(x);
	spread(x, ALIKE_OPERATOR);
	find_replaced(x);
	x->tail = 0;
	pair_groups(x, a->weak, b->weak, NULL, NULL, GROUP_EQUAL);
	spread(x, ALIKE_OPERATOR);
	find_replaced(x);
}

struct match *match_models(const struct model *a, const struct model *b, struct arena *arena)
{
	struct match *m = arena_new(arena, struct match);
	struct matcher x = {.m = m};

	m->arena = arena;
	make_side(&m->side[0], a, arena);
	make_side(&m->side[1], b, arena);
	pair_ports(m, false);
	pair_ports(m, true);
	number_inputs(m);
	make_hashes(&x, 0);
	make_hashes(&x, 1);
	/* one phase adds each node once at most, beyond those that are pairs when it begins */
	x.queue = arena_new_n(arena, uint32_t, 2 * (size_t)m->side[0].nnodes + 1);
	pair_nodes(&x);
	return m;
}
