// SPDX-License-Identifier: Apache-2.0
// Exact convolutions of 8-bit codes on tensor cores. Channels come last, so that a window is read in place: there is no
// matrix of windows in memory.
#include "codes_tile.cuh"
#include "common.cuh"
#include "int8_conv.h"

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

static_assert(GPU_CODES_UNIT == PIECE, "a unit is a piece of a tile");

// Where a unit of a window lies: its offset from the first pixel of the window, and the number of its pixel.
struct __align__(8) Place {
	int offset, tap;
};

// The units of windows that a thread copies. They belong to the same pixels in every step.
template <int ROWS, int DEPTH, int THREADS> struct Windows {
	enum { ACROSS = DEPTH / GPU_CODES_UNIT, MINE = ROWS * ACROSS / THREADS, DOWN = THREADS / ACROSS };
	static_assert(ROWS * ACROSS % THREADS == 0 && THREADS % ACROSS == 0, "threads with other units");
	const u8 *from[MINE];
	u64 inside[MINE]; // a bit for each pixel of a window; the others lie in the padding
	__device__ Windows(const gpu_codes_conv &p, int64_t m0)
	{
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const int64_t m = m0 + (int)threadIdx.x / ACROSS + e * DOWN;
			const unsigned pixel = (unsigned)(m < p.m ? m : 0), line = pixel / (unsigned)p.win.out[1];
			const unsigned image = line / (unsigned)p.win.out[0];
			const int row = (int)(line - image * (unsigned)p.win.out[0]) * p.win.stride[0] - p.win.begin[0];
			const int col = (int)(pixel - line * (unsigned)p.win.out[1]) * p.win.stride[1] - p.win.begin[1];
			from[e] = (const u8 *)p.x + (((int64_t)image * p.win.in[0] + row) * p.win.in[1] + col) * p.channels;
			u64 across = 0; // which columns of a window lie inside
			for (int u = 0; u < p.win.kernel[1] && !p.plain; u++)
				across |= (u64)((unsigned)(col + u * p.win.dilation[1]) < (unsigned)p.win.in[1]) << u;
			inside[e] = 0;
			for (int v = 0; v < p.win.kernel[0] && !p.plain; v++)
				if ((unsigned)(row + v * p.win.dilation[0]) < (unsigned)p.win.in[0])
					inside[e] |= across << v * p.win.kernel[1];
		}
	}
	// Padding becomes the zero point, of which `zero` has four. What lies behind the window is multiplied by zeros. Units
	// that are nowhere are not read from one common place, since all blocks would wait for that line of the cache.
	__device__ void operator()(u8 *tile, const Place *place, int k0, int units, const gpu_codes_conv &p, u32 zero) const
	{
		const int row = (int)threadIdx.x / ACROSS, col = (int)threadIdx.x % ACROSS, unit = k0 / GPU_CODES_UNIT + col;
		const bool there = unit < units, plain = p.plain && there;
		int offset = unit * GPU_CODES_UNIT, tap = GPU_CODES_TAPS;
		if (!p.plain && there) {
			offset = place[unit].offset;
			tap = place[unit].tap;
		}
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const bool in = plain || inside[e] >> tap & 1;
			u8 *to = tile + piece_offset<DEPTH>(row + e * DOWN, col);
			if (in || !zero)
				fetch16(to, in ? from[e] + offset : (const u8 *)p.x, in);
			else
				*(uint4 *)to = make_uint4(zero, zero, zero, zero);
		}
	}
};

// The units of weights that a thread copies.
template <int ROWS, int DEPTH, int THREADS> struct Weights {
	enum { ACROSS = DEPTH / GPU_CODES_UNIT, MINE = (ROWS * ACROSS + THREADS - 1) / THREADS, DOWN = THREADS / ACROSS };
	const u8 *from;
	int rows; // of this thread, that exist
	__device__ Weights(const gpu_codes_conv &p, int n0)
	{
		const int row = (int)threadIdx.x / ACROSS;
		rows = row < ROWS ? (p.n - n0 < ROWS ? p.n - n0 : ROWS) - row : 0;
		from = (const u8 *)p.w + (int64_t)(rows > 0 ? n0 + row : 0) * p.pitch + (int)threadIdx.x % ACROSS * GPU_CODES_UNIT;
	}
	__device__ void operator()(u8 *tile, int k0, int pitch) const
	{
		const int row = (int)threadIdx.x / ACROSS, col = (int)threadIdx.x % ACROSS;
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const bool there = e * DOWN < rows;
			if (ROWS % DOWN == 0 || row + e * DOWN < ROWS)
				fetch16(tile + piece_offset<DEPTH>(row + e * DOWN, col), there ? from + k0 + (int64_t)e * DOWN * pitch : (const u8 *)from,
					there);
		}
	}
};

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

// Added to a float of at most 2^22, this leaves it rounded to a whole number in the lowest bits: conversions by the
// instructions for them take eight times as long.
const float WHOLE = 12582912.0f;
// The bits of 2^23, to which a number below 2^23 may be added as bits.
const u32 BITS_OF_2_23 = 0x4b000000u;

