/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_MATCH_H
#define DIFF_MATCH_H
/*
 * Finds which nodes of model A correspond to which nodes of model B, by structure and weights. Names count for the inputs
 * and outputs of the models only, so that a model that was exported again corresponds node by node.
 *
 * Both models are seen as a flat list of nodes: those of the bodies of If, Loop and Scan stand before the node that owns
 * them, whose operands are its inputs followed by what its bodies give. Model-local functions are expanded by the
 * loader. Constants are leaves, whether they come from an initializer or from a Constant. Nodes that only copy (Identity, and
 * a Dropout that does not train) are looked through, and nodes that no output needs are marked dead.
 *
 * The search takes time in proportion to N log N for N operands. It is a heuristic, in the manner of the two directions
 * of GumTree (Falleri et al., "Fine-grained and accurate source code differencing", 2014) with the refinement of
 * colors by Weisfeiler and Leman (1968): equal parts are paired by hashes of what leads to a node and of what follows, and
 * what remains by its neighbours. A hash that collides can only pair wrong nodes; whoever compares pairs sees that.
 */
#include "ir/graph.h"

#define NO_MATCH UINT32_MAX

/* One value of a side. */
struct match_value {
	const struct value *value;
	const struct graph *graph; /* that the value is in */
	const struct tensor *init; /* of a constant; otherwise NULL */
	uint32_t node;	/* number in match_side.node of the node that makes it, or NO_MATCH */
	uint32_t port;	/* which output of that node it is */
	uint32_t input; /* of an input of the model: its number; otherwise NO_MATCH */
	uint32_t depth, body,
		position; /* of an input of a body: how deep it is, which body of its node, which input */
	uint32_t *users, *slots; /* nodes that read it, and the slot in each */
	uint32_t nusers;
	uint64_t hash;
};

enum {
	MATCH_BODY_SLOT = 1 << 20
}; /* output i of body k is the operand in slot (k + 1) * MATCH_BODY_SLOT + i, numbered by their attributes, as a file has those in any order */

struct match_node {
	const struct node *node;
	const struct graph *graph; /* that the node is in; not the model's graph for a node of a body */
	uint32_t owner;		   /* number of the node whose body it is in, or NO_MATCH */
	/* what it reads, and in which slot; omitted inputs are left out */
	const uint32_t *operand, *slot;
	uint32_t noperands;
	uint32_t first_value; /* number of the value with id 0 of its graph */
	bool live;	      /* some output of the model needs it */
	uint32_t partner;     /* number of the node of the other side, or NO_MATCH */
};

struct match_side {
	const struct model *model;
	struct match_node *node; /* in topological order */
	uint32_t nnodes, cap_nodes;
	struct match_value *value;
	uint32_t nvalues, cap_values;
	const uint32_t *in, *out; /* numbers of the values that are the model's inputs and outputs */
	uint32_t *in_partner, *out_partner; /* numbers among those of the other side, or NO_MATCH */
};

struct match {
	struct arena *arena;
	struct match_side side[2]; /* A, B */
};

/*
 * Returns the matching of two models, in the arena. Both models must be as onnx_load gives them and must outlive it.
 * Inputs and outputs correspond by name, and those left over by position and type.
 */
struct match *match_models(const struct model *a, const struct model *b, struct arena *arena);
/* Whether an operand may be exchanged with the other: of two operands of a commutative operator. */
bool match_commutes(const struct match_node *n);
/* Operator as people write it, with its domain unless that is ai.onnx. */
const char *match_operator(const struct match_node *n, struct arena *a);
/*
 * Returns the version of a node's operator if newer versions mean something else or take other operands and attributes (the import
 * upgrades such a node); 0 if it means what the newest does.
 */
int match_old_meaning(const struct node *n);
/* Returns the hash of a node's operator and of those of its attributes that differ from their defaults. */
uint64_t match_attributes_hash(const struct node *n);

#endif
