/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and the streams, events, modules and functions that belong to them: who created them, and which handles
 * become invalid when a context is destroyed.
 */
#include "watch/inject/inject.h"

#include <string.h>

/*
 * One table for each kind of object, which maps the handle of a live object to its context (field a) and, for a
 * function, to its name (field b, a text). Functions of a CUDA library (cuLibrary...) are not here, because they
 * belong to no context.
 */
static struct table owned[OBJECTS];
static struct table dead; /* the objects of destroyed contexts, with the same fields as in `owned` */
/* maps a context to 1 if it is primary (field a) and to the number of its device + 1 (field b) */
static struct table contexts;
/*
 * Maps stream + 1 to its open capture: mode (field a), thread (field b), and the libraries that began the capture
 * (field c, a text).
 */
static struct table captures;
static struct table seen; /* hashes that objects_first_time() has seen */
static uint64_t ndead;

bool objects_first_time(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t key = hash_mix(hash_mix(hash_mix(1, a), b), c) | 1;
	struct entry e;

	if (table_get(&seen, key, &e))
		return false;
	return table_new(&seen, key, 1, 0, 0);
}

static void add_caller(struct line *l)
{
	char by[WATCH_BY];

	line_text(l, "by", caller_name(by, sizeof(by)));
}

static bool is_of_context(const struct entry *e, uint64_t context)
{
	return e->a == context;
}

/*
 * Remembers an object of a destroyed context, so that a later use of its handle, which crashes or fails, can be
 * explained.
 */
static void move_to_dead(struct table *t, uint64_t key, uint64_t context)
{
	struct entry e;

	table_take(t, key, &e);
	table_put(&dead, key, context, e.b, 0);
}

static void context_destroyed(uint64_t context)
{
	struct entry e;

	for (size_t i = 0; i < OBJECTS; i++)
		table_clear(&owned[i], is_of_context, context, move_to_dead);
	memory_context_gone(context);
	lost_context(context);
	table_take(&contexts, context, &e);
	__atomic_fetch_add(&ndead, 1, __ATOMIC_RELAXED);
	inject_context_gone();
}

void objects_context(CUcontext context, bool created)
{
	struct line l;

	line_begin(&l, created ? "context" : "context-gone");
	line_handle(&l, "context", context);
	add_caller(&l);
	line_end(&l);
	if (created)
		table_must(&contexts, handle_of(context), 0, 0, 0);
	else
		context_destroyed(handle_of(
			context)); /* for a primary context CUPTI reports this at the last release */
}

void objects_stream(CUcontext context, CUstream stream, bool created)
{
	struct entry e;
	struct line l;

	if (!created) {
		table_take(&owned[OBJECT_STREAM], handle_of(stream), &e);
		return;
	}
	table_take(&dead, handle_of(stream), &e);
	if (!table_must(&owned[OBJECT_STREAM], handle_of(stream), handle_of(context), 0, 0) ||
	    !objects_first_time(2, handle_of(stream), handle_of(context)))
		return;
	line_begin(&l, "stream");
	line_handle(&l, "stream", stream);
	line_handle(&l, "context", context);
	add_caller(&l);
	line_end(&l);
}

/* Device memory that was in use before the current call if that call creates a context; unknown for other calls. */
static __thread struct cost before;

/* A search for the primary context of a device among the contexts that we have seen. */
struct primary {
	/* `device` is the number of the device + 1, as in `contexts`; `context` is the result */
	uint64_t device, context;
};
static void match_primary(const struct entry *e, void *arg)
{
	struct primary *p = arg;

	if (e->a && e->b == p->device)
		p->context = e->key;
}

static uint64_t find_primary_context(int device)
{
	struct primary p = {.device = (uint64_t)device + 1};

	table_each(&contexts, match_primary, &p);
	return p.context;
}

static void add_cost(struct line *l)
{
	struct cost after = before.known ? cost_now() : (struct cost){0};
	int64_t bytes;
	bool own;

	if (cost_between(&before, &after, &bytes, &own)) {
		line_number(l, "cost", bytes);
		line_text(l, "cost_of", own ? "process" : "devices");
	}
	before.known = false;
}

