// SPDX-License-Identifier: Apache-2.0
// Products of up to 16 rows by a large matrix B of 16-bit elements whose rows lie in one piece, for devices whose blocks come in
// clusters: as in each step of a decoder, the time goes into reading B. Each warp has a ring of reads under way in shared memory, and
// if B is a weight, the ring fills while the kernel ahead still runs. Eight threads beside one another read 128 bytes of a row: with
// less, the reads take twice as long. The blocks of a cluster share the rows of B, so that all processors read, however few columns
// there are. Sums are made in float on tensor cores, in an order that only the sizes determine.
#include "product.cuh"
#include "ring.h"

#ifdef CLUSTERS

enum {
	CHUNK = GPU_RING_CHUNK,
	PIECE = 8,    // elements of 16 bytes
	COLUMNS = GPU_RING_COLUMNS,
	BAND = 64,    // columns that lie together in shared memory, in rows of 128 bytes
	WARPS = GPU_RING_WARPS,
	HALF = GPU_RING_HALF,
	STAGES = GPU_RING_STAGES,
	AHEAD = 2,    // of them while the kernel before may still run
	STEP = COLUMNS + 4, // from row to row of a warp's sums in shared memory
	NORM_PIECES = 512,  // of a row that is normalized, at most
};

__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, f16) { mma_f16(c, a, b0, b1); }
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, bf16) { mma_bf16(c, a, b0, b1); }

// ---- rows that are normalized -----------------------------------------------------------------------

struct Norms {
	float factor[2 * HALF];			     // of each row
	float part[2 * HALF * NORM_PIECES / 32]; // sums of the squares of 32 pieces
};

// The sum of the squares of N numbers, in the order of all sums of squares here: that of norm_row (rows.cu), so that the results are
// the same. Neighbours come first, then neighbours of these, up to 256; such sums follow one another.
template <typename T, int N> __device__ inline float squares(const T *x)
{
	if constexpr (N == 1)
		return up(x[0]) * up(x[0]);
	else
		return squares<T, N / 2>(x) + squares<T, N / 2>(x + N / 2);
}

__device__ inline float norm_of(const gpu_gemm &p, float squares, float epsilon)
{
	return 1.0f / sqrtf(squares / (float)p.k + epsilon);
}

// Finds the factors of the rows. between() is called once while the first reads are under way.
template <typename T, typename BETWEEN>
__device__ inline void find_norms(const gpu_gemm &p, float epsilon, Norms &to, const BETWEEN &between)
{
	enum { AT_ONCE = 8 };
	const int pieces = (int)p.k / PIECE, parts = (pieces + 31) / 32, all = (int)p.m * parts, lane = threadIdx.x % 32;
#pragma unroll 1
	for (int first = threadIdx.x / 32; first < WARPS || first < all; first += AT_ONCE * WARPS) {
		uint4 x[AT_ONCE];
		float sum[AT_ONCE];
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++) {
			const int i = first + u * WARPS, piece = i % parts * 32 + lane;
			x[u] = make_uint4(0, 0, 0, 0);
			if (i < all && piece < pieces)
				x[u] = *(const uint4 *)((const T *)p.a + i / parts * p.a_row + piece * PIECE);
		}
		if (first < WARPS)
			between();
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++)
			sum[u] = squares<T, PIECE>((const T *)&x[u]);
#pragma unroll
		for (int o = 1; o < 32; o *= 2)
#pragma unroll
			for (int u = 0; u < AT_ONCE; u++)
				sum[u] += __shfl_xor_sync(0xffffffffu, sum[u], o);
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++)
			if (!lane && first + u * WARPS < all)
				to.part[first + u * WARPS] = sum[u];
	}
	__syncthreads();
	if (threadIdx.x < 2 * HALF) {
		float v = 0;
		for (int k = 0; k < parts && threadIdx.x < (int)p.m; k++)
			v += to.part[threadIdx.x * parts + k];
		to.factor[threadIdx.x] = norm_of(p, v, epsilon);
	}
	__syncthreads();
}

