/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_POINTWISE_H
#define CPU_POINTWISE_H
/* infer::Pointwise: programs over broadcasting operands (ops/fused.h), run a block at a time. */
#include "backend/backend.h"

int pointwise_reshape(struct site *site, struct step *step, struct diag *d);
int pointwise_run(const struct call *c);
/*
 * Add, Sub, Mul and Div of an image that is not row-major and what repeats over it, factors of the
 * channels most often: the image keeps its layout. Everything else is refused.
 */
bool pointwise_binary_accepts(const struct site *s, struct why *w);
int pointwise_binary_reshape(struct site *site, struct step *step, struct diag *d);
/* For every float type in fp64, an element at a time. */
int pointwise_reference_run(const struct call *c);

#endif
