/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_HTML_H
#define OUTPUT_HTML_H
/*
 * Writes one self-contained HTML page: it loads nothing from the network or other files, and has a light and a dark
 * color scheme. All text that callers pass is escaped. Call the functions in the order in which their parts appear:
 *
 *   struct page p;
 *   page_begin(&p, &arena, "infer profile: resnet50.onnx", "cpu, 500 runs");
 *   page_fact(&p, "device", "cpu: ...");                             any number of times
 *   page_tile(&p, "median", "12.3 ms", "95 % within 12.2 to 12.4");  any number of times
 *   page_section(&p, "Latency", "Each run's time in the steady state.");
 *   page_histogram(...); page_bars(...); page_plot(...);
 *   page_table(&p, heads, "lrr"); page_cell(&p, "..."); ...; page_table_end(&p);
 *   page_save(&p, "out.html", d);
 */
#include "base/diag.h"
#include "base/str.h"

struct page {
	struct str html;
	const char *align; /* of the open table */
	size_t column, columns;
	const char *made, *command; /* of page_made_by() */
	enum { PAGE_TOP, PAGE_FACTS, PAGE_TILES, PAGE_BODY } part;
};

enum page_unit { PAGE_NUMBER, PAGE_SECONDS, PAGE_BYTES };

void page_begin(struct page *p, struct arena *a, const char *title, const char *subtitle);
/* Ends the page with who made it, when and where, and with the command line. Both texts live as long as the page. */
void page_made_by(struct page *p, const char *made, const char *command);
void page_fact(struct page *p, const char *name, const char *text);
void page_tile(struct page *p, const char *name, const char *value, const char *note); /* note: NULL */
void page_section(struct page *p, const char *title, const char *text); /* text: NULL */
void page_text(struct page *p, const char *text);
void page_pre(struct page *p, const char *text); /* preformatted text in a monospaced font */
/*
 * page_note adds a sentence in the color of its severity, or without color for SEV_NOTE. page_good adds a sentence
 * that says that nothing is wrong.
 */
void page_note(struct page *p, enum severity s, const char *text);
void page_good(struct page *p, const char *text);

/*
 * Begins a table, which readers can sort by clicking a column's head. heads has one text per column. align has one
 * letter per column: l left, t left and may wrap, r right, m monospaced, s a share (see page_share). Both must live
 * until page_table_end.
 */
void page_table(struct page *p, const char *const *heads, const char *align);
/* Adds the next cell of the row. After the last column the next row starts. */
void page_cell(struct page *p, const char *text);
/* Adds a cell that shows `brief`, and `text` below it after a click. It is sorted by `brief`. */
void page_folded(struct page *p, const char *brief, const char *text);
/* Adds a cell in the color of a state. */
enum page_state { PAGE_PASSED, PAGE_WARNED, PAGE_FAILED, PAGE_SKIPPED };
void page_state(struct page *p, enum page_state state, const char *text);
/* Adds a cell that shows `text` and is sorted by `value`. */
void page_number(struct page *p, double value, const char *text);
void page_share(struct page *p, double share); /* from 0 to 1, shown in percent with a bar */
void page_table_end(struct page *p);

/* A vertical line in a plot. */
struct page_mark {
	const char *label;
	double at;
};
void page_histogram(struct page *p, const char *title, enum page_unit unit, const double *v,
		    size_t n, const struct page_mark *marks, size_t nmarks);

struct page_bar {
	const char *label, *text; /* text: shown after the bar */
	double value;
};
void page_bars(struct page *p, const char *title, const struct page_bar *bar, size_t n);

struct page_series {
	const char *name;
	const double *x,
		/* if x is NULL, the points are at 0, 1, 2, ...; a y that is NaN or infinite leaves a gap */
		*y;
	size_t n;
	bool dots;  /* draw points without a line */
	bool steps; /* draw a step function, in which each value holds until the next point */
};
struct page_plot {
	const char *title, *x_label, *y_label;
	enum page_unit x_unit, y_unit;
	const struct page_series *series;
	size_t nseries;
	const struct page_mark *marks; /* positions on the x axis */
	size_t nmarks;
	bool from_zero; /* the y axis starts at 0 */
};
void page_plot(struct page *p, const struct page_plot *plot);

/* Ends the page and returns its complete text, in the arena. */
const char *page_end(struct page *p);
/* Ends the page and writes it to a file, completely or not at all. Fails with E-OUTPUT. */
int page_save(struct page *p, const char *path, struct diag *d);

#endif
