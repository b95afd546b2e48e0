/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_CASTS_H
#define CHECK_CASTS_H
/*
 * Casts that follow each other, of which the first goes to a type that cannot hold all values that the types around it can. Whether
 * that loses anything depends on the values: sizes fit an i32, and a Cast to integers may be there to truncate.
 */
#include "check/check.h"

struct cast_pair {
	const struct origin *first, *last; /* of the Casts */
	enum dtype from, mid;		   /* what the first one reads and makes */
	const char *said;		   /* "it casts to f32 what Cast 'a' has cast to f16" */
	/* of all runs of the first Cast: elements, those that changed or do not fit, and the largest change */
	int64_t count, lost;
	double most;
	bool of_sizes; /* the Cast has no step, as the plan knows what it makes: it follows from sizes */
	struct cast_pair *next;
};

/* Has the check `casts` judge the pair p, n of Casts later, when the model has run. */
void suspect_cast(struct check_context *c, const struct node *n, const struct node *p,
		  enum dtype from, enum dtype mid, const char *said);

#endif
