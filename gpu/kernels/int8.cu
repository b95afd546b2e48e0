// SPDX-License-Identifier: Apache-2.0
// Exact products of 8-bit integers on the tensor cores, with everything behind the sum in the same launch.
#include "int8.h"
#include "quant.cuh"

enum { PIECE = 16, DEPTH = GPU_INT8_PITCH };

__device__ inline int byte_sum(u32 v, bool is_signed)
{
	return is_signed ? __dp4a((int)v, 0x01010101, 0) : (int)__dp4a(v, 0x01010101u, 0u);
}

// ---- operands ----------------------------------------------------------------------------------

// A warp a row, four elements a thread.
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

// 32 rows and 128 columns at a time, read along the rows' numbers and written along the columns. Where no sums are
// wanted, blocks of one y share the columns.
template <typename L> __device__ inline void turn(const gpu_int8_pack &p, L load)
{
	__shared__ u8 tile[32][132];
	const int row = threadIdx.x % 32, group = threadIdx.x / 32, mine = threadIdx.x / 8, part = threadIdx.x % 8;
	const int64_t tiles = (p.rows + 31) / 32;
	for (int64_t t = blockIdx.x; t < tiles * p.batches; t += gridDim.x) {
		const int64_t z = t / tiles, r0 = t % tiles * 32;
		int sum = 0;
		for (int64_t c0 = blockIdx.y * (int64_t)128; c0 < p.pitch; c0 += gridDim.y * (int64_t)128) {
			__syncthreads();
#pragma unroll 4
			for (int c = group; c < 128; c += 8)
				tile[row][c] = r0 + row < p.rows && c0 + c < p.cols ? load(z, r0 + row, c0 + c) ^ p.flip : 0;
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
	__device__ u8 operator()(int64_t z, int64_t row, int64_t col) const
	{
		return ((const u8 *)p.x)[walk1(p.batch, p.xs, z) + row * p.row + col * p.col];
	}
};
extern "C" __global__ void int8_turn(const gpu_int8_pack p) { turn(p, FromRows{p}); }

struct FromImage {
	const gpu_int8_windows &w;
	__device__ u8 operator()(int64_t z, int64_t pixel, int64_t col) const
	{
		const unsigned taps = (unsigned)(w.kernel[0] * w.kernel[1] * w.kernel[2]);
		unsigned channel = (unsigned)col / taps, tap = (unsigned)col % taps, at = (unsigned)pixel, step[3], from[3];
		for (int d = 2; d >= 0; d--) {
			step[d] = tap % (unsigned)w.kernel[d];
			tap /= (unsigned)w.kernel[d];
			from[d] = at % (unsigned)w.out[d];
			at /= (unsigned)w.out[d];
		}
		int64_t place = 0;
		for (int d = 0; d < 3; d++) {
			int64_t v = from[d] * w.stride[d] - w.begin[d] + step[d] * w.dilation[d];
			if (v < 0 || v >= w.in[d])
				return w.zero ? *(const u8 *)w.zero : 0;
			place = place * w.in[d] + v;
		}
		return ((const u8 *)w.rows.x)[z * w.image + channel * w.channel + place];
	}
};
extern "C" __global__ void int8_windows(const gpu_int8_windows w) { turn(w.rows, FromImage{w}); }

// ---- behind the sum ----------------------------------------------------------------------------

// What belongs to a row or a column of the output.
struct Row {
	float scale, ys, zero;
	int a_zero, rest; // rest: what each zero of b takes
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
	r.scale = p.alpha * number_of(p, q.a_scale, i, p.m, b, 1);
	r.ys = number_of(p, q.y_scale, i, p.m, b, 1);
	r.zero = number_of(p, q.y_zero, i, p.m, b, 0);
	r.a_zero = (int)number_of(p, q.a_zero, i, p.m, b, 0) - p.a_shift;
	r.rest = (int)((u32)p.k * (u32)r.a_zero - (p.a_sum ? (u32)p.a_sum[z * p.a_sums + i] : 0));
	return r;
}
__device__ inline Column column_of(const gpu_int8 &p, int64_t z, int64_t j)
{
	const gpu_qslots &q = p.q;
	const int64_t b = p.first + z;
	Column c;
	c.scale = number_of(p, q.b_scale, j, p.n, b, 1);
	c.bias = q.bias >= 0 && p.io.in[q.bias] ? (float)in_real(p.io, q.bias, j) : 0;
	c.b_zero = (int)number_of(p, q.b_zero, j, p.n, b, 0) - p.b_shift;
	c.sum = p.b_sum ? p.b_sum[z * p.b_sums + j] : 0;
	return c;
}

// An operand without zero point has none here, and the other's sums are 0.
__device__ inline i32 corrected(int sum, const Row &r, const Column &c)
{
	return (i32)((u32)sum - (u32)r.a_zero * (u32)c.sum + (u32)c.b_zero * (u32)r.rest);
}

// Most products become fp32 or stay as they are: two columns side by side, of a row of an even number of them.
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
	i32 v = corrected(sum, r, c);
	if (p.q.add >= 0 && p.io.in[p.q.add])
		v = (i32)((u32)v + (u32)((const i32 *)p.io.in[p.q.add])[i * p.add_row + j * p.add_col]);
	finish(p.io, ((p.first + z) * p.m + i) * p.n + j, v, r.scale * c.scale / r.ys, c.bias, r.zero);
}

// A block has 32 rows and 128 columns: sums that a library made.
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

__device__ inline void copy_piece(u8 *to, const u8 *from, bool there)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from),
		     "r"(there ? 16 : 0));
}
// Four matrices of 8 rows of 16 bytes, one row's place from each thread.
__device__ inline void load_matrices(u32 *r, const u8 *from)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"((u32)__cvta_generic_to_shared(from)));
}
template <bool SIGNED> __device__ inline void multiply(int *c, const u32 *a, const u32 *b)
{
	if (SIGNED)
		asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
			     "{%0,%1,%2,%3};"
			     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else
		asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
			     "{%0,%1,%2,%3};"
			     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Rows of 64 bytes; the four pieces of a row change places so that eight rows lie in all banks.
__device__ inline int place(int row, int piece) { return row * DEPTH + (piece ^ (row >> 1 & 3)) * PIECE; }

template <int ROWS, int THREADS>
__device__ inline void fetch(u8 *to, const u8 *from, int64_t row0, int64_t rows, int64_t pitch, int64_t k0, int64_t k)
{
	for (int e = threadIdx.x; e < ROWS * 4; e += THREADS) {
		const int row = e / 4, piece = e % 4;
		const bool there = row0 + row < rows && k0 + piece * PIECE < k;
		copy_piece(to + place(row, piece), there ? from + (row0 + row) * pitch + k0 + piece * PIECE : from, there);
	}
	asm volatile("cp.async.commit_group;");
}

/* A block makes BM by BN, a warp WM by WN of them. */
template <int BM, int BN, int WM, int WN, int STAGES, bool SIGNED> __device__ inline void int8_product(const gpu_int8 &p)
{
	constexpr int ACROSS = BN / WN, THREADS = BM / WM * ACROSS * 32;
	__shared__ __align__(128) u8 shared[STAGES * (BM + BN) * DEPTH];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / ACROSS * WM, wn = warp % ACROSS * WN;
	const int64_t columns = (p.n + BN - 1) / BN, i0 = blockIdx.x / columns * BM, j0 = blockIdx.x % columns * BN;
	const int64_t depth = p.lda < p.ldb ? p.lda : p.ldb; // what both have; where a is shorter, b holds zeros
	const int steps = (int)((depth + DEPTH - 1) / DEPTH);

	for (int64_t z = blockIdx.y; z < p.batches; z += gridDim.y) {
		const u8 *a = (const u8 *)(p.a ? p.a : p.io.in[p.q.a]) + walk1(p.batch, p.as, z);
		const u8 *b = (const u8 *)(p.b ? p.b : p.io.in[p.q.b]) + walk1(p.batch, p.bs, z);
		int sum[WM / 16][WN / 8][4] = {};

		__syncthreads();
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++) {
			u8 *to = shared + s * (BM + BN) * DEPTH;
			fetch<BM, THREADS>(to, a, i0, p.m, p.lda, s * DEPTH, depth);
			fetch<BN, THREADS>(to + BM * DEPTH, b, j0, p.n, p.ldb, s * DEPTH, depth);
		}
		for (int s = 0; s < steps; s++) {
			asm volatile("cp.async.wait_group %0;" ::"n"(2 * (STAGES - 2)));
			__syncthreads();
			const int next = s + STAGES - 1;
			u8 *to = shared + next % STAGES * (BM + BN) * DEPTH;
			fetch<BM, THREADS>(to, a, i0, p.m, p.lda, next * (int64_t)DEPTH, depth);
			fetch<BN, THREADS>(to + BM * DEPTH, b, j0, p.n, p.ldb, next * (int64_t)DEPTH, depth);
			const u8 *sa = shared + s % STAGES * (BM + BN) * DEPTH, *sb = sa + BM * DEPTH;
			for (int half = 0; half < 4; half += 2) {
				u32 fa[WM / 16][4], fb[WN / 16][4];
#pragma unroll
				for (int i = 0; i < WM / 16; i++)
					load_matrices(fa[i], sa + place(wm + i * 16 + lane % 16, half + lane / 16));
#pragma unroll
				for (int j = 0; j < WN / 16; j++)
					load_matrices(fb[j],
						      sb + place(wn + j * 16 + lane / 16 * 8 + lane % 8, half + lane / 8 % 2));
#pragma unroll
				for (int i = 0; i < WM / 16; i++)
#pragma unroll
					for (int j = 0; j < WN / 8; j++)
						multiply<SIGNED>(sum[i][j], fa[i], fb[j / 2] + j % 2 * 2);
			}
		}
		asm volatile("cp.async.wait_all;");
		__syncthreads();
		Column *cols = (Column *)shared;
		Row *rows = (Row *)(shared + BN * sizeof(Column));
		for (int e = threadIdx.x; e < BM + BN; e += THREADS) {
			if (e < BM && i0 + e < p.m)
				rows[e] = row_of(p, z, i0 + e);
			else if (e >= BM && j0 + e - BM < p.n)
				cols[e - BM] = column_of(p, z, j0 + e - BM);
		}
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

#define KERNEL(BM, BN, WM, WN, STAGES, T, SIGNED)                                                                      \
	extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32) int8_##T##_##BM##x##BN(const gpu_int8 p)    \
	{                                                                                                              \
		int8_product<BM, BN, WM, WN, STAGES, SIGNED>(p);                                                           \
	}
#define PRODUCT(BM, BN, WM, WN, STAGES)                                                                                \
	KERNEL(BM, BN, WM, WN, STAGES, u8, false)                                                                          \
	KERNEL(BM, BN, WM, WN, STAGES, i8, true)
// stages: as many as the 48 KiB hold that a block has without asking
PRODUCT(128, 128, 64, 32, 3)
PRODUCT(64, 64, 32, 32, 6)
PRODUCT(32, 64, 16, 32, 8)
PRODUCT(32, 32, 16, 16, 10)