// Codes around a zero point. The bounds are whole numbers, so that rounding may follow them; a NaN becomes the least code.
struct Codes {
	int zero;
	float low, high;
	__device__ Codes(const void *z, bool is_signed)
	{
		zero = code_of(z, is_signed);
		low = (float)((is_signed ? -128 : 0) - zero);
		high = (float)((is_signed ? 127 : 255) - zero);
	}
	// The bits of WHOLE plus the code without its zero point.
	__device__ float rounded(float v) const { return __fadd_rn(fminf(fmaxf(v, low), high), WHOLE); }
	__device__ u32 code(float r) const { return (__float_as_uint(r) + (u32)zero) & 0xff; }
};

// Turns sums into codes and, if ADDS, adds the codes of the residual as QLinearAdd does.
template <bool ADDS> struct Result {
	Codes codes, sums;
	float by, r_by, r_zero;
	u32 flip; // what makes codes with a sign numbers from 0 to 255
	__device__ Result(const gpu_codes_conv &p) : codes(p.y_zero, p.y_signed != 0), sums(p.sum_zero, p.y_signed != 0)
	{
		by = ADDS ? *p.y_scale / *p.sum_scale : 0;
		r_by = ADDS ? *p.r_scale / *p.sum_scale : 0;
		flip = p.y_signed ? 0x80 : 0;
		r_zero = 8388608.0f + (float)(code_of(p.r_zero, p.y_signed != 0) + (int)flip);
	}
	__device__ u32 operator()(int sum, const Channel &c, u32 r) const
	{
		const float v = codes.rounded(__fmul_rn((float)(int)((u32)sum + (u32)c.add), c.scale));
		if (!ADDS)
			return codes.code(v);
		const float w = __fsub_rn(__uint_as_float(BITS_OF_2_23 | ((r & 0xff) ^ flip)), r_zero);
		return sums.code(sums.rounded(__fadd_rn(__fmul_rn(__fsub_rn(v, WHOLE), by), __fmul_rn(w, r_by))));
	}
};

// Copies the codes of a tile from or to rows of LINE bytes in shared memory.
template <int BM, int BN, int LINE, int THREADS>
__device__ inline void fetch_residual(const gpu_codes_conv &p, u8 *tile, int64_t m0, int n0)
{
	enum { ACROSS = BN / GPU_CODES_UNIT };
	for (int i = threadIdx.x; i < BM * ACROSS; i += THREADS) {
		const int row = i / ACROSS, col = i % ACROSS * GPU_CODES_UNIT;
		const bool there = m0 + row < p.m && n0 + col < p.n;
		fetch16(tile + row * LINE + col, (const u8 *)p.r + (there ? (m0 + row) * p.n + n0 + col : 0), there);
	}
}
template <int BM, int BN, int LINE, int THREADS>
__device__ inline void write_tile(const gpu_codes_conv &p, const u8 *tile, int64_t m0, int n0)
{
	enum { ACROSS = BN / GPU_CODES_UNIT };
	for (int i = threadIdx.x; i < BM * ACROSS; i += THREADS) {
		const int row = i / ACROSS, col = i % ACROSS * GPU_CODES_UNIT;
		if (m0 + row < p.m && n0 + col < p.n)
			*(uint4 *)((u8 *)p.y + (m0 + row) * p.n + n0 + col) = *(const uint4 *)(tile + row * LINE + col);
	}
}

// Writes the codes of a warp's sums into a tile in shared memory; `residual` is a tile as well.
template <bool ADDS, int LINE, int MT, int NT>
__device__ inline void put_codes(const gpu_codes_conv &p, u8 *tile, const u8 *residual, const Channel *channel, int wm, int wn,
				 int n0, const int (&sum)[MT][NT][4])
{
	const Result<ADDS> result(p);
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int j = 0; j < NT; j++) {
		const int col = wn + j * 8 + lane % 4 * 2;
		if (n0 + col >= p.n)
			continue;
		const Channel left = channel[col], right = channel[col + 1];
#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int e = 0; e < 4; e += 2) {
				const int at = (wm + i * 16 + lane / 4 + e / 2 * 8) * LINE + col;
				const u32 r = ADDS ? *(const u16 *)(residual + at) : 0;
				*(u16 *)(tile + at) = (u16)(result(sum[i][j][e], left, r) | result(sum[i][j][e + 1], right, r >> 8) << 8);
			}
	}
}

template <int DEPTH, int MT, int NT, bool SIGNED>
__device__ inline void multiply_step(int (*sum)[NT][4], const u8 *a, const u8 *b)
{
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int half = 0; half < DEPTH / GPU_CODES_UNIT; half += 2) {
		u32 fa[MT][4], fb[NT / 2][4];
#pragma unroll
		for (int i = 0; i < MT; i++)
			matrices(fa[i], a + piece_offset<DEPTH>(i * 16 + lane % 16, half + lane / 16));
#pragma unroll
		for (int j = 0; j < NT / 2; j++)
			matrices(fb[j], b + piece_offset<DEPTH>(j * 16 + lane / 16 * 8 + lane % 8, half + lane / 8 % 2));
#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int j = 0; j < NT; j++)
				multiply<SIGNED>(sum[i][j], fa[i], fb[j / 2] + j % 2 * 2);
	}
}

