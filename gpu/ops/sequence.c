/* SPDX-License-Identifier: Apache-2.0 */
/* No kernels yet: these operators run on the host. */
#include "backend/backend.h"

const struct kernel gpu_sequence[] = {{0}};
