// SPDX-License-Identifier: Apache-2.0
// Products with weights of 2, 4 or 8 bits: few rows straight from the packed weights, many through widened ones.
#include "any.cuh"
#include "nbits.h"

enum { STEP = GPU_NBITS_STEP, ROWS = GPU_NBITS_ROWS };

// Scale and zero point of a block of column n.
struct Block {
	float scale, zero;
};
__device__ inline Block block_of(const gpu_nbits &p, int64_t n, int64_t g)
{
	Block b = {(float)in_real(p.io, 2, n * p.blocks + g), (float)(1 << (p.bits - 1))};
	if (p.io.in[3] && p.io.it[3] == T_U8)
		b.zero = (float)packed_get((const u8 *)p.io.in[3] + n * ((p.blocks * p.bits + 7) / 8), g, p.bits);
	else if (p.io.in[3])
		b.zero = (float)in_real(p.io, 3, n * p.blocks + g);
	return b;
}

// STEP elements from k on, a multiple of STEP: all of one block, whose bytes are there beyond the last k, too.
__device__ inline void widen(const gpu_nbits &p, int64_t n, int64_t k, float *w)
{
	const u8 *b = (const u8 *)p.io.in[1] + (n * p.blocks * p.size + k) * p.bits / 8;
	const Block g = block_of(p, n, k / p.size);
	const u32 mask = (1u << p.bits) - 1;
	u64 v = 0;
	for (int e = 0; e < p.bits; e++)
		v |= (u64)b[e] << 8 * e;
	for (int e = 0; e < STEP; e++)
		w[e] = ((float)((u32)(v >> e * p.bits) & mask) - g.zero) * g.scale;
}

// A warp makes a column of ROWS rows.
template <typename T> __device__ inline void few(const gpu_nbits &p)
{
	const int lane = threadIdx.x % 32;
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32), r0 = blockIdx.y * (int64_t)ROWS;
	const T *a = (const T *)p.io.in[0] + r0 * p.k;
	const int rows = p.rows - r0 < ROWS ? (int)(p.rows - r0) : ROWS;
	for (int64_t n = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; n < p.n; n += warps) {
		float sum[ROWS] = {}, w[STEP];
		for (int64_t k = lane * STEP; k < p.k; k += 32 * STEP) {
			widen(p, n, k, w);
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				for (int e = 0; e < STEP && r < rows; e++)
					sum[r] += k + e < p.k ? up(a[r * p.k + k + e]) * w[e] : 0.0f;
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			for (int o = 16; o; o >>= 1)
				sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], o);
			if (lane == 0 && r < rows)
				((T *)p.io.out[0])[(r0 + r) * p.n + n] =
					down<T>(sum[r] + (p.io.in[5] ? (float)in_real(p.io, 5, n) : 0.0f));
		}
	}
}

// Columns first..first + columns - 1 as rows of k elements.
template <typename T> __device__ inline void wide(const gpu_nbits &p)
{
	const int64_t steps = (p.k + STEP - 1) / STEP;
	T *y = room<T>(p.io, p.at);
	EACH(i, steps * p.columns)
	{
		const int64_t n = i / steps, k = i % steps * STEP;
		float w[STEP];
		widen(p, p.first + n, k, w);
		for (int e = 0; e < STEP && k + e < p.k; e++)
			y[n * p.k + k + e] = down<T>(w[e]);
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void nbits_few_##T(const gpu_nbits p) { few<T>(p); }                                         \
	extern "C" __global__ void nbits_wide_##T(const gpu_nbits p) { wide<T>(p); }
KERNELS(f32)
KERNELS(f16)
KERNELS(bf16)