// The place of the sum of the squares of columns col to col + 31 of a row: two times four of them lie beside one another, so that two
// threads read those of 256 columns.
__device__ inline int64_t place_of_squares(const gpu_gemm &p, int64_t row, int64_t col)
{
	const int64_t sum = col / GPU_SQUARES;
	return (sum / GPU_SQUARE_SUMS * p.m + row) * GPU_SQUARE_SUMS + sum % GPU_SQUARE_SUMS;
}

// The factor of row threadIdx.x % 32 / 2, from sums of squares.
__device__ inline float known_norm(const gpu_gemm &p, const float *known, float epsilon)
{
	enum { AT_ONCE = 8, EACH = GPU_SQUARES * GPU_SQUARE_SUMS };
	const int lane = threadIdx.x % 32, groups = (int)((p.k + EACH - 1) / EACH);
	float all = 0;
#pragma unroll 1
	for (int first = 0; first < groups; first += AT_ONCE) {
		float4 x[AT_ONCE];
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++) {
			const int group = first + u;
			x[u] = make_float4(0, 0, 0, 0);
			if (lane / 2 < (int)p.m && group * EACH + lane % 2 * (EACH / 2) < (int)p.k)
				x[u] = ((const float4 *)known)[(group * (int)p.m + lane / 2) * 2 + lane % 2];
		}
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++) {
			const float half = (x[u].x + x[u].y) + (x[u].z + x[u].w);
			all += half + __shfl_xor_sync(0xffffffffu, half, 1);
		}
	}
	return norm_of(p, all, epsilon);
}

// Two elements of a row with its factor, and with the scale of their columns.
template <typename T> __device__ inline u32 normalized(u32 x, float factor, u32 scale)
{
	u32 y;
#pragma unroll
	for (int e = 0; e < 2; e++)
		((T *)&y)[e] = down<T>(up(((const T *)&x)[e]) * factor * up(((const T *)&scale)[e]));
	return y;
}

// ---- the way of the warps through B ------------------------------------------------------------------

// A chunk in shared memory: 16 rows of B in bands of 64 columns, the same 16 columns of each row of A, and of the scale of rows that
// are normalized. The pieces of a row are permuted so that the eight rows of a matrix lie in different banks.
template <int HALVES> struct Stage {
	uint4 b[COLUMNS / BAND][CHUNK][BAND / PIECE], a[HALVES * HALF][CHUNK / PIECE], scale[CHUNK / PIECE];

	// Byte offset of a piece of B, XOR-swizzled by its row against bank conflicts. turned(place, n) is the offset of the piece 2 n pieces
	// farther in the same row of a band, or of the same piece 2 n rows farther, less the distance of these rows.
	__device__ inline static int place_b(int row, int piece)
	{
		return ((piece / 8 * CHUNK + row) * (BAND / PIECE) + (piece ^ row) % 8) * (int)sizeof(uint4);
	}
	__device__ inline static int turned(int place, int n)
	{
		return place ^ 2 * n * (int)sizeof(uint4);
	}
	__device__ inline uint4 *at(int place)
	{
		return (uint4 *)((char *)b + place);
	}
	__device__ inline uint4 *piece_a(int row, int piece)
	{
		return &a[row][piece ^ (row >> 2 & 1)];
	}
};

