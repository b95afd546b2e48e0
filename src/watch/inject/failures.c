/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that failed, the last launches before an asynchronous error, and errors of one library that another library
 * received.
 */
#include "watch/inject/inject.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* maps a function to its name (field a) and its first caller (field b), both texts */
static struct table kernels;
/*
 * Maps a stream, or context | 1 for the default streams of a context, to its last launch: function (field a), time in
 * ns (field b), context (field c).
 */
static struct table last;
/* maps a hash of the kind of failure to the failure number (field a) and count (field c) */
static struct table failures;
static uint64_t next_failure;

/*
 * The buffers are looked up for at most this many failures of one kind, because each lookup searches all allocations.
 */
enum { MAX_BUFFER_LOOKUPS = 32 };

/* ---- launches */

/*
 * Returns false if the entry is about another kernel than `symbol`, because the driver may reuse a handle after a
 * module was unloaded. text_keep() cuts long names, and returns "" when its table is full, so an empty name matches
 * any kernel.
 */
static bool is_same_kernel(const struct entry *e, const char *symbol)
{
	const char *name = pointer_of(e->a);

	return !symbol || !*name || strncmp(name, symbol, MAX_TEXT) == 0;
}

/* Looks up the caller only at the first launch of a kernel: walking the stack at every launch would cost too much. */
static void remember_kernel(const struct operands *o, const CUpti_CallbackData *c)
{
	char by[WATCH_BY];
	struct entry e = {0};
	uint64_t function = handle_of(o->function);

	bool known = table_get(&kernels, function, &e);
	if (known && e.b && is_same_kernel(&e, c->symbolName))
		return;
	const char *name = c->symbolName ? c->symbolName : o->graph ? "a CUDA graph" : "";
	table_put(&kernels, function, handle_of(text_keep(name)),
		  handle_of(text_keep(caller_name(by, sizeof(by)))), 0);
}

void failures_launch(const struct operands *o, const CUpti_CallbackData *c)
{
	uint64_t stream =
		objects_special(o->stream) ? handle_of(c->context) | 1 : handle_of(o->stream);

	table_put(&last, stream, handle_of(o->function), clock_ns(), handle_of(c->context));
	remember_kernel(o, c);
}

static void write_last_launch(const struct entry *e, void *arg)
{
	struct entry k;
	struct line l;
	const uint64_t *now = arg;
	bool known = table_get(&kernels, e->a, &k);

	line_begin(&l, "last");
	line_handle(&l, "stream", e->key & 1 ? NULL : pointer_of(e->key));
	line_handle(&l, "context", pointer_of(e->c));
	line_text(&l, "kernel", known ? pointer_of(k.a) : "");
	line_number(&l, "ns", (int64_t)(*now - e->b));
	line_text(&l, "by", known && k.b ? pointer_of(k.b) : "");
	line_end(&l);
}

/*
 * Returns true for an asynchronous error, which a kernel raised earlier and which whichever call comes next returns.
 */
static bool is_sticky(CUresult r)
{
	return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_FAILED ||
	       r == CUDA_ERROR_LAUNCH_TIMEOUT || r == CUDA_ERROR_ASSERT ||
	       r == CUDA_ERROR_HARDWARE_STACK_ERROR || r == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
	       r == CUDA_ERROR_MISALIGNED_ADDRESS || r == CUDA_ERROR_INVALID_ADDRESS_SPACE ||
	       r == CUDA_ERROR_INVALID_PC || r == CUDA_ERROR_ECC_UNCORRECTABLE;
}

/* ---- buffers that a failed call would have written */

static void add_buffer(struct line *l, uint64_t number, uint64_t value, int *told)
{
	struct block b;
	char text[160];

	if (*told >= 4 || !value || !memory_find(value, true, &b) ||
	    !objects_first_time(8, number, value))
		return;
	snprintf(text, sizeof(text), "0x%llx:%llu:0x%llx", (unsigned long long)b.start,
		 (unsigned long long)b.bytes, (unsigned long long)value);
	line_text(l, "buffer", text);
	++*told;
}

/*
 * Adds buffers from arguments that are packed in one block (CU_LAUNCH_PARAM_BUFFER_POINTER). The layout is unknown, so
 * each aligned word may be a pointer.
 */
