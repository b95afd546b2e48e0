/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H
/*
 * Memory, page faults and waiting times of a process, from /proc. The pid 0 stands for this
 * process.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_memory {
	uint64_t rss;  /* resident bytes */
	uint64_t peak; /* most resident bytes so far */
	/* resident bytes that no other process shares, plus bytes that are swapped out */
	uint64_t private;
};
/*
 * Reads smaps_rollup, which takes 0.1 ms or more because the kernel walks the page tables: call
 * this function between phases, not for each iteration. If the file is missing, `private` is the
 * resident memory that statm does not report as shared. Returns false if neither file can be read.
 */
bool proc_memory(int pid, struct proc_memory *m);

/*
 * Returns the bytes that can still be allocated without swapping (MemAvailable), or fewer if the
 * control group of the process has a limit; 0 if unknown.
 */
uint64_t proc_available(void);

/*
 * Sample the memory of a process often. proc_open() opens the statm file of the process once and
 * returns its descriptor, which the caller closes, or -1 if the file cannot be opened.
 * proc_sample() reads the resident and the unshared bytes from that descriptor; it returns false if
 * the process has ended.
 */
int proc_open(int pid);
bool proc_sample(int fd, uint64_t *rss, uint64_t *unshared);

/*
 * Returns the nanoseconds for which the living threads of this process were ready to run but waited
 * for a core, because other threads or programs used it. Returns 0 if unknown.
 */
uint64_t proc_waited(void);

/*
 * Samples the same waiting times often, for the threads that exist when proc_waits_new() is called:
 * their files stay open, so that a reading takes about a microsecond per thread. The kernel counts
 * a wait when the wait ends. Even on a free core a wake-up takes some time, so the first 5 us of
 * each wait are not counted. A null pointer means that the waiting times are unknown.
 */
struct proc_waits;
struct proc_waits *proc_waits_new(void);
void proc_waits_free(struct proc_waits *w);
/*
 * Sets *own to the nanoseconds that the calling thread, which must have created w, waited since the
 * last call, and *others to the sum for all other threads.
 */
void proc_waits_read(struct proc_waits *w, uint64_t *own, uint64_t *others);

/*
 * Returns the seconds for which these threads together have had a core so far. CLOCK_PROCESS_CPUTIME_ID would not do: it knows the
 * time of the other threads only as of the last tick.
 */
double proc_waits_cpu(const struct proc_waits *w);

struct proc_faults {
	uint64_t minor, major;	     /* page faults */
	uint64_t voluntary, forced;  /* context switches, only known for this process */
	uint64_t user_ns, system_ns; /* processor time, only known for this process */
};
bool proc_faults(int pid, struct proc_faults *f);

/*
 * Returns the joules that the processors' packages have used, by the counters of powercap (RAPL), which wrap around at *range; or -1
 * if the machine does not tell, or only tells root. INFER_POWERCAP names another folder, for tests.
 */
double proc_energy(double *range);

#endif
