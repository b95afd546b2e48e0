// SPDX-License-Identifier: Apache-2.0
// Turns the sums of quantized products into outputs by applying scales, zero points and types.
#pragma once
#include "any.cuh"

__device__ inline void range_of(int t, float *low, float *high)
{
	int bits = bits_of(t);
	*low = is_signed(t) ? -ldexpf(1, bits - 1) : 0;
	*high = ldexpf(1, is_signed(t) ? bits - 1 : bits) - 1;
}

// Returns the element of input `slot` that belongs to row or column i (of n) in batch b. An input has one element, n
// elements, or n elements for each batch. number_of() returns `none` if the node does not have the input.
template <typename P> __device__ inline int64_t place_of(const P &p, int slot, int64_t i, int64_t n, int64_t b)
{
	return p.count[slot] == 1 ? 0 : p.count[slot] == n ? i : b * n + i;
}
template <typename P> __device__ inline float number_of(const P &p, int slot, int64_t i, int64_t n, int64_t b, float none)
{
	return slot < 0 || !p.io.in[slot] ? none : (float)in_real(p.io, slot, place_of(p, slot, i, n, b));
}

// Scales the sum and stores it with the type of output 0.
template <typename S>
__device__ inline void finish(const gpu_io &io, int64_t at, S sum, float scale, float bias, float zero)
{
	const int t = io.ot[0];
	if (t == T_I32) {
		((i32 *)io.out[0])[at] = (i32)sum;
		return;
	}
	float v = __fmul_rn((float)sum, scale), low, high;
	if (t == T_F32) {
		((f32 *)io.out[0])[at] = __fadd_rn(v, bias);
	} else if (t == T_F16) {
		out_put(io, 0, at, (double)(v + bias));
	} else if (is_float(t)) {
		((u8 *)io.out[0])[at] = f8_put(t, v + zero, true);
	} else {
		range_of(t, &low, &high);
		v = rintf(v) + zero;
		v = v >= low ? v : low;
		any_put_int(t, io.out[0], at, (int64_t)(v <= high ? v : high));
	}
}
