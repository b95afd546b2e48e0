// SPDX-License-Identifier: Apache-2.0
// Keeps the stream waiting until the host says that it is over, or time is up: one thread that looks.
#include "hold.h"

static __device__ unsigned long long now()
{
	unsigned long long t;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

extern "C" __global__ void hold_stream(const gpu_hold p)
{
	unsigned long long start = now();

	while (now() - start < p.ns && !(p.over && *p.over))
		if (p.over)
			__nanosleep(200);
}
