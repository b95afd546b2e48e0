/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/ci.h"

#include "base/file.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Returns the length of the word before a colon that looks like the name of a format, or 0: a path has a point or a slash there. */
static size_t format_word(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]))
		n++;
	return n > 1 && text[n] == ':' ? n : 0;
}

enum ci_format ci_format_of(const char *text, const char **path)
{
	static const struct {
		const char *word, *ending;
		enum ci_format format;
	} formats[] = {
		{"junit", ".xml", CI_JUNIT}, {"xml", ".xml", CI_JUNIT},
		{"bencher", "", CI_BENCHER}, {"github", "", CI_GITHUB},
		{"json", ".json", OWN_JSON}, {"csv", ".csv", OWN_CSV},
		{"md", ".md", OWN_MD},	     {"html", ".html", OWN_HTML},
		{"txt", ".txt", OWN_TXT},
	};
	size_t n = format_word(text);
	const char *ending = path_ext(text);

	*path = text;
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (n ? strlen(formats[i].word) == n && !strncmp(text, formats[i].word, n)
		      : *ending && !strcmp(ending, formats[i].ending)) {
			*path = text + n + (n > 0);
			return formats[i].format;
		}
	return NO_FORMAT;
}

const char *ci_finding_text(const struct finding *f, struct arena *a)
{
	struct str s = {.arena = a};

	if (f->node)
		str_addf(&s, "node '%s'%s%s%s: ", f->node, f->op ? " (" : "", f->op ? f->op : "",
			 f->op ? ")" : "");
	if (f->slot)
		str_addf(&s, "%s: ", f->slot);
	str_add(&s, f->message ? f->message : code_title(f->code));
	for (size_t i = 0; i < f->nrows; i++)
		str_addf(&s, "\n%s: %s", f->rows[i].label, f->rows[i].text);
	if (f->expected && !f->nrows)
		str_addf(&s, "\nexpected %s", f->expected);
	if (f->actual && !f->nrows)
		str_addf(&s, "\nfound %s", f->actual);
	if (*finding_hint(f))
		str_addf(&s, "\nhint: %s", finding_hint(f));
	return str_get(&s);
}

/* ---- JUnit: what Jenkins, GitLab and others draw as a table of tests */

/* XML has no escape for control characters, so that they are shown as their numbers. */
static void xml_text(const char *text, FILE *f)
{
	const char *end = text + strlen(text);
	char shown[TAMED_BYTES];

	while (text < end) {
		text += tame_char(text, (size_t)(end - text), true, shown);
		for (const char *s = shown; *s; s++)
			switch (*s) {
			case '<': fputs("&lt;", f); break;
			case '>': fputs("&gt;", f); break;
			case '&': fputs("&amp;", f); break;
			case '"': fputs("&quot;", f); break;
			case '\n': fputs("&#10;", f); break;
			case '\t': fputs("&#9;", f); break;
			default: fputc(*s, f);
			}
	}
}

static void xml_attribute(const char *name, const char *value, FILE *f)
{
	fprintf(f, " %s=\"", name);
	xml_text(value, f);
	fputc('"', f);
}

/* Returns a number as people read it: "1.79 ms (1.75 ms to 1.83 ms)", "559/s". */
static const char *measure_text(const struct ci_measure *m, struct arena *a)
{
	if (!strcmp(m->measure, "throughput"))
		return arena_printf(a, "%.4g/s", m->value);
	if (!strcmp(m->measure, "energy"))
		return arena_printf(a, "%.4g J", m->value);
	if (!strcmp(m->measure, "peak-memory"))
		return str_bytes(a, (int64_t)m->value);
	const char *time = str_seconds(a, m->value / 1e9);
	if (isnan(m->low) || isnan(m->high))
		return time;
	return arena_printf(a, "%s (%s to %s)", time, str_seconds(a, m->low / 1e9),
			    str_seconds(a, m->high / 1e9));
}

