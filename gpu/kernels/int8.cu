// SPDX-License-Identifier: Apache-2.0
// Exact products of 8-bit integers on tensor cores. The kernels also apply scales, zero points and bias to the sums.
#include "int8.h"
#include "codes_tile.cuh"
#include "quant.cuh"


__device__ inline int byte_sum(u32 v, bool is_signed)
{
	return is_signed ? __dp4a((int)v, 0x01010101, 0) : (int)__dp4a(v, 0x01010101u, 0u);
}

// ---- operands ----------------------------------------------------------------------------------

// A warp packs one row; each of its threads packs four elements at a time.
extern "C" __global__ void int8_rows(const gpu_int8_pack p)
{
	const int lane = threadIdx.x % 32;
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32), lines = p.rows * p.batches;
	for (int64_t line = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; line < lines; line += warps) {
		const u8 *x = (const u8 *)p.x + walk1(p.batch, p.xs, line / p.rows) + line % p.rows * p.row;
		int sum = 0;
		for (int64_t c = 4 * lane; c < p.pitch; c += 128) {
			u32 v = 0;
			for (int e = 0; e < 4; e++)
				v |= c + e < p.cols ? (u32)(x[(c + e) * p.col] ^ p.flip) << 8 * e : 0;
			sum += byte_sum(v, p.is_signed);
			if (p.y)
				*(u32 *)((u8 *)p.y + line * p.pitch + c) = v;
		}
		for (int o = 16; o; o >>= 1)
			sum += __shfl_xor_sync(0xffffffffu, sum, o);
		if (p.sum && lane == 0)
			p.sum[line] = sum;
	}
}

// Transposes tiles of 32 rows by 128 columns: neighbouring threads read neighbouring rows and write neighbouring
// columns. If no row sums are wanted, the blocks along the grid's y axis divide the columns among them. L loads the
// elements: load.begin(z, row) selects the row, load.columns(c) prepares the 128 columns from c on, and load(c) returns
// the element in column c.
template <typename L> __device__ inline void transpose_rows(const gpu_int8_pack &p, L load)
{
	__shared__ u8 tile[32][132];
	const int row = threadIdx.x % 32, group = threadIdx.x / 32, mine = threadIdx.x / 8, part = threadIdx.x % 8;
	const int64_t tiles = (p.rows + 31) / 32;
	for (int64_t t = blockIdx.x; t < tiles * p.batches; t += gridDim.x) {
		const int64_t z = t / tiles, r0 = t % tiles * 32;
		const bool there = r0 + row < p.rows;
		int sum = 0;
		load.begin(z, there ? r0 + row : 0);
		for (int64_t c0 = blockIdx.y * (int64_t)128; c0 < p.pitch; c0 += gridDim.y * (int64_t)128) {
			__syncthreads();
			load.columns(c0);
			__syncthreads();
#pragma unroll 8
			for (int c = group; c < 128; c += 8)
				tile[row][c] = there && c0 + c < p.cols ? load(c) ^ p.flip : 0;
			__syncthreads();
			for (int c = 4 * part; c < 128 && c0 + c < p.pitch; c += 32) {
				u32 v = *(const u32 *)&tile[mine][c];
				sum += byte_sum(v, p.is_signed);
				if (r0 + mine < p.rows && p.y)
					*(u32 *)((u8 *)p.y + (z * p.rows + r0 + mine) * p.pitch + c0 + c) = v;
			}
		}
		for (int o = 4; o; o >>= 1)
			sum += __shfl_xor_sync(0xffffffffu, sum, o);
		if (p.sum && part == 0 && r0 + mine < p.rows)
			p.sum[z * p.rows + r0 + mine] = sum;
	}
}

struct FromRows {
	const gpu_int8_pack &p;
	const u8 *at, *from;
	__device__ void begin(int64_t z, int64_t row) { at = (const u8 *)p.x + walk1(p.batch, p.xs, z) + row * p.row; }
	__device__ void columns(int64_t c0) { from = at + c0 * p.col; }
	__device__ u8 operator()(int c) const { return from[c * p.col]; }
};
extern "C" __global__ void int8_turn(const gpu_int8_pack p) { transpose_rows(p, FromRows{p, NULL, NULL}); }

