// SPDX-License-Identifier: Apache-2.0
// Attention whose heads have a recurrent state: LinearAttention with its gate, GatedDeltaNet.
#include "attend.cuh"
#include "recurrent.h"

// ---- LinearAttention ---------------------------------------------------------------------------

// Writes column m of the state of head z, which is s, to place `slot` of the window.
__device__ inline void keep_column(const gpu_linear_attention &p, int64_t slot, int64_t z, int64_t m, const float *s)
{
	int64_t from = ((slot * p.batch * p.kv_heads + z) * p.d) * p.dv + m;
	for (int64_t i = 0; i < p.d; i++) {
		int64_t at = from + i * p.dv;
		float e = s ? s[i * p.dv] : 0;
		if (p.past_type == T_F32)
			((f32 *)p.present)[at] = e;
		else if (p.past_type == T_F16)
			((f16 *)p.present)[at] = down<f16>(e);
		else
			((bf16 *)p.present)[at] = down<bf16>(e);
	}
}

// Advances column m of the state of head h by one position, whose row is `row`, and computes the outputs that read it.
template <typename T>
__device__ inline void linear_step(const gpu_linear_attention &p, int64_t row, int64_t h, int64_t m, float *s)
{
	const T *k = (const T *)p.k + (row * p.kv_heads + h) * p.d;
	const T *g = p.decay ? (const T *)p.decay + (row * p.kv_heads + h) * p.decay_size : NULL;
	float v = up(((const T *)p.v)[(row * p.kv_heads + h) * p.dv + m]), read = 0;
	for (int64_t i = 0; i < p.d; i++) {
		float e = s[i * p.dv];
		if (g)
			e *= expf(up(g[p.decay_size == 1 ? 0 : i]));
		s[i * p.dv] = e;
		read += e * up(k[i]);
	}
	if (p.beta) {
		float by = up(((const T *)p.beta)[row * p.beta_heads + (p.beta_heads == 1 ? 0 : h)]);
		v = by * (v - read);
	}
	for (int64_t i = 0; i < p.d; i++)
		s[i * p.dv] += up(k[i]) * v;
	// the output has as many heads as the queries or the keys, whichever are more
	const int64_t outputs = p.q_heads > p.kv_heads ? p.q_heads : p.kv_heads, group = outputs / p.kv_heads;
	for (int64_t n = h * group; n < (h + 1) * group; n++) {
		const T *q = (const T *)p.q + (row * p.q_heads + n * p.q_heads / outputs) * p.d;
		float y = 0;
		for (int64_t i = 0; i < p.d; i++)
			y += p.scale * up(q[i]) * s[i * p.dv];
		((T *)p.y)[(row * outputs + n) * p.dv + m] = down<T>(y);
	}
}

// A block computes one head of one batch. Each thread updates its own columns of the head's state in p.state.
template <typename T> __device__ inline void linear_attention(const gpu_linear_attention &p)
{
	const int64_t slots = p.window ? p.window : 1, heads = p.batch * p.kv_heads;
	for (int64_t z = blockIdx.x; z < heads; z += gridDim.x)
		for (int64_t m = threadIdx.x; m < p.dv; m += blockDim.x) {
			const int64_t last = ((slots - 1) * heads + z) * p.d; // past holds the newest state last
			float *s = p.state + z * p.d * p.dv + m;
			for (int64_t i = 0; i < p.d; i++)
				s[i * p.dv] = p.past ? number(p.past_type, p.past, (last + i) * p.dv + m) : 0.0f;
			for (int64_t slot = 0; p.present && slot < slots - p.length; slot++)
				keep_column(p, slot, z, m, slot == slots - 1 ? s : NULL);
			for (int64_t t = 0; t < p.length; t++) {
				linear_step<T>(p, z / p.kv_heads * p.length + t, z % p.kv_heads, m, s);
				if (p.present && slots - p.length + t >= 0)
					keep_column(p, slots - p.length + t, z, m, s);
			}
		}
}

// ---- LinearAttentionGate -----------------------------------------------------------------------

