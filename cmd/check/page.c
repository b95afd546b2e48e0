/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report of infer check as an HTML page: the result of each check, and every finding with its details. */
#include "cmd/check/report.h"

#include "base/file.h"
#include "cmd/output/output.h"
#include "output/html.h"

#include <inttypes.h>

static void add_facts(struct page *p, const struct check_context *c, struct arena *a)
{
	const struct model *m = c->file;

	page_fact(p, "model", c->path);
	if (m)
		page_fact(p, "versions",
			  arena_printf(a, "IR %" PRId64 "%s%s %s", m->ir_version,
				       *m->producer ? ", made by " : "", m->producer,
				       m->producer_version));
	if (c->session)
		page_fact(p, "device", session_device_text(c->session, a));
	for (uint32_t i = 0; c->inputs && i < input_count(c->inputs); i++) {
		const struct input_info *in = input_info(c->inputs, i);
		page_fact(p, arena_printf(a, "input %s", in->name),
			  arena_printf(a, "%s %s, %s", type_str(a, in->type),
				       shape_str(a, &in->shape, NULL), in->source ? in->source : "?"));
	}
}

static void add_tiles(struct page *p, const struct check_context *c, struct arena *a)
{
	size_t notes = 0;

	for (const struct finding *f = c->d->first; f; f = f->next)
		notes += f->severity == SEV_NOTE;
	page_tile(p, "errors", arena_printf(a, "%zu", c->d->errors), NULL);
	page_tile(p, "warnings", arena_printf(a, "%zu", c->d->warnings), NULL);
	page_tile(p, "notes", arena_printf(a, "%zu", notes), NULL);
	page_tile(p, "exit status", arena_printf(a, "%d", diag_exit(c->d)),
		  "the lowest status among the errors");
}

static const char *state_text(const struct check_result *r, struct arena *a)
{
	static const char *const words[] = {"ok", "found something", "skipped", "aborted"};

	if (r->state == CHECK_PASSED && r->warnings)
		return arena_printf(a, "%zu warning%s", r->warnings, r->warnings > 1 ? "s" : "");
	return words[r->state];
}

static enum page_state state_color(const struct check_result *r)
{
	return r->state == CHECK_SKIPPED			     ? PAGE_SKIPPED
	       : r->state == CHECK_BROKEN || r->state == CHECK_FOUND ? PAGE_FAILED
	       : r->warnings					     ? PAGE_WARNED
								     : PAGE_PASSED;
}

static void add_check_table(struct page *p, const struct check_context *c, struct arena *a)
{
	static const char *const heads[] = {"check", "result", "said", "what", "time", NULL};

	page_section(p, "Checks", "In the order in which they ran, the cheapest first.");
	page_table(p, heads, "llttr");
	for (size_t i = 0; i < c->nresults; i++) {
		const struct check_result *r = &c->results[i];
		page_cell(p, r->check->name);
		page_state(p, state_color(r), state_text(r, a));
		page_cell(p, r->said ? r->said : "");
		page_cell(p, r->check->what);
		page_number(p, (double)r->ns, r->ns ? str_seconds(a, (double)r->ns / 1e9) : "-");
	}
	page_table_end(p);
}

static void add_findings(struct page *p, const struct check_context *c, struct arena *a)
{
	page_section(p, "Findings", NULL);
	if (!c->d->first)
		page_good(p, "Nothing was found.");
	for (int s = SEV_ERROR; s >= SEV_NOTE; s--)
		for (const struct finding *f = c->d->first; f; f = f->next)
			if ((int)f->severity == s)
				page_finding(p, f, a);
}

int report_page(const struct check_context *c, const struct options *o, const char *path,
		struct diag *d)
{
	struct arena a = {0};
	struct page p;

	page_begin(&p, &a, arena_printf(&a, "infer check: %s", path_base(c->path)),
		   c->d->errors	    ? "errors were found"
		   : c->d->warnings ? "no errors, but warnings"
				    : "nothing is wrong");
	add_facts(&p, c, &a);
	add_tiles(&p, c, &a);
	add_check_table(&p, c, &a);
	add_findings(&p, c, &a);
	for (size_t i = 0; i < c->nresults; i++)
		if (c->results[i].check->page && c->results[i].data)
			c->results[i].check->page(&c->results[i], &p);
	page_origin(&p, o, &a);
	int rc = page_save(&p, path, d);
	arena_free(&a);
	return rc;
}
