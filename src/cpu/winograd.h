/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_WINOGRAD_H
#define CPU_WINOGRAD_H
/*
 * infer::Conv in fp32 by 3 x 3 with stride 1 and constant weights, where Winograd's algorithm (cpu/math/winograd.h) is faster than sums over windows:
 * with 4/9 or 1/4 as many products.
 */
#include "backend/backend.h"

bool winograd_accepts(const struct site *s, struct why *w);
int winograd_reshape(struct site *s, struct step *step, struct diag *d);
int winograd_run(const struct call *c);

#endif
