/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/diff.h"

#include "base/hash.h"
#include "base/str.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 120 /* bytes of an attribute's value */ };

struct differ {
	struct diff_report *r;
	enum diff_mode mode;
	struct match *m;
	struct arena *arena;
	struct map class_of; /* what a node or leaf computes, as bytes: its class */
	uint32_t classes;
	uint32_t *value_class[2]; /* by value */
	uint32_t *node_class[2];  /* by node */
	bool *in_other[2];	  /* by node: a class that the other side has too */
	struct map compared;	  /* pairs of constants */
	uint32_t at[2];		  /* nodes that are being compared, or NO_MATCH */
};

const char *diff_kind_name(enum diff_kind kind)
{
	static const char *const names[DIFF_KINDS] = {"interface", "operators", "attributes",
						      "weights",   "opsets",	"metadata"};
	return names[kind];
}

static void add(struct differ *x, struct diff_item item)
{
	struct diff_report *r = x->r;

	if (r->nitems == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 32;
		r->item = arena_grow(x->arena, r->item, r->nitems, r->cap, sizeof(*r->item));
	}
	r->item[r->nitems] = item;
	memcpy(r->item[r->nitems].node, x->at, sizeof(x->at));
	r->count[item.kind]++;
	r->nitems++;
}

static const char *number(struct differ *x, int64_t v)
{
	return arena_printf(x->arena, "%" PRId64, v);
}

static const char *title(const struct match_node *n)
{
	return n->node->origin && n->node->origin->name ? n->node->origin->name : n->node->type;
}

static const char *slot_name(struct differ *x, const struct match_node *n, uint32_t slot)
{
	if (slot >= MATCH_BODY_SLOT)
		return arena_printf(x->arena, "output %u of body %u", slot % MATCH_BODY_SLOT,
				    slot / MATCH_BODY_SLOT - 1);
	struct op row = n->node->op ? op_resolved(n->node->op) : (struct op){0};
	const struct slot *s = row.in ? slot_at(row.in, slot) : NULL;
	return s && s->name ? arena_printf(x->arena, "input %u (%s)", slot, s->name)
			    : arena_printf(x->arena, "input %u", slot);
}

/* ---- constants */

static bool is_number(enum dtype t)
{
	return t != DT_STRING && t != DT_C64 && t != DT_C128;
}

static void measure(const struct tensor *a, const struct tensor *b, struct difference *d)
{
	const struct tolerance none = {0, 0};

	if (tensor_dtype(a) != tensor_dtype(b) || tensor_dtype(a) == DT_BF16)
		compare_as_numbers(b, a, none, d);
	else
		(void)compare_tensors(b, a, none, d);
}

static const char *tensor_text(struct differ *x, const struct tensor *t)
{
	const char *type = arena_printf(x->arena, "%s %s", type_str(x->arena, t->type),
					shape_str(x->arena, &t->shape, NULL));

	if (t->type.kind != V_TENSOR || tensor_count(t) != 1 || !is_number(tensor_dtype(t)))
		return type;
	return arena_printf(x->arena, "%s = %s", type,
			    str_double(x->arena, elem_f64(tensor_dtype(t), t->data, 0)));
}

/* How far a result may be from another one of the same terms, computed in another order or precision: some units in the last place. */
static double rounding_of(enum dtype t)
{
	return t == DT_F32    ? 16 * 0x1p-23
	       : t == DT_F16  ? 2 * 0x1p-10
	       : t == DT_BF16 ? 2 * 0x1p-7
	       : t == DT_F64  ? 16 * 0x1p-23 /* often computed in fp32 by one of both */
			      : 0;
}

/* Whether the constants differ by rounding alone, measured by their largest element: others may be small by cancellation. */
static bool within_rounding(struct differ *x, const struct tensor *a, const struct tensor *b,
			    const struct difference *far)
{
	const struct tolerance some = {0, rounding_of(tensor_dtype(a)) * far->max_want};
	struct difference d;

	if (x->mode != DIFF_ROUNDING || some.atol == 0 || !isfinite(some.atol))
		return false;
	compare_as_numbers(b, a, some, &d);
	if (d.beyond)
		return false;
	x->r->rounded++;
	x->r->rounding = fmax(x->r->rounding, far->max_abs);
	return true;
}

