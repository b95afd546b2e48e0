/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_PAGED_H
#define GPU_KERNELS_PAGED_H
/* Parameters of the kernels of paged.cu, com.microsoft's PagedAttention. */
#include <stdint.h>

/* A block computes the attention of one head of one token; each thread has this many elements of the result at most. */
enum { GPU_PAGED_THREADS = 128, GPU_PAGED_ELEMENTS = 8 };

struct gpu_paged {
	const void *q, *k, *v;		/* v: null if the values are in the keys */
	int64_t q_step, k_step, v_step; /* elements of a token */
	void *k_cache, *v_cache;
	const int32_t *starts, *past, *table, *slots;
	const void *cos, *sin, *sink, *q_norm, *k_norm;
	const float *k_scale, *v_scale;
	void *y;
	int64_t *sequence; /* of each token; -1 if its indices are out of range */
	float *query;	   /* [tokens, heads, size] */
	int64_t tokens, batch, heads, kv_heads, size, vsize;
	int64_t blocks, block,
		table_step; /* blocks of the cache, positions of a block, blocks that a sequence may have */
	int64_t turned, offset, cos_rows;
	int64_t window; /* 0 if there is none */
	int cache_type, k_each, v_each, interleaved, causal, latent;
	float scale, softcap, epsilon;
	uint64_t *fault, who;
};

#endif
