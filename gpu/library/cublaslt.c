/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library/cublaslt.h"

#include "gpu/driver/api.h"
#include "gpu/driver/tune.h"
#include "gpu/launch/util.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * LT_WORKSPACE: bytes of workspace that an algorithm may use; more makes no product faster on current GPUs. LT_OWN_ALIGN: alignment of
 * the workspace. LT_TRIED: number of algorithms that are timed.
 */
enum { LT_WORKSPACE = 32 << 20, LT_OWN_ALIGN = 256, LT_TRIED = 16 };

/* The algorithm chosen for a product. The device keeps it, because choosing takes longer than most products. */
struct choice {
	struct blaslt_job job;
	bool ok;
	const char *why;
	cublasLtMatmulAlgo_t algo;
	size_t workspace;
	double us; /* 0 if the product was not timed */
};
struct blaslt {
	struct device *device;
	const struct cublaslt_api *api;
	cublasLtHandle_t handle;
	struct arena arena;
	struct choice *choices;
	uint32_t n, cap;
};

/*
 * cuBLASLt is column-major and we are row-major. Therefore cuBLASLt's A is our b, its B is our a, and all matrices are
 * transposed.
 */
struct described {
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, r, y;
};
struct blaslt_product {
	const struct blaslt *lt;
	struct described d;
	struct blaslt_job job;
	cublasLtMatmulAlgo_t algo;
};

static void describe_free(const struct cublaslt_api *api, struct described *d)
{
	if (d->desc)
		api->p_cublasLtMatmulDescDestroy(d->desc);
	if (d->a)
		api->p_cublasLtMatrixLayoutDestroy(d->a);
	if (d->b)
		api->p_cublasLtMatrixLayoutDestroy(d->b);
	if (d->r)
		api->p_cublasLtMatrixLayoutDestroy(d->r);
	if (d->y)
		api->p_cublasLtMatrixLayoutDestroy(d->y);
	*d = (struct described){0};
}

static cudaDataType_t cuda_type(int32_t t)
{
	return t == DT_F16	  ? CUDA_R_16F
	       : t == DT_BF16	  ? CUDA_R_16BF
	       : t == DT_F64	  ? CUDA_R_64F
	       : t == DT_I8	  ? CUDA_R_8I
	       : t == DT_I32	  ? CUDA_R_32I
	       : t == DT_F8E4M3FN ? CUDA_R_8F_E4M3
				  : CUDA_R_32F;
}

/* The element types of y, and of r and bias. */
static int32_t result_type(const struct blaslt_job *j)
{
	return j->out ? j->out : j->type == DT_I8 ? DT_I32 : j->type;
}

static int32_t addend_type(const struct blaslt_job *j)
{
	return result_type(j) == DT_F8E4M3FN ? DT_F16 : result_type(j);
}

static cublasComputeType_t compute_type(const struct blaslt_job *j)
{
	if (j->type == DT_F64)
		return CUBLAS_COMPUTE_64F;
	if (j->type == DT_I8)
		return CUBLAS_COMPUTE_32I;
	return j->type == DT_F32 && j->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cublasLtEpilogue_t epilogue_of(const struct blaslt_job *j)
{
	if (j->act == BLASLT_RELU)
		return j->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
	if (j->act == BLASLT_GELU)
		return j->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
	return j->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/*
 * Describes a matrix of `rows` rows with `cols` elements, `ld` elements apart. For cuBLASLt, which is column-major, our
 * rows are columns.
 */
static cublasStatus_t describe_matrix(const struct cublaslt_api *api, cublasLtMatrixLayout_t *out,
				      cudaDataType_t t, int64_t rows, int64_t cols, int64_t ld,
				      int64_t batch, int64_t step)
{
	int32_t count = (int32_t)batch;
	cublasStatus_t r =
		api->p_cublasLtMatrixLayoutCreate(out, t, (uint64_t)cols, (uint64_t)rows, ld);

	if (!r && batch > 1)
		r = api->p_cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
							    &count, sizeof(count));
	if (!r && batch > 1)
		r = api->p_cublasLtMatrixLayoutSetAttribute(
			*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step));
	return r;
}

/*
 * Products of float8 are added up in the tensor core's own precision of some 14 bits, which is far more than float8 has,
 * and a tenth faster than moving each partial sum to a float.
 */
