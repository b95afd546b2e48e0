// SPDX-License-Identifier: Apache-2.0
// com.microsoft's MoE and QMoE: a router chooses k experts for each token, then a warp computes each element of a layer.
#include "any.cuh"
#include "experts.h"

// ---- the router

template <typename T> __device__ inline float logit(const T *x, int64_t e) { return up(x[e]); }

// Of equal logits the last is chosen, as on the CPU.
__device__ inline bool comes_before(float a, int64_t at_a, float b, int64_t at_b)
{
	return a > b || (a == b && at_a > at_b);
}

template <typename T> __device__ inline int64_t next_expert(const gpu_experts &p, const T *x, int64_t last)
{
	int64_t best = -1;
	for (int64_t e = 0; e < p.experts; e++)
		if (e != last && (last < 0 || comes_before(logit(x, last), last, logit(x, e), e)) &&
		    (best < 0 || comes_before(logit(x, e), e, logit(x, best), best)))
			best = e;
	return best;
}

// The weight of the sparse mixer: a softmax among the experts whose logits are close to the chosen one.
template <typename T> __device__ inline float mixed(const gpu_experts &p, const T *x, int64_t chosen, int64_t barred)
{
	float sum = 0, top = logit(x, chosen);
	for (int64_t e = 0; e < p.experts; e++) {
		float v = logit(x, e), most = fmaxf(fabsf(v), top);
		if (e != barred && !(top - v > p.jitter * most))
			sum += expf(v - top);
	}
	return 1 / sum;
}

template <typename T> __device__ inline void weigh(const gpu_experts &p, int64_t t, const T *x)
{
	const int64_t *chosen = p.chosen + t * p.k;
	float *weight = p.weight + t * p.k, sum = 0;
	if (p.router_weights) {
		for (int64_t j = 0; j < p.k; j++)
			sum += weight[j] = up(((const T *)p.router_weights)[t * p.experts + chosen[j]]);
		for (int64_t j = 0; j < p.k && p.normalize; j++)
			weight[j] = sum == 0 ? 0 : weight[j] / sum;
		return;
	}
	if (p.mixer) {
		weight[0] = mixed(p, x, chosen[0], -1);
		weight[1] = mixed(p, x, chosen[1], chosen[0]);
		return;
	}
	float top = logit(x, chosen[0]);
	for (int64_t j = 0; j < p.k; j++)
		sum += weight[j] = expf(logit(x, chosen[j]) - top);
	if (!p.normalize) {
		sum = 0;
		for (int64_t e = 0; e < p.experts; e++)
			sum += expf(logit(x, e) - top);
	}
	for (int64_t j = 0; j < p.k; j++)
		weight[j] /= sum;
}

template <typename T> __device__ inline void experts_route(const gpu_experts &p)
{
	EACH(t, p.tokens)
	{
		const T *x = (const T *)p.logits + t * p.experts;
		bool number = true;
		for (int64_t e = 0; e < p.experts; e++)
			number = number && !isnan(logit(x, e));
		for (int64_t j = 0; j < p.k; j++) {
			p.chosen[t * p.k + j] = number ? next_expert(p, x, j ? p.chosen[t * p.k + j - 1] : -1) : j;
			p.weight[t * p.k + j] = nanf("");
		}
		if (number)
			weigh(p, t, x);
	}
}

// ---- the layers

__device__ inline float warp_sum(float v)
{
	for (int o = 16; o; o >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, o);
	return v;
}

__device__ inline float scale_at(const gpu_expert_layer &l, int64_t i)
{
	return l.scale_type == T_F32   ? ((const f32 *)l.scales)[i]
	       : l.scale_type == T_F16 ? up(((const f16 *)l.scales)[i])
				       : up(((const bf16 *)l.scales)[i]);
}

__device__ inline float zero_at(const gpu_expert_layer &l, int64_t e, int64_t row, int64_t block)
{
	if (!l.zeros)
		return (float)(1 << (l.bits - 1));
	int64_t per = 8 / l.bits, blocks = l.in / l.block;
	const u8 *z = (const u8 *)l.zeros;
	if (l.by_row)
		return (float)packed_get(z + e * ((l.rows + per - 1) / per), row, l.bits);
	return (float)packed_get(z + (e * l.rows + row) * ((blocks + per - 1) / per), block, l.bits);
}

