/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/processes.h"

#include "gpu/driver/api.h"

#include <dlfcn.h>

enum { MAX_PROCESSES = 128 }; /* of one device */
/* NVML counts its initializations; this program initializes it once, until process_memory_end. */
static bool nvml_open;

/* Returns the path at which our own loader found libcupti. The watched program opens the library by this path. */
static const char *cupti_path(struct diag *d)
{
	const struct cupti_api *api = cupti_api(d);
	Dl_info file;

	if (!api)
		return NULL;
	if (dladdr(*(void *const *)&api->p_cuptiSubscribe, &file) && file.dli_fname)
		return fmt(d, "%s", file.dli_fname);
	return "";
}

static bool add_process_memory(const struct nvml_api *api, nvmlDevice_t device, int pid,
			       uint64_t *bytes)
{
	nvmlProcessInfo_t info[MAX_PROCESSES];
	unsigned n = MAX_PROCESSES;

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

/* Initializes NVML and counts its devices. Returns NULL if NVML cannot be used. */
static const struct nvml_api *open_nvml(unsigned *devices)
{
	const struct nvml_api *api = nvml_api(NULL);

	if (!api || !api->p_nvmlDeviceGetCount_v2 || !api->p_nvmlDeviceGetHandleByIndex_v2)
		return NULL;
	if (!nvml_open && api->p_nvmlInit_v2())
		return NULL;
	nvml_open = true;
	return api->p_nvmlDeviceGetCount_v2(devices) ? NULL : api;
}

static uint64_t least_free_memory(void)
{
	unsigned count = 0;
	const struct nvml_api *api = open_nvml(&count);
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

static bool process_memory(int pid, uint64_t *bytes)
{
	unsigned count = 0;
	const struct nvml_api *api = open_nvml(&count);
	bool any = false;

	*bytes = 0;
	if (!api || !api->p_nvmlDeviceGetComputeRunningProcesses_v3)
		return false;
	for (unsigned i = 0; i < count; i++) {
		nvmlDevice_t device;
		if (!api->p_nvmlDeviceGetHandleByIndex_v2(i, &device))
			any |= add_process_memory(api, device, pid, bytes);
	}
	return any;
}

static void process_memory_end(void)
{
	if (nvml_open)
		nvml_api(NULL)->p_nvmlShutdown();
	nvml_open = false;
}

const struct process_ops cuda_processes = {
	.memory = process_memory,
	.least_free = least_free_memory,
	.end = process_memory_end,
	.recorder = cupti_path,
};
