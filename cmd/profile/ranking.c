/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the models and settings that were measured is the fastest, and by how much. */
#include "cmd/profile/profile.h"

#include "base/stats.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MIN_TURNS = 5 };

/*
 * Two processes of a model may differ by this share even if their turns do not show it, by where their memory lies. The more
 * processes, the less it counts.
 */
static const double PROCESS_EFFECT = 0.01;
/* An interval that holds 1 and whose bounds differ by more does not say that two models are equally fast. */
static const double NO_DIFFERENCE = 1.1;

/* A record that can be ranked, and how it compares with the fastest. */
struct place {
	const struct record *record;
	struct interval ratio;
};

static int by_ratio(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->ratio.value < y->ratio.value ? -1 : x->ratio.value > y->ratio.value;
}

static struct interval compare_places(const struct place *best, const struct place *other)
{
	const struct record_point *x = &best->record->point[0], *y = &other->record->point[0];
	size_t n = x->nturns < y->nturns ? x->nturns : y->nturns;
	size_t group = x->process_turns > 0 ? (size_t)x->process_turns : n;
	struct interval i = stats_paired_ratio(x->turn_mean, y->turn_mean, n, group, 0.95);

	if (!n)
		i.value = stats_quantile_of(y->time, y->n, 0.5) /
			  stats_quantile_of(x->time, x->n, 0.5);
	if (n < MIN_TURNS)
		return (struct interval){i.value, NAN, NAN};
	double effect = PROCESS_EFFECT / sqrt(fmax((double)n / (double)group, 1));
	double half = hypot(log(i.high / i.value), effect);
	return (struct interval){i.value, i.value * exp(-half), i.value * exp(half)};
}

/* Returns the records with the fastest first, and sets *n to their number. */
static struct place *sort_places(const struct profile *p, size_t *n, struct arena *a)
{
	struct place *all = arena_new_n(a, struct place, p->nrecords + 1);

	*n = 0;
	for (size_t i = 0; i < p->nrecords; i++) {
		const struct record *r = p->record[i];
		if (r->npoints == 1 && r->point[0].n && *r->label)
			all[(*n)++] = (struct place){r, {1, 1, 1}};
	}
	/* the first comparison, with any of them, finds the fastest */
	for (int round = 0; round < 2; round++) {
		for (size_t i = 1; i < *n; i++)
			all[i].ratio = compare_places(&all[0], &all[i]);
		all[0].ratio = (struct interval){1, 1, 1};
		qsort(all, *n, sizeof(*all), by_ratio);
	}
	return all;
}

static bool is_slower(const struct place *x)
{
	return x->ratio.low > 1;
}

/* Whether the turns were too few, or the load too uneven, to say anything. */
static bool is_unknown(const struct place *x)
{
	return isnan(x->ratio.low) || (!is_slower(x) && x->ratio.high > NO_DIFFERENCE * x->ratio.low);
}

/* Returns what would tell more, such as "measure longer: --duration 12s". */
static const char *cure(const struct profile *p, const struct place *best, struct arena *a)
{
	enum { LONGER = 4 };
	const struct profile_job *job = &p->job[0];

	if (!best->record->point[0].nturns)
		return "they could not take turns, as memory may not hold all of them at once; measure fewer in a command";
	if (job->iterations)
		return arena_printf(a, "measure more runs: -n %" PRId64, LONGER * job->iterations);
	return arena_printf(a, "measure longer: --duration %gs", LONGER * job->duration);
}

const char *ranking_sentence(const struct profile *p, struct arena *a)
{
	size_t n, tied = 1, unknown = 0;
	const struct place *all = sort_places(p, &n, a);
	struct str s = {.arena = a};

	if (!n)
		return "";
	for (size_t i = 1; i < n; i++)
		if (!is_slower(&all[i])) {
			tied = i + 1;
			unknown += is_unknown(&all[i]);
		}
	if (tied == 1)
		return arena_printf(a, "%s is the fastest", all[0].record->label);
	for (size_t i = 0; i < tied; i++)
		str_addf(&s, "%s%s",
			 !i		 ? ""
			 : i + 1 == tied ? unknown ? " or " : " and "
					 : ", ",
			 all[i].record->label);
	return unknown ? arena_printf(a, "not known whether %s is the fastest; %s", str_get(&s),
				      cure(p, &all[0], a))
		       : arena_printf(a, "no difference shown between %s", str_get(&s));
}

/* "1.42 (1.39 to 1.45) times as fast" */
static const char *ratio_text(const struct place *x, struct arena *a)
{
	const struct interval *r = &x->ratio;
	double least = fmin(r->high - r->value, r->value - r->low);
	int digits = r->value < 10 ? 2 : r->value < 100 ? 1 : 0;

	if (isnan(r->low))
		return arena_printf(a, "%.*f: not known, %s turns", digits, r->value,
				    x->record->point[0].nturns ? "too few" : "without");
	/* bounds are never printed as equal to the value */
	while (digits < 6 && least > 0 && least < pow(10, -digits))
		digits++;
	return arena_printf(a, "%.*f (%.*f to %.*f)%s", digits, r->value, digits, r->low, digits,
			    r->high,
			    is_slower(x)    ? " times as fast"
			    : is_unknown(x) ? ": not known"
					    : ": no difference shown");
}

void table_ranking(const struct profile *p, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"what", "a run, by turns",
					    "the fastest is (95 % interval)", NULL};
	size_t n;
	const struct place *all = sort_places(p, &n, a);

	table_begin(t, a, heads, "lrl");
	t->ranks = "010"; /* the name, and how it compares */
	if (n < 2 || p->sweep.points)
		return;
	const struct record_point *best = &all[0].record->point[0];
	for (size_t i = 0; i < n; i++) {
		table_text(t, all[i].record->label);
		double each = all[i].ratio.value *
			      (best->nturns ? stats_quantile_of(best->turn_mean, best->nturns, 0.5)
					    : stats_quantile_of(best->time, best->n, 0.5));
		table_number(t, each, str_seconds(a, each));
		if (i)
			table_number(t, all[i].ratio.value, ratio_text(&all[i], a));
		else
			table_text(t, "this one");
	}
}

void write_ranking(const struct profile *p, struct json *j)
{
	struct arena a = {0};
	size_t n;
	const struct place *all = sort_places(p, &n, &a);

	if (n > 1 && !p->sweep.points) {
		json_array(j, "ranking");
		for (size_t i = 0; i < n; i++) {
			json_object(j, NULL);
			json_string(j, "label", all[i].record->label);
			json_number(j, "ratio", all[i].ratio.value);
			json_array(j, "interval");
			json_number(j, NULL, all[i].ratio.low);
			json_number(j, NULL, all[i].ratio.high);
			json_end(j, ']');
			json_string(j, "verdict",
				    !i			  ? "fastest"
				    : is_slower(&all[i])  ? "slower"
				    : is_unknown(&all[i]) ? "not known"
							  : "no difference shown");
			json_end(j, '}');
		}
		json_end(j, ']');
	}
	arena_free(&a);
}
