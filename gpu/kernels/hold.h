/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_HOLD_H
#define GPU_KERNELS_HOLD_H
struct gpu_hold {
	/* flag in host memory that ends the wait, or NULL if only the time ends it */
	volatile unsigned *over;
	unsigned long long ns; /* longest wait in nanoseconds */
};
#endif
