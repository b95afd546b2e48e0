// SPDX-License-Identifier: Apache-2.0
// Attention over few keys by warpgroups (sm_90a), for heads of 64 16-bit elements: all keys and values of a head lie in shared memory,
// and a warpgroup has the scores of 64 queries with all of the keys in registers.
#include "attend.cuh"
#include "attend_group.h"

#ifdef WARPGROUPS

enum { ROW = 128, QUERIES = 64, TILE = QUERIES * ROW }; // bytes of a row; rows, bytes of a tile of queries

// NO_MASK; ROW_MASK: the mask is the same for all queries of a head; PAIR_MASK: it can be read two elements at a time.
enum Mask { NO_MASK, ROW_MASK, PAIR_MASK };

template <typename T> struct Tensor;
template <> struct Tensor<f16> {
	template <int KEYS> static __device__ inline void scores(float *c, uint64_t q, uint64_t k) { group_multiply_f16<KEYS>(c, q, k); }
	static __device__ inline void values(float *c, const u32 *p, uint64_t v) { group_turned_f16(c, p, v); }
	static __device__ inline float2 pair(u32 v) { return __half22float2(*(__half2 *)&v); }
	static __device__ inline u32 pair(float a, float b)
	{
		const __half2 v = __floats2half2_rn(a, b);
		return *(const u32 *)&v;
	}
};
template <> struct Tensor<bf16> {
	template <int KEYS> static __device__ inline void scores(float *c, uint64_t q, uint64_t k) { group_multiply_bf16<KEYS>(c, q, k); }
	static __device__ inline void values(float *c, const u32 *p, uint64_t v) { group_turned_bf16(c, p, v); }
	static __device__ inline float2 pair(u32 v) { return __bfloat1622float2(*(__nv_bfloat162 *)&v); }
	static __device__ inline u32 pair(float a, float b)
	{
		const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
		return *(const u32 *)&v;
	}
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

// What a mask adds to a score, for exp2: -infinity alone hides a key, the lowest number does not.
__device__ inline float for_exp2(float add)
{
	return add == -INFINITY ? add : fmaxf(add * 1.4426950408889634f, -3.4028234e38f);
}

// The largest score of each of a thread's two rows, their exponentials below it as operands of the next product, and their sum.
template <typename T, int KEYS> __device__ inline void exponentials(const float *s, u32 *p, float *sum)
{
	float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
	for (int e = 0; e < KEYS / 2; e++)
		most[e / 2 % 2] = fmaxf(most[e / 2 % 2], s[e]);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
		most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
		most[r] = most[r] == -INFINITY ? 0.f : most[r];
		sum[r] = 0;
	}
#pragma unroll
	for (int e = 0; e < KEYS / 4; e++) {
		const float a = exp2_of(s[2 * e] - most[e % 2]), b = exp2_of(s[2 * e + 1] - most[e % 2]);
		sum[e % 2] += a + b;
		p[e] = Tensor<T>::pair(a, b);
	}
#pragma unroll
	for (int r = 0; r < 2; r++) {
		sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
		sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
	}
}

