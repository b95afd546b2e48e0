/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/group_product.h"

#include "gpu/driver/api.h"
#include "gpu/driver/tune.h"
#include "gpu/launch/group.h"
#include "gpu/launch/packed.h"
#include "ops/float8.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
	LEAST = 32,
	LEAST_DEPTH = 64,
	LIBRARY = -1,
	MAX_ADDED = 4 /* bytes of an element of a bias */
};

struct group_product {
	struct gpu_group_product job; /* without addresses */
	struct gpu_gemm of;
	enum dtype type, result;
	int tile;
	void *fn;
	const void *b; /* weights, transposed or rounded; NULL if the input itself is read */
};

static bool is_stored_turned(const struct gpu_gemm *g)
{
	return g->b_row == 1 && g->b_col >= g->k;
}

/* Describes the product, or returns why these kernels do not compute it. */
static const char *describe(const struct site *s, const struct fused_gemm *f, struct gpu_gemm *g)
{
	const enum dtype t = gpu_type(s, 0);
	const int64_t each = 16 / gpu_size(t); /* elements of 16 bytes */
	const char *bad = gpu_gemm_job(s, f, g);

	if (bad)
		return bad;
	if (!gpu_group_has(s->device, t) ||
	    (t == DT_F32 && !(s->config && s->config->precision == PRECISION_TF32)))
		return "another device, or a type other than float16, bfloat16, TF32 and float8e4m3fn";
	if (gpu_out_type(s, 0) == FLOAT8 && site_in(s, 3))
		return "a matrix added to a result of float8e4m3fn";
	if (!gpu_one_batch(g))
		return "several matrices";
	if (g->m < LEAST || g->n < LEAST || g->k < LEAST_DEPTH || g->m > INT32_MAX ||
	    g->n > INT32_MAX || g->k > INT32_MAX)
		return "small or huge matrices";
	if (g->a_col != 1 || g->a_row < g->k || g->a_row % each || g->n % each)
		return "rows that are no multiples of 16 bytes";
	if (t == DT_F32 && !site_is_weight(s, 1))
		return "a second matrix that is to be rounded in each run";
	if (!(is_stored_turned(g) && g->b_col % each == 0) &&
	    !(site_is_weight(s, 1) && g->b_col == 1 && g->b_row == g->n && g->k % each == 0))
		return "a second matrix that is neither transposed nor a weight";
	if (site_in(s, 2) && (g->c_row || g->c_col != 1 || g->beta < 1 || g->beta > 1))
		return "an addend that is no row";
	if (!gpu_group_acts(g->act))
		return "an activation that these kernels do not have";
	return NULL;
}

static int launch(const struct call *c, const struct group_product *p,
		  struct gpu_group_product *job, const void *a, const void *b)
{
	const struct gpu_gemm *g = &p->of;

	return gpu_group_launch(c, p->fn, p->tile, p->type, job, a, g->a_row, b,
				is_stored_turned(g) ? g->b_col : g->k);
}

/* ---- which tile ------------------------------------------------------------------------------- */

/* The product on operands with arbitrary contents. */
struct trial {
	struct call call;
	const struct group_product *of;
	struct gpu_group_product job;
	const void *a;
	struct tune_weights b;
};

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	return launch(&t->call, t->of, &t->job, t->a, tune_weights_next(&t->b));
}

static bool place_trial_operands(const struct site *s, struct trial *t)
{
	const struct group_product *p = t->of;
	const struct gpu_gemm *g = &p->of;
	const int64_t size = gpu_size(p->type), b_row = is_stored_turned(g) ? g->b_col : g->k;
	const size_t a = cuda_aligned((size_t)(g->m * g->a_row * size)),
		     b = cuda_aligned((size_t)(g->n * b_row * size)),
		     y = cuda_aligned((size_t)(g->m * g->n * gpu_size(p->result))),
		     added = site_in(s, 3) ? y : 0, bias = cuda_aligned((size_t)(g->n * MAX_ADDED)),
		     factors = cuda_aligned(sizeof(float));
	char *at = tune_operands(s->device, &t->b, b, site_is_weight(s, 1),
				 a + y + added + bias + factors, 0);

	if (!at)
		return false;
	t->job = p->job;
	t->a = at;
	t->job.y = at + a;
	t->job.r = site_in(s, 3) ? at + a + y : NULL;
	t->job.bias = site_in(s, 2) ? at + a + y + added : NULL;
	t->job.s = p->type == FLOAT8 && site_in(s, FLOAT8_S)
			   ? (const float *)(at + a + y + added + bias)
			   : NULL;
	t->job.d = p->result == FLOAT8 ? (const float *)(at + a + y + added + bias) : NULL;
	return true;
}

static bool suits(const struct site *s, const struct group_product *p, int tile)
{
	return gpu_group_suits(s->device, tile, p->type, p->of.m, p->of.n, p->of.k);
}

/*
 * The tile whose rounds of blocks should take the least time, or LIBRARY if none suits. A round takes what it waits for memory and its cluster,
 * besides its products, which are counted in columns.
 */
static int guess_tile(const struct site *s, const struct group_product *p)
{
	enum { WAIT = 500, SHARE_WAIT = 20, SHARE_BLOCKS = 2 };
	const int64_t processors = cuda_facts(s->device)->processors,
		      steps = gpu_group_steps(p->type, p->of.k);
	int64_t least = INT64_MAX;
	int best = LIBRARY;

	for (int i = 0; i < GPU_GROUP_ALL_KINDS; i++) {
		const struct gpu_group_tile *t = &gpu_group_tiles[i];
		const int64_t blocks = gpu_group_blocks(i, p->of.m, p->of.n),
			      at_once = t->shares && blocks > processors ? SHARE_BLOCKS : 1,
			      rounds = (blocks + at_once * processors - 1) / (at_once * processors),
			      each = t->shares ? (steps + t->shares - 1) / t->shares : steps,
			      took = rounds * (WAIT + SHARE_WAIT * t->shares +
					       each * at_once * t->columns * t->rows / GPU_SHARE_ROWS);
		if (suits(s, p, i) && took < least) {
			least = took;
			best = i;
		}
	}
	return best;
}

