/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers. One matrix product of X and W serves the gates of all time steps. Each time step
 * then multiplies the state by R and runs the cell for each sequence of the batch.
 */
#include "ops/rnn.h"

#include "backend/weight_store.h"
#include "base/pool.h"
#include "cpu/math/amx.h"
#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "cpu/quantized/qproduct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rnn_size {
	enum rnn_cell cell;
	int gates;
	int64_t seq, batch, input, hidden;
	/*
	 * W and R of DynamicQuantizeLSTM: codes less their zero points, as floats and in the layout of LSTM, or NULL where products
	 * take the codes; and the scales of a direction: of each column, or one. All are NULL for other operators.
	 */
	const float *w, *r, *w_scale, *r_scale;
	int64_t w_scales, r_scales;
};

/*
 * State of a planned step. w and r are constant weights that were packed once for the session; each
 * is NULL if it was not packed.
 */
struct rnn_plan {
	const char *w, *r;	   /* the packed directions, one after the other */
	const uint16_t *w16, *r16; /* the same in bf16, for --precision bf16; then w and r are NULL */
	bool quantized;
	const struct rnn_integers *w8, *r8; /* constant weights of DynamicQuantizeLSTM, else NULL */
	size_t scratch; /* of igemm_run; the buffers of struct product_room follow it */
};

/*
 * A constant R is packed once a session, and another one in each run if the batch has at least PACK_BATCH sequences. A
 * constant W is packed if X has at least PACK_ROWS rows (batch * time steps), and at least PACK_COLUMNS columns, because
 * packing pads them to those of a strip.
 */
enum { PACK_BATCH = 4, PACK_ROWS = 8, PACK_COLUMNS = 16 };

/*
 * The smallest group of units that a thread computes. gemm_columns() can only begin at a multiple of 32 columns of a packed R, and each
 * unit is a column.
 */
enum { UNITS = 32 };

/* Returns whether a time step is worth several threads that share its units, and has a group for each. */
static bool worth_sharing(int64_t batch, int64_t wide, int64_t hidden)
{
	int threads = pool_threads();

	return threads > 1 && hidden / UNITS >= threads &&
	       (double)batch * (double)wide * (double)hidden > 1e5;
}

/*
 * Returns the bytes reserved for the first part of a packed R (see pack_recurrent), which are
 * enough for all gates.
 */
static size_t pack_first(enum gemm_type t, int gates, int64_t hidden)
{
	return scratch_size(gemm_packed_bytes(t, gates * hidden, hidden));
}

static size_t pack_input(enum gemm_type t, const struct rnn_size *z)
{
	return scratch_size(gemm_packed_bytes(t, z->gates * z->hidden, z->input));
}

/*
 * Returns whether a time step needs two products with R, because the last gate of such a GRU
 * multiplies R by the reset state.
 */
static bool needs_split_product(const struct rnn_size *z, const struct rnn *p)
{
	return z->cell == CELL_GRU && !p->linear_before_reset;
}

/*
 * Packs R of one direction. If `split` is set, the first two gates and the last gate are packed
 * separately, because they belong to two products; otherwise all gates are packed together.
 */
static void pack_recurrent(enum gemm_type t, int gates, int64_t n, bool split, const void *r, void *to)
{
	size_t elem = t == GEMM_F64 ? sizeof(double) : sizeof(float);
	struct gemm m = {.n = (split ? 2 : gates) * n, .k = n, .b = r, .b_row = 1, .b_col = n};

	gemm_pack(t, &m, to);
	if (!split)
		return;
	m.n = n;
	m.b = (const char *)r + 2 * (size_t)(n * n) * elem;
	gemm_pack(t, &m, (char *)to + pack_first(t, gates, n));
}

/* Finds the scale, and the zero point, by which DynamicQuantizeLinear quantizes x to 0..255. */
static float scale_of_range(const float *x, int64_t n, float *zero)
{
	float low = 0, high = 0;

	for (int64_t i = 0; i < n; i++) {
		low = least_f32(low, x[i]);
		high = greatest_f32(high, x[i]);
	}
	float scale = low == high ? 1 : (high - low) / 255.0f;

	if (scale == 0) /* a range of denormal numbers: they count as zeros */
		scale = 1;
	*zero = rintf(0 - low / scale);
	return scale;
}

