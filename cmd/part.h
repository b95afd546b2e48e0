/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_PART_H
#define CMD_PART_H
/* What the commands share that write nodes of a model's file as another model: extract and simplify. */
#include "base/hash.h"
#include "cmd/output/output.h"
#include "onnx/save.h"
#include "session/session.h"

/* A model as a session has optimized it, and the nodes of its file. */
struct source {
	struct arena arena;
	struct session *session;
	const struct graph *graph;
	struct onnx_file *file;
	struct map maker_of; /* name of a value: number of the node of the file that makes it */
	struct map value_of; /* name of a value: its id in the graph, before any rewrite */
};

/* Opens both. Returns 0 or -code; source_close() is called in any case. */
int source_open(struct source *s, const char *path, const struct run_config *config, struct diag *d);
void source_close(struct source *s);
/* Enters the results of the file's nodes from number `from` on, which have come later. */
void source_index_nodes(struct source *s, uint32_t from);
bool source_knows(const struct map *m, const char *name);
/* Number of the node that makes the value; -1 if none does. */
int64_t source_maker(const struct source *s, const char *name);
/* Id of the value in the graph, before any rewrite; NO_VALUE if the graph has none of this name. */
uint32_t source_id(const struct source *s, const char *name);
/* What is known of the value, or of the one that took its place; NULL if the graph has none of this name. */
const struct value *source_value(const struct source *s, const char *name);

/* Inputs, outputs or constants of the model that is written. */
struct borders {
	struct onnx_border *v;
	uint32_t n, cap;
};
/* Adds a border whose type and shape are those of value v, which may be NULL. */
void borders_add(struct source *s, struct borders *to, const char *name, const struct value *v);
/* Adds one as it is. */
void borders_put(struct source *s, struct borders *to, const struct onnx_border *b);
void borders_print(const struct source *s, const char *what, const struct borders *b, FILE *f);
void borders_json(struct json *j, const char *key, const struct borders *b);

#endif
