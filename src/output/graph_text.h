/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_GRAPH_TEXT_H
#define OUTPUT_GRAPH_TEXT_H
/* Prints a graph as text, in the notation of the rewrite rules (opt/rewrite.h), or as a Graphviz digraph. */
#include "ir/graph.h"

#include <stdio.h>

/*
 * info has the types and shapes to show, indexed by value id. If it is NULL, the types and shapes of the graph are
 * shown, which hold for all input shapes.
 */
void dump_graph(FILE *f, const struct graph *g, const struct vinfo *info);
void dump_dot(FILE *f, const struct graph *g);
/* Returns a text such as "y: f32 [1,3]", in the arena. A value without a name is shown as "%ID". */
const char *dump_value(struct arena *a, const struct graph *g, uint32_t v, const struct vinfo *info);
/*
 * Returns the attributes that differ from their defaults, such as " {axis=1, group=32}", or "". The text lives in the
 * arena.
 */
const char *dump_params(struct arena *a, const struct node *n);

#endif