/* Adds an item if the constants differ in type, shape or value. */
static void compare_constants(struct differ *x, enum diff_kind kind, const char *what,
			      const char *where_a, const char *where_b, const struct tensor *a,
			      const struct tensor *b)
{
	struct diff_item item = {.kind = kind, .what = what, .where = {where_a, where_b}};

	if (a == b)
		return;
	bool same_shape = shape_equal(&a->shape, &b->shape);
	bool same_type = tensor_dtype(a) == tensor_dtype(b);
	bool numbers = is_number(tensor_dtype(a)) && is_number(tensor_dtype(b));

	if (same_type && same_shape && tensor_same(a, b))
		return;
	if (same_shape && (same_type || numbers)) {
		measure(a, b, &item.far);
		item.elements = item.far.beyond;
		if (same_type && !item.far.beyond)
			return; /* 0 and -0, or two sorts of NaN */
		if (same_type && within_rounding(x, a, b, &item.far))
			return;
		item.measured = true;
	}
	item.value[0] = tensor_text(x, a);
	item.value[1] = tensor_text(x, b);
	add(x, item);
}

/* The node that reads a weight, and the weight's name; in a normal form one that was computed has none. */
static const char *weight_place(struct differ *x, const struct match_node *n,
				const struct match_value *v)
{
	const char *name = v->value->name;

	return name && *name ? arena_printf(x->arena, "%s %s", title(n), name) : title(n);
}

static void compare_weights(struct differ *x, const struct match_node *a, const struct match_node *b,
			    uint32_t slot, const struct match_value *v, const struct match_value *w)
{
	const void *key[2] = {v->init, w->init};

	if (!map_set(&x->compared, arena_dup(x->arena, key, sizeof(key)), sizeof(key), 0))
		return;
	x->r->weights++;
	x->r->elements += (uint64_t)tensor_count(v->init);
	const char *place_a = weight_place(x, a, v), *place_b = weight_place(x, b, w);
	compare_constants(x, DIFF_WEIGHTS,
			  arena_printf(x->arena, "%s of %s", slot_name(x, a, slot),
				       match_operator(a, x->arena)),
			  place_a, place_b, v->init, w->init);
}

const char *diff_far_text(const struct diff_item *item, struct arena *a)
{
	const struct difference *d = &item->far;

	if (!item->measured)
		return "";
	if (d->max_abs == 0)
		return arena_printf(a, "%s of %s elements", str_count(a, item->elements),
				    str_count(a, d->count));
	return arena_printf(a, "%s of %s elements, max abs %.4g, relative %.4g, cosine distance %.4g",
			    str_count(a, item->elements), str_count(a, d->count), d->max_abs,
			    difference_l2(d), difference_cosine(d));
}

/* ---- attributes */

static const char *cut(struct differ *x, const char *s)
{
	return s && strlen(s) > SHOWN ? arena_printf(x->arena, "%.*s...", SHOWN, s) : s;
}

/* A list of numbers as a tensor, so that it is measured like a weight; false if there is none. */
static bool list_tensor(const struct field *f, const void *params, struct tensor *t)
{
	const struct ints *list = (const void *)((const char *)params + f->off);

	if ((f->type != F_INTS && f->type != F_FLOATS) || list->n <= 16)
		return false;
	*t = (struct tensor){.type = type_tensor(f->type == F_INTS ? DT_I64 : DT_F32),
			     .shape = {.rank = 1, .dim = {list->n}},
			     .data = (void *)(uintptr_t)list->v,
			     .bytes = (size_t)list->n * (f->type == F_INTS ? 8 : 4)};
	return true;
}

