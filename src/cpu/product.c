/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/product.h"

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/level.h"
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
	struct faint *faint; /* usually NULL */
};

/*
 * Values of k whose weights are all denormal or zero, as those of channels that training has let die. Their products with small
 * elements add nothing, because what is below half of the least number rounds to zero, but processors take some hundred cycles
 * for each multiplication of a denormal number. So these values stand behind the others, as a product of their own that is
 * left out unless an element is large.
 */
struct faint {
	int64_t strong;	      /* number of the other values */
	const int32_t *order; /* of all values: the others first */
	const float *packed;  /* weights of the faint values */
	float most;	      /* the largest element whose products vanish */
	size_t scratch;	      /* bytes before the rows of A in that order */
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

/* Declares that the convolution's first input, its residual and its output have their channels last. */
static void want_channels_last(const struct site *s, struct step *step)
{
	const struct vinfo *x = site_in(s, IN_A), *y = site_out(s, 0);
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	bool single = shape_span(&x->shape, 2, x->shape.rank) == 1;

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
	want_channels_last(s, step);
	return prepare(s, step, l, true, d);
}

/* ---- convolutions as a sum of products ---------------------------------------------------------- */

/*
 * Where the channels of a position lie side by side, so do those of neighbouring positions: a row of the window, or with dilation
 * an element of it, is a run of the picture, and the convolution is the sum over the runs of the window of products of rows that
 * are where they are. Pads are written into a copy of the picture.
 *
 * oneDNN's code for AVX2 is faster, unless the elements of a window lie far apart (128 channels: 75 GFLOP/s, at a dilation of 128
 * positions 67, of 512 37) or the sums of its runs are short and many (20 channels, 96 x 3: 47 GFLOP/s).
 */
struct runs {
	struct linear l; /* of one run: n maps, k elements */
	struct window w;
	int64_t images, channels, runs, padded[MAX_RANK];
	size_t run_floats; /* elements of a run's packed weights */
	size_t picture;	   /* elements of a picture with its pads */
	int64_t *offset; /* for each run, how many elements behind the first one of a window it begins */
	int64_t rows;	/* of outputs in a picture */
	int64_t chunk;	/* outputs of a row that are computed at once */
	int64_t chunks; /* of a row */
	bool pads;	/* pictures are copied, with their pads */
	size_t scratch; /* bytes that each thread needs; the copies of the pictures follow those of all threads */
};

/* Whether neighbouring elements of a row of the window are neighbours in the picture: then the row is a run. */
static bool whole_rows(const struct window *w)
{
	return w->dilation[w->n - 1] == 1 || w->kernel[w->n - 1] == 1;
}

static bool onednn_slow(const struct window *w, int64_t channels)
{
	enum { FAR = 1 << 14, MANY_TAPS = 64 }; /* floats; elements of a window */
	int last = w->n - 1;
	bool far = w->kernel[last] > 1 && w->dilation[last] >= FAR / channels;

	/* measured for AVX2 only */
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
	if (win.out[win.n - 1] < MIN_OUTPUTS)
		return refuse(w, "few outputs in a row");
	return onednn_slow(&win, x->dim[1]) ||
	       line_of_free_length(s, &win, weight->dim[0], x->dim[1]) ||
	       refuse(w, "a window at which oneDNN is as fast");
}

/* Sets the sizes of a padded picture, and where its runs begin. */
static bool runs_set(struct runs *v, struct arena *arena)
{
	const struct window *w = &v->w;
	int last = w->n - 1, taps = whole_rows(w) ? last : w->n;
	int64_t tap[MAX_RANK] = {0};

	v->picture = (size_t)v->channels;
	v->runs = 1;
	for (int d = 0; d < w->n; d++) {
		v->pads |= w->begin[d] || w->end[d];
		v->padded[d] = w->in[d] + w->begin[d] + w->end[d];
		if (!size_mul(v->picture, (size_t)v->padded[d], &v->picture))
			return false;
		v->runs *= d < taps ? w->kernel[d] : 1;
	}
	v->l.k = window_size(w) / v->runs * v->channels;
	v->run_floats = gemm_packed_bytes(GEMM_F32, v->l.n, v->l.k) / sizeof(float);
	v->offset = arena_new_n(arena, int64_t, (size_t)v->runs);
	for (int64_t r = 0; r < v->runs; r++, window_next(tap, w->kernel, taps)) {
		int64_t at = 0;
		for (int d = 0; d < w->n; d++)
			at = at * v->padded[d] + (d < taps ? tap[d] * w->dilation[d] : 0);
		v->offset[r] = at * v->channels;
	}
	return true;
}

/* Packs each run's weights, a matrix of its elements by the maps. */
static int pack_runs(void *dst, const struct tensor *t, void *arg)
{
	const struct runs *v = arg;
	const struct linear *l = &v->l;
	int64_t size = window_size(&v->w), taps = size / v->runs;
	float *run = mem_alloc((size_t)(l->k * l->n) * sizeof(float), MEM_STAGING);

	for (int64_t r = 0; run && r < v->runs; r++) {
		const float *from = (const float *)t->data + r * taps;
		for (int64_t n = 0; n < l->n; n++)
			for (int64_t c = 0; c < v->channels; c++, from += size)
				for (int64_t e = 0; e < taps; e++)
					run[(e * v->channels + c) * l->n + n] = from[e];
		struct gemm g = {.n = l->n, .k = l->k, .b = run, .b_row = l->n, .b_col = 1};
		gemm_pack(GEMM_F32, &g, (float *)dst + (size_t)r * v->run_floats);
	}
	mem_free(run);
	return run ? 0 : -E_MEMORY;
}

/* The product of `rows` outputs of a row with a run, without its data. */
static struct gemm run_product(const struct runs *v, int64_t rows)
{
	struct gemm g = product_of(&v->l);

