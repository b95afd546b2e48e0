/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU, for tests of the runtime: contexts, streams, events, graphs and memory are
 * kept in host memory, copies copy, kernels do nothing. Built as libcuda.so.1 and found by INFER_LIBRARY_PATH.
 *
 *   FAKE_CUDA_FAIL=K:R      the K-th kernel that runs raises error R, as a GPU does: seen at the next wait
 *   FAKE_CUDA_REFUSE=K:R    the K-th launch itself returns R
 *   FAKE_CUDA_VERSION=11080 what the driver says it is
 *   FAKE_CUDA_MEMORY=BYTES  of the device
 *   FAKE_CUDA_DEVICES=N     how many devices there are (1; at most 4)
 *   FAKE_CUDA_RESET=K       something resets the primary context before the K-th entry
 *   FAKE_CUDA_FOREIGN=K     at the K-th launch another library makes a context of its own and leaves it current
 *   FAKE_CUDA_WAKE=BYTES    the first module that is loaded wakes the primary context, which takes so much
 *   FAKE_CUDA_NO_CAPTURE=1  graphs cannot be instantiated
 *   FAKE_CUDA_QUICK=A,B*    kernels of these names, with * and ?, take a thousandth of the time that others take
 *   FAKE_CUDA_LOG=FILE      a line for each context, launch, graph and free, and for what is left at the end
 *   FAKE_CUDA_KERNELS=FILE  a library of kernels that run on the CPU (test/gpu/emulate): they do compute then
 *
 * What makes mistakes show that a GPU would not, or only at times:
 *
 *   FAKE_CUDA_LATE=1        work is done when somebody waits for it, no sooner, and no more than that needs: pinned
 *                           memory is read and written then. Pageable memory is taken aside by the call, as CUDA says.
 *                           CUPTI's stand-in hears of work when it is done, so nodes are not told apart by it.
 *   FAKE_CUDA_LATE=others   the same, but what other streams have queued is done first: only events order them
 *   FAKE_CUDA_FILL=BYTE     what new memory holds, of the device and pinned, and what is left of it when it is freed
 *   FAKE_CUDA_GUARD=1       each allocation ends (=before: begins) at a page that nobody may touch; freed ones stay so
 *                           for a while. Who touches it is told before the program dies of it.
 *   FAKE_CUDA_HIDE=1        memory of the device is closed to all but the stand-in's own copies and kernels
 *   FAKE_CUDA_POINTERS=1    a line in the log for each word in a kernel's parameters that points into memory of the
 *                           host which is not pinned
 *
 * Always: memory is not taken, given back or waited for while its thread records a graph (900, and the graph comes to
 * nothing); copies lie within one allocation; launches keep to the limits of a GPU; handles are not used after
 * their end.
 */
#define _GNU_SOURCE
#include "queue.h"

#include "../emulate/box.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>

#define API __attribute__((visibility("default"))) int
typedef unsigned long long pointer;

enum {
	OK = 0,
	INVALID = 1,
	OUT_OF_MEMORY = 2,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	NOT_READY = 600,
	DESTROYED = 709,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901
};

enum { MAX_DEVICES = 4 };
static struct context primary[MAX_DEVICES]; /* by device */
static __thread struct context *stack[16];
static __thread int depth;
static __thread struct stream *recording; /* this thread's */
static int entries;

/* Sessions of several threads call: one at a time. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void unlock(pthread_mutex_t **m)
{
	pthread_mutex_unlock(*m);
}
#define ALONE                                                                                      \
	__attribute__((cleanup(unlock))) pthread_mutex_t *held = &lock;                            \
	pthread_mutex_lock(held)

static void say(const char *format, ...)
{
	const char *path = getenv("FAKE_CUDA_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	va_list ap;

	if (!f)
		return;
	va_start(ap, format);
	vfprintf(f, format, ap);
	va_end(ap);
	fputc('\n', f);
	fclose(f);
}

/* "K:R" of the environment: R where n is K */
static int planted(const char *name, int n)
{
	const char *s = getenv(name), *colon = s ? strchr(s, ':') : NULL;
	return colon && strtol(s, NULL, 10) == n ? (int)strtol(colon + 1, NULL, 10) : 0;
}

static size_t total(void)
{
	return (size_t)setting("FAKE_CUDA_MEMORY", 1L << 30);
}

/*
 * What runs kernels: its `launch`, which is told whether the kernel may begin before the one before it has ended, returns a CUresult; `memory`
 * hears of device memory that is taken (1), given back (0) and written by a copy or a fill (2). The same struct is in test/gpu/emulate/run.cc.
 */
