/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/watch.h"

#include "gpu/api.h"

#include <dlfcn.h>

#ifdef WATCH_LIBRARY
__asm__(".section .rodata\n.balign 16\nwatch_library_start:\n.incbin \"" WATCH_LIBRARY
	"\"\nwatch_library_end:\n.previous");
extern const unsigned char watch_library_start[], watch_library_end[];

size_t watch_library(const unsigned char **data)
{
	*data = watch_library_start;
	return (size_t)(watch_library_end - watch_library_start);
}
#else
size_t watch_library(const unsigned char **data)
{
	*data = NULL;
	return 0;
}
#endif

const char *watch_cupti(struct diag *d)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", NULL};
	static const char *const folders[] = {"/usr/local/cuda*/extras/CUPTI/lib64",
					      "/usr/local/cuda*/lib64",
					      "/usr/lib/python3*/site-packages/nvidia/*/lib",
					      "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
					      "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
					      NULL};
	static const struct dl_symbol symbols[] = {{"cuptiSubscribe", true}};
	const struct dl_search search = {.folders = folders};
	void *table[1];
	struct dl lib = {0};

	if (dl_find(&lib, names, &search, symbols, table, 1, d))
		return NULL;
	const char *path = fmt(d, "%s", lib.path);
	dlclose(lib.handle); /* only its place was wanted: the watched program opens it */
	return path;
}

/* ---- memory of another process */

#if HAVE_CUDA
enum { PROCESSES = 128 };
/* NVML counts how often it was initialized: once here. */
static bool nvml_open;

static bool of_device(const struct nvml_api *api, nvmlDevice_t device, int pid, uint64_t *bytes)
{
	nvmlProcessInfo_t info[PROCESSES];
	unsigned n = PROCESSES;

	if (api->p_nvmlDeviceGetComputeRunningProcesses_v3(device, &n, info))
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (info[i].pid == (unsigned)pid && info[i].usedGpuMemory != UINT64_MAX) {
			*bytes += info[i].usedGpuMemory;
			return true;
		}
	}
	return false;
}

bool watch_gpu_memory(int pid, uint64_t *bytes)
{
	const struct nvml_api *api = nvml_api(NULL);
	unsigned count = 0;
	bool any = false;

	*bytes = 0;
	if (!api || !api->p_nvmlDeviceGetCount_v2 || !api->p_nvmlDeviceGetHandleByIndex_v2 ||
	    !api->p_nvmlDeviceGetComputeRunningProcesses_v3)
		return false;
	if (!nvml_open && api->p_nvmlInit_v2())
		return false;
	nvml_open = true;
	if (api->p_nvmlDeviceGetCount_v2(&count))
		return false;
	for (unsigned i = 0; i < count; i++) {
		nvmlDevice_t device;
		if (!api->p_nvmlDeviceGetHandleByIndex_v2(i, &device))
			any |= of_device(api, device, pid, bytes);
	}
	return any;
}

void watch_gpu_end(void)
{
	if (nvml_open)
		nvml_api(NULL)->p_nvmlShutdown();
	nvml_open = false;
}
#else
bool watch_gpu_memory(int pid, uint64_t *bytes)
{
	(void)pid;
	*bytes = 0;
	return false;
}

void watch_gpu_end(void)
{
}
#endif
