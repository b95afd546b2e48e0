/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_STREAM_H
#define CMD_RUN_STREAM_H
/*
 * Runs the cases of a list on one or several devices, and hands on their results in the list's order.
 *
 *   lane    a session on one device.
 *   worker  a thread of a lane: takes the next group, stacks its inputs, runs it when the device is free, and writes. A lane
 *           has several, so that it runs one group while others are stacked and written.
 *   group   the cases of one run.
 *
 * A lane that is lost (its device failed, or has no memory) gives its group back, and another lane takes it.
 */
#include "input/reader.h"
#include "session/batch.h"
#include "session/session.h"

#include <pthread.h>

/* What became of one case. */
struct outcome {
	int rc; /* 0 or -code */
	struct diag why;
	double seconds; /* of the run that it was part of */
	const struct tensor **out; /* if rc is 0: for each output of the graph, the rows of this case; or NULL */
	struct tensor *part;
};

struct group {
	struct arena arena;
	struct group *next; /* of those given back */
	size_t number;	    /* groups are written in this order */
	struct read_case *cases;
	struct outcome *outcome;
	size_t n;
	/* those that could be read: their inputs, and their place in `cases` */
	const struct tensor *const **in;
	size_t *at, nread;
	bool given_back;
	bool kept;	   /* its outputs were copied from the session's memory */
	bool cut;	   /* the program was told to end before all had run */
	struct diag notes; /* of the run that all took part in */
};

struct stream;
struct lane;

struct worker {
	struct lane *lane;
	struct batch batch;
	const struct tensor *const *in; /* of the newest stack */
	const struct tensor **out;
	pthread_t thread;
	bool running;
};

/* On a GPU one worker stacks, one runs, one writes; on the CPU one runs, and one stacks or writes. */
enum { WORKERS = 3, CPU_WORKERS = 2 };

struct lane {
	struct stream *stream;
	const char *device; /* as named by the user */
	struct run_config config;
	struct session *session;
	pthread_mutex_t free; /* held by the worker that uses the session */
	struct worker worker[WORKERS];
	/* protected by the stream's lock */
	bool lost;
	struct diag why; /* why it was lost */
	size_t done;	 /* cases that ran */
};

struct stream {
	/* to be set before stream_open() */
	bool keep_going;       /* a case that fails does not end the stream */
	int64_t batch;	       /* --batch */
	bool (*stopped)(void); /* the program was told to end */
	/* Writes the results of a group. An error ends the stream. Only one thread at a time is in it. */
	int (*write)(void *arg, struct group *g);
	void *arg;
	/* private */
	struct arena arena;
	struct lane *lane;
	size_t nlanes;
	struct reader *reader;
	struct read_case held; /* was read but did not fit into the last group */
	bool holds;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* protected by the lock */
	struct group *given_back; /* in their order */
	struct group **finished;  /* group k is in k % room */
	size_t room, taken, written, alive;
	bool gathering, writing, ended;
	int rc;
};

/* Opens a session for each device. Fails if no device can be opened; what is wrong with single ones is a warning. */
int stream_open(struct stream *s, const char *model, const struct run_config *config,
		const char *const *device, size_t n, struct diag *d);
/* Sets up batches for the list. Fails with E-BATCH. */
int stream_batch(struct stream *s, const struct input_list *l, struct diag *d);
/* Returns the number of cases in a run. */
int64_t stream_limit(const struct stream *s);
/* Runs the n cases whose indices `cases` has. Returns 0 or the error that ended it. */
int stream_run(struct stream *s, const struct input_list *l, const size_t *cases, size_t n,
	       struct diag *d);
/* Returns false if a reader hangs: the list must then not be freed. */
bool stream_close(struct stream *s);

#endif
