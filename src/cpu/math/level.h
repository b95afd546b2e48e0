/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_LEVEL_H
#define CPU_MATH_LEVEL_H

/*
 * Returns the level of x86-64 for which the loops of X.simd.c are chosen: 2 (SSE4.2), 3 (AVX2, FMA) or 4 (AVX-512), and 0
 * on other machines. The environment variable ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA), which limits oneDNN's
 * instructions, limits these as well, so that one variable shows how a program runs on a smaller machine.
 */
int simd_level(void);

#endif