/*
 * A block computes BM pixels of BN channels, and each of its warps WM x WN of them. Each step along the window takes
 * DEPTH bytes, and STAGES steps are in flight at a time.
 */
template <int BM, int BN, int WM, int WN, int DEPTH, int STAGES, bool SIGNED>
__device__ inline void codes_conv(const gpu_codes_conv &p)
{
	constexpr int ACROSS = BN / WN, THREADS = BM / WM * ACROSS * 32, STAGE = (BM + BN) * DEPTH, LINE = BN + GPU_CODES_UNIT;
	SHARED_ROOM(u8, shared);
	__shared__ Place place[GPU_CODES_UNITS];
	__shared__ Channel channel[BN];
	static_assert(BM * LINE <= STAGES * STAGE, "the codes of a tile do not fit");
	const int warp = threadIdx.x / 32, wm = warp / ACROSS * WM, wn = warp % ACROSS * WN;
	const unsigned across = (unsigned)((p.n + BN - 1) / BN);
	const int64_t m0 = (int64_t)(blockIdx.x / across) * BM;
	const int n0 = (int)(blockIdx.x % across) * BN;
	const int per_pixel = p.channels / GPU_CODES_UNIT, units = p.win.kernel[0] * p.win.kernel[1] * per_pixel;
	const int steps = (units * GPU_CODES_UNIT + DEPTH - 1) / DEPTH;
	const u32 zero = (u32)(code_of(p.x_zero, SIGNED) & 0xff) * 0x01010101u;
	const Windows<BM, DEPTH, THREADS> windows(p, m0);
	const Weights<BN, DEPTH, THREADS> weights(p, n0);

	for (int i = threadIdx.x; i < units && !p.plain; i += THREADS) {
		const int tap = i / per_pixel, row = tap / p.win.kernel[1] * p.win.dilation[0], col = tap % p.win.kernel[1] * p.win.dilation[1];
		place[i] = Place{(row * p.win.in[1] + col) * p.channels + i % per_pixel * GPU_CODES_UNIT, tap};
	}
	__syncthreads();
	u8 *const residual = shared + STAGES * STAGE; // a tile, of which only launches with a residual have the memory
	if (p.adds)
		fetch_residual<BM, BN, LINE, THREADS>(p, residual, m0, n0);
	const auto fetch_step = [&](int s, u8 *to) {
		if (s < steps) {
			windows(to, place, s * DEPTH, units, p, zero);
			weights(to + BM * DEPTH, s * DEPTH, p.pitch);
		}
		fetch_end();
	};
#pragma unroll
	for (int s = 0; s < STAGES - 1; s++)
		fetch_step(s, shared + s * STAGE);
	// These are needed at the end only, but loading them now overlaps with the first copies.
	for (int i = threadIdx.x; i < BN && n0 + i < p.n; i += THREADS)
		channel[i] = channel_of(p, n0 + i, code_of(p.x_zero, SIGNED));
	int sum[WM / 16][WN / 8][4] = {}, now = 0, next = STAGES - 1;
	for (int s = 0; s < steps; s++) {
		fetch_wait<STAGES - 2>();
		__syncthreads();
		fetch_step(s + STAGES - 1, shared + next * STAGE);
		const u8 *a = shared + now * STAGE, *b = a + BM * DEPTH;
		next = next + 1 == STAGES ? 0 : next + 1;
		now = now + 1 == STAGES ? 0 : now + 1;
		multiply_step<DEPTH, WM / 16, WN / 8, SIGNED>(sum, a + wm * DEPTH, b + wn * DEPTH);
	}
	fetch_wait_all();
	__syncthreads();
	if (p.adds)
		put_codes<true, LINE>(p, shared, residual, channel, wm, wn, n0, sum);
	else
		put_codes<false, LINE>(p, shared, residual, channel, wm, wn, n0, sum);
	__syncthreads();
	write_tile<BM, BN, LINE, THREADS>(p, shared, m0, n0);
}

#define KERNEL(BM, BN, WM, WN, DEPTH, STAGES, T, SIGNED, name)                                                         \
	extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, 2) int8_conv_##T##_##name(              \
		const gpu_codes_conv p)                                                                                \
	{                                                                                                              \
		codes_conv<BM, BN, WM, WN, DEPTH, STAGES, SIGNED>(p);                                                      \
	}
#define TILE(BM, BN, WM, WN, DEPTH, STAGES, name)                                                                      \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, u8, false, name)                                                             \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, i8, true, name)
TILE(128, 128, 64, 32, 64, 3, 128x128)
TILE(128, 128, 64, 64, 64, 3, 4_warps)
TILE(128, 64, 64, 32, 64, 4, 128x64)
TILE(64, 128, 64, 32, 64, 4, 64x128)
TILE(64, 64, 32, 32, 64, 4, 64x64)
TILE(32, 64, 16, 32, 128, 3, 32x64)
