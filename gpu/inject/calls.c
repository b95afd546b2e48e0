/* SPDX-License-Identifier: Apache-2.0 */
/* What each call of the driver's means: owners of handles, launches, copies, failures. */
#include "gpu/inject/inject.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ID(f)	   CUPTI_DRIVER_TRACE_CBID_##f
#define PARAMS(f)  const f##_params *p = c->functionParams
#define HANDLE(h)  ((uint64_t)(uintptr_t)(h))
#define POINTER(h) ((const void *)(uintptr_t)(h))
#define COUNT(a)   (sizeof(a) / sizeof(*(a)))

/*
 * Owners. streams, events, modules, functions: a = context, b = when dead the context that took it along;
 * functions: b = their module's context alone where it is not of a library; kernels: a = name.
 */
static struct table streams, events, modules, functions, kernels;
static struct table dead;     /* streams and events of destroyed contexts: a = context */
static struct table contexts; /* a = 1 primary; b = device + 1 */
static struct table last; /* by stream (of the default stream: context): a = function, b = ns, c = context */
static struct table captures; /* by stream: a = mode, b = thread, c = who (interned) */
static struct table seen;     /* what was told already */
static struct table failures; /* by kind of failure: a = number, b = count */
static struct table names;    /* interned text by hash: a = pointer */
static uint64_t next_failure, ndead;

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ (h >> 29);
}

static const char *intern(const char *text)
{
	uint64_t h = 7;
	struct entry e;

	for (const char *p = text; *p; p++)
		h = mix(h, (unsigned char)*p);
	if (table_get(&names, h | 1, &e))
		return POINTER(e.a);
	char *copy = strdup(text);
	return copy && table_put(&names, h | 1, HANDLE(copy), 0, 0) ? copy : "";
}

static uint64_t thread_id(void)
{
	static __thread uint64_t id; /* one call a thread */

	if (!id)
		id = (uint64_t)syscall(SYS_gettid);
	return id;
}

/* True the first time, for this mix of things. */
static bool first_time(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t key = mix(mix(mix(1, a), b), c) | 1;
	struct entry e;

	if (table_get(&seen, key, &e))
		return false;
	return table_put(&seen, key, 1, 0, 0);
}

static void add_caller(struct line *l)
{
	char by[WATCH_BY];

	line_text(l, "by", caller_name(by, sizeof(by)));
}

/* ---- contexts and what they own */

void calls_context(CUcontext context, bool created)
{
	struct line l;

	line_begin(&l, created ? "context" : "context-gone");
	line_handle(&l, "context", context);
	add_caller(&l);
	line_end(&l);
	if (created)
		table_put(&contexts, HANDLE(context), 0, 0, 0);
}

struct burial {
	uint64_t context;
	uint64_t handle[256];
	size_t n;
};

static void bury(const struct entry *e, void *arg)
{
	struct burial *b = arg;

	if (e->a == b->context && b->n < COUNT(b->handle))
		b->handle[b->n++] = e->key;
}

/* The streams and events of a destroyed context: their use crashes or fails later. */
static void bury_all(struct table *t, uint64_t context)
{
	struct burial b;

	do {
		b = (struct burial){.context = context};
		table_each(t, bury, &b);
		for (size_t i = 0; i < b.n; i++) {
			struct entry e;
			table_take(t, b.handle[i], &e);
			table_put(&dead, b.handle[i], context, 0, 0);
		}
	} while (b.n == COUNT(b.handle));
}

static void context_destroyed(uint64_t context)
{
	struct entry e;

	bury_all(&streams, context);
	bury_all(&events, context);
	bury_all(&modules, context);
	bury_all(&functions, context);
	table_take(&contexts, context, &e);
	__atomic_fetch_add(&ndead, 1, __ATOMIC_RELAXED);
}

