/* SPDX-License-Identifier: Apache-2.0 */
/* infer inspect FOLDER, or genai_config.json in it: the models of ONNX Runtime GenAI, and how the decoder is run. */
#include "cmd/inspect/inspect.h"

#include "base/str.h"
#include "base/tame.h"
#include "session/genai.h"

#include <inttypes.h>

static void print_names(const char *what, const struct jvalue *v, struct arena *a, FILE *f)
{
	const char *before = "  ";

	if (!v || v->type != J_OBJECT || !v->first)
		return;
	fprintf(f, "  %-8s", what);
	for (const struct jvalue *m = v->first; m; m = m->next)
		if (m->type == J_STRING) {
			fprintf(f, "%s%s", before, tame_word(a, m->text));
			before = ", ";
		}
	fputc('\n', f);
}

static void print_all(const struct genai *g, struct arena *a, FILE *f)
{
	fprintf(f, "config      %s  %s", g->path, tame_word(a, g->type));
	if (g->layers > 0)
		fprintf(f, ", %s", str_many(a, (uint64_t)g->layers, "layer"));
	if (g->vocabulary > 0)
		fprintf(f, ", %s ids", str_count(a, g->vocabulary));
	if (g->context > 0)
		fprintf(f, ", context of %s", str_count(a, g->context));
	fputc('\n', f);
	for (size_t i = 0; i < g->nparts; i++) {
		const struct genai_part *p = &g->part[i];
		fprintf(f, "%-10s  %s  %s\n", tame_word(a, p->name), tame_word(a, p->file),
			p->bytes < 0 ? "not there" : human_bytes(a, (uint64_t)p->bytes));
		print_names("inputs", p->inputs, a, f);
		print_names("outputs", p->outputs, a, f);
	}
	if (g->command)
		fprintf(f, "run         %s\n", tame_word(a, g->command));
	else
		fprintf(f, "run         no line to run it: %s\n", g->why_not);
	if (g->first)
		fprintf(f, "first step  %s\n", tame_word(a, g->first));
}

static void write_names(struct json *j, const char *key, const struct jvalue *v)
{
	json_array(j, key);
	if (v && v->type == J_OBJECT)
		for (const struct jvalue *m = v->first; m; m = m->next)
			if (m->type == J_STRING)
				json_string(j, NULL, m->text);
	json_end(j, ']');
}

static void write_all(const struct genai *g, struct json *j)
{
	json_object(j, "genai");
	json_string(j, "path", g->path);
	json_string(j, "type", g->type);
	json_int(j, "layers", g->layers);
	json_int(j, "vocabulary", g->vocabulary);
	json_int(j, "context", g->context);
	json_array(j, "parts");
	for (size_t i = 0; i < g->nparts; i++) {
		const struct genai_part *p = &g->part[i];
		json_object(j, NULL);
		json_string(j, "name", p->name);
		json_string(j, "file", p->file);
		if (p->bytes >= 0)
			json_int(j, "bytes", p->bytes);
		else
			json_null(j, "bytes");
		write_names(j, "inputs", p->inputs);
		write_names(j, "outputs", p->outputs);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_string(j, "run", g->command);
	json_string(j, "first_step", g->first);
	json_end(j, '}');
}

int inspect_genai(struct options *o, const char *path, struct diag *d)
{
	struct arena a = {0};
	struct genai g;
	struct json j;
	int rc = genai_read(path, &a, &g, d);

	for (size_t i = 0; !rc && i < g.nparts; i++)
		if (g.part[i].bytes < 0)
			WARN(d, E_MODEL_OPEN,
			     .message = fmt(d, "%s is not there: the configuration names it as %s",
					    g.part[i].path, g.part[i].name));
	if (!rc && o->json) {
		json_envelope_begin(&j, o, d);
		write_all(&g, &j);
		json_envelope_end(&j, d);
	} else if (!rc) {
		FILE *f = listing_begin(stdout);
		print_all(&g, &a, f);
		listing_end(f);
	}
	arena_free(&a);
	return rc;
}