template <typename T> __device__ inline void linear_gate(const gpu_linear_gate &p)
{
	EACH(i, p.n)
	{
		float x = up(((const T *)p.a)[i]) + p.bias[i % p.heads];
		((T *)p.decay)[i] = down<T>(p.scale[i % p.heads] * softplus(x));
		if (p.beta)
			((T *)p.beta)[i] = down<T>(1 / (1 + expf(-up(((const T *)p.b)[i]))));
	}
}

// ---- GatedDeltaNet -----------------------------------------------------------------------------

__device__ inline float warp_sum(float v)
{
	for (int s = 16; s; s >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, s);
	return v;
}

__device__ inline int64_t start_of(const gpu_delta_net &p, int64_t b)
{
	return p.starts ? p.starts[b] : p.tokens / p.batch * b;
}

// Number of the sequence's first tokens whose updates are kept.
__device__ inline int64_t kept(const gpu_delta_net &p, int64_t b)
{
	if (!p.update || !p.count || (p.active && !*p.active))
		return 0;
	int64_t n = start_of(p, b + 1) - start_of(p, b), most = n < p.capacity ? n : p.capacity;
	return p.count[b] < 0 ? 0 : p.count[b] < most ? p.count[b] : most;
}

// Whether the places where sequence b begins and ends are sound. If not, the run fails, and nobody reads beyond its operands.
__device__ inline bool sound(const gpu_delta_net &p, int64_t b)
{
	if (!p.starts)
		return true;
	if (p.starts[0] == 0 && p.starts[p.batch] == p.tokens && p.starts[b] >= 0 && p.starts[b] <= p.starts[b + 1] &&
	    p.starts[b + 1] <= p.tokens)
		return true;
	*(volatile uint64_t *)p.fault = p.who;
	return false;
}

// Queries and keys as float, of length 1 if p.unit is set; a warp takes one head of one token.
template <typename T> __device__ inline void delta_net_rows(const gpu_delta_net &p)
{
	const int lane = threadIdx.x % 32;
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32), n = p.tokens * p.heads;
	for (int64_t w = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; w < 2 * n; w += warps) {
		const int64_t i = w % n, token = i / p.heads, head = i % p.heads;
		const T *x = w < n ? (const T *)p.q + token * p.q_step : (const T *)p.k + token * p.k_step;
		float *y = (w < n ? p.query : p.key) + i * p.size, sum = 0;
		x += head * p.size;
		for (int64_t e = lane; p.unit && e < p.size; e += 32)
			sum += up(x[e]) * up(x[e]);
		const float by = p.unit ? 1 / sqrtf(warp_sum(sum) + 1e-12f) : 1.0f;
		for (int64_t e = lane; e < p.size; e += 32)
			y[e] = up(x[e]) * by;
	}
}

// By what the states shrink at each token.
extern "C" __global__ void delta_net_factors(const gpu_delta_net p)
{
	EACH(i, p.tokens * p.width)
	{
		const int64_t at = i % p.width, head = at / (p.width / p.vheads);
		float g = number(p.gate_type, p.decay, i);
		if (p.a_log) {
			float a = expf(p.a_log[head]), x = g + p.bias[p.biases == p.width ? at : head];
			g = p.bounded ? p.lower / (1 + expf(-a * x)) : -a * softplus(x);
		}
		p.factor[i] = expf(g);
	}
}

// The factors and keys of the updates that are kept, and zeros elsewhere; delta_net writes the deltas of those that are kept.
extern "C" __global__ void delta_net_updates(const gpu_delta_net p)
{
	const int64_t keys = p.heads * p.size, deltas = p.vheads * p.vsize, all = p.capacity * (p.width + keys + deltas);
	EACH(i, p.batch * all)
	{
		const int64_t b = i / all, e = i % all;
		float v = 0;
		if (!sound(p, b))
			continue;
		if (e < p.capacity * p.width && e / p.width < kept(p, b)) {
			v = p.factor ? p.factor[start_of(p, b) * p.width + e] : 1.0f;
		} else if (e >= p.capacity * p.width && e < p.capacity * (p.width + keys)) {
			const int64_t k = e - p.capacity * p.width;
			v = k / keys < kept(p, b) ? p.key[start_of(p, b) * keys + k] : 0.0f;
		}
		p.update[i] = v;
	}
}

