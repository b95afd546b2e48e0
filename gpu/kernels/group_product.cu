// SPDX-License-Identifier: Apache-2.0
// Products of 32 rows and more on devices whose tensor cores multiply four warps at a time (sm_90a). The copy engine fills a ring
// of steps in shared memory, a block goes on from tile to tile, and results leave while the next tile is on its way.
#include "act.cuh"
#include "float8.cuh"
#include "group_product.h"
#include "ptx.cuh"
#include "turn.cuh"

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

// An operand of float8e4m3fn.
struct f8 {
	u8 bits;
};

// The type of bias and R.
template <typename T> struct Added {
	typedef T type;
};
template <> struct Added<f8> {
	typedef f16 type;
};

// GELU of products of float8, whose own error is far beyond that of this form.
__device__ inline float coarse_gelu(float x)
{
	const float half = 0.5f * x;
	return half + half * quick_tanh(x * (0.79788456f + 0.035677408f * x * x));
}

template <typename T, int N> __device__ inline void group_act(const gpu_group_product &p, float *v)
{
	if (sizeof(T) == 1 && (p.act == GPU_ACT_GELU || p.act == GPU_ACT_GELU_TANH)) {
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] = coarse_gelu(v[i]);
	} else if (p.act == GPU_ACT_GELU) {
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

// The factors of a product and of a result of float8e4m3fn.
template <typename T> __device__ inline float factor(const gpu_group_product &p)
{
	return sizeof(T) == 1 && p.s ? p.alpha * *p.s : p.alpha;
}
template <typename T> __device__ inline float factor_of_result(const gpu_group_product &p)
{
	return sizeof(T) == 1 && p.d ? *p.d : 1.f;
}

template <typename T> struct Halves;
template <> struct Halves<f16> {
	template <int COLUMNS> static __device__ inline void multiply(float *c, uint64_t a, uint64_t b) { group_multiply_f16<COLUMNS>(c, a, b); }
};
template <> struct Halves<f8> {
	template <int COLUMNS> static __device__ inline void multiply(float *c, uint64_t a, uint64_t b) { group_multiply_e4m3<COLUMNS>(c, a, b); }
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

// A tile of 64 columns is multiplied in less time than loads take one after the other: A of a whole step is loaded while the step before is multiplied.
template <> struct Group<f32, 64, 1> {
	enum { PARTS = GPU_GROUP_DEPTH / 32 };
	uint32_t x[2][PARTS][4]; // of a step, and of the one behind it
	int now = 0;

	__device__ static void load(uint32_t (&to)[PARTS][4], const u8 *a)
	{
		const int lane = threadIdx.x % 32;
		const u8 *const row = a + (threadIdx.x / 32 % 4 * 16 + lane % 16) * GPU_GROUP_DEPTH;
#pragma unroll
		for (int i = 0; i < PARTS; i++)
			group_matrices(to[i], row + ((2 * i + lane / 16) ^ lane % 8) * 16);
#pragma unroll
		for (int i = 0; i < PARTS; i++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				to[i][e] = group_round_tf32(to[i][e]);
	}
	__device__ Group(const u8 *a) { load(x[0], a); }
	template <int NOW, typename G> __device__ void step(float *c, const u8 *b, G next)
	{
		const uint64_t columns = group_tile<GPU_GROUP_DEPTH>(b);
		group_begin();
#pragma unroll
		for (int i = 0; i < PARTS; i++)
			group_multiply_tf32<64>(c, x[NOW][i], columns + 2 * i);
		group_end();
		if (const u8 *const from = next())
			load(x[1 - NOW], from);
		group_wait<0>();
	}
	template <typename F, typename G> __device__ void multiply(float (&c)[1][32], const u8 *, const u8 *b, F passed, G next)
	{
		passed();
		if (now)
			step<1>(c[0], b, next);
		else
			step<0>(c[0], b, next);
		now ^= 1;
	}
};

// The results of a warp, 16 rows of ACROSS columns (128 bytes) at a time, pass through its part of shared memory, where 16 bytes of
// row i are permuted by i: in registers a thread has two neighbouring columns of eight, but memory wants whole sectors.
template <typename OPERAND, typename Y, int COLUMNS> struct Results {
	typedef Y T;
	enum { EACH = 16 / sizeof(T), ACROSS = 8 * EACH, PARTS = COLUMNS / ACROSS, DOWN = 4 };
	u8 *put;
	const float *bias;
	int lane, rows, columns; // rows, columns: of the matrix, from this thread's first 16 bytes on
	int64_t at, step;	 // this thread's first element; from a row to the fourth after it
	float alpha;
	uint4 r[DOWN]; // R's part that comes next

	__device__ Results(const gpu_group_product &p, u8 *put, const float *bias, float alpha, float, int lane, int64_t row, int64_t column)
		: put(put), bias(bias), lane(lane), rows((int)(p.m - row) - lane / 8), columns((int)(p.n - column) - lane % 8 * EACH),
		  at((row + lane / 8) * p.n + column + lane % 8 * EACH), step(4 * p.n), alpha(alpha)
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
	// Starts to read R of the rows that come next.
	__device__ void begin(const gpu_group_product &p)
	{
		if (p.r)
			read((const T *)p.r, 0);
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
					v[4 * i + 2 * e] = alpha * c[part * (ACROSS / 2) + 4 * i + 2 * e] + add.x;
					v[4 * i + 2 * e + 1] = alpha * c[part * (ACROSS / 2) + 4 * i + 2 * e + 1] + add.y;
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
			group_act<OPERAND, ACROSS / 2>(p, v);
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

// The same of results of float8e4m3fn, 64 columns (64 bytes) at a time, without an R. Two rows lie in 128 bytes; 16 bytes of row i are permuted by i / 2.
template <int COLUMNS> struct Results<f8, f8, COLUMNS> {
	enum { EACH = 16, ACROSS = 64, PARTS = COLUMNS / ACROSS, DOWN = 2 };
	u8 *put;
	const float *bias;
	int lane, rows, columns;
	int64_t at;
	float alpha, by;

	__device__ Results(const gpu_group_product &p, u8 *put, const float *bias, float alpha, float by, int lane, int64_t row, int64_t column)
		: put(put), bias(bias), lane(lane), rows((int)(p.m - row) - lane / 4), columns((int)(p.n - column) - lane % 4 * EACH),
		  at((row + lane / 4) * p.n + column + lane % 4 * EACH), alpha(alpha), by(by)
	{
	}
	__device__ void further(const gpu_group_product &p, int down)
	{
		rows -= down;
		at += down * p.n;
	}
	__device__ void begin(const gpu_group_product &) {}
	__device__ void write(const gpu_group_product &p, const float *c)
	{
		// this thread's first two columns of its two rows, and the 16 bytes of the first of them that it writes
		u8 *const place = put + lane / 4 * ACROSS + lane % 4 * 2, *const piece = put + lane / 4 * ACROSS + (lane % 4 ^ lane / 8) * 16;
#pragma unroll
		for (int part = 0; part < PARTS; part++) {
			float v[ACROSS / 2];
#pragma unroll
			for (int i = 0; i < ACROSS / 8; i++) {
				const float2 add = *(const float2 *)(bias + part * ACROSS + i * 8 + lane % 4 * 2);
#pragma unroll
				for (int e = 0; e < 2; e++) {
					v[4 * i + 2 * e] = alpha * c[part * (ACROSS / 2) + 4 * i + 2 * e] + add.x;
					v[4 * i + 2 * e + 1] = alpha * c[part * (ACROSS / 2) + 4 * i + 2 * e + 1] + add.y;
				}
			}
			group_act<f8, ACROSS / 2>(p, v);
			__syncwarp(); // all have taken what was there before
#pragma unroll
			for (int i = 0; i < ACROSS / 8; i++)
#pragma unroll
				for (int e = 0; e < 2; e++)
					store_float8<2>(place + e * 8 * ACROSS + (i / 2 ^ lane / 8) * 16 + i % 2 * 8, v + 4 * i + 2 * e, by);
			__syncwarp();
#pragma unroll
			for (int e = 0; e < DOWN; e++)
				if (e * 8 < rows && part * ACROSS < columns)
					*(uint4 *)((u8 *)p.y + at + e * 8 * p.n + part * ACROSS) = *(const uint4 *)(piece + e * 8 * ACROSS);
		}
	}
};

// What the ring of steps is to the threads: its memory, and barriers that tell when a step is full and when it may be filled.
template <int ROWS, int COLUMNS> struct Ring {
	enum { A = ROWS * GPU_GROUP_DEPTH, STEP = A + COLUMNS * GPU_GROUP_DEPTH };
	u8 *room;
	barrier *full, *empty;
	int stages, steps; // of a tile, along k

	// By one thread. `readers`: how many tell that they have read a step.
	__device__ void set(int readers) const
	{
		for (int i = 0; i < stages; i++) {
			barrier_set(full + i, 1);
			barrier_set(empty + i, readers);
		}
	}
	__device__ void expect(int at) const
	{
		barrier_expect(full + at, STEP);
	}
	__device__ void fetch_a(const gpu_group_product &p, int at, int k, int row) const
	{
		fetch_box(room + at * STEP, &p.a, k, row, full + at);
	}
	__device__ void fetch_b(const gpu_group_product &p, int at, int k, int column) const
	{
		fetch_box(room + at * STEP + A, &p.b, k, column, full + at);
	}
};

// Starts the copies of the first tile's steps, as many as the ring holds; those of weights do not wait for the kernels before this one. One thread.
template <int PER, int ROWS, int COLUMNS>
__device__ inline int begin_ring(const gpu_group_product &p, const Ring<ROWS, COLUMNS> &ring, int k, int row, int column)
{
	const int n = ring.steps < ring.stages ? ring.steps : ring.stages;
	foresee_box(&p.b);
	foresee_box(&p.a);
	if (!p.b_is_weight)
		wait_for_previous();
	for (int i = 0; i < n; i++) {
		ring.expect(i);
		ring.fetch_b(p, i, k + i * PER, column);
	}
	if (p.b_is_weight)
		wait_for_previous();
	for (int i = 0; i < n; i++)
		ring.fetch_a(p, i, k + i * PER, row);
	return n;
}

// Starts the copies of a tile's other steps, from step `from` on. One thread.
template <int PER, int ROWS, int COLUMNS>
__device__ inline void fill_ring(const gpu_group_product &p, const Ring<ROWS, COLUMNS> &ring, int from, int k, int row, int column, Turn &turn)
{
	for (int i = from; i < ring.steps; i++) {
		barrier_wait(ring.empty + turn.at, turn.parity);
		ring.expect(turn.at);
		ring.fetch_b(p, turn.at, k + i * PER, column);
		ring.fetch_a(p, turn.at, k + i * PER, row);
		turn.next(ring.stages);
	}
}

// Multiplies a tile's steps; `from` is the byte of A's part of a step at which the warpgroup's rows begin. The products of the last step, whose place in the
// ring is returned, are still under way then.
template <typename T, int HEIGHT, int ROWS, int COLUMNS>
__device__ inline int multiply_steps(float (&c)[HEIGHT][COLUMNS / 2], const Ring<ROWS, COLUMNS> &ring, int from, Turn turn)
{
	typedef Ring<ROWS, COLUMNS> R;
	const auto rows_of = [&](int step) -> const u8 * { return ring.room + step * R::STEP + from; };
	int before = turn.at;
	barrier_wait(ring.full + turn.at, turn.parity);
	Group<T, COLUMNS, HEIGHT> products(rows_of(turn.at));
	for (int k = 0; k < ring.steps; k++) {
		const int step = turn.at;
		const auto passed = [&] {
			if (k && threadIdx.x % 128 == 0)
				barrier_arrive(ring.empty + before);
		};
		const auto next = [&]() -> const u8 * {
			turn.next(ring.stages);
			if (k + 1 == ring.steps)
				return NULL;
			barrier_wait(ring.full + turn.at, turn.parity);
			return rows_of(turn.at);
		};
		products.multiply(c, rows_of(step), ring.room + step * R::STEP + R::A, passed, next);
		before = step;
	}
	return before;
}

template <typename T, typename Y, int ROWS, int COLUMNS, int STAGES, bool IN_TURNS>
__device__ inline void group_product(const gpu_group_product &p)
{
	enum {
		PER = GPU_GROUP_DEPTH / sizeof(T), // elements along k in a step
		MINE = IN_TURNS ? ROWS : ROWS / 2, // rows that a warpgroup multiplies
		HEIGHT = MINE / 64
	};
	typedef typename Added<T>::type A;
	SHARED_ROOM(u8, room);
	u8 *const put = room + STAGES * Ring<ROWS, COLUMNS>::STEP;
	float *const biases = (float *)(put + GPU_GROUP_PUT);
	barrier *const full = (barrier *)(biases + 8 * COLUMNS), *const empty = full + STAGES, *const turn = empty + STAGES;
	static_assert((2 * STAGES + 2) * sizeof(barrier) <= GPU_GROUP_BARRIERS, "room for barriers");
	const int group = uniform((int)threadIdx.x / 128);
	const int64_t down = (p.m + ROWS - 1) / ROWS, tiles = down * ((p.n + COLUMNS - 1) / COLUMNS);
	const int steps = (int)((p.k + PER - 1) / PER);
	const Ring<ROWS, COLUMNS> ring{room, full, empty, STAGES, steps};

	let_next_begin();
	if (threadIdx.x == 0) {
		ring.set(IN_TURNS ? 1 : 2);
		barrier_set(turn, 1);
		barrier_set(turn + 1, 1);
		barriers_are_set();
	}
	__syncthreads();
	if (group == 0) {
		fewer_registers<24>();
		if (threadIdx.x)
			return;
		int64_t tile = blockIdx.x;
		int from = begin_ring<PER>(p, ring, 0, (int)(tile % down * ROWS), (int)(tile / down * COLUMNS));
		Turn at = {from % STAGES, from < STAGES};
		for (; tile < tiles; tile += gridDim.x, from = 0)
			fill_ring<PER>(p, ring, from, 0, (int)(tile % down * ROWS), (int)(tile / down * COLUMNS), at);
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
			bias[i] = p.bias && n0 + i * 32 + lane < p.n ? up(((const A *)p.bias)[n0 + i * 32 + lane]) : 0.f;
		// A parity tells only neighbouring rounds of the ring apart. Without its turn, this warpgroup might look at a step while the ring is
		// two rounds before it, and take that for its own.
		if (IN_TURNS && turns)
			barrier_wait(turn + me, (turns / 2 + me + 1) % 2);
		const int before = multiply_steps<T>(c, ring, IN_TURNS ? 0 : me * MINE * GPU_GROUP_DEPTH,
						     Turn{(int)(done % STAGES), (int)(done / STAGES % 2)});
		if (IN_TURNS && threadIdx.x % 128 == 0)
			barrier_arrive(turn + 1 - me);
		Results<T, Y, COLUMNS> results(p, my_put, my_bias, factor<T>(p), factor_of_result<T>(p), lane, m0 + warp * 16, n0);
		results.begin(p);
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
				results.begin(p);
			}
			results.write(p, c[h]);
		}
	}
}

// ---- products with fewer tiles than processors: the blocks of a cluster share a tile's k ---------------------------------------

// What becomes of the sums of a tile: each block of the cluster adds up what all have of its part of the rows. In shared memory eight columns of row i are
// permuted by i, as eight rows of two neighbouring columns are written at a time, and rows are read.
template <typename OPERAND, typename Y, int SIZE> struct Shares {
	typedef typename Added<OPERAND>::type T;
	enum {
		COLUMNS = GPU_SHARE_COLUMNS,
		ROWS = GPU_SHARE_ROWS / SIZE, // of a block
		EACH = 16 / sizeof(T),	      // elements that a thread writes at a time
		ACROSS = COLUMNS / EACH,
		THREADS = 256,
		PIECES = ROWS * ACROSS < THREADS ? 1 : ROWS * ACROSS / THREADS, // of a thread
		AHEAD = (SIZE == 1 || CLUSTER_AT_ONCE) && PIECES * sizeof(T) <= 8 // a block knows what it will write, and has registers left
	};
	float *all;
	int rank, piece, row; // of the cluster; this thread's first piece: columns, and row of its part
	int64_t m0, column;
	float alpha, by, bias[EACH];
	uint4 r[PIECES]; // this block's part of R, if it is read AHEAD

	__device__ static int place(int from, int row, int column)
	{
		return from * ROWS * COLUMNS + row * COLUMNS + ((column / 8 ^ row % 8) * 8 | column % 8);
	}
	__device__ bool there(const gpu_group_product &p, int block, int i) const
	{
		return row + i * (THREADS / ACROSS) < ROWS && m0 + block * ROWS + row + i * (THREADS / ACROSS) < p.m && column < p.n;
	}
	__device__ int64_t at(const gpu_group_product &p, int block, int i) const
	{
		return (m0 + block * ROWS + row + i * (THREADS / ACROSS)) * p.n + column;
	}
	__device__ Shares(const gpu_group_product &p, float *all, int rank, int64_t m0, int64_t n0)
		: all(all), rank(rank), piece(threadIdx.x % ACROSS), row(threadIdx.x / ACROSS), m0(m0), column(n0 + piece * EACH),
		  alpha(factor<OPERAND>(p)), by(factor_of_result<OPERAND>(p))
	{
#pragma unroll
		for (int e = 0; e < EACH; e++)
			bias[e] = p.bias && column < p.n ? up(((const T *)p.bias)[column + e]) : 0.f;
#pragma unroll
		for (int i = 0; i < PIECES; i++)
			if (AHEAD && p.r && there(p, rank, i))
				r[i] = *(const uint4 *)((const T *)p.r + at(p, rank, i));
	}
	// c: the warp's sums, as the tensor cores leave them
	__device__ void give(const float *c) const
	{
		const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16 + lane / 4, to = first / ROWS;
#pragma unroll
		for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				const int to_place = place(rank, first % ROWS + e * 8, i * 8 + lane % 4 * 2);
				const float2 v = {c[4 * i + 2 * e], c[4 * i + 2 * e + 1]};
				if (SIZE > 1)
					cluster_put(all, to_place, to, v);
				else
					*(float2 *)(all + to_place) = v;
			}
	}
	__device__ float4 get(int i, int block) const
	{
		if (SIZE > 1)
			return cluster_get_four(all, i, block);
		return *(const float4 *)(all + i);
	}
	// Writes the results of a block's part of the rows.
	__device__ void write(const gpu_group_product &p, int block) const
	{
#pragma unroll
		for (int i = 0; i < PIECES; i++) {
			if (!there(p, block, i))
				continue;
			const int64_t to = at(p, block, i);
			float v[EACH] = {};
#pragma unroll
			for (int from = 0; from < SIZE; from++)
#pragma unroll
				for (int e = 0; e < EACH; e += 4) {
					const float4 x = get(place(from, row + i * (THREADS / ACROSS), piece * EACH + e), block);
					v[e] += x.x, v[e + 1] += x.y, v[e + 2] += x.z, v[e + 3] += x.w;
				}
#pragma unroll
			for (int e = 0; e < EACH; e++)
				v[e] = alpha * v[e] + bias[e];
			if (p.r) {
				const uint4 more = AHEAD ? r[i] : *(const uint4 *)((const T *)p.r + to);
#pragma unroll
				for (int e = 0; e < EACH; e++)
					v[e] += up(((const T *)&more)[e]);
			}
			group_act<OPERAND, EACH>(p, v);
			if constexpr (sizeof(Y) == 1) {
				store_float8<EACH>((u8 *)p.y + to, v, by);
			} else {
				Pack<T, EACH> y;
#pragma unroll
				for (int e = 0; e < EACH; e++)
					y.v[e] = down<T>(v[e]);
				*(Pack<T, EACH> *)((T *)p.y + to) = y;
			}
		}
	}
};

template <typename T, typename Y, int SIZE> __device__ inline void share_product(const gpu_group_product &p)
{
	typedef Ring<GPU_SHARE_ROWS, GPU_SHARE_COLUMNS> R;
	enum { PER = GPU_GROUP_DEPTH / sizeof(T), COPIER = Shares<T, Y, SIZE>::THREADS };
	SHARED_ROOM(u8, room);
	float *const all = (float *)(room + p.stages * R::STEP);
	barrier *const full = (barrier *)(all + GPU_SHARE_ROWS * GPU_SHARE_COLUMNS);
	const int rank = blockIdx.x % SIZE, group = uniform((int)threadIdx.x / 128), tile = blockIdx.x / SIZE;
	const int down = (int)((p.m + GPU_SHARE_ROWS - 1) / GPU_SHARE_ROWS), steps = (int)((p.k + PER - 1) / PER);
	const int m0 = tile % down * GPU_SHARE_ROWS, n0 = tile / down * GPU_SHARE_COLUMNS;
	const int first = (int)((int64_t)rank * steps / SIZE), end = (int)((int64_t)(rank + 1) * steps / SIZE);
	const R ring{room, full, full + p.stages, p.stages, end - first};

	let_next_begin();
	if (threadIdx.x == 0) {
		ring.set(2);
		barriers_are_set();
	}
	__syncthreads();
	if (SIZE > 1)
		cluster_arrive();
	if (threadIdx.x == COPIER) {
		const int from = begin_ring<PER>(p, ring, first * PER, m0, n0);
		Turn at = {from % p.stages, from < p.stages};
		fill_ring<PER>(p, ring, from, first * PER, m0, n0, at);
	}
	wait_for_previous();
	Shares<T, Y, SIZE> shares(p, all, rank, m0, n0);
	float c[1][GPU_SHARE_COLUMNS / 2] = {};
	if (group < 2) {
		multiply_steps<T>(c, ring, group * 64 * GPU_GROUP_DEPTH, Turn{0, 0});
		group_wait<0>();
		group_keep(c[0]);
	}
	__syncwarp();
	if (SIZE > 1)
		cluster_wait(); // the others have begun, so that their shared memory is there
	if (group < 2)
		shares.give(c[0]);
	if (SIZE > 1) {
		cluster_arrive();
		cluster_wait();
	} else {
		__syncthreads();
	}
	if (group < 2)
		for (int block = cluster_first<SIZE>(); block < cluster_end<SIZE>(); block++)
			shares.write(p, block);
}

extern "C" __global__ void group_round(const gpu_group_round p)
{
	start_early();
	EACH(i, p.n)
	p.y[i] = group_round_tf32(p.x[i]);
}

#define KERNEL(name, T, Y, rows, columns, stages, in_turns)                                                                  \
	extern "C" __global__ void __launch_bounds__(GPU_GROUP_THREADS, 1)                                                   \
		group_product_##name##_##rows##x##columns(const __grid_constant__ gpu_group_product p)                       \
	{                                                                                                                    \
		group_product<T, Y, rows, columns, stages, in_turns>(p);                                                     \
	}
#define OF_F16(...)  KERNEL(f16, f16, f16, __VA_ARGS__)
#define OF_BF16(...) KERNEL(bf16, bf16, bf16, __VA_ARGS__)
#define OF_F32(...)  KERNEL(f32, f32, f32, __VA_ARGS__)
#define OF_F8(...)   KERNEL(f8, f8, f16, __VA_ARGS__) KERNEL(f8f8, f8, f8, __VA_ARGS__)
GPU_GROUP_TILES(OF_F16)
GPU_GROUP_TILES(OF_BF16)
GPU_GROUP_TILES(OF_F32)
GPU_GROUP_TILES(OF_F8)
GPU_GROUP_TILES_F8(OF_F8)

#define SHARE(name, T, Y, size)                                                                                              \
	extern "C" __global__ void CLUSTER(size) __launch_bounds__(GPU_SHARE_THREADS, 2)                                     \
		group_share_##name##_##size(const __grid_constant__ gpu_group_product p)                                     \
	{                                                                                                                    \
		share_product<T, Y, size>(p);                                                                                \
	}
#define SHARES(name, T, Y) SHARE(name, T, Y, 1) SHARE(name, T, Y, 2) SHARE(name, T, Y, 4) SHARE(name, T, Y, 8)
SHARES(f16, f16, f16) SHARES(bf16, bf16, bf16) SHARES(f32, f32, f32) SHARES(f8, f8, f16) SHARES(f8f8, f8, f8)
#endif
