/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/int8.h"

#include "gpu/driver/api.h"
#include "gpu/library/cublaslt.h"
#include "gpu/kernels/int8.h"
#include "gpu/launch/packed.h"
#include "gpu/driver/tune.h"
#include "gpu/launch/window.h"
#include "gpu/ops/quant.h"

#include <inttypes.h>

/*
 * MAX_WINDOW_BYTES: a convolution copies its windows into the rows of a matrix, up to this many bytes at a time. PIECE:
 * operands are read in place only if their rows are aligned to this many bytes. MAX_DEPTH: largest number of products
 * that are added up.
 */
enum { MAX_WINDOW_BYTES = 96 << 20, PIECE = 16, MAX_DEPTH = 1 << 29 };

/* Our kernels, largest tile first. Each block computes a tile of rows x columns outputs. */
static const struct tile {
	const char *name;
	int rows, columns, threads;
} tiles[] = {{"128x64", 128, 64, 256},
	     {"64x64", 64, 64, 128},
	     {"32x64", 32, 64, 128},
	     {"32x32", 32, 32, 128}};
enum { TILES = sizeof(tiles) / sizeof(*tiles), LIBRARY = TILES, WAYS };

/* One of the two operands of a product. It is read in place, packed once if it is a weight, or packed in each run. */
struct operand {
	/*
	 * slot: the operand's input; zero: the input with its zero point, which also pads windows, or -1 if there is
	 * none
	 */
	int slot, zero;
	/* direct: the operand is read in place; sums: the sums of its rows are needed */
	bool direct, sums;
	bool is_signed; /* whether the input's elements are signed */
	/* address of the packed weights, or NULL if the operand is not packed once */
	const void *ready;
	void *fn;
	struct gpu_int8_windows job; /* only job.rows is used unless `windows` is set */
	bool windows;
	size_t at, at_sum; /* offsets in the workspace */
};
struct int8_step {
	struct gpu_int8 job;
	struct operand a, b;
	int way; /* index into tiles, or LIBRARY */
	void *fn;
	struct blaslt_product *lt;
	size_t at_lt, lt_room, at_product;
	/* cuBLASLt computes 32-bit sums, and our epilogue kernel must turn them into the output */
	bool behind;
	int64_t total; /* number of all batches; job.batches of them are computed at a time */
};

static int64_t pitch_of(int64_t k)
{
	return (k + GPU_INT8_PITCH - 1) / GPU_INT8_PITCH * GPU_INT8_PITCH;
}

/*
 * Returns whether the operand's zero point may differ from `shift`, which has already been subtracted from its
 * elements.
 */
static bool has_zero(const struct site *s, int slot, int shift)
{
	const struct vinfo *v = slot < 0 ? NULL : site_in(s, (uint32_t)slot);
	const struct tensor *t = v ? site_known(s, (uint32_t)slot) : NULL;

	if (!v)
		return shift != 0;
	if (!t || !t->data)
		return true;
	for (int64_t i = 0; i < tensor_count(t); i++)
		if ((tensor_dtype(t) == DT_U8 ? ((const uint8_t *)t->data)[i]
					      : ((const int8_t *)t->data)[i]) != shift)
			return true;
	return false;
}

/* ---- operands -------------------------------------------------------------------------------- */

static size_t packed_bytes(const struct operand *o)
{
	const struct gpu_int8_pack *p = &o->job.rows;

	return (size_t)(p->batches * p->rows * p->pitch);
}

static size_t sum_bytes(const struct operand *o)
{
	const struct gpu_int8_pack *p = &o->job.rows;

	return o->sums ? (size_t)(p->batches * p->rows) * sizeof(int32_t) : 0;
}

static int launch_pack(const struct call *c, const struct operand *o,
		       const struct gpu_int8_windows *job)
{
	const struct gpu_int8_pack *p = &job->rows;
	bool turns = o->windows || p->col != 1;
	int64_t blocks = turns ? (p->rows + 31) / 32 * p->batches : (p->rows * p->batches + 7) / 8;

	struct gpu_grid g = gpu_blocks(blocks, 256);
	if (turns && !p->sum) /* only row sums need all columns of a row in one block */
		g.y = (unsigned)((p->pitch + 127) / 128 < MAX_GRID_YZ ? (p->pitch + 127) / 128
								      : MAX_GRID_YZ);
	return gpu_launch(c, o->fn, g, job, o->windows ? sizeof(*job) : sizeof(job->rows));
}

