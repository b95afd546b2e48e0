/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_CONV_H
#define CPU_CONV_H
#include "backend/backend.h"

/* The reference kernel of Conv and infer::Conv, for every float type. */
int conv_any_reshape(struct site *site, struct step *step, struct diag *d);
int conv_any_run(const struct call *c);

#endif
