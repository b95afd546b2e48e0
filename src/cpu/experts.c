/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.microsoft's MoE and QMoE. The router chooses k experts for each token; then each expert computes all its tokens at once,
 * experts one after the other, so that the sums of a token have one order whatever the number of threads is.
 */
#include "ops/experts.h"

#include "base/mem.h"
#include "cpu/math/gemm.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"

#include <string.h>

/* Rows of weights that a thread converts to float at once. */
enum { PANEL = 32 };
/* With at most this number of tokens, each product of a row is computed by itself: packing the weights would not pay. */
enum { FEW_TOKENS = 6 };

/* ---- the router -------------------------------------------------------------------------------- */

struct router {
	const struct experts *p;
	const float *logits, *weights; /* weights: NULL if those of the routes come from the logits */
	int64_t experts;
	int64_t *expert; /* [tokens, k] */
	float *weight;	 /* [tokens, k] */
};

/* Whether a comes before b among the candidates. Of equal logits the last is chosen, as ONNX Runtime's CPU provider does. */
static bool comes_before(const float *x, int64_t a, int64_t b)
{
	return x[a] > x[b] || (x[a] == x[b] && a > b);
}

/* Returns the best expert that comes behind `last` (-1: none). */
static int64_t next_expert(const float *x, int64_t n, int64_t last)
{
	int64_t best = -1;

	for (int64_t e = 0; e < n; e++)
		if (e != last && (last < 0 || comes_before(x, last, e)) &&
		    (best < 0 || comes_before(x, e, best)))
			best = e;
	return best;
}

/* The weight of the sparse mixer: a softmax among the experts whose logits are close to the chosen one. */
static float mixed(const float *x, int64_t n, int64_t chosen, int64_t barred)
{
	float sum = 0;

	for (int64_t e = 0; e < n; e++) {
		float most = fmaxf(fabsf(x[e]), x[chosen]);
		if (e != barred && !(x[chosen] - x[e] > EXPERTS_JITTER * most))
			sum += expf(x[e] - x[chosen]);
	}
	return 1 / sum;
}

static void weigh(const struct router *r, const float *x, const float *given, const int64_t *expert,
		  float *weight)
{
	int64_t k = r->p->k, n = r->experts;
	float sum = 0;

	if (given) {
		for (int64_t j = 0; j < k; j++)
			sum += weight[j] = given[expert[j]];
		for (int64_t j = 0; j < k && r->p->normalize_routing_weights; j++)
			weight[j] = sum == 0 ? 0 : weight[j] / sum;
		return;
	}
	if (r->p->use_sparse_mixer) {
		weight[0] = mixed(x, n, expert[0], -1);
		weight[1] = mixed(x, n, expert[1], expert[0]);
		return;
	}
	for (int64_t j = 0; j < k; j++)
		sum += weight[j] = expf(x[expert[j]] - x[expert[0]]);
	if (!r->p->normalize_routing_weights) {
		sum = 0;
		for (int64_t e = 0; e < n; e++)
			sum += expf(x[e] - x[expert[0]]);
	}
	for (int64_t j = 0; j < k; j++)
		weight[j] /= sum;
}

static void route_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct router *r = arg;
	int64_t k = r->p->k, n = r->experts;

	(void)thread;
	for (int64_t t = begin; t < end; t++) {
		const float *x = r->logits + t * n;
		int64_t *expert = r->expert + t * k;
		float *weight = r->weight + t * k;
		bool number = true;
		for (int64_t e = 0; e < n; e++)
			number = number && !isnan(x[e]);
		/* which experts a NaN chooses is not defined; whichever they are, the token becomes NaN */
		for (int64_t j = 0; j < k; j++) {
			expert[j] = number ? next_expert(x, n, j ? expert[j - 1] : -1) : j;
			weight[j] = NAN;
		}
		if (number)
			weigh(r, x, r->weights ? r->weights + t * n : NULL, expert, weight);
	}
}

/* ---- the layers of an expert ------------------------------------------------------------------- */

/* Weights [experts, rows, in] of one layer, with their quantization if they have one. */
struct layer {
	const struct tensor *weights, *scales, *zeros, *global;
	const float *bias; /* [experts, rows], or NULL */
	/* bits: 0 if the weights are numbers; block: weights, or the side of a square of weights, that share a scale, 0: a row */
	int64_t rows, in, bits, block;
	bool fp4; /* the weights are stored [experts, in, rows / 2] */
};