struct emulator {
	int (*has)(const char *kernel);
	int (*launch)(const char *kernel, const unsigned *grid, const unsigned *block,
		      unsigned shared, const void *params, size_t nparams, int early);
	void (*memory)(const void *p, size_t n, int what);
};

static const struct emulator *emulator(void)
{
	static const struct emulator *e;
	static int asked;
	const char *path = getenv("FAKE_CUDA_KERNELS");

	if (!asked && path) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		e = library ? dlsym(library, "emulator") : NULL;
		if (!e) {
			fprintf(stderr, "FAKE_CUDA_KERNELS: %s\n", dlerror());
			abort();
		}
	}
	asked = 1;
	return e;
}

static void memory(const void *p, size_t n, int what)
{
	if (emulator())
		emulator()->memory(p, n, what);
}

API cuInit(unsigned flags)
{
	(void)flags;
	say("init");
	return OK;
}

API cuDriverGetVersion(int *v)
{
	*v = (int)setting("FAKE_CUDA_VERSION", 13000);
	return OK;
}

API cuGetErrorName(int r, const char **s)
{
	*s = r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
	     : r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
		      : "CUDA_ERROR_FAKE";
	return OK;
}

API cuGetErrorString(int r, const char **s)
{
	*s = r == 700 ? "an illegal memory access was encountered" : "planted by the fake driver";
	return OK;
}

/* NVRTC asks whatever driver is loaded, and calls what it did not find. */
API cuGetExportTable(const void **table, const void *id)
{
	(void)id;
	*table = NULL;
	return NOT_FOUND;
}

static int devices(void)
{
	int n = setting("FAKE_CUDA_DEVICES", 1);

	return n < 1 ? 1 : n > MAX_DEVICES ? MAX_DEVICES : n;
}

API cuDeviceGetCount(int *n)
{
	*n = devices();
	return OK;
}

API cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal >= 0 && ordinal < devices() ? OK : 101;
}

API cuDeviceGetName(char *name, int room, int device)
{
	(void)device;
	snprintf(name, (size_t)room, "Fake GPU");
	return OK;
}

API cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = total();
	return OK;
}

/* FAKE_CUDA_CAPABILITY=75 is that of Turing. */
static int capability(void)
{
	const char *s = getenv("FAKE_CUDA_CAPABILITY");

	return s ? atoi(s) : 90;
}

API cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 75   ? capability() / 10
		 : attribute == 76 ? capability() % 10
		 : attribute == 16 ? 132
		 : attribute == 97 ? 232448
				   : 1 << 16;
	return OK;
}

API cuDeviceGetPCIBusId(char *bus, int room, int device)
{
	snprintf(bus, (size_t)room, "0000:0%d:00.0", device);
	return OK;
}

/* ---- contexts */

API cuDevicePrimaryCtxRetain(struct context **c, int device)
{
	ALONE;

	primary[device].alive = 1;
	primary[device].retained++;
	*c = &primary[device];
	say("retain");
	return OK;
}

API cuDevicePrimaryCtxRelease_v2(int device)
{
	ALONE;

	if (!primary[device].retained)
		return INVALID;
	primary[device].alive = --primary[device].retained != 0;
	say("release");
	return OK;
}

API cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	ALONE;

	*flags = 0;
	if (++entries == setting("FAKE_CUDA_RESET", 0))
		primary[device].alive = 0;
	*active = primary[device].alive;
	return OK;
}

API cuCtxCreate_v2(struct context **c, unsigned flags, int device)
{
	(void)flags, (void)device;
	static struct context contexts[256];
	static int n;
	ALONE;

	if (n == sizeof(contexts) / sizeof(*contexts))
		return OUT_OF_MEMORY;
	*c = &contexts[n++];
	(*c)->alive = (*c)->own = 1;
	stack[depth++] = *c;
	say("create");
	return OK;
}

API cuCtxDestroy_v2(struct context *c)
{
	ALONE;

	c->alive = 0;
	say("destroy");
	return OK;
}

API cuCtxGetCurrent(struct context **c)
{
	*c = depth ? stack[depth - 1] : NULL;
	return OK;
}

API cuCtxGetDevice(int *device)
{
	const struct context *c = depth ? stack[depth - 1] : NULL;

	*device = c >= primary && c < primary + MAX_DEVICES ? (int)(c - primary) : 0;
	return c ? OK : INVALID_CONTEXT;
}

API cuCtxPushCurrent_v2(struct context *c)
{
	ALONE;

	if (!c->alive)
		return DESTROYED;
	stack[depth++] = c;
	return OK;
}

