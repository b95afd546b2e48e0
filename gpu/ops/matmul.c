/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/tune.h"
#include "gpu/ops/matmul.h"

#include "gpu/ops/gemv.h"
#include "gpu/ops/group_product.h"
#include "gpu/library/cublaslt.h"
#include "gpu/library/choices.h"
#include "gpu/launch/group.h"
#include "gpu/launch/packed.h"
#include "gpu/ops/task_rows.h"
#include "ops/float8.h"

#include <inttypes.h>

enum { TILE_SIZE = 64 };

struct own_product {
	void *fn;
	struct gpu_gemm job;
	struct group_product *group; /* if it is not NULL, warpgroups compute the product, and not fn */
};

const char *gpu_gemm_job(const struct site *s, const struct fused_gemm *f, struct gpu_gemm *j)
{
	struct fused_matmul m = {.alpha = 1, .transA = f->transA, .transB = f->transB};
	const struct shape *y = &site_out(s, 0)->shape;
	struct matmul_shape q = {0};
	int64_t step[3][MAX_RANK] = {{0}}, out[3][GPU_DIMS] = {{0}}, cs[MAX_RANK] = {0};

	if (s->node->op->variant == PRODUCT_FUSED_MATMUL)
		m = *(const struct fused_matmul *)s->node->params;
	if (!matmul_shape(&site_in(s, 0)->shape, &site_in(s, 1)->shape, &m, &q))
		return "shapes that do not fit";
	if (site_in(s, 2)) {
		if (y->rank != q.nbatch + 2)
			return "a bias on a product with a vector operand";
		shape_broadcast_strides(&site_in(s, 2)->shape, y, cs);
		j->c_row = cs[q.nbatch];
		j->c_col = cs[q.nbatch + 1];
	}
	memcpy(step[0], q.a_batch, sizeof(step[0]));
	memcpy(step[1], q.b_batch, sizeof(step[1]));
	memcpy(step[2], cs, sizeof(step[2]));
	if (!gpu_collapse(q.nbatch, q.batch, 3, step, &j->batch, out))
		return "too many dimensions";
	memcpy(j->as, out[0], sizeof(out[0]));
	memcpy(j->bs, out[1], sizeof(out[1]));
	memcpy(j->cs, out[2], sizeof(out[2]));
	j->m = q.m, j->n = q.n, j->k = q.k;
	j->a_row = q.a_row, j->a_col = q.a_col, j->b_row = q.b_row, j->b_col = q.b_col;
	j->alpha = (double)f->alpha, j->beta = (double)f->beta;
	j->act = f->act, j->act_alpha = (double)f->act_alpha, j->act_beta = (double)f->act_beta;
	return NULL;
}

bool gpu_one_batch(struct gpu_gemm *j)
{
	int64_t rows = j->batch.rank ? j->batch.dim[0] : 1;

	if (!j->batch.rank)
		return true;
	if (j->batch.rank > 1 || j->bs[0])
		return false;
	if (j->m == 1) {
		j->a_row = j->as[0];
		j->c_row = j->cs[0];
	} else if (j->as[0] != j->m * j->a_row || j->cs[0] != j->m * j->c_row) {
		return false;
	}
	j->m *= rows;
	j->batch = (struct gpu_dims){0};
	return true;
}

void gpu_note_wide_product(const struct site *s, const struct fused_gemm *f)
{
	const struct vinfo *c = site_in(s, 2);

	if (s->config && s->config->precision == PRECISION_FP8 && gpu_type(s, 0) == DT_F16) {
		const char *why = float8_gemm_refusal(f, &site_in(s, 0)->shape, &site_in(s, 1)->shape,
						      c ? &c->shape : NULL, site_is_weight(s, 1));
		gpu_fell_back(s, "in fp16", why ? why : "it is no product of the optimized graph");
	}
}

static int64_t batches(const struct gpu_gemm *j)
{
	int64_t n = 1;

	for (int r = 0; r < j->batch.rank; r++)
		n *= j->batch.dim[r];
	return n;
}

struct transposition {
	void *fn, *round;
	int64_t rows, cols;
};

