/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SUPPORTED_H
#define OPS_SUPPORTED_H
#include "ir/graph.h"

/*
 * Reports all operators of the model, bodies included, that this build has no row for, in one finding. Returns 0 or
 * -code.
 */
int ops_supported(const struct model *m, struct diag *d);

#endif
