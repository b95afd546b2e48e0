// SPDX-License-Identifier: Apache-2.0
// Slices of data in blocks that share a scale, gathered and widened.
#include "any.cuh"
#include "blocks.h"

// The scale of element i; *block: which of its row's blocks that is.
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

// Rows of packed zero points begin at a byte. Bytes without zero points are unsigned numbers around their middle.
__device__ inline float zero_of(const gpu_block_gather &p, int64_t at, int64_t block)
{
	const u8 *z = (const u8 *)p.io.in[3];
	if (z && p.bits)
		return (float)packed_get(z + at / p.blocks * ((p.blocks * p.bits + 7) / 8), block, p.bits);
	if (z)
		return (float)in_real(p.io, 3, at);
	return p.io.it[0] == T_U8 ? (float)(1 << ((p.bits ? p.bits : 8) - 1)) : 0.0f;
}

extern "C" __global__ void gather_blocks(const gpu_block_gather p)
{
	EACH(i, p.n)
	{
		const int64_t row = i / p.inner;
		int64_t k = in_int(p.io, 1, row % p.picked), block = 0;
		k += k < 0 ? p.dim : 0;
		if (k < 0 || k >= p.dim) {
			fault(p.io);
			continue;
		}
		const int64_t from = (row / p.picked * p.dim + k) * p.inner + i % p.inner;
		const int64_t at = scale_of(p, from, &block);
		const float x = p.bits ? (float)packed_get(p.io.in[0], from, p.bits) : (float)in_real(p.io, 0, from);
		out_put(p.io, 0, i, (double)__fmul_rn(x - zero_of(p, at, block), (float)in_real(p.io, 2, at)));
	}
}
