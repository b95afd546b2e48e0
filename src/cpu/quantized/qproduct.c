/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quantized/qproduct.h"

#include "backend/weight_store.h"
#include "base/pool.h"
#include "cpu/math/broadcast.h"
#include "cpu/math/move.h"
#include "cpu/math/wide.h"
#include "cpu/quantized/quant.h"
#include "ops/matmul.h"
#include "ops/quant.h"

#include <string.h>

/* ---- converting integer sums to the output type ---------------------------------------------------------------- */

/* Returns the factor for the sum of row m, column n: the scales of a and b multiplied, divided by the scale of y. */
static float factor_of(const struct finish *f, int64_t m, int64_t n)
{
	float as = f->alpha * scale_of(f->ascale, m, f->rows, f->first_row);
	float ys = f->yscale ? scale_of(f->yscale, m, f->rows, f->first_row) : 1;

	return as *
	       scale_of(f->bscale, f->by_row ? m : n, f->by_row ? f->rows : f->cols, f->first_col) /
	       ys;
}

static bool has_many(const struct tensor *t)
{
	return t && tensor_count(t) > 1;
}

void finish_prepare(struct finish *f, float *room)
{
	bool columns = f->type != DT_I32 && !f->by_row && has_many(f->bscale);
	bool rows = f->type != DT_I32 && (has_many(f->ascale) || has_many(f->yscale) ||
					  (f->by_row && has_many(f->bscale)));

	f->factor = NULL;
	if (f->type == DT_I32 || (rows && columns))
		return;
	f->factor = room;
	f->factor_row = rows;
	f->factor_col = columns;
	for (int64_t i = 0; i < (rows ? f->rows : columns ? f->cols : 1); i++)
		room[i] = factor_of(f, rows ? i : 0, columns ? i : 0);
}

enum {
	FINISH_COLUMNS = 64
}; /* number of sums that are converted at once, in buffers on the stack */

static void finish_chunk(const struct finish *f, int64_t m, int64_t n0, int64_t cols,
			 const int32_t *sums, void *out, int64_t at)
{
	int32_t added[FINISH_COLUMNS];
	float own[FINISH_COLUMNS];
	const float *scale = own;
	const int32_t *add = NULL;
	int step = 1;

	if (f->add && f->type != DT_F32 && f->add_col == 1)
		add = f->add + m * f->add_row + n0;
	for (int64_t i = 0; i < cols && f->add && !add; i++)
		added[i] = (int32_t)((uint32_t)sums[i] +
				     (uint32_t)f->add[m * f->add_row + (n0 + i) * f->add_col]);
	if (f->add && !add)
		sums = added;
	if (f->factor) {
		scale = f->factor + m * f->factor_row + n0 * f->factor_col;
		step = (int)f->factor_col;
	} else {
		for (int64_t i = 0; i < cols; i++)
			own[i] = factor_of(f, m, n0 + i);
	}
	if (f->type == DT_F32) {
		float *y = (float *)out + at;
		bool plain = f->bias && tensor_dtype(f->bias) == DT_F32;
		igemm_kernels()->to_floats(sums, y, cols, scale, step,
					   plain ? (const float *)f->bias->data + n0 : NULL);
		for (int64_t i = 0; i < cols && f->bias && !plain; i++)
			y[i] += scale_at(f->bias, n0 + i);
		return;
	}
	bool is_signed = f->type == DT_I8;
	int32_t z = f->yzero ? (int32_t)scale_of(f->yzero, m, f->rows, f->first_row) : 0;
	igemm_kernels()->requantize(sums, add, (uint8_t *)out + at, cols, scale, step, z,
				    is_signed ? -128 : 0, is_signed ? 127 : 255);
}

void finish_row(const struct finish *f, int64_t m, int64_t n0, int64_t cols, const int32_t *sums,
		void *out, int64_t at)
{
	if (f->type == DT_I32) {
		int32_t *y = (int32_t *)out + at;
		memcpy(y, sums, (size_t)cols * sizeof(*sums));
		for (int64_t i = 0; i < cols && f->add; i++)
			y[i] = (int32_t)((uint32_t)y[i] +
					 (uint32_t)f->add[m * f->add_row + (n0 + i) * f->add_col]);
		return;
	}
	for (int64_t i = 0; i < cols; i += FINISH_COLUMNS)
		finish_chunk(f, m, n0 + i, lesser(FINISH_COLUMNS, cols - i), sums + i, out, at + i);
}