// Advances row i of the states, which depends on no other row, through all tokens of its sequence, by a warp. A lane holds N
// elements in registers; with N = 0 they stay in memory.
template <typename T, int N> __device__ inline void delta_net_row(const gpu_delta_net &p, int64_t i)
{
	const int lane = threadIdx.x % 32, steps = N ? N : (int)((p.size + 31) / 32);
	const int64_t row = i % p.vsize, h = i / p.vsize % p.vheads, b = i / p.vsize / p.vheads;
	if (!sound(p, b))
		return;
	const int64_t first = start_of(p, b), last = start_of(p, b + 1), keep = kept(p, b), head = h * p.heads / p.vheads;
	const int64_t before = p.capacity * (p.width + p.heads * p.size), all = before + p.capacity * p.vheads * p.vsize;
	const bool each = p.width != p.vheads; // a factor for each element
	float *s = p.state + i * p.size, held[N ? N : 1];
	for (int j = 0; j < steps; j++)
		if (lane + 32 * j < p.size)
			(N ? held[j] : s[lane + 32 * j]) = p.past ? p.past[i * p.size + lane + 32 * j] : 0.0f;
	for (int64_t t = first; t < last; t++) {
		const float *q = p.query + (t * p.heads + head) * p.size, *k = p.key + (t * p.heads + head) * p.size;
		const float *f = p.factor ? p.factor + t * p.width + (each ? h * p.size : h) : NULL;
		float delta = up(((const T *)p.v)[t * p.v_step + h * p.vsize + row]), read = 0, y = 0;
		for (int j = 0; j < steps; j++) {
			const int e = lane + 32 * j;
			if (e >= p.size)
				continue;
			float &x = N ? held[j] : s[e];
			if (f)
				x *= f[each ? e : 0];
			read += x * k[e];
		}
		if (p.beta) {
			float by = number(p.gate_type, p.beta, t * p.vheads + h);
			delta = (p.beta_sigmoid ? 1 / (1 + expf(-by)) : by) * (delta - warp_sum(read));
		}
		for (int j = 0; j < steps; j++) {
			const int e = lane + 32 * j;
			if (e >= p.size)
				continue;
			float &x = N ? held[j] : s[e];
			x += k[e] * delta;
			y += q[e] * x;
		}
		y = warp_sum(y);
		if (lane == 0)
			((T *)p.y)[(t * p.vheads + h) * p.vsize + row] = down<T>(p.scale * y);
		if (lane == 0 && t - first < keep)
			p.update[b * all + before + ((t - first) * p.vheads + h) * p.vsize + row] = delta;
	}
	for (int j = 0; j < N; j++)
		if (lane + 32 * j < p.size)
			s[lane + 32 * j] = held[j];
}

template <typename T> __device__ inline void delta_net(const gpu_delta_net &p)
{
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32), rows = p.batch * p.vheads * p.vsize;
	if (!p.batch)
		sound(p, 0);
	for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; i < rows; i += warps) {
		if (p.size <= 64)
			delta_net_row<T, 2>(p, i);
		else if (p.size <= 128)
			delta_net_row<T, 4>(p, i);
		else
			delta_net_row<T, 0>(p, i);
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void linear_attention_##T(const gpu_linear_attention p) { linear_attention<T>(p); }      \
	extern "C" __global__ void linear_gate_##T(const gpu_linear_gate p) { linear_gate<T>(p); }                     \
	extern "C" __global__ void delta_net_rows_##T(const gpu_delta_net p) { delta_net_rows<T>(p); }                 \
	extern "C" __global__ void delta_net_##T(const gpu_delta_net p) { delta_net<T>(p); }
KERNELS(f32) KERNELS(f16) KERNELS(bf16)
