/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/infer.h"

#include "backend/evaluate.h"
#include "opt/params.h"

#include <string.h>

/* Inference evaluates a node only if its inputs together, and its outputs together, have at most this many bytes. */
enum { KNOWN_BYTES = 64 << 10 };

static struct vinfo unknown_info(void)
{
	return (struct vinfo){.shape = SHAPE_UNKNOWN};
}

void infer_constants(const struct graph *g, struct vinfo *info)
{
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const struct tensor *t = g->value[i]->init;

		info[i] = unknown_info();
		if (t)
			info[i] = (struct vinfo){.type = t->type, .shape = t->shape, .known = t};
	}
}

/* ---- known values ---------------------------------------------------------------------------- */

static bool small(const struct vinfo *v, size_t *sum)
{
	size_t bytes;

	if (v->type.kind != V_TENSOR || v->type.dtype == DT_STRING)
		return false;
	if (!shape_known(&v->shape))
		return true; /* the output is no larger than the inputs, which are small */
	return tensor_bytes((enum dtype)v->type.dtype, &v->shape, LAYOUT_ROW, &bytes) &&
	       size_add(*sum, bytes, sum) && *sum <= KNOWN_BYTES;
}

/* Whether the node can be evaluated now: its inputs are known, and inputs and outputs are small. */
static bool can_evaluate(const struct infer *c)
{
	const struct node *n = c->node;
	size_t in = 0, out = 0;
	bool missing = false;

	if (n->op->flags & (OP_RANDOM | OP_CONTROL | OP_HOST_VALUES) || n->nin == 0)
		return false;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct vinfo *v = infer_in(c, i);
		if (v && (!v->known || !small(v, &in)))
			return false;
	}
	for (uint32_t i = 0; i < n->nout; i++) {
		const struct vinfo *v = infer_out(c, i);
		if (v && !small(v, &out))
			return false;
		missing |= v && !v->known;
	}
	return missing;
}

static void evaluate(struct infer *c)
{
	const struct infer_env *env = c->body_ctx;
	const struct node *n = c->node;
	struct arena scratch = {0};
	const struct tensor **in = arena_new_n(&scratch, const struct tensor *, n->nin + 1);
	struct tensor **out = arena_new_n(&scratch, struct tensor *, n->nout + 1);
	struct diag quiet = {0};

	for (uint32_t i = 0; i < n->nin; i++)
		in[i] = infer_in(c, i) ? infer_in(c, i)->known : NULL;
	/* an error is ignored here: the node reports it when it runs */
	if (!eval_node(env->cpu, c->graph, n, in, out, c->arena, &quiet)) {
		for (uint32_t i = 0; i < n->nout; i++) {
			struct vinfo *v = infer_out(c, i);
			if (!v || !out[i])
				continue;
			v->known = out[i];
			v->shape = out[i]->shape;
			v->ints = NULL;
		}
	}
	diag_free(&quiet);
	arena_free(&scratch);
}

/* Outputs whose elements the shape function recorded become known values if no element is a symbol. */
static void take_ints(struct infer *c)
{
	for (uint32_t i = 0; i < c->node->nout; i++) {
		struct vinfo *v = infer_out(c, i);
		struct tensor *t;

		if (!v || v->known || !v->ints || !shape_known(v->ints) || v->type.kind != V_TENSOR)
			continue;
		if (!shape_known(&v->shape) || shape_count(&v->shape) != v->ints->rank ||
		    v->shape.rank > 1 || (v->type.dtype != DT_I64 && v->type.dtype != DT_I32))
			continue;
		t = tensor_new(c->arena, (enum dtype)v->type.dtype, &v->shape);
		for (int k = 0; k < v->ints->rank; k++)
			elem_set_i64(tensor_dtype(t), t->data, k, v->ints->dim[k]);
		v->known = t;
	}
}

/* ---- one node -------------------------------------------------------------------------------- */

static int check_sizes(struct infer *c)
{
	for (uint32_t i = 0; i < c->node->nout; i++) {
		const struct vinfo *v = infer_out(c, i);

		if (v && v->type.kind == V_TENSOR && !shape_countable(&v->shape))
			return infer_fail(
				c, E_SIZE, -1, "a size that can be addressed",
				shape_str(c->diag ? &c->diag->arena : c->arena, &v->shape, NULL));
	}
	return 0;
}

/*
 * If shapes do not match and a Transpose makes one of them, names that Transpose and its perm in the finding: a wrong
 * perm shows only at the next node that compares sizes.
 */
