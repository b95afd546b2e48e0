/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions leave in the process that are opened, run and closed, with a convolution: memory of malloc, by the
 * library that took it, and libraries that were opened and closed again. Passes without a look where there is no GPU;
 * test/cli/gpu_failures.bats lends it a driver that only seems one.
 */
#include "gpu/driver/api.h"
#include "gpu/driver/cuda.h"
#include "session/session.h"
#include "test/unit/unit.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { WARM = 3, SESSIONS = 8, ROOM = 1 << 16, TOLD = 12, EACH_BYTES = 8 << 10 };

/* ---- who takes memory: the program's own malloc stands before libc's ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

struct block {
	void *p; /* NULL: never used; the table itself: given back */
	void *caller;
	size_t bytes;
};
static struct block blocks[ROOM];
static _Atomic bool counting; /* threads of libraries allocate, too */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

static struct block *place(const void *p)
{
	return &blocks[(uintptr_t)p / 16 * 2654435761u % ROOM];
}

static void taken(void *p, size_t bytes, void *caller)
{
	if (!counting || !p)
		return;
	pthread_mutex_lock(&lock);
	struct block *b = place(p);
	for (int i = 0; i < ROOM && b->p && b->p != blocks; i++)
		b = b + 1 == blocks + ROOM ? blocks : b + 1;
	if (!b->p || b->p == blocks)
		*b = (struct block){p, caller, bytes};
	pthread_mutex_unlock(&lock);
}

static void given_back(void *p)
{
	if (!counting || !p)
		return;
	pthread_mutex_lock(&lock);
	struct block *b = place(p);
	for (int i = 0; i < ROOM && b->p && b->p != p; i++)
		b = b + 1 == blocks + ROOM ? blocks : b + 1;
	if (b->p == p)
		b->p = blocks;
	pthread_mutex_unlock(&lock);
}

#define SEEN __attribute__((visibility("default")))
SEEN void *malloc(size_t n)
{
	void *p = __libc_malloc(n);
	taken(p, n, __builtin_return_address(0));
	return p;
}

SEEN void *calloc(size_t n, size_t size)
{
	void *p = __libc_calloc(n, size);
	taken(p, n * size, __builtin_return_address(0));
	return p;
}

SEEN void *realloc(void *old, size_t n)
{
	given_back(old);
	void *p = __libc_realloc(old, n);
	taken(p, n, __builtin_return_address(0));
	return p;
}

SEEN void free(void *p)
{
	given_back(p);
	__libc_free(p);
}
#endif

struct who {
	void *caller;
	size_t bytes, n;
};

static int most_first(const void *a, const void *b)
{
	const struct who *x = a, *y = b;
	return x->bytes < y->bytes ? 1 : -(x->bytes > y->bytes);
}

/* The places that took what is still there, the largest first. */
static void tell_blocks(void)
{
	static struct who list[1024];
	size_t n = 0;
	Dl_info at;

	for (int i = 0; i < ROOM; i++) {
		size_t k = 0;
		if (!blocks[i].p || blocks[i].p == blocks)
			continue;
		while (k < n && list[k].caller != blocks[i].caller)
			k++;
		if (k == sizeof(list) / sizeof(*list))
			continue;
		n += k == n;
		list[k].caller = blocks[i].caller;
		list[k].bytes += blocks[i].bytes;
		list[k].n++;
	}
	qsort(list, n, sizeof(*list), most_first);
	for (size_t k = 0; k < n && k < TOLD; k++) {
		bool known = dladdr(list[k].caller, &at) && at.dli_fname;
		printf("# %zu bytes in %zu blocks of %s+0x%zx\n", list[k].bytes, list[k].n,
		       known ? at.dli_fname : "a library that is closed",
		       known ? (size_t)((char *)list[k].caller - (char *)at.dli_fbase) : 0);
	}
}

/* ---- libraries ---- */

static int note_counts(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	unsigned long long *counts = arg;

	(void)bytes;
	counts[0] = info->dlpi_adds;
	counts[1] = info->dlpi_subs;
	return 1;
}

