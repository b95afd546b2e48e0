/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_TFIDF_H
#define GPU_KERNELS_TFIDF_H
/* Parameters of TfIdfVectorizer for integers. C and CUDA both read this file. */
#include "jobs.h"

/*
 * An n-gram. N-grams are sorted by the output column that counts them: column c counts n-grams first[c] to first[c + 1]
 * - 1.
 */
struct gpu_gram {
	int64_t from; /* where the n elements of the n-gram begin in the pool */
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
