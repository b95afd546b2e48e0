/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the events of a ledger into findings. */
#include "base/str.h"
#include "watch/error_name.h"
#include "watch/ledger.h"
#include "watch/symbol.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	PEER_ENABLED = 704,
	PEER_NOT_ENABLED = 705,
	CONTEXT_DESTROYED = 709,
	HOST_REGISTERED = 712,
	HOST_NOT_REGISTERED = 713,
	NOT_PERMITTED = 800,
	NOT_SUPPORTED = 801,
	CAPTURE_FIRST = 900,
	CAPTURE_LAST = 908
};

struct reporter {
	const struct ledger *l;
	const struct ledger_options *o;
	struct diag *d;
	struct diag_row row[16];
	size_t rows;
};

static void add_row(struct reporter *t, const char *label, const char *text)
{
	if (t->rows < sizeof(t->row) / sizeof(*t->row))
		t->row[t->rows++] = (struct diag_row){label, text};
}

static void add_finding(struct reporter *t, enum severity severity, enum code code, const char *message)
{
	struct finding f = {.code = code, .severity = severity, .message = message, .nrows = t->rows};

	f.rows = arena_dup(&t->d->arena, t->row, t->rows * sizeof(*t->row));
	diag_add(t->d, &f);
	t->rows = 0;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return s && str_starts(s, prefix);
}

static const char *path_of(const struct ledger *l, const char *name, size_t n)
{
	for (size_t i = 0; i < l->nothers; i++) {
		const struct event *e = &l->other_event[i];
		const char *of = strcmp(e->kind, "module") == 0 ? event_text(e, "name", 0) : NULL;
		if (of && strlen(of) == n && strncmp(of, name, n) == 0)
			return event_text(e, "path", 0);
	}
	return NULL;
}

const char *ledger_by(const struct ledger *l, struct arena *a, const char *by)
{
	char function[128];

	if (!by || !*by)
		return "an unknown library";
	const char *place = strstr(by, "(+0x");
	const char *path = place ? path_of(l, by, (size_t)(place - by)) : NULL;
	if (!path || !symbol_name(path, strtoull(place + 4, NULL, 16), function, sizeof(function)))
		return arena_str(a, by);
	const char *rest = strchr(place, ')');
	return arena_printf(a, "%.*s(%s%s", (int)(place - by), by, function, rest ? rest : ")");
}

/*
 * Copies a caller's text into the diag's arena, with function names resolved. The copy is needed because the event's
 * strings are freed with the ledger.
 */
static const char *resolve(struct reporter *t, const char *s)
{
	return ledger_by(t->l, &t->d->arena, s);
}

/*
 * Returns only the name of the first library that is not the CUDA runtime, such as libx.so of
 * "libcudart.so.13(+0x3) < libx.so(function+0x1) < liby.so".
 */
static const char *first_library(struct reporter *t, const char *by)
{
	const char *text = resolve(t, by), *next;

	if (str_starts(text, "libcudart") && (next = strstr(text, " < ")))
		text = next + 3;
	return by && *by ? fmt(t->d, "%.*s", (int)strcspn(text, " ("), text) : text;
}

static enum code cuda_code(int64_t result)
{
	char want[32];

	snprintf(want, sizeof(want), "E-CUDA-%" PRId64, result);
	for (enum code c = E_CUDA; c < E_COUNT; c++)
		if (strcmp(code_id(c, SEV_ERROR), want) == 0)
			return c;
	return E_CUDA;
}

static const struct ledger_context *context_of(const struct ledger *l, uint64_t handle)
{
	for (size_t i = l->ncontexts; i-- > 0;)
		if (l->context[i].handle == handle)
			return &l->context[i];
	return NULL;
}

static const char *context_text(struct reporter *t, uint64_t handle)
{
	const struct ledger_context *c = context_of(t->l, handle);

	if (!c)
		return fmt(t->d, "0x%" PRIx64 "  made before the watch began", handle);
	const char *gone = c->gone >= 0 ? fmt(t->d, "; destroyed at %.2f s by %s", c->gone,
					      resolve(t, c->gone_by))
					: "";
	const char *cost =
		c->cost > 0
			? fmt(t->d, "; making it took %s of device memory%s",
			      str_bytes(&t->d->arena, c->cost),
			      c->cost_of_all ? " (what other processes took meanwhile included)" : "")
			: "";
	return fmt(t->d, "0x%" PRIx64 "  %s%s%s at %.2f s by %s (thread %ld)%s%s", handle,
		   c->known ? c->primary ? "primary, " : "not the primary context, " : "",
		   c->call ? c->call : "made",
		   c->device >= 0 ? fmt(t->d, " on device %d", c->device) : "", c->born,
		   resolve(t, c->by), c->thread, cost, gone);
}

