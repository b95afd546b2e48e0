/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/depthwise.h"

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/pool.h"
#include "cpu/math/amx.h"
#include "cpu/math/function.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/fused.h"
#include "ops/window.h"

#include <math.h>
#include <string.h>

enum {
	CHUNK = 64, /* channels that are computed at once */
	LANES = 16, /* the last chunk is padded to a multiple of this */
	MANY_POSITIONS = 784,
	MAX_KERNEL = 7, /* rows and columns of a window */
	MIN_BAND = 4, /* output rows of a part: parts that follow one another convert some input rows twice */
};

struct depthwise {
	struct window w;
	int64_t batch, channels, chunks, bands, band; /* band: output rows of a part */
	int64_t width;				      /* of a padded row, in positions */
	int act;
	float alpha, beta;
	bool has_bias;
	const float *weights; /* for each chunk [kernel rows * columns, lanes] */
	size_t each;	      /* bytes of a thread's scratch */
};

static int64_t taps(const struct depthwise *p)
{
	return p->w.kernel[0] * p->w.kernel[1];
}

/* The channels of a chunk, and those with the padding. */
static int64_t chunk_size(const struct depthwise *p, int64_t chunk)
{
	return lesser(p->channels - chunk * CHUNK, CHUNK);
}

static int64_t chunk_lanes(const struct depthwise *p, int64_t chunk)
{
	return (chunk_size(p, chunk) + LANES - 1) / LANES * LANES;
}

/* ---- packing ---------------------------------------------------------------------------------- */

static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	const struct depthwise *p = arg;
	float *to = dst, line[MAX_KERNEL * MAX_KERNEL];
	int64_t n = taps(p);

	memset(to, 0, (size_t)(p->chunks * n * CHUNK) * sizeof(*to));
	for (int64_t c = 0; c < p->channels; c++) {
		simd_to_f32(tensor_dtype(t), t->data, c * n, n, line);
		for (int64_t i = 0; i < n; i++)
			to[c / CHUNK * n * CHUNK + i * chunk_lanes(p, c / CHUNK) + c % CHUNK] =
				line[i];
	}
	return 0;
}

/* ---- the kernel ------------------------------------------------------------------------------- */

/* A thread's memory: the input rows of a window, a row of zeros above and below the picture, an output row. */
struct band_scratch {
	float *ring, *zeros, *y;
	float bias[CHUNK];
};

static size_t row_bytes(const struct depthwise *p)
{
	return scratch_size((size_t)(p->width * DEPTHWISE_PITCH) * sizeof(float));
}

static float *ring_row(const struct depthwise *p, const struct band_scratch *r, int64_t i)
{
	return r->ring + (size_t)(i % p->w.kernel[0]) * (row_bytes(p) / sizeof(float));
}

static struct band_scratch take_scratch(const struct depthwise *p, char *at)
{
	struct scratch s = {.at = at};
	struct band_scratch r = {.ring = scratch_take(&s, (size_t)p->w.kernel[0] * row_bytes(p))};

	r.zeros = scratch_take(&s, row_bytes(p));
	r.y = scratch_take(&s, scratch_size((size_t)(p->w.out[1] * CHUNK) * sizeof(float)));
	memset(r.zeros, 0, row_bytes(p));
	return r;
}

static void clear_pads(const struct depthwise *p, const struct band_scratch *r)
{
	int64_t behind = p->w.begin[1] + p->w.in[1];

	for (int64_t i = 0; i < p->w.kernel[0]; i++) {
		float *row = ring_row(p, r, i);
		memset(row, 0, (size_t)(p->w.begin[1] * DEPTHWISE_PITCH) * sizeof(float));
		memset(row + behind * DEPTHWISE_PITCH, 0,
		       (size_t)((p->width - behind) * DEPTHWISE_PITCH) * sizeof(float));
	}
}

struct depthwise_run {
	const struct depthwise *p;
	const struct tensor *x, *bias;
	struct tensor *y;
	char *scratch;
};

/* Computes the output rows of one band of one chunk of channels. */
static void run_band(const struct depthwise_run *j, struct band_scratch *r, int64_t picture,
		     int64_t chunk, int64_t band)
{
	const struct depthwise *p = j->p;
	const struct window *w = &p->w;
	int64_t n = chunk_size(p, chunk), lanes = chunk_lanes(p, chunk), c = p->channels;
	int64_t end = lesser((band + 1) * p->band, w->out[0]), loaded = 0;
	const uint16_t *x =
		(const uint16_t *)j->x->data + picture * w->in[0] * w->in[1] * c + chunk * CHUNK;
	uint16_t *y = (uint16_t *)j->y->data + picture * w->out[0] * w->out[1] * c + chunk * CHUNK;

	clear_pads(p, r);
	memset(r->bias, 0, sizeof(r->bias));
	if (j->bias)
		simd_to_f32(tensor_dtype(j->bias), j->bias->data, chunk * CHUNK, n, r->bias);
	for (int64_t o = band * p->band; o < end; o++) {
		int64_t top = o * w->stride[0] - w->begin[0];
		const float *rows[MAX_KERNEL];
		loaded = greater(loaded, greater(top, 0));
		for (; loaded < lesser(top + w->kernel[0], w->in[0]); loaded++)
			simd()->bf16_rows_to_f32(x + loaded * w->in[1] * c, c,
						 ring_row(p, r, loaded) + w->begin[1] * DEPTHWISE_PITCH,
						 DEPTHWISE_PITCH, n, w->in[1]);
		for (int64_t i = 0; i < w->kernel[0]; i++)
			rows[i] = top + i < 0 || top + i >= w->in[0] ? r->zeros
								     : ring_row(p, r, top + i);
		simd()->depthwise_row(rows, (int)w->kernel[0], w->stride[1],
				      p->weights + chunk * taps(p) * CHUNK, r->bias, r->y, lanes,
				      w->out[1]);
		act_f32(p->act, p->alpha, p->beta, r->y, w->out[1] * lanes);
		simd()->f32_rows_to_bf16(r->y, lanes, y + o * w->out[1] * c, c, n, w->out[1]);
	}
}

