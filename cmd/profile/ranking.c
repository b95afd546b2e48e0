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

static struct interval compare_places(const struct place *best, const struct place *other)
{
	static const struct bootstrap how = {.quantile = 0.5, .level = 0.95, .rounds = 300, .seed = 7};
	const struct record_point *x = &best->record->point[0], *y = &other->record->point[0];

	return stats_ratio(x->time, x->n, y->time, y->n, &how);
}

const char *ranking_sentence(const struct profile *p, struct arena *a)
{
	size_t n, tied = 1;
	const struct place *all = sort_places(p, &n, a);
	struct str s = {.arena = a};

	if (!n)
		return "";
	while (tied < n && compare_places(&all[0], &all[tied]).low <= 1)
		tied++;
	if (tied == 1)
		return arena_printf(a, "%s is the fastest", all[0].record->label);
	for (size_t i = 0; i < tied; i++)
		str_addf(&s, "%s%s",
			 !i		 ? ""
			 : i + 1 == tied ? " and "
					 : ", ",
			 all[i].record->label);
	return arena_printf(a, "no difference shown between %s", str_get(&s));
}

/* "1.42 +- 0.03 times as fast": half of the interval's width, the larger half if it is not symmetric. */
static const char *ratio_text(const struct interval *x, struct arena *a)
{
	double half = fmax(x->high - x->value, x->value - x->low);

	int digits = x->value < 10 ? 2 : x->value < 100 ? 1 : 0;

	/* an uncertainty is never printed as 0 */
	while (digits < 6 && half > 0 && half < 0.5 * pow(10, -digits))
		digits++;
	return arena_printf(a, "%.*f +- %.*f%s", digits, x->value, digits, half,
			    x->low <= 1 ? ": no difference shown" : " times as fast");
}

void table_ranking(const struct profile *p, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"what", "median", "the fastest is", NULL};
	size_t n;
	const struct place *all = sort_places(p, &n, a);

	table_begin(t, a, heads, "lrl");
	t->ranks = "010"; /* the name, and how it compares */
	if (n < 2 || p->sweep.points)
		return;
	for (size_t i = 0; i < n; i++) {
		table_text(t, all[i].record->label);
		table_number(t, all[i].median, str_seconds(a, all[i].median));
		if (!i) {
			table_text(t, "this one");
			continue;
		}
		struct interval x = compare_places(&all[0], &all[i]);
		table_number(t, x.value, ratio_text(&x, a));
	}
}
