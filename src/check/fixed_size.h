/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_FIXED_SIZE_H
#define CHECK_FIXED_SIZE_H
/*
 * Suspicions that the graph fixes a size that its inputs leave free. Other nodes may make up for it, so each waits until a run
 * with another size has confirmed or refuted it.
 */
#include "check/check.h"

/* What the finding at the same position of check_context.suspected claims. */
struct suspect {
	const char *dim; /* name of the free dimension, as --dim takes it */
	int64_t fixed;	 /* the one size that is said to work */
	int32_t output;	 /* position of the output that is declared with this size, or -1 */
	/* `dim` is that of an input from which the fixed dimension may be computed: only a failure of the node tells */
	bool derived;
	bool batch; /* dimension 0 of the outputs should follow the dimension */
};

/* Adds a finding to be confirmed; the check `sizes` reports it if a run with another size agrees. */
void suspect_fixed_size(struct check_context *c, const struct suspect *s, const struct finding *f);

#endif
