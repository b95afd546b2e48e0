/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/gemv.h"

enum {
	MOST_ROWS = 4, /* of gemv.cu; with more rows, tensor cores are faster */
	/* gemv_half.cu, on tensor cores, for elements of 16 bits: */
	MOST_HALF_ROWS = 16,
	HALF_CHUNK = 16,    /* k must be a multiple of this */
	HALF_BLOCKS = 100,  /* a lane has more than two columns only if this many blocks remain */
	HALF_THREADS = 512, /* of a block */
	/* gemv_ring.cu, for elements of 16 bits on devices with clusters: */
	RING_COLUMNS = 128, /* of a block */
	RING_WARPS = 8,
	RING_CHUNK = 16, /* rows of B that a warp reads at a time, */
	RING_TURNS = 2, /* and how many times each warp does so at least, if blocks share columns */
	RING_BLOCKS = 4, /* at most, which share columns: more are slower, as they must find room at the same time */
	RING_HALF = 8, /* rows of A in a product of tensor cores */
	RING_SHARED = 4 * RING_WARPS * (RING_COLUMNS + 2 * RING_HALF) * RING_CHUNK * 2 +
		      2 * RING_HALF * RING_COLUMNS * 4, /* bytes */
	RING_LEAST = 1 << 17, /* elements of B; with less, the other kernels are as fast */
	/* gemv.cu: */
	COLUMN_WARPS = 8, /* of a block: one for each column of B that lies in one piece */
	/* As measured on an H200, for products of 768 to 32,000 columns: */
	NARROW = 2,
	WIDE = 4,	   /* threads beside one another in a row of B, */
	SINGLE = 32,	   /* and where each reads only one element at a time */
	WIDE_BLOCKS = 256, /* there must be so many blocks of wide rows */
	PROCESSORS = 132,  /* with more blocks than that, several share a processor */
	SHARED_THREADS = 384,
	ALONE_THREADS = 512,
	LEAST_THREADS = 64,
};

struct gemv {
	void *fn;
	void *unaligned; /* kernel for operands of a run that are not aligned to 16 bytes */
	struct gpu_gemm job;
	struct gpu_grid grid;
};

static bool multiple(int64_t n, int64_t size)
{
	return n * size % 16 == 0;
}

static bool columns_in_one_piece(const struct gpu_gemm *j, int64_t size)
{
	return j->b_row == 1 && multiple(j->k, size) && multiple(j->b_col, size) &&
	       (j->m == 1 || multiple(j->a_row, size));
}

/* Makes the rows of all batches the rows of one product, if B is the same for all of them. */
static bool one_batch(struct gpu_gemm *j)
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

/*
 * Whether gemv_half.cu computes the product. Such a kernel alone takes a third longer than cuBLASLt's (as a mean over a Llama's), but can
 * be written down, so that the step of a decoder with several rows is one launch.
 */
static bool on_tensor_cores(const struct site *s, const struct gpu_gemm *j)
{
	return (T_BIT(gpu_type(s, 0)) & (T_BIT(DT_F16) | T_BIT(DT_BF16))) && j->m > MOST_ROWS &&
	       j->m <= MOST_HALF_ROWS && j->b_col == 1 && j->k % HALF_CHUNK == 0 && j->n % 8 == 0 &&
	       j->b_row % 8 == 0 && j->a_row % 4 == 0 && cuda_facts(s->device)->major >= 8;
}

/* Whether gemv_ring.cu computes the product. It reads 16 bytes at a time, of A's rows as well. */
static bool in_rings(const struct site *s, const struct gpu_gemm *j)
{
	const struct device_facts *f = cuda_facts(s->device);
	const int64_t piece = 8;

	return (T_BIT(gpu_type(s, 0)) & (T_BIT(DT_F16) | T_BIT(DT_BF16))) && j->m >= 1 &&
	       j->m <= MOST_HALF_ROWS && j->b_col == 1 && j->k % piece == 0 && j->n % piece == 0 &&
	       j->b_row % piece == 0 && (j->m == 1 || j->a_row % piece == 0) && j->k < INT32_MAX &&
	       j->n >= RING_LEAST / j->k && gpu_can_launch_early(f) &&
	       f->shared_memory >= RING_SHARED;
}

/* Describes the product, or returns why these kernels do not compute it. */
static const char *describe(const struct site *s, const struct fused_gemm *f, struct gpu_gemm *j)
{
	int64_t size = gpu_size(gpu_type(s, 0));
	const char *bad = gpu_gemm_job(s, f, j);

	if (bad)
		return bad;
	if (!(T_BIT(gpu_type(s, 0)) & (T_BIT(DT_F32) | T_BIT(DT_F16) | T_BIT(DT_BF16))))
		return "a type other than float32, float16 and bfloat16";
	if (!one_batch(j))
		return "several matrices";
	if (j->a_col != 1 && j->k != 1)
		return "rows that do not lie in one piece";
	j->b_is_weight = site_is_weight(s, 1);
	if (in_rings(s, j) || on_tensor_cores(s, j))
		return NULL;
	if (j->m < 1 || j->m > MOST_ROWS || j->n < 1)
		return "many rows";
	if (j->b_col != 1 && !columns_in_one_piece(j, size))
		return "columns of the matrix that are no multiples of 16 bytes";
	return NULL;
}

