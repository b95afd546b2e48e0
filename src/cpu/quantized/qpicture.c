/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QLinearConv as a matrix product, for pictures whose channels come last. A row of the left matrix has what the window covers at one position of the
 * output: all channels of the window's first element, then those of the second one, and so on.
 * Without VNNI, oneDNN's sums of two products of bytes saturate, so that it multiplies floats; ours are exact (igemm_rest), and
 * faster than floats.
 */
#include "cpu/quantized/qconv.h"

#include "backend/weight_store.h"
#include "base/pool.h"
#include "cpu/math/move.h"
#include "cpu/math/wide.h"
#include "cpu/math/window.h"
#include "cpu/quantized/qproduct.h"
#include "cpu/quantized/quant.h"
#include "ops/quant.h"

#include <string.h>

/* The node's inputs. */
enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };

/* Weights as panels of igemm, whose values of k are the channels of the first element of the window, of the second one, ... */
struct maps {
	int32_t *sums; /* of columns */
	uint8_t *panels;
};

struct picture {
	struct window w;
	int64_t channels, features, k;
	int64_t rows, at_once; /* positions of all pictures, and how many are multiplied at a time */
	bool as_it_is;	       /* the picture is the matrix */
	bool counts;	       /* the sums of rows are needed, as weights have zero points */
	int32_t zero;	       /* zero point of x as unsigned codes */
	int32_t *zeros;	       /* those of signed weights */
	float *factor;	       /* of each map: what its sums are multiplied by */
	int32_t *add; /* what is added to them before: the bias, and without `moves` what zero takes off */
	bool moves; /* igemm takes the zero point off */
	size_t scratch;
	const struct maps *maps;
};

static int64_t panels_of(const struct picture *v)
{
	return (v->features + IGEMM_NR - 1) / IGEMM_NR;
}

struct packing {
	const struct picture *v;
	const uint8_t *from;
	struct maps *to;
	uint8_t flip;
};

static void pack_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct packing *j = arg;
	const struct picture *v = j->v;
	int64_t taps = v->k / v->channels;

	(void)thread;
	for (int64_t p = begin; p < end; p++) {
		uint8_t *panel = j->to->panels + (size_t)p * igemm_panel(v->k);
		memset(panel, 0, igemm_panel(v->k));
		for (int64_t i = 0; i < lesser(IGEMM_NR, v->features - p * IGEMM_NR); i++) {
			const uint8_t *w = j->from + (p * IGEMM_NR + i) * v->k;
			for (int64_t k = 0; k < v->k; k++)
				panel[k / 4 * 4 * IGEMM_NR + 4 * i + k % 4] =
					w[k % v->channels * taps + k / v->channels] ^ j->flip;
		}
		igemm_kernels()->column_sums(panel, igemm_depth(v->k) / 4, true,
					     j->to->sums + p * IGEMM_NR);
	}
}

/* This is the callback of store_get. */
static int pack_maps(void *dst, const struct tensor *t, void *arg)
{
	const struct picture *v = arg;
	struct maps *m = dst;
	struct packing j = {v, t->data, m, flip_to(true, tensor_dtype(t))};
	char *at = (char *)dst + scratch_size(sizeof(*m));

	m->sums = (int32_t *)(void *)at;
	m->panels = (uint8_t *)at + scratch_size((size_t)panels_of(v) * IGEMM_NR * sizeof(*m->sums));
	pool_for(panels_of(v), 8, pack_piece, &j);
	return 0;
}

/* Whether input i is known: one number, or n. */
static bool has_numbers(const struct site *s, uint32_t i, int64_t n)
{
	const struct tensor *t = site_known(s, i);

	return t && (tensor_count(t) == 1 || tensor_count(t) == n);
}

bool qpicture_accepts(const struct site *s, struct why *w)
{
	enum { MIN_MAPS = 16, MIN_CHANNELS = 16 };
	const struct int_conv_params *p = site_params(s);
	const struct shape *x = &site_in(s, X)->shape, *weight = &site_in(s, W)->shape;
	struct window win;

	if (!igemm_kernels()->clip)
		return refuse(w, "a processor whose products of bytes do not saturate");
	if (!s->store || !site_is_weight(s, W) || !site_known(s, W))
		return refuse(w, "weights that are no constant");
	if (x->rank < 3 || weight->rank != x->rank || p->group != 1 || p->channels_last ||
	    weight->dim[0] < MIN_MAPS || weight->dim[1] < MIN_CHANNELS || shape_count(x) < 1)
		return refuse(w, "groups, few maps or few channels");
	if (window_set(&win, &p->window, x, weight, false, NULL) || window_outputs(&win) < 1)
		return refuse(w, "a window that does not fit");
	for (uint32_t i = X_SCALE; i <= BIAS; i++)
		if (i != W && site_in(s, i) &&
		    !has_numbers(s, i, i == W_SCALE || i == W_ZERO || i == BIAS ? weight->dim[0] : 1))
			return refuse(w, "input %u is not known before the run", i);
	return true;
}

