/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_BLAME_H
#define CMD_RUN_BLAME_H
/*
 * An error of the GPU's that shows only where the host waits does not tell which node made it. Then the
 * command is repeated once, with the same inputs, in a fresh process (in this one the context is dead) that
 * waits after each launch; what it finds becomes the finding's node.
 */
#include "cmd/options/options.h"

/* Before the command runs. In the process that repeats: changes o so that it only looks for the node. */
void blame_begin(struct options *o);
/* After it ran: repeats it where a finding wants a node. In the process that repeats: tells what was found. */
void blame_end(const struct options *o, char **argv, struct diag *d);
#endif
