/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's devices and their contexts; turns the driver's errors into findings. */
#include "gpu/driver/device.h"

#include "base/asan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------- */

/* Returns a text such as "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory". */
const char *cuda_error_text(const struct cuda_api *api, CUresult r, struct diag *d)
{
	const char *name = NULL, *text = NULL;

	api->p_cuGetErrorName(r, &name);
	api->p_cuGetErrorString(r, &text);
	return fmt(d, "%s (%d): %s", name ? name : "an unknown error", (int)r, text ? text : "?");
}

/* Returns whether the error is "sticky": after it, nothing works in the context for the rest of this process. */
static bool is_sticky(CUresult r)
{
	/* error codes that are newer than the oldest headers we build with */
	enum { CONTAINED = 226, TENSOR_MEMORY_LEAK = 721 };

	return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       r == CUDA_ERROR_ASSERT ||
	       (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED) ||
	       r == CUDA_ERROR_ECC_UNCORRECTABLE || r == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
	       r == CUDA_ERROR_CONTEXT_IS_DESTROYED || r == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
	       r == CUDA_ERROR_EXTERNAL_DEVICE || (int)r == CONTAINED || (int)r == TENSOR_MEMORY_LEAK;
}

static enum code code_of(CUresult r)
{
#define KNOWN(n)                                                                                   \
	case n: return E_CUDA_##n;
	switch ((int)r) {
		KNOWN(1)
		KNOWN(2)
		KNOWN(3)
		KNOWN(100)
		KNOWN(101)
		KNOWN(209)
		KNOWN(214)
		KNOWN(222)
		KNOWN(400)
		KNOWN(700)
		KNOWN(701)
		KNOWN(702)
		KNOWN(710)
		KNOWN(714)
		KNOWN(715)
		KNOWN(716)
		KNOWN(717)
		KNOWN(718)
		KNOWN(719)
		KNOWN(720)
		KNOWN(802)
		KNOWN(803)
		KNOWN(999)
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED: return E_CTX_DESTROYED;
	default: return E_CUDA;
	}
#undef KNOWN
}

/*
 * Returns the finding's code for an error of the driver. If the driver refused a handle or context, checks whether the
 * handle belongs to another context.
 */
static enum code code_for_failure(struct device *dev, CUresult r)
{
	CUcontext now = NULL, of_stream = NULL;

	if (r != CUDA_ERROR_INVALID_HANDLE && r != CUDA_ERROR_INVALID_CONTEXT)
		return code_of(r);
	if (!dev->api->p_cuCtxGetCurrent(&now) && now && now != dev->context)
		return E_CTX_FOREIGN;
	if (dev->stream.borrowed && !dev->api->p_cuStreamGetCtx(dev->stream.stream, &of_stream) &&
	    of_stream != dev->context)
		return E_CTX_STREAM;
	return code_of(r);
}

int cuda_failed(struct device *dev, int result, const char *what, struct diag *d)
{
	CUresult r = (CUresult)result;
	enum code code = code_for_failure(dev, r);

	if (is_sticky(r) || code == E_CTX_DESTROYED) {
		dev->lost = true;
		dev->lost_result = result;
	}
	return FAIL(d, code,
		    .actual = fmt(d, "%s, at %s on cuda:%d", cuda_error_text(dev->api, r, d), what,
				  dev->facts.ordinal));
}

int library_failed(struct device *dev, const char *what, const char *status, struct diag *d)
{
	CUresult r = dev->lost ? (CUresult)dev->lost_result
			       : dev->api->p_cuStreamQuery(dev->stream.stream);

	if (r && r != CUDA_ERROR_NOT_READY)
		return cuda_failed(dev, (int)r, what, d);
	return FAIL(d, E_RUN, .message = fmt(d, "%s failed on cuda:%d", what, dev->facts.ordinal),
		    .actual = fmt(d, "%s", status));
}

static int fail_lost(const struct device *dev, struct diag *d)
{
	return FAIL(d, code_of((CUresult)dev->lost_result),
		    .message = fmt(
			    d, "cuda:%d was lost by an earlier error; this process cannot use it any more",
			    dev->facts.ordinal),
		    .actual = cuda_error_text(dev->api, (CUresult)dev->lost_result, d));
}

/* ---- the current context ------------------------------------------------------------------------ */

int cuda_enter(struct device *dev, bool *pushed, struct diag *d)
{
	CUcontext now = NULL;

	*pushed = false;
	if (dev->lost)
		return fail_lost(dev, d);
	if (!dev->api->p_cuCtxGetCurrent(&now) && now == dev->context)
		return 0;
	CUresult r = dev->api->p_cuCtxPushCurrent(dev->context);
	*pushed = !r;
	return r ? cuda_failed(dev, (int)r, "making the context current", d) : 0;
}