static bool plain_window(const struct window *w)
{
	for (int d = 0; d < w->n; d++)
		if (w->kernel[d] != 1 || w->stride[d] != 1 || w->begin[d] || w->end[d])
			return false;
	return true;
}

static void declare(const struct site *s, struct step *step)
{
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	const struct vinfo *x = site_in(s, X), *y = site_out(s, 0);

	/* for a single position the two layouts are one */
	want[X] = shape_span(&x->shape, 2, x->shape.rank) == 1 ? x->layout : LAYOUT_CHANNELS_LAST;
	give[0] = shape_span(&y->shape, 2, y->shape.rank) == 1 ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
	step->want = want;
	step->give = give;
}

/* Sets what depends on scales, zero points and bias, which are known. */
static void set_numbers(const struct site *s, struct picture *v)
{
	const struct tensor *bias = site_in(s, BIAS) ? site_known(s, BIAS) : NULL;
	int32_t move = zero_move(true, flip_to(true, site_in(s, W)->type.dtype));
	size_t n = (size_t)v->features;
	float x = scale_at(site_known(s, X_SCALE), 0), y = scale_at(site_known(s, Y_SCALE), 0);

	v->zero = zero_of(site_known(s, X_ZERO), 0, 1, 0) +
		  zero_move(false, flip_to(false, site_in(s, X)->type.dtype));
	v->moves = v->zero >= IGEMM_FAR_ZERO;
	v->zeros = arena_new_n(s->plan_arena, int32_t, n);
	v->factor = arena_new_n(s->plan_arena, float, n);
	v->add = arena_new_n(s->plan_arena, int32_t, n);
	v->counts = zeros_of(site_known(s, W_ZERO), move, v->features, 0, v->zeros);
	for (int64_t i = 0; i < v->features; i++) {
		uint32_t add = bias ? (uint32_t)((const int32_t *)bias->data)[i] : 0;
		v->factor[i] = x * scale_of(site_known(s, W_SCALE), i, v->features, 0) / y;
		v->add[i] =
			(int32_t)(v->moves ? add
					   : add - (uint32_t)v->zero * (uint32_t)v->maps->sums[i]);
	}
}

int qpicture_reshape(struct site *s, struct step *st, struct diag *d)
{
	enum { MOST_ROWS = 5 * IGEMM_MC };
	const struct int_conv_params *p = site_params(s);
	const struct shape *x = &site_in(s, X)->shape, *weight = &site_in(s, W)->shape;
	struct picture *v = arena_new(s->plan_arena, struct picture);
	const char *bad = window_set(&v->w, &p->window, x, weight, false, d);
	size_t sums, bytes;

	if (bad)
		return site_fail(s, d, E_SHAPE, bad, NULL);
	v->channels = weight->dim[1];
	v->features = weight->dim[0];
	v->k = v->channels * window_size(&v->w);
	v->rows = x->dim[0] * window_outputs(&v->w);
	int64_t times = (v->rows + MOST_ROWS - 1) / MOST_ROWS;
	v->at_once = (v->rows + times - 1) / times;
	v->as_it_is = plain_window(&v->w) && igemm_depth(v->k) == v->k &&
		      site_in(s, X)->type.dtype == DT_U8;
	v->scratch = igemm_scratch(v->at_once, v->k, false);
	if (!product_bytes(v->at_once, v->features, v->k, v->scratch, &st->workspace) ||
	    !size_mul((size_t)panels_of(v), igemm_panel(v->k), &bytes) ||
	    !size_mul((size_t)panels_of(v), IGEMM_NR * sizeof(int32_t), &sums) ||
	    !size_add(bytes, scratch_size(sums), &bytes) ||
	    !size_add(bytes, scratch_size(sizeof(struct maps)), &bytes))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	declare(s, st);
	v->maps = store_get(s->store, site_known(s, W), "igemm maps", bytes, pack_maps, v, d);
	if (!v->maps)
		return -E_MEMORY;
	set_numbers(s, v);
	st->unread |= UINT64_C(1) << W;
	st->state = v;
	return 0;
}

