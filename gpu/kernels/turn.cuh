// SPDX-License-Identifier: Apache-2.0
// Where a thread is in a ring of steps in shared memory: the step that comes next, and the parity of its barriers' round.
#ifndef GPU_KERNELS_TURN_CUH
#define GPU_KERNELS_TURN_CUH

struct Turn {
	int at, parity;
	__device__ void next(int stages)
	{
		if (++at == stages)
			at = 0, parity ^= 1;
	}
};

#endif