API cuCtxPopCurrent_v2(struct context **c)
{
	if (!depth)
		return INVALID_CONTEXT;
	*c = stack[--depth];
	return OK;
}

API cuCtxGetApiVersion(struct context *c, unsigned *version)
{
	ALONE;

	*version = 13000;
	return c && c->alive ? OK : INVALID_CONTEXT;
}

/* What any call answers that needs a context: a sticky error comes back until the process ends. */
static int state(void)
{
	if (!depth)
		return INVALID_CONTEXT;
	return stack[depth - 1]->alive ? error : DESTROYED;
}

/* ---- streams and events */

/* A call that may wait, by a thread that records: the graph comes to nothing. */
static int unsafe(void)
{
	if (!recording)
		return 0;
	recording->broken = 1;
	return CAPTURE_UNSUPPORTED;
}

API cuStreamCreate(struct stream **s, unsigned flags)
{
	ALONE;

	(void)flags;
	*s = calloc(1, sizeof(**s));
	(*s)->waited_for = 1; /* there is nothing yet that a first kernel could overtake */
	(*s)->context = depth ? stack[depth - 1] : NULL;
	(*s)->next = streams;
	streams = *s;
	return state();
}

API cuStreamDestroy_v2(struct stream *s)
{
	ALONE;

	if (s->destroyed)
		return INVALID_HANDLE;
	s->destroyed = 1; /* what is queued will be done */
	return OK;
}

API cuStreamSynchronize(struct stream *s)
{
	ALONE;
	int r = s->destroyed ? INVALID_HANDLE : unsafe();

	if (r)
		return r;
	if (s->graph)
		return CAPTURE_UNSUPPORTED;
	if (!state())
		drain(s);
	s->waited_for = 1;
	return state();
}

/* Whoever asks again and again sees it come to its end. */
API cuStreamQuery(struct stream *s)
{
	ALONE;
	int r = s->destroyed ? INVALID_HANDLE : state();

	if (r || s->at == s->queue.n)
		return r;
	advance(s);
	return state() ? state() : s->at < s->queue.n ? NOT_READY : OK;
}

API cuStreamGetCtx(struct stream *s, struct context **c)
{
	ALONE;

	*c = s->context;
	return s->destroyed ? INVALID_HANDLE : OK;
}

API cuEventCreate(struct event **e, unsigned flags)
{
	ALONE;

	(void)flags;
	*e = calloc(1, sizeof(**e));
	(*e)->next = events;
	events = *e;
	return state();
}

API cuEventDestroy_v2(struct event *e)
{
	ALONE;

	if (e->destroyed)
		return INVALID_HANDLE;
	e->destroyed = 1;
	return OK;
}

static int mark(struct stream *s, enum kind kind, struct event *e)
{
	int r = s->destroyed || e->destroyed ? INVALID_HANDLE : s->graph ? unsafe() : state();

	if (r)
		return r;
	if (kind == RECORD)
		e->asked = ++serial;
	if (kind == RECORD || e->asked > e->done)
		enqueue(s, &(struct operation){.kind = kind, .event = e, .serial = e->asked});
	return OK;
}

API cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags)
{
	ALONE;

	(void)flags;
	return mark(s, WAIT, e);
}

API cuEventRecord(struct event *e, struct stream *s)
{
	ALONE;

	return mark(s, RECORD, e);
}

API cuEventSynchronize(struct event *e)
{
	ALONE;
	int r = e->destroyed ? INVALID_HANDLE : unsafe();

	if (r)
		return r;
	if (!state() && e->done < e->asked)
		reach(e, e->asked);
	return state();
}

API cuEventElapsedTime(float *ms, struct event *a, struct event *b)
{
	ALONE;

	if (a->destroyed || b->destroyed || !a->asked || !b->asked)
		return INVALID_HANDLE;
	if (a->done < a->asked || b->done < b->asked)
		return NOT_READY;
	*ms = (float)(b->ms - a->ms);
	return state();
}

/* ---- launches and copies */

/* test/gpu/fake/cupti.c's: the kernel, or NULL with the kind of a copy (1 to the device, 2 to the host, 8 on it). */
typedef void listener(const char *kernel, int kind, size_t bytes);
__attribute__((visibility("default"))) listener *_Atomic fake_listener;

static void tell_listener(const char *kernel, int kind, size_t bytes)
{
	listener *to = fake_listener;

	if (to)
		to(kernel, kind, bytes);
}