static const char *stream_by(struct reporter *t, uint64_t handle)
{
	for (size_t i = t->l->nstreams; i-- > 0;)
		if (t->l->stream[i].handle == handle)
			return resolve(t, t->l->stream[i].by);
	return NULL;
}

/* "CUDA_ERROR_INVALID_HANDLE (400)" */
static const char *result_text(struct reporter *t, const char *call, int64_t result)
{
	const char *name = error_name(call, result);

	return name ? fmt(t->d, "%s (%" PRId64 ")", name, result)
		    : fmt(t->d, "CUDA error %" PRId64, result);
}

static const char *first_of(struct reporter *t, int64_t number, int64_t logged)
{
	int64_t n = ledger_count(t->l, number, logged);

	return n > 1 ? fmt(t->d, ", first of %" PRId64, n) : "";
}

static const char *call_text(struct reporter *t, const struct ledger_failure *f)
{
	const char *kernel = event_text(&f->event, "kernel", 0);

	const char *call = event_text(&f->event, "call", 0);

	return fmt(t->d, "%s%s = %s at %.2f s by %s%s", resolve(t, call),
		   kernel ? fmt(t->d, "('%s')", kernel) : "", result_text(t, call, f->result),
		   f->event.seconds, resolve(t, event_text(&f->event, "by", 0)),
		   first_of(t, f->number, f->count));
}

/*
 * Adds a row for each buffer that the failed call of this event would have written, up to MAX_BUFFERS_SHOWN rows in
 * all.
 */
static void add_buffers_of(struct reporter *t, const struct event *e, size_t *told)
{
	enum { MAX_BUFFERS_SHOWN = 6 };
	const char *text;

	for (int k = 0; (text = event_text(e, "buffer", k)) && *told < MAX_BUFFERS_SHOWN; k++) {
		char *at;
		unsigned long long start = strtoull(text, &at, 16), address = start;
		long long bytes = *at == ':' ? strtoll(at + 1, &at, 10) : 0;
		if (*at == ':')
			address = strtoull(at + 1, NULL, 16);
		const char *where =
			address == start
				? fmt(t->d, "the buffer at 0x%llx (%s)", start,
				      str_bytes(&t->d->arena, bytes))
				: fmt(t->d, "what is at 0x%llx, byte %llu of the %s at 0x%llx,",
				      address, address - start, str_bytes(&t->d->arena, bytes),
				      start);
		add_row(t, *told ? "" : "so",
			fmt(t->d, "%s was not written by it: it holds what it held before", where));
		++*told;
	}
}

static void add_buffers(struct reporter *t, const struct ledger_failure *f)
{
	size_t told = 0;

	add_buffers_of(t, &f->event, &told);
	for (size_t i = 0; i < t->l->nothers; i++) {
		const struct event *e = &t->l->other_event[i];
		if (strcmp(e->kind, "unwritten") == 0 && event_number(e, "number") == f->number)
			add_buffers_of(t, e, &told);
	}
}

/* ---- contexts */

/*
 * Reports a call that mixes objects of two contexts, which the driver refuses, so that the work is not done. Returns
 * false if the failure has another cause.
 */
