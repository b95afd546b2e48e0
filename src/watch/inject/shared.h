/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_INJECT_SHARED_H
#define WATCH_INJECT_SHARED_H
/*
 * What the injected library and the watching `infer` agree on. A watched process has two files in the folder
 * that INFER_WATCH_DIR names:
 *
 *   PID.log   one event a line, written as it happens, so that it survives a crash:
 *             SECONDS TAB THREAD TAB KIND { TAB KEY=VALUE }; in values % TAB and newline are %25 %09 %0A
 *   PID.mem   struct watch_shared, mapped by both sides: what changes too often for lines
 *
 * PID.K.log and PID.K.mem, K = 1, 2, ...: another program in a process of the same number, after an exec or an end.
 *
 * Kinds and their keys are listed in src/watch/event.h.
 */
#include <stdint.h>

#define WATCH_DIR_VARIABLE   "INFER_WATCH_DIR"	 /* where the two files go */
#define WATCH_CUPTI_VARIABLE "INFER_WATCH_CUPTI" /* path of libcupti */
#define WATCH_WHAT_VARIABLE  "INFER_WATCH_WHAT"	 /* sum of enum watch_what, decimal */
/* what CUDA_INJECTION64_PATH named before: it is loaded first */
#define WATCH_NEXT_VARIABLE "INFER_WATCH_NEXT"
#define WATCH_HEAP_VARIABLE                                                                        \
	"INFER_WATCH_HEAP" /* least bytes of a block of malloc's that is kept in mind */

/* Which calls are listened to: each costs the watched program time. */
enum watch_what {
	WATCH_CONTEXTS = 1, /* contexts and what they own */
	WATCH_MEMORY = 2,   /* allocations */
	WATCH_CALLS = 4,    /* errors of all other calls, launches and copies */
	WATCH_ALL = 7,
	WATCH_CLOSELY = 8, /* the runtime's frequent calls from the start, not from the first failure on */
};

enum watch_kind { WATCH_DEVICE, WATCH_PINNED, WATCH_MANAGED, WATCH_KINDS };

enum { WATCH_SITES = 512, WATCH_BY = 240, WATCH_FAILURES = 1024 };
#define WATCH_MAGIC UINT64_C(0x33686374617769)

/* Allocations of one kind by one caller. */
struct watch_site {
	uint64_t live_bytes, live, made;
	uint32_t kind; /* enum watch_kind */
	char by[WATCH_BY];
};
struct watch_shared {
	uint64_t magic;
	int32_t pid;
	uint32_t nsites; /* the last one takes what no other has room for */
	uint64_t live[WATCH_KINDS], peak[WATCH_KINDS];
	uint64_t calls, launches, copies, failures; /* callbacks heard */
	uint64_t forgotten;			    /* objects that the tables had no room for */
	uint64_t unsaid;			    /* lines that were left out of the log */
	uint64_t exited;		 /* it ended by _exit(), as children of fork() do */
	uint32_t failed[WATCH_FAILURES]; /* how often the failure of this number came */
	struct watch_site site[WATCH_SITES];
};

#endif