/* Milliseconds that a kernel is said to take. */
static double duration(const char *kernel)
{
	const char *list = getenv("FAKE_CUDA_QUICK");
	char pattern[64];

	for (const char *p = list; p && *p;
	     p += p[strcspn(p, ",")] ? strcspn(p, ",") + 1 : strlen(p)) {
		snprintf(pattern, sizeof(pattern), "%.*s", (int)strcspn(p, ","), p);
		if (!fnmatch(pattern, kernel, 0))
			return 0.001;
	}
	return list ? 1 : 0.001;
}

static void run_kernel(const struct operation *o)
{
	int r = planted("FAKE_CUDA_FAIL", ++launched);

	tell_listener(o->kernel, 0, 0);
	working = o->kernel;
	if (!r && o->data && emulator()->has(o->kernel))
		r = emulator()->launch(o->kernel, o->grid, o->block, o->shared, o->data->v,
				       o->data->n, o->early);
	working = NULL;
	if (r)
		error = r;
	clock_ms += duration(o->kernel);
	say("run %s", o->kernel);
}

/* Whether n bytes at p are the device's, or pinned, now. */
static int is_taken(const void *p, size_t n)
{
	return block_of(blocks, p, n) != NULL;
}

static void copy_bytes(const struct operation *o)
{
	const char *from = o->data ? o->data->v : o->from;

	tell_listener(NULL, o->direction, o->bytes);
	if ((o->direction != 2 || o->pinned) && !is_taken(o->to, o->bytes))
		wrong("a copy to what was given back meanwhile", o->to, o->bytes);
	if ((o->direction != 1 || o->pinned) && !is_taken(from, o->bytes))
		wrong("a copy from what was given back meanwhile", from, o->bytes);
	if (from < (char *)o->to + o->bytes && (char *)o->to < from + o->bytes)
		wrong("a copy onto itself", from, o->bytes);
	memcpy(o->to, from, o->bytes);
	memory(o->to, o->bytes, 2);
}

static void perform(const struct operation *o)
{
	if (o->kind == KERNEL) {
		run_kernel(o);
	} else if (o->kind == COPY) {
		copy_bytes(o);
	} else {
		memset(o->to, o->value, o->bytes);
		memory(o->to, o->bytes, 2);
	}
}

/* Into the stream, or into the graph that is being recorded. */
static int submit(struct stream *s, struct operation *o)
{
	int r = s->destroyed ? INVALID_HANDLE : state();

	if (!r && s->graph && s->broken)
		r = CAPTURE_INVALIDATED;
	if (r)
		drop_data(o);
	else if (s->graph)
		append(s->graph, o);
	else
		enqueue(s, o);
	return r;
}

/* A word of the parameters that points to memory of the host's, where nothing of the device may look. */
static void tell_pointers(const char *kernel, const char *params, size_t n)
{
	for (size_t i = 0; i + sizeof(uintptr_t) <= n; i += sizeof(uintptr_t)) {
		uintptr_t p;
		memcpy(&p, params + i, sizeof(p));
		if (p >> 16 && !(p >> 47) && !block_of(blocks, (void *)p, 0) &&
		    !msync((void *)(p & ~(uintptr_t)(PAGE - 1)), PAGE, MS_ASYNC))
			say("host pointer %s %zu", kernel, i);
	}
}

/* One struct by value: { BUFFER_POINTER, it, BUFFER_SIZE, &size, END }; copied now, as the driver does. */
static struct shared *parameters(const char *kernel, void **extra)
{
	if (!extra)
		return NULL;
	if (getenv("FAKE_CUDA_POINTERS"))
		tell_pointers(kernel, extra[1], *(size_t *)extra[3]);
	return emulator() ? aside(extra[1], *(size_t *)extra[3]) : NULL;
}

/* Shared memory beyond 48 KiB is for kernels that asked for it, which here is said of a kernel once. */
enum { ATTRIBUTE_SHARED = 8, MOST_SHARED = 227 << 10, ASKING = 512 };
static struct {
	const char *kernel;
	unsigned bytes;
} asking[ASKING];
static int nasking;

static unsigned shared_of(const char *kernel)
{
	for (int i = nasking; i--;)
		if (!strcmp(asking[i].kernel, kernel))
			return asking[i].bytes;
	return 48 << 10;
}

static int out_of_bounds(const char *kernel, const unsigned *grid, const unsigned *block,
			 unsigned shared, void **extra)
{
	unsigned long threads = (unsigned long)block[0] * block[1] * block[2];

	return !threads || threads > 1024 || block[2] > 64 || !grid[0] || !grid[1] || !grid[2] ||
	       grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535 ||
	       shared > shared_of(kernel) || (extra && *(size_t *)extra[3] > 32764);
}