// A warp's way through its chunks: the chunks of a block's rows of B, one after the other, are dealt to its warps. What a thread reads
// next is kept: a few blocks must read all of B, and would otherwise wait for the arithmetic of addresses.
template <typename T, int HALVES> struct Way {
	static const int WIDE = COLUMNS / PIECE; // threads beside one another
	Stage<HALVES> *ring;
	const gpu_gemm &p;
	const T *b; // where this thread's columns of the next chunk begin
	bool there; // they exist
	const T *a, *scale; // where this thread's row of A begins, and the scale
	int stop; // behind the last row of B of this block
	const uint64_t once = read_once();

	__device__ inline Way(Stage<HALVES> *ring, const gpu_gemm &p, const T *b0, bool there, const T *scale, int first, int stop)
	    : ring(ring), p(p), there(there), scale(scale), stop(stop)
	{
		const int lane = threadIdx.x % 32, row = lane / 2;
		b = b0 + (first + lane / WIDE) * p.b_row;
		a = row < (int)p.m ? (const T *)p.a + row * p.a_row + lane % 2 * PIECE : NULL;
	}
	// Chunks are read one after the other; k is the first row of this one.
	__device__ inline void read_b(Stage<HALVES> &to, int k)
	{
		const int lane = threadIdx.x % 32, place = Stage<HALVES>::place_b(lane / WIDE, lane % WIDE);
		if (k >= stop)
			return;
		const bool more = there && k + CHUNK / 2 < stop; // K is a multiple of PIECE, half of a chunk
		const T *from = b;
#pragma unroll
		for (int n = 0; n < CHUNK * WIDE / 32; n++, from += 32 / WIDE * p.b_row)
			fetch16_once(to.at(Stage<HALVES>::turned(place, n % 4) + 2 * n * BAND * (int)sizeof(T)), from, n < 4 ? there : more, once);
		if (scale && lane < CHUNK / PIECE)
			fetch16(&to.scale[lane], scale + k + lane * PIECE, k + lane * PIECE < stop);
		b += WARPS * CHUNK * p.b_row;
	}
	__device__ inline void read_a(Stage<HALVES> &to, int k)
	{
		const int row = threadIdx.x % 32 / 2, piece = threadIdx.x % 2;
		if (k < stop && row < HALVES * HALF)
			fetch16(to.piece_a(row, piece), a ? a + k : (const T *)p.a, a && k + piece * PIECE < stop);
	}
	__device__ inline void begin_a(int first)
	{
#pragma unroll
		for (int i = 0; i < STAGES; i++) {
			read_a(ring[i], first + i * WARPS * CHUNK);
			fetch_end();
		}
	}
	// Lets the next kernel begin if all chunks from row k on have been asked for: what it reads ahead would come before them.
	__device__ inline void let_next(int k) const
	{
		if (k + STAGES * WARPS * CHUNK >= stop)
			let_next_begin();
	}
	// Adds the products of a chunk. The tensor cores take columns of B as rows, and rows of A as columns.
	__device__ inline void multiply(Stage<HALVES> &stage, const float *factor, float sum[COLUMNS / 16][HALVES][4])
	{
		enum { AHEAD = 4 / HALVES }; // matrices of B on their way to registers, as many as there are left
		const int lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8, side = lane / 8 % 2;
		const int place = Stage<HALVES>::place_b(row, side);
		u32 a[4], b[AHEAD][4];
		auto read = [&](int j) { matrices_turned(b[j % AHEAD], stage.at(Stage<HALVES>::turned(place, j % 4) + j / 4 * CHUNK * BAND * (int)sizeof(T))); };
		matrices(a, stage.piece_a(row % (HALVES * HALF), side));
#pragma unroll
		for (int j = 0; j < AHEAD - 1; j++)
			read(j);
		if (scale) {
#pragma unroll
			for (int h = 0; h < 2 * HALVES; h++)
				a[h] = normalized<T>(a[h], factor[h / 2], ((const u32 *)stage.scale)[h % 2 * 4 + lane % 4]);
		}
#pragma unroll
		for (int j = 0; j < COLUMNS / 16; j++) {
			if (j + AHEAD - 1 < COLUMNS / 16)
				read(j + AHEAD - 1);
#pragma unroll
			for (int h = 0; h < HALVES; h++)
				mma(sum[j][h], b[j % AHEAD], a[2 * h], a[2 * h + 1], T());
		}
	}
};

// ---- what becomes of the sums ------------------------------------------------------------------------

// The sums of a block in the order in which its cluster's blocks share them: row by row, and with a gate each column of the first
// matrix before the same one of the second.
struct Place {
	int row, col;
};
template <bool GATE> __device__ inline Place place_of(int i)
{
	const int e = i % COLUMNS;
	return {i / COLUMNS, GATE ? e / 2 + e % 2 * BAND : e};
}

// Whole warps come here together, each with 32 sums beside one another.
template <typename T> __device__ inline void put_sum(const gpu_ring &all, const gpu_gemm &p, int64_t col0, int i, float v)
{
	const int64_t row = i / COLUMNS, col = col0 + i % COLUMNS, at = row * p.n + col;
	T y = down<T>(0.0f);
	if (col < p.n)
		((T *)p.y)[at] = y = product_of<T>(p, at, row * p.c_row + col * p.c_col, v);
	if (all.sums_squares) {
		float sum = squares<T, 1>(&y);
#pragma unroll
		for (int o = 1; o < GPU_SQUARES; o *= 2)
			sum += __shfl_xor_sync(0xffffffffu, sum, o);
		if (threadIdx.x % 32 == 0)
			all.squares[place_of_squares(p, row, col)] = sum;
	}
}