static bool report_crossing(struct reporter *t, const struct ledger_failure *f)
{
	const struct event *e = &f->event;
	uint64_t function = event_handle(e, "function_context"),
		 event = event_handle(e, "event_context"),
		 stream = event_handle(e, "stream_context");
	uint64_t other = function ? function : event;

	if (f->result != INVALID_HANDLE && f->result != INVALID_CONTEXT && f->result != INVALID_VALUE)
		return false;
	if (!stream || !other || stream == other)
		return false;
	add_row(t, "A", context_text(t, other));
	add_row(t, "B", context_text(t, stream));
	add_row(t, "call", call_text(t, f));
	const char *by = stream_by(t, event_handle(e, "stream"));
	if (by)
		add_row(t, "stream",
			fmt(t->d, "0x%" PRIx64 " of B, made by %s", event_handle(e, "stream"), by));
	add_buffers(t, f);
	const struct ledger_context *a = context_of(t->l, other), *b = context_of(t->l, stream);
	bool one_primary = a && b && a->known && b->known && a->primary != b->primary;
	add_row(t, "try",
		one_primary ? fmt(t->d,
				  "make %s use the primary context (cuDevicePrimaryCtxRetain; "
				  "pycuda.autoprimaryctx), or give it a stream of its own context",
				  first_library(t, a->primary ? b->by : a->by))
		: has_prefix(event_text(e, "call", 0), "cuGraph")
			? "instantiate the graph in the context of the stream that it is launched on"
			: "load the kernel with cuLibraryLoadData, whose kernels run in every context, or keep "
			  "streams, events and modules of one context together");
	add_finding(t, SEV_ERROR, E_CTX_FOREIGN,
		    fmt(t->d, "%s of context A %s a stream of context B (pid %d, thread %ld)",
			!function					  ? "an event"
			: has_prefix(event_text(e, "call", 0), "cuGraph") ? "a graph"
									  : "a function",
			function ? "was launched on" : "was recorded on", t->l->pid, e->thread));
	return true;
}

static void report_dead(struct reporter *t, const struct event *e)
{
	add_row(t, "context", context_text(t, event_handle(e, "context")));
	add_row(t, "call",
		fmt(t->d, "%s at %.2f s by %s", resolve(t, event_text(e, "call", 0)), e->seconds,
		    resolve(t, event_text(e, "by", 0))));
	uint64_t start = event_handle(e, "allocation");
	if (start)
		add_row(t, "address",
			fmt(t->d, "0x%" PRIx64 " = 0x%" PRIx64 " + %" PRIu64 " of %s, allocated by %s",
			    event_handle(e, "handle"), start, event_handle(e, "handle") - start,
			    str_bytes(&t->d->arena, event_number(e, "bytes")),
			    resolve(t, event_text(e, "owner", 0))));
	add_row(t, "so",
		start ? "the memory was freed with its context: the call fails, or uses what lies there now"
		      : "the driver fails with an error, or the program crashes inside the driver");
	add_row(t, "try",
		"destroy what belongs to a context before the context, and let one library own it");
	const char *what = resolve(t, event_text(e, "what", 0));
	add_finding(t, SEV_ERROR, E_CTX_DESTROYED,
		    fmt(t->d, "%s %s of a destroyed context is used (pid %d, thread %ld)",
			strchr("ae", *what) ? "an" : "a", what, t->l->pid, e->thread));
}

/* Returns the newest event before e that says which memory was lost with this context, or NULL. */
static const struct event *loss_before(const struct ledger *l, const struct event *e)
{
	const struct event *found = NULL;

	for (const struct event *o = l->other_event; o < e; o++)
		if (strcmp(o->kind, "lost") == 0 &&
		    event_handle(o, "context") == event_handle(e, "context"))
			found = o;
	return found;
}

/* Reports a library that works on although another library has destroyed or reset the context that held its memory. */
static void report_orphan(struct reporter *t, const struct event *e)
{
	const struct event *loss = loss_before(t->l, e);

	if (!loss)
		return;
	add_row(t, "context", context_text(t, event_handle(e, "context")));
	add_row(t, "lost",
		fmt(t->d, "%" PRId64 " allocation%s, %s, made by %s",
		    event_number(loss, "allocations"),
		    event_number(loss, "allocations") == 1 ? "" : "s",
		    str_bytes(&t->d->arena, event_number(loss, "bytes")),
		    resolve(t, event_text(loss, "owner", 0))));
	add_row(t, "ended",
		fmt(t->d, "at %.2f s by %s", loss->seconds, resolve(t, event_text(loss, "by", 0))));
	add_row(t, "call",
		fmt(t->d, "%s at %.2f s by %s", resolve(t, event_text(e, "call", 0)), e->seconds,
		    resolve(t, event_text(e, "by", 0))));
	add_row(t, "so",
		"its tensors point to memory that was freed: results are garbage, often without an error");
	add_row(t, "try",
		fmt(t->d,
		    "do not reset the device or close its context in %s while others use it; end the process instead",
		    first_library(t, event_text(loss, "by", 0))));
	add_finding(t, SEV_ERROR, E_CTX_DESTROYED,
		    fmt(t->d,
			"%s works on after %s destroyed the context with its memory (pid %d, thread %ld)",
			first_library(t, event_text(loss, "owner", 0)),
			first_library(t, event_text(loss, "by", 0)), t->l->pid, e->thread));
}

