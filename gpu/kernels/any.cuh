// SPDX-License-Identifier: Apache-2.0
// Access to elements whose type the kernel looks up at run time, so that one kernel serves all types. Operators that
// rarely matter for the run time of a model use this file.
#pragma once
#include "common.cuh"
#include "jobs.h"

__device__ inline bool is_f6(int t) { return t == T_F6E2M3 || t == T_F6E3M2; }
__device__ inline bool is_float(int t)
{
	return t == T_F32 || t == T_F16 || t == T_F64 || (t >= T_BF16 && t <= T_F8E5M2FNUZ) || t == T_F4E2M1 || is_f6(t) || t == T_F8E8M0;
}
__device__ inline bool is_narrow(int t) { return is_float(t) && t != T_F32 && t != T_F64; }
__device__ inline bool is_signed(int t)
{
	return t == T_I8 || t == T_I16 || t == T_I32 || t == T_I64 || t == T_I4 || t == T_I2;
}
__device__ inline int bits_of(int t)
{
	switch (t) {
	case T_U4: case T_I4: case T_F4E2M1: return 4;
	case T_U2: case T_I2: return 2;
	case T_F6E2M3: case T_F6E3M2: return 6;
	case T_F16: case T_BF16: case T_U16: case T_I16: return 16;
	case T_F32: case T_I32: case T_U32: return 32;
	case T_F64: case T_I64: case T_U64: case T_C64: return 64;
	case T_C128: return 128;
	default: return 8;
	}
}

__device__ inline unsigned packed_get(const void *p, int64_t i, int bits)
{
	const u8 *b = (const u8 *)p + i * bits / 8;
	const int shift = (int)(i * bits % 8);
	unsigned v = b[0] >> shift;
	if (shift + bits > 8) // a code of six bits may lie in two bytes
		v |= (unsigned)b[1] << (8 - shift);
	return v & ((1u << bits) - 1);
}

// Packed elements of which a thread writes all, as several may share a byte: those of one byte, or with six bits of three.
__device__ inline int packed_elements(int bits) { return bits == 6 ? 4 : bits < 8 ? 8 / bits : 1; }

// Writes the bytes of group g of n elements.
__device__ inline void put_group(void *y, int64_t g, int bits, int64_t n, unsigned packed)
{
	const int64_t per = packed_elements(bits), left = n - g * per;
	const int bytes = (int)((left < per ? left : per) * bits + 7) / 8;
	u8 *to = (u8 *)y + g * (bits == 6 ? 3 : 1);
	for (int k = 0; k < bytes; k++)
		to[k] = (u8)(packed >> 8 * k);
}

// Returns eight codes of `bits` bits each; the first code begins at byte b.
__device__ inline u64 codes_at(const u8 *b, int bits)
{
	u64 v = 0;
	if (((uintptr_t)b & (bits - 1)) == 0)
		return bits == 4 ? *(const u32 *)b : bits == 8 ? *(const u64 *)b : *(const u16 *)b;
	for (int e = 0; e < bits; e++)
		v |= (u64)b[e] << 8 * e;
	return v;
}

// Return the number of mantissa bits and the exponent bias of the four signed 8-bit floating-point formats.
__device__ inline int f8_mantissa(int t) { return t == T_F8E4M3FN || t == T_F8E4M3FNUZ ? 3 : 2; }
__device__ inline int f8_bias(int t) { return t == T_F8E4M3FN ? 7 : t == T_F8E4M3FNUZ ? 8 : t == T_F8E5M2 ? 15 : 16; }
__device__ inline bool f8_fnuz(int t) { return t == T_F8E4M3FNUZ || t == T_F8E5M2FNUZ; }

static __device__ __noinline__ float f8_get(int t, u8 b)
{
	if (t == T_F8E8M0)
		return b == 0xff ? nanf("") : ldexpf(1.0f, (int)b - 127);
	int m = f8_mantissa(t), mag = b & 0x7f, e = mag >> m, man = mag & ((1 << m) - 1);
	if ((f8_fnuz(t) && b == 0x80) || (t == T_F8E4M3FN && mag == 0x7f))
		return nanf("");
	float v = t == T_F8E5M2 && e == 31 ? (man ? nanf("") : INFINITY)
		  : e			   ? ldexpf((float)(man | 1 << m), e - f8_bias(t) - m)
					   : ldexpf((float)man, 1 - f8_bias(t) - m);
	return b & 0x80 ? -v : v;
}

// Rounds |v| to a power of two, the only values that f8e8m0 can represent. mode is one of GPU_CAST_...
static __device__ __noinline__ u8 e8m0_put(float v, bool saturate, int mode)
{
	if (isnan(v))
		return 0xff;
	v = fabsf(v);
	if (isinf(v))
		return saturate ? 0xfe : 0xff;
	if (v < 1.17549435e-38f / 2)
		return saturate ? 0 : 0xff;
	int e;
	float m = frexpf(v, &e);
	e += 126;
	if (mode == GPU_CAST_UP ? m > 0.5f : mode == GPU_CAST_NEAREST && m >= 0.75f)
		e++;
	return e > 254 ? (saturate ? 0xfe : 0xff) : (u8)e;
}

