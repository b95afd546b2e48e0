/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics against values worked out by hand, and against what chance allows. */
#include "base/stats.h"
#include "test/unit/unit.h"

#include <math.h>

static bool near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance;
}

static void quantiles(void)
{
	const double v[] = {5, 1, 3, 2, 4};

	CHECK(near(stats_quantile_of(v, 5, 0), 1, 0));
	CHECK(near(stats_quantile_of(v, 5, 0.5), 3, 0));
	CHECK(near(stats_quantile_of(v, 5, 0.1), 1.4, 1e-12));
	CHECK(near(stats_quantile_of(v, 5, 1), 5, 0));
	CHECK(isnan(stats_quantile_of(v, 0, 0.5)));
	CHECK(near(stats_quantile_of(v, 1, 0.9), 5, 0));
}

static void moments(void)
{
	const double v[] = {2, 4, 4, 4, 5, 5, 7, 9};
	struct stats s = stats_of(v, 8);

	CHECK(near(s.mean, 5, 1e-12));
	CHECK(near(s.deviation, sqrt(32.0 / 7), 1e-12));
	CHECK(near(s.median, 4.5, 1e-12));
	CHECK(near(s.mad, 1.4826 * 0.5, 1e-12));
	CHECK(isnan(stats_of(v, 0).mean));
}

static void outliers(void)
{
	double v[100];

	for (int i = 0; i < 100; i++)
		v[i] = 10 + (i % 5) * 0.1;
	v[17] = 40;
	v[60] = 55;
	struct stats s = stats_of(v, 100);
	CHECK_INT(s.outliers, 2);
	CHECK_INT(stats_outlier(v, 100, &s, 0), 17);
	CHECK_INT(stats_outlier(v, 100, &s, 18), 60);
	CHECK_INT(stats_outlier(v, 100, &s, 61), 100);
}

/* The interval holds the true quantile about as often as its level says. */
static void bootstrap_covers(void)
{
	uint64_t state = 11;
	int held = 0;

	for (int trial = 0; trial < 200; trial++) {
		double v[200];
		for (int i = 0; i < 200; i++)
			v[i] = (double)(stats_random(&state) >> 11) * 0x1p-53;
		struct interval b = stats_bootstrap(v, 200,
						    &(struct bootstrap){.quantile = 0.1,
									.level = 0.95,
									.rounds = 200,
									.block = 1,
									.seed = (uint64_t)trial});
		held += b.low <= 0.1 && b.high >= 0.1;
		CHECK(b.low <= b.value + 1e-12 && b.value <= b.high + 1e-12);
	}
	CHECK(held > 175 && held < 200);
	struct bootstrap how = {.quantile = 0.5, .level = 0.9, .rounds = 50, .seed = 5};
	struct interval a = stats_bootstrap((double[]){1, 2, 3, 4}, 4, &how);
	struct interval b = stats_bootstrap((double[]){1, 2, 3, 4}, 4, &how);
	CHECK(near(a.low, b.low, 0) && near(a.high, b.high, 0));
}

static void ratio_finds_a_tenth(void)
{
	double a[300], b[300];
	uint64_t state = 3;

	for (int i = 0; i < 300; i++) {
		a[i] = 1 + 0.05 * (double)(stats_random(&state) >> 11) * 0x1p-53;
		b[i] = 1.1 * (1 + 0.05 * (double)(stats_random(&state) >> 11) * 0x1p-53);
	}
	struct bootstrap how = {.quantile = 0.1, .level = 0.99, .rounds = 300, .seed = 1};
	struct interval r = stats_ratio(a, 300, b, 300, &how);
	CHECK(near(r.value, 1.1, 0.01));
	CHECK(r.low > 1.05 && r.high < 1.15);
}

static void trend_with_outliers(void)
{
	double y[200];
	uint64_t state = 9;

	for (int i = 0; i < 200; i++)
		y[i] = 100 + 0.5 * i + (double)(stats_random(&state) % 10);
	y[20] = 5000;
	y[150] = -3000;
	struct trend t = stats_trend(NULL, y, 200, 0.95);
	CHECK(near(t.slope.value, 0.5, 0.02));
	CHECK(t.slope.low <= 0.5 + 0.02 && t.slope.high >= 0.5 - 0.02);
	CHECK(t.probability < 1e-6);
	CHECK_INT(t.points, 200);
}

static void no_trend(void)
{
	double y[2000];
	uint64_t state = 21;
	int alarms = 0;

	for (int trial = 0; trial < 40; trial++) {
		for (int i = 0; i < 200; i++)
			y[i] = (double)(stats_random(&state) % 1000);
		alarms += stats_trend(NULL, y, 200, 0.95).probability < 0.01;
	}
	CHECK(alarms <= 3);
	for (int i = 0; i < 2000; i++)
		y[i] = 7;
	struct trend t = stats_trend(NULL, y, 2000, 0.95);
	CHECK(near(t.slope.value, 0, 0));
	CHECK(near(t.probability, 1, 0));
	CHECK(t.points <= 512);
	CHECK(isnan(stats_trend(NULL, y, 2, 0.95).slope.value));
}

int main(void)
{
	UNIT(quantiles);
	UNIT(moments);
	UNIT(outliers);
	UNIT(bootstrap_covers);
	UNIT(ratio_finds_a_tenth);
	UNIT(trend_with_outliers);
	UNIT(no_trend);
	return unit_end();
}