// Loads the windows of a convolution. Each column of the matrix is one element of the window in one channel. `column`
// holds the offset of each column's element from the place where a pixel's window begins.
struct FromImage {
	const gpu_int8_windows &w;
	int4 *column; // 128 entries: the offset of the channel, then the offset within the window in three dimensions
	const u8 *image;
	int at[3];
	u8 zero;
	__device__ void begin(int64_t z, int64_t pixel)
	{
		unsigned rest = (unsigned)pixel;
		for (int d = 2; d >= 0; d--) {
			at[d] = (int)(rest % (unsigned)w.win.out[d] * (unsigned)w.win.stride[d]) - (int)w.win.begin[d];
			rest /= (unsigned)w.win.out[d];
		}
		image = (const u8 *)w.rows.x + z * w.image;
		zero = w.zero ? *(const u8 *)w.zero : 0;
	}
	__device__ void columns(int64_t c0)
	{
		const unsigned k0 = (unsigned)w.win.kernel[0], k1 = (unsigned)w.win.kernel[1], k2 = (unsigned)w.win.kernel[2];
		const unsigned c = (unsigned)c0 + threadIdx.x, tap = c % (k0 * k1 * k2);
		if (threadIdx.x < 128)
			column[threadIdx.x] = make_int4((int)(c / (k0 * k1 * k2) * (unsigned)w.channel),
							(int)(tap / (k1 * k2) * (unsigned)w.win.dilation[0]),
							(int)(tap / k2 % k1 * (unsigned)w.win.dilation[1]),
							(int)(tap % k2 * (unsigned)w.win.dilation[2]));
	}
	__device__ u8 operator()(int c) const
	{
		const int4 o = column[c];
		const int y = at[0] + o.y, z = at[1] + o.z, x = at[2] + o.w;
		if ((unsigned)y >= (unsigned)w.win.in[0] || (unsigned)z >= (unsigned)w.win.in[1] || (unsigned)x >= (unsigned)w.win.in[2])
			return zero;
		return image[o.x + (y * (int)w.win.in[1] + z) * (int)w.win.in[2] + x];
	}
};
extern "C" __global__ void int8_windows(const gpu_int8_windows w)
{
	__shared__ int4 column[128];
	transpose_rows(w.rows, FromImage{w, column});
}

// ---- from sums to the output ----------------------------------------------------------------------------

// Returns element i of a scale, zero point or bias, which have fewer types than the data.
__device__ inline float plain_number(int t, const void *p, int64_t i)
{
	switch (t) {
	case T_U8: return ((const u8 *)p)[i];
	case T_I8: return ((const i8 *)p)[i];
	case T_F16: return up(((const f16 *)p)[i]);
	case T_BF16: return up(((const bf16 *)p)[i]);
	default: return ((const f32 *)p)[i];
	}
}
__device__ inline float one_of(const gpu_int8 &p, int slot, int64_t i, int64_t n, int64_t b, float none)
{
	return slot < 0 || !p.io.in[slot] ? none : plain_number(p.io.it[slot], p.io.in[slot], place_of(p, slot, i, n, b));
}

// The scales, zero points and sums that belong to a row (Row) or to a column (Column) of the output.
struct Row {
	float scale, ys, zero;
	int a_zero, rest; // rest: k * a_zero minus the sum of this row of a
};
struct __align__(16) Column {
	float scale, bias;
	int b_zero, sum;
};

__device__ inline Row row_of(const gpu_int8 &p, int64_t z, int64_t i)
{
	const gpu_qslots &q = p.q;
	const int64_t b = p.first + z;
	Row r;
	r.scale = p.alpha * one_of(p, q.a_scale, i, p.m, b, 1);
	r.ys = one_of(p, q.y_scale, i, p.m, b, 1);
	r.zero = one_of(p, q.y_zero, i, p.m, b, 0);
	r.a_zero = (int)one_of(p, q.a_zero, i, p.m, b, 0) - p.a_shift;
	r.rest = (int)((u32)p.k * (u32)r.a_zero - (p.a_sum ? (u32)p.a_sum[z * p.a_sums + i] : 0));
	return r;
}
__device__ inline Column column_of(const gpu_int8 &p, int64_t z, int64_t j)
{
	const gpu_qslots &q = p.q;
	const int64_t b = p.first + z;
	Column c;
	c.scale = one_of(p, q.b_scale, j, p.n, b, 1);
	c.bias = q.bias >= 0 && p.io.in[q.bias] ? ((const f32 *)p.io.in[q.bias])[j] : 0;
	c.b_zero = (int)one_of(p, q.b_zero, j, p.n, b, 0) - p.b_shift;
	c.sum = p.b_sum ? p.b_sum[z * p.b_sums + j] : 0;
	return c;
}