static int launch_kernel(struct operation *o, struct stream *s, void **extra)
{
	static int asked;
	ALONE;
	int r = planted("FAKE_CUDA_REFUSE", ++asked);

	if (out_of_bounds(o->kernel, o->grid, o->block, o->shared, extra))
		return INVALID;
	if (asked == setting("FAKE_CUDA_FOREIGN", 0)) {
		struct context *other;
		cuCtxCreate_v2(&other, 0, 0);
	}
	if (r)
		return r;
	o->data = parameters(o->kernel, extra);
	if (s->waited_for && !s->graph)
		o->early = s->waited_for = 0;
	return submit(s, o);
}

API cuLaunchKernel(const char *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, struct stream *s, void **params, void **extra)
{
	struct operation o = {
		.kind = KERNEL, .kernel = f, .grid = {x, y, z}, .block = {bx, by, bz}, .shared = shared};

	(void)params;
	return launch_kernel(&o, s, extra);
}

/* A function is its name here. */
API cuFuncGetName(const char **name, const char *f)
{
	*name = f;
	return OK;
}

/* As the driver lays out CUlaunchConfig and CUlaunchAttribute. */
struct attribute {
	int id, pad;
	union {
		char pad[64];
		int on;
	} value;
};
struct config {
	unsigned grid[3], block[3], shared;
	struct stream *stream;
	const struct attribute *attribute;
	unsigned nattributes;
};
enum { ATTRIBUTE_EARLY = 6 }; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */

API cuLaunchKernelEx(const struct config *c, const char *f, void **params, void **extra)
{
	struct operation o = {.kind = KERNEL, .kernel = f, .shared = c->shared};

	(void)params;
	memcpy(o.grid, c->grid, sizeof(o.grid));
	memcpy(o.block, c->block, sizeof(o.block));
	for (unsigned i = 0; i < c->nattributes; i++)
		o.early |= c->attribute[i].id == ATTRIBUTE_EARLY && c->attribute[i].value.on;
	return launch_kernel(&o, c->stream, extra);
}

/* What fetch_box() and fetch_window() of test/gpu/emulate/ptx.h read; the real ones are held to what the driver's manual says of their arguments. */
static unsigned swizzled(int swizzle)
{
	return swizzle == SWIZZLE_128 ? 128 : swizzle == SWIZZLE_64 ? 64 : 0;
}

API cuTensorMapEncodeTiled(struct box *out, int type, unsigned rank, void *at, const uint64_t *dim,
			   const uint64_t *step, const unsigned *box, const unsigned *each,
			   int interleave, int swizzle, int promotion, int fill)
{
	const unsigned size = type == BOX_F32 ? 4 : type == BOX_U8 ? 1 : 2;

	(void)promotion;
	if (rank != 2 || (type != BOX_U8 && type != BOX_F32 && type != BOX_F16 && type != BOX_BF16) || (uintptr_t)at % 16 || step[0] % 16 ||
	    !dim[0] || !dim[1] || dim[0] >> 32 || dim[1] >> 32 || step[0] < dim[0] * size ||
	    !swizzled(swizzle) || box[0] * size != swizzled(swizzle) || !box[1] || box[1] > 256 || each[0] != 1 || each[1] != 1 ||
	    interleave || fill)
		return INVALID;
	*out = (struct box){.at = at, .columns = dim[0], .rows = dim[1], .step = step[0], .taken = box[1],
			    .size = (uint16_t)size, .width = (uint16_t)swizzled(swizzle)};
	return OK;
}

API cuTensorMapEncodeIm2col(struct box *out, int type, unsigned rank, void *at, const uint64_t *dim,
			    const uint64_t *step, const int *first, const int *last, unsigned channels, unsigned pixels,
			    const unsigned *each, int interleave, int swizzle, int promotion, int fill)
{
	(void)promotion;
	if (rank != 4 || type != BOX_U8 || (uintptr_t)at % 16 || !swizzled(swizzle) || channels != swizzled(swizzle) || !pixels ||
	    pixels > 1024 || each[0] != 1 || each[3] != 1 || interleave || fill || !dim[0] || dim[0] >> 32)
		return INVALID;
	*out = (struct box){.at = at, .columns = dim[0], .taken = pixels, .size = 1, .width = (uint16_t)channels};
	for (int i = 0; i < 3; i++) {
		if (!dim[i + 1] || dim[i + 1] >> 32 || step[i] % 16 || step[i] < (i ? step[i - 1] * dim[i] : dim[0]))
			return INVALID;
		out->in[i] = (uint32_t)dim[i + 1];
		out->steps[i] = step[i];
	}
	for (int i = 0; i < 2; i++) {
		const int64_t end = (int64_t)dim[i + 1] - 1 + last[i];
		if (first[i] < -128 || first[i] > 127 || last[i] < -128 || last[i] > 127 || end < first[i] || end > INT16_MAX || !each[i + 1] || each[i + 1] > 8)
			return INVALID;
		out->first[i] = (int16_t)first[i];
		out->last[i] = (int16_t)end;
		out->stride[i] = (int16_t)each[i + 1];
	}
	return OK;
}

