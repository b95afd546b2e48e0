/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/trees.h"

#include "base/hash.h"
#include "base/pool.h"
#include "cpu/math/move.h"

#include <inttypes.h>
#include <math.h>

enum mode { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF };

struct tree_node {
	double value;
	int64_t feature, yes, no; /* yes and no are the indices of the children */
	/*
	 * In a leaf, `first` is the index of its first weight, or -1. In a MEMBER branch, `first`
	 * and `count` are the range of its members in forest.member.
	 */
	int64_t first, count;
	uint8_t mode;
	bool nan_yes; /* NaN goes to `yes` */
};

struct weight {
	int64_t target, next; /* next is the index of the next weight of the same leaf, or -1 */
	double value;
};

struct forest {
	struct tree_node *node;
	int64_t nnodes, *root, nroots, targets;
	int64_t features; /* least number of features per row that the branches need */
	struct weight *weight;
	double *member;
	double *base; /* per target, or NULL */
	int64_t nbase;
	enum tree_aggregate aggregate;
	enum post_transform post;
	bool binary;	   /* there are two labels, but weights for only one of them */
	bool second;	   /* if `binary`, the weights are for the second label */
	bool all_positive; /* no weight is negative */
};

/* ---- building ----------------------------------------------------------------------------------------- */

/* Reports a bad attribute: `expected` names what the attributes should hold. */
static int fail_attribute(const struct site *s, struct diag *d, const char *expected)
{
	return site_fail(s, d, E_OP_ATTRIBUTE, expected, NULL);
}

/*
 * Returns element i of an attribute: of tensor t if the model gives the attribute as a tensor,
 * otherwise of list f.
 */
static double attribute_element(const struct tensor *t, const struct floats *f, int64_t i)
{
	return t ? elem_f64(tensor_dtype(t), t->data, i) : (double)f->v[i];
}

static int64_t attribute_count(const struct tensor *t, const struct floats *f)
{
	return t ? tensor_count(t) : f->n < 0 ? 0 : f->n;
}

static int mode_of(const struct text *t)
{
	static const char *const names[] = {"BRANCH_LEQ",    "BRANCH_LT", "BRANCH_GTE",
					    "BRANCH_GT",     "BRANCH_EQ", "BRANCH_NEQ",
					    "BRANCH_MEMBER", "LEAF"};

	for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
		if (t->n == strlen(names[i]) && !memcmp(t->s, names[i], t->n))
			return i;
	return -1;
}

struct node_key {
	int64_t tree, node;
};

static int64_t find_node(const struct map *m, int64_t tree, int64_t node)
{
	struct node_key k = {tree, node};
	return map_get(m, (const char *)&k, sizeof(k));
}

static int read_nodes(struct site *s, struct diag *d, const struct tree_params *p, struct forest *f,
		      struct map *m)
{
	int64_t n = p->nodes_nodeids.n,
		values = attribute_count(p->nodes_values_as_tensor, &p->nodes_values);
	struct node_key *keys;

	if (n < 1 || n >= UINT32_MAX || p->nodes_treeids.n != n || p->nodes_featureids.n != n ||
	    p->nodes_modes.n != n || p->nodes_truenodeids.n != n || p->nodes_falsenodeids.n != n ||
	    values != n ||
	    (p->nodes_missing_value_tracks_true.n > 0 && p->nodes_missing_value_tracks_true.n != n))
		return fail_attribute(s, d, "nodes_* of one length");
	f->nnodes = n;
	f->node = arena_new_n(s->node_arena, struct tree_node, (size_t)n);
	keys = arena_new_n(s->node_arena, struct node_key, (size_t)n);
	for (int64_t i = 0; i < n; i++) {
		int mode = mode_of(&p->nodes_modes.v[i]);
		keys[i] = (struct node_key){p->nodes_treeids.v[i], p->nodes_nodeids.v[i]};
		if (!map_set(m, (const char *)&keys[i], sizeof(keys[i]), (uint32_t)i))
			return fail_attribute(s, d, "node ids that are unique in their tree");
		if (mode < 0 || mode == MEMBER || (mode != LEAF && p->nodes_featureids.v[i] < 0))
			return fail_attribute(s, d,
					      "known nodes_modes and nodes_featureids of 0 or more");
		f->node[i] = (struct tree_node){
			.value = attribute_element(p->nodes_values_as_tensor, &p->nodes_values, i),
			.feature = p->nodes_featureids.v[i],
			.mode = (uint8_t)mode,
			.first = -1,
			.nan_yes = p->nodes_missing_value_tracks_true.n > 0 &&
				   p->nodes_missing_value_tracks_true.v[i]};
		if (mode != LEAF && f->node[i].feature >= f->features)
			f->features = f->node[i].feature + 1;
	}
	return 0;
}

