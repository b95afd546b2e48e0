// SPDX-License-Identifier: Apache-2.0
// com.microsoft's PagedAttention: new keys and values are stored in the blocks of the cache, then each head of each token reads
// them through the table of blocks.
#include "any.cuh"
#include "paged.h"

__device__ inline int64_t position_of(const gpu_paged &p, int64_t t)
{
	int64_t b = p.sequence[t];
	return (int64_t)p.past[b] + t - p.starts[b];
}

// Row of the cache, counted over all blocks, that holds a position of a sequence.
__device__ inline int64_t row_of(const gpu_paged &p, int64_t b, int64_t position)
{
	return p.table[b * p.table_step + position / p.block] * p.block + position % p.block;
}

// Whether everything that token t reads and writes lies within the cache. Sets its sequence.
__device__ inline bool find_sequence(const gpu_paged &p, int64_t t, int64_t *sequence)
{
	bool good = p.starts[0] == 0 && p.starts[p.batch] == p.tokens;
	for (int64_t b = 0; b < p.batch; b++) {
		good = good && p.starts[b] <= p.starts[b + 1];
		if (p.starts[b] <= t && t < p.starts[b + 1])
			*sequence = b;
	}
	if (!good || t >= p.tokens || *sequence < 0)
		return good && t >= p.tokens;
	int64_t b = *sequence, all = (int64_t)p.past[b] + p.starts[b + 1] - p.starts[b];
	if (p.past[b] < 0 || all > p.table_step * p.block || (p.cos && all > p.cos_rows))
		return false;
	for (int64_t k = 0; k * p.block < all; k++)
		good = good && p.table[b * p.table_step + k] >= 0 && p.table[b * p.table_step + k] < p.blocks;
	return good && (!p.slots || (p.slots[t] >= -1 && p.slots[t] < p.blocks * p.block));
}

extern "C" __global__ void paged_check(const gpu_paged p)
{
	EACH(t, p.tokens > 0 ? p.tokens : 1)
	{
		int64_t sequence = -1;
		bool good = find_sequence(p, t, &sequence);
		if (!good)
			*p.fault = p.who;
		if (t < p.tokens)
			p.sequence[t] = good ? sequence : -1;
	}
}

// Element e of a head with its norm: `by` is the factor of the head.
template <typename T> __device__ inline float normed(const T *x, const void *norm, float by, int64_t e)
{
	return norm ? up(x[e]) * by * up(((const T *)norm)[e]) : up(x[e]);
}

// Element e of a head after its norm and its turn.
template <typename T>
__device__ inline float prepared(const gpu_paged &p, const T *x, const void *norm, float by, int64_t position, int64_t e)
{
	float v = normed(x, norm, by, e);
	int64_t at = e - p.offset, half = p.turned / 2;
	if (at < 0 || at >= p.turned)
		return v;
	bool second = p.interleaved ? at % 2 : at >= half;
	int64_t k = p.interleaved ? at / 2 : at % half;
	int64_t other = p.interleaved ? at ^ 1 : second ? at - half : at + half;
	float u = normed(x, norm, by, p.offset + other);
	float c = up(((const T *)p.cos)[position * half + k]), s = up(((const T *)p.sin)[position * half + k]);
	return second ? s * u + c * v : c * v - s * u;
}

__device__ inline void cache_put(const gpu_paged &p, void *cache, const float *scale, int each, int64_t head, int64_t row,
				 int64_t e, float v)
{
	int64_t at = (row * p.kv_heads + head) * p.size + e;
	if (!scale) {
		any_put(p.cache_type, cache, at, v);
		return;
	}
	v /= scale[each ? head * p.size + e : 0];
	if (p.cache_type == T_F8E4M3FN)
		((u8 *)cache)[at] = f8_put(p.cache_type, v, true);
	else
		((i8 *)cache)[at] = (i8)(isnan(v) ? 0.0f : fmaxf(-128.0f, fminf(127.0f, rintf(v))));
}

template <typename T> __device__ inline float cache_get(const gpu_paged &p, const void *cache, int64_t at)
{
	switch (p.cache_type) {
	case T_F16: return up(((const f16 *)cache)[at]);
	case T_BF16: return up(((const bf16 *)cache)[at]);
	case T_I8: return ((const i8 *)cache)[at];
	default: return f8_get(p.cache_type, ((const u8 *)cache)[at]);
	}
}