static size_t in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static bool one_session(void)
{
	static const struct run_config config = {.device = "cuda",
						 .optimize = OPTIMIZE_FULL,
						 .tune = TUNE_OFF,
						 .cache = "off",
						 .memory_plan = true,
						 .arena = true};
	static float x[8 * 16 * 16];
	struct tensor t = {.type = type_tensor(DT_F32),
			   .shape = {4, {1, 8, 16, 16}},
			   .data = x,
			   .bytes = sizeof(x)};
	const char *path = getenv("GPU_CONV_MODEL");
	const struct tensor *in = &t, *y = NULL;
	struct diag d = {0};
	struct session *s = session_open(path ? path : "test/gpu/data/conv.onnx", &config, &d);
	bool good = s && !session_run(s, &in, &y, &d) && !session_run(s, &in, &y, &d);

	if (!good)
		diag_print(&d, stdout, false);
	session_close(s);
	diag_free(&d);
	return good;
}

/* Bytes of malloc that each session leaves; *closed: libraries that were closed meanwhile. */
static size_t left_by_each(const char *how, unsigned long long *closed)
{
	unsigned long long before[2] = {0}, after[2] = {0};

	dl_iterate_phdr(note_counts, before);
	size_t was = in_use();
	for (int i = 0; i < SESSIONS; i++)
		CHECK(one_session());
	size_t is = in_use(), each = is > was ? (is - was) / SESSIONS : 0;
	dl_iterate_phdr(note_counts, after);
	*closed = after[1] - before[1];
	printf("# %d sessions%s: %zu bytes each, %llu libraries opened, %llu closed\n", SESSIONS,
	       how, each, after[0] - before[0], *closed);
	return each;
}

/* cudnnCreate() and cudnnDestroy() in a context. */
static void one_handle(void)
{
#if HAVE_CUDNN
	const struct cuda_api *api = cuda_api(NULL);
	const struct cudnn_api *dn = cudnn_api(NULL);
	cudnnHandle_t handle;
	CUcontext context;
	CUdevice device;

	if (!dn || api->p_cuDeviceGet(&device, 0) || api->p_cuDevicePrimaryCtxRetain(&context, device))
		return;
	api->p_cuCtxPushCurrent(context);
	if (!dn->p_cudnnCreate(&handle))
		dn->p_cudnnDestroy(handle);
	api->p_cuCtxPopCurrent(&context);
	api->p_cuDevicePrimaryCtxRelease(device);
#endif
}

/*
 * What cuDNN's handle leaves by itself, which is no session's: cudnnCreate() of cuDNN 9.19 loads two modules
 * (mb_tools::GpcVSL2::queryFromDefaultDevice) that nobody unloads, and the driver keeps 78 KB for them beyond the
 * context's end.
 */
static size_t left_by_handle(void)
{
	size_t was, is;

	for (int i = 0; i < WARM; i++)
		one_handle();
	was = in_use();
	for (int i = 0; i < SESSIONS; i++)
		one_handle();
	is = in_use();
	printf("# %d handles of cuDNN alone: %zu bytes each\n", SESSIONS,
	       is > was ? (is - was) / SESSIONS : 0);
	return is > was ? (is - was) / SESSIONS : 0;
}

static void closed_sessions_leave_nothing(void)
{
	unsigned long long closed;
	size_t handle = left_by_handle();

	for (int i = 0; i < WARM; i++)
		CHECK(one_session());
	counting = true;
	CHECK(left_by_each(", opened and closed", &closed) < handle + EACH_BYTES);
	counting = false;
	CHECK_INT(closed, 0);
	tell_blocks();
}

/* The same while the device's primary context stays: what is less now goes with the context, not with our handles. */
static void sessions_in_a_context_that_stays_leave_nothing(void)
{
	const struct cuda_api *api = cuda_api(NULL);
	unsigned long long closed;
	size_t handle = left_by_handle();
	CUcontext context;
	CUdevice device;

	CHECK(!api->p_cuDeviceGet(&device, 0) && !api->p_cuDevicePrimaryCtxRetain(&context, device));
	CHECK(one_session());
	CHECK(left_by_each(" in a context that stays", &closed) < handle + EACH_BYTES);
	CHECK_INT(closed, 0);
	api->p_cuDevicePrimaryCtxRelease(device);
}

static void sessions_on_a_gpu(void)
{
}

int main(void)
{
	struct device_facts f;

	if (!gpu_devices(&f, 1, NULL)) { /* the test is that this is no failure */
		UNIT(sessions_on_a_gpu);
		return unit_end();
	}
	UNIT(closed_sessions_leave_nothing);
	UNIT(sessions_in_a_context_that_stays_leave_nothing);
	return unit_end();
}
