// SPDX-License-Identifier: Apache-2.0
// Products of up to 16 rows by a large matrix B of 16-bit elements whose rows lie in one piece, for devices whose blocks come in
// clusters: as in each step of a decoder, the time goes into reading B. Each warp has a ring of reads under way in shared memory, and
// if B is a weight, the ring is full before the kernel ahead has ended. Eight threads beside one another read 128 bytes of a row: with
// less, the reads take twice as long. The blocks of a cluster share the rows of B, so that all processors read, however few columns
// there are. Sums are made in float on tensor cores, in an order that only the sizes determine.
#include "product.cuh"

#ifdef CLUSTERS

enum {
	CHUNK = 16,   // rows of B that a warp reads at a time
	PIECE = 8,    // elements of 16 bytes
	COLUMNS = 128, // of a block
	BAND = 64,    // columns that lie together in shared memory, in rows of 128 bytes
	WARPS = 8,    // of a block
	HALF = 8,     // rows of A in a product of tensor cores
	STAGES = 4,   // chunks of a warp under way
	STEP = COLUMNS + 4, // from row to row of a warp's sums in shared memory
};

__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, f16) { mma_f16(c, a, b0, b1); }
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, bf16) { mma_bf16(c, a, b0, b1); }

// A chunk in shared memory: 16 rows of B in bands of 64 columns, and the same 16 columns of each row of A. The pieces of a row are
// permuted so that the eight rows of a matrix lie in different banks.
template <int HALVES> struct Stage {
	uint4 b[COLUMNS / BAND][CHUNK][BAND / PIECE], a[HALVES * HALF][CHUNK / PIECE];

	__device__ inline uint4 *piece_b(int row, int piece)
	{
		return &b[piece / 8][row][(piece ^ row) % 8];
	}
	__device__ inline uint4 *piece_a(int row, int piece)
	{
		return &a[row][piece ^ (row >> 2 & 1)];
	}
};

// A warp's way through its chunks: the chunks of a block's rows of B, one after the other, are dealt to its warps.
template <typename T, int HALVES> struct Way {
	Stage<HALVES> *ring;
	const gpu_gemm &p;
	int64_t col0; // of the block
	int k0, n;    // first row of B, chunks

	__device__ inline int row_of(int i) const
	{
		return k0 + i * WARPS * CHUNK;
	}
	__device__ inline void read_b(int i)
	{
		const int WIDE = COLUMNS / PIECE, piece = threadIdx.x % WIDE, row0 = threadIdx.x % 32 / WIDE, k = row_of(i) + row0;
		const bool there = col0 + piece * PIECE < p.n;
		const T *from = (const T *)p.b + k * p.b_row + (there ? col0 + piece * PIECE : 0);
		if (i >= n)
			return;
#pragma unroll
		for (int r = 0; r < CHUNK; r += 32 / WIDE)
			fetch16(ring[i % STAGES].piece_b(row0 + r, piece), from + r * p.b_row, there && k + r < (int)p.k);
	}
	__device__ inline void read_a(int i)
	{
		const int row = threadIdx.x % 32 / 2, piece = threadIdx.x % 2, k = row_of(i) + piece * PIECE;
		const bool there = row < (int)p.m && k < (int)p.k;
		if (i < n && row < HALVES * HALF)
			fetch16(ring[i % STAGES].piece_a(row, piece), (const T *)p.a + (there ? row * p.a_row + k : 0), there);
	}
	// Adds the products of chunk i. The tensor cores take columns of B as rows, and rows of A as columns.
	__device__ inline void multiply(int i, float sum[COLUMNS / 16][HALVES][4])
	{
		const int lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8, side = lane / 8 % 2;
		Stage<HALVES> &stage = ring[i % STAGES];
		u32 a[4], b[4];
		matrices(a, stage.piece_a(row % (HALVES * HALF), side));
#pragma unroll
		for (int j = 0; j < COLUMNS / 16; j++) {
			matrices_turned(b, stage.piece_b(row, 2 * j + side));
#pragma unroll
			for (int h = 0; h < HALVES; h++)
				mma(sum[j][h], b, a[2 * h], a[2 * h + 1], T());
		}
	}
};

