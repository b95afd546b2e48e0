/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H
/* Decides at which offset of the slab each value and workspace of a segment lies. */
#include "plan/segment.h"

/*
 * Fills the slots' and workspaces' offsets, slab_bytes, value_bytes and workspace from the slots' lifetimes. Fails
 * with E-MEMORY-LIMIT if the result exceeds --memory-limit.
 */
int segment_memory(const struct instance *x, struct segment *s, struct diag *d);
/* The same for a segment that has the slots and steps of `old`, some with other sizes: offsets stay where they fit. */
int segment_memory_again(const struct instance *x, struct segment *s, const struct segment *old,
			 struct diag *d);
/* Returns a text for messages, "the largest values: ...", with the three values that take most memory. */
const char *segment_largest(const struct segment *s, struct diag *d);

/* The limit as a finding shows it, with its reason if the user did not set it. */
const char *limit_text(const struct runtime *rt, size_t limit, struct diag *d);

#endif
