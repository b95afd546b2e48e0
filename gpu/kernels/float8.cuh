// SPDX-License-Identifier: Apache-2.0
// Conversions between float and float8e4m3fn. Numbers beyond 448 become 448.
#pragma once
#include <cuda_fp8.h>

#include "common.cuh"

// Writes V numbers, which are multiplied by `by` before they are rounded, at once.
template <int V> __device__ inline void store_float8(u8 *q, const float *from, float by)
{
	if constexpr (V == 1) {
		q[0] = __nv_cvt_float_to_fp8(from[0] * by, __NV_SATFINITE, __NV_E4M3);
	} else {
		u16 pair[V / 2];
		for (int i = 0; i < V; i += 2)
			pair[i / 2] = __nv_cvt_float2_to_fp8x2(make_float2(from[i] * by, from[i + 1] * by), __NV_SATFINITE,
							       __NV_E4M3);
		if constexpr (V == 8)
			*(uint2 *)q = make_uint2((u32)pair[0] | (u32)pair[1] << 16, (u32)pair[2] | (u32)pair[3] << 16);
		else if constexpr (V == 4)
			*(u32 *)q = (u32)pair[0] | (u32)pair[1] << 16;
		else
			*(u16 *)q = pair[0];
	}
}

__device__ inline float float8_value(u8 q)
{
	__half_raw h = __nv_cvt_fp8_to_halfraw(q, __NV_E4M3);
	return __half2float(__half(h));
}
