/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_POINTWISE_H
#define GPU_OPS_POINTWISE_H
/*
 * infer::Pointwise: groups of elementwise operations. The kernels of all groups of a graph are one generated program, which
 * NVRTC compiles when the first of them is planned; the result is cached on disk. Without NVRTC a kernel interprets them.
 */
#include "gpu/launch/util.h"

#define T_GROUPED (T_F32 | T_F16 | T_BF16) /* element types of groups */

bool gpu_pointwise_compiled_accepts(const struct site *s, struct why *w);
int gpu_pointwise_compiled_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_pointwise_compiled_run(const struct call *c);

bool gpu_pointwise_accepts(const struct site *s, struct why *w);
int gpu_pointwise_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_pointwise_run(const struct call *c);

/* Source of the program of a graph's groups, in the arena; NULL: it has none. names[k]: kernels of node k, NULL: none. */
const char *gpu_pointwise_source(const struct graph *g, struct arena *a, const char **names);

#endif
