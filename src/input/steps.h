/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_STEPS_H
#define INPUT_STEPS_H
/*
 * What changes between the steps of a run that runs the model several times: outputs that come back as inputs (--feed), long
 * inputs of which each step gets a piece (--slice), tokens chosen from an output (--next), and inputs that follow from
 * the number of positions so far (--derive). This unit parses these options against a model; session/stepper.h executes
 * them.
 */
#include "input/input.h"

/* The texts of the options, as the user wrote them. */
struct steps_request {
	struct texts feed;   /* OUT=IN */
	struct texts slice;  /* NAME[.AXIS]=SIZE[:STRIDE][,lead=N][,rest=pad|drop|keep] */
	struct texts next;   /* IN=argmax:OUT or IN=sample:OUT[,temperature=T][,top=K] */
	struct texts derive; /* NAME=RULE */
};

struct feed {
	uint32_t out, in; /* positions among the graph's outputs and inputs */
};

enum slice_rest { REST_PAD, REST_DROP, REST_KEEP };

struct slice {
	uint32_t in;
	int axis; /* -1 until the input's rank is known: the last axis */
	int64_t size, stride;
	int64_t lead; /* zeros before the first element */
	enum slice_rest rest;
};

struct next {
	uint32_t in, out;
	bool sample; /* otherwise the largest value is taken */
	double temperature;
	int64_t top; /* sample only among this many of the largest values; 0: all */
};

enum derive_rule {
	DERIVE_ONES,	  /* ones, one for each position so far: a mask that hides nothing */
	DERIVE_POSITIONS, /* the positions of this step, counted from the first step on */
	DERIVE_TOTAL,	  /* the number of positions, this step's included */
	DERIVE_LAST,	  /* the number of the last position: the total less one */
	DERIVE_PAST,	  /* the number of positions before this step */
	DERIVE_CACHED,	  /* whether there are positions before this step */
	DERIVE_RULES
};

struct derive {
	uint32_t in;
	enum derive_rule rule;
	bool by_name; /* chosen by the input's name, not by the user */
};

struct steps {
	struct feed *feed;
	struct slice *slice;
	struct next *next;
	struct derive *derive;
	uint32_t nfeed, nslice, nnext, nderive;
};

/* Whether any of the options is given. */
bool steps_wanted(const struct steps_request *r);
/*
 * Parses the options for the model. Returns NULL and adds findings to d if they are wrong. Texts and arrays live in the
 * arena. With --next, inputs with the usual names of masks and positions that the request r gives no source are derived
 * by their names, each with a note.
 */
struct steps *steps_parse(const struct steps_request *w, const struct input_request *r,
			  const struct model *m, struct arena *a, struct diag *d);

/* Positions before a step and in it. */
struct positions {
	int64_t past, now;
};
/* The positions of the first step, once the inputs are planned: `shape` has a shape for each input. */
struct positions steps_first(const struct steps *s, const struct graph *g,
			     const struct shape *const *shape);
/* The shape of a derived input at these positions. `planned` is its declared shape; free dimensions are negative. */
struct shape derive_shape(enum derive_rule rule, const struct shape *planned, struct positions at,
			  int64_t batch);
/* Fills a tensor of such a shape. Returns false if the positions do not fit its fixed size. */
bool derive_fill(enum derive_rule rule, struct positions at, struct tensor *t);
/* Says that there are more positions than the input of this name has room for. Returns -code. */
int derive_fail(const char *name, struct positions at, const struct tensor *t, struct diag *d);
/* "ones for all positions so far" */
const char *derive_text(enum derive_rule rule);
const char *derive_word(enum derive_rule rule);
/* Whether an axis with this name grows from step to step, so that a state without a file begins with none of it. */
bool steps_grows_by_name(const char *dim);

const struct feed *steps_feed_of(const struct steps *s, uint32_t in);
const struct derive *steps_derive_of(const struct steps *s, uint32_t in);

/*
 * Matches a text with a pattern in which * stands for any text. *of[k], of length[k] bytes, becomes what the k-th star stands for.
 * Returns false if they do not match.
 */
enum { MAX_STARS = 4 };
struct stars {
	const char *of[MAX_STARS];
	size_t length[MAX_STARS];
	int n;
};
bool pattern_match(const char *pattern, const char *text, struct stars *stars);

#endif
