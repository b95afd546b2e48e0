/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late NAME KERNELS.cubin: two libraries and a program that use the CUDA runtime; the first does something wrong and
 * does not look, the second is told of it. One file, three parts: cc -DPART=1 (libfirst.so), -DPART=2
 * (libsecond.so), -DPART=0 (the program, which can be a client of CUPTI's, too).
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>

#include <stdio.h>
#include <string.h>

int first_fails(void);
int first_fails_and_looks(void);
int first_launches(const char *image, CUdeviceptr p);
int first_launches_wide(const char *image, CUdeviceptr p, int threads);
int first_resets(void);
int second_works(int n);
int second_keeps(void);
int second_goes_on(void);
int second_waits(void);

#if PART == 1
/* No such device: the runtime returns it, and keeps it. */
int first_fails(void)
{
	cudaSetDevice(4000);
	return 0;
}

int first_fails_and_looks(void)
{
	return cudaSetDevice(4000) != cudaSuccess && cudaGetLastError() != cudaSuccess;
}

int first_launches(const char *image, CUdeviceptr p)
{
	CUmodule m;
	CUfunction f;
	void *arguments[] = {&p, &(int){32}};

	if (cuModuleLoad(&m, image) || cuModuleGetFunction(&f, m, "fill"))
		return 1;
	return (int)cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
}
/* As <<<>>> does: what it returns is dropped. */
int first_launches_wide(const char *image, CUdeviceptr p, int threads)
{
	cudaLibrary_t library;
	cudaKernel_t kernel;
	dim3 grid = {1, 1, 1}, block = {(unsigned)threads, 1, 1};
	void *arguments[] = {&p, &(int){32}};

	if (cudaLibraryLoadFromFile(&library, image, NULL, NULL, 0, NULL, NULL, 0) != cudaSuccess ||
	    cudaLibraryGetKernel(&kernel, library, "fill") != cudaSuccess)
		return 1;
	cudaLaunchKernel((const void *)kernel, grid, block, arguments, 0, NULL);
	return 0;
}
int first_resets(void)
{
	return (int)cuDevicePrimaryCtxReset(0);
}
#elif PART == 2
static void *kept;

int second_keeps(void)
{
	return (int)cudaMalloc(&kept, 1 << 20);
}

int second_goes_on(void)
{
	return (int)cudaMemset(kept, 0, 1 << 20);
}

int second_works(int n)
{
	void *p;

	if (cudaMalloc(&p, 4096) != cudaSuccess)
		return 1;
	for (int i = 0; i < n; i++)
		cudaMemset(p, 0, 4096);
	return (int)cudaGetLastError();
}

int second_waits(void)
{
	return (int)cudaDeviceSynchronize();
}
#else
static int heard;

static void CUPTIAPI hear(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			  const void *data)
{
	(void)user;
	(void)domain;
	(void)id;
	(void)data;
	heard++;
}

/* A client of CUPTI's own, as a profiler is. */
static int profile(CUdeviceptr p)
{
	CUpti_SubscriberHandle s;

	if (cuptiSubscribe(&s, (CUpti_CallbackFunc)hear, NULL) != CUPTI_SUCCESS)
		return 0;
	cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2);
	cuMemsetD8(p, 0, 4096);
	cuptiUnsubscribe(s);
	return heard;
}

int main(int argc, char **argv)
{
	CUdeviceptr p = 0;

	if (argc < 3 || cudaSetDevice(0) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
		return 2;
	if (cuMemAlloc(&p, 4096))
		return 2;
	if (strcmp(argv[1], "late") == 0) {
		first_fails();
		printf("second: %d\n", second_works(3));
	} else if (strcmp(argv[1], "late-ok") == 0) {
		first_fails_and_looks();
		printf("second: %d\n", second_works(3));
	} else if (strcmp(argv[1], "orphan") == 0) {
		/* one library resets the device under another's memory */
		second_keeps();
		first_resets();
		printf("second: %d\n", second_goes_on());
	} else if (strcmp(argv[1], "orphan-ok") == 0) {
		second_keeps();
		printf("second: %d\n", second_goes_on());
		first_resets();
	} else if (strcmp(argv[1], "same") == 0) {
		/* one program alone: a launch that goes well stands between the fault and the question */
		cudaSetDevice(4000);
		first_launches(argv[2], p);
		printf("error: %d\n", (int)cudaGetLastError());
	} else if (strcmp(argv[1], "sticky") == 0) {
		first_launches(argv[2], 16);
		printf("second: %d\n", second_waits());
	} else if (strcmp(argv[1], "wide") == 0) {
		first_launches_wide(argv[2], p, 4096);
		printf("second: %d\n", second_works(3));
	} else if (strcmp(argv[1], "wide-ok") == 0) {
		first_launches_wide(argv[2], p, 32);
		printf("second: %d\n", second_works(3));
	} else if (strcmp(argv[1], "profiler") == 0) {
		printf("heard: %s\n", profile(p) ? "yes" : "no");
	} else if (strcmp(argv[1], "sticky-ok") == 0) {
		first_launches(argv[2], p);
		printf("second: %d\n", second_waits());
	}
	return 0;
}
#endif
