/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_INJECT_INJECT_H
#define WATCH_INJECT_INJECT_H
/*
 * The library that the CUDA driver loads into a watched program (CUDA_INJECTION64_PATH). It listens through
 * CUPTI, keeps what must be known at the moment of a call, and writes events; it judges nothing, and calls
 * nothing of CUDA's from a callback. It needs libc alone; libcupti is opened when it starts.
 */
#include "watch/inject/shared.h"

#include <cuda.h>
#include <cupti.h>

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* ---- locks: held for few instructions, never while anything is waited for */

static inline bool lock_try(int *lock)
{
	return !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

static inline void lock_take(int *lock)
{
	/* who holds it may have the lower priority, and no turn while others only yield */
	static const struct timespec moment = {0, 20000};

	for (int turns = 0; !lock_try(lock); turns++) {
		if (turns < 64)
			sched_yield();
		else
			nanosleep(&moment, NULL);
	}
}

static inline void lock_give(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- record.c: events and counters */

bool record_open(const char *dir);
void record_close(void);
struct watch_shared *record_shared(void);
/* In a child that was forked and runs on: what it does is not the parent's. */
void record_forked(void);

/* One line, whole: begin, add, end. Long values are cut. */
struct line {
	char text[2048];
	size_t n;
	bool vital; /* written although much was written before */
};
void line_begin(struct line *l, const char *kind);
void line_text(struct line *l, const char *key, const char *value);
void line_number(struct line *l, const char *key, int64_t value);
void line_handle(struct line *l, const char *key, const void *value);
void line_end(struct line *l);

/* ---- caller.c: who called */

/* "libc10_cuda.so < libtorch.so": the libraries on the stack, CUDA's own left out where others are. */
const char *caller_name(char *text, size_t room);
/* The same in a signal handler: nothing is allocated, nothing waited for. One thread at a time. */
const char *caller_name_now(char *text, size_t room);
/* The same of one place in the code, where there is no room to look at a stack. */
const char *caller_name_place(const void *place, char *text, size_t room);
/* The first of such names that is not the CUDA runtime's, without its function; its length. */
size_t caller_library(const char *by, const char **name);
/* Both calls are one library's business: one called the other, or they are the same. */
bool caller_same(const char *by, const char *other);

/* ---- table.c: a map from handles to records, bounded, with its own lock */

struct table {
	struct entry {
		uint64_t key; /* 0: free */
		uint64_t a, b, c;
	} * entry;
	size_t cap, used, most; /* most: entries it may grow to, a power of two; 0: MOST */
	int lock;
};
bool table_put(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/* The same where the key is new; false where it is not: of threads that come together, one is the first. */
bool table_new(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/* The same of an object of the program's: the report says how many there was no room for. */
bool table_must(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/* False where it has none; *e is a copy. */
bool table_get(struct table *t, uint64_t key, struct entry *e);
bool table_take(struct table *t, uint64_t key, struct entry *e);
/* Adds to c; *e is a copy of what came of it. */
bool table_add(struct table *t, uint64_t key, uint64_t c, struct entry *e);
size_t table_used(struct table *t);
/* The entry with key <= address < key + a. For rare use: it looks at all of them. */
bool table_find(struct table *t, uint64_t address, struct entry *e, bool wait);
/* All entries, under the lock. */
void table_each(struct table *t, void (*see)(const struct entry *, void *arg), void *arg);
/* Every entry of which of() says that it is somebody's: take() takes it out, not under the lock. */
void table_clear(struct table *t, bool (*of)(const struct entry *e, uint64_t whose), uint64_t whose,
		 void (*take)(struct table *t, uint64_t key, uint64_t whose));

/* ---- memory.c: allocations */

struct block {
	uint64_t start, bytes;
	enum watch_kind kind;
	bool registered; /* host memory of the program's own, pinned later */
	const char *by;
};
void memory_made(enum watch_kind kind, uint64_t address, uint64_t bytes, CUcontext context);
/* A context takes its memory along. */
void memory_context_gone(uint64_t context);
void memory_registered(uint64_t address, uint64_t bytes);
void memory_gone(uint64_t address);
/*
 * A virtual allocation (cuMemCreate) is counted by its handle and found by where it is mapped. It lives until its
 * handle was released as often as it was given out, and it is mapped nowhere.
 */
void memory_created(enum watch_kind kind, uint64_t handle, uint64_t bytes);
void memory_retained(uint64_t handle);
void memory_released(uint64_t handle);
void memory_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
void memory_unmapped(uint64_t address, uint64_t bytes);
/* An array has a handle and no address. */
void memory_array_made(uint64_t handle, uint64_t bytes, CUcontext context);
void memory_array_gone(uint64_t handle);
/* The allocation an address falls into. wait false: in a signal handler. */
bool memory_find(uint64_t address, bool wait, struct block *b);
bool memory_pinned(uint64_t address, struct block *b); /* host memory alone */

/* ---- heap.c: blocks of malloc's, where this library was loaded before the program */

/* The block that the address falls into; false where it is in none that is known. */
bool heap_find(const void *p, const char **start, size_t *bytes);

/* ---- host.c: host memory */

/* Why bytes at p cannot be read (or written) by the host, or NULL. */
const char *host_fault(const void *p, size_t bytes, bool write, char *text, size_t room);
/* The range can be read. */
bool host_readable(const void *p, size_t bytes);

/* ---- signals.c: segmentation faults */

/* From now on a fault on a device address is explained, and then happens as it would have. */
void signals_watch(void);

/* ---- cost.c: what a context costs */

/* Device memory in use, by NVML: of this process where it tells, else of all devices. */
struct cost {
	bool known, own;
	uint64_t process, devices;
};
struct cost cost_now(void);
/* The difference in bytes; false where it is not known. */
bool cost_between(const struct cost *before, const struct cost *after, int64_t *bytes, bool *own);

/* ---- operands.c: what a call works on */

struct operands {
	bool launch, graph;
	CUstream stream;
	bool has_stream;
	CUfunction function;
	CUevent event;
	void **arguments, **extra; /* of a launch */
	CUdeviceptr target;	   /* of a copy or a fill: what it writes */
};
bool operands_launches(CUpti_CallbackId id); /* it launches a kernel or a graph */
bool operands_some(CUpti_CallbackId id);     /* it has a stream, an event or a function */
bool operands_launch(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o);
void operands_of(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o);

/* ---- objects.c: contexts and what they own */

enum object { OBJECT_STREAM, OBJECT_EVENT, OBJECT_MODULE, OBJECT_FUNCTION, OBJECTS };

void objects_context(CUcontext context, bool created);
void objects_stream(CUcontext context, CUstream stream, bool created);
void objects_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* After a call that went well; false: it is of another kind. */
bool objects_exit(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* The context that owns it; 0: not known, or none does. */
uint64_t objects_owner(enum object what, const void *handle);
/* The same of a function, whose name CUPTI tells: NULL where it does not. */
uint64_t objects_function_owner(const void *function, const char *symbol);
uint64_t objects_stream_owner(CUstream s, const CUpti_CallbackData *c);
bool objects_special(const void *stream); /* NULL, legacy, per thread: of the current context */
/* A handle whose context is gone: the driver may crash on it, so it is told before. */
void objects_tell_dead(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* Open captures, after one broke. */
void objects_tell_captures(void);
/* True the first time, for this mix of things. */
bool objects_first_time(uint64_t a, uint64_t b, uint64_t c);

/* ---- failures.c: calls that failed, and who learned of it */

void failures_launch(const struct operands *o, const CUpti_CallbackData *c);
void failures_launched(void); /* it went well */
void failures_call(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result);
/* A call of the CUDA runtime came back. */
void failures_runtime(CUpti_CallbackId id, const CUpti_CallbackData *c, int result);
void failures_finish(void); /* what is told at the end */
/* A new kind of failure, which came once; and once more. */
uint64_t failures_number(void);
void failures_count(uint64_t number);

/* ---- copies.c: host ranges, before a copy runs */

void copies_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* What a copy with a pitch writes on the device; 0: no such call. */
CUdeviceptr copies_target(CUpti_CallbackId id, const CUpti_CallbackData *c);

/* ---- inject.c */

/* This is a child that was forked: CUDA does not work in it, and our locks may be held by threads it has not. */
bool inject_forked(void);
/* The program's end began: what belongs to contexts that are gone may be used no more, and is torn down. */
bool inject_ending(void);
/* A call failed: from now on it is heard who asks for errors. */
void inject_listen_closely(void);
/* There are two contexts: what they share is heard. One is gone: so is all that may still use what was its own. */
void inject_contexts_meet(void);
void inject_context_gone(void);

/* ---- calls.c: what is listened to, and where it goes */

void calls_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
void calls_exit(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result);
void calls_listen(unsigned what); /* enum watch_what; before the first call */
/* Whether the call of the driver, of the runtime, is listened to. */
bool calls_wanted(CUpti_CallbackId id, unsigned what);
bool calls_cross(CUpti_CallbackId id);
/* failed: those that are added once a call failed. */
bool calls_wanted_runtime(CUpti_CallbackId id, unsigned what, bool failed);

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define EXPORT	 __attribute__((visibility("default")))
/* Pasted at once: cuda.h gives some names to later versions of their functions. */
#define ID(f)	  CUPTI_DRIVER_TRACE_CBID_##f
#define PARAMS(f) const f##_params *p = c->functionParams
/* In tables and lines a handle is a number. */
static inline uint64_t handle_of(const void *h)
{
	return (uint64_t)(uintptr_t)h;
}
static inline const void *pointer_of(uint64_t h)
{
	return (const void *)(uintptr_t)h;
}
uint64_t thread_id(void);
uint64_t hash_mix(uint64_t h, uint64_t v);
/* The text, kept for good, or its beginning; "" where there is no room. */
enum { MAX_TEXT = 1000 };
const char *text_keep(const char *text);

#endif
