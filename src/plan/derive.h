/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_DERIVE_H
#define PLAN_DERIVE_H
/* Makes the plan of a segment out of one for other sizes. */
#include "plan/segment.h"

/*
 * Plans the nodes of `old` for the values in x->live, and returns a new segment without a binding. Only nodes that a change of
 * sizes or known contents reaches are inferred and prepared anew. Returns NULL if the plan would have other steps, or nodes
 * fail: then segment_plan() tells.
 */
struct segment *segment_derive(struct instance *x, const struct segment *old);

#endif
