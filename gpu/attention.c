/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/sample.h"

const struct kernel gpu_attention[] = {{0}};
