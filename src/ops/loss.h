/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_LOSS_H
#define OPS_LOSS_H
#include "base/field.h"

enum reduction_kind { LOSS_NONE, LOSS_SUM, LOSS_MEAN };

struct loss {
	int reduction;	      /* enum reduction_kind */
	int64_t ignore_index; /* INT_ABSENT if there is none */
};

#endif
