/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_GRAPH_DRAWING_H
#define OUTPUT_GRAPH_DRAWING_H
/* Draws a graph on an HTML page: nodes in layers from top to bottom, which a reader can zoom, drag and search. */
#include "ir/graph.h"
#include "output/html.h"

struct drawn_node {
	const struct node *node;
	const char *name, *op, *shape; /* shape: of the first output */
	const char *cost;	       /* "12.3 MFLOP", or "" */
};

/* The nodes are in the order of execution and belong to g. */
void page_graph(struct page *p, const struct graph *g, const struct drawn_node *node, size_t n);

#endif