static cublasStatus_t describe_float8(const struct cublaslt_api *api, const struct blaslt_job *j,
				      cublasLtMatmulDesc_t to, const void *some)
{
	int8_t fast = 1;
	cublasStatus_t r = api->p_cublasLtMatmulDescSetAttribute(to, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
								 &fast, sizeof(fast));

	if (!r && j->scaled)
		r = api->p_cublasLtMatmulDescSetAttribute(to, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
							  &some, sizeof(some));
	if (!r && j->out == DT_F8E4M3FN)
		r = api->p_cublasLtMatmulDescSetAttribute(to, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
							  &some, sizeof(some));
	return r;
}

static cublasStatus_t describe_operation(const struct cublaslt_api *api, const struct blaslt_job *j,
					 cublasLtMatmulDesc_t *out)
{
	cublasOperation_t ta = j->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t tb = j->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasLtEpilogue_t e = epilogue_of(j);
	/* the heuristic needs a bias pointer that is aligned like the pointer in the run */
	const void *some = (const void *)(uintptr_t)BLASLT_ALIGN;
	cudaDataType_t scale = j->type == DT_F64  ? CUDA_R_64F
			       : j->type == DT_I8 ? CUDA_R_32I
						  : CUDA_R_32F;
	cublasStatus_t r = api->p_cublasLtMatmulDescCreate(out, compute_type(j), scale);

	if (!r)
		r = api->p_cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_TRANSA, &ta,
							  sizeof(ta));
	if (!r)
		r = api->p_cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_TRANSB, &tb,
							  sizeof(tb));
	if (!r && e != CUBLASLT_EPILOGUE_DEFAULT)
		r = api->p_cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_EPILOGUE, &e,
							  sizeof(e));
	if (!r && j->bias)
		r = api->p_cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
							  &some, sizeof(some));
	return !r && j->type == DT_F8E4M3FN ? describe_float8(api, j, *out, some) : r;
}

static cublasStatus_t describe(const struct cublaslt_api *api, const struct blaslt_job *j,
			       struct described *d)
{
	cudaDataType_t t = cuda_type(j->type), out = cuda_type(result_type(j));
	cublasStatus_t r = describe_operation(api, j, &d->desc);

	if (!r)
		r = describe_matrix(api, &d->a, t, j->trans_b ? j->n : j->k,
				    j->trans_b ? j->k : j->n, j->ldb, j->batch, j->step_b);
	if (!r)
		r = describe_matrix(api, &d->b, t, j->trans_a ? j->k : j->m,
				    j->trans_a ? j->m : j->k, j->lda, j->batch, j->step_a);
	if (!r)
		r = describe_matrix(api, &d->r, cuda_type(addend_type(j)), j->m, j->n,
				    j->residual ? j->ldr : j->ldy, j->batch,
				    j->residual ? j->step_r : j->step_y);
	if (!r)
		r = describe_matrix(api, &d->y, out, j->m, j->n, j->ldy, j->batch, j->step_y);
	if (r)
		describe_free(api, d);
	return r;
}

static cublasStatus_t make_preferences(const struct cublaslt_api *api, uint32_t align,
				       cublasLtMatmulPreference_t *out)
{
	static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
	uint64_t most = LT_WORKSPACE;
	cublasStatus_t r = api->p_cublasLtMatmulPreferenceCreate(out);

	if (!r)
		r = api->p_cublasLtMatmulPreferenceSetAttribute(
			*out, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most));
	for (size_t i = 0; i < sizeof(aligned) / sizeof(*aligned) && !r; i++)
		r = api->p_cublasLtMatmulPreferenceSetAttribute(*out, aligned[i], &align,
								sizeof(align));
	return r;
}

/* Asks cuBLASLt for algorithms, best first; returns their number. */
static int ask_heuristic(const struct blaslt *lt, const struct described *d, uint32_t align,
			 cublasLtMatmulHeuristicResult_t *found, int most, cublasStatus_t *status)
{
	cublasLtMatmulPreference_t pref = NULL;
	int n = 0, kept = 0;
	cublasStatus_t r = make_preferences(lt->api, align ? align : BLASLT_ALIGN, &pref);

	if (!r)
		r = lt->api->p_cublasLtMatmulAlgoGetHeuristic(lt->handle, d->desc, d->a, d->b, d->r,
							      d->y, pref, most, found, &n);
	for (int i = 0; i < n && !r; i++)
		if (!found[i].state)
			found[kept++] = found[i];
	if (pref)
		lt->api->p_cublasLtMatmulPreferenceDestroy(pref);
	*status = r || kept ? r : CUBLAS_STATUS_NOT_SUPPORTED;
	return kept;
}

