/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H
/* Memory, page faults and waiting times of a process, from /proc. The pid 0 is this process. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_memory {
	uint64_t rss;	  /* resident bytes */
	uint64_t peak;	  /* most resident bytes so far */
	uint64_t private; /* resident bytes that no other process shares, and those swapped out */
};
/*
 * Read smaps_rollup, which takes 0.1 ms and more because it walks the page tables: call it between phases, not for
 * each iteration. If that file is missing, `private` is the resident memory that statm does not report as shared.
 * false: the system tells nothing.
 */
bool proc_memory(int pid, struct proc_memory *m);

/* Bytes that can still be allocated without swapping (MemAvailable); 0: unknown. */
uint64_t proc_available(void);

/* Resident bytes from statm, in some microseconds; 0: unknown. */
uint64_t proc_rss(int pid);

/*
 * To sample a process often, proc_open() opens its statm once (-1: it cannot be opened; the caller closes it), and
 * proc_sample() reads resident and unshared bytes from it. false: the process has ended.
 */
int proc_open(int pid);
bool proc_sample(int fd, uint64_t *rss, uint64_t *unshared);

/*
 * Nanoseconds that the living threads of this process were ready to run but waited for a core, because other threads
 * or programs had it. 0: unknown.
 */
uint64_t proc_waited(void);

/*
 * The same for sampling often, for the threads that exist when it is made: their files stay open, so that a reading
 * takes about a microsecond a thread. The kernel adds a wait when it ends. Even on a free core a wake-up takes some
 * time, so the first 5 us of each wait are not counted. NULL: unknown.
 */
struct proc_waits;
struct proc_waits *proc_waits_new(void);
void proc_waits_free(struct proc_waits *w);
/* Nanoseconds since the last call that the calling thread (which made w) waited, and the sum of all other threads. */
void proc_waits_read(struct proc_waits *w, uint64_t *own, uint64_t *others);

struct proc_faults {
	uint64_t minor, major;	     /* page faults */
	uint64_t voluntary, forced;  /* context switches; of this process only */
	uint64_t user_ns, system_ns; /* processor time; of this process only */
};
bool proc_faults(int pid, struct proc_faults *f);

#endif
