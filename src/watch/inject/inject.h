/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_INJECT_INJECT_H
#define WATCH_INJECT_INJECT_H
/*
 * The library that the CUDA driver loads into a watched program (CUDA_INJECTION64_PATH). It gets callbacks from CUPTI
 * for CUDA calls, keeps the state that is needed to explain a failing call, and writes events. It leaves judgement to
 * the watching `infer`, and never calls CUDA from a callback. It links to libc only, and opens libcupti when it starts.
 */
#include "watch/inject/shared.h"

#include <cuda.h>
#include <cupti.h>

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* ---- spin locks, which are held for few instructions and never while the holder waits for anything */

static inline bool lock_try(int *lock)
{
	return !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

static inline void lock_take(int *lock)
{
	/* sleep after a while: if waiting threads only yield, a lock holder of lower priority may never run */
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
/* Call this in a child of fork(). Closes the parent's log and stops sharing the parent's counters. */
void record_forked(void);

/* One event: line_begin, then its values, then line_end, which writes the line at once. Long lines are cut. */
struct line {
	char text[2048];
	size_t n;
	bool vital; /* the event reports a finding, so it may exceed the usual bound of the log */
};
void line_begin(struct line *l, const char *kind);
void line_text(struct line *l, const char *key, const char *value);
void line_number(struct line *l, const char *key, int64_t value);
void line_handle(struct line *l, const char *key, const void *value);
void line_end(struct line *l);

/* ---- caller.c: the libraries on the call stack */

/*
 * Writes the libraries on the stack to `text`, innermost first, as "libc10_cuda.so(malloc+0x12) < libtorch.so". The
 * driver, CUPTI, this library and libc are left out. Returns `text`.
 */
const char *caller_name(char *text, size_t room);
/* Like caller_name, for signal handlers: does not allocate and does not wait. For one thread at a time. */
const char *caller_name_now(char *text, size_t room);
/* Like caller_name_now, for one code address only, when there is too little stack to walk the whole stack. */
const char *caller_name_place(const void *place, char *text, size_t room);
/* Finds the first library in such a text that is not the CUDA runtime (libcudart). Returns the length of its name. */
size_t caller_library(const char *by, const char **name);
/*
 * Returns true if one library is responsible for both calls, that is, if the library of one call is on the stack of
 * the other call.
 */
bool caller_same(const char *by, const char *other);

/* ---- table.c: a map from handles to records, bounded, with its own lock */

struct table {
	struct entry {
		uint64_t key;	  /* 0: free */
		uint64_t a, b, c; /* their meaning differs from table to table */
	} * entry;
	/* number of slots, number of records, and bound of cap (a power of two; 0 means 1 << 17) */
	size_t cap, used, most;
	int lock;
};
/* Stores a record, and replaces a record of the same key. Returns false if the table is full. */
bool table_put(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/*
 * Stores a record only if the key is new; otherwise returns false. If several threads try at once, only one of the
 * calls returns true.
 */
bool table_new(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/* Like table_put, for objects of the watched program: records that do not fit are counted for the report. */
bool table_must(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/*
 * Copies the record of the key to *e. Returns false if the table has no such record. table_take() also removes the
 * record from the table.
 */
bool table_get(struct table *t, uint64_t key, struct entry *e);
bool table_take(struct table *t, uint64_t key, struct entry *e);
/* Adds to the field c of a record, and copies the result to *e. Returns false if the key has no record. */
bool table_add(struct table *t, uint64_t key, uint64_t c, struct entry *e);
size_t table_used(struct table *t);
/*
 * Finds the entry with key <= address < key + a. Slow, because it scans the table. With `wait` false it returns false
 * if another thread holds the lock.
 */
bool table_find(struct table *t, uint64_t address, struct entry *e, bool wait);
/* Calls see() for all entries, with the lock held, so see() must not use this table. */
void table_each(struct table *t, void (*see)(const struct entry *, void *arg), void *arg);
/*
 * Calls take() for each entry for which of(entry, whose) is true. The lock is not held during take(), which must
 * remove the entry.
 */
void table_clear(struct table *t, bool (*of)(const struct entry *e, uint64_t whose), uint64_t whose,
		 void (*take)(struct table *t, uint64_t key, uint64_t whose));

struct operands;

/* ---- memory.c: allocations */

struct block {
	uint64_t start, bytes;
	enum watch_kind kind;
	bool registered; /* ordinary host memory that the program pinned with cuMemHostRegister */
	const char *by;
};
void memory_made(enum watch_kind kind, uint64_t address, uint64_t bytes, CUcontext context);
/* Forgets the memory of a destroyed context, which the driver frees. */
void memory_context_gone(uint64_t context);
void memory_registered(uint64_t address, uint64_t bytes);
void memory_gone(uint64_t address);
/*
 * Memory of cuMemCreate is counted once for each handle, and found by the addresses where it is mapped. It is freed when
 * the handle was released as often as it was created and retained, and no mapping is left.
 */
void memory_created(enum watch_kind kind, uint64_t handle, uint64_t bytes);
void memory_retained(uint64_t handle);
void memory_released(uint64_t handle);
void memory_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
void memory_unmapped(uint64_t address, uint64_t bytes);
/* CUDA arrays have a handle but no address. */
void memory_array_made(uint64_t handle, uint64_t bytes, CUcontext context);
void memory_array_gone(uint64_t handle);
/* Finds the allocation that contains an address. In a signal handler `wait` must be false. */
bool memory_find(uint64_t address, bool wait, struct block *b);
bool memory_pinned(uint64_t address, struct block *b); /* host memory only */

/* ---- lost.c: memory that was still allocated when its context was destroyed */

/* Remembers an allocation of a context that is about to be destroyed. `by` is permanent. */
void lost_add(uint64_t context, const struct block *b);
/*
 * Call this when the allocations of a destroyed context were added. Writes an event if another library than the caller
 * has lost memory, and watches from then on for that library's next work.
 */
void lost_context(uint64_t context);
/* Forgets what was lost in this range, because the driver has given the addresses to a new allocation. */
void lost_reused(uint64_t address, uint64_t bytes);
/*
 * Reports a call that is about to use lost memory, or that a library which lost memory makes as if nothing had
 * happened.
 */
void lost_tell(const CUpti_CallbackData *c, const struct operands *o);

/* ---- heap.c: malloc blocks, known only if this library was loaded before the program (LD_PRELOAD) */

/* Finds the recorded malloc block that contains the address. Returns false if there is no such block. */
bool heap_find(const void *p, const char **start, size_t *bytes);

/* ---- host.c: host memory */

/*
 * Writes to `text` why the host cannot read (or write) the bytes at p, and returns `text`. Returns NULL if the host
 * can access the bytes.
 */
const char *host_fault(const void *p, size_t bytes, bool write, char *text, size_t room);
/* Returns true if the host can read the whole range, and false if p is NULL. */
bool host_readable(const void *p, size_t bytes);

/* ---- signals.c: segmentation faults */

/* Starts the reports of faults. After the report, a fault is handled as it would have been without this library. */
void signals_watch(void);

/* ---- cost.c: the device memory that a context takes */

/*
 * Device memory in use, from NVML: `devices` is the sum over all devices, and `process` is the part of this process,
 * which is valid if `own` is true.
 */
struct cost {
	bool known, own;
	uint64_t process, devices;
};
struct cost cost_now(void);
/*
 * Sets *bytes to the growth of the device memory in use. *own tells whose memory it is: true, that of this process
 * alone; false, that of all processes on all devices, because the part of this process is not known. Returns false
 * if the growth is unknown or not above 0.
 */
bool cost_between(const struct cost *before, const struct cost *after, int64_t *bytes, bool *own);

/* ---- operands.c: the handles and addresses among the parameters of a driver call */

struct operands {
	bool launch, graph;
	CUstream stream;
	bool has_stream;
	CUfunction function;
	CUevent event;
	CUmodule module;
	void **arguments, **extra; /* of a launch */
	/* the device addresses that a copy or a fill reads and writes; 0 if there is none */
	CUdeviceptr source, target;
};
bool operands_launches(CUpti_CallbackId id); /* true if the call launches a kernel or a graph */
/* true if the call has a stream, an event, a function, a module or the address of a copy among its parameters */
bool operands_some(CUpti_CallbackId id);
bool operands_launch(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o);
void operands_of(CUpti_CallbackId id, const CUpti_CallbackData *c, struct operands *o);

/* ---- objects.c: contexts and the objects that belong to them */

enum object { OBJECT_STREAM, OBJECT_EVENT, OBJECT_MODULE, OBJECT_FUNCTION, OBJECTS };

void objects_context(CUcontext context, bool created);
void objects_stream(CUcontext context, CUstream stream, bool created);
void objects_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* Call this after a successful CUDA call. Returns false if the CUDA call does not concern these objects. */
bool objects_exit(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* Returns the context that owns the object, or 0 if the owner is unknown or the object belongs to no context. */
uint64_t objects_owner(enum object what, const void *handle);
/*
 * Returns the context that owns a function, or 0 as objects_owner() does. Also returns 0 if the function recorded
 * under this handle has another name than `symbol` (the name from CUPTI, or NULL if there is none).
 */
uint64_t objects_function_owner(const void *function, const char *symbol);
uint64_t objects_stream_owner(CUstream s, const CUpti_CallbackData *c);
/* true for a default stream (NULL, legacy, per-thread), which belongs to the current context */
bool objects_special(const void *stream);
/*
 * Reports the use of a handle of a destroyed context. Call this before the driver runs, since the driver may crash.
 */
void objects_tell_dead(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* Reports all open stream captures. Call this after an error that broke a capture. */
void objects_tell_captures(void);
/* Returns true if this is the first call with these three values. Used to write an event only once. */
bool objects_first_time(uint64_t a, uint64_t b, uint64_t c);

/* ---- failures.c: calls that failed, and which library received the error */

void failures_launch(const struct operands *o, const CUpti_CallbackData *c);
void failures_launched(void); /* after a successful launch */
void failures_call(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result);
/* Call this when a call of the CUDA runtime returns; result is its cudaError_t. */
void failures_runtime(CUpti_CallbackId id, const CUpti_CallbackData *c, int result);
void failures_finish(void); /* writes how often each failure happened */
/* Returns a number for a new kind of failure, and counts the failure once. failures_count() counts a repetition. */
uint64_t failures_number(void);
void failures_count(uint64_t number);

/* ---- copies.c: checks of the host memory of a copy, before it runs */

void copies_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
/* Returns the device address that a 2-D or 3-D copy writes, or 0 for other calls. */
CUdeviceptr copies_target(CUpti_CallbackId id, const CUpti_CallbackData *c);

/* ---- forked.c: CUDA in a child of fork() */

/* Call this once, when the driver starts: watches for children that use CUDA. */
void forked_watch(void);
/*
 * Returns true in a child of fork(). In the child CUDA does not work, and our locks must not be taken, because
 * threads that do not exist in the child may hold them.
 */
bool inject_forked(void);
/* Call this in a forked child when a call of the driver returns. */
void forked_call(const CUpti_CallbackData *c);

/* ---- inject.c */

/*
 * Returns true once exit() has begun. From then on, uses of destroyed contexts are part of normal cleanup, not
 * faults.
 */
bool inject_ending(void);
/* Call this after a failure: enables callbacks for the frequent runtime calls, which may return the error later. */
void inject_listen_closely(void);
/*
 * Enable more callbacks. inject_contexts_meet() is for the time when a second context exists: it enables callbacks
 * for calls that can mix objects of two contexts. inject_context_gone() is for the time when a context was destroyed:
 * it enables callbacks for all calls that can use the context's objects.
 */
void inject_contexts_meet(void);
void inject_context_gone(void);

/* ---- calls.c: which calls we listen to, and which file handles each */

void calls_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
void calls_exit(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result);
void calls_listen(unsigned what); /* sum of enum watch_what; set before the first callback */
/* Returns true if we listen to this call of the driver. */
bool calls_wanted(CUpti_CallbackId id, unsigned what);
/* Returns true if we listen to this call of the driver when the program has several contexts. */
bool calls_cross(CUpti_CallbackId id);
/*
 * Returns true if we listen to this call of the CUDA runtime: from the start if `failed` is false, or only after a
 * first failure if `failed` is true.
 */
bool calls_wanted_runtime(CUpti_CallbackId id, unsigned what, bool failed);

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define EXPORT	 __attribute__((visibility("default")))
/*
 * f must be pasted directly, not passed on to another macro, because cuda.h defines some call names as macros for
 * newer versions.
 */
#define ID(f)	  CUPTI_DRIVER_TRACE_CBID_##f
#define PARAMS(f) const f##_params *p = c->functionParams
/* Tables and events hold handles and addresses as numbers. */
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
/* text_keep() returns a permanent copy of the first MAX_TEXT bytes of the text, or "" if there is no room. */
enum { MAX_TEXT = 1000 };
const char *text_keep(const char *text);

#endif
