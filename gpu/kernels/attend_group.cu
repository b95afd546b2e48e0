// SPDX-License-Identifier: Apache-2.0
// Attention over few keys by warpgroups (sm_90a), for heads of 64 16-bit elements: all keys and values of a head lie in shared memory,
// and a warpgroup has the scores of 64 queries with all of the keys in registers.
#include "attend.cuh"
#include "attend_group.h"
#include "float8.cuh"

#ifdef WARPGROUPS

enum { THREADS = 128, HEAD = 64, ROW = 128, QUERIES = 64, TILE = QUERIES * ROW }; // bytes of a row; rows, bytes of a tile of queries

// How keys are hidden from queries: not at all, by ranges that differ from query to query, by a mask that is the same for all queries of a
// head, or by one that can be read two elements at a time. Keys that are not there are hidden in all forms.
enum Hiding { ALL, RANGES, ROW_MASK, PAIR_MASK };

template <typename T> struct Tensor;
template <> struct Tensor<f16> {
	template <int KEYS> static __device__ inline void scores(float *c, uint64_t q, uint64_t k) { group_multiply_f16<KEYS>(c, q, k); }
	static __device__ inline void values(float *c, const u32 *p, uint64_t v) { group_turned_f16(c, p, v); }
};
template <> struct Tensor<bf16> {
	template <int KEYS> static __device__ inline void scores(float *c, uint64_t q, uint64_t k) { group_multiply_bf16<KEYS>(c, q, k); }
	static __device__ inline void values(float *c, const u32 *p, uint64_t v) { group_turned_bf16(c, p, v); }
};

// Starts copies of COUNT rows from row0 on, permuted as group_tile() wants them; rows from `end` on become zeros.
template <int COUNT, typename T> __device__ inline void fetch_rows(u8 *to, const T *from, int64_t step, int row0, int end)
{
	const int piece = threadIdx.x % 8, row = threadIdx.x / 8;
	u8 *const at = to + row * ROW + (piece ^ row % 8) * 16;
	from += (row0 + row) * step + piece * 8;
#pragma unroll
	for (int i = 0; i < COUNT; i += 16)
		fetch16(at + i * ROW, from + i * step, row0 + row + i < end);
}

// Makes operands of the next product out of the scores of a thread's two rows: exponentials of `factor` times what a score is below the largest of its
// row. Returns each row's sum of them.
template <typename T, int KEYS> __device__ inline float2 exponentials(const float *s, float factor, u32 *p)
{
	float most[2][2], sum[2][2] = {};
#pragma unroll
	for (int e = 0; e < 4; e++)
		most[e / 2][e % 2] = s[e];
#pragma unroll
	for (int e = 4; e < KEYS / 2; e++)
		most[e / 2 % 2][e % 2] = fmaxf(most[e / 2 % 2][e % 2], s[e]);
	float base[2];
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float m = fmaxf(most[r][0], most[r][1]);
		m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
		m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
		base[r] = m == -INFINITY ? 0.f : m;
	}
#pragma unroll
	for (int e = 0; e < KEYS / 4; e++) {
		// subtracted first: the rounding error of a huge score times the factor would be huge itself
		const float a = exp2_of((s[2 * e] - base[e % 2]) * factor), b = exp2_of((s[2 * e + 1] - base[e % 2]) * factor);
		sum[e % 2][0] += a;
		sum[e % 2][1] += b;
		p[e] = pair(a, b, T());
	}
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float &all = sum[r][0];
		all += sum[r][1];
		all += __shfl_xor_sync(0xffffffffu, all, 1);
		all += __shfl_xor_sync(0xffffffffu, all, 2);
	}
	return {sum[0][0], sum[1][0]};
}

