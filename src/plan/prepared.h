/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_PREPARED_H
#define PLAN_PREPARED_H
/*
 * What a kernel's `reshape` has prepared for a node depends on the node's operands alone. Plans in which the operands are
 * alike share it, so that a plan for other shapes of the model prepares only the nodes that they reach: a decoder whose cache grows by one
 * position in each step keeps the primitives of all its linear layers.
 */
#include "plan/segment.h"

/*
 * Sets the members of *step that the kernel's reshape fills, from a preparation that exists or by calling reshape. The
 * step may be used until prepared_release(*out). Returns 0 or -code; then there is nothing to release.
 */
int prepare_step(struct instance *x, struct site *site, struct step *step, struct prepared **out,
		 struct diag *d);
void prepared_release(struct instance *x, struct prepared *p);
/* Whether steps of other plans whose operands are alike may use it, and one more step that does. */
bool prepared_is_shared(const struct prepared *p);
void prepared_share(struct prepared *p);

#endif
