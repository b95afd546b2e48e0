/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our thread pool, and the OpenMP runtime that libdnnl sees.
 *
 * A team is the caller and workers 1..n-1. Each worker waits for its own ticket and claims its part of the job when
 * it sees the ticket. When the caller has done its own part, it claims and does the parts that no worker has begun
 * (because the worker still sleeps, or its core is busy), and waits for the others. This is safe for jobs with
 * barriers: the caller has passed all barriers of its own part, and then takes the worker's place
 * at the barriers of the part that it claimed.
 *
 * Each thread has a spin limit: it spins up to that time and then sleeps on a futex. The limit doubles after a wait
 * that was shorter than SPIN_MAX, and halves after a longer one. So a busy machine gets its cores back, and an idle
 * one needs no system calls.
 *
 * The cores belong to the whole process, so there is one pool and its state is static.
 */
#include "base/pool.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MAX_THREADS = 512,
	MAX_SHARES = 64,       /* if there are more threads, several have one share */
	CACHE_LINE = 64,       /* bytes */
	SPIN_MAX = 250 * 1000, /* ns */
	SPIN_MIN = 2 * 1000,
	/* pause instructions between two readings of the clock while a thread spins */
	SPINS_PER_CLOCK = 16,
	/* pieces of a pool_for() loop per thread, so that faster threads do more pieces */
	PIECES_PER_THREAD = 4,
	STACK_BYTES = 2 << 20,
	MAX_NEST = 8,
	/* a part that takes longer than this may have lost its core meanwhile (ns) */
	LONG_PART = 200 * 1000,
	/* threads do harm if a job takes this much longer with them than one thread would take (ns) */
	HARM = 20 * 1000,
	/* how long the caller does without threads after they did harm (ns) */
	ALONE_MIN = 4 * 1000 * 1000,
	ALONE_MAX = 1000 * 1000 * 1000,
	WATCHED = FE_INVALID | FE_OVERFLOW,
};

/* A futex word whose change threads wait for, and the number of threads that sleep on it. */
struct flag {
	_Alignas(CACHE_LINE) _Atomic uint32_t value;
	_Atomic uint32_t sleepers;
};

struct worker {
	struct flag ticket; /* number of the newest job that has a part for this worker */
	_Atomic uint32_t claimed; /* number of the newest job whose part was claimed, by the worker or the caller */
	_Atomic uint64_t spun; /* ns that the thread has spun in flag_wait() */
	pthread_t thread;
};

/* The job of a team: each of its threads calls fn with its number. */
struct job {
	void (*fn)(void *arg, int thread);
	void *arg;
	int threads;
};