static const char *measures_text(const struct ci_case *c, struct arena *a)
{
	struct str s = {.arena = a};

	for (size_t i = 0; i < c->nmeasures; i++)
		str_addf(&s, "%s%s %s", i ? ", " : "", c->measures[i].measure,
			 measure_text(&c->measures[i], a));
	return str_get(&s);
}

/* Numbers are properties of a case, in the units that Bencher has, for tools, and a line of its output, which CI systems show. */
static void write_measures(const struct ci_case *c, FILE *f)
{
	struct arena a = {0};

	fputs("      <properties>\n", f);
	for (size_t i = 0; i < c->nmeasures; i++)
		fprintf(f, "        <property name=\"%s\" value=\"%.9g\"/>\n",
			c->measures[i].measure, c->measures[i].value);
	fputs("      </properties>\n      <system-out>", f);
	xml_text(measures_text(c, &a), f);
	fputs("</system-out>\n", f);
	arena_free(&a);
}

static void write_case(const struct ci_case *c, FILE *f)
{
	const char *outcome = c->skipped ? "skipped" : "failure";

	fputs("    <testcase", f);
	xml_attribute("classname", c->group, f);
	xml_attribute("name", c->name, f);
	fprintf(f, " time=\"%.6f\"", c->seconds);
	if (!c->why && !c->nmeasures) {
		fputs("/>\n", f);
		return;
	}
	fputs(">\n", f);
	if (c->nmeasures)
		write_measures(c, f);
	if (c->why) {
		fprintf(f, "      <%s", outcome);
		xml_attribute("message", c->why, f);
		fputc('>', f);
		xml_text(c->detail ? c->detail : "", f);
		fprintf(f, "</%s>\n", outcome);
	}
	fputs("    </testcase>\n", f);
}

static void write_junit(const struct ci_report *r, FILE *f)
{
	size_t failures = 0, skipped = 0;
	char host[256] = "", when[32] = "";
	time_t now = time(NULL);
	struct tm utc;
	double seconds = 0;

	for (size_t i = 0; i < r->ncases; i++) {
		failures += r->cases[i].why && !r->cases[i].skipped;
		skipped += r->cases[i].skipped;
		seconds += r->cases[i].seconds;
	}
	if (gethostname(host, sizeof(host) - 1))
		*host = '\0';
	if (gmtime_r(&now, &utc))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", f);
	xml_attribute("name", r->title, f);
	xml_attribute("timestamp", when, f);
	xml_attribute("hostname", host, f);
	fprintf(f, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.6f\">\n",
		r->ncases, failures, skipped, seconds);
	for (size_t i = 0; i < r->ncases; i++)
		write_case(&r->cases[i], f);
	fputs("  </testsuite>\n</testsuites>\n", f);
}

/* ---- Bencher: an object for each name, with an object for each of its measures */

static void write_bencher(const struct ci_report *r, FILE *f)
{
	struct json j;

	json_begin(&j, f);
	json_object(&j, NULL);
	for (size_t i = 0; i < r->nmeasures; i++) {
		const struct ci_measure *m = &r->measures[i];
		if (!i || strcmp(m->name, m[-1].name) != 0)
			json_object(&j, m->name);
		json_object(&j, m->measure);
		json_number(&j, "value", m->value);
		if (!isnan(m->low))
			json_number(&j, "lower_value", m->low);
		if (!isnan(m->high))
			json_number(&j, "upper_value", m->high);
		json_end(&j, '}');
		if (i + 1 == r->nmeasures || strcmp(m->name, m[1].name) != 0)
			json_end(&j, '}');
	}
	json_end(&j, '}');
	json_finish(&j);
}

/* ---- GitHub: lines that a workflow prints, and GitHub shows beside the run */

/* Escapes a message; in a property, commas and colons end the text, too. */
static void github_text(const char *text, bool property, FILE *f)
{
	for (; *text; text++)
		if (strchr("%\r\n", *text) || (property && strchr(":,", *text)))
			fprintf(f, "%%%02X", (unsigned char)*text);
		else
			fputc(*text, f);
}

