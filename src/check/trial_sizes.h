/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_TRIAL_SIZES_H
#define CHECK_TRIAL_SIZES_H
/*
 * Lists the sizes of free dimensions that checks try: the sizes of --shapes-sweep, or common sizes of the first free
 * dimension.
 */
#include "check/check.h"
#include "input/sweep.h"

struct trial_sizes {
	const char *free; /* the names of all free dimensions, for messages; "" if there are none */
	struct texts *dims; /* for each trial the --dim texts for generate_inputs */
	const char **label; /* per trial: "batch=4" */
	size_t n;	    /* number of trials; 0 if no dimension is free */
};
/*
 * Fills *s. Fails with E-OPTION for a sweep that cannot be parsed, and with E-DIM for a sweep that names no free
 * dimension.
 */
int trial_sizes_list(struct check_context *c, struct trial_sizes *s);

#endif