// Writes a warp's 16 rows, which pass through its part of `put` on their way.
template <typename T>
__device__ inline void put_rows(const gpu_attend &p, int64_t b, int64_t h, int row0, u8 *put, const float *out, float2 sums)
{
	const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int row = lane / 4 + r * 8;
		const float sum = r ? sums.y : sums.x, each = 1.f / sum;
#pragma unroll
		for (int n = 0; n < 8; n++)
			*(u32 *)(put + row * ROW + (n ^ row % 8) * 16 + t * 4) =
				pair(out[4 * n + 2 * r] * each, out[4 * n + 2 * r + 1] * each, T());
		if (row0 + row < p.s && ((p.safe && sum == 0) || (p.nan_to_zero && sum != sum)))
#pragma unroll 1
			for (int n = 0; n < 8; n++)
				*(u32 *)(put + row * ROW + (n ^ row % 8) * 16 + t * 4) =
					pair(nothing_seen<T>(p, b, h, n * 8 + 2 * t), nothing_seen<T>(p, b, h, n * 8 + 2 * t + 1), T());
	}
	__syncwarp();
	T *const y = (T *)p.y + b * p.ys[0] + h * p.ys[1] + lane % 8 * 8;
#pragma unroll
	for (int i = 0; i < 16; i += 4) {
		const int row = i + lane / 8;
		if (row0 + row < p.s)
			*(uint4 *)(y + (row0 + row) * p.ys[2]) = *(const uint4 *)(put + row * ROW + (lane ^ row) % 8 * 16);
	}
}

// The same rows times `by` as float8. Two of them lie in 128 bytes; 16 bytes of row i are permuted by i / 2.
template <typename T>
__device__ inline void put_rows_float8(const gpu_attend &p, int64_t b, int64_t h, int row0, u8 *put, const float *out, float2 sums, float by)
{
	const int lane = threadIdx.x % 32, t = lane % 4, half = ROW / 2;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int row = lane / 4 + r * 8;
		const float sum = r ? sums.y : sums.x, each = 1.f / sum;
		u8 *const to = put + row * half + 2 * t;
#pragma unroll
		for (int n = 0; n < 8; n++) {
			const float v[2] = {out[4 * n + 2 * r] * each, out[4 * n + 2 * r + 1] * each};
			store_float8<2>(to + (n / 2 ^ row / 2 % 4) * 16 + n % 2 * 8, v, by);
		}
		if (row0 + row < p.s && ((p.safe && sum == 0) || (p.nan_to_zero && sum != sum)))
#pragma unroll 1
			for (int n = 0; n < 8; n++) {
				const float v[2] = {nothing_seen<T>(p, b, h, n * 8 + 2 * t), nothing_seen<T>(p, b, h, n * 8 + 2 * t + 1)};
				store_float8<2>(to + (n / 2 ^ row / 2 % 4) * 16 + n % 2 * 8, v, by);
			}
	}
	__syncwarp();
	u8 *const y = (u8 *)p.y + b * p.ys[0] + h * p.ys[1] + t * 16;
#pragma unroll
	for (int i = 0; i < 16; i += 8) {
		const int row = i + lane / 4;
		if (row0 + row < p.s)
			*(uint4 *)(y + (row0 + row) * p.ys[2]) = *(const uint4 *)(put + row * half + (t ^ row / 2 % 4) * 16);
	}
}

// Hides the keys that are beyond the range of their query. Most groups of eight keys are in the ranges of all of a warp's queries, and not looked at.
template <int KEYS, Hiding HIDING>
__device__ inline void hide(const gpu_attend &p, int64_t b, float *s, int keys, int row0)
{
	const int lane = threadIdx.x % 32, t = lane % 4;
	int first[2] = {0, 0}, end[2] = {keys, keys}, all_first = 0, all_end = keys;
	if (HIDING == RANGES) {
		const int last = row0 + 15 < (int)p.s ? row0 + 15 : (int)p.s - 1;
		all_first = (int)range(p, b, last, keys).first;
		all_end = (int)range(p, b, row0, keys).end;
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const Range own = range(p, b, row0 + lane / 4 + r * 8, keys);
			first[r] = (int)own.first;
			end[r] = (int)own.end;
		}
	}
	all_first = uniform(all_first);
	all_end = uniform(all_end);
#pragma unroll
	for (int n = 0; n < KEYS / 8; n++) {
		if (n * 8 >= all_first && n * 8 + 8 <= all_end)
			continue;
#pragma unroll
		for (int e = 0; e < 4; e++) {
			const int j = n * 8 + 2 * t + e % 2, r = e / 2;
			if (!(j >= first[r] && j < end[r]))
				s[4 * n + e] = -INFINITY;
		}
	}
}