static struct layer layer_of(const struct call *c, int fc, struct scratch *s, int64_t rows, int64_t in)
{
	const struct experts *p = call_params(c);
	struct expert_inputs i = expert_inputs(c->step->node->op, fc);
	struct layer l = {.weights = optional_in(c, i.weights),
			  .scales = optional_in(c, i.scales),
			  .zeros = optional_in(c, i.zeros),
			  .global = optional_in(c, i.global),
			  .bias = wide_in(s, optional_in(c, i.bias)),
			  .rows = rows,
			  .in = in};

	if (c->step->node->op->variant == EXPERTS_QUANTIZED && p->quant_type == EXPERT_INT) {
		l.bits = expert_bits(p, fc);
		l.block = p->block_size;
	} else if (c->step->node->op->variant == EXPERTS_QUANTIZED) {
		l.block = expert_squares(p) ? p->block_size : expert_fp4_block(p);
		l.fp4 = expert_fp4_block(p) != 0;
	}
	return l;
}

/* Code i of a row of codes of `bits` bits each. */
static int code_at(const uint8_t *row, int64_t i, int64_t bits)
{
	int64_t per = 8 / bits;

	return row[i / per] >> (i % per * bits) & ((1 << bits) - 1);
}

static float zero_of(const struct layer *l, int64_t expert, int64_t row, int64_t block)
{
	if (!l->zeros)
		return (float)(1 << (l->bits - 1));
	const uint8_t *z = l->zeros->data;
	int64_t last = l->zeros->shape.dim[l->zeros->shape.rank - 1];
	/* without blocks, the zero points of the rows of an expert lie side by side */
	if (!l->block)
		return (float)code_at(z + expert * last, row, l->bits);
	return (float)code_at(z + (expert * l->rows + row) * last, block, l->bits);
}

/* Writes n weights from their codes, which begin with a byte. */
static void decode(const uint8_t *codes, int64_t bits, int64_t n, float zero, float scale, float *to)
{
	if (bits == 8) {
		LOOP for (int64_t i = 0; i < n; i++) to[i] = ((float)codes[i] - zero) * scale;
	} else if (bits == 4) {
		LOOP for (int64_t i = 0; i < n / 2; i++)
		{
			to[2 * i] = ((float)(codes[i] & 15) - zero) * scale;
			to[2 * i + 1] = ((float)(codes[i] >> 4) - zero) * scale;
		}
	} else {
		for (int64_t i = 0; i < n; i++)
			to[i] = ((float)code_at(codes, i, bits) - zero) * scale;
	}
}

/* Multiplies a row by the scale of its expert, or by those of the squares that it passes. */
static void scale_row(const struct layer *l, int64_t expert, int64_t row, float *x)
{
	int64_t across = l->block ? (l->in + l->block - 1) / l->block : 1,
		down = l->block ? (l->rows + l->block - 1) / l->block : 1;
	float by = l->global ? ((const float *)l->global->data)[expert] : 1;

	for (int64_t i = 0; i < l->in; i++) {
		if (l->block && i % l->block == 0)
			to_f32(tensor_dtype(l->scales), l->scales->data,
			       (expert * down + row / l->block) * across + i / l->block, 1, &by);
		x[i] *= by;
	}
}

