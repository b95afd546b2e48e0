// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels for one tensor, kernels for two or more tensors that broadcast, and conversions of types.
#include "common.cuh"
#include "ptx.cuh"

template <typename C> __device__ inline C unary_float(int op, const double *q, C x)
{
	const C a = (C)q[0], b = (C)q[1];
	switch (op) {
#define FUNCTION(id, cost, formula) \
	case U_##id: return fn_##id(x, a, b);
#include "ops/unary.def"
	default: return x;
	}
}

template <typename T> __device__ inline T unary_int(int op, const double *q, T x)
{
	switch (op) {
	case U_ABS: return Is<T>::sign && x < 0 ? (T)(0 - (u64)x) : x;
	case U_NEG: return (T)(0 - (u64)x);
	case U_SIGN: return (T)((x > 0) - (Is<T>::sign && x < 0));
	case U_RELU: return Is<T>::sign && x < 0 ? 0 : x;
#define BIT_FUNCTION(id, formula) \
	case U_##id: return (T)(formula);
#include "ops/unary.def"
	default: return (T)unary_float<double>(op, q, (double)x);
	}
}

template <typename T> __device__ inline void unary(const gpu_map &p)
{
	const T *x = (const T *)p.x;
	T *y = (T *)p.y;
	EACH(i, p.n)
	{
		if constexpr (Is<T>::floating)
			y[i] = down<T>(unary_float(p.op, p.p, up(x[i])));
		else
			y[i] = unary_int(p.op, p.p, x[i]);
	}
}

// The bounds of Clip are in device memory; a null pointer means that there is no bound.
template <typename T> __device__ inline void clip(const gpu_map &p)
{
	const T *x = (const T *)p.x;
	T *y = (T *)p.y;
	EACH(i, p.n)
	{
		auto v = up(x[i]);
		if (p.lo && v < up(*(const T *)p.lo))
			v = up(*(const T *)p.lo);
		if (p.hi && v > up(*(const T *)p.hi))
			v = up(*(const T *)p.hi);
		y[i] = down<T>(v);
	}
}

template <typename T> __device__ inline T int_pow(T a, int64_t b)
{
	u64 r = 1, base = (u64)(int64_t)a;
	if (b < 0)
		return a == T(1) ? T(1) : Is<T>::sign && a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
	for (; b; b >>= 1, base *= base)
		if (b & 1)
			r *= base;
	return (T)r;
}

template <typename C> __device__ inline C floor_mod(C a, C b)
{
	C r = fmod(a, b);
	if (r == 0)
		return copysign(C(0), b);
	return (r < 0) != (b < 0) ? r + b : r;
}

template <typename C> __device__ inline C binary_float(int op, C a, C b)
{
	switch (op) {
	case B_ADD: return a + b;
	case B_SUB: return a - b;
	case B_MUL: return a * b;
	case B_DIV: return a / b;
	case B_MAX: return isnan(a) || a > b ? a : b;
	case B_MIN: return isnan(a) || a < b ? a : b;
	case B_POW: return pow(a, b);
	case B_MOD: return floor_mod(a, b);
	case B_FMOD: return fmod(a, b);
	case B_PRELU: return a < 0 ? a * b : a;
	case B_BIASGELU: return fn_GELU(a + b, C(0), C(0));
	case B_BIASGELU_TANH: return fn_GELU_TANH(a + b, C(0), C(0));
	default: return a;
	}
}

template <typename T> __device__ inline T binary_int(int op, T a, T b)
{
	const bool minus = Is<T>::sign && b == (T)-1;
	const int bits = 8 * sizeof(T);
	switch (op) {
	case B_ADD: return (T)((u64)a + (u64)b);
	case B_SUB: return (T)((u64)a - (u64)b);
	case B_MUL: return (T)((u64)a * (u64)b);
	case B_DIV: return b == 0 ? T(0) : minus ? (T)(0 - (u64)a) : (T)(a / b);
	case B_MAX: return a > b ? a : b;
	case B_MIN: return a < b ? a : b;
	case B_POW: return int_pow(a, (int64_t)b);
	case B_FMOD: return b == 0 || minus ? T(0) : (T)(a % b);
	case B_MOD: {
		T r = b == 0 || minus ? T(0) : (T)(a % b);
		return Is<T>::sign && r && (r < 0) != (b < 0) ? (T)(r + b) : r;
	}
	case B_AND: return a & b;
	case B_OR: return a | b;
	case B_XOR: return a ^ b;
	case B_SHL: return (u64)b >= bits ? T(0) : (T)((u64)a << (int)b);
	case B_SHR: return (u64)b >= bits ? (T)(Is<T>::sign && a < 0 ? -1 : 0) : (T)(a >> (int)b);
	case B_PRELU: return Is<T>::sign && a < 0 ? (T)((u64)a * (u64)b) : a;
	default: return a;
	}
}

