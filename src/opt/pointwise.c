/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuses groups of elementwise nodes into infer::Pointwise, which reads and writes memory once. A group grows from its
 * last node towards the inputs, over values that only the group uses and that have the shape of the result: a smaller
 * value would be computed again for each repetition.
 */
#include "base/str.h"
#include "opt/optimizer.h"
#include "opt/params.h"
#include "ops/fused.h"

#include <math.h>
#include <string.h>

/* The instruction for an operator. */
struct form {
	const char *op; /* NULL if no operator becomes this instruction by its name alone */
	enum pw_op code;
	int inputs; /* number of inputs, 1 or 2; 0 stands for two or more */
	enum act act;
};

static const struct form forms[] = {
#define BINARY(id, op, ninputs, text, formula) {op, PW_##id, ninputs, ACT_NONE},
#define SINGLE(id, op, text)		       {op, PW_##id, 1, ACT_NONE},
#include "ops/pointwise.def"
#define ACTIVATION(id, text, op, nparams, alpha, beta) {op, PW_ACT, 1, ACT_##id},
#include "ops/unary.def"
};
enum { NFORMS = sizeof(forms) / sizeof(*forms) };

static const char *const pw_names[PW_COUNT] = {
#define BINARY(id, op, ninputs, text, formula) [PW_##id] = text,
#define SINGLE(id, op, text)		       [PW_##id] = text,
#include "ops/pointwise.def"
};

struct group {
	struct optimizer *o;
	struct graph *g;
	const struct op *ops[NFORMS]; /* indexed by form */
	struct node *node[PW_MAX_CODE];
	uint32_t n;
	/* the program */
	int64_t code[4 * PW_MAX_CODE];
	int64_t ncode;
	float consts[2 * PW_MAX_CODE];
	int64_t nconsts;
	uint32_t in[PW_MAX_IN];
	uint32_t nin;
	int64_t made[PW_MAX_CODE]; /* indexed by node of the group: the number of the instruction that computes its output */
	bool full;
	struct str expr;
};

static const struct form *form_of(const struct group *x, const struct node *n)
{
	for (int i = 0; i < NFORMS; i++)
		if (x->ops[i] && x->ops[i] == n->op)
			return &forms[i];
	return NULL;
}

static bool fusable_type(const struct value *v)
{
	enum dtype t = (enum dtype)v->info.type.dtype;
	return v->info.type.kind == V_TENSOR && (t == DT_F32 || t == DT_F16 || t == DT_BF16);
}

static bool is_scalar(const struct value *v)
{
	return v->init && tensor_count(v->init) == 1;
}

/* Whether the bounds of a Clip node are constants of one element, or left out. */
static bool bounds_known(const struct graph *g, const struct node *n)
{
	for (uint32_t i = 1; i < n->nin; i++)
		if (node_in(g, n, i) && !is_scalar(node_in(g, n, i)))
			return false;
	return true;
}

static bool qualifies(const struct group *x, const struct node *n)
{
	const struct form *f = n->op && !n->dead ? form_of(x, n) : NULL;
	const struct value *y = f ? node_out(x->g, n, 0) : NULL;

	if (!y || !fusable_type(y) || n->nin < 1 || (f->inputs == 2 && n->nin != 2))
		return false;
	if (f->act == ACT_CLIP && !bounds_known(x->g, n))
		return false;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(x->g, n, i);
		if (!v && !(f->act == ACT_CLIP && i))
			return false;
		if (v && v->info.type.dtype != y->info.type.dtype)
			return false;
	}
	return true;
}

static bool same_shape(const struct value *a, const struct value *b)
{
	const struct shape *x = &a->info.shape, *y = &b->info.shape;

	if (x->rank < 0 || x->rank != y->rank)
		return false;
	for (int i = 0; i < x->rank; i++)
		if (x->dim[i] == DIM_UNKNOWN || x->dim[i] != y->dim[i])
			return false;
	return true;
}

