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
	char *text; /* what the child has written so far, NUL-terminated; may be NULL if n is 0 */
	size_t n;   /* bytes of it */
	/* After child_wait(): */
	int signal; /* signal that ended the child; 0 if the child exited by itself */
	int status; /* exit status of the child if signal is 0 */
	/* child_wait() killed the child at the deadline; signal and status are then 0 */
	bool timed_out;
	/* private */
	pid_t pid;
	int fd; /* read end of the pipe; -1 once the child has closed its end */
	size_t room, limit;
};

/*
 * Forks and calls `run` in the child with a stream that writes into the pipe. The child then exits
 * with status 0, or 1 if its text could not be written. The child ignores SIGINT, which a terminal
 * sends to the parent as well: the parent decides what an interrupt means. At most `limit` bytes of
 * the child's text are read; a child that writes more finds the pipe closed. Returns false if the
 * pipe or the process could not be created.
 */
bool child_fork(struct child *c, size_t limit, void (*run)(void *arg, FILE *out), void *arg);

/*
 * Starts this program (/proc/self/exe) with argv. Its standard output and error go to /dev/null,
 * and its standard input comes from there unless keep_stdin is set. If `variable` is not NULL, the
 * child gets a pipe of which at most `limit` bytes are read, as in child_fork(), and the
 * environment variable of that name holds the number of the pipe's descriptor. Returns false if the
 * pipe or the process could not be created. If the program cannot be executed, the child exits with
 * status 127.
 */
bool child_exec(struct child *c, const char *const *argv, bool keep_stdin, const char *variable,
		size_t limit);

/*
 * Waits up to `ms` milliseconds for text from the child. Returns false if no more text will come.
 */
bool child_read(struct child *c, int ms);
/*
 * Reads the rest of the text and waits until the child ends. Kills the child after `seconds`
 * (INFINITY waits forever).
 */
void child_wait(struct child *c, double seconds);
/* Frees the text. Call it after child_wait(), or if the child was not started. */
void child_free(struct child *c);

#endif
