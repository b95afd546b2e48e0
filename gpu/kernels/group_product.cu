// SPDX-License-Identifier: Apache-2.0
// Products of large matrices on devices whose tensor cores multiply four warps at a time (sm_90a). The copy engine fills a ring
// of steps in shared memory, a block goes on from tile to tile, and results leave while the next tile is on its way.
#include "act.cuh"
#include "group_product.h"
#include "ptx.cuh"

#ifdef WARPGROUPS

// GELU of many values at a time, to 2e-7: erfc by formula 7.1.26 of Abramowitz and Stegun's handbook. Of -infinity it is NaN, as x * erfc(-x) is.
__device__ inline float quick_gelu_erf(float x)
{
	const float size = fabsf(fminf(x, 30.f)), z = size * 0.70710678f, t = quick_inverse(1.f + 0.3275911f * z);
	const float half = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f)))) *
			   exp2_of(z * z * -1.44269504f) * 0.5f * size;
	return x < 0 ? -half : x - half; // a NaN is not below 0
}

// tanh(u) = 1 - 2 / (1 + exp(2 u))
__device__ inline float quick_gelu_tanh(float x)
{
	return x * quick_inverse(1.f + exp2_of(x * (-2.30220820f - 0.10294324f * x * x)));
}

template <typename T, int N> __device__ inline void group_act(const gpu_group_product &p, float *v)
{
	if (p.act == GPU_ACT_GELU) {
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] = quick_gelu_erf(v[i]);
	} else if (p.act == GPU_ACT_GELU_TANH) {
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] = quick_gelu_tanh(v[i]);
	} else if (p.act == GPU_ACT_RELU) {
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] = fn_RELU(v[i], p.act_alpha, p.act_beta);
	} else if (p.act == GPU_ACT_SWISH) {
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] *= quick_inverse(1.f + exp2_of(-1.44269504f * p.act_alpha * v[i]));
	} else if (p.act == GPU_ACT_HARDSWISH) {
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] = fn_HARDSWISH(v[i], p.act_alpha, p.act_beta);
	}
}

template <typename T> struct Halves;
template <> struct Halves<f16> {
	template <int COLUMNS> static __device__ inline void multiply(float *c, uint64_t a, uint64_t b) { group_multiply_f16<COLUMNS>(c, a, b); }
};
template <> struct Halves<bf16> {
	template <int COLUMNS> static __device__ inline void multiply(float *c, uint64_t a, uint64_t b) { group_multiply_bf16<COLUMNS>(c, a, b); }
};

// A warpgroup's products of one step, whose rows of A begin at `a`. Those of the step before may still be under way when it begins: `passed` is called
// when they are done. The step's own may be under way when it ends. `next` waits for the step after it, and returns its rows, or NULL behind the last.
template <typename T, int COLUMNS, int HEIGHT> struct Group {
	__device__ Group(const u8 *) {}
	template <typename F, typename G> __device__ void multiply(float (&c)[HEIGHT][COLUMNS / 2], const u8 *a, const u8 *b, F passed, G next)
	{
		const uint64_t rows = group_tile<GPU_GROUP_DEPTH>(a), columns = group_tile<GPU_GROUP_DEPTH>(b);
		group_begin();
#pragma unroll
		for (int i = 0; i < GPU_GROUP_DEPTH / 32; i++)
#pragma unroll
			for (int h = 0; h < HEIGHT; h++)
				Halves<T>::template multiply<COLUMNS>(c[h], group_rows<GPU_GROUP_DEPTH>(rows, h * 64) + 2 * i, columns + 2 * i);
		group_end();
		group_wait<1>();
		passed();
		next();
	}
};

