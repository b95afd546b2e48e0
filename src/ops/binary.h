/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_BINARY_H
#define OPS_BINARY_H
#include "base/field.h"

enum { MANY_PLAIN, MANY_MEAN }; /* .variant of Max, Min and Sum, and of Mean */

struct mod {
	int64_t fmod; /* 0: the result has the sign of the divisor; 1: of the dividend */
};
struct bit_shift {
	int direction; /* 0 LEFT, 1 RIGHT */
};

#endif
