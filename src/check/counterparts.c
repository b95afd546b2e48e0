/* SPDX-License-Identifier: Apache-2.0 */
#include "check/counterparts.h"

#include "base/hash.h"
#include "ops/op.h"
#include "opt/params.h"

#include <string.h>

struct pairing {
	const struct graph *ref, *got;
	uint32_t *of_ref, *of_got;
	bool *guessed; /* indexed by value id of `got`: matched by the order of the operators */
	bool *given_up; /* likewise: another value behind it has the counterpart of its name, see meant_value */
};

/*
 * Whether both values are of their files, or both inside an operator that others express. QLinearAveragePool is expressed by an
 * AveragePool of unscaled integers, whose result is not that of the reference's AveragePool.
 */
static bool alike_inside(const struct pairing *w, uint32_t ref, uint32_t got)
{
	return !*w->ref->value[ref]->name == !*w->got->value[got]->name;
}

static void set_match(const struct pairing *w, uint32_t ref, uint32_t got)
{
	if (w->of_ref[ref] != NO_VALUE || w->of_got[got] != NO_VALUE || !alike_inside(w, ref, got))
		return;
	w->of_ref[ref] = got;
	w->of_got[got] = ref;
}

static uint32_t count_op(const struct graph *g, const char *op)
{
	uint32_t n = 0;

	for (uint32_t p = 0; p < g->norder; p++)
		n += !strcmp(g->node[g->order[p]]->type, op);
	return n;
}

/*
 * Matches the outputs of two models' nodes by the order of the operators, for exports that name their tensors otherwise: the Kth
 * Conv with the Kth Conv, if both have as many.
 */
static void match_by_order(const struct pairing *w)
{
	const struct graph *a = w->ref, *b = w->got;

	for (uint32_t p = 0; p < b->norder; p++) {
		const char *op = b->node[b->order[p]]->type;
		uint32_t q = 0;
		bool done = false;
		for (uint32_t i = 0; i < p && !done; i++)
			done = !strcmp(b->node[b->order[i]]->type, op);
		if (done || count_op(a, op) != count_op(b, op))
			continue;
		for (uint32_t i = p; i < b->norder; i++) {
			const struct node *n = b->node[b->order[i]];
			if (strcmp(n->type, op) != 0)
				continue;
			while (strcmp(a->node[a->order[q]]->type, op) != 0)
				q++;
			const struct node *m = a->node[a->order[q++]];
			for (uint32_t k = 0; k < n->nout && k < m->nout; k++)
				if (n->out[k] != NO_VALUE && m->out[k] != NO_VALUE &&
				    !vinfo_contradicts(&a->value[m->out[k]]->info,
						       &b->value[n->out[k]]->info)) {
					w->guessed[n->out[k]] |= w->of_got[n->out[k]] == NO_VALUE;
					set_match(w, m->out[k], n->out[k]);
				}
		}
	}
}

/* Returns the output of the one node that reads the value, if that is of this operator; otherwise NO_VALUE. */
static uint32_t after_only_user(const struct graph *g, uint32_t id, const char *op)
{
	const struct value *v = g->value[id];

	if (v->nusers != 1 || v->is_output || strcmp(g->node[v->users[0]]->type, op) != 0)
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
	const char *op = ref->node[ref->value[there]->producer]->type;

	if (!strcmp(op, got->node[got->value[id]->producer]->type) ||
	    (strcmp(op, "Relu") != 0 && strcmp(op, "Clip") != 0))
		return id;
	uint32_t q = after_only_user(got, id, "QuantizeLinear");
	uint32_t dq = q == NO_VALUE ? NO_VALUE : after_only_user(got, q, "DequantizeLinear");
	return dq == NO_VALUE ? id : dq;
}

/* ---- operands --------------------------------------------------------------------------------- */

enum fit {
	FIT_NOT,
	FIT_OPEN /* nothing speaks against it */,
	FIT_WELL /* an operand that is no constant is known to correspond */
};

static bool is_computed(const struct graph *g, uint32_t id)
{
	return id != NO_VALUE && !g->value[id]->init && g->value[id]->producer != NO_NODE;
}