static int pack_weight(const struct call *c, void *dst, const void *src, const void *arg)
{
	const struct operand *o = arg;
	struct gpu_int8_windows job = o->job;

	job.rows.x = src;
	job.rows.y = dst;
	job.rows.sum = o->sums ? (int32_t *)((char *)dst + packed_bytes(o)) : NULL;
	return launch_pack(c, o, &job);
}

/*
 * Describes the operand as a matrix of `rows` rows for each batch. An operand that is the same for all batches is
 * packed once.
 */
static void set_rows(struct operand *o, int64_t rows, int64_t cols, int64_t row, int64_t col,
		     const struct gpu_dims *batch, const int64_t *steps, int64_t batches)
{
	struct gpu_int8_pack *p = &o->job.rows;
	bool apart = false;

	for (int r = 0; r < batch->rank; r++)
		apart |= steps[r] != 0;
	*p = (struct gpu_int8_pack){.rows = rows,
				    .cols = cols,
				    .pitch = pitch_of(cols),
				    .batches = apart ? batches : 1,
				    .row = row,
				    .col = col,
				    .batch = *batch,
				    .is_signed = o->is_signed};
	if (apart)
		memcpy(p->xs, steps, sizeof(p->xs));
}

static bool is_readable_in_place(const struct operand *o)
{
	const struct gpu_int8_pack *p = &o->job.rows;

	if (o->windows || p->col != 1 || p->row % PIECE || p->row != p->cols)
		return false;
	for (int r = 0; r < p->batch.rank; r++)
		if (p->xs[r] % PIECE)
			return false;
	return true;
}

/*
 * Chooses the form in which the product reads the operand. If it needs signed elements, 128 is subtracted from unsigned
 * ones. Returns the number that is subtracted: 128 or 0.
 */
static int set_form(const struct site *s, struct operand *o, bool wants_signed)
{
	struct gpu_int8_pack *p = &o->job.rows;
	bool flips = wants_signed && !o->is_signed;

	(void)s;
	p->flip = flips ? 0x80 : 0;
	p->is_signed = flips || o->is_signed;
	o->direct = !flips && is_readable_in_place(o);
	return flips ? 128 : 0;
}

/*
 * Finds the packing kernel. Then packs the operand now if it is a weight, or reserves workspace for an operand that is
 * packed in each run.
 */
static int prepare_operand(struct site *s, struct step *step, struct operand *o, struct diag *d)
{
	struct gpu_int8_pack *p = &o->job.rows;
	const char *kernel = o->windows ? "int8_windows" : p->col == 1 ? "int8_rows" : "int8_turn";

	if (o->direct && !o->sums)
		return 0;
	o->fn = gpu_kernel(s, "int8", kernel, d);
	if (!o->fn)
		return -E_DEVICE;
	if (!o->windows && site_is_weight(s, (uint32_t)o->slot)) {
		const char *form = arena_printf(s->plan_arena, "int8 %" PRId64 " %" PRId64 " %d %d",
						p->rows, p->pitch, p->flip, o->sums);
		o->direct = false;
		o->ready = gpu_packed(s, (uint32_t)o->slot, form, packed_bytes(o) + sum_bytes(o),
				      pack_weight, o, d);
		step->unread |= UINT64_C(1) << o->slot;
		return o->ready ? 0 : -E_MEMORY;
	}
	o->at = o->direct ? 0 : gpu_room(step, packed_bytes(o));
	o->at_sum = gpu_room(step, sum_bytes(o));
	return 0;
}

/*
 * Queues the packing of an operand, if it needs packing. Sets *data and *sums to the addresses of the packed operand and
 * of its row sums; *data becomes NULL if the operand is read in place.
 */
