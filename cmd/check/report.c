/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report of infer check: one line for each check and a summary line, or one JSON document. */
#include "cmd/check/report.h"

#include "base/clock.h"
#include "base/tame.h"
#include "cmd/output/output.h"

static const char *verdict_text(const struct check_result *r, struct arena *a)
{
	if (r->state == CHECK_SKIPPED)
		return "skipped";
	if (r->state == CHECK_BROKEN)
		return "aborted";
	if (r->errors)
		return arena_printf(a, "%zu error%s", r->errors, r->errors > 1 ? "s" : "");
	if (r->warnings)
		return arena_printf(a, "%zu warning%s", r->warnings, r->warnings > 1 ? "s" : "");
	return "ok";
}

static const char *verdict_color(const struct check_result *r)
{
	return r->state == CHECK_SKIPPED	       ? "\033[2m"
	       : r->errors || r->state == CHECK_BROKEN ? "\033[1;31m"
	       : r->warnings			       ? "\033[33m"
						       : "\033[32m";
}

void report_print(const struct check_context *c, FILE *f, bool color)
{
	struct arena a = {0};

	for (size_t i = 0; i < c->nresults; i++) {
		const struct check_result *r = &c->results[i];
		fprintf(f, "%-12s %s%-11s%s %s\n", r->check->name, color ? verdict_color(r) : "",
			verdict_text(r, &a), color ? "\033[0m" : "",
			tame_word(&a, r->said ? r->said : r->check->what));
	}
	arena_free(&a);
}

void report_end(const struct check_context *c, uint64_t start, FILE *f)
{
	const struct diag *d = c->d;
	const char *device = c->session ? session_device(c->session) : "none";
	struct arena a = {0};

	fprintf(f, "%s: %zu error%s, %zu warning%s; device %s; %.2f s; exit status %d\n",
		tame_word(&a, c->path), d->errors, d->errors == 1 ? "" : "s", d->warnings,
		d->warnings == 1 ? "" : "s", device, (double)(clock_ns() - start) / 1e9,
		diag_exit(d));
	arena_free(&a);
}

void report_json(const struct check_context *c, struct options *o)
{
	static const char *const states[] = {"passed", "found", "skipped", "broken"};
	struct json j;

	json_envelope_begin(&j, o, c->d);
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