// Corrects a sum of products for the zero points of both operands. If an operand has no zero point, its zero point here
// is 0, and so is the other operand's sum, because it is not needed.
__device__ inline i32 corrected(int sum, const Row &r, const Column &c)
{
	return (i32)((u32)sum - (u32)r.a_zero * (u32)c.sum + (u32)c.b_zero * (u32)r.rest);
}

// Returns whether two neighbouring outputs can be written in one access. This requires fp32 outputs or the integer sums
// themselves, no addend, and an even number of columns.
__device__ inline bool plain(const gpu_int8 &p)
{
	const bool adds = p.q.add >= 0 && p.io.in[p.q.add];
	return (p.io.ot[0] == T_F32 || p.io.ot[0] == T_I32) && !adds && p.q.y_scale < 0 && p.n % 2 == 0;
}
__device__ inline void put_pair(const gpu_int8 &p, int64_t at, const int *sum, const Row &r, const Column &c,
				const Column &next)
{
	const i32 v = corrected(sum[0], r, c), w = corrected(sum[1], r, next);
	if (p.io.ot[0] == T_I32)
		*(int2 *)((i32 *)p.io.out[0] + at) = make_int2(v, w);
	else
		*(float2 *)((f32 *)p.io.out[0] + at) =
			make_float2(__fadd_rn(__fmul_rn((float)v, r.scale * c.scale), c.bias),
				    __fadd_rn(__fmul_rn((float)w, r.scale * next.scale), next.bias));
}

__device__ inline void put(const gpu_int8 &p, int64_t z, int64_t i, int64_t j, int sum, const Row &r, const Column &c)
{
	const int t = p.io.ot[0];
	const int64_t at = ((p.first + z) * p.m + i) * p.n + j;
	i32 v = corrected(sum, r, c);
	if (p.q.add >= 0 && p.io.in[p.q.add])
		v = (i32)((u32)v + (u32)((const i32 *)p.io.in[p.q.add])[i * p.add_row + j * p.add_col]);
	if (t == T_I32) {
		((i32 *)p.io.out[0])[at] = v;
		return;
	}
	const float scale = p.q.y_scale < 0 ? r.scale * c.scale : r.scale * c.scale / r.ys, x = __fmul_rn((float)v, scale);
	if (t == T_F32) {
		((f32 *)p.io.out[0])[at] = __fadd_rn(x, c.bias);
		return;
	}
	const float low = t == T_I8 ? -128.0f : 0.0f, high = t == T_I8 ? 127.0f : 255.0f;
	((u8 *)p.io.out[0])[at] = (u8)(int)fminf(fmaxf(rintf(x) + r.zero, low), high);
}

