/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include "base/asan.h"
#include "base/diag.h"
#include "base/proc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	HEAD_BYTES = 64
}; /* bytes before each block, which hold its size and purpose and keep the 64-byte alignment */

struct head {
	size_t bytes;
	enum mem_purpose purpose;
};

static struct {
	_Atomic uint64_t calls, live, peak;
} counts[MEM_KINDS][MEM_PURPOSES];

void mem_note(enum mem_kind kind, enum mem_purpose purpose, int64_t bytes)
{
	uint64_t now =
		atomic_fetch_add(&counts[kind][purpose].live, (uint64_t)bytes) + (uint64_t)bytes;

	if (bytes <= 0)
		return;
	atomic_fetch_add(&counts[kind][purpose].calls, 1);
	uint64_t peak = atomic_load(&counts[kind][purpose].peak);
	while (now > peak && !atomic_compare_exchange_weak(&counts[kind][purpose].peak, &peak, now))
		;
}

/*
 * Whether the machine has this memory. Linux grants memory that it does not have and later kills the process that
 * touches it, which could then not say why it ended. A look takes some 50 us, so there is one for each CHECK_BYTES.
 */
static const uint64_t CHECK_BYTES = 64 << 20;

static bool machine_has(size_t bytes)
{
	static _Atomic uint64_t unchecked;

	if (atomic_fetch_add(&unchecked, bytes) + bytes < CHECK_BYTES)
		return true;
	atomic_store(&unchecked, 0);
	uint64_t left = proc_available();
	return !left || (left > CHECK_BYTES && bytes <= left - CHECK_BYTES);
}

enum { HUGE_PAGE = 2 << 20 };

/*
 * Values between steps lie in huge pages, as weights do: convolution networks of some MB take 3 to 7 % less time with one thread of a
 * Xeon, as fewer addresses have to be translated and which lines share the sets of a cache is not left to chance.
 */
static bool uses_huge_pages(size_t bytes, enum mem_purpose purpose)
{
	return bytes >= HUGE_PAGE && (purpose == MEM_ACTIVATIONS || purpose == MEM_WORKSPACE);
}

void *mem_alloc(size_t bytes, enum mem_purpose purpose)
{
	size_t whole;
	void *block = NULL;

	if (!size_add(bytes, HEAD_BYTES + 63, &whole))
		return NULL;
	whole &= ~(size_t)63;
	bool huge = uses_huge_pages(whole, purpose);
	if (!machine_has(whole) || posix_memalign(&block, huge ? HUGE_PAGE : 64, whole))
		return NULL;
	char *p = block;
	if (huge)
		madvise(p, whole / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
	*(struct head *)(void *)p = (struct head){bytes, purpose};
	mem_note(MEM_HOST, purpose, (int64_t)bytes);
	/* the head, and what rounding the size up has added, belong to nobody */
	asan_poison(p, whole);
	asan_unpoison(p + HEAD_BYTES, bytes);
	return p + HEAD_BYTES;
}

void *mem_zalloc(size_t bytes, enum mem_purpose purpose)
{
	void *p = mem_alloc(bytes, purpose);

	if (p)
		memset(p, 0, bytes);
	return p;
}

void mem_free(void *p)
{
	if (!p)
		return;
	char *block = (char *)p - HEAD_BYTES;
	struct head *h = (struct head *)(void *)block;
	asan_unpoison(block, HEAD_BYTES);
	mem_note(MEM_HOST, h->purpose, -(int64_t)h->bytes);
	free(block);
}

void mem_keep_freed(void)
{
	enum { KEPT_BYTES = 16 << 20 };

	/* larger blocks are mapped each by itself, and unmapped when they are freed */
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

void mem_move(void *to, void *from, size_t n)
{
	enum { STEP = 1 << 20 };
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	char *p = from, *q = to;

	for (size_t at = 0, part; at < n; at += part) {
		part = n - at < STEP ? n - at : STEP;
		memcpy(q + at, p + at, part);
		uintptr_t first = ((uintptr_t)p + at + page - 1) / page * page,
			  end = ((uintptr_t)p + at + part) / page * page;
		if (end > first)
			madvise(p + (first - (uintptr_t)p), end - first, MADV_DONTNEED);
	}
	mem_free(from);
}

static void (*_Atomic say_refusal)(size_t bytes);

void mem_on_refusal(void (*say)(size_t bytes))
{
	atomic_store(&say_refusal, say);
}

void mem_refused(size_t bytes)
{
	void (*say)(size_t) = atomic_load(&say_refusal);

	if (say)
		say(bytes);
	else
		fprintf(stderr, "error[E-MEMORY]: the system refused %zu bytes of memory\n", bytes);
	/* not exit(): this thread may hold locks that the library's last functions wait for */
	_exit(code_exit(E_MEMORY));
}

struct mem_count mem_count(enum mem_kind kind, enum mem_purpose purpose)
{
	return (struct mem_count){atomic_load(&counts[kind][purpose].calls),
				  atomic_load(&counts[kind][purpose].live),
				  atomic_load(&counts[kind][purpose].peak)};
}

uint64_t mem_calls(void)
{
	uint64_t sum = 0;

	for (int p = 0; p < MEM_PURPOSES; p++)
		sum += atomic_load(&counts[MEM_HOST][p].calls);
	return sum;
}

const char *mem_purpose_name(enum mem_purpose purpose)
{
	static const char *const names[MEM_PURPOSES] = {
		"model",   "copied weights", "packed weights", "activations", "workspace",
		"staging", "context",	     "code",	       "libraries",   "graphs"};
	return (unsigned)purpose < MEM_PURPOSES ? names[purpose] : "?";
}

const char *mem_purpose_key(enum mem_purpose purpose)
{
	return purpose == MEM_WEIGHTS  ? "copied_weights"
	       : purpose == MEM_PACKED ? "packed_weights"
				       : mem_purpose_name(purpose);
}