bool gpu_gemv_accepts(const struct site *s, const struct fused_gemm *f, struct why *w)
{
	struct gpu_gemm j = {0};
	const char *bad = describe(s, f, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

/* Chooses the kernel and the grid for a matrix whose rows lie in one piece. */
static void by_rows(struct gemv *p, int64_t size, int at_once, char *name, size_t room)
{
	bool whole = multiple(p->job.n, size) && multiple(p->job.b_row, size);
	int64_t each = whole ? 16 / size : 1;
	bool wide = (p->job.n + WIDE * each - 1) / (WIDE * each) >= WIDE_BLOCKS;
	int side = !whole ? SINGLE : wide ? WIDE : NARROW;
	int64_t blocks = (p->job.n + side * each - 1) / (side * each);
	int64_t most = side == NARROW && blocks > PROCESSORS ? SHARED_THREADS : ALONE_THREADS;
	int64_t threads = (p->job.k * side + 31) / 32 * 32;

	threads = threads < LEAST_THREADS ? LEAST_THREADS : threads > most ? most : threads;
	p->grid = (struct gpu_grid){(unsigned)blocks, 1, 1, (unsigned)threads, 0};
	snprintf(name, room, "gemv_rows%d_%d", at_once, side);
}

static void by_columns(struct gemv *p, int at_once, char *name, size_t room)
{
	int64_t blocks = (p->job.n + COLUMN_WARPS - 1) / COLUMN_WARPS;

	p->grid = (struct gpu_grid){(unsigned)blocks, 1, 1, 32 * COLUMN_WARPS, 0};
	snprintf(name, room, "gemv_columns%d", at_once);
}

/* A lane reads one, two or four words of each of its rows of B, two columns a word; eight lanes lie beside one another. */
static void by_halves(struct gemv *p, char *name, size_t room)
{
	const int64_t columns = 16; /* of eight lanes with a word each */
	int64_t words = 4;

	while (words > 1 && (p->job.n + columns * words - 1) / (columns * words) < HALF_BLOCKS)
		words /= 2;
	p->grid = (struct gpu_grid){(unsigned)((p->job.n + columns * words - 1) / (columns * words)),
				    1, 1, HALF_THREADS, 0};
	snprintf(name, room, "gemv_half_%d", (int)words);
}

/*
 * As many blocks share columns as half of the processors have room for, if enough rows of B are left to each: the other half then has
 * blocks of the next product, whose reads are under way before this one ends.
 */
static void by_rings(struct gemv *p, int64_t processors, char *name, size_t room)
{
	int64_t tiles = (p->job.n + RING_COLUMNS - 1) / RING_COLUMNS;
	int64_t chunks = (p->job.k + RING_CHUNK - 1) / RING_CHUNK, size = RING_BLOCKS;

	while (size > 1 && (2 * tiles * size > processors || chunks < size * RING_WARPS * RING_TURNS))
		size /= 2;
	p->grid = (struct gpu_grid){(unsigned)(tiles * size), 1, 1, 32 * RING_WARPS, RING_SHARED};
	snprintf(name, room, "gemv_ring%d_%d", p->job.m > RING_HALF ? 2 : 1, (int)size);
}

int gpu_gemv_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d)
{
	struct gemv *p = arena_new(s->plan_arena, struct gemv);
	enum dtype t = gpu_type(s, 0);
	int64_t size = gpu_size(t);
	char name[32], typed[48];

	describe(s, f, &p->job);
	int at_once = p->job.m == 1 ? 1 : MOST_ROWS;
	const char *file = in_rings(s, &p->job)		 ? "gemv_ring"
			   : on_tensor_cores(s, &p->job) ? "gemv_half"
							 : "gemv";
	if (!strcmp(file, "gemv_ring"))
		by_rings(p, cuda_facts(s->device)->processors, name, sizeof(name));
	else if (!strcmp(file, "gemv_half"))
		by_halves(p, name, sizeof(name));
	else if (p->job.b_col == 1)
		by_rows(p, size, at_once, name, sizeof(name));
	else
		by_columns(p, at_once, name, sizeof(name));
	snprintf(typed, sizeof(typed), "%s_%s", name, dtype_name(t));
	p->fn = gpu_kernel_sharing(s, file, typed, p->grid.shared, d);
	p->unaligned = gpu_typed(s, "product", "gemm", t, d);
	step->state = p;
	return p->fn && p->unaligned ? 0 : -E_DEVICE;
}

/*
 * Adds a product to `n` products of a launch that is still to be made, if it is one of the same rows. These products are independent:
 * their results lie apart from what they read, and what is added to a product is none of the results.
 */
static bool add_product(void *all, unsigned n, const void *one)
{
	struct gpu_gemms *to = all;
	const struct gpu_gemm *first = &to->job[0], *now = one;

	if (n == GPU_SEVERAL || first->a != now->a || first->m != now->m || first->k != now->k ||
	    first->a_row != now->a_row || first->r || now->r || first->c || now->c ||
	    !first->b_is_weight || !now->b_is_weight)
		return false;
	to->job[n] = *now;
	return true;
}

int gpu_gemv_run(const struct call *c)
{
	const struct gemv *p = c->step->state;
	struct gpu_gemm job = p->job;
	struct gpu_gemms all = {0};

	job.a = gpu_data(c, 0);
	job.b = gpu_data(c, 1);
	job.c = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	all.job[0] = job;
	if (((uintptr_t)job.a | (uintptr_t)job.b) % 16 == 0)
		return gpu_launch_several(c, p->fn, p->grid, &all, sizeof(all), add_product);
	return gpu_launch(c, p->unaligned, gpu_gemm_grid(&job), &job, sizeof(job));
}
