/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_TABLE_H
#define CMD_OUTPUT_TABLE_H
/* A table of texts that can be printed on a terminal, as Markdown, or on an HTML page. */
#include "output/html.h"

struct table {
	struct arena *arena;
	const char *const *heads; /* the last one is NULL */
	const char *align;	  /* one letter for each column, as for page_table() */
	/*
	 * one digit for each column: where a terminal has too few columns, those of the highest digit are left out first, and a 0
	 * never is; NULL: the last ones first
	 */
	const char *ranks;
	size_t columns, rows, cap, at;
	struct table_cell {
		const char *text;
		const char *brief; /* shown on a page in place of the text, which a click unfolds; NULL: the text */
		double value; /* sort key of the cell on an HTML page; NAN to sort by the text */
	} * cell;
};

void table_begin(struct table *t, struct arena *a, const char *const *heads, const char *align);
void table_text(struct table *t, const char *text); /* fills the table row by row */
void table_folded(struct table *t, const char *brief, const char *text);
void table_number(struct table *t, double value, const char *text);
/*
 * Prints aligned columns, with `indent` before each line. In a terminal of few columns, names are shortened in their middle,
 * and columns left out.
 */
void table_print(const struct table *t, const char *indent, FILE *f);
void table_markdown(const struct table *t, FILE *f);
/* Writes s as plain text for a line or a table cell of Markdown; escapes the special characters of Markdown and HTML. */
void markdown_text(const char *s, FILE *f);
void table_page(const struct table *t, struct page *p);

#endif