/*
 * Follows all branches from the roots. Returns a node from which branches lead back to it, or else a branch that no root
 * leads to, or -1. Leaves that no root leads to do no harm.
 */
static int64_t find_circle(const struct forest *f, struct arena *a, bool all_have_roots)
{
	enum { NEW, ON_PATH, DONE };
	uint8_t *state = arena_new_n(a, uint8_t, (size_t)f->nnodes),
		*followed = arena_new_n(a, uint8_t,
					(size_t)f->nnodes); /* branches of a node on the path */
	int64_t *path = arena_new_n(a, int64_t, (size_t)f->nnodes), n;

	for (int64_t r = 0; r < f->nroots; r++) {
		n = 0;
		if (state[f->root[r]] == NEW)
			path[n++] = f->root[r];
		while (n) {
			int64_t i = path[n - 1];
			state[i] = ON_PATH;
			if (f->node[i].mode == LEAF || followed[i] == 2) {
				state[i] = DONE;
				n--;
				continue;
			}
			int64_t next = followed[i]++ ? f->node[i].no : f->node[i].yes;
			if (state[next] == ON_PATH)
				return next;
			if (state[next] == NEW)
				path[n++] = next;
		}
	}
	for (int64_t i = 0; all_have_roots && i < f->nnodes; i++)
		if (state[i] == NEW && f->node[i].mode != LEAF)
			return i;
	return -1;
}

/*
 * Nodes that are no node's child become the roots: one of each tree. A leaf after its tree's root that no branch leads to
 * is left by tools that prune; no row reaches it, and ONNX Runtime runs such trees.
 */
static int find_roots(struct site *s, struct diag *d, const struct tree_params *p, struct forest *f,
		      const bool *child)
{
	struct map trees = {.arena = s->node_arena};

	f->root = arena_new_n(s->node_arena, int64_t, (size_t)f->nnodes);
	for (int64_t i = 0; i < f->nnodes; i++) {
		if (child[i])
			continue;
		if (!map_set(&trees, (const char *)&p->nodes_treeids.v[i], sizeof(int64_t), 1)) {
			if (f->node[i].mode == LEAF)
				continue;
			return site_fail(s, d, E_OP_ATTRIBUTE, "trees with one root each",
					 fmt(d,
					     "node %" PRId64 " of tree %" PRId64
					     ", which no other node leads to, beside another one",
					     p->nodes_nodeids.v[i], p->nodes_treeids.v[i]));
		}
		f->root[f->nroots++] = i;
	}
	int64_t at = find_circle(f, s->node_arena, true);
	if (at >= 0)
		return site_fail(
			s, d, E_OP_ATTRIBUTE, "trees",
			fmt(d, "branches that run in a circle, at node %" PRId64 " of tree %" PRId64,
			    p->nodes_nodeids.v[at], p->nodes_treeids.v[at]));
	return 0;
}

