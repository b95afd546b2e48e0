/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/hash.h"
#include "opt/optimizer.h"
#include "opt/params.h"

#include <string.h>

/*
 * Common subexpressions: equal nodes are merged, and before them equal constants of up to CONST_BYTES, so that nodes that
 * read them become equal.
 */
enum { CONST_BYTES = 4096 };

/* Hash table of ids with chains: head is indexed by bucket, next by entry. An entry is id + 1; 0 ends a chain. */
struct table {
	uint32_t *head, *next;
	uint32_t mask;
};

static struct table table_new(struct arena *a, uint32_t ids)
{
	struct table t = {NULL, arena_new_n(a, uint32_t, ids + 1), 1};

	while (t.mask < ids)
		t.mask = 2 * t.mask + 1;
	t.head = arena_new_n(a, uint32_t, (size_t)t.mask + 1);
	return t;
}

static uint64_t hash_const(const struct tensor *t)
{
	uint64_t h = hash_bytes(&t->type, sizeof(t->type), 0);

	h = hash_bytes(t->shape.dim, (size_t)t->shape.rank * sizeof(*t->shape.dim), h);
	return hash_bytes(t->data, t->bytes, h);
}

static bool can_share(const struct value *v)
{
	return v->init && v->init->type.kind == V_TENSOR && v->init->type.dtype != DT_STRING &&
	       v->init->bytes <= CONST_BYTES && v->nusers && !v->is_output && !v->is_input;
}

static int share_constants(struct graph *g, struct arena *scratch)
{
	struct table t = table_new(scratch, g->nvalues);
	uint64_t *hash = arena_new_n(scratch, uint64_t, g->nvalues + 1);
	int changes = 0;

	for (uint32_t i = 0; i < g->nvalues; i++) {
		struct value *v = g->value[i];
		uint32_t *head, same = 0;

		if (!can_share(v))
			continue;
		hash[i] = hash_const(v->init);
		head = &t.head[hash[i] & t.mask];
		/* hashes first: to look at others of the bucket would bring back their pages of the file */
		for (uint32_t k = *head; k && !same; k = t.next[k])
			if (hash[k - 1] == hash[i] && tensor_same(g->value[k - 1]->init, v->init))
				same = k;
		file_pass(v->init->data, v->init->bytes);
		if (same) {
			graph_replace(g, i, same - 1);
			changes++;
			continue;
		}
		t.next[i + 1] = *head;
		*head = i + 1;
	}
	return changes;
}

static uint64_t hash_node(const struct node *n)
{
	uint64_t h = hash_bytes(&n->op, sizeof(n->op), 0);

	h = hash_bytes(n->in, n->nin * sizeof(*n->in), h);
	for (uint32_t i = 0; i < n->nout; i++) {
		bool omitted = n->out[i] == NO_VALUE;
		h = hash_bytes(&omitted, sizeof(omitted), h);
	}
	return params_hash(n->op, n->params, h);
}

static bool same_node(const struct node *a, const struct node *b)
{
	if (a->op != b->op || a->nin != b->nin || a->nout != b->nout ||
	    memcmp(a->in, b->in, a->nin * sizeof(*a->in)) != 0)
		return false;
	for (uint32_t i = 0; i < a->nout; i++)
		if ((a->out[i] == NO_VALUE) != (b->out[i] == NO_VALUE))
			return false;
	return params_same(a->op, a->params, b->params);
}

/*
 * Replaces the outputs of b by those of a and removes b; returns false if an output of b must stay as an output of
 * the graph.
 */
static bool merge(struct graph *g, struct node *a, struct node *b)
{
	for (uint32_t i = 0; i < a->nout; i++)
		if (a->out[i] != NO_VALUE && g->value[b->out[i]]->is_output)
			return false;
	for (uint32_t i = 0; i < a->nout; i++)
		if (a->out[i] != NO_VALUE)
			graph_replace(g, b->out[i], a->out[i]);
	graph_remove_node(g, b);
	return true;
}

static int share_nodes(struct graph *g, struct arena *scratch)
{
	struct table t = table_new(scratch, g->nnodes);
	int changes = 0;

	for (uint32_t i = 0; i < g->norder; i++) {
		struct node *n = g->node[g->order[i]];
		uint32_t *head;
		struct node *same = NULL;

		if (!n->op || n->nsub || n->op->flags & OP_RANDOM || !n->nin)
			continue;
		head = &t.head[hash_node(n) & t.mask];
		for (uint32_t k = *head; k && !same; k = t.next[k])
			same = same_node(g->node[k - 1], n) ? g->node[k - 1] : NULL;
		/* one that must stay is not entered: each later one would be compared with thousands of them */
		if (same) {
			changes += merge(g, same, n);
			continue;
		}
		t.next[n->id + 1] = *head;
		*head = n->id + 1;
	}
	return changes;
}

int pass_cse(struct optimizer *o, struct graph *g)
{
	struct arena scratch = {0};
	int changes, r = graph_sort(g, o->diag);

	if (r)
		return r;
	changes = share_constants(g, &scratch);
	changes += share_nodes(g, &scratch);
	arena_free(&scratch);
	r = graph_sort(g, o->diag);
	return r ? r : changes;
}