// The product of a row of weights of expert e and x, with its bias. All lanes of a warp call it and get the result.
template <typename T, typename X> __device__ inline float row_product(const gpu_expert_layer &l, int64_t e, int64_t row, const X *x)
{
	int64_t at = e * l.rows + row, lane = threadIdx.x % 32;
	float sum = 0;
	if (l.bits) {
		int64_t blocks = l.in / l.block, known = -1;
		float scale = 0, zero = 0;
		for (int64_t i = lane; i < l.in; i += 32) {
			int64_t block = i / l.block;
			if (block != known) {
				scale = scale_at(l, at * blocks + block);
				zero = zero_at(l, e, row, block);
				known = block;
			}
			sum += ((float)packed_get(l.weights, at * l.in + i, l.bits) - zero) * scale * up(x[i]);
		}
	} else if (l.fp4) {
		const u8 *codes = (const u8 *)l.weights + e * l.in * (l.rows / 2) + row / 2;
		for (int64_t i = lane; i < l.in; i += 32)
			sum += f4_get(codes[i * (l.rows / 2)] >> (row & 1) * 4 & 15) * up(x[i]) *
			       f8_get(l.scale_type, ((const u8 *)l.scales)[at * (l.in / l.block) + i / l.block]);
		sum *= l.global[e];
	} else if (l.type == T_F8E4M3FN && l.scales) {
		int64_t across = (l.in + l.block - 1) / l.block, down = (l.rows + l.block - 1) / l.block;
		for (int64_t i = lane; i < l.in; i += 32)
			sum += f8_get(l.type, ((const u8 *)l.weights)[at * l.in + i]) * up(x[i]) *
			       scale_at(l, (e * down + row / l.block) * across + i / l.block);
	} else if (l.type == T_F8E4M3FN) {
		for (int64_t i = lane; i < l.in; i += 32)
			sum += f8_get(l.type, ((const u8 *)l.weights)[at * l.in + i]) * up(x[i]);
		sum *= l.global[e];
	} else {
		for (int64_t i = lane; i < l.in; i += 32)
			sum += up(((const T *)l.weights)[at * l.in + i]) * up(x[i]);
	}
	sum = warp_sum(sum);
	return l.bias ? sum + up(((const T *)l.bias)[at]) : sum;
}

__device__ inline float gated(const gpu_experts &p, float g, float l)
{
	g = g > p.limit ? p.limit : g;
	l = l > p.limit ? p.limit : l < -p.limit ? -p.limit : l;
	return g / (1 + expf(-p.alpha * g)) * (l + p.beta);
}

__device__ inline float activated(int activation, float x)
{
	switch (activation) {
	case GPU_EXPERT_RELU: return x < 0 ? 0 : x;
	case GPU_EXPERT_GELU: return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
	case GPU_EXPERT_SILU: return x / (1 + expf(-x));
	default: return x;
	}
}

// Each warp of the grid takes one after the other of n pieces of work.
#define EACH_WARP(i, n)                                                                                                \
	for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; i < (n);                          \
	     i += gridDim.x * (int64_t)(blockDim.x / 32))

template <typename T> __device__ inline void experts_first(const gpu_experts &p)
{
	EACH_WARP(w, p.tokens * p.k * p.inter)
	{
		int64_t i = w % p.inter, route = w / p.inter, e = p.chosen[route];
		const T *x = (const T *)p.x + route / p.k * p.hidden;
		bool swiglu = p.activation == GPU_EXPERT_SWIGLU, turn = swiglu && p.fusion == GPU_SWIGLU_IN_TURN;
		float g = row_product<T>(p.first, e, turn ? 2 * i : i, x), l = 1;
		if (p.third.weights)
			l = row_product<T>(p.third, e, i, x);
		else if (swiglu)
			l = row_product<T>(p.first, e, turn ? 2 * i + 1 : i + p.inter, x);
		if (threadIdx.x % 32 == 0)
			p.between[w] = swiglu ? gated(p, g, l) : activated(p.activation, g) * l;
	}
}

template <typename T> __device__ inline void experts_second(const gpu_experts &p)
{
	EACH_WARP(w, p.tokens * p.hidden)
	{
		int64_t i = w % p.hidden, t = w / p.hidden;
		float sum = 0;
		for (int64_t j = t * p.k; j < (t + 1) * p.k; j++)
			sum += p.weight[j] * row_product<T>(p.second, p.chosen[j], i, p.between + j * p.inter);
		if (threadIdx.x % 32 == 0)
			((T *)p.y)[w] = down<T>(sum);
	}
}

#define EXPERTS(T)                                                                                                     \
	extern "C" __global__ void experts_route_##T(const gpu_experts p) { experts_route<T>(p); }                     \
	extern "C" __global__ void experts_first_##T(const gpu_experts p) { experts_first<T>(p); }                     \
	extern "C" __global__ void experts_second_##T(const gpu_experts p) { experts_second<T>(p); }
EXPERTS(f32) EXPERTS(f16) EXPERTS(bf16)
