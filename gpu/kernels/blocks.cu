// SPDX-License-Identifier: Apache-2.0
// GatherBlockQuantized: gathers slices of data that is quantized in blocks, and dequantizes them.
#include "any.cuh"
#include "blocks.h"

// Returns the offset of the scale of data element i; sets *block to the number of the element's block within its row.
__device__ inline int64_t scale_of(const gpu_block_gather &p, int64_t i, int64_t *block)
{
	int64_t at = 0;
	for (int r = p.d.rank - 1; r >= 0; r--) {
		const int64_t dim = p.d.dim[r];
		int64_t c;
		if ((uint64_t)i < 0xffffffffu && (uint64_t)dim < 0xffffffffu) {
			c = (u32)i % (u32)dim;
			i = (u32)i / (u32)dim;
		} else {
			c = i % dim;
			i /= dim;
		}
		if (r == p.axis)
			*block = c = c / p.block;
		at += c * p.step[r];
	}
	return at;
}

// Returns the zero point of a block. Rows of packed zero points begin at whole bytes. Without zero points, unsigned
// data has the middle of its range as zero point.
__device__ inline float zero_of(const gpu_block_gather &p, int64_t at, int64_t block)
{
	const u8 *z = (const u8 *)p.io.in[3];
	if (z && p.bits)
		return (float)packed_get(z + at / p.blocks * ((p.blocks * p.bits + 7) / 8), block, p.bits);
	if (z)
		return (float)in_real(p.io, 3, at);
	return p.io.it[0] == T_U8 ? (float)(1 << ((p.bits ? p.bits : 8) - 1)) : 0.0f;
}

// Returns the element of the data that element i of the output copies. Reports a fault and returns -1 if the index is
// beyond the axis.
__device__ inline int64_t source_of(const gpu_block_gather &p, int64_t i)
{
	const bool small = p.n < INT32_MAX;
	const int64_t row = small ? (int32_t)i / (int32_t)p.inner : i / p.inner;
	const int64_t outer = small ? (int32_t)row / (int32_t)p.picked : row / p.picked;
	int64_t k = in_int(p.io, 1, row - outer * p.picked);

	k += k < 0 ? p.dim : 0;
	if (k >= 0 && k < p.dim)
		return (outer * p.dim + k) * p.inner + i - row * p.inner;
	fault(p.io);
	return -1;
}

extern "C" __global__ void gather_blocks(const gpu_block_gather p)
{
	EACH(i, p.n)
	{
		int64_t block = 0;
		const int64_t from = source_of(p, i);
		if (from < 0)
			continue;
		const int64_t at = scale_of(p, from, &block);
		const float x = p.bits ? (float)packed_get(p.io.in[0], from, p.bits) : (float)in_real(p.io, 0, from);
		out_put(p.io, 0, i, (double)__fmul_rn(x - zero_of(p, at, block), (float)in_real(p.io, 2, at)));
	}
}

template <typename T> __device__ inline void put_run(const gpu_block_gather &p, int64_t i, const float *v)
{
	const int V = 16 / sizeof(T);
	for (int e = 0; e < GPU_BLOCK_RUN / V; e++)
		store<T, V>((T *)p.io.out[0] + i + e * V, v + e * V);
}

// Gathers and dequantizes GPU_BLOCK_RUN neighbouring elements at a time, which must share a scale.
extern "C" __global__ void gather_runs(const gpu_block_gather p)
{
	const int t = p.io.it[0], bits = p.bits ? p.bits : t == T_U4 || t == T_I4 ? 4 : 8;
	const u32 mask = (1u << bits) - 1, sign = t == T_I4 || t == T_I8 ? 1u << (bits - 1) : 0;
	EACH(r, p.n / GPU_BLOCK_RUN)
	{
		int64_t block = 0;
		const int64_t i = r * GPU_BLOCK_RUN, from = source_of(p, i);
		if (from < 0)
			continue;
		const int64_t at = scale_of(p, from, &block);
		const float zero = zero_of(p, at, block), scale = (float)in_real(p.io, 2, at);
		const u64 codes = codes_at((const u8 *)p.io.in[0] + from * bits / 8, bits);
		float v[GPU_BLOCK_RUN];
		for (int e = 0; e < GPU_BLOCK_RUN; e++) {
			const int code = (int)((u32)(codes >> e * bits) & mask ^ sign) - (int)sign;
			v[e] = __fmul_rn((float)code - zero, scale);
		}
		switch (p.io.ot[0]) {
		case T_F16: put_run<f16>(p, i, v); break;
		case T_BF16: put_run<bf16>(p, i, v); break;
		default: put_run<f32>(p, i, v);
		}
	}
}
