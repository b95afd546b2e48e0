// SPDX-License-Identifier: Apache-2.0
// Convolutions of 8-bit codes on devices whose tensor cores multiply four warps at a time (sm_90a). The copy engine fetches windows,
// weights and residuals, and takes the results away, so that the warps only multiply and turn sums into codes.
#include "codes_conv.cuh"
#include "int8_boxes.h"
#include "turn.cuh"

#include <type_traits>

#ifdef WARPGROUPS

// The barriers of a block: of steps, of the weights that stay, and of the two tiles of residuals.
struct Barriers {
	barrier full[GPU_CODES_STAGES], empty[GPU_CODES_STAGES], weights, brought[2], taken[2];
	__device__ void set(int groups)
	{
		for (int i = 0; i < GPU_CODES_STAGES; i++) {
			barrier_set(full + i, 1);
			barrier_set(empty + i, groups);
		}
		for (int i = 0; i < 2; i++) {
			barrier_set(brought + i, 1);
			barrier_set(taken + i, groups);
		}
		barrier_set(&weights, 1);
		barriers_are_set();
	}
};

// A block computes tiles of `down` pixels of the same output channels, from n0 on: those from pixel `first` on, then those `on` pixels further.
template <int GROUPS, int BN, int DEPTH, bool STAY> struct Block {
	enum { BM = GROUPS * 64, A = BM * DEPTH, B = BN * DEPTH, STEP = STAY ? A : A + B, TILE = BM * BN };
	enum { OWN = 64 * BN }; // the part of a tile of codes that is a warpgroup's
	u8 *weights, *ring, *tiles;
	int n0;
	int64_t first, on;
	__device__ Block(const gpu_codes_boxes &p, u8 *room)
	{
		const unsigned across = (unsigned)((p.conv.n + BN - 1) / BN);
		weights = room;
		ring = room + (STAY ? p.steps * B : 0);
		tiles = ring + p.stages * STEP;
		n0 = (int)(blockIdx.x % across) * BN;
		first = (int64_t)(blockIdx.x / across) * BM;
		on = (int64_t)(gridDim.x / across) * BM;
	}
};

// Has the windows of a tile copied, step by step.
struct Windows {
	int column, row, image, across, down, channel; // where the tile's first window begins; the pixel of the window that comes next
	__device__ Windows(const gpu_codes_conv &c, int64_t m0)
	{
		const unsigned line = (unsigned)m0 / (unsigned)c.win.out[1];
		image = (int)(line / (unsigned)c.win.out[0]);
		column = (int)((unsigned)m0 - line * (unsigned)c.win.out[1]) * c.win.stride[1] - c.win.begin[1];
		row = (int)(line - (unsigned)image * (unsigned)c.win.out[0]) * c.win.stride[0] - c.win.begin[0];
		across = down = channel = 0;
	}
	__device__ void fetch(const gpu_codes_boxes &p, void *to, int depth, barrier *b)
	{
		const gpu_plane &w = p.conv.win;
		fetch_window(to, &p.x, channel, column, row, image, across, down, b);
		channel += depth;
		if (channel < p.conv.channels)
			return;
		channel = 0;
		across += w.dilation[1];
		if (across < w.kernel[1] * w.dilation[1])
			return;
		across = 0;
		down += w.dilation[0];
	}
};

// Has everything copied that the block multiplies and adds: weights that stay while the kernel before may still run, since none writes them. One thread.
template <int GROUPS, int BN, int DEPTH, bool STAY>
__device__ inline void fetch_all(const gpu_codes_boxes &p, const Block<GROUPS, BN, DEPTH, STAY> &block, Barriers &b)
{
	typedef Block<GROUPS, BN, DEPTH, STAY> S;
	const gpu_codes_conv &c = p.conv;
	Turn turn = {0, 1};

	if (STAY) {
		barrier_expect(&b.weights, p.steps * S::B);
		for (int s = 0; s < p.steps; s++)
			fetch_box(block.weights + s * S::B, &p.w, s * DEPTH, block.n0, &b.weights);
	}
	wait_for_previous();
	int tile = 0;
	for (int64_t m0 = block.first; m0 < c.m; m0 += block.on, tile++) {
		Windows windows(c, m0);
		for (int s = 0; s < p.steps; s++) {
			u8 *const to = block.ring + turn.at * S::STEP;
			barrier *const full = b.full + turn.at;
			barrier_wait(b.empty + turn.at, turn.parity);
			barrier_expect(full, S::STEP);
			if (c.plain)
				fetch_box(to, &p.x, s * DEPTH, (int)m0, full);
			else
				windows.fetch(p, to, DEPTH, full);
			if (!STAY)
				fetch_box(to + S::A, &p.w, s * DEPTH, block.n0, full);
			turn.next(p.stages);
		}
		if (!c.adds)
			continue;
		const int which = tile & 1;
		barrier_wait(b.taken + which, (tile >> 1 & 1) ^ 1);
		barrier_expect(b.brought + which, S::TILE);
		for (int group = 0; group < GROUPS; group++)
			fetch_box(block.tiles + which * S::TILE + group * S::OWN, &p.r, block.n0, (int)m0 + group * 64, b.brought + which);
	}
}

