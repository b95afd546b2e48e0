/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATE_BOX_H
#define EMULATE_BOX_H
/* What stands in for a CUtensorMap: the stand-in driver writes it, fetch_box() reads it. Sizes in elements, `step` in bytes. */
#include <stdint.h>

enum { BOX_F16 = 6, BOX_F32 = 7, BOX_BF16 = 9, SWIZZLE_128 = 3 }; /* as cuda.h numbers them */
struct box {
	void *at;
	uint64_t columns, rows, step;
	uint32_t taken, size; /* rows of a copy, bytes of an element */
	uint64_t rest[11];
};

#endif