// Computes the output from sums that a library computed. A block takes tiles of 32 rows by 128 columns.
extern "C" __global__ void int8_epilogue(const gpu_int8 p)
{
	const int64_t across = (p.n + 127) / 128, down = (p.m + 31) / 32;
	__shared__ Row rows[32];
	__shared__ Column columns[128];
	for (int64_t t = blockIdx.x; t < across * down * p.batches; t += gridDim.x) {
		const int64_t z = t / (across * down), i0 = t / across % down * 32, j0 = t % across * 128;
		const int e = threadIdx.x % 128;
		__syncthreads();
		if (threadIdx.x < 128 && j0 + e < p.n)
			columns[e] = column_of(p, z, j0 + e);
		if (threadIdx.x >= 128 && e < 32 && i0 + e < p.m)
			rows[e] = row_of(p, z, i0 + e);
		__syncthreads();
		const int pair = threadIdx.x % 64 * 2;
		for (int i = threadIdx.x / 64; plain(p) && i < 32 && i0 + i < p.m; i += 4)
			if (j0 + pair < p.n) {
				const int64_t at = i0 * p.n + i * p.n + j0 + pair;
				const int2 sum = *(const int2 *)(p.product + z * p.m * p.n + at);
				const int two[2] = {sum.x, sum.y};
				put_pair(p, (p.first + z) * p.m * p.n + at, two, rows[i], columns[pair], columns[pair + 1]);
			}
		for (int i = threadIdx.x / 128; !plain(p) && i < 32 && i0 + i < p.m; i += 2)
			if (j0 + e < p.n)
				put(p, z, i0 + i, j0 + e, p.product[(z * p.m + i0 + i) * p.n + j0 + e], rows[i], columns[e]);
	}
}

// ---- the product -------------------------------------------------------------------------------

// The pieces of an operand that a thread copies. They have the same rows and columns in every tile.
template <int ROWS, int DEPTH, int THREADS> struct Fetch {
	enum { ALL = ROWS * DEPTH / PIECE, MINE = (ALL + THREADS - 1) / THREADS };
	const u8 *from[MINE];
	// first: where the piece begins along k; if this thread has no piece, a number beyond any k
	int to[MINE], first[MINE];
	__device__ Fetch(const u8 *x, int64_t row0, int64_t rows, int64_t pitch)
	{
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const int at = (int)threadIdx.x + e * THREADS, row = at / (DEPTH / PIECE), piece = at % (DEPTH / PIECE);
			const bool there = at < ALL && row0 + row < rows;
			to[e] = at < ALL ? piece_offset<DEPTH>(row, piece) : -1;
			first[e] = there ? piece * PIECE : 1 << 30;
			from[e] = x + (there ? (row0 + row) * pitch + piece * PIECE : 0);
		}
	}
	__device__ void operator()(u8 *tile, int k0, int k) const
	{
#pragma unroll
		for (int e = 0; e < MINE; e++) {
			const bool there = k0 + first[e] < k;
			if (ALL % THREADS == 0 || to[e] >= 0)
				fetch16(tile + to[e], from[e] + (there ? k0 : 0), there);
		}
	}
};

/*
 * A block computes a tile of BM x BN outputs, and each of its warps WM x WN of them. Each step along k takes DEPTH
 * elements, and STAGES steps are in flight at a time.
 */