template <typename T> __device__ inline T binary_one(int op, T a, T b)
{
	if constexpr (Is<T>::floating)
		return down<T>(binary_float(op, up(a), up(b)));
	else
		return binary_int(op, a, b);
}
// Returns whether the operand can be read 16 bytes at a time: it is contiguous along the last dim, or one element
// repeats there.
template <typename T> __device__ inline bool can_read_vectors(const gpu_dims &d, const int64_t *step, const void *x)
{
	const int V = 16 / sizeof(T), last = d.rank - 1;
	if (last < 0 || d.dim[last] % V || (step[last] != 1 && step[last] != 0))
		return false;
	for (int r = 0; r < last && step[last]; r++)
		if (step[r] % V)
			return false;
	return !step[last] || (uintptr_t)x % 16 == 0;
}
template <typename T> __device__ inline void binary(const gpu_binary_job &p)
{
	start_early();
	const int V = 16 / sizeof(T), last = p.d.rank - 1;
	struct alignas(16) Some {
		T v[V];
	};
	if (can_read_vectors<T>(p.d, p.step[0], p.a) && can_read_vectors<T>(p.d, p.step[1], p.b) && (uintptr_t)p.y % 16 == 0) {
		EACH(k, p.n / V)
		{
			int64_t at[2];
			walk<2>(p.d, p.step, k * V, at);
			Some a, b;
			if (p.step[0][last])
				a = *(const Some *)((const T *)p.a + at[0]);
			else
				for (int e = 0; e < V; e++)
					a.v[e] = ((const T *)p.a)[at[0]];
			if (p.step[1][last])
				b = *(const Some *)((const T *)p.b + at[1]);
			else
				for (int e = 0; e < V; e++)
					b.v[e] = ((const T *)p.b)[at[1]];
			for (int e = 0; e < V; e++)
				a.v[e] = binary_one(p.op, a.v[e], b.v[e]);
			((Some *)p.y)[k] = a;
		}
		return;
	}
	EACH(i, p.n)
	{
		int64_t at[2];
		walk<2>(p.d, p.step, i, at);
		((T *)p.y)[i] = binary_one(p.op, ((const T *)p.a)[at[0]], ((const T *)p.b)[at[1]]);
	}
}

template <typename C> __device__ inline bool compared(int op, C a, C b)
{
	switch (op) {
	case B_EQ: return a == b;
	case B_LT: return a < b;
	case B_LE: return a <= b;
	case B_GT: return a > b;
	case B_GE: return a >= b;
	case B_AND: return a != C(0) && b != C(0);
	case B_OR: return a != C(0) || b != C(0);
	default: return (a != C(0)) != (b != C(0));
	}
}

template <typename T> __device__ inline void compare(const gpu_binary_job &p)
{
	start_early();
	EACH(i, p.n)
	{
		int64_t at[2];
		walk<2>(p.d, p.step, i, at);
		((u8 *)p.y)[i] = compared(p.op, up(((const T *)p.a)[at[0]]), up(((const T *)p.b)[at[1]]));
	}
}

template <typename T> __device__ inline void nary(const gpu_nary &p)
{
	EACH(i, p.n)
	{
		int64_t at[GPU_MANY];
		walk<GPU_MANY>(p.d, p.step, i, at);
		auto v = up(((const T *)p.in[0])[at[0]]);
		for (int k = 1; k < p.nin; k++) {
			auto w = up(((const T *)p.in[k])[at[k]]);
			if constexpr (Is<T>::floating)
				v = binary_float(p.op, v, w);
			else
				v = binary_int(p.op, v, w);
		}
		if constexpr (Is<T>::floating)
			v *= (typename Wide<T>::type)p.scale;
		((T *)p.y)[i] = down<T>(v);
	}
}

template <typename T> __device__ inline void where(const gpu_where &p)
{
	EACH(i, p.n)
	{
		int64_t at[3];
		walk<3>(p.d, p.step, i, at);
		((T *)p.y)[i] = p.c[at[0]] ? ((const T *)p.a)[at[1]] : ((const T *)p.b)[at[2]];
	}
}

// Converts to a 32-bit integer. Larger integers wrap. Floats lose their fraction; a float that does not fit gives the
// least integer, as on the CPU.
template <typename V> __device__ inline i32 as_i32(V v)
{
	if constexpr (Is<V>::floating)
		return (f64)v > -2147483649.0 && (f64)v < 2147483648.0 ? (i32)v : INT32_MIN;
	else
		return (i32)v;
}
template <typename V> __device__ inline i64 as_i64(V v)
{
	if constexpr (Is<V>::floating)
		return (f64)v >= -9223372036854775808.0 && (f64)v < 9223372036854775808.0 ? (i64)v : INT64_MIN;
	else
		return (i64)v;
}

template <typename V> __device__ inline u64 as_u64(V v)
{
	if constexpr (Is<V>::floating)
		return (f64)v >= 9223372036854775808.0 && (f64)v < 18446744073709551616.0 ? (u64)v : (u64)as_i64(v);
	else
		return (u64)v;
}