/* Finds the children of each branch by their ids, and the roots. A node may be the child of several, as in sets that are made of comparisons. */
static int link_nodes(struct site *s, struct diag *d, const struct tree_params *p, struct forest *f,
		      const struct map *m)
{
	bool *child = arena_new_n(s->node_arena, bool, (size_t)f->nnodes);

	for (int64_t i = 0; i < f->nnodes; i++) {
		struct tree_node *n = &f->node[i];
		if (n->mode == LEAF)
			continue;
		n->yes = find_node(m, p->nodes_treeids.v[i], p->nodes_truenodeids.v[i]);
		n->no = find_node(m, p->nodes_treeids.v[i], p->nodes_falsenodeids.v[i]);
		if (n->yes < 0 || n->no < 0)
			return fail_attribute(s, d, "branches that lead to nodes of their tree");
		child[n->yes] = child[n->no] = true;
	}
	return find_roots(s, d, p, f, child);
}

static int read_weights(struct site *s, struct diag *d, const struct tree_params *p,
			struct forest *f, const struct map *m)
{
	int64_t n = p->leaf_ids.n;

	if (n < 1 || p->leaf_treeids.n != n || p->leaf_nodeids.n != n ||
	    attribute_count(p->leaf_weights_as_tensor, &p->leaf_weights) != n)
		return fail_attribute(s, d, "weights, their ids, trees and nodes of one length");
	f->weight = arena_new_n(s->node_arena, struct weight, (size_t)n);
	f->all_positive = true;
	/*
	 * Goes from the last weight to the first and puts each weight at the head of its leaf's
	 * list, so that the lists end up in order.
	 */
	for (int64_t i = n - 1; i >= 0; i--) {
		int64_t at = find_node(m, p->leaf_treeids.v[i], p->leaf_nodeids.v[i]);
		if (at < 0)
			return fail_attribute(s, d, "weights of nodes that there are");
		if (p->leaf_ids.v[i] < 0 || p->leaf_ids.v[i] >= f->targets)
			return fail_attribute(s, d, "weights of targets that there are");
		f->weight[i] = (struct weight){
			p->leaf_ids.v[i], f->node[at].first,
			attribute_element(p->leaf_weights_as_tensor, &p->leaf_weights, i)};
		f->node[at].first = i;
		f->all_positive &= f->weight[i].value >= 0;
	}
	return 0;
}

static int forest_create(struct site *s, struct diag *d, int64_t targets, struct forest **out)
{
	const struct tree_params *p = site_params(s);
	struct forest *f = arena_new(s->node_arena, struct forest);
	struct map m = {.arena = s->node_arena};
	int err;

	f->targets = targets;
	f->aggregate = (enum tree_aggregate)p->aggregate_function;
	f->post = (enum post_transform)p->post_transform;
	f->nbase = attribute_count(p->base_values_as_tensor, &p->base_values);
	f->base = arena_new_n(s->node_arena, double, (size_t)f->nbase + 1);
	for (int64_t i = 0; i < f->nbase; i++)
		f->base[i] = attribute_element(p->base_values_as_tensor, &p->base_values, i);
	err = read_nodes(s, d, p, f, &m);
	if (!err)
		err = link_nodes(s, d, p, f, &m);
	if (!err)
		err = read_weights(s, d, p, f, &m);
	*out = f;
	s->state = f;
	return err;
}

int tree_regressor_create(struct site *s, struct diag *d)
{
	const struct tree_params *p = site_params(s);
	struct forest *f;

	return forest_create(s, d, p->n_targets == INT_ABSENT ? 1 : p->n_targets, &f);
}

int tree_classifier_create(struct site *s, struct diag *d)
{
	const struct tree_params *p = site_params(s);
	bool one = true;
	struct forest *f;
	int64_t n = p->classlabels_strings.n > 0 ? p->classlabels_strings.n : p->classlabels_int64s.n;
	int err = forest_create(s, d, n, &f);

	if (err)
		return err;
	f->aggregate = TREE_SUM;
	for (int64_t i = 1; i < p->leaf_ids.n; i++)
		one &= p->leaf_ids.v[i] == p->leaf_ids.v[0];
	f->binary = n == 2 && one;
	f->second = f->binary && p->leaf_ids.n && p->leaf_ids.v[0] == 1;
	return 0;
}