static void write_github(const struct ci_report *r, FILE *f)
{
	static const char *const words[] = {"notice", "warning", "error"};
	struct arena a = {0};

	for (const struct finding *x = r->d->first; x; x = x->next) {
		fprintf(f, "::%s title=", words[x->severity]);
		github_text(code_id(x->code, x->severity), true, f);
		if (x->model) {
			fputs(",file=", f);
			github_text(tame_word(&a, x->model), true, f);
		}
		fputs("::", f);
		github_text(ci_finding_text(x, &a), false, f);
		fputc('\n', f);
	}
	for (size_t i = 0; i < r->ncases; i++) {
		const struct ci_case *c = &r->cases[i];
		if (!c->nmeasures)
			continue;
		fputs("::notice title=", f);
		github_text(c->name, true, f);
		fputs(",file=", f);
		github_text(tame_word(&a, c->group), true, f);
		fputs("::", f);
		github_text(measures_text(c, &a), false, f);
		fputc('\n', f);
	}
	arena_free(&a);
}

/* ---- files */

int ci_write(const struct ci_report *r, enum ci_format format, const char *path, struct diag *d)
{
	static void (*const write[CI_FORMATS])(const struct ci_report *,
					       FILE *) = {write_junit, write_bencher, write_github};
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int rc = 0;

	if (!stream)
		return FAIL(d, E_MEMORY, .message = NULL);
	write[format](r, stream);
	fclose(stream);
	if (!strcmp(path, "-")) {
		fwrite(text, 1, size, stdout);
	} else {
		struct file_out *f = file_create(path, E_OUTPUT, d);
		if (f)
			file_write(f, text, size);
		rc = f ? file_commit(f, d) : -E_OUTPUT;
	}
	free(text);
	return rc;
}

int ci_export_all(const struct ci_report *r, const struct options *o, struct diag *d)
{
	int rc = 0;

	for (int64_t i = 0; i < o->exports.n && !rc; i++) {
		const char *path;
		enum ci_format format = ci_format_of(o->exports.v[i].s, &path);
		if (format < CI_FORMATS)
			rc = ci_write(r, format, path, d);
	}
	return rc;
}

int ci_refuse_export(const struct options *o, const char *text, const char *why, const char *known,
		     struct diag *d)
{
	const char *path;
	enum ci_format format = ci_format_of(text, &path);
	size_t n = format_word(text);

	if (n && format == NO_FORMAT)
		return options_fail(
			o, "export", fmt(d, "'%s': '%.*s' is no format", text, (int)n, text),
			fmt(d, "%s; a file of this name is written as './%s'", known, text), d);
	if (format == OWN_TXT)
		known = fmt(d, "%s; for text, write > '%s' instead", known, path);
	return options_fail(o, "export", why, known, d);
}

int ci_check(const struct options *o, enum ci_more more, struct diag *d)
{
	static const char *const known[] = {
		[CI_MEASURES] =
			"end the name in .xml, or write junit:FILE, bencher:FILE or github:FILE",
		[CI_PAGES] =
			"end the name in .txt, .html, .json or .xml, or write txt:FILE, html:FILE, json:FILE, junit:FILE or github:FILE"};
	int rc = 0;

	for (int64_t i = 0; i < o->exports.n && !rc; i++) {
		const char *path, *text = o->exports.v[i].s;
		enum ci_format format = ci_format_of(text, &path);
		bool page = format == OWN_TXT || format == OWN_HTML || format == OWN_JSON;
		if (format < CI_FORMATS ? format == CI_BENCHER && more != CI_MEASURES
					: more != CI_PAGES || !page)
			return ci_refuse_export(o, text,
						fmt(d, "'%s': infer %s writes no report of this format",
						    text, o->command->name),
						known[more], d);
		rc = output_probe(path, d);
	}
	return rc;
}