void cuda_leave(struct device *dev, bool pushed)
{
	CUcontext old;

	if (pushed)
		dev->api->p_cuCtxPopCurrent(&old);
}

/* Returns 0 if the context still exists as it did when it was opened, otherwise the driver's error. */
CUresult device_alive(struct device *dev)
{
	unsigned flags, version;
	int active = 0;
	CUresult r;

	if (dev->own) {
		r = dev->api->p_cuCtxGetApiVersion(dev->context, &version);
		return r == CUDA_ERROR_INVALID_CONTEXT ? CUDA_ERROR_CONTEXT_IS_DESTROYED : r;
	}
	r = dev->api->p_cuDevicePrimaryCtxGetState(dev->id, &flags, &active);
	return r || active ? r : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

int device_enter(struct device *dev, struct diag *d)
{
	CUcontext now = NULL;

	if (dev->lost)
		return fail_lost(dev, d);
	CUresult r = device_alive(dev);
	if (r && code_of(r) != E_CTX_DESTROYED)
		return cuda_failed(dev, (int)r, "a look at the context", d);
	if (r) {
		dev->lost = true;
		dev->lost_result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		return FAIL(d, E_CTX_DESTROYED,
			    .actual = fmt(d, "the %s context %p of cuda:%d",
					  dev->own ? "session's own" : "primary",
					  (void *)dev->context, dev->facts.ordinal));
	}
	dev->api->p_cuCtxGetCurrent(&now);
	if (now && now != dev->context && !dev->told_foreign) {
		dev->told_foreign = true;
		NOTE(d, E_CTX_FOREIGN,
		     .message = fmt(d, "another CUDA context (%p) is current on the calling thread",
				    (void *)now),
		     .actual = fmt(d, "the session's context %p was made current for the call",
				   (void *)dev->context));
	}
	r = dev->api->p_cuCtxPushCurrent(dev->context);
	return r ? cuda_failed(dev, (int)r, "making the context current", d) : 0;
}

int device_leave(struct device *dev, struct diag *d)
{
	CUcontext top = NULL;

	if (dev->api->p_cuCtxPopCurrent(&top) || top == dev->context || dev->lost)
		return 0;
	return FAIL(d, E_CTX_FOREIGN,
		    .message = "a call in the session left another CUDA context current",
		    .expected = fmt(d, "context %p", (void *)dev->context),
		    .actual = fmt(d, "context %p", (void *)top));
}

int cuda_use_stream(struct device *dev, void *handle, struct diag *d)
{
	CUcontext of = NULL;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuStreamGetCtx(handle, &of);
	/* work that is queued on the old stream must be finished before work on the new stream starts */
	if (!r && of == dev->context)
		err = device_wait(dev, d);
	if (!r && !err && of == dev->context && !dev->stream.borrowed)
		dev->api->p_cuStreamDestroy(dev->stream.stream);
	cuda_leave(dev, pushed);
	if (err)
		return err;
	if (r)
		return FAIL(d, E_CTX_STREAM, .message = "the stream cannot be used",
			    .actual = cuda_error_text(dev->api, r, d));
	if (of != dev->context)
		return FAIL(d, E_CTX_STREAM,
			    .expected = fmt(d, "a stream of context %p", (void *)dev->context),
			    .actual = fmt(d, "one of context %p", (void *)of));
	dev->stream.stream = handle;
	dev->stream.borrowed = true;
	return 0;
}

/* ---- opening ------------------------------------------------------------------------------------ */

enum { MAX_WARM_THREADS = 4 };

static struct {
	pthread_once_t once;
	CUresult result;
	pthread_mutex_t lock;
	pthread_t thread[MAX_WARM_THREADS];
	int nthreads;
	unsigned begun;
} init = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Makes the driver load each kernel when it is first used, which saves seconds and memory. */
static void load_lazily(void)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 0);
}

static void init_once(void)
{
	const struct cuda_api *api = cuda_api(NULL);

	load_lazily();
	init.result = api ? api->p_cuInit(0) : CUDA_ERROR_NOT_FOUND;
}

static CUresult cuda_init(void)
{
	pthread_once(&init.once, init_once);
	return init.result;
}

static void *warm_driver(void *arg)
{
	(void)arg;
	pthread_once(&init.once, init_once);
	return NULL;
}

static void *warm_products(void *arg)
{
	(void)arg;
	cublaslt_api(NULL);
	return NULL;
}

static void *warm_convolutions(void *arg)
{
	(void)arg;
	cudnn_api(NULL);
	return NULL;
}

