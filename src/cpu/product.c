/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/product.h"

#include "backend/weight_store.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/level.h"
#include "cpu/math/util.h"
#include "cpu/onednn/onednn.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "ops/window.h"

#include <string.h>

/* Packing pads the columns to those of a strip, up to 32, so that a narrow matrix would take many times its size. */
enum { MIN_COLUMNS = 16 };

enum { IN_A, IN_B, IN_C, IN_R };

/* y = act(alpha * A * B + C + R) for A [m, k], the packed B [k, n], a row C [n] or none, and R [m, n] or none. */
struct linear {
	int64_t m, n, k;
	const float *packed;
	float alpha;
	int act;
	float act_alpha, act_beta;
	bool has_c, has_r;
};

/* What the three operators say, as infer::Gemm says it. */
static struct fused_gemm matmul_params(void)
{
	return (struct fused_gemm){.alpha = 1, .beta = 1, .act = ACT_NONE};
}

static struct fused_gemm gemm_params(const struct site *s)
{
	const struct gemm_params *g = site_params(s);
	struct fused_gemm f = matmul_params();

	f.alpha = g->alpha;
	f.beta = g->beta;
	f.transA = g->transA;
	f.transB = g->transB;
	return f;
}

static bool is_row(const struct vinfo *c, int64_t n)
{
	return c->shape.rank >= 1 && c->shape.dim[c->shape.rank - 1] == n &&
	       shape_count(&c->shape) == n;
}

/*
 * With AVX-512, oneDNN waits for weights that come from memory: on one core of a Xeon, 128 rows by 768 x 3072 run at 150 GFLOP/s
 * there and at 185 here. With many rows the weights matter less, and less still with several threads: with eight it is
 * the faster one (bert's 128 rows by a quarter). Its GELU is faster, which shows behind short sums.
 */
static bool onednn_faster(const struct fused_gemm *f, int64_t m, int64_t k)
{
	enum { FEW_ROWS = 16, MANY_BY_TWO = 160, MANY_ALONE = 512, SHORT_SUM = 512 };
	int threads = pool_threads();
	int64_t many = threads == 1 ? MANY_ALONE : threads == 2 ? MANY_BY_TWO : FEW_ROWS;
	bool gelu = f->act == ACT_GELU || f->act == ACT_GELU_TANH;

	return m > FEW_ROWS && (m > many || (gelu && k < SHORT_SUM)) && onednn_usable(NULL);
}

static bool accepts(const struct site *s, const struct fused_gemm *f, struct why *w)
{
	const struct vinfo *a = site_in(s, IN_A), *b = site_in(s, IN_B), *c = site_in(s, IN_C);

	if (!s->store || !site_is_weight(s, IN_B) || b->shape.rank != 2)
		return refuse(w, "a second factor that is no constant matrix");
	if (a->shape.rank < 2 || f->transA)
		return refuse(w, "a first factor whose rows are not dense");
	int64_t k = a->shape.dim[a->shape.rank - 1], n = b->shape.dim[f->transB ? 0 : 1];
	int64_t m = shape_span(&a->shape, 0, a->shape.rank - 1);
	if (m < 1 || k < 1 || b->shape.dim[f->transB ? 1 : 0] != k)
		return refuse(w, "an empty factor");
	if (n < MIN_COLUMNS)
		return refuse(w, "few columns");
	if (simd_level() == 4 && onednn_faster(f, m, k))
		return refuse(w, "oneDNN's product is faster with AVX-512");
	if (c && (f->beta != 1 || !is_row(c, n)))
		return refuse(w, "a C that is no row");
	return true;
}

/* ---- packing ---------------------------------------------------------------------------------- */

/* gemm_pack's strips divide this number of columns, so that so many can be packed apart from the others. */
enum { PACK_COLUMNS = 64 };

struct packing {
	int64_t n, k;
	bool transposed;
	const float *from;
	float *to;
};

