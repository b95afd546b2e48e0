/* SPDX-License-Identifier: Apache-2.0 */
#include "session/sampler.h"

#include "input/random.h"
#include "unit.h"

#include <math.h>

enum { N = 1000 };

/* Which ids `draws` draws choose at least once. */
static int64_t drawn(const float *row, int64_t n, int64_t top, double temperature, bool *seen,
		     int draws)
{
	uint64_t random = random_start(1, "--next");
	int64_t count = 0;

	memset(seen, 0, N * sizeof(*seen));
	for (int i = 0; i < draws; i++) {
		int64_t id = sample_draw(DT_F32, row, n, top, temperature, &random);
		if (id < 0 || id >= n)
			return -1;
		count += !seen[id];
		seen[id] = true;
	}
	return count;
}

static void top_limits_the_ids(void)
{
	float row[N];
	bool seen[N];

	/* a permutation of 0 to N - 1: the K largest scores are N - K and above */
	for (int i = 0; i < N; i++)
		row[i] = (float)(i * 7 % N);
	for (int64_t top = 1; top <= 64; top *= 2) {
		CHECK_INT(drawn(row, N, top, 1e6, seen, 4000), top);
		for (int i = 0; i < N; i++)
			CHECK(seen[i] == (row[i] >= (float)(N - top)));
	}
	CHECK(drawn(row, N, 0, 1e6, seen, 4000) > N / 2);
	CHECK(drawn(row, N, N, 1e6, seen, 4000) > N / 2);
}

static void ties_and_nans(void)
{
	const float row[] = {NAN, 2, 5, NAN, 5, 5, -INFINITY, 1};
	const float none[] = {NAN, NAN, NAN}, low[] = {-INFINITY, NAN, -INFINITY},
		    high[] = {1, INFINITY, 3, INFINITY};
	uint64_t random = 1;
	bool seen[N];

	CHECK_INT(sample_largest(DT_F32, row, 8), 2);
	CHECK_INT(drawn(row, 8, 1, 1, seen, 100), 1);
	CHECK(seen[2]);
	CHECK_INT(drawn(row, 8, 2, 1, seen, 100), 2);
	CHECK(seen[2] && seen[4]);
	CHECK_INT(drawn(row, 8, 7, 1e-3, seen, 100), 3);
	CHECK(seen[2] && seen[4] && seen[5]);
	CHECK_INT(drawn(row, 8, 0, 1e-3, seen, 100), 3);
	CHECK_INT(drawn(low, 3, 0, 1, seen, 100), 2);
	CHECK_INT(drawn(low, 3, 2, 1, seen, 100), 2);
	CHECK_INT(drawn(high, 4, 3, 1, seen, 100), 2);
	CHECK(seen[1] && seen[3]);
	CHECK_INT(sample_draw(DT_F32, none, 3, 0, 1, &random), -1);
	CHECK_INT(sample_draw(DT_F32, none, 3, 2, 1, &random), -1);
	CHECK_INT(sample_largest(DT_F32, none, 3), -1);
}

int main(void)
{
	UNIT(top_limits_the_ids);
	UNIT(ties_and_nans);
	return unit_end();
}
