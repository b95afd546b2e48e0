/* SPDX-License-Identifier: Apache-2.0 */
/* The report of infer profile for CI systems: a case for each point that was measured, and what it measured. */
#include "cmd/profile/profile.h"

#include "base/str.h"

#include <math.h>
#include <string.h>

/* Returns "model.onnx threads=2 batch=4". */
static const char *point_name(const struct profile *p, const struct record *r,
			      const struct record_point *q, struct arena *a)
{
	bool named = p->o->noperands > 1; /* the label begins with the model */

	return arena_printf(a, "%s%s%s%s%s", named ? "" : r->id.model,
			    named || !*r->label ? "" : " ", r->label, *q->label ? " " : "", q->label);
}

/* Latency with the 95 % interval of the median, runs a second, and the most memory that was resident. */
static void add_measures(const struct profile *p, const struct record *r,
			 const struct record_point *q, struct ci_measure *m, size_t *n,
			 struct arena *a)
{
	struct interval median = latency_interval(q, 0.5);
	const char *name = point_name(p, r, q, a);

	m[(*n)++] = (struct ci_measure){name, "latency", median.value * 1e9, median.low * 1e9,
					median.high * 1e9};
	m[(*n)++] = (struct ci_measure){name, "throughput", profile_runs_a_second(q) * q->items,
					NAN, NAN};
	const char *by;
	double joules = profile_energy(r, q, &by);
	if (!isnan(joules))
		m[(*n)++] = (struct ci_measure){name, "energy", joules, NAN, NAN};
	if (r->nphases && r->npoints == 1)
		m[(*n)++] = (struct ci_measure){name, "peak-memory", r->phase[r->nphases - 1].peak,
						NAN, NAN};
}

/* Adds one case for each error that is not about one point: the comparison with the baseline. */
static void add_verdicts(const struct profile *p, struct ci_case *c, size_t *n, struct arena *a)
{
	for (const struct finding *f = p->d->first; f; f = f->next) {
		bool point = false;
		for (size_t i = 0; i < p->nfailed; i++)
			point |= p->failed[i].finding == f;
		if (f->severity == SEV_ERROR && !point)
			c[(*n)++] = (struct ci_case){
				.group = p->o->operand[0],
				.name = "profile baseline",
				.why = arena_printf(a, "%s: %s", code_id(f->code, f->severity),
						    f->message ? f->message : code_title(f->code)),
				.detail = ci_finding_text(f, a)};
	}
}

int export_ci(struct profile *p, enum ci_format format, const char *path)
{
	struct arena a = {0};
	size_t points = p->nfailed, ncases = 0, nmeasures = 0;

	for (size_t i = 0; i < p->nrecords; i++)
		points += p->record[i]->npoints;
	struct ci_case *cases = arena_new_n(&a, struct ci_case, points + p->d->errors + 1);
	struct ci_measure *measures = arena_new_n(&a, struct ci_measure, 4 * points + 1);
	for (size_t i = 0; i < p->nrecords; i++)
		for (size_t k = 0; k < p->record[i]->npoints; k++) {
			const struct record_point *q = &p->record[i]->point[k];
			const struct ci_measure *measured = &measures[nmeasures];
			add_measures(p, p->record[i], q, measures, &nmeasures, &a);
			cases[ncases++] = (struct ci_case){
				.group = p->record[i]->id.model,
				.name = arena_printf(&a, "profile %s",
						     point_name(p, p->record[i], q, &a)),
				.seconds = stats_quantile_of(q->time, q->n, 0.5),
				.measures = measured,
				.nmeasures = (size_t)(&measures[nmeasures] - measured)};
		}
	for (size_t i = 0; i < p->nfailed; i++)
		cases[ncases++] =
			(struct ci_case){.group = p->o->operand[0],
					 .name = arena_printf(&a, "profile %s %s",
							      p->failed[i].label, p->failed[i].point),
					 .why = failure_sentence(&p->failed[i], &a),
					 .detail = ci_finding_text(p->failed[i].finding, &a)};
	add_verdicts(p, cases, &ncases, &a);
	const struct ci_report r = {.title = "infer profile",
				    .cases = cases,
				    .ncases = ncases,
				    .measures = measures,
				    .nmeasures = nmeasures,
				    .d = p->d};
	int rc = ci_write(&r, format, path, p->d);
	arena_free(&a);
	return rc;
}
