/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_NODE_HASHES_H
#define CHECK_NODE_HASHES_H
/*
 * Hashes of the nodes of two models, by which their counterparts are found: of what a node is, of all that leads to it, and of all that
 * follows. Names do not count, nor do nodes that only hand on a value, be it an Identity or what one of the models has more of than
 * the other: casts between floats, and rounding to codes and back.
 *
 * The levels tell what a node is by its operator and which of its operands are constants (FORM), its attributes, bodies and integers as
 * well (KIND), and the contents of its weights (FULL). Weights that differ by little, as by rounding to fp16 or to codes, count as equal.
 */
#include "base/arena.h"
#include "base/hash.h"
#include "ir/graph.h"

enum level { FORM, KIND, FULL, LEVELS };

#define NONE UINT32_MAX

/* One of the two models. Nodes are numbered by their positions in the order, values by their ids. */
struct side {
	const struct graph *g;
	uint32_t *position; /* by node id */
	uint32_t *root;	    /* by value: the value that it copies; itself if it copies none */
	uint32_t *port;	    /* by value: which output of its node it is */
	bool *constant;	    /* by value */
	bool *copies; /* by node: it only hands on its first operand, so that it stands in no hash */
	uint64_t *leaf;	   /* by value: hash of the contents of a constant, number of an input */
	bool *weighted;	   /* by node: it reads floats that are more than a few factors */
	uint32_t *partner; /* by node: the other side's node, or NONE */
	uint32_t *output;  /* by output: its number among those of the reference */
	uint64_t *own[LEVELS], *up[LEVELS], *down[LEVELS]; /* by node */
};

struct sides {
	struct arena *arena;
	struct side side[2]; /* reference, tested model */
};

/* Makes the two sides, in whose arena they live, without hashes and without partners. */
void sides_make(struct sides *a, const struct graph *ref, const struct graph *got);
/* Makes `root`, `leaf`, `output` and `own`. Nodes whose `copies` is set by then are looked through as well. */
void sides_hash(struct sides *a);
/* Makes `up` and `down` of one level. Nodes that have partners stand for themselves. */
void sides_hash_around(struct sides *a, enum level level);
/* Names the inputs of a graph; the map is in the arena. */
void name_inputs(struct map *names, struct arena *arena, const struct graph *g);

static inline const struct node *node_at(const struct side *s, uint32_t i)
{
	return s->g->node[s->g->order[i]];
}
bool node_is(const struct node *n, const char *op); /* of any domain */
bool node_commutes(const struct node *n);
bool value_is_float(const struct value *v);

#endif
