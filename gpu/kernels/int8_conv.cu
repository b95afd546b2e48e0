// SPDX-License-Identifier: Apache-2.0
// Exact convolutions of 8-bit codes on tensor cores. Channels come last, so that a window is read in place: there is no
// matrix of windows in memory.
#include "codes_conv.cuh"

// ---- images of few channels, and weights -------------------------------------------------------

union Unit {
	uint4 all;
	u8 code[GPU_CODES_UNIT];
};

extern "C" __global__ void int8_fold_codes(const gpu_fold_codes p)
{
	start_early();
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
		int c = c0 % p.channels, place = c0 / p.channels, b = place / p.stride[1],
		    a = place % p.stride[1];
		Unit y;
#pragma unroll
		for (int e = 0; e < GPU_CODES_UNIT; e++) {
			const int row = v * p.stride[0] + b - p.begin[0],
				  col = u * p.stride[1] + a - p.begin[1];
			const bool there = b < p.stride[0] && (unsigned)row < (unsigned)p.in[0] &&
					   (unsigned)col < (unsigned)p.in[1];
			y.code[e] = there ? image[c * p.xs[1] + row * p.xs[2] + col * p.xs[3]] : zero;
			if (++c == p.channels) { // the next pixel
				c = 0;
				a = a + 1 == p.stride[1] ? 0 : a + 1;
				b += a == 0;
			}
		}
		((uint4 *)p.y)[i] = y.all;
	}
}

struct Sum {
	__device__ int operator()(int a, int b) const
	{
		return a + b;
	}
};

