/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H
/* What the system says of a process: memory and faults, from /proc. A pid of 0 is this process. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_memory {
	uint64_t rss;	  /* resident bytes */
	uint64_t peak;	  /* most resident bytes so far */
	uint64_t private; /* resident bytes that no other process shares, and those swapped out */
};
/*
 * From smaps_rollup, which walks the page tables (0.1 ms and up): for moments between phases, not
 * for each iteration. Without that file private is what statm says is not backed by files. False
 * where the system says nothing.
 */
bool proc_memory(int pid, struct proc_memory *m);

/* What the system could still give, in bytes; 0 where it does not say. */
uint64_t proc_available(void);

/* Resident bytes, from statm: cheap (some microseconds). 0 where the system does not say. */
uint64_t proc_rss(int pid);

/*
 * The same over and over: the file stays open. -1 where it does not open. proc_sample reads
 * resident and unshared bytes; false where the process is gone.
 */
int proc_open(int pid);
bool proc_sample(int fd, uint64_t *rss, uint64_t *unshared);

/*
 * How long this process's threads, those that still run, waited for a core although they could run, in nanoseconds:
 * what other programs took. 0 where the system does not say.
 */
uint64_t proc_waited(void);

/*
 * The same again and again, of the threads that there are now; the files stay open, so that it takes about a
 * microsecond a thread. A wait is known when it ends. What a wake-up takes on a free core is no wait: the first
 * 5 us of each do not count. NULL where the system does not say.
 */
struct proc_waits;
struct proc_waits *proc_waits_new(void);
void proc_waits_free(struct proc_waits *w);
/* Since the last call: own: the caller's, which made w; others: those of all other threads. */
void proc_waits_read(struct proc_waits *w, uint64_t *own, uint64_t *others);

struct proc_faults {
	uint64_t minor, major;	     /* page faults */
	uint64_t voluntary, forced;  /* context switches; of this process only */
	uint64_t user_ns, system_ns; /* processor time; of this process only */
};
bool proc_faults(int pid, struct proc_faults *f);

#endif
