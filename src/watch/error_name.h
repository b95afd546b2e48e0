/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_ERROR_NAME_H
#define WATCH_ERROR_NAME_H
/* CUDA's names of its errors. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the call, of the driver or of the runtime, returned; NULL: not known. */
const char *error_name(const char *call, int64_t number);

#endif
