/* SPDX-License-Identifier: Apache-2.0 */
#include "output/html.h"

#include "base/columns.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/tame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
	":root{color-scheme:light dark;--bg:#fbfbf9;--card:#fff;--ink:#1c2024;--dim:#60666d;"
	"--line:#dfe1e4;--edge:#c0c6cc;--s0:#2563c9;--s1:#c2570c;--s2:#15803d;--s3:#7c3aed;--s4:#b4236b;--s5:#0e7490;"
	"--bad:#b42318;--warn:#915c00;--good:#15703a}\n"
	"@media(prefers-color-scheme:dark){:root{--bg:#15171a;--card:#1d2024;--ink:#e8eaed;--dim:#9aa1a9;"
	"--line:#34383e;--edge:#000;--s0:#6ea3f5;--s1:#f0914d;--s2:#5fc489;--s3:#b79af7;--s4:#ee7fb2;--s5:#56c3da;"
	"--bad:#f4837a;--warn:#e6b450;--good:#66c991}}\n"
	"*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);"
	"font:15px/1.5 system-ui,sans-serif}main{max-width:1360px;margin:0 auto;padding:28px 20px 60px}"
	"h1{font-size:24px;line-height:1.25;margin:0 0 2px;overflow-wrap:anywhere}"
	"h2{font-size:18px;margin:34px 0 4px}"
	"p{margin:4px 0 10px;max-width:80ch}.sub{color:var(--dim);margin:0 0 16px}"
	"dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;margin:14px 0 18px;font-size:14px}"
	"dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}"
	".tiles{display:flex;flex-wrap:wrap;gap:12px;margin:18px 0}"
	".tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 16px;"
	"min-width:150px}.tile b{display:block;font-size:22px;font-weight:600}"
	".tile span{color:var(--dim);font-size:13px;display:block}\n"
	".scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;"
	"margin:10px 0 18px}table{border-collapse:collapse;width:100%;font-size:14px}"
	"th,td{padding:5px 10px;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}"
	"td.l:first-child{white-space:normal;overflow-wrap:anywhere;min-width:20ch}"
	"details{min-width:18ch}summary{cursor:pointer}details[open] summary{font-weight:600}"
	"td.t{white-space:normal;overflow-wrap:anywhere;min-width:24ch}"
	"td.m{white-space:normal;overflow-wrap:anywhere;min-width:16ch}"
	"tr:last-child td{border-bottom:0}th{color:var(--dim);font-weight:500;cursor:pointer;"
	"position:sticky;top:0;background:var(--card)}th.r,td.r{text-align:right;"
	"font-variant-numeric:tabular-nums}td.m,pre{font:13px/1.5 ui-monospace,monospace}"
	"pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px;"
	"white-space:pre-wrap;overflow-wrap:anywhere;margin:10px 0 18px}"
	".bar{display:inline-block;width:60px;height:8px;background:var(--line);border-radius:4px;"
	"margin-left:8px}.bar i{display:block;height:8px;border-radius:4px;background:var(--s0)}\n"
	".error{color:var(--bad);font-weight:600}.warning{color:var(--warn)}.good{color:var(--good)}.dim{color:var(--dim)}"
	"figure{margin:10px 0 18px;background:var(--card);border:1px solid var(--line);border-radius:8px;"
	"padding:10px 12px}figcaption{font-size:14px;font-weight:600;margin:2px 4px 4px}"
	"svg{display:block;width:100%;height:auto}svg text{fill:var(--dim);font:12px system-ui,sans-serif}"
	"svg .ink{fill:var(--ink);paint-order:stroke;stroke:var(--card);stroke-width:3px}.grid{stroke:var(--line)}.mark{stroke:var(--ink);stroke-dasharray:3 3}"
	".bars{display:grid;grid-template-columns:fit-content(45%) 1fr;gap:5px 10px;margin:8px 4px;font-size:13px;line-height:1.3}"
	".bars span{text-align:right;overflow-wrap:anywhere}.bars div{color:var(--dim);white-space:nowrap}"
	".bars i{display:inline-block;height:1.1em;min-width:1px;margin-right:8px;border-radius:2px;background:var(--s0);vertical-align:middle}"
	".legend{font-size:13px;color:var(--dim);margin:0 4px 6px;max-width:none}.legend i{display:inline-block;width:10px;"
	"height:10px;border-radius:3px;margin:0 5px 0 14px}.legend i:first-child{margin-left:0}"
	"footer{color:var(--dim);font-size:13px;margin-top:36px;border-top:1px solid var(--line);padding-top:8px;"
	"overflow-wrap:anywhere}footer code{font:12px ui-monospace,monospace}"
	".graph canvas{display:block;width:100%;height:70vh;min-height:320px;touch-action:none;cursor:grab}"
	".graph p{margin:6px 4px 0;max-width:none;font-size:14px;overflow-wrap:anywhere;min-height:1.5em}"
	".tools{display:flex;gap:6px;margin:2px 0 8px;flex-wrap:wrap}.tools button,.tools input{font:inherit;font-size:14px;"
	"color:var(--ink);background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:3px 10px;min-width:36px}";