static bool near_floats(const struct field *f, const void *p, const struct field *g, const void *q)
{
	float v, w;

	if (f->type != F_FLOAT || g->type != F_FLOAT)
		return false;
	memcpy(&v, (const char *)p + f->off, sizeof(v));
	memcpy(&w, (const char *)q + g->off, sizeof(w));
	return fabs((double)v - (double)w) <= rounding_of(DT_F32) * fabs((double)v);
}

static void compare_field(struct differ *x, const struct match_node *a, const struct match_node *b,
			  const struct field *f, const struct field *g)
{
	const void *p = a->node->params, *q = b->node->params;
	const char *what =
		arena_printf(x->arena, "attribute %s of %s", f->name, match_operator(a, x->arena));
	struct tensor s, t;

	if (f->type == F_TENSOR && g->type == F_TENSOR) {
		const struct tensor *v = *(const struct tensor *const *)((const char *)p + f->off);
		const struct tensor *w = *(const struct tensor *const *)((const char *)q + g->off);
		if (v && w)
			compare_constants(x, DIFF_ATTRIBUTES, what, title(a), title(b), v, w);
		else if (v || w)
			add(x, (struct diff_item){.kind = DIFF_ATTRIBUTES,
						  .what = what,
						  .where = {title(a), title(b)},
						  .value = {v ? tensor_text(x, v) : NULL,
							    w ? tensor_text(x, w) : NULL}});
	} else if (list_tensor(f, p, &s) && list_tensor(g, q, &t) && f->type == g->type) {
		compare_constants(x, DIFF_ATTRIBUTES, what, title(a), title(b), &s, &t);
	} else if (f->type != F_GRAPH) {
		const char *v = field_print(f, p, x->arena), *w = field_print(g, q, x->arena);
		if (v != w && x->mode == DIFF_ROUNDING && near_floats(f, p, g, q))
			return;
		if (v != w && (!v || !w || strcmp(v, w) != 0))
			add(x, (struct diff_item){.kind = DIFF_ATTRIBUTES,
						  .what = what,
						  .where = {title(a), title(b)},
						  .value = {cut(x, v), cut(x, w)}});
	}
}

/* An attribute that only one version of the operator has, and that is not at its default. */
static void compare_lone_field(struct differ *x, const struct match_node *a,
			       const struct match_node *b, const struct field *f, int side)
{
	const struct match_node *n = side ? b : a;
	struct op row = op_resolved(n->node->op);
	void *plain = arena_alloc(x->arena, row.params_size + 1);
	const char *v = field_print(f, n->node->params, x->arena);

	field_defaults(row.attrs, plain, x->arena);
	const char *usual = field_print(f, plain, x->arena);
	if (!v || (usual && !strcmp(v, usual)))
		return;
	struct diff_item item = {.kind = DIFF_ATTRIBUTES,
				 .what = arena_printf(x->arena, "attribute %s of %s", f->name,
						      match_operator(n, x->arena)),
				 .where = {title(a), title(b)}};
	item.value[side] = cut(x, v);
	add(x, item);
}

/* Tells a meaning of the operator that its newest version has no longer, as attributes and operands may then read the same. */
static void compare_versions(struct differ *x, const struct match_node *a, const struct match_node *b)
{
	int old[2] = {match_old_meaning(a->node), match_old_meaning(b->node)};

	if (old[0] == old[1] || !a->node->op || !b->node->op ||
	    strcmp(a->node->type, b->node->type) != 0)
		return;
	add(x, (struct diff_item){
		       .kind = DIFF_OPERATORS,
		       .what = arena_printf(x->arena, "version of %s", match_operator(a, x->arena)),
		       .where = {title(a), title(b)},
		       .value = {number(x, a->node->op->since), number(x, b->node->op->since)}});
}