static void pack_columns(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct packing *p = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t first = i * PACK_COLUMNS, rest = p->n - first;
		struct gemm g = {.n = rest < PACK_COLUMNS ? rest : PACK_COLUMNS,
				 .k = p->k,
				 .b = p->from + first * (p->transposed ? p->k : 1),
				 .b_row = p->transposed ? 1 : p->n,
				 .b_col = p->transposed ? p->k : 1};
		gemm_pack(GEMM_F32, &g, p->to + first * p->k);
	}
}

static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	struct packing *p = arg;

	p->from = t->data;
	p->to = dst;
	pool_for((p->n + PACK_COLUMNS - 1) / PACK_COLUMNS, 1, pack_columns, p);
	return 0;
}

/* ---- the kernel ------------------------------------------------------------------------------- */

/* The product without its operands' data. */
static struct gemm product_of(const struct linear *l)
{
	return (struct gemm){.m = l->m,
			     .n = l->n,
			     .k = l->k,
			     .a_row = l->k,
			     .a_col = 1,
			     .b = l->packed,
			     .packed = l->packed,
			     .c_row = l->n,
			     .alpha = (double)l->alpha};
}

/* Packs the weights of the product, a matrix [n, k] if `transposed` and else [k, n], and finishes the step. */
static int prepare(struct site *s, struct step *step, struct linear *l, bool transposed,
		   struct diag *d)
{
	struct packing p = {.n = l->n, .k = l->k, .transposed = transposed};
	size_t bytes = gemm_packed_bytes(GEMM_F32, l->n, l->k);

	l->has_c = site_in(s, IN_C) != NULL;
	l->has_r = site_in(s, IN_R) != NULL;
	l->packed = store_get(s->store, site_known(s, IN_B),
			      transposed ? "product transposed" : "product", bytes, pack_weights,
			      &p, d);
	if (!l->packed)
		return -E_MEMORY;
	step->unread |= UINT64_C(1) << IN_B;
	const struct gemm g = product_of(l);
	step->workspace = gemm_scratch_for(GEMM_F32, &g);
	step->state = l;
	if (l->has_r)
		allow_inplace(step, 0, IN_R);
	return 0;
}

static int reshape(struct site *s, struct step *step, const struct fused_gemm *f, struct diag *d)
{
	struct linear *l = arena_new(s->plan_arena, struct linear);
	const struct tensor *b = site_known(s, IN_B);
	const struct shape *a = &site_in(s, IN_A)->shape;

	*l = (struct linear){.m = shape_span(a, 0, a->rank - 1),
			     .k = a->dim[a->rank - 1],
			     .n = b->shape.dim[f->transB ? 0 : 1],
			     .alpha = f->alpha,
			     .act = f->act,
			     .act_alpha = f->act_alpha,
			     .act_beta = f->act_beta};
	return prepare(s, step, l, f->transB != 0, d);
}

struct linear_run {
	const struct linear *l;
	const float *c;
	const float *r; /* NULL if the product is added to R in place */
};

/* Applies what follows the product to a block of it. */
static void finish(const struct gemm *g, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
	const struct linear_run *run = g->finish_arg;
	const struct linear *l = run->l;
	const float *c = run->c ? run->c + n0 : NULL;
	const struct simd *v = simd();
	int64_t cols = n1 - n0;

	for (int64_t i = m0; i < m1; i++) {
		float *y = (float *)g->c + i * g->c_row + n0;
		bool gelu = l->act == ACT_GELU || l->act == ACT_GELU_TANH;
		if (c && !run->r && gelu) {
			v->bias_map(y, c, y, cols, act_function(l->act));
			continue;
		}
		if (c)
			v->bin[VB_ADD][DT_F32](y, c, y, cols);
		if (run->r)
			v->bin[VB_ADD][DT_F32](y, run->r + i * l->n + n0, y, cols);
		act_f32(l->act, l->act_alpha, l->act_beta, y, cols);
	}
}

