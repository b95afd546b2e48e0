/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ACTIVATION_H
#define CPU_ACTIVATION_H
/*
 * Activations that attributes name (FusedConv, FusedGemm, recurrent layers), in place. alpha and
 * beta: NAN is the activation's default. Names are compared without regard to case.
 */
#include <stdbool.h>
#include <stdint.h>

/* NULL and "" are no activation, which is known too. */
bool activation_known(const char *name);
void activation_f32(const char *name, float alpha, float beta, float *y, int64_t n);
void activation_f64(const char *name, float alpha, float beta, double *y, int64_t n);

#endif
