// SPDX-License-Identifier: Apache-2.0
// Quantized operators whose inputs and output are 8-bit codes. A thread computes 4 or 16 codes, which make one access of
// memory.
#include "codes.h"
#include "quant.cuh"

__device__ inline int code_at(int t, const void *p, int64_t i)
{
	return !p ? 0 : t == T_I8 ? ((const i8 *)p)[i] : ((const u8 *)p)[i];
}
// Clamps v, to which the zero point has been added, to the range of the codes. A NaN becomes the least code.
__device__ inline u32 code_near(float v, float low, float high)
{
	v = v >= low ? v : low;
	return (u32)(int)(v <= high ? v : high) & 0xff;
}
__device__ inline float number(const gpu_io &o, int k) { return *(const float *)o.in[k]; }

// ---- a table of the result of each code --------------------------------------------------------

// Makes the table of QLinearSigmoid or QLinearLeakyRelu.
__device__ inline void make_table(const gpu_codes &p, u8 *table)
{
	const int t = p.io.it[0];
	const float from = number(p.io, 1), to = number(p.io, 3);
	const int zero = code_at(t, p.io.in[2], 0), y_zero = code_at(t, p.io.in[4], 0);
	float low, high;
	range_of(t, &low, &high);
	for (int k = threadIdx.x; k < 256; k += blockDim.x) {
		const float x = __fmul_rn((float)((t == T_I8 ? (int)(i8)k : k) - zero), from);
		const float v = p.how == GPU_CODES_SIGMOID ? 1 / (1 + expf(-x)) : x < 0 ? p.alpha * x : x;
		table[k] = (u8)code_near(rintf(v / to) + (float)y_zero, low, high);
	}
}

extern "C" __global__ void codes_table(const gpu_codes p)
{
	__shared__ u8 table[256];
	if (p.how != GPU_CODES_GIVEN)
		make_table(p, table);
	else
		for (int k = threadIdx.x; k < 256; k += blockDim.x)
			table[k] = ((const u8 *)p.io.in[1])[k];
	__syncthreads();
	const u8 *x = (const u8 *)p.io.in[0];
	u8 *y = (u8 *)p.io.out[0];
	const bool words = (((uintptr_t)x | (uintptr_t)y) & 3) == 0;
	EACH(i, (p.n + 3) / 4)
	{
		if (words && 4 * i + 4 <= p.n) {
			const u32 v = ((const u32 *)x)[i];
			((u32 *)y)[i] = (u32)table[v & 0xff] | (u32)table[v >> 8 & 0xff] << 8 |
					(u32)table[v >> 16 & 0xff] << 16 | (u32)table[v >> 24] << 24;
		} else {
			for (int64_t e = 4 * i; e < 4 * i + 4 && e < p.n; e++)
				y[e] = table[x[e]];
		}
	}
}

// ---- QLinearAdd, QLinearMul --------------------------------------------------------------------

struct Pair {
	float a_scale, b_scale, zero, low, high;
	int type, a_zero, b_zero;
	bool multiply;

	__device__ Pair(const gpu_code_pairs &p)
	{
		const float a = number(p.io, 1), b = number(p.io, 4), y = number(p.io, 6);
		type = p.io.it[0];
		multiply = p.multiply;
		a_scale = multiply ? __fmul_rn(a, b) / y : a / y;
		b_scale = b / y;
		a_zero = code_at(type, p.io.in[2], 0);
		b_zero = code_at(type, p.io.in[5], 0);
		zero = (float)code_at(type, p.io.in[7], 0);
		range_of(type, &low, &high);
	}
	__device__ u32 operator()(u32 a, u32 b) const
	{
		const int va = (type == T_I8 ? (int)(i8)a : (int)a) - a_zero, vb = (type == T_I8 ? (int)(i8)b : (int)b) - b_zero;
		const float v = multiply ? __fmul_rn((float)(va * vb), a_scale)
					 : __fadd_rn(__fmul_rn((float)va, a_scale), __fmul_rn((float)vb, b_scale));
		return code_near(rintf(v) + zero, low, high);
	}
};

extern "C" __global__ void codes_pairs(const gpu_code_pairs p)
{
	const Pair pair(p);
	const u8 *a = (const u8 *)p.io.in[0], *b = (const u8 *)p.io.in[3];
	u8 *y = (u8 *)p.io.out[0];
	const bool wide = p.flat && (((uintptr_t)a | (uintptr_t)b | (uintptr_t)y) & 15) == 0;
	EACH(i, (p.n + 15) / 16)
	{
		if (wide && 16 * i + 16 <= p.n) {
			union {
				uint4 all;
				u8 code[16];
			} va, vb, v;
			va.all = ((const uint4 *)a)[i];
			vb.all = ((const uint4 *)b)[i];
#pragma unroll
			for (int e = 0; e < 16; e++)
				v.code[e] = (u8)pair(va.code[e], vb.code[e]);
			((uint4 *)y)[i] = v.all;
			continue;
		}
		for (int64_t e = 16 * i; e < 16 * i + 16 && e < p.n; e++) {
			int64_t at[2] = {e, e};
			if (!p.flat)
				walk<2>(p.d, p.step, e, at);
			y[e] = (u8)pair(a[at[0]], b[at[1]]);
		}
	}
}