/*
 * Records the device and kind of a context that a call created or retained, and writes an event with the cost of the
 * context.
 */
static void record_context_kind(CUcontext context, bool primary, int device, const char *call)
{
	struct line l;
	/* the cost is measured only for a new context; the handle does not show this, because handles are reused */
	bool is_new = before.known;

	table_must(&contexts, handle_of(context), primary, (uint64_t)device + 1, 0);
	if (table_used(&contexts) > 1)
		inject_contexts_meet();
	if (!objects_first_time(3, handle_of(context), primary ? thread_id() : 0) && !is_new)
		return;
	line_begin(&l, "context-kind");
	line_handle(&l, "context", context);
	line_number(&l, "primary", primary);
	line_number(&l, "device", device);
	line_text(&l, "call", call);
	add_cost(&l);
	add_caller(&l);
	line_end(&l);
}

/* Writes an event once for each thread, call and context, because these calls are frequent. */
static void report_context_use(CUcontext context, const char *call, uint64_t id)
{
	struct line l;

	if (!context || !objects_first_time(hash_mix(4, id), handle_of(context), thread_id()))
		return;
	line_begin(&l, "context-use");
	line_handle(&l, "context", context);
	line_text(&l, "call", call);
	add_caller(&l);
	line_end(&l);
}

uint64_t objects_owner(enum object what, const void *handle)
{
	struct entry e;

	return table_get(&owned[what], handle_of(handle), &e) ? e.a : 0;
}

/*
 * Returns true if the handle of a recorded function now belongs to a function of another name. The driver reuses
 * handles, and we get no callback when it loads a kernel of a CUDA library. The symbol from CUPTI may be demangled,
 * so we only test whether the recorded (mangled) name contains the last identifier of the symbol.
 */
static bool has_other_name(const struct entry *e, const char *symbol)
{
	const char *name = pointer_of(e->b), *from = symbol;
	char part[256];

	if (!name || !*name || !symbol)
		return false;
	size_t n = strcspn(symbol, "(<");
	for (size_t i = 0; i < n; i++)
		if (symbol[i] == ':' || symbol[i] == ' ')
			from = symbol + i + 1;
	n = (size_t)(symbol + n - from);
	if (n >= sizeof(part))
		return strncmp(name, symbol, n) != 0;
	memcpy(part, from, n);
	part[n] = '\0';
	return !strstr(name, part);
}

uint64_t objects_function_owner(const void *function, const char *symbol)
{
	struct entry e;

	return table_get(&owned[OBJECT_FUNCTION], handle_of(function), &e) &&
			       !has_other_name(&e, symbol)
		       ? e.a
		       : 0;
}

bool objects_special(const void *stream)
{
	return handle_of(stream) <= 2;
}

uint64_t objects_stream_owner(CUstream s, const CUpti_CallbackData *c)
{
	return objects_special(s) ? handle_of(c->context) : objects_owner(OBJECT_STREAM, s);
}

void objects_tell_dead(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	static const char *const names[] = {"stream", "event", "function", "module"};
	struct operands o;
	struct entry e;
	struct line l;
	size_t i = 0;

	if (!__atomic_load_n(&ndead, __ATOMIC_RELAXED) || inject_ending())
		return;
	operands_of(id, c, &o);
	lost_tell(c, &o);
	const void *const handles[] = {o.has_stream ? o.stream : NULL, o.event, o.function, o.module};
	while (i < COUNT(handles) &&
	       (!table_get(&dead, handle_of(handles[i]), &e) || has_other_name(&e, c->symbolName)))
		i++;
	if (i == COUNT(handles) ||
	    !objects_first_time(5, handle_of(handles[i]), handle_of(c->functionName)))
		return;
	line_begin(&l, "dead");
	line_text(&l, "call", c->functionName);
	line_text(&l, "what", names[i]);
	line_handle(&l, "handle", handles[i]);
	line_handle(&l, "context", pointer_of(e.a));
	add_caller(&l);
	line_end(&l);
}