/*
 * Reports several contexts on one device. This is only a note: contexts cost memory, and objects of different
 * contexts may be mixed up in one call.
 */
static void report_several(struct reporter *t)
{
	size_t most = 0;

	for (size_t i = 0; i < t->l->ncontexts; i++) {
		const struct ledger_context *a = &t->l->context[i];
		size_t same = 0;
		for (size_t k = 0; k < t->l->ncontexts; k++)
			same += t->l->context[k].gone < 0 && t->l->context[k].known && a->known &&
				t->l->context[k].device == a->device;
		most = same > most ? same : most;
	}
	if (most < 2)
		return;
	for (size_t i = 0; i < t->l->ncontexts && i < 8; i++)
		add_row(t, fmt(t->d, "%c", (char)('A' + (int)i)),
			context_text(t, t->l->context[i].handle));
	add_row(t, "note",
		"each costs device memory of its own, and work of two contexts does not overlap");
	add_finding(t, SEV_NOTE, E_CTX_STATE,
		    fmt(t->d,
			"%zu contexts live on one device in process %d; nothing is wrong with that alone",
			most, t->l->pid));
}

static void list_contexts(struct reporter *t)
{
	for (size_t i = 0; i < t->l->ncontexts && i < 15; i++)
		add_row(t, fmt(t->d, "%c", (char)('A' + (int)i)),
			context_text(t, t->l->context[i].handle));
	if (t->rows)
		add_finding(t, SEV_NOTE, E_CTX_STATE, fmt(t->d, "contexts of process %d", t->l->pid));
	for (size_t i = 0; i < t->l->nothers; i++) {
		const struct event *e = &t->l->other_event[i];
		if (strcmp(e->kind, "context-use") == 0)
			NOTE(t->d, E_CTX_STATE,
			     .message = fmt(t->d, "0x%" PRIx64 " %s at %.2f s by %s (thread %ld)",
					    event_handle(e, "context"),
					    resolve(t, event_text(e, "call", 0)), e->seconds,
					    resolve(t, event_text(e, "by", 0)), e->thread));
	}
}

/* ---- failed calls */

/*
 * Returns whether a failure is expected in a correct program. Such a failure answers a query (does a symbol exist, is
 * a feature supported) or a request that is fulfilled already (peer access, host registration), and callers handle
 * it.
 */
static bool fails_by_design(const struct ledger_failure *f)
{
	const char *call = event_text(&f->event, "call", 0);

	switch (f->result) {
	case PEER_ENABLED:
	case PEER_NOT_ENABLED:
	case HOST_REGISTERED:
	case HOST_NOT_REGISTERED: return true;
	case NOT_FOUND:
		return has_prefix(call, "cuModuleGet") || has_prefix(call, "cuLibraryGet") ||
		       has_prefix(call, "cuGetProc") || has_prefix(call, "cuGetExport");
	case INVALID_CONTEXT:
		return has_prefix(call, "cuCtxGet") || has_prefix(call, "cuCtxSynchronize");
	case INVALID_VALUE:
		return has_prefix(call, "cuPointerGet") || has_prefix(call, "cuMemGetAddressRange") ||
		       has_prefix(call, "cuMemHostGetFlags") ||
		       has_prefix(call, "cuMemRetainAllocation");
	case NOT_SUPPORTED:
	case NOT_PERMITTED: return true;
	default: return false;
	}
}

static bool is_sticky(int64_t r)
{
	return r == 700 || r == 702 || r == 710 || (r >= 714 && r <= 719) || r == 214;
}

enum { MAX_ROWS_SHOWN = 6 };

/*
 * Number of streams whose last launch came after launch e. Both are "last" events: their "ns" is the time that passed
 * since the launch, so less is later. Of equal times, the event earlier in the list counts as later.
 */