// The mask's pairs for a thread's two rows; 0 for keys from `seen` on.
template <typename T, int KEYS>
__device__ inline void load_pairs(const gpu_attend &p, int64_t b, int64_t h, int row0, int seen, u32 *pairs)
{
	const int lane = threadIdx.x % 32, j = lane % 4 * 2;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int row = row0 + lane / 4 + r * 8, end = row < p.s ? seen : 0;
		const T *const m = (const T *)p.mask + b * p.ms[0] + h * p.ms[1] + row * p.ms[2] + j;
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
			pairs[2 * n + r] = n * 8 + j < end ? *(const u32 *)(m + n * 8) : 0;
	}
}

// Scales the scores and adds the mask to them: its pairs, or the row of it in shared memory.
template <typename T, int KEYS, Hiding HIDING>
__device__ inline void add_mask(const gpu_attend &p, float *s, const u32 *pairs, const float *row)
{
#pragma unroll
	for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			float2 more;
			if (HIDING == ROW_MASK)
				more = *(const float2 *)(row + n * 8 + threadIdx.x % 4 * 2);
			else
				more = load_pair((const T *)&pairs[2 * n + r]);
			float &x = s[4 * n + 2 * r], &y = s[4 * n + 2 * r + 1];
			x = more.x == -INFINITY ? more.x : x * p.scale + more.x;
			y = more.y == -INFINITY ? more.y : y * p.scale + more.y;
		}
}

// The scores of a tile of queries with all keys.
template <typename T, int KEYS> __device__ inline void score(float (&s)[KEYS / 2], const u8 *queries, const u8 *keys)
{
	const uint64_t q = group_tile<ROW>(queries), k = group_tile<ROW>(keys);
#pragma unroll
	for (int e = 0; e < KEYS / 2; e++)
		s[e] = 0;
	group_begin();
#pragma unroll
	for (int i = 0; i < ROW / 32; i++)
		Tensor<T>::template scores<KEYS>(s, q + 2 * i, k + 2 * i);
	group_end();
	group_wait<0>();
	group_keep(s);
}

// The sums of all values, each as often as it is probable.
template <typename T, int KEYS> __device__ inline void weigh(float (&out)[HEAD / 2], const u32 *probable, const u8 *values)
{
	const uint64_t v = group_tile<ROW>(values);
#pragma unroll
	for (int e = 0; e < HEAD / 2; e++)
		out[e] = 0;
	group_begin();
#pragma unroll
	for (int i = 0; i < KEYS / 16; i++)
		Tensor<T>::values(out, probable + 4 * i, group_rows<ROW>(v, i * 16));
	group_end();
	group_wait<0>();
	group_keep(out);
}

