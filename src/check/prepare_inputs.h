/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PREPARE_INPUTS_H
#define CHECK_PREPARE_INPUTS_H
/* Prepares the inputs of the checks: the inputs that the user gives, or generated values of guessed sizes. */
#include "check/check.h"
#include "session/free_sizes.h"

/*
 * Sets c->inputs and c->in for the driver. Reports each input that cannot be used as a finding, even when this build
 * cannot run the model.
 */
void prepare_inputs(struct check_context *c);

/*
 * Call after a run failed with the findings `why`. If shapes were at fault and all inputs are generated, tries other
 * sizes of the free dimensions. Returns true if a run succeeded; then c->inputs and c->in have the sizes of this run,
 * and `out` has its outputs.
 */
bool retry_with_other_sizes(struct check_context *c, const struct diag *why,
			    const struct tensor **out);

/*
 * If sizes of free dimensions were guessed, returns generated inputs of other sizes with which a run of the reference,
 * the test, succeeds, and tells the sizes in a note. Returns NULL if there are none.
 */
struct input_set *guess_sizes_again(struct check_context *c, sizes_test *test, void *arg);

/*
 * Generates a new set of inputs for a check that needs inputs of its own. dims binds free dimensions ("batch=4", as
 * --dim does); if it is NULL, the user's request binds them. Returns NULL with a finding on error; otherwise free the
 * set with input_free.
 */
struct input_set *generate_inputs(struct check_context *c, const struct texts *dims, struct diag *d);

/* Generates inputs in which each size of a free dimension that was guessed is larger by one. Returns NULL if that fails; free the set. */
struct input_set *generate_larger_inputs(struct check_context *c);

/* Adds the findings of a failed run, with sizes of free dimensions that work if these may be the cause. */
void report_failed_shapes(struct check_context *c, const struct diag *why);

#endif
