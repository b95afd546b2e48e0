/* SPDX-License-Identifier: Apache-2.0 */
/* src/profile/memory_timeline.h: what of memory over time is there however short a profile was, and however slow a look. */
#include "base/clock.h"
#include "profile/memory_timeline.h"
#include "test/unit/unit.h"

#include <string.h>

static void phases_are_moments(void)
{
	struct timeline t;
	struct record r = {0};

	timeline_begin(&t, clock_ns());
	timeline_phase(&t, NULL, "start", 1000);
	timeline_sample(&t, NULL, clock_ns(), 1, false);
	t.next_moment = UINT64_MAX; /* no look is due any more */
	timeline_sample(&t, NULL, clock_ns(), 2, false);
	timeline_sample(&t, NULL, clock_ns(), 3, true);
	timeline_phase(&t, NULL, "steady state", 2000);
	timeline_store(&t, &r);
	timeline_end(&t);

	CHECK(r.nphases == 2 && !strcmp(r.phase[1].name, "steady state"));
	CHECK(r.timeline.n == 4);
	for (size_t k = 0; k < r.timeline.n; k++) {
		CHECK(r.timeline.rss[k] > 0 && r.timeline.private[k] > 0);
		CHECK(!k || r.timeline.at[k] >= r.timeline.at[k - 1]);
	}
	/* phases stand behind no run that counts */
	CHECK(r.timeline.run[0] < 0 && r.timeline.run[3] < 0);
	CHECK(r.timeline.run[1] == 1 && r.timeline.run[2] == 3);
	arena_free(&r.arena);
}

static void thinned_where_they_are_many(void)
{
	struct timeline t;
	struct record r = {0};
	uint64_t now = clock_ns();
	double last = -1;

	timeline_begin(&t, now);
	for (int k = 1; k <= 6500; k++) {
		t.next_moment = 0;
		timeline_sample(&t, NULL, now += 1000000, k, false);
	}
	timeline_store(&t, &r);
	timeline_end(&t);

	CHECK(r.timeline.n >= 1000 && r.timeline.n < 4000);
	CHECK(r.timeline.run[0] == 1);
	for (size_t k = 0; k < r.timeline.n; k++) {
		CHECK(r.timeline.run[k] > last);
		last = r.timeline.run[k];
	}
	CHECK(last > 6400);
	arena_free(&r.arena);
}

int main(void)
{
	UNIT(phases_are_moments);
	UNIT(thinned_where_they_are_many);
	return unit_end();
}