static __device__ __noinline__ u8 f8_put(int t, float v, bool saturate)
{
	int m = f8_mantissa(t), bias = f8_bias(t), e;
	bool fnuz = f8_fnuz(t);
	u8 sign = signbit(v) ? 0x80 : 0, nan = fnuz ? 0x80 : (u8)(sign | 0x7f);
	u8 most = t == T_F8E4M3FN ? 0x7e : t == T_F8E5M2 ? 0x7b : 0x7f;
	u8 over = fnuz ? 0x80 : (u8)(sign | (t == T_F8E5M2 ? 0x7c : 0x7f));
	float a = fabsf(v);
	if (isnan(v))
		return nan;
	if (isinf(v))
		return saturate ? sign | most : over;
	if (a == 0)
		return fnuz ? 0 : sign;
	frexpf(a, &e);
	if (e - 1 < 1 - bias)
		e = 2 - bias; // subnormal numbers have the spacing of the smallest normal number
	int code = (e - 2 + bias) * (1 << m) + (int)rintf(ldexpf(a, m + 1 - e));
	if (code > most)
		return saturate ? sign | most : over;
	return !code && fnuz ? 0 : sign | (u8)code;
}

__device__ inline float f4_get(unsigned n)
{
	unsigned m = n & 7;
	float v = m < 4 ? 0.5f * (float)m : m == 4 ? 2.0f : m == 5 ? 3.0f : m == 6 ? 4.0f : 6.0f;
	return n & 8 ? -v : v;
}
__device__ inline unsigned f4_put(float v)
{
	float a = fabsf(v);
	if (isnan(v))
		return 8;
	unsigned c = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
	return (signbit(v) ? 8u : 0u) | c;
}

__device__ inline int f6_mantissa(int t) { return t == T_F6E2M3 ? 3 : 2; }
__device__ inline int f6_bias(int t) { return t == T_F6E2M3 ? 1 : 3; }
static __device__ __noinline__ float f6_get(int t, unsigned n)
{
	int m = f6_mantissa(t), mag = (int)(n & 31), e = mag >> m, man = mag & ((1 << m) - 1);
	float v = e ? ldexpf((float)(man | 1 << m), e - f6_bias(t) - m) : ldexpf((float)man, 1 - f6_bias(t) - m);
	return n & 32 ? -v : v;
}
static __device__ __noinline__ unsigned f6_put(int t, float v)
{
	int m = f6_mantissa(t), bias = f6_bias(t), e;
	unsigned sign = signbit(v) ? 32 : 0;
	float a = fabsf(v);
	if (isnan(v))
		return 32;
	if (a >= 32 || a == 0)
		return a == 0 ? sign : sign | 31;
	frexpf(a, &e);
	if (e - 1 < 1 - bias)
		e = 2 - bias;
	int code = (e - 2 + bias) * (1 << m) + (int)rintf(ldexpf(a, m + 1 - e));
	return sign | (unsigned)(code > 31 ? 31 : code);
}

static __device__ __noinline__ int64_t any_int(int t, const void *p, int64_t i);

static __device__ __noinline__ double any_real(int t, const void *p, int64_t i)
{
	switch (t) {
	case T_F32: return ((const f32 *)p)[i];
	case T_F64: return ((const f64 *)p)[i];
	case T_F16: return up(((const f16 *)p)[i]);
	case T_BF16: return up(((const bf16 *)p)[i]);
	case T_F8E4M3FN: case T_F8E4M3FNUZ: case T_F8E5M2: case T_F8E5M2FNUZ: case T_F8E8M0:
		return f8_get(t, ((const u8 *)p)[i]);
	case T_F4E2M1: return f4_get(packed_get(p, i, 4));
	case T_F6E2M3: case T_F6E3M2: return f6_get(t, packed_get(p, i, 6));
	case T_U64: return (double)((const u64 *)p)[i];
	default: return (double)any_int(t, p, i);
	}
}

// Converts a real number for integer type t as whole_number() of the CPU does: a type of up to 32 bits takes the low bits of
// an int32 (uint32 of an int64). NaN and what is out of range of that become its least number.
__device__ inline int64_t to_integer(int t, double v)
{
	if (t == T_U64 && v >= 9223372036854775808.0 && v < 18446744073709551616.0)
		return (int64_t)(u64)v;
	if (t == T_U64 || t == T_I64 || t == T_U32)
		return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
	return v > -2147483649.0 && v < 2147483648.0 ? (int64_t)v : (int64_t)INT32_MIN;
}

