/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_INJECT_INJECT_H
#define GPU_INJECT_INJECT_H
/*
 * The library that the CUDA driver loads into a watched program (CUDA_INJECTION64_PATH). It listens through
 * CUPTI, keeps what must be known at the moment of a call, and writes events; it judges nothing, and calls
 * nothing of CUDA's from a callback. It needs libc alone; libcupti is opened when it starts.
 */
#include "gpu/inject/shared.h"

#include <cuda.h>
#include <cupti.h>

#include <stdbool.h>
#include <stddef.h>

/* ---- record.c: events and counters */

bool record_open(const char *dir);
void record_close(void);
struct watch_shared *record_shared(void);

/* One line, whole: begin, add, end. Long values are cut. */
struct line {
	char text[2048];
	size_t n;
};
void line_begin(struct line *l, const char *kind);
void line_text(struct line *l, const char *key, const char *value);
void line_number(struct line *l, const char *key, int64_t value);
void line_handle(struct line *l, const char *key, const void *value);
void line_end(struct line *l);

/* ---- caller.c: who called */

/* "libc10_cuda.so < libtorch.so": the libraries on the stack, CUDA's own left out where others are. */
const char *caller_name(char *text, size_t room);

/* ---- table.c: a map from handles to records, bounded, with its own lock */

struct table {
	struct entry {
		uint64_t key; /* 0: free */
		uint64_t a, b, c;
	} * entry;
	size_t cap, used, most;
	int lock;
};
bool table_put(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c);
/* False where it has none; *e is a copy. */
bool table_get(struct table *t, uint64_t key, struct entry *e);
bool table_take(struct table *t, uint64_t key, struct entry *e);
/* The entry with key <= address < key + a. For rare use: it looks at all of them. */
bool table_find(struct table *t, uint64_t address, struct entry *e, bool wait);
/* All entries, under the lock. */
void table_each(struct table *t, void (*see)(const struct entry *, void *arg), void *arg);

/* ---- memory.c: allocations */

void memory_made(enum watch_kind kind, uint64_t address, uint64_t bytes);
void memory_gone(uint64_t address);
/* A virtual allocation (cuMemCreate) is counted by its handle and found by where it is mapped. */
void memory_created(uint64_t handle, uint64_t bytes);
void memory_released(uint64_t handle);
void memory_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
void memory_unmapped(uint64_t address);
/* The allocation an address falls into. wait false: in a signal handler. */
bool memory_find(uint64_t address, bool wait, uint64_t *start, uint64_t *bytes,
		 enum watch_kind *kind, const char **by);

/* ---- host.c: host memory */

/* Why bytes at p cannot be read (or written) by the host, or NULL. */
const char *host_fault(const void *p, size_t bytes, bool write, char *text, size_t room);
/* Explains a segmentation fault on a device address, then lets it happen. */
void host_watch_faults(void);

/* ---- calls.c: what each call means */

void calls_enter(CUpti_CallbackId id, const CUpti_CallbackData *c);
void calls_exit(CUpti_CallbackId id, const CUpti_CallbackData *c, CUresult result);
/* Whether the call is listened to. */
bool calls_wanted(CUpti_CallbackId id, unsigned what);
void calls_finish(void); /* what is told at the end */
void calls_context(CUcontext context, bool created);
void calls_stream(CUcontext context, CUstream stream, bool created);

#endif
