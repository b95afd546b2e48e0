/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_POINTWISE_H
#define CPU_POINTWISE_H
/*
 * infer::Pointwise: fused element-wise programs over broadcast operands (ops/fused.h), run block by
 * block.
 */
#include "backend/backend.h"
#include "ops/fused.h"

int pointwise_reshape(struct site *site, struct step *step, struct diag *d);
int pointwise_run(const struct call *c);
/*
 * Kernel for Add, Sub, Mul and Div of an image whose layout is not row-major and an operand that is
 * broadcast over it, most often one factor per channel. The image keeps its layout, which saves a
 * reorder. Every other node is refused.
 */
bool pointwise_binary_accepts(const struct site *s, struct why *w);
int pointwise_binary_reshape(struct site *site, struct step *step, struct diag *d);
/*
 * Computes one element of each output from one of each input. With `narrow` the result of each instruction is rounded to fp32, as
 * pointwise_run() does: 10 * 0.7 is 7 in fp32, and less than 7 in double.
 */
void pointwise_element(const struct fused_pointwise *f, bool narrow, const double *in, double *out);
/* Reference kernel for every float type: computes each element by itself, in fp64. */
int pointwise_reference_run(const struct call *c);

#endif
