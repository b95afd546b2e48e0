/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point that the driver calls, the subscription to CUPTI, and the end of the watched program. */
#include "watch/inject/inject.h"

#include <dlfcn.h>
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
	/*
	 * older versions of CUPTI lack cuptiSubscribe_v2, which returns the name of a tool that is subscribed already
	 */
	__typeof__(&cuptiSubscribe_v2) p_cuptiSubscribe_v2;
} cupti;
#undef MEMBER

/* Our subscription; valid while `listening` is true. */
static CUpti_SubscriberHandle subscriber;
static bool listening;

/*
 * Opens the CUPTI that the program has loaded already or, if the program has loaded none, the CUPTI that `infer`
 * found.
 */
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

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	const CUpti_CallbackData *c = data;

	(void)user;
	if (inject_forked()) {
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

static void write_start_event(CUptiResult result, const char *why, const char *other)
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

static unsigned listened; /* sum of enum watch_what */

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

/* If contexts are watched and *done is false: sets *done and enables the callbacks of the driver calls that which() accepts. */
static void enable_driver_calls(bool (*which)(CUpti_CallbackId), bool *done)
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

	enable_driver_calls(calls_cross, &met);
}

void inject_context_gone(void)
{
	static bool gone;

	enable_driver_calls(operands_some, &gone);
}

static void enable_callbacks(CUpti_SubscriberHandle s, unsigned what)
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

static void finish_at_exit(void)
{
	if (inject_forked())
		return;
	__atomic_store_n(&ending, true, __ATOMIC_RELAXED);
	failures_finish();
	record_close();
}

/* ---- _exit(): a regular end without atexit() handlers, as in children of Python's multiprocessing */

static void (*next_exit)(int);

__attribute__((constructor)) static void find_next_exit(void)
{
	*(void **)&next_exit = dlsym(RTLD_NEXT, "_exit");
}

/*
 * Records the regular end in the shared memory, then exits. This may run in a signal handler on a very small stack,
 * so it only stores a flag. In a child of vfork(), which shares our memory, the process id differs and nothing is
 * stored.
 */
static _Noreturn void exit_process(int status)
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
	exit_process(status);
}

EXPORT void _Exit(int status)
{
	exit_process(status);
}

/* ---- the program uses CUPTI itself: CUPTI has one subscriber only, so we give up our subscription */

static void yield_cupti(void)
{
	char by[WATCH_BY];
	struct line l;

	if (inject_forked() || !__atomic_exchange_n(&listening, false, __ATOMIC_ACQ_REL))
		return;
	line_begin(&l, "yield");
	line_text(&l, "by", caller_name(by, sizeof(by)));
	line_end(&l);
	failures_finish();
	cupti.p_cuptiUnsubscribe(subscriber);
}

/*
 * Returns the function of that name in libcupti itself. The functions below replace those of libcupti only if this
 * library was loaded before the program (LD_PRELOAD).
 */
static void *find_in_cupti(const char *name)
{
	void *h = open_cupti();

	return h ? dlsym(h, name) : NULL;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *s, CUpti_CallbackFunc callback, void *user)
{
	CUptiResult (*real)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);

	*(void **)&real = find_in_cupti("cuptiSubscribe");
	yield_cupti();
	return real ? real(s, callback, user) : CUPTI_ERROR_NOT_INITIALIZED;
}

EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *s, CUpti_CallbackFunc callback,
				     void *user, CUpti_SubscriberParams *params)
{
	CUptiResult (*real)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *,
			    CUpti_SubscriberParams *);

	*(void **)&real = find_in_cupti("cuptiSubscribe_v2");
	yield_cupti();
	return real ? real(s, callback, user, params) : CUPTI_ERROR_NOT_INITIALIZED;
}

/* ---- start of the library */

/*
 * Starts the tool that the user had named in CUDA_INJECTION64_PATH before us, as the driver would have done. Returns
 * the name of the tool's file, or "" if there is no such tool.
 */
static const char *start_other_tool(void)
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

/*
 * The driver calls this function from cuInit. It returns 1 (success) even if we cannot listen, because the program must
 * run on in any case.
 */
EXPORT int InitializeInjection(void);
int InitializeInjection(void)
{
	const char *before = start_other_tool();
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
	write_start_event(result, why, *other || result == CUPTI_SUCCESS ? other : before);
	if (result == CUPTI_SUCCESS) {
		signals_watch();
		unsigned wanted = what ? (unsigned)atoi(what) : WATCH_ALL;
		calls_listen(wanted);
		listened = wanted;
		__atomic_store_n(&listening, true, __ATOMIC_RELEASE);
		enable_callbacks(subscriber, wanted);
	}
	forked_watch();
	atexit(finish_at_exit);
	return 1;
}
