/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PREPARE_INPUTS_H
#define CHECK_PREPARE_INPUTS_H
/* The inputs of the checks: those that the user gives, or generated values of guessed sizes. */
#include "check/check.h"

/*
 * Sets c->inputs and c->in for the driver. Inputs that cannot be used are findings, one for each input, even when this
 * build cannot run the model.
 */
void prepare_inputs(struct check_context *c);

/*
 * After a run failed with the findings `why`: if shapes were at fault and all inputs are generated, tries other sizes of
 * the free dimensions. True if a run succeeded; then c->inputs and c->in are of those sizes and out has its outputs.
 */
bool retry_with_other_sizes(struct check_context *c, const struct diag *why,
			    const struct tensor **out);

/*
 * For a check that needs inputs of its own: a new set of generated values. dims binds free dimensions ("batch=4", as
 * --dim does); NULL: as the user's request says. NULL with a finding; otherwise free the set with input_free.
 */
struct input_set *generate_inputs(struct check_context *c, const struct texts *dims, struct diag *d);

#endif
