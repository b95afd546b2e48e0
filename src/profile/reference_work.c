/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/reference_work.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"

#include <stdbool.h>
#include <stdlib.h>

enum {
	THREAD_BYTES = 2 << 20,	   /* data of each thread */
	PANEL_BYTES = 512 << 10,   /* part of it that arithmetic uses */
	PANEL_PASSES = 16,	   /* over that part */
	EXCHANGE_BYTES = 64 << 10, /* written by one thread, read by another */
	EXCHANGE_TURNS = 12,	   /* half of them write */
	MAX_SINKS = 512
};

struct reference_work {
	size_t words; /* of data of each thread */
	uint64_t *data;
	double sink[MAX_SINKS]; /* results are stored here so that the compiler does not remove the work */
	enum reference_kind kind;
	bool write; /* threads write in this turn of an exchange; if false, they read */
};

struct reference_work *reference_work_new(void)
{
	struct reference_work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->words = THREAD_BYTES / sizeof(uint64_t);
	w->data = mem_zalloc(THREAD_BYTES * (size_t)pool_threads(), MEM_STAGING);
	if (!w->data) {
		free(w);
		return NULL;
	}
	return w;
}

void reference_work_free(struct reference_work *w)
{
	if (!w)
		return;
	mem_free(w->data);
	free(w);
}

typedef float floats __attribute__((vector_size(32), aligned(32)));

/*
 * Makes independent multiplications and additions that keep the vector units busy, on a panel in the core's own
 * cache, as a matrix product does. Dependent operations would leave units idle, and so would not notice another
 * program on the core's other hardware thread or in its cache.
 */
static double multiply_and_add(const floats *panel, size_t n)
{
	floats by = panel[0] + 1, a = by, b = by, c = by, d = by, e = by, f = by;

	for (int pass = 0; pass < PANEL_PASSES; pass++)
		for (size_t i = 0; i + 6 <= n; i += 6) {
			a += panel[i] * by;
			b += panel[i + 1] * by;
			c += panel[i + 2] * by;
			d += panel[i + 3] * by;
			e += panel[i + 4] * by;
			f += panel[i + 5] * by;
		}
	a += b + c + d + e + f;
	return (double)a[0] + (double)a[1];
}

static double sum_words(const uint64_t *p, size_t n)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (size_t i = 0; i + 4 <= n; i += 4) {
		a += p[i];
		b ^= p[i + 1];
		c += p[i + 2];
		d ^= p[i + 3];
	}
	return (double)(a + b + c + d);
}

/*
 * Lets each thread write its own data in one turn and read its neighbour's data in the next. The time tells how far
 * apart the cores are.
 */
static double exchange_words(struct reference_work *w, size_t thread, size_t threads)
{
	size_t words = EXCHANGE_BYTES / sizeof(uint64_t);
	uint64_t *p = w->data + (w->write ? thread : (thread + 1) % threads) * w->words;

	for (size_t i = 0; w->write && i < words; i++)
		p[i] += i;
	return w->write ? 0 : sum_words(p, words);
}

/* One piece for each thread. */
static void work_pieces(void *arg, int64_t begin, int64_t end, int thread)
{
	struct reference_work *w = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		double *sink = &w->sink[i % MAX_SINKS];
		const uint64_t *data = w->data + (size_t)i * w->words;
		*sink += w->kind == REFERENCE_ARITHMETIC
				 ? multiply_and_add((const floats *)(const void *)data,
						    PANEL_BYTES / sizeof(floats))
			 : w->kind == REFERENCE_MEMORY
				 ? sum_words(data, w->words)
				 : exchange_words(w, (size_t)i, (size_t)pool_threads());
	}
}

double reference_work_time(struct reference_work *w, enum reference_kind kind)
{
	int turns = kind == REFERENCE_EXCHANGE ? EXCHANGE_TURNS : 1;

	w->kind = kind;
	w->write = true;
	uint64_t start = clock_ns();
	for (int i = 0; i < turns; i++, w->write = !w->write)
		pool_for(pool_threads(), 1, work_pieces, w);
	return (double)(clock_ns() - start) * 1e-9;
}
