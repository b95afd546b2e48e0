/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt without a GPU, built as libcublasLt.so.13: what is asked of it is a kernel of test/gpu/emulate/libraries.cu,
 * launched by the stand-in driver. It has one algorithm, which takes everything, and holds the caller to its promises:
 * pointers are aligned as the preference said.
 */
#include "library.h"

#include "../emulate/libraries.h"

#include <cublasLt.h>
#include <stdlib.h>

struct product { /* a cublasLtMatmulDesc_t */
	cublasComputeType_t compute;
	cublasOperation_t a, b;
	cublasLtEpilogue_t epilogue;
	const void *bias;
	const float *factor, *after;
};
struct layout { /* a cublasLtMatrixLayout_t */
	cudaDataType_t type;
	uint64_t rows, cols;
	int64_t ld, step;
	int32_t batch;
};
struct wish { /* a cublasLtMatmulPreference_t */
	uint32_t align[4];
};

LIBRARY_API size_t cublasLtGetVersion(void)
{
	return 130000;
}

LIBRARY_API const char *cublasLtGetStatusName(cublasStatus_t s)
{
	return s ? "CUBLAS_STATUS_FAKE" : "CUBLAS_STATUS_SUCCESS";
}

LIBRARY_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
	*h = malloc(1);
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
	free(h);
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d,
						    cublasComputeType_t compute, cudaDataType_t scale)
{
	struct product *p = calloc(1, sizeof(*p));

	(void)scale;
	p->compute = compute;
	p->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	*d = (cublasLtMatmulDesc_t)p;
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	free(d);
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
							  cublasLtMatmulDescAttributes_t name,
							  const void *v, size_t n)
{
	struct product *p = (struct product *)d;

	switch (name) {
	case CUBLASLT_MATMUL_DESC_TRANSA: memcpy(&p->a, v, n); break;
	case CUBLASLT_MATMUL_DESC_TRANSB: memcpy(&p->b, v, n); break;
	case CUBLASLT_MATMUL_DESC_EPILOGUE: memcpy(&p->epilogue, v, n); break;
	case CUBLASLT_MATMUL_DESC_BIAS_POINTER: memcpy(&p->bias, v, n); break;
	case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: memcpy(&p->factor, v, n); break;
	case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER: memcpy(&p->after, v, n); break;
	case CUBLASLT_MATMUL_DESC_FAST_ACCUM: break;
	default: return CUBLAS_STATUS_NOT_SUPPORTED;
	}
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type,
						      uint64_t rows, uint64_t cols, int64_t ld)
{
	struct layout *x = calloc(1, sizeof(*x));

	*x = (struct layout){type, rows, cols, ld, 0, 1};
	*l = (cublasLtMatrixLayout_t)x;
	return ld < (int64_t)rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	free(l);
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
							    cublasLtMatrixLayoutAttribute_t name,
							    const void *v, size_t n)
{
	struct layout *x = (struct layout *)l;

	if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
		memcpy(&x->batch, v, n);
	else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
		memcpy(&x->step, v, n);
	else
		return CUBLAS_STATUS_NOT_SUPPORTED;
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *w)
{
	struct wish *x = calloc(1, sizeof(*x));

	for (int i = 0; i < 4; i++)
		x->align[i] = 256; /* what NVIDIA's takes for granted */
	*w = (cublasLtMatmulPreference_t)x;
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t w)
{
	free(w);
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t w,
								cublasLtMatmulPreferenceAttributes_t name,
								const void *v, size_t n)
{
	static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};

	for (int i = 0; i < 4; i++)
		if (aligned[i] == name)
			memcpy(&((struct wish *)w)->align[i], v, n);
	return CUBLAS_STATUS_SUCCESS;
}

/* NVIDIA's multiplies float8 only if both operands run along k, in multiples of 16 bytes. */
static int takes_float8(const struct product *p, const struct layout *a, const struct layout *b)
{
	if (a->type != CUDA_R_8F_E4M3)
		return 1;
	return p->a == CUBLAS_OP_T && p->b == CUBLAS_OP_N && a->rows % 16 == 0 && a->ld % 16 == 0 &&
	       a->cols % 16 == 0 && b->ld % 16 == 0;
}

LIBRARY_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
	cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
	cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
	cublasLtMatmulPreference_t w, int most, cublasLtMatmulHeuristicResult_t *found, int *n)
{
	const struct wish *x = (const struct wish *)w;

	(void)h, (void)c, (void)y;
	*n = most > 0;
	if (!*n)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!takes_float8((const struct product *)d, (const struct layout *)a,
			  (const struct layout *)b))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	memset(found, 0, sizeof(*found));
	for (int i = 0; i < 4; i++) /* what was promised goes along with the algorithm */
		found->algo.data[i] = x->align[i];
	return CUBLAS_STATUS_SUCCESS;
}

