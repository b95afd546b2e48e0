/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QLinearConv as a matrix product, for pictures whose channels come last. A row of the left matrix has what the window covers at one position of the
 * output: all channels of the window's first element, then those of the second one, and so on.
 * Without VNNI, oneDNN's sums of two products of bytes saturate, so that it multiplies floats; ours are exact (igemm_rest), and
 * faster than floats. Large convolutions by 3 x 3 are multiplied by tiles of 2 x 2 outputs (igemm_kernels.words), with four ninths as many products, of
 * numbers of 16 bits.
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
	bool *fit;     /* of each panel: igemm_kernels.pairs_fit */
	bool all_fit;
	uint8_t *panels;
};

/* How a convolution by 3 x 3 is divided into tiles of 2 x 2 outputs, which Winograd's algorithm computes. */
struct tiles {
	int64_t count, size[2]; /* tiles of all pictures, and rows and columns of tiles in a picture */
	int64_t depth; /* channels, and zeros behind them up to a multiple of IGEMM_WORDS */
	int64_t blocks, at_once; /* blocks of tiles, and how many tiles a block has at most */
	bool shared; /* threads have some of the maps each; otherwise they have all maps of some blocks */
	const int16_t *weights; /* panels of maps: IGEMM_POINTS panels of words() each */
	float *factor;		/* of each panel, four times over, as a tile has four outputs */
	int32_t *add;
};

struct picture {
	struct window w;
	struct tiles *tiles; /* NULL: as a product of matrices */
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
		j->to->fit[p] = igemm_kernels()->pairs_fit(panel, igemm_depth(v->k) / 4);
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
	m->fit = (bool *)m->panels + (size_t)panels_of(v) * igemm_panel(v->k);
	pool_for(panels_of(v), 8, pack_piece, &j);
	m->all_fit = true;
	for (int64_t p = 0; p < panels_of(v); p++)
		m->all_fit &= m->fit[p];
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

/* Sets what depends on scales, zero points and bias, which are known, but for what the sums of weights add. */
static void set_numbers(const struct site *s, struct picture *v)
{
	const struct tensor *bias = site_in(s, BIAS) ? site_known(s, BIAS) : NULL;
	int32_t move = zero_move(true, flip_to(true, site_in(s, W)->type.dtype));
	size_t n = (size_t)v->features;
	float x = scale_at(site_known(s, X_SCALE), 0), y = scale_at(site_known(s, Y_SCALE), 0);

	v->zero = zero_of(site_known(s, X_ZERO), 0, 1, 0) +
		  zero_move(false, flip_to(false, site_in(s, X)->type.dtype));
	v->moves = v->tiles || v->zero >= IGEMM_FAR_ZERO;
	v->zeros = arena_new_n(s->plan_arena, int32_t, n);
	v->factor = arena_new_n(s->plan_arena, float, n);
	v->add = arena_new_n(s->plan_arena, int32_t, n);
	v->counts = zeros_of(site_known(s, W_ZERO), move, v->features, 0, v->zeros);
	for (int64_t i = 0; i < v->features; i++) {
		v->factor[i] = x * scale_of(site_known(s, W_SCALE), i, v->features, 0) / y;
		v->add[i] = bias ? ((const int32_t *)bias->data)[i] : 0;
	}
}

/* ---- by tiles ---------------------------------------------------------------------------------------------------- */

enum {
	TILE_OUTPUTS = 4,
	TILE_BLOCK = 32, /* most tiles that are multiplied at once: their products stay in the first-level cache */
};

/* Sets `to` to the numbers that multiply the points of a tile: four times what a window's weights make of them. */
static void transform_weights(const int32_t *w, int32_t *to)
{
	int32_t half[4][3];

	for (int i = 0; i < 3; i++) {
		int32_t ends = w[i] + w[6 + i];
		half[0][i] = 2 * w[i];
		half[1][i] = ends + w[3 + i];
		half[2][i] = ends - w[3 + i];
		half[3][i] = 2 * w[6 + i];
	}
	for (int i = 0; i < 4; i++, to += 4) {
		int32_t ends = half[i][0] + half[i][2];
		to[0] = 2 * half[i][0];
		to[1] = ends + half[i][1];
		to[2] = ends - half[i][1];
		to[3] = 2 * half[i][2];
	}
}

struct tile_packing {
	const struct picture *v;
	const uint8_t *from;
	int16_t *to;
	uint8_t flip;
};

static void pack_tile_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	enum { TAPS = 9 };
	const struct tile_packing *j = arg;
	const struct picture *v = j->v;
	int64_t panel = v->tiles->depth * IGEMM_NR;

