/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H
/*
 * Starts a program with the watching library (src/watch/inject) injected, samples its processes while they run, and
 * collects their events. Can also sample, from outside, a process that runs already.
 */
#include "base/diag.h"
#include "watch/inject/shared.h"
#include "watch/ledger.h"
#include "watch/series.h"

/* The memory that one calling library has allocated, as a series over time. */
struct watch_caller {
	const struct watch_site *site;
	struct series bytes;
};
struct watch_process {
	struct ledger ledger;
	struct watch_shared *shared; /* mapped file PID.mem; NULL if the process has not written the file */
	struct series host;	     /* private bytes in host memory */
	struct series kind[WATCH_KINDS];
	struct watch_caller *caller;
	size_t ncallers;
	int log, statm; /* file descriptors of PID.log and /proc/PID/statm; -1 if not open */
	int k; /* the K of PID.K.log, counting programs that ran under this pid; see inject/shared.h */
	/* times when the process was first seen and last seen alive, in seconds since the start */
	double from, to;
	uint64_t told; /* number of CUDA calls at the last report */
	bool ended;    /* the process has ended, and its files are closed */
	bool replaced; /* the process called exec and now runs another program */
	uint64_t read; /* bytes of the log that have been read */
	char *rest;    /* beginning of a log line whose end is not written yet */
	size_t nrest;
};

enum watch_heap { WATCH_HEAP_OFF, WATCH_HEAP_ON, WATCH_HEAP_EVERY };

struct watch {
	/* set by the caller: what to run and what to record */
	const char *const *argv; /* the program and its arguments, then NULL */
	unsigned what;		 /* enum watch_what */
	bool sync_launch;	 /* set CUDA_LAUNCH_BLOCKING=1 in the program */
	/* environment variable that `infer` set for itself and that is removed for the program; NULL if none */
	const char *own;
	/* smallest malloc block that is recorded, in bytes; 0 if no block is recorded and LD_PRELOAD is not set */
	size_t heap;
	double interval; /* seconds between reports; 0 if only the final report is wanted */
	void (*report)(void *arg, struct watch *w); /* called after each interval and on SIGUSR1 */
	void *arg;
	/* results */
	int pid, status; /* process id of the program, and its status as returned by waitpid */
	bool timed_out;	 /* SIGALRM arrived, and the program was terminated */
	double seconds;
	struct watch_process *process;
	size_t nprocesses;
	size_t more; /* number of processes that were not watched because the table was full */
	/* internal to run.c */
	char dir[4096];
	bool left; /* the folder is kept, since watched processes still run and use it */
	uint64_t start;
	double now; /* seconds from `start` to the newest sample */
};

/*
 * Runs the program until it ends, or until SIGALRM arrives. Returns 0, or -code with a finding if the program could
 * not be watched or run; in that case *status is set to the exit status that env(1) would have: 125, 126 or 127.
 */
int watch_run(struct watch *w, int *status, struct diag *d);
/*
 * Returns whether a watched process is still alive. If it outlives the program, the folder is kept, because new
 * children of that process need the folder.
 */
bool watch_lives(const struct watch_process *p);
void watch_free(struct watch *w);

/*
 * Says how to sample a running process. Sampling ends when the process ends, the time is over, or stopped() returns
 * true (after a signal).
 */
struct watch_look {
	int pid;
	double seconds, every; /* total time, or 0 if it is unlimited; time between samples */
	double interval;       /* seconds between reports; 0 if reports are made only on SIGUSR1 */
	bool (*stopped)(void);
	void (*report)(void *arg, const struct watch_process *p, double seconds);
	void *arg;
};
int watch_pid(const struct watch_look *look, struct watch_process *p, struct diag *d);

extern const double watch_host_noise; /* noise of private bytes, for series_judge */
struct watch_options {
	struct ledger_options ledger;
	bool memory;
};
/* Adds the findings of all watched processes to d. */
void watch_findings(const struct watch *w, const struct watch_options *o, struct diag *d);
void watch_memory_findings(const struct watch_process *p, int pid, struct diag *d);

#endif
