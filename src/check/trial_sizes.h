/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_TRIAL_SIZES_H
#define CHECK_TRIAL_SIZES_H
/* Shapes to go through: those that --shapes-sweep says, or some sizes of the first free dimension. */
#include "check/check.h"
#include "input/sweep.h"

struct trial_sizes {
	const char *free;   /* all free dimensions, for people; "" where none is */
	struct texts *dims; /* what random_inputs takes */
	const char **label; /* "batch=4" */
	size_t n;	    /* 0: nothing is free */
};
/* E-OPTION for a sweep that cannot be read, E-DIM for one that names no free dimension. */
int trial_sizes_list(struct check_context *c, struct trial_sizes *s);

#endif