	(void)thread;
	for (int64_t m = begin; m < end; m++) {
		int16_t *to = j->to + m / IGEMM_NR * IGEMM_POINTS * panel + m % IGEMM_NR * 2;
		for (int64_t c = 0; c < v->tiles->depth; c++) {
			int32_t w[TAPS] = {0}, points[IGEMM_POINTS];
			const uint8_t *from = j->from + (m * v->channels + c) * TAPS;
			for (int i = 0; i < TAPS && m < v->features && c < v->channels; i++)
				w[i] = (int8_t)(from[i] ^ j->flip) - v->zeros[m];
			transform_weights(w, points);
			for (int p = 0; p < IGEMM_POINTS; p++)
				to[p * panel + c / 2 * 2 * IGEMM_NR + c % 2] = (int16_t)points[p];
		}
	}
}

/* This is the callback of store_get. */
static int pack_tiles(void *dst, const struct tensor *t, void *arg)
{
	const struct picture *v = arg;
	struct tile_packing j = {v, t->data, dst, flip_to(true, tensor_dtype(t))};

	pool_for(panels_of(v) * IGEMM_NR, 8, pack_tile_piece, &j);
	return 0;
}

/*
 * Sums of four times a convolution's must fit in 32 bits. Products of 16 bits take 4/3 as long as those of bytes, and tiles must make up for what it takes to
 * transform codes and sums, and for weights of 3.6 times as many bytes.
 */
static bool tiles_pay(const struct picture *v, const struct tiles *t)
{
	enum { MIN_MAPS = 32, MAX_CHANNELS = (1 << 29) / (9 * 255 * 255) };
	const struct window *w = &v->w;
	bool fits = w->n == 2 && v->channels <= MAX_CHANNELS && v->features >= MIN_MAPS;

	for (int d = 0; d < w->n; d++)
		fits &= w->kernel[d] == 3 && w->stride[d] == 1 && w->dilation[d] == 1;
	return fits && 2.0 * IGEMM_POINTS * (double)t->count * (double)t->depth <=
			       9.0 * (double)v->rows * (double)v->channels;
}

/* Sets v->tiles if the picture is multiplied by tiles. */
static void set_tiles(const struct site *s, struct picture *v)
{
	enum { CODES_AT_ONCE = 1 << 18, MIN_OWN = 16 };
	struct tiles t = {.depth = (v->channels + IGEMM_WORDS - 1) / IGEMM_WORDS * IGEMM_WORDS};

	t.count = site_in(s, X)->shape.dim[0];
	for (int d = 0; d < 2 && d < v->w.n; d++) {
		t.size[d] = (v->w.out[d] + 1) / 2;
		t.count *= t.size[d];
	}
	if (!tiles_pay(v, &t))
		return;
	int64_t threads = pool_threads(), most = CODES_AT_ONCE / (IGEMM_POINTS * t.depth);
	int64_t blocks = (t.count + most - 1) / most;
	t.shared = t.count < threads * MIN_OWN;
	t.blocks = t.shared ? 1 : (blocks + threads - 1) / threads * threads;
	t.at_once = (t.count + t.blocks - 1) / t.blocks;
	v->tiles = arena_new(s->plan_arena, struct tiles);
	*v->tiles = t;
}

/* Sets the bytes of the workspace: those of a line of pads, of the codes, and of the sums of each thread. */
static bool tile_bytes(const struct picture *v, size_t *pads, size_t *codes, size_t *all)
{
	const struct tiles *t = v->tiles;
	size_t threads = (size_t)pool_threads(), sums;

	*pads = scratch_size((size_t)v->channels);
	return size_mul((size_t)t->at_once, IGEMM_POINTS * (size_t)t->depth * sizeof(int16_t), codes) &&
	       size_mul(t->shared ? 1 : threads, *codes, all) && size_add(*all, *pads, all) &&
	       size_mul(threads, IGEMM_POINTS * TILE_BLOCK * IGEMM_NR * sizeof(int32_t), &sums) &&
	       size_add(*all, sums, all);
}