// A block prepares one head of one token: of the queries, or of the keys, with the values of the same number.
template <typename T> __device__ inline void paged_store(const gpu_paged &p)
{
	for (int64_t z = blockIdx.x; z < p.tokens * (p.heads + p.kv_heads); z += gridDim.x) {
		int64_t h = z % (p.heads + p.kv_heads), t = z / (p.heads + p.kv_heads), g = h - p.heads;
		if (p.sequence[t] < 0)
			continue;
		int64_t position = position_of(p, t);
		const T *x = g < 0 ? (const T *)p.q + t * p.q_step + h * p.size : (const T *)p.k + t * p.k_step + g * p.size;
		const void *norm = g < 0 ? p.q_norm : p.k_norm;
		float by = 0;
		if (norm) {
			for (int64_t e = threadIdx.x; e < p.size; e += blockDim.x)
				by += up(x[e]) * up(x[e]);
			by = block_all(by, AddUp());
			by = 1 / sqrtf(by / (float)p.size + p.epsilon);
			__syncthreads();
		}
		if (g < 0) {
			for (int64_t e = threadIdx.x; e < p.size; e += blockDim.x)
				p.query[(t * p.heads + h) * p.size + e] = prepared(p, x, norm, by, position, e);
			continue;
		}
		int64_t row = p.slots ? p.slots[t] : row_of(p, p.sequence[t], position);
		for (int64_t e = threadIdx.x; e < p.size && row >= 0; e += blockDim.x) {
			cache_put(p, p.k_cache, p.k_scale, p.k_each, g, row, e, prepared(p, x, norm, by, position, e));
			if (p.v)
				cache_put(p, p.v_cache, p.v_scale, p.v_each, g, row, e,
					  up(((const T *)p.v)[t * p.v_step + g * p.size + e]));
		}
	}
}

// Keys are read as many at a time as a block has threads; the softmax grows with them.
template <typename T> __device__ inline void paged_attend(const gpu_paged &p)
{
	__shared__ float part[GPU_PAGED_THREADS];
	__shared__ int64_t place[GPU_PAGED_THREADS];
	const void *values = p.latent ? p.k_cache : p.v_cache;
	const float *v_scale = p.latent ? p.k_scale : p.v_scale;
	int v_each = p.latent ? p.k_each : p.v_each;
	for (int64_t z = blockIdx.x; z < p.tokens * p.heads; z += gridDim.x) {
		int64_t h = z % p.heads, t = z / p.heads, b = p.sequence[t], g = h / (p.heads / p.kv_heads);
		if (b < 0)
			continue;
		int64_t own = position_of(p, t), end = p.causal ? own + 1 : (int64_t)p.past[b] + p.starts[b + 1] - p.starts[b];
		int64_t first = p.window && own >= p.window ? own - p.window + 1 : 0;
		const float *q = p.query + z * p.size;
		float most = p.sink ? up(((const T *)p.sink)[h]) : -INFINITY, sum = p.sink ? 1.0f : 0.0f;
		float acc[GPU_PAGED_ELEMENTS] = {0};
		for (int64_t j0 = first; j0 < end; j0 += blockDim.x) {
			int64_t j = j0 + threadIdx.x, row = j < end ? row_of(p, b, j) : 0, at = (row * p.kv_heads + g) * p.size;
			float s = -INFINITY;
			if (j < end) {
				s = 0;
				for (int64_t e = 0; e < p.size; e++) {
					float k = cache_get<T>(p, p.k_cache, at + e);
					s += q[e] * (p.k_scale ? k * p.k_scale[p.k_each ? g * p.size + e : 0] : k);
				}
				s *= p.scale;
				if (p.softcap > 0)
					s = p.softcap * tanhf(s / p.softcap);
			}
			float top = Greatest()(most, block_all(s, Greatest()));
			float fade = most == -INFINITY ? 0.0f : expf(most - top);
			s = j < end ? expf(s - top) : 0.0f;
			part[threadIdx.x] = s;
			place[threadIdx.x] = at;
			sum = sum * fade + block_all(s, AddUp());
			most = top;
			__syncthreads();
			int64_t n = end - j0 < blockDim.x ? end - j0 : blockDim.x;
			for (int i = 0; i < GPU_PAGED_ELEMENTS; i++) {
				int64_t e = threadIdx.x + i * (int64_t)blockDim.x;
				if (e >= p.vsize)
					break;
				float add = 0;
				for (int64_t k = 0; k < n; k++)
					add += part[k] * cache_get<T>(p, values, place[k] + e);
				acc[i] = acc[i] * fade + (v_scale ? add * v_scale[v_each ? g * p.size + e : 0] : add);
			}
			__syncthreads();
		}
		for (int i = 0; i < GPU_PAGED_ELEMENTS; i++) {
			int64_t e = threadIdx.x + i * (int64_t)blockDim.x;
			if (e < p.vsize)
				((T *)p.y)[z * p.vsize + e] = down<T>(acc[i] / sum);
		}
	}
}

#define PAGED(T)                                                                                                       \
	extern "C" __global__ void paged_store_##T(const gpu_paged p) { paged_store<T>(p); }                           \
	extern "C" __global__ void paged_attend_##T(const gpu_paged p) { paged_attend<T>(p); }
PAGED(f16) PAGED(bf16)
