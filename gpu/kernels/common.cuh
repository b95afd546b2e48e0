// SPDX-License-Identifier: Apache-2.0
// Types, conversions and index arithmetic that all kernels share.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "params.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;
typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

// Element types as ONNX numbers them.
enum {
#define DTYPE(name, text, number, bits, kind, other) T_##name = number,
#include "ir/element_types.def"
#undef DTYPE
};

// Wide<T>::type is the type in which elements of type T are computed.
template <typename T> struct Wide { typedef T type; };
template <> struct Wide<f16> { typedef float type; };
template <> struct Wide<bf16> { typedef float type; };
template <typename T> struct Is { static const bool floating = false, sign = T(-1) < T(0); };
template <> struct Is<f16> { static const bool floating = true, sign = true; };
template <> struct Is<bf16> { static const bool floating = true, sign = true; };
template <> struct Is<f32> { static const bool floating = true, sign = true; };
template <> struct Is<f64> { static const bool floating = true, sign = true; };

template <typename T> __device__ inline typename Wide<T>::type up(T v) { return v; }
template <> __device__ inline float up<f16>(f16 v) { return __half2float(v); }
template <> __device__ inline float up<bf16>(bf16 v) { return __bfloat162float(v); }
template <typename T, typename C> __device__ inline T down(C v) { return (T)v; }
template <> __device__ inline f16 down<f16, float>(float v) { return __float2half_rn(v); }
template <> __device__ inline bf16 down<bf16, float>(float v) { return __float2bfloat16_rn(v); }
template <> __device__ inline f16 down<f16, double>(double v) { return __double2half(v); }
template <> __device__ inline bf16 down<bf16, double>(double v) { return __double2bfloat16(v); }
template <> __device__ inline f16 down<f16, int64_t>(int64_t v) { return __ll2half_rn(v); }
template <> __device__ inline bf16 down<bf16, int64_t>(int64_t v) { return __ll2bfloat16_rn(v); }
template <> __device__ inline f16 down<f16, uint64_t>(uint64_t v) { return __ull2half_rn(v); }
template <> __device__ inline bf16 down<bf16, uint64_t>(uint64_t v) { return __ull2bfloat16_rn(v); }

// Read and write V elements at a time: 16 bytes, or one element if rows are not multiples of 16 bytes.
template <typename T, int V> __device__ inline void fetch(const T *x, float *to)
{
	if constexpr (V == 1) {
		to[0] = up(x[0]);
	} else {
		uint4 raw = *(const uint4 *)x;
		const T *e = (const T *)&raw;
		for (int i = 0; i < V; i++)
			to[i] = up(e[i]);
	}
}
template <typename T, int V> __device__ inline void store(T *y, const float *from)
{
	if constexpr (V == 1) {
		y[0] = down<T>(from[0]);
	} else {
		uint4 raw;
		T *e = (T *)&raw;
		for (int i = 0; i < V; i++)
			e[i] = down<T>(from[i]);
		*(uint4 *)y = raw;
	}
}

// Loops over 0 to n - 1. The threads of the whole grid share the iterations.
#define EACH(i, n)                                                                                                     \
	for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, i##_step = gridDim.x * (int64_t)blockDim.x;   \
	     i < (n); i += i##_step)

// Sets at[k] to the offset of element i of the index space d in tensor k, for K tensors with strides step[k].
template <int K> __device__ inline void walk(const gpu_dims &d, const int64_t (*step)[GPU_DIMS], int64_t i, int64_t *at)
{
	for (int k = 0; k < K; k++)
		at[k] = 0;
	for (int r = d.rank - 1; r >= 0; r--) {
		int64_t c;
		if (r == 0) {
			c = i;
		} else if ((uint64_t)i < 0xffffffffu && (uint64_t)d.dim[r] < 0xffffffffu) {
			uint32_t q = (uint32_t)i / (uint32_t)d.dim[r];
			c = (uint32_t)i - q * (uint32_t)d.dim[r];
			i = q;
		} else {
			c = i % d.dim[r];
			i /= d.dim[r];
		}
		for (int k = 0; k < K; k++)
			at[k] += c * step[k][r];
	}
}
__device__ inline int64_t walk1(const gpu_dims &d, const int64_t *step, int64_t i)
{
	int64_t at;
	walk<1>(d, (const int64_t(*)[GPU_DIMS])step, i, &at);
	return at;
}

// Define the functions of ops/unary.def: softplus(x), fn_GELU(x, a, b) and so on. C is the type in which they compute.
#define HELPER(name, formula)                                                                                          \
	template <typename C> __device__ inline C name(C x) { return formula; }
#define FUNCTION(id, cost, formula)                                                                                    \
	template <typename C> __device__ inline C fn_##id(C x, C a, C b) { return formula; }
#include "ops/unary.def"

// Applies an activation that can be fused (gpu_act).
template <typename C> __device__ inline C activate(int act, C a, C b, C x)
{
	switch (act) {
#define ACTIVATION(id, text, op, nparams, alpha, beta) \
	case GPU_ACT_##id: return fn_##id(x, a, b);
#include "ops/unary.def"
	default: return x;
	}
}

// Combines v over all threads of a block with f, for example a sum or a maximum; every thread gets the result.
template <typename C, typename F> __device__ inline C block_all(C v, F f)
{
	__shared__ C part[32];
	for (int o = 16; o; o >>= 1)
		v = f(v, __shfl_xor_sync(0xffffffffu, v, o));
	if (blockDim.x <= 32)
		return v;
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	v = part[0];
	for (int k = 1; k < (int)blockDim.x / 32; k++)
		v = f(v, part[k]);
	return v;
}
