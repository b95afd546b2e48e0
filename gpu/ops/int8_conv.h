/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_INT8_CONV_H
#define GPU_OPS_INT8_CONV_H
/*
 * QLinearConv on tensor cores with the channels of its input and output last, so that windows are read in place. Takes
 * weights without zero points that are constant; int8.h has kernels for the others.
 */
#include "gpu/launch/job.h"

bool gpu_codes_conv_accepts(const struct site *s, struct why *w);
int gpu_codes_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_codes_conv_run(const struct call *c);

#endif
