/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes devices, waits for them, and answers questions about them. */
#include "gpu/driver/device.h"

#include "gpu/driver/nvml.h"

#include <stdlib.h>
#include <string.h>

struct gpu_grid gpu_grid(int64_t n)
{
	int64_t blocks = (n + 255) / 256;

	return (struct gpu_grid){(unsigned)(blocks < 1	       ? 1
					    : blocks > 1 << 20 ? 1 << 20
							       : blocks),
				 1, 1, 256, 0};
}

static const char *describe_kernels(const struct device_facts *f)
{
	bool ptx;

	if (!gpu_has_code(f, &ptx))
		return "no kernels";
	return ptx ? "PTX code, which the driver compiles at first use," : "kernels";
}

int cuda_probe(struct device_info *info, int max, struct diag *why)
{
	struct device_facts f[MAX_DEVICES];
	int n = gpu_devices(f, max < MAX_DEVICES ? max : MAX_DEVICES, why);

	for (int k = 0; k < n; k++) {
		info[k] = (struct device_info){.ordinal = k,
					       .memory = f[k].memory,
					       .kernels = describe_kernels(&f[k]),
					       .compute_major = f[k].major,
					       .compute_minor = f[k].minor,
					       .multiprocessors = f[k].processors};
		memcpy(info[k].name, f[k].name, sizeof(info[k].name));
	}
	return n;
}

void cuda_describe(const struct device *dev, struct device_description *out, struct arena *a)
{
	char versions[256], release[96];

	libraries_versions(versions, sizeof(versions));
	size_t n = strcspn(versions, ","); /* the driver's version comes first */
	*out = (struct device_description){
		.name = arena_str(a, dev->facts.name),
		.driver = arena_strn(a, versions, n),
		.libraries = arena_str(a, versions + n + strspn(versions + n, ", "))};
	if (driver_release(release, sizeof(release)))
		out->driver = arena_printf(a, "%s, release %s", out->driver, release);
}

bool launches_block(void)
{
	const char *s = getenv("CUDA_LAUNCH_BLOCKING");

	return s && *s && strcmp(s, "0") != 0;
}

void cuda_configure(struct run_config *config)
{
	if (launches_block())
		config->sync = SYNC_LAUNCH;
}

static void drop_slot(struct device *dev, int i)
{
	if (dev->slot[i].p && dev->slot[i].drop)
		dev->slot[i].drop(dev, dev->slot[i].p);
	dev->slot[i].p = NULL;
}

static void drop_slots(struct device *dev)
{
	for (int i = GPU_SLOTS;
	     /* in reverse order, because plans must be freed before the libraries that made them */
	     i-- > 0;)
		drop_slot(dev, i);
}

/* Subtracts the sizes measured for this device from the memory counters. */
static void uncount_memory(struct device *dev)
{
	for (int p = 0; p < MEM_PURPOSES; p++)
		if (dev->noted[p])
			mem_note(MEM_DEVICE, (enum mem_purpose)p, -(int64_t)dev->noted[p]);
}

