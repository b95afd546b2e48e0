/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H
/*
 * Starts a program with the watching library injected (gpu/inject), follows its processes while they run, and
 * gathers what they did; or looks at a running process from outside.
 */
#include "base/diag.h"
#include "gpu/inject/shared.h"
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
	bool ended;	/* it is gone: its files are closed */
	uint64_t read;	/* bytes of the log that were taken */
	char *rest;	/* the beginning of a line */
	size_t nrest;
};

enum watch_heap { WATCH_HEAP_OFF, WATCH_HEAP_ON, WATCH_HEAP_EVERY };

struct watch {
	/* what is wanted */
	const char *const *argv; /* NULL ends */
	unsigned what;		 /* enum watch_what */
	bool sync_launch;	 /* CUDA_LAUNCH_BLOCKING=1 in the program */
	size_t heap; /* blocks of malloc's from here on are kept in mind; 0: none, and nothing is preloaded */
	double interval; /* seconds between reports; 0: none but the last */
	void (*report)(void *arg, struct watch *w); /* at each interval and at SIGUSR1 */
	void *arg;
	/* what came of it */
	int status; /* as waitpid gives it */
	double seconds;
	struct watch_process *process;
	size_t nprocesses;
	/* its own */
	char dir[256];
	uint64_t start;
};

/*
 * Runs the program to its end. 0, or -code with a finding where it could not be watched; E_WATCH_EXEC
 * with *missing true where there is no such program.
 */
int watch_run(struct watch *w, bool *missing, struct diag *d);
void watch_free(struct watch *w);

/* Watches a running process until it ends, the time is over (0: none) or a signal comes. */
int watch_pid(int pid, double seconds, double every, struct watch_process *p, struct diag *d);

struct watch_options {
	struct ledger_options ledger;
	bool memory;
};
/* Every finding of every process. */
void watch_findings(const struct watch *w, const struct watch_options *o, struct diag *d);
void watch_memory_findings(const struct watch_process *p, int pid, struct diag *d);

#endif
