/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_EXTEND_H
#define PLAN_EXTEND_H
/* States that are extended in place: which operands of a plan may be tensors with spare capacity (tensor.capacity). */
#include "plan/segment.h"

/* Whether the slot is read by one step alone, whose kernel takes a tensor with spare capacity. */
bool slot_takes_capacity(const struct instance *x, const struct segment *s, uint32_t slot);
/* How an output continues a state. */
struct extension {
	const struct step_plan *by;
	uint32_t from; /* the slot that it continues */
	uint32_t at;   /* the value that tells where positions are appended, or NO_VALUE */
};
/*
 * Whether output `out` is written by one step that accepts operands with spare capacity, together with every state that this step extends:
 * kernels expect the same capacity of keys and values.
 */
bool output_takes_capacity(const struct instance *x, const struct segment *s, uint32_t out,
			   struct extension *to);

#endif
