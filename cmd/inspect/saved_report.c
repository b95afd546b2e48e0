/* SPDX-License-Identifier: Apache-2.0 */
/* infer inspect REPORT.json: prints a document that a command wrote with --json as text. */
#include "base/file.h"
#include "base/json_read.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "cmd/inspect/inspect.h"
#include "cmd/output/table.h"
#include "onnx/convert.h"

#include <string.h>
#include <sys/stat.h>

enum { MAX_SHOWN_VALUES = 24, MAX_TABLE_COLUMNS = 12 };

bool inspect_is_report(const char *path)
{
	struct stat st;

	if (strcmp(path_ext(path), ".json") != 0)
		return false;
	/* a pipe can be read once only */
	return stat(path, &st) || !S_ISREG(st.st_mode) || !onnx_is_json_model(path);
}

/* ---- findings, in the form in which commands print them */

static enum severity severity_of(const char *word)
{
	return !word || !strcmp(word, "error") ? SEV_ERROR
	       : !strcmp(word, "warning")      ? SEV_WARNING
					       : SEV_NOTE;
}

static const char *text_or(const struct jvalue *v, const char *key, const char *otherwise)
{
	const char *text = jtext(v, key);

	return text ? text : otherwise;
}

static void print_finding(const struct jvalue *v, FILE *s)
{
	const struct jvalue *where = jget(v, "where"), *rows = jget(v, "rows");
	struct arena a = {0};
	struct diag_row *row = arena_new_n(&a, struct diag_row, rows ? rows->n + 1 : 1);
	struct finding f = {.severity = severity_of(jtext(v, "severity")),
			    .model = jtext(where, "model"),
			    .node = jtext(where, "node"),
			    .op = jtext(where, "op"),
			    .slot = jtext(where, "slot"),
			    .message = text_or(v, "message", ""),
			    .expected = jtext(v, "expected"),
			    .actual = jtext(v, "actual"),
			    .hint = text_or(v, "hint", ""),
			    .rows = row};

	for (const struct jvalue *r = rows ? rows->first : NULL; r; r = r->next)
		row[f.nrows++] = (struct diag_row){text_or(r, "label", ""), text_or(r, "text", "")};
	finding_print_as(text_or(v, "id", "?"), &f, s, false);
	arena_free(&a);
}

/* ---- all other members, in the order of the document, of a command that did not keep what it printed */

static bool is_scalar(const struct jvalue *v)
{
	return v->type != J_ARRAY && v->type != J_OBJECT;
}

static const char *scalar_text(const struct jvalue *v, struct arena *a)
{
	switch (v->type) {
	case J_NULL: return "-";
	case J_BOOL: return v->number != 0 ? "yes" : "no";
	case J_NUMBER: return arena_printf(a, "%.9g", v->number);
	case J_STRING: return tame_word(a, v->text);
	case J_ARRAY:
	case J_OBJECT: break;
	}
	return "";
}

static bool all_scalars(const struct jvalue *v)
{
	for (const struct jvalue *m = v->first; m; m = m->next)
		if (!is_scalar(m))
			return false;
	return true;
}

/* True for an array of objects with the same few scalar members, which is printed as a table. */
static bool is_table(const struct jvalue *v)
{
	const struct jvalue *first = v->first;

	if (v->type != J_ARRAY || !first || first->n == 0 || first->n > MAX_TABLE_COLUMNS)
		return false;
	for (const struct jvalue *row = first; row; row = row->next) {
		if (row->type != J_OBJECT || row->n != first->n || !all_scalars(row))
			return false;
		const struct jvalue *head = first->first;
		for (const struct jvalue *m = row->first; m; m = m->next, head = head->next)
			if (strcmp(m->key, head->key) != 0)
				return false;
	}
	return true;
}

static void print_table(const struct jvalue *v, int depth, FILE *f)
{
	const char *heads[MAX_TABLE_COLUMNS + 1] = {NULL};
	char align[MAX_TABLE_COLUMNS + 1] = "", indent[80];
	struct arena a = {0};
	struct table t;
	size_t n = 0;

	for (const struct jvalue *m = v->first->first; m; m = m->next, n++) {
		heads[n] = m->key;
		align[n] = m->type == J_NUMBER ? 'r' : 'l';
	}
	table_begin(&t, &a, heads, align);
	for (const struct jvalue *row = v->first; row; row = row->next)
		for (const struct jvalue *m = row->first; m; m = m->next)
			table_text(&t, scalar_text(m, &a));
	snprintf(indent, sizeof(indent), "%*s", depth * 2, "");
	table_print(&t, indent, f);
	arena_free(&a);
}

static void print_values(const struct jvalue *v, FILE *f)
{
	struct arena a = {0};
	size_t k = 0;

	for (const struct jvalue *m = v->first; m && k < MAX_SHOWN_VALUES; m = m->next, k++)
		fprintf(f, "%s%s", k ? " " : "", scalar_text(m, &a));
	if (v->n > k)
		fprintf(f, " ... (%zu in all)", v->n);
	fputc('\n', f);
	arena_free(&a);
}

