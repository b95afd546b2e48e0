// SPDX-License-Identifier: Apache-2.0
// Keeps the stream waiting until the host sets *p.over or p.ns nanoseconds have passed. One thread polls the flag.
#include "hold.h"
#include "ptx.cuh"

extern "C" __global__ void hold_stream(const gpu_hold p)
{
	unsigned long long start = global_clock();

	while (global_clock() - start < p.ns && !(p.over && *p.over))
		if (p.over)
			__nanosleep(200);
}
