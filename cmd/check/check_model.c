/* SPDX-License-Identifier: Apache-2.0 */
/* infer check MODEL: runs the checks of src/check and prints their report, which is partial after a timeout. */
#include "cmd/check/check_model.h"

#include "base/clock.h"
#include "check/check.h"
#include "cmd/options/subcommand.h"
#include "cmd/check/report.h"
#include "cmd/output/ci.h"
#include "cmd/output/output.h"
#include "cmd/output/auto_precision.h"
#include "cmd/output/progress.h"
#include "cmd/output/watchdog.h"

#include <stdlib.h>
#include <string.h>

struct view {
	struct options *o;
	struct check_context c;
	struct input_request request;
	uint64_t start;
	struct progress progress;
	const struct check *weighed; /* for which `before` and `all` are: weights of the checks before it, and of all */
	double before, all;
	/* report and findings so far, which the watchdog writes if the command is interrupted */
	char *text, *findings;
};

/* ---- while the checks run */

static void set_running_node(void *arg, const char *node, const char *op)
{
	(void)arg;
	watchdog_at(node, op);
}

/* Advances the progress bar. Each check is weighted by the typical time of checks of its cost class. */
static void show_progress(void *arg, const struct check *check, uint64_t done, uint64_t total)
{
	static const double weight[] = {1, 3, 5, 20, 200};
	struct view *v = arg;

	if (v->weighed != check)
		v->all = 0;
	for (size_t i = 0; checks[i] && v->weighed != check; i++) {
		const char *why = NULL;
		if (checks[i]->applies && !checks[i]->applies(&v->c, &why))
			continue;
		if (checks[i] == check)
			v->before = v->all;
		v->all += weight[checks[i]->cost];
	}
	v->weighed = check;
	double part = total ? (double)done / (double)total : 0;
	progress_at(&v->progress, (v->before + part * weight[check->cost]) / v->all, check->name);
}

/* Prepares the partial report after each check, because a signal handler cannot create it. */
static void store_partial_report(void *arg, const struct check_context *c)
{
	struct view *v = arg;
	char *text = NULL, *findings = NULL, *old[2] = {v->text, v->findings};
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct json j;

	if (!f)
		return;
	diag_print(c->d, f, false);
	report_print(c, f, false);
	fclose(f);
	f = open_memstream(&findings, &n);
	if (f) {
		json_begin(&j, f);
		for (const struct finding *x = c->d->first; x; x = x->next) {
			j.depth = 2;
			j.comma = false;
			json_finding(&j, x);
			fputs(",\n", f);
		}
		fclose(f);
	}
	v->text = text;
	v->findings = findings;
	watchdog_gathered(text, findings);
	free(old[0]);
	free(old[1]);
}

/* ---- the command */

static void init_view(struct view *v, struct diag *d)
{
	struct options *o = v->o;

	o->check.sweep = o->sweep;
	o->check.steps = o->steps;
	o->check.step_limit = o->step_limit;
	o->check.html = o->html;
	for (int64_t i = 0; i < o->exports.n; i++) {
		const char *path;
		if (ci_format_of(o->exports.v[i].s, &path) == OWN_HTML)
			o->check.html = path;
	}
	o->check.save = o->save;
	v->request = options_request(o);
	v->c.path = o->operand[0];
	v->c.config = &o->config;
	o->config.simulate_fp8 = o->check.sensitivity;
	v->c.options = &o->check;
	v->c.request = &v->request;
	v->c.d = d;
	v->c.progress = (struct check_progress){.step = show_progress,
						.at = set_running_node,
						.ended = store_partial_report,
						.arg = v};
	progress_begin(&v->progress, o);
}

/* Resolves --precision auto on random inputs from 0 to 1 if none are given, as the checks use them. */
static void resolve_precision(struct view *v)
{
	static const struct text range = {"0..1", 4};
	struct input_request request = v->request;

	if (!request.random.n)
		request.random = (struct texts){&range, 1};
	precision_settle(v->o, &v->o->config, &request, NULL, v->c.d);
}

