/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_WATCH_WATCH_H
#define CMD_WATCH_WATCH_H
/* infer check -- COMMAND and infer check --pid PID: watch another program instead of checking a model. */
#include "cmd/options/options.h"

/* Runs the command. o->status becomes the exit status of the watched program. Returns 0 or -code. */
int watch_command(struct options *o, struct diag *d);
/* Fails if an option of watch_command() was given for a check of a model. */
int watch_misplaced(const struct options *o, struct diag *d);

#endif
