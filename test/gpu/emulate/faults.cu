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
