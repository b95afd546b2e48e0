/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/product.h"

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/level.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/window.h"
#include "cpu/onednn/onednn.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "ops/window.h"

#include <float.h>
#include <math.h>
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
	struct faint *faint;   /* usually NULL */
	struct picture *image; /* where the rows of A are, for convolutions; NULL if A is a matrix */
};

/*
 * Rows of B that are all denormal or zero, as those of channels that died in training. Their products with small elements add
 * nothing, because what is below half of the least number rounds to zero, but processors take some hundred cycles for each
 * multiplication of a denormal number. So these rows are sorted to the end, as a product of their own that is skipped unless an
 * element of A is large.
 */
struct faint {
	int64_t strong;	      /* number of the other values */
	const int32_t *order; /* of all values: the others first */
	const float *packed;  /* weights of the faint values */
	float most;	      /* the largest element whose products vanish */
	size_t scratch;	      /* bytes before the rows of A in that order */
};

/* MatMul and Gemm as params of infer::Gemm. */
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
 * the faster one (bert's 128 rows by a quarter). Its GELU takes 1.15 times as long, unless it stands behind short sums (96 values: 0.9).
 */
static bool onednn_faster(const struct fused_gemm *f, int64_t m, int64_t k)
{
	enum { FEW_ROWS = 16, MANY_BY_TWO = 160, MANY_ALONE = 512, SHORT_SUM = 192 };
	int threads = pool_threads();
	int64_t many = threads == 1 ? MANY_ALONE : threads == 2 ? MANY_BY_TWO : FEW_ROWS;

	if (threads <= 2 && f->act == ACT_GELU && k >= SHORT_SUM)
		return false;
	return m > many && onednn_usable(NULL);
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
	int64_t n, k, taps; /* taps: elements of the window, 0 for a matrix */
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
				 .b_col = p->transposed ? p->k : 1,
				 .taps = p->taps};
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

/* ---- weights that are denormal ------------------------------------------------------------------ */

static bool is_faint(float w)
{
	return fabsf(w) < FLT_MIN;
}

/*
 * Writes the values of k whose weights are all faint to `list`, and returns their number. Where weights are as usual, that takes
 * one look at each value.
 */
static int64_t find_faint(const struct packing *p, const float *w, int32_t *list)
{
	int64_t k_step = p->transposed ? 1 : p->n, n_step = p->transposed ? p->k : 1, count = 0;

	for (int64_t k = 0; k < p->k; k++)
		if (is_faint(w[k * k_step]))
			list[count++] = (int32_t)k;
	for (int64_t n = 1; n < p->n && count; n++) {
		int64_t left = 0;
		for (int64_t i = 0; i < count; i++)
			if (is_faint(w[list[i] * k_step + n * n_step]))
				list[left++] = list[i];
		count = left;
	}
	return count;
}

struct faint_packing {
	const struct packing *p;
	const struct faint *f;
};

/* Packs the weights of the strong values, and behind them those of the faint ones. */
static int pack_faint(void *dst, const struct tensor *t, void *arg)
{
	const struct faint_packing *a = arg;
	const struct packing *p = a->p;
	const float *w = t->data;
	float *rows = mem_alloc((size_t)(p->k * p->n) * sizeof(float), MEM_STAGING);

	if (!rows)
		return -E_MEMORY;
	for (int64_t k = 0; k < p->k; k++)
		for (int64_t n = 0; n < p->n; n++) {
			int64_t from = a->f->order[k];
			rows[k * p->n + n] = w[p->transposed ? n * p->k + from : from * p->n + n];
		}
	struct gemm g = {.n = p->n, .k = a->f->strong, .b = rows, .b_row = p->n, .b_col = 1};
	gemm_pack(GEMM_F32, &g, dst);
	g.b = rows + a->f->strong * p->n;
	g.k = p->k - a->f->strong;
	gemm_pack(GEMM_F32, &g, (char *)dst + gemm_packed_bytes(GEMM_F32, p->n, a->f->strong));
	mem_free(rows);
	return 0;
}

/* The largest element whose products with all faint weights are below half of the least number. */
static float most_that_vanishes(const struct packing *p, const struct faint *f, const float *w)
{
	float largest = 0;

	for (int64_t k = f->strong; k < p->k; k++)
		for (int64_t n = 0; n < p->n; n++) {
			int64_t at = f->order[k];
			float v = fabsf(w[p->transposed ? n * p->k + at : at * p->n + n]);
			largest = v > largest ? v : largest;
		}
	return (float)fmin((double)FLT_MAX, 0x1p-151 / (double)largest);
}

/* Sets l->faint if enough weights are faint. */
static int prepare_faint(struct site *s, struct linear *l, struct packing *p, struct diag *d)
{
	enum { PART = 8 };
	const struct tensor *b = site_known(s, IN_B);
	int32_t *order = arena_new_n(s->plan_arena, int32_t, (size_t)l->k);
	struct faint *f = arena_new(s->plan_arena, struct faint);
	int64_t faint = l->k < INT32_MAX ? find_faint(p, b->data, order) : 0, at = 0;

	if (faint < 1 || faint < l->k / PART)
		return 0;
	f->strong = l->k - faint;
	memmove(order + f->strong, order, (size_t)faint * sizeof(*order));
	for (int64_t k = 0, i = f->strong; k < l->k; k++)
		if (i < l->k && order[i] == k)
			i++;
		else
			order[at++] = (int32_t)k;
	f->order = order;
	f->most = most_that_vanishes(p, f, b->data);
	struct faint_packing pack = {p, f};
	size_t first = gemm_packed_bytes(GEMM_F32, l->n, f->strong);
	l->packed =
		store_get(s->store, b, p->transposed ? "product faint transposed" : "product faint",
			  first + gemm_packed_bytes(GEMM_F32, l->n, faint), pack_faint, &pack, d);
	if (!l->packed)
		return -E_MEMORY;
	f->packed = (const float *)(const void *)((const char *)l->packed + first);
	l->faint = f;
	return 0;
}

/*
 * Copies the rows of A with the strong values, and behind all of them the faint ones. Returns whether the products of the faint
 * ones must be added, because an element is too large or no number.
 */
static bool copy_by_order(const struct linear *l, const float *a, float *to)
{
	const struct faint *f = l->faint;
	int64_t faint = l->k - f->strong;
	float *rest = to + l->m * f->strong;
	bool large = false;

	for (int64_t i = 0; i < l->m; i++, a += l->k, to += f->strong, rest += faint) {
		for (int64_t k = 0; k < f->strong; k++)
			to[k] = a[f->order[k]];
		for (int64_t k = 0; k < faint; k++) {
			rest[k] = a[f->order[f->strong + k]];
			large |= !(fabsf(rest[k]) <= f->most);
		}
	}
	return large;
}

/* ---- the kernel ------------------------------------------------------------------------------- */

static const struct gemm_runs *picture_runs(const struct picture *v);
static const float *picture_data(const struct call *c, const struct picture *v);

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
			     .runs = picture_runs(l->image),
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
	int err = prepare_faint(s, l, &p, d);
	if (err)
		return err;
	if (!l->faint)
		l->packed = store_get(s->store, site_known(s, IN_B),
				      transposed ? "product transposed" : "product", bytes,
				      pack_weights, &p, d);
	if (!l->packed)
		return -E_MEMORY;
	step->unread |= UINT64_C(1) << IN_B;
	struct gemm g = product_of(l);
	step->workspace = gemm_scratch_for(GEMM_F32, &g);
	if (l->faint) {
		int64_t part[] = {l->faint->strong, l->k - l->faint->strong};
		for (int i = 0; i < 2; i++) {
			g.a_row = g.k = part[i];
			size_t each = gemm_scratch_for(GEMM_F32, &g);
			step->workspace = each > step->workspace ? each : step->workspace;
		}
		l->faint->scratch = step->workspace;
		/* A is a tensor, so that its bytes can be counted */
		step->workspace += (size_t)(l->m * l->k) * sizeof(float);
	}
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

/* The activation as tiles apply it to their sums, or GEMM_PLAIN. */
static enum gemm_act tile_act(int act)
{
	return act == ACT_RELU ? GEMM_RELU : act == ACT_HARDSWISH ? GEMM_HARDSWISH : GEMM_PLAIN;
}

int product_run(const struct call *c)
{
	const struct linear *l = c->step->state;
	const void *r = l->has_r ? c->in[IN_R]->data : NULL;
	const float parameters[2] = {l->act_alpha, l->act_beta};
	bool in_place = r && r == c->out[0]->data;
	struct gemm g = product_of(l);

	g.a = picture_data(c, l->image);
	g.c = c->out[0]->data;
	g.beta = in_place ? 1 : 0;
	if (l->faint) {
		float *rows = (float *)(void *)((char *)c->workspace + l->faint->scratch);
		bool large = copy_by_order(l, g.a, rows);
		g.a = rows;
		g.a_row = g.k = l->faint->strong;
		if (large) {
			gemm_run(GEMM_F32, &g, c->workspace);
			g.a = rows + l->m * l->faint->strong;
			g.a_row = g.k = l->k - l->faint->strong;
			g.b = g.packed = l->faint->packed;
			g.beta = 1;
		}
	}
	g.bias = l->has_c ? c->in[IN_C]->data : NULL;
	g.residual = in_place ? NULL : r;
	g.act = tile_act(l->act);
	g.act_alpha = l->act_alpha;
	g.act_beta = l->act_beta;
	if (l->act != ACT_NONE && g.act == GEMM_PLAIN) {
		g.map = simd()->map[act_function(l->act)];
		g.map_arg = parameters;
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
 * As for products, oneDNN waits for weights that come from memory, and for the residual. But its threads keep to the same part of the
 * picture from convolution to convolution, which then is in their own caches: with several threads that counts more, unless the
 * picture is small. Of maps that do not fill its blocks of 64 it takes a fifth to a quarter more time (784 positions, 120 channels,
 * 40 maps: 79 us, here 58), of a single position twice as long. Activations that tiles do not apply in registers take time of
 * their own here, but GELU is faster, and so are all that have whole tiles of rows at once, of up to 64 maps.
 */
static bool onednn_slower(const struct site *s, struct why *w)
{
	enum {
		MANY_POSITIONS = 64,
		MANY_ALONE = 256,
		SOME_CHANNELS = 24,
		FEW_CHANNELS = 64,
		BLOCKED = 64
	};
	bool alone = pool_threads() == 1;
	const struct fused_conv *p = site_params(s);
	bool cheap = p->act == ACT_NONE || p->act == ACT_GELU || tile_act(p->act) != GEMM_PLAIN;
	const struct shape *x = &site_in(s, IN_A)->shape, *weight = &site_in(s, IN_B)->shape;

	if (simd_level() != 4)
		return refuse(w, "oneDNN's product is as fast without AVX-512");
	if (pool_threads() > 2)
		return refuse(w, "more than two threads");
	if (positions(x) == 1)
		return true;
	if (weight->dim[0] < BLOCKED && weight->dim[1] >= SOME_CHANNELS)
		return true;
	if (weight->dim[1] < FEW_CHANNELS)
		return refuse(w, "few channels");
	if (cheap && (alone || (weight->dim[0] < 2 * BLOCKED && weight->dim[0] % BLOCKED)))
		return true;
	return positions(x) <= (alone ? MANY_ALONE : MANY_POSITIONS) ||
	       refuse(w, "so many positions that oneDNN is as fast");
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

/* Declares that the convolution's first input, unless it is wanted as it is, its residual and its output have their channels last. */
static void want_channels_last(const struct site *s, struct step *step, bool as_it_is)
{
	const struct vinfo *x = site_in(s, IN_A), *y = site_out(s, 0);
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	bool single = as_it_is || shape_span(&x->shape, 2, x->shape.rank) == 1;

	/* for a single position the two layouts are one */
	give[0] = shape_span(&y->shape, 2, y->shape.rank) == 1 ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
	want[0] = single && x->layout != LAYOUT_CHANNELS_LAST ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
	if (site_in(s, IN_R))
		want[IN_R] = give[0];
	step->want = want;
	step->give = give;
}

int product_fused_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct linear *l = arena_new(s->plan_arena, struct linear);
	const struct fused_conv *p = site_params(s);
	const struct vinfo *x = site_in(s, IN_A);
	const struct shape *weight = &site_in(s, IN_B)->shape;

	*l = (struct linear){.m = positions(&x->shape),
			     .k = weight->dim[1],
			     .n = weight->dim[0],
			     .alpha = 1,
			     .act = p->act,
			     .act_alpha = p->act_alpha,
			     .act_beta = p->act_beta};
	want_channels_last(s, step, false);
	return prepare(s, step, l, true, d);
}

/* ---- convolutions of any window -------------------------------------------------------------- */

/*
 * Where the channels of a position lie side by side, a convolution is a product whose rows are parts of the picture: for each element of the
 * window a run of channels or, where neighbouring elements of the window are neighbours in the picture, for each row of the window a
 * longer one. Runs in the pads are zeros from elsewhere; with few channels, they would be short, and the picture is copied with
 * its pads.
 */
struct picture {
	struct window w;
	struct gemm_runs runs;
	int64_t images, channels;
	int64_t size[MAX_RANK]; /* of the picture that is read, with its pads if it is a copy */
	int64_t elements;	/* of it */
	bool masks;		/* runs can be outside */
	bool copies;		/* the picture is copied */
	bool rows;		/* the copied picture has the channels apart from each other */
	size_t scratch;		/* bytes of the workspace before the copy */
};

static const struct gemm_runs *picture_runs(const struct picture *v)
{
	return v ? &v->runs : NULL;
}

/* The bits of the window's elements at output o that are in the pads. */
static uint64_t outside(const struct picture *v, const int64_t *o)
{
	const struct window *w = &v->w;
	int64_t tap[MAX_RANK] = {0};
	uint64_t bits = 0;
	bool inside = true;

	for (int d = 0; d < w->n; d++) {
		int64_t first = o[d] * w->stride[d] - w->begin[d];
		inside &= first >= 0 && first + (w->kernel[d] - 1) * w->dilation[d] < w->in[d];
	}
	for (int64_t r = 0, at; !inside && r < v->runs.runs; r++, window_next(tap, w->kernel, w->n))
		bits |= (uint64_t)!window_at(w, w->n, o, tap, &at) << r;
	return bits;
}

/* Where in the picture the window of output o begins. */
static int64_t window_begin(const struct picture *v, const int64_t *o)
{
	const struct window *w = &v->w;
	int64_t at = 0;

	for (int d = 0; d < w->n; d++)
		at = at * v->size[d] + o[d] * w->stride[d] - (v->copies ? 0 : w->begin[d]);
	return at * v->channels;
}

static void picture_rows(const void *arg, int64_t m, int64_t count, int64_t *begin, uint64_t *out)
{
	const struct picture *v = arg;
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t o[MAX_RANK], outputs = window_outputs(w), step = w->stride[last] * v->channels;

	window_split(m % outputs, w->out, w->n, o);
	for (int64_t i = 0, at = 0; i < count; i++, window_next(o, w->out, w->n)) {
		at = i && o[last] ? at + step : (m + i) / outputs * v->elements + window_begin(v, o);
		begin[i] = at;
		if (v->masks)
			out[i] = outside(v, o);
	}
}

/* Whether neighbouring elements of a row of the window are neighbours in the picture: then the row is a run. */
static bool whole_rows(const struct window *w)
{
	return w->dilation[w->n - 1] == 1 || w->kernel[w->n - 1] == 1;
}

/*
 * oneDNN's code for AVX2 is faster, unless the elements of a window lie far apart (128 channels: 75 GFLOP/s, at a dilation of 128
 * positions 67, of 512 37) or the sums of its runs are short and many (20 channels, 96 x 3: 47 GFLOP/s).
 */
static bool onednn_slow(const struct window *w, int64_t channels)
{
	enum { FAR = 1 << 14, MANY_TAPS = 64 }; /* floats; elements of a window */
	int last = w->n - 1;
	bool far = w->kernel[last] > 1 && w->dilation[last] >= FAR / channels;

	return simd_level() == 3 &&
	       (far || (channels % 8 && channels > 8 && window_size(w) >= MANY_TAPS));
}

/*
 * Whether it is a convolution along a line, all other axes having one element, whose length the model leaves open. Where oneDNN is as
 * fast, it still needs some milliseconds to generate its code for each new length, for a window of 3 over 960 channels.
 */
static bool line_of_free_length(const struct site *s, const struct window *w, int64_t maps,
				int64_t channels)
{
	enum { FEW_CHANNELS = 64, FEW_MAPS = 32 };
	int last = w->n - 1;

	for (int d = 0; d < last; d++)
		if (w->in[d] != 1 || w->kernel[d] != 1 || w->begin[d] || w->end[d])
			return false;
	return has_free_positions(s) && site_in(s, IN_A)->layout == LAYOUT_CHANNELS_LAST &&
	       w->kernel[last] > 1 && whole_rows(w) && channels >= FEW_CHANNELS && maps >= FEW_MAPS;
}

/*
 * With AVX-512, oneDNN reaches 150 to 170 GFLOP/s on a core of a Xeon, as our products do, but less where
 * - many weights meet few positions, so that it waits for them (49 positions, 512 channels, 3 x 3: 95, here 135),
 * - there are a few channels only, as in a picture, since its maps then come in blocks and are reordered for what follows (3 x 3
 *   elements of 320 x 320 pixels, 24 maps: 2.2 ms, here 1.0),
 * - the maps do not fill their last register and are few (96 channels, 3 x 3, 24 maps: 70 and 90).
 * With many threads it was not measured.
 */
static bool onednn_waits(const struct window *w, int64_t images, int64_t maps, int64_t channels)
{
	enum {
		MANY_WEIGHTS = 5 << 15,
		FEW_POSITIONS = 256,
		FEW_CHANNELS = 4,
		SHORT_SUM = 27,
		SOME_CHANNELS = 12,
		FEW_MAPS = 24,
		SOME_MAPS = 32,
		VECTOR = 16,
		MANY_THREADS = 3
	};
	int64_t size = window_size(w), sum = size * channels;

	if (simd_level() != 4 || pool_threads() >= MANY_THREADS || !onednn_usable(NULL))
		return false;
	if (images * window_outputs(w) <= FEW_POSITIONS)
		return sum * maps > MANY_WEIGHTS;
	if (channels <= FEW_CHANNELS)
		return sum >= SHORT_SUM && maps >= FEW_MAPS;
	return maps < SOME_MAPS && maps % VECTOR && channels >= SOME_CHANNELS;
}

bool product_runs_accepts(const struct site *s, struct why *w)
{
	enum { MIN_OUTPUTS = 12 };
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, IN_A)->shape, *weight = &site_in(s, IN_B)->shape;
	const struct window_attrs a = {p->auto_pad, p->dilations, p->kernel_shape, p->pads,
				       p->strides};
	struct window win;

	if (!s->store || !site_is_weight(s, IN_B) || !site_known(s, IN_B))
		return refuse(w, "weights that are no constant");
	if (x->rank < 3 || weight->rank != x->rank || p->group != 1 ||
	    weight->dim[0] < MIN_COLUMNS || shape_count(x) < 1 || shape_count(weight) < 1)
		return refuse(w, "groups, few maps, or nothing to sum");
	if (window_set(&win, &a, x, weight, false, NULL))
		return refuse(w, "a window that does not fit");
	for (int d = 0; d < win.n; d++)
		if (win.begin[d] < 0 || win.end[d] < 0)
			return refuse(w, "negative pads");
	if (window_outputs(&win) < MIN_OUTPUTS)
		return refuse(w, "few outputs");
	return onednn_slow(&win, x->dim[1]) ||
	       onednn_waits(&win, x->dim[0], weight->dim[0], x->dim[1]) ||
	       line_of_free_length(s, &win, weight->dim[0], x->dim[1]) ||
	       refuse(w, "a window at which oneDNN is as fast");
}

/* Sets the size of the picture that is read, and where its runs begin; false if a size does not fit. */
static bool set_picture(struct picture *v, struct arena *arena)
{
	enum { FEW_CHANNELS = 16 };
	const struct window *w = &v->w;
	int64_t tap[MAX_RANK] = {0}, size = window_size(w);
	bool pads = false;
	size_t elements = (size_t)v->channels;

	for (int d = 0; d < w->n; d++)
		pads |= w->begin[d] || w->end[d];
	v->copies = v->rows || (pads && (v->channels < FEW_CHANNELS || size > GEMM_MASK));
	v->masks = pads && !v->copies;
	int taps = whole_rows(w) && !v->masks ? w->n - 1 : w->n;
	v->runs = (struct gemm_runs){.runs = 1, .rows = picture_rows, .arg = v};
	for (int d = 0; d < w->n; d++) {
		v->size[d] = w->in[d] + (v->copies ? w->begin[d] + w->end[d] : 0);
		if (!size_mul(elements, (size_t)v->size[d], &elements))
			return false;
		v->runs.runs *= d < taps ? w->kernel[d] : 1;
	}
	v->elements = (int64_t)elements;
	v->runs.length = size / v->runs.runs * v->channels;
	int64_t *offset = arena_new_n(arena, int64_t, (size_t)v->runs.runs);
	for (int64_t r = 0; r < v->runs.runs; r++, window_next(tap, w->kernel, taps)) {
		int64_t at = 0;
		for (int d = 0; d < w->n; d++)
			at = at * v->size[d] + (d < taps ? tap[d] * w->dilation[d] : 0);
		offset[r] = at * v->channels;
	}
	v->runs.offset = offset;
	return true;
}

struct window_packing {
	struct packing p;
	int64_t channels;
};

/* Packs the weights, and behind them a run of zeros. */
static int pack_window(void *dst, const struct tensor *t, void *arg)
{
	struct window_packing *a = arg;
	size_t bytes = gemm_packed_bytes(GEMM_F32, a->p.n, a->p.k);

	memset((char *)dst + bytes, 0, (size_t)a->channels * sizeof(float));
	return pack_weights(dst, t, &a->p);
}

static int prepare_window(struct site *s, struct step *step, struct linear *l, struct diag *d)
{
	struct picture *v = l->image;
	size_t bytes = gemm_packed_bytes(GEMM_F32, l->n, l->k), copy = 0;
	struct window_packing pack = {
		{.n = l->n, .k = l->k, .taps = window_size(&v->w), .transposed = true}, v->channels};

	l->packed = store_get(s->store, site_known(s, IN_B), "product window",
			      bytes + (size_t)v->channels * sizeof(float), pack_window, &pack, d);
	if (!l->packed)
		return -E_MEMORY;
	if (v->masks)
		v->runs.zeros = (const char *)l->packed + bytes;
	step->unread |= UINT64_C(1) << IN_B;
	const struct gemm g = product_of(l);
	v->scratch = gemm_scratch_for(GEMM_F32, &g);
	if ((v->copies && !size_mul((size_t)v->elements, (size_t)v->images * sizeof(float), &copy)) ||
	    !size_add(v->scratch, copy, &step->workspace))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Conv");
	step->state = l;
	if (l->has_r)
		allow_inplace(step, 0, IN_R);
	return 0;
}

int product_runs_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *p = site_params(s);
	const struct vinfo *x = site_in(s, IN_A);
	const struct shape *weight = &site_in(s, IN_B)->shape;
	const struct window_attrs a = {p->auto_pad, p->dilations, p->kernel_shape, p->pads,
				       p->strides};
	struct picture *v = arena_new(s->plan_arena, struct picture);
	struct linear *l = arena_new(s->plan_arena, struct linear);
	enum { FEW_CHANNELS = 4 };

	*v = (struct picture){.images = x->shape.dim[0], .channels = x->shape.dim[1]};
	*l = (struct linear){.n = weight->dim[0],
			     .alpha = 1,
			     .act = p->act,
			     .act_alpha = p->act_alpha,
			     .act_beta = p->act_beta,
			     .has_c = site_in(s, IN_C) != NULL,
			     .has_r = site_in(s, IN_R) != NULL,
			     .image = v};
	const char *wrong = window_set(&v->w, &a, &x->shape, weight, false, d);
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	v->rows = v->channels <= FEW_CHANNELS && x->layout == LAYOUT_ROW;
	if (!set_picture(v, s->plan_arena))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Conv");
	l->m = v->images * window_outputs(&v->w);
	l->k = window_size(&v->w) * v->channels;
	want_channels_last(s, step, v->rows);
	return prepare_window(s, step, l, d);
}

struct copy_job {
	const struct picture *v;
	const float *x;
	float *to;
};

/* Copies a row of the picture to positions of the copy. */
static void copy_row(const struct picture *v, const float *x, int64_t row, float *to)
{
	const struct window *w = &v->w;
	int64_t c = v->channels, width = w->in[w->n - 1], inputs = window_inputs(w);
	int64_t rows = inputs / width, image = row / rows;

	if (!v->rows) {
		memcpy(to, x + row * width * c, (size_t)(width * c) * sizeof(float));
		return;
	}
	for (int64_t k = 0; k < c; k++) {
		const float *from = x + (image * c + k) * inputs + row % rows * width;
		for (int64_t i = 0; i < width; i++)
			to[i * c + k] = from[i];
	}
}

/* Writes rows begin to end - 1 of the copies of all pictures: zeros where they are pads, the picture's elements elsewhere. */
static void copy_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct copy_job *j = arg;
	const struct picture *v = j->v;
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t c = v->channels, width = w->in[last] * c, rows = window_inputs(w) / w->in[last];
	int64_t each = v->elements / v->size[last] / c, o[MAX_RANK];

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		float *to = j->to + i * v->size[last] * c;
		bool inside = true;
		int64_t at = 0;
		window_split(i % each, v->size, last, o);
		for (int d = 0; d < last; d++) {
			int64_t k = o[d] - w->begin[d];
			inside &= k >= 0 && k < w->in[d];
			at = at * w->in[d] + k;
		}
		int64_t before = inside ? w->begin[last] * c : v->size[last] * c;
		memset(to, 0, (size_t)before * sizeof(float));
		if (!inside)
			continue;
		copy_row(v, j->x, i / each * rows + at, to + before);
		memset(to + before + width, 0, (size_t)(w->end[last] * c) * sizeof(float));
	}
}

/* Returns the rows of A, or the picture in which they are: the input, or a copy of it behind the products' scratch. */
static const float *picture_data(const struct call *c, const struct picture *v)
{
	if (!v || !v->copies)
		return c->in[IN_A]->data;
	float *to = (float *)(void *)((char *)c->workspace + v->scratch);
	struct copy_job j = {v, c->in[IN_A]->data, to};
	int64_t width = v->size[v->w.n - 1] * v->channels;

	pool_for(v->images * v->elements / width, 1 + 16384 / width, copy_rows, &j);
	return to;
}
