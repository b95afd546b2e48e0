/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU, for tests of the runtime: contexts, streams, events, graphs and memory are
 * kept in host memory, copies copy, kernels do nothing. Built as libcuda.so.1 and found by INFER_LIBRARY_PATH.
 *
 *   FAKE_CUDA_FAIL=K:R      the K-th kernel that runs raises error R, as a GPU does: seen at the next wait
 *   FAKE_CUDA_REFUSE=K:R    the K-th launch itself returns R
 *   FAKE_CUDA_VERSION=11080 what the driver says it is
 *   FAKE_CUDA_MEMORY=BYTES  of the device
 *   FAKE_CUDA_RESET=K       something resets the primary context before the K-th entry
 *   FAKE_CUDA_FOREIGN=K     at the K-th launch another library makes a context of its own and leaves it current
 *   FAKE_CUDA_WAKE=BYTES    the first module that is loaded wakes the primary context, which takes so much
 *   FAKE_CUDA_NO_CAPTURE=1  graphs cannot be instantiated
 *   FAKE_CUDA_LOG=FILE      a line for each context, launch, graph and free
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default"))) int
typedef unsigned long long pointer;

enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, DESTROYED = 709, NOT_FOUND = 500 };

struct context {
	int alive, own;
	unsigned long retained;
};
struct operation {
	void *to;
	const void *from;
	size_t bytes; /* 0: a kernel */
	const char *kernel;
	int kind; /* of a copy, as CUPTI counts them */
};
struct graph {
	struct operation *v;
	size_t n;
};
struct stream {
	struct context *context;
	struct graph *graph; /* being recorded */
};
struct event {
	double ms;
};
struct block {
	size_t bytes, pad;
};

static struct context primary;
static __thread struct context *stack[16];
static __thread int depth;
static int error, launched, entries;
static size_t used;
static double clock_ms;

static long setting(const char *name, long otherwise)
{
	const char *s = getenv(name);
	return s ? strtol(s, NULL, 10) : otherwise;
}

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
	*s = r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
	return OK;
}

API cuGetErrorString(int r, const char **s)
{
	*s = r == 700 ? "an illegal memory access was encountered" : "planted by the fake driver";
	return OK;
}

API cuDeviceGetCount(int *n)
{
	*n = 1;
	return OK;
}

API cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal ? 101 : OK;
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

API cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 97 ? 232448 : 1 << 16;
	return OK;
}

API cuDeviceGetPCIBusId(char *bus, int room, int device)
{
	(void)device;
	snprintf(bus, (size_t)room, "0000:00:00.0");
	return OK;
}

/* ---- contexts */

API cuDevicePrimaryCtxRetain(struct context **c, int device)
{
	(void)device;
	primary.alive = 1;
	primary.retained++;
	*c = &primary;
	say("retain");
	return OK;
}

API cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	if (!primary.retained)
		return INVALID;
	primary.alive = --primary.retained != 0;
	say("release");
	return OK;
}

API cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	(void)device;
	*flags = 0;
	if (++entries == setting("FAKE_CUDA_RESET", 0))
		primary.alive = 0;
	*active = primary.alive;
	return OK;
}

API cuCtxCreate_v2(struct context **c, unsigned flags, int device)
{
	(void)flags, (void)device;
	static struct context contexts[256];
	static int n;

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
	*device = 0;
	return depth ? OK : INVALID_CONTEXT;
}

API cuCtxPushCurrent_v2(struct context *c)
{
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

/* ---- streams, events, launches */

API cuStreamCreate(struct stream **s, unsigned flags)
{
	(void)flags;
	*s = calloc(1, sizeof(**s));
	(*s)->context = depth ? stack[depth - 1] : NULL;
	return state();
}

API cuStreamDestroy_v2(struct stream *s)
{
	free(s);
	return OK;
}

API cuStreamSynchronize(struct stream *s)
{
	return s->graph ? 900 : state();
}

API cuStreamQuery(struct stream *s)
{
	(void)s;
	return state();
}

API cuStreamGetCtx(struct stream *s, struct context **c)
{
	*c = s->context;
	return OK;
}

API cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags)
{
	(void)s, (void)e, (void)flags;
	return state();
}

API cuEventCreate(struct event **e, unsigned flags)
{
	(void)flags;
	*e = calloc(1, sizeof(**e));
	return state();
}

API cuEventDestroy_v2(struct event *e)
{
	free(e);
	return OK;
}

API cuEventRecord(struct event *e, struct stream *s)
{
	(void)s;
	e->ms = clock_ms += 0.5;
	return state();
}

API cuEventSynchronize(struct event *e)
{
	(void)e;
	return state();
}

API cuEventElapsedTime(float *ms, struct event *a, struct event *b)
{
	*ms = (float)(b->ms - a->ms);
	return state();
}

/* test/gpu/fake/cupti.c's: the kernel, or NULL with the kind of a copy (1 to the device, 2 to the host, 8 on it). */
__attribute__((visibility("default"))) void (*fake_listener)(const char *kernel, int kind, size_t bytes);