// A block packs the weights of an output channel.
extern "C" __global__ void int8_fold_weights(const gpu_fold_weights p)
{
	const int window = p.kernel[0] * p.kernel[1];
	for (int k = blockIdx.x; k < p.cout; k += gridDim.x) {
		const i8 *x = (const i8 *)p.x + (int64_t)k * p.channels * window;
		i8 *y = (i8 *)p.y + (int64_t)(p.dealt ? row_of_channel(k) : k) * p.pitch;
		int sum = 0;
		for (int i = threadIdx.x; i < p.pitch; i += blockDim.x) {
			const int tap = i / p.room, c = i % p.room % p.channels,
				  place = i % p.room / p.channels;
			const int row = tap / p.folded[1] * p.stride[0] + place / p.stride[1];
			const int col = tap % p.folded[1] * p.stride[1] + place % p.stride[1];
			const bool there = tap < p.folded[0] * p.folded[1] &&
					   place < p.stride[0] * p.stride[1] && row < p.kernel[0] &&
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
struct __align__(8) Place
{
	int offset, tap;
};

// The way of a thread's units through the windows, a step at a time: `offset` as above, and a bit for the pixel, which is 0
// behind the window. If a step lies within one pixel it is counted on, otherwise it is looked up.
template <int DEPTH> struct Way {
	int offset, c, col, pixel, line,
		unit; // pixel, line: from the last unit of one to the first of the next
	u64 bit;
	__device__ Way(const gpu_codes_conv &p)
	{
		c = col = 0;
		bit = 1;
		unit = (int)threadIdx.x % (DEPTH / GPU_CODES_UNIT);
		offset = unit * GPU_CODES_UNIT;
		pixel = (p.win.dilation[1] - 1) * p.channels;
		line = (p.win.dilation[0] * p.win.in[1] - p.win.kernel[1] * p.win.dilation[1]) *
		       p.channels;
	}
	__device__ void look_up(const Place *place, int units)
	{
		bit = 0;
		if (unit < units) {
			offset = place[unit].offset;
			bit = (u64)1 << place[unit].tap;
		}
		unit += DEPTH / GPU_CODES_UNIT;
	}
	__device__ void count_on(const gpu_codes_conv &p)
	{
		c += DEPTH;
		offset += DEPTH;
		if (c < p.channels)
			return;
		c = 0;
		offset += pixel;
		bit <<= 1;
		if (++col < p.win.kernel[1])
			return;
		col = 0;
		offset += line;
	}
};

// The units of windows that a thread copies. They belong to the same pixels in every step.
template <int ROWS, int DEPTH, int THREADS> struct Windows {
	enum {
		ACROSS = DEPTH / GPU_CODES_UNIT,
		MINE = ROWS * ACROSS / THREADS,
		DOWN = THREADS / ACROSS
	};
	static_assert(ROWS * ACROSS % THREADS == 0 && THREADS % ACROSS == 0 && DOWN % 8 == 0,
		      "threads with other units");
	const u8 *from[MINE];
	u64 inside[MINE]; // a bit for each pixel of a window; the others lie in the padding
	int to;
	__device__ void set(const gpu_codes_conv &p, int64_t m0)
	{
		const int first = (int)threadIdx.x / ACROSS;
		to = piece_offset<DEPTH>(first, (int)threadIdx.x % ACROSS);
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const int64_t m = m0 + first + e * DOWN;
			const unsigned pixel = (unsigned)(m < p.m ? m : 0);
			from[e] = (const u8 *)p.x + (int64_t)pixel * p.channels;
			inside[e] = 1;
			if (p.plain)
				continue;
			const unsigned line = pixel / (unsigned)p.win.out[1],
				       image = line / (unsigned)p.win.out[0];
			const int row =
				(int)(line - image * (unsigned)p.win.out[0]) * p.win.stride[0] -
				p.win.begin[0];
			const int col =
				(int)(pixel - line * (unsigned)p.win.out[1]) * p.win.stride[1] -
				p.win.begin[1];
			from[e] = (const u8 *)p.x +
				  (((int64_t)image * p.win.in[0] + row) * p.win.in[1] + col) *
					  p.channels;
			inside[e] = ~(u64)0;
			if (p.whole)
				continue;
			u64 across = 0; // which columns of a window lie inside
			for (int u = 0; u < p.win.kernel[1]; u++)
				across |= (u64)((unsigned)(col + u * p.win.dilation[1]) <
						(unsigned)p.win.in[1])
					  << u;
			inside[e] = 0;
			for (int v = 0; v < p.win.kernel[0]; v++)
				if ((unsigned)(row + v * p.win.dilation[0]) < (unsigned)p.win.in[0])
					inside[e] |= across << v * p.win.kernel[1];
		}
	}
	// Padding reads as the zero point, of which `zero` holds four copies; what lies beyond the window is multiplied by zeros.
	// Units outside of the image are not read.
	__device__ void operator()(u8 *tile, const Way<DEPTH> &way, u32 zero) const
	{
		if (!zero) {
#pragma unroll
			for (int e = 0; e < MINE; e++)
				fetch16(tile + to + e * DOWN * DEPTH, from[e] + way.offset,
					(inside[e] & way.bit) != 0);
			return;
		}
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			if (inside[e] & way.bit)
				fetch16(tile + to + e * DOWN * DEPTH, from[e] + way.offset, true);
			else
				*(uint4 *)(tile + to + e * DOWN * DEPTH) =
					make_uint4(zero, zero, zero, zero);
		}
	}
};

// The units of weights that a thread copies, a step at a time.
template <int ROWS, int DEPTH, int THREADS> struct Weights {
	enum {
		ACROSS = DEPTH / GPU_CODES_UNIT,
		MINE = (ROWS * ACROSS + THREADS - 1) / THREADS,
		DOWN = THREADS / ACROSS
	};
	static_assert(DOWN % 16 == 0, "rows that are dealt otherwise");
	const u8 *from, *begin;
	int rows, to; // rows: of this thread, that exist
	int64_t down;
	__device__ Weights(const gpu_codes_conv &p, int n0)
	{
		const int row = (int)threadIdx.x / ACROSS;
		rows = row < ROWS ? (p.n - n0 < ROWS ? p.n - n0 : ROWS) - row : 0;
		begin = (const u8 *)p.w + (int64_t)(rows > 0 ? n0 + row : 0) * p.pitch +
			(int)threadIdx.x % ACROSS * GPU_CODES_UNIT;
		to = piece_offset<DEPTH>(row_of_channel(row), (int)threadIdx.x % ACROSS);
		down = (int64_t)DOWN * p.pitch;
	}
	__device__ void operator()(u8 *tile)
	{
#pragma unroll
		for (int e = 0; e < MINE; e++)
			if (ROWS % DOWN == 0 || (int)threadIdx.x / ACROSS + e * DOWN < ROWS)
				fetch16(tile + to + e * DOWN * DEPTH, from + e * down,
					e * DOWN < rows);
		from += DEPTH;
	}
};

// The pieces that a thread copies of a tile of codes, from or to rows of LINE bytes in shared memory.
template <int BM, int BN, int LINE, int THREADS> struct Pieces {
	enum { ACROSS = BN / GPU_CODES_UNIT, DOWN = THREADS / ACROSS };
	static_assert(THREADS % ACROSS == 0 && BM % DOWN == 0, "threads with other pieces");
	int rows, at; // rows: from the first on, that exist
	int64_t first, down;
	__device__ void set(const gpu_codes_conv &p, int64_t m0, int n0)
	{
		const int row = (int)threadIdx.x / ACROSS,
			  col = (int)threadIdx.x % ACROSS * GPU_CODES_UNIT;
		rows = n0 + col >= p.n || p.m <= m0 + row ? 0
		       : p.m - m0 < BM			  ? (int)(p.m - m0) - row
							  : BM - row;
		at = row * LINE + col;
		first = (m0 + row) * p.n + n0 + col;
		down = (int64_t)DOWN * p.n;
	}
	__device__ void fetch(u8 *tile, const void *from) const
	{
#pragma unroll
		for (int e = 0; e < BM / DOWN; e++)
			fetch16(tile + at + e * DOWN * LINE, (const u8 *)from + first + e * down,
				e * DOWN < rows);
	}
	__device__ void write(const u8 *tile, void *to) const
	{
#pragma unroll
		for (int e = 0; e < BM / DOWN; e++)
			if (e * DOWN < rows)
				*(uint4 *)((u8 *)to + first + e * down) =
					*(const uint4 *)(tile + at + e * DOWN * LINE);
	}
};

// Writes the codes of a warp's sums into a tile in shared memory, which held those of a residual.
template <bool ADDS, bool FROM_0, int LINE, int MT, int NT, typename C>
__device__ inline void put_codes(const gpu_codes_conv &p, u8 *tile, const C &channels, int wm,
				 int wn, const int (&sum)[MT][NT][4])
{
	const Result<ADDS, FROM_0> result(p, channels);
	const int lane = threadIdx.x % 32, n = wn + lane % 4 * 4, first = (wm + lane / 4) * LINE + n;
#pragma unroll
	for (int j = 0; j < NT; j += 2) {
		const float4 scale = *(const float4 *)(channels.scale + n + j * 8);
#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int e = 0; e < 4; e += 2) {
				const int at = first + (i * 16 + e / 2 * 8) * LINE + j * 8;
				const u32 r = ADDS ? *(const u32 *)(tile + at) : 0;
				*(u32 *)(tile + at) =
					result(sum[i][j] + e, sum[i][j + 1] + e, scale, r);
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
			matrices(fb[j], b + piece_offset<DEPTH>(j * 16 + lane / 16 * 8 + lane % 8,
								half + lane / 8 % 2));
#pragma unroll
		for (int i = 0; i < MT; i++)
#pragma unroll
			for (int j = 0; j < NT; j++)
				multiply<SIGNED>(sum[i][j], fa[i], fb[j / 2] + j % 2 * 2);
	}
}

// Where the units of a window lie, as distances from its first element.
template <int THREADS>
__device__ inline void find_places(Place *place, const gpu_codes_conv &p, int units, int per_pixel)
{
	for (int i = threadIdx.x; i < units; i += THREADS) {
		const int tap = i / per_pixel, row = tap / p.win.kernel[1] * p.win.dilation[0],
			  col = tap % p.win.kernel[1] * p.win.dilation[1];
		place[i] = Place{(row * p.win.in[1] + col) * p.channels +
					 i % per_pixel * GPU_CODES_UNIT,
				 tap};
	}
	__syncthreads();
}

// Makes codes of the sums; from_0: codes without a sign whose zero point is 0.
template <int LINE, int MT, int NT, typename C>
__device__ inline void put_sums(const gpu_codes_conv &p, u8 *tile, const C &channels, int m, int n,
				const int (&sum)[MT][NT][4], bool from_0)
{
	if (p.adds && from_0)
		put_codes<true, true, LINE>(p, tile, channels, m, n, sum);
	else if (p.adds)
		put_codes<true, false, LINE>(p, tile, channels, m, n, sum);
	else if (from_0)
		put_codes<false, true, LINE>(p, tile, channels, m, n, sum);
	else
		put_codes<false, false, LINE>(p, tile, channels, m, n, sum);
}

/*
 * A block computes tiles of BM pixels of BN channels, one after the other, of the same channels. Each step along the window
 * takes DEPTH bytes, and STAGES steps are in flight at a time; while the sums of a tile become codes, the first steps of the
 * next one are on their way. Each warp computes WM x WN outputs; if GROUPS is true, four warps do, of which each has sixteen
 * rows.
 */
template <int BM, int BN, int WM, int WN, int DEPTH, int STAGES, bool SIGNED, bool GROUPS>
__device__ inline void codes_conv(const gpu_codes_conv &p)
{
	constexpr int ACROSS = BN / WN, THREADS = BM / WM * ACROSS * (GROUPS ? 128 : 32),
		      STAGE = (BM + BN) * DEPTH;
	constexpr int LINE = BN + GPU_CODES_UNIT, AHEAD = GROUPS ? STAGES - 2 : STAGES - 1;
	constexpr int MT = GROUPS ? 1 : WM / 16, NT = WN / 8;
	SHARED_ROOM(u8, shared);
	__shared__ Place place[GPU_CODES_UNITS];
	__shared__ Channels<BN> channels;
	const int lane = threadIdx.x % 32, part = (int)threadIdx.x / (GROUPS ? 128 : 32);
	const int wm = part / ACROSS * WM, wn = part % ACROSS * WN;
	const int down = GROUPS ? (int)threadIdx.x / 32 % 4 * 16 : 0; // the rows of this warp
	const unsigned across = (unsigned)((p.n + BN - 1) / BN);
	const int n0 = (int)(blockIdx.x % across) * BN;
	const int per_pixel = p.channels / GPU_CODES_UNIT,
		  units = p.win.kernel[0] * p.win.kernel[1] * per_pixel;
	const int steps = (units * GPU_CODES_UNIT + DEPTH - 1) / DEPTH;
	const bool even = p.channels % DEPTH == 0; // each step lies within a pixel
	start_early();
	const u32 zero = (u32)(code_of(p.x_zero, SIGNED) & 0xff) * 0x01010101u;
	const bool from_0 = !p.y_signed && code_of(p.adds ? p.sum_zero : p.y_zero, false) == 0;
	Windows<BM, DEPTH, THREADS> windows;
	Weights<BN, DEPTH, THREADS> weights(p, n0);
	Pieces<BM, BN, LINE, THREADS> pieces;
	Way<DEPTH> way(p);
	const Way<DEPTH> begin(way);

	if (!even)
		find_places<THREADS>(place, p, units, per_pixel);
	const auto fetch_step = [&](int s, u8 *to) {
		if (s < steps) {
			if (!even)
				way.look_up(place, units);
			windows(to, way, zero);
			weights(to + BM * DEPTH);
			if (even)
				way.count_on(p);
		}
		fetch_end();
	};
	// Starts the first steps of a tile. Its residual comes behind the first step, since each step waits for all before it.
	const auto fetch_first = [&](int64_t m0, u8 *tile) {
		windows.set(p, m0);
		way = begin;
		weights.from = weights.begin;
#pragma unroll
		for (int s = 0; s < AHEAD; s++) {
			fetch_step(s, shared + s * STAGE);
			if (s == 0 && p.adds) {
				pieces.set(p, m0, n0);
				pieces.fetch(tile, p.r);
			}
		}
	};
	// The tile of codes, and where launches with a residual fetch that of the next one.
	u8 *tile = shared + p.tiles, *other = p.adds ? tile + BM * LINE : tile;
	int64_t m0 = (int64_t)(blockIdx.x / across) * BM;
	const int64_t on = (int64_t)(gridDim.x / across) * BM;

	fetch_first(m0, tile);
	channels.set(p, n0, code_of(p.x_zero, SIGNED), THREADS, from_0 ? FRACTION : 1);
	__syncthreads();
	for (;;) {
		int sum[MT][NT][4], now = 0, next = AHEAD;
		start_sums(sum, channels.add + wn + lane % 4 * 4);
		for (int s = 0; s < steps; s++) {
			fetch_wait<AHEAD - 1>();
#ifdef WARPGROUPS
			if constexpr (GROUPS)
				group_sees();
#endif
			__syncthreads();
			const u8 *a = shared + now * STAGE, *b = a + BM * DEPTH;
			now = now + 1 == STAGES ? 0 : now + 1;
#ifdef WARPGROUPS
			if constexpr (GROUPS) {
				const uint64_t ta = group_tile<DEPTH>(a + wm * DEPTH),
					       tb = group_tile<DEPTH>(b + wn * DEPTH);
				group_keep(sum[0]);
				group_begin();
#pragma unroll
				for (int k = 0; k < DEPTH / 32; k++)
					group_multiply<WN, SIGNED>(sum[0][0], ta + 2 * k, tb + 2 * k);
				group_end();
			}
#endif
			fetch_step(s + AHEAD, shared + next * STAGE);
			next = next + 1 == STAGES ? 0 : next + 1;
			if constexpr (!GROUPS)
				multiply_step<DEPTH, MT, NT, SIGNED>(sum, a + wm * DEPTH,
								     b + wn * DEPTH);
#ifdef WARPGROUPS
			if constexpr (GROUPS)
				group_wait<1>(); // a step's memory is filled anew by the step after the next one
#endif
		}
#ifdef WARPGROUPS
		if constexpr (GROUPS) {
			group_wait<0>();
			group_keep(sum[0]);
		}
#endif
		fetch_wait_all();
		__syncthreads();
		const int64_t m = m0;
		m0 += on;
		if (m0 < p.m)
			fetch_first(m0, other);
		put_sums<LINE>(p, tile, channels, wm + down, wn, sum, from_0);
		__syncthreads();
		pieces.set(p, m, n0);
		pieces.write(tile, p.y);
		if (m0 >= p.m)
			break;
		u8 *const written = tile;
		tile = other;
		other = written;
	}
}

#define KERNEL(BM, BN, WM, WN, DEPTH, STAGES, T, SIGNED, name)                                     \
	extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, 2)                  \
		int8_conv_##T##_##name(const gpu_codes_conv p)                                     \
	{                                                                                          \
		codes_conv<BM, BN, WM, WN, DEPTH, STAGES, SIGNED, false>(p);                       \
	}