/* ---- TreeEnsemble: the node array holds the interior nodes, then the leaves -------------------------------- */

/*
 * Returns the node index of child i, which is a leaf or an interior node, or -1 if the id of the
 * child is out of range.
 */
static int64_t child_index(const struct ints *leaf, const struct ints *id, int64_t i, int64_t nodes,
			   int64_t leaves)
{
	int64_t k = id->v[i], limit = leaf->v[i] ? leaves : nodes;

	return k < 0 || k >= limit ? -1 : leaf->v[i] ? nodes + k : k;
}

static int ensemble_nodes(struct site *s, struct diag *d, const struct ensemble_params *p,
			  struct forest *f)
{
	int64_t n = p->nodes_featureids.n, leaves = p->leaf_targetids.n, at = 0;
	int64_t members = p->membership_values ? tensor_count(p->membership_values) : 0;

	f->member = arena_new_n(s->node_arena, double, (size_t)members + 1);
	for (int64_t i = 0; i < members; i++)
		f->member[i] =
			elem_f64(tensor_dtype(p->membership_values), p->membership_values->data, i);
	for (int64_t i = 0; i < n; i++) {
		struct tree_node *v = &f->node[i];
		int64_t mode = elem_i64(tensor_dtype(p->nodes_modes), p->nodes_modes->data, i);
		*v = (struct tree_node){
			.value = elem_f64(tensor_dtype(p->nodes_splits), p->nodes_splits->data, i),
			.feature = p->nodes_featureids.v[i],
			.mode = (uint8_t)mode,
			.first = -1,
			.yes = child_index(&p->nodes_trueleafs, &p->nodes_truenodeids, i, n, leaves),
			.no = child_index(&p->nodes_falseleafs, &p->nodes_falsenodeids, i, n, leaves),
			.nan_yes = p->nodes_missing_value_tracks_true.n > 0 &&
				   p->nodes_missing_value_tracks_true.v[i]};
		if (mode < LEQ || mode > MEMBER || v->feature < 0 || v->yes < 0 || v->no < 0)
			return fail_attribute(s, d, "known modes, features and branches");
		if (v->feature >= f->features)
			f->features = v->feature + 1;
		if (mode != MEMBER)
			continue;
		v->first = at;
		while (at < members && !isnan(f->member[at]))
			at++;
		v->count = at - v->first;
		at++;
	}
	for (int64_t i = 0; i < leaves; i++) {
		f->node[n + i] = (struct tree_node){.mode = LEAF, .first = i};
		f->weight[i] = (struct weight){
			p->leaf_targetids.v[i], -1,
			elem_f64(tensor_dtype(p->leaf_weights), p->leaf_weights->data, i)};
		if (f->weight[i].target < 0 || f->weight[i].target >= f->targets)
			return fail_attribute(s, d, "leaf_targetids below n_targets");
	}
	return 0;
}

