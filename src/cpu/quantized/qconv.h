/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_QCONV_H
#define CPU_QUANTIZED_QCONV_H
/* Convolutions of 8-bit integers: ConvInteger and QLinearConv. */
#include "backend/backend.h"

int conv_integer_reshape(struct site *s, struct step *st, struct diag *d);
int conv_integer_run(const struct call *c);
int qlinear_conv_reshape(struct site *s, struct step *st, struct diag *d);
int qlinear_conv_run(const struct call *c);
/* QLinearConv where the channels are last, without VNNI (qpicture.c) */
bool qpicture_accepts(const struct site *s, struct why *w);
int qpicture_reshape(struct site *s, struct step *st, struct diag *d);
int qpicture_run(const struct call *c);

#endif