static int reshape_tiles(struct site *s, struct step *st, struct diag *d, struct picture *v)
{
	struct tiles *t = v->tiles;
	size_t pads, codes, bytes, panels = (size_t)panels_of(v);

	if (!tile_bytes(v, &pads, &codes, &st->workspace) ||
	    !size_mul(panels, IGEMM_POINTS * IGEMM_NR * (size_t)t->depth * sizeof(int16_t), &bytes))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	const char *key =
		arena_printf(s->plan_arena, "igemm tiles %p", (const void *)site_known(s, W_ZERO));
	t->weights = key ? store_get(s->store, site_known(s, W), key, bytes, pack_tiles, v, d) : NULL;
	if (!t->weights)
		return -E_MEMORY;
	t->factor = arena_new_n(s->plan_arena, float, panels *TILE_OUTPUTS *IGEMM_NR);
	t->add = arena_new_n(s->plan_arena, int32_t, panels * TILE_OUTPUTS * IGEMM_NR);
	for (int64_t i = 0; i < (int64_t)panels * TILE_OUTPUTS * IGEMM_NR; i++) {
		int64_t m = i / (TILE_OUTPUTS * IGEMM_NR) * IGEMM_NR + i % IGEMM_NR;
		t->factor[i] = m < v->features ? v->factor[m] : 0;
		t->add[i] = m < v->features ? v->add[m] : 0;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int reshape_matrix(struct site *s, struct step *st, struct diag *d, struct picture *v)
{
	enum { LONG = 1024 }; /* rows that take much memory */
	int64_t most = (v->k > LONG ? 2 : 4) * (int64_t)IGEMM_MC * pool_threads();
	int64_t times = (v->rows + most - 1) / most;
	size_t sums, bytes;

	v->at_once = (v->rows + times - 1) / times;
	v->as_it_is = plain_window(&v->w) && igemm_depth(v->k) == v->k &&
		      site_in(s, X)->type.dtype == DT_U8;
	v->scratch = igemm_scratch(v->at_once, v->k, false);
	if (!product_bytes(v->at_once, v->features, v->k, v->scratch, &st->workspace) ||
	    !size_mul((size_t)panels_of(v), igemm_panel(v->k), &bytes) ||
	    !size_mul((size_t)panels_of(v), IGEMM_NR * sizeof(int32_t), &sums) ||
	    !size_add(bytes, (size_t)panels_of(v), &bytes) ||
	    !size_add(bytes, scratch_size(sums), &bytes) ||
	    !size_add(bytes, scratch_size(sizeof(struct maps)), &bytes))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	v->maps = store_get(s->store, site_known(s, W), "igemm maps", bytes, pack_maps, v, d);
	if (!v->maps)
		return -E_MEMORY;
	for (int64_t i = 0; i < v->features && !v->moves; i++)
		v->add[i] = (int32_t)((uint32_t)v->add[i] -
				      (uint32_t)v->zero * (uint32_t)v->maps->sums[i]);
	return 0;
}

int qpicture_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct int_conv_params *p = site_params(s);
	const struct shape *x = &site_in(s, X)->shape, *weight = &site_in(s, W)->shape;
	struct picture *v = arena_new(s->plan_arena, struct picture);
	const char *bad = window_set(&v->w, &p->window, x, weight, false, d);

	if (bad)
		return site_fail(s, d, E_SHAPE, bad, NULL);
	v->channels = weight->dim[1];
	v->features = weight->dim[0];
	v->k = v->channels * window_size(&v->w);
	v->rows = x->dim[0] * window_outputs(&v->w);
	set_tiles(s, v);
	set_numbers(s, v);
	declare(s, st);
	st->unread |= UINT64_C(1) << W;
	st->state = v;
	return v->tiles ? reshape_tiles(s, st, d, v) : reshape_matrix(s, st, d, v);
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

/* Writes rows m to m + count - 1 of those that are multiplied now. */
static void gather_rows(const void *arg, int64_t m, int64_t count)
{
	const struct picture_job *j = arg;
	const struct picture *v = j->v;
	int64_t o[MAX_RANK], outputs = window_outputs(&v->w);
	int64_t picture = window_inputs(&v->w) * v->channels;

	window_split((j->first + m) % outputs, v->w.out, v->w.n, o);
	for (int64_t i = m; i < m + count; i++, window_next(o, v->w.out, v->w.n)) {
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

/* What threads share while they multiply tiles. */
struct tile_job {
	const struct picture_job *j;
	const uint8_t *pads;
	char *codes, *sums;
	size_t codes_bytes; /* of a thread, or of all */
	int64_t point;	    /* numbers of a point of all tiles that are transformed at once */
};

/* Transforms the codes of `count` tiles from `first` on, which are written as tiles 0 and following of `to`. */
static void transform_tiles(const struct tile_job *t, int64_t first, int64_t count, int16_t *to)
{
	const struct picture *v = t->j->v;
	const int64_t *in = v->w.in, *size = v->tiles->size;
	bool is_signed = t->j->flip != 0;

	for (int64_t i = first; i < first + count; i++, to += v->tiles->depth) {
		const uint8_t *pixel[IGEMM_POINTS];
		int64_t row = i / size[1] % size[0] * 2 - v->w.begin[0];
		int64_t column = i % size[1] * 2 - v->w.begin[1];
		int64_t image = i / (size[0] * size[1]) * in[0] * in[1];
		for (int p = 0; p < IGEMM_POINTS; p++) {
			int64_t y = row + p / 4, x = column + p % 4;
			bool inside = y >= 0 && y < in[0] && x >= 0 && x < in[1];
			pixel[p] = inside ? t->j->x + (image + y * in[1] + x) * v->channels : t->pads;
		}
		igemm_kernels()->tile_codes(pixel, v->channels, is_signed,
					    v->zero - (is_signed ? IGEMM_FLIP : 0), to, t->point);
	}
}

/* Writes codes of a tile's outputs: those of a panel's maps. */
static void write_tile(const struct picture_job *j, int64_t tile, int64_t map, const uint8_t *codes)
{
	const struct picture *v = j->v;
	const int64_t *out = v->w.out, *size = v->tiles->size;
	int64_t row = tile / size[1] % size[0] * 2, column = tile % size[1] * 2;
	int64_t first = (tile / (size[0] * size[1]) * out[0] + row) * out[1] + column;
	int64_t maps = lesser(IGEMM_NR, v->features - map);

	for (int i = 0; i < TILE_OUTPUTS; i++, codes += IGEMM_NR) {
		uint8_t *y = j->y + (first + i / 2 * out[1] + i % 2) * v->features + map;
		if (row + i / 2 >= out[0] || column + i % 2 >= out[1])
			continue;
		if (maps == IGEMM_NR)
			memcpy(y, codes, IGEMM_NR);
		else
			memcpy(y, codes, (size_t)maps);
	}
}

/* Multiplies `count` tiles from `first` on, whose codes are tiles 0 and following of `codes`, by a panel. */
static void multiply_tiles(const struct tile_job *t, const int16_t *codes, int64_t first,
			   int64_t count, int64_t panel, int32_t *sums)
{
	const struct picture_job *j = t->j;
	const struct tiles *v = j->v->tiles;
	const int64_t width = TILE_OUTPUTS * IGEMM_NR, depth = v->depth;
	const int16_t *weights = v->weights + panel * IGEMM_POINTS * depth * IGEMM_NR;

	for (int p = 0; p < IGEMM_POINTS; p++)
		igemm_kernels()->words(codes + p * t->point, depth, weights + p * depth * IGEMM_NR,
				       depth, count, sums + p * count * IGEMM_NR);
	for (int64_t i = 0; i < count; i++) {
		int32_t y[TILE_OUTPUTS * IGEMM_NR];
		uint8_t bytes[TILE_OUTPUTS * IGEMM_NR];
		igemm_kernels()->tile_sums(sums + i * IGEMM_NR, count * IGEMM_NR, y);
		igemm_kernels()->requantize(y, v->add + panel * width, bytes, width,
					    v->factor + panel * width, 1, j->y_zero,
					    j->y_signed ? -128 : 0, j->y_signed ? 127 : 255);
		write_tile(j, first + i, panel * IGEMM_NR, bytes);
	}
}

/* Multiplies `count` tiles by a panel, in blocks of similar size. */
static void multiply_panel(const struct tile_job *t, const int16_t *codes, int64_t first,
			   int64_t count, int64_t panel, int thread)
{
	size_t bytes = IGEMM_POINTS * TILE_BLOCK * IGEMM_NR * sizeof(int32_t);
	int32_t *sums = (int32_t *)(void *)(t->sums + (size_t)thread * bytes);
	int64_t blocks = (count + TILE_BLOCK - 1) / TILE_BLOCK;

	for (int64_t b = 0; b < blocks; b++) {
		int64_t at = count * b / blocks, n = count * (b + 1) / blocks - at;
		multiply_tiles(t, codes + at * t->j->v->tiles->depth, first + at, n, panel, sums);
	}
}

/* Some tiles with all maps. */
static void own_tiles_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct tile_job *t = arg;
	const struct tiles *v = t->j->v->tiles;
	int16_t *codes = (int16_t *)(void *)(t->codes + (size_t)thread * t->codes_bytes);

	for (int64_t i = begin; i < end; i++) {
		int64_t first = v->count * i / v->blocks;
		int64_t count = v->count * (i + 1) / v->blocks - first;
		transform_tiles(t, first, count, codes);
		for (int64_t p = 0; p < panels_of(t->j->v); p++)
			multiply_panel(t, codes, first, count, p, thread);
	}
}

static void transform_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct tile_job *t = arg;

	(void)thread;
	transform_tiles(t, begin, end - begin,
			(int16_t *)(void *)t->codes + begin * t->j->v->tiles->depth);
}

/* All tiles with the maps of some panels. */
static void panels_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct tile_job *t = arg;

	for (int64_t p = begin; p < end; p++)
		multiply_panel(t, (const int16_t *)(void *)t->codes, 0, t->j->v->tiles->count, p,
			       thread);
}

static void run_tiles(const struct call *c, const struct picture_job *j)
{
	const struct picture *v = j->v;
	const struct tiles *tiles = v->tiles;
	struct tile_job t = {.j = j, .pads = c->workspace, .point = tiles->at_once * tiles->depth};
	size_t pads, all;

	tile_bytes(v, &pads, &t.codes_bytes, &all);
	memset(c->workspace, j->pad, (size_t)v->channels);
	t.codes = (char *)c->workspace + pads;
	t.sums = t.codes + t.codes_bytes * (tiles->shared ? 1 : (size_t)pool_threads());
	if (tiles->shared) {
		pool_for(tiles->count, 1 + (1 << 14) / (IGEMM_POINTS * tiles->depth),
			 transform_piece, &t);
		pool_for(panels_of(v), 1, panels_piece, &t);
	} else {
		pool_for(tiles->blocks, 1, own_tiles_piece, &t);
	}
}

static void run_matrix(const struct call *c, struct picture_job *j)
{
	const struct picture *v = j->v;
	struct product_room room =
		product_room((char *)c->workspace + v->scratch, v->at_once, v->features, v->k);
	struct igemm g = {.n = v->features,
			  .k = v->k,
			  .a_zero = v->moves ? room.za : NULL,
			  .b_zero = v->counts ? v->zeros : NULL,
			  .b_zero_step = 1,
			  .a_rest = room.rest,
			  .packed = v->maps->panels,
			  .packed_sums = v->maps->sums,
			  .pairs_fit = v->maps->all_fit,
			  .store = store_rows,
			  .arg = j};

	j->to = room.rows;
	j->rest = room.rest;
	for (int64_t i = 0; i < v->at_once && v->moves; i++)
		room.za[i] = v->zero;
	for (; j->first < v->rows; j->first += v->at_once) {
		bool plain = v->as_it_is && !v->counts;
		g.m = lesser(v->at_once, v->rows - j->first);
		g.a = plain ? j->x + j->first * v->k : room.rows;
		g.rows = plain ? NULL : gather_rows;
		igemm_run(&g, c->workspace);
	}
}

int qpicture_run(const struct call *c)
{
	const struct picture *v = c->step->state;
	struct picture_job j = {.v = v,
				.x = c->in[X]->data,
				.y = c->out[0]->data,
				.y_zero = zero_of(c->in[Y_ZERO], 0, 1, 0),
				.y_signed = tensor_dtype(c->out[0]) == DT_I8,
				.pad = (uint8_t)zero_of(c->in[X_ZERO], 0, 1, 0),
				.flip = flip_to(false, tensor_dtype(c->in[X]))};

	if (v->tiles)
		run_tiles(c, &j);
	else
		run_matrix(c, &j);
	return 0;
}