void calls_stream(CUcontext context, CUstream stream, bool created)
{
	struct entry e;
	struct line l;

	if (!created) {
		table_take(&streams, HANDLE(stream), &e);
		return;
	}
	table_take(&dead, HANDLE(stream), &e);
	if (!table_put(&streams, HANDLE(stream), HANDLE(context), 0, 0) ||
	    !first_time(2, HANDLE(stream), HANDLE(context)))
		return;
	line_begin(&l, "stream");
	line_handle(&l, "stream", stream);
	line_handle(&l, "context", context);
	add_caller(&l);
	line_end(&l);
}

/* How a context came: what the driver's call says that made or retained it. */
static void context_kind(CUcontext context, bool primary, int device, const char *call)
{
	struct line l;

	table_put(&contexts, HANDLE(context), primary, (uint64_t)device + 1, 0);
	if (!first_time(3, HANDLE(context), primary ? thread_id() : 0))
		return;
	line_begin(&l, "context-kind");
	line_handle(&l, "context", context);
	line_number(&l, "primary", primary);
	line_number(&l, "device", device);
	line_text(&l, "call", call);
	add_caller(&l);
	line_end(&l);
}

/* Once a thread, call and context: these are frequent. */
static void context_use(CUcontext context, const char *call, uint64_t id)
{
	struct line l;

	if (!context || !first_time(mix(4, id), HANDLE(context), thread_id()))
		return;
	line_begin(&l, "context-use");
	line_handle(&l, "context", context);
	line_text(&l, "call", call);
	add_caller(&l);
	line_end(&l);
}

static uint64_t owner(struct table *t, uint64_t handle)
{
	struct entry e;

	return table_get(t, handle, &e) ? e.a : 0;
}

static bool special_stream(const void *s)
{
	return HANDLE(s) <= 2; /* NULL, legacy, per thread: of the current context */
}

static uint64_t stream_owner(CUstream s, const CUpti_CallbackData *c)
{
	return special_stream(s) ? HANDLE(c->context) : owner(&streams, HANDLE(s));
}

/* ---- what a call works on: filled by operands_of */

struct operands {
	bool launch;
	CUstream stream;
	bool has_stream;
	CUfunction function;
	CUevent event;
	void **arguments;
};

static bool operands_launch(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	if (id == ID(cuLaunchKernel) || id == ID(cuLaunchKernel_ptsz)) {
		PARAMS(cuLaunchKernel);
		*o = (struct operands){true, p->hStream, true, p->f, NULL, p->kernelParams};
	} else if (id == ID(cuLaunchKernelEx) || id == ID(cuLaunchKernelEx_ptsz)) {
		PARAMS(cuLaunchKernelEx);
		*o = (struct operands){true, p->config ? p->config->hStream : NULL,
				       true, p->f,
				       NULL, p->kernelParams};
	} else if (id == ID(cuLaunchCooperativeKernel) || id == ID(cuLaunchCooperativeKernel_ptsz)) {
		PARAMS(cuLaunchCooperativeKernel);
		*o = (struct operands){true, p->hStream, true, p->f, NULL, p->kernelParams};
	} else if (id == ID(cuGraphLaunch) || id == ID(cuGraphLaunch_ptsz)) {
		PARAMS(cuGraphLaunch);
		*o = (struct operands){true, p->hStream, true, (CUfunction)(void *)p->hGraph,
				       NULL, NULL};
	} else {
		return false;
	}
	return true;
}