	g.m = rows;
	g.a_row = v->w.stride[v->w.n - 1] * v->channels;
	return g;
}

/* Whole tiles of rows, which with their outputs stay in the cache, and about as many for each thread. */
static int64_t rows_at_once(int64_t outputs, int64_t rows)
{
	int64_t parts = (outputs + GEMM_MC - 1) / GEMM_MC, threads = pool_threads();

	if (rows * parts < threads)
		parts = threads;
	return ((outputs + parts - 1) / parts + 11) / 12 * 12;
}

int product_runs_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, IN_A)->shape, *weight = &site_in(s, IN_B)->shape;
	const struct window_attrs a = {p->auto_pad, p->dilations, p->kernel_shape, p->pads,
				       p->strides};
	struct runs *v = arena_new(s->plan_arena, struct runs);
	size_t pad_bytes = 0, bytes;

	*v = (struct runs){.images = x->dim[0], .channels = x->dim[1]};
	v->l = (struct linear){.n = weight->dim[0],
			       .alpha = 1,
			       .act = p->act,
			       .act_alpha = p->act_alpha,
			       .act_beta = p->act_beta,
			       .has_c = site_in(s, IN_C) != NULL,
			       .has_r = site_in(s, IN_R) != NULL};
	const char *wrong = window_set(&v->w, &a, x, weight, false, d);
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	int last = v->w.n - 1;
	if (!runs_set(v, s->plan_arena) ||
	    !size_mul((size_t)v->runs * sizeof(float), v->run_floats, &bytes) ||
	    (v->pads && (!size_mul(v->picture, (size_t)v->images * sizeof(float), &pad_bytes))))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Conv");
	v->rows = window_outputs(&v->w) / v->w.out[last];
	v->chunk = rows_at_once(v->w.out[last], v->images * v->rows);
	v->chunks = (v->w.out[last] + v->chunk - 1) / v->chunk;
	v->l.packed = store_get(s->store, site_known(s, IN_B),
				whole_rows(&v->w) ? "product rows" : "product taps", bytes,
				pack_runs, v, d);
	if (!v->l.packed)
		return -E_MEMORY;
	step->unread |= UINT64_C(1) << IN_B;
	const struct gemm g = run_product(v, v->chunk);
	v->scratch = gemm_scratch_for(GEMM_F32, &g) / (size_t)pool_threads();
	if (!size_add(pad_bytes, v->scratch * (size_t)pool_threads(), &step->workspace))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Conv");
	step->state = v;
	want_channels_last(s, step);
	if (v->l.has_r)
		allow_inplace(step, 0, IN_R);
	return 0;
}

