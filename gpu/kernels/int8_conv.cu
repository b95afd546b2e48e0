// SPDX-License-Identifier: Apache-2.0
// Exact convolutions of 8-bit codes on tensor cores. Channels come last, so that a window is read in place: there is no
// matrix of windows in memory.
#include "common.cuh"
#include "int8_conv.h"
#include "ptx.cuh"

__device__ inline int code_of(const void *p, bool is_signed) { return !p ? 0 : is_signed ? (int)*(const i8 *)p : (int)*(const u8 *)p; }

// ---- images of few channels, and weights -------------------------------------------------------

union Unit {
	uint4 all;
	u8 code[GPU_CODES_UNIT];
};

extern "C" __global__ void int8_fold_codes(const gpu_fold_codes p)
{
	const u8 zero = p.zero ? *(const u8 *)p.zero : 0;
	const int units = p.room / GPU_CODES_UNIT;
	EACH(i, p.n)
	{
		int c0 = (int)(i % units) * GPU_CODES_UNIT;
		int64_t rest = i / units;
		const int u = (int)(rest % p.out[1]);
		rest /= p.out[1];
		const int v = (int)(rest % p.out[0]);
		const u8 *image = (const u8 *)p.x + rest / p.out[0] * p.xs[0];
		Unit y;
#pragma unroll
		for (int e = 0; e < GPU_CODES_UNIT; e++) {
			const int c = (c0 + e) % p.channels, place = (c0 + e) / p.channels;
			const int row = v * p.stride[0] + place / p.stride[1] - p.begin[0];
			const int col = u * p.stride[1] + place % p.stride[1] - p.begin[1];
			const bool there = place < p.stride[0] * p.stride[1] && (unsigned)row < (unsigned)p.in[0] &&
					   (unsigned)col < (unsigned)p.in[1];
			y.code[e] = there ? image[c * p.xs[1] + row * p.xs[2] + col * p.xs[3]] : zero;
		}
		((uint4 *)p.y)[i] = y.all;
	}
}

struct Sum {
	__device__ int operator()(int a, int b) const { return a + b; }
};

// A block packs the weights of an output channel.
extern "C" __global__ void int8_fold_weights(const gpu_fold_weights p)
{
	const int window = p.kernel[0] * p.kernel[1];
	for (int k = blockIdx.x; k < p.cout; k += gridDim.x) {
		const i8 *x = (const i8 *)p.x + (int64_t)k * p.channels * window;
		i8 *y = (i8 *)p.y + (int64_t)k * p.pitch;
		int sum = 0;
		for (int i = threadIdx.x; i < p.pitch; i += blockDim.x) {
			const int tap = i / p.room, c = i % p.room % p.channels, place = i % p.room / p.channels;
			const int row = tap / p.folded[1] * p.stride[0] + place / p.stride[1];
			const int col = tap % p.folded[1] * p.stride[1] + place % p.stride[1];
			const bool there = tap < p.folded[0] * p.folded[1] && place < p.stride[0] * p.stride[1] && row < p.kernel[0] &&
					   col < p.kernel[1];
			y[i] = there ? x[c * window + row * p.kernel[1] + col] : 0;
			sum += y[i];
		}
		sum = block_all(sum, Sum());
		if (threadIdx.x == 0)
			p.sum[k] = sum;
		__syncthreads();
	}
}

// ---- the convolution ---------------------------------------------------------------------------

template <bool SIGNED> __device__ inline void multiply(int *c, const u32 *a, const u32 *b)
{
	if (SIGNED)
		mma_i8(c, a, b[0], b[1]);
	else
		mma_u8(c, a, b[0], b[1]);
}

// Returns the offset of a unit in a tile whose rows have DEPTH bytes. The units of a row are permuted so that eight rows
// at the same k fall into different banks of shared memory.
template <int DEPTH> __device__ inline int unit_offset(int row, int unit)
{
	return DEPTH == 64 ? row * 64 + (unit ^ (row >> 1 & 3)) * GPU_CODES_UNIT : row * 128 + (unit ^ (row & 7)) * GPU_CODES_UNIT;
}

// Where a unit of a window lies: its offset from the first pixel of the window, and its row and column in the window.
struct __align__(8) Place {
	int offset;
	short row, col;
};

