/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_GRAPH_TEXT_H
#define OUTPUT_GRAPH_TEXT_H
/* Prints a graph as text, in the notation of the rewrite rules (opt/rewrite.h), or as a Graphviz digraph. */
#include "ir/graph.h"

#include <stdio.h>

/* info: the types and shapes to show, by value id; NULL: those in the graph, which hold for all input shapes. */
void dump_graph(FILE *f, const struct graph *g, const struct vinfo *info);
void dump_dot(FILE *f, const struct graph *g);
/* "y: f32 [1,3]"; a value without a name is shown as "%ID". Lives in the arena. */
const char *dump_value(struct arena *a, const struct graph *g, uint32_t v, const struct vinfo *info);
/* The attributes that differ from their defaults, " {axis=1, group=32}", or "". Lives in the arena. */
const char *dump_params(struct arena *a, const struct node *n);

#endif