API cuMemcpyHtoDAsync_v2(pointer to, const void *from, size_t n, struct stream *s)
{
	ALONE;
	struct operation o = {.kind = COPY, .to = (void *)to, .from = from, .bytes = n, .direction = 1};

	if (!is_taken(o.to, n))
		return INVALID;
	o.pinned = is_taken(from, n);
	if (!o.pinned && !s->graph)
		o.data = aside(from, n); /* pageable: the caller may change it at once */
	return submit(s, &o);
}

API cuMemcpyDtoHAsync_v2(void *to, pointer from, size_t n, struct stream *s)
{
	ALONE;
	struct operation o = {.kind = COPY, .to = to, .from = (void *)from, .bytes = n, .direction = 2};

	if (!is_taken(o.from, n))
		return INVALID;
	o.pinned = is_taken(to, n);
	int r = submit(s, &o);
	if (!r && !s->graph && !o.pinned)
		drain(s); /* pageable: it is there when the call returns */
	return r;
}

API cuMemcpyDtoDAsync_v2(pointer to, pointer from, size_t n, struct stream *s)
{
	ALONE;
	struct operation o = {
		.kind = COPY, .to = (void *)to, .from = (void *)from, .bytes = n, .direction = 8};

	return is_taken(o.to, n) && is_taken(o.from, n) ? submit(s, &o) : INVALID;
}

API cuMemsetD8Async(pointer to, unsigned char v, size_t n, struct stream *s)
{
	ALONE;
	struct operation o = {.kind = SET, .to = (void *)to, .bytes = n, .value = v};

	return is_taken(o.to, n) ? submit(s, &o) : INVALID;
}

/* ---- graphs */

API cuStreamBeginCapture_v2(struct stream *s, int mode)
{
	ALONE;

	(void)mode;
	if (s->destroyed || s->graph)
		return s->destroyed ? INVALID_HANDLE : CAPTURE_UNSUPPORTED;
	s->graph = calloc(1, sizeof(*s->graph));
	s->broken = 0;
	recording = s;
	return state();
}

API cuStreamEndCapture(struct stream *s, struct graph **g)
{
	ALONE;

	recording = NULL;
	*g = s->graph;
	s->graph = NULL;
	if (s->broken) {
		graph_free(*g);
		*g = NULL;
		return CAPTURE_INVALIDATED;
	}
	return state();
}

API cuGraphGetNodes(struct graph *g, void *nodes, size_t *n)
{
	ALONE;

	(void)nodes;
	*n = g->n;
	return OK;
}

static unsigned long number_of(const void *p)
{
	const struct block *b = block_of(blocks, p, 0);

	return b ? b->number : 0;
}

/* A graph keeps to the allocations that it was made with, not to their addresses, which others may have by now. */
static void keep_blocks(struct operation *o)
{
	o->blocks[0] = number_of(o->to);
	o->blocks[1] = number_of(o->from);
}

static int blocks_gone(const struct operation *o)
{
	int gone = o->kind == COPY &&
		   (o->blocks[0] != number_of(o->to) || o->blocks[1] != number_of(o->from));

	if (gone)
		say("stale graph");
	return gone;
}

API cuGraphInstantiateWithFlags(struct graph **exec, struct graph *g, unsigned long long flags)
{
	ALONE;

	(void)flags;
	if (setting("FAKE_CUDA_NO_CAPTURE", 0))
		return 801;
	*exec = calloc(1, sizeof(**exec));
	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].loose)
			return INVALID;
		hold_data(&g->v[i]);
		append(*exec, &g->v[i]);
		keep_blocks(&(*exec)->v[i]);
	}
	say("instantiate %zu", g->n);
	return OK;
}

API cuGraphCreate(struct graph **g, unsigned flags)
{
	ALONE;

	(void)flags;
	*g = calloc(1, sizeof(**g));
	return state();
}

/* A node is its number, counted from one. */
static int add_node(size_t *node, struct graph *g, const size_t *before, size_t n,
		    const struct operation *o)
{
	if (n > 1 || (n && *before != g->n))
		return INVALID; /* only chains are needed so far */
	append(g, o);
	g->v[g->n - 1].loose = !n && g->n > 1;
	*node = g->n;
	return state();
}

