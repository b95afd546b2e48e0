/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's table: devices, memory, copies, launches. Every call of the driver's is made here. */
#include "gpu/cuda.h"

#include "base/hash.h"
#include "gpu/api.h"
#include "gpu/kernels/image.h"

#include <inttypes.h>
#include <string.h>

#define FAMILY(F) extern const struct kernel gpu_##F[];
#include "ops/families.def"
#undef FAMILY

static const struct kernel *const families[] = {
#define FAMILY(F) gpu_##F,
#include "ops/families.def"
#undef FAMILY
};

struct gpu_grid gpu_grid(int64_t n)
{
	int64_t blocks = (n + 255) / 256;

	return (struct gpu_grid){(unsigned)(blocks < 1	       ? 1
					    : blocks > 1 << 20 ? 1 << 20
							       : blocks),
				 1, 1, 256, 0};
}

#if HAVE_CUDA

struct loaded {
	CUlibrary library;
	const struct gpu_image *image;
};

enum { MAX_IMAGES = 32 };

struct stream {
	CUstream stream;
	struct device *device;
};

struct device {
	const struct cuda_api *api;
	int ordinal;
	CUdevice id;
	CUcontext context;
	struct stream stream;
	struct arena arena;
	struct map functions; /* "file:kernel" to its number */
	CUfunction *function;
	uint32_t nfunctions, cap_functions;
	struct loaded loaded[MAX_IMAGES];
	int nloaded;
	uint64_t *fault; /* pinned: written by kernels */
	bool blocking;	 /* each launch is waited for */
	bool lost;	 /* a sticky error: nothing works any more */
};

/* "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory" */
static const char *error_text(const struct cuda_api *api, CUresult r, struct diag *d)
{
	const char *name = NULL, *text = NULL;

	api->p_cuGetErrorName(r, &name);
	api->p_cuGetErrorString(r, &text);
	return fmt(d, "%s (%d): %s", name ? name : "an unknown error", (int)r, text ? text : "?");
}