static struct {
	pthread_mutex_t lock; /* held by the thread whose job runs */
	/* indexed by thread number; of entry 0, the caller's, only `spun` is used */
	struct worker worker[MAX_THREADS];
	int started;	     /* workers 1..started exist */
	_Atomic int threads; /* number of threads; 0 if not set yet */
	struct job job;
	/* parts of the job that are not done yet, the caller's own part not counted */
	struct flag pending;
	struct flag barrier;	      /* its value is the phase */
	_Atomic uint32_t arrived;     /* threads in the barrier */
	_Atomic int raised;	      /* floating-point exceptions in the parts that workers did */
	_Atomic bool preempted;	      /* a worker lost its core during its part of the job */
	_Atomic uint64_t alone_until; /* no worker is woken before this time */
	int64_t alone; /* ns that the last such time took, less the ns for which threads have been useful since */
	bool unwoken;	/* the workers that sleep were not woken for this job */
	uint64_t began; /* when the job began */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * A thread's place in a team. Teams can nest: the outermost team may have several threads, and
 * teams inside it have one thread.
 */
struct team_state {
	int thread, threads;
	/*
	 * The current OpenMP loop with a static schedule, and how many of its chunks this thread
	 * has taken.
	 */
	int64_t turn;
	int64_t begin, end, step, chunk;
};
typedef void omp_body(void *);
struct region { /* an OpenMP parallel region */
	omp_body *body;
	void *data;
};
static _Thread_local struct {
	struct team_state alone; /* used outside of any team */
	struct team_state team[MAX_NEST];
	struct region region;
	int depth;	/* number of nested teams that the thread is in */
	bool holds;	/* true if this thread holds pool.lock */
	int64_t spin;	/* spin limit of this thread in ns; 0 if not set yet */
	int worker;	/* this thread's place in pool.worker; 0 for all callers */
	int limit;	/* see pool_limit(); 0: none */
	bool long_part; /* this thread's last part of a job was long */
	long lost;	/* how often the system had taken a core from it when this was last asked */
} self = {.alone = {.threads = 1}};

/* ---- waiting -------------------------------------------------------------------------------- */

static void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static bool spin_while(struct flag *f, uint32_t value, uint64_t start, int64_t bound)
{
	for (unsigned k = 1;; k++) {
		if (atomic_load_explicit(&f->value, memory_order_acquire) != value)
			return true;
		spin_pause();
		if (k % SPINS_PER_CLOCK == 0 && (int64_t)(clock_ns() - start) > bound)
			return false;
	}
}

/* Waits until the flag's value differs from `value`. */
static void flag_wait(struct flag *f, uint32_t value)
{
	if (atomic_load_explicit(&f->value, memory_order_acquire) != value)
		return;
	uint64_t start = clock_ns();
	if (!self.spin)
		self.spin = SPIN_MAX;
	bool seen = spin_while(f, value, start, self.spin);
	int64_t spun = (int64_t)(clock_ns() - start);
	/* the system may have taken the core from the thread while it spun, which is no time of spinning */
	atomic_fetch_add_explicit(&pool.worker[self.worker].spun,
				  (uint64_t)(spun < self.spin ? spun : self.spin),
				  memory_order_relaxed);
	if (!seen) {
		atomic_fetch_add(&f->sleepers, 1);
		while (atomic_load(&f->value) == value)
			futex_wait(&f->value, value);
		atomic_fetch_sub(&f->sleepers, 1);
	}
	if ((int64_t)(clock_ns() - start) < SPIN_MAX)
		self.spin = self.spin * 2 > SPIN_MAX ? SPIN_MAX : self.spin * 2;
	else
		self.spin = self.spin / 2 < SPIN_MIN ? SPIN_MIN : self.spin / 2;
}

static void flag_wake(struct flag *f, int n)
{
	if (atomic_load(&f->sleepers))
		futex_wake(&f->value, n);
}

/* ---- the team ------------------------------------------------------------------------------- */

static struct team_state *team_now(void)
{
	if (!self.depth)
		return &self.alone;
	return &self.team[self.depth <= MAX_NEST ? self.depth - 1 : MAX_NEST - 1];
}

static void team_enter(int thread, int threads)
{
	if (self.depth++ < MAX_NEST)
		self.team[self.depth - 1] = (struct team_state){.thread = thread, .threads = threads};
}

static void team_leave(void)
{
	self.depth--;
}

/*
 * Claims the worker's part of job number `ticket`. Returns false if another thread has already
 * claimed it.
 */
static bool claim(struct worker *w, uint32_t ticket)
{
	uint32_t before = ticket - 1;
	return atomic_compare_exchange_strong(&w->claimed, &before, ticket);
}

static void part_done(void)
{
	if (atomic_fetch_sub(&pool.pending.value, 1) == 1)
		flag_wake(&pool.pending, 1);
}

/* Moves the thread's floating-point exceptions to pool.raised. They are sticky: a thread keeps them until it clears them. */
static void hand_over_exceptions(void)
{
	int raised = fetestexcept(WATCHED);
	if (raised) {
		atomic_fetch_or_explicit(&pool.raised, raised, memory_order_relaxed);
		feclearexcept(raised);
	}
}

/* How often the system took a core from this thread although it had work. */
static long cores_lost(void)
{
	struct rusage u;
	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nivcsw;
}

/*
 * Tells pool.preempted of a part that took so long because the system gave the thread's core to somebody else. Reading
 * the count costs a system call, so it is read only behind a long part, and before the next one. Thus a long part that follows
 * a short one may be told of a core that was lost between them, while the thread waited for work: the machine is as busy then.
 */
static uint64_t begin_part(void)
{
	if (self.long_part)
		self.lost = cores_lost();
	return clock_ns();
}

static void end_part(uint64_t began)
{
	self.long_part = clock_ns() - began >= LONG_PART;
	if (!self.long_part)
		return;
	long lost = cores_lost();
	if (lost != self.lost)
		atomic_store_explicit(&pool.preempted, true, memory_order_relaxed);
	self.lost = lost;
}

/*
 * Judges the job that ends now; the caller ended its own part at `own`. The threads did harm if one of them lost its
 * core and the job took longer than one thread would have taken for all parts. The caller then does all parts for a while,
 * which doubles if they harm again before they have been useful for as long.
 */
static void judge_job(uint64_t own, int threads)
{
	uint64_t now = clock_ns(), by_one = (own - pool.began) * (uint64_t)threads;

	if (pool.unwoken)
		return;
	if (now - pool.began > by_one + HARM &&
	    atomic_load_explicit(&pool.preempted, memory_order_relaxed)) {
		pool.alone = pool.alone < ALONE_MIN ? ALONE_MIN : 2 * pool.alone;
		pool.alone = pool.alone > ALONE_MAX ? ALONE_MAX : pool.alone;
		atomic_store_explicit(&pool.alone_until, now + (uint64_t)pool.alone,
				      memory_order_relaxed);
	} else if (now - pool.began < by_one - by_one / 4) {
		pool.alone -= (int64_t)(now - pool.began);
		pool.alone = pool.alone < 0 ? 0 : pool.alone;
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	int thread = (int)(w - pool.worker);
	uint32_t seen = 0;
	self.worker = thread;
	self.lost = cores_lost();
	for (;;) {
		flag_wait(&w->ticket, seen);
		seen = atomic_load(&w->ticket.value);
		if (!claim(w, seen))
			continue;
		/*
		 * pool.job does not change before this part is done, so it can be copied without a
		 * lock
		 */
		struct job job = pool.job;
		uint64_t began = begin_part();
		team_enter(thread, job.threads);
		job.fn(job.arg, thread);
		team_leave();
		hand_over_exceptions();
		end_part(began);
		part_done();
	}
	return NULL;
}

/*
 * Starts workers for a team of `threads` threads. Returns the size of the team, which is smaller if
 * a thread could not be created.
 */
static int start_workers(int threads)
{
	if (pool.started + 1 >= threads)
		return threads;
	while (pool.started + 1 < threads) {
		struct worker *w = &pool.worker[pool.started + 1];
		if (!thread_start(&w->thread, STACK_BYTES, worker_main, w))
			break;
		pthread_detach(w->thread);
		pool.started++;
		mem_note(MEM_HOST, MEM_CONTEXT, STACK_BYTES);
	}
	return pool.started + 1 < threads ? pool.started + 1 : threads;
}

static bool threads_harm(void)
{
	uint64_t until = atomic_load_explicit(&pool.alone_until, memory_order_relaxed);
	return until && clock_ns() < until;
}

/* Wakes the workers of the job that sleep. */
static void wake_workers(void)
{
	for (int i = 1; i < pool.job.threads; i++)
		flag_wake(&pool.worker[i].ticket, 1);
}

/*
 * Locks the pool and starts the workers of a team. The caller must then do the part of thread 0.
 * Returns the team's size.
 */
static int team_start(void (*fn)(void *, int), void *arg, int threads)
{
	pthread_mutex_lock(&pool.lock);
	self.holds = true;
	threads = start_workers(threads);
	pool.job = (struct job){.fn = fn, .arg = arg, .threads = threads};
	pool.began = clock_ns();
	atomic_store_explicit(&pool.preempted, false, memory_order_relaxed);
	atomic_store_explicit(&pool.pending.value, (uint32_t)threads - 1, memory_order_relaxed);
	for (int i = 1; i < threads; i++)
		atomic_fetch_add(&pool.worker[i].ticket.value, 1);
	pool.unwoken = threads_harm();
	if (!pool.unwoken)
		wake_workers();
	team_enter(0, threads);
	return threads;
}

/* Called by the thread that started the job: does the parts that no worker has begun. */
static void do_unclaimed(void)
{
	struct job job = pool.job;
	for (int i = 1; i < job.threads; i++) {
		struct worker *w = &pool.worker[i];
		uint32_t ticket = atomic_load_explicit(&w->ticket.value, memory_order_relaxed);
		if (!claim(w, ticket))
			continue;
		self.team[0] = (struct team_state){.thread = i, .threads = job.threads};
		job.fn(job.arg, i);
		part_done();
	}
}

static void team_end(void)
{
	uint32_t left;
	uint64_t own = clock_ns();
	do_unclaimed();
	while ((left = atomic_load_explicit(&pool.pending.value, memory_order_acquire)) != 0)
		flag_wait(&pool.pending, left);
	judge_job(own, pool.job.threads);
	team_leave();
	self.holds = false;
	pthread_mutex_unlock(&pool.lock);
}

static void team_barrier(void)
{
	uint32_t threads = (uint32_t)team_now()->threads;
	uint32_t phase = atomic_load(&pool.barrier.value);
	if (self.depth != 1 || threads == 1)
		return;
	/* wake sleeping workers: they must reach the barrier, and the caller could run their parts only after its own */
	if (self.holds && pool.unwoken) {
		wake_workers();
		pool.unwoken = false;
	}
	if (atomic_fetch_add(&pool.arrived, 1) + 1 == threads) {
		atomic_store(&pool.arrived, 0);
		atomic_fetch_add(&pool.barrier.value, 1);
		flag_wake(&pool.barrier, (int)threads);
	} else {
		flag_wait(&pool.barrier, phase);
	}
}

/* ---- pool.h --------------------------------------------------------------------------------- */

int pool_cores(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
	if (n < 1)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

void pool_set_threads(int threads)
{
	if (threads < 1)
		threads = pool_cores();
	atomic_store(&pool.threads, threads > MAX_THREADS ? MAX_THREADS : threads);
}

int pool_threads(void)
{
	int n = atomic_load_explicit(&pool.threads, memory_order_relaxed);
	if (n)
		return n;
	pool_set_threads(0);
	return atomic_load(&pool.threads);
}

uint64_t pool_spun_ns(void)
{
	uint64_t sum = 0;

	for (int i = 0; i <= pool.started; i++)
		sum += atomic_load_explicit(&pool.worker[i].spun, memory_order_relaxed);
	return sum;
}

void pool_limit(int threads)
{
	self.limit = threads;
}

/* The number of threads for a job that this thread starts. */
static int job_threads(void)
{
	int n = pool_threads();
	return self.limit && self.limit < n ? self.limit : n;
}

/* Pieces of a loop that a thread does first; the others do what is left of them. */
struct share {
	_Alignas(CACHE_LINE) _Atomic int64_t next;
	int64_t end;
};

struct loop {
	pool_fn *fn;
	void *arg;
	int64_t n;
	uint64_t cancel_at; /* cancel_moment() of the caller */
};
struct pieces {
	struct loop loop;
	int64_t size;
	int shares;
	struct share share[MAX_SHARES];
};

static void pieces_run(void *arg, int thread)
{
	struct pieces *p = arg;
	const struct loop *l = &p->loop;
	uint64_t before = cancel_at(l->cancel_at);

	for (int k = 0; k < p->shares; k++) {
		struct share *s = &p->share[(thread + k) % p->shares];
		for (;;) {
			int64_t at = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
			if (at >= s->end || cancel_requested())
				break;
			int64_t begin = at * p->size, left = l->n - begin;
			l->fn(l->arg, begin, begin + (left < p->size ? left : p->size), thread);
		}
	}
	cancel_at(before);
}

/*
 * A thread's pieces follow one another: from loop to loop it has the same part of tensors of one size, as oneDNN's threads have,
 * and finds it in its own cache.
 */
static void share_pieces(struct pieces *p, int64_t pieces, int threads)
{
	p->shares = threads < MAX_SHARES ? threads : MAX_SHARES;
	for (int i = 0; i < p->shares; i++) {
		atomic_init(&p->share[i].next, pieces * i / p->shares);
		p->share[i].end = pieces * (i + 1) / p->shares;
	}
}

void pool_for(int64_t n, int64_t grain, pool_fn *fn, void *arg)
{
	int threads = job_threads();
	if (n <= 0)
		return;
	if (grain < 1)
		grain = 1;
	if (n <= grain || threads == 1 || self.depth || threads_harm()) {
		fn(arg, 0, n, self.depth ? team_now()->thread : 0);
		return;
	}
	int64_t pieces = n / grain + (n % grain != 0);
	if (pieces < threads)
		threads = (int)pieces;
	if (pieces > (int64_t)threads * PIECES_PER_THREAD)
		pieces = (int64_t)threads * PIECES_PER_THREAD;
	struct pieces p;
	p.loop = (struct loop){.fn = fn, .arg = arg, .n = n, .cancel_at = cancel_moment()};
	p.size = n / pieces + (n % pieces != 0);
	share_pieces(&p, n / p.size + (n % p.size != 0), threads);
	team_start(pieces_run, &p, threads);
	pieces_run(&p, 0);
	team_end();
}

static void share_run(void *arg, int thread)
{
	const struct loop *l = arg;
	int64_t threads = team_now()->threads, each = l->n / threads, more = l->n % threads;
	int64_t begin = each * thread + (thread < more ? thread : more);
	uint64_t before = cancel_at(l->cancel_at);

	if (!cancel_requested())
		l->fn(l->arg, begin, begin + each + (thread < more), thread);
	cancel_at(before);
}

void pool_shares(int64_t n, pool_fn *fn, void *arg)
{
	int threads = job_threads();

	if (n <= 0)
		return;
	if (n < threads)
		threads = (int)n;
	if (threads == 1 || self.depth || threads_harm()) {
		fn(arg, 0, n, self.depth ? team_now()->thread : 0);
		return;
	}
	struct loop l = {.fn = fn, .arg = arg, .n = n, .cancel_at = cancel_moment()};
	team_start(share_run, &l, threads);
	share_run(&l, 0);
	team_end();
}

void pool_clear_exceptions(void)
{
	atomic_store_explicit(&pool.raised, 0, memory_order_relaxed);
	if (fetestexcept(WATCHED)) /* clearing is much slower than testing */
		feclearexcept(WATCHED);
}

int pool_exceptions(void)
{
	return fetestexcept(WATCHED) | atomic_load_explicit(&pool.raised, memory_order_relaxed);
}

/* ---- the OpenMP runtime of libdnnl ----------------------------------------------------------- */

/*
 * The program exports these functions, so that the dynamic linker binds libdnnl's calls to them and
 * not to libgomp. With INFER_OPENMP=system these functions pass each call on to libgomp, which is
 * loaded because libdnnl depends on it.
 */
#define EXPORT __attribute__((visibility("default"), used))

struct libgomp {
	void (*parallel)(omp_body *, void *, unsigned, unsigned);
	void (*parallel_start)(omp_body *, void *, unsigned);
	void (*parallel_end)(void);
	void (*barrier)(void);
	bool (*loop_static_start)(long, long, long, long, long *, long *);
	bool (*loop_static_next)(long *, long *);
	void (*loop_end)(void);
	void (*loop_end_nowait)(void);
	int (*get_max_threads)(void);
	int (*get_num_threads)(void);
	int (*get_thread_num)(void);
	int (*in_parallel)(void);
	void (*set_num_threads)(int);
};
static const char *const libgomp_names[] = {
	"GOMP_parallel",       "GOMP_parallel_start",	 "GOMP_parallel_end",
	"GOMP_barrier",	       "GOMP_loop_static_start", "GOMP_loop_static_next",
	"GOMP_loop_end",       "GOMP_loop_end_nowait",	 "omp_get_max_threads",
	"omp_get_num_threads", "omp_get_thread_num",	 "omp_in_parallel",
	"omp_set_num_threads",
};
static struct libgomp libgomp;
static bool use_libgomp;

static void libgomp_open(void)
{
	enum { N = sizeof(libgomp_names) / sizeof(libgomp_names[0]) };
	_Static_assert(sizeof(libgomp) == N * sizeof(void *), "one name a pointer");
	const char *choice = getenv("INFER_OPENMP");
	if (!choice || strcmp(choice, "system") != 0)
		return;
	void *lib = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return;
	void *found[N];
	for (int i = 0; i < N; i++)
		if (!(found[i] = dlsym(lib, libgomp_names[i])))
			return;
	memcpy(&libgomp, found, sizeof(libgomp));
	libgomp.set_num_threads(pool_threads());
	use_libgomp = true;
}

static bool pass_to_libgomp(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, libgomp_open);
	return use_libgomp;
}

static void region_run(void *arg, int thread)
{
	const struct region *r = arg;
	(void)thread;
	r->body(r->data);
}

EXPORT void GOMP_parallel_start(omp_body *body, void *data, unsigned threads);
EXPORT void GOMP_parallel_end(void);
EXPORT void GOMP_parallel(omp_body *body, void *data, unsigned threads, unsigned flags);
EXPORT void GOMP_barrier(void);
EXPORT bool GOMP_loop_static_start(long begin, long end, long step, long chunk, long *first,
				   long *last);
EXPORT bool GOMP_loop_static_next(long *first, long *last);
EXPORT void GOMP_loop_end(void);
EXPORT void GOMP_loop_end_nowait(void);
EXPORT int omp_get_max_threads(void);
EXPORT int omp_get_num_threads(void);
EXPORT int omp_get_thread_num(void);
EXPORT int omp_in_parallel(void);
EXPORT void omp_set_num_threads(int threads);

void GOMP_parallel_start(omp_body *body, void *data, unsigned threads)
{
	if (pass_to_libgomp()) {
		libgomp.parallel_start(body, data, threads);
		return;
	}
	if (threads == 0)
		threads = (unsigned)job_threads();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	if (self.depth || threads == 1) {
		team_enter(0, 1);
		return;
	}
	self.region = (struct region){body, data};
	team_start(region_run, &self.region, (int)threads);
}

void GOMP_parallel_end(void)
{
	if (pass_to_libgomp())
		libgomp.parallel_end();
	else if (self.depth == 1 && self.holds)
		team_end();
	else
		team_leave();
}

void GOMP_parallel(omp_body *body, void *data, unsigned threads, unsigned flags)
{
	if (pass_to_libgomp()) {
		libgomp.parallel(body, data, threads, flags);
		return;
	}
	GOMP_parallel_start(body, data, threads);
	body(data);
	GOMP_parallel_end();
}

void GOMP_barrier(void)
{
	if (pass_to_libgomp())
		libgomp.barrier();
	else
		team_barrier();
}

bool GOMP_loop_static_next(long *first, long *last)
{
	if (pass_to_libgomp())
		return libgomp.loop_static_next(first, last);
	struct team_state *t = team_now();
	int64_t trips = t->step > 0 ? (t->end - t->begin + t->step - 1) / t->step
				    : (t->begin - t->end - t->step - 1) / -t->step;
	int64_t from, to;
	if (trips <= 0)
		return false;
	if (t->chunk) {
		from = (t->turn * t->threads + t->thread) * t->chunk;
		to = from + t->chunk;
	} else {
		/* The first trips % threads threads do one iteration more than the others. */
		int64_t each = trips / t->threads, more = trips % t->threads, me = t->thread;
		if (t->turn)
			return false;
		from = each * me + (me < more ? me : more);
		to = from + each + (me < more);
	}
	t->turn++;
	if (to > trips)
		to = trips;
	if (from >= to)
		return false;
	*first = (long)(t->begin + from * t->step);
	*last = (long)(t->begin + to * t->step);
	return true;
}

bool GOMP_loop_static_start(long begin, long end, long step, long chunk, long *first, long *last)
{
	if (pass_to_libgomp())
		return libgomp.loop_static_start(begin, end, step, chunk, first, last);
	struct team_state *t = team_now();
	t->begin = begin;
	t->end = end;
	t->step = step;
	t->chunk = chunk;
	t->turn = 0;
	return GOMP_loop_static_next(first, last);
}

void GOMP_loop_end(void)
{
	if (pass_to_libgomp())
		libgomp.loop_end();
	else
		team_barrier();
}

void GOMP_loop_end_nowait(void)
{
	if (pass_to_libgomp())
		libgomp.loop_end_nowait();
}

int omp_get_max_threads(void)
{
	return pass_to_libgomp() ? libgomp.get_max_threads() : self.depth ? 1 : job_threads();
}

int omp_get_num_threads(void)
{
	return pass_to_libgomp() ? libgomp.get_num_threads() : team_now()->threads;
}

int omp_get_thread_num(void)
{
	return pass_to_libgomp() ? libgomp.get_thread_num() : team_now()->thread;
}

int omp_in_parallel(void)
{
	if (self.depth)
		/*
		 * a single thread inside pool_for() too, because code that runs in a piece must not
		 * lock the pool again
		 */
		return 1;
	return pass_to_libgomp() ? libgomp.in_parallel() : 0;
}

void omp_set_num_threads(int threads)
{
	if (pass_to_libgomp())
		libgomp.set_num_threads(threads);
	else
		pool_set_threads(threads);
}
