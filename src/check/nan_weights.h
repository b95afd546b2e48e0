/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_NAN_WEIGHTS_H
#define CHECK_NAN_WEIGHTS_H
/*
 * Weights that have NaN. A model may mean them, as a value to fill in or to compare with, or may not read them in every run, so a
 * run must show whether they reach an output.
 */
#include "check/check.h"

struct nan_weight {
	const struct graph *g; /* of the file: the model's graph or a body */
	const struct value *v;
	const char *said; /* "4 of 40 elements are NaN" */
	struct nan_weight *next;
};

/* Has the check `nan` judge the weight later, when the model has run. */
void suspect_nan(struct check_context *c, const struct graph *g, const struct value *v,
		 const char *said);

#endif