void cuda_warm_begin(unsigned wanted)
{
	static const struct {
		unsigned bit;
		void *(*run)(void *);
	} parts[] = {{WARM_DRIVER, warm_driver},
		     {WARM_PRODUCTS, warm_products},
		     {WARM_CONVOLUTIONS, warm_convolutions}};

	pthread_mutex_lock(&init.lock);
	load_lazily(); /* changes the environment, so it must run before threads start, which read the environment */
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (!(wanted & parts[i].bit & ~init.begun) || init.nthreads == MAX_WARM_THREADS)
			continue;
		if (!pthread_create(&init.thread[init.nthreads], NULL, parts[i].run, NULL))
			init.nthreads++;
		init.begun |= parts[i].bit;
	}
	pthread_mutex_unlock(&init.lock);
}

void cuda_warm_end(void)
{
	pthread_mutex_lock(&init.lock);
	while (init.nthreads)
		pthread_join(init.thread[--init.nthreads], NULL);
	pthread_mutex_unlock(&init.lock);
}

/*
 * Tools such as compute-sanitizer, ncu and our own watcher are preloaded or injected, and write what they have gathered in
 * an exit handler. AddressSanitizer looks for leaks in one.
 */
bool cuda_may_exit_quickly(void)
{
	return !WITH_ASAN && init.begun && !getenv("LD_PRELOAD") && !getenv("CUDA_INJECTION64_PATH");
}

static void read_device_facts(const struct cuda_api *api, int k, struct device_facts *f)
{
	static const struct {
		CUdevice_attribute what;
		size_t at;
		bool wanted; /* a device without this attribute cannot be used */
	} attributes[] = {
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, offsetof(struct device_facts, major),
		 true},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, offsetof(struct device_facts, minor),
		 true},
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		 offsetof(struct device_facts, processors), true},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
		 offsetof(struct device_facts, shared_memory), true},
		{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, offsetof(struct device_facts, clock), false},
		{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, offsetof(struct device_facts, memory_clock),
		 false},
		{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, offsetof(struct device_facts, l2), false},
	};
	CUdevice id;
	size_t memory = 0;

	*f = (struct device_facts){.ordinal = k};
	CUresult r = api->p_cuDeviceGet(&id, k);
	if (!r)
		r = api->p_cuDeviceGetName(f->name, sizeof(f->name), id);
	if (!r)
		r = api->p_cuDeviceTotalMem(&memory, id);
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes) && !r; i++) {
		r = api->p_cuDeviceGetAttribute((int *)(void *)((char *)f + attributes[i].at),
						attributes[i].what, id);
		if (!attributes[i].wanted)
			r = CUDA_SUCCESS;
	}
	f->memory = memory;
	f->result = (int)r;
}

int gpu_devices(struct device_facts *out, int max, struct diag *why)
{
	const struct cuda_api *api = cuda_api(why);
	int n = 0;

	if (!api)
		return 0;
	CUresult r = cuda_init();
	if (!r)
		r = api->p_cuDeviceGetCount(&n);
	if (r || !n) {
		FAIL(why, E_DEVICE, .message = "the CUDA driver has no device for us",
		     .expected = "a CUDA device",
		     .actual = r ? cuda_error_text(api, r, why) : "none");
		return 0;
	}
	for (int k = 0; k < n && k < max; k++)
		read_device_facts(api, k, &out[k]);
	return n < max ? n : max;
}

int device_open_context(struct device *dev, struct diag *d)
{
	CUresult r = (CUresult)dev->facts.result;
	CUcontext top;

	if (!r)
		r = dev->api->p_cuDeviceGet(&dev->id, dev->facts.ordinal);
	dev->own = dev->config->context == CONTEXT_OWN;
	if (!r && dev->own) {
		unsigned flags;
		int active = 0;
		dev->api->p_cuDevicePrimaryCtxGetState(dev->id, &flags, &active);
		dev->primary_before = active;
		r = dev->api->p_cuCtxCreate_v2(&dev->context, CU_CTX_SCHED_AUTO, dev->id);
		if (!r) /* the context is current after its creation */
			dev->api->p_cuCtxPopCurrent(&top);
	} else if (!r) {
		r = dev->api->p_cuDevicePrimaryCtxRetain(&dev->context, dev->id);
	}
	if (!r)
		return 0;
	dev->context = NULL;
	return FAIL(d, E_DEVICE, .message = fmt(d, "cuda:%d cannot be opened", dev->facts.ordinal),
		    .actual = cuda_error_text(dev->api, r, d));
}

/* Releases only our own reference to the primary context. It is never reset, because others may use it. */
void device_close_context(struct device *dev)
{
	if (dev->context && dev->own)
		dev->api->p_cuCtxDestroy(dev->context);
	else if (dev->context)
		dev->api->p_cuDevicePrimaryCtxRelease(dev->id);
	dev->context = NULL;
}
