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

static double uniform(uint64_t *state)
{
	return (double)(stats_random(state) >> 11) * 0x1p-53;
}

enum { TURNS = 30, GROUP = 6, RUNS_A_TURN = 20 };

/* The course of a machine that other programs use: a factor that walks at random, and bursts of a few turns. */
struct load {
	double factor;
	int burst;
	uint64_t *state;
};

static double next_load(struct load *l)
{
	l->factor = fmin(fmax(l->factor * (1 + 0.1 * (uniform(l->state) - 0.5)), 1), 4);
	if (l->burst)
		l->burst--;
	else if (uniform(l->state) < 0.02)
		l->burst = 1 + (int)(uniform(l->state) * 8);
	return l->factor * (l->burst ? 3 : 1);
}

static void fill_runs(double *v, size_t n, double true_time, double load, uint64_t *state)
{
	for (size_t i = 0; i < n; i++)
		v[i] = true_time * load * (1 + 0.05 * uniform(state));
}

/* Measures x, and then y, at one go: whether the interval of the ratio of their medians holds the truth. */
static bool holds_in_sequence(double truth, struct load *l)
{
	double v[2][TURNS * RUNS_A_TURN];
	struct bootstrap how = {.quantile = 0.5, .level = 0.95, .rounds = 100, .seed = 7};

	for (int side = 0; side < 2; side++)
		for (size_t k = 0; k < TURNS; k++)
			fill_runs(v[side] + k * RUNS_A_TURN, RUNS_A_TURN, side ? truth : 1,
				  next_load(l), l->state);
	struct interval i = stats_ratio(v[0], TURNS * RUNS_A_TURN, v[1], TURNS * RUNS_A_TURN, &how);
	return i.low <= truth && truth <= i.high;
}

/* Measures x and y in turns, each pair in random order. */
static bool holds_in_turns(double truth, struct load *l, size_t group, double *width)
{
	double mean[2][TURNS];

	for (size_t k = 0; k < TURNS; k++) {
		int first = (int)(stats_random(l->state) % 2);
		for (int i = 0; i < 2; i++) {
			double v[RUNS_A_TURN];
			int side = first ^ i;
			fill_runs(v, RUNS_A_TURN, side ? truth : 1, next_load(l), l->state);
			mean[side][k] = stats_of(v, RUNS_A_TURN).mean;
		}
	}
	struct interval i = stats_paired_ratio(mean[0], mean[1], TURNS, group, 0.95);
	*width += i.high - i.low;
	return i.low <= truth && truth <= i.high;
}

/* Under a load that drifts, intervals of turns hold the truth as often as they say; those of a sequence do not. */
static void turns_cover_under_drift(void)
{
	enum { TRIALS = 100 };
	static const double truths[] = {1, 2, 3.1};
	uint64_t state = 17;

	for (size_t t = 0; t < 3; t++) {
		struct load l = {2, 0, &state};
		int sequence = 0, grouped = 0, single = 0;
		double width = 0;
		for (int trial = 0; trial < TRIALS; trial++) {
			sequence += holds_in_sequence(truths[t], &l);
			grouped += holds_in_turns(truths[t], &l, GROUP, &width);
			single += holds_in_turns(truths[t], &l, 1, &width);
		}
		CHECK(sequence < TRIALS * 0.6);
		CHECK(grouped > TRIALS * 0.91 && single > TRIALS * 0.91);
		CHECK(width / (2 * TRIALS) < 0.4 * truths[t]);
	}
}

/* Against Student's table: 12.706 for one degree of freedom, 4.303 for two, 3.182 for three, 2.110 for 17. */
static void paired_ratio_by_hand(void)
{
	/* ratios 2 e^x for x = -0.01, 0.01: half of the width is 12.706 * 0.01 */
	const double a[] = {5, 5}, b[] = {10 * exp(-0.01), 10 * exp(0.01)};
	struct interval i = stats_paired_ratio(a, b, 2, 1, 0.95);
	CHECK(near(i.value, 2, 1e-12) && near(log(i.high / 2), 0.12706, 1e-4));
	CHECK(near(log(2 / i.low), 0.12706, 1e-4));

	/* of five one is cut at each end: {0, 0.01, 0.02} is left, Winsorized {0, 0, 0.01, 0.02, 0.02} */
	double one[30], five[30];
	const double x[] = {-3, 0.01, 0.02, 0, 7};
	for (int k = 0; k < 30; k++)
		one[k] = 1;
	for (int k = 0; k < 5; k++)
		five[k] = exp(x[k]);
	i = stats_paired_ratio(one, five, 5, 1, 0.95);
	CHECK(near(log(i.value), 0.01, 1e-12));
	CHECK(near(log(i.high / i.value), 4.303 * 0.01 * sqrt(5) / 3, 1e-4));

	/* three groups that differ, each of turns that hardly do: 4.303 * 0.1 / sqrt(3) */
	for (int k = 0; k < 30; k++)
		five[k] = exp(0.1 * (k / 10) + 1e-6 * (k % 10));
	i = stats_paired_ratio(one, five, 30, 10, 0.95);
	CHECK(near(log(i.high / i.value), 4.303 * 0.1 / sqrt(3), 1e-4));
	/* as one group, 18 of 30 turns are kept: 2.110 of Student's for 17 */
	for (int k = 0; k < 30; k++)
		five[k] = exp(k % 2 ? 0.1 : -0.1);
	i = stats_paired_ratio(one, five, 30, 30, 0.95);
	CHECK(near(log(i.high / i.value), 2.110 * 0.1 * sqrt(30.0 / 29) * sqrt(30) / 18, 1e-4));

	CHECK(isnan(stats_paired_ratio(a, b, 1, 1, 0.95).low));
	CHECK(isnan(stats_paired_ratio(a, b, 0, 1, 0.95).value));
	CHECK(near(stats_paired_ratio(a, b, 2, 0, 0.95).value, 2, 1e-12));
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
	UNIT(turns_cover_under_drift);
	UNIT(paired_ratio_by_hand);
	UNIT(trend_with_outliers);
	UNIT(no_trend);
	return unit_end();
}