// The units of windows that a thread copies. They belong to the same pixels in every step.
template <int ROWS, int DEPTH, int THREADS> struct Windows {
	enum { ALL = ROWS * DEPTH / GPU_CODES_UNIT, MINE = (ALL + THREADS - 1) / THREADS, ACROSS = DEPTH / GPU_CODES_UNIT };
	const u8 *from[MINE];
	int row[MINE], col[MINE];
	__device__ Windows(const gpu_codes_conv &p, int64_t m0)
	{
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const int64_t m = m0 + ((int)threadIdx.x + e * THREADS) / ACROSS;
			const unsigned pixel = (unsigned)(m < p.m ? m : 0), line = pixel / (unsigned)p.win.out[1];
			const unsigned image = line / (unsigned)p.win.out[0];
			row[e] = (int)(line - image * (unsigned)p.win.out[0]) * p.win.stride[0] - p.win.begin[0];
			col[e] = (int)(pixel - line * (unsigned)p.win.out[1]) * p.win.stride[1] - p.win.begin[1];
			from[e] = (const u8 *)p.x + (((int64_t)image * p.win.in[0] + row[e]) * p.win.in[1] + col[e]) * p.channels;
		}
	}
	// Padding becomes the zero point. What lies behind the window is multiplied by zeros.
	__device__ void operator()(u8 *tile, const Place *place, int k0, int units, const gpu_codes_conv &p, u32 zero) const
	{
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const int at = (int)threadIdx.x + e * THREADS, unit = k0 / GPU_CODES_UNIT + at % ACROSS;
			if (ALL % THREADS && at >= ALL)
				continue;
			u8 *to = tile + unit_offset<DEPTH>(at / ACROSS, at % ACROSS);
			const Place w = unit < units ? place[unit] : Place{0, -32768, 0};
			if ((unsigned)(row[e] + w.row) < (unsigned)p.win.in[0] && (unsigned)(col[e] + w.col) < (unsigned)p.win.in[1])
				fetch16(to, from[e] + w.offset, true);
			else
				*(uint4 *)to = make_uint4(zero, zero, zero, zero);
		}
	}
};

template <int ROWS, int DEPTH, int THREADS>
__device__ inline void fetch_weights(u8 *tile, const gpu_codes_conv &p, int n0, int k0)
{
	enum { ALL = ROWS * DEPTH / GPU_CODES_UNIT, ACROSS = DEPTH / GPU_CODES_UNIT };
#pragma unroll
	for (int at = threadIdx.x; at < ALL; at += THREADS) {
		const int row = at / ACROSS, unit = at % ACROSS;
		const bool there = n0 + row < p.n && k0 < p.pitch;
		fetch16(tile + unit_offset<DEPTH>(row, unit),
			(const u8 *)p.w + (there ? (int64_t)(n0 + row) * p.pitch + k0 + unit * GPU_CODES_UNIT : 0), there);
	}
}

// What turns the sum of an output channel into a code.
struct __align__(8) Channel {
	float scale;
	int add;
};
__device__ inline Channel channel_of(const gpu_codes_conv &p, int n, int x_zero)
{
	Channel c;
	c.scale = p.w_scale[p.w_scales ? n : 0] * *p.x_scale / *p.y_scale;
	c.add = (int)((p.bias ? (u32)p.bias[n] : 0) - (u32)x_zero * (u32)p.sum[n]);
	return c;
}
struct Codes {
	float zero, low, high;
	__device__ Codes(const void *z, bool is_signed)
	{
		zero = (float)code_of(z, is_signed);
		low = is_signed ? -128.0f : 0.0f;
		high = is_signed ? 127.0f : 255.0f;
	}
	__device__ u32 operator()(int sum, const Channel &c) const
	{
		const float v = rintf(__fmul_rn((float)(int)((u32)sum + (u32)c.add), c.scale)) + zero;
		return (u32)(int)fminf(fmaxf(v, low), high) & 0xff;
	}
};

/*
 * A block computes BM pixels of BN channels, and each of its warps WM x WN of them. Each step along the window takes
 * DEPTH bytes, and STAGES steps are in flight at a time.
 */
