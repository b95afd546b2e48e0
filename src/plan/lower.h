/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_LOWER_H
#define PLAN_LOWER_H
/* Makes the plan of a segment: nodes become steps with kernels, slots and memory offsets. */
#include "plan/segment.h"

/*
 * Plans the nodes from position `first` of the order, for the shapes of the values in x->live, up to the first node
 * whose shapes depend on data that this segment itself makes. *out becomes a new segment without a binding. Returns 0
 * or -code.
 */
int segment_plan(struct instance *x, uint32_t first, struct segment **out, struct diag *d);
void segment_free(struct instance *x, struct segment *s);

#endif