static size_t later_streams(const struct ledger *l, const struct event *e)
{
	size_t n = 0;

	for (size_t i = 0; i < l->nothers; i++) {
		const struct event *o = &l->other_event[i];
		if (strcmp(o->kind, "last") != 0)
			continue;
		int64_t a = event_number(o, "ns"), b = event_number(e, "ns");
		n += a < b || (a == b && o < e);
	}
	return n;
}

static void add_last(struct reporter *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->l->nothers; i++) {
		const struct event *e = &t->l->other_event[i];
		if (strcmp(e->kind, "last") != 0 || (n++, later_streams(t->l, e) >= MAX_ROWS_SHOWN))
			continue;
		uint64_t stream = event_handle(e, "stream");
		const char *by = event_text(e, "by", 0);
		add_row(t, "launched last",
			fmt(t->d, "'%s' on %s of context 0x%" PRIx64 ", %.3f ms before%s",
			    resolve(t, event_text(e, "kernel", 0)),
			    stream ? fmt(t->d, "stream 0x%" PRIx64, stream) : "the default stream",
			    event_handle(e, "context"), (double)event_number(e, "ns") / 1e6,
			    by && *by ? fmt(t->d, ", a kernel of %s", resolve(t, by)) : ""));
	}
	if (n > MAX_ROWS_SHOWN)
		add_row(t, "",
			fmt(t->d, "and %zu streams whose launches were before", n - MAX_ROWS_SHOWN));
}

static bool first_of_stream(const struct ledger *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->other_event[k].kind, "capture") == 0 &&
		    event_handle(&l->other_event[k], "stream") ==
			    event_handle(&l->other_event[i], "stream"))
			return false;
	return true;
}

static void add_captures(struct reporter *t)
{
	static const char *const modes[] = {"global", "thread-local", "relaxed"};
	size_t n = 0;

	for (size_t i = 0; i < t->l->nothers; i++) {
		const struct event *e = &t->l->other_event[i];
		int64_t mode = event_number(e, "mode");
		if (strcmp(e->kind, "capture") == 0 && first_of_stream(t->l, i) && n++ < MAX_ROWS_SHOWN)
			add_row(t, "open capture",
				fmt(t->d,
				    "stream 0x%" PRIx64 ", mode %s, thread %" PRId64 ", begun by %s",
				    event_handle(e, "stream"),
				    mode >= 0 && mode < 3 ? modes[mode] : "unknown",
				    event_number(e, "thread"), resolve(t, event_text(e, "by", 0))));
	}
	if (n > MAX_ROWS_SHOWN)
		add_row(t, "", fmt(t->d, "and %zu more", n - MAX_ROWS_SHOWN));
}

/*
 * Returns a hint for the most frequent cause of an error. If we have no such hint, returns the hint of the error's
 * code, which may be NULL.
 */
static const char *hint_for(int64_t result)
{
	static const struct {
		int result;
		const char *text;
	} cures[] = {
		{INVALID_VALUE,
		 "compare the call's sizes and arguments with what the device allows (1,024 threads a block), "
		 "and its pointers with what was allocated"},
		{3, "cuInit, or a call of the runtime's, comes first"},
		{98, "the kernel was not compiled for this device: -arch=native, or PTX beside it"},
		{101, "devices count from 0, and CUDA_VISIBLE_DEVICES hides some"},
		{INVALID_CONTEXT,
		 "make a context current in this thread first: cudaSetDevice, cuCtxSetCurrent"},
		{209, "compile for this device: -arch=native, or keep PTX in the program"},
		{INVALID_HANDLE,
		 "the handle was destroyed, or is of another context or device: -v tells who made which"},
		{NOT_FOUND,
		 "the name is not in the module: compare with extern \"C\" and cuobjdump -symbols"},
		{701, "fewer threads a block, fewer registers (__launch_bounds__), less shared memory"},
	};

	for (size_t i = 0; i < sizeof(cures) / sizeof(*cures); i++)
		if (cures[i].result == result)
			return cures[i].text;
	return code_hint(cuda_code(result));
}

static void add_stream(struct reporter *t, const struct event *e)
{
	uint64_t stream = event_handle(e, "stream");
	const char *by = stream_by(t, stream);

	if (event_text(e, "stream", 0))
		add_row(t, "stream",
			stream > 2 ? fmt(t->d, "0x%" PRIx64 "%s%s", stream, by ? ", made by " : "",
					 by ? by : "")
			: stream == 2 ? "the default stream of the thread"
				      : "the default stream");
}

