/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_GRAPH_TEXT_H
#define OUTPUT_GRAPH_TEXT_H
/* A graph as text, in the notation of the rewrite rules, and as a Graphviz digraph. */
#include "ir/graph.h"

#include <stdio.h>

/* info: shapes by value id to show; NULL: the values' generic ones. */
void dump_graph(FILE *f, const struct graph *g, const struct vinfo *info);
void dump_dot(FILE *f, const struct graph *g);
/* "y: f32 [1,3]" of a value; name made up where it has none. */
const char *dump_value(struct arena *a, const struct graph *g, uint32_t v, const struct vinfo *info);
/* "{axis=1, group=32}" or "" */
const char *dump_params(struct arena *a, const struct node *n);

#endif
