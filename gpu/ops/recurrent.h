/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_RECURRENT_H
#define GPU_OPS_RECURRENT_H
/* LinearAttention, its gate and GatedDeltaNet, for the table in attention.c. */
#include "gpu/driver/cuda.h"

bool gpu_linear_accepts(const struct site *s, struct why *w);
int gpu_linear_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_linear_run(const struct call *c);
int gpu_linear_gate_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_linear_gate_run(const struct call *c);
int gpu_delta_net_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_delta_net_run(const struct call *c);

#endif
