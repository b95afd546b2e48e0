/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_POINTWISE_H
#define CPU_POINTWISE_H
/* infer::Pointwise: programs over broadcasting operands (ops/fused.h), run a block at a time. */
#include "backend.h"

int pointwise_reshape(struct site *site, struct step *step, struct diag *d);
int pointwise_run(const struct call *c);
/* For every float type in fp64, an element at a time. */
int pointwise_reference_run(const struct call *c);

#endif