/* ---- timing ---------------------------------------------------------------------------------- */

struct trial {
	const struct blaslt *lt;
	const struct blaslt_job *job;
	const struct described *d;
	const cublasLtMatmulHeuristicResult_t *with;
	struct tune_weights b;
	char *a, *bias, *r, *y, *factors, *workspace;
};

/* Tells the library where the factors of float8 are. */
static cublasStatus_t set_factors(const struct blaslt *lt, const struct described *d,
				  const struct blaslt_job *j, const struct blaslt_args *x)
{
	cublasStatus_t r = CUBLAS_STATUS_SUCCESS;

	if (j->scaled)
		r = lt->api->p_cublasLtMatmulDescSetAttribute(
			d->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &x->s, sizeof(x->s));
	if (!r && j->out == DT_F8E4M3FN)
		r = lt->api->p_cublasLtMatmulDescSetAttribute(
			d->desc, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, &x->d, sizeof(x->d));
	return r;
}

static cublasStatus_t launch_product(const struct blaslt *lt, const struct described *d,
				     const struct blaslt_job *j, const cublasLtMatmulAlgo_t *algo,
				     const struct blaslt_args *x)
{
	float alpha = (float)j->alpha, beta = j->residual ? (float)j->beta : 0;
	double alpha64 = j->alpha, beta64 = j->residual ? j->beta : 0;
	int32_t one = (int32_t)j->alpha, more = j->residual ? (int32_t)j->beta : 0;
	const void *by = &alpha, *add = &beta;
	/* without a residual C is not read, but it must not be y unless it has y's type */
	const void *c = j->residual ? x->r : addend_type(j) == result_type(j) ? x->y : x->a;
	cublasStatus_t r = set_factors(lt, d, j, x);

	if (x->scale > 0)
		alpha *= x->scale;
	if (j->type == DT_F64)
		by = &alpha64, add = &beta64;
	else if (j->type == DT_I8)
		by = &one, add = &more;
	if (!r && j->bias)
		r = lt->api->p_cublasLtMatmulDescSetAttribute(
			d->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &x->bias, sizeof(x->bias));
	if (r)
		return r;
	return lt->api->p_cublasLtMatmul(lt->handle, d->desc, by, x->b, d->a, x->a, d->b, add, c,
					 d->r, x->y, d->y, algo, x->workspace, x->workspace_bytes,
					 (cudaStream_t)cuda_stream_handle(cuda_stream(lt->device)));
}

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;
	const struct blaslt_args x = {.a = t->a,
				      .b = tune_weights_next(&t->b),
				      .bias = t->bias,
				      .r = t->r,
				      .y = t->y,
				      .workspace = t->workspace,
				      .workspace_bytes = LT_WORKSPACE,
				      .s = (const float *)t->factors,
				      .d = (const float *)t->factors};
	cublasStatus_t r = launch_product(t->lt, t->d, t->job, &t->with->algo, &x);

	return r ? library_failed(t->lt->device, "trying a product",
				  t->lt->api->p_cublasLtGetStatusName(r), d)
		 : 0;
}

/*
 * Returns the bytes of `batch` matrices with `rows` rows each. Matrices are `step` elements apart, rows `ld` elements.
 */
static size_t operand_bytes(int64_t rows, int64_t ld, int64_t batch, int64_t step, int64_t size)
{
	int64_t n = rows * ld + (batch > 1 ? (batch - 1) * step : 0);

	return cuda_aligned((size_t)(n * size));
}

static bool place_trial_operands(struct trial *t)
{
	const struct blaslt_job *j = t->job;
	int64_t size = gpu_size((enum dtype)j->type), out = gpu_size((enum dtype)result_type(j)),
		added = gpu_size((enum dtype)addend_type(j));
	size_t a = operand_bytes(j->trans_a ? j->k : j->m, j->lda, j->batch, j->step_a, size);
	size_t b = operand_bytes(j->trans_b ? j->n : j->k, j->ldb, j->batch, j->step_b, size);
	size_t y = operand_bytes(j->m, j->ldy, j->batch, j->step_y, out);
	size_t r = j->residual ? operand_bytes(j->m, j->ldr, j->batch, j->step_r, added) : 0;
	size_t bias = operand_bytes(1, j->n, 1, 0, added), factors = 256;
	char *p = tune_operands(t->lt->device, &t->b, b, j->b_is_weight && j->batch == 1,
				a + y + r + bias + factors, LT_WORKSPACE);

	if (!p)
		return false;
	t->a = p;
	t->y = p + a;
	t->r = t->y + y;
	t->bias = t->r + r;
	t->factors = t->bias + bias;
	t->workspace = t->factors + factors;
	return true;
}

