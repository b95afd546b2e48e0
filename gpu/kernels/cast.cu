// SPDX-License-Identifier: Apache-2.0
// Casts from every type to every type.
#include "any.cuh"

// Rounds a double to fp32 with "round to odd". Rounding the result again to a shorter type then gives the same number
// as a single rounding of the double.
__device__ inline float to_odd(double v)
{
	float f = (float)v;
	if ((double)f == v || isnan(v) || isinf(f))
		return f;
	u32 u = __float_as_uint(f);
	if (fabs((double)f) > fabs(v))
		u--;
	return __uint_as_float(u | 1);
}

__device__ inline unsigned narrow_code(const gpu_any_cast &p, int to, float f)
{
	if (to == T_F4E2M1)
		return f4_put(f);
	if (is_f6(to))
		return f6_put(to, f);
	return to == T_F8E8M0 ? e8m0_put(f, p.saturate, p.mode) : f8_put(to, f, p.saturate);
}

__device__ inline void cast_one(const gpu_any_cast &p, int64_t i, unsigned *packed, int shift)
{
	const int from = p.io.it[0], to = p.io.ot[0];
	const void *x = p.io.in[0];
	void *y = p.io.out[0];
	const bool real = is_float(from);
	double v = real ? any_real(from, x, i) : 0;
	int64_t n = real ? 0 : any_int(from, x, i);
	if (to == T_F64) {
		((f64 *)y)[i] = real ? v : from == T_U64 ? (f64)(u64)n : (f64)n;
	} else if (is_float(to)) {
		float f = !real ? (from == T_U64 ? (float)(u64)n : (float)n)
			  : from == T_F64 && is_narrow(to) ? to_odd(v) : (float)v;
		if (to == T_F32)
			((f32 *)y)[i] = f;
		else if (to == T_F16)
			((f16 *)y)[i] = down<f16>(f);
		else if (to == T_BF16)
			((bf16 *)y)[i] = down<bf16>(f);
		else if (bits_of(to) < 8)
			*packed |= narrow_code(p, to, f) << shift;
		else
			((u8 *)y)[i] = (u8)narrow_code(p, to, f);
	} else if (to == T_BOOL) {
		((u8 *)y)[i] = real ? v != 0 : n != 0;
	} else {
		if (real)
			n = to_integer(to, v);
		if (bits_of(to) < 8)
			*packed |= ((unsigned)n & ((1u << bits_of(to)) - 1)) << shift;
		else
			any_put_int(to, y, i, n);
	}
}

// A thread writes whole bytes, because several elements may share a byte.
extern "C" __global__ void cast_any(const gpu_any_cast p)
{
	const int bits = bits_of(p.io.ot[0]), per = packed_elements(bits);
	EACH(b, (p.n + per - 1) / per)
	{
		unsigned packed = 0;
		for (int k = 0; k < per && b * per + k < p.n; k++)
			cast_one(p, b * per + k, &packed, k * bits);
		if (per > 1)
			put_group(p.io.out[0], b, bits, p.n, packed);
	}
}
