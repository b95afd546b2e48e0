/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --precision fp8: after pass_precision has made the inside of an fp32 graph fp16, products by constant matrices
 * become products of float8 (ops/float8.h). The weights are rounded here, once. Their other operand gets its scale
 * from a bound that holds for all inputs (opt/magnitude.h), so that whoever makes it can round it as well: the
 * normalization, the attention or the product before. An operand without such a bound gets its scale in the run.
 */
#include "base/pool.h"
#include "ops/float8.h"
#include "ops/fused.h"
#include "ops/norm.h"
#include "opt/magnitude.h"
#include "opt/optimizer.h"

#include <math.h>
#include <string.h>

/* A value in float8. */
struct float8 {
	uint32_t q;  /* id of the rounded value; NO_VALUE if there is none yet */
	uint32_t s;  /* id of its scale if that is found in the run, otherwise NO_VALUE */
	float scale; /* 1 if the scale is found in the run */
};

struct conversion {
	struct optimizer *o;
	struct graph *g;
	struct magnitude *of;
	struct float8 *small; /* indexed by value id */
	uint32_t n; /* number of values before the pass: only these have entries in the arrays */
	bool *captured; /* indexed by value id: whether a body reads the value */
	int changes;
};

static const char *refusal(const struct graph *g, const struct node *n)
{
	const struct value *a = node_in(g, n, 0), *b = node_in(g, n, 1);
	const struct value *c = n->nin > 2 ? node_in(g, n, 2) : NULL;

	if (!n->op || n->op != op_named("infer::Gemm") || !a || !b)
		return "it is no product";
	if (a->info.type.dtype != DT_F16)
		return "it is not computed in fp16";
	return float8_gemm_refusal(n->params, &a->info.shape, &b->info.shape,
				   c ? &c->info.shape : NULL, b->init != NULL);
}

static float scale_for(double most)
{
	return most > 0 && most < (double)INFINITY ? (float)(most / (double)FLOAT8_MOST) : 1;
}

static int infer_new(struct conversion *c, struct node *n)
{
	c->changes++;
	return opt_infer_node(c->o, c->g, n);
}

static uint32_t add_value(struct conversion *c, const struct value *from, const char *what)
{
	return graph_add_value(c->g, arena_printf(c->g->arena, "%s %s", from->name, what))->id;
}

/* ---- weights --------------------------------------------------------------------------------- */

struct weight_rows {
	const struct tensor *from; /* [K,N], or [N,K] if turned */
	bool turned;
	int64_t n, k;
	float scale;
	uint8_t *to; /* [N,K] */
};

enum { COLUMNS = 64, ROW_GRAIN = 16 };

/* Rounds rows begin to end of the result, which are columns of the weights unless they are turned. */
static void round_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct weight_rows *w = arg;
	enum dtype t = tensor_dtype(w->from);
	float part[COLUMNS];

	(void)thread;
	for (int64_t j = begin; j < end; j += COLUMNS)
		for (int64_t k = 0; k < w->k && !w->turned; k++) {
			int64_t count = end - j < COLUMNS ? end - j : COLUMNS;
			to_f32(t, w->from->data, k * w->n + j, count, part);
			for (int64_t i = 0; i < count; i++)
				w->to[(j + i) * w->k + k] =
					f32_to_f8(FLOAT8, part[i] / w->scale, true);
		}
	for (int64_t at = begin * w->k; w->turned && at < end * w->k; at += COLUMNS) {
		int64_t count = end * w->k - at < COLUMNS ? end * w->k - at : COLUMNS;
		to_f32(t, w->from->data, at, count, part);
		for (int64_t i = 0; i < count; i++)
			w->to[at + i] = f32_to_f8(FLOAT8, part[i] / w->scale, true);
	}
}

static double largest(const struct tensor *t)
{
	int64_t n = tensor_count(t);
	float part[COLUMNS];
	double most = 0;

	for (int64_t i = 0; i < n; i += COLUMNS) {
		int64_t count = n - i < COLUMNS ? n - i : COLUMNS;
		to_f32(tensor_dtype(t), t->data, i, count, part);
		for (int64_t k = 0; k < count; k++)
			if (isfinite(part[k]))
				most = fmax(most, (double)fabsf(part[k]));
	}
	return most;
}

