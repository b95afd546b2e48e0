// SPDX-License-Identifier: Apache-2.0
// Attention of few queries to many keys, as in each step of a decoder: the time goes into reading the keys and values, so
// these are cut into parts which all processors of the device read at once ("Flash-Decoding", Dao and others, 2023).
#include "attend.cuh"

// What a thread knows of one query after some keys: the largest score, the sum of the exponentials of the scores beneath it,
// and its elements of the values' sum, weighted by these exponentials. Scores are multiplied by log2(e), for exp2.
template <int EACH> struct Seen {
	float top, sum, out[EACH];
};

template <int EACH> __device__ inline void join(Seen<EACH> &a, const Seen<EACH> &b)
{
	float top = fmaxf(a.top, b.top), base = top == -INFINITY ? 0.0f : top;
	float by_a = exp2_of(a.top - base), by_b = exp2_of(b.top - base);
	a.top = top;
	a.sum = a.sum * by_a + b.sum * by_b;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		a.out[e] = a.out[e] * by_a + b.out[e] * by_b;
}

template <typename T, int EACH> __device__ inline void numbers(float *to, const uint4 &from)
{
	const T *x = (const T *)&from;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		to[e] = up(x[e]);
}

// Query `row` of the group of queries that share a head of keys: the query's head and position.
struct Query {
	int64_t h, i;
};
__device__ inline Query query_of(const gpu_attend &p, int64_t kh, int64_t row)
{
	Query q = {kh * (p.heads / p.kv_heads) + row / p.s, row % p.s};
	return q;
}

// Writes element c of a query's result.
template <typename T>
__device__ inline void finish(const gpu_attend &p, int64_t b, Query q, int c, float top, float sum, float out)
{
	const float log2e = 1.4426950408889634f;
	if (p.sink) {
		float sink = up(((const T *)p.sink)[q.h]) * log2e, most = fmaxf(top, sink);
		float by = exp2_of(top - most);
		sum = sum * by + exp2_of(sink - most);
		out *= by;
	}
	bool nothing = (p.safe && sum == 0) || (p.nan_to_zero && sum != sum);
	T *y = (T *)p.y + b * p.ys[0] + q.h * p.ys[1] + q.i * p.ys[2];
	y[c] = down<T>(nothing ? 0.0f : out / sum);
}

enum { FEW_WARPS = 4, FEW_KEYS = 4 };