static const char style_of_widths[] =
	/* what goes on beyond the edge of its frame has a shadow there, which the card itself covers at either end */
	".scroll,figure{background:linear-gradient(90deg,var(--card) 40%,transparent) 0 0/44px 100% local,"
	"linear-gradient(270deg,var(--card) 40%,transparent) 100% 0/44px 100% local,"
	"linear-gradient(90deg,var(--edge),transparent) 0 0/14px 100% scroll,"
	"linear-gradient(270deg,var(--edge),transparent) 100% 0/14px 100% scroll,var(--card);background-repeat:no-repeat}"
	"@media(max-width:1100px){td.t{min-width:12ch}td.l:first-child{min-width:13ch}}"
	/* a phone: drawings keep letters that can be read, and are moved sideways in their frame */
	"@media(max-width:640px){main{padding:16px 12px 40px}h1{font-size:20px}figure{overflow-x:auto}"
	"svg{min-width:560px}svg text{font-size:18px}.tile{min-width:calc(50% - 6px);flex:1;padding:8px 12px}"
	"td.t{min-width:20ch}td.l:first-child{min-width:10ch}.tile b{font-size:18px}dl{grid-template-columns:1fr;gap:0}dd{margin:0 0 6px}"
	"th,td{padding:5px 7px}table{font-size:13px}}\n";

/* In the page, a click on a column's head sorts the table by that column; another click reverses the order. */
static const char script[] =
	"document.querySelectorAll('th').forEach(h=>h.onclick=()=>{const t=h.closest('table'),"
	"k=h.cellIndex,b=t.tBodies[0],d=h.dataset.d=h.dataset.d==='1'?'-1':'1';"
	"const v=c=>c.dataset.v!==undefined?+c.dataset.v:c.textContent;"
	"[...b.rows].sort((x,y)=>{const p=v(x.cells[k]),q=v(y.cells[k]);"
	"return d*(typeof p=='number'&&typeof q=='number'?q-p:String(p).localeCompare(q))})"
	".forEach(r=>b.append(r))})";

static void add_escaped(struct str *h, const char *text)
{
	const char *s = text ? text : "", *end = s + strlen(s);
	char shown[TAMED_BYTES];

	while (s < end) {
		const char *as = *s == '<'   ? "&lt;"
				 : *s == '>' ? "&gt;"
				 : *s == '&' ? "&amp;"
				 : *s == '"' ? "&quot;"
					     : NULL;
		s += tame_char(s, (size_t)(end - s), true, shown);
		str_add(h, as ? as : shown);
	}
}

static void add_element(struct str *h, const char *open, const char *text, const char *close)
{
	str_add(h, open);
	add_escaped(h, text);
	str_add(h, close);
}

void page_begin(struct page *p, struct arena *a, const char *title, const char *subtitle)
{
	*p = (struct page){.html.arena = a};
	add_element(&p->html,
		    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
		    title, "</title>\n<style>");
	str_add(&p->html, style);
	str_add(&p->html, style_of_widths);
	add_element(&p->html, "</style></head><body><main>\n<h1>", title, "</h1>\n");
	if (subtitle)
		add_element(&p->html, "<p class=\"sub\">", subtitle, "</p>\n");
}

/*
 * Facts have one enclosing element, and tiles another. Closes the element of the last part and opens the element of
 * part `want`.
 */
