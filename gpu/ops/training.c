/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizer steps (Adagrad, Adam, Momentum) run on the host, because models that are deployed for inference do not
 * contain them.
 */
#include "backend/backend.h"

const struct kernel gpu_training[] = {{0}};
