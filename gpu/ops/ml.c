/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of classical machine learning (ai.onnx.ml) run on the host, because there are no kernels for them on the
 * GPU.
 */
#include "backend/backend.h"

const struct kernel gpu_ml[] = {{0}};
