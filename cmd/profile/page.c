/* SPDX-License-Identifier: Apache-2.0 */
/* `infer profile --export FILE.html`: the whole report as one page, with plots. */
#include "cmd/profile/profile.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BARS = 20, MAX_WARNINGS = 6 };

static void add_facts(struct profile *p, struct page *page, struct arena *a)
{
	const struct identity *id = &p->record[0]->id;

	bool one = p->o->noperands == 1;

	for (size_t i = 0; i < p->o->noperands; i++)
		page_fact(page, "model", p->o->operand[i]);
	if (one && id->hash)
		page_fact(page, "hash", id->hash);
	if (one && id->inputs && *id->inputs && !p->sweep.points)
		page_fact(page, "inputs", id->inputs);
	page_fact(page, "device", profile_head(p, p->record[0], a));
	if (id->driver)
		page_fact(page, "driver", id->driver);
	if (id->libraries && *id->libraries)
		page_fact(page, "libraries", id->libraries);
	page_fact(page, "precision", id->precision);
	if (clock_sentence(p->record[0], a))
		page_fact(page, "GPU", clock_sentence(p->record[0], a));
	if (p->record[0]->nobserved && p->record[0]->timed_by)
		page_fact(page, "nodes timed by", p->record[0]->timed_by);
	const struct record_phase *load = p->record[0]->nphases > 1 ? &p->record[0]->phase[1] : NULL;
	if (one && load)
		page_fact(page, "load", str_seconds(a, load->seconds));
}

static void add_tiles(struct profile *p, struct page *page, struct arena *a)
{
	const struct record *r = p->record[0];
	const struct record_point *q = &r->point[0];
	struct stats s = stats_of(q->time, q->n);

	if (!q->n)
		return;
	page_tile(page, "median latency", str_seconds(a, profile_latency(p, q, s.median)),
		  arena_printf(a, "%s run%s, deviation %.1f %%", str_count(a, (int64_t)q->n),
			       q->n == 1 ? "" : "s", s.deviation / s.mean * 100));
	double tail = profile_latency(p, q, stats_quantile_of(q->time, q->n, 0.99));
	page_tile(page, "99th percentile", str_seconds(a, tail),
		  arena_printf(a, "max %s", str_seconds(a, profile_latency(p, q, s.max))));
	page_tile(page, "first run", str_seconds(a, q->first),
		  arena_printf(a, "prepare %s", str_seconds(a, q->prepare)));
	if (q->span > 0)
		page_tile(page, "throughput",
			  profile_rate(a, profile_runs_a_second(q) * q->items, "/s"),
			  q->items > 1 ? arena_printf(a, "items, %g a run", q->items) : "runs");
	if (p->o->transfers == TRANSFERS_SPLIT && strcmp(r->id.device, "cpu") != 0)
		page_tile(page, "compute",
			  str_seconds(a, fmax(s.median - q->copy_in - q->copy_out, 0)),
			  arena_printf(a, "to device %s, to host %s", str_seconds(a, q->copy_in),
				       str_seconds(a, q->copy_out)));
	if (r->nphases)
		page_tile(page, "peak resident",
			  str_bytes(a, (int64_t)r->phase[r->nphases - 1].peak), "whole process");
}

static void add_latency(struct profile *p, const struct record *r, const struct record_point *q,
			struct page *page, struct arena *a)
{
	struct page_mark marks[3] = {{"median", stats_quantile_of(q->time, q->n, 0.5)},
				     {"p90", stats_quantile_of(q->time, q->n, 0.9)},
				     {"p99", stats_quantile_of(q->time, q->n, 0.99)}};
	struct page_series runs = {.name = "run", .x = q->start, .y = q->time, .n = q->n, .dots = true};
	struct page_plot plot = {.title = "Latency of each run",
				 .x_label = q->start ? "time since the start" : "run",
				 .y_label = "latency",
				 .x_unit = q->start ? PAGE_SECONDS : PAGE_NUMBER,
				 .y_unit = PAGE_SECONDS,
				 .series = &runs,
				 .nseries = 1,
				 .from_zero = true};
	const char *name = *r->label || *q->label
				   ? arena_printf(a, " (%s%s%s)", r->label,
						  *r->label && *q->label ? " " : "", q->label)
				   : "";

	(void)p;
	if (q->n < 2) /* a single run has no distribution */
		return;
	page_histogram(page, arena_printf(a, "Distribution of the run times%s", name), PAGE_SECONDS,
		       q->time, q->n, marks, 3);
	page_plot(page, &plot);
}