/* Quantizes x to 0..255 as DynamicQuantizeLinear does. Writes the codes less their zero point to y and returns the scale. */
static float quantize_codes(const float *x, int64_t n, float *y)
{
	float zero, scale = scale_of_range(x, n, &zero);

	for (int64_t i = 0; i < n; i++) {
		float q = rintf(x[i] / scale) + zero;
		q = q >= 0 ? q : 0;
		y[i] = (q <= 255 ? q : 255) - zero;
	}
	return scale;
}

/* ---- products of 8-bit codes (com.microsoft::DynamicQuantizeLSTM) ------------------------------------------------------- */

/*
 * A constant weight of codes, W or R, a quarter as long as floats: a time step of few sequences takes as long as R takes from
 * memory. The directions lie one after the other, each as panels, sums of its columns and their zero points.
 */
struct rnn_integers {
	int64_t k, n, scales; /* each direction has one scale, or n */
	const float *scale;
	const char *data;
};

static size_t integers_panels(int64_t k, int64_t n)
{
	return (size_t)((n + IGEMM_NR - 1) / IGEMM_NR) * igemm_panel(k);
}

/* Bytes of a direction. */
static size_t integers_bytes(int64_t k, int64_t n)
{
	return integers_panels(k, n) + 2 * (size_t)(n + IGEMM_NR) * sizeof(int32_t);
}

static const int32_t *integers_sums(const struct rnn_integers *w, int64_t d)
{
	return (const int32_t *)(const void *)(w->data + (size_t)d * integers_bytes(w->k, w->n) +
					       integers_panels(w->k, w->n));
}

struct integer_product {
	const float *scale; /* of each column */
	float *y;
	int64_t n;
};

static void store_integers(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			   const int32_t *sums, int64_t ld)
{
	const struct integer_product *p = arg;

	for (int64_t i = 0; i < rows; i++)
		igemm_kernels()->to_floats(sums + i * ld, p->y + (m + i) * p->n + n, cols,
					   p->scale + n, 1, NULL);
}

/* y = the product of x [m, k], quantized as a whole, by direction d of a weight */
static void multiply_codes(const struct rnn_integers *w, int64_t d, const float *x, int64_t m,
			   float *y, char *scratch, char *buffers)
{
	struct product_room room = product_room(buffers, m, w->n, w->k);
	const float *scale = w->scale + d * w->scales;
	const int32_t *sums = integers_sums(w, d);
	float zero, by = scale_of_range(x, m * w->k, &zero);
	int64_t depth = igemm_depth(w->k);
	struct integer_product p = {room.factor, y, w->n};
	struct igemm g = {.m = m,
			  .n = w->n,
			  .k = w->k,
			  .a = room.rows,
			  .a_zero = room.za,
			  .b_zero = sums + w->n + IGEMM_NR,
			  .b_zero_step = 1,
			  .a_rest = room.rest,
			  .packed = (const uint8_t *)w->data + (size_t)d * integers_bytes(w->k, w->n),
			  .packed_sums = sums,
			  .store = store_integers,
			  .arg = &p};

	for (int64_t i = 0; i < w->n; i++)
		room.factor[i] = by * scale[w->scales > 1 ? i : 0];
	for (int64_t i = 0; i < m; i++) {
		uint8_t *to = room.rows + i * depth;
		igemm_kernels()->quantize(x + i * w->k, to, w->k, by, (int32_t)zero, 0, 255);
		memset(to + w->k, 0, (size_t)(depth - w->k));
		room.za[i] = (int32_t)zero;
		room.rest[i] = (int32_t)((uint32_t)igemm_kernels()->row_sum(to, w->k, false) -
					 (uint32_t)w->k * (uint32_t)room.za[i]);
	}
	if (m > 0)
		igemm_run(&g, scratch);
}

/* ---- products in bf16 (--precision bf16) ------------------------------------------------------------------------------- */

/*
 * Operands of products are rounded to bf16: X and the weights once, a state whenever it is multiplied. Sums, and all else, are floats. W is
 * packed as one matrix, the gates of R one after the other.
 */
