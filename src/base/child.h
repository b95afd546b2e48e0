/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H
/*
 * A child process: a fork of this process that runs one function, or this program started again with
 * other arguments. What the child writes to its pipe is collected here. The kernel kills the child when
 * this process ends.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct child {
	char *text; /* what the child has written so far, and a NUL; may be NULL when n is 0 */
	size_t n;   /* bytes of it */
	/* After child_wait(): */
	int signal;	/* that ended the child; 0: it ended by itself */
	int status;	/* its exit status when signal is 0 */
	bool timed_out; /* child_wait() killed it at the deadline; signal and status are 0 */
	/* private */
	pid_t pid;
	int fd; /* the pipe's end that is read; -1: at the end of what the child writes */
	size_t room, limit;
};

/*
 * Fork, and run `run` in the child with a stream into the pipe; the child then exits with status 0, or 1
 * when its text could not be written. It ignores SIGINT, which a terminal sends to the parent as well:
 * the parent decides what an interrupt means. Of the child's text at most `limit` bytes are read; a child
 * that writes more finds the pipe closed. false: no pipe or no process could be made.
 */
bool child_fork(struct child *c, size_t limit, void (*run)(void *arg, FILE *out), void *arg);

/*
 * Start this program (/proc/self/exe) with argv, its standard output and error going to /dev/null, its
 * input too unless keep_stdin. With `variable` the child gets a pipe of at most `limit` bytes, as in
 * child_fork(), and finds the number of the pipe's descriptor in that environment variable. false: no pipe
 * or no process could be made; a program that cannot be executed ends with status 127.
 */
bool child_exec(struct child *c, const char *const *argv, bool keep_stdin, const char *variable,
		size_t limit);

/* Wait up to `ms` milliseconds for text from the child. false: there will be no more. */
bool child_read(struct child *c, int ms);
/* Read the rest of the text and wait until the child ends; kill it after `seconds` (INFINITY: never). */
void child_wait(struct child *c, double seconds);
/* Free the text; after child_wait(), or when the child was not started. */
void child_free(struct child *c);

#endif
