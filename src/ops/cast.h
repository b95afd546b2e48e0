/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CAST_H
#define OPS_CAST_H
#include "base/field.h"

enum cast_round { CAST_UP, CAST_DOWN, CAST_NEAREST };

struct cast {
	int64_t to; /* first member, because upgrades of other operators set it through an int64_t pointer */
	int64_t saturate;
	int round_mode; /* enum cast_round; for float8e8m0 only */
};
struct cast_like {
	int64_t saturate;
	int round_mode;
};

#endif
