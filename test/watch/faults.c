/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults NAME KERNELS.cubin: does one thing wrong with CUDA, or its sound twin (NAME-ok). What is watched by
 * test/watch/run.sh on a machine with a GPU, and on test/watch/fake without one. Built there: cc faults.c -lcuda.
 */
#include <cuda.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *image;
static CUdevice device;
static CUcontext primary;

/* Faults are let happen: only what must work ends the program. */
static void must(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, (int)r);
		exit(99);
	}
}
#define MUST(call) must(call, #call)

static void begin(void)
{
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&primary, device));
	MUST(cuCtxSetCurrent(primary));
}

static CUcontext own_context(void)
{
	CUcontext c;
#if CUDA_VERSION >= 13000
	MUST(cuCtxCreate(&c, NULL, 0, device));
#else
	MUST(cuCtxCreate(&c, 0, device));
#endif
	return c;
}

static CUfunction function(const char *name)
{
	CUmodule m;
	CUfunction f;

	MUST(cuModuleLoad(&m, image));
	MUST(cuModuleGetFunction(&f, m, name));
	return f;
}

static CUresult launch(CUfunction f, CUstream s, CUdeviceptr p, int n)
{
	void *arguments[] = {&p, &n};

	return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, arguments, NULL);
}

/* A function of one context on a stream of another. */
static int foreign(int ok)
{
	CUcontext mine = own_context();
	CUfunction f = function("fill");
	CUstream s;
	CUdeviceptr p;

	if (!ok)
		MUST(cuCtxSetCurrent(primary));
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&p, 1 << 20));
	for (int i = 0; i < 5; i++)
		launch(f, s, p, 32);
	cuStreamSynchronize(s);
	cuCtxDestroy(mine);
	return 0;
}

static int event(int ok)
{
	CUcontext mine = own_context();
	CUevent e;
	CUstream s;

	MUST(cuEventCreate(&e, 0));
	if (!ok)
		MUST(cuCtxSetCurrent(primary));
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	cuEventRecord(e, s);
	cuStreamSynchronize(s);
	cuCtxDestroy(mine);
	return 0;
}

/* An event, whose use after its context is gone is an error and no crash. */
static int destroyed(int ok)
{
	CUcontext mine = own_context();
	CUevent e;

	MUST(cuEventCreate(&e, 0));
	if (ok)
		cuEventQuery(e);
	MUST(cuCtxDestroy(mine));
	MUST(cuCtxSetCurrent(primary));
	if (!ok)
		cuEventQuery(e);
	return 0;
}

static int illegal(int ok)
{
	CUfunction f = function("fill");
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, 4096));
	launch(f, NULL, ok ? p : (CUdeviceptr)0x10, 32);
	cuCtxSynchronize();
	cuMemFree(p);
	return 0;
}

static int badvalue(int ok)
{
	CUfunction f = function("fill");
	CUdeviceptr p;
	void *arguments[] = {&p, &(int){32}};

	MUST(cuMemAlloc(&p, 4096));
	cuLaunchKernel(f, 1, 1, 1, ok ? 32 : 4096, 1, 1, 0, NULL, arguments, NULL);
	MUST(cuCtxSynchronize());
	return 0;
}

/* A host tensor of one page, copied as if it had four; the next page is protected. */
static int shorthost(int ok)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *host = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr p;

	memset(host, 1, 8 * page);
	if (!ok)
		munmap(host + page, 7 * page);
	MUST(cuMemAlloc(&p, 4 * page));
	cuMemcpyHtoD(p, host, 4 * page);
	return 0;
}

/* Copies of rows: the last of them lie behind what is there. */
static int pitch(int ok)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *host = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUDA_MEMCPY2D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = host,
			   .srcPitch = page,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstPitch = 256,
			   .WidthInBytes = 256,
			   .Height = ok ? 2 : 4};

	/* sound: of two pages, the second only in part */
	munmap(host + 2 * page, 6 * page);
	MUST(cuMemAlloc(&m.dstDevice, 4 * page));
	cuMemcpy2D(&m);
	return 0;
}

/* One plane too many is read back into a block of malloc's. */
static int volume(int ok)
{
	size_t rows = 10, width = 64, planes = 4;
	char *host = malloc(planes * rows * width), *behind = malloc(1 << 16);
	CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcPitch = width,
			   .srcHeight = rows,
			   .dstMemoryType = CU_MEMORYTYPE_HOST,
			   .dstHost = host,
			   .dstPitch = width,
			   .dstHeight = rows,
			   .WidthInBytes = width,
			   .Height = rows,
			   .Depth = ok ? planes : planes + 1};

	MUST(cuMemAlloc(&m.srcDevice, 1 << 20));
	cuMemcpy3D(&m);
	if (!ok)
		_exit(0); /* the heap is broken: nothing looks at it again */
	free(behind);
	free(host);
	return 0;
}

