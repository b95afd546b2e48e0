/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CUDA_H
#define GPU_DRIVER_CUDA_H
/* The functions that gpu/driver offers to the rest of gpu/. They do not use CUDA's types. */
#include "backend/backend.h"
#include "backend/observe.h"

struct device_facts {
	int ordinal, major, minor, processors;
	int shared_memory; /* bytes of shared memory that a block may have if it asks for more than the default */
	int clock, memory_clock; /* kHz */
	int l2;
	int result; /* CUresult of the query; if it is not 0, the device cannot be opened */
	char name[128];
	uint64_t memory;
};

/* Functions of the backend's table that concern a device. struct backend documents them. */
int cuda_probe(struct device_info *info, int max, struct diag *why);
struct device *cuda_open(int ordinal, const struct run_config *config, struct diag *d);
void cuda_close(struct device *dev);
int cuda_wait(struct stream *s, struct diag *d);
int cuda_check(struct stream *s, struct diag *d);
bool cuda_lost(const struct device *dev);
int device_enter(struct device *dev, struct diag *d);
int device_leave(struct device *dev, struct diag *d);
int cuda_alloc(struct device *dev, size_t bytes, enum mem_purpose purpose, struct buffer *b,
	       struct diag *d);
void cuda_free(struct device *dev, struct buffer *b);
int cuda_alloc_host(struct device *dev, size_t bytes, enum mem_purpose purpose, struct buffer *b,
		    struct diag *d);
void cuda_free_host(struct device *dev, struct buffer *b);
int cuda_copy(struct stream *s, void *dst, int dst_device, const void *src, int src_device,
	      size_t bytes, struct diag *d);
int cuda_queue_copy(struct stream *s, void *dst, int dst_device, const void *src, int src_device,
		    size_t bytes, struct diag *d);
int cuda_memory(struct device *dev, uint64_t *unused, uint64_t *total, struct diag *d);
struct event *cuda_event_new(struct device *dev, struct diag *d);
void cuda_event_free(struct event *e);
int cuda_mark(struct stream *s, struct event *e, struct diag *d);
int cuda_elapsed(struct event *from, struct event *to, uint64_t *ns, struct diag *d);
int cuda_capture_begin(struct stream *s, struct diag *d);
int cuda_capture_end(struct stream *s, struct captured **out, struct diag *d);
int cuda_capture_launch(struct captured *c, struct stream *s, struct diag *d);
void cuda_capture_drop(struct captured *c);
int cuda_list_begin(struct stream *s, struct diag *d);
int cuda_list_end(struct stream *s, struct captured **out, bool soon);

struct stream *cuda_stream(struct device *device);
int cuda_use_stream(struct device *device, void *handle, struct diag *d); /* handle: CUstream */
void cuda_configure(struct run_config *config);
void cuda_warm_begin(unsigned parts);
void cuda_warm_end(void);
bool cuda_may_exit_quickly(void);
void cuda_describe(const struct device *dev, struct device_description *out, struct arena *a);

/*
 * For the wrappers of libraries (gpu/library/), which include gpu/driver/api.h for CUDA's types. A struct device
 * belongs to one session, so that only one thread at a time uses the device and the objects that are attached to it.
 */
struct device *cuda_device(struct stream *stream);
void *cuda_stream_handle(const struct stream *stream); /* CUstream (cudaStream_t is the same) */
/* Call this before a library queues work. Returns nonzero, without a finding, if work is being written down (list_begin). */
int cuda_queue_directly(struct stream *stream);
const struct device_facts *cuda_facts(const struct device *device);
/* Bytes up to the next multiple of 256, at which operands of trials and parts of workspaces begin, as allocations do. */
static inline size_t cuda_aligned(size_t bytes)
{
	return (bytes + 255) & ~(size_t)255;
}
const struct run_config *cuda_config(const struct device *device);

/*
 * cuda_enter() makes the device's context current, and cuda_leave() restores the previous context. Every call of a
 * library must stand between the two.
 */
int cuda_enter(struct device *device, bool *pushed, struct diag *d);
void cuda_leave(struct device *device, bool pushed);

/*
 * Turns a CUresult other than 0 into a finding (E-CUDA-N) and returns -code. `what` names the failed action, for
 * example "a launch".
 */
int cuda_failed(struct device *device, int result, const char *what, struct diag *d);
/*
 * Turns the status of a library into a finding and returns -code. If a sticky error of the driver caused the failure,
 * that error is reported instead. (After a sticky error, nothing works in the context any more.)
 */
int library_failed(struct device *device, const char *what, const char *status, struct diag *d);

/*
 * Other parts of gpu/ can attach a pointer to the device, with a function that frees it. The function is called when
 * the device closes, while the device's context is current.
 */
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
 * Device memory that libraries allocate (for handles or first compilations) is counted by the change of the driver's
 * free memory:
 *   uint64_t before = gpu_unused(dev); ...create the handle...; gpu_note_taken(dev, before, MEM_LIBRARIES);
 */
uint64_t gpu_unused(struct device *device);
void gpu_note_taken(struct device *device, uint64_t before, enum mem_purpose purpose);

/*
 * Returns a kernel of code that was compiled at run time (a cubin or PTX). The device keeps the code loaded. Returns
 * NULL with a finding on failure.
 */
void *gpu_code(struct device *device, const void *image, const char *kernel, struct diag *d);
/* Returns n kernels of one image of code that was compiled at run time, in `out`. Returns 0 or -code. */
int gpu_codes(struct device *device, const void *image, const char *const *kernels, void **out,
	      int n, struct diag *d);

/*
 * Launches one of our own kernels. `fn` is looked up once, while a plan is made. The kernel takes one struct by value.
 */
