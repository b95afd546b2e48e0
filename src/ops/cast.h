/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CAST_H
#define OPS_CAST_H
#include "base/field.h"

enum cast_round { CAST_UP, CAST_DOWN, CAST_NEAREST };

struct cast {
	int64_t to; /* stays first: upgrades of others set it */
	int64_t saturate;
	int round_mode; /* enum cast_round, of float8e8m0 only */
};
struct cast_like {
	int64_t saturate;
	int round_mode;
};

#endif
