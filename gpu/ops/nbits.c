/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/nbits.h"

#include "gpu/library/cublaslt.h"
#include "gpu/kernels/nbits.h"
#include "ops/quant.h"

/*
 * FEW_ROWS: up to this number of rows, a kernel multiplies by the packed weights directly. For more rows, the weights
 * are unpacked for cuBLASLt, UNPACKED_BYTES of them at a time.
 */
enum { FEW_ROWS = 8, UNPACKED_BYTES = 64 << 20, COLUMN_STEP = 64 };

/*
 * The kernels of each format of weights: `few` multiplies few rows by packed weights, `wide` unpacks weights. For
 * transposed weights (bnb4_turned), whose columns are stored side by side, a thread computes a column; otherwise a warp
 * does.
 */
static const struct form {
	const char *few, *wide;
	/* number of columns that a block of `few` computes, and number of its threads */
	int columns, threads;
} packed = {"nbits_few", "nbits_wide", 8, 256},
  ordered = {"nbits_ordered_few", "nbits_ordered_wide", 8, 256},
  bnb4 = {"bnb4_few", "bnb4_wide", 8, 256},
  bnb4_turned = {"bnb4_turned", "bnb4_wide", 32, 32 * GPU_NBITS_SLICES};

struct nbits_step {
	struct gpu_nbits job;
	const struct form *form;
	void *fn;
	/* faster kernel for few rows if the operands of a run are aligned, or NULL if there is none */
	void *whole;
	/* For many rows: lt is the product for `columns` columns, tail the product for the remaining columns. */
	struct blaslt_product *lt, *tail;
	size_t at_lt, lt_room, size; /* size: bytes of an element */
	int64_t columns;	     /* 0 if the kernel for few rows is used */
};

/* Returns the binary logarithm of size, rounded up. */
static int log2_of(int64_t size)
{
	int n = 0;

	while (n < 62 && INT64_C(1) << n < size)
		n++;
	return n;
}

static const char *fill_packed(const struct site *s, struct gpu_nbits *j, const struct form **form)
{
	const struct matmul_nbits_params *p = s->node->params;
	const struct shape *a = &site_in(s, 0)->shape;
	const struct vinfo *z = site_in(s, 3), *order = site_in(s, 4);

	*form = order ? &ordered : &packed;
	*j = (struct gpu_nbits){.rows = shape_span(a, 0, a->rank - 1),
				.n = p->N,
				.k = p->K,
				.blocks = (p->K + p->block_size - 1) / p->block_size,
				.size = p->block_size,
				.bits = (int)p->bits};
	j->shift = log2_of(p->block_size);
	int64_t zeros = z && z->type.dtype == DT_U8 ? (j->blocks * p->bits + 7) / 8 : j->blocks;
	if (gpu_count(&site_in(s, 1)->shape) != p->N * j->blocks * (p->block_size * p->bits / 8) ||
	    gpu_count(&site_in(s, 2)->shape) != p->N * j->blocks ||
	    (z && gpu_count(&z->shape) != p->N * zeros))
		return "weights, scales or zero points of another size";
	if (order && (order->type.dtype != DT_I32 || gpu_count(&order->shape) < p->K))
		return "group indices of another type or size";
	return NULL;
}

static const char *fill_bnb(const struct site *s, struct gpu_nbits *j, const struct form **form)
{
	const struct bnb_params *p = s->node->params;
	const struct shape *a = &site_in(s, 0)->shape;
	int64_t count = p->N * p->K;

	*form = p->transB ? &bnb4 : &bnb4_turned;
	*j = (struct gpu_nbits){.rows = shape_span(a, 0, a->rank - 1),
				.n = p->transB ? p->N : p->K,
				.k = p->transB ? p->K : p->N,
				.size = p->block_size,
				.turned = !p->transB};
	j->shift = log2_of(p->block_size);
	if (INT64_C(1) << j->shift != p->block_size)
		return "a block size that is no power of two";
	memcpy(j->value, bnb_values[p->quant_type], sizeof(j->value));
	if (gpu_count(&site_in(s, 1)->shape) != (count - 1) / 2 + 1 ||
	    gpu_count(&site_in(s, 2)->shape) != (count - 1) / p->block_size + 1)
		return "weights or scales of another size";
	return NULL;
}

static const char *fill_nbits(const struct site *s, struct gpu_nbits *j, const struct form **form)
{
	return s->node->op->variant == QUANT_BNB ? fill_bnb(s, j, form) : fill_packed(s, j, form);
}

bool gpu_nbits_accepts(const struct site *s, struct why *w)
{
	struct gpu_nbits j;
	const struct form *form;
	const char *bad = fill_nbits(s, &j, &form);

	return bad ? refuse(w, "%s", bad) : true;
}

static struct blaslt_job product_of(const struct site *s, const struct gpu_nbits *j, int64_t columns)
{
	enum dtype t = gpu_type(s, 0);

	return (struct blaslt_job){.type = (int32_t)t,
				   .tf32 = t == DT_F32 && s->config &&
					   s->config->precision == PRECISION_TF32,
				   .trans_b = 1,
				   .bias = site_in(s, 5) != NULL,
				   .m = j->rows,
				   .n = columns,
				   .k = j->k,
				   .lda = j->k,
				   .ldb = j->k,
				   .ldr = j->n,
				   .ldy = j->n,
				   .batch = 1,
				   .alpha = 1};
}