LIBRARY_API cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
						   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
						   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
						   const cublasLtMatmulAlgo_t *algo,
						   cublasLtMatmulHeuristicResult_t *r)
{
	(void)h, (void)d, (void)a, (void)b, (void)c, (void)y;
	*r = (cublasLtMatmulHeuristicResult_t){.algo = *algo};
	return CUBLAS_STATUS_SUCCESS;
}

static int type_of(cudaDataType_t t)
{
	return t == CUDA_R_16F	  ? LIBRARY_F16
	       : t == CUDA_R_16BF ? LIBRARY_BF16
	       : t == CUDA_R_64F  ? LIBRARY_F64
	       : t == CUDA_R_8I	  ? LIBRARY_I8
	       : t == CUDA_R_32I  ? LIBRARY_I32
	       : t == CUDA_R_8F_E4M3 ? LIBRARY_F8
				  : LIBRARY_F32;
}

static int has_bias(cublasLtEpilogue_t e)
{
	return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS ||
	       e == CUBLASLT_EPILOGUE_GELU_BIAS;
}

static int act_of(cublasLtEpilogue_t e)
{
	return e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS	 ? LIBRARY_RELU
	       : e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS ? LIBRARY_GELU
										 : LIBRARY_PLAIN;
}

static double scale_of(cublasComputeType_t compute, const void *v)
{
	if (compute == CUBLAS_COMPUTE_64F)
		return *(const double *)v;
	return compute == CUBLAS_COMPUTE_32I ? (double)*(const int32_t *)v
					     : (double)*(const float *)v;
}

LIBRARY_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
					  const void *alpha, const void *A, cublasLtMatrixLayout_t la,
					  const void *B, cublasLtMatrixLayout_t lb, const void *beta,
					  const void *C, cublasLtMatrixLayout_t lc, void *D,
					  cublasLtMatrixLayout_t ld,
					  const cublasLtMatmulAlgo_t *algo, void *workspace,
					  size_t workspace_bytes, cudaStream_t stream)
{
	const struct product *p = (const struct product *)d;
	const struct layout *a = (const struct layout *)la, *b = (const struct layout *)lb,
			    *c = (const struct layout *)lc, *y = (const struct layout *)ld;
	const void *const given[4] = {A, B, C, D};

	(void)h, (void)workspace, (void)workspace_bytes;
	for (int i = 0; i < 4; i++)
		if (algo->data[i] && (uintptr_t)given[i] % algo->data[i]) {
			fprintf(stderr, "fake cuBLASLt: operand %c is not aligned to %u bytes\n",
				"ABCD"[i], (unsigned)algo -> data[i]);
			return CUBLAS_STATUS_INVALID_VALUE;
		}
	if (C == D && c->type != y->type) {
		fprintf(stderr, "fake cuBLASLt: C is D, but of another type\n");
		return CUBLAS_STATUS_INVALID_VALUE;
	}
	struct library_product job = {
		.a = A,
		.b = B,
		.c = C,
		.bias = has_bias(p->epilogue) ? p->bias : NULL,
		.d = D,
		.factor = p->factor,
		.after = y->type == CUDA_R_8F_E4M3 ? p->after : NULL,
		.type = type_of(a->type),
		.out = type_of(y->type),
		.side = type_of(c->type),
		.turn_a = p->a == CUBLAS_OP_T,
		.turn_b = p->b == CUBLAS_OP_T,
		.act = act_of(p->epilogue),
		.m = (int64_t)y->rows,
		.n = (int64_t)y->cols,
		.k = (int64_t)(p->a == CUBLAS_OP_T ? a->rows : a->cols),
		.lda = a->ld,
		.ldb = b->ld,
		.ldc = c->ld,
		.ldd = y->ld,
		.batch = y->batch,
		.step_a = a->step,
		.step_b = b->step,
		.step_c = c->step,
		.step_d = y->step,
		.alpha = scale_of(p->compute, alpha),
		.beta = scale_of(p->compute, beta),
	};
	return library_run("library_product", job.m * job.n * job.batch, &job, sizeof(job), stream)
		       ? CUBLAS_STATUS_EXECUTION_FAILED
		       : CUBLAS_STATUS_SUCCESS;
}
