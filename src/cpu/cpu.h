/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_CPU_H
#define CPU_CPU_H
/* The CPU backend: kernels of every family, oneDNN behind the heavy ones. */
#include "backend/backend.h"

extern const struct backend cpu_backend;

/* Of Reorder steps: any layout to any other. */
extern const struct kernel cpu_reorder;

/* Transpose between NCHW and NHWC where a layout says the same: a view. */
bool transpose_view_accepts(const struct site *s, struct why *w);
int transpose_view_reshape(struct site *s, struct step *step, struct diag *d);
int transpose_view_run(const struct call *c);

#endif
