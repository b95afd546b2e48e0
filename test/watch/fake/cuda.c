/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver, its CUPTI, its NVML and some of the runtime without a GPU, for tests of what `infer check --`
 * injects. Calls are reported to the subscriber of CUPTI as the real ones are; handles have owners, and crossings
 * fail as measured (see src/watch/inject); kernels do nothing, copies touch the host's bytes. One file with four
 * names: libcuda.so.1, libcupti.so.13, libnvidia-ml.so.1, libcudart.so.13.
 *
 *   FAKE_CUPTI_TAKEN=1      CUPTI has a client already
 *   FAKE_DEVICE_GROWS=PID   that process takes a MiB more at each question to NVML
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- CUPTI */

/* Who listens may change while other threads are in calls. */
static struct {
	CUpti_CallbackFunc _Atomic f;
	void *_Atomic user;
	_Atomic unsigned char driver[CUPTI_DRIVER_TRACE_CBID_SIZE],
		runtime[CUPTI_RUNTIME_TRACE_CBID_SIZE], resource[64];
} listener;
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER; /* one comes or goes at a time */

static void tell(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	CUpti_CallbackFunc f = listener.f;

	if (f)
		f(listener.user, domain, id, data);
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *s, CUpti_CallbackFunc f, void *user)
{
	CUptiResult r = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;

	pthread_mutex_lock(&door);
	if (!listener.f && !getenv("FAKE_CUPTI_TAKEN")) {
		listener.user = user;
		listener.f = f;
		*s = (CUpti_SubscriberHandle)(void *)&listener;
		r = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&door);
	return r;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *s, CUpti_CallbackFunc f, void *user,
			      CUpti_SubscriberParams *p)
{
	if ((listener.f || getenv("FAKE_CUPTI_TAKEN")) && p->oldSubscriberName)
		strcpy(p->oldSubscriberName, "another tool");
	return cuptiSubscribe(s, f, user);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle s)
{
	(void)s;
	pthread_mutex_lock(&door);
	listener.f = NULL;
	for (size_t i = 0; i < sizeof(listener.driver); i++)
		listener.driver[i] = 0;
	for (size_t i = 0; i < sizeof(listener.runtime); i++)
		listener.runtime[i] = 0;
	for (size_t i = 0; i < sizeof(listener.resource); i++)
		listener.resource[i] = 0;
	pthread_mutex_unlock(&door);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain domain,
				CUpti_CallbackId id)
{
	(void)s;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		listener.driver[id] = on != 0;
	else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
		listener.runtime[id] = on != 0;
	else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		listener.resource[id] = on != 0;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain domain)
{
	(void)on;
	(void)s;
	(void)domain;
	return CUPTI_SUCCESS;
}

/* Who looks for the library asks for these, too. */
CUptiResult cuptiGetTimestamp(uint64_t *ns)
{
	*ns = 0;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete)
{
	(void)request;
	(void)complete;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	(void)kind;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	(void)kind;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	(void)buffer;
	(void)valid;
	(void)record;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	(void)kind;
	(void)id;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
	(void)kind;
	(void)id;
	return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
	*version = CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult r, const char **text)
{
	*text = r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
			? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
			: "CUPTI_ERROR_UNKNOWN";
	return CUPTI_SUCCESS;
}

/* ---- objects */

struct CUctx_st {
	_Atomic int alive;
	int primary;
};
struct CUstream_st {
	CUcontext context;
	int capture; /* mode + 1 */
};
struct CUevent_st {
	CUcontext context;
};
struct CUmod_st {
	CUcontext context;
};
struct CUfunc_st {
	CUcontext context;
	char name[64];
};

/* What threads share is atomic: the driver may be called from any of them. */
static struct CUfunc_st *_Atomic newest;
static struct CUctx_st primary = {.primary = 1};
static int retained;	    /* how often; under the lock */
static _Atomic int started; /* the process that began with CUDA */
static __thread CUcontext current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int contexts_alive, raised, capturing, capture_broken, done_with_start;
static __thread int runtime_error;

struct call {
	CUpti_CallbackDomain domain;
	CUpti_CallbackId id;
	CUpti_CallbackData data;
	int result, heard;
};