static void operands_of(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o)
{
	*o = (struct operands){0};
	if (operands_launch(id, c, o))
		return;
	if (id == ID(cuEventRecord) || id == ID(cuEventRecord_ptsz) ||
	    id == ID(cuEventRecordWithFlags) || id == ID(cuEventRecordWithFlags_ptsz)) {
		PARAMS(cuEventRecord);
		*o = (struct operands){.stream = p->hStream, .has_stream = true, .event = p->hEvent};
	} else if (id == ID(cuStreamWaitEvent) || id == ID(cuStreamWaitEvent_ptsz)) {
		PARAMS(cuStreamWaitEvent);
		*o = (struct operands){.stream = p->hStream, .has_stream = true, .event = p->hEvent};
	} else if (id == ID(cuStreamSynchronize) || id == ID(cuStreamSynchronize_ptsz) ||
		   id == ID(cuStreamQuery) || id == ID(cuStreamQuery_ptsz)) {
		PARAMS(cuStreamSynchronize);
		*o = (struct operands){.stream = p->hStream, .has_stream = true};
	} else if (id == ID(cuMemcpyHtoDAsync_v2) || id == ID(cuMemcpyHtoDAsync_v2_ptsz)) {
		PARAMS(cuMemcpyHtoDAsync_v2);
		*o = (struct operands){.stream = p->hStream, .has_stream = true};
	} else if (id == ID(cuMemcpyDtoHAsync_v2) || id == ID(cuMemcpyDtoHAsync_v2_ptsz)) {
		PARAMS(cuMemcpyDtoHAsync_v2);
		*o = (struct operands){.stream = p->hStream, .has_stream = true};
	} else if (id == ID(cuEventQuery) || id == ID(cuEventSynchronize)) {
		PARAMS(cuEventQuery);
		*o = (struct operands){.event = p->hEvent};
	}
}

/* ---- before a call */

static void remember_launch(const struct operands *o, const CUpti_CallbackData *c)
{
	struct entry e;
	uint64_t key = special_stream(o->stream) ? HANDLE(c->context) | 1 : HANDLE(o->stream);

	__atomic_fetch_add(&record_shared()->launches, 1, __ATOMIC_RELAXED);
	table_put(&last, key, HANDLE(o->function), clock_ns(), HANDLE(c->context));
	if (c->symbolName && !table_get(&kernels, HANDLE(o->function), &e))
		table_put(&kernels, HANDLE(o->function), HANDLE(intern(c->symbolName)), 0, 0);
}

/* A handle whose context is gone: the driver may crash on it, so it is told before. */
static void tell_dead(const struct operands *o, const CUpti_CallbackData *c)
{
	struct entry e;
	struct line l;
	const void *handle = o->has_stream && table_get(&dead, HANDLE(o->stream), &e) ? o->stream
			     : o->event && table_get(&dead, HANDLE(o->event), &e) ? (void *)o->event
			     : o->function && table_get(&dead, HANDLE(o->function), &e)
				     ? (void *)o->function
				     : NULL;

	if (!handle || !first_time(5, HANDLE(handle), HANDLE(c->functionName)))
		return;
	line_begin(&l, "dead");
	line_text(&l, "call", c->functionName);
	line_text(&l, "what",
		  handle == (void *)o->stream  ? "stream"
		  : handle == (void *)o->event ? "event"
					       : "function");
	line_handle(&l, "handle", handle);
	line_handle(&l, "context", POINTER(e.a));
	add_caller(&l);
	line_end(&l);
}

static void check_copy(const CUpti_CallbackData *c, const void *host, CUdeviceptr device,
		       size_t bytes, bool to_host)
{
	char why[256];
	struct line l;

	__atomic_fetch_add(&record_shared()->copies, 1, __ATOMIC_RELAXED);
	if (!host_fault(host, bytes, to_host, why, sizeof(why)))
		return;
	line_begin(&l, "copy");
	line_text(&l, "call", c->functionName);
	line_number(&l, "to_host", to_host);
	line_handle(&l, "host", host);
	line_handle(&l, "device", POINTER(device));
	line_number(&l, "bytes", (int64_t)bytes);
	line_text(&l, "why", why);
	add_caller(&l);
	line_end(&l);
}

static void enter_copy(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemcpyHtoD_v2) || id == ID(cuMemcpyHtoD_v2_ptds) ||
	    id == ID(cuMemcpyHtoDAsync_v2) || id == ID(cuMemcpyHtoDAsync_v2_ptsz)) {
		PARAMS(cuMemcpyHtoD_v2);
		check_copy(c, p->srcHost, p->dstDevice, p->ByteCount, false);
	} else if (id == ID(cuMemcpyDtoH_v2) || id == ID(cuMemcpyDtoH_v2_ptds) ||
		   id == ID(cuMemcpyDtoHAsync_v2) || id == ID(cuMemcpyDtoHAsync_v2_ptsz)) {
		PARAMS(cuMemcpyDtoH_v2);
		check_copy(c, p->dstHost, p->srcDevice, p->ByteCount, true);
	}
}