/* The recursion is bounded because the JSON reader limits the depth of a document. */
static void print_members(const struct jvalue *v, int depth, FILE *f);

static void print_member(const struct jvalue *m, int depth, FILE *f)
{
	struct arena a = {0};

	fprintf(f, "%*s", depth * 2, "");
	bool line = is_scalar(m) || !m->n || (m->type == J_ARRAY && all_scalars(m));
	if (m->key)
		fprintf(f, "%-*s", !line ? 0 : depth ? 14 : 11, tame_word(&a, m->key));
	if (is_scalar(m)) {
		fprintf(f, " %s\n", scalar_text(m, &a));
	} else if (!m->n) {
		fputs(" none\n", f);
	} else if (m->type == J_ARRAY && all_scalars(m)) {
		fputc(' ', f);
		print_values(m, f);
	} else {
		fputc('\n', f);
		if (is_table(m))
			print_table(m, depth + 1, f);
		else
			print_members(m, depth + 1, f);
	}
	arena_free(&a);
}

static void print_members(const struct jvalue *v, int depth, FILE *f)
{
	size_t k = 0;

	for (const struct jvalue *m = v->first; m; m = m->next) {
		if (v->type == J_ARRAY && !is_scalar(m))
			fprintf(f, "%*s%zu of %zu\n", depth * 2, "", ++k, v->n);
		if (v->type == J_ARRAY && !is_scalar(m))
			print_members(m, depth + 1, f);
		else
			print_member(m, depth, f);
	}
}

/* ---- the document */

static bool is_envelope(const char *key)
{
	static const char *const keys[] = {"schema",	"command", "ok",
					   "exit_code", "env",	   "findings"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

static void print_report(const struct jvalue *v, const char *path, FILE *f)
{
	const struct jvalue *env = jget(v, "env"), *findings = jget(v, "findings");
	const char *command = jtext(v, "command"), *printed = jtext(v, "printed"), *sep = "";

	fprintf(f, "report      %s: from infer %s, exit status %.0f\n", path,
		command ? command : "?", jnumber(v, "exit_code", 0));
	fputs("made by     ", f);
	for (const struct jvalue *m = env ? env->first : NULL; m; m = m->next) {
		struct arena a = {0};
		fprintf(f, "%s%s %s", sep, m->key, scalar_text(m, &a));
		sep = ", ";
		arena_free(&a);
	}
	fputs("\n\n", f);
	for (const struct jvalue *m = findings ? findings->first : NULL; m; m = m->next)
		print_finding(m, f);
	if (printed)
		fputs(printed, f);
	for (const struct jvalue *m = v->first; m && !printed; m = m->next)
		if (!is_envelope(m->key))
			print_member(m, 0, f);
}

static void write_value(struct json *j, const char *key, const struct jvalue *v)
{
	switch (v->type) {
	case J_NULL: json_string(j, key, NULL); return;
	case J_BOOL: json_bool(j, key, v->number != 0); return;
	case J_NUMBER: json_number(j, key, v->number); return;
	case J_STRING: json_string(j, key, v->text); return;
	case J_ARRAY: json_array(j, key); break;
	case J_OBJECT: json_object(j, key); break;
	}
	for (const struct jvalue *m = v->first; m; m = m->next)
		write_value(j, m->key, m);
	json_end(j, v->type == J_ARRAY ? ']' : '}');
}

static int show_report(struct options *o, const char *path, const struct jvalue *v, struct diag *d)
{
	const char *schema = jtext(v, "schema");
	struct json j;

	if (!schema || strcmp(schema, "infer/1") != 0)
		return FAIL(d, E_INPUT_FORMAT,
			    .message = fmt(d, "%s is neither a report of infer nor a tensor", path),
			    .expected =
				    "a document with \"schema\": \"infer/1\", one with \"dtype\" and \"data\", or an array",
			    .actual = schema ? fmt(d, "'%s'", schema) : "none");
	if (o->json) {
		json_envelope_begin(&j, o, d);
		write_value(&j, "report", v);
		json_envelope_end(&j, d);
		return 0;
	}
	FILE *f = listing_begin(stdout);
	print_report(v, path, f);
	listing_end(f);
	return 0;
}

int inspect_report(struct options *o, const char *path, struct diag *d)
{
	struct arena a = {0};
	struct file_map m;
	int rc = file_map(path, &m, E_INPUT_OPEN, d);

	if (rc)
		return rc;
	const struct jvalue *v = jread((const char *)m.data, m.size, path, E_INPUT_FORMAT, &a, d);
	rc = v ? show_report(o, path, v, d) : -(int)E_INPUT_FORMAT;
	arena_free(&a);
	file_unmap(&m);
	return rc;
}
