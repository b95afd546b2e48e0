// SPDX-License-Identifier: Apache-2.0
// Keeps the stream waiting until the host says that it is over, or time is up: one thread that looks.
#include "hold.h"
#include "ptx.cuh"

extern "C" __global__ void hold_stream(const gpu_hold p)
{
	unsigned long long start = global_clock();

	while (global_clock() - start < p.ns && !(p.over && *p.over))
		if (p.over)
			__nanosleep(200);
}
