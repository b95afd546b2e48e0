/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_NBITS_H
#define GPU_OPS_NBITS_H
/* com.microsoft::MatMulNBits and MatMulBnb4, whose weights have 2, 4 or 8 bits, in blocks that share a scale. */
#include "gpu/launch/job.h"

bool gpu_nbits_accepts(const struct site *s, struct why *w);
int gpu_nbits_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_nbits_run(const struct call *c);
void gpu_nbits_drop(struct step *step);

#endif