static int by_time(const void *a, const void *b)
{
	double x = (*(const struct record_node *const *)a)->typical;
	double y = (*(const struct record_node *const *)b)->typical;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void add_nodes(struct profile *p, const struct record *r, struct page *page, struct arena *a)
{
	const struct record_node **sorted = arena_new_n(a, const struct record_node *, r->nnodes + 1);
	struct page_bar bars[MAX_BARS];
	size_t n = r->nnodes < MAX_BARS ? r->nnodes : MAX_BARS;
	struct table t;

	if (!r->nobserved)
		return;
	page_section(
		page, *record_label(r, a) ? arena_printf(a, "Nodes: %s", record_label(r, a)) : "Nodes",
		arena_printf(a,
			     "Means of the faster half of %zu observed runs, which take %s; the median plain run takes %s. A fused "
			     "node names those it stands for.",
			     r->nobserved, str_seconds(a, r->observed),
			     str_seconds(a, stats_quantile_of(r->point[0].time, r->point[0].n, 0.5))));
	for (size_t k = 0; k < r->nnodes; k++)
		sorted[k] = &r->node[k];
	qsort(sorted, r->nnodes, sizeof(*sorted), by_time);
	for (size_t k = 0; k < n; k++)
		bars[k] = (struct page_bar){
			.label = arena_printf(
				a, "%s (%s%s%s)", sorted[k]->name, sorted[k]->op,
				strcmp(sorted[k]->op, "Copy") != 0 ? "" : " ",
				strcmp(sorted[k]->op, "Copy") != 0 ? "" : sorted[k]->kernel),
			.text = arena_printf(a, "%s, %.1f %%", str_seconds(a, sorted[k]->typical),
					     sorted[k]->share * 100),
			.value = sorted[k]->typical};
	page_bars(page, "Where the time goes", bars, n);
	table_operators(r, &t, a);
	table_page(&t, page);
	table_nodes(p, r, false, &t, a);
	table_page(&t, page);
}

static void add_memory(const struct record *r, struct page *page, struct arena *a)
{
	const struct record_timeline *t = &r->timeline;
	struct page_series s[5] = {
		{.name = "resident", .x = t->at, .y = t->rss, .n = t->n},
		{.name = "private", .x = t->at, .y = t->private, .n = t->n},
		{.name = "host, counted", .x = t->at, .y = t->host, .n = t->n},
		{.name = "device, counted", .x = t->at, .y = t->device, .n = t->n},
		{.name = "device, in use", .x = t->at, .y = t->device_used, .n = t->n}};
	struct page_plot plot = {.title = "Memory over time",
				 .x_label = "time since the start",
				 .y_label = "memory",
				 .x_unit = PAGE_SECONDS,
				 .y_unit = PAGE_BYTES,
				 .series = s,
				 .nseries = r->id.device && strcmp(r->id.device, "cpu") != 0 ? 5 : 3,
				 .from_zero = true};
	struct table table;

	page_section(page,
		     *record_label(r, a) ? arena_printf(a, "Memory: %s", record_label(r, a)) : "Memory",
		     peak_sentence(r, a));
	if (growth_sentence(r, a))
		page_text(page, growth_sentence(r, a));
	if (t->n > 1)
		page_plot(page, &plot);
	table_phases(r, &table, a);
	table_page(&table, page);
	table_memory(r, &table, a);
	if (table.rows)
		table_page(&table, page);
}

/* Returns the dimension with the most sizes, which becomes the x axis. */
static size_t widest_dim(const struct profile *p)
{
	size_t best = 0;

	for (size_t i = 1; i < p->sweep.ndims; i++)
		best = p->sweep.dim[i].n > p->sweep.dim[best].n ? i : best;
	return best;
}

/* The points of a record that only differ in x. */
struct curve {
	const struct record *r;
	const char *name;
	size_t first; /* index of the first of these points */
};

static bool differ_only_in(const struct record *r, size_t a, size_t b, size_t x)
{
	for (size_t i = 0; i < r->ndims; i++)
		if (i != x && fabs(r->point[a].size[i] - r->point[b].size[i]) > 0.5)
			return false;
	return true;
}

static const char *curve_name(const struct record *r, size_t first, size_t x, struct arena *a)
{
	struct str s = {.arena = a};

	str_add(&s, r->label);
	for (size_t i = 0; i < r->ndims; i++)
		if (i != x)
			str_addf(&s, "%s%s=%.0f", s.n ? " " : "", r->dim[i], r->point[first].size[i]);
	return s.n ? str_get(&s) : "median";
}

static size_t find_curves(const struct profile *p, size_t x, struct curve *to, size_t most,
			  struct arena *a)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nrecords; i++) {
		const struct record *r = p->record[i];
		for (size_t k = 0; k < r->npoints; k++) {
			size_t before = 0;
			while (before < k && !differ_only_in(r, before, k, x))
				before++;
			if (before == k && n++ < most)
				to[n - 1] = (struct curve){r, curve_name(r, k, x, a), k};
		}
	}
	return n;
}

static struct page_series curve_series(const struct profile *p, const struct curve *c, size_t x,
				       bool rate, struct arena *a)
{
	const struct record *r = c->r;
	double *at = arena_new_n(a, double, r->npoints + 1);
	double *y = arena_new_n(a, double, r->npoints + 1);
	size_t n = 0;

	for (size_t k = 0; k < r->npoints; k++) {
		const struct record_point *q = &r->point[k];
		if (!differ_only_in(r, c->first, k, x))
			continue;
		at[n] = q->size[x];
		y[n++] = rate ? profile_runs_a_second(q) * q->items
			      : profile_latency(p, q, stats_quantile_of(q->time, q->n, 0.5));
	}
	return (struct page_series){.name = c->name, .x = at, .y = y, .n = n};
}