/* ---- matrix products ------------------------------------------------------------------------------------------- */

struct product {
	struct matmul_shape s;
	uint32_t a, b, za, zb; /* indices of the inputs: operands and zero points */
	size_t scratch; /* bytes of igemm's scratch in the workspace; the buffers of struct product_room follow */
	const struct packed *packed; /* of a constant B; otherwise NULL */
};

struct product_job {
	const struct product *p;
	const char *b;
	uint8_t flip; /* mask for XOR that makes unsigned codes of B signed; 0 if they are signed */
	struct finish f;
	void *y;
	int64_t y_first;
};

/* Packs `count` columns of b from n0 on into a panel in the layout of igemm. */
static void pack_columns(const struct matmul_shape *s, const uint8_t *b, uint8_t flip, int64_t n0,
			 int64_t count, uint8_t *panel)
{
	const uint8_t *from = b + n0 * s->b_col;

	if (s->b_col == 1) {
		struct igemm_rows rows = {.base = from, .row = s->b_row};
		igemm_kernels()->pack(&rows, s->k, count, flip, panel);
		return;
	}
	memset(panel, 0, igemm_panel(s->k));
	for (int64_t k = 0; k < s->k; k += 4, panel += 4 * IGEMM_NR)
		for (int64_t i = 0; i < count; i++)
			for (int64_t j = 0; j < 4 && k + j < s->k; j++)
				panel[4 * i + j] = from[i * s->b_col + (k + j) * s->b_row] ^ flip;
}

static void pack_matrix(const void *arg, int64_t n0, int64_t count, uint8_t *panel)
{
	const struct product_job *j = arg;

	pack_columns(&j->p->s, (const uint8_t *)j->b, j->flip, n0, count, panel);
}

static void store_matrix(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			 const int32_t *sums, int64_t ld)
{
	const struct product_job *j = arg;

	for (int64_t r = 0; r < rows; r++)
		finish_row(&j->f, m + r, n, cols, sums + r * ld, j->y,
			   j->y_first + (m + r) * j->p->s.n + n);
}

static void code_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct code_job *j = arg;
	int64_t depth = igemm_depth(j->k);

	(void)thread;
	for (int64_t m = begin; m < end; m++) {
		uint8_t *restrict to = j->to + m * depth;
		const uint8_t *from = j->from + m * j->row;
		if (j->col == 1 && !j->flip)
			memcpy(to, from, (size_t)j->k);
		else if (j->col == 1)
			for (int64_t k = 0; k < j->k; k++)
				to[k] = from[k] ^ IGEMM_FLIP;
		else
			for (int64_t k = 0; k < j->k; k++)
				to[k] = from[k * j->col] ^ j->flip;
		for (int64_t k = j->k; k < depth; k++)
			to[k] = 0;
		if (j->sum)
			j->sum[m] = igemm_kernels()->row_sum(to, j->k, j->is_signed);
	}
}

void code_rows(struct code_job *j, int64_t m)
{
	if (m > 0)
		pool_for(m, 1 + (1 << 15) / (j->k + 1), code_piece, j);
}

struct product_room product_room(char *at, int64_t m, int64_t n, int64_t k)
{
	struct product_room r = {.rows = (uint8_t *)at};

	r.za = (int32_t *)(void *)(at + scratch_size((size_t)m * (size_t)igemm_depth(k)));
	r.rest = r.za + m;
	r.factor = (float *)(r.rest + m);
	r.zb = (int32_t *)(void *)(r.factor + (m > n ? m : n));
	return r;
}

bool product_bytes(int64_t m, int64_t n, int64_t k, size_t scratch, size_t *bytes)
{
	size_t rows, numbers;

	return size_mul((size_t)m, (size_t)igemm_depth(k), &rows) &&
	       size_mul((size_t)(m > n ? m : n), 4 * sizeof(int32_t), &numbers) &&
	       size_add(rows, numbers, &rows) && size_add(rows, 64, &rows) &&
	       size_add(rows, scratch, bytes);
}

struct pack_all {
	const struct matmul_shape *s;
	const struct tensor *zeros; /* zero points of columns, or NULL */
	struct diag *d;
	const uint8_t *b;
	uint8_t flip;
	struct packed *to;
	int32_t *start, *at; /* those of to->narrow */
	uint8_t *room;	     /* a panel of each thread */
};

