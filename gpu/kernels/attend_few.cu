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
	y[c] = down<T>(nothing ? nothing_seen<T>(p, b, q.h, c) : out / sum);
}

enum { FEW_WARPS = 4, FEW_KEYS = 4 };

// What a block reads of its head of keys: the part [begin, end) of the keys, from this thread's first element on.
template <typename T> struct Part {
	const T *k, *v;
	int64_t b, kh, begin, end, keys;
	int at; // this thread's first element of a key
};

template <typename T> __device__ inline Part<T> part_of(const gpu_attend &p, int at)
{
	Part<T> x = {NULL, NULL, blockIdx.z, blockIdx.y % p.kv_heads, (int64_t)blockIdx.x * p.part, 0, 0, at};
	x.keys = keys_of(p, x.b);
	x.end = x.begin + p.part < x.keys ? x.begin + p.part : x.keys;
	x.k = (const T *)p.k + x.b * p.ks[0] + x.kh * p.ks[1] + at;
	x.v = (const T *)p.v + x.b * p.vs[0] + x.kh * p.vs[1] + at;
	return x;
}

// A query, with this thread's elements of it, the keys that it may see, and what it has seen.
template <int EACH> struct Row {
	Query query;
	Range visible;
	float q[EACH];
	Seen<EACH> seen;
};

template <typename T, int EACH> __device__ inline void begin_row(const gpu_attend &p, const Part<T> &part, int64_t row, Row<EACH> &r)
{
	uint4 all = make_uint4(0, 0, 0, 0);

	r.query = query_of(p, part.kh, row);
	r.visible = range(p, part.b, r.query.i, part.keys);
	if (part.at < p.d)
		all = *(const uint4 *)((const T *)p.q + part.b * p.qs[0] + r.query.h * p.qs[1] + r.query.i * p.qs[2] + part.at);
	numbers<T, EACH>(r.q, all);
	r.seen.top = -INFINITY;
	r.seen.sum = 0;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		r.seen.out[e] = 0;
}

// The score of key j times log2(e), or -infinity if it is hidden. LANES threads add up the products of their elements.
template <typename T, int EACH, int LANES>
__device__ inline float score_of(const gpu_attend &p, const Part<T> &part, const Row<EACH> &r, const uint4 &key, int64_t j)
{
	const float log2e = 1.4426950408889634f;
	float x[EACH], s = 0;

	numbers<T, EACH>(x, key);
#pragma unroll
	for (int e = 0; e < EACH; e++)
		s += r.q[e] * x[e];
#pragma unroll
	for (int m = 1; m < LANES; m *= 2)
		s += __shfl_xor_sync(0xffffffffu, s, m);
	s *= p.scale;
	if (p.softcap > 0)
		s = soft_cap(s, p.softcap, true);
	if (j >= part.end || j < r.visible.first || j >= r.visible.end)
		return -INFINITY;
	return masked<float>(p, s, part.b, r.query.h, r.query.i, j) * log2e;
}

// Adds keys of these scores to what has been seen.
template <typename T, int EACH> __device__ inline void see(Seen<EACH> &seen, const float *score, const uint4 *values)
{
	float most = seen.top;
#pragma unroll
	for (int u = 0; u < FEW_KEYS; u++)
		most = fmaxf(most, score[u]);
	float base = most == -INFINITY ? 0.0f : most, by = exp2_of(seen.top - base);
	seen.top = most;
	seen.sum *= by;
#pragma unroll
	for (int e = 0; e < EACH; e++)
		seen.out[e] *= by;
#pragma unroll
	for (int u = 0; u < FEW_KEYS; u++) {
		float x[EACH], w = exp2_of(score[u] - base);
		numbers<T, EACH>(x, values[u]);
		seen.sum += w;
#pragma unroll
		for (int e = 0; e < EACH; e++)
			seen.out[e] += w * x[e];
	}
}