int ensemble_create(struct site *s, struct diag *d)
{
	const struct ensemble_params *p = site_params(s);
	struct forest *f = arena_new(s->node_arena, struct forest);
	int64_t n = p->nodes_featureids.n, leaves = p->leaf_targetids.n;

	if (n < 1 || leaves < 1 || p->nodes_falseleafs.n != n || p->nodes_falsenodeids.n != n ||
	    p->nodes_trueleafs.n != n || p->nodes_truenodeids.n != n ||
	    tensor_count(p->nodes_modes) != n || tensor_count(p->nodes_splits) != n ||
	    tensor_count(p->leaf_weights) != leaves || p->tree_roots.n < 1 ||
	    (p->nodes_missing_value_tracks_true.n > 0 && p->nodes_missing_value_tracks_true.n != n))
		return fail_attribute(s, d, "nodes_* of one length, leaf_* of one length, and roots");
	f->targets = p->n_targets == INT_ABSENT ? 1 : p->n_targets;
	f->aggregate = (enum tree_aggregate)p->aggregate_function;
	f->post = (enum post_transform)p->post_transform;
	f->nnodes = n + leaves;
	f->node = arena_new_n(s->node_arena, struct tree_node, (size_t)f->nnodes);
	f->weight = arena_new_n(s->node_arena, struct weight, (size_t)leaves);
	f->nroots = p->tree_roots.n;
	f->root = arena_new_n(s->node_arena, int64_t, (size_t)f->nroots);
	for (int64_t i = 0; i < f->nroots; i++) {
		f->root[i] = p->tree_roots.v[i];
		if (f->root[i] < 0 || f->root[i] >= n)
			return fail_attribute(s, d, "tree_roots among the nodes");
	}
	s->state = f;
	int err = ensemble_nodes(s, d, p, f);
	int64_t at = err ? -1 : find_circle(f, s->node_arena, false);
	if (at >= 0)
		err = site_fail(s, d, E_OP_ATTRIBUTE, "trees",
				fmt(d, "branches that run in a circle, at node %" PRId64, at));
	return err;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static bool is_member(const struct forest *f, const struct tree_node *n, double x)
{
	for (int64_t i = 0; i < n->count; i++)
		if (f->member[n->first + i] == x)
			return true;
	return false;
}

static bool condition_holds(const struct forest *f, const struct tree_node *n, double x)
{
	if (n->nan_yes && isnan(x))
		return true;
	switch ((enum mode)n->mode) {
	case LEQ: return x <= n->value;
	case LT: return x < n->value;
	case GTE: return x >= n->value;
	case GT: return x > n->value;
	case EQ: return x == n->value;
	case NEQ: return x != n->value;
	case MEMBER: return is_member(f, n, x);
	case LEAF: break;
	}
	return false;
}

/* Returns the leaf that the row of x at offset `at` reaches in one tree. */
static const struct tree_node *descend(const struct forest *f, int64_t root, const struct tensor *x,
				       int64_t at)
{
	const struct tree_node *n = &f->node[root];

	while (n->mode != LEAF)
		n = &f->node[condition_holds(f, n, elem_f64(tensor_dtype(x), x->data, at + n->feature))
				     ? n->yes
				     : n->no];
	return n;
}

static void add_leaf(const struct forest *f, const struct tree_node *leaf, double *score, bool *has)
{
	for (int64_t i = leaf->first; i >= 0; i = f->weight[i].next) {
		const struct weight *w = &f->weight[i];
		double *s = &score[w->target];
		if (f->aggregate == TREE_MIN)
			*s = !has[w->target] || w->value < *s ? w->value : *s;
		else if (f->aggregate == TREE_MAX)
			*s = !has[w->target] || w->value > *s ? w->value : *s;
		else
			*s += w->value;
		has[w->target] = true;
	}
}

static void score_row(const struct forest *f, const struct tensor *x, int64_t at, double *score,
		      bool *has)
{
	for (int64_t t = 0; t < f->targets; t++) {
		score[t] = 0;
		has[t] = false;
	}
	for (int64_t r = 0; r < f->nroots; r++)
		add_leaf(f, descend(f, f->root[r], x, at), score, has);
}

/* Scratch of a run. score, has and out are for one row; has tells which targets have a score. */
struct row_room {
	double *score;
	float *out;
	int64_t *label; /* of all rows */
	bool *has;
	void *all;
};

static bool alloc_scratch(struct row_room *r, int64_t targets, int64_t rows)
{
	size_t n = (size_t)targets + 2;
	char *p = mem_alloc(n * (sizeof(double) + sizeof(float) + sizeof(bool)) +
				    ((size_t)rows + 1) * sizeof(int64_t),
			    MEM_WORKSPACE);

	r->all = p;
	if (!p)
		return false;
	r->score = (double *)(void *)p;
	r->label = (int64_t *)(void *)(r->score + n);
	r->out = (float *)(void *)(r->label + rows + 1);
	r->has = (bool *)(void *)(r->out + n);
	return true;
}

static int check_width(const struct call *c, const struct forest *f, int64_t width)
{
	return f->features <= width
		       ? 0
		       : call_fail(c, E_SHAPE, fmt(c->diag, "%lld features", (long long)f->features),
				   fmt(c->diag, "%lld", (long long)width));
}

int tree_regressor_run(const struct call *c)
{
	const struct forest *f = c->step->node_state;
	const struct tensor *x = c->in[0];
	struct tensor *y = c->out[0];
	int64_t rows, width;
	struct row_room m;
	int err;

	ml_rows(x, &rows, &width);
	err = check_width(c, f, width);
	if (err)
		return err;
	if (!alloc_scratch(&m, f->targets, 0))
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t r = 0; r < rows; r++) {
		score_row(f, x, r * width, m.score, m.has);
		for (int64_t t = 0; t < f->targets; t++) {
			double v = f->aggregate == TREE_AVERAGE ? m.score[t] / (double)f->nroots
								: m.score[t];
			v += f->nbase == f->targets		? f->base[t]
			     : f->nbase == 1 && f->targets == 1 ? f->base[0]
								: 0;
			m.out[t] = (float)v;
			m.score[t] = v;
		}
		/*
		 * Without a transform the double score is stored, as a float would lose digits.
		 * With a single target, probit is the only transform that is applied.
		 */
		if (f->post == POST_PROBIT || (f->post != POST_NONE && f->targets > 1)) {
			post_apply(f->post, m.out, f->targets);
			for (int64_t t = 0; t < f->targets; t++)
				m.score[t] = (double)m.out[t];
		}
		for (int64_t t = 0; t < f->targets; t++)
			elem_set_f64(tensor_dtype(y), y->data, r * f->targets + t, m.score[t]);
	}
	mem_free(m.all);
	return err;
}