static void switch_part(struct page *p, int want)
{
	static const char *const open[] = {"", "<dl>", "<div class=\"tiles\">", ""};
	static const char *const close[] = {"", "</dl>\n", "</div>\n", ""};

	if ((int)p->part == want)
		return;
	str_add(&p->html, close[p->part]);
	str_add(&p->html, open[want]);
	p->part = (unsigned)want;
}

void page_fact(struct page *p, const char *name, const char *text)
{
	switch_part(p, PAGE_FACTS);
	add_element(&p->html, "<dt>", name, "</dt>");
	add_element(&p->html, "<dd>", text, "</dd>\n");
}

void page_tile(struct page *p, const char *name, const char *value, const char *note)
{
	switch_part(p, PAGE_TILES);
	add_element(&p->html, "<div class=\"tile\"><span>", name, "</span>");
	add_element(&p->html, "<b>", value, "</b>");
	add_element(&p->html, "<span>", note, "</span></div>\n");
}

void page_section(struct page *p, const char *title, const char *text)
{
	switch_part(p, PAGE_BODY);
	add_element(&p->html, "<h2>", title, "</h2>\n");
	if (text)
		page_text(p, text);
}

void page_text(struct page *p, const char *text)
{
	switch_part(p, PAGE_BODY);
	add_element(&p->html, "<p>", text, "</p>\n");
}

void page_pre(struct page *p, const char *text)
{
	switch_part(p, PAGE_BODY);
	add_element(&p->html, "<pre>", text, "</pre>\n");
}

void page_note(struct page *p, enum severity s, const char *text)
{
	static const char *const open[] = {"<p>", "<p class=\"warning\">\xe2\x9a\xa0 ",
					   "<p class=\"error\">\xe2\x9c\x97 "};

	switch_part(p, PAGE_BODY);
	add_element(&p->html, open[s], text, "</p>\n");
}

void page_good(struct page *p, const char *text)
{
	switch_part(p, PAGE_BODY);
	add_element(&p->html, "<p class=\"good\">\xe2\x9c\x93 ", text, "</p>\n");
}

/* ---- tables */

void page_table(struct page *p, const char *const *heads, const char *align)
{
	switch_part(p, PAGE_BODY);
	p->align = align;
	p->columns = strlen(align);
	p->column = 0;
	str_add(&p->html, "<div class=\"scroll\"><table><thead><tr>");
	for (size_t i = 0; i < p->columns && heads[i]; i++) {
		str_addf(&p->html, "<th class=\"%c\">", align[i]);
		add_element(&p->html, "", heads[i], "</th>");
	}
	str_add(&p->html, "</tr></thead><tbody>\n");
}

static void open_cell(struct page *p)
{
	if (!p->column)
		str_add(&p->html, "<tr>");
	str_addf(&p->html, "<td class=\"%c\"", p->align[p->column]);
}

static void close_cell(struct page *p)
{
	str_add(&p->html, "</td>");
	if (++p->column < p->columns)
		return;
	p->column = 0;
	str_add(&p->html, "</tr>\n");
}

void page_cell(struct page *p, const char *text)
{
	open_cell(p);
	add_element(&p->html, ">", text, "");
	close_cell(p);
}

void page_folded(struct page *p, const char *brief, const char *text)
{
	open_cell(p);
	add_element(&p->html, "><details><summary>", brief, "</summary>");
	add_element(&p->html, "", text, "</details>");
	close_cell(p);
}

void page_state(struct page *p, enum page_state state, const char *text)
{
	static const char *const classes[] = {"good", "warning", "error", "dim"};

	open_cell(p);
	str_addf(&p->html, "><span class=\"%s\">", classes[state]);
	add_element(&p->html, "", text, "</span>");
	close_cell(p);
}

void page_number(struct page *p, double value, const char *text)
{
	open_cell(p);
	str_addf(&p->html, " data-v=\"%.9g\"", isfinite(value) ? value : -1);
	add_element(&p->html, ">", text, "");
	close_cell(p);
}

