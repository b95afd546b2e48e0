/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_BLAME_H
#define CMD_RUN_BLAME_H
/*
 * An asynchronous GPU error appears only when the host waits for the GPU, and does not say which node caused it. In
 * that case the command is repeated once, with the same inputs, in a new process (the CUDA context of this one is
 * unusable) that waits after each launch. The node that fails there is added to the finding.
 */
#include "cmd/options/options.h"

/*
 * Call this function before the command runs. In the process that repeats the run, it changes o so that the GPU is
 * waited for after each launch, which shows the node that fails, and so that no files are written.
 */
void blame_begin(struct options *o);
/*
 * Call this function after the command ran. If a finding lacks its node, it repeats the command; in
 * the process that repeats the run, it sends the result to the parent. Returns the finding whose node was looked for, or
 * NULL.
 */
const struct finding *blame_end(const struct options *o, char **argv, struct diag *d);
#endif