int product_run(const struct call *c)
{
	const struct linear *l = c->step->state;
	const void *r = l->has_r ? c->in[IN_R]->data : NULL;
	bool in_place = r && r == c->out[0]->data;
	struct linear_run run = {
		.l = l, .c = l->has_c ? c->in[IN_C]->data : NULL, .r = in_place ? NULL : r};
	struct gemm g = product_of(l);

	g.a = c->in[IN_A]->data;
	g.c = c->out[0]->data;
	g.beta = in_place ? 1 : 0;
	if (run.c || run.r || l->act != ACT_NONE) {
		g.finish = finish;
		g.finish_arg = &run;
	}
	gemm_run(GEMM_F32, &g, c->workspace);
	return 0;
}

bool product_matmul_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = matmul_params();

	return accepts(s, &f, w);
}

int product_matmul_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = matmul_params();

	return reshape(s, step, &f, d);
}

bool product_gemm_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = gemm_params(s);

	return accepts(s, &f, w);
}

int product_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = gemm_params(s);

	return reshape(s, step, &f, d);
}

bool product_fused_gemm_accepts(const struct site *s, struct why *w)
{
	return accepts(s, site_params(s), w);
}

int product_fused_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	return reshape(s, step, site_params(s), d);
}

/* ---- convolutions with a kernel of one element ------------------------------------------------ */

/* The number of positions of all pictures: the rows of the product if the channels of a position lie side by side. */
static int64_t positions(const struct shape *x)
{
	return x->dim[0] * shape_span(x, 2, x->rank);
}

/*
 * Whether the model leaves the number of positions open, so that each run may have another one. oneDNN generates code for each
 * anew: for a recognizer of lines of text, whose widths differ, that takes longer than the convolutions. The answer must not
 * depend on earlier runs, or the results of an input would.
 */
static bool has_free_positions(const struct site *s)
{
	const struct shape *x = &s->graph->value[s->node->in[IN_A]]->info.shape;

	for (int i = 2; i < x->rank; i++)
		if (x->dim[i] < 0)
			return true;
	return x->rank < 0;
}

/*
 * As for products, oneDNN waits for weights that come from memory. But its threads keep to the same part of the picture from
 * convolution to convolution, which then is in their own caches: with several threads that counts more, unless the
 * picture is small.
 */
static bool onednn_slower(const struct site *s, struct why *w)
{
	enum { MANY_POSITIONS = 64, MANY_ALONE = 256, FEW_CHANNELS = 64 };
	int64_t many = pool_threads() > 1 ? MANY_POSITIONS : MANY_ALONE;
	const struct shape *x = &site_in(s, IN_A)->shape, *weight = &site_in(s, IN_B)->shape;

	if (simd_level() != 4)
		return refuse(w, "oneDNN's product is as fast without AVX-512");
	if (weight->dim[0] < FEW_CHANNELS || weight->dim[1] < FEW_CHANNELS)
		return refuse(w, "few channels");
	if (pool_threads() > 2)
		return refuse(w, "more than two threads");
	return positions(x) <= many || refuse(w, "so many positions that oneDNN is as fast");
}

bool product_fused_conv_accepts(const struct site *s, struct why *w)
{
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, IN_A)->shape, *weight = &site_in(s, IN_B)->shape;

	if ((simd_level() != 4 && site_in(s, IN_A)->layout != LAYOUT_CHANNELS_LAST) ||
	    !onednn_usable(NULL))
		return refuse(w, "convolutions around it that want another layout than channels last");
	if (!s->store || !site_is_weight(s, IN_B))
		return refuse(w, "weights that are no constant");
	if (x->rank < 3 || weight->rank != x->rank || p->group != 1 ||
	    shape_span(weight, 2, weight->rank) != 1 || !all_are(p->strides, 1) ||
	    !all_are(p->pads, 0))
		return refuse(w, "a window of more than one element");
	if (positions(x) < 1 || weight->dim[0] < MIN_COLUMNS)
		return refuse(w, "few columns");
	return has_free_positions(s) || onednn_slower(s, w);
}

