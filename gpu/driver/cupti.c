/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/cupti.h"

#include "base/clock.h"
#include "gpu/driver/api.h"
#include "gpu/driver/cupti_records.h"
#include "gpu/driver/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 1 << 20, ALIGNMENT = 8, FLUSH_FORCED = 1, NAME_ROOM = 64 };

struct label {
	uint32_t correlation;
	uint64_t tag;
};
struct name {
	const char *theirs, *ours;
};

struct activities {
	const struct cupti_api *api;
	struct cupti_subscriber *subscriber;
	char source[32];
	/* handle of the C++ runtime library, which demangles names, or NULL if it was not found */
	void *cxx;
	char *(*demangle)(const char *, char *, size_t *, int *);
	struct arena arena; /* names */
	struct name *name;
	size_t nnames, cap_names;
	/* recorded activities; until activities_read(), their tags are CUPTI's correlation numbers */
	struct activity *v;
	size_t n, cap;
	struct label *label;
	size_t nlabels, cap_labels;
	int64_t ahead; /* CUPTI's clock minus clock_ns(), in nanoseconds */
	bool lost;     /* some records could not be kept */
};

/* CUPTI's callbacks have no user argument. Therefore the one reader of records is a global variable. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct activities *reader;

static const int kinds[] = {CUPTI_EXTERNAL_CORRELATION, CUPTI_DRIVER, CUPTI_RUNTIME,
			    CUPTI_CONCURRENT_KERNEL,	CUPTI_MEMCPY, CUPTI_MEMSET};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* ---- records */

static void provide_buffer(uint8_t **buffer, size_t *bytes, size_t *most)
{
	*most = 0;
	*buffer = aligned_alloc(ALIGNMENT, BUFFER);
	*bytes = *buffer ? BUFFER : 0;
}

/* Makes room for one more element of a growing array. Returns false if memory ran out. */
static bool room_for(void **v, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return true;
	size_t more = *cap ? *cap * 2 : 1024;
	void *p = realloc(*v, more * size);

	if (!p)
		return false;
	*v = p;
	*cap = more;
	return true;
}

static const char *demangle_name(struct activities *a, const char *name)
{
	int status = 1;
	char *text = a->demangle && name[0] == '_' ? a->demangle(name, NULL, NULL, &status) : NULL;
	const char *mine = arena_str(&a->arena, text && !status ? text : name);

	free(text);
	return mine;
}

static const char *kernel_name_of(struct activities *a, const char *theirs)
{
	if (!theirs)
		return "?";
	for (size_t i = 0; i < a->nnames; i++)
		if (a->name[i].theirs == theirs)
			return a->name[i].ours;
	if (!room_for((void **)&a->name, a->nnames, &a->cap_names, sizeof(*a->name)))
		return "?";
	a->name[a->nnames] = (struct name){theirs, demangle_name(a, theirs)};
	return a->name[a->nnames++].ours;
}

static void add_activity(struct activities *a, struct activity x)
{
	if (!room_for((void **)&a->v, a->n, &a->cap, sizeof(*a->v))) {
		a->lost = true;
		return;
	}
	x.start = (uint64_t)((int64_t)x.start - a->ahead);
	x.end = (uint64_t)((int64_t)x.end - a->ahead);
	a->v[a->n++] = x;
}

static void add_label(struct activities *a, const struct cupti_external *e)
{
	if (e->of != CUPTI_CUSTOM0)
		return;
	if (!room_for((void **)&a->label, a->nlabels, &a->cap_labels, sizeof(*a->label))) {
		a->lost = true;
		return;
	}
	a->label[a->nlabels++] = (struct label){e->correlation, e->id};
}

static void take_record(struct activities *a, const void *record)
{
	const struct cupti_kernel *k = record;
	const struct cupti_memcpy *c = record;
	const struct cupti_memset *s = record;
	uint32_t kind = ((const struct cupti_record *)record)->kind;

	if (kind == CUPTI_CONCURRENT_KERNEL)
		add_activity(a, (struct activity){.start = k->start,
						  .end = k->end,
						  .tag = k->correlation,
						  .name = kernel_name_of(a, k->name),
						  .kind = ACTIVITY_KERNEL});
	else if (kind == CUPTI_MEMCPY)
		add_activity(a, (struct activity){.start = c->start,
						  .end = c->end,
						  .tag = c->correlation,
						  .bytes = c->bytes,
						  .kind = c->copy == CUPTI_HTOD ? ACTIVITY_TO_DEVICE
							  : c->copy == CUPTI_DTOH ? ACTIVITY_TO_HOST
										  : ACTIVITY_COPY});
	else if (kind == CUPTI_MEMSET)
		add_activity(a, (struct activity){.start = s->start,
						  .end = s->end,
						  .tag = s->correlation,
						  .bytes = s->bytes,
						  .kind = ACTIVITY_SET});
	else if (kind == CUPTI_EXTERNAL_CORRELATION)
		add_label(a, record);
}

static void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	void *record = NULL;

	(void)context, (void)stream, (void)bytes;
	pthread_mutex_lock(&lock);
	while (reader && valid && !reader->api->p_cuptiActivityGetNextRecord(buffer, valid, &record))
		take_record(reader, record);
	pthread_mutex_unlock(&lock);
	free(buffer);
}

/* ---- opening */

static void ignore_callback(void)
{
}