static int place_operand(const struct call *c, const struct operand *o, int64_t first,
			 int64_t batches, const void **data, const int32_t **sums)
{
	struct gpu_int8_windows job = o->job;

	*data = o->direct ? NULL : o->ready ? o->ready : gpu_at(c, o->at);
	*sums = !o->sums   ? NULL
		: o->ready ? (const int32_t *)((const char *)o->ready + packed_bytes(o))
			   : (const int32_t *)gpu_at(c, o->at_sum);
	if (o->ready || (o->direct && !o->sums))
		return 0;
	job.rows.x = gpu_data(c, (uint32_t)o->slot);
	if (o->windows) {
		job.rows.x = (const char *)job.rows.x + first * job.image;
		job.rows.batches = batches;
		job.zero = o->zero < 0 ? NULL : gpu_data(c, (uint32_t)o->zero);
	}
	job.rows.y = o->direct ? NULL : gpu_at(c, o->at);
	job.rows.sum = o->sums ? gpu_at(c, o->at_sum) : NULL;
	return launch_pack(c, o, &job);
}

/*
 * Sets the strides between the batches of an operand and between the batches of its row sums. *ld becomes the distance
 * between rows.
 */
static void set_strides(const struct operand *o, const struct gpu_dims *batch, int64_t *steps,
			int64_t *sums, int64_t *ld)
{
	const struct gpu_int8_pack *p = &o->job.rows;
	int64_t one = p->batches > 1 ? p->rows * p->pitch : 0;

	*sums = p->batches > 1 ? p->rows : 0;
	*ld = o->direct ? p->cols : p->pitch;
	if (o->direct) {
		memcpy(steps, p->xs, sizeof(p->xs));
		return;
	}
	for (int r = batch->rank - 1; r >= 0; r--) {
		steps[r] = one;
		one *= batch->dim[r];
	}
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

static struct blaslt_job library_job(const struct int8_step *k)
{
	const struct gpu_int8 *j = &k->job;
	bool many = j->batches > 1;

	return (struct blaslt_job){.type = DT_I8,
				   .b_is_weight = 1,
				   .trans_b = 1,
				   .m = j->m,
				   .n = j->n,
				   .k = j->lda < j->ldb ? j->lda : j->ldb,
				   .lda = j->lda,
				   .ldb = j->ldb,
				   .ldr = j->n,
				   .ldy = j->n,
				   .batch = j->batches,
				   .step_a = many ? j->as[0] : 0,
				   .step_b = many ? j->bs[0] : 0,
				   .step_y = many ? j->m * j->n : 0,
				   .alpha = 1};
}

/* ---- choosing between our kernels and cuBLASLt ------------------------------------------------ */

/* A product that is timed on operands with arbitrary contents. */
struct trial {
	struct int8_step *k;
	struct gpu_int8 job;
	struct blaslt_args lt;
	/* kernel that subtracts 128 from A, which only cuBLASLt needs; its time counts as part of cuBLASLt's */
	void *flip;
	struct call call;
};

static struct gpu_grid grid_of(const struct gpu_int8 *j, const struct tile *t)
{
	int64_t blocks = (j->m + t->rows - 1) / t->rows * ((j->n + t->columns - 1) / t->columns);

	return (struct gpu_grid){(unsigned)blocks,
				 (unsigned)(j->batches < MAX_GRID_YZ ? j->batches : MAX_GRID_YZ), 1,
				 (unsigned)t->threads, 0};
}

static struct gpu_grid epilogue_grid(const struct gpu_int8 *j)
{
	return gpu_blocks((j->m + 31) / 32 * ((j->n + 127) / 128) * j->batches, 256);
}

static int launch_way(const struct call *c, const struct int8_step *k, const struct gpu_int8 *job,
		      const struct blaslt_args *lt)
{
	if (k->way != LIBRARY)
		return gpu_launch(c, k->fn, grid_of(job, &tiles[k->way]), job, sizeof(*job));
	int err = blaslt_run(c, k->lt, lt);

	return err || !k->behind ? err : gpu_launch(c, k->fn, epilogue_grid(job), job, sizeof(*job));
}

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	if (t->flip) {
		struct operand o = t->k->a;
		struct gpu_int8_windows job = o.job;
		o.fn = t->flip;
		job.rows.x = job.rows.y = (void *)(uintptr_t)t->job.a;
		job.rows.sum = (int32_t *)(uintptr_t)t->job.a_sum;
		int err = launch_pack(&t->call, &o, &job);
		if (err)
			return err;
	}
	return launch_way(&t->call, t->k, &t->job, &t->lt);
}