struct rnn_halves {
	const uint16_t *w, *r; /* of the direction, or NULL */
	uint16_t *x;	       /* [seq * batch, amx_depth(input)] */
	/* [batch, amx_depth(hidden)]: the rounded h, next and tmp of the layer */
	uint16_t *h, *next, *tmp;
};

static size_t half_w(const struct rnn_size *z)
{
	return (size_t)(amx_rows(z->gates * z->hidden) * amx_depth(z->input));
}

static size_t half_gate(int64_t hidden)
{
	return (size_t)(amx_rows(hidden) * amx_depth(hidden));
}

/* Bytes of the rounded X and of one rounded state. */
static size_t half_x_bytes(const struct rnn_size *z)
{
	return scratch_size((size_t)(z->seq * z->batch * amx_depth(z->input)) * sizeof(uint16_t));
}

static size_t half_state_bytes(const struct rnn_size *z)
{
	return scratch_size((size_t)(z->batch * amx_depth(z->hidden)) * sizeof(uint16_t));
}

struct half_product {
	struct amx whole;
	int64_t row_parts;
	bool backwards;
};

enum { HALF_ROWS = 64, HALF_COLUMNS = 256 };

static void half_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct half_product *h = arg;

	(void)thread;
	/* of few rows all columns at once */
	for (int64_t i = begin, count; i < end; i += count) {
		int64_t n = i / h->row_parts * HALF_COLUMNS, m = i % h->row_parts * HALF_ROWS;
		struct amx part = h->whole;
		count = h->row_parts == 1 ? end - i : 1;
		part.m = lesser(part.m - m, HALF_ROWS);
		part.n = lesser(part.n - n, count * HALF_COLUMNS);
		part.a += m * part.a_row;
		part.b += n * part.k;
		part.c += m * part.c_row + n;
		bf16_multiply(&part, h->backwards);
	}
}

/* A product of rounded rows by packed columns. */
static void multiply_halves(const struct amx *p, bool backwards)
{
	struct half_product h = {.whole = *p,
				 .row_parts = (p->m + HALF_ROWS - 1) / HALF_ROWS,
				 .backwards = backwards};
	int64_t parts = h.row_parts * ((p->n + HALF_COLUMNS - 1) / HALF_COLUMNS);

	/* handing out work takes as long as about a million multiplications */
	double each = (double)lesser(p->m, HALF_ROWS) * HALF_COLUMNS * (double)p->k;
	if (p->m > 0)
		pool_for(parts, 1 + (int64_t)(1e6 / each), half_part, &h);
}

struct half_rows {
	const float *x;
	int64_t seq, batch, input;
	bool layout;
	uint16_t *to;
};

static void round_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct half_rows *r = arg;
	int64_t depth = amx_depth(r->input);

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t at = r->layout ? i % r->batch * r->seq + i / r->batch : i;
		simd()->f32_to_bf16(r->x + at * r->input, r->to + i * depth, r->input);
		memset(r->to + i * depth + r->input, 0, (size_t)(depth - r->input) * sizeof(*r->to));
	}
}

/* RNN_FLOAT tells rnn.inc whether REAL is float, for which there are products of codes and of bf16. */
#define RNN_FLOAT 1
#define REAL	  float
#define GEMM	  GEMM_F32
#define FN(x)	  x##_f32
#include "cpu/rnn.inc"
#undef REAL
#undef GEMM
#undef FN

#undef RNN_FLOAT
#define RNN_FLOAT 0
#define REAL	  double
#define GEMM	  GEMM_F64
#define FN(x)	  x##_f64
#include "cpu/rnn.inc"
#undef REAL
#undef GEMM
#undef FN

static struct rnn_size size_of(const struct node *n, const struct shape *x, const struct shape *r,
			       bool quantized)
{
	const struct rnn *p = n->params;
	struct rnn_size z = {.cell = rnn_cell(n)};

	z.gates = rnn_gates(z.cell);
	z.seq = x->dim[p->layout ? 1 : 0];
	z.batch = x->dim[p->layout ? 0 : 1];
	z.input = x->dim[2];
	z.hidden = quantized ? r->dim[1] : r->dim[2];
	return z;
}

