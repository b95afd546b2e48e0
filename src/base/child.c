/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Milliseconds between two checks whether the child has ended, if there is a deadline. */
enum { LOOK_MS = 2 };

/* ---- in the child ---------------------------------------------------------------------------- */

/*
 * Asks the kernel to kill this child when its parent ends. Returns false if the parent has ended
 * already.
 */
static bool end_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return getppid() == parent;
}

static void run_function(pid_t parent, int fd, void (*run)(void *, FILE *), void *arg)
{
	FILE *out = fdopen(fd, "we");

	signal(SIGINT, SIG_IGN);
	if (!end_with_parent(parent) || !out)
		_exit(1);
	run(arg, out);
	_exit(fflush(out) ? 1 : 0);
}

static void run_program(pid_t parent, const char *const *argv, bool keep_stdin)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (!end_with_parent(parent) || null < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0 || (!keep_stdin && dup2(null, STDIN_FILENO) < 0))
		_exit(127);
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* ---- in the parent --------------------------------------------------------------------------- */

bool child_fork(struct child *c, size_t limit, void (*run)(void *arg, FILE *out), void *arg)
{
	int fd[2];

	*c = (struct child){.fd = -1, .limit = limit};
	if (pipe2(fd, O_CLOEXEC))
		return false;
	fflush(NULL); /* otherwise the child would write the buffered text a second time */
	pid_t parent = getpid();
	c->pid = fork();
	if (c->pid == 0) {
		close(fd[0]);
		run_function(parent, fd[1], run, arg);
	}
	close(fd[1]);
	c->fd = fd[0];
	if (c->pid > 0)
		return true;
	close(c->fd);
	return false;
}

bool child_exec(struct child *c, const char *const *argv, bool keep_stdin, const char *variable,
		size_t limit)
{
	int fd[2] = {-1, -1};
	char number[16];

	*c = (struct child){.fd = -1, .limit = limit};
	if (variable) {
		/* only the pipe end that the child writes to stays open across execv() */
		if (pipe(fd))
			return false;
		fcntl(fd[0], F_SETFD, FD_CLOEXEC);
		snprintf(number, sizeof(number), "%d", fd[1]);
		/*
		 * The variable is set in the parent because setenv() in the child may need a lock
		 * that another thread held during fork().
		 */
		setenv(variable, number, 1);
	}
	pid_t parent = getpid();
	c->pid = fork();
	if (c->pid == 0)
		run_program(parent, argv, keep_stdin);
	if (variable) {
		unsetenv(variable);
		close(fd[1]);
	}
	c->fd = fd[0];
	if (c->pid > 0)
		return true;
	if (c->fd >= 0)
		close(c->fd);
	return false;
}

static void close_pipe(struct child *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/*
 * Reads from the pipe once. Closes the pipe at end of file, after an error, or when the limit is
 * reached.
 */
static void read_text(struct child *c)
{
	if (c->n == c->room) {
		size_t room = c->room ? c->room * 2 : 1 << 16;
		room = room < c->limit ? room : c->limit;
		char *text = room > c->n ? realloc(c->text, room + 1) : NULL;
		if (!text) {
			close_pipe(c);
			return;
		}
		c->text = text;
		c->room = room;
	}
	ssize_t k = read(c->fd, c->text + c->n, c->room - c->n);
	c->n += k > 0 ? (size_t)k : 0;
	c->text[c->n] = '\0';
	if (k == 0 || (k < 0 && errno != EINTR))
		close_pipe(c);
}

bool child_read(struct child *c, int ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	if (c->fd >= 0 && poll(&p, 1, ms) > 0)
		read_text(c);
	return c->fd >= 0;
}

static double seconds_since(uint64_t start)
{
	return (double)(clock_ns() - start) * 1e-9;
}

void child_wait(struct child *c, double seconds)
{
	uint64_t start = clock_ns();
	bool forever = isinf(seconds);
	int status = 0;
	pid_t got;

	while (child_read(c, forever ? -1 : LOOK_MS) && (forever || seconds_since(start) < seconds))
		;
	close_pipe(c);
	for (;;) {
		got = waitpid(c->pid, &status, forever ? 0 : WNOHANG);
		if (got == c->pid || (got < 0 && errno != EINTR))
			break;
		if (!forever && seconds_since(start) >= seconds) {
			c->timed_out = true;
			kill(c->pid, SIGKILL);
			forever = true;
		} else if (!forever) {
			usleep(LOOK_MS * 1000);
		}
	}
	if (got < 0 || c->timed_out)
		return;
	c->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

void child_free(struct child *c)
{
	free(c->text);
	c->text = NULL;
}