static int64_t input_named(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nin; i++)
		if (!strcmp(g->value[g->in[i]]->name, name))
			return i;
	return -1;
}

/* The reference's input that corresponds to an input of the tested model: by its name or else, if both names are new, by its place. */
static uint32_t input_there(const struct pairing *w, uint32_t here)
{
	int64_t place = input_named(w->ref, w->got->value[here]->name);

	if (place >= 0)
		return w->ref->in[place];
	for (uint32_t i = 0; i < w->ref->nin && i < w->got->nin; i++)
		if (w->got->in[i] == here &&
		    input_named(w->got, w->ref->value[w->ref->in[i]]->name) < 0)
			return w->ref->in[i];
	return NO_VALUE;
}

/* The reference's value that is known to correspond, or NO_VALUE. */
static uint32_t known_there(const struct pairing *w, uint32_t here)
{
	if (here == NO_VALUE || w->got->value[here]->init)
		return NO_VALUE;
	return is_computed(w->got, here) ? w->of_got[here] : input_there(w, here);
}

static enum fit fit_of_operand(const struct pairing *w, uint32_t there, uint32_t here)
{
	bool here_constant = here == NO_VALUE || w->got->value[here]->init;
	bool there_constant = there == NO_VALUE || w->ref->value[there]->init;

	if (here_constant || there_constant)
		return here_constant && there_constant ? FIT_OPEN : FIT_NOT;
	if (!is_computed(w->got, here) && !is_computed(w->ref, there))
		return known_there(w, here) == there ? FIT_WELL : FIT_NOT;
	if (!is_computed(w->got, here) || !is_computed(w->ref, there))
		return FIT_NOT;
	if (w->of_got[here] == NO_VALUE && w->of_ref[there] == NO_VALUE)
		return FIT_OPEN;
	return w->of_got[here] == there ? FIT_WELL : FIT_NOT;
}

static enum fit fit_in_order(const struct pairing *w, const struct node *m, const struct node *n,
			     bool crossed)
{
	enum fit all = FIT_OPEN;

	for (uint32_t i = 0; i < m->nin || i < n->nin; i++) {
		uint32_t k = crossed ? 1 - i : i;
		enum fit one = fit_of_operand(w, k < m->nin ? m->in[k] : NO_VALUE,
					      i < n->nin ? n->in[i] : NO_VALUE);
		if (one == FIT_NOT)
			return one;
		all = one > all ? one : all;
	}
	return all;
}

/* Whether the operands of node m of the reference and of node n correspond. Two constants do, whatever they hold. */
static enum fit fit_of(const struct pairing *w, const struct node *m, const struct node *n)
{
	if (strcmp(m->type, n->type) != 0)
		return FIT_NOT;
	enum fit fit = fit_in_order(w, m, n, false);
	if (fit == FIT_NOT && m->nin == 2 && n->nin == 2 && n->op && (n->op->flags & OP_COMMUTATIVE))
		fit = fit_in_order(w, m, n, true);
	return fit;
}

static const struct node *maker(const struct graph *g, uint32_t id)
{
	return id == NO_VALUE || g->value[id]->producer == NO_NODE ? NULL
								   : g->node[g->value[id]->producer];
}

/* Constants of up to this size are axes, targets and the like, which tell siblings apart; larger ones are weights. */
enum { WEIGHT_BYTES = 64 };

/* Whether constant operands have equal shapes and, unless they are weights, equal elements. */
static bool same_constants(const struct pairing *w, const struct node *m, const struct node *n)
{
	for (uint32_t i = 0; i < m->nin && i < n->nin; i++) {
		const struct value *v = node_in(w->ref, m, i), *u = node_in(w->got, n, i);
		if (!v || !u || !v->init || !u->init)
			continue;
		if (tensor_dtype(v->init) != tensor_dtype(u->init) ||
		    !shape_equal(&v->init->shape, &u->init->shape) ||
		    (v->init->bytes <= WEIGHT_BYTES && !tensor_same(v->init, u->init)))
			return false;
	}
	return true;
}

/* No more readers of a value are looked at, for time: what thousands of nodes read is a scale or a mask for all layers. */
enum { MOST_READERS = 256 };