static bool rnn_accepts(const struct site *site, struct why *why)
{
	const struct rnn *p = site_params(site);
	enum rnn_cell c = rnn_cell(site->node);
	struct rnn_activation act[2 * RNN_FUNCTIONS];
	int n = rnn_activations_needed(p, c);

	if (p->activations.n > 0 && p->activations.n < n)
		return refuse(why, "%lld activations where there should be %d",
			      (long long)p->activations.n, n);
	const char *unknown = rnn_activations(p, c, act);
	if (unknown)
		return refuse(why, "activation %s", unknown);
	return true;
}

/* Arguments of pack_w and pack_r, which pack all directions of a weight for the session's store. */
struct rnn_pack {
	enum gemm_type t;
	const struct rnn_size *z;
	int directions;
	bool split;
};

static int pack_r(void *dst, const struct tensor *t, void *arg)
{
	const struct rnn_pack *k = arg;
	size_t each = t->bytes / (size_t)k->directions;

	for (int d = 0; d < k->directions; d++)
		pack_recurrent(k->t, k->z->gates, k->z->hidden, k->split,
			       (const char *)t->data + (size_t)d * each,
			       (char *)dst +
				       (size_t)d * 2 * pack_first(k->t, k->z->gates, k->z->hidden));
	return 0;
}

static int pack_w(void *dst, const struct tensor *t, void *arg)
{
	const struct rnn_pack *k = arg;
	size_t each = t->bytes / (size_t)k->directions;

	for (int d = 0; d < k->directions; d++) {
		struct gemm m = {.n = k->z->gates * k->z->hidden,
				 .k = k->z->input,
				 .b = (const char *)t->data + (size_t)d * each,
				 .b_row = 1,
				 .b_col = k->z->input};
		gemm_pack(k->t, &m, (char *)dst + (size_t)d * pack_input(k->t, k->z));
	}
	return 0;
}

/*
 * Returns weight i, packed once per session; `bytes` is the size of one packed direction. Returns
 * NULL if the weight is not constant or does not have type k->t, and also, with *err set, if memory
 * is short.
 */
static const char *packed_weight(struct site *s, uint32_t i, const struct rnn_pack *k, size_t bytes,
				 struct diag *d, int *err)
{
	const struct tensor *t = site_known(s, i);
	enum dtype type = k->t == GEMM_F64 ? DT_F64 : DT_F32;
	const char *key = i == RNN_W ? "rnn W" : k->split ? "rnn R split" : "rnn R";
	const char *made;

	if (*err || !s->store || !t || !site_is_weight(s, i) || tensor_dtype(t) != type ||
	    !tensor_count(t))
		return NULL;
	made = store_get(s->store, t, key, bytes * (size_t)k->directions,
			 i == RNN_W ? pack_w : pack_r, (void *)(uintptr_t)k, d);
	if (!made)
		*err = -E_MEMORY;
	return made;
}

/* Packs the transpose of n rows of k floats, rounded. */
static int pack_rounded(const float *from, int64_t n, int64_t k, uint16_t *to)
{
	uint16_t *rows = malloc((size_t)(AMX_ROWS * k) * sizeof(*rows));

	if (!rows)
		return -E_MEMORY;
	for (int64_t j = 0; j < n; j += AMX_ROWS) {
		int64_t count = lesser(AMX_ROWS, n - j);
		simd()->f32_to_bf16(from + j * k, rows, count * k);
		amx_pack_b(rows, k, true, k, count, to + j * amx_depth(k));
	}
	free(rows);
	return 0;
}

static int pack_w16(void *dst, const struct tensor *t, void *arg)
{
	const struct rnn_pack *k = arg;
	int64_t wide = k->z->gates * k->z->hidden, input = k->z->input;
	int err = 0;

	for (int d = 0; d < k->directions && !err; d++)
		err = pack_rounded((const float *)t->data + d * wide * input, wide, input,
				   (uint16_t *)dst + (size_t)d * half_w(k->z));
	return err;
}

static int pack_r16(void *dst, const struct tensor *t, void *arg)
{
	const struct rnn_pack *k = arg;
	int64_t n = k->z->hidden;
	int err = 0;

	for (int i = 0; i < k->directions * k->z->gates && !err; i++)
		err = pack_rounded((const float *)t->data + i * n * n, n, n,
				   (uint16_t *)dst + (size_t)i * half_gate(n));
	return err;
}