/* Prepares cuBLASLt's products for many rows. Returns false if there are few rows or cuBLASLt refuses the products. */
static bool set_library(struct site *s, struct nbits_step *k, struct step *step, struct diag *d)
{
	struct gpu_nbits *j = &k->job;
	int64_t row = j->k * (int64_t)k->size,
		most = UNPACKED_BYTES / row / COLUMN_STEP * COLUMN_STEP;
	size_t tail = 0;

	if (j->rows <= FEW_ROWS)
		return false;
	k->columns = most < COLUMN_STEP ? COLUMN_STEP : most;
	if (k->columns > j->n)
		k->columns = j->n;
	const struct blaslt_job whole = product_of(s, j, k->columns),
				rest = product_of(s, j, j->n % k->columns);
	if (!blaslt_takes(s, &whole, NULL) || (rest.n && !blaslt_takes(s, &rest, NULL)))
		return false;
	k->lt = blaslt_product(s, &whole, &k->lt_room, d);
	if (rest.n)
		k->tail = blaslt_product(s, &rest, &tail, d);
	k->lt_room = tail > k->lt_room ? tail : k->lt_room;
	j->at = (int64_t)gpu_room(step, (size_t)(k->columns * row));
	k->at_lt = gpu_room(step, k->lt_room);
	return true;
}

/*
 * Returns whether the kernels nbits_row and nbits_rows support this node. They also need aligned operands, which
 * operands_aligned() checks in each run.
 */
static bool fits_whole_pieces(const struct site *s, const struct nbits_step *k)
{
	const struct gpu_nbits *j = &k->job;
	const struct vinfo *zero = site_in(s, 3);

	return k->form == &packed && !k->columns && j->k % GPU_NBITS_STEP == 0 &&
	       j->k <= INT32_MAX / 2 && (j->bits == 4 || j->bits == 8) &&
	       site_in(s, 2)->type.dtype == gpu_type(s, 0) && (!zero || zero->type.dtype == DT_U8);
}

static bool operands_aligned(const struct gpu_nbits *j)
{
	return ((uintptr_t)j->io.in[0] | (uintptr_t)j->io.in[1]) % GPU_NBITS_ALIGN == 0;
}

int gpu_nbits_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct nbits_step *k = arena_new(s->plan_arena, struct nbits_step);

	fill_nbits(s, &k->job, &k->form);
	gpu_io_types(s, &k->job.io);
	k->size = (size_t)gpu_size(gpu_type(s, 0));
	if (!k->job.rows || !k->job.n)
		return 0;
	step->state = k;
	if (!set_library(s, k, step, d))
		k->columns = 0;
	else if (!k->lt || (k->job.n % k->columns && !k->tail))
		return -E_LIBRARY;
	k->fn = gpu_typed(s, "nbits", k->columns ? k->form->wide : k->form->few, gpu_type(s, 0), d);
	if (k->fn && fits_whole_pieces(s, k)) {
		k->whole = gpu_typed(s, "nbits", k->job.rows == 1 ? "nbits_row" : "nbits_rows",
				     gpu_type(s, 0), d);
		return k->whole ? 0 : -E_DEVICE;
	}
	return k->fn ? 0 : -E_DEVICE;
}

static int run_few(const struct call *c, const struct nbits_step *k, struct gpu_nbits *job)
{
	const struct form *f = k->form;
	struct gpu_grid g = gpu_blocks((job->n + f->columns - 1) / f->columns, (unsigned)f->threads);
	const char *a = job->io.in[0];
	char *y = job->io.out[0];
	int64_t rows = job->rows;
	void *fn = k->whole && operands_aligned(job) ? k->whole : k->fn;
	int err = 0;

	for (int64_t r = 0; r < rows && !err; r += job->rows) {
		job->rows = rows - r < (int64_t)MAX_GRID_YZ * GPU_NBITS_ROWS
				    ? rows - r
				    : (int64_t)MAX_GRID_YZ * GPU_NBITS_ROWS;
		job->io.in[0] = a + (size_t)(r * job->k) * k->size;
		job->io.out[0] = y + (size_t)(r * job->n) * k->size;
		g.y = (unsigned)((job->rows + GPU_NBITS_ROWS - 1) / GPU_NBITS_ROWS);
		err = gpu_launch(c, fn, g, job, sizeof(*job));
	}
	return err;
}

int gpu_nbits_run(const struct call *c)
{
	const struct nbits_step *k = c->step->state;
	struct gpu_nbits job;
	int err = 0;

	if (!k)
		return 0;
	job = k->job;
	gpu_io_fill(c, &job.io);
	if (!k->columns)
		return run_few(c, k, &job);
	for (int64_t n = 0; n < job.n && !err; n += k->columns) {
		const char *bias = job.io.in[5];
		job.first = n;
		job.columns = job.n - n < k->columns ? job.n - n : k->columns;
		int64_t pieces = (job.k + GPU_NBITS_STEP - 1) / GPU_NBITS_STEP * job.columns;
		const struct blaslt_args x = {.a = job.io.in[0],
					      .b = gpu_at(c, (size_t)job.at),
					      .bias = bias ? bias + (size_t)n * k->size : NULL,
					      .y = (char *)job.io.out[0] + (size_t)n * k->size,
					      .workspace = gpu_at(c, k->at_lt),
					      .workspace_bytes = k->lt_room};
		err = gpu_launch(c, k->fn, gpu_grid(pieces), &job, sizeof(job));
		if (!err)
			err = blaslt_run(c, job.columns == k->columns ? k->lt : k->tail, &x);
	}
	return err;
}

void gpu_nbits_drop(struct step *step)
{
	struct nbits_step *k = step->state;

	if (k) {
		blaslt_drop(k->lt);
		blaslt_drop(k->tail);
	}
}
