/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_REPLAY_H
#define PLAN_REPLAY_H
/* Records steps that only launch kernels as CUDA graphs, and replays them in later runs. */
#include "plan/exec.h"

/* Fills s->ranges: which steps can be recorded together. */
void segment_ranges(struct segment *s, const struct runtime *rt);

/* Makes room for the binding's recordings; nothing is recorded yet. */
void replays_new(struct binding *b);
/* Frees the recordings: they hold addresses of the binding's old memory. */
void replays_drop(struct binding *b);
/* Runs all steps of the binding, replaying the ranges that have been recorded. 0 or -code. */
int steps_replay(struct binding *b, struct diag *d);

#endif
