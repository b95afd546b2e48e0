/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_GROW_H
#define PLAN_GROW_H
/* States that grow where they lie: which operands of a plan may be tensors with more room than positions (tensor.room). */
#include "plan/segment.h"

/* Whether the slot is read by one step alone, whose kernel takes a tensor with more room than positions. */
bool slot_takes_room(const struct instance *x, const struct segment *s, uint32_t slot);
/* How an output continues a state. */
struct growth {
	const struct step_plan *by;
	uint32_t from; /* the slot that it continues */
	uint32_t at;   /* the value that says where positions are added, or NO_VALUE */
};
/*
 * Whether output `out` of the graph has a slot of its own, whose step takes it with room, and with it all that it continues: kernels expect
 * keys and values with the same room.
 */
bool output_takes_room(const struct instance *x, const struct segment *s, uint32_t out,
		       struct growth *to);

#endif
