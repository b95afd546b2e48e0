/* SPDX-License-Identifier: Apache-2.0 */
#include "check/growth.h"

static double median(const double *v, size_t n)
{
	return stats_quantile_of(v, n, 0.5);
}

/*
 * The first 40 % of the readings are ignored, as arenas fill up during them. The later readings show a leak if its
 * trend is significant and lasts to the end, that is, the trend of its second half points up as well. A series with
 * noise must also have grown by more than the noise. The edges that are compared, an eighth of the readings each, are
 * medians, so that single readings do not count; without noise, growth of up to a page (4,096 bytes) is no growth.
 */
void growth_judge(struct series *s, double noise)
{
	size_t skip = s->n * 2 / 5, n = s->n - skip, late = n / 2, edge = n / 8 + 1;
	const double *tail = s->v + skip;

	s->verdict = GROWTH_NONE;
	if (s->n < GROWTH_MIN_READINGS)
		return;
	s->trend = stats_trend(NULL, tail, n, 0.99);
	s->grown = s->v[s->n - 1] - s->v[0];
	struct trend end = stats_trend(NULL, tail + late, n - late, 0.99);
	double rise = median(tail + n - edge, edge) - median(tail, edge);
	bool up = s->trend.slope.low > 0 && s->trend.probability < 1e-3;
	bool goes_on = noise > 0 ? end.slope.low > 0 : end.slope.value > 0;
	if (up && goes_on && rise > noise)
		s->verdict = GROWTH_LEAK;
	else if (s->grown > (noise > 0 ? noise : 4096))
		s->verdict = GROWTH_FLAT;
}