// FLOAT8: y is float8, and multiplied by `by` first.
template <typename T, int KEYS, Hiding HIDING, bool FLOAT8 = false> __device__ inline void attend(const gpu_attend &p, float by = 1)
{
	SHARED_ROOM(u8, room);
	u8 *const ks = room, *const vs = ks + KEYS * ROW, *const qs = vs + KEYS * ROW;
	float *const row_mask = (float *)(qs + 2 * TILE);
	const int64_t h = blockIdx.y, b = blockIdx.z, kh = blockIdx.y / ((u32)p.heads / (u32)p.kv_heads);
	const int tiles = ((int)p.s + QUERIES - 1) / QUERIES, warp = uniform(threadIdx.x / 32);

	start_early();
	const int keys = (int)keys_of(p, b), seen = HIDING == PAIR_MASK && p.mask_keys < keys ? (int)p.mask_keys : keys;
	const T *const q = (const T *)p.q + b * p.qs[0] + h * p.qs[1];
	fetch_rows<QUERIES>(qs, q, p.qs[2], blockIdx.x * QUERIES, (int)p.s);
	fetch_rows<KEYS>(ks, (const T *)p.k + b * p.ks[0] + kh * p.ks[1], p.ks[2], 0, keys);
	fetch_end();
	fetch_rows<KEYS>(vs, (const T *)p.v + b * p.vs[0] + kh * p.vs[1], p.vs[2], 0, keys);
	fetch_end();
	if (HIDING == ROW_MASK)
		for (int j = threadIdx.x; j < KEYS; j += THREADS)
			row_mask[j] = j < keys && j < p.mask_keys
					      ? up(((const T *)p.mask)[b * p.ms[0] + h * p.ms[1] + j * p.ms[3]])
					      : -INFINITY;
	const float factor = (HIDING == ALL || HIDING == RANGES ? p.scale : 1.f) * 1.4426950408889634f; // of what the softmax sees
	u8 *mine = qs, *next = qs + TILE;
	for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		const bool first_tile = tile == blockIdx.x;
		const int row0 = tile * QUERIES + warp * 16;
		u32 pairs[HIDING == PAIR_MASK ? KEYS / 4 : 1], probable[KEYS / 4];
		float s[KEYS / 2], out[HEAD / 2];
		if (first_tile)
			fetch_wait<1>();
		else
			fetch_wait<0>();
		group_sees();
		__syncthreads(); // the last results have left `next`, too
		if (tile + gridDim.x < tiles)
			fetch_rows<QUERIES>(next, q, p.qs[2], (tile + gridDim.x) * QUERIES, (int)p.s);
		fetch_end();
		if (HIDING == PAIR_MASK)
			load_pairs<T, KEYS>(p, b, h, row0, seen, pairs);
		score<T, KEYS>(s, mine, ks);
		if (HIDING == ROW_MASK || HIDING == PAIR_MASK)
			add_mask<T, KEYS, HIDING>(p, s, pairs, row_mask);
		if (HIDING != ROW_MASK && (HIDING == RANGES || seen < KEYS))
			hide<KEYS, HIDING>(p, b, s, seen, row0);
		const float2 sums = exponentials<T, KEYS>(s, factor, probable);
		if (first_tile) {
			fetch_wait<1>();
			group_sees();
		}
		__syncthreads(); // all warps have used the queries up, and the values are there
		weigh<T, KEYS>(out, probable, vs);
		if (FLOAT8)
			put_rows_float8<T>(p, b, h, row0, mine + warp * 16 * ROW, out, sums, by);
		else
			put_rows<T>(p, b, h, row0, mine + warp * 16 * ROW, out, sums);
		u8 *const used = mine;
		mine = next;
		next = used;
	}
}

#define KERNEL(T, KEYS, BLOCKS, HIDING)                                                                                        \
	extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attend_##T##_##KEYS##_##HIDING(const __grid_constant__ gpu_attend p) \
	{                                                                                                                      \
		attend<T, KEYS, HIDING>(p);                                                                                    \
	}
#define FORMS(T, KEYS, BLOCKS) KERNEL(T, KEYS, BLOCKS, ALL) KERNEL(T, KEYS, BLOCKS, RANGES) KERNEL(T, KEYS, BLOCKS, ROW_MASK)
#define KERNEL_F8(KEYS, BLOCKS, HIDING)                                                                                        \
	extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                          \
		attend_f8_##KEYS##_##HIDING(const __grid_constant__ gpu_attend_float8 p)                                       \
	{                                                                                                                      \
		attend<f16, KEYS, HIDING, true>(p.attend, p.by);                                                               \
	}
#define FORMS_F8(KEYS, BLOCKS) KERNEL_F8(KEYS, BLOCKS, ALL) KERNEL_F8(KEYS, BLOCKS, RANGES) KERNEL_F8(KEYS, BLOCKS, ROW_MASK)
#define TYPES(KEYS, BLOCKS)    FORMS(f16, KEYS, BLOCKS) FORMS(bf16, KEYS, BLOCKS) FORMS_F8(KEYS, BLOCKS)
GPU_ATTEND_GROUP_KEYS(TYPES)
KERNEL_F8(128, 3, PAIR_MASK)
KERNEL(f16, 128, 3, PAIR_MASK)
KERNEL(bf16, 128, 3, PAIR_MASK)
#endif
