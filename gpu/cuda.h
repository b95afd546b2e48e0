/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H
/* The CUDA backend, without a type of CUDA's: the same in builds that have none. */
#include "backend.h"

extern const struct backend cuda_backend;

struct device_facts {
	int ordinal, major, minor, processors;
	int shared_memory;	 /* bytes a block may have, when it asks */
	int clock, memory_clock; /* kHz */
	int l2;
	int result; /* CUresult, where the driver does not tell what it is: it cannot be opened then */
	char name[128];
	uint64_t memory;
};

/* The device's one stream. */
struct stream *cuda_stream(struct device *device);

/*
 * For the wrappers of libraries (gpu/blaslt.c, gpu/cudnn.c, ...), which include gpu/api.h for the types.
 * A struct device is one session's: what hangs on it is used by one thread at a time.
 */
struct device *cuda_device(struct stream *stream);
void *cuda_stream_handle(const struct stream *stream); /* CUstream (cudaStream_t is the same) */
const struct device_facts *cuda_facts(const struct device *device);
const struct run_config *cuda_config(const struct device *device);

/* The context current for the time of a call; every call of a library stands between the two. */
int cuda_enter(struct device *device, bool *pushed, struct diag *d);
void cuda_leave(struct device *device, bool pushed);

/* The caller's stream (CUstream) in place of ours; refused (E-CTX-STREAM) where it is of another context. */
int cuda_use_stream(struct device *device, void *handle, struct diag *d);

/*
 * The driver's start and the opening of libraries, on threads of their own while the program does something
 * else; each once a process. end waits for them.
 */
enum { GPU_WARM_DRIVER = 1, GPU_WARM_PRODUCTS = 2, GPU_WARM_CONVOLUTIONS = 4 };
void gpu_warm_begin(unsigned what);
void gpu_warm_end(void);

/* A CUresult other than 0, as a finding (E-CUDA-N); returns -code. `what`: "a launch". */
int cuda_failed(struct device *device, int result, const char *what, struct diag *d);
/* The same for a library's own status: a sticky error of the driver behind it is found and told instead. */
int library_failed(struct device *device, const char *what, const char *status, struct diag *d);

/* A pointer a library keeps on the device, and how it is given up when the device closes (in its context). */
enum gpu_slot {
	GPU_CUBLASLT,
	GPU_CUDNN,
	GPU_NVRTC,
	GPU_TUNE,
	GPU_ATTENTION,
	GPU_FAULTS,
	GPU_CONV,    /* plans of convolutions */
	GPU_WEIGHTS, /* packed weights */
	GPU_FALLBACKS,
	GPU_SLOTS
};
void *gpu_slot(const struct device *device, enum gpu_slot slot); /* NULL until set */
void gpu_slot_set(struct device *device, enum gpu_slot slot, void *p,
		  void (*drop)(struct device *, void *));

/*
 * Device memory that others take (handles, first compilations) is counted by what the driver has less:
 *   uint64_t before = gpu_unused(dev); ...create the handle...; gpu_note_taken(dev, before, MEM_LIBRARIES);
 */
uint64_t gpu_unused(struct device *device);
void gpu_note_taken(struct device *device, uint64_t before, enum mem_purpose purpose);

/* Code compiled while the program runs (a cubin or PTX); kept by the device. NULL with a finding. */
void *gpu_code(struct device *device, const void *image, const char *kernel, struct diag *d);
/* The same for n kernels of one image; 0 or -code. */
int gpu_codes(struct device *device, const void *image, const char *const *kernels, void **out,
	      int n, struct diag *d);

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
/* What a call that launches by a library ends with: in --sync launch it waits. */
int gpu_launched(const struct call *c);
int gpu_copy(const struct call *c, void *dst, const void *src, size_t bytes); /* on the device */

/* Where kernels leave the number of the step whose data are wrong; told at the next wait. */
uint64_t *gpu_fault(const struct call *c);

/* Blocks of 256 threads for n elements, a bounded number: kernels loop. */
struct gpu_grid gpu_grid(int64_t n);

/* Whether this build has kernels for the device; *ptx: only such that the driver compiles first, which takes seconds. */
bool gpu_has_code(const struct device_facts *f, bool *ptx);
/* All devices of the machine; *why where there are none. */
int gpu_devices(struct device_facts *out, int max, struct diag *why);

#endif
