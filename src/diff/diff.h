/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIFF_DIFF_H
#define DIFF_DIFF_H
/*
 * Says what differs between two models, by the matching of their nodes (diff/match.h). Names of nodes and of tensors inside,
 * the order of nodes, and whether a constant is an initializer or a Constant make no difference; nor do nodes that only
 * copy, that compute again what another one does, or that no output needs.
 */
#include "diff/match.h"
#include "ir/difference.h"

enum diff_kind {
	DIFF_INTERFACE,	 /* inputs and outputs: names, types, shapes */
	DIFF_OPERATORS,	 /* nodes added, removed or replaced; what they read */
	DIFF_ATTRIBUTES, /* of nodes that correspond */
	DIFF_WEIGHTS,	 /* constants in the same place */
	DIFF_OPSETS,
	DIFF_METADATA, /* producer, IR version, texts, metadata_props */
	DIFF_KINDS
};

/* One difference. Texts live in the arena of the report. */
struct diff_item {
	enum diff_kind kind;
	const char *what; /* "node added", "attribute axis", ... */
	const char *where[2]; /* name of the node, tensor or port in A and B; NULL on the side that has none */
	const char *value[2]; /* what is there in A and B; NULL for nothing */
	uint32_t node[2]; /* numbers in match_side.node of the nodes that it is about; or NO_MATCH */
	bool measured;	  /* `far` is set: two constants of the same shape */
	struct difference far; /* B measured against A; the tolerance is 0 */
	int64_t elements;      /* that differ */
};

struct diff_report {
	struct match *match;
	struct diff_item *item; /* sorted by kind, then in the order of the graph */
	size_t nitems, cap;
	size_t count[DIFF_KINDS];
	uint32_t pairs;		    /* nodes that correspond */
	uint32_t nodes[2];	    /* live nodes of each side, bodies included */
	uint64_t weights, elements; /* pairs of constants that were compared, and their elements */
	uint64_t rounded;	    /* of these pairs: unequal, but within rounding */
	double rounding;	    /* the largest difference within such a pair */
};

/* How diff_models compares. */
enum diff_mode {
	DIFF_EXACT,
	/* weights and numbers that differ by rounding are equal: they may be folded, by others in other precision */
	DIFF_ROUNDING
};

/*
 * Compares two loaded models. Weights are compared where they lie, so no memory is taken for them. The report lives in the
 * arena, and refers to the models.
 */
struct diff_report *diff_models(const struct model *a, const struct model *b, enum diff_mode mode,
				struct arena *arena);
/* How many differences of operators, attributes and weights there are. */
size_t diff_within(const struct diff_report *r);
/* Puts the differences of other kinds, interface, opsets and metadata, in place of those of the report. */
void diff_take_heads(struct diff_report *r, const struct diff_report *from);
/* "interface", "operators", ... */
const char *diff_kind_name(enum diff_kind kind);
/* How far the weights of an item are from one another: "12 of 100 elements, max abs 0.1, ...", in the arena. */
const char *diff_far_text(const struct diff_item *item, struct arena *a);

#endif