#define CHECK_REPORTS "the report itself is kept by -o FILE.txt, FILE.json, FILE.html or FILE.xml"

/* Refuses a file for a report of an unknown kind, or a folder that would stay empty: a job would miss it only when it wants it. */
static int refuse_useless_save(const struct options *o, struct diag *d)
{
	const char *origin = options_origin(o, "save");

	if (!o->save || *origin != '-' || o->check.bisect || o->check.all)
		return 0;
	return FAIL(d, E_OPTION, .slot = origin,
		    .message = fmt(
			    d, "'%s' is no file for a report, and nothing else is saved without --bisect",
			    o->save),
		    .hint = CHECK_REPORTS "; --bisect -o DIR keeps the nodes that it finds");
}

/* Warns about options that have no effect without another one. */
static void warn_useless_options(const struct options *o, struct diag *d)
{
	const struct check_options *c = &o->check;
	bool leak = c->leak || c->all, bisect = c->bisect || c->all;

	if (o->save && *options_origin(o, "save") == '-' && c->all && !c->bisect)
		WARN(d, E_OPTION, .slot = options_origin(o, "save"),
		     .message = "nothing is saved but what --bisect finds, if it finds a node",
		     .hint = CHECK_REPORTS);
	static const char *const tolerances[] = {"rtol", "atol", "metric"};
	for (size_t i = 0;
	     i < 3 && !c->expect.n && !c->compare && !c->sensitivity && !o->data_set && !bisect; i++)
		if (*options_origin(o, tolerances[i]) == '-')
			WARN(d, E_OPTION, .slot = options_origin(o, tolerances[i]),
			     .message = "nothing is compared without a reference",
			     .hint = "add --expect FILE, --data-set DIR, or --compare A,B");
	const struct {
		const char *option, *needs;
		bool given;
	} parts[] = {{"runs", "--leak", leak},
		     {"recreate", "--leak", leak},
		     {"undo", "--sensitivity", c->sensitivity}};
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (!parts[i].given && *options_origin(o, parts[i].option) == '-')
			WARN(d, E_OPTION, .slot = options_origin(o, parts[i].option),
			     .message = fmt(d, "this option has no effect without %s", parts[i].needs),
			     .hint = fmt(d, "add %s", parts[i].needs));
}

static void print_result(const struct view *v)
{
	struct options *o = v->o;

	if (o->html)
		report_page(&v->c, o, o->html, v->c.d);
	for (int64_t i = 0; i < o->exports.n; i++) {
		const char *path;
		enum ci_format format = ci_format_of(o->exports.v[i].s, &path);
		if (format == OWN_HTML)
			report_page(&v->c, o, path, v->c.d);
		else if (format == OWN_JSON)
			report_save(&v->c, v->start, o, path);
		else if (format == OWN_TXT)
			report_text(&v->c, v->start, path);
	}
	(void)report_ci(&v->c, o, v->c.d);
	if (o->json) {
		report_json(&v->c, v->start, o);
	} else {
		output_findings(o, v->c.d, stdout);
		report_print(&v->c, stdout, output_color(o, stdout));
		report_end(&v->c, v->start, stdout);
	}
}

int check_model(struct options *o, struct diag *d)
{
	struct view v = {.o = o, .start = clock_ns()};

	if (refuse_useless_save(o, d))
		return -E_OPTION;
	warn_useless_options(o, d);
	if (o->html && output_probe(o->html, d))
		return -E_OUTPUT;
	if (ci_check(o, CI_PAGES, d))
		return -(int)d->last->code;
	init_view(&v, d);
	resolve_precision(&v);
	watchdog_crash();
	int rc = check_run(&v.c);
	progress_clear(&v.progress);
	if (!rc)
		print_result(&v);
	watchdog_gathered(NULL, NULL);
	free(v.text);
	free(v.findings);
	check_end(&v.c);
	return rc;
}
