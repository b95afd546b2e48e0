/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_INPUT_BYTES_H
#define CHECK_INPUT_BYTES_H
/*
 * Judges by its bytes whether a file without a head (bare elements) has the element type that it was read as. Numbers
 * of another type, read as floats or integers, have magnitudes that no data have.
 */
#include "ir/tensor.h"

/*
 * Returns the type that the bytes of tensor t seem to be of, or DT_NONE if they look right as they are, or if neither
 * reading is clearly better.
 */
enum dtype bytes_look_like(const struct tensor *t);

#endif
