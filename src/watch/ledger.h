/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_LEDGER_H
#define WATCH_LEDGER_H
/*
 * What one watched process did, gathered from its events, and what is wrong with it. Knows nothing of CUDA's
 * headers or of a running process: recorded events give the same findings.
 */
#include "base/diag.h"
#include "watch/event.h"

struct ledger_context {
	uint64_t handle;
	bool primary, known; /* known: a call said which kind it is */
	int device;	     /* -1: not said */
	int64_t cost;	     /* bytes of device memory; 0: not known */
	bool cost_of_all;    /* by the use of all devices: other processes count */
	double born, gone;   /* seconds; gone < 0: it lives */
	long thread;
	const char *by, *call, *gone_by;
};
struct ledger_stream {
	uint64_t handle, context;
	const char *by;
};
/* A call that failed, of one kind; the first of its count is shown. */
struct ledger_failure {
	int64_t number, result, count;
	struct event event;
};

struct ledger {
	struct arena arena;
	int pid;
	const char *program;
	int64_t cupti, subscribed; /* CUPTI's version; its answer to our subscription, 0: it is ours */
	const char *why, *other;
	const uint32_t *counts; /* by number: how often a failure came so far; NULL: not known */
	bool started, ended;
	double seconds; /* of the newest event */
	struct ledger_context *context;
	size_t ncontexts, cap_contexts;
	struct ledger_stream *stream;
	size_t nstreams, cap_streams;
	struct ledger_failure *failure;
	size_t nfailures, cap_failures;
	/* as they came: last, late, unwritten, capture, dead, copy, fault, forked, yield, module, context-use */
	struct event *other_event;
	size_t nothers, cap_others;
};

/* How often failure `number` came, of which the log says `logged`. */
int64_t ledger_count(const struct ledger *l, int64_t number, int64_t logged);
void ledger_line(struct ledger *l, const char *line, size_t n);
void ledger_free(struct ledger *l);

enum report_errors { REPORT_NONE, REPORT_EXPLICIT, REPORT_ALL };

struct ledger_options {
	int errors;	  /* enum report_errors: which failing calls are told */
	bool verbose;	  /* every context and who used it */
	bool contexts;	  /* crossings of contexts */
	bool calls;	  /* errors, copies, faults */
	bool sync_launch; /* each launch was waited for: errors are those of the call itself */
};
/* Adds findings to d; their strings are made in d's arena. */
void ledger_findings(const struct ledger *l, const struct ledger_options *o, struct diag *d);

/*
 * Who called, in words: "name(+0x12)" becomes "name(function+0x2)" where the file's symbol table knows the place.
 * In the arena.
 */
const char *ledger_by(const struct ledger *l, struct arena *a, const char *by);

/* "libtorch_cuda.so" is PyTorch's: what caches memory there, and the setting that switches it off; NULL: none known. */
const char *ledger_cache(const char *by);

#endif
