/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of test/gpu/fake/cuda.c: memory of the device and pinned memory, both the host's. With FAKE_CUDA_GUARD each
 * allocation is a mapping between pages that nobody may touch; with FAKE_CUDA_HIDE the device's is closed to all
 * but the stand-in's own work.
 */
#ifndef FAKE_MEMORY_H
#define FAKE_MEMORY_H
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, UNIT = 16, TAIL = 0xA5, KEPT = 256, ANY_ALIGN = 256 };

struct block {
	char *p;
	size_t n;
	int pinned;
	unsigned long number; /* counts the allocations */
	char *base;	      /* of its mapping, NULL: malloc's; guards and all: */
	size_t mapped;
	struct block *next;
};

static struct block *blocks, *gone; /* gone: freed, their pages closed, newest first */
static size_t used;		    /* of the device */
static int opened;
static const char *working; /* the kernel that runs */

static long setting(const char *name, long otherwise)
{
	const char *s = getenv(name);
	return s ? strtol(s, NULL, 0) : otherwise;
}

static int guards(void)
{
	return getenv("FAKE_CUDA_GUARD") != NULL;
}

static int hides(void)
{
	return setting("FAKE_CUDA_HIDE", 0) != 0;
}

static int fill_byte(void)
{
	return (int)setting("FAKE_CUDA_FILL", 0) & 255;
}

/* Where n bytes at p lie: in one block, or NULL. */
static struct block *block_of(struct block *list, const void *p, size_t n)
{
	for (struct block *b = list; b; b = b->next)
		if ((const char *)p >= b->p && (const char *)p <= b->p + b->n &&
		    n <= (size_t)(b->p + b->n - (const char *)p) &&
		    (n || (const char *)p < b->p + b->n))
			return b;
	return NULL;
}

static __attribute__((noreturn)) void wrong(const char *what, const void *p, size_t n)
{
	fprintf(stderr, "fake CUDA: %s: %zu bytes at %p%s%s\n", what, n, p,
		working ? ", kernel " : "", working ? working : "");
	abort();
}

/* ---- who touched what: told before the program dies of it */

static struct sigaction before_us[2];

static void tell_block(const char *at, const struct block *b, const char *what)
{
	const char *page = (const char *)((uintptr_t)b->p & ~(uintptr_t)(PAGE - 1));

	if (!b->base || at < b->base || at >= b->base + b->mapped)
		return;
	fprintf(stderr, "fake CUDA: %s %s, ", working ? "a kernel touches" : "the host touches", what);
	if (at >= b->p + b->n)
		fprintf(stderr, "%zu bytes behind the end of %zu bytes\n",
			(size_t)(at - b->p - b->n), b->n);
	else if (at < page)
		fprintf(stderr, "%zu bytes before %zu bytes\n", (size_t)(b->p - at), b->n);
	else
		fprintf(stderr, "at %zd of %zu bytes\n", (ssize_t)(at - b->p), b->n);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)context;
	fflush(stdout);
	for (struct block *b = blocks; b; b = b->next)
		tell_block(info->si_addr, b, b->pinned ? "pinned memory" : "memory of the device");
	for (struct block *b = gone; b; b = b->next)
		tell_block(info->si_addr, b, "memory that was given back");
	if (working)
		fprintf(stderr, "fake CUDA: it is kernel %s\n", working);
	sigaction(signal, &before_us[signal == SIGBUS], NULL); /* the access comes again, now for good */
}

static void watch_faults(void)
{
	static int done;
	struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (done++)
		return;
	sigaction(SIGSEGV, &a, &before_us[0]);
	sigaction(SIGBUS, &a, &before_us[1]);
}

/* ---- opened while the stand-in works */

static size_t inside(const struct block *b)
{
	return b->mapped - 2 * PAGE;
}

static void protect(int how)
{
	for (struct block *b = blocks; b; b = b->next)
		if (b->base && !b->pinned)
			mprotect(b->base + PAGE, inside(b), how);
}

static void open_memory(void)
{
	if (!opened++ && hides())
		protect(PROT_READ | PROT_WRITE);
}

static void close_memory(void)
{
	if (!--opened && hides())
		protect(PROT_NONE);
}

/* ---- taking and giving back */

static size_t up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static int map_block(struct block *b, size_t n)
{
	size_t whole = up(n, UNIT), room = up(whole, PAGE);
	const char *guard = getenv("FAKE_CUDA_GUARD");

	watch_faults();
	b->mapped = room + 2 * PAGE;
	b->base =
		mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->base == MAP_FAILED || mprotect(b->base + PAGE, room, PROT_READ | PROT_WRITE))
		return 0;
	b->p = b->base + PAGE + (guard && !strcmp(guard, "before") ? 0 : room - whole);
	memset(b->base + PAGE, TAIL, room); /* what is not of it, on both sides */
	return 1;
}

/* FAKE_CUDA_REUSE: what was freed last is given out again, as the driver does with its pages. */
static struct {
	char *p;
	size_t room;
} reusable[2];

static int reuse(struct block *b, size_t n)
{
	size_t room = up(n, PAGE);

	if (!getenv("FAKE_CUDA_REUSE"))
		return !posix_memalign((void **)&b->p, ANY_ALIGN, n ? n : 1);
	if (reusable[b->pinned].p && reusable[b->pinned].room >= n) {
		b->p = reusable[b->pinned].p;
		reusable[b->pinned].p = NULL;
		return 1;
	}
	return !posix_memalign((void **)&b->p, PAGE, room ? room : PAGE);
}

static struct block *take(size_t n, int pinned)
{
	static unsigned long taken;
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->number = ++taken;
	b->n = n;
	b->pinned = pinned;
	if (guards() || (hides() && !pinned) ? !map_block(b, n) : !reuse(b, n)) {
		free(b);
		return NULL;
	}
	memset(b->p, fill_byte(), n);
	b->next = blocks;
	blocks = b;
	if (b->base && !pinned && hides() && !opened)
		mprotect(b->base + PAGE, inside(b), PROT_NONE);
	return b;
}

/* What lies between an allocation and its pages' ends must be as it was. */
static void check_edges(const struct block *b)
{
	const char *from = b->base + PAGE, *to = from + inside(b);

	for (const char *p = from; p < to; p++) {
		if (p == b->p)
			p = b->p + b->n;
		if (p < to && (unsigned char)*p != TAIL)
			wrong(p < b->p ? "written before an allocation"
				       : "written behind an allocation",
			      b->p, b->n);
	}
}

static void forget_oldest(void)
{
	struct block **last = &gone;
	int n = 0;

	for (; *last && (*last)->next; last = &(*last)->next)
		n++;
	if (n < KEPT)
		return;
	munmap((*last)->base, (*last)->mapped);
	free(*last);
	*last = NULL;
}

static void give(struct block *b)
{
	struct block **at = &blocks;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	if (!b->base) {
		memset(b->p, fill_byte(), b->n);
		if (getenv("FAKE_CUDA_REUSE")) {
			free(reusable[b->pinned].p);
			reusable[b->pinned].p = b->p;
			reusable[b->pinned].room = b->n;
		} else {
			free(b->p);
		}
		free(b);
		return;
	}
	mprotect(b->base + PAGE, inside(b), PROT_READ | PROT_WRITE);
	check_edges(b);
	madvise(b->base + PAGE, inside(b), MADV_DONTNEED);
	mprotect(b->base + PAGE, inside(b), PROT_NONE);
	b->next = gone;
	gone = b;
	forget_oldest();
}

#endif
