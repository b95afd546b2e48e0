/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on sequences and optionals run on the host, because there are no kernels for them on the GPU. */
#include "backend/backend.h"

const struct kernel gpu_sequence[] = {{0}};