template <int BM, int BN, int WM, int WN, int DEPTH, int STAGES, bool SIGNED>
__device__ inline void codes_conv(const gpu_codes_conv &p)
{
	constexpr int ACROSS = BN / WN, THREADS = BM / WM * ACROSS * 32, STAGE = (BM + BN) * DEPTH, LINE = BN + GPU_CODES_UNIT;
	__shared__ __align__(128) u8 shared[STAGES * STAGE];
	__shared__ Place place[GPU_CODES_UNITS];
	__shared__ Channel channel[BN];
	static_assert(BM * LINE <= STAGES * STAGE, "the codes of a tile do not fit");
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / ACROSS * WM, wn = warp % ACROSS * WN;
	const unsigned across = (unsigned)((p.n + BN - 1) / BN);
	const int64_t m0 = (int64_t)(blockIdx.x / across) * BM;
	const int n0 = (int)(blockIdx.x % across) * BN, x_zero = code_of(p.x_zero, SIGNED);
	const int per_pixel = p.channels / GPU_CODES_UNIT, units = p.win.kernel[0] * p.win.kernel[1] * per_pixel;
	const int steps = (units * GPU_CODES_UNIT + DEPTH - 1) / DEPTH;
	const u32 zero = (u32)(x_zero & 0xff) * 0x01010101u;
	const Windows<BM, DEPTH, THREADS> windows(p, m0);

	for (int i = threadIdx.x; i < units; i += THREADS) {
		const int tap = i / per_pixel, row = tap / p.win.kernel[1] * p.win.dilation[0], col = tap % p.win.kernel[1] * p.win.dilation[1];
		place[i] = Place{(row * p.win.in[1] + col) * p.channels + i % per_pixel * GPU_CODES_UNIT, (short)row, (short)col};
	}
	for (int i = threadIdx.x; i < BN && n0 + i < p.n; i += THREADS)
		channel[i] = channel_of(p, n0 + i, x_zero);
	__syncthreads();
#pragma unroll
	for (int s = 0; s < STAGES - 1; s++) {
		windows(shared + s * STAGE, place, s * DEPTH, units, p, zero);
		fetch_weights<BN, DEPTH, THREADS>(shared + s * STAGE + BM * DEPTH, p, n0, s * DEPTH);
		fetch_end();
	}
	int sum[WM / 16][WN / 8][4] = {}, now = 0, next = STAGES - 1;
	for (int s = 0; s < steps; s++) {
		fetch_wait<STAGES - 2>();
		__syncthreads();
		windows(shared + next * STAGE, place, (s + STAGES - 1) * DEPTH, units, p, zero);
		fetch_weights<BN, DEPTH, THREADS>(shared + next * STAGE + BM * DEPTH, p, n0, (s + STAGES - 1) * DEPTH);
		fetch_end();
		const u8 *sa = shared + now * STAGE, *sb = sa + BM * DEPTH;
		next = next + 1 == STAGES ? 0 : next + 1;
		now = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
		for (int half = 0; half < DEPTH / GPU_CODES_UNIT; half += 2) {
			u32 fa[WM / 16][4], fb[WN / 16][4];
#pragma unroll
			for (int i = 0; i < WM / 16; i++)
				matrices(fa[i], sa + unit_offset<DEPTH>(wm + i * 16 + lane % 16, half + lane / 16));
#pragma unroll
			for (int j = 0; j < WN / 16; j++)
				matrices(fb[j], sb + unit_offset<DEPTH>(wn + j * 16 + lane / 16 * 8 + lane % 8, half + lane / 8 % 2));
#pragma unroll
			for (int i = 0; i < WM / 16; i++)
#pragma unroll
				for (int j = 0; j < WN / 8; j++)
					multiply<SIGNED>(sum[i][j], fa[i], fb[j / 2] + j % 2 * 2);
		}
	}
	fetch_wait_all();
	__syncthreads();
	const Codes codes(p.y_zero, p.y_signed != 0);
#pragma unroll
	for (int i = 0; i < WM / 16; i++)
#pragma unroll
		for (int j = 0; j < WN / 8; j++)
#pragma unroll
			for (int e = 0; e < 4; e += 2) {
				const int row = wm + i * 16 + lane / 4 + e / 2 * 8, col = wn + j * 8 + lane % 4 * 2;
				if (n0 + col < p.n)
					*(u16 *)(shared + row * LINE + col) = (u16)(codes(sum[i][j][e], channel[col]) |
										   codes(sum[i][j][e + 1], channel[col + 1]) << 8);
			}
	__syncthreads();
	for (int i = threadIdx.x; i < BM * (BN / GPU_CODES_UNIT); i += THREADS) {
		const int row = i / (BN / GPU_CODES_UNIT), col = i % (BN / GPU_CODES_UNIT) * GPU_CODES_UNIT;
		if (m0 + row < p.m && n0 + col < p.n)
			*(uint4 *)((u8 *)p.y + (m0 + row) * p.n + n0 + col) = *(const uint4 *)(shared + row * LINE + col);
	}
}

#define KERNEL(BM, BN, WM, WN, DEPTH, STAGES, T, SIGNED)                                                               \
	extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32)                                         \
		int8_conv_##T##_##BM##x##BN(const gpu_codes_conv p)                                                    \
	{                                                                                                              \
		codes_conv<BM, BN, WM, WN, DEPTH, STAGES, SIGNED>(p);                                                      \
	}
#define TILE(BM, BN, WM, WN, DEPTH, STAGES)                                                                            \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, u8, false)                                                                   \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, i8, true)
// The last number is how many stages fit into the 48 KiB of shared memory that a block has by default, beside the places.
TILE(128, 128, 64, 32, 64, 2)
TILE(128, 64, 32, 32, 64, 3)
TILE(64, 128, 32, 32, 64, 3)
TILE(64, 64, 32, 32, 64, 4)
TILE(32, 64, 16, 32, 128, 3)
