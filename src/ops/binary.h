/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_BINARY_H
#define OPS_BINARY_H
#include "base/field.h"

/* the .variant of Max, Min and Sum is MANY_PLAIN, that of Mean is MANY_MEAN */
enum { MANY_PLAIN, MANY_MEAN };

struct mod {
	/* 0 if the result has the sign of the divisor, 1 if it has the sign of the dividend */
	int64_t fmod;
};
struct bit_shift {
	int direction; /* 0 LEFT, 1 RIGHT */
};

#endif
