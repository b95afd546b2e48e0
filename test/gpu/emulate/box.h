/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATE_BOX_H
#define EMULATE_BOX_H
/*
 * What stands in for a CUtensorMap: the stand-in driver writes it, fetch_box() and fetch_window() read it. Sizes in elements, steps in bytes. Of
 * windows a row has `columns` channels, and `taken` is a number of pixels.
 */
#include <stdint.h>

enum { BOX_U8 = 0, BOX_F16 = 6, BOX_F32 = 7, BOX_BF16 = 9, SWIZZLE_64 = 2, SWIZZLE_128 = 3 }; /* as cuda.h numbers them */
struct box {
	void *at;
	uint64_t columns, rows, step;
	uint32_t taken; /* rows of a copy */
	uint16_t size, width; /* bytes of an element, and of a row of a copy */
	/* windows: columns, rows and images; their steps; where the first and the last window begin; steps between windows */
	uint32_t in[3];
	int16_t first[2], last[2], stride[2];
	uint64_t steps[3], rest[5];
};

#endif