/* Returns the id of the weights as float8 [N,K], NO_VALUE on failure, and their scale. */
static uint32_t round_weights(struct conversion *c, const struct value *b, bool turned, float *scale)
{
	struct weight_rows w = {.from = b->init,
				.turned = turned,
				.n = b->info.shape.dim[turned ? 0 : 1],
				.k = b->info.shape.dim[turned ? 1 : 0],
				.scale = scale_for(largest(b->init))};
	struct shape shape = shape_of(2, (int64_t[]){w.n, w.k});
	struct tensor *t = tensor_new(c->g->arena, FLOAT8, &shape);

	if (!t)
		return NO_VALUE;
	w.to = t->data;
	pool_for(w.n, ROW_GRAIN, round_rows, &w);
	struct value *v = graph_add_const(c->g, b->name, t);
	opt_set_const(c->o, c->g, v, t);
	*scale = w.scale;
	return v->id;
}

/* ---- the other operand ----------------------------------------------------------------------- */

/* Lets a normalization round its result, too. */
static int convert_norm(struct conversion *c, struct value *v, struct float8 *to)
{
	struct node *n = c->g->node[v->producer];
	struct float8_norm *p = arena_new(c->g->arena, struct float8_norm);
	const struct layer_norm *was = n->params;

	*to = (struct float8){add_value(c, v, "as float8"), NO_VALUE, scale_for(c->of[v->id].most)};
	*p = (struct float8_norm){was->epsilon, to->scale, n->op->variant == NORM_RMS};
	graph_remove_node(c->g, n);
	n = graph_add_node(c->g, op_named("infer::LayerNormFloat8"), p, n->in, n->nin,
			   (uint32_t[]){to->q, v->id}, 2, n->origin);
	return infer_new(c, n);
}

/* Whether only products of float8 read the value. */
static bool only_products_read(const struct conversion *c, const struct value *v)
{
	if (v->is_output || c->captured[v->id])
		return false;
	for (uint32_t i = 0; i < v->nusers; i++) {
		const struct node *n = c->g->node[v->users[i]];
		if (refusal(c->g, n))
			return false;
		for (uint32_t k = 1; k < n->nin; k++)
			if (n->in[k] == v->id)
				return false;
	}
	return true;
}

/* Lets a product of float8 round its result to float8. */
static int convert_result(struct conversion *c, struct value *v, struct float8 *to)
{
	struct node *n = c->g->node[v->producer];
	struct float8_gemm *p = n->params;
	struct shape one = shape_of(1, (int64_t[]){1});
	struct tensor *t = tensor_new(c->g->arena, DT_F32, &one);

	*to = (struct float8){v->id, NO_VALUE, scale_for(c->of[v->id].most)};
	if (!t)
		return FAIL(c->o->diag, E_MEMORY, .node = n->origin->name);
	*(float *)t->data = 1 / to->scale;
	struct value *d = graph_add_const(c->g, "", t);
	opt_set_const(c->o, c->g, d, t);
	p->type = FLOAT8;
	node_set_in(c->g, n, FLOAT8_D, d->id);
	return infer_new(c, n);
}

/* Lets an attention round its result to float8. */
static int convert_attention(struct conversion *c, struct value *v, struct float8 *to)
{
	struct node *n = c->g->node[v->producer];
	struct fused_attention *p = arena_dup(c->g->arena, n->params, sizeof(struct fused_attention));

	*to = (struct float8){v->id, NO_VALUE, scale_for(c->of[v->id].most)};
	p->y_scale = to->scale;
	graph_remove_node(c->g, n);
	n = graph_add_node(c->g, op_named("infer::AttentionFloat8"), p, n->in, n->nin, n->out, 1,
			   n->origin);
	return infer_new(c, n);
}

