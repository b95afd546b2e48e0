/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns options into measurements, with their axes, sweeps and limits. Options that cannot be measured are refused
 * here, before the first run.
 */
#include "cmd/profile/profile.h"

#include "base/file.h"
#include "base/str.h"
#include "session/backends.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JOBS = 256, OBSERVED_RUNS = 200, GATE_OBSERVED_RUNS = 40 };

/* ---- axes: options with a list of values to compare */

struct axis {
	const char *name;  /* of the option */
	struct texts list; /* values to compare; if n is 0, the option's own value is used */
	const struct field *field;
};

static struct texts split_list(const char *text, struct arena *a)
{
	struct texts t = {NULL, 0};

	for (const char *s = text; s;) {
		size_t n = strcspn(s, ",");
		struct text *v = arena_append(a, t.v, (size_t)t.n, sizeof(*v));
		v[t.n] = (struct text){arena_strn(a, s, n), n};
		t = (struct texts){v, t.n + 1};
		s = s[n] ? s + n + 1 : NULL;
	}
	return t;
}

static bool is_device_name(const char *s)
{
	return backend_named(s, NULL) != NULL;
}

static int device_axis(struct profile *p, struct axis *x)
{
	struct options *o = p->o;

	*x = (struct axis){.name = "compare-device", .field = field_find(options_table, "device")};
	if (!o->compare_device)
		return 0;
	x->list = split_list(o->compare_device, &p->arena);
	for (int64_t i = 0; i < x->list.n; i++)
		if (!is_device_name(x->list.v[i].s))
			return options_fail(o, "compare-device",
					    fmt(p->d, "no device is called '%s'", x->list.v[i].s),
					    backend_words(&p->d->arena), p->d);
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/* Returns the name of a model among those to compare: the last parts of its path that no other ends with. */
static const char *model_label(const struct profile *p, const char *path)
{
	const char *name = path_base(path);

	for (;;) {
		size_t alike = 0;
		for (size_t i = 0; i < p->o->noperands; i++)
			alike += ends_with(p->o->operand[i], name);
		if (alike == 1 || name == path)
			return name;
		/* name the folder, too */
		for (name--; name > path && name[-1] != '/'; name--)
			;
	}
}

/* Fills job number k: the options, with one value of each axis. */
static int make_job(struct profile *p, struct profile_job *job, const struct axis *axis,
		    size_t naxes, size_t k)
{
	struct options o = *p->o;
	struct str label = {.arena = &p->arena};

	for (size_t i = naxes; i-- > 0;) {
		size_t n = axis[i].list.n > 0 ? (size_t)axis[i].list.n : 0;
		if (!n)
			continue;
		const char *value = axis[i].list.v[k % n].s;
		k /= n;
		int rc = field_set(axis[i].field, &o, value, axis[i].name, &p->arena, p->d);
		if (rc)
			return rc;
		const char *before = label.n ? arena_str(&p->arena, str_get(&label)) : NULL;
		label.n = 0;
		str_addf(&label, "%s=%s%s%s", axis[i].field->name, value, before ? " " : "",
			 before ? before : "");
	}
	job->config = o.config;
	job->sessions = o.sessions * o.streams;
	job->label = label.n ? str_get(&label) : "";
	if (p->o->noperands > 1)
		job->label = arena_printf(&p->arena, "%s%s%s", model_label(p, job->path),
					  label.n ? " " : "", job->label);
	if (job->sessions > 256)
		return options_fail(p->o, "sessions", "more than 256 sessions", NULL, p->d);
	return 0;
}

static int check_models(const struct profile *p)
{
	const struct options *o = p->o;

	if (o->noperands > 1 && o->config.precision == PRECISION_AUTO)
		return options_fail(o, "precision", "auto chooses for one model",
				    "name the precision, or measure the models one by one", p->d);
	return 0;
}

static int make_jobs(struct profile *p, const struct profile_job *common)
{
	const struct options *o = p->o;
	static const char *const names[] = {"threads", "sessions", "streams",	"memory-plan",
					    "arena",   "optimize", "precision", "cuda-graph"};
	const struct texts lists[] = {o->threads_axis,	 o->sessions_axis, o->streams_axis,
				      o->plan_axis,	 o->arena_axis,	   o->optimize_axis,
				      o->precision_axis, o->graph_axis};
	enum { NAMES = sizeof(names) / sizeof(*names) };
	struct axis axis[NAMES + 1];
	size_t n = 1, models = o->noperands;
	int rc = check_models(p);

	rc = rc ? rc : device_axis(p, &axis[0]);

	for (size_t i = 0; i < NAMES; i++)
		axis[i + 1] = (struct axis){names[i], lists[i], field_find(options_table, names[i])};
	for (size_t i = 0; i <= NAMES && !rc; i++)
		if (axis[i].list.n > 0 && (n *= (size_t)axis[i].list.n) > MAX_JOBS)
			rc = options_fail(o, axis[i].name, "more than 256 combinations to compare",
					  NULL, p->d);
	if (!rc && n * models > MAX_JOBS)
		rc = FAIL(p->d, E_USAGE,
			  .message = "more than 256 combinations of models and settings");
	if (rc)
		return rc;
	n *= models;
	p->job = arena_new_n(&p->arena, struct profile_job, n);
	p->record = arena_new_n(&p->arena, struct record *, n);
	p->failed = arena_new_n(&p->arena, struct profile_failure, n);
	p->njobs = n;
	for (size_t k = 0; k < n && !rc; k++) {
		p->job[k] = *common;
		p->job[k].path = o->operand[k / (n / models)];
		rc = make_job(p, &p->job[k], axis, NAMES + 1, k % (n / models));
	}
	return rc;
}

/* ---- durations and limits */

static int parse_warmup(struct profile *p, struct profile_job *job)
{
	struct options *o = p->o;
	static const struct field as_time = {.name = "warmup", .type = F_DURATION};
	const char *s = o->warmup;
	char *end;

	if (*s && s[strspn(s, "0123456789")] == '\0') {
		job->warm_runs = strtoll(s, &end, 10);
		if (job->warm_runs <= 100000000)
			return 0;
	} else if (field_set(&as_time, &job->warm_time, s, "", &p->arena, NULL) == 0) {
		return 0;
	}
	return options_fail(o, "warmup", fmt(p->d, "'%s' is neither a number of runs nor a time", s),
			    "for example 10, or 200ms", p->d);
}

static int parse_limits(struct profile *p)
{
	struct options *o = p->o;

	p->limits = (struct gate_limits){NAN, NAN, NAN};
	p->gate = o->fail_above || o->fail_above_memory;
	if (p->gate && !o->baseline)
		return options_fail(o, o->fail_above ? "fail-above" : "fail-above-memory",
				    "a limit needs a baseline to compare with",
				    "add --baseline FILE, which --save-baseline FILE writes", p->d);
	if (o->fail_unknown && !o->fail_above && isnan(o->fail_above_energy))
		return options_fail(o, "fail-unknown",
				    "there is no limit that a slower model could exceed",
				    "add --fail-above P%", p->d);
	if (o->fail_above && !gate_parse(o->fail_above, false, &p->limits))
		return options_fail(o, "fail-above",
				    fmt(p->d, "'%s' is not a percentage", o->fail_above),
				    strspn(o->fail_above, "0123456789.") == strlen(o->fail_above)
					    ? fmt(p->d, "write --fail-above %s%%", o->fail_above)
					    : "for example 5%",
				    p->d);
	if (o->fail_above_memory && !gate_parse(o->fail_above_memory, true, &p->limits))
		return options_fail(
			o, "fail-above-memory",
			fmt(p->d, "'%s' is neither a percentage nor a size", o->fail_above_memory),
			"for example 5%, or 2MiB", p->d);
	return 0;
}

static int check_gate(struct profile *p)
{
	struct options *o = p->o;
	const char *name = o->baseline ? "baseline" : "save-baseline";

	if (!o->baseline && !o->save_baseline)
		return 0;
	if (o->iterations != INT_ABSENT && o->iterations < 2)
		return options_fail(o, "iterations", "a comparison needs at least two runs",
				    "leave the option out, or give 20 or more", p->d);
	if (p->njobs > 1 || p->sweep.points)
		return options_fail(
			o, name, "a baseline holds one model, with one set of settings and shapes",
			"leave out --shapes-sweep and lists of values; infer suite measures several models",
			p->d);
	return 0;
}

static int check_streams(struct profile *p)
{
	for (size_t k = 0; k < p->njobs; k++)
		if (!strcmp(p->job[k].config.device, "cpu") &&
		    (p->o->streams > 1 || p->o->streams_axis.n))
			return options_fail(p->o, "streams", "the CPU has no streams",
					    "--sessions N runs sessions side by side", p->d);
	return 0;
}

static bool wants_observing(const struct options *o)
{
	return o->nodes || o->trace || o->exports.n || o->baseline || o->save_baseline ||
	       o->transfers != TRANSFERS_INCLUDE;
}

static int common_job(struct profile *p, struct profile_job *job)
{
	struct options *o = p->o;
	static const struct text range = {"0..1", 4};
	bool gate = o->baseline || o->save_baseline;

	p->request = options_request(o);
	if (!o->random.n) /* inputs that are not given get random values */
		p->request.random = (struct texts){&range, 1};
	*job = (struct profile_job){.path = o->operand[0],
				    .request = &p->request,
				    .sweep = &p->sweep,
				    .iterations = o->iterations == INT_ABSENT ? 0 : o->iterations,
				    .duration = isnan(o->duration) ? 0 : o->duration,
				    .observed = gate		     ? GATE_OBSERVED_RUNS
						: wants_observing(o) ? OBSERVED_RUNS
								     : 0,
				    .peak = o->nodes || o->exports.n,
				    .for_gate = gate,
				    .hash = gate || o->exports.n || o->json || o->trace,
				    .copies = o->transfers != TRANSFERS_INCLUDE,
				    .trace = o->trace};
	if (!isnan(o->duration) && !(o->duration > 0))
		return options_fail(o, "duration", "the duration must be above zero",
				    "for example 3s, or a number of runs: -n N", p->d);
	if (!job->iterations && !(job->duration > 0))
		job->duration = p->sweep.points ? 1 : 3;
	return parse_warmup(p, job);
}

static int check_percentiles(struct profile *p)
{
	if (p->o->percentile.n < 1)
		return options_fail(p->o, "percentile", "no percentile is given",
				    "for example 50,90,99", p->d);
	return 0;
}

int profile_plan(struct profile *p)
{
	struct profile_job common;
	int rc = sweep_parse(&p->o->sweep, &p->sweep, &p->arena, p->d);

	if (!rc)
		rc = check_percentiles(p);
	if (!rc)
		rc = common_job(p, &common);
	if (!rc)
		rc = make_jobs(p, &common);
	if (!rc)
		rc = check_streams(p);
	if (!rc)
		rc = parse_limits(p);
	if (!rc)
		rc = check_gate(p);
	if (!rc)
		rc = export_check(p);
	if (!rc && p->o->baseline)
		rc = baseline_read(p);
	if (!rc && p->baseline && !p->o->force) {
		p->job[0].expect = &p->baseline->id;
		p->job[0].expected_by = p->o->baseline;
	}
	if (!rc && p->o->trace && p->njobs > 1)
		rc = options_fail(p->o, "trace", "a trace holds one set of settings", NULL, p->d);
	return rc;
}
