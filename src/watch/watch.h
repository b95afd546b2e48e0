/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H
/*
 * Starts a program with the watching library injected (src/watch/inject), follows its processes while they run, and
 * gathers what they did; or looks at a running process from outside.
 */
#include "base/diag.h"
#include "watch/inject/shared.h"
#include "watch/ledger.h"
#include "watch/series.h"

/* Memory of one allocating caller over time. */
struct watch_caller {
	const struct watch_site *site;
	struct series bytes;
};
struct watch_process {
	struct ledger ledger;
	struct watch_shared *shared; /* NULL: nothing came */
	struct series host;	     /* private bytes */
	struct series kind[WATCH_KINDS];
	struct watch_caller *caller;
	size_t ncallers;
	int log, statm; /* open files; -1: none */
	int k;		/* the how manieth program of this process; see src/watch/inject/shared.h */
	double from, to; /* seconds: when it was seen first, and alive last */
	uint64_t told;	 /* calls at the last report */
	bool ended;	 /* it is gone: its files are closed */
	bool replaced;	 /* by another program: it called exec */
	uint64_t read;	 /* bytes of the log that were taken */
	char *rest;	 /* the beginning of a line */
	size_t nrest;
};

enum watch_heap { WATCH_HEAP_OFF, WATCH_HEAP_ON, WATCH_HEAP_EVERY };

struct watch {
	/* what is wanted */
	const char *const *argv; /* NULL ends */
	unsigned what;		 /* enum watch_what */
	bool sync_launch;	 /* CUDA_LAUNCH_BLOCKING=1 in the program */
	const char *own; /* a variable that was set for ourselves, and is not for the program; NULL: none */
	size_t heap; /* blocks of malloc's from here on are kept in mind; 0: none, and nothing is preloaded */
	double interval; /* seconds between reports; 0: none but the last */
	void (*report)(void *arg, struct watch *w); /* at each interval and at SIGUSR1 */
	void *arg;
	/* what came of it */
	int pid, status; /* the program's; the status as waitpid gives it */
	bool timed_out;	 /* SIGALRM came: it was ended */
	double seconds;
	struct watch_process *process;
	size_t nprocesses;
	size_t more; /* processes that there was no room for */
	/* its own */
	char dir[4096];
	bool left; /* the folder stays: watched processes live on */
	uint64_t start;
	double now; /* of the newest look, in seconds since then */
};

/*
 * Runs the program to its end, or to SIGALRM. 0, or -code with a finding where it could not be watched or run,
 * *status then as env(1) has it: 125, 126 or 127.
 */
int watch_run(struct watch *w, int *status, struct diag *d);
/* A watched process that outlives the program; its files stay, since what it starts looks for them. */
bool watch_lives(const struct watch_process *p);
void watch_free(struct watch *w);

/* Looks at a running process until it ends, the time is over, or `stopped` says so (after a signal). */
struct watch_look {
	int pid;
	double seconds, every; /* 0 seconds: no end; between looks */
	double interval;       /* between reports; 0: none but at SIGUSR1 */
	bool (*stopped)(void);
	void (*report)(void *arg, const struct watch_process *p, double seconds);
	void *arg;
};
int watch_pid(const struct watch_look *look, struct watch_process *p, struct diag *d);

extern const double watch_host_noise; /* of private bytes, for series_judge */
struct watch_options {
	struct ledger_options ledger;
	bool memory;
};
/* Every finding of every process. */
void watch_findings(const struct watch *w, const struct watch_options *o, struct diag *d);
void watch_memory_findings(const struct watch_process *p, int pid, struct diag *d);

#endif
