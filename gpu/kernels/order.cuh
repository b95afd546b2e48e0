// SPDX-License-Identifier: Apache-2.0
// Sort keys, a bitonic sort of lines of keys, and running counts.
#pragma once
#include "any.cuh"

// Returns an unsigned number that has the same order as the element: NaN comes last, and -0 equals 0.
__device__ inline u64 key_of(int t, const void *p, int64_t i)
{
	if (is_float(t)) {
		double v = any_real(t, p, i);
		if (v != v)
			return UINT64_MAX;
		u64 u = (u64)__double_as_longlong(v + 0.0);
		return u >> 63 ? ~u : u | 1ull << 63;
	}
	u64 v = (u64)any_int(t, p, i);
	return is_signed(t) ? v ^ 1ull << 63 : v;
}

// Orders a pair of a bitonic sequence. If `up` is true, the smaller key comes first.
__device__ inline void order_pair(u64 *key, u32 *index, int64_t a, int64_t b, bool up)
{
	bool more = key[a] > key[b] || (key[a] == key[b] && index[a] > index[b]);
	if (more == up) {
		u64 k = key[a];
		u32 i = index[a];
		key[a] = key[b];
		index[a] = index[b];
		key[b] = k;
		index[b] = i;
	}
}

enum { TILE = 1024 };

// Does the steps of a bitonic merge of `width` keys that stay within a tile. `from` is the distance between the keys
// that the first of these steps compares.
__device__ inline void merge_tile(u64 *key, u32 *index, int64_t base, int n, int64_t width, int from)
{
	for (int s = from; s; s /= 2) {
		__syncthreads();
		for (int t = threadIdx.x; t < n / 2; t += blockDim.x) {
			int a = t / s * 2 * s + t % s;
			order_pair(key, index, a, a + s, ((base + a) & width) == 0);
		}
	}
	__syncthreads();
}

// Sorts each tile if p.width is 0. Otherwise does the last steps of a merge of p.width keys, which stay within a tile.
__device__ inline void sort_tiles(const gpu_io &io, const gpu_sort &p)
{
	__shared__ u64 key[TILE];
	__shared__ u32 index[TILE];
	const int n = p.padded < TILE ? (int)p.padded : TILE;
	const int64_t tiles = p.lines * (p.padded / n);
	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
		u64 *k = workspace<u64>(io, p.at_key) + t * n;
		u32 *x = workspace<u32>(io, p.at_index) + t * n;
		const int64_t base = t % (p.padded / n) * n;
		__syncthreads();
		for (int i = threadIdx.x; i < n; i += blockDim.x) {
			key[i] = k[i];
			index[i] = x[i];
		}
		if (p.width)
			merge_tile(key, index, base, n, p.width, n / 2);
		else
			for (int w = 2; w <= n; w *= 2)
				merge_tile(key, index, base, n, w, w / 2);
		__syncthreads();
		for (int i = threadIdx.x; i < n; i += blockDim.x) {
			k[i] = key[i];
			x[i] = index[i];
		}
	}
}

// Does one step of a merge that is wider than a tile.
__device__ inline void sort_step(const gpu_io &io, const gpu_sort &p)
{
	EACH(i, p.lines * (p.padded / 2))
	{
		int64_t line = i / (p.padded / 2), t = i % (p.padded / 2);
		int64_t a = t / p.step * 2 * p.step + t % p.step;
		order_pair(workspace<u64>(io, p.at_key) + line * p.padded, workspace<u32>(io, p.at_index) + line * p.padded, a,
			   a + p.step, (a & p.width) == 0);
	}
}

// Returns the sum of v over all threads of the block before this one, and sets *all to the sum over all threads.
__device__ inline int64_t running_sum(int64_t v, int64_t *all)
{
	__shared__ int64_t part[32];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int64_t sum = v, before = 0;
	for (int o = 1; o < 32; o *= 2) {
		int64_t w = __shfl_up_sync(0xffffffffu, sum, o);
		if (lane >= o)
			sum += w;
	}
	__syncthreads();
	if (lane == 31)
		part[warp] = sum;
	__syncthreads();
	*all = 0;
	for (int k = 0; k < (int)blockDim.x / 32; k++) {
		before += k < warp ? part[k] : 0;
		*all += part[k];
	}
	return before + sum - v;
}