/* As the driver lays out CUgraphEdgeData. */
struct edge {
	unsigned char from_port, to_port, type, reserved[5];
};
enum { PROGRAMMATIC = 1 }; /* CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC */

API cuGraphAddDependencies_v2(struct graph *g, const size_t *from, const size_t *to,
			      const struct edge *edge, size_t n)
{
	ALONE;
	struct operation *o = n == 1 && *to && *to <= g->n ? &g->v[*to - 1] : NULL;

	if (!o || !o->loose || *from != *to - 1 || edge->type != PROGRAMMATIC ||
	    edge->from_port != PROGRAMMATIC || o->kind != KERNEL || o[-1].kind != KERNEL)
		return INVALID;
	o->loose = 0;
	o->early = 1;
	return state();
}

static int change_node(struct graph *exec, size_t node, const struct operation *o)
{
	if (!node || node > exec->n || exec->v[node - 1].kind != o->kind)
		return INVALID;
	const int early = exec->v[node - 1].early;
	drop_data(&exec->v[node - 1]);
	exec->v[node - 1] = *o;
	exec->v[node - 1].early = early;
	keep_blocks(&exec->v[node - 1]);
	say("change");
	return state();
}

/* As the driver lays out CUDA_KERNEL_NODE_PARAMS. */
struct launch_node {
	const char *kernel;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
};

static int launch_of(const struct launch_node *p, struct operation *o)
{
	if (out_of_bounds(p->kernel, p->grid, p->block, p->shared, p->extra))
		return INVALID;
	*o = (struct operation){.kind = KERNEL, .kernel = p->kernel, .shared = p->shared};
	memcpy(o->grid, p->grid, sizeof(o->grid));
	memcpy(o->block, p->block, sizeof(o->block));
	o->data = parameters(p->kernel, p->extra);
	return OK;
}

API cuGraphAddKernelNode_v2(size_t *node, struct graph *g, const size_t *before, size_t n,
			    const struct launch_node *p)
{
	ALONE;
	struct operation o;
	int r = launch_of(p, &o);

	return r ? r : add_node(node, g, before, n, &o);
}

API cuGraphExecKernelNodeSetParams_v2(struct graph *exec, size_t node, const struct launch_node *p)
{
	ALONE;
	struct operation o;
	int r = launch_of(p, &o);

	return r ? r : change_node(exec, node, &o);
}

/* As the driver lays out CUDA_MEMCPY3D. */
struct copy_node {
	size_t from_x, from_y, from_z, from_lod;
	int from_kind;
	const void *from_host;
	pointer from_device;
	void *from_array, *reserved;
	size_t from_pitch, from_height, to_x, to_y, to_z, to_lod;
	int to_kind;
	void *to_host;
	pointer to_device;
	void *to_array, *reserved_too;
	size_t to_pitch, to_height, bytes, height, depth;
};

static int copy_of(const struct copy_node *p, struct operation *o)
{
	int down = p->to_kind == 1, up = p->from_kind == 1;

	if (p->height != 1 || p->depth != 1 || (down && up))
		return INVALID;
	*o = (struct operation){.kind = COPY,
				.from = up ? p->from_host : (const void *)p->from_device,
				.to = down ? p->to_host : (void *)p->to_device,
				.bytes = p->bytes,
				.direction = up	    ? 1
					     : down ? 2
						    : 8};
	if ((!up && !is_taken(o->from, o->bytes)) || (!down && !is_taken(o->to, o->bytes)))
		return INVALID;
	o->pinned = (up || down) && is_taken(up ? o->from : o->to, o->bytes);
	return OK;
}

API cuGraphAddMemcpyNode(size_t *node, struct graph *g, const size_t *before, size_t n,
			 const struct copy_node *p, struct context *c)
{
	ALONE;
	struct operation o;
	int r = copy_of(p, &o);

	(void)c;
	return r ? r : add_node(node, g, before, n, &o);
}

API cuGraphExecMemcpyNodeSetParams(struct graph *exec, size_t node, const struct copy_node *p,
				   struct context *c)
{
	ALONE;
	struct operation o;
	int r = copy_of(p, &o);

	(void)c;
	return r ? r : change_node(exec, node, &o);
}

API cuGraphUpload(struct graph *g, struct stream *s)
{
	ALONE;

	(void)g, (void)s;
	return state();
}

API cuGraphLaunch(struct graph *g, struct stream *s)
{
	ALONE;
	int r = s->destroyed ? INVALID_HANDLE : state();

	say("replay %zu", g->n);
	for (size_t i = 0; i < g->n && !r; i++) {
		if (blocks_gone(&g->v[i]))
			return INVALID;
		hold_data(&g->v[i]);
		r = submit(s, &g->v[i]);
	}
	return r;
}