static void report_failure(struct reporter *t, const struct ledger_failure *f)
{
	bool capture = f->result >= CAPTURE_FIRST && f->result <= CAPTURE_LAST;
	bool designed = fails_by_design(f);

	if (designed && t->o->errors != REPORT_ALL && !t->o->verbose)
		return;
	if (!is_sticky(f->result) && !capture && t->o->errors == REPORT_NONE)
		return;
	add_row(t, "call", call_text(t, f));
	add_stream(t, &f->event);
	add_buffers(t, f);
	if (is_sticky(f->result) && !t->o->sync_launch) {
		add_last(t);
		add_row(t, "so",
			"who made the call was only told of it; the fault is in a launch before, and every later call of "
			"the context returns it");
		add_row(t, "try",
			"infer check --sync launch -- ... names the very launch; the context is lost from here on");
	}
	if (capture) {
		add_captures(t);
		add_row(t, "try",
			"capture in thread-local or relaxed mode, and do not allocate or synchronise while a "
			"global capture is open");
	}
	if (!is_sticky(f->result) && !capture && hint_for(f->result))
		add_row(t, "try", hint_for(f->result));
	enum severity severity = designed		      ? SEV_NOTE
				 : f->result == OUT_OF_MEMORY ? SEV_WARNING
							      : SEV_ERROR;
	add_finding(t, severity, capture ? E_CTX_CAPTURE : cuda_code(f->result),
		    fmt(t->d, "%s failed with %s%s (pid %d, thread %ld)",
			resolve(t, event_text(&f->event, "call", 0)),
			result_text(t, event_text(&f->event, "call", 0), f->result),
			is_sticky(f->result) ? t->o->sync_launch ? ", raised by this very call"
								 : ", which an earlier launch raised"
			: designed	     ? ", by design"
			: f->result == OUT_OF_MEMORY ? "; caching allocators free and try again"
						     : "",
			t->l->pid, f->event.thread));
}

/*
 * Returns whether failure i only repeats an earlier asynchronous error, which every later call in the context
 * returns.
 */
static bool repeats_earlier_error(const struct reporter *t, size_t i)
{
	const struct ledger_failure *f = &t->l->failure[i];

	if (!is_sticky(f->result))
		return false;
	for (size_t k = 0; k < i; k++)
		if (t->l->failure[k].result == f->result)
			return true;
	return false;
}

/* Returns whether report_dead already reports this failure as the use of a destroyed context. */
static bool reported_as_dead(const struct reporter *t, const struct ledger_failure *f)
{
	const char *call = event_text(&f->event, "call", 0), *other;

	for (size_t i = 0; f->result == CONTEXT_DESTROYED && t->o->contexts && i < t->l->nothers; i++)
		if (strcmp(t->l->other_event[i].kind, "dead") == 0 &&
		    (other = event_text(&t->l->other_event[i], "call", 0)) && call &&
		    strcmp(call, other) == 0)
			return true;
	return false;
}

static void report_failures(struct reporter *t)
{
	for (size_t i = 0; i < t->l->nfailures; i++) {
		const struct ledger_failure *f = &t->l->failure[i];
		if (repeats_earlier_error(t, i) || reported_as_dead(t, f))
			continue;
		if (t->o->contexts && report_crossing(t, f))
			continue;
		if (t->o->calls)
			report_failure(t, f);
	}
}

/*
 * Reports an error that was returned late. The runtime stores an error until some call asks for it, and that call may
 * have nothing to do with the error.
 */
