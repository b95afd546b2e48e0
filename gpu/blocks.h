/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_BLOCKS_H
#define GPU_BLOCKS_H
/* com.microsoft::GatherBlockQuantized: slices of data in blocks that share a scale. */
#include "gpu/job.h"

bool gpu_block_gather_accepts(const struct site *s, struct why *w);
int gpu_block_gather_reshape(struct site *s, struct step *step, struct diag *d);

#endif
