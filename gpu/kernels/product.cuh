// SPDX-License-Identifier: Apache-2.0
// What all kernels of products do with a finished sum.
#pragma once
#include "common.cuh"
#include "ptx.cuh"

// Returns act(alpha * v + beta * C + R), element `at` of the result; c is the element of C.
template <typename T, typename C> __device__ inline T product_of(const gpu_gemm &p, int64_t at, int64_t c, C v)
{
	v *= (C)p.alpha;
	if (p.c && p.beta != 0)
		v += (C)p.beta * up(((const T *)p.c)[c]);
	if (p.r)
		v += up(((const T *)p.r)[at]);
	if (p.act)
		v = activate(p.act, (C)p.act_alpha, (C)p.act_beta, v);
	return down<T>(v);
}

template <typename T, typename C> __device__ inline void put_product(const gpu_gemm &p, int64_t at, int64_t c, C v)
{
	((T *)p.y)[at] = product_of<T>(p, at, c, v);
}

// Reads the first of B, which nobody writes if it is a weight: that may be done while the kernel before this one still runs. Waits for
// that kernel.
template <typename READ> __device__ inline void read_ahead(const gpu_gemm &p, const READ &read)
{
	if (!p.b_is_weight)
		wait_for_previous();
	read();
	if (p.b_is_weight)
		wait_for_previous();
}
template <typename READ> __device__ inline void begin_product(const gpu_gemm &p, const READ &read)
{
	let_next_begin();
	read_ahead(p, read);
}