static void enter_free(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemFree_v2) || id == ID(cuMemFreeAsync) || id == ID(cuMemFreeAsync_ptsz)) {
		PARAMS(cuMemFree_v2);
		memory_gone(p->dptr);
	} else if (id == ID(cuMemFreeHost) || id == ID(cuMemHostUnregister)) {
		PARAMS(cuMemFreeHost);
		memory_gone(HANDLE(p->p));
	} else if (id == ID(cuMemRelease)) {
		PARAMS(cuMemRelease);
		memory_released(p->handle);
	} else if (id == ID(cuMemUnmap)) {
		PARAMS(cuMemUnmap);
		memory_unmapped(p->ptr);
	} else if (id == ID(cuEventDestroy_v2)) {
		struct entry e;
		PARAMS(cuEventDestroy_v2);
		table_take(&events, HANDLE(p->hEvent), &e);
	} else if (id == ID(cuCtxDestroy_v2)) {
		PARAMS(cuCtxDestroy_v2);
		context_use(p->ctx, c->functionName, id);
		context_destroyed(HANDLE(p->ctx));
	}
}

void calls_enter(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct operands o;

	__atomic_fetch_add(&record_shared()->calls, 1, __ATOMIC_RELAXED);
	if (operands_launch(id, c, &o))
		remember_launch(&o, c);
	if (__atomic_load_n(&ndead, __ATOMIC_RELAXED)) {
		operands_of(id, c, &o);
		tell_dead(&o, c);
	}
	enter_copy(id, c);
	enter_free(id, c);
}

/* ---- after a call that went well */

static bool exit_memory(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuMemAlloc_v2) || id == ID(cuMemAllocAsync) || id == ID(cuMemAllocAsync_ptsz) ||
	    id == ID(cuMemAllocFromPoolAsync) || id == ID(cuMemAllocFromPoolAsync_ptsz)) {
		PARAMS(cuMemAlloc_v2);
		memory_made(WATCH_DEVICE, *p->dptr, p->bytesize);
	} else if (id == ID(cuMemAllocManaged)) {
		PARAMS(cuMemAllocManaged);
		memory_made(WATCH_MANAGED, *p->dptr, p->bytesize);
	} else if (id == ID(cuMemAllocPitch_v2)) {
		PARAMS(cuMemAllocPitch_v2);
		memory_made(WATCH_DEVICE, *p->dptr, *p->pPitch * p->Height);
	} else if (id == ID(cuMemHostAlloc) || id == ID(cuMemAllocHost_v2)) {
		PARAMS(cuMemAllocHost_v2);
		memory_made(WATCH_PINNED, HANDLE(*p->pp), p->bytesize);
	} else if (id == ID(cuMemHostRegister_v2)) {
		PARAMS(cuMemHostRegister_v2);
		memory_made(WATCH_PINNED, HANDLE(p->p), p->bytesize);
	} else if (id == ID(cuMemCreate)) {
		PARAMS(cuMemCreate);
		memory_created(*p->handle, p->size);
	} else if (id == ID(cuMemMap)) {
		PARAMS(cuMemMap);
		memory_mapped(p->ptr, p->size, p->handle);
	} else {
		return false;
	}
	return true;
}