#define TILE(BM, BN, WM, WN, DEPTH, STAGES, name)                                                  \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, u8, false, name)                                     \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, i8, true, name)
TILE(128, 128, 64, 32, 64, 3, 128x128)
TILE(128, 128, 64, 64, 64, 3, 4_warps)
TILE(128, 64, 64, 32, 64, 4, 128x64)
TILE(64, 128, 64, 32, 64, 4, 64x128)
TILE(64, 64, 32, 32, 64, 4, 64x64)
TILE(32, 64, 16, 32, 128, 3, 32x64)

#ifdef WARPGROUPS
#define GROUP_KERNEL(BM, BN, DEPTH, STAGES, BLOCKS, T, SIGNED)                                     \
	extern "C" __global__ void __launch_bounds__(BM * 2, BLOCKS)                               \
		int8_conv_##T##_group_##BM##x##BN(const gpu_codes_conv p)                          \
	{                                                                                          \
		codes_conv<BM, BN, 64, BN, DEPTH, STAGES, SIGNED, true>(p);                        \
	}
#define GROUP_TILE(BM, BN, DEPTH, STAGES, BLOCKS)                                                  \
	GROUP_KERNEL(BM, BN, DEPTH, STAGES, BLOCKS, u8, false)                                     \
	GROUP_KERNEL(BM, BN, DEPTH, STAGES, BLOCKS, i8, true)
GROUP_TILE(128, 128, 64, 4, 2)
GROUP_TILE(128, 64, 64, 4, 3)
GROUP_TILE(64, 128, 128, 4, 2)
GROUP_TILE(64, 64, 128, 4, 3)
#endif
