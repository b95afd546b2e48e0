/* SPDX-License-Identifier: Apache-2.0 */
/* Where the driver comes in. */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CUPTI_FUNCTIONS(F)                                                                         \
	F(cuptiSubscribe)                                                                          \
	F(cuptiUnsubscribe)                                                                        \
	F(cuptiEnableCallback)                                                                     \
	F(cuptiEnableDomain)                                                                       \
	F(cuptiGetVersion)                                                                         \
	F(cuptiGetResultString)

#define MEMBER(f) __typeof__(&f) p_##f;
static struct {
	CUPTI_FUNCTIONS(MEMBER)
	/* newer than some libraries; it names who else listens */
	__typeof__(&cuptiSubscribe_v2) p_cuptiSubscribe_v2;
} cupti;
#undef MEMBER

/* Ours, while we listen. */
static CUpti_SubscriberHandle subscriber;
static bool listening;

/* The copy that the program has loaded already, else the one that `infer` found. */
static void *open_cupti(void)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", NULL};
	const char *path = getenv(WATCH_CUPTI_VARIABLE);
	void *h = NULL;

	for (int i = 0; names[i] && !h; i++)
		h = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	if (!h && path && *path)
		h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; names[i] && !h; i++)
		h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return h;
}

static bool load_cupti(char *why, size_t room)
{
	void *h = open_cupti();
	const char *missing = NULL;

	if (!h) {
		snprintf(why, room, "%s", dlerror());
		return false;
	}
#define LOAD(f)                                                                                    \
	*(void **)&cupti.p_##f = dlsym(h, #f);                                                     \
	if (!cupti.p_##f)                                                                          \
		missing = #f;
	CUPTI_FUNCTIONS(LOAD)
#undef LOAD
	*(void **)&cupti.p_cuptiSubscribe_v2 = dlsym(h, "cuptiSubscribe_v2");
	if (missing)
		snprintf(why, room, "libcupti has no %s", missing);
	return !missing;
}

static void on_resource(CUpti_CallbackId id, const CUpti_ResourceData *r)
{
	if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED ||
	    id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
		objects_context(r->context, id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	else if (id == CUPTI_CBID_RESOURCE_STREAM_CREATED ||
		 id == CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING)
		objects_stream(r->context, r->resourceHandle.stream,
			       id == CUPTI_CBID_RESOURCE_STREAM_CREATED);
}

/* CUDA does not work in a child of fork; it may run on without. */
static bool forked;

bool inject_forked(void)
{
	return forked;
}

static void in_child(void)
{
	forked = true;
	record_forked();
}

/* What makes use of CUDA: what only tears down fails in a forked child, too, and nobody minds. */
static bool uses(const char *call)
{
	static const char *const calls[] = {
		"cuInit",	 "cuCtxCreate",	   "cuDevicePrimaryCtxRetain",
		"cuMemAlloc",	 "cuMemHost",	   "cuMemCreate",
		"cuMemcpy",	 "cuMemset",	   "cuLaunch",
		"cuGraphLaunch", "cuStreamCreate", "cuModuleLoad",
		"cuLibraryLoad"};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (strncmp(call, calls[i], strlen(calls[i])) == 0)
			return true;
	return false;
}

/* Once: into the parent's log, without a lock, since the threads that hold them are not here. */
static void forked_call(const CUpti_CallbackData *c)
{
	static bool told;
	struct line l;
	int result = *(const int *)c->functionReturnValue;

	if (!result || result == CUDA_ERROR_NOT_READY || !uses(c->functionName) ||
	    __atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return;
	line_begin(&l, "forked");
	line_number(&l, "child", getpid());
	line_text(&l, "call", c->functionName);
	line_number(&l, "result", result);
	line_end(&l);
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	const CUpti_CallbackData *c = data;

	(void)user;
	if (forked) {
		if (domain == CUPTI_CB_DOMAIN_DRIVER_API && c->callbackSite == CUPTI_API_EXIT)
			forked_call(c);
		return;
	}
	if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		on_resource(id, data);
	else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && c->callbackSite == CUPTI_API_EXIT)
		failures_runtime(id, c, *(const int *)c->functionReturnValue);
	else if (domain != CUPTI_CB_DOMAIN_DRIVER_API)
		return;
	else if (c->callbackSite == CUPTI_API_ENTER)
		calls_enter(id, c);
	else
		calls_exit(id, c, *(const CUresult *)c->functionReturnValue);
}

static CUptiResult subscribe(CUpti_SubscriberHandle *s, char *other)
{
	CUpti_SubscriberParams p = {
		.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
		.subscriberName = "infer",
		.oldSubscriberName = other,
		.oldSubscriberSize = CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN,
	};

	if (cupti.p_cuptiSubscribe_v2)
		return cupti.p_cuptiSubscribe_v2(s, (CUpti_CallbackFunc)on_callback, NULL, &p);
	return cupti.p_cuptiSubscribe(s, (CUpti_CallbackFunc)on_callback, NULL);
}

static void say_start(CUptiResult result, const char *why, const char *other)
{
	struct line l;
	uint32_t version = 0;
	char exe[1024];
	FILE *f = fopen("/proc/self/comm", "re");
	size_t n = f ? fread(exe, 1, sizeof(exe) - 1, f) : 0;

	exe[n && exe[n - 1] == '\n' ? n - 1 : n] = '\0';
	if (f)
		fclose(f);
	if (cupti.p_cuptiGetVersion)
		cupti.p_cuptiGetVersion(&version);
	line_begin(&l, "start");
	line_text(&l, "program", exe);
	line_number(&l, "cupti", version);
	line_number(&l, "result", (int64_t)result);
	line_text(&l, "why", why);
	line_text(&l, "other", other);
	line_end(&l);
}

static unsigned listened; /* enum watch_what */

static void enable_runtime(bool failed)
{
	for (CUpti_CallbackId id = 1; id < CUPTI_RUNTIME_TRACE_CBID_SIZE; id++)
		if (calls_wanted_runtime(id, listened, failed))
			cupti.p_cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, id);
}

void inject_listen_closely(void)
{
	static bool closely;

	if (__atomic_load_n(&listening, __ATOMIC_ACQUIRE) &&
	    !__atomic_exchange_n(&closely, true, __ATOMIC_RELAXED))
		enable_runtime(true);
}

/* Where contexts are wanted, from now on: each of these calls, once. */
static void enable_more(bool (*which)(CUpti_CallbackId), bool *done)
{
	if (!(listened & WATCH_CONTEXTS) || !__atomic_load_n(&listening, __ATOMIC_ACQUIRE) ||
	    __atomic_exchange_n(done, true, __ATOMIC_RELAXED))
		return;
	for (CUpti_CallbackId id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; id++)
		if (which(id))
			cupti.p_cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
}

void inject_contexts_meet(void)
{
	static bool met;

	enable_more(calls_cross, &met);
}

void inject_context_gone(void)
{
	static bool gone;

	enable_more(operands_some, &gone);
}

static void enable(CUpti_SubscriberHandle s, unsigned what)
{
	static const CUpti_CallbackId resources[] = {
		CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		CUPTI_CBID_RESOURCE_STREAM_CREATED, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING};

	for (size_t i = 0; i < sizeof(resources) / sizeof(*resources); i++)
		cupti.p_cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_RESOURCE, resources[i]);
	for (CUpti_CallbackId id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; id++)
		if (calls_wanted(id, what))
			cupti.p_cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API, id);
	enable_runtime(false);
	if (what & WATCH_CLOSELY)
		inject_listen_closely();
}

