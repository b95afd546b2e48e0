// SPDX-License-Identifier: Apache-2.0
// Tiles of 8-bit codes in shared memory, which products (int8.cu) and convolutions (int8_conv.cu) multiply on tensor cores.
#pragma once
#include "ptx.cuh"

enum { PIECE = 16 }; // bytes of a row that are copied and read at once

template <bool SIGNED> __device__ inline void multiply(int *c, const uint32_t *a, const uint32_t *b)
{
	if (SIGNED)
		mma_i8(c, a, b[0], b[1]);
	else
		mma_u8(c, a, b[0], b[1]);
}

// Returns the offset of a piece in a tile whose rows have DEPTH bytes. The pieces of a row are permuted so that eight rows
// at the same k fall into different banks of shared memory.
template <int DEPTH> __device__ inline int piece_offset(int row, int piece)
{
	return DEPTH == 64 ? row * 64 + (piece ^ (row >> 1 & 3)) * PIECE : row * 128 + (piece ^ (row & 7)) * PIECE;
}