// Joins what the groups of LANES threads of a warp have seen, and leaves it in shared memory, an element a place.
template <int EACH, int LANES> __device__ inline void settle(Seen<EACH> &seen, int at, Seen<1> *shared)
{
	for (int m = LANES; m < 32; m *= 2) {
		Seen<EACH> other;
		other.top = __shfl_xor_sync(0xffffffffu, seen.top, m);
		other.sum = __shfl_xor_sync(0xffffffffu, seen.sum, m);
#pragma unroll
		for (int e = 0; e < EACH; e++)
			other.out[e] = __shfl_xor_sync(0xffffffffu, seen.out[e], m);
		join(seen, other);
	}
	for (int e = 0; e < EACH && threadIdx.x % 32 < LANES; e++) {
		Seen<1> one = {seen.top, seen.sum, {seen.out[e]}};
		shared[at + e] = one;
	}
}

// Writes element c of query `row`: the result if there is one part, otherwise what is known of it after this part.
template <typename T> __device__ inline void put(const gpu_attend &p, const Part<T> &part, int64_t row, int c, const Seen<1> &all)
{
	int64_t rows = p.heads / p.kv_heads * p.s;

	if (p.parts == 1) {
		finish<T>(p, part.b, query_of(p, part.kh, row), c, all.top, all.sum, all.out[0]);
		return;
	}
	float *to = (float *)p.scratch + (((part.b * p.kv_heads + part.kh) * rows + row) * p.parts + blockIdx.x) * (p.dv + 2);
	if (c == 0) {
		to[0] = all.top;
		to[1] = all.sum;
	}
	to[2 + c] = all.out[0];
}

// A block has ROWS queries of one head of keys, and one part of the keys. LANES neighbouring threads hold a key, each 16 bytes
// of it; each thread reads FEW_KEYS keys and their values at once, so that the memory is kept busy.
template <typename T, int HEAD, int ROWS> __device__ inline void few(const gpu_attend &p)
{
	const int EACH = 16 / sizeof(T), LANES = HEAD / EACH, GROUPS = FEW_WARPS * (32 / LANES), group = threadIdx.x / LANES;
	__shared__ Seen<1> shared[FEW_WARPS][ROWS][HEAD];
	const Part<T> part = part_of<T>(p, threadIdx.x % LANES * EACH);
	int64_t row0 = blockIdx.y / p.kv_heads * ROWS, rows = p.heads / p.kv_heads * p.s;
	Row<EACH> row[ROWS];

#pragma unroll
	for (int r = 0; r < ROWS; r++)
		begin_row<T, EACH>(p, part, row0 + r < rows ? row0 + r : 0, row[r]);
	for (int64_t j0 = part.begin + group; j0 - group < part.end; j0 += GROUPS * FEW_KEYS) {
		uint4 keys[FEW_KEYS], values[FEW_KEYS];
#pragma unroll
		for (int u = 0; u < FEW_KEYS; u++) {
			int64_t j = j0 + u * GROUPS;
			keys[u] = values[u] = make_uint4(0, 0, 0, 0);
			if (j < part.end && part.at < p.d)
				keys[u] = *(const uint4 *)(part.k + j * p.ks[2]);
			if (j < part.end && part.at < p.dv)
				values[u] = *(const uint4 *)(part.v + j * p.vs[2]);
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			float score[FEW_KEYS];
#pragma unroll
			for (int u = 0; u < FEW_KEYS; u++)
				score[u] = score_of<T, EACH, LANES>(p, part, row[r], keys[u], j0 + u * GROUPS);
			see<T, EACH>(row[r].seen, score, values);
		}
	}
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		settle<EACH, LANES>(row[r].seen, part.at, shared[threadIdx.x / 32][r]);
	__syncthreads();
	for (int z = threadIdx.x; z < ROWS * HEAD; z += blockDim.x) {
		int r = z / HEAD, c = z % HEAD;
		if (row0 + r >= rows || c >= p.dv)
			continue;
		Seen<1> all = shared[0][r][c];
		for (int w = 1; w < FEW_WARPS; w++)
			join(all, shared[w][r][c]);
		put<T>(p, part, row0 + r, c, all);
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