/* 1,000 floats that are copied as if they were 1,250: all of it can be read, and is another's. */
static int heap(int ok)
{
	char *before = malloc(1 << 16), *host = malloc(4000), *behind = malloc(1 << 16);
	CUdeviceptr p;

	memset(before, 1, 1 << 16);
	memset(behind, 1, 1 << 16);
	memset(host, 1, 4000);
	MUST(cuMemAlloc(&p, 1 << 16));
	cuMemcpyHtoD(p, host, ok ? 4000 : 5000);
	/* within it, as a view of a tensor is */
	cuMemcpyHtoD(p, host + 1000, 3000);
	free(before);
	free(host);
	free(behind);
	return 0;
}

static int pinned(int ok)
{
	void *host, *other;
	CUdeviceptr p;

	MUST(cuMemAllocHost(&host, 8192));
	MUST(cuMemAllocHost(&other, 1 << 20));
	MUST(cuMemAlloc(&p, 1 << 16));
	cuMemcpyHtoD(p, host, ok ? 8192 : 12000);
	return 0;
}

#if CUDA_VERSION >= 13000
/* The second copy of a batch reads beyond its block. */
static int batch(int ok)
{
	char *a = malloc(2048), *b = malloc(2048), *behind = malloc(1 << 16);
	CUdeviceptr to[2], from[2] = {(CUdeviceptr)(uintptr_t)a, (CUdeviceptr)(uintptr_t)b};
	size_t bytes[2] = {2048, ok ? 2048 : 3000}, which = 0;
	CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUstream s;

	memset(behind, 1, 1 << 16);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&to[0], 1 << 16));
	MUST(cuMemAlloc(&to[1], 1 << 16));
	cuMemcpyBatchAsync(to, from, bytes, 2, &how, &which, 1, s);
	cuStreamSynchronize(s);
	free(behind);
	return 0;
}
#endif

/* Two launches that are refused, each with a buffer of its own. */
static int unwritten(int ok)
{
	CUfunction f = function("fill");
	CUdeviceptr p[2];

	for (int i = 0; i < 2; i++) {
		void *arguments[] = {&p[i], &(int){32}};
		MUST(cuMemAlloc(&p[i], (size_t)(i + 1) << 20));
		cuLaunchKernel(f, 1, 1, 1, ok ? 32 : 4096, 1, 1, 0, NULL, arguments, NULL);
	}
	MUST(cuCtxSynchronize());
	return 0;
}

/* Somebody resets the device under another's event. */
static int reset(int ok)
{
	CUevent e;

	MUST(cuEventCreate(&e, 0));
	if (ok)
		MUST(cuEventDestroy(e));
	MUST(cuDevicePrimaryCtxReset(device));
	if (!ok)
		cuEventQuery(e);
	return 0;
}

/* Somebody resets the device under another's memory, which is then read back. */
static int lost(int ok)
{
	CUdeviceptr p;
	int value = 1;

	MUST(cuMemAlloc(&p, 1 << 20));
	MUST(cuMemsetD8(p, 0, 1 << 20));
	if (ok)
		MUST(cuMemFree(p));
	MUST(cuDevicePrimaryCtxReset(device));
	MUST(cuDevicePrimaryCtxRetain(&primary, device));
	MUST(cuCtxSetCurrent(primary));
	if (ok)
		MUST(cuMemAlloc(&p, 1 << 20));
	cuMemcpyDtoH(&value, p + 4096, sizeof(value));
	return 0;
}

/* A module is asked for a function after its context is gone. */
static int module(int ok)
{
	CUcontext mine = own_context();
	CUmodule m;
	CUfunction f;

	MUST(cuModuleLoad(&m, image));
	if (ok)
		MUST(cuModuleGetFunction(&f, m, "fill"));
	MUST(cuCtxDestroy(mine));
	MUST(cuCtxSetCurrent(primary));
	if (!ok)
		cuModuleGetFunction(&f, m, "fill");
	return 0;
}

static int stream(int ok)
{
	CUcontext mine = own_context();
	CUstream s;

	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	if (ok)
		MUST(cuStreamSynchronize(s));
	MUST(cuCtxDestroy(mine));
	MUST(cuCtxSetCurrent(primary));
	if (!ok)
		cuStreamSynchronize(s);
	return 0;
}

/* A quick loop that keeps each of its blocks; the sound one loads blocks of several sizes, then works. */
static int grows(int ok)
{
	CUfunction f = function("fill");
	CUdeviceptr p;

	for (size_t i = 0; i < 300; i++)
		MUST(cuMemAlloc(&p, ok ? (i % 7 + 1) << 18 : 1 << 20));
	for (int i = 0; ok && i < 100; i++)
		launch(f, NULL, p, 32);
	return 0;
}