void page_share(struct page *p, double share)
{
	double width = fmin(fmax(share, 0), 1) * 100;

	open_cell(p);
	str_addf(&p->html,
		 " data-v=\"%.6g\">%.1f %%<span class=\"bar\"><i style=\"width:%.1f%%\"></i></span>",
		 share, share * 100, width);
	close_cell(p);
}

void page_table_end(struct page *p)
{
	while (p->column)
		page_cell(p, "");
	str_add(&p->html, "</tbody></table></div>\n");
}

/* ---- axes */

enum { WIDTH = 1000, LEFT = 84, RIGHT = 16, TOP = 14, BOTTOM = 44, HEIGHT = 280 };

struct axis {
	double low, high; /* range of the values */
	double from, to;  /* positions of low and high on the page */
	double step;	  /* between ticks, in the values' unit */
	double scale;	  /* labels show the value divided by scale */
	const char *unit;
	int digits;
};

static void choose_unit(struct axis *x, enum page_unit unit, double largest)
{
	static const struct {
		double scale;
		const char *unit;
	} seconds[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}},
	  bytes[] = {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "bytes"}};

	x->scale = 1;
	x->unit = "";
	if (unit == PAGE_NUMBER && largest >= 1e5) {
		x->scale = largest >= 1e9 ? 1e9 : largest >= 1e6 ? 1e6 : 1e3;
		x->unit = largest >= 1e9 ? "billion" : largest >= 1e6 ? "million" : "thousand";
	}
	for (int i = 0; unit != PAGE_NUMBER && i < 4; i++) {
		x->scale = unit == PAGE_SECONDS ? seconds[i].scale : bytes[i].scale;
		x->unit = unit == PAGE_SECONDS ? seconds[i].unit : bytes[i].unit;
		if (largest >= x->scale)
			break;
	}
}

/*
 * Places about `ticks` tick marks at round numbers, and widens the axis to the tick marks that enclose low and high.
 */
static void make_axis(struct axis *x, double low, double high, enum page_unit unit, int ticks)
{
	if (!(high > low)) {
		double room = fabs(low) > 0 ? fabs(low) * 0.05 : 0.5;
		high = low + room;
		low = low >= 0 && low < room ? 0 : low - room;
	}
	choose_unit(x, unit, fmax(fabs(low), fabs(high)));
	double rough = (high - low) / x->scale / ticks, power = pow(10, floor(log10(rough)));
	double first = rough / power;
	double step = (first > 5 ? 10 : first > 2 ? 5 : first > 1 ? 2 : 1) * power;
	x->step = step * x->scale;
	x->low = floor(low / x->step + 1e-9) * x->step;
	x->high = ceil(high / x->step - 1e-9) * x->step;
	x->digits = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
}

/* Numbers that are all integers, such as sizes of a batch, have ticks at integers only. */
static void make_integer_axis(struct axis *x)
{
	if (x->step / x->scale >= 1)
		return;
	x->step = x->scale;
	x->low = floor(x->low / x->step + 1e-9) * x->step;
	x->high = ceil(x->high / x->step - 1e-9) * x->step;
	x->high = x->high > x->low ? x->high : x->low + x->step;
	x->digits = 0;
}

static double on_page(const struct axis *x, double v)
{
	return x->from + (v - x->low) / (x->high - x->low) * (x->to - x->from);
}

static void begin_figure(struct page *p, const char *title, int height)
{
	switch_part(p, PAGE_BODY);
	add_element(&p->html, "<figure><figcaption>", title, "</figcaption>\n");
	str_addf(&p->html, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, height);
	add_element(&p->html, "", title, "\">\n");
}

static void end_figure(struct page *p)
{
	str_add(&p->html, "</svg></figure>\n");
}

static void draw_x_axis(struct page *p, const struct axis *x, const char *label)
{
	struct str *h = &p->html;
	int bottom = HEIGHT - BOTTOM;

	for (int k = 0; k <= 40; k++) {
		double v = x->low + k * x->step;
		if (v > x->high + x->step / 2)
			break;
		str_addf(h, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f</text>",
			 on_page(x, v), bottom + 17, x->digits, v / x->scale);
	}
	str_addf(h, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
		 HEIGHT - 8);
	add_escaped(h, label);
	str_addf(h, "%s%s%s</text>\n", *x->unit ? " (" : "", x->unit, *x->unit ? ")" : "");
}

