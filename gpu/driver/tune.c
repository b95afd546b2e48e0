/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/tune.h"

#include "base/clock.h"
#include "gpu/driver/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { QUICK_MS = 1000, MIN_CALLS = 8, REPEATS = 3 };
/*
 * Weights are read from memory, not from the cache, in a trial if they have LARGE_WEIGHTS bytes and the other operands less than
 * MAX_OTHER_RATIO times as many.
 */
enum { LARGE_WEIGHTS = 256 << 10, MAX_OTHER_RATIO = 8 };

struct tune {
	struct arena arena;
	struct cache *cache;
	const char *folder;
	uint64_t spent, began, shown;
	unsigned known, tried, untried;
	struct event *from, *to;
	struct buffer memory;
	unsigned calls; /* in a row, that are measured together */
	bool progress;	/* the terminal shows a progress line */
};

static void drop_tune(struct device *device, void *p)
{
	struct tune *t = p;

	if (t->memory.ptr)
		cuda_free(device, &t->memory);
	if (t->from)
		cuda_event_free(t->from);
	if (t->to)
		cuda_event_free(t->to);
	(void)cache_close(t->cache, NULL);
	struct arena a = t->arena;
	arena_free(&a);
}

static int driver_version(void)
{
	int version = 0;
	const struct cuda_api *api = cuda_api(NULL);

	if (api)
		(void)api->p_cuDriverGetVersion(&version);
	return version;
}

static const char *folder_of(const struct device_facts *f, struct arena *a)
{
	return arena_printf(a, "%s-sm%d%d-%d-driver%d", f->name, f->major, f->minor, f->processors,
			    driver_version());
}

const char *tune_folder(int ordinal, struct arena *a)
{
	struct device_facts f[MAX_DEVICES];
	int n = gpu_devices(f, MAX_DEVICES, NULL);

	return ordinal >= 0 && ordinal < n ? folder_of(&f[ordinal], a) : NULL;
}

static struct tune *tune_of(struct device *device)
{
	struct tune *t = gpu_slot(device, GPU_TUNE);
	const struct run_config *config = cuda_config(device);
	const struct device_facts *f = cuda_facts(device);
	struct arena a = {0};

	if (t)
		return t;
	t = arena_new(&a, struct tune);
	t->arena = a;
	t->calls = MIN_CALLS;
	const char *root = cache_root(config->cache, &t->arena);
	t->folder = root;
	t->cache = cache_open(root, folder_of(f, &t->arena));
	gpu_slot_set(device, GPU_TUNE, t, drop_tune);
	return t;
}

const char *tune_get(struct device *device, const char *key)
{
	struct tune *t = tune_of(device);
	const char *value = cache_get(t->cache, key);

	t->known += value != NULL;
	return value;
}

void tune_put(struct device *device, const char *key, const char *value)
{
	cache_put(tune_of(device)->cache, key, value);
}

void *tune_blob_get(struct device *device, const char *key, struct arena *a, size_t *n)
{
	return cache_blob_get(tune_of(device)->cache, key, a, n);
}

void tune_blob_put(struct device *device, const char *key, const void *data, size_t n)
{
	cache_blob_put(tune_of(device)->cache, key, data, n);
}

bool tune_full(const struct device *device)
{
	return cuda_config(device)->tune == TUNE_FULL;
}

bool tune_may(struct device *device)
{
	switch (cuda_config(device)->tune) {
	case TUNE_OFF: return false;
	case TUNE_FULL: return true;
	default: return tune_of(device)->spent < QUICK_MS * UINT64_C(1000000);
	}
}

void tune_begin(struct device *device, const char *what)
{
	struct tune *t = tune_of(device);

	t->began = clock_ns();
	if (!what)
		return;
	t->tried++;
	/* Show progress on a terminal, at most five times a second. */
	if (t->began - t->shown > 200000000 && isatty(STDERR_FILENO)) {
		fprintf(stderr, "\r\033[Ktuning %u: %s", t->tried, what);
		fflush(stderr);
		t->shown = t->began;
		t->progress = true;
	}
}

void tune_end(struct device *device)
{
	struct tune *t = tune_of(device);

	t->spent += clock_ns() - t->began;
	t->calls = MIN_CALLS;
	if (t->memory.ptr)
		cuda_free(device, &t->memory);
	if (t->progress)
		fputs("\r\033[K", stderr);
	t->progress = false;
}

bool tune_skipped(struct device *device)
{
	tune_of(device)->untried++;
	return cuda_config(device)->tune == TUNE_QUICK;
}

/*
 * Fills memory with small numbers of every type, because the time of a kernel may depend on the values that it reads.
 */
static void fill_with_small_numbers(struct device *device, void *p, size_t bytes)
{
	device->api->p_cuMemsetD8Async((CUdeviceptr)p, 0x3a, bytes, device->stream.stream);
}

void *tune_memory(struct device *device, size_t bytes)
{
	struct tune *t = tune_of(device);

	int64_t limit = cuda_config(device)->memory_limit;

	if (limit > 0 && bytes > (size_t)limit)
		return NULL;
	if (t->memory.ptr && t->memory.bytes >= bytes)
		return t->memory.ptr;
	if (t->memory.ptr)
		cuda_free(device, &t->memory);
	if (cuda_alloc(device, bytes, MEM_WORKSPACE, &t->memory, NULL))
		return NULL;
	fill_with_small_numbers(device, t->memory.ptr, bytes);
	return t->memory.ptr;
}

