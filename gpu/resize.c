/* SPDX-License-Identifier: Apache-2.0 */
/* No kernels yet: these operators run on the host. */
#include "backend.h"
#include "gpu/sample.h"

const struct kernel gpu_resize[] = {GPU_RESIZE_ROWS,
				   {0}};
