/* SPDX-License-Identifier: Apache-2.0 */
/* Classical machine learning (ai.onnx.ml) has no kernels on the GPU: these operators run on the host. */
#include "backend/backend.h"

const struct kernel gpu_ml[] = {{0}};
