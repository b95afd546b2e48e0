/* SPDX-License-Identifier: Apache-2.0 */
/* infer check: the checks of src/check, their report, and what a time-out leaves behind. */
#include "check.h"

#include "base/clock.h"
#include "cmd.h"
#include "output.h"
#include "watchdog.h"

#include <stdlib.h>
#include <string.h>

struct view {
	struct options *o;
	struct check_context c;
	struct input_request request;
	uint64_t start;
	char *text, *findings; /* what was gathered, for the watchdog */
};

/* ---- the report */

static const char *verdict(const struct check_result *r, struct arena *a)
{
	if (r->state == CHECK_SKIPPED)
		return "left out";
	if (r->state == CHECK_BROKEN)
		return "broke off";
	if (r->errors)
		return arena_printf(a, "%zu error%s", r->errors, r->errors > 1 ? "s" : "");
	if (r->warnings)
		return arena_printf(a, "%zu warning%s", r->warnings, r->warnings > 1 ? "s" : "");
	return "ok";
}

static const char *tint(const struct check_result *r)
{
	return r->state == CHECK_SKIPPED	       ? "\033[2m"
	       : r->errors || r->state == CHECK_BROKEN ? "\033[1;31m"
	       : r->warnings			       ? "\033[33m"
						       : "\033[32m";
}

static void print_report(const struct check_context *c, FILE *f, bool color)
{
	struct arena a = {0};

	for (size_t i = 0; i < c->nresults; i++) {
		const struct check_result *r = &c->results[i];
		fprintf(f, "%-12s %s%-11s%s %s\n", r->check->name, color ? tint(r) : "",
			verdict(r, &a), color ? "\033[0m" : "", r->said ? r->said : r->check->what);
	}
	arena_free(&a);
}

static void print_end(const struct view *v)
{
	const struct diag *d = v->c.d;
	const char *device = v->c.session ? session_device(v->c.session) : "none";

	printf("%s: %zu error%s, %zu warning%s; device %s; %.2f s; exit status %d\n", v->c.path,
	       d->errors, d->errors == 1 ? "" : "s", d->warnings, d->warnings == 1 ? "" : "s",
	       device, (double)(clock_ns() - v->start) / 1e9, diag_exit(d));
}

static void write_document(struct view *v)
{
	static const char *const states[] = {"passed", "found", "skipped", "broken"};
	const struct check_context *c = &v->c;
	struct json j;

	json_envelope_begin(&j, v->o, c->d);
	json_string(&j, "model", c->path);
	if (c->session)
		json_string(&j, "device", session_device(c->session));
	json_array(&j, "checks");
	for (size_t i = 0; i < c->nresults; i++) {
		const struct check_result *r = &c->results[i];
		json_object(&j, NULL);
		json_string(&j, "name", r->check->name);
		json_string(&j, "what", r->check->what);
		json_string(&j, "state", states[r->state]);
		json_string(&j, "said", r->said);
		json_uint(&j, "errors", r->errors);
		json_uint(&j, "warnings", r->warnings);
		json_number(&j, "seconds", (double)r->ns / 1e9);
		if (r->check->write && r->data)
			r->check->write(r, &j);
		json_end(&j, '}');
	}
	json_end(&j, ']');
	json_envelope_end(&j, c->d);
}

/* ---- while it runs */

static void at(void *arg, const char *node, const char *op)
{
	(void)arg;
	watchdog_at(node, op);
}

/* What a signal writes is made before it comes: nothing can be made in its handler. */
static void ended(void *arg, const struct check_context *c)
{
	struct view *v = arg;
	char *text = NULL, *findings = NULL, *old[2] = {v->text, v->findings};
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct json j;

	if (!f)
		return;
	print_report(c, f, false);
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

static void begin(struct view *v, struct diag *d)
{
	struct options *o = v->o;

	o->check.sweep = o->sweep;
	o->check.html = o->html;
	o->check.save = o->save;
	v->request = (struct input_request){.input = o->input,
					    .random = o->random,
					    .shape = o->shape,
					    .dim = o->dim,
					    .data_set = o->data_set,
					    .seed = o->seed,
					    .strict = o->strict};
	v->c.path = o->operand[0];
	v->c.config = &o->config;
	v->c.options = &o->check;
	v->c.request = &v->request;
	v->c.d = d;
	v->c.progress = (struct check_progress){.at = at, .ended = ended, .arg = v};
}

int cmd_check(struct options *o, struct diag *d)
{
	struct view v = {.o = o, .start = clock_ns()};

	if (o->after_dashes || o->watch.pid != INT_ABSENT)
		return watch_command(o, d);
	begin(&v, d);
	int rc = check_run(&v.c);
	if (o->json) {
		write_document(&v);
	} else {
		print_report(&v.c, stdout, output_color(o, stdout));
		print_end(&v);
	}
	watchdog_gathered(NULL, NULL);
	free(v.text);
	free(v.findings);
	check_end(&v.c);
	return rc;
}