/*
 * Whether the trial's algorithm passes NaN on through a Relu. Some take the larger of the sum and 0, which is 0 for NaN: those of cuBLASLt 13.1 for
 * TF32 do. NaN in the first stored row of A reaches the first row of y, all of it.
 */
static bool keeps_nan(struct trial *t)
{
	enum { ASKED = 256 };
	const struct blaslt_job *j = t->job;
	enum dtype out = (enum dtype)result_type(j);
	struct stream *s = cuda_stream(t->lt->device);
	size_t row = (size_t)((j->trans_a ? j->m : j->k) * gpu_size((enum dtype)j->type));
	size_t n = (size_t)(j->n < ASKED ? j->n : ASKED), bytes = n * (size_t)gpu_size(out);
	char *host = malloc(row > bytes ? row : bytes);

	if (!host)
		return false;
	memset(host, 0xff, row); /* NaN in all types that have an activation */
	bool kept = !cuda_copy(s, t->a, true, host, false, row, NULL) && !enqueue_trial(t, NULL) &&
		    !cuda_copy(s, host, false, t->y, true, bytes, NULL) && !cuda_wait(s, NULL);
	for (size_t i = 0; kept && i < n; i++)
		kept = isnan(elem_f64(out, host, (int64_t)i));
	free(host);
	return kept;
}

/*
 * Returns the index of the fastest of n algorithms, or -1 if all lose NaN. To replace cuBLASLt's first choice, an algorithm must be 3 %
 * faster, which is more than the noise of the timing.
 */
static int time_algorithms(const struct blaslt *lt, const struct blaslt_job *j,
			   const struct described *d, const cublasLtMatmulHeuristicResult_t *found,
			   int n, double *us)
{
	struct trial t = {.lt = lt, .job = j, .d = d};
	double first = 0;
	int best = j->act == BLASLT_RELU ? -1 : 0;

	tune_begin(lt->device, "matrix products");
	for (int i = 0; i < n && (i || place_trial_operands(&t)); i++) {
		t.with = &found[i];
		if (j->act == BLASLT_RELU && !keeps_nan(&t))
			continue;
		double took = tune_time(lt->device, enqueue_trial, &t, *us);
		if (took <= 0)
			continue;
		if (first <= 0)
			first = took;
		if (*us <= 0 || (took < *us && took < TUNE_FASTER * first)) {
			*us = took;
			best = i;
		}
	}
	tune_end(lt->device);
	return best;
}

/* ---- choices --------------------------------------------------------------------------------- */

static const char *key_of(const struct blaslt *lt, const struct blaslt_job *j, struct arena *a)
{
	const int64_t n[] = {j->m,   j->n,     j->k,	  j->lda,    j->ldb,	j->ldr,
			     j->ldy, j->batch, j->step_a, j->step_b, j->step_r, j->step_y};
	const char *text = arena_printf(
		a, "cublaslt%zu 3 %s%s %d%d%d%d%d%s%s", lt->api->p_cublasLtGetVersion(),
		dtype_name((enum dtype)j->type), j->tf32 ? "t" : "", j->trans_a, j->trans_b,
		j->bias, j->residual, j->act, j->b_is_weight ? " weight" : "",
		j->act == BLASLT_RELU ? " NaN" : ""); /* older caches hold some that lose it */

	for (size_t i = 0; i < sizeof(n) / sizeof(*n); i++)
		text = arena_printf(a, "%s %" PRId64, text, n[i]);
	if (j->align)
		text = arena_printf(a, "%s align%d", text, j->align);
	if (j->out)
		text = arena_printf(a, "%s %s%s", text, dtype_name((enum dtype)j->out),
				    j->scaled ? "s" : "");
	return text;
}

/*
 * Reads "3.10 33554432 HEX": microseconds, bytes of workspace, and the bytes with which cuBLASLt describes the
 * algorithm.
 */
static bool read_cache(const struct blaslt *lt, const struct described *d, const char *key,
		       struct choice *c)
{
	const char *value = tune_get(lt->device, key);
	cublasLtMatmulHeuristicResult_t r = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
	unsigned char *to = (unsigned char *)&c->algo;
	int at = 0;