/* ---- before a call */

void objects_enter(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct entry e;

	if (id == ID(cuCtxCreate) || id == ID(cuCtxCreate_v2) || id == ID(cuCtxCreate_v3) ||
	    id == ID(cuCtxCreate_v4)) {
		before = cost_now();
	} else if (id == ID(cuDevicePrimaryCtxRetain)) {
		PARAMS(cuDevicePrimaryCtxRetain);
		before = find_primary_context(p->dev) ? (struct cost){0} : cost_now();
	} else if (id == ID(cuDevicePrimaryCtxRelease_v2) || id == ID(cuDevicePrimaryCtxRelease)) {
		PARAMS(cuDevicePrimaryCtxRelease_v2);
		report_context_use((CUcontext)(uintptr_t)find_primary_context(p->dev),
				   c->functionName, id);
	} else if (id == ID(cuGraphExecDestroy)) {
		PARAMS(cuGraphExecDestroy);
		table_take(&owned[OBJECT_FUNCTION], handle_of(p->hGraphExec), &e);
	} else if (id == ID(cuEventDestroy_v2) || id == ID(cuEventDestroy)) {
		PARAMS(cuEventDestroy_v2);
		table_take(&owned[OBJECT_EVENT], handle_of(p->hEvent), &e);
	} else if (id == ID(cuModuleUnload)) {
		PARAMS(cuModuleUnload);
		table_take(&owned[OBJECT_MODULE], handle_of(p->hmod), &e);
	} else if (id == ID(cuCtxDestroy_v2) || id == ID(cuCtxDestroy)) {
		PARAMS(cuCtxDestroy_v2);
		report_context_use(p->ctx, c->functionName, id);
		context_destroyed(handle_of(p->ctx));
	} else if (id == ID(cuDevicePrimaryCtxReset_v2) || id == ID(cuDevicePrimaryCtxReset)) {
		PARAMS(cuDevicePrimaryCtxReset_v2);
		uint64_t context = find_primary_context(p->dev);
		report_context_use((CUcontext)(uintptr_t)context, c->functionName, id);
		if (context)
			context_destroyed(context);
	}
}

/* ---- after a successful call */

static bool exit_context(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	if (id == ID(cuCtxCreate_v2) || id == ID(cuCtxCreate)) {
		PARAMS(cuCtxCreate_v2);
		record_context_kind(*p->pctx, false, p->dev, c->functionName);
	} else if (id == ID(cuCtxCreate_v3)) {
		PARAMS(cuCtxCreate_v3);
		record_context_kind(*p->pctx, false, p->dev, c->functionName);
	} else if (id == ID(cuCtxCreate_v4)) {
		PARAMS(cuCtxCreate_v4);
		record_context_kind(*p->pctx, false, p->dev, c->functionName);
	} else if (id == ID(cuDevicePrimaryCtxRetain)) {
		PARAMS(cuDevicePrimaryCtxRetain);
		record_context_kind(*p->pctx, true, p->dev, c->functionName);
	} else if (id == ID(cuCtxSetCurrent) || id == ID(cuCtxPushCurrent_v2) ||
		   id == ID(cuCtxPushCurrent)) {
		PARAMS(cuCtxSetCurrent);
		report_context_use(p->ctx, c->functionName, id);
	} else if (id == ID(cuCtxPopCurrent_v2) || id == ID(cuCtxPopCurrent)) {
		PARAMS(cuCtxPopCurrent_v2);
		report_context_use(p->pctx ? *p->pctx : NULL, c->functionName, id);
	} else {
		return false;
	}
	return true;
}

static void record_owner(enum object what, const void *handle, const CUpti_CallbackData *c)
{
	struct entry e;

	table_take(&dead, handle_of(handle), &e);
	table_must(&owned[what], handle_of(handle), handle_of(c->context), 0, 0);
}