static int64_t panels_of(const struct matmul_shape *s)
{
	return (s->n + IGEMM_NR - 1) / IGEMM_NR;
}

/* Packs panels and sums of columns. */
static void pack_all_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pack_all *j = arg;

	(void)thread;
	for (int64_t p = begin; p < end; p++) {
		uint8_t *panel = j->to->panels + (size_t)p * igemm_panel(j->s->k);
		pack_columns(j->s, j->b, j->flip, p * IGEMM_NR,
			     lesser(IGEMM_NR, j->s->n - p * IGEMM_NR), panel);
		igemm_kernels()->column_sums(panel, igemm_depth(j->s->k) / 4, true,
					     j->to->sums + p * IGEMM_NR);
	}
}

/* Groups in a panel before they are split. */
static int64_t groups_of(const struct matmul_shape *s)
{
	return igemm_depth(s->k) / IGEMM_NARROW;
}

/* Bytes of a group. */
enum { GROUP = IGEMM_NARROW * IGEMM_NR };

/*
 * Sets zero[i] to the zero point of column n0 + i, and returns whether it is one that split() takes. Inlined, gcc for ARM sees a
 * write behind the list that is not there.
 */
static __attribute__((noinline)) bool zeros_of_panel(const struct pack_all *j, int64_t n0, int8_t *zero)
{
	bool fit = true;

	for (int64_t i = 0; i < IGEMM_NR; i++) {
		int32_t z = zero_of(j->zeros, lesser(n0 + i, j->s->n - 1), j->s->n, 0);
		z += zero_move(true, j->flip);
		fit &= z > -128;
		zero[i] = (int8_t)z;
	}
	return fit;
}

/* Splits the groups of panels: counts them while there is no list of them, then writes them from start[p] on. */
static void split_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pack_all *j = arg;
	uint8_t *panel = j->room + (size_t)thread * igemm_panel(j->s->k);

	for (int64_t p = begin; p < end; p++) {
		int64_t n = j->at ? j->start[p] : 0;
		int8_t zero[IGEMM_NR];
		if (!zeros_of_panel(j, p * IGEMM_NR, zero))
			n = INT32_MAX / 2;
		pack_columns(j->s, j->b, j->flip, p * IGEMM_NR,
			     lesser(IGEMM_NR, j->s->n - p * IGEMM_NR), panel);
		for (int64_t g = 0; g < groups_of(j->s); g++) {
			const uint8_t *from = panel + g * GROUP;
			int count = igemm_kernels()->split(from, zero,
							   j->at ? j->to->panels + n * GROUP : NULL);
			for (int i = 0; i < count && j->at; i++)
				j->at[n + i] = (int32_t)(g * IGEMM_NARROW);
			n += count;
		}
		if (!j->at) {
			int32_t *sum = j->to->sums + p * IGEMM_NR;
			j->start[p + 1] = (int32_t)n;
			igemm_kernels()->column_sums(panel, igemm_depth(j->s->k) / 4, true, sum);
			for (int i = 0; i < IGEMM_NR; i++)
				sum[i] = (int32_t)((uint32_t)sum[i] - (uint32_t)(zero[i] * j->s->k));
		}
	}
}

/* The most groups that are worth it: above, fewer but wider multiplications are faster. */
static int64_t most_groups(const struct matmul_shape *s)
{
	return panels_of(s) * groups_of(s) * 5 / 4;
}

/* Sets *bytes to what a packed B takes. Returns false if its size overflows, or indices of groups do. */
static bool packed_bytes(const struct matmul_shape *s, size_t *bytes)
{
	size_t panels = (size_t)panels_of(s), more;

	return size_mul(panels, igemm_panel(s->k) / 4, bytes) && *bytes < INT32_MAX &&
	       size_mul(*bytes, 6, bytes) &&
	       size_mul(panels + 1, (IGEMM_NR + 1) * sizeof(int32_t), &more) &&
	       size_add(*bytes, more, bytes) &&
	       size_add(*bytes, sizeof(struct packed) + 4 * 64, bytes);
}

