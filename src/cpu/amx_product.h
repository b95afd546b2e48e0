/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_AMX_PRODUCT_H
#define CPU_AMX_PRODUCT_H
/*
 * infer::Gemm in bf16 with many columns and short sums, as the logits of recognizers of text are: there oneDNN does without AMX and
 * takes twice as long as in fp32.
 */
#include "backend/backend.h"

bool amx_product_accepts(const struct site *s, struct why *w);
int amx_product_reshape(struct site *s, struct step *step, struct diag *d);
int amx_product_run(const struct call *c);

#endif
