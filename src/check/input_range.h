/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_INPUT_RANGE_H
#define CHECK_INPUT_RANGE_H
#include "base/diag.h"
#include "input/input.h"
#include "onnx/load.h"

/*
 * Warns (W-INPUT-RANGE) of pictures with values up to 255 for a model that was trained on scaled ones. The model's file is
 * read again for it, because a BatchNormalization, which tells the scale of the training, is folded when the model is
 * optimized; so this is only done if there is such a picture.
 */
void warn_of_raw_pictures(const char *path, const struct load_options *load,
			  const struct input_set *inputs, struct diag *d);

#endif