int product_fused_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct linear *l = arena_new(s->plan_arena, struct linear);
	const struct fused_conv *p = site_params(s);
	const struct vinfo *x = site_in(s, IN_A);
	const struct shape *weight = &site_in(s, IN_B)->shape;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	bool single = shape_span(&x->shape, 2, x->shape.rank) == 1;

	*l = (struct linear){.m = positions(&x->shape),
			     .k = weight->dim[1],
			     .n = weight->dim[0],
			     .alpha = 1,
			     .act = p->act,
			     .act_alpha = p->act_alpha,
			     .act_beta = p->act_beta};
	/* for a single position the two layouts are one */
	give[0] = single ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
	want[0] = single && x->layout == LAYOUT_CHANNELS_LAST ? x->layout : give[0];
	if (site_in(s, IN_R))
		want[IN_R] = give[0];
	step->want = want;
	step->give = give;
	return prepare(s, step, l, true, d);
}

/* ---- convolutions along a line ---------------------------------------------------------------- */

/*
 * A picture of one row, or a sequence, whose channels lie side by side, is a matrix [positions, channels]. The window of an output
 * position is a part of it without gaps, so that the convolution is a product whose rows overlap in memory; only a padded line
 * is copied. Where oneDNN is as fast, it still needs some milliseconds to generate its code, for a kernel of 3 over 960 channels.
 */
struct line {
	struct linear product; /* of one picture */
	int64_t pictures, positions, channels;
	int64_t begin, end; /* padding */
	int64_t stride;
	size_t scratch; /* of the product; the padded line follows */
};

struct taps {
	struct packing packing;
	int64_t channels, taps;
};

/* Packs weights [n, channels, taps] as a matrix [n, taps * channels]. */
static int pack_taps(void *dst, const struct tensor *t, void *arg)
{
	const struct taps *p = arg;
	struct packing packing = p->packing;
	const float *from = t->data;
	float *to = mem_alloc((size_t)(packing.n * packing.k) * sizeof(*to), MEM_STAGING);
	const struct tensor ordered = {.data = to};

	if (!to)
		return -E_MEMORY;
	for (int64_t i = 0; i < packing.n; i++)
		for (int64_t c = 0; c < p->channels; c++)
			for (int64_t k = 0; k < p->taps; k++)
				to[(i * p->taps + k) * p->channels + c] = *from++;
	int rc = pack_weights(dst, &ordered, &packing);
	mem_free(to);
	return rc;
}

/* Whether all spatial axes but the last have one element, which is not padded, and the last one is padded by zeros or not at all. */
static bool is_line(const struct site *s, const struct fused_conv *p)
{
	const struct shape *x = &site_in(s, IN_A)->shape, *w = &site_in(s, IN_B)->shape;
	int axes = x->rank - 2;

	if (axes < 1 || w->rank != x->rank)
		return false;
	for (int64_t i = 0; i < p->pads.n; i++)
		if (p->pads.v[i] < 0 || (p->pads.v[i] && i % axes != axes - 1))
			return false;
	return shape_span(x, 2, x->rank - 1) == 1 && shape_span(w, 2, w->rank - 1) == 1;
}

bool product_line_accepts(const struct site *s, struct why *w)
{
	enum { FEW_CHANNELS = 64, FEW_MAPS = 32 };
	const struct fused_conv *p = site_params(s);
	const struct vinfo *x = site_in(s, IN_A);

	if (!s->store || !site_is_weight(s, IN_B))
		return refuse(w, "weights that are no constant");
	if (p->group != 1 || !all_are(p->dilations, 1) || !is_line(s, p))
		return refuse(w, "windows of more than one row");
	const struct shape *weight = &site_in(s, IN_B)->shape, *y = &site_out(s, 0)->shape;
	if (weight->dim[weight->rank - 1] < 2 || weight->dim[1] < FEW_CHANNELS ||
	    weight->dim[0] < FEW_MAPS)
		return refuse(w, "few channels");
	if (x->layout != LAYOUT_CHANNELS_LAST)
		return refuse(w, "another layout than channels last");
	if (shape_count(y) < 1)
		return refuse(w, "an empty output");
	return has_free_positions(s) || refuse(w, "a fixed size, for which oneDNN is as fast");
}

/* The product of one picture, whose line may have to be padded first. */
static struct gemm line_product(const struct line *l)
{
	struct gemm g = product_of(&l->product);