static bool exit_context(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuCtxCreate_v2)) {
		PARAMS(cuCtxCreate_v2);
		context_kind(*p->pctx, false, p->dev, c->functionName);
	} else if (id == ID(cuCtxCreate_v3)) {
		PARAMS(cuCtxCreate_v3);
		context_kind(*p->pctx, false, p->dev, c->functionName);
	} else if (id == ID(cuCtxCreate_v4)) {
		PARAMS(cuCtxCreate_v4);
		context_kind(*p->pctx, false, p->dev, c->functionName);
	} else if (id == ID(cuDevicePrimaryCtxRetain)) {
		PARAMS(cuDevicePrimaryCtxRetain);
		context_kind(*p->pctx, true, p->dev, c->functionName);
	} else if (id == ID(cuCtxSetCurrent) || id == ID(cuCtxPushCurrent_v2)) {
		PARAMS(cuCtxSetCurrent);
		context_use(p->ctx, c->functionName, id);
	} else if (id == ID(cuCtxPopCurrent_v2)) {
		PARAMS(cuCtxPopCurrent_v2);
		context_use(p->pctx ? *p->pctx : NULL, c->functionName, id);
	} else {
		return false;
	}
	return true;
}

static bool exit_module(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct entry e;

	if (id == ID(cuModuleLoad) || id == ID(cuModuleLoadData) || id == ID(cuModuleLoadDataEx) ||
	    id == ID(cuModuleLoadFatBinary)) {
		PARAMS(cuModuleLoadData);
		table_take(&dead, HANDLE(*p->module), &e);
		table_put(&modules, HANDLE(*p->module), HANDLE(c->context), 0, 0);
	} else if (id == ID(cuModuleGetFunction)) {
		/* a module of a library (cuLibraryGetModule) is not among ours: its functions run anywhere */
		PARAMS(cuModuleGetFunction);
		uint64_t context = owner(&modules, HANDLE(p->hmod));
		table_take(&dead, HANDLE(*p->hfunc), &e);
		if (context)
			table_put(&functions, HANDLE(*p->hfunc), context, 0, 0);
		table_put(&kernels, HANDLE(*p->hfunc), HANDLE(intern(p->name)), 0, 0);
	} else if (id == ID(cuEventCreate)) {
		PARAMS(cuEventCreate);
		table_take(&dead, HANDLE(*p->phEvent), &e);
		table_put(&events, HANDLE(*p->phEvent), HANDLE(c->context), 0, 0);
	} else {
		return false;
	}
	return true;
}

static void exit_capture(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct entry e;
	char by[WATCH_BY];

	if (id == ID(cuStreamBeginCapture_v2) || id == ID(cuStreamBeginCapture_v2_ptsz)) {
		PARAMS(cuStreamBeginCapture_v2);
		table_put(&captures, HANDLE(p->hStream) + 1, (uint64_t)p->mode, thread_id(),
			  HANDLE(intern(caller_name(by, sizeof(by)))));
	} else if (id == ID(cuStreamEndCapture) || id == ID(cuStreamEndCapture_ptsz)) {
		PARAMS(cuStreamEndCapture);
		table_take(&captures, HANDLE(p->hStream) + 1, &e);
	}
}

/* ---- after a call that failed */

static void one_capture(const struct entry *e, void *arg)
{
	struct line l;

	(void)arg;
	line_begin(&l, "capture");
	line_handle(&l, "stream", POINTER(e->key - 1));
	line_number(&l, "mode", (int64_t)e->a);
	line_number(&l, "thread", (int64_t)e->b);
	line_text(&l, "by", POINTER(e->c));
	line_end(&l);
}

static void one_launch(const struct entry *e, void *arg)
{
	struct entry k;
	struct line l;
	const uint64_t *now = arg;

	line_begin(&l, "last");
	line_handle(&l, "stream", e->key & 1 ? NULL : POINTER(e->key));
	line_handle(&l, "context", POINTER(e->c));
	line_text(&l, "kernel", table_get(&kernels, e->a, &k) ? POINTER(k.a) : "");
	line_number(&l, "ns", (int64_t)(*now - e->b));
	line_end(&l);
}

