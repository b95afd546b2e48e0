/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/table.h"

#include "base/columns.h"
#include "base/str.h"
#include "base/tame.h"

#include <math.h>
#include <string.h>

void table_begin(struct table *t, struct arena *a, const char *const *heads, const char *align)
{
	*t = (struct table){.arena = a, .heads = heads, .align = align, .columns = strlen(align)};
}

void table_number(struct table *t, double value, const char *text)
{
	size_t n = t->rows * t->columns + t->at;

	if (n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;
		t->cell = arena_grow(t->arena, t->cell, n, cap, sizeof(*t->cell));
		t->cap = cap;
	}
	t->cell[n] =
		(struct table_cell){.text = text ? tame_word(t->arena, text) : "", .value = value};
	if (++t->at == t->columns) {
		t->at = 0;
		t->rows++;
	}
}

void table_text(struct table *t, const char *text)
{
	table_number(t, NAN, text);
}

void table_folded(struct table *t, const char *brief, const char *text)
{
	size_t n = t->rows * t->columns + t->at;

	table_text(t, text);
	t->cell[n].brief = tame_word(t->arena, brief);
}

static bool is_right_aligned(const struct table *t, size_t column)
{
	return t->align[column] == 'r' || t->align[column] == 's';
}

static int column_width(const struct table *t, size_t k)
{
	int widest = columns_of(t->heads[k]);

	for (size_t i = 0; i < t->rows; i++) {
		int n = columns_of(t->cell[i * t->columns + k].text);
		widest = n > widest ? n : widest;
	}
	return widest;
}

/* ---- fitting a table into the columns of a terminal */

enum {
	SHORT_NAME = 20, /* columns of names, to which names are cut before a column of the table is left out */
	SHORTEST_NAME = 8, /* columns of names in a table that has no other column to leave out */
	GAP = 2,	   /* between two columns */
};

/* A column of the table on the terminal. */
struct fit {
	int width; /* 0: left out */
	bool name; /* may be shortened */
};

static bool is_shown(const struct fit *fit, size_t k)
{
	return fit[k].width > 0;
}

/* Returns the width of a line if no name takes more than `most` columns. */
static int line_width(const struct table *t, const struct fit *fit, int indent, int most)
{
	int sum = indent - GAP;

	for (size_t k = 0; k < t->columns; k++)
		if (is_shown(fit, k))
			sum += GAP + (fit[k].name && fit[k].width > most ? most : fit[k].width);
	return sum;
}

/* Returns the least important column that is shown, or the number of columns if none may be left out. */
static size_t least_important(const struct table *t, const struct fit *fit)
{
	size_t least = t->columns;
	char rank = '0';

	for (size_t k = 0; k < t->columns; k++) {
		char own = t->ranks ? t->ranks[k] : k ? '1' : '0';
		if (is_shown(fit, k) && own >= rank && own > '0') {
			least = k;
			rank = own;
		}
	}
	return least;
}

/* Takes a column from the widest name until lines have the wanted width. */
static void shorten_names(const struct table *t, struct fit *fit, int indent, int wanted)
{
	while (line_width(t, fit, indent, wanted) > wanted) {
		size_t widest = t->columns;
		for (size_t k = 0; k < t->columns; k++)
			if (fit[k].name && fit[k].width > SHORTEST_NAME &&
			    (widest == t->columns || fit[k].width > fit[widest].width))
				widest = k;
		if (widest == t->columns)
			return;
		fit[widest].width--;
	}
}

static struct fit *fit_columns(const struct table *t, int indent)
{
	struct fit *fit = arena_new_n(t->arena, struct fit, t->columns + 1);
	int wanted = columns_wanted();
	size_t least;

	for (size_t k = 0; k < t->columns; k++)
		fit[k] = (struct fit){column_width(t, k), t->align[k] == 'l'};
	/* an empty column, such as one without a head, takes its gap only */
	for (size_t k = 0; k < t->columns; k++)
		fit[k].width = fit[k].width ? fit[k].width : 1;
	if (!wanted)
		return fit;
	while (line_width(t, fit, indent, SHORT_NAME) > wanted &&
	       (least = least_important(t, fit)) < t->columns)
		fit[least].width = 0;
	shorten_names(t, fit, indent, wanted);
	return fit;
}

static size_t last_shown(const struct table *t, const struct fit *fit)
{
	size_t last = 0;

	for (size_t k = 0; k < t->columns; k++)
		last = is_shown(fit, k) ? k : last;
	return last;
}

