/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_CONTRIB_ATTENTION_H
#define GPU_OPS_CONTRIB_ATTENTION_H
/*
 * Entries of com.microsoft's attention operators for the table of kernels in attention.c. Kernels of kernels/heads.cu
 * prepare the heads for the attention.
 */
#include "gpu/launch/util.h"

bool gpu_projected_accepts(const struct site *s, struct why *w);
int gpu_projected_reshape(struct site *s, struct step *step, struct diag *d);
bool gpu_multi_head_accepts(const struct site *s, struct why *w);
int gpu_multi_head_reshape(struct site *s, struct step *step, struct diag *d);
bool gpu_group_query_accepts(const struct site *s, struct why *w);
int gpu_group_query_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_heads_run(const struct call *c);

#endif
