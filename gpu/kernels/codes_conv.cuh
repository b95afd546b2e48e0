// SPDX-License-Identifier: Apache-2.0
// What kernels of convolutions of 8-bit codes (int8_conv.cu, int8_boxes.cu) share: the order of output channels, and the way from sums to codes.
#pragma once
#include "codes_tile.cuh"
#include "common.cuh"
#include "int8_conv.h"

__device__ inline int code_of(const void *p, bool is_signed)
{
	return !p ? 0 : is_signed ? (int)*(const i8 *)p : (int)*(const u8 *)p;
}

// Of sixteen channels, a thread gets two columns of the sums in
// each of two eights: the rows of weights are dealt so that these are four channels side by side.
__device__ inline int row_of_channel(int n)
{
	return (n & ~15) | (n & 2) << 2 | (n & 12) >> 1 | (n & 1);
}

// What turns the sums of output channels into codes; `add` is in a sum from the start. by, r_by: of sums with a residual. The zero points
// are those of the codes of y, of the residual, and of sums with a residual.
template <int BN> struct __align__(16) Channels
{
	float scale[BN];
	int add[BN];
	float by, r_by;
	int y_zero, r_zero, sum_zero;
	// unit: what scales are multiplied by, those of the last rounding
	__device__ void set(const gpu_codes_conv &p, int n0, int x_zero, int threads, float unit)
	{
		for (int i = threadIdx.x; i < BN; i += threads) {
			const int n = n0 + i;
			const bool there = n < p.n;
			const float y_scale = *p.y_scale,
				    s = there ? p.w_scale[p.w_scales ? n : 0] * *p.x_scale / y_scale
					      : 0;
			scale[i] = p.adds ? s : s * unit;
			add[i] = there ? (int)((p.bias ? (u32)p.bias[n] : 0) -
					       (u32)x_zero * (u32)p.sum[n])
				       : 0;
			if (i < 2 && p.adds)
				(i ? r_by : by) = (i ? *p.r_scale : y_scale) / *p.sum_scale * unit;
			if (i == 2)
				y_zero = code_of(p.y_zero, p.y_signed != 0);
			if (i == 3)
				r_zero = code_of(p.r_zero, p.y_signed != 0);
			if (i == 4)
				sum_zero = code_of(p.sum_zero, p.y_signed != 0);
		}
	}
};

// Added to a float of at most 2^22, this leaves it rounded to a whole number in the lowest bits: conversions by the
// instructions for them take eight times as long.
const float WHOLE = 12582912.0f;
// The bits of 2^23, to which a number below 2^23 may be added as bits.
const u32 BITS_OF_2_23 = 0x4b000000u;

// Rounds scaled sums to codes around a zero point. The bounds are whole numbers, so that rounding may follow them; a NaN
// becomes the least code. If FROM_0 is true, codes begin with 0, their zero point: their sums are scaled by FRACTION, which
// loses nothing, and the instruction that scales them bounds them by 0 and 1 at no cost. The product with UNIT, the least float,
// then rounds them to floats whose bits are whole numbers, which the instruction that packs codes bounds by 255.
const float FRACTION = 0x1p-8f, UNIT = 0x1p-149f;
template <bool FROM_0> struct Codes {
	float zero, low, high;
	__device__ Codes(int z, bool is_signed)
	{
		zero = (float)z;
		low = (is_signed ? -128.0f : 0.0f) - zero;
		high = (is_signed ? 127.0f : 255.0f) - zero;
	}
	// WHOLE plus the code without its zero point
	__device__ float rounded(float v) const
	{
		return __fadd_rn(fminf(fmaxf(v, low), high), WHOLE);
	}
	// The code is in the lowest byte, of FROM_0 with what is beyond 255; v is what to round, of FROM_0 in [0, 1]. The last sum
	// is exact, and other units than those of integers have time for it.
	__device__ u32 code(float v) const
	{
		return __float_as_uint(FROM_0 ? __fmul_rn(v, UNIT / FRACTION) : __fadd_rn(rounded(v), zero));
	}
	static __device__ u32 packed(u32 x, u32 y, u32 z, u32 w)
	{
		if (FROM_0)
			return pack_u8(y, x, pack_u8(w, z, 0));
		return __byte_perm(__byte_perm(x, y, 0x0040), __byte_perm(z, w, 0x0040), 0x5410);
	}
};
template <bool FROM_0> __device__ inline float scaled(float a, float b)
{
	return FROM_0 ? __saturatef(__fmul_rn(a, b)) : __fmul_rn(a, b);
}

// Turns sums into codes and, if ADDS, adds the codes of the residual as QLinearAdd does. FROM_0 tells of the last codes.
template <bool ADDS, bool FROM_0> struct Result {
	Codes<false> codes;
	Codes<FROM_0> last;
	float by, r_by, r_zero;
	u32 flip; // what makes four codes with a sign numbers from 0 to 255
	template <typename C>
	__device__ Result(const gpu_codes_conv &p, const C &c)
	    : codes(c.y_zero, p.y_signed != 0), last(ADDS ? c.sum_zero : c.y_zero, p.y_signed != 0)
	{
		by = ADDS ? c.by : 0;
		r_by = ADDS ? c.r_by : 0;
		flip = p.y_signed ? 0x80808080 : 0;
		r_zero = 8388608.0f + (float)(ADDS ? c.r_zero + (p.y_signed ? 0x80 : 0) : 0);
	}
	// r: the bits of 2^23 plus the residual's code, if that is one without a sign
	__device__ u32 code(int sum, float scale, u32 r) const
	{
		if (!ADDS)
			return last.code(scaled<FROM_0>((float)sum, scale));
		const float v = codes.rounded(__fmul_rn((float)sum, scale));
		const float a = __fmul_rn(__fsub_rn(v, WHOLE), by),
			    b = __fmul_rn(__fsub_rn(__uint_as_float(r), r_zero), r_by);
		return last.code(FROM_0 ? __saturatef(__fadd_rn(a, b)) : __fadd_rn(a, b));
	}
	// Of four neighbours, two of them in each of two eights; r: the codes of the residual.
	__device__ u32 operator()(const int *sum, const int *next, const float4 &scale, u32 r) const
	{
		if (!FROM_0)
			r ^= flip;
		return last.packed(code(sum[0], scale.x, __byte_perm(r, BITS_OF_2_23, 0x7650)),
				   code(sum[1], scale.y, __byte_perm(r, BITS_OF_2_23, 0x7651)),
				   code(next[0], scale.z, __byte_perm(r, BITS_OF_2_23, 0x7652)),
				   code(next[1], scale.w, __byte_perm(r, BITS_OF_2_23, 0x7653)));
	}
};

// Sums begin with what is added to them; `add` is that of this thread's first channel.
template <int MT, int NT> __device__ inline void start_sums(int (&sum)[MT][NT][4], const int *add)
{
#pragma unroll
	for (int j = 0; j < NT; j += 2) {
		const int4 four = *(const int4 *)(add + j * 8);
#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int e = 0; e < 4; e += 2) {
				sum[i][j][e] = four.x, sum[i][j][e + 1] = four.y;
				sum[i][j + 1][e] = four.z, sum[i][j + 1][e + 1] = four.w;
			}
	}
}
