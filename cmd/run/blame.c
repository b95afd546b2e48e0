/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/blame.h"

#include "cmd/options/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Private: the descriptor to which the repeating process writes what it found. */
static const char variable[] = "INFER_BLAME_FD";
enum { SECONDS = 300 }; /* after which it is given up */

extern char **environ;

static bool may_use_gpu(const struct options *o)
{
	return (o->command->bit & CMD_RUNS) && !o->no_blame && !o->after_dashes &&
	       (!o->config.device || strcmp(o->config.device, "cpu") != 0);
}

void blame_begin(struct options *o)
{
	const char *fd = getenv(variable);

	if (fd && (o->command->bit & CMD_RUNS)) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(SECONDS);
		o->config.sync = SYNC_LAUNCH;
		o->save = o->html = o->trace = o->save_baseline = NULL;
		o->exports.n = 0;
	}
}

/* ---- the process that repeats ------------------------------------------------------------------- */

static void put(int fd, const char *text)
{
	const char *s = text ? text : "";
	size_t n = strlen(s) + 1;

	while (n) {
		ssize_t w = write(fd, s, n);
		if (w < 0 && errno != EINTR)
			return;
		s += w > 0 ? w : 0;
		n -= w > 0 ? (size_t)w : 0;
	}
}

/* Four strings: id, node, operator, what happened. */
static void tell(int fd, const struct diag *d)
{
	for (const struct finding *f = d->first; f; f = f->next) {
		if (f->severity != SEV_ERROR)
			continue;
		put(fd, code_id(f->code, f->severity));
		put(fd, f->node);
		put(fd, f->op);
		put(fd, f->actual);
		return;
	}
}

/* ---- the process that asks ---------------------------------------------------------------------- */

/* The errors after which the device is lost, found where nobody knows whose they are. */
static struct finding *without_node(struct diag *d)
{
	static const enum code sticky[] = {E_CUDA_214, E_CUDA_700, E_CUDA_702, E_CUDA_710,
					   E_CUDA_714, E_CUDA_715, E_CUDA_716, E_CUDA_717,
					   E_CUDA_718, E_CUDA_719};

	for (struct finding *f = d->first; f; f = f->next)
		for (size_t i = 0; i < sizeof(sticky) / sizeof(*sticky); i++)
			if (f->severity == SEV_ERROR && f->code == sticky[i] && !f->node)
				return f;
	return NULL;
}

static int start(int out, char **argv, pid_t *child)
{
	posix_spawn_file_actions_t actions;
	char value[32];

	snprintf(value, sizeof(value), "%d", out);
	if (setenv(variable, value, 1) != 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawn(child, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	unsetenv(variable);
	return rc;
}

static size_t read_all(int fd, char *out, size_t room)
{
	size_t n = 0;
	ssize_t got;

	while (n < room && ((got = read(fd, out + n, room - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	return n;
}

/* Runs it all again; what it told is in `text`. False where it could not be started. */
static bool repeat(char **argv, char *text, size_t room, size_t *n)
{
	int pipes[2], status;
	pid_t child = 0;

	*n = 0;
	if (pipe(pipes) != 0)
		return false;
	fcntl(pipes[0], F_SETFD, FD_CLOEXEC);
	lseek(STDIN_FILENO, 0, SEEK_SET);
	int rc = start(pipes[1], argv, &child);
	close(pipes[1]);
	if (!rc) {
		*n = read_all(pipes[0], text, room - 1);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(pipes[0]);
	text[*n] = '\0';
	return !rc;
}

static void name_node(struct finding *f, const char *text, size_t n, struct diag *d)
{
	const char *part[4] = {0};

	for (size_t i = 0, at = 0; i < 4 && at < n; i++) {
		part[i] = text + at;
		at += strlen(part[i]) + 1;
	}
	if (!part[0]) {
		f->hint = "a repetition with --sync launch did not fail: an error that does not always "
			  "come, or that depends on timing";
		return;
	}
	if (!part[1] || !*part[1]) {
		f->hint = fmt(d, "a repetition with --sync launch found %s, in no node", part[0]);
		return;
	}
	f->node = fmt(d, "%s", part[1]);
	f->op = part[2] && *part[2] ? fmt(d, "%s", part[2]) : NULL;
	if (strcmp(part[0], code_id(f->code, f->severity)) != 0)
		f->hint =
			fmt(d, "the repetition failed with %s: %s", part[0], part[3] ? part[3] : "");
	else
		f->hint = ""; /* what it was among is no news any more */
	f->message = fmt(d, "%s, found by re-running with --sync launch",
			 f->message ? f->message : code_title(f->code));
}

void blame_end(const struct options *o, char **argv, struct diag *d)
{
	const char *fd = getenv(variable);
	char text[4096];
	size_t n;

	if (fd && (o->command->bit & CMD_RUNS)) {
		tell((int)strtol(fd, NULL, 10), d);
		return;
	}
	struct finding *f = without_node(d);
	if (!f || !may_use_gpu(o) || o->config.sync != SYNC_ASYNC)
		return;
	if (repeat(argv, text, sizeof(text), &n))
		name_node(f, text, n, d);
}
