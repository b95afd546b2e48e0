/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/nvml.h"

#include "base/clock.h"
#include "gpu/driver/api.h"
#include "gpu/driver/device.h"

#include <pthread.h>
#include <stdlib.h>

enum { SM = 1, MEMORY = 2, CORE = 0 }; /* NVML's numbers of clocks and sensors */

struct clock_watch {
	const struct nvml_api *api;
	char bus[32];
	nvmlDevice_t device;
	uint64_t every;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool over;
	struct clock_sample *v;
	size_t n, cap;
	struct clock_limits limits;
};

static void take_sample(struct clock_watch *w)
{
	const struct nvml_api *api = w->api;
	struct clock_sample x = {.at = clock_ns()};
	unsigned milliwatts = 0;
	unsigned long long reasons = 0;

	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct clock_sample *v = realloc(w->v, cap * sizeof(*v));
		if (!v)
			return;
		w->v = v;
		w->cap = cap;
	}
	if (api->p_nvmlDeviceGetClockInfo(w->device, SM, &x.sm))
		return;
	api->p_nvmlDeviceGetClockInfo(w->device, MEMORY, &x.memory);
	if (api->p_nvmlDeviceGetTemperature)
		api->p_nvmlDeviceGetTemperature(w->device, CORE, &x.celsius);
	if (api->p_nvmlDeviceGetPowerUsage)
		api->p_nvmlDeviceGetPowerUsage(w->device, &milliwatts);
	if (api->p_nvmlDeviceGetCurrentClocksThrottleReasons)
		api->p_nvmlDeviceGetCurrentClocksThrottleReasons(w->device, &reasons);
	x.watts = milliwatts / 1e3;
	x.reasons = reasons;
	w->v[w->n++] = x;
}

static void read_limits(struct clock_watch *w)
{
	unsigned milliwatts = 0;

	if (w->api->p_nvmlDeviceGetMaxClockInfo) {
		w->api->p_nvmlDeviceGetMaxClockInfo(w->device, SM, &w->limits.sm);
		w->api->p_nvmlDeviceGetMaxClockInfo(w->device, MEMORY, &w->limits.memory);
	}
	if (w->api->p_nvmlDeviceGetEnforcedPowerLimit)
		w->api->p_nvmlDeviceGetEnforcedPowerLimit(w->device, &milliwatts);
	w->limits.watts = milliwatts / 1e3;
}

/* Waits until the next sample is due. Returns true if the watch shall end. */
static bool wait_for_next(struct clock_watch *w)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	uint64_t ns = (uint64_t)until.tv_nsec + w->every;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	pthread_mutex_lock(&w->lock);
	while (!w->over && !r)
		r = pthread_cond_timedwait(&w->wake, &w->lock, &until);
	bool over = w->over;
	pthread_mutex_unlock(&w->lock);
	return over;
}

static void *watch_clocks(void *arg)
{
	struct clock_watch *w = arg;

	if (w->api->p_nvmlInit_v2())
		return NULL;
	if (!w->api->p_nvmlDeviceGetHandleByPciBusId_v2(w->bus, &w->device)) {
		read_limits(w);
		while (!wait_for_next(w))
			take_sample(w);
		take_sample(w);
	}
	w->api->p_nvmlShutdown();
	return NULL;
}

static struct clock_watch *clock_watch_begin(const struct device *device, uint64_t every_ns)
{
	const struct nvml_api *api = nvml_api(NULL);
	pthread_condattr_t attr;

	if (!api || !api->p_nvmlDeviceGetHandleByPciBusId_v2 || !api->p_nvmlDeviceGetClockInfo ||
	    !device || !device->api->p_cuDeviceGetPCIBusId)
		return NULL;
	struct clock_watch *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->api = api;
	w->every = every_ns;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (device->api->p_cuDeviceGetPCIBusId(w->bus, sizeof(w->bus), device->id) ||
	    pthread_create(&w->thread, NULL, watch_clocks, w)) {
		pthread_cond_destroy(&w->wake);
		pthread_mutex_destroy(&w->lock);
		free(w);
		return NULL;
	}
	return w;
}

static struct clock_sample *clock_watch_end(struct clock_watch *w, size_t *n,
					    struct clock_limits *limits)
{
	*n = 0;
	if (!w)
		return NULL;
	pthread_mutex_lock(&w->lock);
	w->over = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	struct clock_sample *v = w->v;
	*n = w->n;
	*limits = w->limits;
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return v;
}

const struct clock_ops nvml_clocks = {.begin = clock_watch_begin, .end = clock_watch_end};

bool driver_release(char *out, size_t room)
{
	const struct nvml_api *api = nvml_api(NULL);

	if (!api || api->p_nvmlInit_v2())
		return false;
	bool good = !api->p_nvmlSystemGetDriverVersion(out, (unsigned)room);
	api->p_nvmlShutdown();
	return good;
}