static void print_padded(const struct table *t, size_t k, const char *text, int to, bool last, FILE *f)
{
	int room = to - columns_of(text);

	if (is_right_aligned(t, k))
		fprintf(f, "%*s%s", room, "", text);
	else if (!last)
		fprintf(f, "%s%*s", text, room, "");
	else
		fputs(text, f);
}

/* Prints a text that is wider than its column, the last one, in several lines that end between words. */
static void print_wrapped(const char *text, int left, int width, struct arena *a, FILE *f)
{
	int at = 0;

	while (*text) {
		size_t n = strcspn(text, " ");
		const char *word = columns_shorten(arena_strn(a, text, n), width, a);
		int own = columns_of(word);
		if (at && at + 1 + own > width) {
			fprintf(f, "\n%*s", left, "");
			at = 0;
		}
		fprintf(f, "%s%s", at ? " " : "", word);
		at += own + (at > 0);
		text += n + strspn(text + n, " ");
	}
}

static void print_row(const struct table *t, const struct fit *fit, const char *indent, size_t row,
		      FILE *f)
{
	size_t last = last_shown(t, fit), first = 0;
	int left = (int)strlen(indent);

	while (first < last && !is_shown(fit, first))
		first++;

	fputs(indent, f);
	for (size_t k = 0; k <= last; k++) {
		const char *text = row ? t->cell[(row - 1) * t->columns + k].text : t->heads[k];
		if (!is_shown(fit, k))
			continue;
		int gap = k > first ? GAP : 0;
		fprintf(f, "%*s", gap, "");
		left += gap;
		if (k == last && fit[k].name && columns_of(text) > fit[k].width && strchr(text, ' '))
			print_wrapped(text, left, fit[k].width, t->arena, f);
		else
			print_padded(t, k, columns_shorten(text, fit[k].width, t->arena),
				     fit[k].width, k == last, f);
		left += fit[k].width;
	}
	fputc('\n', f);
}

/* Names the columns that were left out, so that nobody believes that they do not exist. */
static void print_left_out(const struct table *t, const struct fit *fit, const char *indent, FILE *f)
{
	struct str s = {.arena = t->arena};

	for (size_t k = 0; k < t->columns; k++)
		if (!is_shown(fit, k) && *t->heads[k])
			str_addf(&s, "%s%s", s.n ? ", " : "", t->heads[k]);
	if (!s.n)
		return;
	fputs(indent, f);
	int left = (int)strlen(indent);
	print_wrapped(arena_printf(t->arena, "(wider terminals show: %s)", str_get(&s)), left,
		      columns_wanted() - left, t->arena, f);
	fputc('\n', f);
}

void table_print(const struct table *t, const char *indent, FILE *f)
{
	const struct fit *fit = fit_columns(t, (int)strlen(indent));

	for (size_t row = 0; row <= t->rows; row++)
		print_row(t, fit, indent, row, f);
	print_left_out(t, fit, indent, f);
}

void markdown_text(const char *s, FILE *f)
{
	for (; *s; s++) {
		if (strchr("|<*_`\\&[]~", *s))
			fputc('\\', f);
		fputc(*s == '\n' ? ' ' : *s, f);
	}
}

void table_markdown(const struct table *t, FILE *f)
{
	for (size_t k = 0; k < t->columns; k++)
		fprintf(f, "| %s ", t->heads[k]);
	fputs("|\n", f);
	for (size_t k = 0; k < t->columns; k++)
		fputs(is_right_aligned(t, k) ? "| ---: " : "| --- ", f);
	fputs("|\n", f);
	for (size_t i = 0; i < t->rows; i++) {
		for (size_t k = 0; k < t->columns; k++) {
			fputs("| ", f);
			markdown_text(t->cell[i * t->columns + k].text, f);
			fputc(' ', f);
		}
		fputs("|\n", f);
	}
	fputc('\n', f);
}

void table_page(const struct table *t, struct page *p)
{
	page_table(p, t->heads, t->align);
	for (size_t i = 0; i < t->rows; i++)
		for (size_t k = 0; k < t->columns; k++) {
			const struct table_cell *c = &t->cell[i * t->columns + k];
			if (t->align[k] == 's' && !isnan(c->value))
				page_share(p, c->value);
			else if (!isnan(c->value))
				page_number(p, c->value, c->text);
			else if (c->brief)
				page_folded(p, c->brief, c->text);
			else
				page_cell(p, c->text);
		}
	page_table_end(p);
}
