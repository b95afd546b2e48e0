/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_RANDOM_H
#define INPUT_RANDOM_H
/* Random input values. The same seed and input name give the same values on every machine. */
#include "ir/graph.h"

enum range_kind {
	RANGE_UNIFORM,
	RANGE_IDS,   /* random indices into a table of hi + 1 rows */
	RANGE_ONES,  /* a mask that hides nothing */
	RANGE_CLEAR, /* a mask of zeros, where ones would hide */
	RANGE_ZERO,  /* token types */
	RANGE_SIZE,  /* sizes, numbers of elements and steps: 1, as 0 would leave nothing */
	RANGE_COUNT, /* positions: 0, 1, 2, ... along the last axis */
	RANGE_LENGTH, /* lengths of sequences that are padded: all `hi`, which the caller sets to the whole length */
};

/* What the nodes that read lengths of sequences tell of the length of a whole one. */
struct whole_length {
	const struct value *input; /* it is the size of this input along `axis`; NULL: it is `number` */
	int axis;
	int64_t number; /* 0: the nodes do not tell */
};

struct range {
	double lo, hi;
	/* the user gave a range for this input by name, so random_choose() does not change it */
	bool named;
	enum range_kind kind;
	struct whole_length whole; /* of RANGE_LENGTH */
};
/*
 * Chooses plausible ranges for integer inputs such as ids, masks, sizes, lengths and positions, by the nodes that
 * read the input (the table of a Gather limits the ids, a length is compared with a Range) or else by the input's name. Arbitrary
 * integers would lie outside of most tables, and lengths of 0 would leave nothing but padding.
 */
void random_choose(struct range *r, const struct graph *g, const struct value *v);
/*
 * Whether these are integers or bools of which nobody knows that the model takes them: not those of a range that the user gave by name, and
 * not masks, ids, positions and lengths as the model's nodes want them.
 */
bool random_is_arbitrary(const struct range *r, enum dtype t);
/* Describes the random values for people: "random -1..1, seed 0". */
const char *random_text(const struct range *r, int64_t seed, enum dtype t, struct arena *a);
/* A sequence of random numbers for a seed and a name: its first state, and the next number of 0 up to, but not including, 1. */
uint64_t random_start(int64_t seed, const char *name);
double random_unit(uint64_t *state);
/* Fills a tensor of any type except strings. Its memory must be allocated already. */
void random_fill(const struct range *r, int64_t seed, const char *name, struct tensor *t);
/*
 * Returns a tensor of random words, in the arena, or NULL if there is no memory. Where an encoder reads value v of the graph, or a
 * column of it, the words are categories that it knows; g and v may be NULL.
 */
struct tensor *random_strings(int64_t seed, const char *name, const struct graph *g,
			      const struct value *v, const struct shape *s, struct arena *a);

#endif