void *tune_operands(struct device *device, struct tune_weights *w, size_t bytes, bool from_memory,
		    size_t others, size_t workspace)
{
	struct tune *t = tune_of(device);
	size_t cache = (size_t)cuda_facts(device)->l2, uncached = cache + cache / 4;

	*w = (struct tune_weights){.bytes = bytes, .copies = 1};
	if (from_memory && bytes >= LARGE_WEIGHTS && others / bytes < MAX_OTHER_RATIO &&
	    others < uncached)
		w->copies = (unsigned)((uncached - others) / bytes + 1);
	others += workspace;
	char *p = tune_memory(device, others + w->copies * bytes);
	if (!p && w->copies > 1) {
		w->copies = 1;
		p = tune_memory(device, others + bytes);
	}
	if (!p) {
		tune_skipped(device);
		return NULL;
	}
	w->at = p + others;
	t->calls = w->copies > MIN_CALLS ? w->copies : MIN_CALLS;
	return p;
}

void *tune_weights_next(struct tune_weights *w)
{
	return w->at + w->calls++ % w->copies * w->bytes;
}

/* ---- time ------------------------------------------------------------------------------------- */

struct work {
	int (*enqueue)(void *arg, struct diag *d);
	void *arg;
	unsigned calls;
	struct captured *graph; /* NULL if calls are enqueued one by one */
};

static int enqueue_all(struct device *device, const struct work *w)
{
	if (w->graph)
		return cuda_capture_launch(w->graph, cuda_stream(device), NULL);
	for (unsigned i = 0; i < w->calls; i++) {
		int err = w->enqueue(w->arg, NULL);
		if (err)
			return err;
	}
	return 0;
}

static double measure_call(struct device *device, struct tune *t, const struct work *w)
{
	struct stream *s = cuda_stream(device);
	uint64_t ns;

	if (cuda_mark(s, t->from, NULL) || enqueue_all(device, w) || cuda_mark(s, t->to, NULL) ||
	    cuda_elapsed(t->from, t->to, &ns, NULL))
		return -1;
	return (double)ns / 1000 / w->calls;
}

/* Records the calls as a CUDA graph, so that the measurement does not include the host's time. */
static void record_calls(struct device *device, struct work *w)
{
	struct stream *s = cuda_stream(device);
	int err = 0;

	if (cuda_capture_begin(s, NULL))
		return;
	for (unsigned i = 0; i < w->calls && !err; i++)
		err = w->enqueue(w->arg, NULL);
	if (cuda_capture_end(s, &w->graph, NULL) || err) {
		if (w->graph)
			cuda_capture_drop(w->graph);
		w->graph = NULL;
	}
}

double tune_time(struct device *device, int (*enqueue)(void *arg, struct diag *d), void *arg,
		 double best)
{
	struct tune *t = tune_of(device);
	struct work w = {enqueue, arg, t->calls, NULL};
	/* the more calls a measurement has, the fewer of these are needed */
	int repeats = (REPEATS * MIN_CALLS + (int)t->calls - 1) / (int)t->calls;
	double least = -1;

	if (!t->from)
		t->from = cuda_event_new(device, NULL);
	if (!t->to)
		t->to = cuda_event_new(device, NULL);
	/* The first call may load code, which must not happen inside a recording. */
	if (!t->from || !t->to || enqueue(arg, NULL) || cuda_wait(cuda_stream(device), NULL))
		return -1;
	record_calls(device, &w);
	for (int i = 0; i <= repeats; i++) {
		double us = measure_call(device, t, &w);
		if (us < 0) {
			least = -1;
			break;
		}
		if (i && (least < 0 || us < least)) /* the first measurement serves as warm-up */
			least = us;
		if (best > 0 && us > 2 * best) {
			least = us;
			break;
		}
	}
	if (w.graph)
		cuda_capture_drop(w.graph);
	return least;
}

int tune_choose(struct device *device, const char *key, const struct tune_ways *w)
{
	const char *known = tune_get(device, key);
	double best = 0;
	int way = -1;
	char value[32];

	if (known && known[0] >= '0' && known[0] < '0' + w->count &&
	    w->set(w->arg, known[0] - '0') && (!known[1] || !tune_full(device)))
		return known[0] - '0';
	if (tune_may(device)) {
		tune_begin(device, key);
		char *memory = tune_memory(device, w->bytes);
		if (memory)
			w->place(w->arg, memory);
		for (int i = 0; memory && i < w->count; i++) {
			double us = w->set(w->arg, i) ? tune_time(device, w->enqueue, w->arg, best)
						      : -1;
			if (us > 0 && (best <= 0 || us < TUNE_FASTER * best)) {
				best = us;
				way = i;
			}
		}
		tune_end(device);
	}
	bool tried = way >= 0;
	way = tried ? way : w->usual;
	snprintf(value, sizeof(value), "%d%s", way, tried ? "" : " skipped");
	if (tried || tune_skipped(device))
		tune_put(device, key, value);
	return way;
}

void tune_report(const struct device *device, struct tune_report *out)
{
	const struct tune *t = gpu_slot(device, GPU_TUNE);

	memset(out, 0, sizeof(*out));
	if (!t)
		return;
	*out = (struct tune_report){.known = t->known,
				    .tried = t->tried,
				    .untried = t->untried,
				    .seconds = (double)t->spent / 1e9,
				    .folder = t->folder,
				    .trouble = cache_trouble(t->cache)};
}
