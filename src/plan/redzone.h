/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_REDZONE_H
#define PLAN_REDZONE_H
/*
 * In a build with AddressSanitizer a step may touch only those bytes of the host's slab that belong to values and
 * workspaces in use: gaps between them, values that no step has made yet and values that no later step reads are
 * poisoned. Sessions on a device are left alone, because copies that run beside the steps read the slab, too.
 */
#include "plan/exec.h"

/* Poisons the whole slab; call before a run of the segment. */
void redzone_begin(const struct binding *b);
/* Opens the workspace of step k and the values that it is the first to use; call before the step. */
void redzone_enter_step(const struct binding *b, uint32_t k);
/* Poisons the workspace of step k and the values that it is the last to use; call after the step. */
void redzone_leave_step(const struct binding *b, uint32_t k);

#endif
