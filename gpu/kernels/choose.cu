// SPDX-License-Identifier: Apache-2.0
// Chooses a decoder's next ids where their scores are, so that the next step can begin before the host has seen them.
#include "choose.h"
#include "common.cuh"

// A number in the order of a score with this magnitude, NaN first of all; of equal scores the first has the larger number.
__device__ inline u64 rank_of(u32 magnitude, bool negative, u32 infinity, i64 i)
{
	u32 order = 0x80000000u + (negative ? 0u - magnitude : magnitude);
	return magnitude > infinity ? 0 : (u64)order << 32 | (0xffffffffu - (u32)i);
}

template <typename T> __device__ inline u64 rank_at(int type, T bits, i64 i)
{
	if (sizeof(T) == 4)
		return rank_of(bits & 0x7fffffffu, bits >> 31, 0x7f800000u, i);
	return rank_of(bits & 0x7fffu, bits >> 15 & 1, type == T_F16 ? 0x7c00u : 0x7f80u, i);
}

// The largest rank that the thread meets. Rows that begin at multiples of 16 bytes are read so many bytes at a time.
template <typename T> __device__ inline u64 best_of(const gpu_choose &p, const T *row)
{
	enum { V = 16 / sizeof(T) };
	const i64 whole = (uintptr_t)row % 16 ? 0 : p.n / V * V;
	u64 best = 0;
#pragma unroll 4
	for (i64 i = (i64)threadIdx.x * V; i < whole; i += (i64)blockDim.x * V) {
		const uint4 raw = *(const uint4 *)(row + i);
		const T *e = (const T *)&raw;
		for (int k = 0; k < V; k++) {
			u64 r = rank_at<T>(p.type, e[k], i + k);
			best = r > best ? r : best;
		}
	}
	for (i64 i = whole + threadIdx.x; i < p.n; i += blockDim.x) {
		u64 r = rank_at<T>(p.type, row[i], i);
		best = r > best ? r : best;
	}
	return best;
}

struct larger_rank {
	__device__ u64 operator()(u64 a, u64 b) const { return a > b ? a : b; }
};

// A block for each row.
extern "C" __global__ void choose_ids(const gpu_choose p)
{
	const i64 row = blockIdx.x;
	// Read while the scores are: the fault lies in the host's memory, which takes longer than all the rest.
	const i64 last = threadIdx.x ? 0 : p.wide ? ((const i64 *)p.ids)[row] : ((const i32 *)p.ids)[row];
	const i64 fault = threadIdx.x || row ? 0 : (i64)*p.fault;
	u64 best = p.type == T_F32 ? best_of(p, (const u32 *)p.scores + row * p.step)
				   : best_of(p, (const u16 *)p.scores + row * p.step);

	best = block_all(best, larger_rank());
	if (threadIdx.x)
		return;
	i64 id = best >> 32 ? (i64)(0xffffffffu - (u32)best) : -1;
	for (i64 k = 0; k < p.nuntil; k++)
		if (p.until[k] == last)
			id = last;
	p.chosen[row] = id;
	if (p.wide)
		((i64 *)p.ids)[row] = id < 0 ? 0 : id;
	else
		((i32 *)p.ids)[row] = id < 0 ? 0 : (i32)id;
	if (!row)
		p.chosen[gridDim.x] = fault;
}