/* A child that was forked after CUDA had begun uses it. */
static int forked(int ok)
{
	CUdeviceptr p;
	pid_t pid = fork();

	if (!pid) {
		if (!ok)
			cuMemAlloc(&p, 1 << 20);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return 0;
}

/* Streams, events and memory that come and go: COUNT times. */
static int many(int ok)
{
	const char *text = getenv("COUNT");
	long n = text ? strtol(text, NULL, 10) : 1000;
	CUfunction f = function("fill");
	CUdeviceptr p;

	(void)ok;
	MUST(cuMemAlloc(&p, 4096));
	for (long i = 0; i < n; i++) {
		CUevent e;
		CUstream s = NULL;
		CUdeviceptr q = 0;
		if (i % 16 == 0)
			MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		if (i % 4 == 0)
			MUST(cuMemAlloc(&q, 512));
		MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
		cuEventRecord(e, s);
		if (i % 64 == 0)
			launch(f, s, p, 32);
		MUST(cuEventDestroy(e));
		if (q)
			MUST(cuMemFree(q));
		if (s)
			MUST(cuStreamDestroy(s));
	}
	MUST(cuCtxSynchronize());
	return 0;
}

/* More contexts than a report can tell of, then a fault. Quick on a driver without a device alone. */
static int flood(int ok)
{
	for (int i = 0; i < 15000; i++)
		MUST(cuCtxDestroy(own_context()));
	MUST(cuCtxSetCurrent(primary));
	return badvalue(ok);
}

static volatile sig_atomic_t caught;

static void on_signal(int signal)
{
	caught = signal;
}

/* Waits for a signal, says which, and ends with its number. */
static int waits(int ok)
{
	struct sigaction act = {.sa_handler = on_signal};

	(void)ok;
	sigaction(SIGUSR2, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	puts("waiting");
	fflush(stdout);
	for (int i = 0; i < 20000 && !caught; i++)
		usleep(50000);
	printf("signal %d\n", (int)caught);
	return (int)caught;
}

/* A child that is forked and ends in order, beside the parent that works on. */
static int child(int ok)
{
	CUdeviceptr p;

	(void)ok;
	MUST(cuMemAlloc(&p, 1 << 20));
	pid_t pid = fork();
	if (!pid)
		exit(0);
	waitpid(pid, NULL, 0);
	MUST(cuMemFree(p));
	return 0;
}

static int devptr(int ok)
{
	CUdeviceptr p;
	int value = 0;

	MUST(cuMemAlloc(&p, 1 << 20));
	MUST(cuMemsetD8(p, 0, 1 << 20));
	if (ok)
		MUST(cuMemcpyDtoH(&value, p + 4096, sizeof(value)));
	else
		value = *(volatile int *)(uintptr_t)(p + 4096);
	return value;
}

/* COUNT times, a hundredth of a second each. */
static int grow(int leaks)
{
	const char *text = getenv("COUNT");
	long n = text ? strtol(text, NULL, 10) : 400;
	CUdeviceptr p;

	for (long i = 0; i < n; i++) {
		if (leaks || i < 60)
			MUST(cuMemAlloc(&p, 2 << 20));
		usleep(10000);
	}
	return 0;
}
static int leak(int ok)
{
	return grow(!ok);
}

static void *allocate(void *arg)
{
	CUdeviceptr p;

	(void)arg;
	MUST(cuCtxSetCurrent(primary));
	cuMemAlloc(&p, 1 << 20);
	return NULL;
}

/* Another thread allocates while a global capture is open. */
static int capture(int ok)
{
	CUstream s;
	CUgraph g = NULL;
	pthread_t t;

	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(s, ok ? CU_STREAM_CAPTURE_MODE_RELAXED
					: CU_STREAM_CAPTURE_MODE_GLOBAL));
	pthread_create(&t, NULL, allocate, NULL);
	pthread_join(t, NULL);
	cuStreamEndCapture(s, &g);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int ok);
	} faults[] = {
		{"foreign", foreign},
		{"event", event},
		{"destroyed", destroyed},
		{"reset", reset},
		{"lost", lost},
		{"module", module},
		{"stream", stream},
		{"grows", grows},
		{"forked", forked},
		{"illegal", illegal},
		{"badvalue", badvalue},
		{"unwritten", unwritten},
		{"shorthost", shorthost},
		{"pitch", pitch},
		{"volume", volume},
		{"heap", heap},
		{"pinned", pinned},
#if CUDA_VERSION >= 13000
		{"batch", batch},
#endif
		{"devptr", devptr},
		{"leak", leak},
		{"capture", capture},
		{"many", many},
		{"flood", flood},
		{"waits", waits},
		{"child", child}
	};

	if (argc < 3)
		return 2;
	image = argv[2];
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		size_t n = strlen(faults[i].name);
		if (strncmp(argv[1], faults[i].name, n) == 0 &&
		    (!argv[1][n] || strcmp(argv[1] + n, "-ok") == 0)) {
			begin();
			return faults[i].run(argv[1][n] != '\0');
		}
	}
	return 2;
}
