/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One element of each value that comes of the mask is computed four times: for a mask of zeros and of ones, and with ones and zeros in
 * place of all else that is not constant. The mask hides where it makes an element so low that a softmax leaves nothing of it,
 * however the model gets there: Where, (1 - mask) * -1e9, Log, a Cast of its negation.
 */
#include "input/mask.h"

#include "cpu/math/function.h"
#include "cpu/pointwise.h"
#include "ops/op.h"
#include "ops/unary.h"

#include <math.h>
#include <string.h>

static const double LOW = -1000; /* scores are tens at most */
enum { TRIALS = 4, MAX_DEPTH = 64, MAX_NODES = 1000 };

/* Element t is that of trial t: with zeros (0, 1) or ones (2, 3) in the mask, with zeros (0, 2) or ones (1, 3) in place of the unknown. */
struct element {
	bool known;
	double at[TRIALS];
};

struct search {
	const struct graph *g;
	const struct value *mask;
	struct element *element; /* by value */
	bool *visited;		 /* by value */
	bool softmax;
	int budget; /* nodes that may still be computed or looked at */
};

const struct tensor *elements_of(const struct value *v)
{
	const struct tensor *t = value_constant(v);

	return t && t->type.kind == V_TENSOR && t->data && tensor_count(t) > 0 ? t : NULL;
}

bool keeps_elements(const struct node *n)
{
	if (n->dead || !n->op || !n->nin)
		return false;
	const struct op *newest = op_newest(n->op->domain, n->op->name);
	struct op row = op_resolved(newest ? newest : n->op);

	return row.flags & OP_PASSES || ((row.flags & OP_VIEW || row.reduced == REDUCED_MOVES) &&
					 op_has_output_type(&row, 0));
}

/* ---- one element ----------------------------------------------------------------------------------- */

#define BINARY(id, op, ninputs, text, formula)                                                     \
	static double of_##id(double a, double b)                                                  \
	{                                                                                          \
		return formula;                                                                    \
	}
#define PAIRS                                                                                      \
	BINARY(EQUAL, "Equal", 2, "", a == b)                                                      \
	BINARY(LESS, "Less", 2, "", a < b)                                                         \
	BINARY(LESS_EQUAL, "LessOrEqual", 2, "", a <= b)                                           \
	BINARY(GREATER, "Greater", 2, "", a > b)                                                   \
	BINARY(GREATER_EQUAL, "GreaterOrEqual", 2, "", a >= b)                                     \
	BINARY(AND, "And", 2, "", a != 0 && b != 0)                                                \
	BINARY(OR, "Or", 2, "", a != 0 || b != 0)                                                  \
	BINARY(XOR, "Xor", 2, "", (a != 0) != (b != 0))
PAIRS
#include "ops/pointwise.def"

static const struct {
	const char *op;
	double (*of)(double a, double b);
} pairs[] = {
#define BINARY(id, op, ninputs, text, formula) {op, of_##id},
	PAIRS
#include "ops/pointwise.def"
};

static const char *const singles[] = {
#define UNARY(op, id, types, nparams) op,
#include "ops/unary.def"
};

static double single(const struct node *n, double x)
{
	struct unary_function f = unary_function(n);

	if (f.number < VF_COUNT)
		return function_f64[f.number](x, f.param[0], f.param[1]);
	return !strcmp(n->op->name, "Not") ? x == 0 : (double)NAN;
}

/* The element that a ConstantOfShape repeats, or NAN. */
static double repeated(const struct node *n)
{
	struct op row = op_resolved(n->op);
	const struct field *f = row.attrs && n->params ? field_find(row.attrs, "value") : NULL;
	const struct tensor *t = NULL;

	if (f && f->type == F_TENSOR)
		memcpy(&t, (const char *)n->params + f->off, sizeof(t));
	return !f	 ? (double)NAN
	       : !t	 ? 0
	       : t->data ? elem_f64(tensor_dtype(t), t->data, 0)
			 : (double)NAN;
}

/* Computes what the node makes of one element of each operand. Returns false if the operator is not known here. */
static bool compute(const struct node *n, const struct element *const *in, double *at)
{
	double (*of)(double, double) = NULL;
	bool keeps = keeps_elements(n), fills, chooses, alone = false;

	if (!n->op)
		return false;
	fills = !strcmp(n->op->name, "ConstantOfShape");
	chooses = !strcmp(n->op->name, "Where") && n->nin == 3;
	for (size_t k = 0; k < sizeof(pairs) / sizeof(*pairs); k++)
		if (!strcmp(pairs[k].op, n->op->name) && n->nin)
			of = pairs[k].of;
	for (size_t k = 0; k < sizeof(singles) / sizeof(*singles) && !alone; k++)
		alone = !strcmp(singles[k], n->op->name) && n->nin &&
			(n->params || !op_resolved(n->op).params_size);
	for (int t = 0; t < TRIALS; t++) {
		at[t] = fills	  ? repeated(n)
			: chooses ? in[in[0]->at[t] != 0 ? 1 : 2]->at[t]
			: alone	  ? single(n, in[0]->at[t])
			: n->nin  ? in[0]->at[t]
				  : 0;
		for (uint32_t i = 1; of && i < n->nin; i++)
			at[t] = of(at[t], in[i]->at[t]);
	}
	return fills || chooses || alone || of || keeps;
}