// Tensor cores cut float32 off: A's numbers are rounded on their way through registers, those of B were when the weights were packed. A product of
// registers is issued no earlier than they are read, so the next ones are loaded before and rounded meanwhile.
template <int COLUMNS, int HEIGHT> struct Group<f32, COLUMNS, HEIGHT> {
	enum { PARTS = GPU_GROUP_DEPTH / 32 };
	uint32_t x[PARTS][HEIGHT][4]; // of 32 bytes along k each, which products under way still read

	__device__ void load(const u8 *a, int part)
	{
		const int lane = threadIdx.x % 32;
		const u8 *const row = a + (threadIdx.x / 32 % 4 * 16 + lane % 16) * GPU_GROUP_DEPTH;
#pragma unroll
		for (int h = 0; h < HEIGHT; h++)
			group_matrices(x[part][h], row + h * 64 * GPU_GROUP_DEPTH + ((2 * part + lane / 16) ^ lane % 8) * 16);
	}
	__device__ void round(int part)
	{
#pragma unroll
		for (int h = 0; h < HEIGHT; h++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				x[part][h][e] = group_round_tf32(x[part][h][e]);
	}
	__device__ Group(const u8 *a)
	{
		load(a, 0);
		round(0);
	}
	template <typename F, typename G> __device__ void multiply(float (&c)[HEIGHT][COLUMNS / 2], const u8 *a, const u8 *b, F passed, G next)
	{
		const uint64_t columns = group_tile<GPU_GROUP_DEPTH>(b);
#pragma unroll
		for (int i = 0; i < PARTS; i++) {
			group_wait<PARTS - 2>();
			if (i == PARTS - 2)
				passed();
			const u8 *const from = i + 1 < PARTS ? a : next();
			if (from)
				load(from, (i + 1) % PARTS);
			group_begin();
#pragma unroll
			for (int h = 0; h < HEIGHT; h++)
				group_multiply_tf32<COLUMNS>(c[h], x[i][h], columns + 2 * i);
			group_end();
			round((i + 1) % PARTS);
		}
	}
};

// The results of a warp, 16 rows of ACROSS columns (128 bytes) at a time, pass through its part of shared memory, where 16 bytes of
// row i are permuted by i: in registers a thread has two neighbouring columns of eight, but memory wants whole sectors.
template <typename T, int COLUMNS> struct Results {
	enum { EACH = 16 / sizeof(T), ACROSS = 8 * EACH, PARTS = COLUMNS / ACROSS, DOWN = 4 };
	u8 *put;
	const float *bias;
	int lane, rows, columns; // rows, columns: of the matrix, from this thread's first 16 bytes on
	int64_t at, step;	 // this thread's first element; from a row to the fourth after it
	uint4 r[DOWN];		 // R's part that comes next

	__device__ Results(const gpu_group_product &p, u8 *put, const float *bias, int lane, int64_t row, int64_t column)
		: put(put), bias(bias), lane(lane), rows((int)(p.m - row) - lane / 8), columns((int)(p.n - column) - lane % 8 * EACH),
		  at((row + lane / 8) * p.n + column + lane % 8 * EACH), step(4 * p.n)
	{
	}
	__device__ void further(const gpu_group_product &p, int down)
	{
		rows -= down;
		at += down * p.n;
	}
	__device__ bool there(int e, int part) const
	{
		return e * 4 < rows && part * ACROSS < columns;
	}
	__device__ uint4 *piece(int e) const
	{
		const int i = lane / 8 + e * 4;
		return (uint4 *)(put + i * 128 + ((lane ^ i) % 8) * 16);
	}
	__device__ void read(const T *from, int part)
	{
#pragma unroll
		for (int e = 0; e < DOWN; e++)
			if (there(e, part))
				r[e] = *(const uint4 *)(from + at + e * step + part * ACROSS);
	}
	// c: the warp's sums, as the tensor cores leave them
	__device__ void write(const gpu_group_product &p, const float *c)
	{
#pragma unroll
		for (int part = 0; part < PARTS; part++) {
			float v[ACROSS / 2];
			const int across = lane % 4 * 2;
#pragma unroll
			for (int i = 0; i < ACROSS / 8; i++) {
				const float2 add = *(const float2 *)(bias + part * ACROSS + i * 8 + across);
#pragma unroll
				for (int e = 0; e < 2; e++) {
					v[4 * i + 2 * e] = p.alpha * c[part * (ACROSS / 2) + 4 * i + 2 * e] + add.x;
					v[4 * i + 2 * e + 1] = p.alpha * c[part * (ACROSS / 2) + 4 * i + 2 * e + 1] + add.y;
				}
			}
			Pack<T, 2> *place[2]; // this thread's first two columns of its two rows, but for the permutation of 16 bytes
#pragma unroll
			for (int e = 0; e < 2; e++)
				place[e] = (Pack<T, 2> *)(put + (lane / 4 + e * 8) * 128 + across % EACH * (int)sizeof(T));
			const auto column = [&](int i, int e) {
				return (Pack<T, 2> *)((u8 *)place[e] + (((i * 8 + across) / EACH) ^ lane / 4 % 8) * 16);
			};
			__syncwarp(); // all have taken what was there before
			if (p.r) {
#pragma unroll
				for (int e = 0; e < DOWN; e++)
					*piece(e) = r[e];
				if (part + 1 < PARTS)
					read((const T *)p.r, part + 1);
				__syncwarp();
#pragma unroll
				for (int i = 0; i < ACROSS / 8; i++)
#pragma unroll
					for (int e = 0; e < 2; e++) {
						const Pack<T, 2> more = *column(i, e);
						v[4 * i + 2 * e] += up(more.v[0]);
						v[4 * i + 2 * e + 1] += up(more.v[1]);
					}
			}
			group_act<T, ACROSS / 2>(p, v);
#pragma unroll
			for (int i = 0; i < ACROSS / 8; i++)
#pragma unroll
				for (int e = 0; e < 2; e++)
					*column(i, e) = {down<T>(v[4 * i + 2 * e]), down<T>(v[4 * i + 2 * e + 1])};
			__syncwarp();
#pragma unroll
			for (int e = 0; e < DOWN; e++)
				if (there(e, part))
					*(uint4 *)((T *)p.y + at + e * step + part * ACROSS) = *piece(e);
		}
	}
};

// What the ring of steps is to the threads: its memory, and barriers that tell when a step is full and when it may be filled.
template <int STAGES> struct Ring {
	u8 *room;
	barrier *full, *empty;
	int64_t down, tiles; // tiles of a column, of the product
	int steps;	     // along k
};

// Has all steps of this block's tiles copied. One thread.
template <int ROWS, int COLUMNS, int STAGES, int PER> __device__ inline void fill_ring(const gpu_group_product &p, const Ring<STAGES> &ring)
{
	enum { A = ROWS * GPU_GROUP_DEPTH, STEP = A + COLUMNS * GPU_GROUP_DEPTH };
	int at = 0, parity = 1;
	for (int64_t tile = blockIdx.x; tile < ring.tiles; tile += gridDim.x)
		for (int k = 0; k < ring.steps; k++) {
			barrier_wait(ring.empty + at, parity);
			barrier_expect(ring.full + at, STEP);
			fetch_box(ring.room + at * STEP + A, &p.b, k * PER, (int)(tile / ring.down * COLUMNS), ring.full + at);
			fetch_box(ring.room + at * STEP, &p.a, k * PER, (int)(tile % ring.down * ROWS), ring.full + at);
			if (++at == STAGES)
				at = 0, parity ^= 1;
		}
}

template <typename T, int ROWS, int COLUMNS, int STAGES, bool IN_TURNS>
__device__ inline void group_product(const gpu_group_product &p)
{
	enum {
		DEPTH = GPU_GROUP_DEPTH,
		PER = DEPTH / sizeof(T), // elements along k in a step
		A = ROWS * DEPTH,
		STEP = A + COLUMNS * DEPTH,
		MINE = IN_TURNS ? ROWS : ROWS / 2, // rows that a warpgroup multiplies
		HEIGHT = MINE / 64
	};
	SHARED_ROOM(u8, room);
	u8 *const put = room + STAGES * STEP;
	float *const biases = (float *)(put + GPU_GROUP_PUT);
	barrier *const full = (barrier *)(biases + 8 * COLUMNS), *const empty = full + STAGES, *const turn = empty + STAGES;
	static_assert((2 * STAGES + 2) * sizeof(barrier) <= GPU_GROUP_BARRIERS, "room for barriers");
	const int group = uniform((int)threadIdx.x / 128);
	const int64_t down = (p.m + ROWS - 1) / ROWS, tiles = down * ((p.n + COLUMNS - 1) / COLUMNS);
	const int steps = (int)((p.k + PER - 1) / PER);

	let_next_begin();
	if (threadIdx.x == 0) {
		for (int i = 0; i < STAGES; i++) {
			barrier_set(full + i, 1);
			barrier_set(empty + i, IN_TURNS ? 1 : 2);
		}
		barrier_set(turn, 1);
		barrier_set(turn + 1, 1);
		barriers_are_set();
	}
	__syncthreads();
	if (group == 0) {
		fewer_registers<24>();
		if (threadIdx.x)
			return;
		wait_for_previous();
		fill_ring<ROWS, COLUMNS, STAGES, PER>(p, Ring<STAGES>{room, full, empty, down, tiles, steps});
		return;
	}
	more_registers<240>();
	wait_for_previous();
	const int me = group - 1, warp = (int)threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
	u8 *const my_put = put + (me * 4 + warp) * 2048;
	float *const my_bias = biases + (me * 4 + warp) * COLUMNS;
	int64_t done = 0; // steps of this block so far
	int turns = 0;
	for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, turns++, done += steps) {
		if (IN_TURNS && turns % 2 != me)
			continue;
		const int64_t m0 = tile % down * ROWS + (IN_TURNS ? 0 : me * MINE), n0 = tile / down * COLUMNS;
		float c[HEIGHT][COLUMNS / 2];
#pragma unroll
		for (int h = 0; h < HEIGHT; h++)
#pragma unroll
			for (int i = 0; i < COLUMNS / 2; i++)
				c[h][i] = 0;
		float bias[COLUMNS / 32];
#pragma unroll
		for (int i = 0; i < COLUMNS / 32; i++)
			bias[i] = p.bias && n0 + i * 32 + lane < p.n ? up(((const T *)p.bias)[n0 + i * 32 + lane]) : 0.f;
		// A parity tells only neighbouring rounds of the ring apart. Without its turn, this warpgroup might look at a step while the ring is
		// two rounds before it, and take that for its own.
		if (IN_TURNS && turns)
			barrier_wait(turn + me, (turns / 2 + me + 1) % 2);
		const auto rows_of = [&](int step) -> const u8 * { return room + step * STEP + (IN_TURNS ? 0 : me * MINE * DEPTH); };
		int at = (int)(done % STAGES), parity = (int)(done / STAGES % 2), before = at;
		barrier_wait(full + at, parity);
		Group<T, COLUMNS, HEIGHT> products(rows_of(at));
		for (int k = 0; k < steps; k++) {
			const int step = at;
			const auto passed = [&] {
				if (k && threadIdx.x % 128 == 0)
					barrier_arrive(empty + before);
			};
			const auto next = [&]() -> const u8 * {
				if (++at == STAGES)
					at = 0, parity ^= 1;
				if (k + 1 == steps)
					return NULL;
				barrier_wait(full + at, parity);
				return rows_of(at);
			};
			products.multiply(c, rows_of(step), room + step * STEP + A, passed, next);
			before = step;
		}
		if (IN_TURNS && threadIdx.x % 128 == 0)
			barrier_arrive(turn + 1 - me);
		Results<T, COLUMNS> results(p, my_put, my_bias, lane, m0 + warp * 16, n0);
		if (p.r)
			results.read((const T *)p.r, 0);
		__syncwarp(); // all have taken the bias of the tile before
#pragma unroll
		for (int i = 0; i < COLUMNS / 32; i++)
			my_bias[i * 32 + lane] = bias[i];
		__syncwarp();
		group_wait<0>();
		if (threadIdx.x % 128 == 0)
			barrier_arrive(empty + before);
#pragma unroll
		for (int h = 0; h < HEIGHT; h++) {
			group_keep(c[h]);
			if (h) {
				results.further(p, 64);
				if (p.r)
					results.read((const T *)p.r, 0);
			}
			results.write(p, c[h]);
		}
	}
}

extern "C" __global__ void group_round(const gpu_group_round p)
{
	start_early();
	EACH(i, p.n)
	p.y[i] = group_round_tf32(p.x[i]);
}

#define KERNEL(T, rows, columns, stages, in_turns)                                                                           \
	extern "C" __global__ void __launch_bounds__(GPU_GROUP_THREADS, 1)                                                   \
		group_product_##T##_##rows##x##columns(const __grid_constant__ gpu_group_product p)                          \
	{                                                                                                                    \
		group_product<T, rows, columns, stages, in_turns>(p);                                                        \
	}
#define OF_F16(...)  KERNEL(f16, __VA_ARGS__)
#define OF_BF16(...) KERNEL(bf16, __VA_ARGS__)
#define OF_F32(...)  KERNEL(f32, __VA_ARGS__)
GPU_GROUP_TILES(OF_F16)
GPU_GROUP_TILES(OF_BF16)
GPU_GROUP_TILES(OF_F32)
#endif
