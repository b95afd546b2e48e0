/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_CHECK_CHECK_MODEL_H
#define CMD_CHECK_CHECK_MODEL_H
/* infer check MODEL. */
#include "cmd/options/options.h"

/* Runs the checks and prints or writes their report. Returns 0 or -code; the findings of the checks are in d. */
int check_model(struct options *o, struct diag *d);

#endif
