/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_PAGED_ATTENTION_H
#define GPU_OPS_PAGED_ATTENTION_H
/* PagedAttention and the mask of SparseAttention, for the table in attention.c. */
#include "gpu/driver/cuda.h"

bool gpu_paged_accepts(const struct site *s, struct why *w);
int gpu_paged_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_paged_run(const struct call *c);

int gpu_sparse_mask_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_sparse_mask_run(const struct call *c);

#endif