enum { MAX_GRID_YZ = 65535 }; /* CUDA's limit for y and z, while x may have 2^31 - 1 blocks */
struct gpu_grid {
	unsigned x, y, z; /* blocks */
	unsigned threads; /* of a block */
	unsigned shared;  /* bytes */
};
/* Finds kernel `name` of gpu/kernels/FILE.cu. Returns NULL with a finding if there is none. */
void *gpu_kernel(const struct site *s, const char *file, const char *name, struct diag *d);
/* The same for a kernel whose launches set up to `bytes` bytes of shared memory; without this, 48 KiB are the most. */
void *gpu_kernel_sharing(const struct site *s, const char *file, const char *name, unsigned bytes,
			 struct diag *d);
int gpu_launch(const struct call *c, void *fn, struct gpu_grid grid, const void *params, size_t bytes);
/*
 * The same for a kernel of which every block calls wait_for_previous() (gpu/kernels/ptx.cuh) before it touches what others write: on
 * devices that can, it starts while the kernel before it still runs, which saves most of the time between the two.
 */
int gpu_launch_early(const struct call *c, void *fn, struct gpu_grid grid, const void *params,
		     size_t bytes);
/*
 * The same for a kernel that does several jobs. If launches are written down, and the one before is of the same kernel and number of
 * threads, add() may put this job, with which the parameters begin, behind the n jobs of that launch, and give it the blocks for it; it
 * returns whether it did. Then one launch does all of them.
 */
typedef bool gpu_add_job(void *params, unsigned n, const void *job, struct gpu_grid *grid,
			 const struct gpu_grid *more);
int gpu_launch_several(const struct call *c, void *fn, struct gpu_grid grid, const void *params,
		       size_t bytes, gpu_add_job *add);
/*
 * Describes to the copy engine of devices of compute capability 9.0 (fetch_box() in gpu/kernels/ptx.cuh) a matrix of `rows` rows of `columns`
 * elements of float32, float16, bfloat16 or bytes, which begin `row` elements apart, at multiples of 16 bytes. A copy takes `width` bytes, 64 or 128, of
 * each of `box` rows, of which there are 256 at most. `out`: the 128 bytes of a CUtensorMap. Returns 0 or -code.
 */
int gpu_describe_box(const struct call *c, void *out, enum dtype t, const void *at, int64_t rows,
		     int64_t columns, int64_t row, int box, int width);
/*
 * The same for fetch_window(): windows over images of bytes whose channels come last, without gaps. Columns come before rows. A copy takes `width` bytes,
 * 64 or 128, of one pixel of each of `box` windows.
 */
struct gpu_windows {
	int64_t images;
	int in[2], channels;
	int first[2], last[2]; /* where windows begin, the last as a distance from the last pixel */
	int stride[2];	       /* from one to the next */
};
int gpu_describe_windows(const struct call *c, void *out, const void *at,
			 const struct gpu_windows *w, int box, int width);
/* Whether the driver can do that, and gpu_launch_boxes(). */
bool gpu_can_describe_boxes(const struct device *device);
/*
 * gpu_launch_early() for a kernel whose parameters hold such descriptions. The compiler puts these at a multiple of 64 bytes, where the memory for
 * parameters does not begin: the driver tells how far behind its begin they are to be passed. At most GPU_BOXED bytes.
 */
enum { GPU_BOXED = 1024 };
int gpu_launch_boxes(const struct call *c, void *fn, struct gpu_grid grid, const void *params,
		     size_t bytes);
/*
 * Launches that have been written down, and may still be changed: the last one if `back` is 0, the one before it if `back` is 1, and so
 * on. gpu_written() returns false if work is not written down, or that was no launch. What it points to holds until the next launch.
 */
struct gpu_written {
	void **fn;
	struct gpu_grid *grid;
	void *params;
	size_t bytes;
	unsigned jobs;		      /* of gpu_launch_several(), otherwise 1 */
	const struct step *const *by; /* the steps of these */
};
bool gpu_written(const struct call *c, unsigned back, struct gpu_written *out);
void gpu_unwrite(const struct call *c, unsigned back); /* takes it back */
/* Whether launches are written down, to be one graph, which begins when all that was queued before it has ended. */
bool gpu_writes_down(const struct call *c);
/*
 * Must be called after every launch that a library made: with --sync launch it waits for the device. Returns 0 or
 * -code.
 */
int gpu_launched(const struct call *c);
int gpu_copy(const struct call *c, void *dst, const void *src, size_t bytes); /* on the device */

/*
 * Returns the address where a kernel stores the struct origin of its node when it finds invalid data, such as an index
 * out of range. The next wait for the device reports it.
 */
uint64_t *gpu_fault(const struct call *c);

/*
 * Returns a grid for n elements with blocks of 256 threads. The number of blocks is bounded, so that kernels must loop
 * over elements.
 */
struct gpu_grid gpu_grid(int64_t n);

/*
 * Returns whether this build has kernels for the device. Sets *ptx if they exist only as PTX, which the driver must
 * compile first; that takes seconds.
 */
bool gpu_has_code(const struct device_facts *f, bool *ptx);
/*
 * Whether launches may start while the ones before still run ("programmatic dependent launch"), since kernels wait where they call
 * wait_for_previous(): machine code for compute capability 9.0 and newer does, PTX may be for older devices. The same code may have its blocks in clusters.
 */
bool gpu_can_launch_early(const struct device_facts *f);
/* Fails if this build has no code for the device, and warns if it has only PTX. */
int gpu_check_code(const struct device_facts *f, struct diag *d);
/*
 * Fills in the machine's devices, at most max of them, and returns their number. If there is none, *why gets the
 * reason.
 */
int gpu_devices(struct device_facts *out, int max, struct diag *why);

#endif