static void compare_attributes(struct differ *x, const struct match_node *a,
			       const struct match_node *b)
{
	const struct node *p = a->node, *q = b->node;

	if (!p->op && !q->op && p->unread != q->unread)
		add(x, (struct diff_item){.kind = DIFF_ATTRIBUTES,
					  .what = arena_printf(x->arena, "attributes of %s",
							       match_operator(a, x->arena)),
					  .where = {title(a), title(b)}});
	if (!p->op || !q->op || !p->params || !q->params || strcmp(p->type, q->type) != 0)
		return;
	struct op row = op_resolved(p->op), other = op_resolved(q->op);
	for (const struct field *f = row.attrs; f && f->name; f++) {
		const struct field *g = other.attrs ? field_find(other.attrs, f->name) : NULL;
		if (g)
			compare_field(x, a, b, f, g);
		else
			compare_lone_field(x, a, b, f, 0);
	}
	for (const struct field *g = other.attrs; g && g->name; g++)
		if (!row.attrs || !field_find(row.attrs, g->name))
			compare_lone_field(x, a, b, g, 1);
}

/* ---- classes: equal ones stand for equal computations */

static uint32_t intern(struct differ *x, const uint64_t *key, size_t n, uint32_t fresh)
{
	const char *bytes = (const char *)key;
	int64_t known = map_get(&x->class_of, bytes, n * sizeof(*key));

	if (known >= 0)
		return (uint32_t)known;
	map_set(&x->class_of, arena_dup(x->arena, key, n * sizeof(*key)), n * sizeof(*key), fresh);
	return fresh;
}

static uint32_t classify(struct differ *x, const uint64_t *key, size_t n)
{
	uint32_t c = intern(x, key, n, x->classes);

	x->classes += c == x->classes;
	return c;
}

enum { CLASS_CONSTANT, CLASS_INPUT, CLASS_BODY, CLASS_OUTPUT, CLASS_NODE };

static uint32_t leaf_class(struct differ *x, const struct match_value *v)
{
	const uint64_t constant[] = {CLASS_CONSTANT, v->hash};
	const uint64_t input[] = {CLASS_INPUT, v->input};
	const uint64_t body[] = {CLASS_BODY, v->depth, v->body, v->position};

	if (v->init)
		return classify(x, constant, 2);
	if (v->input != NO_MATCH)
		return classify(x, input, 2);
	return classify(x, body, 4);
}

static uint32_t value_class(struct differ *x, int side, uint32_t value)
{
	const struct match_value *v = &x->m->side[side].value[value];

	if (v->node == NO_MATCH)
		return leaf_class(x, v);
	const uint64_t output[] = {CLASS_OUTPUT, x->node_class[side][v->node], v->port};
	return classify(x, output, 3);
}

static uint32_t own_class(struct differ *x, int side, uint32_t node)
{
	const struct match_node *n = &x->m->side[side].node[node];
	uint64_t *key = arena_new_n(x->arena, uint64_t, 6 + 2 * (size_t)n->noperands);
	size_t at = 0;

	key[at++] = CLASS_NODE;
	key[at++] = hash_text(n->node->type);
	key[at++] = hash_text(n->node->domain);
	key[at++] = match_attributes_hash(n->node);
	key[at++] = (uint64_t)match_old_meaning(n->node);
	key[at++] = n->node->op && (op_flags(n->node->op) & OP_RANDOM) ? x->classes : 0;
	for (uint32_t k = 0; k < n->noperands; k++) {
		key[at++] = n->slot[k];
		key[at++] = value_class(x, side, n->operand[k]);
	}
	if (match_commutes(n) && key[at - 3] > key[at - 1]) {
		uint64_t c = key[at - 3];
		key[at - 3] = key[at - 1];
		key[at - 1] = c;
	}
	return classify(x, key, at);
}

