/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_BLOCK_GATHER_H
#define GPU_OPS_BLOCK_GATHER_H
/* com.microsoft::GatherBlockQuantized gathers slices of quantized data, in which blocks of elements share a scale. */
#include "gpu/launch/job.h"

bool gpu_block_gather_accepts(const struct site *s, struct why *w);
int gpu_block_gather_reshape(struct site *s, struct step *step, struct diag *d);

#endif