// The same for the sums i and i + 1 of the matrices that are multiplied.
template <typename T> __device__ inline void put_gated(const gpu_ring &all, int64_t col0, int i, const float *v)
{
	const gpu_gemm *p = all.all.job;
	const int64_t row = i / COLUMNS, col = col0 + i % COLUMNS / 2, at = row * p->n + col;
	if (col < p->n) {
		const float a = up(product_of<T>(p[0], at, row * p[0].c_row + col * p[0].c_col, v[0]));
		((T *)all.gated)[at] = down<T>(a * up(product_of<T>(p[1], at, row * p[1].c_row + col * p[1].c_col, v[1])));
	}
}

// Stores sums i, i + 1 (if there is a gate), which get() returns.
template <typename T, bool GATE, typename GET>
__device__ inline void put_some(const gpu_ring &all, const gpu_gemm &p, int64_t col0, int i, const GET &get)
{
	if (!GATE) {
		put_sum<T>(all, p, col0, i, get(i));
	} else {
		const float v[2] = {get(i), get(i + 1)};
		put_gated<T>(all, col0, i, v);
	}
}

// Adds up what the warps of a block, then what the SIZE blocks of its cluster have, and stores it. Each block has a share of the sums.
template <typename T, int SIZE, bool GATE>
__device__ inline void put_sums(const gpu_ring &job, const gpu_gemm &p, int64_t col0, const float *part, float *all)
{
	const int EACH = GATE ? 2 : 1, rows = (int)p.m, total = rows * COLUMNS, share = total / SIZE, rank = blockIdx.x % SIZE;
	auto of_warps = [&](int i) {
		const Place at = place_of<GATE>(i);
		float v = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			v += part[(w * rows + at.row) * STEP + at.col];
		return v;
	};
	if constexpr (SIZE == 1) {
		for (int i = threadIdx.x * EACH; i < total; i += blockDim.x * EACH)
			put_some<T, GATE>(job, p, col0, i, of_warps);
	} else {
		for (int i = threadIdx.x; i < total; i += blockDim.x)
			cluster_put(all, rank * share + i % share, i / share, of_warps(i));
		cluster_arrive();
		cluster_wait();
		for (int to = cluster_first<SIZE>(); to < cluster_end<SIZE>(); to++)
			for (int i = threadIdx.x * EACH; i < share; i += blockDim.x * EACH)
				put_some<T, GATE>(job, p, col0, to * share + i, [&](int z) {
					float v = 0;
#pragma unroll
					for (int r = 0; r < SIZE; r++)
						v += cluster_get(all, r * share + z - to * share, to);
					return v;
				});
	}
}

// Writes a warp's sums to shared memory.
template <int HALVES> __device__ inline void keep_sums(const float sum[COLUMNS / 16][HALVES][4], int rows, float *part)
{
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
	for (int j = 0; j < COLUMNS / 16; j++)
#pragma unroll
		for (int h = 0; h < HALVES; h++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const int row = h * HALF + lane % 4 * 2 + e % 2;
				if (row < rows)
					part[(warp * rows + row) * STEP + j * 16 + e / 2 * 8 + lane / 4] = sum[j][h][e];
			}
}

__device__ inline int tiles_of(const gpu_gemm &p)
{
	return (int)((p.n + COLUMNS - 1) / COLUMNS);
}