static void perform(const struct operation *o)
{
	if (fake_listener)
		fake_listener(o->bytes ? NULL : o->kernel, o->kind, o->bytes);
	if (o->bytes) {
		memcpy(o->to, o->from, o->bytes);
		return;
	}
	int r = planted("FAKE_CUDA_FAIL", ++launched);
	if (r)
		error = r;
	clock_ms += 0.001;
	say("run %s", o->kernel);
}

static int submit(struct stream *s, struct operation o)
{
	int r = state();

	if (r)
		return r;
	if (!s->graph) {
		perform(&o);
		return OK;
	}
	s->graph->v = realloc(s->graph->v, (s->graph->n + 1) * sizeof(o));
	s->graph->v[s->graph->n++] = o;
	return OK;
}

API cuLaunchKernel(const char *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, struct stream *s, void **params, void **extra)
{
	static int asked;
	int r = planted("FAKE_CUDA_REFUSE", ++asked);

	(void)x, (void)y, (void)z, (void)by, (void)bz, (void)shared, (void)params, (void)extra;
	if (bx > 1024)
		return INVALID;
	if (asked == setting("FAKE_CUDA_FOREIGN", 0)) {
		struct context *other;
		cuCtxCreate_v2(&other, 0, 0);
	}
	return r ? r : submit(s, (struct operation){.kernel = f});
}

/* A function is its name here. */
API cuFuncGetName(const char **name, const char *f)
{
	*name = f;
	return OK;
}

struct config {
	unsigned grid[3], block[3], shared;
	struct stream *stream;
};

API cuLaunchKernelEx(const struct config *c, const char *f, void **params, void **extra)
{
	return cuLaunchKernel(f, 1, 1, 1, c->block[0], 1, 1, 0, c->stream, params, extra);
}

API cuMemcpyHtoDAsync_v2(pointer to, const void *from, size_t n, struct stream *s)
{
	return submit(s, (struct operation){(void *)to, from, n, NULL, 1});
}

API cuMemcpyDtoHAsync_v2(void *to, pointer from, size_t n, struct stream *s)
{
	return submit(s, (struct operation){to, (void *)from, n, NULL, 2});
}

API cuMemcpyDtoDAsync_v2(pointer to, pointer from, size_t n, struct stream *s)
{
	return submit(s, (struct operation){(void *)to, (void *)from, n, NULL, 8});
}

API cuMemsetD8Async(pointer to, unsigned char v, size_t n, struct stream *s)
{
	(void)s;
	memset((void *)to, v, n);
	return state();
}

/* ---- graphs */

API cuStreamBeginCapture_v2(struct stream *s, int mode)
{
	(void)mode;
	s->graph = calloc(1, sizeof(*s->graph));
	return state();
}

API cuStreamEndCapture(struct stream *s, struct graph **g)
{
	*g = s->graph;
	s->graph = NULL;
	return state();
}

API cuGraphGetNodes(struct graph *g, void *nodes, size_t *n)
{
	(void)nodes;
	*n = g->n;
	return OK;
}

API cuGraphInstantiateWithFlags(struct graph **exec, struct graph *g, unsigned long long flags)
{
	(void)flags;
	if (setting("FAKE_CUDA_NO_CAPTURE", 0))
		return 801;
	*exec = calloc(1, sizeof(**exec));
	(*exec)->v = malloc((g->n + 1) * sizeof(*g->v));
	memcpy((*exec)->v, g->v, g->n * sizeof(*g->v));
	(*exec)->n = g->n;
	say("instantiate %zu", g->n);
	return OK;
}

API cuGraphUpload(struct graph *g, struct stream *s)
{
	(void)g, (void)s;
	return state();
}

API cuGraphLaunch(struct graph *g, struct stream *s)
{
	int r = state();

	(void)s;
	say("replay %zu", g->n);
	for (size_t i = 0; i < g->n && !r; i++)
		perform(&g->v[i]);
	return r;
}

API cuGraphDestroy(struct graph *g)
{
	free(g->v);
	free(g);
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
	if (n > total() - used)
		return OUT_OF_MEMORY;
	struct block *b = calloc(1, sizeof(*b) + n);
	if (!b)
		return OUT_OF_MEMORY;
	b->bytes = n;
	used += n;
	*p = (pointer)(b + 1);
	return state();
}

API cuMemFree_v2(pointer p)
{
	struct block *b = (struct block *)p - 1;

	used -= b->bytes;
	say("free %zu", b->bytes);
	free(b);
	return state();
}

API cuMemAllocHost_v2(void **p, size_t n)
{
	*p = calloc(1, n);
	return state();
}

API cuMemFreeHost(void *p)
{
	free(p);
	return state();
}

API cuMemGetInfo_v2(size_t *unused, size_t *all)
{
	*all = total();
	*unused = total() - used;
	return state();
}

/* ---- code */

API cuLibraryLoadData(void **library, const void *image, void *a, void *b, unsigned n, void *c, void *d,
		      unsigned m)
{
	static int woken;

	if (!woken++ && setting("FAKE_CUDA_WAKE", 0)) {
		primary.alive = 1;
		used += (size_t)setting("FAKE_CUDA_WAKE", 0);
	}
	(void)image, (void)a, (void)b, (void)n, (void)c, (void)d, (void)m;
	*library = &primary;
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

API cuFuncSetAttribute(void *f, int attribute, int value)
{
	(void)f, (void)attribute, (void)value;
	return OK;
}