/* Plots latency over one dimension, with a line for each record and for each combination of the other dimensions. */
static void add_sweep_curves(struct profile *p, struct page *page, struct arena *a)
{
	enum { MAX_CURVES = 12 };
	struct curve curve[MAX_CURVES];
	struct page_series s[MAX_CURVES];
	size_t x = widest_dim(p), all = find_curves(p, x, curve, MAX_CURVES, a);
	size_t n = all < MAX_CURVES ? all : MAX_CURVES;
	struct page_plot plot = {
		.x_label = p->record[0]->dim[x], .series = s, .nseries = n, .from_zero = true};

	for (int rate = 0; rate < 2; rate++) {
		for (size_t i = 0; i < n; i++)
			s[i] = curve_series(p, &curve[i], x, rate, a);
		plot.title = rate ? "Throughput" : "Median latency";
		plot.y_label = rate ? "items a second" : "latency";
		plot.y_unit = rate ? PAGE_NUMBER : PAGE_SECONDS;
		page_plot(page, &plot);
	}
	if (all > n)
		page_text(page,
			  arena_printf(a, "The first %zu of %zu curves are drawn; the table has all.",
				       n, all));
}

static void add_comparison_bars(struct profile *p, struct page *page, struct arena *a)
{
	struct page_bar *bars = arena_new_n(a, struct page_bar, p->nrecords + 1);

	for (size_t i = 0; i < p->nrecords; i++) {
		const struct record *r = p->record[i];
		const struct record_point *q = &r->point[0];
		double v = profile_latency(p, q, stats_quantile_of(q->time, q->n, 0.5));
		bars[i] = (struct page_bar){r->label, str_seconds(a, v), v};
	}
	page_bars(page, "Median latency", bars, p->nrecords);
}

static void add_verdict(struct profile *p, struct page *page, struct arena *a)
{
	struct table t;

	if (!p->compared)
		return;
	page_section(page, "Against the baseline", NULL);
	const char *said = arena_printf(a, "%s: %s", gate_word(p), gate_sentence(p, a));
	if (p->verdict.slower || p->verdict.bigger)
		page_note(page, SEV_ERROR, said);
	else if (p->verdict.busy || !p->gate)
		page_note(page, p->gate ? SEV_WARNING : SEV_NOTE, said);
	else
		page_good(page, said);
	table_gate(p, &t, a);
	table_page(&t, page);
	table_gate_memory(p, &t, a);
	table_page(&t, page);
}

static void add_errors(struct profile *p, struct page *page, struct arena *a)
{
	for (const struct finding *f = p->d->first; f; f = f->next)
		if (f->severity == SEV_ERROR)
			page_finding(page, f, a);
}

/* Warnings stand behind the charts. At most MAX_WARNINGS are shown. */
static void add_warnings(struct profile *p, struct page *page, struct arena *a)
{
	size_t n = 0;

	if (p->d->warnings)
		page_section(page, "Warnings", NULL);
	for (const struct finding *f = p->d->first; f; f = f->next)
		if (f->severity == SEV_WARNING && n++ < MAX_WARNINGS)
			page_finding(page, f, a);
	if (n > MAX_WARNINGS)
		page_text(page, arena_printf(a, "%zu more warning%s", n - MAX_WARNINGS,
					     n == MAX_WARNINGS + 1 ? "" : "s"));
}

int export_page(struct profile *p, const char *path)
{
	struct arena a = {0};
	struct page page;
	struct table t;
	const struct record *r = p->record[0];
	bool single = profile_single(p);
	const char *what = p->o->noperands > 1 ? str_many(&a, p->o->noperands, "model")
			   : r->id.model       ? r->id.model
					       : "";

	page_begin(&page, &a, arena_printf(&a, "infer profile: %s", what),
		   r->stopped ? "stopped early" : NULL);
	add_facts(p, &page, &a);
	if (single)
		add_tiles(p, &page, &a);
	add_errors(p, &page, &a);
	add_verdict(p, &page, &a);
	page_section(&page, single ? "Latency" : "Comparison",
		     single ? work_sentence(p, r, &a) : NULL);
	if (!single && r->ndims)
		add_sweep_curves(p, &page, &a);
	else if (!single)
		add_comparison_bars(p, &page, &a);
	table_latency(p, &t, &a);
	table_page(&t, &page);
	table_ranking(p, &t, &a);
	if (t.rows) {
		page_section(&page, "Ranking", ranking_sentence(p, &a));
		table_page(&t, &page);
	}
	for (size_t i = 0; single && i < p->nrecords; i++)
		add_latency(p, p->record[i], &p->record[i]->point[0], &page, &a);
	for (size_t i = 0; i < p->nrecords; i++)
		add_nodes(p, p->record[i], &page, &a);
	for (size_t i = 0; i < p->nrecords; i++)
		add_memory(p->record[i], &page, &a);
	add_warnings(p, &page, &a);
	page_origin(&page, p->o, &a);
	int rc = page_save(&page, path, p->d);
	arena_free(&a);
	return rc;
}