static void find_classes(struct differ *x)
{
	for (int side = 0; side < 2; side++) {
		const struct match_side *s = &x->m->side[side];
		x->node_class[side] = arena_new_n(x->arena, uint32_t, (size_t)s->nnodes + 1);
		for (uint32_t i = 0; i < s->nnodes; i++) {
			uint32_t partner = s->node[i].partner;
			x->node_class[side][i] = side && partner != NO_MATCH
							 ? x->node_class[0][partner]
							 : own_class(x, side, i);
		}
	}
	for (int side = 0; side < 2; side++) {
		const struct match_side *s = &x->m->side[side], *o = &x->m->side[!side];
		bool *has = arena_new_n(x->arena, bool, (size_t)x->classes + 1);
		x->in_other[side] = arena_new_n(x->arena, bool, (size_t)s->nnodes + 1);
		for (uint32_t i = 0; i < o->nnodes; i++)
			has[x->node_class[!side][i]] |= o->node[i].live;
		for (uint32_t i = 0; i < s->nnodes; i++)
			x->in_other[side][i] = has[x->node_class[side][i]];
	}
}

/* ---- nodes */

static bool stands_alone(const struct differ *x, int side, uint32_t value)
{
	const struct match_side *s = &x->m->side[side];
	uint32_t node = s->value[value].node;

	return node != NO_MATCH && s->node[node].partner == NO_MATCH && !x->in_other[side][node];
}

static const char *source(struct differ *x, int side, uint32_t value)
{
	const struct match_side *s = &x->m->side[side];
	const struct match_value *v = &s->value[value];
	const char *name =
		v->value->name && *v->value->name ? v->value->name : "a value without name";

	if (v->init)
		return arena_printf(x->arena, "constant %s", name);
	if (v->node == NO_MATCH)
		return arena_printf(x->arena, "input %s", name);
	return arena_printf(x->arena, "%s of %s (%s)", name, title(&s->node[v->node]),
			    match_operator(&s->node[v->node], x->arena));
}

static bool same_source(struct differ *x, uint32_t v, uint32_t w)
{
	const struct match_value *a = &x->m->side[0].value[v], *b = &x->m->side[1].value[w];

	if (a->init && b->init)
		return shape_equal(&a->init->shape, &b->init->shape);
	return !a->init && !b->init && value_class(x, 0, v) == value_class(x, 1, w);
}

static void compare_operand(struct differ *x, const struct match_node *a,
			    const struct match_node *b, uint32_t slot, uint32_t v, uint32_t w)
{
	if (v != NO_MATCH && w != NO_MATCH) {
		const struct match_value *p = &x->m->side[0].value[v], *q = &x->m->side[1].value[w];
		if (p->init && q->init) {
			compare_weights(x, a, b, slot, p, q);
			return;
		}
		if (same_source(x, v, w))
			return;
	}
	/* a node that only one side has is told by itself */
	if ((v != NO_MATCH && stands_alone(x, 0, v)) || (w != NO_MATCH && stands_alone(x, 1, w)))
		return;
	add(x, (struct diff_item){.kind = DIFF_OPERATORS,
				  .what = arena_printf(x->arena, "%s of %s", slot_name(x, a, slot),
						       match_operator(a, x->arena)),
				  .where = {title(a), title(b)},
				  .value = {v == NO_MATCH ? NULL : source(x, 0, v),
					    w == NO_MATCH ? NULL : source(x, 1, w)}});
}

static void compare_operands(struct differ *x, const struct match_node *a, const struct match_node *b)
{
	if (match_commutes(a) && match_commutes(b)) {
		int straight = same_source(x, a->operand[0], b->operand[0]) +
			       same_source(x, a->operand[1], b->operand[1]);
		int crossed = same_source(x, a->operand[0], b->operand[1]) +
			      same_source(x, a->operand[1], b->operand[0]);
		for (uint32_t k = 0; k < 2; k++)
			compare_operand(x, a, b, k, a->operand[k],
					b->operand[crossed > straight ? 1 - k : k]);
		return;
	}
	for (uint32_t i = 0, j = 0; i < a->noperands || j < b->noperands;) {
		uint32_t p = i < a->noperands ? a->slot[i] : UINT32_MAX;
		uint32_t q = j < b->noperands ? b->slot[j] : UINT32_MAX;
		compare_operand(x, a, b, p < q ? p : q, p <= q ? a->operand[i] : NO_MATCH,
				q <= p ? b->operand[j] : NO_MATCH);
		i += p <= q;
		j += q <= p;
	}
}