API cuGraphDestroy(struct graph *g)
{
	ALONE;

	graph_free(g);
	return OK;
}

API cuGraphExecDestroy(struct graph *g)
{
	say("drop");
	return cuGraphDestroy(g);
}

/* ---- memory */

API cuMemAlloc_v2(pointer *p, size_t n)
{
	ALONE;
	int r = unsafe();

	if (r || !n)
		return r ? r : INVALID;
	struct block *b = n > total() - used ? NULL : take(n, 0);
	if (!b)
		return OUT_OF_MEMORY;
	used += n;
	*p = (pointer)b->p;
	open_memory();
	memory(b->p, n, 1);
	close_memory();
	return state();
}

/* Whoever gives memory back waits for all that is queued. */
static int given_back(void *p, int pinned)
{
	int r = unsafe();
	struct block *b = block_of(blocks, p, 0);

	if (r || !b || b->p != p || b->pinned != pinned)
		return r ? r : INVALID;
	if (!state())
		drain_all();
	if (!pinned) {
		used -= b->n;
		open_memory();
		memory(p, b->n, 0);
		close_memory();
		say("free %zu", b->n);
	} else {
		memory(p, b->n, 0);
	}
	give(b);
	return state();
}

API cuMemFree_v2(pointer p)
{
	ALONE;

	return given_back((void *)p, 0);
}

API cuMemAllocHost_v2(void **p, size_t n)
{
	ALONE;
	int r = unsafe();
	struct block *b = r ? NULL : take(n, 1);

	if (!b)
		return r ? r : OUT_OF_MEMORY;
	*p = b->p;
	memory(b->p, n, 1);
	memory(b->p, n, 2); /* the host's writes are not told */
	return state();
}

API cuMemFreeHost(void *p)
{
	ALONE;

	return given_back(p, 1);
}

API cuMemGetInfo_v2(size_t *unused, size_t *all)
{
	ALONE;

	*all = total();
	*unused = total() - used;
	return state();
}

/* What nobody gave back: a line each in the log. */
__attribute__((destructor)) static void tell_left(void)
{
	size_t ns = 0, ne = 0, nb[2] = {0};
	ALONE; /* another thread may still be at work */

	for (struct stream *s = streams; s; s = s->next)
		ns += !s->destroyed;
	for (struct event *e = events; e; e = e->next)
		ne += !e->destroyed;
	for (struct block *b = blocks; b; b = b->next)
		nb[b->pinned]++;
	if (!error && (ns || ne || nb[0] || nb[1]))
		say("left: %zu streams, %zu events, %zu of the device's memory, %zu pinned", ns, ne,
		    nb[0], nb[1]);
}

/* ---- code */

API cuLibraryLoadData(void **library, const void *image, void *a, void *b, unsigned n, void *c,
		      void *d, unsigned m)
{
	static int woken;
	ALONE;

	if (!woken++ && setting("FAKE_CUDA_WAKE", 0)) {
		primary[0].alive = 1;
		used += (size_t)setting("FAKE_CUDA_WAKE", 0);
	}
	(void)image, (void)a, (void)b, (void)n, (void)c, (void)d, (void)m;
	*library = primary;
	return state();
}

API cuLibraryUnload(void *library)
{
	(void)library;
	return OK;
}

API cuLibraryGetKernel(const char **kernel, void *library, const char *name)
{
	static const char *names[4096]; /* for the life of the process: nobody gives a kernel back */
	size_t i = 0;
	ALONE;

	(void)library;
	while (i < sizeof(names) / sizeof(*names) && names[i] && strcmp(names[i], name))
		i++;
	if (i == sizeof(names) / sizeof(*names))
		return NOT_FOUND;
	if (!names[i])
		names[i] = strdup(name);
	*kernel = names[i];
	return OK;
}

API cuKernelGetFunction(const char **function, const char *kernel)
{
	*function = kernel;
	return OK;
}

/* The one struct that a kernel takes begins at once here. */
API cuFuncGetParamInfo(const char *f, size_t i, size_t *at, size_t *size)
{
	(void)f;
	*at = *size = 0;
	return i ? INVALID : OK;
}

API cuFuncSetAttribute(const char *f, int attribute, int value)
{
	ALONE;
	if (attribute != ATTRIBUTE_SHARED)
		return OK;
	if (value < 0 || value > MOST_SHARED)
		return INVALID;
	if ((unsigned)value > shared_of(f) && nasking < ASKING) {
		asking[nasking].kernel = f;
		asking[nasking++].bytes = (unsigned)value;
	}
	return OK;
}