/* Whether products are in bf16: if the user asked for it, and the processor has instructions for it, so that it is faster. */
static bool takes_halves(const struct site *s)
{
	return s->config && s->config->precision == PRECISION_BF16 &&
	       site_in(s, RNN_X)->type.dtype == DT_F32 && bf16_usable() && s->store &&
	       site_known(s, RNN_W) && site_is_weight(s, RNN_W) && site_known(s, RNN_R) &&
	       site_is_weight(s, RNN_R) && tensor_count(site_known(s, RNN_W)) &&
	       tensor_count(site_known(s, RNN_R));
}

static int pack_halves(struct site *s, struct rnn_plan *plan, struct rnn_pack *k, struct diag *d)
{
	size_t each = (size_t)k->directions * sizeof(uint16_t);

	plan->w16 = store_get(s->store, site_known(s, RNN_W), "rnn W bf16", each * half_w(k->z),
			      pack_w16, k, d);
	if (!plan->w16)
		return -E_MEMORY;
	plan->r16 = store_get(s->store, site_known(s, RNN_R), "rnn R bf16",
			      each * (size_t)k->z->gates * half_gate(k->z->hidden), pack_r16, k, d);
	return plan->r16 ? 0 : -E_MEMORY;
}

static int pack_weights(struct site *s, struct rnn_plan *plan, const struct rnn_size *z,
			enum gemm_type t, struct diag *d)
{
	const struct rnn *p = site_params(s);
	struct rnn_pack k = {t, z, rnn_directions(p), needs_split_product(z, p)};
	int err = 0;

	if (takes_halves(s))
		return pack_halves(s, plan, &k, d);
	plan->r = packed_weight(s, RNN_R, &k, 2 * pack_first(t, z->gates, z->hidden), d, &err);
	if (z->batch * z->seq >= PACK_ROWS && z->gates * z->hidden >= PACK_COLUMNS)
		plan->w = packed_weight(s, RNN_W, &k, pack_input(t, z), d, &err);
	return err;
}

/* ---- weights of com.microsoft::DynamicQuantizeLSTM ------------------------------------------------ */

/* A quantized weight [directions, k, 4 * hidden]; its scales and zero points are one a direction, or one a column. */
struct rnn_codes {
	const struct tensor *code, *scale, *zero;
};

/*
 * Writes codes less zero points as floats of shape [directions, 4 * hidden, k]. Without the scale their products are whole numbers,
 * whose sums floats hold exactly up to 2^24, as the sums of integers would be.
 */
static void center_weight(const struct rnn_codes *q, float *to)
{
	const struct shape *s = &q->code->shape;
	int64_t dirs = s->dim[0], k = s->dim[1], n = s->dim[2];
	int64_t zeros = tensor_count(q->zero) / dirs;
	enum dtype type = tensor_dtype(q->code), zero_type = tensor_dtype(q->zero);

	for (int64_t d = 0; d < dirs; d++)
		for (int64_t j = 0; j < n; j++) {
			int64_t zero =
				elem_i64(zero_type, q->zero->data, d * zeros + (zeros > 1 ? j : 0));
			for (int64_t i = 0; i < k; i++)
				to[(d * n + j) * k + i] =
					(float)(elem_i64(type, q->code->data, (d * k + i) * n + j) -
						zero);
		}
}

static int pack_integers(void *dst, const struct tensor *t, void *arg)
{
	const struct rnn_codes *q = arg;
	const struct shape *s = &t->shape;
	int64_t dirs = s->dim[0], k = s->dim[1], n = s->dim[2], zeros = tensor_count(q->zero) / dirs;
	uint8_t flip = tensor_dtype(t) == DT_U8 ? IGEMM_FLIP : 0;

	for (int64_t d = 0; d < dirs; d++) {
		uint8_t *panel = (uint8_t *)dst + (size_t)d * integers_bytes(k, n);
		int32_t *sum = (int32_t *)(void *)(panel + integers_panels(k, n)),
			*zero = sum + n + IGEMM_NR;
		for (int64_t j = 0; j < n; j += IGEMM_NR, panel += igemm_panel(k)) {
			struct igemm_rows rows = {.base = (const uint8_t *)t->data + d * k * n + j,
						  .row = n};
			int32_t sums[IGEMM_NR];
			igemm_kernels()->pack(&rows, k, lesser(IGEMM_NR, n - j), flip, panel);
			igemm_kernels()->column_sums(panel, igemm_depth(k) / 4, true, sums);
			memcpy(sum + j, sums, sizeof(sums));
		}
		for (int64_t j = 0; j < n; j++)
			zero[j] = (int32_t)elem_i64(tensor_dtype(q->zero), q->zero->data,
						    d * zeros + (zeros > 1 ? j : 0)) -
				  flip;
	}
	return 0;
}

