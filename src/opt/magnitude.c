/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/magnitude.h"

#include "base/mem.h"
#include "ops/float8.h"
#include "ops/fused.h"
#include "ops/norm.h"
#include "ops/resize.h"

#include <math.h>
#include <stdlib.h>

static const struct magnitude unknown = {INFINITY, INFINITY};

static const struct tensor *constant(const struct graph *g, const struct node *n, uint32_t i)
{
	const struct value *v = i < n->nin ? node_in(g, n, i) : NULL;

	return v ? v->init : NULL;
}

bool normalizes_rows(const struct graph *g, const struct node *n)
{
	const struct layer_norm *p = n->params;
	const struct value *x = n->nin ? node_in(g, n, 0) : NULL;
	bool rms = n->op == op_named("RMSNormalization") ||
		   n->op == op_named("SimplifiedLayerNormalization");

	if (!x || (!rms && n->op != op_named("LayerNormalization")) || x->info.shape.rank < 1 ||
	    !constant(g, n, 1) || (n->nin > 2 && node_in(g, n, 2) && !constant(g, n, 2)))
		return false;
	return axis_of(p->axis, x->info.shape.rank) == x->info.shape.rank - 1 &&
	       tensor_count(constant(g, n, 1)) == x->info.shape.dim[x->info.shape.rank - 1];
}

static struct magnitude of_norm(const struct graph *g, const struct node *n)
{
	const struct tensor *w = constant(g, n, 1), *b = constant(g, n, 2);
	int64_t count = tensor_count(w);
	double root = sqrt((double)count), scale = 0, shift = 0, most = 0;

	for (int64_t i = 0; i < count; i++) {
		double s = fabs(elem_f64(tensor_dtype(w), w->data, i));
		double t = b ? fabs(elem_f64(tensor_dtype(b), b->data, i)) : 0;
		scale = fmax(scale, s);
		shift += t * t;
		most = fmax(most, s * root + t);
	}
	return (struct magnitude){most, scale * root + sqrt(shift)};
}

/* Adds up the squares of each column of op(b), a constant [K,N], or [N,K] if `turned`. */
static void add_squares(const struct tensor *b, bool turned, float *row, double *sum)
{
	int64_t rows = b->shape.dim[0], cols = b->shape.dim[1];

	for (int64_t i = 0; i < rows; i++) {
		to_f32(tensor_dtype(b), b->data, i * cols, cols, row);
		for (int64_t k = 0; k < cols; k++)
			sum[turned ? i : k] += (double)row[k] * (double)row[k];
	}
}

/* Activations that give no more than the magnitude of what they get. */
static bool shrinks(int act)
{
	return act == ACT_NONE || act == ACT_RELU || act == ACT_GELU || act == ACT_GELU_TANH;
}

/* A product of float8 may be larger than that of the exact numbers, as each of its factors is rounded by up to 1/16. */
static const double ROUNDED = 1.13;

static struct magnitude of_gemm(const struct graph *g, const struct node *n, struct magnitude a)
{
	const struct fused_gemm *p = n->params;
	const struct tensor *b = constant(g, n, 1), *c = constant(g, n, 2);
	const struct value *x = node_in(g, n, 0);
	bool adds = n->nin > 2 && node_in(g, n, 2), residual = n->nin > 3 && node_in(g, n, 3);
	struct magnitude y = unknown;

	if (!b || isinf(a.norm) || residual || (adds && !c) || !shrinks(p->act) ||
	    float8_gemm_refusal(p, &x->info.shape, &b->shape, c ? &c->shape : NULL, true))
		return unknown;
	int64_t columns = b->shape.dim[p->transB ? 0 : 1];
	double *sum = calloc((size_t)columns, sizeof(*sum));
	float *row = calloc((size_t)b->shape.dim[1], sizeof(*row));
	if (sum && row) {
		add_squares(b, p->transB != 0, row, sum);
		y.most = 0;
		for (int64_t k = 0; k < columns; k++)
			y.most = fmax(y.most,
				      ROUNDED * a.norm * sqrt(sum[k]) +
					      (c ? fabs(elem_f64(tensor_dtype(c), c->data, k)) : 0));
	}
	free(sum);
	free(row);
	return y;
}

/* The first input that has the type of the output: what a node moves. */
static struct magnitude of_moved(const struct graph *g, const struct node *n,
				 const struct magnitude *of)
{
	const struct value *y = node_out(g, n, 0);
	struct magnitude m = unknown;
	int floats = 0;

	for (uint32_t i = 0; y && i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		if (!v || v->info.type.dtype != y->info.type.dtype)
			continue;
		m = (struct magnitude){of[v->id].most, INFINITY};
		floats++;
	}
	return floats == 1 ? m : unknown;
}

/* Whether the outputs of a node that moves or blends elements may be larger than these: cubic curves overshoot, and crops have a value of their own. */
static bool exceeds(const struct node *n)
{
	const struct resize *p = n->params;

	return n->op == op_named("Resize") &&
	       (p->mode == RESIZE_CUBIC ||
		p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE);
}

static struct magnitude of_node(const struct graph *g, const struct node *n,
				const struct magnitude *of)
{
	const struct value *x = n->nin ? node_in(g, n, 0) : NULL;

	if (!n->op || !x)
		return unknown;
	if (normalizes_rows(g, n))
		return of_norm(g, n);
	if (n->op == op_named("infer::Gemm"))
		return of_gemm(g, n, of[x->id]);
	if (n->op == op_named("infer::Attention")) {
		const struct value *v = n->nin > 2 ? node_in(g, n, 2) : NULL;
		return (struct magnitude){of[(v ? v : x)->id].most, INFINITY}; /* without V, X has it */
	}
	return n->op->reduced == REDUCED_MOVES && !n->nsub && !exceeds(n) ? of_moved(g, n, of)
									  : unknown;
}

struct magnitude *magnitudes(struct optimizer *o, const struct graph *g)
{
	struct magnitude *of = arena_new_n(&o->scratch, struct magnitude, g->nvalues + 1);

	for (uint32_t i = 0; i < g->nvalues; i++)
		of[i] = unknown;
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		if (n->nout && n->out[0] != NO_VALUE)
			of[n->out[0]] = of_node(g, n, of);
	}
	return of;
}