static bool exit_module(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct entry e;

	if (id == ID(cuModuleLoad) || id == ID(cuModuleLoadData) || id == ID(cuModuleLoadDataEx) ||
	    id == ID(cuModuleLoadFatBinary)) {
		PARAMS(cuModuleLoadData);
		record_owner(OBJECT_MODULE, *p->module, c);
	} else if (id == ID(cuModuleGetFunction)) {
		/* modules of a CUDA library (cuLibraryGetModule) are not recorded: their functions run in any context */
		PARAMS(cuModuleGetFunction);
		uint64_t context = objects_owner(OBJECT_MODULE, p->hmod);
		table_take(&dead, handle_of(*p->hfunc), &e);
		if (context)
			table_must(&owned[OBJECT_FUNCTION], handle_of(*p->hfunc), context,
				   handle_of(text_keep(p->name ? p->name : "")), 0);
		else
			table_take(&owned[OBJECT_FUNCTION], handle_of(*p->hfunc), &e);
	} else if (id == ID(cuGraphInstantiateWithFlags) || id == ID(cuGraphInstantiateWithParams) ||
		   id == ID(cuGraphInstantiateWithParams_ptsz) || id == ID(cuGraphInstantiate_v2) ||
		   id == ID(cuGraphInstantiate)) {
		/* an instantiated graph is launched like a function and belongs to a context, so record it as one */
		PARAMS(cuGraphInstantiateWithFlags);
		record_owner(OBJECT_FUNCTION, *p->phGraphExec, c);
	} else if (id == ID(cuEventCreate) || id == ID(cuIpcOpenEventHandle)) {
		PARAMS(cuEventCreate);
		record_owner(OBJECT_EVENT, *p->phEvent, c);
	} else {
		return false;
	}
	return true;
}

static bool exit_capture(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	struct entry e;
	char by[WATCH_BY];

	if (id == ID(cuStreamBeginCapture_v2) || id == ID(cuStreamBeginCapture_v2_ptsz)) {
		PARAMS(cuStreamBeginCapture_v2);
		table_put(&captures, handle_of(p->hStream) + 1, (uint64_t)p->mode, thread_id(),
			  handle_of(text_keep(caller_name(by, sizeof(by)))));
	} else if (id == ID(cuStreamBeginCapture) || id == ID(cuStreamBeginCapture_ptsz)) {
		PARAMS(cuStreamBeginCapture);
		table_put(&captures, handle_of(p->hStream) + 1, CU_STREAM_CAPTURE_MODE_GLOBAL,
			  thread_id(), handle_of(text_keep(caller_name(by, sizeof(by)))));
	} else if (id == ID(cuStreamBeginCaptureToGraph) ||
		   id == ID(cuStreamBeginCaptureToGraph_ptsz)) {
		PARAMS(cuStreamBeginCaptureToGraph);
		table_put(&captures, handle_of(p->hStream) + 1, (uint64_t)p->mode, thread_id(),
			  handle_of(text_keep(caller_name(by, sizeof(by)))));
	} else if (id == ID(cuStreamEndCapture) || id == ID(cuStreamEndCapture_ptsz)) {
		PARAMS(cuStreamEndCapture);
		table_take(&captures, handle_of(p->hStream) + 1, &e);
	} else {
		return false;
	}
	return true;
}

bool objects_exit(CUpti_CallbackId id, const CUpti_CallbackData *c)
{
	return exit_context(id, c) || exit_module(id, c) || exit_capture(id, c);
}

/* ---- captures */

static void write_open_capture(const struct entry *e, void *arg)
{
	struct line l;

	(void)arg;
	line_begin(&l, "capture");
	line_handle(&l, "stream", pointer_of(e->key - 1));
	line_number(&l, "mode", (int64_t)e->a);
	line_number(&l, "thread", (int64_t)e->b);
	line_text(&l, "by", pointer_of(e->c));
	line_end(&l);
}

void objects_tell_captures(void)
{
	table_each(&captures, write_open_capture, NULL);
}