// Turns a warp's sums into codes, in a tile that held those of a residual.
template <bool ADDS, bool FROM_0, int NT, typename C>
__device__ inline void put_sums(const gpu_codes_conv &p, u8 *tile, const C &channels, const int (&sum)[NT][4])
{
	const Result<ADDS, FROM_0> result(p, channels);
	const int lane = threadIdx.x % 32, n = lane % 4 * 4, first = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
	for (int j = 0; j < NT; j += 2) {
		const float4 scale = *(const float4 *)(channels.scale + n + j * 8);
#pragma unroll
		for (int e = 0; e < 4; e += 2) {
			u8 *const at = tile + piece_offset<NT * 8>(first + e * 4, j * 8 / PIECE) + n;
			*(u32 *)at = result(sum[j] + e, sum[j + 1] + e, scale, ADDS ? box_word(at) : 0);
		}
	}
}

// A warpgroup adds the products of a tile to its sums.
template <typename S, int DEPTH, bool STAY, bool SIGNED, int NT>
__device__ inline void multiply_tile(const gpu_codes_boxes &p, const S &block, Barriers &b, Turn &turn, int group, int (&sum)[NT][4])
{
	int before = 0;
	for (int s = 0; s < p.steps; s++) {
		const u8 *const step = block.ring + turn.at * S::STEP;
		barrier_wait(b.full + turn.at, turn.parity);
		const uint64_t x = group_tile<DEPTH>(step + group * 64 * DEPTH), w = group_tile<DEPTH>(STAY ? block.weights + s * S::B : step + S::A);
		group_keep(sum);
		group_begin();
#pragma unroll
		for (int k = 0; k < DEPTH / 32; k++)
			group_multiply_boxes<NT * 8, SIGNED>(sum[0], x + 2 * k, w + 2 * k);
		group_end();
		if (s) {
			group_wait<1>();
			if (threadIdx.x % 128 == 0)
				barrier_arrive(b.empty + before);
		}
		before = turn.at;
		turn.next(p.stages);
	}
	group_wait<0>();
	if (threadIdx.x % 128 == 0)
		barrier_arrive(b.empty + before);
	group_keep(sum);
}

// A warpgroup turns the sums of the block's tile number `tile`, whose first pixel is m0, into codes.
template <typename S, int NT, typename C>
__device__ inline void finish_tile(const gpu_codes_boxes &p, const S &block, Barriers &b, const C &channels, bool from_0, int group, int tile,
				   int64_t m0, const int (&sum)[NT][4])
{
	const gpu_codes_conv &c = p.conv;
	const int which = c.adds ? tile & 1 : 0;
	u8 *const to = block.tiles + which * S::TILE + group * S::OWN;
	const bool speaks = threadIdx.x % 128 == 0;

	if (speaks) {
		put_wait(); // of the tile before, whose memory a residual or this tile comes to
		if (c.adds && tile)
			barrier_arrive(b.taken + (which ^ 1));
	}
	if (c.adds)
		barrier_wait(b.brought + which, tile >> 1 & 1);
	else
		some_threads(1 + group, 128);
	if (c.adds && from_0)
		put_sums<true, true>(c, to, channels, sum);
	else if (c.adds)
		put_sums<true, false>(c, to, channels, sum);
	else if (from_0)
		put_sums<false, true>(c, to, channels, sum);
	else
		put_sums<false, false>(c, to, channels, sum);
	group_sees();
	some_threads(1 + group, 128);
	if (speaks) {
		put_box(&p.y, block.n0, (int)m0 + group * 64, to);
		put_end();
	}
}

template <int GROUPS, int BN, int DEPTH, bool STAY, bool SIGNED> __device__ inline void codes_boxes(const gpu_codes_boxes &p)
{
	typedef Block<GROUPS, BN, DEPTH, STAY> S;
	SHARED_ROOM(u8, room);
	__shared__ Channels<BN> channels;
	__shared__ Barriers b;
	const gpu_codes_conv &c = p.conv;
	const int group = uniform((int)threadIdx.x / 32) / 4;
	const S block(p, room);

	if (threadIdx.x == 0)
		b.set(GROUPS);
	__syncthreads();
	if (!p.known)
		wait_for_previous();
	if (group == GROUPS) {
		if (threadIdx.x % 32 == 0) {
			fetch_all(p, block, b);
			let_next_begin();
		}
		return;
	}
	const bool from_0 = !c.y_signed && code_of(c.adds ? c.sum_zero : c.y_zero, false) == 0;
	channels.set(c, block.n0, code_of(c.x_zero, SIGNED), GROUPS * 128, from_0 ? FRACTION : 1);
	some_threads(GROUPS + 1, GROUPS * 128);
	wait_for_previous();
	if (STAY)
		barrier_wait(&b.weights, 0);
	Turn turn = {0, 0};
	int tile = 0;
	for (int64_t m0 = block.first; m0 < c.m; m0 += block.on, tile++) {
		int sum[1][BN / 8][4];
		start_sums(sum, channels.add + threadIdx.x % 4 * 4);
		multiply_tile<S, DEPTH, STAY, SIGNED>(p, block, b, turn, group, sum[0]);
		finish_tile(p, block, b, channels, from_0, group, tile, m0, sum[0]);
	}
	if (threadIdx.x % 128 == 0)
		put_wait();
}

#define KERNEL(T, SIGNED, groups, columns, depth, stay, blocks)                                                                     \
	extern "C" __global__ void __launch_bounds__(groups * 128 + 32, blocks)                                                     \
		int8_boxes_##T##_##groups##_##columns##_##depth##_##stay(const __grid_constant__ gpu_codes_boxes p)                 \
	{                                                                                                                           \
		codes_boxes<groups, columns, depth, stay, SIGNED>(p);                                                               \
	}
#define OF_U8(...) KERNEL(u8, false, __VA_ARGS__)
#define OF_I8(...) KERNEL(i8, true, __VA_ARGS__)
GPU_CODES_BOXES(OF_U8)
GPU_CODES_BOXES(OF_I8)
#endif
