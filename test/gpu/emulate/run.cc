/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels of gpu/kernels on the CPU, for the stand-in driver (test/gpu/fake/cuda.c, FAKE_CUDA_KERNELS).
 *
 * Blocks run one after the other, and so do the threads of a block: each until it waits for others, at a barrier or
 * for the lanes of its warp. It waits on a stack of its own; one that never waits leaves its stack to the next.
 * A barrier or a warp that waits for a thread that never comes is told, and the launch fails.
 *
 *   EMULATE_ORDER=reverse|SEED  blocks and threads in another order than the usual one
 *   EMULATE_GO_ON=1             what is told fails no launch, unless it cannot go on
 */
#include "cuda.h"
#include "run.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

/* All that is in .bss is kernels' shared memory, and is filled before a launch: what is here lies elsewhere. */
#define KEPT __attribute__((section(".data")))

enum {
	MOST = 1024,
	STACK = 1 << 18,
	ROOM = 232448,
	PARAMS = 4096,
	BARRIERS = 16,
	CLUSTER_BLOCKS = 8,
	CLUSTER_NUMBERS = 8192,
	LAUNCH_FAILED = 719,
	NO_KERNEL = 500
};

KEPT uint3 emulate_thread, emulate_block;
KEPT dim3 emulate_threads(1, 1, 1), emulate_blocks(1, 1, 1);
KEPT struct emulation emulation;

/* ---- stacks that are switched */

struct fiber {
#ifdef __x86_64__
	void *sp;
#else
	ucontext_t context;
#endif
	struct fiber *next; /* that are free */
	unsigned thread;
};

#ifdef __x86_64__
extern "C" void emulate_switch(void **from, void *to);
__asm__(".text\n"
	".type emulate_switch, @function\n"
	"emulate_switch:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
	"	ret\n"
	".size emulate_switch, . - emulate_switch\n");

static void prepare(struct fiber *f, char *stack, void (*start)(void))
{
	void **top = (void **)(stack + STACK) - 2;

	*top = (void *)start; /* where it returns to, so that the stack is aligned as after a call */
	f->sp = top - 6;
}
static void change(struct fiber *from, struct fiber *to)
{
	emulate_switch(&from->sp, to->sp);
}
#else
static void prepare(struct fiber *f, char *stack, void (*start)(void))
{
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = stack;
	f->context.uc_stack.ss_size = STACK;
	makecontext(&f->context, start, 0);
}
static void change(struct fiber *from, struct fiber *to)
{
	swapcontext(&from->context, &to->context);
}
#endif

/* ---- the block that runs */

struct fetch {
	void *to;
	const void *from;
	int there, group;
};
struct gathering { /* lanes of a warp */
	unsigned mask, arrived;
	const char *what;
	void *own[32];
};
struct warp {
	struct gathering v[32];
	unsigned n;
};
struct thread {
	struct fiber *fiber; /* while it waits */
	enum { UNBORN, RUNS, AT_BARRIER, IN_WARP, POLLS, DONE } state;
	struct fetch *fetch; /* under way, eldest first */
	int nfetch, cap, group;
	bool early; /* has still to wait for the launch before */
	unsigned step;
	uint3 at;
};

KEPT static struct {
	struct fiber main, pool[MOST], *idle;
	char *stacks;
	int used; /* of the pool */
	struct thread thread[MOST];
	struct warp warp[MOST / 32];
	unsigned threads, started, done;
	unsigned order[MOST];		      /* threads, as they are started and go on */
	unsigned ready[2 * MOST], head, tail; /* a ring of those that may go on */
	struct fiber *now;
	unsigned polling[MOST], npolling; /* threads that look at barriers in shared memory */
	unsigned looks; /* of all of them in a row, since such a barrier has changed */
	unsigned waiting; /* at the barrier */
	struct {
		unsigned n, at[MOST];
	} some[BARRIERS]; /* threads at barriers of some of the block's */
	const char *file; /* which */
	int line;
	void (*call)(void);
	void *kernel;
	char *room;
	bool early;				    /* the launch before may still be under way */
	bool over;				    /* the launch has failed: nobody goes on */
	float far[CLUSTER_BLOCKS][CLUSTER_NUMBERS]; /* written to other blocks of a cluster */
	unsigned arrivals;
	alignas(64) char params[PARAMS];
} b;

