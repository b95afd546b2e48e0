/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_INJECT_SHARED_H
#define WATCH_INJECT_SHARED_H
/*
 * The interface between the injected library and the watching `infer`. Each watched process has two files in the folder
 * that INFER_WATCH_DIR names:
 *
 *   PID.log   one line for each event, written as it happens, so that a crash loses none:
 *             SECONDS TAB THREAD TAB KIND { TAB KEY=VALUE }; in values % TAB and newline are %25 %09 %0A
 *   PID.mem   struct watch_shared, mapped by both sides: counters, which change too often for events
 *
 * PID.K.log and PID.K.mem, K = 1, 2, ..., are used when a process runs exec() or when a process id is used again.
 *
 * Kinds and their keys are listed in src/watch/event.h.
 */
#include <stdint.h>

#define WATCH_DIR_VARIABLE   "INFER_WATCH_DIR"	 /* where the two files go */
#define WATCH_CUPTI_VARIABLE "INFER_WATCH_CUPTI" /* path of libcupti */
#define WATCH_WHAT_VARIABLE  "INFER_WATCH_WHAT"	 /* sum of enum watch_what, decimal */
/*
 * the library that CUDA_INJECTION64_PATH named before watch replaced it by our library; our library loads and
 * starts it before it starts itself
 */
#define WATCH_NEXT_VARIABLE "INFER_WATCH_NEXT"
/* smallest malloc block that is recorded, in bytes; if unset, no block is recorded */
#define WATCH_HEAP_VARIABLE "INFER_WATCH_HEAP"

/* Which CUDA calls get a callback. Each callback costs the watched program time. */
enum watch_what {
	WATCH_CONTEXTS = 1, /* contexts and the objects that belong to them */
	WATCH_MEMORY = 2,   /* allocations */
	WATCH_CALLS = 4,    /* errors of all other calls, launches and copies */
	WATCH_ALL = 7,
	WATCH_CLOSELY = 8, /* frequent runtime calls from the start, not only after the first failure */
};

enum watch_kind { WATCH_DEVICE, WATCH_PINNED, WATCH_MANAGED, WATCH_KINDS };

enum { WATCH_SITES = 512, WATCH_BY = 240, WATCH_FAILURES = 1024 };
#define WATCH_MAGIC	   UINT64_C(0x34686374617769)
#define WATCH_SIZES_DIFFER UINT64_MAX

/*
 * Sums over the allocations of one kind by one caller. `made` counts all allocations so far; `live` and `live_bytes`
 * count the allocations that are not yet freed.
 */
struct watch_site {
	uint64_t live_bytes, live, made;
	uint64_t each; /* bytes of each allocation so far, or WATCH_SIZES_DIFFER */
	uint64_t first_call,
		last_call; /* watch_shared.calls at the first and at the newest allocation */
	uint32_t kind;	   /* enum watch_kind */
	char by[WATCH_BY];
};
struct watch_shared {
	uint64_t magic;
	int32_t pid;
	uint32_t nsites; /* the last site collects all callers that have no site of their own */
	uint64_t live[WATCH_KINDS], peak[WATCH_KINDS];
	uint64_t calls, launches, copies, failures; /* callbacks received */
	uint64_t forgotten;			    /* objects that did not fit in the tables */
	uint64_t unsaid;			    /* events that were not written to the log */
	uint64_t exited; /* 1 after _exit(), by which children of fork() often end */
	uint32_t failed[WATCH_FAILURES]; /* indexed by failure number: how often the failure happened */
	struct watch_site site[WATCH_SITES];
};

#endif
