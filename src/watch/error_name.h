/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_ERROR_NAME_H
#define WATCH_ERROR_NAME_H
/* CUDA's names of its errors. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns the name of the error that `call` returned: the runtime's name if call begins with "cuda", otherwise the
 * driver's name. Returns NULL if the number is unknown.
 */
const char *error_name(const char *call, int64_t number);

#endif
