/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H
/* The CUDA backend, without a type of CUDA's: the same in builds that have none. */
#include "backend.h"

extern const struct backend cuda_backend;

/* The device's one stream. */
struct stream *cuda_stream(struct device *device);

/*
 * One kernel of our own. `fn` is found once, while a plan is made; the kernel takes one struct, by value.
 */
struct gpu_grid {
	unsigned x, y, z; /* blocks */
	unsigned threads; /* of a block */
	unsigned shared;  /* bytes */
};
/* Kernel `name` of gpu/kernels/FILE.cu; NULL with a finding. */
void *gpu_kernel(const struct site *s, const char *file, const char *name, struct diag *d);
int gpu_launch(const struct call *c, void *fn, struct gpu_grid grid, const void *params, size_t bytes);
int gpu_copy(const struct call *c, void *dst, const void *src, size_t bytes); /* on the device */

/* Where kernels leave the number of the step whose data are wrong; told at the next wait. */
uint64_t *gpu_fault(const struct call *c);

/* Blocks of 256 threads for n elements, a bounded number: kernels loop. */
struct gpu_grid gpu_grid(int64_t n);

struct device_facts {
	int ordinal, major, minor, processors;
	char name[128];
	uint64_t memory;
};
/* All devices of the machine; *why where there are none. */
int gpu_devices(struct device_facts *out, int max, struct diag *why);

#endif
