/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults NAME KERNELS.cubin: does one thing wrong with CUDA, or its sound twin (NAME-ok). What is watched by
 * test/watch/run.sh on a machine with a GPU. Built there: cc faults.c -lcuda.
 */
#include <cuda.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static int grow(int leaks)
{
	CUdeviceptr p[400];

	for (int i = 0; i < 400; i++) {
		if (leaks || i < 60)
			MUST(cuMemAlloc(&p[i], 2 << 20));
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
	} faults[] = {{"foreign", foreign}, {"event", event},	    {"destroyed", destroyed},
		      {"illegal", illegal}, {"badvalue", badvalue}, {"shorthost", shorthost},
		      {"devptr", devptr},   {"leak", leak},	    {"capture", capture}};

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
