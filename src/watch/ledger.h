/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_LEDGER_H
#define WATCH_LEDGER_H
/*
 * The CUDA objects and failed calls of one watched process, collected from its events, and the findings about them.
 * Independent of CUDA's headers and of a running process, so that recorded events give the same findings.
 */
#include "base/diag.h"
#include "watch/event.h"

struct ledger_context {
	uint64_t handle;
	/* known: `primary` is valid, because a call showed whether the context is primary */
	bool primary, known;
	int device;   /* -1: unknown */
	int64_t cost; /* bytes of device memory; 0: unknown */
	/* cost is how much the memory in use on all devices grew, other processes included */
	bool cost_of_all;
	double born,
		gone; /* creation and destruction, in seconds; gone < 0 if the context still exists */
	long thread;
	const char *by, *call, *gone_by;
};
struct ledger_stream {
	uint64_t handle, context;
	const char *by;
};
/* Failed calls of one kind: their number in the log, and the event of the first call, which the finding shows. */
struct ledger_failure {
	int64_t number, result, count;
	struct event event;
};

struct ledger {
	struct arena arena;
	int pid;
	const char *program;
	int64_t cupti,
		subscribed; /* CUPTI's version; result of our subscription to CUPTI, 0 for success */
	const char *why, *other;
	/* counts[number] is how often failure `number` occurred so far; counts is NULL if this is unknown */
	const uint32_t *counts;
	bool started, ended;
	double seconds; /* of the newest event */
	struct ledger_context *context;
	size_t ncontexts, cap_contexts;
	struct ledger_stream *stream;
	size_t nstreams, cap_streams;
	struct ledger_failure *failure;
	size_t nfailures, cap_failures;
	/* in log order, the events of kind last, late, unwritten, capture, dead, lost, orphan, copy, fault, forked, yield, module, context-use */
	struct event *other_event;
	size_t nothers, cap_others;
};

/*
 * Returns how often failure `number` occurred: the larger of the shared counter and `logged`, the count in the log.
 */
int64_t ledger_count(const struct ledger *l, int64_t number, int64_t logged);
void ledger_line(struct ledger *l, const char *line, size_t n);
void ledger_free(struct ledger *l);

enum report_errors { REPORT_NONE, REPORT_EXPLICIT, REPORT_ALL };

struct ledger_options {
	int errors;    /* enum report_errors: which failed calls are reported */
	bool verbose;  /* report every context and its users */
	bool contexts; /* report uses of one context's objects in another context */
	bool calls;    /* report errors, invalid copies and faults */
	/* kernel launches were synchronous, so the call that returned an error also caused it */
	bool sync_launch;
};
/* Adds the findings to d; their strings are copied to d's arena. */
void ledger_findings(const struct ledger *l, const struct ledger_options *o, struct diag *d);

/*
 * Makes a caller readable: "name(+0x12)" becomes "name(function+0x2)" if the file's symbol table has a function there.
 * The text is allocated in the arena.
 */
const char *ledger_by(const struct ledger *l, struct arena *a, const char *by);

/*
 * If the library that `by` names has an allocator that caches memory, as PyTorch's in libtorch_cuda.so does, returns
 * a text that names the allocator and the setting that avoids or limits the cache. Returns NULL if no such allocator
 * is known.
 */
const char *ledger_cache(const char *by);

#endif
