/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_ACTIVATION_H
#define CPU_MATH_ACTIVATION_H
/*
 * Activations that attributes name (FusedConv, FusedGemm, recurrent layers), in place. alpha and
 * beta: NAN is the activation's default. Names are compared without regard to case.
 */
#include <stdbool.h>
#include <stdint.h>

struct activation {
	int kind; /* -1: none */
	float alpha, beta;
};

/* How many of alpha and beta the function has: 0 to 2; -1 where it is not known. */
int activation_params(const char *name);
/* NULL and "" are no activation, which is known too. */
bool activation_known(const char *name);
/* The name must be known. */
struct activation activation_of(const char *name, float alpha, float beta);
void activation_run_f32(const struct activation *a, float *y, int64_t n);
void activation_run_f64(const struct activation *a, double *y, int64_t n);

#endif
