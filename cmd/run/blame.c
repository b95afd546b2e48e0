/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/blame.h"

#include "base/child.h"
#include "cmd/options/subcommand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Private variable: the file descriptor to which the repeating process writes its result. */
static const char fd_variable[] = "INFER_BLAME_FD";
enum { MAX_RESULT_BYTES = 4096, REPEAT_LIMIT_SECONDS = 300 };

/* Returns true if the command ran a model, perhaps on a GPU, and --no-blame was not given. */
static bool may_blame(const struct options *o)
{
	return (o->command->bit & CMD_RUNS) && !o->no_blame && !o->after_dashes &&
	       (!o->config.device || strcmp(o->config.device, "cpu") != 0);
}

void blame_begin(struct options *o)
{
	const char *fd = getenv(fd_variable);

	if (fd && (o->command->bit & CMD_RUNS)) {
		o->config.sync = SYNC_LAUNCH;
		o->save = o->jsonl = o->html = o->trace = o->save_baseline = NULL;
		o->resume = false;
		o->exports.n = 0;
	}
}

/* ---- the process that repeats ------------------------------------------------------------------- */

static void send_text(int fd, const char *text)
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

/* Sends the first error as four strings: id, node, operator, actual value. */
static void send_first_error(int fd, const struct diag *d)
{
	for (const struct finding *f = d->first; f; f = f->next) {
		if (f->severity != SEV_ERROR)
			continue;
		send_text(fd, code_id(f->code, f->severity));
		send_text(fd, f->node);
		send_text(fd, f->op);
		send_text(fd, f->actual);
		return;
	}
}

/* ---- the process that asks ---------------------------------------------------------------------- */

/* Finds an error that makes the CUDA context unusable and that names no node. */
static struct finding *find_unattributed_error(struct diag *d)
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

/*
 * Repeats the command in a child process and reads its result. Returns false if the child could not
 * be started.
 */
static bool repeat_command(char **argv, struct child *child)
{
	lseek(STDIN_FILENO, 0, SEEK_SET);
	if (!child_exec(child, (const char *const *)argv, true, fd_variable, MAX_RESULT_BYTES))
		return false;
	child_wait(child, REPEAT_LIMIT_SECONDS);
	return true;
}

/*
 * Adds the result of the repetition to the finding: id, node, operator and actual value, as four
 * strings with terminating NULs.
 */
static void name_node(struct finding *f, const char *text, size_t n, struct diag *d)
{
	const char *part[4] = {0};

	for (size_t i = 0, at = 0; i < 4 && at < n; i++) {
		part[i] = text + at;
		at += strlen(part[i]) + 1;
	}
	if (!part[0]) {
		f->hint = "a repetition with --sync launch did not fail: the error is intermittent or depends on "
			  "timing";
		return;
	}
	if (!part[1] || !*part[1]) {
		f->hint = fmt(d, "a repetition with --sync launch found %s, but not in a node",
			      part[0]);
		return;
	}
	f->node = fmt(d, "%s", part[1]);
	f->op = part[2] && *part[2] ? fmt(d, "%s", part[2]) : NULL;
	if (strcmp(part[0], code_id(f->code, f->severity)) != 0)
		f->hint =
			fmt(d, "the repetition failed with %s: %s", part[0], part[3] ? part[3] : "");
	else
		f->hint = ""; /* the old hint explained how to find the node, which is now known */
	f->message = fmt(d, "%s, found by re-running with --sync launch",
			 f->message ? f->message : code_title(f->code));
}

const struct finding *blame_end(const struct options *o, char **argv, struct diag *d)
{
	const char *fd = getenv(fd_variable);
	struct child child;

	if (fd && (o->command->bit & CMD_RUNS)) {
		send_first_error((int)strtol(fd, NULL, 10), d);
		return NULL;
	}
	struct finding *f = find_unattributed_error(d);
	if (!f || !may_blame(o) || o->config.sync != SYNC_ASYNC || !repeat_command(argv, &child))
		return NULL;
	name_node(f, child.text, child.n, d);
	child_free(&child);
	return f;
}
