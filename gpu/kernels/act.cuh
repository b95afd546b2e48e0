// SPDX-License-Identifier: Apache-2.0
// Applies the activation that follows a product to several values at once. The most frequent activations are inlined;
// the others cost a function call.
#pragma once
#include "common.cuh"

// A pack holds V neighbouring channels, which a thread reads or writes in one access.
template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T v[V]; };

// Uses fast approximations for 16-bit types, because their rounding error is far larger than the error of the
// approximation. The specialization for f32 does not approximate.
template <typename T> __device__ inline float sigmoid(float v) { return __fdividef(1.f, 1.f + __expf(-v)); }
template <> __device__ inline float sigmoid<f32>(float v) { return 1.f / (1.f + expf(-v)); }

static __device__ __noinline__ float rare_act(int act, float a, float b, float v)
{
	return activate<float>(act, a, b, v);
}

// Applies the activation to N values. The activation is selected outside of the loops, so that each loop stays short.
template <typename T, int N> __device__ inline void act_on(int act, float a, float b, float *v)
{
	if (act == GPU_ACT_RELU) {
#pragma unroll
		for (int j = 0; j < N; j++)
			v[j] = fn_RELU(v[j], a, b);
	} else if (act == GPU_ACT_SWISH) {
#pragma unroll
		for (int j = 0; j < N; j++)
			v[j] *= sigmoid<T>(a * v[j]);
	} else if (act == GPU_ACT_HARDSWISH) {
#pragma unroll
		for (int j = 0; j < N; j++)
			v[j] = fn_HARDSWISH(v[j], a, b);
	} else if (act) {
#pragma unroll
		for (int j = 0; j < N; j++)
			v[j] = rare_act(act, a, b, v[j]);
	}
}