/* Errors that a kernel raised earlier, whichever call returns them. */
static bool is_sticky(CUresult r)
{
	return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_FAILED ||
	       r == CUDA_ERROR_LAUNCH_TIMEOUT || r == CUDA_ERROR_ASSERT ||
	       r == CUDA_ERROR_HARDWARE_STACK_ERROR || r == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
	       r == CUDA_ERROR_MISALIGNED_ADDRESS || r == CUDA_ERROR_INVALID_ADDRESS_SPACE ||
	       r == CUDA_ERROR_INVALID_PC || r == CUDA_ERROR_ECC_UNCORRECTABLE;
}

/* Buffers that a launch's pointer arguments point to: they were not written. At most 16 arguments are looked at. */
static void add_buffers(struct line *l, const struct operands *o)
{
	if (!o->arguments)
		return;
	for (int i = 0, told = 0; i < 16 && told < 4; i++) {
		uint64_t start, bytes, value;
		enum watch_kind kind;
		const char *by;
		char text[160], why[8];

		/* the array has no length: it ends at what cannot be an argument's address */
		if (host_fault(&o->arguments[i], sizeof(void *), false, why, sizeof(why)) ||
		    !o->arguments[i] ||
		    host_fault(o->arguments[i], sizeof(value), false, why, sizeof(why)))
			return;
		memcpy(&value, o->arguments[i], sizeof(value));
		if (!memory_find(value, true, &start, &bytes, &kind, &by))
			continue;
		snprintf(text, sizeof(text), "0x%llx:%llu", (unsigned long long)start,
			 (unsigned long long)bytes);
		line_text(l, "buffer", text);
		told++;
	}
}

static void add_operands(struct line *l, const struct operands *o, const CUpti_CallbackData *c)
{
	struct entry e;

	line_handle(l, "current", c->context);
	if (o->has_stream) {
		line_handle(l, "stream", o->stream);
		line_handle(l, "stream_context", POINTER(stream_owner(o->stream, c)));
	}
	if (o->function) {
		line_handle(l, "function", o->function);
		line_handle(l, "function_context", POINTER(owner(&functions, HANDLE(o->function))));
		if (c->symbolName || table_get(&kernels, HANDLE(o->function), &e))
			line_text(l, "kernel", c->symbolName ? c->symbolName : POINTER(e.a));
	}
	if (o->event) {
		line_handle(l, "event", o->event);
		line_handle(l, "event_context", POINTER(owner(&events, HANDLE(o->event))));
	}
	add_buffers(l, o);
}

static void failed(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result)
{
	struct operands o;
	struct entry e;
	struct line l;
	uint64_t now = clock_ns();

	__atomic_fetch_add(&record_shared()->failures, 1, __ATOMIC_RELAXED);
	operands_of(id, c, &o);
	uint64_t key = mix(mix(mix(mix(6, id), (uint64_t)result), HANDLE(o.function)),
			   o.has_stream ? stream_owner(o.stream, c) : 0) |
		       1;
	if (table_get(&failures, key, &e)) {
		table_put(&failures, key, e.a, e.b + 1, 0);
		return;
	}
	uint64_t number = __atomic_add_fetch(&next_failure, 1, __ATOMIC_RELAXED);
	table_put(&failures, key, number, 1, 0);
	line_begin(&l, "fail");
	line_number(&l, "number", (int64_t)number);
	line_text(&l, "call", c->functionName);
	line_number(&l, "result", (int64_t)result);
	add_operands(&l, &o, c);
	add_caller(&l);
	line_end(&l);
	if (is_sticky(result) && first_time(7, 0, 0))
		table_each(&last, one_launch, &now);
	if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	    result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		table_each(&captures, one_capture, NULL);
}

static void one_failure(const struct entry *e, void *arg)
{
	struct line l;

	(void)arg;
	if (e->b < 2)
		return;
	line_begin(&l, "repeats");
	line_number(&l, "number", (int64_t)e->a);
	line_number(&l, "count", (int64_t)e->b);
	line_end(&l);
}

void calls_finish(void)
{
	table_each(&failures, one_failure, NULL);
}

void calls_exit(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result)
{
	if (result == CUDA_SUCCESS) {
		if (!exit_memory(id, c) && !exit_context(id, c) && !exit_module(id, c))
			exit_capture(id, c);
	} else if (result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_DEINITIALIZED) {
		failed(id, c, result);
	}
}

