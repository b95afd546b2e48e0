/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_NBITS_H
#define CPU_QUANTIZED_NBITS_H
/*
 * com.microsoft's MatMulNBits and MatMulBnb4: matrix products with weights of 2, 4 or 8 bits, in which each block of
 * weights has its own scale.
 */
#include "backend/backend.h"

int nbits_reshape(struct site *s, struct step *st, struct diag *d);
int nbits_run(const struct call *c);
int bnb_reshape(struct site *s, struct step *st, struct diag *d);
int bnb_run(const struct call *c);

#endif