void emulate_report(const char *format, ...)
{
	va_list ap;

	if (emulation.failed++)
		return;
	va_start(ap, format);
	fprintf(stderr, "emulate: %s, block %u %u %u, thread %u %u %u: ", emulation.kernel,
		emulate_block.x, emulate_block.y, emulate_block.z, emulate_thread.x,
		emulate_thread.y, emulate_thread.z);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
}

/* A kernel takes one struct by value. Beyond 16 bytes the ABI has it on the stack, where a larger one may lie. */
template <size_t N> struct bytes {
	char v[N];
};
template <size_t N> static void call(void)
{
	((void (*)(struct bytes<N>))b.kernel)(*(const struct bytes<N> *)b.params);
}
template <> void call<16>(void)
{
	const uint64_t *p = (const uint64_t *)b.params;
	((void (*)(uint64_t, uint64_t))b.kernel)(p[0], p[1]);
}
static void (*caller(size_t n))(void)
{
	return n <= 16	   ? call<16>
	       : n <= 64   ? call<64>
	       : n <= 128  ? call<128>
	       : n <= 192  ? call<192>
	       : n <= 256  ? call<256>
	       : n <= 384  ? call<384>
	       : n <= 512  ? call<512>
	       : n <= 768  ? call<768>
	       : n <= 1024 ? call<1024>
	       : n <= 2048 ? call<2048>
			   : call<PARAMS>;
}

static void be(unsigned t)
{
	emulation.thread = t;
	emulate_thread = b.thread[t].at;
	emulation.early = b.thread[t].early;
	emulation.step = b.thread[t].step;
}

void emulate_waited()
{
	emulation.early = b.thread[emulation.thread].early = false;
}

static void fetched(struct thread *t, int left);

/* What every fiber does: threads that nobody has started yet, until one of those that wait may go on. */
static void work(void);

static struct fiber *idle_fiber(void)
{
	struct fiber *f = b.idle;

	if (f) {
		b.idle = f->next;
		return f;
	}
	f = &b.pool[b.used];
	prepare(f, b.stacks + (size_t)b.used++ * STACK, work);
	return f;
}

static void go(struct fiber *to)
{
	struct fiber *from = b.now;

	if (check_settle)
		check_settle();
	b.now = to;
	if (from != to)
		change(from, to);
}

static void may_go(unsigned t)
{
	b.ready[b.tail++ % (2 * MOST)] = t;
}

/* Lets those that poll look again where nobody else can go on. */
static void poll(void)
{
	if (b.head != b.tail || b.started < b.threads || b.looks > 1)
		return;
	b.looks++;
	for (unsigned i = 0; i < b.npolling; i++)
		may_go(b.polling[i]);
	b.npolling = 0;
}

/* Of a thread that waits: on with another one, or with the launch where there is none. */
static void leave(void)
{
	const unsigned t = emulation.thread;

	b.thread[t].fiber = b.now;
	poll();
	if (b.head != b.tail)
		go(b.thread[b.ready[b.head++ % (2 * MOST)]].fiber);
	else if (b.started < b.threads)
		go(idle_fiber());
	else
		go(&b.main);
	be(t);
	b.thread[t].state = thread::RUNS;
}

static void work(void)
{
	for (;;) {
		while (b.head == b.tail && b.started < b.threads) {
			const unsigned t = b.order[b.started++];
			be(t);
			b.thread[t].state = thread::RUNS;
			b.call();
			fetched(&b.thread[t], 0);
			b.thread[t].state = thread::DONE;
			b.done++;
		}
		b.now->next = b.idle;
		b.idle = b.now;
		poll();
		go(b.head != b.tail ? b.thread[b.ready[b.head++ % (2 * MOST)]].fiber : &b.main);
	}
}

/* ---- what threads wait for */

void emulate_barrier(const char *file, int line)
{
	if (b.waiting && (b.line != line || b.file != file))
		emulate_report("at the barrier of %s:%d, others are at that of %s:%d", file, line,
			       b.file, b.line);
	b.file = file, b.line = line;
	b.thread[emulation.thread].state = thread::AT_BARRIER;
	if (++b.waiting < b.threads) {
		leave();
		return;
	}
	b.waiting = 0;
	emulation.epoch++;
	for (unsigned i = 0; i < b.threads; i++)
		if (b.order[i] != emulation.thread)
			may_go(b.order[i]);
	b.thread[emulation.thread].state = thread::RUNS;
}