static __device__ __noinline__ int64_t any_int(int t, const void *p, int64_t i)
{
	switch (t) {
	case T_U8: return ((const u8 *)p)[i];
	case T_BOOL: return ((const u8 *)p)[i] != 0;
	case T_I8: return ((const i8 *)p)[i];
	case T_U16: return ((const u16 *)p)[i];
	case T_I16: return ((const i16 *)p)[i];
	case T_U32: return ((const u32 *)p)[i];
	case T_I32: return ((const i32 *)p)[i];
	case T_U64: case T_I64: return ((const i64 *)p)[i];
	case T_U4: return packed_get(p, i, 4);
	case T_I4: return (int64_t)(packed_get(p, i, 4) ^ 8) - 8;
	case T_U2: return packed_get(p, i, 2);
	case T_I2: return (int64_t)(packed_get(p, i, 2) ^ 2) - 2;
	case T_F32: return to_integer(T_I64, ((const f32 *)p)[i]);
	case T_F64: return to_integer(T_I64, ((const f64 *)p)[i]);
	case T_F16: return to_integer(T_I64, up(((const f16 *)p)[i]));
	case T_BF16: return to_integer(T_I64, up(((const bf16 *)p)[i]));
	default: return 0;
	}
}

// Stores integer v as type t. Elements of type t must be whole bytes.
static __device__ __noinline__ void any_put_int(int t, void *p, int64_t i, int64_t v)
{
	switch (t) {
	case T_U8: case T_I8: ((u8 *)p)[i] = (u8)v; break;
	case T_BOOL: ((u8 *)p)[i] = v != 0; break;
	case T_U16: case T_I16: ((u16 *)p)[i] = (u16)v; break;
	case T_U32: case T_I32: ((u32 *)p)[i] = (u32)v; break;
	case T_U64: case T_I64: ((i64 *)p)[i] = v; break;
	case T_F32: ((f32 *)p)[i] = (f32)v; break;
	case T_F64: ((f64 *)p)[i] = (f64)v; break;
	case T_F16: ((f16 *)p)[i] = down<f16>((float)v); break;
	case T_BF16: ((bf16 *)p)[i] = down<bf16>((float)v); break;
	}
}

static __device__ __noinline__ void any_put(int t, void *p, int64_t i, double v)
{
	switch (t) {
	case T_F32: ((f32 *)p)[i] = (f32)v; break;
	case T_F64: ((f64 *)p)[i] = v; break;
	case T_F16: ((f16 *)p)[i] = down<f16>((float)v); break;
	case T_BF16: ((bf16 *)p)[i] = down<bf16>((float)v); break;
	case T_F8E4M3FN: case T_F8E4M3FNUZ: case T_F8E5M2: case T_F8E5M2FNUZ:
		((u8 *)p)[i] = f8_put(t, (float)v, true);
		break;
	case T_F8E8M0: ((u8 *)p)[i] = e8m0_put((float)v, true, 0); break;
	case T_BOOL: ((u8 *)p)[i] = v != 0; break;
	default: any_put_int(t, p, i, to_integer(t, v)); break;
	}
}

// Copies element `from` of x to element `to` of y; elements of both have `size` bytes.
__device__ inline void any_copy(int size, void *y, int64_t to, const void *x, int64_t from)
{
	switch (size) {
	case 1: ((u8 *)y)[to] = ((const u8 *)x)[from]; break;
	case 2: ((u16 *)y)[to] = ((const u16 *)x)[from]; break;
	case 4: ((u32 *)y)[to] = ((const u32 *)x)[from]; break;
	case 8: ((u64 *)y)[to] = ((const u64 *)x)[from]; break;
	case 16:
		((u64 *)y)[2 * to] = ((const u64 *)x)[2 * from];
		((u64 *)y)[2 * to + 1] = ((const u64 *)x)[2 * from + 1];
		break;
	}
}

// Read and write element i of the step's operand k.
__device__ inline double in_real(const gpu_io &o, int k, int64_t i) { return any_real(o.it[k], o.in[k], i); }
__device__ inline int64_t in_int(const gpu_io &o, int k, int64_t i) { return any_int(o.it[k], o.in[k], i); }
__device__ inline void out_put(const gpu_io &o, int k, int64_t i, double v) { any_put(o.ot[k], o.out[k], i, v); }
__device__ inline void fault(const gpu_io &o) { *(volatile uint64_t *)o.fault = o.who; }

// Returns the i-th random number of a seed, in [0, 1). It is a hash of seed and i, the same as on the CPU.
__device__ inline double hash_unit(u64 seed, u64 i)
{
	u64 z = seed * 0xd1342543de82ef95ull + (i + 1) * 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (double)((z ^ z >> 31) >> 11) * 1.1102230246251565e-16;
}

template <typename T> __device__ inline T *workspace(const gpu_io &o, int64_t at) { return (T *)((char *)o.work + at); }

struct AddUp {
	template <typename C> __device__ C operator()(C a, C b) const { return a + b; }
};
struct Greatest {
	template <typename C> __device__ C operator()(C a, C b) const { return a != a || a > b ? a : b; }
};
struct Least {
	template <typename C> __device__ C operator()(C a, C b) const { return a != a || a < b ? a : b; }
};
