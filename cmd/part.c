/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/part.h"

#include "base/tame.h"

#include <string.h>

bool source_knows(const struct map *m, const char *name)
{
	return map_get(m, name, strlen(name)) >= 0;
}

/* Rewrites give new values the names of those that they replace: the first of a name is that of the file. */
static void index_values(struct map *to, const struct graph *g)
{
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const char *name = g->value[i]->name;
		if (name && *name && !source_knows(to, name))
			map_set(to, name, strlen(name), i);
	}
}

int source_open(struct source *s, const char *path, const struct run_config *config, struct diag *d)
{
	s->session = session_open(path, config, d);
	s->file = s->session ? onnx_file_open(path, config->external_root, d) : NULL;
	if (!s->file)
		return d->last ? -(int)d->last->code : -E_MODEL_OPEN;
	s->graph = session_model(s->session)->graph;
	s->maker_of.arena = s->value_of.arena = &s->arena;
	index_values(&s->value_of, s->graph);
	source_index_nodes(s, 0);
	const char *defaults = model_defaults(session_model(s->session), &s->arena);
	if (defaults)
		NOTE(d, E_MODEL_FOLD, .slot = "inputs that have default values",
		     .message = fmt(d, "%s: constants in the model that is written", defaults),
		     .hint = "infer convert keeps them as inputs");
	return 0;
}

void source_index_nodes(struct source *s, uint32_t from)
{
	for (uint32_t i = from; i < onnx_file_nodes(s->file); i++) {
		const struct onnx_node *n = onnx_file_node(s->file, i);
		for (uint32_t k = 0; k < n->nout; k++)
			if (*n->out[k])
				map_set(&s->maker_of, n->out[k], strlen(n->out[k]), i);
	}
}

void source_close(struct source *s)
{
	onnx_file_close(s->file);
	session_close(s->session);
	arena_free(&s->arena);
}

int64_t source_maker(const struct source *s, const char *name)
{
	return map_get(&s->maker_of, name, strlen(name));
}

uint32_t source_id(const struct source *s, const char *name)
{
	int64_t id = map_get(&s->value_of, name, strlen(name));

	return id < 0 ? NO_VALUE : (uint32_t)id;
}

const struct value *source_value(const struct source *s, const char *name)
{
	uint32_t id = source_id(s, name);

	return id == NO_VALUE ? NULL : s->graph->value[graph_became(s->graph, id)];
}

/* ---- borders */

void borders_put(struct source *s, struct borders *to, const struct onnx_border *b)
{
	if (to->n == to->cap) {
		to->cap = to->cap ? 2 * to->cap : 16;
		to->v = arena_grow(&s->arena, to->v, to->n, to->cap, sizeof(*to->v));
	}
	to->v[to->n++] = *b;
}

void borders_add(struct source *s, struct borders *to, const char *name, const struct value *v)
{
	struct tensor *t = arena_new(&s->arena, struct tensor);

	if (v)
		*t = (struct tensor){.type = v->info.type, .shape = v->info.shape};
	borders_put(s, to,
		    &(struct onnx_border){
			    .name = name, .t = t, .symbols = session_model(s->session)->symbols});
}

void borders_print(const struct source *s, const char *what, const struct borders *b, FILE *f)
{
	struct arena a = {0};

	for (uint32_t i = 0; i < b->n; i++) {
		const struct tensor *t = b->v[i].t;
		fprintf(f, "%-8s %s  %s %s\n", i ? "" : what, tame_word(&a, b->v[i].name),
			type_str(&a, t->type),
			t->type.kind == V_TENSOR
				? shape_str(&a, &t->shape, session_model(s->session)->symbols)
				: "");
	}
	arena_free(&a);
}

void borders_json(struct json *j, const char *key, const struct borders *b)
{
	json_array(j, key);
	for (uint32_t i = 0; i < b->n; i++)
		json_string(j, NULL, b->v[i].name);
	json_end(j, ']');
}
