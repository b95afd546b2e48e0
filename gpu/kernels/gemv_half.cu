// SPDX-License-Identifier: Apache-2.0
// Products of up to 16 rows by a large matrix B of 16-bit elements whose rows lie in one piece, on tensor cores: as in each step of
// a decoder of several rows, the time goes into reading B, which happens once, without a detour through shared memory. Sums are made
// in float, in an order that only the sizes determine.
#include "product.cuh"

enum {
	ROWS = 16,	// of the tensor cores' products; those that A lacks are zeros
	CHUNK = 16,	// rows of B in such a product
	MOST_WARPS = 16,
	LANES = 33,	// places for 32 lanes in shared memory, so that banks do not conflict
};

__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, f16) { mma_f16(c, a, b0, b1); }
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, bf16) { mma_bf16(c, a, b0, b1); }

// The columns of a block: a row of 8 lanes that read WORDS words each, two columns a word.
template <int WORDS> struct Columns {
	static const int EACH = 2 * WORDS, TILE = 8 * EACH;
};

// What a lane reads of a chunk of B: EACH columns of four rows. The order of rows in a product is free as long as it is that of A's
// columns, so each lane takes four rows beside one another.
template <int WORDS> struct Piece {
	u32 row[4][WORDS];
	__device__ inline void read(const char *from, int64_t step)
	{
#pragma unroll
		for (int r = 0; r < 4; r++)
			if constexpr (WORDS == 4)
				*(uint4 *)row[r] = *(const uint4 *)(from + r * step);
			else if constexpr (WORDS == 2)
				*(uint2 *)row[r] = *(const uint2 *)(from + r * step);
			else
				row[r][0] = *(const u32 *)(from + r * step);
	}
	// Rows r and r + 1 of column e, as the tensor cores want them.
	__device__ inline u32 pair(int r, int e) const
	{
		return __byte_perm(row[r][e / 2], row[r + 1][e / 2], e % 2 ? 0x7632 : 0x5410);
	}
};

// A lane's part of a chunk of A: four columns of rows g and g + 8.
template <typename T> __device__ inline void read_rows(const gpu_gemm &p, int64_t k, u32 *a)
{
	const int g = threadIdx.x % 32 / 4;
	uint2 upper = make_uint2(0, 0), lower = make_uint2(0, 0);
	if (g < p.m)
		upper = *(const uint2 *)((const T *)p.a + g * p.a_row + k);
	if (g + 8 < p.m)
		lower = *(const uint2 *)((const T *)p.a + (g + 8) * p.a_row + k);
	a[0] = upper.x, a[1] = lower.x, a[2] = upper.y, a[3] = lower.y;
}

// Adds the warps' sums: those of the upper half of the warps to those of the lower half, and so on.
template <int SUMS> __device__ inline void add_warps(float *sum, float (*part)[SUMS][LANES])
{
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

	for (int half = blockDim.x / 64; half; half /= 2) {
		if (warp >= half && warp < 2 * half)
#pragma unroll
			for (int i = 0; i < SUMS; i++)
				part[warp - half][i][lane] = sum[i];
		__syncthreads();
		if (warp < half)
#pragma unroll
			for (int i = 0; i < SUMS; i++)
				sum[i] += part[warp][i][lane];
		__syncthreads();
	}
	if (warp == 0)
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			part[0][i][lane] = sum[i];
	__syncthreads();
}

// Each warp has every n-th group of AHEAD chunks of K, for all columns of the block.
template <typename T, int WORDS> __device__ inline void few_rows(const gpu_gemm &p)
{
	const int AHEAD = 4 / WORDS, EACH = Columns<WORDS>::EACH, TILE = Columns<WORDS>::TILE, SUMS = 4 * EACH;
	__shared__ float part[MOST_WARPS / 2][SUMS][LANES];
	const int lane = threadIdx.x % 32, t = lane % 4;
	const int64_t col = blockIdx.x * (int64_t)TILE + lane / 4 * EACH, step = (int64_t)(blockDim.x / 32) * AHEAD * CHUNK;
	const bool there = col < p.n;
	const int64_t row_bytes = p.b_row * (int64_t)sizeof(T);
	const char *b = (const char *)((const T *)p.b + (there ? col : 0));
	float sum[SUMS] = {};
	Piece<WORDS> now[AHEAD], next[AHEAD];
	int64_t k0 = threadIdx.x / 32 * (int64_t)AHEAD * CHUNK;

	begin_product(p, [&] {
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (k0 + u * CHUNK < p.k)
				now[u].read(b + (k0 + u * CHUNK + 4 * t) * row_bytes, row_bytes);
	});
	for (; k0 < p.k; k0 += step) {
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (k0 + step + u * CHUNK < p.k)
				next[u].read(b + (k0 + step + u * CHUNK + 4 * t) * row_bytes, row_bytes);
#pragma unroll
		for (int u = 0; u < AHEAD; u++) {
			u32 a[4];
			if (k0 + u * CHUNK >= p.k)
				continue;
			read_rows<T>(p, k0 + u * CHUNK + 4 * t, a);
#pragma unroll
			for (int e = 0; e < EACH; e++)
				mma(sum + 4 * e, a, now[u].pair(0, e), now[u].pair(2, e), T());
		}
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			now[u] = next[u];
	}
	add_warps<SUMS>(sum, part);
	for (int i = threadIdx.x; i < ROWS * TILE; i += blockDim.x) {
		const int row = i / TILE, c = i % TILE, place = c / EACH;
		const int64_t at = blockIdx.x * (int64_t)TILE + c;
		if (row < p.m && at < p.n)
			put_product<T>(p, row * p.n + at, row * p.c_row + at * p.c_col,
				       part[0][c % EACH * 4 + row / 8 * 2 + place % 2][row % 8 * 4 + place / 2]);
	}
}

#define FEW(T, WORDS)                                                                                                  \
	extern "C" __global__ void __launch_bounds__(512) gemv_half_##WORDS##_##T(const __grid_constant__ gpu_gemms p) \
	{                                                                                                              \
		few_rows<T, WORDS>(p.job[blockIdx.z]);                                                                 \
	}
FEW(f16, 1) FEW(f16, 2) FEW(f16, 4) FEW(bf16, 1) FEW(bf16, 2) FEW(bf16, 4)
