/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report of infer check: one line for each check and a summary line, or one JSON document. */
#include "cmd/check/report.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/tame.h"
#include "cmd/output/ci.h"
#include "cmd/output/output.h"

#include <stdlib.h>

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

static void write_members(const struct check_context *c, uint64_t start, struct json *j)
{
	static const char *const states[] = {"passed", "found", "skipped", "broken"};
	struct printed printed;

	report_print(c, printed_begin(&printed), false);
	report_end(c, start, printed.stream);
	printed_end(&printed, j);
	json_string(j, "model", c->path);
	if (c->session)
		json_string(j, "device", session_device(c->session));
	json_array(j, "checks");
	for (size_t i = 0; i < c->nresults; i++) {
		const struct check_result *r = &c->results[i];
		json_object(j, NULL);
		json_string(j, "name", r->check->name);
		json_string(j, "what", r->check->what);
		json_string(j, "state", states[r->state]);
		json_string(j, "said", r->said);
		json_uint(j, "errors", r->errors);
		json_uint(j, "warnings", r->warnings);
		json_number(j, "seconds", (double)r->ns / 1e9);
		if (r->check->write && r->data)
			r->check->write(r, j);
		json_end(j, '}');
	}
	json_end(j, ']');
}

void report_json(const struct check_context *c, uint64_t start, struct options *o)
{
	struct json j;

	json_envelope_begin(&j, o, c->d);
	write_members(c, start, &j);
	json_envelope_end(&j, c->d);
}

/* Closes the stream of open_memstream(), writes its text to a file and frees it. */
static int write_stream(FILE *stream, char **text, size_t *n, const char *path, struct diag *d)
{
	fclose(stream);
	struct file_out *f = file_create(path, E_OUTPUT, d);
	if (f)
		file_write(f, *text, *n);
	free(*text);
	return f ? file_commit(f, d) : -E_OUTPUT;
}

int report_save(const struct check_context *c, uint64_t start, struct options *o, const char *path)
{
	char *text = NULL;
	size_t n = 0;
	FILE *stream = open_memstream(&text, &n);
	struct json j;

	if (!stream)
		return FAIL(c->d, E_MEMORY, .message = NULL);
	json_document_begin(&j, stream, o, c->d);
	write_members(c, start, &j);
	json_document_end(&j, c->d);
	return write_stream(stream, &text, &n, path, c->d);
}

int report_text(const struct check_context *c, uint64_t start, const char *path)
{
	char *text = NULL;
	size_t n = 0;
	FILE *stream = open_memstream(&text, &n);

	if (!stream)
		return FAIL(c->d, E_MEMORY, .message = NULL);
	for (const struct finding *f = c->d->first; f; f = f->next)
		finding_print(f, stream, false);
	report_print(c, stream, false);
	report_end(c, start, stream);
	return write_stream(stream, &text, &n, path, c->d);
}

/* Returns the first error that a check added: findings of a check follow one another. */
static const struct finding *first_error(const struct check_context *c, size_t at)
{
	for (const struct finding *f = c->d->first; f; f = f->next)
		if (f->severity == SEV_ERROR && !at--)
			return f;
	return NULL;
}

int report_ci(const struct check_context *c, const struct options *o, struct diag *d)
{
	struct arena a = {0};
	struct ci_case *cases = arena_new_n(&a, struct ci_case, c->nresults + 1);
	size_t errors = 0;

	for (size_t i = 0; i < c->nresults; i++) {
		const struct check_result *r = &c->results[i];
		const struct finding *f = r->errors ? first_error(c, errors) : NULL;
		cases[i] = (struct ci_case){
			.group = c->path,
			.name = arena_printf(&a, "check %s", r->check->name),
			.seconds = (double)r->ns / 1e9,
			.skipped = r->state == CHECK_SKIPPED && !f,
			.why = f ? arena_printf(&a, "%s: %s", code_id(f->code, f->severity),
						f->message ? f->message : code_title(f->code))
			       : r->state == CHECK_SKIPPED ? r->said
							   : NULL,
			.detail = f ? ci_finding_text(f, &a) : NULL};
		errors += r->errors;
	}
	const struct ci_report r = {
		.title = "infer check", .cases = cases, .ncases = c->nresults, .d = c->d};
	int rc = ci_export_all(&r, o, d);
	arena_free(&a);
	return rc;
}
