// SPDX-License-Identifier: Apache-2.0
// Products with weights of 2, 4 or 8 bits. For few rows, the kernels read the packed weights. For many rows, they first
// unpack the weights to floats, which a library then multiplies.
#include "any.cuh"
#include "nbits.h"

enum { STEP = GPU_NBITS_STEP, ROWS = GPU_NBITS_ROWS, SLICES = GPU_NBITS_SLICES };

// The scale and the zero point of a block of weights.
struct Block {
	float scale, zero;
};
__device__ inline Block block_of(const gpu_nbits &p, int64_t n, int64_t g)
{
	const int64_t at = n * p.blocks + g;
	Block b = {p.io.it[2] == T_F32	 ? ((const f32 *)p.io.in[2])[at]
		   : p.io.it[2] == T_F16 ? up(((const f16 *)p.io.in[2])[at])
					 : (float)in_real(p.io, 2, at),
		   (float)(1 << (p.bits - 1))};
	if (p.io.in[3] && p.io.it[3] == T_U8) {
		const u8 *row = (const u8 *)p.io.in[3] + n * ((p.blocks * p.bits + 7) / 8);
		b.zero = (float)(row[g * p.bits / 8] >> (int)(g * p.bits % 8) & ((1u << p.bits) - 1));
	} else if (p.io.in[3]) {
		b.zero = (float)in_real(p.io, 3, at);
	}
	return b;
}

// The weights of MatMulNBits. If ORDERED is true, the input g_idx gives the block of each k.
template <bool ORDERED> struct Packed {
	const gpu_nbits &p;
	__device__ Packed(const gpu_nbits &p) : p(p) {}

	// Unpacks STEP elements from k on, where k is a multiple of STEP. All of them belong to one block. The bytes of
	// a block are stored in full even if the row ends within the block.
	__device__ void widen(int64_t n, int64_t k, float *w) const
	{
		const u64 v = codes_at((const u8 *)p.io.in[1] + (n * p.blocks * p.size + k) * p.bits / 8, p.bits);
		if (ORDERED)
			return widen_ordered(n, k, v, w);
		const Block g = block_of(p, n, k >> p.shift);
		if (p.bits == 4) {
#pragma unroll
			for (int e = 0; e < STEP; e++)
				w[e] = ((float)((u32)v >> e * 4 & 15) - g.zero) * g.scale;
			return;
		}
		const u32 mask = (1u << p.bits) - 1;
		for (int e = 0; e < STEP; e++)
			w[e] = ((float)((u32)(v >> e * p.bits) & mask) - g.zero) * g.scale;
	}
	__device__ void widen_ordered(int64_t n, int64_t k, u64 v, float *w) const
	{
		const u32 mask = (1u << p.bits) - 1;
		int64_t last = -1;
		Block b = {0, 0};
		for (int e = 0; e < STEP; e++) {
			int64_t g = k + e < p.k ? ((const i32 *)p.io.in[4])[k + e] : last;
			if (k + e < p.k && (g < 0 || g >= p.blocks)) {
				fault(p.io);
				g = 0;
			}
			if (g != last)
				b = block_of(p, n, g);
			last = g;
			w[e] = ((float)((u32)(v >> e * p.bits) & mask) - b.zero) * b.scale;
		}
	}
};

// The weights of MatMulBnb4. The first of the two codes in a byte is in its high half.
template <typename T> struct Bnb4 {
	const gpu_nbits &p;
	const float *value; // the number that each code represents
	__device__ Bnb4(const gpu_nbits &p) : p(p)
	{
		__shared__ float table[16];
		if (threadIdx.x < 16)
			table[threadIdx.x] = p.value[threadIdx.x];
		__syncthreads();
		value = table;
	}

	__device__ float scale(int64_t at) const { return up(((const T *)p.io.in[2])[at >> p.shift]); }
	__device__ float one(int64_t at) const
	{
		return value[((const u8 *)p.io.in[1])[at / 2] >> (at & 1 ? 0 : 4) & 15] * scale(at);
	}
	__device__ void widen(int64_t n, int64_t k, float *w) const
	{
		const int64_t at = p.turned ? k * p.n + n : n * p.k + k, next = p.turned ? p.n : 1;
		const u8 *b = (const u8 *)p.io.in[1] + at / 2;
		if (!p.turned && at % STEP == 0 && p.size >= STEP && k + STEP <= p.k && ((uintptr_t)b & 3) == 0) {
			const u32 v = *(const u32 *)b;
			const float s = scale(at);
#pragma unroll
			for (int e = 0; e < STEP; e++)
				w[e] = value[v >> (e ^ 1) * 4 & 15] * s;
			return;
		}
		for (int e = 0; e < STEP; e++)
			w[e] = k + e < p.k ? one(at + e * next) : 0.0f;
	}
};

const u32 BIT_23 = 0x4b000000; // the float 2^23
enum { FULL = GPU_NBITS_ALIGN }; // bytes that a thread reads or writes at once