/*
 * Returns the fastest tile, or LIBRARY if library_us are less: by 3 % where weights would have to be kept transposed besides. *least is 0 if
 * nothing could be tried.
 */
static int time_tiles(struct site *s, struct group_product *p, double library_us, double *least)
{
	static const struct step none;
	struct trial t = {.call = {.step = &none, .stream = cuda_stream(s->device)}, .of = p};
	double limit = is_stored_turned(&p->of) ? library_us : TUNE_FASTER * library_us;
	int best = LIBRARY;

	*least = 0;
	for (int i = 0; i < GPU_GROUP_ALL_KINDS && (i || place_trial_operands(s, &t)); i++) {
		if (!suits(s, p, i))
			continue;
		p->tile = i;
		p->fn = gpu_group_kernel(s, i, p->type, p->result);
		double us = p->fn ? tune_time(s->device, enqueue_trial, &t, limit) : -1;
		if (us > 0)
			*least = us < limit ? us : limit;
		if (us > 0 && us < limit) {
			limit = us;
			best = i;
		}
	}
	return best;
}

static int choose_tile(struct site *s, struct group_product *p, double library_us)
{
	const struct gpu_gemm *g = &p->of;
	int tile = LIBRARY;
	double us;

	if (library_us <= 0)
		return guess_tile(s, p);
	const char *key =
		arena_printf(s->plan_arena,
			     "infer group product 5 cublaslt%zu %s %s %" PRId64 " %" PRId64
			     " %" PRId64 " %" PRId64 " %" PRId64 " act%d%s%s",
			     cublaslt_version(), dtype_name(p->type), dtype_name(p->result), g->m,
			     g->n, g->k, g->a_row, is_stored_turned(g) ? g->b_col : g->k, g->act,
			     site_in(s, 2) ? " bias" : "", site_in(s, 3) ? " add" : "");
	const char *known = tune_get(s->device, key);
	if (known && sscanf(known, "%d", &tile) == 1 && tile >= LIBRARY &&
	    tile < GPU_GROUP_ALL_KINDS && (tile == LIBRARY || suits(s, p, tile)))
		return tile;
	if (!tune_may(s->device)) {
		tune_skipped(s->device);
		return LIBRARY;
	}
	tune_begin(s->device, "matrix products");
	tile = time_tiles(s, p, library_us, &us);
	tune_end(s->device);
	if (us > 0)
		tune_put(s->device, key, arena_printf(s->plan_arena, "%d %.2f", tile, us));
	return tile;
}

/* ---- plans and runs ---------------------------------------------------------------------------- */

struct rounding {
	void *fn;
	int64_t n;
};

static int round_weights(const struct call *c, void *dst, const void *src, const void *arg)
{
	const struct rounding *r = arg;

	return gpu_group_round(c, r->fn, src, dst, r->n);
}

/* Makes the form of the weights that the kernels read. Returns false if there is no memory for this copy; the library then reads the weights as they are. */
static bool pack_weights(struct site *s, struct step *step, struct group_product *p)
{
	struct rounding r = {.fn = p->type == DT_F32 ? gpu_group_rounder(s) : NULL};
	const uint64_t unread = step->unread;
	struct diag none = {0};

	if (p->type == DT_F32 && !r.fn)
		return false;
	if (!is_stored_turned(&p->of)) {
		p->b = gpu_turned_weights(s, step, 1, p->of.k, p->of.n, r.fn, &none);
	} else {
		const size_t bytes = site_known(s, 1)->bytes;

		r.n = (int64_t)(bytes / sizeof(float));
		step->unread |= 2;
		p->b = gpu_packed(s, 1, "rounded", bytes, round_weights, &r, &none);
	}
	diag_free(&none);
	if (!p->b)
		step->unread = unread;
	return p->b;
}

struct group_product *gpu_group_product(struct site *s, struct step *step,
					const struct fused_gemm *f, double library_us)
{
	struct gpu_gemm g = {0};

	if (describe(s, f, &g))
		return NULL;
	struct group_product *p = arena_new(s->plan_arena, struct group_product);
	*p = (struct group_product){.of = g, .type = gpu_type(s, 0), .result = gpu_out_type(s, 0)};
	p->job.m = g.m, p->job.n = g.n, p->job.k = g.k;
	p->job.b_is_weight = site_is_weight(s, 1);
	p->job.alpha = (float)g.alpha;
	p->job.act = g.act;
	p->job.act_alpha = (float)g.act_alpha, p->job.act_beta = (float)g.act_beta;
	int tile = choose_tile(s, p, library_us);
	if (tile == LIBRARY)
		return NULL;
	p->tile = tile;
	p->fn = gpu_group_kernel(s, tile, p->type, p->result);
	if (!p->fn)
		return NULL;
	if ((p->type == DT_F32 || !is_stored_turned(&g)) && !pack_weights(s, step, p))
		return NULL;
	if (site_in(s, 3))
		gpu_inplace(step, 0, 3);
	return p;
}

int gpu_group_product_run(const struct call *c, const struct group_product *p)
{
	struct gpu_group_product job = p->job;

	job.bias = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	if (p->type == FLOAT8) {
		job.s = gpu_data(c, FLOAT8_S);
		job.d = gpu_data(c, FLOAT8_D);
	}
	return launch(c, p, &job, gpu_data(c, 0), p->b ? p->b : gpu_data(c, 1));
}