// Writes a warp's 16 rows, which pass through its part of `put` on their way.
template <typename T> __device__ inline void put_rows(const gpu_attend &p, int64_t b, int64_t h, int row0, u8 *put, const float *out, const float *sum)
{
	const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int row = lane / 4 + r * 8;
		const bool nothing = row0 + row < p.s && ((p.safe && sum[r] == 0) || (p.nan_to_zero && sum[r] != sum[r]));
		const float each = 1.f / sum[r];
#pragma unroll
		for (int n = 0; n < 8; n++) {
			float v[2] = {out[4 * n + 2 * r] * each, out[4 * n + 2 * r + 1] * each};
			for (int e = 0; e < 2 && nothing; e++)
				v[e] = nothing_seen<T>(p, b, h, n * 8 + 2 * t + e);
			*(u32 *)(put + row * ROW + (n ^ row % 8) * 16 + t * 4) = Tensor<T>::pair(v[0], v[1]);
		}
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

template <typename T, int KEYS, Mask MASK> __device__ inline void attend(const gpu_attend &p)
{
	SHARED_ROOM(u8, room);
	u8 *const ks = room, *const vs = ks + KEYS * ROW, *const qs = vs + KEYS * ROW;
	float *const add = (float *)(qs + 2 * TILE);
	const int64_t h = blockIdx.y, b = blockIdx.z, kh = blockIdx.y / ((u32)p.heads / (u32)p.kv_heads);
	const int tiles = ((int)p.s + QUERIES - 1) / QUERIES, lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4;

	start_early();
	const int keys = (int)keys_of(p, b);
	const T *const q = (const T *)p.q + b * p.qs[0] + h * p.qs[1];
	fetch_rows<QUERIES>(qs, q, p.qs[2], blockIdx.x * QUERIES, (int)p.s);
	fetch_rows<KEYS>(ks, (const T *)p.k + b * p.ks[0] + kh * p.ks[1], p.ks[2], 0, keys);
	fetch_end();
	fetch_rows<KEYS>(vs, (const T *)p.v + b * p.vs[0] + kh * p.vs[1], p.vs[2], 0, keys);
	fetch_end();
	if (MASK == ROW_MASK)
		for (int j = threadIdx.x; j < KEYS; j += 128)
			add[j] = j < keys && j < p.mask_keys
					 ? for_exp2(up(((const T *)p.mask)[b * p.ms[0] + h * p.ms[1] + j * p.ms[3]]))
					 : -INFINITY;
	const float factor = p.scale * 1.4426950408889634f;
	u8 *mine = qs;
	for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		const bool first_tile = tile == blockIdx.x;
		u8 *const next = mine == qs ? qs + TILE : qs;
		if (first_tile)
			fetch_wait<1>();
		else
			fetch_wait<0>();
		group_sees();
		__syncthreads(); // the last results have left `next`, too
		if (tile + gridDim.x < tiles)
			fetch_rows<QUERIES>(next, q, p.qs[2], (tile + gridDim.x) * QUERIES, (int)p.s);
		fetch_end();

		const int row0 = tile * QUERIES + warp * 16;
		u32 masks[MASK == PAIR_MASK ? KEYS / 4 : 1];
		int first[2], end[2];
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const int row = row0 + lane / 4 + r * 8;
			const Range own = range(p, b, row, keys);
			first[r] = (int)own.first;
			end[r] = row < p.s ? (int)own.end : 0;
			if (MASK == PAIR_MASK) {
				const T *const m = (const T *)p.mask + b * p.ms[0] + h * p.ms[1] + row * p.ms[2];
				end[r] = end[r] < p.mask_keys ? end[r] : (int)p.mask_keys;
#pragma unroll
				for (int n = 0; n < KEYS / 8; n++)
					masks[2 * n + r] = n * 8 + 2 * t < end[r] ? *(const u32 *)(m + n * 8 + 2 * t) : 0;
			}
		}
		float s[KEYS / 2];
#pragma unroll
		for (int e = 0; e < KEYS / 2; e++)
			s[e] = 0;
		const uint64_t left = group_tile<ROW>(mine), right = group_tile<ROW>(ks);
		group_begin();
#pragma unroll
		for (int i = 0; i < ROW / 32; i++)
			Tensor<T>::template scores<KEYS>(s, left + 2 * i, right + 2 * i);
		group_end();
		group_wait<0>();
		group_keep(s);
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++) {
			const int j = n * 8 + 2 * t;
			float2 more[2];
			if (MASK == ROW_MASK)
				more[0] = more[1] = *(const float2 *)(add + j);
			if (MASK == PAIR_MASK)
#pragma unroll
				for (int r = 0; r < 2; r++) {
					const float2 m = Tensor<T>::pair(masks[2 * n + r]);
					more[r] = {for_exp2(m.x), for_exp2(m.y)};
				}
			const bool whole = first[0] <= n * 8 && end[0] >= n * 8 + 8 && first[1] <= n * 8 && end[1] >= n * 8 + 8;
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const float a = MASK == NO_MASK ? 0.f : e % 2 ? more[e / 2].y : more[e / 2].x;
				float &x = s[4 * n + e];
				x = MASK == NO_MASK ? x * factor : a == -INFINITY ? a : x * factor + a;
				if (!whole && !(j + e % 2 >= first[e / 2] && j + e % 2 < end[e / 2]))
					x = -INFINITY;
			}
		}
		u32 probable[KEYS / 4];
		float sum[2], out[32];
		exponentials<T, KEYS>(s, probable, sum);
		if (first_tile) {
			fetch_wait<1>();
			group_sees();
		}
		__syncthreads(); // all warps have used the queries up, and the values are there
#pragma unroll
		for (int e = 0; e < 32; e++)
			out[e] = 0;
		const uint64_t values = group_tile<ROW>(vs);
		group_begin();
#pragma unroll
		for (int i = 0; i < KEYS / 16; i++)
			Tensor<T>::values(out, probable + 4 * i, group_rows<ROW>(values, i * 16));
		group_end();
		group_wait<0>();
		group_keep(out);
		put_rows<T>(p, b, h, row0, mine + warp * 16 * ROW, out, sum);
		mine = next;
	}
}

#define KERNEL(T, KEYS, BLOCKS, MASK)                                                                                        \
	extern "C" __global__ void __launch_bounds__(128, BLOCKS) attend_##T##_##KEYS##_##MASK(const __grid_constant__ gpu_attend p) \
	{                                                                                                                    \
		attend<T, KEYS, MASK>(p);                                                                                    \
	}
#define MASKS(T, KEYS, BLOCKS) KERNEL(T, KEYS, BLOCKS, NO_MASK) KERNEL(T, KEYS, BLOCKS, ROW_MASK)
#define TYPES(KEYS, BLOCKS)    MASKS(f16, KEYS, BLOCKS) MASKS(bf16, KEYS, BLOCKS)
GPU_ATTEND_GROUP_KEYS(TYPES)
KERNEL(f16, 128, 3, PAIR_MASK)
KERNEL(bf16, 128, 3, PAIR_MASK)
#endif
