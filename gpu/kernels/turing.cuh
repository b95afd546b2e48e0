// SPDX-License-Identifier: Apache-2.0
// Part of ptx.cuh for devices before sm_80 (Turing). Their tensor cores know fp16 and 8-bit integers in smaller products,
// and neither TF32 nor bf16, which are multiplied here as fp32 by the usual units. They have no asynchronous copies, either.
// The instructions that exist come from ptx.cuh or, on the CPU, from test/gpu/emulate/ptx.h.
#pragma once

__device__ inline void mma_f16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
	mma_f16_k8(c, a[0], a[1], b0);
	mma_f16_k8(c, a[2], a[3], b1);
}
__device__ inline void mma_i8(int *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
	for (int half = 0; half < 2; half++) { // rows 0 to 7, then rows 8 to 15
		mma_i8_k16(c + 2 * half, a[half], b0);
		mma_i8_k16(c + 2 * half, a[half + 2], b1);
	}
}
__device__ inline void mma_u8(int *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
	for (int half = 0; half < 2; half++) {
		mma_u8_k16(c + 2 * half, a[half], b0);
		mma_u8_k16(c + 2 * half, a[half + 2], b1);
	}
}

// Products of the elements in one register of each operand, PER of them, which are the upper bits of a float each.
template <int PER> __device__ inline float add_products(float c, uint32_t a, uint32_t b)
{
	if (PER == 1)
		return fmaf(__uint_as_float(a & 0xffffe000u), __uint_as_float(b & 0xffffe000u), c);
	c = fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16), c);
	return fmaf(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u), c);
}
// c += a b, with a and b dealt to the lanes as for the instruction of sm_80: lane 4 i + k has part k of row i of a and of
// column i of b. Every lane asks the others for its two rows of a and its two columns of b.
template <int PER> __device__ inline void mma_float(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
	const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;

#pragma unroll 1 // unrolled, ptxas would take minutes
	for (int k = 0; k < 8; k++) {
		const uint32_t b = k < 4 ? b0 : b1;
		const uint32_t upper = __shfl_sync(0xffffffffu, k < 4 ? a[0] : a[2], row + k % 4);
		const uint32_t lower = __shfl_sync(0xffffffffu, k < 4 ? a[1] : a[3], row + k % 4);
		const uint32_t left = __shfl_sync(0xffffffffu, b, column + k % 4);
		const uint32_t right = __shfl_sync(0xffffffffu, b, column + 4 + k % 4);
		c[0] = add_products<PER>(c[0], upper, left);
		c[1] = add_products<PER>(c[1], upper, right);
		c[2] = add_products<PER>(c[2], lower, left);
		c[3] = add_products<PER>(c[3], lower, right);
	}
}
__device__ inline void mma_tf32(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) { mma_float<1>(c, a, b0, b1); }
__device__ inline void mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) { mma_float<2>(c, a, b0, b1); }

// A copy that is done when the call returns: nothing is left to wait for.
__device__ inline void fetch16(void *to, const void *from, bool there)
{
	*(uint4 *)to = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
}
__device__ inline void fetch_end() {}
template <int LEFT> __device__ inline void fetch_wait() {}
__device__ inline void fetch_wait_all() {}

// Rounds to the nearest TF32, ties away from zero.
__device__ inline uint32_t round_tf32(uint32_t bits)
{
	const uint32_t size = bits & 0x7fffffffu;
	return size > 0x7f800000u ? 0x7fffffffu : size == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}