static bool ending;

bool inject_ending(void)
{
	return __atomic_load_n(&ending, __ATOMIC_RELAXED);
}

static void at_end(void)
{
	if (forked)
		return;
	__atomic_store_n(&ending, true, __ATOMIC_RELAXED);
	failures_finish();
	record_close();
}

/* ---- an end in order without handlers, as that of multiprocessing's children */

static void (*next_exit)(int);

__attribute__((constructor)) static void exit_start(void)
{
	*(void **)&next_exit = dlsym(RTLD_NEXT, "_exit");
}

/* It may be called in a handler, on a stack of next to nothing, and in a child that has our memory. */
static _Noreturn void leave(int status)
{
	struct watch_shared *s = record_shared();

	if (s && s->pid == (int32_t)getpid())
		__atomic_store_n(&s->exited, 1, __ATOMIC_RELAXED);
	if (next_exit)
		next_exit(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

EXPORT void _exit(int status)
{
	leave(status);
}

EXPORT void _Exit(int status)
{
	leave(status);
}

/* ---- another client of CUPTI's in the program: it needs what we have, and is given it */

static void yield_to(void)
{
	char by[WATCH_BY];
	struct line l;

	if (forked || !__atomic_exchange_n(&listening, false, __ATOMIC_ACQ_REL))
		return;
	line_begin(&l, "yield");
	line_text(&l, "by", caller_name(by, sizeof(by)));
	line_end(&l);
	failures_finish();
	cupti.p_cuptiUnsubscribe(subscriber);
}

/* The library's own; these names are found before it only where this one was loaded before the program. */
static void *behind(const char *name)
{
	void *h = open_cupti();

	return h ? dlsym(h, name) : NULL;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *s, CUpti_CallbackFunc callback, void *user)
{
	CUptiResult (*real)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);

	*(void **)&real = behind("cuptiSubscribe");
	yield_to();
	return real ? real(s, callback, user) : CUPTI_ERROR_NOT_INITIALIZED;
}

EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *s, CUpti_CallbackFunc callback,
				     void *user, CUpti_SubscriberParams *params)
{
	CUptiResult (*real)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *,
			    CUpti_SubscriberParams *);

	*(void **)&real = behind("cuptiSubscribe_v2");
	yield_to();
	return real ? real(s, callback, user, params) : CUPTI_ERROR_NOT_INITIALIZED;
}

