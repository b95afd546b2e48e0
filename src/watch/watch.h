/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H
/*
 * Starts a program with the watching library (src/watch/inject) injected, samples its processes while they run, and
 * collects their events; or samples a process that runs already, from outside.
 */
#include "base/diag.h"
#include "watch/inject/shared.h"
#include "watch/ledger.h"
#include "watch/series.h"

/* Memory that one calling library has allocated, over time. */
struct watch_caller {
	const struct watch_site *site;
	struct series bytes;
};
struct watch_process {
	struct ledger ledger;
	struct watch_shared *shared; /* mapped PID.mem; NULL: the process has not written it */
	struct series host;	     /* private bytes in host memory */
	struct series kind[WATCH_KINDS];
	struct watch_caller *caller;
	size_t ncallers;
	int log, statm; /* file descriptors of PID.log and /proc/PID/statm; -1: not open */
	int k; /* the K of PID.K.log, counting programs that ran under this pid; see inject/shared.h */
	double from, to; /* seconds since the start: first seen, and last seen alive */
	uint64_t told;	 /* number of CUDA calls at the last report */
	bool ended;	 /* the process has ended, and its files are closed */
	bool replaced;	 /* the process called exec and now runs another program */
	uint64_t read;	 /* bytes of the log that have been read */
	char *rest;	 /* beginning of a log line whose end is not written yet */
	size_t nrest;
};

enum watch_heap { WATCH_HEAP_OFF, WATCH_HEAP_ON, WATCH_HEAP_EVERY };

struct watch {
	/* set by the caller: what to run and what to record */
	const char *const *argv; /* the program and its arguments, then NULL */
	unsigned what;		 /* enum watch_what */
	bool sync_launch;	 /* set CUDA_LAUNCH_BLOCKING=1 in the program */
	const char *own; /* environment variable that `infer` set for itself, to be removed for the program; NULL: none */
	size_t heap; /* record blocks that malloc returns if they have at least so many bytes; 0: none, and set no LD_PRELOAD */
	double interval; /* seconds between reports; 0: no report but the final one */
	void (*report)(void *arg, struct watch *w); /* called after each interval and on SIGUSR1 */
	void *arg;
	/* results */
	int pid, status; /* of the program; status as returned by waitpid */
	bool timed_out;	 /* SIGALRM arrived, and the program was terminated */
	double seconds;
	struct watch_process *process;
	size_t nprocesses;
	size_t more; /* number of processes that were not watched because the table was full */
	/* internal to run.c */
	char dir[4096];
	bool left; /* keep the folder, since watched processes still run and use it */
	uint64_t start;
	double now; /* seconds from `start` to the newest sample */
};

/*
 * Runs the program until it ends, or until SIGALRM arrives. Returns 0, or -code with a finding if the program could
 * not be watched or run; *status is then an exit status as of env(1): 125, 126 or 127.
 */
int watch_run(struct watch *w, int *status, struct diag *d);
/* Whether a watched process is still alive. If it outlives the program, the folder stays: its new children need it. */
bool watch_lives(const struct watch_process *p);
void watch_free(struct watch *w);

/* How to sample a running process: until it ends, the time is over, or stopped() returns true (after a signal). */
struct watch_look {
	int pid;
	double seconds, every; /* total time, 0: unlimited; time between samples */
	double interval;       /* seconds between reports; 0: report only on SIGUSR1 */
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
