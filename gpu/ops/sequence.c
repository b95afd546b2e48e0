/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals have no kernels on the GPU: these operators run on the host. */
#include "backend/backend.h"

const struct kernel gpu_sequence[] = {{0}};
