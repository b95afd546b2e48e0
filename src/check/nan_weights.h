/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_NAN_WEIGHTS_H
#define CHECK_NAN_WEIGHTS_H
/*
 * Weights and given inputs that have NaN. A model may mean them, as a value to fill in, to compare with or to stand for a missing one,
 * or may not read them in every run, so a run must show whether they reach an output.
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

struct nan_input {
	struct finding found; /* as it is reported if an output shows NaN, or if no run has told */
	bool handled; /* a node of the model handles NaN, so that whole numbers may be made of them */
	struct nan_input *next;
};

/* The same for an input: the finding becomes a note if the outputs of a run are free of NaN. */
void suspect_nan_input(struct check_context *c, const struct finding *found, bool handled);

#endif
