/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI without a GPU, beside test/gpu/fake/cuda.c, which tells it what is done: each kernel takes 2 us, each copy 1,
 * and whoever launches it waits that long: no run begins before the one before it is over.
 * Built as libcupti.so.13.
 *
 *   FAKE_CUPTI_OTHER=NAME   another subscriber has it
 *   FAKE_CUPTI_LOG=FILE     a line for each subscription and its end
 */
#include "gpu/driver/cupti_records.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default"))) int

enum { OK = 0, MOST = 100000, DEPTH = 64, AHEAD = 1000000, LAST = 12 };

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static int enabled[64];
static __thread int depth;
static __thread uint64_t stack[DEPTH]; /* as CUPTI has it: each thread one of its own */
static uint64_t cursor;
static uint32_t number;
static union slot {
	struct cupti_record record;
	struct cupti_kernel kernel;
	struct cupti_memcpy copy;
	struct cupti_external external;
} * kept;
static size_t nkept;

/* All of it but what is a thread's own: the driver tells from any thread. Not held while others are called. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say(const char *text)
{
	const char *path = getenv("FAKE_CUPTI_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (f) {
		fprintf(f, "%s\n", text);
		fclose(f);
	}
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + AHEAD;
}

static void keep(union slot s)
{
	if (!kept)
		kept = malloc(MOST * sizeof(*kept));
	if (kept && nkept < MOST && enabled[s.record.kind])
		kept[nkept++] = s;
}

/* Of the fake driver: kernel NULL: a copy; kind as CUPTI's. */
static void listen(const char *kernel, int kind, size_t bytes)
{
	uint64_t start = now(), end;

	pthread_mutex_lock(&lock);
	start = start > cursor ? start : cursor;
	number++;
	if (depth)
		keep((union slot){.external = {CUPTI_EXTERNAL_CORRELATION, CUPTI_CUSTOM0,
					       stack[depth - 1], number}});
	cursor = start + (kernel ? 2000 : 1000);
	if (kernel)
		keep((union slot){.kernel = {.kind = CUPTI_CONCURRENT_KERNEL,
					     .start = start,
					     .end = cursor,
					     .correlation = number,
					     .name = kernel}});
	else
		keep((union slot){.copy = {.kind = CUPTI_MEMCPY,
					   .copy = (uint8_t)kind,
					   .start = start,
					   .end = cursor,
					   .bytes = bytes,
					   .correlation = number}});
	end = cursor;
	pthread_mutex_unlock(&lock);
	while (now() < end)
		;
}

static void tell_driver(void (*to)(const char *, int, size_t))
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void (*_Atomic *listener)(const char *, int, size_t) =
		cuda ? dlsym(cuda, "fake_listener") : NULL;

	if (listener)
		*listener = to;
	if (cuda)
		dlclose(cuda);
}

API cuptiGetVersion(uint32_t *v)
{
	*v = 130000;
	return OK;
}

API cuptiGetResultString(int r, const char **text)
{
	*text = r ? "a failure of the fake CUPTI" : "success";
	return OK;
}

API cuptiGetTimestamp(uint64_t *t)
{
	*t = now();
	return OK;
}

API cuptiSubscribe_v2(void **s, void (*callback)(void), void *user, struct cupti_params *p)
{
	const char *other = getenv("FAKE_CUPTI_OTHER");

	(void)callback, (void)user;
	if (other) {
		snprintf(p->other, p->room, "%s", other);
		return CUPTI_TAKEN;
	}
	*s = &number;
	say("subscribe");
	return OK;
}

API cuptiSubscribe(void **s, void (*callback)(void), void *user)
{
	char other[64];

	return cuptiSubscribe_v2(s, callback, user,
				 &(struct cupti_params){.other = other, .room = 64});
}

API cuptiUnsubscribe(void *s)
{
	(void)s;
	say("unsubscribe");
	return OK;
}

API cuptiFinalize(void)
{
	tell_driver(NULL);
	return OK;
}

API cuptiActivityRegisterCallbacks(void (*r)(uint8_t **, size_t *, size_t *),
				   void (*c)(void *, uint32_t, uint8_t *, size_t, size_t))
{
	pthread_mutex_lock(&lock);
	request = r;
	complete = c;
	pthread_mutex_unlock(&lock);
	tell_driver(listen);
	return OK;
}

API cuptiActivityEnable(int kind)
{
	pthread_mutex_lock(&lock);
	enabled[kind] = 1;
	pthread_mutex_unlock(&lock);
	return OK;
}

API cuptiActivityDisable(int kind)
{
	pthread_mutex_lock(&lock);
	enabled[kind] = 0;
	pthread_mutex_unlock(&lock);
	return OK;
}

API cuptiActivityFlushAll(uint32_t flag)
{
	uint8_t *buffer = NULL;
	size_t bytes, most, at = 0;

	(void)flag;
	pthread_mutex_lock(&lock);
	union slot *mine = kept;
	size_t all = nkept;
	kept = NULL;
	nkept = 0;
	pthread_mutex_unlock(&lock);
	while (at < all) {
		request(&buffer, &bytes, &most);
		if (!buffer)
			break;
		size_t n = bytes / sizeof(*mine) < all - at ? bytes / sizeof(*mine) : all - at;
		memcpy(buffer, mine + at, n * sizeof(*mine));
		complete(NULL, 0, buffer, bytes, n * sizeof(*mine));
		at += n;
	}
	free(mine);
	return at < all ? LAST : OK;
}

API cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + sizeof(*kept) : buffer;

	if (next >= buffer + valid)
		return LAST;
	*record = next;
	return OK;
}

API cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
	(void)kind;
	stack[depth++] = id;
	return OK;
}

API cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
	(void)kind;
	*last = stack[--depth];
	return OK;
}