// A block has ROWS queries of one head of keys, and one part of the keys. LANES neighbouring threads hold a key, each 16 bytes
// of it; each thread reads FEW_KEYS keys and their values at once, so that the memory is kept busy.
template <typename T, int HEAD, int ROWS> __device__ inline void few(const gpu_attend &p)
{
	const int EACH = 16 / sizeof(T), LANES = HEAD / EACH, GROUPS = FEW_WARPS * (32 / LANES);
	const float log2e = 1.4426950408889634f;
	__shared__ Seen<1> shared[FEW_WARPS][ROWS][HEAD];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, at = lane % LANES * EACH;
	const int group = threadIdx.x / LANES;
	int64_t kh = blockIdx.y % p.kv_heads, row0 = blockIdx.y / p.kv_heads * ROWS, b = blockIdx.z;
	int64_t rows = p.heads / p.kv_heads * p.s, keys = keys_of(p, b);
	int64_t begin = (int64_t)blockIdx.x * p.part, end = begin + p.part < keys ? begin + p.part : keys;
	const T *k = (const T *)p.k + b * p.ks[0] + kh * p.ks[1] + at, *v = (const T *)p.v + b * p.vs[0] + kh * p.vs[1] + at;
	Seen<EACH> seen[ROWS];
	float q[ROWS][EACH];
	Query query[ROWS];
	Range visible[ROWS];

#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		query[r] = query_of(p, kh, row0 + r < rows ? row0 + r : 0);
		visible[r] = range(p, b, query[r].i, keys);
		uint4 all = {0, 0, 0, 0};
		if (at < p.d)
			all = *(const uint4 *)((const T *)p.q + b * p.qs[0] + query[r].h * p.qs[1] + query[r].i * p.qs[2] + at);
		numbers<T, EACH>(q[r], all);
		seen[r].top = -INFINITY;
		seen[r].sum = 0;
#pragma unroll
		for (int e = 0; e < EACH; e++)
			seen[r].out[e] = 0;
	}
	for (int64_t j0 = begin + group; j0 - group < end; j0 += GROUPS * FEW_KEYS) {
		uint4 ks[FEW_KEYS], vs[FEW_KEYS];
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++) {
			int64_t j = j0 + u * GROUPS;
			ks[u] = vs[u] = make_uint4(0, 0, 0, 0);
			if (j < end && at < p.d)
				ks[u] = *(const uint4 *)(k + j * p.ks[2]);
			if (j < end && at < p.dv)
				vs[u] = *(const uint4 *)(v + j * p.vs[2]);
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			float score[FEW_KEYS], most = seen[r].top;
#pragma unroll
			for (int u = 0; u < FEW_KEYS; u++) {
				int64_t j = j0 + u * GROUPS;
				float x[EACH], s = 0;
				numbers<T, EACH>(x, ks[u]);
#pragma unroll
				for (int e = 0; e < EACH; e++)
					s += q[r][e] * x[e];
#pragma unroll
				for (int m = 1; m < LANES; m *= 2)
					s += __shfl_xor_sync(0xffffffffu, s, m);
				s *= p.scale;
				if (p.softcap > 0)
					s = soft_cap(s, p.softcap, true);
				score[u] = -INFINITY;
				if (j < end && j >= visible[r].first && j < visible[r].end)
					score[u] = masked<float>(p, s, b, query[r].h, query[r].i, j) * log2e;
				most = fmaxf(most, score[u]);
			}
			float base = most == -INFINITY ? 0.0f : most, by = exp2_of(seen[r].top - base);
			seen[r].top = most;
			seen[r].sum *= by;
#pragma unroll
			for (int e = 0; e < EACH; e++)
				seen[r].out[e] *= by;
#pragma unroll
			for (int u = 0; u < FEW_KEYS; u++) {
				float x[EACH], w = exp2_of(score[u] - base);
				numbers<T, EACH>(x, vs[u]);
				seen[r].sum += w;
#pragma unroll
				for (int e = 0; e < EACH; e++)
					seen[r].out[e] += w * x[e];
			}
		}
	}
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		for (int m = LANES; m < 32; m *= 2) {
			Seen<EACH> other;
			other.top = __shfl_xor_sync(0xffffffffu, seen[r].top, m);
			other.sum = __shfl_xor_sync(0xffffffffu, seen[r].sum, m);
#pragma unroll
			for (int e = 0; e < EACH; e++)
				other.out[e] = __shfl_xor_sync(0xffffffffu, seen[r].out[e], m);
			join(seen[r], other);
		}
		for (int e = 0; e < EACH && lane < LANES; e++) {
			Seen<1> one = {seen[r].top, seen[r].sum, {seen[r].out[e]}};
			shared[warp][r][at + e] = one;
		}
	}
	__syncthreads();
	for (int z = threadIdx.x; z < ROWS * HEAD; z += blockDim.x) {
		int r = z / HEAD, c = z % HEAD;
		if (row0 + r >= rows || c >= p.dv)
			continue;
		Seen<1> all = shared[0][r][c];
		for (int w = 1; w < FEW_WARPS; w++)
			join(all, shared[w][r][c]);
		if (p.parts == 1) {
			finish<T>(p, b, query_of(p, kh, row0 + r), c, all.top, all.sum, all.out[0]);
			continue;
		}
		float *to = (float *)p.scratch + (((b * p.kv_heads + kh) * rows + row0 + r) * p.parts + blockIdx.x) * (p.dv + 2);
		if (c == 0) {
			to[0] = all.top;
			to[1] = all.sum;
		}
		to[2 + c] = all.out[0];
	}
}

// A block joins the parts of one query. Each thread has one element of it.
template <typename T> __device__ inline void join_parts(const gpu_attend &p)
{
	int64_t rows = p.heads / p.kv_heads * p.s, row = blockIdx.x % rows, kh = blockIdx.x / rows % p.kv_heads;
	int64_t b = blockIdx.x / rows / p.kv_heads;
	const float *from = (const float *)p.scratch + (int64_t)blockIdx.x * p.parts * (p.dv + 2);
	for (int c = threadIdx.x; c < p.dv; c += blockDim.x) {
		Seen<1> all = {from[0], from[1], {from[2 + c]}};
		for (int i = 1; i < p.parts; i++) {
			const float *x = from + i * (p.dv + 2);
			Seen<1> other = {x[0], x[1], {x[2 + c]}};
			join(all, other);
		}
		finish<T>(p, b, query_of(p, kh, row), c, all.top, all.sum, all.out[0]);
	}
}

#define FEW(T, HEAD, ROWS)                                                                                             \
	extern "C" __global__ void __launch_bounds__(128) attend_few_##T##_##HEAD##_##ROWS(const gpu_attend p)         \
	{                                                                                                              \
		few<T, HEAD, ROWS>(p);                                                                                 \
	}
#define JOIN(T)                                                                                                        \
	extern "C" __global__ void __launch_bounds__(128) attend_join_##T(const gpu_attend p) { join_parts<T>(p); }
// FEW(type, head size, queries in a block). gpu/ops/sdpa.c chooses among these numbers.
FEW(f32, 64, 1) FEW(f32, 64, 4) FEW(f32, 128, 1) FEW(f32, 128, 4)
FEW(f16, 64, 1) FEW(f16, 64, 4) FEW(f16, 128, 1) FEW(f16, 128, 4)
FEW(bf16, 64, 1) FEW(bf16, 64, 4) FEW(bf16, 128, 1) FEW(bf16, 128, 4)
JOIN(f32) JOIN(f16) JOIN(bf16)
