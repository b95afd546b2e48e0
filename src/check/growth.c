/* SPDX-License-Identifier: Apache-2.0 */
#include "check/growth.h"

static double middle(const double *v, size_t n)
{
	return stats_quantile_of(v, n, 0.5);
}

/*
 * The first 40 % may fill arenas. What is left leaks where its trend is clear, and goes on to its end: the last
 * part's trend points up, too. Rough series must have grown by more than noise.
 */
void growth_judge(struct series *s, double noise)
{
	size_t skip = s->n * 2 / 5, n = s->n - skip, late = n / 2, edge = n / 8 + 1;
	const double *tail = s->v + skip;

	s->verdict = GROWTH_NONE;
	if (s->n < GROWTH_LEAST)
		return;
	s->trend = stats_trend(NULL, tail, n, 0.99);
	s->grown = s->v[s->n - 1] - s->v[0];
	struct trend end = stats_trend(NULL, tail + late, n - late, 0.99);
	double rise = middle(tail + n - edge, edge) - middle(tail, edge);
	bool up = s->trend.slope.low > 0 && s->trend.probability < 1e-3;
	bool goes_on = noise > 0 ? end.slope.low > 0 : end.slope.value > 0;
	if (up && goes_on && rise > noise)
		s->verdict = GROWTH_LEAK;
	else if (s->grown > (noise > 0 ? noise : 4096))
		s->verdict = GROWTH_FLAT;
}
