// SPDX-License-Identifier: Apache-2.0
// Convolutions with 1 x 1 windows on tensor cores, with bias, residual and activation fused. cuDNN fuses all of these
// only in engines that it compiles at run time.
#include "act.cuh"
#include "pixel.h"
#include "ptx.cuh"

template <typename T> __device__ inline void multiply(float *c, const uint32_t *a, const uint32_t *b);
template <> __device__ inline void multiply<f16>(float *c, const uint32_t *a, const uint32_t *b)
{
	mma_f16(c, a, b[0], b[1]);
}
template <> __device__ inline void multiply<bf16>(float *c, const uint32_t *a, const uint32_t *b)
{
	mma_bf16(c, a, b[0], b[1]);
}
// The specialization for f32 multiplies numbers that were rounded to tf32.
template <> __device__ inline void multiply<f32>(float *c, const uint32_t *a, const uint32_t *b)
{
	mma_tf32(c, a, b[0], b[1]);
}

// Rounds operands that were read from shared memory: f32 becomes tf32. Other types are multiplied without rounding.
template <typename T> __device__ inline void rounded(uint32_t *) {}
template <> __device__ inline void rounded<f32>(uint32_t *r)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		r[i] = round_tf32(r[i]);
}

enum { THREADS = 128 };

// A row of a tile has 64 bytes of the operand and 16 unused bytes, so that rows begin in different banks of shared
// memory. UNIT is the number of elements in 16 bytes.
template <typename T> struct Tile { enum { UNIT = 16 / (int)sizeof(T), DEPTH = 4 * UNIT, ROW = 5 * UNIT }; };

template <typename T, int M, int N, int STAGES> union Room {
	struct {
		T a[STAGES][M][Tile<T>::ROW], b[STAGES][N][Tile<T>::ROW];
	} in;
	float out[M][N + 4];
};

template <typename T, int ROWS>
__device__ inline void fetch_tile(T (*to)[Tile<T>::ROW], const T *from, int64_t row0, int64_t rows, int k0, int k)
{
	for (int i = threadIdx.x; i < ROWS * 4; i += THREADS) {
		int r = i / 4, c = i % 4 * Tile<T>::UNIT;
		bool there = row0 + r < rows && k0 + c < k;
		fetch16(&to[r][c], there ? from + (row0 + r) * k + k0 + c : from, there);
	}
}

// Has the first tiles copied, weights before the kernels ahead of this one have ended.
template <typename T, int M, int N, int STAGES>
__device__ inline void begin_tiles(const gpu_pixel &p, Room<T, M, N, STAGES> &room, int64_t row0, int64_t col0, int turns)
{
	enum { DEPTH = Tile<T>::DEPTH };
	let_next_begin();
	if (!p.w_is_weight)
		wait_for_previous();
	for (int s = 0; s < STAGES - 1 && s < turns; s++)
		fetch_tile<T, N>(room.in.b[s], (const T *)p.w, col0, p.n, s * DEPTH, p.k);
	if (p.w_is_weight)
		wait_for_previous();
	for (int s = 0; s < STAGES - 1; s++) {
		if (s < turns)
			fetch_tile<T, M>(room.in.a[s], (const T *)p.x, row0, p.m, s * DEPTH, p.k);
		fetch_end();
	}
}

