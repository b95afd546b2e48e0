/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_HOLD_H
#define GPU_KERNELS_HOLD_H
struct gpu_hold {
	volatile unsigned *over; /* flag in the host's memory that ends the wait; NULL: none */
	unsigned long long ns;	 /* longest wait in nanoseconds */
};
#endif