static void read_fp4_row(const struct layer *l, int64_t expert, int64_t row, float *to)
{
	static const float value[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
	const uint8_t *codes =
		(const uint8_t *)l->weights->data + expert * l->in * (l->rows / 2) + row / 2;
	const uint8_t *scales =
		(const uint8_t *)l->scales->data + (expert * l->rows + row) * (l->in / l->block);

	for (int64_t i = 0; i < l->in; i++) {
		unsigned code = codes[i * (l->rows / 2)] >> (row & 1) * 4 & 15;
		float v = code & 8 ? -value[code & 7] : value[code & 7];
		to[i] = v * f8_to_f32(tensor_dtype(l->scales), scales[i / l->block]) *
			((const float *)l->global->data)[expert];
	}
}

/* Writes one row of weights as floats. */
static void read_row(const struct layer *l, int64_t expert, int64_t row, float *to)
{
	int64_t at = expert * l->rows + row;

	if (l->fp4) {
		read_fp4_row(l, expert, row, to);
		return;
	}
	if (!l->bits) {
		simd_to_f32(tensor_dtype(l->weights), l->weights->data, at * l->in, l->in, to);
		if (l->global || l->block)
			scale_row(l, expert, row, to);
		return;
	}
	const uint8_t *codes = (const uint8_t *)l->weights->data + at * (l->in * l->bits / 8);
	int64_t block = l->block ? l->block : greater(1, l->in), blocks = l->in / block;
	for (int64_t b = 0; b < blocks; b++) {
		float zero = zero_of(l, expert, row, b), scale;
		to_f32(tensor_dtype(l->scales), l->scales->data, at * blocks + b, 1, &scale);
		decode(codes + b * block * l->bits / 8, l->bits, block, zero, scale, to + b * block);
	}
}

/* The product of some tokens and the weights of one expert. */
struct product {
	const struct layer *l;
	int64_t expert, tokens;
	const float *x; /* [tokens, in] */
	float *y;	/* [tokens, rows] */
	char *room;	/* of each thread: a panel of weights, and what gemm_one needs */
	size_t each;
};

static size_t panel_bytes(int64_t in)
{
	return scratch_size((size_t)(PANEL * in) * sizeof(float));
}

/* Columns first to first + n - 1 of the product, whose weights are `rows`. */
static void multiply_panel(const struct product *p, int64_t first, int64_t n, const float *rows,
			   void *scratch)
{
	const struct layer *l = p->l;
	struct gemm g = {.m = p->tokens,
			 .n = n,
			 .k = l->in,
			 .a = p->x,
			 .a_row = l->in,
			 .a_col = 1,
			 .b = rows,
			 .b_row = 1,
			 .b_col = l->in,
			 .c = p->y + first,
			 .c_row = l->rows,
			 .alpha = 1};

	if (p->tokens > FEW_TOKENS) {
		gemm_one(GEMM_F32, &g, scratch);
		return;
	}
	for (int64_t r = 0; r < n; r++)
		for (int64_t t = 0; t < p->tokens; t++)
			p->y[t * l->rows + first + r] =
				simd()->dot(p->x + t * l->in, rows + r * l->in, l->in);
}

static void multiply_panels(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct product *p = arg;
	const struct layer *l = p->l;
	float *panel = (float *)(void *)(p->room + (size_t)thread * p->each);

	for (int64_t k = begin; k < end; k++) {
		int64_t first = k * PANEL, n = lesser(PANEL, l->rows - first);
		const float *rows = panel;
		if (tensor_dtype(l->weights) == DT_F32)
			rows = (const float *)l->weights->data + (p->expert * l->rows + first) * l->in;
		else
			for (int64_t r = 0; r < n; r++)
				read_row(l, p->expert, first + r, panel + r * l->in);
		multiply_panel(p, first, n, rows, (char *)panel + panel_bytes(l->in));
		for (int64_t t = 0; t < p->tokens && l->bias; t++)
			for (int64_t r = 0; r < n; r++)
				p->y[t * l->rows + first + r] +=
					l->bias[p->expert * l->rows + first + r];
	}
}

static void multiply(struct product p, const struct layer *l, const float *x, float *y)
{
	p.l = l;
	p.x = x;
	p.y = y;
	pool_for((l->rows + PANEL - 1) / PANEL, rows_grain(GRAIN, PANEL * l->in), multiply_panels, &p);
}

struct activation {
	const struct experts *p;
	const float *first, *third; /* third: NULL if there is no fc3 */
	float *y;
	int64_t wide, inter;
};

static float swiglu(const struct experts *p, float g, float l)
{
	float limit = expert_limit(p);

	/* written so that a NaN stays */
	g = g > limit ? limit : g;
	l = l > limit ? limit : l < -limit ? -limit : l;
	return g / (1 + expf(-p->activation_alpha * g)) * (l + p->activation_beta);
}

static float activated(int activation, float x)
{
	switch (activation) {
	case EXPERT_RELU: return x < 0 ? 0 : x;
	case EXPERT_GELU:
		return 0.5F * x * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
	case EXPERT_SILU: return x / (1 + expf(-x));
	default: return x;
	}
}

static void activate_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct activation *a = arg;
	const struct experts *p = a->p;

	(void)thread;
	for (int64_t t = begin; t < end; t++)
		for (int64_t i = 0; i < a->inter; i++) {
			const float *x = a->first + t * a->wide;
			float *y = a->y + t * a->inter + i;
			float l = a->third ? a->third[t * a->inter + i] : 1;
			if (p->activation_type != EXPERT_SWIGLU)
				*y = activated(p->activation_type, x[i]) * l;
			else if (p->swiglu_fusion == SWIGLU_IN_TURN)
				*y = swiglu(p, x[2 * i], x[2 * i + 1]);
			else
				*y = swiglu(p, x[i], a->third ? l : x[a->inter + i]);
		}
}