/* The same for output k of the node, which may be a fused program of several operators. */
static bool compute_output(const struct node *n, uint32_t k, const struct element *const *in,
			   double *at)
{
	if (!n->op || n->op != op_named("infer::Pointwise"))
		return k == 0 && compute(n, in, at);
	for (int t = 0; t < TRIALS; t++) {
		double from[PW_MAX_IN], to[PW_MAX_OUT];
		for (uint32_t i = 0; i < n->nin && i < PW_MAX_IN; i++)
			from[i] = in[i]->at[t];
		pointwise_element(n->params, true, from, to);
		at[t] = to[k];
	}
	return true;
}

static const struct element *element_of(struct search *s, uint32_t id, int depth)
{
	static const struct element unknown = {true, {0, 1, 0, 1}};

	if (id == NO_VALUE)
		return &unknown;
	struct element *e = &s->element[id];
	const struct value *v = s->g->value[id];
	const struct tensor *t = elements_of(v);
	const struct node *n = value_maker(s->g, v);
	if (e->known)
		return e;
	*e = unknown;
	if (v == s->mask) {
		*e = (struct element){true, {0, 0, 1, 1}};
	} else if (t) {
		bool number =
			dtype_class(tensor_dtype(t)) != DT_COMPLEX && tensor_dtype(t) != DT_STRING;
		for (int k = 0; k < TRIALS && number; k++)
			e->at[k] = elem_f64(tensor_dtype(t), t->data, 0);
	} else if (n && !n->dead && n->nin <= PW_MAX_IN && depth && --s->budget > 0) {
		const struct element *in[PW_MAX_IN];
		double at[TRIALS];
		uint32_t k = 0;
		for (uint32_t i = 0; i < n->nin; i++)
			in[i] = element_of(s, n->in[i], depth - 1);
		while (k < n->nout && n->out[k] != id)
			k++;
		if (compute_output(n, k, in, at))
			memcpy(e->at, at, sizeof(at));
	}
	return e;
}

/* ---- what the mask does ---------------------------------------------------------------------------- */

/* 1 if the element is low with ones in the mask alone, -1 if with zeros alone. */
static int lowered(const struct element *e)
{
	for (int k = TRIALS / 2 - 1; k >= 0; k--) {
		bool zeros = e->at[k] <= LOW, ones = e->at[k + TRIALS / 2] <= LOW;
		if (zeros != ones)
			return ones ? 1 : -1;
	}
	return 0;
}

/* Whether the node reads the value as the mask of an attention. */
static bool is_attention_mask(const struct search *s, const struct node *n, const struct value *v)
{
	return !strcmp(n->type, "Attention") && node_in(s->g, n, 3) == v;
}

/* Whether a softmax over the value, or beside it, makes nothing of what is low. */
static bool is_weighed(const struct search *s, const struct node *n, const struct value *v)
{
	return !strcmp(n->type, "Softmax") || !strcmp(n->type, "LogSoftmax") ||
	       is_attention_mask(s, n, v);
}

static int follow(struct search *s, const struct value *v, int depth);

static int follow_node(struct search *s, const struct node *n, const struct value *v, int depth)
{
	const struct element *e = &s->element[v->id];
	int hides = lowered(e), found = 0;

	if (hides && is_weighed(s, n, v))
		return hides;
	/* of a mask of bools true keeps */
	if (v->info.type.dtype == DT_BOOL && is_attention_mask(s, n, v))
		return e->at[TRIALS - 1] != 0 ? -1 : 1;
	for (uint32_t k = 0; k < n->nout && !found; k++)
		if (n->out[k] != NO_VALUE && !s->visited[n->out[k]])
			found = follow(s, s->g->value[n->out[k]], depth - 1);
	return found;
}

static int follow(struct search *s, const struct value *v, int depth)
{
	const struct element *e = element_of(s, v->id, MAX_DEPTH);
	int found = s->softmax ? 0 : lowered(e);

	s->visited[v->id] = true;
	if (!depth || !memcmp(e->at, e->at + TRIALS / 2, sizeof(e->at) / 2))
		return found;
	for (uint32_t k = 0; k < v->nusers && !found && --s->budget > 0; k++)
		if (!s->g->node[v->users[k]]->dead && s->g->node[v->users[k]]->type)
			found = follow_node(s, s->g->node[v->users[k]], v, depth);
	return found;
}

int mask_hides(const struct graph *g, const struct value *v, bool softmax)
{
	struct arena tmp = {0};
	struct search s = {.g = g, .mask = v, .softmax = softmax, .budget = MAX_NODES};

	s.element = arena_new_n(&tmp, struct element, (size_t)g->nvalues + 1);
	s.visited = arena_new_n(&tmp, bool, (size_t)g->nvalues + 1);
	int hides = follow(&s, v, MAX_DEPTH);
	arena_free(&tmp);
	return hides;
}
