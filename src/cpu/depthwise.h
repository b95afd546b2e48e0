/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_DEPTHWISE_H
#define CPU_DEPTHWISE_H
/*
 * infer::Conv in bf16 with one map for each channel and a window of 3 x 3, 5 x 5 or 7 x 7. oneDNN's takes half as long again in bf16
 * as in fp32; this one turns each row of the picture into fp32 once and sums there.
 */
#include "backend/backend.h"

bool depthwise_accepts(const struct site *s, struct why *w);
int depthwise_reshape(struct site *s, struct step *step, struct diag *d);
int depthwise_run(const struct call *c);

#endif