/* Who has passed it is taken to have passed a barrier of the whole block: so races of other threads are missed, but none is made up. */
void emulate_some(int which, int threads)
{
	if (which < 1 || which >= BARRIERS || threads < 1 || threads % 32 || (unsigned)threads > b.threads) {
		emulate_report("a barrier %d of %d threads", which, threads);
		return;
	}
	auto *s = &b.some[which];
	if (s->n + 1 < (unsigned)threads) {
		s->at[s->n++] = emulation.thread;
		b.thread[emulation.thread].state = thread::AT_BARRIER;
		leave();
		return;
	}
	emulation.epoch++;
	for (unsigned i = 0; i < s->n; i++)
		may_go(s->at[i]);
	s->n = 0;
}

struct round_state {
	int16_t arrivals, missing;
	int32_t bytes : 31;
	uint32_t parity : 1;
};

void emulate_round_set(uint64_t *barrier, int arrivals)
{
	*(struct round_state *)barrier = {(int16_t)arrivals, (int16_t)arrivals, 0, 0};
}

void emulate_round_come(uint64_t *barrier, int arrivals, int bytes)
{
	struct round_state *r = (struct round_state *)barrier;

	r->missing = (int16_t)(r->missing - arrivals);
	r->bytes += bytes;
	if (r->missing < 0)
		emulate_report("a barrier in shared memory has more arrivals than %d", r->arrivals);
	if (r->missing || r->bytes)
		return;
	r->missing = r->arrivals;
	r->parity ^= 1;
	b.looks = 0;
}

/* Others go on meanwhile. Where everyone only looks at barriers, they are stuck. */
void emulate_round_wait(uint64_t *barrier, int parity)
{
	while ((int)((const struct round_state *)barrier)->parity == parity) {
		b.polling[b.npolling++] = emulation.thread;
		b.thread[emulation.thread].state = thread::POLLS;
		leave();
	}
}

void emulate_read(const void *p, size_t n)
{
	if (check_read)
		check_read(p, n);
}

/* No memcpy(), which check.cc looks at. */
void emulate_copy(void *to, const void *from, size_t n)
{
	volatile char *y = (volatile char *)to;

	for (size_t i = 0; i < n; i++)
		y[i] = ((const char *)from)[i];
}

void emulate_warp(unsigned mask, void (*together)(void *const *own, unsigned mask), void *own,
		  const char *what)
{
	const unsigned t = emulation.thread, lane = t % 32;
	struct warp *w = &b.warp[t / 32];
	unsigned i = 0;

	if (!(mask >> lane & 1)) {
		emulate_report("%s with mask %08x, of which it is none", what, mask);
		return;
	}
	while (i < w->n && w->v[i].mask != mask)
		i++;
	struct gathering *g = &w->v[i];
	if (i == w->n)
		w->n++, g->mask = mask, g->arrived = 0, g->what = what;
	if (g->what != what)
		emulate_report("at %s, others of its warp are at %s", what, g->what);
	g->own[lane] = own;
	g->arrived |= 1u << lane;
	if (g->arrived != mask) {
		b.thread[t].state = thread::IN_WARP;
		leave();
		return;
	}
	together(g->own, mask);
	*g = w->v[--w->n];
	for (unsigned k = 0; k < b.threads; k++) /* in the order that was asked for */
		if (b.order[k] / 32 == t / 32 && b.order[k] != t && mask >> b.order[k] % 32 & 1)
			may_go(b.order[k]);
}

static void nothing(void *const *, unsigned)
{
}

void emulate_warp_barrier(void)
{
	emulate_warp(0xffffffffu, nothing, NULL, "__syncwarp");
	emulation.step = ++b.thread[emulation.thread].step;
}

void *emulate_room(void)
{
	return b.room;
}

void emulate_aligned(const void *p, const char *what)
{
	if ((uintptr_t)p % 16)
		emulate_report("%s of %p, which is no multiple of 16 bytes", what, p);
}

void emulate_stranger(int lane)
{
	emulate_report("a shuffle asks for the value of lane %d, which is not of its mask", lane);
}

void emulate_cluster_put(int i, int to, float v)
{
	if (i < 0 || i >= CLUSTER_NUMBERS || to < 0 || to >= CLUSTER_BLOCKS)
		emulate_report("writes number %d of block %d of a cluster", i, to);
	else
		b.far[to][i] = v;
}

