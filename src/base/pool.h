/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_POOL_H
#define BASE_POOL_H
/*
 * The one thread pool. Workers spin for a bound, then sleep on a futex; the
 * bound halves on a time-out and grows on success. It also stands behind the
 * GOMP and omp symbols that libdnnl imports, so that oneDNN runs on it.
 */
#include <stddef.h>
#include <stdint.h>

/* fn(arg, begin, end) for a piece of 0..n; thread is 0..pool_threads()-1. */
typedef void pool_fn(void *arg, int64_t begin, int64_t end, int thread);

/*
 * Threads that take part, the caller included; 0: one per core allowed by the affinity mask. For the
 * whole process, and before the first plan is made: plans have scratch for as many.
 */
void pool_set_threads(int threads);
int pool_threads(void);

/*
 * Splits 0..n into pieces of at least `grain` and runs them on the pool; returns
 * when all are done. Runs inline where n <= grain, with one thread, or from
 * inside another pool_for. Allocates nothing after the first call.
 */
void pool_for(int64_t n, int64_t grain, pool_fn *fn, void *arg);

#endif