static bool is_sticky(CUresult r)
{
	return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       r == CUDA_ERROR_ASSERT ||
	       (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED) ||
	       r == CUDA_ERROR_ECC_UNCORRECTABLE || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static int failed(struct device *dev, CUresult r, const char *what, struct diag *d)
{
	if (is_sticky(r))
		dev->lost = true;
	return FAIL(d, E_RUN, .message = fmt(d, "%s failed on cuda:%d", what, dev->ordinal),
		    .actual = error_text(dev->api, r, d),
		    .hint = is_sticky(r) ? "the device's context is lost; --sync launch names the node"
					 : NULL);
}

/* Our context for the time of a call: others in the process may have theirs current. */
static int enter(struct device *dev, bool *pushed, struct diag *d)
{
	CUcontext now = NULL;

	*pushed = false;
	if (dev->lost)
		return FAIL(d, E_RUN,
			    .message = fmt(d, "cuda:%d was lost by an earlier error", dev->ordinal));
	if (!dev->api->p_cuCtxGetCurrent(&now) && now == dev->context)
		return 0;
	CUresult r = dev->api->p_cuCtxPushCurrent(dev->context);
	*pushed = !r;
	return r ? failed(dev, r, "entering the context", d) : 0;
}

static void leave(struct device *dev, bool pushed)
{
	CUcontext old;

	if (pushed)
		dev->api->p_cuCtxPopCurrent(&old);
}

static void facts_of(const struct cuda_api *api, int k, struct device_facts *f)
{
	CUdevice id;
	size_t memory = 0;

	*f = (struct device_facts){.ordinal = k};
	if (api->p_cuDeviceGet(&id, k))
		return;
	api->p_cuDeviceGetName(f->name, sizeof(f->name), id);
	api->p_cuDeviceTotalMem(&memory, id);
	api->p_cuDeviceGetAttribute(&f->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, id);
	api->p_cuDeviceGetAttribute(&f->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, id);
	api->p_cuDeviceGetAttribute(&f->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, id);
	f->memory = memory;
}

int gpu_devices(struct device_facts *out, int max, struct diag *why)
{
	const struct cuda_api *api = cuda_api(why);
	int n = 0;

	if (!api)
		return 0;
	CUresult r = api->p_cuInit(0);
	if (!r)
		r = api->p_cuDeviceGetCount(&n);
	if (r || !n) {
		FAIL(why, E_DEVICE, .message = "the CUDA driver has no device for us",
		     .expected = "a CUDA device", .actual = r ? error_text(api, r, why) : "none");
		return 0;
	}
	for (int k = 0; k < n && k < max; k++)
		facts_of(api, k, &out[k]);
	return n < max ? n : max;
}

static int cuda_probe(struct device_info *info, int max, struct diag *why)
{
	struct device_facts f[16];
	int n = gpu_devices(f, max < 16 ? max : 16, why);

	for (int k = 0; k < n; k++) {
		info[k] = (struct device_info){.ordinal = k, .memory = f[k].memory};
		memcpy(info[k].name, f[k].name, sizeof(info[k].name));
	}
	return n;
}

static void cuda_close(struct device *dev)
{
	bool pushed = false;

	if (!dev)
		return;
	if (dev->context && !enter(dev, &pushed, NULL)) {
		if (dev->stream.stream) {
			dev->api->p_cuStreamSynchronize(dev->stream.stream);
			dev->api->p_cuStreamDestroy(dev->stream.stream);
		}
		for (int i = 0; i < dev->nloaded; i++)
			dev->api->p_cuLibraryUnload(dev->loaded[i].library);
		if (dev->fault)
			dev->api->p_cuMemFreeHost(dev->fault);
		leave(dev, pushed);
	}
	if (dev->context)
		dev->api->p_cuDevicePrimaryCtxRelease(dev->id);
	struct arena a = dev->arena;
	arena_free(&a);
}

static int set_up(struct device *dev, struct diag *d)
{
	bool pushed;
	int err = enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuStreamCreate(&dev->stream.stream, CU_STREAM_NON_BLOCKING);
	if (!r)
		r = dev->api->p_cuMemAllocHost((void **)&dev->fault, sizeof(*dev->fault));
	if (!r)
		*dev->fault = 0;
	leave(dev, pushed);
	return r ? failed(dev, r, "opening the device", d) : 0;
}

static struct device *cuda_open(int ordinal, const struct run_config *config, struct diag *d)
{
	struct device_facts f[16];
	int n = gpu_devices(f, 16, d);
	struct arena a = {0};

	if (!n)
		return NULL;
	if (ordinal < 0 || ordinal >= n) {
		FAIL(d, E_DEVICE, .expected = fmt(d, "cuda:0 to cuda:%d", n - 1),
		     .actual = fmt(d, "cuda:%d", ordinal));
		return NULL;
	}
	struct device *dev = arena_new(&a, struct device);
	*dev = (struct device){.api = cuda_api(d),
			       .ordinal = ordinal,
			       .arena = a,
			       .blocking = config && config->sync != SYNC_ASYNC};
	dev->functions.arena = &dev->arena;
	dev->stream.device = dev;
	CUresult r = dev->api->p_cuDeviceGet(&dev->id, ordinal);
	if (!r)
		r = dev->api->p_cuDevicePrimaryCtxRetain(&dev->context, dev->id);
	if (r)
		FAIL(d, E_DEVICE, .message = fmt(d, "cuda:%d cannot be opened", ordinal),
		     .actual = error_text(dev->api, r, d));
	if (r || set_up(dev, d)) {
		cuda_close(dev);
		return NULL;
	}
	return dev;
}

struct stream *cuda_stream(struct device *device)
{
	return &device->stream;
}

static int cuda_alloc(struct device *dev, size_t bytes, enum mem_purpose purpose, struct buffer *b,
		      struct diag *d)
{
	CUdeviceptr p = 0;
	size_t unused = 0, total = 0;
	bool pushed;
	int err = enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuMemAlloc(&p, bytes ? bytes : 1);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		dev->api->p_cuMemGetInfo(&unused, &total);
	leave(dev, pushed);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		return FAIL(d, E_MEMORY, .message = fmt(d, "cuda:%d refused memory", dev->ordinal),
			    .expected = fmt(d, "%zu bytes for %s", bytes, mem_purpose_name(purpose)),
			    .actual = fmt(d, "%zu of %zu bytes free; %s", unused, total,
					  error_text(dev->api, r, d)));
	if (r)
		return failed(dev, r, "taking memory", d);
	*b = (struct buffer){(void *)(uintptr_t)p, bytes, purpose};
	mem_note(MEM_DEVICE, purpose, (int64_t)bytes);
	return 0;
}

static void cuda_free(struct device *dev, struct buffer *b)
{
	bool pushed;

	if (b->ptr && !enter(dev, &pushed, NULL)) {
		dev->api->p_cuStreamSynchronize(dev->stream.stream);
		dev->api->p_cuMemFree((CUdeviceptr)(uintptr_t)b->ptr);
		leave(dev, pushed);
	}
	if (b->ptr)
		mem_note(MEM_DEVICE, b->purpose, -(int64_t)b->bytes);
	*b = (struct buffer){0};
}

/* What kernels found wrong with the data. */
static int check_fault(struct device *dev, struct diag *d)
{
	uint64_t who = *dev->fault;

	if (!who)
		return 0;
	*dev->fault = 0;
	const struct origin *o = (const struct origin *)(uintptr_t)who;
	return FAIL(d, E_VALUE, .node = o->name, .op = o->op,
		    .expected = "indices within the dimension", .actual = "one outside of it");
}

static int wait_stream(struct device *dev, struct diag *d)
{
	CUresult r = dev->api->p_cuStreamSynchronize(dev->stream.stream);

	return r ? failed(dev, r, "the work queued before", d) : check_fault(dev, d);
}

static int cuda_copy(struct stream *s, void *dst, int dst_device, const void *src, int src_device,
		     size_t bytes, struct diag *d)
{
	struct device *dev = s->device;
	const struct cuda_api *api = dev->api;
	CUdeviceptr to = (CUdeviceptr)(uintptr_t)dst, from = (CUdeviceptr)(uintptr_t)src;
	CUresult r = CUDA_SUCCESS;
	bool pushed;

	if (!bytes)
		return 0;
	int err = enter(dev, &pushed, d);
	if (err)
		return err;
	if (dst_device && src_device)
		r = api->p_cuMemcpyDtoDAsync(to, from, bytes, s->stream);
	else if (dst_device) /* the driver takes a copy of pageable memory before it returns */
		r = api->p_cuMemcpyHtoDAsync(to, src, bytes, s->stream);
	else if (src_device)
		r = api->p_cuMemcpyDtoHAsync(dst, from, bytes, s->stream);
	else
		memcpy(dst, src, bytes);
	if (r)
		err = failed(dev, r, "a copy", d);
	else if (!dst_device && src_device) /* the host reads it next */
		err = wait_stream(dev, d);
	leave(dev, pushed);
	return err;
}

static int cuda_wait(struct stream *s, struct diag *d)
{
	bool pushed;
	int err = enter(s->device, &pushed, d);

	if (err)
		return err;
	err = wait_stream(s->device, d);
	leave(s->device, pushed);
	return err;
}

/* ---- our kernels ----------------------------------------------------------------------------- */

static CUresult load(struct device *dev, const char *file, CUlibrary *out)
{
	for (int i = 0; i < dev->nloaded; i++) {
		if (!strcmp(dev->loaded[i].image->name, file)) {
			*out = dev->loaded[i].library;
			return CUDA_SUCCESS;
		}
	}
	for (const struct gpu_image *m = gpu_images; m->name; m++) {
		if (strcmp(m->name, file) || dev->nloaded == MAX_IMAGES)
			continue;
		CUresult r =
			dev->api->p_cuLibraryLoadData(out, m->data, NULL, NULL, 0, NULL, NULL, 0);
		if (!r)
			dev->loaded[dev->nloaded++] = (struct loaded){*out, m};
		return r;
	}
	return CUDA_ERROR_FILE_NOT_FOUND;
}

static CUresult find(struct device *dev, const char *file, const char *name, CUfunction *out)
{
	CUlibrary library;
	CUkernel kernel;
	CUresult r = load(dev, file, &library);

	if (!r)
		r = dev->api->p_cuLibraryGetKernel(&kernel, library, name);
	return r ? r : dev->api->p_cuKernelGetFunction(out, kernel);
}

void *gpu_kernel(const struct site *s, const char *file, const char *name, struct diag *d)
{
	struct device *dev = s->device;
	int64_t k = map_get(&dev->functions, name, strlen(name));
	CUfunction f = NULL;
	bool pushed;

	if (k >= 0)
		return dev->function[k];
	if (enter(dev, &pushed, d))
		return NULL;
	CUresult r = find(dev, file, name, &f);
	leave(dev, pushed);
	if (r) {
		FAIL(d, E_DEVICE,
		     .message = fmt(d, "kernel %s of this build cannot be used on cuda:%d", name,
				    dev->ordinal),
		     .actual = error_text(dev->api, r, d));
		return NULL;
	}
	if (dev->nfunctions == dev->cap_functions) {
		dev->cap_functions = dev->cap_functions ? 2 * dev->cap_functions : 64;
		dev->function = arena_grow(&dev->arena, dev->function, dev->nfunctions,
					   dev->cap_functions, sizeof(CUfunction));
	}
	map_set(&dev->functions, arena_str(&dev->arena, name), strlen(name), dev->nfunctions);
	return dev->function[dev->nfunctions++] = f;
}

int gpu_launch(const struct call *c, void *fn, struct gpu_grid g, const void *params, size_t bytes)
{
	struct device *dev = c->stream->device;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	bool pushed;
	int err = enter(dev, &pushed, c->diag);

	if (err)
		return err;
	CUresult r = dev->api->p_cuLaunchKernel(fn, g.x, g.y, g.z, g.threads, 1, 1, g.shared,
						c->stream->stream, NULL, extra);
	if (r)
		err = failed(dev, r, "a launch", c->diag);
	else if (dev->blocking)
		err = wait_stream(dev, c->diag);
	leave(dev, pushed);
	return err;
}

int gpu_copy(const struct call *c, void *dst, const void *src, size_t bytes)
{
	return cuda_copy(c->stream, dst, 1, src, 1, bytes, c->diag);
}

uint64_t *gpu_fault(const struct call *c)
{
	return c->stream->device->fault;
}

#else

static const char without[] = "infer was built without CUDA";

int gpu_devices(struct device_facts *out, int max, struct diag *why)
{
	(void)out, (void)max;
	FAIL(why, E_DEVICE, .message = without,
	     .hint = "build it where nvcc and the CUDA headers are");
	return 0;
}

static int cuda_probe(struct device_info *info, int max, struct diag *why)
{
	(void)info, (void)max;
	return gpu_devices(NULL, 0, why);
}

static struct device *cuda_open(int ordinal, const struct run_config *config, struct diag *d)
{
	(void)ordinal, (void)config;
	gpu_devices(NULL, 0, d);
	return NULL;
}

static void cuda_close(struct device *dev)
{
	(void)dev;
}

static int cuda_alloc(struct device *dev, size_t bytes, enum mem_purpose purpose, struct buffer *b,
		      struct diag *d)
{
	(void)dev, (void)bytes, (void)purpose, (void)b;
	return FAIL(d, E_DEVICE, .message = without);
}

static void cuda_free(struct device *dev, struct buffer *b)
{
	(void)dev, (void)b;
}

static int cuda_copy(struct stream *s, void *dst, int dst_device, const void *src, int src_device,
		     size_t bytes, struct diag *d)
{
	(void)s, (void)dst, (void)dst_device, (void)src, (void)src_device, (void)bytes;
	return FAIL(d, E_DEVICE, .message = without);
}

static int cuda_wait(struct stream *s, struct diag *d)
{
	(void)s;
	return FAIL(d, E_DEVICE, .message = without);
}

struct stream *cuda_stream(struct device *device)
{
	(void)device;
	return NULL;
}

void *gpu_kernel(const struct site *s, const char *file, const char *name, struct diag *d)
{
	(void)s, (void)file, (void)name;
	FAIL(d, E_DEVICE, .message = without);
	return NULL;
}

int gpu_launch(const struct call *c, void *fn, struct gpu_grid g, const void *params, size_t bytes)
{
	(void)fn, (void)g, (void)params, (void)bytes;
	return FAIL(c->diag, E_DEVICE, .message = without);
}

int gpu_copy(const struct call *c, void *dst, const void *src, size_t bytes)
{
	(void)dst, (void)src, (void)bytes;
	return FAIL(c->diag, E_DEVICE, .message = without);
}

uint64_t *gpu_fault(const struct call *c)
{
	(void)c;
	return NULL;
}

#endif

/* Layouts other than row-major are not made here, so nothing asks for this yet. */
static int reorder_run(const struct call *c)
{
	return call_fail(c, E_INTERNAL, "a row-major tensor", "another layout");
}
static const struct kernel reorder = {.op = "Identity", .run = reorder_run};

const struct backend cuda_backend = {
	.name = "cuda",
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.families = families,
	.reorder = &reorder,
	.wait = cuda_wait,
};