// Reads STEP elements, or `left` elements if there are fewer. If `whole` is true, the elements can be read in aligned
// pieces of FULL bytes.
template <typename T> __device__ inline void read_step(const T *a, bool whole, int64_t left, float *x)
{
	const int V = FULL / sizeof(T);
	for (int e = 0; e < STEP / V && whole; e++)
		fetch<T, V>(a + e * V, x + e * V);
	for (int e = 0; e < STEP && !whole; e++)
		x[e] = e < left ? up(a[e]) : 0.0f;
}

// A warp computes one column of the output in ROWS rows.
template <typename T, typename W> __device__ inline void few_rows(const gpu_nbits &p)
{
	const W weights(p);
	const int lane = threadIdx.x % 32;
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32), r0 = blockIdx.y * (int64_t)ROWS;
	const T *a = (const T *)p.io.in[0] + r0 * p.k;
	const int rows = p.rows - r0 < ROWS ? (int)(p.rows - r0) : ROWS;
	const bool whole = p.k % STEP == 0 && (uintptr_t)a % FULL == 0;
	for (int64_t n = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; n < p.n; n += warps) {
		float sum[ROWS] = {}, w[STEP], x[STEP];
#pragma unroll 2
		for (int64_t k = lane * STEP; k < p.k; k += 32 * STEP) {
			weights.widen(n, k, w);
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				if (r >= rows)
					continue;
				read_step(a + r * p.k + k, whole, p.k - k, x);
				for (int e = 0; e < STEP; e++)
					sum[r] += whole || k + e < p.k ? x[e] * w[e] : 0.0f;
			}
		}
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			for (int o = 16; o; o >>= 1)
				sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], o);
			if (lane == 0 && r < rows)
				((T *)p.io.out[0])[(r0 + r) * p.n + n] =
					down<T>(sum[r] + (p.io.in[5] ? (float)in_real(p.io, 5, n) : 0.0f));
		}
	}
}

// Converts STEP codes from b on to floats and subtracts their zero point. A code is put into the low mantissa bits of
// the float 2^23, where the lowest bit has the value 1. Subtracting `less`, which is 2^23 plus the zero point, then
// leaves the number.
template <int BITS> __device__ inline void codes_less(const u8 *b, float less, float *w)
{
	u32 v[2];
	if (BITS == 4) {
		v[0] = *(const u32 *)b & 0x0f0f0f0f;
		v[1] = *(const u32 *)b >> 4 & 0x0f0f0f0f;
	} else {
		const uint2 both = *(const uint2 *)b;
		v[0] = both.x;
		v[1] = both.y;
	}
#pragma unroll
	for (int e = 0; e < STEP; e++) {
		const u32 from = BITS == 4 ? v[e & 1] : v[e / 4], at = BITS == 4 ? e / 2 : e % 4;
		w[e] = __uint_as_float(__byte_perm(from, BIT_23, 0x7650 | at)) - less;
	}
}

// The addresses from which a lane reads its column of B and R rows of A, and the sums so far.
template <typename T, int BITS, int R> struct Column {
	const T *a[R], *scale;
	const u8 *b, *zero; // zero may be NULL
	int shift;
	float sum[R];

	// Adds the products of STEP elements. Position k + on is the first of them; a and b point to position k. All
	// the elements belong to one block, so that the scale of the block is applied once, to their sum.
	__device__ void add(int k, int on)
	{
		const int g = (k + on) >> shift;
		u32 z = 1 << (BITS - 1);
		if (zero)
			z = BITS == 8 ? zero[g] : (u32)zero[g / 2] >> g % 2 * 4 & 15;
		const float s = up(scale[g]);
		float w[STEP], x[STEP];
		codes_less<BITS>(b + on * BITS / 8, __uint_as_float(BIT_23 | z), w);
#pragma unroll
		for (int r = 0; r < R; r++) {
			float dot = 0;
			read_step(a[r] + on, true, STEP, x);
#pragma unroll
			for (int e = 0; e < STEP; e++)
				dot += x[e] * w[e];
			sum[r] += dot * s;
		}
	}
	__device__ void next(int on)
	{
		b += on * BITS / 8;
		for (int r = 0; r < R; r++)
			a[r] += on;
	}
};

