/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_MADE_INPUTS_H
#define CHECK_MADE_INPUTS_H
/* The driver's: c->inputs and c->in. See check_inputs in check.h for those that checks make themselves. */
#include "check/check.h"

/* Refused inputs are findings, of every input by itself, also of a model that this build cannot run. */
void inputs_open(struct check_context *c);
/*
 * After a run that failed for `why`: other sizes of free dimensions, where everything is made up and shapes were at
 * fault. True where a run went well, whose outputs out got.
 */
bool inputs_guess(struct check_context *c, const struct diag *why, const struct tensor **out);

#endif
