/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer merge: adds up the reports of shards. Nothing of the sum depends on how the list was divided or in which order
 * the reports are given, but the times.
 */
#include "base/file.h"
#include "base/stats.h"
#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"
#include "ir/graph.h"
#include "cmd/output/shard_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMED = 20 }; /* missing shards that a message names */

struct merge {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct shard_report *report;
	size_t n;
	struct report_case *row; /* by case of the list; without a name: no report has it */
	size_t done, failed, missing;
	double *sample; /* seconds of the cases whose time is known, ascending */
	size_t nsamples;
	double seconds; /* of all shards together */
	struct scores scores;
};

static const struct shard_report *first(const struct merge *m)
{
	return &m->report[0];
}

/* ---- adding up */

static int refuse_model(const char *path, struct diag *d)
{
	if (!path_names_model(path))
		return 0;
	return FAIL(d, E_USAGE, .message = fmt(d, "%s is a model, and no report", path),
		    .hint = "infer merge adds up the reports of shards, which infer run MODEL --shard I/N --report FILE.json "
			    "writes; it does not join models");
}

static int read_reports(struct merge *m)
{
	int rc = 0;

	m->n = m->o->noperands;
	m->report = arena_new_n(&m->arena, struct shard_report, m->n);
	for (size_t i = 0; !rc && i < m->n; i++) {
		rc = refuse_model(m->o->operand[i], m->d);
		rc = rc ? rc : report_read(&m->report[i], m->o->operand[i], &m->arena, m->d);
		if (!rc && i)
			rc = report_same(first(m), &m->report[i], m->d);
	}
	return rc;
}

/* Refuses a shard that is given twice, and names those that are missing. */
static int check_shards(struct merge *m)
{
	const size_t count = first(m)->shards;
	const struct shard_report **by =
		arena_new_n(&m->arena, const struct shard_report *, count + 1);
	struct str missing = {.arena = &m->arena};
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct shard_report *r = &m->report[i], **at = &by[r->shard - 1];
		if (*at)
			return FAIL(m->d, E_SHARD,
				    .message = fmt(m->d,
						   "shard %zu of %zu is given twice: in %s and in %s",
						   r->shard, count, (*at)->path, r->path));
		*at = r;
	}
	for (size_t i = 0; i < count; i++)
		if (!by[i] && n++ < MAX_NAMED)
			str_addf(&missing, "%s%zu", n > 1 ? ", " : "", i + 1);
	if (n)
		(void)FAIL(m->d, E_SHARD,
			   .message = fmt(m->d, "%s of %zu %s missing",
					  str_many(&m->arena, n, "shard"), count,
					  n > 1 ? "are" : "is"),
			   .actual = fmt(m->d, "no report of shard %s%s", str_get(&missing),
					 n > MAX_NAMED ? ", ..." : ""));
	return 0;
}

static int add_cases(struct merge *m, const struct shard_report *r)
{
	for (size_t k = 0; k < r->n; k++) {
		const struct report_case *c = &r->cases[k];
		if (m->row[c->index].name || c->index % r->shards != r->shard - 1)
			return FAIL(m->d, E_SHARD, .model = r->path,
				    .message = fmt(m->d, "it has an input that is not of its shard"),
				    .actual = fmt(m->d, "%s", c->name));
		m->row[c->index] = *c;
	}
	m->seconds += r->seconds;
	return 0;
}

static void count_cases(struct merge *m)
{
	double *v = arena_new_n(&m->arena, double, first(m)->total + 1);

	for (size_t i = 0; i < first(m)->total; i++) {
		const struct report_case *c = &m->row[i];
		m->missing += !c->name;
		m->failed += c->failed;
		m->done += c->name && !c->failed;
		if (c->name && !c->failed && !isnan(c->seconds))
			v[m->nsamples++] = c->seconds;
	}
	m->sample = stats_sorted(v, m->nsamples);
}

