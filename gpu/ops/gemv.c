/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/gemv.h"

#include "gpu/kernels/ring.h"
#include "gpu/launch/job.h"
#include "gpu/ops/norm.h"

enum {
	MOST_ROWS = 4, /* of gemv.cu; with more rows, tensor cores are faster */
	/* gemv_half.cu, on tensor cores, for elements of 16 bits: */
	MOST_HALF_ROWS = 16,
	HALF_CHUNK = 16,    /* k must be a multiple of this */
	HALF_BLOCKS = 100,  /* a lane has more than two columns only if this many blocks remain */
	HALF_THREADS = 512, /* of a block */
	/* gemv_ring.cu, for elements of 16 bits on devices with clusters: */
	RING_TURNS = 2, /* chunks that each warp reads at least, if blocks share columns */
	RING_BLOCKS = 4, /* most blocks of a cluster that share columns: larger clusters wait longer to be scheduled */
	RING_SHARED = GPU_RING_STAGES * GPU_RING_WARPS *
			      (GPU_RING_COLUMNS + 2 * GPU_RING_HALF + 1) * GPU_RING_CHUNK * 2 +
		      2 * GPU_RING_HALF * GPU_RING_COLUMNS * 4, /* bytes */
	RING_OWN_SHARED = 2 << 10, /* bytes, at most, that a block takes beside those of its launch */
	RING_GATED = GPU_RING_COLUMNS /
		     2, /* columns of each of two matrices whose products are multiplied */
	/*
	 * Elements of a row that is normalized, at most, and such rows where nobody has added up their squares: each block then goes
	 * through all rows, which makes a step of a Llama 1 % faster with one row and 4 % slower with 16.
	 */
	RING_NORM = 4096,
	RING_NORM_ROWS = 4,
	RING_LEAST = 1 << 17, /* elements of B; with less, the other kernels are as fast */
	/* gemv.cu: */
	COLUMN_WARPS = 8, /* of a block: one for each column of B that lies in one piece */
	/* As measured on an H200, for products of 768 to 32,000 columns: */
	NARROW = 2,
	WIDE = 4,	   /* threads beside one another in a row of B, */
	SINGLE = 32,	   /* and where each reads only one element at a time */
	WIDE_BLOCKS = 256, /* there must be so many blocks of wide rows */
	SHARED_THREADS = 384,
	ALONE_THREADS = 512,
	LEAST_THREADS = 64,
};

struct gemv {
	void *fn;
	void *gated; /* kernel of rings for two products that are multiplied, or NULL if it is no such product */
	unsigned shares; /* blocks of rings that share columns */
	size_t squares; /* where sums of squares of the results are in the workspace, for a product that normalizes them */
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

