/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_POINTWISE_H
#define GPU_OPS_POINTWISE_H
/*
 * infer::Pointwise computes groups of elementwise operations. The kernels of all groups of a graph form one generated
 * program. NVRTC compiles it when the first group is planned, and the result is cached on disk. Without NVRTC, a kernel
 * interprets the operations.
 */
#include "gpu/launch/util.h"

#define T_GROUPED (T_F32 | T_F16 | T_BF16) /* element types of groups */

bool gpu_pointwise_compiled_accepts(const struct site *s, struct why *w);
int gpu_pointwise_compiled_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_pointwise_compiled_run(const struct call *c);

bool gpu_pointwise_accepts(const struct site *s, struct why *w);
int gpu_pointwise_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_pointwise_run(const struct call *c);

/*
 * Returns the source of the program for all groups of a graph, in the arena, or NULL if the graph has no groups.
 * names[k] becomes the name of node k's kernels, or NULL if it has none.
 */
const char *gpu_pointwise_source(const struct graph *g, struct arena *a, const char **names);

#endif
