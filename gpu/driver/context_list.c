/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/context_list.h"

#include "backend/observe.h"
#include "gpu/driver/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *schedule_name(unsigned flags)
{
	switch (flags & CU_CTX_SCHED_MASK) {
	case CU_CTX_SCHED_SPIN: return "spins";
	case CU_CTX_SCHED_YIELD: return "yields";
	case CU_CTX_SCHED_BLOCKING_SYNC: return "blocks";
	default: return "as the driver chooses";
	}
}

static void process_name(struct device_process *p)
{
	char path[40];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", p->pid);
	f = fopen(path, "re");
	if (f && fgets(p->name, sizeof(p->name), f))
		p->name[strcspn(p->name, "\n")] = '\0';
	if (f)
		fclose(f);
}

static void add_process(struct device_contexts *out, unsigned pid, uint64_t memory)
{
	const unsigned most = sizeof(out->process) / sizeof(*out->process);
	/* NVML reports this value if it may not tell the size, for example in a container */
	const uint64_t unknown = UINT64_MAX;

	if (memory == unknown)
		memory = 0;
	if (pid == (unsigned)getpid()) {
		out->ours = memory;
		return;
	}
	for (unsigned i = 0; i < out->nprocesses; i++)
		if (out->process[i].pid == pid)
			return;
	if (out->nprocesses == most)
		return;
	struct device_process *p = &out->process[out->nprocesses++];
	*p = (struct device_process){.pid = pid, .memory = memory};
	process_name(p);
}

static int add_processes(const struct nvml_api *api, nvmlDevice_t device, struct device_contexts *out)
{
	nvmlProcessInfo_t info[64];
	unsigned n = sizeof(info) / sizeof(*info);
	int r = api->p_nvmlDeviceGetComputeRunningProcesses_v3(device, &n, info);

	for (unsigned i = 0; !r && i < n; i++)
		add_process(out, info[i].pid, info[i].usedGpuMemory);
	n = sizeof(info) / sizeof(*info);
	if (!r && api->p_nvmlDeviceGetGraphicsRunningProcesses_v3 &&
	    !api->p_nvmlDeviceGetGraphicsRunningProcesses_v3(device, &n, info))
		for (unsigned i = 0; i < n; i++)
			add_process(out, info[i].pid, info[i].usedGpuMemory);
	return r;
}

/* Finds the device by its PCI address, because NVML numbers devices in another order than CUDA. */
static void list_processes(struct device *dev, struct device_contexts *out, struct diag *d)
{
	const struct nvml_api *api = nvml_api(NULL);
	nvmlDevice_t device;
	char bus[32] = "";

	if (!api) {
		out->no_list = "NVML is not there";
		return;
	}
	if (!api->p_nvmlDeviceGetHandleByPciBusId_v2 ||
	    !api->p_nvmlDeviceGetComputeRunningProcesses_v3 || !dev->api->p_cuDeviceGetPCIBusId) {
		out->no_list = "the driver is too old";
		return;
	}
	int r = api->p_nvmlInit_v2();
	if (!r) {
		r = dev->api->p_cuDeviceGetPCIBusId(bus, sizeof(bus), dev->id)
			    ? -1
			    : api->p_nvmlDeviceGetHandleByPciBusId_v2(bus, &device);
		r = r ? r : add_processes(api, device, out);
		api->p_nvmlShutdown();
	}
	if (r)
		out->no_list = fmt(d, "NVML refuses it (%d)", r);
}

int cuda_contexts(struct device *dev, struct device_contexts *out, struct diag *d)
{
	CUcontext now = NULL;
	int active = 0;

	*out = (struct device_contexts){.own = dev->own, .session = dev->context, .woken = dev->woken};
	CUresult r = dev->api->p_cuCtxGetCurrent(&now);
	if (!r)
		r = dev->api->p_cuDevicePrimaryCtxGetState(dev->id, &out->primary_flags, &active);
	if (r)
		return cuda_failed(dev, (int)r, "asking for the contexts' state", d);
	out->current = now;
	out->primary_active = active;
	out->schedule = schedule_name(out->primary_flags);
	out->host_memory = out->primary_flags & CU_CTX_MAP_HOST;
	out->blocked = launches_block();
	list_processes(dev, out, d);
	return 0;
}