static void run_parts(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct depthwise_run *j = arg;
	const struct depthwise *p = j->p;
	struct band_scratch r = take_scratch(p, j->scratch + (size_t)thread * p->each);

	for (int64_t i = begin; i < end; i++) {
		int64_t chunk = i % p->chunks, rest = i / p->chunks;
		run_band(j, &r, rest / p->bands, chunk, rest % p->bands);
	}
}

int depthwise_run(const struct call *c)
{
	const struct depthwise *p = c->step->state;
	struct depthwise_run j = {.p = p,
				  .x = c->in[0],
				  .bias = p->has_bias ? c->in[2] : NULL,
				  .y = c->out[0],
				  .scratch = c->workspace};

	pool_shares(p->batch * p->bands * p->chunks, run_parts, &j);
	return 0;
}

/* ---- planning --------------------------------------------------------------------------------- */

static bool all_finite(const struct tensor *t)
{
	for (int64_t i = 0, n = tensor_count(t); i < n; i++)
		if (!isfinite(elem_f64(tensor_dtype(t), t->data, i)))
			return false;
	return true;
}

static struct window_attrs attributes(const struct fused_conv *p)
{
	return (struct window_attrs){p->auto_pad, p->dilations, p->kernel_shape, p->pads, p->strides};
}

bool depthwise_accepts(const struct site *s, struct why *w)
{
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	const struct tensor *t = site_known(s, 1);

	if (!amx_usable())
		return refuse(w, "a processor that computes bf16 as fp32");
	if (!s->store || !site_is_weight(s, 1) || !t)
		return refuse(w, "weights that are no constant");
	if (x->rank != 4 || weight->rank != 4 || weight->dim[1] != 1 || weight->dim[0] != x->dim[1] ||
	    p->group != x->dim[1] || weight->dim[2] != weight->dim[3] ||
	    (weight->dim[2] != 3 && weight->dim[2] != 5 && weight->dim[2] != 7))
		return refuse(w, "no window of 3 x 3, 5 x 5 or 7 x 7 for each channel");
	/* Few sums behind each number that is converted: converting it in place, as oneDNN does, is faster. */
	if (weight->dim[2] == 3 && shape_span(x, 2, 4) > MANY_POSITIONS)
		return refuse(w, "a small window over a large picture");
	if (!all_are(p->dilations, 1))
		return refuse(w, "dilations");
	for (int64_t i = 0; i < p->pads.n; i++)
		if (p->pads.v[i] < 0 || p->pads.v[i] > weight->dim[2])
			return refuse(w, "negative pads, or pads wider than the window");
	if (site_in(s, 3))
		return refuse(w, "a residual");
	if (shape_count(x) < 1 || shape_count(&site_out(s, 0)->shape) < 1)
		return refuse(w, "an empty picture");
	if (!all_finite(t))
		return refuse(w, "weights that are no finite numbers, which times a pad's 0 are NaN");
	return true;
}

static void choose_parts(struct depthwise *p)
{
	int64_t parts, want = pool_threads();

	p->chunks = (p->channels + CHUNK - 1) / CHUNK;
	parts = p->batch * p->chunks;
	p->bands = parts % want == 0 ? 1 : (2 * want + parts - 1) / parts;
	p->band = greater((p->w.out[0] + p->bands - 1) / p->bands, MIN_BAND);
	p->bands = (p->w.out[0] + p->band - 1) / p->band;
}

int depthwise_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *f = site_params(s);
	struct depthwise *p = arena_new(s->plan_arena, struct depthwise);
	const struct window_attrs a = attributes(f);
	const struct shape *x = &site_in(s, 0)->shape;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	const char *wrong = window_set(&p->w, &a, x, &site_in(s, 1)->shape, false, d);

	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	p->batch = x->dim[0];
	p->channels = x->dim[1];
	p->act = f->act;
	p->alpha = f->act_alpha;
	p->beta = f->act_beta;
	p->has_bias = site_in(s, 2) != NULL;
	choose_parts(p);
	/* the last window may end within the padded row, or the padded row behind it */
	p->width = greater(p->w.begin[1] + p->w.in[1],
			   (p->w.out[1] - 1) * p->w.stride[1] + p->w.kernel[1]);
	p->weights = store_get(s->store, site_known(s, 1), "depthwise",
			       (size_t)(p->chunks * taps(p) * CHUNK) * sizeof(float), pack_weights,
			       p, d);
	if (!p->weights)
		return -E_MEMORY;
	want[0] = give[0] = LAYOUT_CHANNELS_LAST;
	step->want = want;
	step->give = give;
	step->unread |= UINT64_C(1) << 1;
	p->each = (size_t)(p->w.kernel[0] + 1) * row_bytes(p) +
		  scratch_size((size_t)(p->w.out[1] * CHUNK) * sizeof(float));
	step->workspace = (size_t)pool_threads() * p->each;
	step->state = p;
	return 0;
}
