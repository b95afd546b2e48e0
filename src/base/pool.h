/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_POOL_H
#define BASE_POOL_H
/*
 * The thread pool of the process. A waiting thread spins for a limited time and then sleeps on a futex; the limit
 * adapts to how long waits are. On a machine whose cores are busy with other work, where threads slow a loop down because
 * the system takes them off their cores, pool_for() does without them for a while. The pool also implements the GOMP and
 * omp functions that libdnnl imports, so that oneDNN uses the same threads.
 */
#include <stddef.h>
#include <stdint.h>

/*
 * The function that runs the piece begin..end-1 of a loop over 0..n-1. `thread` is from 0 to
 * pool_threads()-1.
 */
typedef void pool_fn(void *arg, int64_t begin, int64_t end, int thread);

/*
 * Sets the number of threads, including the caller; 0 means one thread per core of the affinity
 * mask. Call this function before the first plan is made, because plans allocate scratch memory for
 * each thread.
 */
void pool_set_threads(int threads);
int pool_threads(void);
int pool_cores(void); /* number of cores in the affinity mask */

/*
 * Returns the nanoseconds for which the threads of the pool, and those that wait for them, have spun so far. It is time on a core
 * without work.
 */
uint64_t pool_spun_ns(void);

/*
 * From now on at most `threads` threads work on a job that the calling thread starts; 0: all. oneDNN asks for the number when
 * it creates a primitive and relies on it when it runs one, so both need the same limit.
 */
void pool_limit(int threads);

/*
 * Splits 0..n-1 into pieces of at least `grain` iterations, runs the pieces on the pool, and
 * returns when all are done. The loop runs in the calling thread alone if n <= grain, if there is
 * only one thread, or inside another pool_for(). Each thread begins with pieces that follow one another, the first thread with the
 * first ones, and then takes what others have not begun. Only the first call allocates memory, for the
 * threads. Once cancel_requested() says so, pieces that have not begun are left out.
 */
void pool_for(int64_t n, int64_t grain, pool_fn *fn, void *arg);

/*
 * Like pool_for(), but cuts 0..n-1 into one share for each thread, and the same thread gets the same share each time. For
 * loops that run again and again over data that then stay in the caches of the threads' cores.
 */
void pool_shares(int64_t n, pool_fn *fn, void *arg);

/*
 * The floating-point exceptions that were raised since pool_clear_exceptions(), in the calling thread or in a part of a
 * job that another thread did: FE_INVALID, FE_OVERFLOW (fenv.h) or both. With INFER_OPENMP=system the
 * exceptions in libgomp's threads are not seen.
 */
void pool_clear_exceptions(void);
int pool_exceptions(void);

#endif