int64_t ml_best(const float *v, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (v[i] > v[best])
			best = i;
	return best;
}

/* Computes the scores `out` of one row and returns the index of its label. */
static int64_t classify_row(const struct forest *f, double *score, float *out)
{
	int64_t n = f->targets;

	if (f->binary) {
		/*
		 * All weights are for one class. Their sum is the score of the second class,
		 * whichever class they name.
		 */
		double s = score[0] + score[1];
		s += f->nbase == 2 ? f->base[1] : f->nbase == 1 ? f->base[0] : 0;
		float one = (float)s; /* a float, because as doubles 0.3f + 0.2f would exceed 0.5 */
		if (f->second) {
			out[0] = f->nbase == 2 ? (float)f->base[0] : 0;
			out[1] = one;
			post_apply(f->post, out, n);
		} else {
			post_pair(f->post, one, !f->all_positive, out);
		}
		return f->all_positive ? one > 0.5f : one > 0;
	}
	for (int64_t t = 0; t < n; t++)
		out[t] = (float)(score[t] + (f->nbase == n ? f->base[t] : 0));
	int64_t best = ml_best(out, n);
	post_apply(f->post, out, n);
	return best;
}

int tree_classifier_run(const struct call *c)
{
	const struct tree_params *p = call_params(c);
	const struct forest *f = c->step->node_state;
	const struct tensor *x = c->in[0];
	struct tensor *z = c->step->nout > 1 ? c->out[1] : NULL;
	int64_t rows, width;
	struct row_room m;

	ml_rows(x, &rows, &width);
	int err = check_width(c, f, width);
	if (err)
		return err;
	struct shape s = {.rank = 2, .dim = {rows, f->targets}};
	if (z)
		err = out_ready(c, 1, DT_F32, &s);
	if (err)
		return err;
	if (!alloc_scratch(&m, f->targets, rows))
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t r = 0; r < rows; r++) {
		score_row(f, x, r * width, m.score, m.has);
		m.label[r] = classify_row(f, m.score, m.out);
		if (z)
			memcpy((float *)z->data + r * f->targets, m.out,
			       (size_t)f->targets * sizeof(float));
	}
	if (!err)
		err = ml_labels(c, &p->classlabels_strings, &p->classlabels_int64s, m.label, rows);
	mem_free(m.all);
	return err;
}