/* How the weights of two nodes, constants larger than those above, are alike; nodes without any are FIT_OPEN. */
static enum fit fit_of_weights(const struct pairing *w, const struct node *m, const struct node *n,
			       bool by_name)
{
	enum fit fit = FIT_OPEN;

	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *u = node_in(w->got, n, i);
		const struct value *v = i < m->nin ? node_in(w->ref, m, i) : NULL;
		if (!u || !u->init || u->init->bytes <= WEIGHT_BYTES)
			continue;
		bool same = v && v->init &&
			    (by_name ? *u->name && !strcmp(u->name, v->name)
				     : shape_equal(&u->init->shape, &v->init->shape) &&
					       tensor_same(u->init, v->init));
		if (!same)
			return FIT_NOT;
		fit = FIT_WELL;
	}
	return fit;
}

enum alike { SAME_WEIGHTS, NAMED_WEIGHTS, ANY_WEIGHTS };

static bool weights_are(const struct pairing *w, const struct node *m, const struct node *n,
			enum alike how)
{
	return how == ANY_WEIGHTS || fit_of_weights(w, m, n, how == NAMED_WEIGHTS) == FIT_WELL;
}

/* Whether node m of the reference reads what corresponds to the operands of n, and its own match, if it has one, fits it less well. */
static bool is_better(const struct pairing *w, const struct node *m, const struct node *n,
		      enum alike how)
{
	if (m->nout != n->nout || m->out[0] == NO_VALUE || !alike_inside(w, m->out[0], n->out[0]) ||
	    fit_of(w, m, n) != FIT_WELL || !same_constants(w, m, n) ||
	    vinfo_contradicts(&w->ref->value[m->out[0]]->info, &w->got->value[n->out[0]]->info) ||
	    !weights_are(w, m, n, how))
		return false;
	const struct node *taken = maker(w->got, w->of_ref[m->out[0]]);
	return !taken || fit_of(w, m, taken) == FIT_NOT || !same_constants(w, m, taken) ||
	       (how != ANY_WEIGHTS && !weights_are(w, m, taken, how));
}

/* Finds the reference's node that reads what corresponds to the operands of n, and such weights. */
static const struct node *find_by_operands(const struct pairing *w, const struct node *n,
					   enum alike how)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t there = known_there(w, n->in[i]);
		const struct value *v = there == NO_VALUE ? NULL : w->ref->value[there];
		for (uint32_t u = 0; v && u < v->nusers && u < MOST_READERS; u++)
			if (is_better(w, w->ref->node[v->users[u]], n, how))
				return w->ref->node[v->users[u]];
	}
	return NULL;
}

static bool same_attributes(const struct node *m, const struct node *n)
{
	return m->op == n->op && n->op &&
	       (!n->params || !m->params || params_same(n->op, m->params, n->params));
}

static bool has_twin(const struct graph *g, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		for (uint32_t u = 0; v && !v->init && u < v->nusers && u < MOST_READERS; u++) {
			const struct node *other = g->node[v->users[u]];
			if (other != n && !strcmp(other->type, n->type))
				return true;
		}
	}
	return false;
}

/* Whether no other node of their operator reads what they read, in either model: operands do not tell two such nodes apart. */
static bool is_only_reader(const struct pairing *w, const struct node *m, const struct node *n)
{
	return !has_twin(w->ref, m) && !has_twin(w->got, n);
}

static void unmatch(const struct pairing *w, uint32_t ref, uint32_t got)
{
	if (ref != NO_VALUE)
		w->of_ref[ref] = NO_VALUE;
	if (got != NO_VALUE)
		w->of_got[got] = NO_VALUE;
}

/*
 * Exporters number the nodes of one operator, so that a name may stand for another node in another export. A node whose operands do
 * not correspond to those of its match is matched with a node whose operands do. If there is none, a name still counts, as the
 * node may have been wired otherwise, and a guess by the order of the operators does not. Among nodes that read the same operands weights decide:
 * by their elements, else by their names.
 */