static void report_late(struct reporter *t, const struct event *e)
{
	const char *kernel = event_text(e, "kernel", 0);
	int64_t launches = event_number(e, "launches"), result = event_number(e, "result");

	add_row(t, "failed",
		fmt(t->d, "%s%s = %s by %s, %.3f ms before; its error was not checked there",
		    resolve(t, event_text(e, "origin_call", 0)),
		    kernel ? fmt(t->d, "('%s')", kernel) : "",
		    result_text(t, event_text(e, "origin_call", 0),
				event_text(e, "origin_result", 0) ? event_number(e, "origin_result")
								  : result),
		    resolve(t, event_text(e, "origin_by", 0)), (double)event_number(e, "ns") / 1e6));
	add_row(t, "reported",
		fmt(t->d, "%s at %.2f s by %s%s", resolve(t, event_text(e, "call", 0)), e->seconds,
		    resolve(t, event_text(e, "by", 0)),
		    launches ? fmt(t->d, ", after %" PRId64 " launches that went well", launches)
			     : ""));
	add_row(t, "try",
		"look after each launch and call where it is made: use what it returns, and cudaGetLastError() after <<<>>>");
	add_finding(t, result == OUT_OF_MEMORY ? SEV_WARNING : SEV_ERROR, E_CUDA_LATE,
		    fmt(t->d,
			"an unchecked error, %s, was reported by a later, innocent call (pid %d, thread %ld)",
			result_text(t, event_text(e, "call", 0), result), t->l->pid, e->thread));
}

static void report_yield(struct reporter *t, const struct event *e)
{
	add_finding(t, SEV_WARNING, E_WATCH_BUSY,
		    fmt(t->d,
			"CUPTI was given to %s at %.2f s: process %d was not watched from there on",
			resolve(t, event_text(e, "by", 0)), e->seconds, t->l->pid));
}

/* ---- copies and faults */

static void report_copy(struct reporter *t, const struct event *e)
{
	bool to_host = event_number(e, "to_host");

	bool block = event_text(e, "block", 0);

	add_row(t, "host",
		fmt(t->d, "0x%" PRIx64 ": %s", event_handle(e, "host"),
		    resolve(t, event_text(e, "why", 0))));
	if (event_text(e, "height", 0))
		add_row(t, "rows",
			fmt(t->d,
			    "%" PRId64 " planes of %" PRId64 " rows of %" PRId64 " bytes, %" PRId64
			    " apart",
			    event_number(e, "depth"), event_number(e, "height"),
			    event_number(e, "width"), event_number(e, "pitch")));
	if (event_handle(e, "device"))
		add_row(t, "device", fmt(t->d, "0x%" PRIx64, event_handle(e, "device")));
	add_row(t, "call",
		fmt(t->d, "%s at %.2f s by %s%s", resolve(t, event_text(e, "call", 0)), e->seconds,
		    resolve(t, event_text(e, "by", 0)), first_of(t, event_number(e, "number"), 1)));
	uint64_t start = event_handle(e, "allocation");
	if (start)
		add_row(t, "so",
			fmt(t->d,
			    "the address is the device's: 0x%" PRIx64 " + %" PRIu64
			    " of %s, allocated by %s",
			    start, event_handle(e, "host") - start,
			    str_bytes(&t->d->arena, event_number(e, "allocation_bytes")),
			    resolve(t, event_text(e, "owner", 0))));
	add_row(t, "try",
		start ? "copy from device to device (cuMemcpyDtoD, cudaMemcpyDefault), or give a host pointer"
		      : "compare the tensor's elements with the shape the copy was sized by");
	add_finding(t, SEV_ERROR, E_COPY_HOST,
		    fmt(t->d, "a copy %s %s of host memory %s (pid %d, thread %ld)",
			to_host ? "writes" : "reads",
			str_bytes(&t->d->arena, event_number(e, "bytes")),
			start	? "at an address of the device"
			: block ? "that go beyond their block"
				: "that is not there",
			t->l->pid, e->thread));
}

/*
 * Returns whether e is the newest fault outside of device memory. The program must have survived all earlier faults.
 */
static bool is_last_strange(const struct ledger *l, const struct event *e)
{
	for (const struct event *o = e + 1; o < l->other_event + l->nothers; o++)
		if (strcmp(o->kind, "fault") == 0 && !event_handle(o, "allocation"))
			return false;
	return true;
}

