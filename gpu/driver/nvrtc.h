/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_NVRTC_H
#define GPU_DRIVER_NVRTC_H
/* CUDA C++ compiled while a plan is made, through the cache on disk. */
#include "gpu/driver/cuda.h"

/*
 * A program for the device: the cubin, in the arena. NULL with *why where there is no compiler, or where it
 * does not take the text.
 */
const void *nvrtc_program(struct device *device, const char *source, struct arena *a,
			  const char **why);
/* The same without a device: for tests. arch: "sm_90". */
const void *nvrtc_compile(const char *source, const char *arch, struct arena *a, size_t *n,
			  const char **why);

#endif
