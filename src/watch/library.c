/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/library.h"

#include "gpu/driver/api.h"

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

/* ---- memory of another process */

#if HAVE_CUDA
/* Where it was found: the watched program opens it itself. */
const char *watch_cupti(struct diag *d)
{
	const struct cupti_api *api = cupti_api(d);
	Dl_info file;

	if (!api)
		return NULL;
	if (dladdr(*(void *const *)&api->p_cuptiSubscribe, &file) && file.dli_fname)
		return fmt(d, "%s", file.dli_fname);
	return "";
}

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

/* The library, open, and how many devices it has; NULL: it cannot be asked. */
static const struct nvml_api *devices(unsigned *count)
{
	const struct nvml_api *api = nvml_api(NULL);

	if (!api || !api->p_nvmlDeviceGetCount_v2 || !api->p_nvmlDeviceGetHandleByIndex_v2)
		return NULL;
	if (!nvml_open && api->p_nvmlInit_v2())
		return NULL;
	nvml_open = true;
	return api->p_nvmlDeviceGetCount_v2(count) ? NULL : api;
}

uint64_t watch_gpu_left(void)
{
	unsigned count = 0;
	const struct nvml_api *api = devices(&count);
	uint64_t least = 0;

	for (unsigned i = 0; api && api->p_nvmlDeviceGetMemoryInfo && i < count; i++) {
		nvmlDevice_t device;
		nvmlMemory_t m;
		if (!api->p_nvmlDeviceGetHandleByIndex_v2(i, &device) &&
		    !api->p_nvmlDeviceGetMemoryInfo(device, &m) && (!least || m.free < least))
			least = m.free;
	}
	return least;
}

bool watch_gpu_memory(int pid, uint64_t *bytes)
{
	unsigned count = 0;
	const struct nvml_api *api = devices(&count);
	bool any = false;

	*bytes = 0;
	if (!api || !api->p_nvmlDeviceGetComputeRunningProcesses_v3)
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
const char *watch_cupti(struct diag *d)
{
	FAIL(d, E_LIBRARY, .message = "this build cannot watch programs",
	     .actual = "it was built without CUDA's headers");
	return NULL;
}

bool watch_gpu_memory(int pid, uint64_t *bytes)
{
	(void)pid;
	*bytes = 0;
	return false;
}

uint64_t watch_gpu_left(void)
{
	return 0;
}

void watch_gpu_end(void)
{
}
#endif