float emulate_cluster_get(int i, int to)
{
	return b.far[to % CLUSTER_BLOCKS][i % CLUSTER_NUMBERS];
}

void emulate_cluster_arrive(void)
{
	b.arrivals += emulation.thread == 0;
}

unsigned emulate_cluster_arrivals(void)
{
	return b.arrivals;
}

uint64_t emulate_or(void *p, uint64_t v, size_t n)
{
	if (check_atomic)
		check_atomic(p, n);
	const uint64_t old = n == 4 ? *(uint32_t *)p : *(uint64_t *)p;
	if (n == 4)
		*(uint32_t *)p |= (uint32_t)v;
	else
		*(uint64_t *)p |= v;
	return old;
}

/* ---- copies under way */

static void fetched(struct thread *t, int left)
{
	int n = 0;

	while (n < t->nfetch && t->fetch[n].group < t->group - left) {
		const struct fetch *f = &t->fetch[n++];
		if (check_fetched)
			check_fetched(f->to);
		if (check_read && f->there)
			check_read(f->from, 16);
		if (check_write)
			check_write(f->to, 16);
		if (f->there)
			memcpy(f->to, f->from, 16);
		else
			memset(f->to, 0, 16);
	}
	t->nfetch -= n;
	for (int i = 0; n && i < t->nfetch; i++)
		t->fetch[i] = t->fetch[i + n];
}

void emulate_fetch(void *to, const void *from, int there)
{
	struct thread *t = &b.thread[emulation.thread];

	if (t->nfetch == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 16;
		t->fetch = (struct fetch *)realloc(t->fetch, (size_t)t->cap * sizeof(*t->fetch));
	}
	t->fetch[t->nfetch++] = (struct fetch){to, from, there, t->group};
	if (check_fetch)
		check_fetch(to, from, there);
}

void emulate_fetch_end(void)
{
	b.thread[emulation.thread].group++;
}

void emulate_fetch_wait(int left)
{
	fetched(&b.thread[emulation.thread], left);
}

/* ---- launches */

static void stuck(void)
{
	unsigned warps = 0, barrier = 0, polls = 0;
	const char *what = "";

	for (unsigned t = 0; t < b.threads; t++) {
		warps += b.thread[t].state == thread::IN_WARP;
		barrier += b.thread[t].state == thread::AT_BARRIER;
		polls += b.thread[t].state == thread::POLLS;
	}
	for (unsigned w = 0; w < (b.threads + 31) / 32; w++)
		if (b.warp[w].n)
			what = b.warp[w].v[0].what;
	emulate_report(
		"of %u threads %u have ended, %u wait at the barrier of %s:%d, %u for their warp (%s), %u at barriers in shared memory",
		b.threads, b.done, barrier, b.file ? b.file : "nowhere", b.line, warps, what, polls);
}

static void run_block(void)
{
	b.started = b.done = b.head = b.tail = b.waiting = b.npolling = b.looks = 0;
	b.idle = NULL;
	b.used = 0;
	for (int i = 0; i < BARRIERS; i++)
		b.some[i].n = 0;
	emulation.epoch = 0;
	for (unsigned t = 0; t < b.threads; t++) {
		b.thread[t].state = thread::UNBORN;
		b.thread[t].nfetch = b.thread[t].group = 0;
		b.thread[t].early = b.early;
		b.thread[t].step = 0;
	}
	for (unsigned w = 0; w < (b.threads + 31) / 32; w++)
		b.warp[w].n = 0;
	b.now = &b.main;
	emulation.kernels = true;
	go(idle_fiber());
	emulation.kernels = false;
	if (b.done < b.threads) {
		stuck();
		b.over = true;
	}
}

static uint64_t mixed(uint64_t v)
{
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ v >> 27) * 0x94d049bb133111ebull;
	return v ^ v >> 31;
}

/* Threads in the order wanted; returns by how much blocks are shifted, or -1: they go backwards. */
static int64_t arrange(uint64_t blocks)
{
	const char *order = getenv("EMULATE_ORDER");
	const bool back = order && !strcmp(order, "reverse");
	const uint64_t seed = order ? strtoull(order, NULL, 10) : 0;

	for (unsigned t = 0; t < b.threads; t++)
		b.order[t] = back ? b.threads - 1 - t : t;
	for (unsigned t = b.threads; seed && t > 1; t--) {
		const unsigned k = (unsigned)(mixed(seed * 4096 + t) % t), v = b.order[k];
		b.order[k] = b.order[t - 1];
		b.order[t - 1] = v;
	}
	/* blocks of a cluster one after the other */
	return back   ? -1
	       : seed ? (int64_t)(mixed(seed) % blocks / CLUSTER_BLOCKS * CLUSTER_BLOCKS)
		      : 0;
}