static struct call begin(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char *name,
			 const void *params, const char *symbol)
{
	struct call c = {.domain = domain, .id = id};

	c.heard = listener.f && (domain == CUPTI_CB_DOMAIN_DRIVER_API ? listener.driver[id]
								      : listener.runtime[id]);
	c.data = (CUpti_CallbackData){.callbackSite = CUPTI_API_ENTER,
				      .functionName = name,
				      .functionParams = params,
				      .symbolName = symbol,
				      .context = current};
	if (c.heard)
		tell(domain, id, &c.data);
	return c;
}

static int done(struct call *c, int result)
{
	/* CUDA does not work in a child that was forked after it had begun */
	if (started && started != getpid())
		result = CUDA_ERROR_NOT_INITIALIZED;
	c->result = result;
	c->data.callbackSite = CUPTI_API_EXIT;
	c->data.functionReturnValue = &c->result;
	c->data.context = current;
	if (c->heard)
		tell(c->domain, c->id, &c->data);
	return result;
}

#define CALL(name, ...)                                                                            \
	name##_params params = {__VA_ARGS__};                                                      \
	struct call call = begin(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name,       \
				 #name, &params, NULL)
#define DONE(r) (CUresult) done(&call, r)

static void resource(CUpti_CallbackId id, CUcontext context, CUstream stream)
{
	CUpti_ResourceData r = {.context = context};

	r.resourceHandle.stream = stream;
	if (listener.resource[id])
		tell(CUPTI_CB_DOMAIN_RESOURCE, id, &r);
}

CUresult cuInit(unsigned flags)
{
	/* whoever comes second waits until the first is done; what is injected may begin with CUDA itself */
	static pthread_mutex_t once = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*start)(void) = NULL;

	(void)flags;
	if (done_with_start)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&once);
	if (!started) {
		started = getpid();
		void *h = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
		*(void **)&start = h ? dlsym(h, "InitializeInjection") : NULL;
		if (start)
			start();
		done_with_start = 1;
	}
	pthread_mutex_unlock(&once);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static void born(CUcontext c)
{
	c->alive = 1;
	contexts_alive++;
	resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, c, NULL);
}

static void die(CUcontext c)
{
	resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, c, NULL);
	c->alive = 0;
	contexts_alive--;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device)
{
	CALL(cuDevicePrimaryCtxRetain, c, device);
	pthread_mutex_lock(&lock);
	if (!retained++)
		born(&primary);
	pthread_mutex_unlock(&lock);
	*c = &primary;
	return DONE(0);
}

/* The last one takes the context along. */
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	CALL(cuDevicePrimaryCtxRelease_v2, device);
	pthread_mutex_lock(&lock);
	if (!--retained)
		die(&primary);
	pthread_mutex_unlock(&lock);
	return DONE(0);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	CALL(cuDevicePrimaryCtxReset_v2, device);
	pthread_mutex_lock(&lock);
	retained = 0;
	die(&primary);
	pthread_mutex_unlock(&lock);
	return DONE(0);
}

CUresult cuCtxSetCurrent(CUcontext c)
{
	CALL(cuCtxSetCurrent, c);
	current = c;
	return DONE(0);
}

CUresult cuCtxCreate(CUcontext *c, CUctxCreateParams *how, unsigned flags, CUdevice device)
{
	CALL(cuCtxCreate_v4, c, how, flags, device);
	*c = calloc(1, sizeof(**c));
	born(*c);
	current = *c;
	return DONE(0);
}

CUresult cuCtxDestroy(CUcontext c)
{
	CALL(cuCtxDestroy_v2, c);
	die(c); /* its memory stays: handles of it are looked at later */
	current = current == c ? NULL : current;
	return DONE(0);
}

CUresult cuCtxSynchronize(void)
{
	struct call call = begin(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
				 "cuCtxSynchronize", NULL, NULL);
	return DONE(raised);
}

CUresult cuModuleLoad(CUmodule *m, const char *path)
{
	CALL(cuModuleLoad, m, path);
	*m = calloc(1, sizeof(**m));
	(*m)->context = current;
	return DONE(0);
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	CALL(cuModuleGetFunction, f, m, name);
	*f = calloc(1, sizeof(**f));
	(*f)->context = m->context;
	strncpy((*f)->name, name, sizeof((*f)->name) - 1);
	newest = *f;
	return DONE(0);
}

