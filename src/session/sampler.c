/* SPDX-License-Identifier: Apache-2.0 */
#include "session/sampler.h"

#include "base/arena.h"
#include "input/random.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

struct score {
	double value;
	int64_t id;
};

/* Whether x comes before y: the larger score first, and of equal scores the smaller id. */
static bool before(const struct score *x, const struct score *y)
{
	return x->value != y->value ? x->value > y->value : x->id < y->id;
}

static int compare_scores(const void *a, const void *b)
{
	return before(a, b) ? -1 : before(b, a);
}

/* A number for the bits of a float, with sign and magnitude apart: in the floats' order, least of all for NaN. */
static inline int order_of(uint32_t magnitude, bool negative, uint32_t infinity)
{
	return magnitude > infinity ? INT_MIN : negative ? -(int)magnitude : (int)magnitude;
}

enum {
	SCORES_AT_ONCE = 32
}; /* a constant number, so that compilers make vector code of the loops */

/* Sets to[] to the orders of the next SCORES_AT_ONCE scores. */
static inline void orders(enum dtype t, const void *row, int64_t at, int *to)
{
	const uint32_t *wide = (const uint32_t *)row + at;
	const uint16_t *half = (const uint16_t *)row + at;
	uint32_t infinity = t == DT_F32 ? 0x7f800000 : t == DT_F16 ? 0x7c00 : 0x7f80;

	for (int k = 0; k < SCORES_AT_ONCE && t == DT_F32; k++)
		to[k] = order_of(wide[k] & 0x7fffffff, wide[k] >> 31, infinity);
	for (int k = 0; k < SCORES_AT_ONCE && t != DT_F32; k++)
		to[k] = order_of(half[k] & 0x7fffU, half[k] >> 15, infinity);
}

static inline int order_at(enum dtype t, const void *row, int64_t i)
{
	return t == DT_F32
		       ? order_of(((const uint32_t *)row)[i] & 0x7fffffff,
				  ((const uint32_t *)row)[i] >> 31, 0x7f800000)
		       : order_of(((const uint16_t *)row)[i] & 0x7fffU,
				  ((const uint16_t *)row)[i] >> 15, t == DT_F16 ? 0x7c00 : 0x7f80);
}

/* Returns the first of the largest of n scores of float32, float16 or bfloat16, or -1 if all are NaN. */
static inline int64_t largest_of(enum dtype t, const void *row, int64_t n)
{
	int best[SCORES_AT_ONCE], now[SCORES_AT_ONCE], most = INT_MIN;
	int64_t i = 0;

	for (int k = 0; k < SCORES_AT_ONCE; k++)
		best[k] = INT_MIN;
	for (; i + SCORES_AT_ONCE <= n; i += SCORES_AT_ONCE) {
		orders(t, row, i, now);
		for (int k = 0; k < SCORES_AT_ONCE; k++)
			best[k] = now[k] > best[k] ? now[k] : best[k];
	}
	for (int k = 0; k < SCORES_AT_ONCE; k++)
		most = best[k] > most ? best[k] : most;
	for (; i < n; i++)
		most = order_at(t, row, i) > most ? order_at(t, row, i) : most;
	if (most == INT_MIN)
		return -1;
	for (i = 0; i + SCORES_AT_ONCE <= n; i += SCORES_AT_ONCE) {
		int found = 0;
		orders(t, row, i, now);
		for (int k = 0; k < SCORES_AT_ONCE; k++)
			found |= now[k] == most;
		if (found)
			break;
	}
	while (order_at(t, row, i) != most)
		i++;
	return i;
}

int64_t sample_largest(enum dtype t, const void *row, int64_t n)
{
	int64_t best = -1;
	double most = 0;

	if (t == DT_F32) /* a constant type each, for the compiler */
		return largest_of(DT_F32, row, n);
	if (t == DT_F16)
		return largest_of(DT_F16, row, n);
	if (t == DT_BF16)
		return largest_of(DT_BF16, row, n);
	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(t, row, i);
		if (v == v && (best < 0 || v > most)) {
			best = i;
			most = v;
		}
	}
	return best;
}

/* Moves heap[at] down to its place among n. The root is the score that comes last in the order. */
static void sift_down(struct score *heap, int64_t n, int64_t at)
{
	for (int64_t child; (child = 2 * at + 1) < n; at = child) {
		child += child + 1 < n && before(&heap[child], &heap[child + 1]);
		if (!before(&heap[at], &heap[child]))
			return;
		struct score s = heap[at];
		heap[at] = heap[child];
		heap[child] = s;
	}
}

/*
 * Sets s[] to the `top` largest of n scores, the largest first, and returns how many there are; NaNs are left out. A heap of them costs
 * one comparison for almost every score of a long vocabulary, where sorting all of it would take longer than many a model's step.
 */
static int64_t take_top(enum dtype t, const void *row, int64_t n, int64_t top, struct score *s)
{
	int64_t count = 0;

	for (int64_t i = 0; i < n; i++) {
		const struct score now = {elem_f64(t, row, i), i};
		if (now.value != now.value)
			continue;
		if (count < top) {
			s[count++] = now;
			for (int64_t k = count / 2; count == top && k-- > 0;)
				sift_down(s, count, k);
		} else if (before(&now, &s[0])) {
			s[0] = now;
			sift_down(s, count, 0);
		}
	}
	qsort(s, (size_t)count, sizeof(*s), compare_scores);
	return count;
}

/* All scores that are no NaNs, in the order of their ids. *most becomes the largest. */
static int64_t take_all(enum dtype t, const void *row, int64_t n, struct score *s, double *most)
{
	int64_t count = 0;

	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(t, row, i);
		if (v != v)
			continue;
		*most = !count || v > *most ? v : *most;
		s[count++] = (struct score){v, i};
	}
	return count;
}

int64_t sample_draw(enum dtype t, const void *row, int64_t n, int64_t top, double temperature,
		    uint64_t *random)
{
	struct arena scratch = {0};
	bool all = !top || top >= n;
	struct score *s = arena_new_n(&scratch, struct score, (size_t)(all ? n : top) + 1);
	double sum = 0, most = 0;
	int64_t k = 0, count = all ? take_all(t, row, n, s, &most) : take_top(t, row, n, top, s);

	if (!all && count)
		most = s[0].value;
	for (int64_t i = 0; i < count; i++)
		sum += s[i].value =
			isinf(most) ? s[i].value == most : exp((s[i].value - most) / temperature);
	double at = random_unit(random) * sum;
	while (k + 1 < count && (at -= s[k].value) >= 0)
		k++;
	int64_t id = count ? s[k].id : -1;
	arena_free(&scratch);
	return id;
}