/* Packs B in narrow groups if there are few enough. Returns whether it has. */
static bool pack_narrow(struct pack_all *j)
{
	int64_t panels = panels_of(j->s);

	j->start[0] = 0;
	pool_for(panels, 8, split_piece, j);
	for (int64_t p = 0; p < panels; p++) {
		if (j->start[p + 1] > most_groups(j->s) - j->start[p])
			return false;
		j->start[p + 1] += j->start[p];
	}
	j->at = (int32_t *)(void *)(j->to->panels + scratch_size((size_t)j->start[panels] * GROUP));
	pool_for(panels, 8, split_piece, j);
	j->to->narrow = (struct igemm_narrow){j->start, j->at, j->to->panels};
	return true;
}

static int pack_all(void *dst, const struct tensor *t, void *arg)
{
	struct pack_all j = *(const struct pack_all *)arg;
	size_t room = igemm_panel(j.s->k) * (size_t)pool_threads();

	j.b = t->data;
	j.to = dst;
	j.flip = flip_to(true, tensor_dtype(t));
	*j.to = (struct packed){
		.sums = (int32_t *)(void *)((char *)dst + scratch_size(sizeof(*j.to)))};
	j.start = j.to->sums + panels_of(j.s) * IGEMM_NR;
	j.to->panels = (uint8_t *)dst +
		       scratch_size((size_t)((char *)(j.start + panels_of(j.s) + 1) - (char *)dst));
	if (igemm_kernels()->split) {
		j.room = mem_alloc(room, MEM_STAGING);
		if (!j.room)
			return FAIL(j.d, E_MEMORY, .actual = fmt(j.d, "%zu bytes", room));
		j.to->is_narrow = pack_narrow(&j);
		mem_free(j.room);
	}
	if (!j.to->is_narrow)
		pool_for(panels_of(j.s), 8, pack_all_piece, &j);
	return 0;
}

int packed_get(const struct site *s, uint32_t w, uint32_t zero, const struct matmul_shape *m,
	       const struct packed **out, struct diag *d)
{
	const struct tensor *b = site_known(s, w);
	const struct tensor *zeros = site_in(s, zero) ? site_known(s, zero) : NULL;
	struct pack_all pack = {.s = m, .zeros = zeros, .d = d};
	size_t bytes;

	*out = NULL;
	if (!s->store || !b || !site_is_weight(s, w) || !tensor_count(b) || !packed_bytes(m, &bytes))
		return 0;
	if (site_in(s, zero) && (!zeros || (tensor_count(zeros) != 1 && tensor_count(zeros) != m->n)))
		return 0;
	const char *key =
		arena_printf(s->plan_arena, "igemm %d %p", m->b_col == 1, (const void *)zeros);
	*out = key ? store_get(s->store, b, key, bytes, pack_all, &pack, d) : NULL;
	return *out ? 0 : -E_MEMORY;
}

/* Packs B into the weight store if B is constant, so that each session packs B only once. */
static int pack_weights(struct site *s, struct step *st, struct diag *d, struct product *p)
{
	if (!site_known(s, p->b) || site_in(s, p->b)->shape.rank > 2)
		return 0;
	int r = packed_get(s, p->b, p->zb, &p->s, &p->packed, d);
	if (p->packed)
		st->unread |= UINT64_C(1) << p->b;
	return r;
}

static int product_prepare(struct site *s, struct step *st, struct diag *d, struct product *p)
{
	p->scratch = igemm_scratch(p->s.m, p->s.k, false);
	if (!product_bytes(p->s.m, p->s.n, p->s.k, p->scratch, &st->workspace))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	st->state = p;
	return pack_weights(s, st, d, p);
}

static int product_reshape(struct site *s, struct step *st, struct diag *d, uint32_t a, uint32_t b,
			   uint32_t za, uint32_t zb)
{
	struct product *p = arena_new(s->plan_arena, struct product);

	p->a = a;
	p->b = b;
	p->za = za;
	p->zb = zb;
	if (!matmul_shape(&site_in(s, a)->shape, &site_in(s, b)->shape, NULL, &p->s))
		return site_fail(s, d, E_SHAPE, "matrices that can be multiplied", NULL);
	return product_prepare(s, st, d, p);
}

bool zeros_of(const struct tensor *z, int32_t move, int64_t n, int64_t first, int32_t *to)
{
	bool any = false;

	for (int64_t i = 0; i < n; i++) {
		to[i] = zero_of(z, i, n, first) + move;
		any |= to[i] != 0;
	}
	return any;
}