static void compare_pair(struct differ *x, const struct match_node *a, const struct match_node *b)
{
	const char *p = match_operator(a, x->arena), *q = match_operator(b, x->arena);

	if (strcmp(p, q) != 0) {
		add(x, (struct diff_item){.kind = DIFF_OPERATORS,
					  .what = "operator",
					  .where = {title(a), title(b)},
					  .value = {p, q}});
	} else {
		compare_versions(x, a, b);
		compare_attributes(x, a, b);
	}
	compare_operands(x, a, b);
}

static void tell_alone(struct differ *x, int side, uint32_t node)
{
	const struct match_node *n = &x->m->side[side].node[node];
	struct diff_item item = {.kind = DIFF_OPERATORS, .what = side ? "node added" : "node removed"};

	if (x->in_other[side][node])
		return;
	item.where[side] = title(n);
	item.value[side] = match_operator(n, x->arena);
	x->at[side] = node;
	add(x, item);
	x->at[side] = NO_MATCH;
}

static void compare_nodes(struct differ *x)
{
	const struct match_side *a = &x->m->side[0], *b = &x->m->side[1];

	for (uint32_t i = 0; i < a->nnodes; i++) {
		x->r->nodes[0] += a->node[i].live;
		if (a->node[i].partner != NO_MATCH) {
			x->r->pairs++;
			x->at[0] = i;
			x->at[1] = a->node[i].partner;
			compare_pair(x, &a->node[i], &b->node[a->node[i].partner]);
			x->at[0] = x->at[1] = NO_MATCH;
		} else if (a->node[i].live) {
			tell_alone(x, 0, i);
		}
	}
	for (uint32_t i = 0; i < b->nnodes; i++) {
		x->r->nodes[1] += b->node[i].live;
		if (b->node[i].live && b->node[i].partner == NO_MATCH)
			tell_alone(x, 1, i);
	}
}

/* ---- interface */

static const char *port_text(struct differ *x, const struct match_side *s, const struct value *v)
{
	return arena_printf(x->arena, "%s %s", type_str(x->arena, v->info.type),
			    v->info.type.kind == V_TENSOR
				    ? shape_str(x->arena, &v->info.shape, s->model->symbols)
				    : "");
}

/* Whether the shapes say the same: names of free dimensions do not count. */
static bool same_declared(const struct vinfo *a, const struct vinfo *b)
{
	if (!type_equal(a->type, b->type) || a->shape.rank != b->shape.rank)
		return false;
	for (int i = 0; a->type.kind == V_TENSOR && i < a->shape.rank; i++)
		if (a->shape.dim[i] != b->shape.dim[i] &&
		    (a->shape.dim[i] >= 0 || b->shape.dim[i] >= 0))
			return false;
	return true;
}

static const struct value *port(const struct match_side *s, uint32_t i, bool out)
{
	const struct graph *g = s->model->graph;

	return g->value[out ? g->out[i] : g->in[i]];
}

static const char *name_of(const struct match_side *s, uint32_t i, bool out)
{
	return out ? s->model->graph->out_name[i] : port(s, i, out)->name;
}

static void compare_port(struct differ *x, uint32_t i, uint32_t j, bool out)
{
	const struct match_side *a = &x->m->side[0], *b = &x->m->side[1];
	const char *word = out ? "output" : "input";
	const char *p = name_of(a, i, out), *q = name_of(b, j, out);

	if (strcmp(p, q) != 0)
		add(x, (struct diff_item){.kind = DIFF_INTERFACE,
					  .what = arena_printf(x->arena, "name of %s %u", word, i),
					  .where = {p, q},
					  .value = {p, q}});
	if (!same_declared(&port(a, i, out)->info, &port(b, j, out)->info))
		add(x, (struct diff_item){.kind = DIFF_INTERFACE,
					  .what = word,
					  .where = {p, q},
					  .value = {port_text(x, a, port(a, i, out)),
						    port_text(x, b, port(b, j, out))}});
	if (!out)
		return;
	uint32_t v = a->out[i], w = b->out[j];
	const struct match_value *s = &a->value[v], *t = &b->value[w];
	if (s->init && t->init)
		compare_constants(x, DIFF_WEIGHTS, "constant output", p, q, s->init, t->init);
	else if (!same_source(x, v, w) && !stands_alone(x, 0, v) && !stands_alone(x, 1, w))
		add(x, (struct diff_item){.kind = DIFF_OPERATORS,
					  .what = "source of the output",
					  .where = {p, q},
					  .value = {source(x, 0, v), source(x, 1, w)}});
}