// Blocks have 128 columns of one matrix, one matrix after the other, or (GATE) 64 of each of the first two.
template <typename T, int HALVES, int SIZE, bool GATE> __device__ inline void ring(const gpu_ring &job)
{
	SHARED_ROOM(char, room);
	__shared__ Norms norms;
	int which = 0, tile = blockIdx.x / SIZE;
	while (!GATE && which + 1 < GPU_SEVERAL && tile >= tiles_of(job.all.job[which]))
		tile -= tiles_of(job.all.job[which++]);
	const gpu_gemm &p = job.all.job[which];
	Stage<HALVES> *const stages = (Stage<HALVES> *)room;
	const int warp = threadIdx.x / 32, rank = blockIdx.x % SIZE;
	const int chunks = (int)((p.k + CHUNK - 1) / CHUNK), each = (chunks + SIZE - 1) / SIZE;
	const int first = (rank * each + warp) * CHUNK, stop = (rank + 1) * each < chunks ? (rank + 1) * each * CHUNK : (int)p.k;
	const int64_t col0 = tile * (int64_t)(GATE ? BAND : COLUMNS);
	const int piece = threadIdx.x % (COLUMNS / PIECE);
	const int64_t col = col0 + (GATE ? piece % (BAND / PIECE) : piece) * PIECE;
	const T *const b = (const T *)(GATE && piece >= BAND / PIECE ? job.all.job[1].b : p.b);
	const bool there = col < p.n;
	Way<T, HALVES> way(stages + warp * STAGES, p, b + (there ? col : 0), there, (const T *)job.scale, first, stop);
	float sum[COLUMNS / 16][HALVES][4] = {}, factor[HALVES] = {}; // of rows threadIdx.x % 32 / 4, and so on

	if (SIZE > 1)
		cluster_arrive();
	read_ahead(p, [&] {
#pragma unroll
		for (int i = 0; i < STAGES; i++) {
			if (i >= AHEAD)
				fetch_wait<AHEAD - 1>(); // else these reads stand in the queue before those of the kernel that still runs
			way.read_b(way.ring[i], first + i * WARPS * CHUNK);
			fetch_end();
		}
	});
	if (job.scale && !job.known)
		find_norms<T>(p, job.epsilon, norms, [&] { way.begin_a(first); });
	else
		way.begin_a(first);
	if (job.scale) {
		const float known = job.known ? known_norm(p, job.known, job.epsilon) : norms.factor[threadIdx.x % 32 / 2];
#pragma unroll
		for (int h = 0; h < HALVES; h++)
			factor[h] = __shfl_sync(0xffffffffu, known, h * 2 * HALF + threadIdx.x % 32 / 4 * 2);
	}
	way.let_next(first);
#pragma unroll 1
	for (int i = 0, k = first; k < stop; i = i + 1 < STAGES ? i + 1 : 0, k += WARPS * CHUNK) {
		Stage<HALVES> &stage = way.ring[i];
		fetch_wait<STAGES - 1>(); // all but the copies of later chunks
		__syncwarp();
		way.multiply(stage, factor, sum);
		__syncwarp();
		way.read_b(stage, k + STAGES * WARPS * CHUNK);
		way.read_a(stage, k + STAGES * WARPS * CHUNK);
		fetch_end();
		way.let_next(k + WARPS * CHUNK);
	}
	__syncthreads(); // nobody needs the ring any more
	float *part = (float *)room, *all = (float *)(stages + WARPS * STAGES);
	keep_sums<HALVES>(sum, (int)p.m, part);
	if (SIZE > 1)
		cluster_wait(); // the others have begun, so that their shared memory is there
	__syncthreads();
	put_sums<T, SIZE, GATE>(job, p, col0, part, all);
}

#define RING(T, HALVES, SIZE)                                                                                                     \
	extern "C" __global__ void CLUSTER(SIZE) __launch_bounds__(32 * WARPS)                                                     \
		gemv_ring##HALVES##_##SIZE##_##T(const __grid_constant__ gpu_ring p)                                               \
	{                                                                                                                          \
		ring<T, HALVES, SIZE, false>(p);                                                                                   \
	}                                                                                                                          \
	extern "C" __global__ void CLUSTER(SIZE) __launch_bounds__(32 * WARPS)                                                     \
		gemv_gate##HALVES##_##SIZE##_##T(const __grid_constant__ gpu_ring p)                                               \
	{                                                                                                                          \
		ring<T, HALVES, SIZE, true>(p);                                                                                    \
	}
#define RINGS(T, HALVES) RING(T, HALVES, 1) RING(T, HALVES, 2) RING(T, HALVES, 4)
RINGS(f16, 1) RINGS(f16, 2) RINGS(bf16, 1) RINGS(bf16, 2)
#endif