/* Computes the product of one batch: matrix A at `a`, matrix B at j->b. */
static void product_batch(const struct call *c, struct product_job *j, const uint8_t *a, int64_t batch)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *za = optional_in(c, p->za), *zb = optional_in(c, p->zb);
	uint8_t flip = flip_to(false, tensor_dtype(c->in[p->a]));
	struct product_room r = product_room((char *)c->workspace + p->scratch, s->m, s->n, s->k);
	struct igemm g = {.m = s->m,
			  .n = s->n,
			  .k = s->k,
			  .packed = p->packed ? p->packed->panels : NULL,
			  .packed_sums = p->packed ? p->packed->sums : NULL,
			  .narrow = p->packed && p->packed->is_narrow ? &p->packed->narrow : NULL,
			  .pack = pack_matrix,
			  .store = store_matrix,
			  .arg = j};

	finish_prepare(&j->f, r.factor);
	if (zeros_of(za, zero_move(false, flip), s->m, batch * s->m, r.za))
		g.a_zero = r.za;
	if (!g.narrow && zeros_of(zb, zero_move(true, j->flip), s->n, batch * s->n, r.zb)) {
		g.b_zero = r.zb;
		g.b_zero_step = 1;
		g.a_rest = r.rest;
	}
	g.a = a;
	if (flip || s->a_col != 1 || s->a_row != igemm_depth(s->k) || g.b_zero) {
		struct code_job code = {.to = r.rows,
					.sum = g.b_zero ? r.rest : NULL,
					.from = a,
					.k = s->k,
					.row = s->a_row,
					.col = s->a_col,
					.flip = flip};
		code_rows(&code, s->m);
		g.a = r.rows;
	}
	for (int64_t m = 0; m < s->m && g.b_zero; m++)
		r.rest[m] = (int32_t)((uint32_t)r.rest[m] - (uint32_t)s->k * (uint32_t)r.za[m]);
	igemm_run(&g, c->workspace);
}

/* Computes the products of all batches, and converts the integer sums to the output type as f says. */
static int product_run(const struct call *c, const struct finish *f)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *a = c->in[p->a], *b = c->in[p->b];
	struct product_job j = {
		.p = p, .flip = flip_to(true, tensor_dtype(b)), .f = *f, .y = c->out[0]->data};
	int64_t batches = 1, at[MAX_RANK] = {0};

	for (int i = 0; i < s->nbatch; i++)
		batches *= s->batch[i];
	j.f.rows = s->m;
	j.f.cols = s->n;
	for (int64_t k = 0; k < batches; k++) {
		int64_t ao = 0, bo = 0;
		for (int i = 0; i < s->nbatch; i++) {
			ao += at[i] * s->a_batch[i];
			bo += at[i] * s->b_batch[i];
		}
		j.b = (const char *)b->data + bo;
		j.f.first_col = k * s->n;
		j.f.first_row = k * s->m;
		j.y_first = k * s->m * s->n;
		product_batch(c, &j, (const uint8_t *)a->data + ao, k);
		for (int i = s->nbatch - 1; i >= 0 && ++at[i] == s->batch[i]; i--)
			at[i] = 0;
	}
	return 0;
}

int matmul_integer_reshape(struct site *s, struct step *st, struct diag *d)
{
	return product_reshape(s, st, d, 0, 1, 2, 3);
}

int matmul_integer_run(const struct call *c)
{
	return product_run(c, &(struct finish){.type = DT_I32});
}

int to_float_reshape(struct site *s, struct step *st, struct diag *d)
{
	return product_reshape(s, st, d, 0, 1, 4, 5);
}

int to_float_run(const struct call *c)
{
	return product_run(c, &(struct finish){.type = DT_F32,
					       .alpha = 1,
					       .ascale = c->in[2],
					       .bscale = c->in[3],
					       .bias = optional_in(c, 6)});
}

bool qlinear_int(const struct site *s, struct why *w)
{
	uint64_t q8 = T_U8 | T_I8;

	if (!(T_BIT(site_in(s, 0)->type.dtype) & q8) || !(T_BIT(site_in(s, 3)->type.dtype) & q8) ||
	    !(T_BIT(site_in(s, 7)->type.dtype) & q8))
		return refuse(w, "8-bit integers only");
	return true;
}

