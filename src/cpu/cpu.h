/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_CPU_H
#define CPU_CPU_H
/*
 * The CPU backend. It has kernels for every operator family; convolution, matrix product and pooling call oneDNN if
 * the library is available.
 */
#include "backend/backend.h"

extern const struct backend cpu_backend;

/* Kernel of the Reorder steps, which convert a tensor from any memory layout to any other. */
extern const struct kernel cpu_reorder;

/*
 * Transpose between NCHW and NHWC as a view: if the input is stored in the order that the output needs, only the shape
 * and the layout change and no element moves.
 */
bool transpose_view_accepts(const struct site *s, struct why *w);
int transpose_view_reshape(struct site *s, struct step *step, struct diag *d);
int transpose_view_run(const struct call *c);

#endif