// A block computes M pixels of N channels; each of its four warps computes a quarter of them.
template <typename T, int M, int N, int STAGES> __device__ inline void pixel(const gpu_pixel &p)
{
	SHARED_ROOM(unsigned char, shared);
	Room<T, M, N, STAGES> &room = *(Room<T, M, N, STAGES> *)shared;
	enum { MW = M / 2, NW = N / 2, MT = MW / 16, NT = NW / 8 };
	enum { UNIT = Tile<T>::UNIT, DEPTH = Tile<T>::DEPTH, ROW = Tile<T>::ROW };
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m0 = warp / 2 * MW, n0 = warp % 2 * NW;
	const int64_t row0 = blockIdx.y * (int64_t)M, col0 = blockIdx.x * (int64_t)N;
	const int turns = (p.k + DEPTH - 1) / DEPTH;
	float acc[MT][NT][4] = {};

	begin_tiles<T, M, N, STAGES>(p, room, row0, col0, turns);
	for (int t = 0; t < turns; t++) {
		fetch_wait<STAGES - 2>();
		__syncthreads();
		int next = t + STAGES - 1;
		if (next < turns) {
			fetch_tile<T, M>(room.in.a[next % STAGES], (const T *)p.x, row0, p.m, next * DEPTH, p.k);
			fetch_tile<T, N>(room.in.b[next % STAGES], (const T *)p.w, col0, p.n, next * DEPTH, p.k);
		}
		fetch_end();
		T(*as)[ROW] = room.in.a[t % STAGES], (*bs)[ROW] = room.in.b[t % STAGES];
#pragma unroll
		for (int k = 0; k < DEPTH; k += 2 * UNIT) {
			if (t * DEPTH + k >= p.k)
				break;
			uint32_t a[MT][4], b[NT / 2][4];
#pragma unroll
			for (int i = 0; i < MT; i++) {
				matrices(a[i], &as[m0 + i * 16 + lane % 16][k + lane / 16 * UNIT]);
				rounded<T>(a[i]);
			}
#pragma unroll
			for (int j = 0; j < NT / 2; j++) {
				matrices(b[j], &bs[n0 + j * 16 + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * UNIT]);
				rounded<T>(b[j]);
			}
#pragma unroll
			for (int i = 0; i < MT; i++)
#pragma unroll
				for (int j = 0; j < NT; j++)
					multiply<T>(acc[i][j], a[i], &b[j / 2][j % 2 * 2]);
		}
	}
	fetch_wait<0>();
	__syncthreads();
#pragma unroll
	for (int i = 0; i < MT; i++)
#pragma unroll
		for (int j = 0; j < NT; j++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				room.out[m0 + i * 16 + lane / 4 + e / 2 * 8][n0 + j * 8 + lane % 4 * 2 + e % 2] = acc[i][j][e];
	__syncthreads();
	for (int i = threadIdx.x; i < M * (N / 8); i += THREADS) {
		int r = i / (N / 8), c = i % (N / 8) * 8;
		if (row0 + r >= p.m || col0 + c >= p.n)
			continue;
		int64_t at = (row0 + r) * p.n + col0 + c;
		float v[8];
#pragma unroll
		for (int j = 0; j < 8; j++)
			v[j] = room.out[r][c + j];
		if (p.b) {
			Pack<T, 8> b = *(const Pack<T, 8> *)((const T *)p.b + col0 + c);
#pragma unroll
			for (int j = 0; j < 8; j++)
				v[j] += up(b.v[j]);
		}
		if (p.r) {
			Pack<T, 8> b = *(const Pack<T, 8> *)((const T *)p.r + at);
#pragma unroll
			for (int j = 0; j < 8; j++)
				v[j] += up(b.v[j]);
		}
		act_on<T, 8>(p.act, p.alpha, p.beta, v);
		Pack<T, 8> y;
#pragma unroll
		for (int j = 0; j < 8; j++)
			y.v[j] = down<T>(v[j]);
		*(Pack<T, 8> *)((T *)p.y + at) = y;
	}
}

#define PIXEL(T, M, N)                                                                                                 \
	extern "C" __global__ void __launch_bounds__(THREADS) pixel_##M##_##N##_##T(const gpu_pixel p) { pixel<T, M, N, 3>(p); }
// With more stages, for images of few pixels, whose sums wait for memory once.
#define DEEP(T, M, N, stages)                                                                                          \
	extern "C" __global__ void __launch_bounds__(THREADS) pixel_deep_##M##_##N##_##T(const gpu_pixel p) { pixel<T, M, N, stages>(p); }
#define KERNELS(T) PIXEL(T, 32, 32) PIXEL(T, 64, 32) PIXEL(T, 64, 64) PIXEL(T, 128, 64) DEEP(T, 32, 32, 8) DEEP(T, 64, 32, 6)
KERNELS(f32) KERNELS(f16) KERNELS(bf16)
