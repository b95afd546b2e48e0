/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/simd.h"

#include "cpu/math/level.h"

#if defined(__x86_64__)
extern const struct simd simd_table_v2, simd_table_v3, simd_table_v4;

const struct simd *simd(void)
{
	int level = simd_level();

	return level == 4 ? &simd_table_v4 : level == 3 ? &simd_table_v3 : &simd_table_v2;
}
#else
extern const struct simd simd_table_v0;

const struct simd *simd(void)
{
	return &simd_table_v0;
}
#endif

void simd_to_f32(enum dtype t, const void *src, int64_t first, int64_t n, float *dst)
{
	if (t == DT_F16)
		simd()->f16_to_f32((const uint16_t *)src + first, dst, n);
	else if (t == DT_BF16)
		simd()->bf16_to_f32((const uint16_t *)src + first, dst, n);
	else
		to_f32(t, src, first, n, dst);
}

void simd_from_f32(enum dtype t, const float *src, int64_t n, void *dst, int64_t first)
{
	if (t == DT_F16)
		simd()->f32_to_f16(src, (uint16_t *)dst + first, n);
	else if (t == DT_BF16)
		simd()->f32_to_bf16(src, (uint16_t *)dst + first, n);
	else
		from_f32(t, src, n, dst, first);
}