/* ---- the kernel -------------------------------------------------------------------------------- */

/* Sizes in bytes of the parts of the workspace; an expert has at most each token once. */
struct rooms {
	size_t expert, weight, list, start, x, first, third, between, y, panels;
};

static bool floats(int64_t a, int64_t b, size_t *bytes)
{
	size_t n;

	if (!size_mul((size_t)a, (size_t)b, &n) || !size_mul(n, sizeof(float), bytes) ||
	    *bytes > SIZE_MAX / 64)
		return false;
	*bytes = scratch_size(*bytes);
	return true;
}

static size_t panel_each(const struct expert_sizes *z)
{
	int64_t in = greater(z->hidden, z->inter);

	return panel_bytes(in) + scratch_size(gemm_scratch_one(GEMM_F32));
}

static bool rooms_set(const struct experts *p, const struct expert_sizes *z, bool third,
		      struct rooms *r)
{
	/* numbers of experts and tokens have 64 bits: two floats */
	bool fits = floats(2 * z->tokens, p->k, &r->expert) && floats(z->tokens, p->k, &r->weight) &&
		    floats(2 * z->tokens, p->k, &r->list) && floats(2, z->experts + 1, &r->start) &&
		    floats(z->tokens, z->hidden, &r->x) && floats(z->tokens, z->wide, &r->first) &&
		    floats(z->tokens, third ? z->inter : 0, &r->third) &&
		    floats(z->tokens, z->inter, &r->between) && floats(z->tokens, z->hidden, &r->y) &&
		    floats(greater(z->hidden, z->inter), PANEL, &r->panels);

	r->panels = panel_each(z) * (size_t)pool_threads();
	return fits;
}

static int experts_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct experts *p = site_params(site);
	uint32_t fc1 = expert_inputs(site->node->op, FC1).weights,
		 fc3 = expert_inputs(site->node->op, FC3).weights;
	struct expert_sizes z =
		expert_sizes(site_shape(site, EXPERTS_X), site_shape(site, EXPERTS_ROUTER),
			     site_shape(site, fc1), p);
	struct rooms r;

	if (!rooms_set(p, &z, site_in(site, fc3), &r))
		return FAIL(d, E_SIZE, .node = site->node->origin->name,
			    .op = op_qualified(site->node->op));
	/* only f32 operands are read where they are; the weights are converted a panel at a time */
	step->workspace = r.expert + r.weight + r.list + r.start + r.x + r.first + r.third +
			  r.between + r.y + r.panels;
	for (uint32_t i = 0; i < site->node->nin; i++)
		if (site_in(site, i) && i != fc1 && i != fc3 &&
		    i != expert_inputs(site->node->op, FC2).weights)
			step->workspace += wide_bytes(site_type(site, i), site_shape(site, i));
	step->workspace += wide_bytes(site_out_type(site, 0), &site_out(site, 0)->shape);
	return 0;
}

/* Lists the routes of each expert: those of expert e are list[start[e]] to list[start[e + 1] - 1]. */
static void sort_routes(const int64_t *expert, int64_t n, int64_t experts, int64_t *list,
			int64_t *start)
{
	memset(start, 0, (size_t)(experts + 1) * sizeof(*start));
	for (int64_t i = 0; i < n; i++)
		start[expert[i] + 1]++;
	for (int64_t e = 0; e < experts; e++)
		start[e + 1] += start[e];
	for (int64_t i = 0; i < n; i++)
		list[start[expert[i]]++] = i;
	memmove(start + 1, start, (size_t)experts * sizeof(*start));
	start[0] = 0;
}

