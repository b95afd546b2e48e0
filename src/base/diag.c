/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include "base/hash.h"
#include "base/tame.h"

#include <stdlib.h>
#include <string.h>

/* Where the cure of a finding is shown; codes.def explains both values. */
enum shown { MANUAL, HINT };

static const struct {
	const char *name, *title, *cure;
	int exit;
	enum shown shown;
} codes[E_COUNT] = {
	[E_OK] = {.name = "OK", .title = "fine"},
#define CODE(name, exit, title, shown, cure) [E_##name] = {#name, title, cure, exit, shown},
#include "base/codes.def"
#undef CODE
};

const char *code_id(enum code code, enum severity severity)
{
	static char ids[3][E_COUNT][32];
	char *id = ids[severity][code];

	if (!*id) {
		char made[32];
		snprintf(made, sizeof(made), "%c-%s", "NWE"[severity], codes[code].name);
		for (char *p = made; *p; p++)
			if (*p == '_')
				*p = '-';
		memcpy(id, made, sizeof(made));
	}
	return id;
}

enum code code_named(const char *id)
{
	for (int k = 1; id && *id && k < E_COUNT; k++)
		if (!strcmp(code_id((enum code)k, SEV_ERROR) + 1, id + 1))
			return (enum code)k;
	return E_INTERNAL;
}

const char *severity_word(enum severity severity)
{
	static const char *const words[] = {"note", "warning", "error"};

	return words[severity];
}

const char *code_title(enum code code)
{
	return codes[code].title;
}

const char *code_cure(enum code code)
{
	return codes[code].cure;
}

const char *code_hint(enum code code)
{
	return codes[code].shown == HINT ? codes[code].cure : NULL;
}

const char *finding_hint(const struct finding *f)
{
	const char *hint = f->hint ? f->hint : code_hint(f->code);

	return hint ? hint : "";
}

int code_exit(enum code code)
{
	return codes[code].exit;
}

/*
 * Copies a finding with all its texts, because the texts may belong to a model that is freed before
 * the finding.
 */
static struct finding *copy_finding(struct arena *a, const struct finding *f)
{
	struct finding *copy = arena_dup(a, f, sizeof(*f));
	const char **text[] = {&copy->model,   &copy->node,	&copy->op,     &copy->slot,
			       &copy->message, &copy->expected, &copy->actual, &copy->hint};

	for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
		*text[i] = arena_str(a, *text[i]);
	if (f->nrows) {
		struct diag_row *rows = arena_dup(a, f->rows, f->nrows * sizeof(*f->rows));
		for (size_t i = 0; i < f->nrows; i++)
			rows[i] = (struct diag_row){arena_str(a, rows[i].label),
						    arena_str(a, rows[i].text)};
		copy->rows = rows;
	}
	copy->next = NULL;
	return copy;
}

/* Other members of a finding may change after it was added. */
static size_t bucket_of(const struct diag *d, const struct finding *f)
{
	uint64_t hash = hash_bytes(&f->code, sizeof(f->code), 0);

	if (f->message)
		hash = hash_bytes(f->message, strlen(f->message), hash);
	return (size_t)(hash ^ hash >> 32) & (d->buckets - 1);
}

static void index_finding(struct diag *d, struct finding *f)
{
	struct finding **b = &d->bucket[bucket_of(d, f)];

	f->next_alike = *b;
	*b = f;
}

static void add_to_index(struct diag *d, struct finding *f)
{
	if (d->count++ < d->buckets) {
		index_finding(d, f);
		return;
	}
	d->buckets = d->buckets ? 2 * d->buckets : 8;
	d->bucket = arena_new_n(&d->arena, struct finding *, d->buckets);
	for (struct finding *k = d->first; k; k = k->next)
		index_finding(d, k);
}