static int64_t index_in_group(const struct group *x, uint32_t node)
{
	for (uint32_t i = 0; i < x->n; i++)
		if (x->node[i]->id == node)
			return i;
	return -1;
}

/* Whether the producer of v may join the group: only the group uses v, and v has the shape of the result. */
static bool may_join(const struct group *x, const struct value *v, const bool *taken)
{
	const struct value *y = node_out(x->g, x->node[0], 0);
	const struct node *p;

	if (v->producer == NO_NODE || v->is_output || taken[v->producer] || x->n == PW_MAX_CODE / 3)
		return false;
	p = x->g->node[v->producer];
	if (!qualifies(x, p) || !same_shape(v, y))
		return false;
	for (uint32_t i = 0; i < v->nusers; i++)
		if (index_in_group(x, v->users[i]) < 0)
			return false;
	return true;
}

static void grow_group(struct group *x, struct node *root, const bool *taken)
{
	x->n = 0;
	x->node[x->n++] = root;
	for (bool more = true; more;) {
		more = false;
		for (uint32_t k = 0; k < x->n; k++) {
			for (uint32_t i = 0; i < x->node[k]->nin; i++) {
				const struct value *v = node_in(x->g, x->node[k], i);
				if (!v || index_in_group(x, v->producer) >= 0 ||
				    !may_join(x, v, taken))
					continue;
				x->node[x->n++] = x->g->node[v->producer];
				more = true;
			}
		}
	}
}

/* ---- the program ----------------------------------------------------------------------------- */

static int64_t emit_instruction(struct group *x, int64_t op, int64_t a, int64_t b, int64_t c)
{
	int64_t at = x->ncode;

	if (at == PW_MAX_CODE) {
		x->full = true;
		return 0;
	}
	for (int64_t i = 0; i < at;
	     i++) { /* share the instruction of an input or constant that is used twice */
		int64_t *k = &x->code[4 * i];
		if (k[0] == op && k[1] == a && k[2] == b && k[3] == c && op <= PW_CONST)
			return i;
	}
	x->code[4 * at] = op;
	x->code[4 * at + 1] = a;
	x->code[4 * at + 2] = b;
	x->code[4 * at + 3] = c;
	x->ncode++;
	return at;
}

static int64_t constant(struct group *x, float v)
{
	for (int64_t i = 0; i < x->nconsts; i++)
		if (!memcmp(&x->consts[i], &v, sizeof(v)))
			return i;
	x->consts[x->nconsts] = v;
	return x->nconsts++;
}

/* Adds alpha and beta as adjacent constants; returns the index of the first. */
static int64_t constants(struct group *x, float alpha, float beta)
{
	if (x->nconsts + 2 > 2 * PW_MAX_CODE) {
		x->full = true;
		return 0;
	}
	x->consts[x->nconsts] = alpha;
	x->consts[x->nconsts + 1] = beta;
	x->nconsts += 2;
	return x->nconsts - 2;
}

static int64_t operand(struct group *x, uint32_t id)
{
	const struct value *v = x->g->value[id];
	int64_t k = v->producer == NO_NODE ? -1 : index_in_group(x, v->producer);

	if (k >= 0)
		return x->made[k];
	if (is_scalar(v) && v->info.shape.rank <= 1 && x->nconsts < 2 * PW_MAX_CODE)
		return emit_instruction(
			x, PW_CONST,
			constant(x, (float)elem_f64(tensor_dtype(v->init), v->init->data, 0)), 0, 0);
	for (uint32_t i = 0; i < x->nin; i++)
		if (x->in[i] == id)
			return emit_instruction(x, PW_INPUT, i, 0, 0);
	if (x->nin == PW_MAX_IN) {
		x->full = true;
		return 0;
	}
	x->in[x->nin++] = id;
	return emit_instruction(x, PW_INPUT, x->nin - 1, 0, 0);
}