static int transpose_weights(const struct call *c, void *dst, const void *src, const void *arg)
{
	const struct transposition *t = arg;
	struct gpu_piece p = {0};
	const int64_t dim[2] = {t->cols, t->rows}, from[2] = {1, t->cols}, to[2] = {t->rows, 1};

	gpu_piece(&p, 2, dim, from, to);
	p.job.x = src;
	p.job.y = dst;
	int err = gpu_strided_run(c, t->fn, &p.job);
	return err || !t->round ? err : gpu_group_round(c, t->round, dst, dst, t->rows * t->cols);
}

const void *gpu_turned_weights(struct site *s, struct step *step, uint32_t i, int64_t rows,
			       int64_t cols, void *round, struct diag *d)
{
	const enum dtype type = gpu_type(s, i);
	struct transposition t = {.rows = rows,
				  .cols = cols,
				  .round = round,
				  .fn = gpu_sized(s, "move", "strided", type, d)};

	char form[64];

	if (!t.fn)
		return NULL;
	snprintf(form, sizeof(form), "turned%s %" PRId64 " x %" PRId64, round ? " rounded" : "",
		 rows, cols);
	step->unread |= UINT64_C(1) << i;
	return gpu_packed(s, i, form, (size_t)(rows * cols * gpu_size(type)), transpose_weights, &t,
			  d);
}

/* ---- our own kernel -------------------------------------------------------------------------- */

