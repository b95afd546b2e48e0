/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_REFERENCE_H
#define CHECK_REFERENCE_H
#include "check/check.h"

/*
 * Whether the user has given a reference for output k that has its NaN, infinities or zeros too, and is within the tolerance: then
 * they are meant. Of an output without NaN and infinities, the reference must be all 0.
 */
bool reference_confirms(struct check_context *c, uint32_t k);

/* Frees what was read of the references; `references` of the context is not valid afterwards. */
void references_free(struct check_context *c);

#endif