static float attribute(const struct node *n, const char *name, float otherwise)
{
	const struct field *f = name ? params_field(n->op, name) : NULL;
	double v;

	return f && params_number(f, n->params, &v) ? (float)v : otherwise;
}

static float clip_bound(const struct group *x, const struct node *n, uint32_t i, float otherwise)
{
	const struct value *v = node_in(x->g, n, i);

	return v ? (float)elem_f64(tensor_dtype(v->init), v->init->data, 0) : otherwise;
}

static int64_t activation(struct group *x, const struct node *n, const struct form *f)
{
	enum act act = f->act;
	float alpha = attribute(n, "alpha", (float)activations[act].alpha),
	      beta = attribute(n, "beta", (float)activations[act].beta);

	if (act == ACT_CLIP) {
		alpha = clip_bound(x, n, 1, alpha);
		beta = clip_bound(x, n, 2, beta);
	}
	if (act == ACT_GELU && attribute(n, "approximate", 0) != 0)
		act = ACT_GELU_TANH;
	int64_t a = operand(x, n->in[0]);
	return emit_instruction(x, PW_ACT, a, act, constants(x, alpha, beta));
}

/* Adds the instructions of a Pow; constant exponents 2 and 3 become multiplications. */
static int64_t power(struct group *x, const struct node *n)
{
	const struct value *e = node_in(x->g, n, 1);
	double v = is_scalar(e) ? elem_f64(tensor_dtype(e->init), e->init->data, 0) : 0;
	int64_t a = operand(x, n->in[0]);

	if (v == 2 || v == 3) {
		int64_t square = emit_instruction(x, PW_MUL, a, a, 0);
		return v == 2 ? square : emit_instruction(x, PW_MUL, square, a, 0);
	}
	return emit_instruction(x, PW_POW, a, operand(x, n->in[1]), 0);
}

static int64_t instruction(struct group *x, const struct node *n)
{
	const struct form *f = form_of(x, n);
	int64_t a;

	if (f->code == PW_ACT)
		return activation(x, n, f);
	if (f->code == PW_POW)
		return power(x, n);
	a = operand(x, n->in[0]);
	if (f->inputs == 1)
		return emit_instruction(x, f->code, a, 0, 0);
	for (uint32_t i = 1; i < n->nin; i++)
		a = emit_instruction(x, f->code, a, operand(x, n->in[i]), 0);
	return a;
}

static void write_expr(struct group *x)
{
	for (int64_t i = 0; i < x->ncode; i++) {
		const int64_t *k = &x->code[4 * i];

		str_addf(&x->expr, "%s%s%d = ", i ? "; " : "", i == x->ncode - 1 ? "out" : "t",
			 i == x->ncode - 1 ? 0 : (int)i);
		if (k[0] == PW_INPUT)
			str_addf(&x->expr, "in%d", (int)k[1]);
		else if (k[0] == PW_CONST)
			str_addf(&x->expr, "%.9g", (double)x->consts[k[1]]);
		else if (k[0] == PW_ACT)
			str_addf(&x->expr, "%s(t%d)", activations[k[2]].text, (int)k[1]);
		else if (k[0] >= PW_NEG)
			str_addf(&x->expr, "%s(t%d)", pw_names[k[0]], (int)k[1]);
		else if (k[0] >= PW_POW)
			str_addf(&x->expr, "%s(t%d, t%d)", pw_names[k[0]], (int)k[1], (int)k[2]);
		else
			str_addf(&x->expr, "t%d %s t%d", (int)k[1], pw_names[k[0]], (int)k[2]);
	}
}

/* ---- the group ------------------------------------------------------------------------------- */