static void correct_by_operands(const struct pairing *w)
{
	for (uint32_t p = 0; p < w->got->norder; p++) {
		const struct node *n = w->got->node[w->got->order[p]];
		if (!n->nout || n->out[0] == NO_VALUE || w->got->value[n->out[0]]->is_output)
			continue;
		const struct node *m = maker(w->ref, w->of_got[n->out[0]]);
		bool guessed = w->guessed[n->out[0]];
		/* the order of operators that only give another shape says little: exporters put in as many as they like */
		enum fit least = guessed && n->op && (n->op->flags & OP_VIEW) ? FIT_WELL : FIT_OPEN;
		/* a name that stands for another operator now is a change of the model, which the names tell best */
		if (m ? !guessed && strcmp(m->type, n->type) != 0 : w->given_up[n->out[0]])
			continue;
		bool fits = m && fit_of(w, m, n) >= least && same_constants(w, m, n);
		enum alike how = SAME_WEIGHTS;
		if (fits && fit_of_weights(w, m, n, false) != FIT_NOT)
			continue;
		const struct node *other = find_by_operands(w, n, how);
		if (!other && !(fits && weights_are(w, m, n, NAMED_WEIGHTS)))
			other = find_by_operands(w, n, how = NAMED_WEIGHTS);
		if (!other && !fits)
			other = find_by_operands(w, n, how = ANY_WEIGHTS);
		if (!other && fits)
			continue;
		if (!m && other &&
		    (!same_attributes(other, n) ||
		     (how == ANY_WEIGHTS && !is_only_reader(w, other, n))))
			continue;
		for (uint32_t k = 0; k < n->nout && (other || guessed); k++) {
			if (n->out[k] == NO_VALUE)
				continue;
			unmatch(w, w->of_got[n->out[k]], n->out[k]);
			if (!other || other->out[k] == NO_VALUE)
				continue;
			unmatch(w, other->out[k], w->of_ref[other->out[k]]);
			set_match(w, other->out[k], n->out[k]);
		}
	}
}

/*
 * Matches the values of two models: by name, if type and shape do not contradict each other, as short names may mean
 * something else in the other model. If fewer than half of the reference's names are there, the order of the operators
 * decides on the others. What a node reads corrects both.
 */
void counterparts_find(const struct graph *a, const struct graph *b, uint32_t *of_a, uint32_t *of_b)
{
	struct arena tmp = {0};
	const struct pairing pairing = {a,
					b,
					of_a,
					of_b,
					arena_new_n(&tmp, bool, (size_t)b->nvalues + 1),
					arena_new_n(&tmp, bool, (size_t)b->nvalues + 1)};
	const struct pairing *w = &pairing;
	struct map of = {.arena = &tmp};
	size_t made = 0, matched = 0;

	for (uint32_t i = 0; i < a->nvalues; i++) {
		of_a[i] = NO_VALUE;
		if (*a->value[i]->name && a->value[i]->producer != NO_NODE)
			made += map_set(&of, a->value[i]->name, strlen(a->value[i]->name), i);
	}
	for (uint32_t i = 0; i < b->nvalues; i++)
		of_b[i] = NO_VALUE;
	for (uint32_t i = 0; i < b->nvalues; i++) {
		const struct value *v = b->value[i];
		if (v->producer == NO_NODE || !*v->name)
			continue;
		int64_t k = map_get(&of, v->name, strlen(v->name));
		if (k < 0 || vinfo_contradicts(&a->value[k]->info, &v->info))
			continue;
		uint32_t meant = meant_value(a, (uint32_t)k, b, i);
		set_match(w, (uint32_t)k, meant);
		w->given_up[i] = meant != i;
		matched++;
	}
	/* outputs of the same positions correspond, whatever their names */
	for (uint32_t k = 0; k < a->nout && a->nout == b->nout; k++)
		set_match(w, a->out[k], b->out[k]);
	if (matched < made / 2)
		match_by_order(w);
	correct_by_operands(w);
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
	for (uint32_t i = 0; i < own->nin; i++)
		named &= input_named(own, g->value[g->in[i]]->name) >= 0;
	for (uint32_t i = 0; i < own->nin; i++)
		out[i] = in[named ? input_named(own, g->value[g->in[i]]->name) : i];
	return out;
}
