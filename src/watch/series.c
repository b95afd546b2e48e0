/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/series.h"

#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/*
 * A series is judged only if it has enough samples and the program made enough calls. Noisy series (memory of the
 * whole process) need more calls than exact counters, since a process takes memory while it starts.
 */
enum { MIN_SAMPLES = 16, MIN_CALLS = 64, MIN_CALLS_NOISY = 200 };
static const double min_seconds = 1;
static const double significance =
	0.001; /* accepted probability that a stable series is called a leak */

static void drop_every_second(struct series *s)
{
	for (size_t i = 0; i < s->n / 2; i++) {
		s->x[i] = s->x[2 * i];
		s->y[i] = s->y[2 * i];
		s->work[i] = s->work[2 * i];
	}
	s->n /= 2;
	s->stride *= 2;
}

bool series_add(struct series *s, double x, double work, double y)
{
	if (!s->x) {
		s->x = malloc(3 * SERIES_MOST * sizeof(double));
		if (!s->x)
			return false;
		s->y = s->x + SERIES_MOST;
		s->work = s->y + SERIES_MOST;
		s->stride = 1;
		s->first = s->peak = y;
	}
	s->last = y;
	s->peak = y > s->peak ? y : s->peak;
	if (++s->skipped < s->stride)
		return true;
	s->skipped = 0;
	if (s->n == SERIES_MOST)
		drop_every_second(s);
	s->x[s->n] = x;
	s->work[s->n] = work;
	s->y[s->n++] = y;
	return true;
}

void series_free(struct series *s)
{
	free(s->x);
	*s = (struct series){0};
}

/* Returns the index of the first sample that is judged. */
static size_t judged_from(const struct series *s, double least)
{
	double all = s->work[s->n - 1];
	size_t i = 0;

	if (all <= 0) /* work is not counted */
		return s->n / 2;
	if (all < least)
		return s->n - 1; /* the program is still starting up: judge nothing */
	while (s->work[i] < all / 2)
		i++;
	return i;
}

/*
 * Returns whether the value rises in every quarter of the series. An allocator grows in a few large steps with
 * constant memory between the steps, and one late step alone is no leak.
 */
static bool rises_throughout(const double *y, size_t n)
{
	for (size_t q = 0; q < 4; q++)
		if (y[(q + 1) * (n - 1) / 4] <= y[q * (n - 1) / 4])
			return false;
	return true;
}

/*
 * Returns the end of the judged part, after 98 % of the calls. The end is left out because a program frees its memory
 * when it ends, and that must not hide a leak.
 */
static size_t judged_to(const struct series *s, size_t from)
{
	double all = s->work[s->n - 1];
	size_t i = from;

	if (all <= 0)
		return s->n;
	while (i < s->n - 1 && s->work[i] < 0.98 * all)
		i++;
	return i + 1;
}

/*
 * Returns whether the value stayed constant for at least as_long seconds after sample `last`, at which the calls
 * ended. If so, the growth ended with the program's loading phase.
 */
static bool stays_constant_after(const struct series *s, size_t last, double as_long)
{
	return s->work[s->n - 1] > 0 && s->x[s->n - 1] - s->x[last] >= as_long &&
	       s->y[s->n - 1] <= s->y[last] * 1.02;
}

struct series_verdict series_judge(const struct series *s, double noise)
{
	struct series_verdict v = {.kind = VERDICT_SHORT};

	if (!s->n)
		return v;
	size_t from = judged_from(s, noise > 0 ? MIN_CALLS_NOISY : MIN_CALLS),
	       to = judged_to(s, from), n = to - from;
	v.grown = s->last - s->first;
	v.from = s->x[from];
	v.to = s->x[to - 1];
	if (n < MIN_SAMPLES || v.to - v.from < min_seconds)
		return v;
	struct trend t = stats_trend(s->x + from, s->y + from, n, 0.99);
	v.slope = t.slope.value;
	v.low = t.slope.low;
	v.high = t.slope.high;
	bool risen = s->y[to - 1] - s->y[from] > noise;
	if (risen && !stays_constant_after(s, to - 1, v.to - v.from) &&
	    t.probability < significance && t.slope.low > 0 && rises_throughout(s->y + from, n))
		v.kind = VERDICT_LEAK;
	else
		v.kind = v.grown > fmax(noise, 0.02 * s->peak) ? VERDICT_FLAT : VERDICT_STABLE;
	return v;
}
