/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CAST_H
#define OPS_CAST_H
#include "base/field.h"
#include "ir/dtype.h"

enum cast_round { CAST_UP, CAST_DOWN, CAST_NEAREST };

struct cast {
	int64_t to; /* first member, because upgrades of other operators set it through an int64_t pointer */
	int64_t saturate;
	int round_mode; /* enum cast_round; for float8e8m0 only */
	/*
	 * No attribute, set by --precision only: finite fp32 beyond the range of fp16 or bf16 becomes the largest number, not infinity.
	 */
	bool finite;
};
struct cast_like {
	int64_t saturate;
	int round_mode;
};

#endif