template <int BM, int BN, int WM, int WN, int DEPTH, int STAGES, bool SIGNED>
__device__ inline void int8_product(const gpu_int8 &p)
{
	constexpr int ACROSS = BN / WN, THREADS = BM / WM * ACROSS * 32, STAGE = (BM + BN) * DEPTH;
	__shared__ __align__(128) u8 shared[STAGES * STAGE];
	__shared__ Column cols[BN];
	__shared__ Row rows[BM];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / ACROSS * WM, wn = warp % ACROSS * WN;
	const unsigned across = (unsigned)((p.n + BN - 1) / BN);
	const int64_t i0 = (int64_t)(blockIdx.x / across) * BM, j0 = (int64_t)(blockIdx.x % across) * BN;
	const int depth = (int)(p.lda < p.ldb ? p.lda : p.ldb); // if rows of a are shorter, the rest of b's rows is zeros
	const int steps = (depth + DEPTH - 1) / DEPTH;

	for (int64_t z = blockIdx.y; z < p.batches; z += gridDim.y) {
		const Fetch<BM, DEPTH, THREADS> fetch_a((const u8 *)(p.a ? p.a : p.io.in[p.q.a]) + walk1(p.batch, p.as, z), i0,
							p.m, p.lda);
		const Fetch<BN, DEPTH, THREADS> fetch_b((const u8 *)(p.b ? p.b : p.io.in[p.q.b]) + walk1(p.batch, p.bs, z), j0,
							p.n, p.ldb);
		int sum[WM / 16][WN / 8][4] = {};

		__syncthreads();
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++) {
			fetch_a(shared + s * STAGE, s * DEPTH, depth);
			fetch_b(shared + s * STAGE + BM * DEPTH, s * DEPTH, depth);
			fetch_end();
		}
		// The scales are needed at the end only, but loading them now overlaps with the first copies.
		for (int e = threadIdx.x; e < BM + BN; e += THREADS) {
			if (e < BM) // rows beyond the matrix are computed like the others, but not written
				rows[e] = i0 + e < p.m ? row_of(p, z, i0 + e) : Row();
			else if (j0 + e - BM < p.n)
				cols[e - BM] = column_of(p, z, j0 + e - BM);
		}
		int now = 0, next = STAGES - 1;
		for (int s = 0; s < steps; s++) {
			fetch_wait<STAGES - 2>();
			__syncthreads();
			fetch_a(shared + next * STAGE, (s + STAGES - 1) * DEPTH, depth);
			fetch_b(shared + next * STAGE + BM * DEPTH, (s + STAGES - 1) * DEPTH, depth);
			fetch_end();
			const u8 *sa = shared + now * STAGE, *sb = sa + BM * DEPTH;
			next = next + 1 == STAGES ? 0 : next + 1;
			now = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
			for (int half = 0; half < DEPTH / PIECE; half += 2) {
				u32 fa[WM / 16][4], fb[WN / 16][4];
#pragma unroll
				for (int i = 0; i < WM / 16; i++)
					matrices(fa[i], sa + piece_offset<DEPTH>(wm + i * 16 + lane % 16, half + lane / 16));
#pragma unroll
				for (int j = 0; j < WN / 16; j++)
					matrices(fb[j], sb + piece_offset<DEPTH>(wn + j * 16 + lane / 16 * 8 + lane % 8, half + lane / 8 % 2));
#pragma unroll
				for (int i = 0; i < WM / 16; i++)
#pragma unroll
					for (int j = 0; j < WN / 8; j++)
						multiply<SIGNED>(sum[i][j], fa[i], fb[j / 2] + j % 2 * 2);
			}
		}
		fetch_wait_all();
		__syncthreads();
		const bool pairs = plain(p);
#pragma unroll
		for (int i = 0; pairs && i < WM / 16; i++)
#pragma unroll
			for (int e = 0; e < 4; e += 2) {
				const int row = wm + i * 16 + lane / 4 + e / 2 * 8;
				const Row r = rows[row];
				const int64_t at = ((p.first + z) * p.m + i0 + row) * p.n + j0;
#pragma unroll
				for (int j = 0; j < WN / 8; j++) {
					const int col = wn + j * 8 + lane % 4 * 2;
					if (i0 + row < p.m && j0 + col < p.n)
						put_pair(p, at + col, sum[i][j] + e, r, cols[col], cols[col + 1]);
				}
			}
#pragma unroll
		for (int i = 0; !pairs && i < WM / 16; i++)
#pragma unroll
			for (int j = 0; j < WN / 8; j++)
#pragma unroll
				for (int e = 0; e < 4; e++) {
					const int row = wm + i * 16 + lane / 4 + e / 2 * 8, col = wn + j * 8 + lane % 4 * 2 + e % 2;
					if (i0 + row < p.m && j0 + col < p.n)
						put(p, z, i0 + row, j0 + col, sum[i][j][e], rows[row], cols[col]);
				}
	}
}

#define KERNEL(BM, BN, WM, WN, DEPTH, STAGES, T, SIGNED)                                                               \
	extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32) int8_##T##_##BM##x##BN(const gpu_int8 p)    \
	{                                                                                                              \
		int8_product<BM, BN, WM, WN, DEPTH, STAGES, SIGNED>(p);                                                    \
	}
#define PRODUCT(BM, BN, WM, WN, DEPTH, STAGES)                                                                         \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, u8, false)                                                                   \
	KERNEL(BM, BN, WM, WN, DEPTH, STAGES, i8, true)
// The last number is how many stages fit into the 48 KiB of shared memory that a block has by default.
PRODUCT(128, 64, 32, 32, 64, 3)
PRODUCT(64, 64, 32, 32, 64, 5)
PRODUCT(32, 64, 16, 32, 128, 3)
PRODUCT(32, 32, 16, 16, 128, 5)