/* Adds a node that rounds the value, by a scale that it finds in the run if there is no bound. */
static int add_rounding(struct conversion *c, struct value *v, struct float8 *to)
{
	struct float8_convert *p = arena_new(c->g->arena, struct float8_convert);
	const char *name = arena_printf(c->g->arena, "%s to float8", v->name);
	const struct op *op = op_named("infer::Float8");
	bool known = !isinf(c->of[v->id].most);

	*to = (struct float8){add_value(c, v, "as float8"), NO_VALUE, 1};
	if (known)
		p->scale = to->scale = scale_for(c->of[v->id].most);
	else
		to->s = add_value(c, v, "scale");
	struct node *n =
		graph_add_node(c->g, op, p, &v->id, 1, (uint32_t[]){to->q, to->s}, known ? 1 : 2,
			       origin_new(c->g->arena, name, "Cast", op->since));
	return infer_new(c, n);
}

static int convert_operand(struct conversion *c, struct value *v)
{
	struct float8 *to = &c->small[v->id];
	const struct node *by = value_maker(c->g, v);

	if (to->q != NO_VALUE)
		return 0;
	if (by && normalizes_rows(c->g, by) && by->nout == 1 &&
	    node_in(c->g, by, 0)->info.type.dtype == DT_F16)
		return convert_norm(c, v, to);
	if (by && by->op == op_named("infer::GemmFloat8") && !isinf(c->of[v->id].most) &&
	    only_products_read(c, v))
		return convert_result(c, v, to);
	if (by && by->op == op_named("infer::Attention") && !isinf(c->of[v->id].most) &&
	    node_in(c->g, by, 0)->info.type.dtype == DT_F16 && only_products_read(c, v))
		return convert_attention(c, v, to);
	return add_rounding(c, v, to);
}

/* ---- products -------------------------------------------------------------------------------- */

static int convert_product(struct conversion *c, struct node *n)
{
	struct value *a = node_in(c->g, n, 0), *b = node_in(c->g, n, 1);
	const struct fused_gemm *was = n->params;
	float scale = 1;
	int err = convert_operand(c, a);

	if (err)
		return err;
	uint32_t weights = round_weights(c, b, was->transB != 0, &scale);
	if (weights == NO_VALUE)
		return FAIL(c->o->diag, E_MEMORY, .node = n->origin->name);
	const struct float8 *x = &c->small[a->id];
	struct float8_gemm *p = arena_new(c->g->arena, struct float8_gemm);
	*p = (struct float8_gemm){.type = DT_F16,
				  .scale = scale * x->scale,
				  .act = was->act,
				  .act_alpha = was->act_alpha,
				  .act_beta = was->act_beta};
	const uint32_t in[] = {[FLOAT8_A] = x->q,
			       [FLOAT8_B] = weights,
			       [FLOAT8_C] = n->nin > 2 ? n->in[2] : NO_VALUE,
			       [FLOAT8_R] = n->nin > 3 ? n->in[3] : NO_VALUE,
			       [FLOAT8_S] = x->s};
	graph_remove_node(c->g, n);
	n = graph_add_node(c->g, op_named("infer::GemmFloat8"), p, in, x->s == NO_VALUE ? 4 : 5,
			   n->out, 1, n->origin);
	return infer_new(c, n);
}

static void init_conversion(struct conversion *c)
{
	const struct graph *g = c->g;
	struct arena *a = &c->o->scratch;

	c->n = g->nvalues;
	c->of = magnitudes(c->o, g);
	c->small = arena_new_n(a, struct float8, c->n + 1);
	c->captured = opt_captured(c->o, g);
	for (uint32_t i = 0; i < c->n; i++)
		c->small[i].q = NO_VALUE;
}

int pass_float8(struct optimizer *o, struct graph *g)
{
	struct conversion c = {.o = o, .g = g};

	if (o->config->precision != PRECISION_FP8 || g != o->model->graph)
		return 0;
	int err = graph_sort(g, o->diag);
	if (err)
		return err;
	opt_info(o, g);
	init_conversion(&c);
	uint32_t count = g->norder, *order = arena_dup(&o->scratch, g->order, count * sizeof(*order));
	for (uint32_t i = 0; i < count && !err; i++) {
		struct node *n = g->node[order[i]];
		if (!n->dead && n->op && n->nin > 1 && !refusal(g, n))
			err = convert_product(&c, n);
	}
	if (!err)
		err = graph_sort(g, o->diag);
	return err ? err : c.changes;
}