/*
 * Sets *out to weight i, packed once per session, if it, its scales and its zero points are constants of sizes that fit. Returns 0,
 * or -code if memory is short.
 */
static int packed_codes(struct site *s, uint32_t i, const struct rnn_size *z,
			const struct rnn_integers **out, struct diag *d)
{
	uint32_t scale = i == RNN_W ? RNN_P + 1 : RNN_P + 3;
	struct rnn_codes c = {site_known(s, i), site_known(s, scale), site_known(s, scale + 1)};
	int64_t n = z->gates * z->hidden, dirs = rnn_directions(site_params(s));

	if (!s->store || !c.code || !c.scale || !c.zero || !site_is_weight(s, i) ||
	    !site_is_weight(s, scale) || !site_is_weight(s, scale + 1) || !tensor_count(c.code))
		return 0;
	int64_t scales = tensor_count(c.scale), zeros = tensor_count(c.zero);
	if ((scales != dirs && scales != dirs * n) || (zeros != dirs && zeros != dirs * n))
		return 0; /* quantized_run refuses these */
	struct rnn_integers *w = arena_new(s->plan_arena, struct rnn_integers);
	*w = (struct rnn_integers){
		.k = c.code->shape.dim[1], .n = n, .scales = scales / dirs, .scale = c.scale->data};
	/* one weight may serve two nodes with other zero points */
	w->data = store_get(s->store, c.code,
			    arena_printf(s->plan_arena, "rnn codes %p", c.zero->data),
			    integers_bytes(w->k, n) * (size_t)dirs, pack_integers, &c, d);
	*out = w;
	return w->data ? 0 : -E_MEMORY;
}

static int reshape_rnn(struct site *site, struct step *step, struct diag *d, bool quantized)
{
	const struct rnn *p = site_params(site);
	struct rnn_plan *plan = arena_new(site->plan_arena, struct rnn_plan);
	const struct vinfo *x = site_in(site, RNN_X);
	struct rnn_size z = size_of(site->node, &x->shape, &site_in(site, RNN_R)->shape, quantized);
	bool f64 = x->type.dtype == DT_F64;
	enum gemm_type t = f64 ? GEMM_F64 : GEMM_F32;
	size_t elem = f64 ? 8 : 4, state = scratch_size((size_t)(z.batch * z.hidden) * elem);
	size_t wide = (size_t)(z.gates * z.hidden) * elem, steps = (size_t)(z.seq * z.batch);

	plan->quantized = quantized;
	step->state = plan;
	step->workspace = wide_workspace(site) + scratch_size(gemm_scratch(t)) +
			  scratch_size(steps * wide) + scratch_size((size_t)z.batch * wide) +
			  3 * state;
	step->workspace += 2 * pack_first(t, z.gates, z.hidden);
	if (p->layout || quantized)
		step->workspace += scratch_size(steps * (size_t)z.input * elem);
	if (!quantized) {
		if (takes_halves(site))
			step->workspace += half_x_bytes(&z) + 2 * half_state_bytes(&z);
		return pack_weights(site, plan, &z, t, d);
	}
	step->workspace += state;
	int err = packed_codes(site, RNN_W, &z, &plan->w8, d);
	err = err ? err : packed_codes(site, RNN_R, &z, &plan->r8, d);
	size_t dirs = (size_t)rnn_directions(p), integers;
	int64_t rows = z.seq > 1 ? z.seq * z.batch : z.batch,
		k = z.input > z.hidden ? z.input : z.hidden;
	plan->scratch = igemm_scratch(rows, k, false);
	if (!product_bytes(rows, z.gates * z.hidden, k, plan->scratch, &integers) ||
	    !size_add(step->workspace, scratch_size(integers), &step->workspace))
		return FAIL(d, E_SIZE, .node = site->node->origin->name, .op = site->node->origin->op);
	if (!plan->w8)
		step->workspace += scratch_size(dirs * wide * (size_t)z.input);
	if (!plan->r8)
		step->workspace += scratch_size(dirs * wide * (size_t)z.hidden);
	return err;
}