int qlinear_matmul_reshape(struct site *s, struct step *st, struct diag *d)
{
	return product_reshape(s, st, d, 0, 3, 2, 5);
}

int qlinear_matmul_run(const struct call *c)
{
	return product_run(c, &(struct finish){.type = tensor_dtype(c->out[0]),
					       .alpha = 1,
					       .ascale = c->in[1],
					       .bscale = c->in[4],
					       .yscale = c->in[6],
					       .yzero = c->in[7]});
}

/* Runs QLinearMatMul for any 8-bit type, 8-bit floats included, by computing element by element. */
int qlinear_reference_run(const struct call *c)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *a = c->in[0], *b = c->in[3], *za = c->in[2], *zb = c->in[5],
			    *ys = c->in[6], *yz = c->in[7];
	enum dtype t = tensor_dtype(c->out[0]);
	int64_t total = tensor_count(c->out[0]), mn = s->m * s->n;
	float low, high;

	int_range(t, &low, &high);
	for (int64_t o = 0; o < total; o++) {
		int64_t k = o / mn, m = o % mn / s->n, n = o % s->n, ao = 0, bo = 0, rest = k;
		double sum = 0;
		for (int i = s->nbatch - 1; i >= 0; i--) {
			ao += rest % s->batch[i] * s->a_batch[i];
			bo += rest % s->batch[i] * s->b_batch[i];
			rest /= s->batch[i];
		}
		float az = scale_of(za, m, s->m, k * s->m), bz = scale_of(zb, n, s->n, k * s->n);
		for (int64_t i = 0; i < s->k; i++)
			sum += (elem_f64(tensor_dtype(a), a->data, ao + m * s->a_row + i * s->a_col) -
				(double)az) *
			       (elem_f64(tensor_dtype(b), b->data, bo + i * s->b_row + n * s->b_col) -
				(double)bz);
		float scale = scale_of(c->in[1], m, s->m, k * s->m) *
			      scale_of(c->in[4], n, s->n, k * s->n) / scale_of(ys, m, s->m, k * s->m);
		float v = (float)sum * scale, z = scale_of(yz, m, s->m, k * s->m);
		if (dtype_class(t) == DT_FLOAT) {
			((uint8_t *)c->out[0]->data)[o] = f32_to_f8(t, v + z, true);
			continue;
		}
		elem_set_i64(t, c->out[0]->data, o, (int64_t)clamped(rintf(v) + z, low, high));
	}
	return 0;
}

/* ---- QGemm ------------------------------------------------------------------------------------------------------- */

int qgemm_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct qgemm_params *q = site_params(s);
	const struct shape *a = &site_in(s, 0)->shape, *b = &site_in(s, 3)->shape;
	const struct vinfo *add = site_in(s, 6);
	struct product *p = arena_new(s->plan_arena, struct product);
	struct shape y = site_out(s, 0)->shape, full;

	*p = (struct product){.a = 0, .b = 3, .za = 2, .zb = 5};
	p->s = (struct matmul_shape){.out = y,
				     .m = y.dim[0],
				     .n = y.dim[1],
				     .k = a->dim[!q->transA],
				     .a_row = q->transA ? 1 : a->dim[1],
				     .a_col = q->transA ? a->dim[1] : 1,
				     .b_row = q->transB ? 1 : b->dim[1],
				     .b_col = q->transB ? b->dim[1] : 1};
	if (add && (!shape_broadcast(&add->shape, &y, &full) || !shape_equal(&full, &y)))
		return site_fail(s, d, E_SHAPE, "C that broadcasts to the product", NULL);
	return product_prepare(s, st, d, p);
}

int qgemm_run(const struct call *c)
{
	const struct qgemm_params *q = call_params(c);
	const struct tensor *add = optional_in(c, 6);
	struct finish f = {.type = tensor_dtype(c->out[0]),
			   .alpha = q->alpha,
			   .ascale = c->in[1],
			   .bscale = c->in[4],
			   .yscale = optional_in(c, 7),
			   .yzero = optional_in(c, 8)};
	int64_t st[MAX_RANK] = {0};

	if (add) {
		shape_broadcast_strides(&add->shape, &c->out[0]->shape, st);
		f.add = add->data;
		f.add_row = st[0];
		f.add_col = st[1];
	}
	return product_run(c, &f);
}