bool gpu_product_accepts(const struct site *s, const struct fused_gemm *f, struct why *w)
{
	struct gpu_gemm j = {0};
	const char *bad = gpu_gemm_job(s, f, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_product_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d)
{
	struct own_product *p = arena_new(s->plan_arena, struct own_product);

	gpu_gemm_job(s, f, &p->job);
	p->fn = gpu_typed(s, "product", "gemm", gpu_type(s, 0), d);
	step->state = p;
	p->group = gpu_group_product(s, step, f, 0);
	return p->fn ? 0 : -E_DEVICE;
}

struct gpu_grid gpu_gemm_grid(const struct gpu_gemm *j)
{
	int64_t batch = batches(j);
	struct gpu_grid g = {(unsigned)((j->n + TILE_SIZE - 1) / TILE_SIZE),
			     (unsigned)((j->m + TILE_SIZE - 1) / TILE_SIZE), (unsigned)batch, 256, 0};

	/* The kernel loops over tiles and batches beyond the limits of a grid. */
	g.y = g.y > MAX_GRID_YZ ? MAX_GRID_YZ : g.y;
	g.z = batch > MAX_GRID_YZ ? MAX_GRID_YZ : g.z;
	return g;
}

int gpu_product_run(const struct call *c)
{
	const struct own_product *p = c->step->state;
	struct gpu_gemm job = p->job;

	if (p->group)
		return gpu_group_product_run(c, p->group);
	job.a = gpu_data(c, 0);
	job.b = gpu_data(c, 1);
	job.c = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return job.m > 0 && job.n > 0 && batches(&job) > 0
		       ? gpu_launch(c, p->fn, gpu_gemm_grid(&job), &job, sizeof(job))
		       : 0;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

/* Batches that have no common stride are launched one by one, up to this number of launches. */
enum { MAX_LAUNCHES = 64 };

/*
 * cuBLASLt has only slow kernels for results whose rows do not begin at multiples of 16 bytes, for example 50,257
 * logits. There are two ways around this. "Turns": if there are many rows, turn t computes the rows t, t + turns, ...,
 * which all have the same misalignment. A turn leaves out the few columns at the left and right ("strips") that lie
 * outside of whole 16-byte pieces. "Apart": strips, and products of fewer rows, are computed into padded rows of the
 * workspace, and a kernel copies them to the output.
 */
enum {
	WIDE_COLUMNS = 1024,
	WIDE_ROWS = 16,
	TURN_ROWS = 256, /* fewest rows of a turn */
	APART_BYTES = 256 << 20,
	ROW_STEP = 128,
	COLUMN_STEP = 64
};

/* Describes the part of a product that cuBLASLt computes, and the part that is left to our epilogue kernel. */
struct library_form {
	struct blaslt_job job;
	int64_t launches;
	/* c_is_bias, c_is_matrix, r_is_matrix: how cuBLASLt adds C and R; if false, the epilogue kernel adds them */
	bool c_is_bias, c_is_matrix, r_is_matrix;
	bool behind; /* there is work for the epilogue kernel */
	struct gpu_gemm left;
	/* number of real columns if the weights are padded to more columns, or 0 if they are not padded */
	int64_t columns;
	/* number of rows computed at a time into padded rows of the workspace, or 0 if the result goes straight to y */
	int64_t apart;
	/* number of turns (see above), or 0 if the product does not run in turns */
	int64_t turns;
	/* with turns: the product that computes a strip, which has all rows and few columns */
	struct blaslt_job strip;
	int64_t m, n, lda; /* with turns: sizes of the whole product */
};
struct library_product {
	struct library_form form;
	/* tail: product for the last rows if they are fewer than `apart`, or for a strip */
	struct blaslt_product *lt, *tail;
	size_t lt_workspace;
	const void *b; /* transposed or padded weights, or NULL if the input itself is read */
	void *fn;      /* epilogue kernel, or NULL if none is needed */
	void *compact;
	size_t size;		     /* bytes of an element */
	struct group_product *group; /* if it is not NULL, warpgroups compute the whole product, and not cuBLASLt */
};

/*
 * Element (i, j) of a matrix is at i * row + j * col. Sets *trans if the matrix is stored by columns, and *ld to the
 * distance between stored rows (or columns). Returns false if the matrix is stored neither by rows nor by columns.
 */
static bool find_storage(int64_t row, int64_t col, int64_t rows, int64_t cols, int32_t *trans,
			 int64_t *ld)
{
	*trans = !(cols == 1 || col == 1);
	if (*trans && !(rows == 1 || row == 1))
		return false;
	if (*trans)
		*ld = cols == 1 || col < rows ? rows : col;
	else
		*ld = rows == 1 || row < cols ? cols : row;
	return *trans ? cols == 1 || col >= rows : rows == 1 || row >= cols;
}

static bool is_row_bias(const struct gpu_gemm *g)
{
	for (int r = 0; r < g->batch.rank; r++)
		if (g->cs[r])
			return false;
	return (g->c_row == 0 || g->m == 1) && (g->c_col == 1 || g->n == 1);
}

static bool is_one(double v)
{
	return v >= 1 && v <= 1;
}

/* Decides who adds C and R. cuBLASLt can add one bias vector and one matrix; the epilogue kernel adds the rest. */
static void share_sums(const struct site *s, const struct gpu_gemm *g, struct library_form *l)
{
	bool c = site_in(s, 2) != NULL, r = site_in(s, 3) != NULL, f64 = l->job.type == DT_F64;

	l->c_is_bias = c && is_one(g->beta) && !f64 && is_row_bias(g);
	l->r_is_matrix = r;
	l->c_is_matrix =
		c && !l->c_is_bias && !r && g->c_col == 1 && g->c_row >= g->n && g->batch.rank <= 1;
	l->left = *g;
	l->behind = c && !l->c_is_bias && !l->c_is_matrix;
	l->job.bias = l->c_is_bias;
	l->job.residual = l->r_is_matrix || l->c_is_matrix;
	l->job.ldr = l->c_is_matrix ? g->c_row : g->n;
	l->job.step_r = l->c_is_matrix ? (g->batch.rank ? g->cs[0] : 0) : g->m * g->n;
	l->job.beta = l->c_is_matrix ? g->beta : 1;
}

/*
 * Decides who applies the activation. cuBLASLt's GELU is the tanh approximation. For fp16, bf16 and tf32 the error of
 * this approximation is below the rounding of the type, so that it also serves as the exact GELU.
 */
static void share_act(const struct site *s, const struct gpu_gemm *g, struct library_form *l)
{
	enum dtype t = (enum dtype)l->job.type;
	bool coarse = t == DT_F16 || t == DT_BF16 || l->job.tf32;
	bool gelu = g->act == ACT_GELU_TANH || (g->act == ACT_GELU && coarse);

	(void)s;
	if (!l->behind && t != DT_F64 && g->act == ACT_RELU)
		l->job.act = BLASLT_RELU;
	else if (!l->behind && t != DT_F64 && gelu)
		l->job.act = BLASLT_GELU;
	else if (g->act != ACT_NONE)
		l->behind = true;
	else if (!l->behind)
		return;
	if (!l->behind)
		l->left.act = ACT_NONE;
	l->left.k = batches(g) * g->m * g->n;
}

/* Merges batches that are contiguous and share B into the rows of one larger product. */
static void fold_batch(const struct gpu_gemm *g, struct library_form *l)
{
	struct blaslt_job *j = &l->job;
	bool rows = !j->trans_a && j->step_b == 0 && j->step_a == j->m * j->lda;

	if (g->batch.rank != 1 || !rows || (l->c_is_matrix && j->step_r != j->m * j->ldr))
		return;
	j->m *= j->batch;
	j->batch = 1;
	j->step_a = j->step_r = j->step_y = 0;
}

static bool set_turns(struct library_form *l, int64_t size)
{
	struct blaslt_job *j = &l->job;
	int64_t turns = 16 / size, core = (j->n - (turns - 1)) / COLUMN_STEP * COLUMN_STEP;

	if (!j->trans_b || j->bias || j->m % turns || j->m / turns < TURN_ROWS ||
	    j->lda * size % 16 || j->ldb * size % 16)
		return false;
	l->turns = turns;
	l->m = j->m, l->n = j->n, l->lda = j->lda;
	j->align = 16;
	l->strip = *j;
	l->strip.n = l->strip.ldy = (j->n - core + 15) / 16 * 16;
	j->m /= turns;
	j->n = core;
	j->lda *= turns;
	j->ldy = turns * l->n;
	return true;
}

static void set_apart(const struct site *s, struct library_form *l)
{
	struct blaslt_job *j = &l->job;
	int64_t size = gpu_size((enum dtype)j->type), wide = (j->n * size + 15) / 16 * 16 / size;

	if (wide == j->n || j->n < WIDE_COLUMNS || j->m < WIDE_ROWS || j->batch != 1 ||
	    l->launches != 1 || j->residual || j->trans_a || set_turns(l, size))
		return;
	int64_t rows = APART_BYTES / (wide * size) / ROW_STEP * ROW_STEP;
	rows = rows < ROW_STEP ? ROW_STEP : rows;
	l->apart = rows < j->m ? rows : j->m;
	j->ldy = wide;
	/* cuBLASLt's best kernels need a multiple of COLUMN_STEP columns, so the weights are padded. */
	if (!j->trans_b || j->bias || j->ldb != j->k || !site_is_weight(s, 1))
		return;
	l->columns = j->n;
	j->n = j->ldy = (j->n + COLUMN_STEP - 1) / COLUMN_STEP * COLUMN_STEP;
}

/*
 * Each launch has its operands at other addresses, which may be less aligned than the operands of the first launch.
 * cuBLASLt chooses an algorithm for the alignment that it is told and does not look at the pointers. Therefore it is
 * told the alignment that the operands of all launches have.
 */
static void promise_alignment(const struct gpu_gemm *g, struct library_form *l)
{
	int64_t size = gpu_size((enum dtype)l->job.type), align = 64;
	uint64_t all = (uint64_t)(l->job.batch * g->m * g->n * size);

	for (int r = 0; r + 1 < g->batch.rank; r++)
		all |= (uint64_t)(g->as[r] * size) | (uint64_t)(g->bs[r] * size);
	while (all % (uint64_t)align)
		align /= 2;
	if (align < 64)
		l->job.align = (int32_t)align;
}

/* Leaves a Relu to the epilogue kernel where cuBLASLt has none that passes NaN on. */
static void part_from_relu(const struct site *s, const struct gpu_gemm *g, struct library_form *l)
{
	if (l->job.act != BLASLT_RELU || (!l->apart && !l->turns && blaslt_takes(s, &l->job, NULL)))
		return;
	l->job.act = l->strip.act = BLASLT_NONE;
	l->left.act = g->act;
	l->behind = true;
}

static const char *library_form(const struct site *s, const struct fused_gemm *f,
				struct library_form *l)
{
	struct gpu_gemm g = {0};
	const char *bad = gpu_gemm_job(s, f, &g);
	struct blaslt_job *j = &l->job;
	int last = g.batch.rank - 1;

	if (bad)
		return bad;
	*l = (struct library_form){.launches = 1};
	j->type = (int32_t)gpu_type(s, 0);
	j->tf32 = j->type == DT_F32 && s->config && s->config->precision == PRECISION_TF32;
	j->b_is_weight = site_is_weight(s, 1);
	j->m = g.m, j->n = g.n, j->k = g.k;
	j->ldy = g.n;
	j->alpha = g.alpha;
	j->batch = last < 0 ? 1 : g.batch.dim[last];
	j->step_a = last < 0 ? 0 : g.as[last];
	j->step_b = last < 0 ? 0 : g.bs[last];
	j->step_y = g.m * g.n;
	for (int r = 0; r < last; r++)
		l->launches *= g.batch.dim[r];
	if (l->launches < 1 || l->launches > MAX_LAUNCHES)
		return "too many batches without a common stride";
	if (!find_storage(g.a_row, g.a_col, g.m, g.k, &j->trans_a, &j->lda) ||
	    !find_storage(g.b_row, g.b_col, g.k, g.n, &j->trans_b, &j->ldb))
		return "an operand that is stored neither by rows nor by columns";
	if (l->launches > 1)
		promise_alignment(&g, l);
	share_sums(s, &g, l);
	share_act(s, &g, l);
	fold_batch(&g, l);
	if (j->batch == 1)
		j->step_a = j->step_b = j->step_r = j->step_y = 0;
	set_apart(s, l);
	part_from_relu(s, &g, l);
	return NULL;
}

/*
 * Returns the product that one cuBLASLt call computes: `rows` rows if rows are computed into the workspace (l->apart),
 * otherwise all rows.
 */
static struct blaslt_job some_rows(const struct library_form *l, int64_t rows)
{
	struct blaslt_job j = l->job;

	if (l->apart)
		j.m = rows;
	return j;
}

bool gpu_library_accepts(const struct site *s, const struct fused_gemm *f, struct why *w)
{
	struct library_form l;
	struct arena a = {0};
	struct why why = {.arena = &a};
	const char *bad = library_form(s, f, &l);
	bool taken = false;

	if (bad) {
		refuse(&why, "%s", bad);
	} else {
		const struct blaslt_job j = some_rows(&l, l.apart);
		taken = blaslt_takes(s, &j, &why);
	}
	if (!taken) {
		gpu_fell_back(s, "by our own product", why.text);
		refuse(w, "%s", why.text ? why.text : "cuBLASLt refused");
	}
	arena_free(&a);
	return taken;
}

static size_t apart_bytes(const struct library_product *p)
{
	const struct blaslt_job *j = &p->form.strip;

	if (p->form.turns)
		return cuda_aligned((size_t)(j->m * j->ldy) * p->size);
	return cuda_aligned((size_t)(p->form.apart * p->form.job.ldy) * p->size);
}

/*
 * Prepares the product of the last, fewer rows or of the strips, and the kernel that copies rows from the workspace to
 * the output.
 */
static int plan_apart(struct site *s, struct library_product *p, struct diag *d)
{
	int64_t rest = p->form.turns ? p->form.m : p->form.job.m % p->form.apart;
	struct blaslt_job j = p->form.turns ? p->form.strip : some_rows(&p->form, rest);
	size_t workspace = 0;

	p->compact = gpu_typed(s, "product", "compact", (enum dtype)j.type, d);
	if (rest)
		p->tail = blaslt_product(s, &j, &workspace, d);
	if (workspace > p->lt_workspace)
		p->lt_workspace = workspace;
	return !p->compact || (rest && !p->tail);
}

/* Pads the weights with copies of their first rows. The output columns that these rows produce are never read. */
static int pad_weights(const struct call *c, void *dst, const void *src, const void *arg)
{
	const struct library_product *p = arg;
	const struct blaslt_job *j = &p->form.job;
	size_t own = (size_t)(p->form.columns * j->k) * p->size;
	size_t rest = (size_t)((j->n - p->form.columns) * j->k) * p->size;
	int err = gpu_copy(c, dst, src, own);

	return err ? err : gpu_copy(c, (char *)dst + own, src, rest);
}

/* Pads the weights, or transposes them if cuBLASLt was measured to be faster with transposed weights. */
static int plan_weights(struct site *s, struct library_product *p, struct step *step, struct diag *d)
{
	struct blaslt_job *j = &p->form.job, now = some_rows(&p->form, p->form.apart), other = now;

	if (p->form.columns) {
		p->b = gpu_packed(s, 1, "widened", (size_t)(j->n * j->k) * p->size, pad_weights, p, d);
		step->unread |= 2;
		return p->b ? 0 : -E_MEMORY;
	}
	other.trans_b = 1;
	other.ldb = j->k;
	if (j->trans_b || j->batch != 1 || p->form.launches != 1 || j->ldb != j->n ||
	    !site_is_weight(s, 1))
		return 0;
	double as_is = blaslt_us(s, &now), turned = as_is > 0 ? blaslt_us(s, &other) : 0;
	if (turned <= 0 || turned > TUNE_FASTER * as_is)
		return 0;
	p->b = gpu_turned_weights(s, step, 1, j->k, j->n, NULL, d);
	if (!p->b)
		return -E_MEMORY;
	j->trans_b = 1;
	j->ldb = j->k;
	return 0;
}

int gpu_library_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d)
{
	struct library_product *p = arena_new(s->plan_arena, struct library_product);

	library_form(s, f, &p->form);
	p->size = (size_t)gpu_size(gpu_type(s, 0));
	int err = plan_weights(s, p, step, d);
	if (err)
		return err;
	struct blaslt_job j = some_rows(&p->form, p->form.apart);
	const double us = p->form.apart || p->form.turns ? 0 : blaslt_us(s, &j);
	p->group = us > 0 ? gpu_group_product(s, step, f, us) : NULL;
	step->state = p;
	if (p->group)
		return 0;
	p->lt = blaslt_product(s, &j, &p->lt_workspace, d);
	if (p->lt && (p->form.apart || p->form.turns) && plan_apart(s, p, d))
		return -E_LIBRARY;
	p->lt_workspace = cuda_aligned(p->lt_workspace);
	step->workspace = p->lt_workspace + apart_bytes(p);
	if (p->form.behind)
		p->fn = gpu_typed(s, "product", "epilogue", gpu_type(s, 0), d);
	if (p->form.r_is_matrix)
		gpu_inplace(step, 0, 3);
	return p->lt && (p->fn || !p->form.behind) ? 0 : -E_LIBRARY;
}

/* Returns the byte offset, in launch i, of an operand with batch strides `step`. */
static size_t launch_offset(const struct library_product *p, const int64_t *step, int64_t i)
{
	const struct gpu_dims *b = &p->form.left.batch;
	int64_t at = 0;

	for (int r = b->rank - 2; r >= 0; r--) {
		at += i % b->dim[r] * step[r];
		i /= b->dim[r];
	}
	return (size_t)at * p->size;
}

static int run_epilogue(const struct call *c, const struct library_product *p)
{
	struct gpu_gemm job = p->form.left;

	job.c = p->form.c_is_bias || p->form.c_is_matrix ? NULL : gpu_data(c, 2);
	job.r = p->form.r_is_matrix ? NULL : gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return gpu_launch(c, p->fn, gpu_grid(job.k), &job, sizeof(job));
}

/* Copies rows from the workspace into the output; `put` holds both addresses, the sizes and the row strides. */
static int copy_rows_out(const struct call *c, const struct library_product *p, struct gpu_gemm *put)
{
	unsigned across = (unsigned)((put->n * (int64_t)p->size + 4095) / 4096);
	struct gpu_grid g = {across, (unsigned)(put->m < MAX_GRID_YZ ? put->m : MAX_GRID_YZ), 1,
			     256, 0};

	return gpu_launch(c, p->compact, g, put, sizeof(*put));
}

static int run_apart(const struct call *c, const struct library_product *p)
{
	const struct blaslt_job *j = &p->form.job;
	char *apart = (char *)c->workspace + p->lt_workspace;
	int64_t n = p->form.columns ? p->form.columns : j->n;
	int err = 0;

	for (int64_t r = 0; r < j->m && !err; r += p->form.apart) {
		int64_t rows = j->m - r < p->form.apart ? j->m - r : p->form.apart;
		struct blaslt_args x = {
			.a = (const char *)gpu_data(c, 0) + (size_t)(r * j->lda) * p->size,
			.b = p->b ? p->b : gpu_data(c, 1),
			.bias = gpu_data(c, 2),
			.y = apart,
			.workspace = c->workspace,
			.workspace_bytes = p->lt_workspace,
		};
		struct gpu_gemm put = {.a = apart,
				       .y = (char *)gpu_out(c, 0) + (size_t)(r * n) * p->size,
				       .m = rows,
				       .n = n,
				       .a_row = j->ldy,
				       .c_row = n};
		err = blaslt_run(c, rows == p->form.apart ? p->lt : p->tail, &x);
		if (!err)
			err = copy_rows_out(c, p, &put);
	}
	return err || !p->fn ? err : run_epilogue(c, p);
}

/*
 * Computes the strip at the left or right end, whose columns the turns cover only in some rows, and copies it into y.
 */
static int run_strip(const struct call *c, const struct library_product *p, bool right)
{
	const struct library_form *f = &p->form;
	int64_t first = right ? f->n - f->strip.n : 0;
	int64_t n = right ? f->n - f->job.n : f->turns - 1, skip = right ? f->strip.n - n : 0;
	char *apart = (char *)c->workspace + p->lt_workspace;
	struct blaslt_args x = {
		.a = gpu_data(c, 0),
		.b = (const char *)gpu_data(c, 1) + (size_t)(first * f->strip.ldb) * p->size,
		.y = apart,
		.workspace = c->workspace,
		.workspace_bytes = p->lt_workspace,
	};
	struct gpu_gemm put = {.a = apart + (size_t)skip * p->size,
			       .y = (char *)gpu_out(c, 0) + (size_t)(first + skip) * p->size,
			       .m = f->m,
			       .n = n,
			       .a_row = f->strip.ldy,
			       .c_row = f->n};
	int err = blaslt_run(c, p->tail, &x);

	return err ? err : copy_rows_out(c, p, &put);
}

static int run_turns(const struct call *c, const struct library_product *p)
{
	const struct library_form *f = &p->form;
	int err = 0;

	for (int64_t t = 0; t < f->turns && !err; t++) {
		int64_t skip = (f->turns - t * f->n % f->turns) % f->turns;
		struct blaslt_args x = {
			.a = (const char *)gpu_data(c, 0) + (size_t)(t * f->lda) * p->size,
			.b = (const char *)gpu_data(c, 1) + (size_t)(skip * f->job.ldb) * p->size,
			.y = (char *)gpu_out(c, 0) + (size_t)(t * f->n + skip) * p->size,
			.workspace = c->workspace,
			.workspace_bytes = p->lt_workspace,
		};
		err = blaslt_run(c, p->lt, &x);
	}
	for (int right = 0; right < 2 && !err; right++)
		err = run_strip(c, p, right);
	return err || !p->fn ? err : run_epilogue(c, p);
}

int gpu_library_run(const struct call *c)
{
	const struct library_product *p = c->step->state;
	const struct gpu_gemm *g = &p->form.left;
	size_t y_step = (size_t)(p->form.job.batch * g->m * g->n) * p->size;
	const char *r = gpu_data(c, p->form.c_is_matrix ? 2 : 3);
	int err = 0;

	if (p->group)
		return gpu_group_product_run(c, p->group);
	if (p->form.apart || p->form.turns)
		return p->form.turns ? run_turns(c, p) : run_apart(c, p);
	for (int64_t i = 0; i < p->form.launches && !err; i++) {
		struct blaslt_args x = {
			.a = (const char *)gpu_data(c, 0) + launch_offset(p, g->as, i),
			.b = p->b ? p->b : (const char *)gpu_data(c, 1) + launch_offset(p, g->bs, i),
			.bias = gpu_data(c, 2),
			.r = r ? r + (size_t)i * y_step : NULL,
			.y = (char *)gpu_out(c, 0) + (size_t)i * y_step,
			.workspace = c->workspace,
			.workspace_bytes = c->step->workspace,
		};
		err = blaslt_run(c, p->lt, &x);
	}
	return err || !p->fn ? err : run_epilogue(c, p);
}

void gpu_library_drop(struct step *step)
{
	struct library_product *p = step->state;

	if (p) {
		blaslt_drop(p->lt);
		blaslt_drop(p->tail);
	}
}

/* ---- MatMul, Gemm ---------------------------------------------------------------------------- */

static struct fused_gemm as_fused(const struct site *s)
{
	struct fused_gemm f = {.alpha = 1, .beta = 1};

	if (s->node->op->variant == PRODUCT_GEMM) {
		const struct gemm_params *p = s->node->params;
		f = (struct fused_gemm){
			.alpha = p->alpha, .beta = p->beta, .transA = p->transA, .transB = p->transB};
	} else if (s->node->op->variant != PRODUCT_MATMUL) {
		const struct fused_matmul *p = s->node->params;
		f = (struct fused_gemm){
			.alpha = p->alpha, .beta = 1, .transA = p->transA, .transB = p->transB};
	}
	return f;
}

/* Returns whether the node leaves batch dimensions in order, because cuBLASLt cannot transpose batches. */
static bool batches_in_order(const struct site *s, struct why *w)
{
	const struct fused_matmul *p = s->node->params;

	if (s->node->op->variant == PRODUCT_MATMUL || s->node->op->variant == PRODUCT_GEMM)
		return true;
	return !(p->transBatchA || p->transBatchB) || refuse(w, "batches transposed");
}

static bool own_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = as_fused(s);

	return gpu_product_accepts(s, &f, w);
}

