/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_TABLE_H
#define CMD_OUTPUT_TABLE_H
/* A table of texts, made once and shown on a terminal, in Markdown or on a page. */
#include "output/html.h"

struct table {
	struct arena *arena;
	const char *const *heads; /* NULL ends */
	const char *align;	  /* as page_table */
	size_t columns, rows, cap, at;
	struct table_cell {
		const char *text;
		double value; /* to sort by; NAN: by its text */
	} * cell;
};

void table_begin(struct table *t, struct arena *a, const char *const *heads, const char *align);
void table_text(struct table *t, const char *text); /* row by row, left to right */
void table_number(struct table *t, double value, const char *text);
/* indent: before each line */
void table_print(const struct table *t, const char *indent, FILE *f);
void table_markdown(const struct table *t, FILE *f);
/* As plain text within a line of Markdown, or a cell: what Markdown and HTML would take for theirs is escaped. */
void markdown_text(const char *s, FILE *f);
void table_page(const struct table *t, struct page *p);

#endif
