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
