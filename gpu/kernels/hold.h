/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_HOLD_H
#define GPU_KERNELS_HOLD_H
struct gpu_hold {
	volatile unsigned *over; /* of the host's memory; NULL: nobody says */
	unsigned long long ns;	 /* at most */
};
#endif