/* Nobody hears of it, and its address is one that a module's function had. */
CUresult cuLibraryGetKernel(CUkernel *k, CUlibrary library, const char *name)
{
	CUfunction f = newest;

	(void)library;
	if (!f)
		return CUDA_ERROR_NOT_FOUND;
	f->context = current;
	strncpy(f->name, name, sizeof(f->name) - 1);
	*k = (CUkernel)(void *)f;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
	CALL(cuStreamCreate, s, flags);
	*s = calloc(1, sizeof(**s));
	(*s)->context = current;
	resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, current, *s);
	return DONE(0);
}

CUresult cuStreamDestroy(CUstream s)
{
	CALL(cuStreamDestroy_v2, s);
	resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, s->context, s);
	free(s);
	return DONE(raised);
}

CUresult cuStreamSynchronize(CUstream s)
{
	CALL(cuStreamSynchronize, s);
	return DONE(raised);
}

/* Legacy and per-thread streams are of whatever context is current. */
static int crosses(CUstream s, CUcontext c)
{
	return s > CU_STREAM_PER_THREAD && s->context != c;
}

CUresult cuEventCreate(CUevent *e, unsigned flags)
{
	CALL(cuEventCreate, e, flags);
	*e = calloc(1, sizeof(**e));
	(*e)->context = current;
	return DONE(0);
}

CUresult cuEventDestroy(CUevent e)
{
	CALL(cuEventDestroy_v2, e);
	free(e);
	return DONE(0);
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
	CALL(cuEventRecord, e, s);
	return DONE(raised ? raised : crosses(s, e->context) ? CUDA_ERROR_INVALID_HANDLE : 0);
}

CUresult cuEventQuery(CUevent e)
{
	CALL(cuEventQuery, e);
	return DONE(e->context->alive ? raised : CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
			unsigned bz, unsigned shared, CUstream s, void **arguments, void **extra)
{
	cuLaunchKernel_params params = {f, gx, gy, gz, bx, by, bz, shared, s, arguments, extra};
	struct call call = begin(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
				 "cuLaunchKernel", &params, f->name);
	int r = raised;

	if (!r && (size_t)bx * by * bz > 1024)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && crosses(s, f->context))
		r = CUDA_ERROR_INVALID_HANDLE;
	/* the kernel writes where its first argument points: nowhere */
	if (!r && arguments && *(CUdeviceptr *)arguments[0] < 4096) {
		raised = CUDA_ERROR_ILLEGAL_ADDRESS;
		r = getenv("CUDA_LAUNCH_BLOCKING") ? raised : 0;
	}
	return DONE(r);
}

/* ---- memory: the host cannot read the device's */

