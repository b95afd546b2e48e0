// SPDX-License-Identifier: Apache-2.0
// Products of few rows by a large matrix B, as in each step of a decoder: the time goes into reading B, which happens once for M
// rows, 16 bytes at a time, with several reads of each thread under way. Sums are made in float, in an order that only the
// sizes determine.
#include "product.cuh"

enum {
	ROWS_AHEAD = 4, // reads of a thread that are under way at a time
	MOST_WARPS = 16,
};

// EACH elements that are read at once: 16 bytes, or a single one.
template <typename T, int EACH> struct Piece {
	uint4 raw;
	__device__ void read(const T *from)
	{
		raw = *(const uint4 *)from;
	}
	__device__ float operator[](int e) const
	{
		return up(((const T *)&raw)[e]);
	}
};
template <typename T> struct Piece<T, 1> {
	T raw;
	__device__ void read(const T *from)
	{
		raw = *from;
	}
	__device__ float operator[](int) const
	{
		return up(raw);
	}
};

// Row m of this block's rows of A. Rows beyond the last repeat it, and are not stored.
template <typename T, int M> __device__ inline const T *row_of(const gpu_gemm &p, int m)
{
	int64_t row = blockIdx.y * (int64_t)M + m;
	return (const T *)p.a + (row < p.m ? row : p.m - 1) * p.a_row;
}

template <typename T, int M>
__device__ inline void put_row(const gpu_gemm &p, int m, int64_t col, float v)
{
	int64_t row = blockIdx.y * (int64_t)M + m;
	if (row < p.m && col < p.n)
		put_product<T>(p, row * p.n + col, row * p.c_row + col * p.c_col, v);
}

// B's rows lie in one piece each. SIDE threads read beside one another in a row; threads with the same lane read the same columns
// of different rows.
template <typename T, int M, int SIDE, int EACH>
__device__ inline void gemv_by_rows(const gpu_gemm &p)
{
	const int TILE = SIDE * EACH, AHEAD = ROWS_AHEAD;
	__shared__ float part[MOST_WARPS][M][TILE];
	const int lane = threadIdx.x % SIDE, warp = threadIdx.x / 32, groups = blockDim.x / SIDE;
	const int64_t col = blockIdx.x * (int64_t)TILE + lane * EACH;
	const T *b = (const T *)p.b + col;
	float sum[M][EACH] = {};
	Piece<T, EACH> w[AHEAD];
	auto read = [&](int64_t k0) {
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (k0 + u * groups < p.k && col < p.n)
				w[u].read(b + (k0 + u * groups) * p.b_row);
	};

	begin_product(p, [&] { read(threadIdx.x / SIDE); });
	for (int64_t k0 = threadIdx.x / SIDE; k0 < p.k && col < p.n; k0 += AHEAD * groups, read(k0)) {
#pragma unroll
		for (int u = 0; u < AHEAD; u++) {
			if (k0 + u * groups >= p.k)
				continue;
#pragma unroll
			for (int m = 0; m < M; m++) {
				float a = up(row_of<T, M>(p, m)[k0 + u * groups]);
#pragma unroll
				for (int e = 0; e < EACH; e++)
					sum[m][e] += a * w[u][e];
			}
		}
	}
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int e = 0; e < EACH; e++) {
			for (int o = SIDE; o < 32; o *= 2)
				sum[m][e] += __shfl_xor_sync(0xffffffffu, sum[m][e], o);
			if (threadIdx.x % 32 < SIDE)
				part[warp][m][lane * EACH + e] = sum[m][e];
		}
	__syncthreads();
	for (int i = threadIdx.x; i < M * TILE; i += blockDim.x) {
		float all = 0;
		for (int w = 0; w < (int)blockDim.x / 32; w++)
			all += part[w][i / TILE][i % TILE];
		put_row<T, M>(p, i / TILE, blockIdx.x * (int64_t)TILE + i % TILE, all);
	}
}

// B's columns lie in one piece each, and a warp computes one.
template <typename T, int M> __device__ inline void gemv_by_columns(const gpu_gemm &p)
{
	const int EACH = 16 / sizeof(T), AHEAD = 32 / EACH, lane = threadIdx.x % 32;
	const int64_t col = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32,
		      step = 32 * EACH;
	const T *b = (const T *)p.b + col * p.b_col;
	float sum[M] = {};
	Piece<T, EACH> w[AHEAD];
	auto read = [&](int64_t k0) {
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (k0 + u * step < p.k && col < p.n)
				w[u].read(b + k0 + u * step);
	};

	begin_product(p, [&] { read(lane * EACH); });
	if (col >= p.n)
		return;
	for (int64_t k0 = lane * EACH; k0 < p.k; k0 += AHEAD * step, read(k0)) {
#pragma unroll
		for (int u = 0; u < AHEAD; u++) {
			if (k0 + u * step >= p.k)
				continue;
#pragma unroll
			for (int m = 0; m < M; m++) {
				Piece<T, EACH> a;
				a.read(row_of<T, M>(p, m) + k0 + u * step);
#pragma unroll
				for (int e = 0; e < EACH; e++)
					sum[m] += a[e] * w[u][e];
			}
		}
	}
#pragma unroll
	for (int m = 0; m < M; m++) {
		for (int o = 1; o < 32; o *= 2)
			sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], o);
		if (lane == m)
			put_row<T, M>(p, m, col, sum[m]);
	}
}

#define ROWS(T, M, SIDE, EACH)                                                                     \
	extern "C" __global__ void __launch_bounds__(512)                                          \
		gemv_rows##M##_##SIDE##_##T(const __grid_constant__ gpu_gemms p)                   \
	{                                                                                          \
		gemv_by_rows<T, M, SIDE, EACH>(p.job[blockIdx.z]);                                 \
	}
#define COLUMNS(T, M)                                                                              \
	extern "C" __global__ void __launch_bounds__(256) gemv_columns##M##_##T(const __grid_constant__ gpu_gemms p)  \
	{                                                                                          \
		gemv_by_columns<T, M>(p.job[blockIdx.z]);                                          \
	}
#define KERNELS(T)                                                                                 \
	ROWS(T, 1, 2, 16 / sizeof(T))                                                              \
	ROWS(T, 1, 4, 16 / sizeof(T)) ROWS(T, 1, 32, 1) ROWS(T, 4, 2, 16 / sizeof(T))              \
		ROWS(T, 4, 4, 16 / sizeof(T)) ROWS(T, 4, 32, 1) COLUMNS(T, 1) COLUMNS(T, 4)
KERNELS(f32) KERNELS(f16) KERNELS(bf16)