struct runs_call {
	const struct runs *v;
	struct linear_run run;
	const float *x; /* with its pads */
	float *y;
	char *scratch;
	bool in_place;
};

static void multiply_runs(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct runs_call *j = arg;
	const struct runs *v = j->v;
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t o[MAX_RANK];

	for (int64_t i = begin; i < end; i++) {
		int64_t row = i / v->chunks, first = i % v->chunks * v->chunk, at = 0;
		int64_t left = w->out[last] - first, done = (row * w->out[last] + first) * v->l.n;
		struct linear_run run = j->run;
		struct gemm g = run_product(v, left < v->chunk ? left : v->chunk);
		window_split(row % v->rows, w->out, last, o);
		for (int d = 0; d < w->n; d++)
			at = at * v->padded[d] + (d < last ? o[d] : first) * w->stride[d];
		const float *x = j->x + row / v->rows * (int64_t)v->picture + at * v->channels;
		run.r = run.r ? run.r + done : NULL;
		g.c = j->y + done;
		for (int64_t r = 0; r < v->runs; r++) {
			g.a = x + v->offset[r];
			g.b = g.packed = v->l.packed + (size_t)r * v->run_floats;
			g.beta = r || j->in_place ? 1 : 0;
			if (r == v->runs - 1) {
				g.finish = finish;
				g.finish_arg = &run;
			}
			gemm_one(GEMM_F32, &g,
				 v->scratch ? j->scratch + (size_t)thread * v->scratch : NULL);
		}
	}
}

struct pad_job {
	const struct runs *v;
	const float *x;
	float *to;
};

/* Writes rows begin to end - 1 of the copies of all pictures: zeros where they are pads, the picture's elements elsewhere. */
static void pad_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pad_job *j = arg;
	const struct window *w = &j->v->w;
	int last = w->n - 1;
	int64_t c = j->v->channels, width = w->in[last] * c, rows = window_inputs(w) / w->in[last];
	int64_t each = (int64_t)j->v->picture / j->v->padded[last] / c, o[MAX_RANK];

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		float *to = j->to + i * j->v->padded[last] * c;
		bool inside = true;
		int64_t at = 0;
		window_split(i % each, j->v->padded, last, o);
		for (int d = 0; d < last; d++) {
			int64_t k = o[d] - w->begin[d];
			inside &= k >= 0 && k < w->in[d];
			at = at * w->in[d] + k;
		}
		int64_t before = inside ? w->begin[last] * c : j->v->padded[last] * c;
		memset(to, 0, (size_t)before * sizeof(float));
		if (!inside)
			continue;
		memcpy(to + before, j->x + (i / each * rows + at) * width,
		       (size_t)width * sizeof(float));
		memset(to + before + width, 0, (size_t)(w->end[last] * c) * sizeof(float));
	}
}

int product_runs_run(const struct call *c)
{
	const struct runs *v = c->step->state;
	const void *r = v->l.has_r ? c->in[IN_R]->data : NULL;
	struct runs_call j = {.v = v,
			      .run = {.l = &v->l, .c = v->l.has_c ? c->in[IN_C]->data : NULL},
			      .x = c->in[IN_A]->data,
			      .y = c->out[0]->data,
			      .scratch = c->workspace,
			      .in_place = r && r == c->out[0]->data};

	j.run.r = j.in_place ? NULL : r;
	if (v->pads) {
		float *to =
			(float *)(void *)((char *)c->workspace + v->scratch * (size_t)pool_threads());
		struct pad_job pad = {v, j.x, to};
		int64_t width = v->padded[v->w.n - 1] * v->channels;
		pool_for(v->images * (int64_t)v->picture / width, 1 + 16384 / width, pad_rows, &pad);
		j.x = to;
	}
	pool_for(v->images * v->rows * v->chunks, 1, multiply_runs, &j);
	return 0;
}