CUresult cuMemAlloc(CUdeviceptr *p, size_t n)
{
	CALL(cuMemAlloc_v2, p, n);
	if (capturing == CU_STREAM_CAPTURE_MODE_GLOBAL + 1) {
		capture_broken = 1;
		return DONE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	void *m = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*p = (CUdeviceptr)(uintptr_t)m;
	return DONE(m == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : 0);
}

CUresult cuMemFree(CUdeviceptr p)
{
	CALL(cuMemFree_v2, p);
	return DONE(raised);
}

CUresult cuMemAllocHost(void **p, size_t n)
{
	CALL(cuMemAllocHost_v2, p, n);
	/* with room behind it: what goes beyond is not seen by a fault */
	*p = mmap(NULL, n + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return DONE(0);
}

CUresult cuMemFreeHost(void *p)
{
	CALL(cuMemFreeHost, p);
	return DONE(0);
}

static void touch(const volatile char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 4096)
		(void)p[i];
	if (n)
		(void)p[n - 1];
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n)
{
	CALL(cuMemcpyHtoD_v2, to, from, n);
	touch(from, n);
	return DONE(raised);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n)
{
	CALL(cuMemcpyDtoH_v2, to, from, n);
	memset(to, 0, n);
	return DONE(raised);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *m)
{
	CALL(cuMemcpy2D_v2, m);
	return DONE(raised);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *m)
{
	CALL(cuMemcpy3D_v2, m);
	return DONE(raised);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *n, size_t count,
			    CUmemcpyAttributes *attributes, size_t *which, size_t nattributes,
			    CUstream s)
{
	CALL(cuMemcpyBatchAsync_v2, to, from, n, count, attributes, which, nattributes, s);
	return DONE(raised);
}

CUresult cuMemsetD8(CUdeviceptr p, unsigned char value, size_t n)
{
	CALL(cuMemsetD8_v2, p, value, n);
	return DONE(raised);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	CALL(cuMemcpyDtoD_v2, to, from, n);
	return DONE(raised);
}

/* ---- memory of other kinds */

static void *device_pages(size_t n)
{
	return mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s)
{
	CALL(cuMemAllocAsync, p, n, s);
	*p = (CUdeviceptr)(uintptr_t)device_pages(n);
	return DONE(raised);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s)
{
	CALL(cuMemAllocFromPoolAsync, p, n, pool, s);
	*p = (CUdeviceptr)(uintptr_t)device_pages(n);
	return DONE(raised);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *prop)
{
	CALL(cuMemPoolCreate, pool, prop);
	*pool = malloc(16);
	return DONE(0);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CALL(cuMemPoolDestroy, pool);
	free(pool);
	return DONE(0);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *m)
{
	CALL(cuMemcpy3DPeer, m);
	return DONE(raised);
}

CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t n, CUstream s)
{
	CALL(cuMemsetD8Async, p, value, n, s);
	return DONE(s->context->alive ? raised : CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s)
{
	CALL(cuMemFreeAsync, p, s);
	return DONE(raised);
}

CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned flags)
{
	CALL(cuMemAllocManaged, p, n, flags);
	*p = (CUdeviceptr)(uintptr_t)mmap(NULL, n, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return DONE(0);
}

CUresult cuMemHostRegister(void *p, size_t n, unsigned flags)
{
	CALL(cuMemHostRegister_v2, p, n, flags);
	return DONE(0);
}

CUresult cuMemHostUnregister(void *p)
{
	CALL(cuMemHostUnregister, p);
	return DONE(0);
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr at,
			     unsigned long long flags)
{
	CALL(cuMemAddressReserve, p, n, align, at, flags);
	*p = (CUdeviceptr)(uintptr_t)device_pages(n);
	return DONE(0);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *prop,
		     unsigned long long flags)
{
	static _Atomic unsigned long long next = 16;
	CALL(cuMemCreate, h, n, prop, flags);
	*h = next++;
	return DONE(0);
}

CUresult cuMemMap(CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle h,
		  unsigned long long flags)
{
	CALL(cuMemMap, p, n, offset, h, flags);
	return DONE(0);
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t count)
{
	CALL(cuMemSetAccess, p, n, d, count);
	return DONE(0);
}

CUresult cuMemUnmap(CUdeviceptr p, size_t n)
{
	CALL(cuMemUnmap, p, n);
	return DONE(0);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
	CALL(cuMemRelease, h);
	return DONE(0);
}

/* Memory of another process: it is not ours to count. */
CUresult cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle handle, unsigned flags)
{
	CALL(cuIpcOpenMemHandle_v2, p, handle, flags);
	*p = (CUdeviceptr)(uintptr_t)device_pages(1 << 20);
	return DONE(0);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
	CALL(cuIpcCloseMemHandle, p);
	return DONE(0);
}

CUresult cuArray3DCreate(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CALL(cuArray3DCreate_v2, a, d);
	*a = malloc(16);
	return DONE(0);
}

CUresult cuArrayDestroy(CUarray a)
{
	CALL(cuArrayDestroy, a);
	free(a);
	return DONE(0);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	static _Atomic int enabled;
	CALL(cuCtxEnablePeerAccess, peer, flags);
	return DONE(enabled++ ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : 0);
}

/* ---- graphs: of the context that is current when they are made */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *g, CUgraph graph, unsigned long long flags)
{
	CALL(cuGraphInstantiateWithFlags, g, graph, flags);
	CUfunction f = calloc(1, sizeof(*f));
	f->context = current;
	*g = (CUgraphExec)(void *)f;
	return DONE(0);
}