static int experts_run(const struct call *c)
{
	const struct experts *p = call_params(c);
	const struct op *op = c->step->node->op;
	struct scratch s = scratch_of(c);
	const struct tensor *fc1 = c->in[expert_inputs(op, FC1).weights],
			    *fc3 = optional_in(c, expert_inputs(op, FC3).weights);
	struct expert_sizes z = expert_sizes(&c->in[EXPERTS_X]->shape,
					     &c->in[EXPERTS_ROUTER]->shape, &fc1->shape, p);
	struct rooms r;

	rooms_set(p, &z, fc3, &r);
	struct router router = {.p = p,
				.logits = wide_in(&s, c->in[EXPERTS_ROUTER]),
				.experts = z.experts,
				.expert = scratch_take(&s, r.expert),
				.weight = scratch_take(&s, r.weight)};
	if (op->variant == EXPERTS_QUANTIZED)
		router.weights = wide_in(&s, optional_in(c, EXPERTS_ROUTER_WEIGHTS));
	pool_for(z.tokens, rows_grain(GRAIN_HEAVY, z.experts), route_tokens, &router);
	int64_t *list = scratch_take(&s, r.list), *start = scratch_take(&s, r.start);
	sort_routes(router.expert, z.tokens * p->k, z.experts, list, start);

	const float *x = wide_in(&s, c->in[EXPERTS_X]);
	float *y = wide_out(&s, c->out[0]), *in = scratch_take(&s, r.x),
	      *first = scratch_take(&s, r.first), *between = scratch_take(&s, r.between),
	      *out = scratch_take(&s, r.y), *third = fc3 ? scratch_take(&s, r.third) : NULL;
	struct layer layers[] = {layer_of(c, FC1, &s, z.wide, z.hidden),
				 layer_of(c, FC2, &s, z.hidden, z.inter),
				 layer_of(c, FC3, &s, z.inter, z.hidden)};
	struct product product = {.room = scratch_take(&s, r.panels), .each = panel_each(&z)};
	struct activation act = {p, first, third, between, z.wide, z.inter};

	memset(y, 0, (size_t)(z.tokens * z.hidden) * sizeof(float));
	for (int64_t e = 0; e < z.experts; e++) {
		int64_t n = start[e + 1] - start[e];
		const int64_t *mine = list + start[e];
		if (!n)
			continue;
		for (int64_t t = 0; t < n; t++)
			memcpy(in + t * z.hidden, x + mine[t] / p->k * z.hidden,
			       (size_t)z.hidden * sizeof(float));
		product.expert = e;
		product.tokens = n;
		multiply(product, &layers[FC1], in, first);
		if (fc3)
			multiply(product, &layers[FC3], in, third);
		pool_for(n, rows_grain(GRAIN_HEAVY, z.inter), activate_tokens, &act);
		multiply(product, &layers[FC2], between, out);
		for (int64_t t = 0; t < n; t++) {
			float weight = router.weight[mine[t]], *to = y + mine[t] / p->k * z.hidden;
			for (int64_t i = 0; i < z.hidden; i++)
				to[i] += weight * out[t * z.hidden + i];
		}
	}
	wide_done(c->out[0], y);
	return 0;
}

static bool qmoe_accepts(const struct site *s, struct why *why)
{
	const struct experts *p = site_params(s);

	if (p->quant_type == EXPERT_WFP4AFP8)
		return refuse(why, "activations in FP8");
	if (p->quant_type != EXPERT_INT && !expert_squares(p) &&
	    site_in(s, expert_inputs(s->node->op, FC3).weights))
		return refuse(why, "fc3 whose experts have no scale");
	if (p->weights_prepacked == 1)
		return refuse(why, "weights in a provider's own order");
	return true;
}

#define NF (T_F32 | T_F16 | T_BF16)
const struct kernel cpu_experts[] = {{.op = "com.microsoft::MoE",
				      .types = NF,
				      .flags = K_REFERENCE,
				      .reshape = experts_reshape,
				      .run = experts_run},
				     {.op = "com.microsoft::QMoE",
				      .types = NF,
				      .flags = K_REFERENCE,
				      .accepts = qmoe_accepts,
				      .reshape = experts_reshape,
				      .run = experts_run},
				     {0}};
