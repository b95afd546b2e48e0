/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SOFTMAX_H
#define OPS_SOFTMAX_H
#include "base/field.h"

enum { SOFTMAX_PLAIN, SOFTMAX_LOG, SOFTMAX_HARD }; /* .variant of the rows */
struct softmax {				   /* Softmax, LogSoftmax, Hardmax */
	int64_t axis;
};

#endif
