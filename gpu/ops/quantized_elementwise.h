/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_QUANTIZED_ELEMENTWISE_H
#define GPU_OPS_QUANTIZED_ELEMENTWISE_H
/*
 * com.microsoft::QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu and infer::CodeTable. Their inputs
 * and output are 8-bit quantized tensors.
 */
#include "gpu/launch/job.h"

bool gpu_code_pairs_accepts(const struct site *s, struct why *w);
int gpu_code_pairs_reshape(struct site *s, struct step *step, struct diag *d);
bool gpu_codes_accepts(const struct site *s, struct why *w);
int gpu_codes_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_code_table_reshape(struct site *s, struct step *step, struct diag *d);

#endif