/* ---- which calls are listened to */

static bool among(const CUpti_CallbackId *list, size_t n, CUpti_CallbackId id)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == id)
			return true;
	return false;
}

bool calls_wanted(CUpti_CallbackId id, unsigned what)
{
	static const CUpti_CallbackId owners[] = {
		ID(cuCtxCreate_v2),
		ID(cuCtxCreate_v3),
		ID(cuCtxCreate_v4),
		ID(cuCtxDestroy_v2),
		ID(cuCtxSetCurrent),
		ID(cuCtxPushCurrent_v2),
		ID(cuCtxPopCurrent_v2),
		ID(cuDevicePrimaryCtxRetain),
		ID(cuDevicePrimaryCtxRelease_v2),
		ID(cuDevicePrimaryCtxReset_v2),
		ID(cuModuleLoad),
		ID(cuModuleLoadData),
		ID(cuModuleLoadDataEx),
		ID(cuModuleLoadFatBinary),
		ID(cuModuleGetFunction),
		ID(cuEventCreate),
		ID(cuEventDestroy_v2),
	};
	static const CUpti_CallbackId memory[] = {
		ID(cuMemAlloc_v2),
		ID(cuMemAllocAsync),
		ID(cuMemAllocAsync_ptsz),
		ID(cuMemAllocFromPoolAsync),
		ID(cuMemAllocFromPoolAsync_ptsz),
		ID(cuMemAllocManaged),
		ID(cuMemAllocPitch_v2),
		ID(cuMemHostAlloc),
		ID(cuMemAllocHost_v2),
		ID(cuMemHostRegister_v2),
		ID(cuMemCreate),
		ID(cuMemMap),
		ID(cuMemFree_v2),
		ID(cuMemFreeAsync),
		ID(cuMemFreeAsync_ptsz),
		ID(cuMemFreeHost),
		ID(cuMemHostUnregister),
		ID(cuMemRelease),
		ID(cuMemUnmap),
	};
	/* asked many times a step; they fail by design or not at all */
	static const CUpti_CallbackId idle[] = {
		ID(cuCtxGetCurrent),
		ID(cuCtxGetDevice),
		ID(cuCtxGetDevice_v2),
		ID(cuGetProcAddress),
		ID(cuGetProcAddress_v2),
		ID(cuStreamIsCapturing),
		ID(cuStreamIsCapturing_ptsz),
		ID(cuStreamGetCaptureInfo),
		ID(cuStreamGetCaptureInfo_ptsz),
		ID(cuStreamGetCaptureInfo_v2),
		ID(cuStreamGetCaptureInfo_v2_ptsz),
		ID(cuStreamGetCaptureInfo_v3),
		ID(cuStreamGetCaptureInfo_v3_ptsz),
		ID(cuPointerGetAttribute),
		ID(cuPointerGetAttributes),
		ID(cuDeviceGetAttribute),
		ID(cuDeviceGet),
		ID(cuDeviceGetCount),
		ID(cuDriverGetVersion),
		ID(cuOccupancyMaxActiveBlocksPerMultiprocessor),
		ID(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
		ID(cuThreadExchangeStreamCaptureMode),
		ID(cuFuncGetAttribute),
		ID(cuKernelGetAttribute),
		ID(cuKernelGetFunction),
		ID(cuFuncSetAttribute),
		ID(cuGetErrorName),
		ID(cuGetErrorString),
		ID(cuStreamGetPriority),
		ID(cuStreamGetCtx),
		ID(cuStreamGetFlags),
		ID(cuEventElapsedTime),
		ID(cuTensorMapEncodeTiled),
	};

	if (among(owners, COUNT(owners), id))
		return what & (WATCH_CONTEXTS | WATCH_CALLS);
	if (among(memory, COUNT(memory), id))
		return what & WATCH_MEMORY;
	return (what & WATCH_CALLS) && !among(idle, COUNT(idle), id);
}