static void draw_y_axis(struct page *p, const struct axis *y, const char *label)
{
	struct str *h = &p->html;

	for (int k = 0; k <= 40; k++) {
		double v = y->low + k * y->step, at = on_page(y, v);
		if (v > y->high + y->step / 2)
			break;
		str_addf(h, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
			 LEFT, WIDTH - RIGHT, at, at);
		str_addf(h, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>", LEFT - 8,
			 at + 4, y->digits, v / y->scale);
	}
	str_addf(h, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">",
		 (TOP + HEIGHT - BOTTOM) / 2);
	add_escaped(h, label);
	str_addf(h, "%s%s%s</text>\n", *y->unit ? " (" : "", y->unit, *y->unit ? ")" : "");
}

/* Draws vertical lines; a label that would overlap the last one is moved down by a line. */
static void draw_marks(struct page *p, const struct axis *x, const struct page_mark *m, size_t n)
{
	double last = -1e9;
	int row = 0;

	for (size_t i = 0; i < n; i++) {
		double at = on_page(x, m[i].at);
		if (!isfinite(m[i].at) || at < x->from - 1 || at > x->to + 1)
			continue;
		row = at - last < 70 ? row + 1 : 0;
		last = at;
		bool left = at > WIDTH - 110;
		str_addf(&p->html,
			 "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
			 "<text class=\"ink\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">",
			 at, at, TOP, HEIGHT - BOTTOM, left ? at - 4 : at + 4, TOP + 11 + 14 * row,
			 left ? "end" : "start");
		add_element(&p->html, "", m[i].label, "</text>\n");
	}
}

/* ---- plots */

enum { MAX_BINS = 60, MAX_POINTS = 1500, COLORS = 6 };
enum { MARKS = 32 }; /* the height above the highest bar, where marks have their labels */

struct bins {
	struct axis x, y;
	size_t count[MAX_BINS], n, beyond;
};

/*
 * Sorts the values into bins of the width of Freedman and Diaconis. Values far to the right are only counted, so that
 * they do not squeeze the other bins.
 */
static void fill_bins(struct bins *b, const double *sorted, size_t n, enum page_unit unit)
{
	double spread = stats_quantile(sorted, n, 0.75) - stats_quantile(sorted, n, 0.25);
	double low = sorted[0], high = sorted[n - 1];
	double width = 2 * spread / cbrt((double)n), most = 0;
	double far = stats_quantile(sorted, n, 0.98) + 3 * spread;

	high = high > far && far > low ? far : high;
	make_axis(&b->x, low, high, unit, 8);
	b->n = (size_t)fmin(fmax(width > 0 ? (b->x.high - b->x.low) / width : 20, 12), MAX_BINS);
	for (size_t i = 0; i < n; i++) {
		double at = (sorted[i] - b->x.low) / (b->x.high - b->x.low) * (double)b->n;
		if (at > (double)b->n) {
			b->beyond++;
			continue;
		}
		size_t k = (size_t)fmin(fmax(at, 0), (double)(b->n - 1));
		b->count[k]++;
		most = fmax(most, (double)b->count[k]);
	}
	make_axis(&b->y, 0, most, PAGE_NUMBER, 5);
	make_integer_axis(&b->y);
	b->x.from = LEFT;
	b->x.to = WIDTH - RIGHT;
	b->y.from = HEIGHT - BOTTOM;
	b->y.to = TOP + MARKS;
}

static void draw_bins(struct page *p, const struct bins *b)
{
	double width = (b->x.to - b->x.from) / (double)b->n;

	for (size_t k = 0; k < b->n; k++) {
		double top = on_page(&b->y, (double)b->count[k]);
		double from = b->x.low + (b->x.high - b->x.low) * (double)k / (double)b->n;
		double to = b->x.low + (b->x.high - b->x.low) * (double)(k + 1) / (double)b->n;
		if (b->count[k])
			str_addf(&p->html,
				 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
				 "fill=\"var(--s0)\"><title>%zu from %.4g to %.4g %s</title></rect>\n",
				 b->x.from + width * (double)k + 0.5, top, fmax(width - 1, 1),
				 b->y.from - top, b->count[k], from / b->x.scale, to / b->x.scale,
				 b->x.unit);
	}
}