static int own_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = as_fused(s);

	return gpu_product_reshape(s, &f, step, d);
}

static bool library_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = as_fused(s);

	return batches_in_order(s, w) && gpu_library_accepts(s, &f, w);
}

static int library_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = as_fused(s);

	return gpu_library_reshape(s, &f, step, d);
}

static bool gemv_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = as_fused(s);

	gpu_note_wide_product(s, &f);
	return batches_in_order(s, w) && gpu_gemv_accepts(s, &f, w);
}

static int gemv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = as_fused(s);

	return gpu_gemv_reshape(s, &f, step, d);
}

#define T_PRODUCT (T_FLOATING | T_I32 | T_I64 | T_U32 | T_U64)
#define LIBRARY(name)                                                                              \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = library_accepts,                     \
		.reshape = library_reshape, .run = gpu_library_run, .drop = gpu_library_drop       \
	}
#define GEMV(name)                                                                                 \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = gemv_accepts,                        \
		.reshape = gemv_reshape, .run = gpu_gemv_run                                       \
	}
#define OWN(name, types_)                                                                          \
	{                                                                                          \
		.op = (name), .types = (types_), .accepts = own_accepts, .reshape = own_reshape,   \
		.run = gpu_product_run                                                             \
	}
const struct kernel gpu_matmul[] = {GEMV("MatMul"),
				    LIBRARY("MatMul"),
				    OWN("MatMul", T_PRODUCT),
				    GEMV("Gemm"),
				    LIBRARY("Gemm"),
				    OWN("Gemm", T_PRODUCT),
				    GEMV("com.microsoft::FusedMatMul"),
				    LIBRARY("com.microsoft::FusedMatMul"),
				    OWN("com.microsoft::FusedMatMul", T_FLOATING),
				    LIBRARY("com.microsoft::TransposeMatMul"),
				    OWN("com.microsoft::TransposeMatMul", T_FLOATING),
				    GPU_MATMUL_ROWS,
				    {0}};