	return (T_BIT(gpu_type(s, 0)) & (T_BIT(DT_F16) | T_BIT(DT_BF16))) &&
	       j->m <= MOST_HALF_ROWS && j->b_col == 1 && j->k % piece == 0 && j->n % piece == 0 &&
	       j->b_row % piece == 0 && (j->m == 1 || j->a_row % piece == 0) &&
	       j->k < INT32_MAX / 2 && j->n >= RING_LEAST / j->k && gpu_can_launch_early(f) &&
	       f->shared_memory >= RING_SHARED + RING_OWN_SHARED;
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
	if (!gpu_one_batch(j)) /* several matrices below one another become one of more rows, or of none */
		return "several matrices";
	if (j->m < 1 || j->n < 1 || j->k < 1)
		return "no elements";
	if (j->a_col != 1 && j->k != 1)
		return "rows that do not lie in one piece";
	j->b_is_weight = site_is_weight(s, 1);
	if (in_rings(s, j) || on_tensor_cores(s, j))
		return NULL;
	if (j->m > MOST_ROWS)
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
static void by_rows(struct gemv *p, int64_t size, int64_t processors, int at_once, char *name,
		    size_t room)
{
	bool whole = multiple(p->job.n, size) && multiple(p->job.b_row, size);
	int64_t each = whole ? 16 / size : 1;
	bool wide = (p->job.n + WIDE * each - 1) / (WIDE * each) >= WIDE_BLOCKS;
	int side = !whole ? SINGLE : wide ? WIDE : NARROW;
	int64_t blocks = (p->job.n + side * each - 1) / (side * each);
	/* with more blocks than processors, several share one */
	int64_t most = side == NARROW && blocks > processors ? SHARED_THREADS : ALONE_THREADS;
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
	int64_t tiles = (p->job.n + GPU_RING_COLUMNS - 1) / GPU_RING_COLUMNS;
	int64_t chunks = (p->job.k + GPU_RING_CHUNK - 1) / GPU_RING_CHUNK, size = RING_BLOCKS;

	while (size > 1 &&
	       (2 * tiles * size > processors || chunks < size * GPU_RING_WARPS * RING_TURNS))
		size /= 2;
	p->grid = (struct gpu_grid){(unsigned)(tiles * size), 1, 1, 32 * GPU_RING_WARPS, RING_SHARED};
	p->shares = (unsigned)size;
	snprintf(name, room, "gemv_ring%d_%d", p->job.m > GPU_RING_HALF ? 2 : 1, (int)size);
}

/* Bytes of the sums of squares of the results: each row has one for each 32 columns, and room for eight of them beside one another. */
static int64_t squares_bytes(int64_t rows, int64_t columns)
{
	const int64_t each = GPU_SQUARES * GPU_SQUARE_SUMS;

	return rows * ((columns + each - 1) / each) * GPU_SQUARE_SUMS * (int64_t)sizeof(float);
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
		by_rows(p, size, cuda_facts(s->device)->processors, at_once, name, sizeof(name));
	else
		by_columns(p, at_once, name, sizeof(name));
	snprintf(typed, sizeof(typed), "%s_%s", name, dtype_name(t));
	p->fn = gpu_kernel_sharing(s, file, typed, p->grid.shared, d);
	p->unaligned = gpu_typed(s, "product", "gemm", t, d);
	step->state = p;
	if (!p->fn || !p->unaligned || !p->shares)
		return p->fn && p->unaligned ? 0 : -E_DEVICE;
	p->squares =
		gpu_room(step, p->job.n <= RING_NORM ? (size_t)squares_bytes(p->job.m, p->job.n) : 0);
	step->keep_workspace = true;
	snprintf(typed, sizeof(typed), "gemv_gate%s_%s", name + strlen("gemv_ring"), dtype_name(t));
	p->gated = gpu_kernel_sharing(s, file, typed, p->grid.shared, d);
	return p->gated ? 0 : -E_DEVICE;
}

/*
 * Whether a product may be added to `n` products of a launch that is still to be made, one of the same rows. These products are independent:
 * their results lie apart from what they read, and what is added to a product is none of the results.
 */
static bool can_add(const void *all, unsigned n, const void *one)
{
	const struct gpu_gemm *first = ((const struct gpu_gemms *)all)->job, *now = one;

	return n < GPU_SEVERAL && first->a == now->a && first->m == now->m && first->k == now->k &&
	       first->a_row == now->a_row && !first->r && !now->r && !first->c && !now->c &&
	       first->b_is_weight && now->b_is_weight;
}

/* blockIdx.z tells which product is meant. */
static bool add_product(void *all, unsigned n, const void *one, struct gpu_grid *grid,
			const struct gpu_grid *more)
{
	if (!can_add(all, n, one))
		return false;
	((struct gpu_gemms *)all)->job[n] = *(const struct gpu_gemm *)one;
	grid->x = grid->x > more->x ? grid->x : more->x;
	grid->z = n + 1;
	return true;
}

/*
 * As add_product(), for ring kernels: their grids are concatenated along x, because idle blocks would still reserve the shared memory of a
 * ring. A launch that normalizes A takes no product that reads A as it is.
 */
static bool add_ring(void *all, unsigned n, const void *one, struct gpu_grid *grid,
		     const struct gpu_grid *more)
{
	if (((const struct gpu_ring *)all)->scale || !can_add(all, n, one))
		return false;
	((struct gpu_gemms *)all)->job[n] = *(const struct gpu_gemm *)one;
	grid->x += more->x;
	return true;
}

/* ---- what is done together with products: changes of launches that have been written down --------------- */

static bool apart(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return x + (uintptr_t)a_bytes <= y || y + (uintptr_t)b_bytes <= x;
}

/* Whether a launch is one of norm_one_row (rows.cu) that divides by the root of the mean of squares, and nothing else. */
static bool is_plain_norm(const struct gpu_written *w)
{
	const struct gpu_norm *n = w->params;

	return w->by[0]->kernel->run == gpu_norm_run && w->bytes == sizeof(*n) && n->rms &&
	       n->scale && !n->add && !n->add2 && !n->bias && !n->q && !n->mean && !n->inv &&
	       !n->sum && n->period == 1 && n->inner == 1 && n->n % 8 == 0 && n->n <= RING_NORM &&
	       ((uintptr_t)n->x | (uintptr_t)n->scale) % 16 == 0;
}

/*
 * Returns the launch of a single product in rings that makes the rows x, if it is the one before the normalization of them, and can add up
 * their squares; otherwise NULL.
 */
static struct gpu_ring *maker_of_rows(const struct call *c, const struct gpu_norm *n)
{
	struct gpu_written w;