void page_histogram(struct page *p, const char *title, enum page_unit unit, const double *v,
		    size_t n, const struct page_mark *marks, size_t nmarks)
{
	struct bins *b = calloc(1, sizeof(*b));
	double *sorted = n ? stats_sorted(v, n) : NULL;

	if (b && sorted) {
		fill_bins(b, sorted, n, unit);
		begin_figure(p, title, HEIGHT);
		draw_y_axis(p, &b->y, "count");
		draw_bins(p, b);
		draw_x_axis(p, &b->x, unit == PAGE_SECONDS ? "time" : "");
		draw_marks(p, &b->x, marks, nmarks);
		if (b->beyond)
			str_addf(&p->html,
				 "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%zu more beyond the right edge, "
				 "up to %.4g %s</text>\n",
				 WIDTH - RIGHT, HEIGHT - 8, b->beyond, sorted[n - 1] / b->x.scale,
				 b->x.unit);
		end_figure(p);
	}
	free(sorted);
	free(b);
}

enum { LABEL_COLUMNS = 36 };

/* Shortens a long name in its middle: nodes of a model differ mostly in the ends of their names. */
static void add_short_label(struct str *h, const char *label)
{
	add_escaped(h, columns_shorten(label, LABEL_COLUMNS, h->arena));
}

/* Lines of text with bars and no drawing, so that they fit a phone as well, with letters of the usual size. */
void page_bars(struct page *p, const char *title, const struct page_bar *bar, size_t n)
{
	struct str *h = &p->html;
	double most = 0;

	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, bar[i].value);
	switch_part(p, PAGE_BODY);
	add_element(h, "<figure><figcaption>", title, "</figcaption>\n<div class=\"bars\">\n");
	for (size_t i = 0; i < n; i++) {
		add_element(h, "<span title=\"", bar[i].label, "\">");
		add_short_label(h, bar[i].label);
		str_addf(h, "</span><div><i style=\"width:calc((100%% - 17ch)*%.4f)\"></i>",
			 most > 0 ? fmax(bar[i].value / most, 0.002) : 0.002);
		add_element(h, "", bar[i].text, "</div>\n");
	}
	str_add(h, "</div></figure>\n");
}

static double x_at(const struct page_series *s, size_t i)
{
	return s->x ? s->x[i] : (double)i;
}

static void plot_range(const struct page_plot *plot, struct axis *x, struct axis *y)
{
	double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
	bool integers[2] = {plot->x_unit == PAGE_NUMBER, plot->y_unit == PAGE_NUMBER};

	for (size_t k = 0; k < plot->nseries; k++)
		for (size_t i = 0; i < plot->series[k].n; i++) {
			double at[2] = {x_at(&plot->series[k], i), plot->series[k].y[i]};
			for (int j = 0; j < 2 && isfinite(at[1]); j++) {
				integers[j] &= fabs(at[j] - rint(at[j])) <= 0;
				low[j] = fmin(low[j], at[j]);
				high[j] = fmax(high[j], at[j]);
			}
		}
	if (plot->from_zero)
		low[1] = fmin(low[1], 0);
	make_axis(x, isfinite(low[0]) ? low[0] : 0, isfinite(high[0]) ? high[0] : 1, plot->x_unit, 9);
	make_axis(y, isfinite(low[1]) ? low[1] : 0, isfinite(high[1]) ? high[1] : 1, plot->y_unit, 5);
	if (integers[0])
		make_integer_axis(x);
	if (integers[1])
		make_integer_axis(y);
	x->from = LEFT;
	x->to = WIDTH - RIGHT;
	y->from = HEIGHT - BOTTOM;
	y->to = TOP;
}

/* The state of drawing one series as an SVG path. */
struct pen {
	struct str *h;
	const struct axis *x, *y;
	bool down;
	double last_y;
};

static void pen_to(struct pen *pen, const struct page_series *s, double x, double y)
{
	if (!isfinite(y)) {
		pen->down = false;
		return;
	}
	double px = on_page(pen->x, x), py = on_page(pen->y, y);
	if (s->dots) {
		str_addf(pen->h, "M%.1f %.1fh0", px, py);
		return;
	}
	if (s->steps && pen->down)
		str_addf(pen->h, "L%.1f %.1f", px, pen->last_y);
	str_addf(pen->h, "%c%.1f %.1f", pen->down ? 'L' : 'M', px, py);
	pen->down = true;
	pen->last_y = py;
}