static void compare_ports(struct differ *x, bool out)
{
	const struct match_side *s = x->m->side;

	for (int side = 0; side < 2; side++) {
		const struct graph *g = s[side].model->graph;
		const uint32_t *partner = out ? s[side].out_partner : s[side].in_partner;
		for (uint32_t i = 0; i < (out ? g->nout : g->nin); i++) {
			struct diff_item item = {.kind = DIFF_INTERFACE,
						 .what = arena_printf(x->arena, "%s %s",
								      out ? "output" : "input",
								      side ? "added" : "removed")};
			if (partner[i] != NO_MATCH) {
				if (!side)
					compare_port(x, i, partner[i], out);
				continue;
			}
			item.where[side] = name_of(&s[side], i, out);
			item.value[side] = port_text(x, &s[side], port(&s[side], i, out));
			add(x, item);
		}
	}
}

/* Corresponding ports must stand in the same order, since programs may go by position. */
static void compare_order(struct differ *x, bool out)
{
	const struct match_side *a = &x->m->side[0], *b = &x->m->side[1];
	const uint32_t *partner = out ? a->out_partner : a->in_partner;
	uint32_t last = 0, n = out ? a->model->graph->nout : a->model->graph->nin;
	struct str order[2] = {{.arena = x->arena}, {.arena = x->arena}};
	bool moved = false;

	for (uint32_t i = 0; i < n; i++) {
		if (partner[i] == NO_MATCH)
			continue;
		moved |= partner[i] < last;
		last = partner[i];
	}
	if (!moved)
		return;
	for (uint32_t i = 0; i < n; i++)
		str_addf(&order[0], "%s%s", i ? ", " : "", name_of(a, i, out));
	for (uint32_t j = 0; j < (out ? b->model->graph->nout : b->model->graph->nin); j++)
		str_addf(&order[1], "%s%s", j ? ", " : "", name_of(b, j, out));
	add(x, (struct diff_item){.kind = DIFF_INTERFACE,
				  .what = out ? "order of the outputs" : "order of the inputs",
				  .where = {NULL, NULL},
				  .value = {str_get(&order[0]), str_get(&order[1])}});
}

/* ---- the model's own fields */

static void compare_opset(struct differ *x, const char *domain)
{
	int64_t v[2];
	struct diff_item item = {
		.kind = DIFF_OPSETS,
		.what = arena_printf(x->arena, "opset of %s", *domain ? domain : "ai.onnx")};

	for (int side = 0; side < 2; side++) {
		v[side] = model_opset(x->m->side[side].model, domain);
		item.value[side] = v[side] ? arena_printf(x->arena, "%" PRId64, v[side]) : NULL;
	}
	if (v[0] != v[1])
		add(x, item);
}

static void compare_text(struct differ *x, const char *what, const char *a, const char *b)
{
	if (a != b && (!a || !b || strcmp(a, b) != 0))
		add(x, (struct diff_item){.kind = DIFF_METADATA,
					  .what = what,
					  .where = {NULL, NULL},
					  .value = {cut(x, a), cut(x, b)}});
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct meta *)a)->key, ((const struct meta *)b)->key);
}

static struct meta *sorted(struct differ *x, const struct model *m)
{
	struct meta *v = arena_new_n(x->arena, struct meta, m->nmeta + 1);