/* Subscribes to CUPTI. CUPTI allows one subscriber only, because two users would take each other's records. */
static int subscribe(struct activities *a, struct diag *d)
{
	char other[NAME_ROOM + 1] = "";
	struct cupti_params p = {
		.bytes = sizeof(p), .name = "infer", .other = other, .room = NAME_ROOM};
	int r = a->api->p_cuptiSubscribe_v2
			? a->api->p_cuptiSubscribe_v2(&a->subscriber, ignore_callback, NULL, &p)
			: a->api->p_cuptiSubscribe(&a->subscriber, ignore_callback, NULL);
	const char *text = NULL;

	if (!r)
		return 0;
	if (r == CUPTI_TAKEN)
		return FAIL(d, E_LIBRARY,
			    .message = *other ? fmt(d, "CUPTI is taken by '%s'", other)
					      : "CUPTI is taken by another tool",
			    .hint = "run without it to see kernels");
	a->api->p_cuptiGetResultString(r, &text);
	return FAIL(d, E_LIBRARY,
		    .message = fmt(d, "CUPTI cannot be used: %s", text ? text : "no reason given"));
}

static void measure_ahead(struct activities *a)
{
	uint64_t best = UINT64_MAX, theirs = 0;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_ns();
		a->api->p_cuptiGetTimestamp(&theirs);
		uint64_t after = clock_ns();
		if (after - before < best) {
			best = after - before;
			a->ahead = (int64_t)theirs - (int64_t)(before + best / 2);
		}
	}
}

static int enable(struct activities *a, struct diag *d)
{
	const char *text = NULL;
	int r = a->api->p_cuptiActivityRegisterCallbacks(provide_buffer, take_buffer);

	for (int i = 0; !r && i < KINDS; i++)
		r = a->api->p_cuptiActivityEnable(kinds[i]);
	if (!r)
		return 0;
	a->api->p_cuptiGetResultString(r, &text);
	return FAIL(d, E_LIBRARY,
		    .message = fmt(d, "CUPTI records no activity: %s",
				   text ? text : "no reason given"));
}

static void name_source(struct activities *a)
{
	uint32_t v = 0;

	a->api->p_cuptiGetVersion(&v);
	if (v >= 10000)
		snprintf(a->source, sizeof(a->source), "CUPTI %u.%u", v / 10000, v % 10000 / 100);
	else
		snprintf(a->source, sizeof(a->source), "CUPTI %u", v);
}

/*
 * Finds the C++ runtime library to demangle the names of kernels, which are C++ names. It is installed wherever CUDA's
 * libraries run.
 */
static void find_demangler(struct activities *a)
{
	a->cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (a->cxx)
		*(void **)&a->demangle = dlsym(a->cxx, "__cxa_demangle");
}

static void activities_close(struct activities *a)
{
	if (!a)
		return;
	for (int i = 0; i < KINDS; i++)
		a->api->p_cuptiActivityDisable(kinds[i]);
	a->api->p_cuptiActivityFlushAll(FLUSH_FORCED);
	pthread_mutex_lock(&lock);
	reader = NULL;
	pthread_mutex_unlock(&lock);
	a->api->p_cuptiUnsubscribe(a->subscriber);
	/* after this call the driver no longer calls our callbacks */
	if (a->api->p_cuptiFinalize)
		a->api->p_cuptiFinalize();
	if (a->cxx)
		dlclose(a->cxx);
	free(a->v);
	free(a->label);
	free(a->name);
	arena_free(&a->arena);
	free(a);
}

static struct activities *activities_open(struct diag *d)
{
	const struct cupti_api *api = cupti_api(d);
	struct activities *a = api ? calloc(1, sizeof(*a)) : NULL;

	if (!a)
		return NULL;
	a->api = api;
	name_source(a);
	if (subscribe(a, d)) {
		free(a);
		return NULL;
	}
	measure_ahead(a);
	find_demangler(a);
	pthread_mutex_lock(&lock);
	reader = a;
	pthread_mutex_unlock(&lock);
	if (enable(a, d)) {
		activities_close(a);
		return NULL;
	}
	return a;
}

static const char *activities_source(const struct activities *a)
{
	return a->source;
}

static void activities_push(struct activities *a, uint64_t tag)
{
	a->api->p_cuptiActivityPushExternalCorrelationId(CUPTI_CUSTOM0, tag);
}

static void activities_pop(struct activities *a)
{
	uint64_t last;

	a->api->p_cuptiActivityPopExternalCorrelationId(CUPTI_CUSTOM0, &last);
}

/* ---- reading */

static int by_correlation(const void *x, const void *y)
{
	const struct label *a = x, *b = y;

	return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

static int by_start(const void *x, const void *y)
{
	const struct activity *a = x, *b = y;

	return a->start < b->start ? -1 : a->start > b->start;
}

static int activities_read(struct activities *a, const struct activity **v, size_t *n, struct diag *d)
{
	int r = a->api->p_cuptiActivityFlushAll(FLUSH_FORCED);

	pthread_mutex_lock(&lock);
	if (a->nlabels)
		qsort(a->label, a->nlabels, sizeof(*a->label), by_correlation);
	for (size_t i = 0; i < a->n; i++) {
		struct label key = {.correlation = (uint32_t)a->v[i].tag};
		const struct label *l =
			a->nlabels ? bsearch(&key, a->label, a->nlabels, sizeof(key), by_correlation)
				   : NULL;
		a->v[i].tag = l ? l->tag : 0;
	}
	if (a->n)
		qsort(a->v, a->n, sizeof(*a->v), by_start);
	*v = a->v;
	*n = a->n;
	/* the caller reads this array before it queues more work, and only new work overwrites it */
	a->n = a->nlabels = 0;
	pthread_mutex_unlock(&lock);
	return r || a->lost ? FAIL(d, E_LIBRARY, .message = "CUPTI's records could not be read") : 0;
}

const struct activity_ops cupti_activities = {
	.open = activities_open,
	.close = activities_close,
	.source = activities_source,
	.push = activities_push,
	.pop = activities_pop,
	.read = activities_read,
};