// A warp computes one column of the output in R rows. Weights have 4 or 8 bits, k is a multiple of STEP, A is aligned
// to FULL bytes, scales have the type of A, and zero points, if there are any, are packed.
template <typename T, int BITS, int R> __device__ inline void few_rows_aligned(const gpu_nbits &p)
{
	const int lane = threadIdx.x % 32, WARP = 32 * STEP, most = (int)p.k;
	const int64_t warps = gridDim.x * (int64_t)(blockDim.x / 32), r0 = blockIdx.y * (int64_t)R;
	const int rows = p.rows - r0 < R ? (int)(p.rows - r0) : R;
	for (int64_t n = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32; n < p.n; n += warps) {
		Column<T, BITS, R> c = {};
		int k = lane * STEP;
		c.b = (const u8 *)p.io.in[1] + (n * p.blocks * p.size + k) * BITS / 8;
		c.scale = (const T *)p.io.in[2] + n * p.blocks;
		c.zero = p.io.in[3] ? (const u8 *)p.io.in[3] + n * ((p.blocks * BITS + 7) / 8) : NULL;
		c.shift = p.shift;
		for (int r = 0; r < R; r++)
			c.a[r] = (const T *)p.io.in[0] + (r0 + (r < rows ? r : 0)) * p.k + k;
		for (; k + 3 * WARP < most; k += 4 * WARP) {
#pragma unroll
			for (int i = 0; i < 4; i++)
				c.add(k, i * WARP);
			c.next(4 * WARP);
		}
#pragma unroll 1
		for (; k < most; k += WARP) {
			c.add(k, 0);
			c.next(WARP);
		}
#pragma unroll
		for (int r = 0; r < R; r++) {
			for (int o = 16; o; o >>= 1)
				c.sum[r] += __shfl_xor_sync(0xffffffffu, c.sum[r], o);
			if (lane == 0 && r < rows)
				((T *)p.io.out[0])[(r0 + r) * p.n + n] =
					down<T>(c.sum[r] + (p.io.in[5] ? up(((const T *)p.io.in[5])[n]) : 0.0f));
		}
	}
}

template <typename T, int R> __device__ inline void columns(const gpu_nbits &p)
{
	if (p.bits == 4)
		few_rows_aligned<T, 4, R>(p);
	else
		few_rows_aligned<T, 8, R>(p);
}

// Multiplies few rows by weights that are stored with neighbouring columns side by side. A lane computes one column,
// and the warps of a block divide k among them.
template <typename T> __device__ inline void few_rows_side_by_side(const gpu_nbits &p)
{
	__shared__ float part[SLICES][ROWS][32];
	const Bnb4<T> weights(p);
	const int lane = threadIdx.x % 32, slice = threadIdx.x / 32;
	const int64_t r0 = blockIdx.y * (int64_t)ROWS;
	const T *a = (const T *)p.io.in[0] + r0 * p.k;
	const int rows = p.rows - r0 < ROWS ? (int)(p.rows - r0) : ROWS;
	for (int64_t tile = blockIdx.x; tile * 32 < p.n; tile += gridDim.x) {
		const int64_t n = tile * 32 + lane;
		float sum[ROWS] = {};
		for (int64_t k = slice; k < p.k && n < p.n; k += SLICES) {
			const float w = weights.one(k * p.n + n);
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				sum[r] += r < rows ? up(a[r * p.k + k]) * w : 0.0f;
		}
		__syncthreads();
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			part[slice][r][lane] = sum[r];
		__syncthreads();
		if (slice < rows && n < p.n) {
			float v = 0;
			for (int k = 0; k < SLICES; k++)
				v += part[k][slice][lane];
			((T *)p.io.out[0])[(r0 + slice) * p.n + n] = down<T>(v);
		}
	}
}

// Unpacks columns `first` to first + columns - 1 of B into rows of k elements.
template <typename T, typename W> __device__ inline void widen_columns(const gpu_nbits &p)
{
	const W weights(p);
	const int V = FULL / sizeof(T);
	const int64_t steps = (p.k + STEP - 1) / STEP, n_of = p.turned ? p.columns : steps;
	const bool small = steps * p.columns < INT32_MAX;
	T *y = workspace<T>(p.io, p.at); // aligned to FULL bytes
	EACH(i, steps * p.columns)
	{
		const int64_t q = small ? (int32_t)i / (int32_t)n_of : i / n_of, r = i - q * n_of;
		const int64_t n = p.turned ? r : q, k = (p.turned ? q : r) * STEP;
		float w[STEP];
		weights.widen(p.first + n, k, w);
		T *to = y + n * p.k + k;
		for (int e = 0; e < STEP / V && p.k % STEP == 0; e++)
			store<T, V>(to + e * V, w + e * V);
		for (int e = 0; e < STEP && p.k % STEP && k + e < p.k; e++)
			to[e] = down<T>(w[e]);
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void nbits_few_##T(const gpu_nbits p) { few_rows<T, Packed<false>>(p); }                          \
	extern "C" __global__ void nbits_row_##T(const gpu_nbits p) { columns<T, 1>(p); }                                  \
	extern "C" __global__ void nbits_rows_##T(const gpu_nbits p) { columns<T, ROWS>(p); }                              \
	extern "C" __global__ void nbits_wide_##T(const gpu_nbits p) { widen_columns<T, Packed<false>>(p); }                        \
	extern "C" __global__ void nbits_ordered_few_##T(const gpu_nbits p) { few_rows<T, Packed<true>>(p); }                   \
	extern "C" __global__ void nbits_ordered_wide_##T(const gpu_nbits p) { widen_columns<T, Packed<true>>(p); }                 \
	extern "C" __global__ void bnb4_few_##T(const gpu_nbits p) { few_rows<T, Bnb4<T>>(p); }                                 \
	extern "C" __global__ void bnb4_wide_##T(const gpu_nbits p) { widen_columns<T, Bnb4<T>>(p); }                               \
	extern "C" __global__ void bnb4_turned_##T(const gpu_nbits p) { few_rows_side_by_side<T>(p); }
KERNELS(f32)
KERNELS(f16)
KERNELS(bf16)