/* Reserves memory for operands of the product's sizes for a trial, without scales and zero points. */
static bool trial_memory(struct device *device, struct trial *t, enum dtype out)
{
	const struct gpu_int8 *j = &t->k->job;
	size_t a = cuda_aligned((size_t)(j->m * j->lda * j->batches)),
	       b = cuda_aligned((size_t)(j->n * j->ldb * j->batches)),
	       y = cuda_aligned((size_t)(j->m * j->n * j->batches * 4)),
	       sums = cuda_aligned((size_t)((j->m + j->n) * j->batches * 4));
	char *p = tune_memory(device, a + b + 2 * y + sums + t->k->lt_room);

	if (!p)
		return false;
	t->job = *j;
	t->job.q = (struct gpu_qslots){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
	t->job.a = p;
	t->job.b = p + a;
	t->job.io.out[0] = p + a + b;
	t->job.io.ot[0] = (uint8_t)out;
	t->job.product = (const int32_t *)(p + a + b + y);
	t->job.a_sum = t->k->a.sums ? (const int32_t *)(p + a + b + 2 * y) : NULL;
	t->job.b_sum = t->k->b.sums ? (const int32_t *)(p + a + b + 2 * y) + j->m * j->batches : NULL;
	t->lt = (struct blaslt_args){.a = t->job.a,
				     .b = t->job.b,
				     .y = p + a + b + y,
				     .workspace = p + a + b + 2 * y + sums,
				     .workspace_bytes = t->k->lt_room};
	return true;
}

/* Returns the kernel of one of our tiles, or the epilogue kernel that runs after cuBLASLt. */
static void *way_kernel(const struct site *s, const struct int8_step *k, int way, struct diag *d)
{
	char name[32];

	snprintf(name, sizeof(name), "int8_%s_%s", k->a.job.rows.is_signed ? "i8" : "u8",
		 way == LIBRARY ? "" : tiles[way].name);
	return gpu_kernel(s, "int8", way == LIBRARY ? "int8_epilogue" : name, d);
}

/*
 * Chooses without timing: takes the largest tile with which at least three quarters of the processors still get a
 * block.
 */
static int guess_way(const struct site *s, const struct gpu_int8 *j)
{
	const struct device_facts *f = cuda_facts(s->device);
	int64_t enough = f ? f->processors * 3 / 4 : 64;

	for (int w = 0; w < TILES; w++)
		if ((int64_t)grid_of(j, &tiles[w]).x * j->batches >= enough)
			return w;
	return TILES - 1;
}

static const char *way_key(const struct int8_step *k, enum dtype out, bool library, struct arena *a)
{
	const struct gpu_int8 *j = &k->job;

	/* If cuBLASLt is a candidate, the key contains its version, because another version may be faster or slower. */
	return arena_printf(
		a, "int8 3 cublaslt%zu %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s %d%d%d",
		library ? cublaslt_version() : 0, j->m, j->n, j->k, j->batches, dtype_name(out),
		k->a.is_signed, k->a.sums, k->b.sums);
}

/* Returns the way (a tile, or cuBLASLt) that the tuning cache holds as "WAY MICROSECONDS", or -1 if it holds none. */
static int known_way(struct device *device, const char *key, bool library)
{
	const char *value = tune_get(device, key);
	int way = -1;

	if (!value || sscanf(value, "%d", &way) != 1 || way < 0 ||
	    way > (library ? LIBRARY : TILES - 1))
		return -1;
	return way;
}

/*
 * Returns the microseconds that a way takes, or -1 if it cannot run. `of` is the step with operands in the form that
 * the way needs, which is signed for cuBLASLt.
 */
static double time_way(struct site *s, struct int8_step *of, int way, enum dtype out, double best)
{
	static const struct step none;
	struct trial t = {.k = of, .call = {.step = &none, .stream = cuda_stream(s->device)}};
	int before = of->way;
	void *fn = of->fn;
	double us = -1;

	of->way = way;
	of->fn = way_kernel(s, of, way, NULL);
	if (of->a.job.rows.flip && !site_is_weight(s, (uint32_t)of->a.slot))
		t.flip = gpu_kernel(s, "int8", of->a.job.rows.col == 1 ? "int8_rows" : "int8_turn",
				    NULL);
	if (of->fn && trial_memory(s->device, &t, out))
		us = tune_time(s->device, enqueue_trial, &t, best);
	of->way = before;
	of->fn = fn;
	return us;
}

/*
 * Returns the fastest way. `own` is the product in the form for our kernels and `lt` that for cuBLASLt; `lt` is NULL if
 * cuBLASLt does not accept the product.
 */
static int choose_way(struct site *s, struct int8_step *own, struct int8_step *lt)
{
	enum dtype out = gpu_out_type(s, 0);
	const char *key = way_key(own, out, lt != NULL, s->plan_arena);
	int best = known_way(s->device, key, lt != NULL);
	double least = 0;

	if (best >= 0)
		return best;
	best = guess_way(s, &own->job);
	if (!tune_may(s->device)) {
		tune_skipped(s->device);
		return best;
	}
	tune_begin(s->device, "integer products");
	for (int w = 0; w < (lt ? WAYS : TILES); w++) {
		double us = time_way(s, w == LIBRARY ? lt : own, w, out, least);
		if (us > 0 && (least <= 0 || us < least)) {
			least = us;
			best = w;
		}
	}
	tune_end(s->device);
	if (least > 0)
		tune_put(s->device, key, arena_printf(s->plan_arena, "%d %.2f", best, least));
	return best;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Sets signs, row sums and strides of the operands, in the form that our kernels or (with `library`) cuBLASLt needs. */
static void set_forms(const struct site *s, struct int8_step *k, bool library)
{
	struct gpu_int8 *j = &k->job;

	j->a_shift = set_form(s, &k->a, library);
	j->b_shift = set_form(s, &k->b, true);
	k->a.sums = has_zero(s, j->q.b_zero, j->b_shift);
	k->b.sums = has_zero(s, j->q.a_zero, j->a_shift);
	/* Weights that need row sums are always packed, because the sums are stored beside the packed weights. */
	if (!k->a.windows && site_is_weight(s, (uint32_t)k->a.slot) && k->a.sums)
		k->a.direct = false;
	if (!k->b.windows && site_is_weight(s, (uint32_t)k->b.slot) && k->b.sums)
		k->b.direct = false;
	set_strides(&k->a, &j->batch, j->as, &j->a_sums, &j->lda);
	set_strides(&k->b, &j->batch, j->bs, &j->b_sums, &j->ldb);
	k->behind = k->a.sums || k->b.sums || gpu_out_type(s, 0) != DT_I32 ||
		    (j->q.add >= 0 && site_in(s, (uint32_t)j->q.add));
}

/* Prepares the product for cuBLASLt. Returns false if cuBLASLt does not accept the product. */
static bool set_library(struct site *s, const struct int8_step *own, struct int8_step *lt)
{
	*lt = *own;
	set_forms(s, lt, true);
	if (lt->job.batch.rank > 1 || lt->total != lt->job.batches)
		return false;
	const struct blaslt_job j = library_job(lt);
	if (j.n % 4 || !blaslt_takes(s, &j, NULL))
		return false;
	lt->lt = blaslt_product(s, &j, &lt->lt_room, NULL);
	return lt->lt != NULL;
}

static int finish_plan(struct site *s, struct step *step, struct int8_step *k, struct diag *d)
{
	struct int8_step lt;

	set_forms(s, k, false);
	bool library = set_library(s, k, &lt);
	k->way = choose_way(s, k, library ? &lt : NULL);
	if (k->way == LIBRARY) {
		lt.way = LIBRARY;
		*k = lt;
	} else if (library) {
		blaslt_drop(lt.lt);
		k->lt = NULL;
	}
	step->state = k;
	if (k->way == LIBRARY) {
		k->at_lt = gpu_room(step, k->lt_room);
		k->at_product =
			k->behind
				? gpu_room(step, (size_t)(k->job.m * k->job.n * k->job.batches * 4))
				: 0;
	}
	gpu_io_types(s, &k->job.io);
	k->fn = way_kernel(s, k, k->way, d);
	int err = k->fn ? prepare_operand(s, step, &k->a, d) : -E_DEVICE;
	return err ? err : prepare_operand(s, step, &k->b, d);
}

int gpu_int8_run(const struct call *c)
{
	const struct int8_step *k = c->step->state;
	struct gpu_int8 job;
	int err = 0;

	if (!k)
		return 0;
	job = k->job;
	gpu_io_fill(c, &job.io);
	for (int64_t first = 0; first < k->total && !err; first += k->job.batches) {
		int64_t left = k->total - first;
		job.first = first;
		job.batches = left < k->job.batches ? left : k->job.batches;
		if (!first || !k->a.ready)
			err = place_operand(c, &k->a, first, job.batches, &job.a, &job.a_sum);
		if (!err)
			err = place_operand(c, &k->b, first, job.batches, &job.b, &job.b_sum);
		if (err)
			return err;
		const struct blaslt_args lt = {.a = job.a ? job.a : gpu_data(c, (uint32_t)k->a.slot),
					       .b = job.b ? job.b : gpu_data(c, (uint32_t)k->b.slot),
					       .y = k->behind ? gpu_at(c, k->at_product)
							      : gpu_out(c, 0),
					       .workspace = gpu_at(c, k->at_lt),
					       .workspace_bytes = k->lt_room};
		job.product = lt.y;
		err = launch_way(c, k, &job, &lt);
	}
	return err;
}

void gpu_int8_drop(struct step *step)
{
	struct int8_step *k = step->state;

	if (k)
		blaslt_drop(k->lt);
}

/* ---- products -------------------------------------------------------------------------------- */

/*
 * Returns whether each scale and zero point of A and y is a single number, or one number for each of all `rows` rows.
 */
static bool one_or_each(const struct gpu_int8 *j, int64_t rows)
{
	const int slots[] = {j->q.a_scale, j->q.a_zero, j->q.y_scale, j->q.y_zero, j->q.add};

	for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
		int64_t n = slots[i] < 0 ? 0 : j->count[slots[i]];
		if (n > 1 && (n != rows || slots[i] == j->q.add))
			return false;
	}
	return true;
}

/* Merges batches that are contiguous and share B into the rows of one larger product. */
static void fold_batches(const struct matmul_shape *m, struct gpu_int8 *j, struct gpu_dims *batch,
			 int64_t (*steps)[GPU_DIMS])
{
	const int64_t counts[] = {j->q.b_scale < 0 ? 0 : j->count[j->q.b_scale],
				  j->q.b_zero < 0 ? 0 : j->count[j->q.b_zero]};

	if (batch->rank != 1 || steps[1][0] || m->a_col != 1 || steps[0][0] != j->m * m->a_row ||
	    !one_or_each(j, j->m * batch->dim[0]) || (counts[0] > 1 && counts[0] != j->n) ||
	    (counts[1] > 1 && counts[1] != j->n))
		return;
	j->m *= batch->dim[0];
	j->batches = 1;
	*batch = (struct gpu_dims){0};
}

static const char *fill_product(const struct site *s, struct int8_step *k)
{
	struct gpu_int8 *j = &k->job;
	struct matmul_shape m;
	int64_t step[2][MAX_RANK], out[2][GPU_DIMS] = {{0}};

	*k = (struct int8_step){.job = {.q = gpu_quant_slots(s), .alpha = 1, .batches = 1}};
	if (!gpu_quant_shape(s, j->q, &m))
		return "matrices that do not fit";
	memcpy(step[0], m.a_batch, sizeof(step[0]));
	memcpy(step[1], m.b_batch, sizeof(step[1]));
	if (!gpu_collapse(m.nbatch, m.batch, 2, step, &j->batch, out))
		return "too many dimensions";
	for (int r = 0; r < j->batch.rank; r++)
		j->batches *= j->batch.dim[r];
	gpu_quant_counts(s, j->count);
	gpu_quant_finish(s, j->q, &j->alpha, &j->add_row, &j->add_col);
	j->m = m.m, j->n = m.n, j->k = m.k;
	fold_batches(&m, j, &j->batch, out);
	if (j->m < 1 || j->n < 1 || j->batches < 1 || j->k < 1)
		return "an empty product";
	if (j->k > MAX_DEPTH || (j->m + 31) / 32 > INT32_MAX / ((j->n + 31) / 32))
		return "a product that is too large";
	k->total = j->batches;
	k->a.slot = j->q.a;
	k->b.slot = j->q.b;
	k->a.is_signed = gpu_type(s, (uint32_t)j->q.a) == DT_I8;
	k->b.is_signed = gpu_type(s, (uint32_t)j->q.b) == DT_I8;
	set_rows(&k->a, j->m, j->k, m.a_row, m.a_col, &j->batch, out[0], j->batches);
	set_rows(&k->b, j->n, j->k, m.b_col, m.b_row, &j->batch, out[1], j->batches);
	return NULL;
}

bool gpu_int8_product_accepts(const struct site *s, struct why *w)
{
	struct gpu_qslots q = gpu_quant_slots(s);
	struct int8_step k;
	const uint64_t bytes = T_U8 | T_I8;

	if (!(T_BIT(gpu_type(s, (uint32_t)q.a)) & bytes) ||
	    !(T_BIT(gpu_type(s, (uint32_t)q.b)) & bytes))
		return refuse(w, "operands that are not 8-bit integers");
	if (!(T_BIT(gpu_out_type(s, 0)) & (bytes | T_I32 | T_F32)))
		return refuse(w, "an output of another type");
	const char *bad = fill_product(s, &k);
	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_int8_product_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct int8_step *k = arena_new(s->plan_arena, struct int8_step);

	fill_product(s, k);
	return finish_plan(s, step, k, d);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/*
 * Describes a convolution as the product weights * windows. Rows are output channels and columns are pixels, as in the
 * output's layout. The image is operand B here but input A of the node, so that the inputs of the two operands are
 * exchanged.
 */
static const char *fill_conv(const struct site *s, struct int8_step *k)
{
	struct gpu_int_conv c = {.n = 0};
	const char *bad = gpu_quant_conv(s, &c);
	struct gpu_int8 *j = &k->job;
	struct gpu_int8_windows *w = &k->b.job;
	struct gpu_qslots q = c.q;

	if (bad)
		return bad;
	int64_t taps = gpu_volume(c.win.kernel);
	int64_t pixels = gpu_volume(c.win.out), image = gpu_volume(c.win.in);
	if (c.group != 1 || c.n < 1 || c.cin < 1)
		return "groups of channels, none, or an empty output";
	if (c.cin * taps > MAX_DEPTH || pixels > INT32_MAX || c.cin * image > INT32_MAX ||
	    (c.cout + 31) / 32 > INT32_MAX / ((pixels + 31) / 32))
		return "a window that is too large";
	*k = (struct int8_step){.job = {.q = {q.b, q.a, q.b_zero, q.a_zero, q.b_scale, q.a_scale,
					      q.y_scale, q.y_zero, q.add, q.bias},
					.alpha = 1,
					.m = c.cout,
					.n = pixels,
					.k = c.cin * taps,
					.add_row = 1}};
	memcpy(j->count, c.count, sizeof(j->count));
	k->total = c.n / (c.cout * pixels);
	int64_t most = MAX_WINDOW_BYTES / (pixels * pitch_of(j->k));
	j->batches = most < 1 ? 1 : most < k->total ? most : k->total;
	k->a = (struct operand){.slot = q.b, .is_signed = gpu_type(s, (uint32_t)q.b) == DT_I8};
	k->b = (struct operand){.slot = q.a,
				.zero = q.a_zero,
				.windows = true,
				.is_signed = gpu_type(s, (uint32_t)q.a) == DT_I8};
	j->batch = (struct gpu_dims){.rank = 1, .dim = {j->batches}};
	int64_t none[GPU_DIMS] = {0}, each[GPU_DIMS] = {1};
	set_rows(&k->a, j->m, j->k, j->k, 1, &j->batch, none, j->batches);
	set_rows(&k->b, pixels, j->k, 0, 0, &j->batch, each, j->batches);
	w->win = c.win;
	w->channel = image;
	w->image = image * c.cin;
	return NULL;
}

bool gpu_int8_conv_accepts(const struct site *s, struct why *w)
{
	struct int8_step k;
	const char *bad = fill_conv(s, &k);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_int8_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct int8_step *k = arena_new(s->plan_arena, struct int8_step);

	fill_conv(s, k);
	return finish_plan(s, step, k, d);
}
