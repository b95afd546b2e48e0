/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_NVRTC_H
#define GPU_DRIVER_NVRTC_H
/* Compiles CUDA C++ while a plan is made; results are kept in the tuning cache. */
#include "gpu/driver/cuda.h"

/*
 * Compiles a program for the device; returns the cubin, which lives in the arena. Returns NULL and sets *why if there
 * is no compiler or it rejects the source.
 */
const void *nvrtc_program(struct device *device, const char *source, struct arena *a,
			  const char **why);
/* Compiles a program for `arch`, for example "sm_90", without a device and its cache. Tests use this function. */
const void *nvrtc_compile(const char *source, const char *arch, struct arena *a, size_t *n,
			  const char **why);

#endif