static bool ready(void)
{
	if (b.stacks)
		return true;
	void *p = mmap(NULL, (size_t)MOST * STACK, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	b.room = (char *)aligned_alloc(1024, 1024 + ROOM);
	if (p == MAP_FAILED || !b.room)
		return false;
	b.stacks = (char *)p;
	emulation.stacks = b.stacks, emulation.stacks_end = b.stacks + (size_t)MOST * STACK;
	emulation.params = b.params;
	return true;
}

extern "C" char __bss_start[] __attribute__((visibility("hidden"))),
	_end[] __attribute__((visibility("hidden")));

/* Shared memory is what nobody has written: NaN, in every type. */
static void fill(unsigned shared)
{
	memset(__bss_start, 0xff, (size_t)(_end - __bss_start));
	memset(b.room, 0xff, shared);
	memset(b.far, 0xff, sizeof(b.far));
	emulation.room = b.room, emulation.room_end = b.room + shared;
}

static int launch(const char *kernel, const unsigned *grid, const unsigned *block, unsigned shared,
		  const void *params, size_t nparams, int early);
static void memory(const void *p, size_t n, int what);

static void *self(void)
{
	KEPT static void *library;
	Dl_info info;

	if (!library && dladdr((void *)launch, &info))
		library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	return library;
}

static int has(const char *kernel)
{
	return dlsym(self(), kernel) != NULL;
}

static int run(const char *kernel, const unsigned *grid, const unsigned *block, unsigned shared,
	       const void *params, size_t nparams, int early)
{
	const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];

	b.kernel = dlsym(self(), kernel);
	b.threads = block[0] * block[1] * block[2];
	if (!b.kernel || !ready())
		return NO_KERNEL;
	if (!blocks || !b.threads || b.threads > MOST || shared > ROOM || nparams > PARAMS)
		return 1;
	memcpy(b.params, params, nparams);
	b.call = caller(nparams);
	b.over = false;
	b.arrivals = 0;
	b.early = early != 0;
	emulate_blocks = dim3(grid[0], grid[1], grid[2]);
	emulate_threads = dim3(block[0], block[1], block[2]);
	emulation.kernel = kernel;
	emulation.launch++;
	if (!early)
		emulation.whole = emulation.launch;
	emulation.failed = 0;
	for (unsigned t = 0; t < b.threads; t++)
		b.thread[t].at =
			make_uint3(t % block[0], t / block[0] % block[1], t / block[0] / block[1]);
	const int64_t shift = arrange(blocks);
	fill(shared);
	for (uint64_t k = 0; k < blocks && !b.over; k++) {
		const uint64_t at = shift < 0 ? blocks - 1 - k : (k + (uint64_t)shift) % blocks;
		emulation.block = at;
		emulate_block =
			make_uint3((unsigned)(at % grid[0]), (unsigned)(at / grid[0] % grid[1]),
				   (unsigned)(at / grid[0] / grid[1]));
		run_block();
	}
	return b.over || (emulation.failed && !getenv("EMULATE_GO_ON")) ? LAUNCH_FAILED : 0;
}

KEPT static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* that is at it */

static int launch(const char *kernel, const unsigned *grid, const unsigned *block, unsigned shared,
		  const void *params, size_t nparams, int early)
{
	pthread_mutex_lock(&one);
	const int r = run(kernel, grid, block, shared, params, nparams, early);
	pthread_mutex_unlock(&one);
	return r;
}

static void memory(const void *p, size_t n, int what)
{
	if (!check_memory)
		return;
	pthread_mutex_lock(&one);
	check_memory(p, n, what);
	pthread_mutex_unlock(&one);
}

/* The same struct is in test/gpu/fake/cuda.c. */
struct emulator {
	int (*has)(const char *kernel);
	int (*launch)(const char *kernel, const unsigned *grid, const unsigned *block,
		      unsigned shared, const void *params, size_t nparams, int early);
	void (*memory)(const void *p, size_t n, int what);
};
extern "C" __attribute__((visibility("default")))
const struct emulator emulator = {has, launch, memory};