static void name_transpose(const struct infer *c)
{
	struct finding *f = c->diag ? c->diag->last : NULL;

	for (uint32_t i = 0; f && f->code == E_SHAPE && !f->hint && i < c->node->nin; i++) {
		const struct value *v = node_in(c->graph, c->node, i);
		const struct node *n = value_maker(c->graph, v);
		const struct field *perm =
			n && n->op && n->params ? params_field(n->op, "perm") : NULL;
		const struct ints *p =
			perm ? (const void *)((const char *)n->params + perm->off) : NULL;
		struct shape s = {.rank = p && p->n > 0 && p->n <= MAX_RANK ? (int)p->n : 0};
		for (int k = 0; k < s.rank; k++)
			s.dim[k] = p->v[k];
		if (s.rank)
			f->hint = fmt(
				c->diag,
				"input %u is made by '%s' (%s) with perm %s: is this perm right?", i,
				n->origin->name, n->op->name, shape_str(&c->diag->arena, &s, NULL));
	}
}

int infer_node(struct infer *c)
{
	const struct node *n = c->node;
	const struct infer_env *env = c->body_ctx;
	struct op op;
	int r;

	if (!n->op)
		return FAIL(c->diag, E_OP_UNSUPPORTED, .node = n->origin->name, .op = n->origin->op);
	c->wanted = 0;
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] != NO_VALUE)
			c->info[n->out[i]] = unknown_info();
	r = infer_types(c);
	if (r)
		return r;
	op = *n->op;
	if (!op.infer)
		op = op_resolved(n->op);
	r = op.infer ? op.infer(c) : 0;
	if (!r)
		r = infer_check_outputs(c);
	if (!r)
		r = check_sizes(c);
	if (r) {
		diag_where(c->diag, NULL, n->origin->name, n->origin->op);
		name_transpose(c);
		return r;
	}
	take_ints(c);
	if (env && env->cpu && can_evaluate(c))
		evaluate(c);
	return 0;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static bool all_known(const struct infer *c)
{
	for (uint32_t i = 0; i < c->node->nin; i++) {
		const struct vinfo *v = infer_in(c, i);
		if (v && v->type.kind == V_TENSOR && !shape_known(&v->shape))
			return false;
	}
	return true;
}

/*
 * Infers all nodes of g. may_fail says that g is a branch that may never run: outputs of nodes whose inputs do not
 * fit then stay unknown.
 */
static int run_graph(struct infer *c, const struct graph *g, bool concrete, bool may_fail)
{
	for (uint32_t i = 0; i < g->norder; i++) {
		int r;

		c->node = g->node[g->order[i]];
		/* nodes that depend on shapes known only after a run are inferred with unknown dims */
		c->concrete = concrete && all_known(c);
		r = infer_node(c);
		if (r && !may_fail)
			return r;
	}
	return 0;
}

/* Type and shape of formal input v: those of `in`, or those that the file declares if `in` does not tell. */
static struct vinfo formal_info(const struct value *v, const struct vinfo *in)
{
	struct vinfo f = in ? *in : v->info;

	if (f.type.kind == V_NONE)
		f.type = v->info.type;
	return f;
}

static int infer_body(struct infer *c, uint32_t k, const struct vinfo *in, struct vinfo *out)
{
	struct infer_env *env = c->body_ctx;
	const struct node *n = c->node;
	struct infer b = *c;
	struct graph *g;
	int r;

	if (k >= n->nsub)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "a body", "none");
	r = env->prepare ? env->prepare(c, k, in, env->arg) : 0;
	if (r)
		return r;
	g = n->sub[k];
	b.graph = g;
	b.info = arena_new_n(c->arena, struct vinfo, g->nvalues);
	infer_constants(g, b.info);
	for (uint32_t i = 0; i < g->nin; i++)
		b.info[g->in[i]] = formal_info(g->value[g->in[i]], in ? &in[i] : NULL);
	for (uint32_t j = 0; j < g->ncap; j++)
		b.info[g->in[g->nin + j]] = c->info[n->in[n->nin + g->capture[j]]];
	/* errors in a branch that may never run are reported when it is planned */
	bool choice = op_flags(n->op) & OP_BRANCHES;
	struct diag quiet = {0};
	if (choice)
		b.diag = &quiet;
	r = run_graph(&b, g, c->concrete, choice);
	if (quiet.errors && env->unfit)
		env->unfit(c, k, &quiet, env->arg);
	diag_free(&quiet);
	if (!r && env->inferred)
		env->inferred(c, k, b.info, env->arg);
	for (uint32_t i = 0; !r && i < g->nout; i++)
		out[i] = b.info[g->out[i]];
	return r;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

void infer_begin(struct infer *c, const struct graph *g, struct vinfo *info, struct arena *a,
		 bool concrete, struct model *m, const struct backend *cpu, struct diag *d)
{
	struct infer_env *env = arena_new(a, struct infer_env);

	env->cpu = cpu;
	*c = (struct infer){.graph = g,
			    .info = info,
			    .arena = a,
			    .diag = d,
			    .concrete = concrete,
			    .model = m,
			    .body = infer_body,
			    .body_ctx = env};
}