static void add_packed(struct line *l, uint64_t number, void **extra, int *told)
{
	const char *data = NULL;
	const size_t *size = NULL;

	for (int i = 0; i < 4 && host_readable(&extra[i], 2 * sizeof(*extra)) &&
			extra[i] != CU_LAUNCH_PARAM_END;
	     i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			data = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = extra[i + 1];
	}
	if (!data || !host_readable(size, sizeof(*size)) || *size > 4096 ||
	    !host_readable(data, *size))
		return;
	for (size_t at = 0; at + sizeof(uint64_t) <= *size; at += sizeof(uint64_t)) {
		uint64_t value;
		memcpy(&value, data + at, sizeof(value));
		add_buffer(l, number, value, told);
	}
}

/*
 * Adds buffers from the array of argument addresses. The length of the array is unknown, so stop at the first entry
 * that is not a readable address, and after 16 entries.
 */
static void add_arguments(struct line *l, uint64_t number, void **arguments, int *told)
{
	for (int i = 0; i < 16 && host_readable(&arguments[i], sizeof(void *)); i++) {
		uint64_t value;
		if (!host_readable(arguments[i], sizeof(value)))
			return;
		memcpy(&value, arguments[i], sizeof(value));
		add_buffer(l, number, value, told);
	}
}

static int add_buffers(struct line *l, uint64_t number, const struct operands *o)
{
	int told = 0;

	add_buffer(l, number, o->target, &told);
	if (o->arguments)
		add_arguments(l, number, o->arguments, &told);
	if (o->extra)
		add_packed(l, number, o->extra, &told);
	return told;
}

/* Reports the further buffers that are left unwritten when a failure that was reported before happens again. */
static void report_unwritten(uint64_t number, const struct operands *o)
{
	struct line l;

	line_begin(&l, "unwritten");
	line_number(&l, "number", (int64_t)number);
	if (add_buffers(&l, number, o))
		line_end(&l);
}

/* ---- errors that the CUDA runtime keeps until cudaGetLastError returns them */

/*
 * The newest failed call of this thread whose error the runtime may still return, and the number of launches since
 * that call.
 */
static __thread struct {
	int error;
	bool of_driver; /* error is a CUresult; the runtime may return it under another number */
	unsigned launches;
	uint64_t when;
	char call[64], by[WATCH_BY], kernel[128];
} pending;

static bool reads_last_error(CUpti_CallbackId id)
{
	return id == CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020 ||
	       id == CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020;
}

static void remember_error(const CUpti_CallbackData *c, int result, bool of_driver)
{
	inject_listen_closely();
	pending.error = result;
	pending.of_driver = of_driver;
	pending.launches = 0;
	pending.when = clock_ns();
	snprintf(pending.call, sizeof(pending.call), "%s", c->functionName);
	snprintf(pending.kernel, sizeof(pending.kernel), "%s", c->symbolName ? c->symbolName : "");
	caller_name(pending.by, sizeof(pending.by));
}

/*
 * Returns true if the runtime may return the pending error as `result`. For most errors the numbers are equal; for
 * some the runtime has a more specific number.
 */
static bool is_pending(int result)
{
	return result == pending.error ||
	       (pending.of_driver &&
		((pending.error == CUDA_ERROR_INVALID_VALUE && result == cudaErrorInvalidConfiguration) ||
		 (pending.error == CUDA_ERROR_NOT_FOUND &&
		  (result == cudaErrorInvalidDeviceFunction || result == cudaErrorInvalidSymbol))));
}

/*
 * Handles a call to cudaGetLastError that returned the pending error. A library that asks right after its own failed
 * call handles the error properly. But if another library asks, or if work was launched in between, then the library
 * that asks takes the old error for an error of its own, and this is reported once.
 */
static void report_late_error(const CUpti_CallbackData *c, int result)
{
	char by[WATCH_BY];
	struct line l;

	if (!is_pending(result))
		return;
	caller_name(by, sizeof(by));
	if (!pending.launches && caller_same(by, pending.by))
		return;
	uint64_t origin = 0;
	for (const char *p = pending.by; *p; p++)
		origin = hash_mix(origin, (unsigned char)*p);
	if (!objects_first_time(9, origin, (uint64_t)result))
		return;
	line_begin(&l, "late");
	line_text(&l, "call", c->functionName);
	line_number(&l, "result", result);
	line_text(&l, "by", by);
	line_text(&l, "origin_call", pending.call);
	line_number(&l, "origin_result", pending.error);
	line_text(&l, "origin_by", pending.by);
	if (*pending.kernel)
		line_text(&l, "kernel", pending.kernel);
	line_number(&l, "launches", pending.launches);
	line_number(&l, "ns", (int64_t)(clock_ns() - pending.when));
	line_end(&l);
}

