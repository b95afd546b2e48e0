/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the models and settings that were measured is the fastest, and by how much. */
#include "cmd/profile/profile.h"

#include "base/stats.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>

/* A record's median, as far as it can be ranked. */
struct place {
	const struct record *record;
	double median;
};

static int by_median(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->median < y->median ? -1 : x->median > y->median;
}

/* Returns the records in the order of their medians, and sets *n to their number. */
static struct place *sort_places(const struct profile *p, size_t *n, struct arena *a)
{
	enum { FEWEST_RUNS = 5 };
	struct place *all = arena_new_n(a, struct place, p->nrecords + 1);

	*n = 0;
	for (size_t i = 0; i < p->nrecords; i++) {
		const struct record *r = p->record[i];
		if (r->npoints == 1 && r->point[0].n >= FEWEST_RUNS && *r->label)
			all[(*n)++] = (struct place){
				r, stats_quantile_of(r->point[0].time, r->point[0].n, 0.5)};
	}
	qsort(all, *n, sizeof(*all), by_median);
	return all;
}

const char *ranking_first(const struct profile *p, struct arena *a)
{
	size_t n;
	const struct place *all = sort_places(p, &n, a);

	return n ? all[0].record->label : "";
}

/* "1.42 +- 0.03 times as fast": half of the interval's width, the larger half if it is not symmetric. */
static const char *ratio_text(const struct interval *x, struct arena *a)
{
	double half = fmax(x->high - x->value, x->value - x->low);

	int digits = x->value < 10 ? 2 : x->value < 100 ? 1 : 0;

	return arena_printf(a, "%.*f +- %.*f%s", digits, x->value, digits, half,
			    x->low <= 1 ? ": no difference shown" : " times as fast");
}

void table_ranking(const struct profile *p, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"what", "median", "the fastest is", NULL};
	static const struct bootstrap how = {.quantile = 0.5, .level = 0.95, .rounds = 300, .seed = 7};
	size_t n;
	const struct place *all = sort_places(p, &n, a);

	table_begin(t, a, heads, "lrl");
	t->ranks = "010"; /* the name, and how it compares */
	if (n < 2 || p->sweep.points)
		return;
	const struct record_point *best = &all[0].record->point[0];
	for (size_t i = 0; i < n; i++) {
		const struct record_point *q = &all[i].record->point[0];
		table_text(t, all[i].record->label);
		table_number(t, all[i].median, str_seconds(a, all[i].median));
		if (!i) {
			table_text(t, "this one");
			continue;
		}
		struct interval x = stats_ratio(best->time, best->n, q->time, q->n, &how);
		table_number(t, x.value, ratio_text(&x, a));
	}
}
