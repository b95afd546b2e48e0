// SPDX-License-Identifier: Apache-2.0
// Activations behind a product, of several values at once. The most frequent ones are inlined; the others cost a call.
#pragma once
#include "common.cuh"

// V neighbouring channels, which are read and written at once.
template <typename T, int V> struct alignas(sizeof(T) * V) Pack { T v[V]; };

// For 16-bit types a fast approximation, whose error is far below their rounding; exact for f32.
template <typename T> __device__ inline float sigmoid(float v) { return __fdividef(1.f, 1.f + __expf(-v)); }
template <> __device__ inline float sigmoid<f32>(float v) { return 1.f / (1.f + expf(-v)); }

static __device__ __noinline__ float rare_act(int act, float a, float b, float v)
{
	return activate<float>(act, a, b, v);
}

// Applies the activation to N values. It is chosen outside of the loops, so that these stay short.
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
