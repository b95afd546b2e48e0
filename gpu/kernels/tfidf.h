/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_TFIDF_H
#define GPU_KERNELS_TFIDF_H
/* Parameters of TfIdfVectorizer for integers. Read by C and by CUDA. */
#include "jobs.h"

/* n-grams, sorted by the output column that they count for: column c has grams first[c] to first[c + 1] - 1. */
struct gpu_gram {
	int64_t from; /* where its n elements begin in the pool */
	int32_t n;
	float weight;
};
struct gpu_tfidf {
	struct gpu_io io;
	const int64_t *first, *pool;
	const struct gpu_gram *gram;
	int64_t rows, columns, length, skips;
	int mode; /* GPU_TFIDF_... */
};

#endif
