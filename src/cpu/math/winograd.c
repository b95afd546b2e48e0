/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/winograd.h"

#include "cpu/math/level.h"

const struct winograd_kernels *winograd_kernels(int m)
{
	int i = m == 4;

#if defined(__x86_64__)
	int level = simd_level();

	return level == 4   ? &winograd_kernels_v4[i]
	       : level == 3 ? &winograd_kernels_v3[i]
			    : &winograd_kernels_v2[i];
#else
	return &winograd_kernels_v0[i];
#endif
}