static void report_fault(struct reporter *t, const struct event *e)
{
	uint64_t address = event_handle(e, "address"), start = event_handle(e, "allocation");

	if (!start && (t->l->ended || !is_last_strange(t->l, e)))
		return; /* the program handles its faults, as the runtimes of Java and Go do */
	if (!start) {
		NOTE(t->d, E_HOST_DEVPTR,
		     .message = fmt(t->d,
				    "segmentation fault at 0x%" PRIx64
				    ", which is in no device memory that was seen "
				    "(pid %d, by %s)",
				    address, t->l->pid, resolve(t, event_text(e, "by", 0))));
		return;
	}
	add_row(t, "address",
		fmt(t->d, "0x%" PRIx64 " = 0x%" PRIx64 " + %" PRIu64 " of %s, allocated by %s",
		    address, start, address - start, str_bytes(&t->d->arena, event_number(e, "bytes")),
		    resolve(t, event_text(e, "owner", 0))));
	add_row(t, "at",
		fmt(t->d, "%s%s", resolve(t, event_text(e, "by", 0)),
		    first_of(t, event_number(e, "number"), 1)));
	add_row(t, "try",
		"copy it to the host first (cudaMemcpy, MNN copyToHostTensor, OrtValue's copy to the CPU), then read");
	add_finding(t, SEV_ERROR, E_HOST_DEVPTR,
		    fmt(t->d, "host code used a pointer to device memory (pid %d, thread %ld)",
			t->l->pid, e->thread));
}

/*
 * Reports, as one finding at the first such event, all forked children that used CUDA. This is only a warning,
 * because some libraries try CUDA and go on without it.
 */
static void report_forked(struct reporter *t, const struct event *e)
{
	int64_t result = event_number(e, "result");
	size_t children = 0;

	for (size_t i = 0; i < t->l->nothers; i++) {
		const struct event *other = &t->l->other_event[i];
		if (strcmp(other->kind, "forked") != 0)
			continue;
		if (!children++ && other != e)
			return;
	}

	add_row(t, "call",
		fmt(t->d, "%s = %s in process %" PRId64 "%s%s%s", resolve(t, event_text(e, "call", 0)),
		    result_text(t, event_text(e, "call", 0), result), event_number(e, "child"),
		    event_text(e, "by", 0) ? " by " : "",
		    event_text(e, "by", 0) ? resolve(t, event_text(e, "by", 0)) : "",
		    children > 1 ? fmt(t->d, ", first of %zu", children) : ""));
	add_row(t, "so",
		"CUDA does not work in a child of fork() once its parent has begun to use it");
	add_row(t, "try",
		"start the child before CUDA is used, or by spawn: multiprocessing.set_start_method(\"spawn\"), "
		"posix_spawn, fork with exec");
	add_finding(t, SEV_WARNING, cuda_code(result),
		    fmt(t->d,
			"process %" PRId64 " was forked from %d after CUDA had begun, and uses it",
			event_number(e, "child"), t->l->pid));
}

static void report_others(struct reporter *t)
{
	for (size_t i = 0; i < t->l->nothers; i++) {
		const struct event *e = &t->l->other_event[i];
		if (strcmp(e->kind, "dead") == 0 && t->o->contexts)
			report_dead(t, e);
		else if (strcmp(e->kind, "orphan") == 0 && t->o->contexts)
			report_orphan(t, e);
		else if (strcmp(e->kind, "copy") == 0 && t->o->calls)
			report_copy(t, e);
		else if (strcmp(e->kind, "fault") == 0)
			report_fault(t, e);
		else if (strcmp(e->kind, "late") == 0 && t->o->calls && t->o->errors != REPORT_NONE)
			report_late(t, e);
		else if (strcmp(e->kind, "forked") == 0 && t->o->calls && t->o->errors != REPORT_NONE)
			report_forked(t, e);
		else if (strcmp(e->kind, "yield") == 0)
			report_yield(t, e);
	}
}

static void report_busy(struct reporter *t)
{
	const struct ledger *l = t->l;
	bool named = l->other && *l->other;

	add_finding(t, SEV_ERROR, E_WATCH_BUSY,
		    fmt(t->d, "process %d could not be watched: %s%s%s", l->pid, resolve(t, l->why),
			named ? "; CUPTI is in use by " : "", named ? resolve(t, l->other) : ""));
}

void ledger_findings(const struct ledger *l, const struct ledger_options *o, struct diag *d)
{
	struct reporter t = {.l = l, .o = o, .d = d};

	if (l->started && l->subscribed) {
		report_busy(&t);
		return;
	}
	report_failures(&t);
	report_others(&t);
	if (o->verbose && o->contexts)
		list_contexts(&t);
	else if (o->contexts)
		report_several(&t);
}