template <typename T> __device__ inline void put_sum(const gpu_gemm &p, int64_t col0, int i, float v)
{
	const int64_t row = i / COLUMNS, col = col0 + i % COLUMNS;
	if (col < p.n)
		put_product<T>(p, row * p.n + col, row * p.c_row + col * p.c_col, v);
}

// Adds up what the warps of a block, then what the SIZE blocks of its cluster have, and stores it. Each block has a share of the sums.
template <typename T, int SIZE> __device__ inline void put_sums(const gpu_gemm &p, int64_t col0, const float *part, float *all)
{
	const int rows = (int)p.m, total = rows * COLUMNS, share = total / SIZE, rank = blockIdx.x % SIZE;
	for (int i = threadIdx.x; i < total; i += blockDim.x) {
		float v = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			v += part[(w * rows + i / COLUMNS) * STEP + i % COLUMNS];
		if (SIZE == 1)
			put_sum<T>(p, col0, i, v);
		else
			cluster_put(all, rank * share + i % share, i / share, v);
	}
	if (SIZE == 1)
		return;
	cluster_arrive();
	cluster_wait();
	for (int to = cluster_first<SIZE>(); to < cluster_end<SIZE>(); to++)
		for (int i = threadIdx.x; i < share; i += blockDim.x) {
			float v = 0;
#pragma unroll
			for (int r = 0; r < SIZE; r++)
				v += cluster_get(all, r * share + i, to);
			put_sum<T>(p, col0, to * share + i, v);
		}
}

template <typename T, int HALVES, int SIZE> __device__ inline void ring(const gpu_gemm &p)
{
	SHARED_ROOM(char, room);
	Stage<HALVES> *const stages = (Stage<HALVES> *)room;
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = blockIdx.x % SIZE, rows = (int)p.m;
	const int chunks = (int)((p.k + CHUNK - 1) / CHUNK), each = (chunks + SIZE - 1) / SIZE;
	const int first = rank * each + warp, end = rank * each + each < chunks ? rank * each + each : chunks;
	const int64_t col0 = blockIdx.x / SIZE * (int64_t)COLUMNS;
	Way<T, HALVES> way = {stages + warp * STAGES, p, col0, first * CHUNK, first < end ? (end - first + WARPS - 1) / WARPS : 0};
	float sum[COLUMNS / 16][HALVES][4] = {};
	if (col0 >= p.n)
		return;

	if (SIZE > 1)
		cluster_arrive();
	begin_product(p, [&] {
#pragma unroll
		for (int i = 0; i < STAGES; i++) {
			way.read_b(i);
			fetch_end();
		}
	});
#pragma unroll
	for (int i = 0; i < STAGES; i++) {
		way.read_a(i);
		fetch_end();
	}
#pragma unroll 1
	for (int i = 0; i < way.n; i++) {
		fetch_wait<STAGES - 1>(); // all but the copies of later chunks
		__syncwarp();
		way.multiply(i, sum);
		__syncwarp();
		way.read_b(i + STAGES);
		way.read_a(i + STAGES);
		fetch_end();
	}
	__syncthreads(); // nobody needs the ring any more
	float *part = (float *)room, *all = (float *)(stages + WARPS * STAGES);
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
	if (SIZE > 1)
		cluster_wait(); // the others have begun, so that their shared memory is there
	__syncthreads();
	put_sums<T, SIZE>(p, col0, part, all);
}

#define RING(T, HALVES, SIZE)                                                                                                     \
	extern "C" __global__ void CLUSTER(SIZE) __launch_bounds__(32 * WARPS)                                                     \
		gemv_ring##HALVES##_##SIZE##_##T(const __grid_constant__ gpu_gemms p)                                              \
	{                                                                                                                          \
		ring<T, HALVES, SIZE>(p.job[blockIdx.z]);                                                                  \
	}
#define RINGS(T, HALVES) RING(T, HALVES, 1) RING(T, HALVES, 2) RING(T, HALVES, 4)
RINGS(f16, 1) RINGS(f16, 2) RINGS(bf16, 1) RINGS(bf16, 2)
#endif