/* Adds up the scores of the cases that succeeded, in the order of the list. */
static int add_scores(struct merge *m)
{
	struct scores *s = &m->scores;

	*s = (struct scores){.n = first(m)->scores.n};
	s->v = arena_dup(&m->arena, first(m)->scores.v, (s->n + 1) * sizeof(*s->v));
	for (size_t i = 0; s->n && i < first(m)->total; i++) {
		const struct report_case *c = &m->row[i];
		if (!c->name || c->failed)
			continue;
		if (!c->sums)
			return FAIL(m->d, E_SHARD,
				    .message = fmt(m->d, "no report has the scores of %s", c->name),
				    .hint = "give --score and --report to the first run as well as to the "
					    "one that resumes it");
		for (size_t k = 0; k < s->n; k++) {
			int rc = score_merge(&s->v[k].sums, &c->sums[k], &m->arena, m->d);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* The inputs that failed are findings, as they are of the run. */
static void report_failures(struct merge *m)
{
	for (size_t i = 0; i < first(m)->total; i++) {
		const struct report_case *c = &m->row[i];
		if (c->failed)
			(void)FAIL(m->d, code_named(c->id), .model = c->input, .message = c->message);
	}
	if (m->missing)
		(void)FAIL(m->d, E_SHARD,
			   .message = fmt(m->d, "%s in no report",
					  str_many(&m->arena, m->missing, "input")),
			   .hint = "infer run --resume with the same --shard and --report runs what is left");
}

static int add_up(struct merge *m)
{
	int rc = read_reports(m);

	rc = rc ? rc : check_shards(m);
	if (rc)
		return rc;
	m->row = arena_new_n(&m->arena, struct report_case, first(m)->total + 1);
	for (size_t i = 0; !rc && i < m->n; i++)
		rc = add_cases(m, &m->report[i]);
	if (rc)
		return rc;
	count_cases(m);
	rc = add_scores(m);
	if (rc)
		return rc;
	report_failures(m);
	return 0;
}

/* ---- printing */

static const struct {
	const char *name;
	double q;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
enum { QUANTILES = sizeof(quantiles) / sizeof(*quantiles) };

static void print_merged(const struct merge *m, FILE *f)
{
	struct arena a = {0};

	fprintf(f, "model    %s\n", first(m)->model);
	fprintf(f, "inputs   %zu: %zu done, %zu failed, %zu missing\n", first(m)->total, m->done,
		m->failed, m->missing);
	if (m->nsamples) {
		fprintf(f, "latency ");
		for (size_t i = 0; i < QUANTILES; i++)
			fprintf(f, " %s %s%s", quantiles[i].name,
				str_seconds(&a,
					    stats_quantile(m->sample, m->nsamples, quantiles[i].q)),
				i + 1 < QUANTILES ? "," : "\n");
	}
	fprintf(f, "shards   %zu of %zu, %s together\n", m->n, first(m)->shards,
		str_seconds(&a, m->seconds));
	scores_print(&m->scores, first(m)->total, f);
	arena_free(&a);
}

static void write_failures(const struct merge *m, struct json *j)
{
	json_array(j, "failures");
	for (size_t i = 0; i < first(m)->total; i++) {
		const struct report_case *c = &m->row[i];
		if (!c->failed)
			continue;
		json_object(j, NULL);
		json_string(j, "input", c->input);
		json_string(j, "name", c->name);
		json_string(j, "id", c->id);
		json_string(j, "message", c->message);
		json_end(j, '}');
	}
	json_end(j, ']');
}

/* All that depends on the clock, or on the number of shards, is in "times" and "shards". */
static void write_times(const struct merge *m, struct json *j)
{
	json_object(j, "shards");
	json_uint(j, "count", first(m)->shards);
	json_uint(j, "given", m->n);
	json_end(j, '}');
	json_object(j, "times");
	json_number(j, "seconds", m->seconds);
	json_uint(j, "samples", m->nsamples);
	for (size_t i = 0; i < QUANTILES; i++)
		json_number(j, quantiles[i].name,
			    stats_quantile(m->sample, m->nsamples, quantiles[i].q));
	json_end(j, '}');
}

static void write_merged(struct merge *m)
{
	struct json j;

	json_envelope_begin(&j, m->o, m->d);
	json_object(&j, "model");
	json_string(&j, "path", first(m)->model);
	json_string(&j, "hash", first(m)->contents);
	json_end(&j, '}');
	json_object(&j, "inputs");
	json_uint(&j, "total", first(m)->total);
	json_uint(&j, "done", m->done);
	json_uint(&j, "failed", m->failed);
	json_uint(&j, "missing", m->missing);
	json_end(&j, '}');
	write_failures(m, &j);
	if (m->scores.n)
		scores_write(&m->scores, NULL, &j);
	write_times(m, &j);
	json_envelope_end(&j, m->d);
}

int cmd_merge(struct options *o, struct diag *d)
{
	struct merge m = {.o = o, .d = d};
	int rc = add_up(&m);
	int judged = rc ? rc : scores_check(&m.scores, d);

	if (!rc && o->json) {
		write_merged(&m);
	} else if (!rc) {
		FILE *f = listing_begin(stdout);
		print_merged(&m, f);
		listing_end(f);
	}
	free(m.sample);
	arena_free(&m.arena);
	return judged;
}