int diag_add(struct diag *d, const struct finding *f)
{
	if (!d)
		return -(int)f->code;
	struct finding *copy = copy_finding(&d->arena, f);
	if (d->last)
		d->last->next = copy;
	else
		d->first = copy;
	d->last = copy;
	add_to_index(d, copy);
	d->errors += f->severity == SEV_ERROR;
	d->warnings += f->severity == SEV_WARNING;
	return -(int)f->code;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_finding(const struct finding *a, const struct finding *b)
{
	bool same = a->code == b->code && a->severity == b->severity && a->nrows == b->nrows &&
		    same_text(a->model, b->model) && same_text(a->node, b->node) &&
		    same_text(a->op, b->op) && same_text(a->slot, b->slot) &&
		    same_text(a->message, b->message) && same_text(a->expected, b->expected) &&
		    same_text(a->actual, b->actual) && same_text(a->hint, b->hint);

	for (size_t i = 0; same && i < a->nrows; i++)
		same = same_text(a->rows[i].label, b->rows[i].label) &&
		       same_text(a->rows[i].text, b->rows[i].text);
	return same;
}

/* Whether two findings report the same fault of different nodes, values or files. */
static bool same_complaint(const struct finding *a, const struct finding *b)
{
	return a->code == b->code && a->slot && b->slot && a->expected && b->expected && a->actual &&
	       b->actual && !strcmp(a->expected, b->expected) && !strcmp(a->actual, b->actual);
}

void diag_add_grouped(struct diag *to, const struct diag *from)
{
	const struct finding *next;

	for (const struct finding *f = from->first; f; f = next) {
		size_t more = 0;
		for (next = f->next; next && same_complaint(f, next); next = next->next)
			more++;
		struct finding one = *f;
		if (more)
			one.slot = fmt(to, "%s and %zu more like it", f->slot, more);
		diag_add(to, &one);
	}
}

void diag_drop(struct diag *d, enum code code, enum severity severity)
{
	struct finding *f = d->first, *next;

	d->first = d->last = NULL;
	d->count = 0;
	for (size_t i = 0; i < d->buckets; i++)
		d->bucket[i] = NULL;
	for (; f; f = next) {
		next = f->next;
		if (f->code == code && f->severity == severity) {
			d->errors -= severity == SEV_ERROR;
			d->warnings -= severity == SEV_WARNING;
			continue;
		}
		f->next = NULL;
		if (d->last)
			d->last->next = f;
		else
			d->first = f;
		d->last = f;
		d->count++;
		index_finding(d, f);
	}
}

struct finding *diag_find(const struct diag *d, const struct finding *f)
{
	struct finding *k = d->buckets ? d->bucket[bucket_of(d, f)] : NULL, *found = NULL;

	/* the bucket has the newest finding first */
	for (; k; k = k->next_alike)
		if (same_finding(k, f))
			found = k;
	return found;
}

const char *fmt(struct diag *d, const char *format, ...)
{
	va_list ap;

	if (!d)
		return "";
	va_start(ap, format);
	const char *s = arena_vprintf(&d->arena, format, ap);
	va_end(ap);
	return s;
}

void diag_where(struct diag *d, const char *model, const char *node, const char *op)
{
	if (!d || !d->last)
		return;
	if (!d->last->model)
		d->last->model = arena_str(&d->arena, model);
	if (!d->last->node)
		d->last->node = arena_str(&d->arena, node);
	if (!d->last->op)
		d->last->op = arena_str(&d->arena, op);
}

int diag_exit(const struct diag *d)
{
	int lowest = 0;

	for (const struct finding *f = d->first; f; f = f->next) {
		int status = f->severity == SEV_ERROR ? codes[f->code].exit : 0;
		if (status && (!lowest || status < lowest))
			lowest = status;
	}
	return lowest;
}

static void print_where(const struct finding *f, FILE *s)
{
	if (f->model && (!f->message || strncmp(f->message, f->model, strlen(f->model)) != 0))
		fprintf(s, "%s: ", f->model);
	/*
	 * If a finding about an output has rows, its rows name the node, so only the output is
	 * printed here.
	 */
	if (f->slot && f->nrows && strncmp(f->slot, "output '", 8) == 0)
		fprintf(s, "%s: ", f->slot);
	else if (f->node && f->op)
		fprintf(s, "node '%s' (%s)%s%s: ", f->node, f->op, f->slot ? " " : "",
			f->slot ? f->slot : "");
	else if (f->node || f->op)
		fprintf(s, "%s '%s'%s%s: ", f->node ? "node" : "operator",
			f->node ? f->node : f->op, f->slot ? " " : "", f->slot ? f->slot : "");
	else if (f->slot)
		fprintf(s, "%s: ", f->slot);
}

static void print_rows(const struct finding *f, FILE *s)
{
	int width = 0;

	for (size_t i = 0; i < f->nrows; i++) {
		int n = (int)strlen(f->rows[i].label);
		width = n > width ? n : width;
	}
	for (size_t i = 0; i < f->nrows; i++)
		fprintf(s, "  %-*s  %s\n", width, f->rows[i].label, f->rows[i].text);
}

static void print_text(const struct finding *f, FILE *s)
{
	const char *hint = finding_hint(f);

	print_where(f, s);
	fputs(f->message ? f->message : codes[f->code].title, s);
	if (f->nrows) {
		fputc('\n', s);
		print_rows(f, s);
		return;
	}
	if (f->expected)
		fprintf(s, ": expected %s", f->expected);
	if (f->actual)
		fprintf(s, "%s got %s", f->expected ? "," : ":", f->actual);
	fputc('\n', s);
	if (*hint)
		fprintf(s, "  hint: %s\n", hint);
}

/*
 * Copies a finding and makes its texts safe to print (see tame.h): a name must not even contain a
 * newline.
 */
static struct finding tame_finding(const struct finding *f, struct arena *a)
{
	struct finding t = *f;
	const char **text[] = {&t.model,   &t.node,	&t.op,	   &t.slot,
			       &t.message, &t.expected, &t.actual, &t.hint};

	for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
		*text[i] = *text[i] ? tame_word(a, *text[i]) : NULL;
	if (f->nrows) {
		struct diag_row *rows = arena_new_n(a, struct diag_row, f->nrows);
		for (size_t i = 0; i < f->nrows; i++)
			rows[i] = (struct diag_row){tame_word(a, f->rows[i].label),
						    tame_word(a, f->rows[i].text)};
		t.rows = rows;
	}
	return t;
}

void finding_print_as(const char *id, const struct finding *f, FILE *s, bool color)
{
	static const char *const tints[] = {"\033[36m", "\033[33m", "\033[1;31m"};
	struct arena a = {0};
	struct finding shown = tame_finding(f, &a);

	fprintf(s, "%s%s[%s]%s: ", color ? tints[f->severity] : "", severity_word(f->severity), id,
		color ? "\033[0m" : "");
	print_text(&shown, s);
	arena_free(&a);
}

void finding_print(const struct finding *f, FILE *s, bool color)
{
	finding_print_as(code_id(f->code, f->severity), f, s, color);
}

void diag_print(const struct diag *d, FILE *s, bool color)
{
	for (const struct finding *f = d->first; f; f = f->next)
		finding_print(f, s, color);
}

void diag_free(struct diag *d)
{
	arena_free(&d->arena);
	*d = (struct diag){0};
}