	if (m->nmeta)
		memcpy(v, m->meta, m->nmeta * sizeof(*v));
	qsort(v, m->nmeta, sizeof(*v), by_name);
	return v;
}

static void compare_properties(struct differ *x, const struct model *a, const struct model *b)
{
	const struct meta *p = sorted(x, a), *q = sorted(x, b);

	for (size_t i = 0, j = 0; i < a->nmeta || j < b->nmeta;) {
		int order = i == a->nmeta ? 1 : j == b->nmeta ? -1 : strcmp(p[i].key, q[j].key);
		const char *key = order <= 0 ? p[i].key : q[j].key;
		compare_text(x, arena_printf(x->arena, "metadata %s", key),
			     order <= 0 ? p[i].value : NULL, order >= 0 ? q[j].value : NULL);
		i += order <= 0;
		j += order >= 0;
	}
}

static void compare_heads(struct differ *x, const struct model *a, const struct model *b)
{
	for (size_t i = 0; i < a->nopsets; i++)
		compare_opset(x, a->opsets[i].domain);
	for (size_t i = 0; i < b->nopsets; i++)
		if (!model_opset(a, b->opsets[i].domain))
			compare_opset(x, b->opsets[i].domain);
	compare_text(x, "producer", a->producer, b->producer);
	compare_text(x, "producer version", a->producer_version, b->producer_version);
	compare_text(x, "IR version", number(x, a->ir_version), number(x, b->ir_version));
	compare_text(x, "model version", number(x, a->model_version), number(x, b->model_version));
	compare_text(x, "domain", a->domain, b->domain);
	compare_text(x, "description", a->doc, b->doc);
	compare_properties(x, a, b);
}

/* Sorts by kind and keeps the order within each. */
static void sort_items(struct diff_report *r, struct arena *a)
{
	struct diff_item *to = arena_new_n(a, struct diff_item, r->nitems + 1);
	size_t n = 0;

	for (int kind = 0; kind < DIFF_KINDS; kind++)
		for (size_t i = 0; i < r->nitems; i++)
			if (r->item[i].kind == (enum diff_kind)kind)
				to[n++] = r->item[i];
	r->item = to;
}

size_t diff_within(const struct diff_report *r)
{
	return r->count[DIFF_OPERATORS] + r->count[DIFF_ATTRIBUTES] + r->count[DIFF_WEIGHTS];
}

static bool is_head(const struct diff_item *i)
{
	return i->kind == DIFF_INTERFACE || i->kind == DIFF_OPSETS || i->kind == DIFF_METADATA;
}

void diff_take_heads(struct diff_report *r, const struct diff_report *from)
{
	struct arena *a = r->match->arena;
	struct diff_item *to = arena_new_n(a, struct diff_item, r->nitems + from->nitems + 1);
	size_t n = 0;

	for (size_t i = 0; i < r->nitems; i++)
		if (!is_head(&r->item[i]))
			to[n++] = r->item[i];
	for (size_t i = 0; i < from->nitems; i++)
		if (is_head(&from->item[i]))
			to[n++] = from->item[i];
	r->item = to;
	r->nitems = n;
	for (int k = 0; k < DIFF_KINDS; k++) {
		r->count[k] = 0;
		for (size_t i = 0; i < n; i++)
			r->count[k] += r->item[i].kind == (enum diff_kind)k;
	}
	sort_items(r, a);
}

struct diff_report *diff_models(const struct model *a, const struct model *b, enum diff_mode mode,
				struct arena *arena)
{
	struct diff_report *r = arena_new(arena, struct diff_report);
	struct differ x = {.r = r, .mode = mode, .arena = arena, .at = {NO_MATCH, NO_MATCH}};

	x.class_of.arena = x.compared.arena = arena;
	r->match = x.m = match_models(a, b, arena);
	find_classes(&x);
	compare_ports(&x, false);
	compare_order(&x, false);
	compare_ports(&x, true);
	compare_order(&x, true);
	compare_nodes(&x);
	compare_heads(&x, a, b);
	sort_items(r, arena);
	return r;
}
