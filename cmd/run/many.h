/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_MANY_H
#define CMD_RUN_MANY_H
/* infer run with many inputs: cases are read ahead, run in batches, and written in order. */
#include "cmd/options/options.h"

/* Returns true if the options name many inputs, or ask for what only a run with many inputs gives. */
bool run_names_many(const struct options *o);
int run_many(struct options *o, struct diag *d);

#endif