void cuda_close(struct device *dev)
{
	bool pushed = false;

	if (!dev)
		return;
	libraries_keep();
	/* If the context was destroyed, its memory and handles are gone as well and must not be freed. */
	if (dev->context && !dev->lost && device_alive(dev) == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		dev->lost = true;
	if (dev->context && !cuda_enter(dev, &pushed, NULL)) {
		if (dev->stream.stream)
			dev->api->p_cuStreamSynchronize(dev->stream.stream);
		drop_slots(dev);
		if (dev->stream.stream && !dev->stream.borrowed)
			dev->api->p_cuStreamDestroy(dev->stream.stream);
		modules_free(dev);
		if (dev->fault)
			dev->api->p_cuMemFreeHost(dev->fault);
		stages_free(dev);
		cuda_leave(dev, pushed);
	} else {
		/*
		 * The context is lost. Memory of libraries in it cannot be freed; only our own memory on the host can.
		 */
		drop_slots(dev);
		stages_free(dev);
	}
	listing_free(dev, dev->stream.spare);
	uncount_memory(dev);
	device_close_context(dev);
	struct arena a = dev->arena;
	arena_free(&a);
}

static int do_not_wait(struct device *dev, struct diag *d)
{
	(void)dev, (void)d;
	return 0;
}

static int open_stream(struct device *dev, struct diag *d)
{
	uint64_t unused, total;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuStreamCreate(&dev->stream.stream, CU_STREAM_NON_BLOCKING);
	if (!r)
		r = dev->api->p_cuMemAllocHost((void **)&dev->fault, sizeof(*dev->fault));
	if (!r)
		*dev->fault = 0;
	/* The memory in use is assumed to belong to the context. This holds if nothing else uses the device. */
	if (!r && !cuda_memory(dev, &unused, &total, NULL) &&
	    !mem_count(MEM_DEVICE, MEM_CONTEXT).live) {
		dev->noted[MEM_CONTEXT] = total - unused;
		mem_note(MEM_DEVICE, MEM_CONTEXT, (int64_t)(total - unused));
	}
	cuda_leave(dev, pushed);
	return r ? cuda_failed(dev, (int)r, "opening the device", d) : 0;
}

static struct device *new_device(const struct device_facts *facts, const struct run_config *config,
				 struct diag *d)
{
	static const struct run_config plain = {.memory_plan = true, .arena = true};
	struct arena a = {0};
	struct device *dev = arena_new(&a, struct device);

	*dev = (struct device){
		.api = cuda_api(d), .facts = *facts, .config = config ? config : &plain, .arena = a};
	dev->functions.arena = &dev->arena;
	dev->stream.device = dev;
	dev->early = gpu_can_launch_early(&dev->facts);
	dev->launched = dev->config->sync == SYNC_LAUNCH ? device_wait : do_not_wait;
	return dev;
}

struct device *cuda_open(int ordinal, const struct run_config *config, struct diag *d)
{
	struct device_facts f[MAX_DEVICES];
	int n = gpu_devices(f, MAX_DEVICES, d);

	if (!n)
		return NULL;
	if (ordinal < 0 || ordinal >= n) {
		FAIL(d, E_DEVICE, .expected = fmt(d, "cuda:0 to cuda:%d", n - 1),
		     .actual = fmt(d, "cuda:%d", ordinal));
		return NULL;
	}
	if (gpu_check_code(&f[ordinal], d))
		return NULL;
	struct device *dev = new_device(&f[ordinal], config, d);
	if (device_open_context(dev, d) || open_stream(dev, d)) {
		cuda_close(dev);
		return NULL;
	}
	return dev;
}

int cuda_wait(struct stream *s, struct diag *d)
{
	bool pushed;
	int err = cuda_enter(s->device, &pushed, d);

	if (err)
		return err;
	err = device_wait(s->device, d);
	cuda_leave(s->device, pushed);
	return err;
}

int cuda_check(struct stream *s, struct diag *d)
{
	bool pushed;
	int err = cuda_enter(s->device, &pushed, d);

	if (err)
		return err;
	CUresult r = s->device->api->p_cuStreamQuery(s->stream);
	cuda_leave(s->device, pushed);
	return r && r != CUDA_ERROR_NOT_READY
		       ? cuda_failed(s->device, (int)r, "a look at queued work", d)
		       : 0;
}

bool cuda_lost(const struct device *dev)
{
	return dev->lost;
}

/* ---- what wrappers of libraries ask for --------------------------------------------------------- */

struct stream *cuda_stream(struct device *device)
{
	return &device->stream;
}

struct device *cuda_device(struct stream *stream)
{
	return stream->device;
}

void *cuda_stream_handle(const struct stream *stream)
{
	return stream->stream;
}

const struct device_facts *cuda_facts(const struct device *device)
{
	return &device->facts;
}

const struct run_config *cuda_config(const struct device *device)
{
	return device->config;
}

void *gpu_slot(const struct device *device, enum gpu_slot slot)
{
	return device->slot[slot].p;
}

void gpu_slot_set(struct device *device, enum gpu_slot slot, void *p,
		  void (*drop)(struct device *, void *))
{
	device->slot[slot].p = p;
	device->slot[slot].drop = drop;
}
