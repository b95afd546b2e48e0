// SPDX-License-Identifier: Apache-2.0
// Kernels that do what they must not, and two that look as if: faults.c says what is told of each.
#include "ptx.cuh"

struct faults {
	float *x, *y;
	int n;
};

extern "C" __global__ void sound(const faults p)
{
	__shared__ float part[64];
	part[threadIdx.x] = p.x[threadIdx.x];
	__syncthreads();
	p.y[threadIdx.x] = part[63 - threadIdx.x];
	if (threadIdx.x > 3)
		p.x[0] = p.x[0]; // as it was
}
extern "C" __global__ void summed(const faults p)
{
	float v = p.x[threadIdx.x];
	for (int o = 16; o; o >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, o);
	if (threadIdx.x % 32 == 0)
		p.y[threadIdx.x] = v;
}
extern "C" __global__ void behind(const faults p) { p.y[threadIdx.x] = p.x[threadIdx.x + 1]; }
extern "C" __global__ void waits(const faults p)
{
	__shared__ float part[64];
	part[threadIdx.x] = 1;
	start_early();
	p.y[threadIdx.x] = p.x[threadIdx.x] + part[threadIdx.x];
}
extern "C" __global__ void waits_late(const faults p)
{
	float v = p.x[threadIdx.x];
	start_early();
	p.y[threadIdx.x] = v;
}
extern "C" __global__ void askew(const faults p)
{
	__shared__ __align__(16) float part[4];
	fetch16(part, p.x + 1, threadIdx.x == 0);
}
extern "C" __global__ void unwritten(const faults p) { p.x[threadIdx.x] = p.y[threadIdx.x]; }
extern "C" __global__ void unshared(const faults p)
{
	__shared__ float part[64];
	if (threadIdx.x != 7)
		part[threadIdx.x] = 1;
	__syncthreads();
	p.y[threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void unfetched(const faults p)
{
	__shared__ __align__(16) float part[4 * 64];
	fetch16(part + 4 * threadIdx.x, p.x, true);
	fetch_end();
	p.y[threadIdx.x] = part[4 * threadIdx.x];
}
extern "C" __global__ void fetched(const faults p)
{
	__shared__ __align__(16) float part[2][4 * 64];
	fetch16(part[0] + 4 * threadIdx.x, p.x, true);
	fetch_end();
	fetch16(part[1] + 4 * threadIdx.x, p.x, true);
	fetch_end();
	fetch_wait<1>();
	__syncthreads();
	float v = part[0][4 * (63 - threadIdx.x)];
	fetch_wait_all();
	__syncthreads();
	fetch16(part[0] + 4 * threadIdx.x, p.x + 4, true);
	fetch_end();
	p.y[threadIdx.x] = v + part[1][4 * threadIdx.x];
	fetch_wait_all();
}
// what is still read is asked for anew
extern "C" __global__ void fetched_early(const faults p)
{
	__shared__ __align__(16) float part[4 * 64];
	part[4 * threadIdx.x] = 1;
	__syncthreads();
	p.y[threadIdx.x] = part[4 * (63 - threadIdx.x)];
	fetch16(part + 4 * threadIdx.x, p.x, true);
	fetch_end();
	__syncthreads();
	fetch_wait_all();
}
// a barrier is no wait
extern "C" __global__ void not_waited(const faults p)
{
	__shared__ __align__(16) float part[4 * 64];
	part[4 * threadIdx.x] = 1;
	fetch16(part + 4 * threadIdx.x, p.x, true);
	fetch_end();
	__syncthreads();
	p.y[threadIdx.x] = part[4 * (63 - threadIdx.x)];
	fetch_wait_all();
}
// each waits for its own copies alone
extern "C" __global__ void waited_alone(const faults p)
{
	__shared__ __align__(16) float part[4 * 64];
	fetch16(part + 4 * threadIdx.x, p.x, true);
	fetch_end();
	fetch_wait_all();
	p.y[threadIdx.x] = part[4 * (63 - threadIdx.x)];
}
extern "C" __global__ void strangers(const faults p)
{
	if (threadIdx.x % 32 < 16)
		p.y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 16);
}
extern "C" __global__ void halves(const faults p)
{
	if (threadIdx.x % 32 < 16)
		p.y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 8);
}
extern "C" __global__ void slanted(const faults p)
{
	p.y[threadIdx.x] = ((const float4 *)(p.x + 1))[threadIdx.x / 8].y;
}
extern "C" __global__ void straight(const faults p)
{
	p.y[threadIdx.x] = ((const float4 *)(p.x + 4))[threadIdx.x / 8].y;
}
extern "C" __global__ void raced(const faults p)
{
	__shared__ float part[64];
	part[threadIdx.x] = p.x[threadIdx.x];
	p.y[threadIdx.x] = part[threadIdx.x ? threadIdx.x - 1 : 0];
}
extern "C" __global__ void overwritten(const faults p) { p.y[blockIdx.x] = (float)threadIdx.x; }
extern "C" __global__ void parted(const faults p)
{
	if (threadIdx.x < 32)
		__syncthreads();
	p.y[threadIdx.x] = 0;
}
extern "C" __global__ void two_barriers(const faults p)
{
	if (threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
	p.y[threadIdx.x] = 0;
}
extern "C" __global__ void alone(const faults p)
{
	if (threadIdx.x != 5)
		p.y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}

// Products of small integers, which every type holds exactly: a wrong sum writes behind y, which is told.
__device__ inline uint32_t tf32_of(int v) { return __float_as_uint((float)v); }
__device__ inline uint32_t bf16_of(int v) { return __float_as_uint((float)v) >> 16; }
__device__ inline uint32_t f16_of(int v)
{
	const __half h = __float2half((float)v);
	unsigned short bits;
	memcpy(&bits, &h, sizeof(bits));
	return bits;
}
__device__ inline uint32_t i8_of(int v) { return (uint32_t)v & 0xff; }
__device__ inline int element_a(int i, int k) { return (i * 7 + k * 3) % 9; }
__device__ inline int element_b(int k, int j) { return (k * 5 + j * 2) % 7 - 3; }

// PER elements in a register; where they lie is the PTX ISA's.
template <int PER, typename C, typename F>
__device__ void multiplied(const faults &p, uint32_t (*bits)(int), F product)
{
	const int lane = threadIdx.x % 32;
	uint32_t a[4] = {}, b[2] = {};
	C c[4];

	for (int e = 0; e < PER; e++) {
		for (int r = 0; r < 4; r++)
			a[r] |= bits(element_a(lane / 4 + r % 2 * 8, lane % 4 * PER + e + r / 2 * 4 * PER)) << 32 / PER % 32 * e;
		for (int r = 0; r < 2; r++)
			b[r] |= bits(element_b(lane % 4 * PER + e + r * 4 * PER, lane / 4)) << 32 / PER % 32 * e;
	}
	for (int r = 0; r < 4; r++)
		c[r] = r - lane;
	product(c, a, b[0], b[1]);
	for (int r = 0; r < 4; r++) {
		int sum = r - lane;
		for (int k = 0; k < 8 * PER; k++)
			sum += element_a(lane / 4 + r / 2 * 8, k) * element_b(k, lane % 4 * 2 + r % 2);
		if (c[r] != sum)
			p.y[1 << 10] = 0;
	}
}
extern "C" __global__ void products_tf32(const faults p) { multiplied<1, float>(p, tf32_of, mma_tf32); }
extern "C" __global__ void products_f16(const faults p) { multiplied<2, float>(p, f16_of, mma_f16); }
extern "C" __global__ void products_bf16(const faults p) { multiplied<2, float>(p, bf16_of, mma_bf16); }
extern "C" __global__ void products_i8(const faults p) { multiplied<4, int>(p, i8_of, mma_i8); }
extern "C" __global__ void products_u8(const faults p) { multiplied<4, int>(p, i8_of, mma_u8); }
extern "C" __global__ void products_rounded(const faults p)
{
	const float third = __uint_as_float(round_tf32(__float_as_uint(1.0f / 3)));
	const uint32_t huge = round_tf32(0x7f800000u), none = round_tf32(0x7f800001u);
	if (third != 0.33325195f || huge != 0x7f800000u || (none & 0x7fffffffu) <= 0x7f800000u)
		p.y[1 << 10] = 0;
	// the last that is rounded down to the largest TF32, and those above it, as a device rounds them
	if (round_tf32(0x7f7fefffu) != 0x7f7fe000u || round_tf32(0x7f7ff000u) != 0x7f800000u || round_tf32(0xff7fffffu) != 0xff800000u || (round_tf32(0xffffffffu) & 0x7fffffffu) <= 0x7f800000u)
		p.y[1 << 10] = 0;
#ifndef TURING
	if (group_round_tf32(0x7f7fefffu) != 0x7f7fe000u || group_round_tf32(0x7f7ff000u) != 0x7f800000u || group_round_tf32(0xff7fffffu) != 0xff800000u ||
	    (group_round_tf32(0x7f800001u) & 0x7fffffffu) <= 0x7f800000u || (group_round_tf32(0xffffffffu) & 0x7fffffffu) <= 0x7f800000u)
		p.y[1 << 10] = 0;
#endif
}
