/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

const struct kernel gpu_experts[] = {{0}};
