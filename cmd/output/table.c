/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/table.h"

#include "base/tame.h"
#include "base/utf8.h"

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
	t->cell[n] = (struct table_cell){text ? tame_word(t->arena, text) : "", value};
	if (++t->at == t->columns) {
		t->at = 0;
		t->rows++;
	}
}

void table_text(struct table *t, const char *text)
{
	table_number(t, NAN, text);
}

/*
 * Returns the number of terminal columns of a UTF-8 string, that is, its bytes without continuation
 * bytes.
 */
static int text_width(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += !utf8_continues(*s);
	return n;
}

static bool is_right_aligned(const struct table *t, size_t column)
{
	return t->align[column] == 'r' || t->align[column] == 's';
}

static int column_width(const struct table *t, size_t k)
{
	int widest = text_width(t->heads[k]);

	for (size_t i = 0; i < t->rows; i++) {
		int n = text_width(t->cell[i * t->columns + k].text);
		widest = n > widest ? n : widest;
	}
	return widest;
}

static void print_padded(const struct table *t, size_t k, const char *text, int to, FILE *f)
{
	int room = to - text_width(text);

	if (is_right_aligned(t, k))
		fprintf(f, "%*s%s", room, "", text);
	else if (k + 1 < t->columns)
		fprintf(f, "%s%*s", text, room, "");
	else
		fputs(text, f);
}

static void print_row(const struct table *t, const int *widths, const char *indent, size_t row,
		      FILE *f)
{
	fputs(indent, f);
	for (size_t k = 0; k < t->columns; k++) {
		const char *text = row ? t->cell[(row - 1) * t->columns + k].text : t->heads[k];
		fputs(k ? "  " : "", f);
		print_padded(t, k, text, widths[k], f);
	}
	fputc('\n', f);
}

void table_print(const struct table *t, const char *indent, FILE *f)
{
	int *widths = arena_new_n(t->arena, int, t->columns + 1);

	for (size_t k = 0; k < t->columns; k++)
		widths[k] = column_width(t, k);
	for (size_t row = 0; row <= t->rows; row++)
		print_row(t, widths, indent, row, f);
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
			else
				page_cell(p, c->text);
		}
	page_table_end(p);
}