	if (!value || sscanf(value, "%lf %zu %n", &c->us, &c->workspace, &at) != 2 || !at ||
	    strlen(value + at) != 2 * sizeof(c->algo))
		return false;
	for (size_t i = 0; i < sizeof(c->algo); i++) {
		unsigned byte;
		if (sscanf(value + at + 2 * i, "%2x", &byte) != 1)
			return false;
		to[i] = (unsigned char)byte;
	}
	/* The cached bytes may be from another build of cuBLASLt, so ask it whether it knows the algorithm. */
	return !lt->api->p_cublasLtMatmulAlgoCheck(lt->handle, d->desc, d->a, d->b, d->r, d->y,
						   &c->algo, &r) &&
	       !r.state && r.workspaceSize <= LT_WORKSPACE && (c->workspace = r.workspaceSize, true);
}

static void write_cache(const struct blaslt *lt, const char *key, const struct choice *c,
			struct arena *a)
{
	const unsigned char *from = (const unsigned char *)&c->algo;
	char hex[2 * sizeof(c->algo) + 1] = "";

	for (size_t i = 0; i < sizeof(c->algo); i++)
		snprintf(hex + 2 * i, 3, "%02x", from[i]);
	tune_put(lt->device, key, arena_printf(a, "%.2f %zu %s", c->us, c->workspace, hex));
}

/*
 * Sets algorithm and workspace from the cache, by timing, or from cuBLASLt's first proposal. An algorithm for a Relu that cannot be tried is none, for it
 * may lose NaN.
 */
static cublasStatus_t choose_algorithm(const struct blaslt *lt, const struct blaslt_job *j,
				       struct choice *c)
{
	cublasLtMatmulHeuristicResult_t found[LT_TRIED];
	struct described d = {0};
	struct arena scratch = {0};
	cublasStatus_t r = describe(lt->api, j, &d);
	const char *key = key_of(lt, j, &scratch);

	if (!r && !read_cache(lt, &d, key, c)) {
		bool may = tune_may(lt->device);
		int n = ask_heuristic(lt, &d, (uint32_t)j->align, found, may ? LT_TRIED : 1, &r),
		    best = 0;
		c->us = 0;
		if (!r && may)
			best = time_algorithms(lt, j, &d, found, n, &c->us);
		else if (!r)
			tune_skipped(lt->device);
		if (!r && (best < 0 || (j->act == BLASLT_RELU && !may)))
			r = CUBLAS_STATUS_NOT_SUPPORTED;
		if (!r) {
			c->algo = found[best].algo;
			c->workspace = found[best].workspaceSize;
		}
		if (!r && c->us > 0)
			write_cache(lt, key, c, &scratch);
	}
	describe_free(lt->api, &d);
	arena_free(&scratch);
	return r;
}

static struct choice *find_choice(struct blaslt *lt, const struct blaslt_job *j)
{
	for (uint32_t i = 0; i < lt->n; i++)
		if (!memcmp(&lt->choices[i].job, j, sizeof(*j)))
			return &lt->choices[i];
	return NULL;
}

static struct choice *get_choice(struct blaslt *lt, const struct blaslt_job *j)
{
	struct choice *c = find_choice(lt, j);

	if (c)
		return c;
	if (lt->n == lt->cap) {
		lt->cap = lt->cap ? 2 * lt->cap : 64;
		lt->choices = arena_grow(&lt->arena, lt->choices, lt->n, lt->cap, sizeof(*c));
	}
	c = &lt->choices[lt->n++];
	*c = (struct choice){.job = *j};
	cublasStatus_t r = choose_algorithm(lt, j, c);
	c->ok = !r;
	c->why = r ? arena_printf(&lt->arena, "cuBLASLt has no algorithm for it (%s)",
				  lt->api->p_cublasLtGetStatusName(r))
		   : NULL;
	return c;
}

static void lt_close(struct device *dev, void *state)
{
	struct blaslt *lt = state;
	struct arena a = lt->arena;

	if (!cuda_lost(dev))
		lt->api->p_cublasLtDestroy(lt->handle);
	arena_free(&a);
}

/*
 * Returns cuBLASLt's state for the device, created when it is first used. The caller must have entered the device's
 * context.
 */
static struct blaslt *lt_of(struct device *dev, struct diag *d)
{
	struct blaslt *lt = gpu_slot(dev, GPU_CUBLASLT);
	const struct cublaslt_api *api = lt ? lt->api : cublaslt_api(d);
	struct arena a = {0};
	cublasLtHandle_t handle = NULL;

