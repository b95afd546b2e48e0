/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
/* Decides at which offset of the slab each value and workspace of a segment lies. */
#include "plan/segment.h"

/*
 * Fills the slots' and workspaces' offsets, slab_bytes, value_bytes and workspace from the slots' lifetimes.
 * E-MEMORY-LIMIT if the result exceeds --memory-limit.
 */
int segment_memory(struct segment *s, const struct runtime *rt, struct diag *d);
/* "the largest values: ..." names the three values that take most memory, for messages. */
const char *segment_largest(const struct segment *s, struct diag *d);

#endif