struct picture_job {
	const struct picture *v;
	const uint8_t *x;
	uint8_t *to;
	int32_t *rest; /* sums of rows */
	uint8_t *y;
	int32_t y_zero;
	bool y_signed;
	int64_t first; /* of the rows that are multiplied now */
	uint8_t pad, flip;
};

/*
 * Writes a row: the channels of each element of the window, which in the pads are zero points. Without dilation
 * the elements of the window along the last axis are contiguous and are copied at once.
 */
static void gather_row(const struct picture_job *j, const uint8_t *x, const int64_t *o, uint8_t *to)
{
	const struct picture *v = j->v;
	int d = v->w.n - 1;
	int64_t line = v->w.dilation[d] == 1 ? v->w.kernel[d] : 1, tap[MAX_RANK] = {0}, at;
	int64_t first = o[d] * v->w.stride[d] - v->w.begin[d];
	bool inside = first >= 0 && first + line <= v->w.in[d];

	for (int64_t k = 0, n; k < v->k; k += n * v->channels) {
		n = inside ? line : 1;
		if (window_at(&v->w, v->w.n, o, tap, &at))
			memcpy(to + k, x + at * v->channels, (size_t)(n * v->channels));
		else
			memset(to + k, j->pad, (size_t)(n * v->channels));
		tap[d] += n - 1;
		window_next(tap, v->w.kernel, v->w.n);
	}
	memset(to + v->k, 0, (size_t)(igemm_depth(v->k) - v->k));
	for (int64_t k = 0; k < v->k && j->flip; k++)
		to[k] ^= IGEMM_FLIP;
}

static void gather_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct picture_job *j = arg;
	const struct picture *v = j->v;
	int64_t o[MAX_RANK], outputs = window_outputs(&v->w);
	int64_t picture = window_inputs(&v->w) * v->channels;

	(void)thread;
	window_split((j->first + begin) % outputs, v->w.out, v->w.n, o);
	for (int64_t i = begin; i < end; i++, window_next(o, v->w.out, v->w.n)) {
		int64_t image = (j->first + i) / outputs;
		uint8_t *to = j->to + i * igemm_depth(v->k);
		gather_row(j, j->x + image * picture, o, to);
		if (v->counts)
			j->rest[i] =
				(int32_t)(igemm_kernels()->sum_bytes(to, v->k, 0) - v->k * v->zero);
	}
}

static void store_rows(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
		       const int32_t *sums, int64_t ld)
{
	const struct picture_job *j = arg;
	const struct picture *v = j->v;

	for (int64_t r = 0; r < rows; r++)
		igemm_kernels()->requantize(sums + r * ld, v->add + n,
					    j->y + (j->first + m + r) * v->features + n, cols,
					    v->factor + n, 1, j->y_zero, j->y_signed ? -128 : 0,
					    j->y_signed ? 127 : 255);
}

int qpicture_run(const struct call *c)
{
	const struct picture *v = c->step->state;
	enum dtype type = tensor_dtype(c->out[0]);
	struct product_room room =
		product_room((char *)c->workspace + v->scratch, v->at_once, v->features, v->k);
	struct picture_job j = {.v = v,
				.x = c->in[X]->data,
				.to = room.rows,
				.rest = room.rest,
				.y = c->out[0]->data,
				.y_zero = zero_of(c->in[Y_ZERO], 0, 1, 0),
				.y_signed = type == DT_I8,
				.pad = (uint8_t)zero_of(c->in[X_ZERO], 0, 1, 0),
				.flip = flip_to(false, tensor_dtype(c->in[X]))};
	struct igemm g = {.n = v->features,
			  .k = v->k,
			  .a_zero = v->moves ? room.za : NULL,
			  .b_zero = v->counts ? v->zeros : NULL,
			  .b_zero_step = 1,
			  .a_rest = room.rest,
			  .packed = v->maps->panels,
			  .packed_sums = v->maps->sums,
			  .store = store_rows,
			  .arg = &j};

	for (int64_t i = 0; i < v->at_once && v->moves; i++)
		room.za[i] = v->zero;
	for (; j.first < v->rows; j.first += v->at_once) {
		bool plain = v->as_it_is && !v->counts;
		g.m = lesser(v->at_once, v->rows - j.first);
		g.a = plain ? j.x + j.first * v->k : room.rows;
		if (!plain)
			pool_for(g.m, 1 + (1 << 15) / v->k, gather_piece, &j);
		igemm_run(&g, c->workspace);
	}
	return 0;
}