	if (lt || !api)
		return lt;
	uint64_t before = gpu_unused(dev);
	cublasStatus_t r = api->p_cublasLtCreate(&handle);
	if (r) {
		library_failed(dev, "starting cuBLASLt", api->p_cublasLtGetStatusName(r), d);
		return NULL;
	}
	gpu_note_taken(dev, before, MEM_LIBRARIES);
	lt = arena_new(&a, struct blaslt);
	*lt = (struct blaslt){.device = dev, .api = api, .handle = handle, .arena = a};
	gpu_slot_set(dev, GPU_CUBLASLT, lt, lt_close);
	return lt;
}

static bool sizes_fit(const struct blaslt_job *j)
{
	return j->m > 0 && j->n > 0 && j->k > 0 && j->batch > 0 && j->m <= INT32_MAX &&
	       j->n <= INT32_MAX && j->k <= INT32_MAX && j->batch <= INT32_MAX;
}

/* Enters the device's context and chooses an algorithm. Returns NULL and sets *why on failure. */
static struct choice *choose_in_context(const struct site *s, const struct blaslt_job *j,
					struct blaslt **lt, struct why *why)
{
	struct diag d = {0};
	struct choice *c = NULL;
	bool pushed;

	if (!sizes_fit(j)) {
		refuse(why, "an empty product, or sizes of 2^31 or more");
		return NULL;
	}
	if (!cuda_enter(s->device, &pushed, &d)) {
		*lt = lt_of(s->device, &d);
		c = *lt ? get_choice(*lt, j) : NULL;
		cuda_leave(s->device, pushed);
	}
	if (!c)
		refuse(why, "%s", d.first && d.first->message ? d.first->message : "no cuBLASLt");
	else if (!c->ok)
		refuse(why, "%s", c->why);
	diag_free(&d);
	return c && c->ok ? c : NULL;
}

bool blaslt_takes(const struct site *s, const struct blaslt_job *j, struct why *why)
{
	struct blaslt *lt;

	return choose_in_context(s, j, &lt, why) != NULL;
}

double blaslt_us(const struct site *s, const struct blaslt_job *j)
{
	struct blaslt *lt;
	const struct choice *c = choose_in_context(s, j, &lt, NULL);

	return c ? c->us : 0;
}

struct blaslt_product *blaslt_product(const struct site *s, const struct blaslt_job *j,
				      size_t *workspace, struct diag *d)
{
	struct blaslt *lt = NULL;
	struct why why = {.arena = &d->arena};
	const struct choice *c = choose_in_context(s, j, &lt, &why);

	if (!c) {
		FAIL(d, E_LIBRARY, .message = why.text ? why.text : "cuBLASLt refused a product");
		return NULL;
	}
	struct blaslt_product *p = arena_new(s->plan_arena, struct blaslt_product);
	*p = (struct blaslt_product){.lt = lt, .job = *j, .algo = c->algo};
	/* cuBLASLt needs a workspace that is more aligned than the workspaces of steps */
	*workspace = c->workspace ? c->workspace + LT_OWN_ALIGN : 0;
	cublasStatus_t r = describe(lt->api, j, &p->d);
	if (!r)
		return p;
	library_failed(s->device, "describing a product to cuBLASLt",
		       lt->api->p_cublasLtGetStatusName(r), d);
	return NULL;
}

void blaslt_drop(struct blaslt_product *p)
{
	if (p)
		describe_free(p->lt->api, &p->d);
}

int blaslt_run(const struct call *c, const struct blaslt_product *p, const struct blaslt_args *x)
{
	struct device *dev = cuda_device(c->stream);
	bool pushed;
	int err = cuda_queue_directly(c->stream);

	err = err ? err : cuda_enter(dev, &pushed, c->diag);
	if (err)
		return err;
	struct blaslt_args own = *x;
	size_t skip = -(uintptr_t)x->workspace % LT_OWN_ALIGN;
	bool any = x->workspace_bytes > skip;
	own.workspace = any ? (char *)x->workspace + skip : NULL;
	own.workspace_bytes = any ? x->workspace_bytes - skip : 0;
	cublasStatus_t r = launch_product(p->lt, &p->d, &p->job, &p->algo, &own);
	if (r)
		err = library_failed(dev, "a product by cuBLASLt",
				     p->lt->api->p_cublasLtGetStatusName(r), c->diag);
	cuda_leave(dev, pushed);
	return err;
}
