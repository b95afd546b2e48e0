/* SPDX-License-Identifier: Apache-2.0 */
/* Asks NVML how much device memory is in use. We cannot ask the driver, because we must not call CUDA in a callback. */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <unistd.h>

/* NVML's types are declared here because not every CUDA toolkit has the header of NVML. */
typedef struct nvmlDevice_st *device_handle;
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};

enum { MAX_DEVICES = 64, MAX_PROCESSES = 256 };
static struct {
	bool tried, open;
	int lock;
	int (*init)(void);
	int (*count)(unsigned *);
	int (*device)(unsigned, device_handle *);
	int (*memory)(device_handle, struct nvml_memory *);
	int (*processes)(device_handle, unsigned *, struct nvml_process *);
} nvml;

static void open_nvml(void)
{
	void *h = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!h)
		return;
	*(void **)&nvml.init = dlsym(h, "nvmlInit_v2");
	*(void **)&nvml.count = dlsym(h, "nvmlDeviceGetCount_v2");
	*(void **)&nvml.device = dlsym(h, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&nvml.memory = dlsym(h, "nvmlDeviceGetMemoryInfo");
	*(void **)&nvml.processes = dlsym(h, "nvmlDeviceGetComputeRunningProcesses_v3");
	nvml.open = nvml.init && nvml.count && nvml.device && nvml.memory && nvml.processes &&
		    nvml.init() == 0;
}

static void add_device(unsigned i, struct cost *c)
{
	/* static because the array is large for a stack; the lock in cost_now() admits one thread at a time */
	static struct nvml_process process[MAX_PROCESSES];
	struct nvml_memory m;
	device_handle d;
	unsigned n = MAX_PROCESSES;

	if (nvml.device(i, &d) || nvml.memory(d, &m))
		return;
	c->known = true;
	c->devices += m.used;
	if (nvml.processes(d, &n, process))
		return;
	for (unsigned k = 0; k < n && k < MAX_PROCESSES; k++) {
		if (process[k].pid == (unsigned)getpid() && process[k].bytes != UINT64_MAX) {
			c->own = true;
			c->process += process[k].bytes;
		}
	}
}

struct cost cost_now(void)
{
	struct cost c = {0};
	unsigned n = 0;

	if (!lock_try(&nvml.lock))
		return c; /* another thread is creating a context: we could not tell the two costs apart */
	if (!nvml.tried)
		open_nvml();
	nvml.tried = true;
	if (nvml.open && nvml.count(&n) == 0)
		for (unsigned i = 0; i < n && i < MAX_DEVICES; i++)
			add_device(i, &c);
	lock_give(&nvml.lock);
	return c;
}

bool cost_between(const struct cost *before, const struct cost *after, int64_t *bytes, bool *own)
{
	if (!before->known || !after->known)
		return false;
	*own = after->own;
	*bytes = after->own ? (int64_t)(after->process - before->process)
			    : (int64_t)(after->devices - before->devices);
	return *bytes > 0;
}