/* ---- the start */

/* What the user had injected before us comes first, as it would without us; its file's name. */
static const char *start_other(void)
{
	const char *path = getenv(WATCH_NEXT_VARIABLE), *slash;
	void *h = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*start)(void);

	*(void **)&start = h ? dlsym(h, "InitializeInjection") : NULL;
	if (!start)
		return "";
	start();
	slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The driver calls this from cuInit. 1: go on; nothing here may stop the program. */
EXPORT int InitializeInjection(void);
int InitializeInjection(void)
{
	const char *before = start_other();
	const char *dir = getenv(WATCH_DIR_VARIABLE), *what = getenv(WATCH_WHAT_VARIABLE);
	char why[512] = "", other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
	CUptiResult result = CUPTI_ERROR_NOT_INITIALIZED;

	if (!dir || !record_open(dir))
		return 1;
	if (load_cupti(why, sizeof(why)))
		result = subscribe(&subscriber, other);
	if (result != CUPTI_SUCCESS && !*why) {
		const char *text = NULL;
		cupti.p_cuptiGetResultString(result, &text);
		snprintf(why, sizeof(why), "%s", text ? text : "cuptiSubscribe failed");
	}
	say_start(result, why, *other || result == CUPTI_SUCCESS ? other : before);
	if (result == CUPTI_SUCCESS) {
		signals_watch();
		unsigned wanted = what ? (unsigned)atoi(what) : WATCH_ALL;
		calls_listen(wanted);
		listened = wanted;
		__atomic_store_n(&listening, true, __ATOMIC_RELEASE);
		enable(subscriber, wanted);
	}
	pthread_atfork(NULL, NULL, in_child);
	atexit(at_end);
	return 1;
}