	if (!gpu_written(c, 2, &w) || w.by[0]->kernel->run != gpu_gemv_run)
		return NULL;
	struct gpu_ring *r = w.params;
	const struct gemv *p = w.by[0]->state;
	const struct gpu_gemm *j = r->all.job;
	bool makes = *w.fn == p->fn && p->shares && w.jobs == 1 && j->y == n->x &&
		     j->m == n->rows && j->n == n->n;
	return makes ? r : NULL;
}

/*
 * Whether a launch can put sums of squares to its workspace. Where it has itself taken a normalization, it reads rows and sums that the plan
 * thinks are gone by then, so that the workspace may be theirs.
 */
static bool may_sum(const struct gpu_ring *made, int64_t bytes)
{
	const struct gpu_gemm *j = made->all.job;

	return !made->scale ||
	       (apart(made->squares, bytes, j->a, ((j->m - 1) * j->a_row + j->k) * 2) &&
		(!made->known || apart(made->squares, bytes, made->known, squares_bytes(j->m, j->k))));
}

/*
 * Lets the last launch, products in rings, normalize the rows that it reads, if the launch before it does only this, and nobody reads
 * them but these products, of which `c` is the last. The results are the same to the bit.
 */
static void take_norm(const struct call *c)
{
	struct gpu_written last, before;

	/* the products read the scale before they have waited: it must not be what a step computes (input 1, as nothing is added) */
	if (!gpu_written(c, 0, &last) || !gpu_written(c, 1, &before) || !is_plain_norm(&before) ||
	    !(before.by[0]->outside >> 1 & 1) || before.by[0]->last_reader != c->step->number)
		return;
	struct gpu_ring *r = last.params;
	const struct gpu_norm *n = before.params;
	const int64_t size = 2;
	struct gpu_ring *made = maker_of_rows(c, n);
	if (made && !may_sum(made, squares_bytes(n->rows, n->n)))
		made = NULL;
	if (!made && n->rows > RING_NORM_ROWS)
		return;
	for (unsigned i = 0; i < last.jobs; i++) {
		const struct gpu_gemm *j = &r->all.job[i];
		int64_t bytes = j->m * j->n * size;
		if (j->a != n->y || j->m != n->rows || j->k != n->n || (j->m > 1 && j->a_row != n->n) ||
		    !apart(j->y, bytes, n->x, n->rows * n->n * size) ||
		    !apart(j->y, bytes, n->scale, n->n * size) ||
		    (made && !apart(j->y, bytes, made->squares, squares_bytes(n->rows, n->n))))
			return;
	}
	if (made) {
		made->sums_squares = true;
		r->known = made->squares;
	}
	for (unsigned i = 0; i < last.jobs; i++)
		r->all.job[i].a = n->x;
	r->scale = n->scale;
	r->epsilon = (float)n->epsilon;
	gpu_unwrite(c, 1);
}

/* Whether the products of a launch can be multiplied: two in rings, of the same sizes, whose results only step `c` reads. */
static bool can_gate(const struct call *c, const struct gpu_written *w, const void *a, const void *b)
{
	const struct gpu_gemms *all = w->params;
	const struct gpu_gemm *j = all->job;
	const struct gemv *p = w->by[0]->state;

	if (w->by[0]->kernel->run != gpu_gemv_run || *w->fn != p->fn || !p->gated || w->jobs != 2)
		return false;
	return ((j[0].y == a && j[1].y == b) || (j[0].y == b && j[1].y == a)) && j[0].n == j[1].n &&
	       j[0].b_row == j[1].b_row && j[0].b_is_weight && j[1].b_is_weight &&
	       w->by[0]->last_reader == c->step->number && w->by[1]->last_reader == c->step->number;
}

bool gpu_gemv_multiply(const struct call *c, const void *a, const void *b, void *y, int64_t n)
{
	struct gpu_written w;

	if (!gpu_written(c, 0, &w) || !can_gate(c, &w, a, b))
		return false;
	struct gpu_ring *r = w.params;
	const struct gpu_gemm *j = r->all.job;
	const struct gemv *p = w.by[0]->state;
	const int64_t size = 2, a_bytes = ((j->m - 1) * j->a_row + j->k) * size;
	if (j->m * j->n != n || !apart(y, n * size, j->a, a_bytes) ||
	    (r->scale && !apart(y, n * size, r->scale, j->k * size)) ||
	    (r->known && !apart(y, n * size, r->known, squares_bytes(j->m, j->k))))
		return false;
	r->gated = y;
	*w.fn = p->gated;
	w.grid->x = (unsigned)((j->n + RING_GATED - 1) / RING_GATED) * p->shares;
	return true;
}

static int run_rings(const struct call *c, const struct gemv *p, const struct gpu_gemm *job)
{
	struct gpu_ring all = {.all.job[0] = *job, .squares = gpu_at(c, p->squares)};
	int err = gpu_launch_several(c, p->fn, p->grid, &all, sizeof(all), add_ring);

	if (!err)
		take_norm(c);
	return err;
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
	if (((uintptr_t)job.a | (uintptr_t)job.b) % 16)
		return gpu_launch(c, p->unaligned, gpu_gemm_grid(&job), &job, sizeof(job));
	return p->shares ? run_rings(c, p, &job)
			 : gpu_launch_several(c, p->fn, p->grid, &all, sizeof(all), add_product);
}