	g.a_row = l->stride * l->channels;
	return g;
}

static int64_t padded_elements(const struct line *l)
{
	return l->begin + l->end ? (l->begin + l->positions + l->end) * l->channels : 0;
}

static int prepare_line(struct site *s, struct step *step, struct line *l, int64_t taps,
			struct diag *d)
{
	struct linear *p = &l->product;
	struct taps order = {.packing = {.n = p->n, .k = p->k, .transposed = true},
			     .channels = l->channels,
			     .taps = taps};

	p->has_c = site_in(s, IN_C) != NULL;
	p->has_r = site_in(s, IN_R) != NULL;
	p->packed = store_get(s->store, site_known(s, IN_B), "line",
			      gemm_packed_bytes(GEMM_F32, p->n, p->k), pack_taps, &order, d);
	if (!p->packed)
		return -E_MEMORY;
	step->unread |= UINT64_C(1) << IN_B;
	const struct gemm g = line_product(l);
	size_t padded;
	l->scratch = gemm_scratch_for(GEMM_F32, &g);
	if (__builtin_mul_overflow((size_t)padded_elements(l), sizeof(float), &padded) ||
	    !size_add(l->scratch, padded, &step->workspace))
		return FAIL(d, E_SIZE);
	step->state = l;
	return 0;
}

int product_line_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct line *l = arena_new(s->plan_arena, struct line);
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, IN_A)->shape, *y = &site_out(s, 0)->shape;
	const struct tensor *weights = site_known(s, IN_B);
	const struct window_attrs a = {p->auto_pad, p->dilations, p->kernel_shape, p->pads,
				       p->strides};
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	struct window window;
	const char *wrong = window_set(&window, &a, x, &weights->shape, false, d);
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	int last = window.n - 1;
	*l = (struct line){.product = {.m = y->dim[y->rank - 1],
				       .n = weights->shape.dim[0],
				       .k = weights->shape.dim[1] * window.kernel[last],
				       .alpha = 1,
				       .act = p->act,
				       .act_alpha = p->act_alpha,
				       .act_beta = p->act_beta},
			   .pictures = x->dim[0],
			   .positions = window.in[last],
			   .channels = weights->shape.dim[1],
			   .begin = window.begin[last],
			   .end = window.end[last],
			   .stride = window.stride[last]};
	give[0] = want[0] = LAYOUT_CHANNELS_LAST;
	if (site_in(s, IN_R))
		want[IN_R] = LAYOUT_CHANNELS_LAST;
	step->want = want;
	step->give = give;
	return prepare_line(s, step, l, window.kernel[last], d);
}

/* Copies a line between its padding. */
static const float *pad_line(const struct line *l, const float *x, float *to)
{
	size_t c = (size_t)l->channels * sizeof(*x), n = (size_t)l->positions * c;

	if (!padded_elements(l))
		return x;
	memset(to, 0, (size_t)l->begin * c);
	memcpy(to + l->begin * l->channels, x, n);
	memset(to + (l->begin + l->positions) * l->channels, 0, (size_t)l->end * c);
	return to;
}

int product_line_run(const struct call *c)
{
	const struct line *l = c->step->state;
	const struct linear *p = &l->product;
	const float *x = c->in[IN_A]->data;
	struct linear_run run = {.l = p,
				 .c = p->has_c ? c->in[IN_C]->data : NULL,
				 .r = p->has_r ? c->in[IN_R]->data : NULL};
	float *padded = (float *)(void *)((char *)c->workspace + l->scratch);
	struct gemm g = line_product(l);

	if (run.c || run.r || p->act != ACT_NONE) {
		g.finish = finish;
		g.finish_arg = &run;
	}
	g.c = c->out[0]->data;
	for (int64_t i = 0; i < l->pictures; i++) {
		g.a = pad_line(l, x, padded);
		gemm_run(GEMM_F32, &g, c->workspace);
		x += l->positions * l->channels;
		g.c = (float *)g.c + p->m * p->n;
		run.r = run.r ? run.r + p->m * p->n : NULL;
	}
	return 0;
}
