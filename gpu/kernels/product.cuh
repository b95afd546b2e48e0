// SPDX-License-Identifier: Apache-2.0
// What all kernels of products do with a finished sum.
#pragma once
#include "common.cuh"

// Stores act(alpha * v + beta * C + R) as element `at` of the result; c is the element of C.
template <typename T, typename C>
__device__ inline void put_product(const gpu_gemm &p, int64_t at, int64_t c, C v)
{
	v *= (C)p.alpha;
	if (p.c && p.beta != 0)
		v += (C)p.beta * up(((const T *)p.c)[c]);
	if (p.r)
		v += up(((const T *)p.r)[at]);
	if (p.act)
		v = activate(p.act, (C)p.act_alpha, (C)p.act_beta, v);
	((T *)p.y)[at] = down<T>(v);
}
