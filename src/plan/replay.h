/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_REPLAY_H
#define PLAN_REPLAY_H
/* Records steps that only launch kernels as CUDA graphs, and replays them in later runs. */
#include "plan/exec.h"

/* Fills s->ranges, which tell the steps that can be recorded together. */
void segment_ranges(struct segment *s, const struct runtime *rt);

/* Allocates an empty list for the binding's recordings; nothing is recorded yet. */
void replays_new(struct binding *b);
/* Frees the recordings, as these hold addresses of memory that the binding no longer uses. */
void replays_drop(struct binding *b);
/*
 * Records all ranges of a binding that has not run yet, with the addresses that its slots have now. The recordings of `from` are
 * changed for that: `from` has a plan that is not expected to run again, but its last run may still be under way; NULL: there are none.
 * What cannot be recorded is left to the run. `soon`: that run comes at once.
 */
void replays_record(struct binding *b, struct binding *from, bool soon);
/* Runs all steps of the binding, replaying the ranges that have been recorded. Returns 0 or -code. */
int steps_replay(struct binding *b, struct diag *d);
/* Whether the steps of a segment only launch kernels and queue copies on the device, so that the host waits for nothing in a run. */
bool segment_launches(const struct segment *s);

#endif
