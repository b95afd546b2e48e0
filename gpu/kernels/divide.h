/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_DIVIDE_H
#define GPU_KERNELS_DIVIDE_H
/*
 * Divides numbers below 2^31 by a divisor that is known before the launch. A GPU has no instruction for integer
 * division, so the kernel multiplies and shifts instead (Granlund and Montgomery, "Division by Invariant Integers using
 * Multiplication", 1994).
 */
#include <stdint.h>

#ifdef __CUDACC__
#define GPU_DIVIDE __device__ static inline
#else
#define GPU_DIVIDE static inline
#endif

struct gpu_divisor {
	uint32_t by, times;
	int shift;
};

/* Prepares division by `by`, from 1 to 2^31. */
static inline struct gpu_divisor gpu_divisor(int64_t by)
{
	struct gpu_divisor d = {(uint32_t)by, 0, 31};

	while ((int64_t)1 << (d.shift - 31) < by)
		d.shift++;
	d.times = (uint32_t)((((uint64_t)1 << d.shift) + (uint64_t)by - 1) / (uint64_t)by);
	return d;
}

GPU_DIVIDE uint32_t gpu_over(uint32_t n, const struct gpu_divisor d)
{
	return (uint32_t)((uint64_t)n * d.times >> d.shift);
}

GPU_DIVIDE uint32_t gpu_rest(uint32_t n, const struct gpu_divisor d)
{
	return n - gpu_over(n, d) * d.by;
}

#endif