static int rnn_reshape(struct site *site, struct step *step, struct diag *d)
{
	return reshape_rnn(site, step, d, false);
}

static int quantized_reshape(struct site *site, struct step *step, struct diag *d)
{
	return reshape_rnn(site, step, d, true);
}

static int check_lengths(const struct call *c, const struct rnn_size *z)
{
	const struct tensor *lens = optional_in(c, RNN_LENS);

	for (int64_t b = 0; lens && b < z->batch; b++) {
		int32_t len = ((const int32_t *)lens->data)[b];
		if (len < 0 || len > z->seq)
			return call_fail(c, E_VALUE, "sequence_lens within the sequence", NULL);
	}
	return 0;
}

static int rnn_run(const struct call *c)
{
	const struct rnn *p = call_params(c);
	struct rnn_size z = size_of(c->step->node, &c->in[RNN_X]->shape, &c->in[RNN_R]->shape, false);
	struct rnn_activation act[2 * RNN_FUNCTIONS];
	struct scratch s = scratch_of(c);
	int err = check_lengths(c, &z);

	if (err)
		return err;
	rnn_activations(p, z.cell, act);
	if (tensor_dtype(c->in[RNN_X]) == DT_F64)
		run_rnn_f64(c, &z, act, &s);
	else
		run_rnn_f32(c, &z, act, &s);
	return 0;
}

/* ---- com.microsoft::DynamicQuantizeLSTM: inputs and states are quantized before each product ------ */

/* Returns weight i as floats without their scale, or NULL if its codes are packed. */
static const float *centered(const struct call *c, uint32_t i, uint32_t scale,
			     const struct rnn_integers *packed, struct scratch *s)
{
	const struct rnn_codes codes = {c->in[i], c->in[scale], c->in[scale + 1]};

	if (packed)
		return NULL;
	float *to = scratch_take(s, (size_t)tensor_count(codes.code) * sizeof(float));
	center_weight(&codes, to);
	return to;
}

static int quantized_run(const struct call *c)
{
	const struct rnn *p = call_params(c);
	const struct rnn_plan *plan = c->step->state;
	struct rnn_size z = size_of(c->step->node, &c->in[RNN_X]->shape, &c->in[RNN_R]->shape, true);
	struct rnn_activation act[2 * RNN_FUNCTIONS];
	struct scratch s = scratch_of(c);
	int err = check_lengths(c, &z);

	for (uint32_t i = RNN_P + 1; i <= RNN_P + 4 && !err; i++) {
		int64_t n = tensor_count(c->in[i]), dirs = rnn_directions(p);
		if (n != dirs && n != dirs * z.gates * z.hidden)
			err = call_fail(c, E_SHAPE, "one scale a direction, or one a column", NULL);
	}
	if (err)
		return err;
	rnn_activations(p, z.cell, act);
	z.w = centered(c, RNN_W, RNN_P + 1, plan->w8, &s);
	z.r = centered(c, RNN_R, RNN_P + 3, plan->r8, &s);
	z.w_scale = c->in[RNN_P + 1]->data;
	z.r_scale = c->in[RNN_P + 3]->data;
	z.w_scales = tensor_count(c->in[RNN_P + 1]) / rnn_directions(p);
	z.r_scales = tensor_count(c->in[RNN_P + 3]) / rnn_directions(p);
	run_rnn_f32(c, &z, act, &s);
	return 0;
}

#define ROW(name)                                                                                   \
	{                                                                                           \
		name, T_FLOATS_BF, K_REFERENCE, rnn_accepts, NULL, rnn_reshape, rnn_run, NULL, NULL \
	}
const struct kernel cpu_rnn[] = {ROW("RNN"),
				 ROW("GRU"),
				 ROW("LSTM"),
				 {"com.microsoft::DynamicQuantizeLSTM", T_F32, K_REFERENCE,
				  rnn_accepts, NULL, quantized_reshape, quantized_run, NULL, NULL},
				 {0}};
