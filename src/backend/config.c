/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/config.h"

const char *const precision_names[PRECISION_AUTO + 1] = {
	[PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_FP16] = "fp16",
	[PRECISION_BF16] = "bf16", [PRECISION_FP8] = "fp8",   [PRECISION_AUTO] = "auto"};