/*
 * Draws the series. If it has too many points, only the lowest and the highest of each group of consecutive points
 * are drawn.
 */
static void draw_series(struct pen *pen, const struct page_series *s)
{
	size_t runs = s->n > MAX_POINTS ? MAX_POINTS / 2 : s->n;

	pen->down = false;
	for (size_t r = 0; r < runs; r++) {
		size_t from = r * s->n / runs, to = (r + 1) * s->n / runs, low = from, high = from;
		for (size_t i = from; i < to; i++) {
			if (s->y[i] < s->y[low])
				low = i;
			if (s->y[i] > s->y[high])
				high = i;
		}
		size_t first = low < high ? low : high, second = low < high ? high : low;
		pen_to(pen, s, x_at(s, first), s->y[first]);
		if (second != first)
			pen_to(pen, s, x_at(s, second), s->y[second]);
	}
}

static void add_legend(struct page *p, const struct page_plot *plot)
{
	str_add(&p->html, "<p class=\"legend\">");
	for (size_t k = 0; k < plot->nseries; k++) {
		str_addf(&p->html, "<i style=\"background:var(--s%zu)\"></i>", k % COLORS);
		add_escaped(&p->html, plot->series[k].name);
	}
	str_add(&p->html, "</p>\n");
}

/* Draws a dot for each point of a series with few points. The dot shows the point's numbers as a tooltip. */
static void draw_dots(struct page *p, const struct pen *pen, const struct page_series *s, size_t color)
{
	for (size_t i = 0; i < s->n && s->n <= 64; i++)
		if (isfinite(s->y[i]))
			str_addf(&p->html,
				 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"var(--s%zu)\">"
				 "<title>%.6g: %.5g %s</title></circle>\n",
				 on_page(pen->x, x_at(s, i)), on_page(pen->y, s->y[i]), color,
				 x_at(s, i) / pen->x->scale, s->y[i] / pen->y->scale, pen->y->unit);
}

void page_plot(struct page *p, const struct page_plot *plot)
{
	struct axis x, y;
	struct pen pen = {&p->html, &x, &y, false, 0};

	plot_range(plot, &x, &y);
	switch_part(p, PAGE_BODY);
	begin_figure(p, plot->title, HEIGHT);
	draw_y_axis(p, &y, plot->y_label);
	draw_x_axis(p, &x, plot->x_label);
	for (size_t k = 0; k < plot->nseries; k++) {
		const struct page_series *s = &plot->series[k];
		str_addf(&p->html,
			 "<path fill=\"none\" stroke=\"var(--s%zu)\" stroke-width=\"%s\" "
			 "stroke-linejoin=\"round\" stroke-linecap=\"round\" d=\"",
			 k % COLORS, s->dots ? "4" : "1.6");
		draw_series(&pen, s);
		str_add(&p->html, "\"/>\n");
		draw_dots(p, &pen, s, k % COLORS);
	}
	draw_marks(p, &x, plot->marks, plot->nmarks);
	str_add(&p->html, "</svg>");
	if (plot->nseries > 1)
		add_legend(p, plot);
	str_add(&p->html, "</figure>\n");
}

void page_made_by(struct page *p, const char *made, const char *command)
{
	p->made = made;
	p->command = command;
}

const char *page_end(struct page *p)
{
	switch_part(p, PAGE_BODY);
	if (p->made) {
		add_element(&p->html, "<footer>", p->made, "<br>");
		add_element(&p->html, "<code>", p->command, "</code></footer>\n");
	}
	str_add(&p->html, "</main><script>");
	str_add(&p->html, script);
	str_add(&p->html, "</script></body></html>\n");
	return str_get(&p->html);
}

int page_save(struct page *p, const char *path, struct diag *d)
{
	const char *text = page_end(p);
	struct file_out *f = file_create(path, E_OUTPUT, d);

	if (!f)
		return -E_OUTPUT;
	file_write(f, text, strlen(text));
	return file_commit(f, d);
}
