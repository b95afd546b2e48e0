/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SUPPORTED_H
#define OPS_SUPPORTED_H
#include "ir/graph.h"

/* Every operator of the model that this build has no row for, in one finding. */
int ops_supported(const struct model *m, struct diag *d);

#endif