void failures_launched(void)
{
	pending.launches += pending.error != 0;
}

void failures_runtime(CUpti_CallbackId id, const CUpti_CallbackData *c, int result)
{
	if (reads_last_error(id)) {
		if (result && pending.error)
			report_late_error(c, result);
		if (id == CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020)
			pending.error = 0;
	} else if (result && result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_DEINITIALIZED &&
		   !is_sticky((CUresult)result)) {
		remember_error(c, result, false);
	}
}

/* ---- failed calls */

static void add_operands(struct line *l, const struct operands *o, const CUpti_CallbackData *c)
{
	struct entry e;

	line_handle(l, "current", c->context);
	if (o->has_stream) {
		line_handle(l, "stream", o->stream);
		line_handle(l, "stream_context", pointer_of(objects_stream_owner(o->stream, c)));
	}
	if (o->function) {
		line_handle(l, "function", o->function);
		line_handle(l, "function_context",
			    pointer_of(objects_function_owner(o->function, c->symbolName)));
		if (c->symbolName || table_get(&kernels, handle_of(o->function), &e))
			line_text(l, "kernel", c->symbolName ? c->symbolName : pointer_of(e.a));
	}
	if (o->event) {
		line_handle(l, "event", o->event);
		line_handle(l, "event_context", pointer_of(objects_owner(OBJECT_EVENT, o->event)));
	}
}

static uint64_t failure_key(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result,
			    const struct operands *o)
{
	uint64_t key = hash_mix(hash_mix(6, id), (uint64_t)result);

	key = hash_mix(key, handle_of(o->function));
	return hash_mix(key, o->has_stream ? objects_stream_owner(o->stream, c) : 0) | 1;
}

static bool is_capture_error(CUresult r)
{
	return r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	       r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

uint64_t failures_number(void)
{
	uint64_t number = __atomic_add_fetch(&next_failure, 1, __ATOMIC_RELAXED);

	failures_count(number);
	return number;
}

/* Counts the failure in the shared memory, where the watcher can read the count even after the program crashed. */
void failures_count(uint64_t number)
{
	if (number < WATCH_FAILURES)
		__atomic_fetch_add(&record_shared()->failed[number], 1, __ATOMIC_RELAXED);
}

/* Returns true, and counts the failure, if a failure of this kind was reported before. */
static bool count_repeat(uint64_t key, const struct operands *o)
{
	struct entry e;

	if (!table_add(&failures, key, 1, &e))
		return false;
	failures_count(e.a);
	if (e.c <= MAX_BUFFER_LOOKUPS)
		report_unwritten(e.a, o);
	return true;
}

void failures_call(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result)
{
	struct operands o;
	struct line l;
	char by[WATCH_BY];
	uint64_t now = clock_ns();

	operands_of(id, c, &o);
	__atomic_fetch_add(&record_shared()->failures, 1, __ATOMIC_RELAXED);
	if (!is_sticky(result) && (int)result != pending.error)
		remember_error(c, (int)result, true);
	uint64_t key = failure_key(id, c, result, &o);
	if (count_repeat(key, &o))
		return;
	uint64_t number = failures_number();
	if (!table_new(&failures, key, number, 0, 1)) {
		/* another thread reported this failure just now, or the table is full */
		count_repeat(key, &o);
		return;
	}
	line_begin(&l, "fail");
	line_number(&l, "number", (int64_t)number);
	line_text(&l, "call", c->functionName);
	line_number(&l, "result", (int64_t)result);
	add_operands(&l, &o, c);
	add_buffers(&l, number, &o);
	line_text(&l, "by", caller_name(by, sizeof(by)));
	line_end(&l);
	if (is_sticky(result) && objects_first_time(7, 0, 0))
		table_each(&last, write_last_launch, &now);
	if (is_capture_error(result))
		objects_tell_captures();
}

static void write_repeats(const struct entry *e, void *arg)
{
	struct line l;

	(void)arg;
	if (e->c < 2)
		return;
	line_begin(&l, "repeats");
	line_number(&l, "number", (int64_t)e->a);
	line_number(&l, "count", (int64_t)e->c);
	line_end(&l);
}

void failures_finish(void)
{
	table_each(&failures, write_repeats, NULL);
}