/* Sorts the nodes of the group in the order of the graph, so that each follows the nodes it reads from. */
static void order_group(struct group *x, const uint32_t *place)
{
	for (uint32_t i = 1; i < x->n; i++) {
		struct node *n = x->node[i];
		uint32_t k = i;
		for (; k && place[x->node[k - 1]->id] > place[n->id]; k--)
			x->node[k] = x->node[k - 1];
		x->node[k] = n;
	}
}

/* Whether an input gives the result its rank: constants of the program have none, where one of shape [1] makes a result [1] of x []. */
static bool keeps_rank(const struct group *x)
{
	int rank = node_out(x->g, x->node[x->n - 1], 0)->info.shape.rank;

	for (uint32_t i = 0; i < x->nin; i++)
		if (x->g->value[x->in[i]]->info.shape.rank == rank)
			return true;
	return false;
}

static bool compile_group(struct group *x)
{
	x->ncode = x->nconsts = 0;
	x->nin = 0;
	x->full = false;
	for (uint32_t i = 0; i < x->n && !x->full; i++)
		x->made[i] = instruction(x, x->node[i]);
	/* the last instruction must be the result, and the program must have an input */
	return !x->full && x->nin && x->made[x->n - 1] == x->ncode - 1 && keeps_rank(x);
}

static int replace_group(struct group *x)
{
	const struct op *op = op_named("infer::Pointwise");
	struct arena *a = x->g->arena;
	struct fused_pointwise *p = params_new(op, a);
	const struct origin *origins[PW_MAX_CODE];
	struct node *last = x->node[x->n - 1], *n;
	uint32_t out = last->out[0];
	int64_t *outs = arena_new(a, int64_t);

	*outs = x->ncode - 1;
	x->expr = (struct str){.arena = a};
	write_expr(x);
	p->code = (struct ints){arena_dup(a, x->code, (size_t)x->ncode * 4 * sizeof(*x->code)),
				4 * x->ncode};
	p->consts = (struct floats){arena_dup(a, x->consts, (size_t)x->nconsts * sizeof(*x->consts)),
				    x->nconsts};
	p->outs = (struct ints){outs, 1};
	p->expr = str_get(&x->expr);
	for (uint32_t i = 0; i < x->n; i++)
		origins[i] = x->node[x->n - 1 - i]->origin;
	for (uint32_t i = 0; i < x->n; i++)
		graph_remove_node(x->g, x->node[i]);
	n = graph_add_node(x->g, op, p, x->in, x->nin, &out, 1, origin_fused(a, origins, x->n, 0));
	n->type = op->name;
	n->domain = op->domain;
	n->version = op->since;
	return opt_infer_node(x->o, x->g, n);
}

int pass_pointwise(struct optimizer *o, struct graph *g)
{
	struct group *x = arena_new(&o->scratch, struct group);
	int changes = 0, r = graph_sort(g, o->diag);
	uint32_t nodes = g->nnodes, n = g->norder;
	const uint32_t *order = g->order;
	/* has room for the new nodes, each of which replaces at least two */
	bool *taken = arena_new_n(&o->scratch, bool, 2 * (size_t)nodes + 1);
	uint32_t *place = arena_new_n(&o->scratch, uint32_t, nodes + 1);

	x->o = o;
	x->g = g;
	for (int i = 0; i < NFORMS; i++)
		x->ops[i] = forms[i].op ? op_named(forms[i].op) : NULL;
	for (uint32_t i = 0; !r && i < n; i++)
		place[order[i]] = i;
	for (uint32_t i = n; !r && i-- > 0;) {
		struct node *root = g->node[order[i]];
		if (taken[root->id] || !qualifies(x, root))
			continue;
		grow_group(x, root, taken);
		if (x->n < 2)
			continue;
		order_group(x, place);
		if (!compile_group(x))
			continue;
		for (uint32_t k = 0; k < x->n; k++)
			taken[x->node[k]->id] = true;
		r = replace_group(x);
		changes++;
	}
	if (!r)
		r = graph_sort(g, o->diag);
	return r ? r : changes;
}