CUresult cuGraphLaunch(CUgraphExec g, CUstream s)
{
	CALL(cuGraphLaunch, g, s);
	return DONE(crosses(s, ((CUfunction)(void *)g)->context) ? CUDA_ERROR_INVALID_HANDLE : raised);
}

/* ---- captures */

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode)
{
	CALL(cuStreamBeginCapture_v2, s, mode);
	capturing = (int)mode + 1;
	return DONE(0);
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
	CALL(cuStreamEndCapture, s, graph);
	capturing = 0;
	return DONE(capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : 0);
}

/* ---- NVML */

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	strncpy(version, "580.00", length);
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device)
{
	*device = &primary;
	return (int)i;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used)
{
	(void)device;
	total_free_used[0] = 1ull << 34;
	total_free_used[2] = (256ull + 400ull * (unsigned)contexts_alive) << 20;
	total_free_used[1] = total_free_used[0] - total_free_used[2];
	return 0;
}

struct process {
	unsigned pid;
	unsigned long long bytes;
	unsigned instance, compute;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct process *p)
{
	static _Atomic unsigned long long grown;
	const char *grows = getenv("FAKE_DEVICE_GROWS");

	(void)device;
	if (grows) {
		*n = 1;
		*p = (struct process){(unsigned)atoi(grows), ++grown << 20, 0, 0};
		return 0;
	}
	*n = contexts_alive > 0;
	if (*n)
		*p = (struct process){(unsigned)getpid(), (400ull * (unsigned)contexts_alive) << 20,
				      0, 0};
	return 0;
}

/* ---- the runtime: each thread has a last error */

#define RUNTIME(name, version)                                                                     \
	struct call call = begin(CUPTI_CB_DOMAIN_RUNTIME_API,                                      \
				 CUPTI_RUNTIME_TRACE_CBID_##name##_##version, #name, NULL, NULL)

static cudaError_t returned(struct call *c, int result)
{
	runtime_error = result ? result : runtime_error;
	return (cudaError_t)done(c, result);
}

cudaError_t cudaSetDevice(int ordinal)
{
	CUcontext c;

	cuInit(0);
	RUNTIME(cudaSetDevice, v3020);
	if (!ordinal && !current && !cuDevicePrimaryCtxRetain(&c, 0))
		cuCtxSetCurrent(c);
	return returned(&call, ordinal ? CUDA_ERROR_INVALID_DEVICE : 0);
}

cudaError_t cudaMalloc(void **p, size_t n)
{
	CUdeviceptr at;

	RUNTIME(cudaMalloc, v3020);
	int r = (int)cuMemAlloc(&at, n);
	*p = (void *)(uintptr_t)at;
	return returned(&call, r);
}

cudaError_t cudaMemset(void *p, int value, size_t n)
{
	RUNTIME(cudaMemset, v3020);
	return returned(&call, (int)cuMemsetD8((CUdeviceptr)(uintptr_t)p, (unsigned char)value, n));
}

cudaError_t cudaDeviceSynchronize(void)
{
	RUNTIME(cudaDeviceSynchronize, v3020);
	return returned(&call, (int)cuCtxSynchronize());
}

cudaError_t cudaGetLastError(void)
{
	RUNTIME(cudaGetLastError, v3020);
	int r = runtime_error;
	runtime_error = 0;
	return (cudaError_t)done(&call, r);
}

cudaError_t cudaPeekAtLastError(void)
{
	RUNTIME(cudaPeekAtLastError, v3020);
	return (cudaError_t)done(&call, runtime_error);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
				    enum cudaJitOption *options, void **values, unsigned n,
				    enum cudaLibraryOption *more, void **more_values, unsigned m)
{
	(void)options;
	(void)values;
	(void)n;
	(void)more;
	(void)more_values;
	(void)m;
	return (cudaError_t)cuModuleLoad((CUmodule *)(void *)library, path);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
	return (cudaError_t)cuModuleGetFunction((CUfunction *)(void *)kernel,
						(CUmodule)(void *)library, name);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
			     size_t shared, cudaStream_t s)
{
	RUNTIME(cudaLaunchKernel, v7000);
	int r = (int)cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
				    block.z, (unsigned)shared, s, arguments, NULL);
	/* it says of a launch what exactly was wrong */
	return returned(&call, r == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : r);
}
