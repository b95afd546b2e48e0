/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: every index once, nested calls, many callers, and the OpenMP contract. */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* libgomp's ABI, as libdnnl was compiled against it */
void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads);
void GOMP_parallel_end(void);
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
bool GOMP_loop_static_start(long begin, long end, long step, long chunk, long *first, long *last);
bool GOMP_loop_static_next(long *first, long *last);
void GOMP_loop_end_nowait(void);
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);

static int bad;

static void check(bool ok, const char *what)
{
	printf("%sok %s\n", ok ? "" : "not ", what);
	bad += !ok;
}

enum { N = 10007, TEAM = 4 };
static _Atomic int hits[N];

static bool all_once(int n)
{
	bool ok = true;
	for (int i = 0; i < n; i++) {
		ok &= hits[i] == 1;
		hits[i] = 0;
	}
	return ok;
}

static void touch(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)arg;
	if (thread < 0 || thread >= pool_threads())
		return;
	for (int64_t i = begin; i < end; i++)
		hits[i]++;
}

static void nest(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)thread;
	for (int64_t i = begin; i < end; i++)
		pool_for(1, 1, touch, arg);
	for (int64_t i = begin; i < end; i++)
		atomic_fetch_add(&hits[0], -1);
	for (int64_t i = begin; i < end; i++)
		hits[i + 1]++;
}

static void add(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)thread;
	for (int64_t i = begin; i < end; i++)
		atomic_fetch_add((_Atomic int64_t *)arg, i);
}

static void *pool_caller(void *arg)
{
	for (int k = 0; k < 200; k++)
		pool_for(100, 1, add, arg);
	return NULL;
}

static void loops(void)
{
	pool_for(N, 1, touch, NULL);
	check(all_once(N), "each index runs once");
	pool_for(3, 100, touch, NULL);
	check(all_once(3), "a short loop runs inline");
	pool_for(0, 1, touch, NULL);
	check(hits[0] == 0, "an empty loop runs nothing");
	bool ok = true;
	for (int k = 0; k < 2000; k++) {
		pool_for(TEAM, 1, touch, NULL);
		ok &= all_once(TEAM);
	}
	check(ok, "many short jobs in a row");
	pool_for(100, 1, nest, NULL);
	hits[0] = 1;
	check(all_once(101), "a loop inside a loop runs inline");
}

static void callers(void)
{
	pthread_t t[3];
	_Atomic int64_t sum = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, pool_caller, &sum);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	check(sum == 3 * 200 * 4950, "several threads call at once");
}

struct region {
	_Atomic int members, wrong, after;
	_Atomic int thread_seen[TEAM];
};

static void region_body(void *arg)
{
	struct region *r = arg;
	int n = omp_get_num_threads(), me = omp_get_thread_num();
	long first, last;
	r->members++;
	r->wrong += n != TEAM || me < 0 || me >= TEAM || !omp_in_parallel();
	if (me >= 0 && me < TEAM)
		r->thread_seen[me]++;
	for (int round = 0; round < 100; round++) {
		GOMP_barrier();
		r->after++;
		GOMP_barrier();
		r->wrong += r->after != (round + 1) * TEAM;
	}
	if (GOMP_loop_static_start(0, N, 1, 0, &first, &last))
		do
			for (long i = first; i < last; i++)
				hits[i]++;
		while (GOMP_loop_static_next(&first, &last));
	GOMP_loop_end_nowait();
	if (GOMP_loop_static_start(N - 1, -1, -1, 7, &first, &last))
		do
			for (long i = first; i > last; i--)
				hits[i] += 10;
		while (GOMP_loop_static_next(&first, &last));
	GOMP_loop_end_nowait();
}

static void openmp(void)
{
	struct region r = {0};
	check(omp_get_max_threads() == TEAM && omp_get_num_threads() == 1 && !omp_in_parallel(),
	      "outside of a team");
	for (int i = 0; i < 2; i++) {
		memset(&r, 0, sizeof(r));
		if (i) {
			GOMP_parallel(region_body, &r, TEAM, 0);
		} else {
			GOMP_parallel_start(region_body, &r, TEAM);
			region_body(&r);
			GOMP_parallel_end();
		}
		bool each = true;
		for (int k = 0; k < TEAM; k++)
			each &= r.thread_seen[k] == 1;
		check(r.members == TEAM && !r.wrong && each,
		      i ? "GOMP_parallel" : "GOMP_parallel_start and _end");
		bool ok = true;
		for (int k = 0; k < N; k++) {
			ok &= hits[k] == 11;
			hits[k] = 0;
		}
		check(ok, i ? "static loops, again" : "static loops");
	}
}

static void wakes(void)
{
	for (int i = 0; i < 3; i++) {
		usleep(20000); /* long enough for the workers to sleep */
		pool_for(N, 1, touch, NULL);
	}
	bool ok = true;
	for (int i = 0; i < N; i++) {
		ok &= hits[i] == 3;
		hits[i] = 0;
	}
	check(ok, "sleeping workers wake");
}

static _Noreturn void on_fault(int number)
{
	(void)number;
	_exit(7);
}

static void read_beyond(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)begin, (void)end;
	if (thread > 0)
		bad += *(volatile char *)arg;
	else
		usleep(1000); /* leaves pieces to the workers */
}

/* A fault in a worker must reach the program's handler: the kernel kills a thread that blocks the signal of its own fault. */
static void faults(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		int fd = memfd_create("shrinks", 0);
		void *p = ftruncate(fd, 4096) ? MAP_FAILED
					      : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		signal(SIGBUS, on_fault);
		if (p == MAP_FAILED || ftruncate(fd, 0))
			_exit(1);
		for (;;)
			pool_for(N, 1, read_beyond, p);
	}
	waitpid(child, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a fault in a worker is handled");
}

static _Atomic int owner[TEAM];

static void own(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)arg;
	for (int64_t i = begin; i < end; i++)
		owner[i] = thread;
}

/* Each share belongs to the thread of its number, whoever runs it. */
static void shares(void)
{
	bool same = true;

	for (int n = 1; n < 3 * TEAM; n++) {
		pool_shares(n, touch, NULL);
		same &= all_once(n);
	}
	pool_shares(N, touch, NULL);
	check(same && all_once(N), "shares, every index once");
	for (int turn = 0; turn < 50; turn++) {
		pool_shares(TEAM, own, NULL);
		for (int i = 0; i < TEAM; i++)
			same &= owner[i] == i ||
				!owner[i]; /* 0: threads did harm, so that the caller ran all */
	}
	check(same, "shares stay with their threads");
}

int main(void)
{
	pool_set_threads(TEAM);
	faults(); /* before the pool has workers, which a forked child would lack */
	loops();
	callers();
	openmp();
	wakes();
	shares();
	pool_set_threads(1);
	pool_for(N, 1, touch, NULL);
	check(all_once(N), "one thread");
	return bad != 0;
}
