/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_TRIAL_SIZES_H
#define CHECK_TRIAL_SIZES_H
/* The sizes of free dimensions that checks try: those of --shapes-sweep, or common sizes of the first free dimension. */
#include "check/check.h"
#include "input/sweep.h"

struct trial_sizes {
	const char *free; /* the names of all free dimensions, for messages; "" if there are none */
	struct texts *dims; /* per trial: the --dim texts for generate_inputs */
	const char **label; /* per trial: "batch=4" */
	size_t n;	    /* number of trials; 0: no dimension is free */
};
/* Fills *s. E-OPTION for a sweep that cannot be parsed, E-DIM for one that names no free dimension. */
int trial_sizes_list(struct check_context *c, struct trial_sizes *s);

#endif