// Converts v to the type `to` and stores it as element i of y.
template <typename V> __device__ inline void store(int to, void *y, int64_t i, V v)
{
	switch (to) {
	case T_F32: ((f32 *)y)[i] = (f32)v; break;
	case T_U8: ((u8 *)y)[i] = (u8)as_i32(v); break;
	case T_I8: ((i8 *)y)[i] = (i8)as_i32(v); break;
	case T_U16: ((u16 *)y)[i] = (u16)as_i32(v); break;
	case T_I16: ((i16 *)y)[i] = (i16)as_i32(v); break;
	case T_I32: ((i32 *)y)[i] = as_i32(v); break;
	case T_I64: ((i64 *)y)[i] = as_i64(v); break;
	case T_BOOL: ((u8 *)y)[i] = v != V(0); break;
	case T_F16: ((f16 *)y)[i] = down<f16>(v); break;
	case T_F64: ((f64 *)y)[i] = (f64)v; break;
	case T_U32: ((u32 *)y)[i] = (u32)as_i64(v); break;
	case T_U64: ((u64 *)y)[i] = as_u64(v); break;
	case T_BF16: ((bf16 *)y)[i] = down<bf16>(v); break;
	}
}

enum { CAST_AT_ONCE = GPU_CAST_AT_ONCE };
template <typename T> __device__ inline void fetch_some(const T *x, float *v)
{
	const int V = 16 / sizeof(T);
	for (int i = 0; i < CAST_AT_ONCE; i += V)
		fetch<T, V>(x + i, v + i);
}
template <typename T> __device__ inline void store_some(void *y, int64_t at, const float *v)
{
	const int V = 16 / sizeof(T);
	for (int i = 0; i < CAST_AT_ONCE; i += V)
		store<T, V>((T *)y + at + i, v + i);
}

// Finite numbers beyond the largest one, p[0], become that one where p[0] is given; NaN and infinities stay.
__device__ inline float within(const gpu_map &p, float v)
{
	const float most = (float)p.p[0];
	return most > 0 && fabsf(v) > most && !isinf(v) ? copysignf(most, v) : v;
}

// Casts between types of 16 and 32 bits, whole pieces of 16 bytes at a time.
template <typename T> __device__ inline void cast_some(const gpu_map &p)
{
	const int64_t whole = p.n / CAST_AT_ONCE;
	EACH(i, whole)
	{
		float v[CAST_AT_ONCE];
		fetch_some<T>((const T *)p.x + i * CAST_AT_ONCE, v);
		if constexpr (sizeof(T) == 4)
			for (int k = 0; k < CAST_AT_ONCE; k++)
				v[k] = within(p, v[k]);
		switch (p.to) {
		case T_F32: store_some<f32>(p.y, i * CAST_AT_ONCE, v); break;
		case T_F16: store_some<f16>(p.y, i * CAST_AT_ONCE, v); break;
		default: store_some<bf16>(p.y, i * CAST_AT_ONCE, v);
		}
	}
	if (blockIdx.x == 0)
		for (int64_t i = whole * CAST_AT_ONCE + threadIdx.x; i < p.n; i += blockDim.x)
			store(p.to, p.y, i, within(p, up(((const T *)p.x)[i])));
}

template <typename T> __device__ inline void cast(const gpu_map &p)
{
	EACH(i, p.n)
	{
		if constexpr (sizeof(T) == 4 && Is<T>::floating)
			store(p.to, p.y, i, within(p, ((const T *)p.x)[i]));
		else if constexpr (sizeof(T) == 8 || Is<T>::floating)
			store(p.to, p.y, i, up(((const T *)p.x)[i]));
		else
			store(p.to, p.y, i, (i64)((const T *)p.x)[i]);
	}
}

template <typename T> __device__ inline void is_class(const gpu_map &p)
{
	EACH(i, p.n)
	{
		auto v = up(((const T *)p.x)[i]);
		((u8 *)p.y)[i] = p.op ? isinf(v) && (v > 0 ? p.p[1] != 0 : p.p[0] != 0) : isnan(v);
	}
}

#define FLOATS(X) X(f32) X(f16) X(bf16) X(f64)
#define NUMBERS(X) FLOATS(X) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64)
#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void unary_##T(const gpu_map p) { unary<T>(p); }                                         \
	extern "C" __global__ void clip_##T(const gpu_map p) { clip<T>(p); }                                           \
	extern "C" __global__ void binary_##T(const gpu_binary_job p) { binary<T>(p); }                                \
	extern "C" __global__ void compare_##T(const gpu_binary_job p) { compare<T>(p); }                              \
	extern "C" __global__ void nary_##T(const gpu_nary p) { nary<T>(p); }                                          \
	extern "C" __global__ void cast_##T(const gpu_map p) { cast<T>(p); }
NUMBERS(KERNELS)
#define CLASS(T) extern "C" __global__ void class_##T(const gpu_map p) { is_class<T>(p); }
FLOATS(CLASS)
#define SOME(T) extern "C" __global__ void cast_some_##T(const gpu_map p) { cast_some<T>(p); }
SOME(f32) SOME(f16) SOME(bf16)
extern "C" __global__ void where_1(const gpu_where p) { where<u8>(p); }
extern "C" __global__ void where_2(const gpu_where p) { where<u16>(p); }
extern "C" __global__ void where_4(const gpu_where p) { where<u32>(p); }
extern "C" __global__ void where_8(const gpu_where p) { where<u64>(p); }
