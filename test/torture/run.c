/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run [-a] [-c COMMAND] [-k N[+]] INFER REFUSE.so MODEL...: runs commands on each model while the Nth request for memory is refused,
 * for N = 1, 2, ... until a run needs fewer; with each N also while all later ones are refused. Each run must end with a
 * status of the table, not by a signal, and in time; with --json it must print exactly one document. Without -a, N grows
 * by a fifth, so that a command is done in seconds. -k N tries that N alone and shows what the program says; -c is for one subcommand.
 *
 * Prints "ok NAME" or "not ok NAME" for each command and model, and how many runs it took.
 */
#include "base/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 24, LIMIT_SECONDS = 120, SHOWN_FAILURES = 20 };

static const char *const commands[][MAX_ARGS] = {
	{"run", "MODEL", "--random", "0..1", "--device", "cpu", "--print", "4"},
	{"run", "MODEL", "--random", "0..1", "--device", "cpu", "--json"},
	{"inspect", "MODEL", "--nodes"},
	{"inspect", "MODEL", "--json"},
	{"profile", "MODEL", "-n", "2", "--warmup", "0", "--device", "cpu", "--random", "0..1"},
	{"profile", "MODEL", "-n", "2", "--warmup", "0", "--device", "cpu", "--random", "0..1",
	 "--json"},
	{"check", "MODEL", "--device", "cpu"},
	{"check", "MODEL", "--device", "cpu", "--json"},
};
enum { NCOMMANDS = sizeof(commands) / sizeof(*commands) };

static const char *infer, *library;

struct result {
	bool refused; /* a request was refused */
	int status;   /* of waitpid() */
	char *out, *err;
};

/* Returns the text of a memfd; it is freed by the caller. */
static char *read_back(int fd)
{
	off_t n = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)n + 1);

	if (!text || pread(fd, text, (size_t)n, 0) != n)
		exit(1);
	close(fd);
	return text;
}

static _Noreturn void become_infer(const char *const *argv, const char *which, int out, int err,
				   int tell)
{
	const struct rlimit time = {LIMIT_SECONDS, LIMIT_SECONDS}, none = {0, 0};
	char fd[16];

	setrlimit(RLIMIT_CPU, &time);
	setrlimit(RLIMIT_CORE, &none);
	alarm(LIMIT_SECONDS); /* survives execv() and kills what waits */
	snprintf(fd, sizeof(fd), "%d", tell);
	setenv("REFUSE", which, 1);
	setenv("REFUSE_FD", fd, 1);
	setenv("LD_PRELOAD", library, 1);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	execv(infer, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static struct result run_infer(const char *const *argv, const char *which)
{
	int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
	int tell = memfd_create("tell", 0);
	struct result r = {0};

	if (out < 0 || err < 0 || tell < 0)
		exit(1);
	pid_t child = fork();
	if (child == 0)
		become_infer(argv, which, out, err, tell);
	if (child < 0 || waitpid(child, &r.status, 0) != child)
		exit(1);
	r.refused = lseek(tell, 0, SEEK_END) > 0;
	close(tell);
	r.out = read_back(out);
	r.err = read_back(err);
	return r;
}

static bool is_in_table(int status)
{
	for (enum code c = E_OK; c < E_COUNT; c++)
		if (code_exit(c) == status)
			return true;
	return false;
}

/* Returns why the result is wrong, or NULL. */
static const char *fault(const struct result *r, bool json)
{
	static char text[64];
	struct arena a = {0};
	const struct jvalue *document;
	const char *why = NULL;

	if (WIFSIGNALED(r->status)) {
		snprintf(text, sizeof(text), "ended by signal %d", WTERMSIG(r->status));
		return text;
	}
	int status = WEXITSTATUS(r->status);
	/* glibc's dynamic linker has no error for these two and ends the program itself */
	if (status == 127 && (!strcmp(r->err, "out of memory\n") ||
			      strstr(r->err, "cannot allocate memory for thread-local data: ABORT")))
		return NULL;
	if (strstr(r->err, "the program crashed") || strstr(r->err, "the program aborted"))
		return "crashed";
	if (!is_in_table(status)) {
		snprintf(text, sizeof(text), "exit status %d is not in the table", status);
		return text;
	}
	if (!json)
		/* the findings of check are its result and stand on standard output */
		return status && !*r->err && !strstr(r->out, "error[") ? "failed without a word"
								       : NULL;
	document = jread(r->out, strlen(r->out), "the document", E_CHECK, &a, NULL);
	if (!document)
		why = "the document is not JSON";
	else if ((int)jint(document, "exit_code", -1) != status)
		why = "the document has another exit_code";
	arena_free(&a);
	return why;
}

struct torture {
	const char *name; /* of the command and the model */
	const char *argv[MAX_ARGS + 2];
	bool json, all;
	int runs, failures;
};

/* Returns false if the program made fewer requests than N. */
static bool refuse_one(struct torture *t, const char *which, bool show)
{
	struct result r = run_infer(t->argv, which);
	const char *why = fault(&r, t->json);
	bool refused = r.refused;

	t->runs++;
	if (why && t->failures++ < SHOWN_FAILURES)
		printf("# %s: request %s refused: %s\n", t->name, which, why);
	if (show)
		printf("%s\n%s# status %#x\n", r.out, r.err, (unsigned)r.status);
	free(r.out);
	free(r.err);
	return refused;
}

static void run_command(struct torture *t)
{
	char which[32];
	bool more = true;

	for (long n = 1; more; n += t->all ? 1 : 1 + n / 5) {
		snprintf(which, sizeof(which), "%ld", n);
		more = refuse_one(t, which, false);
		snprintf(which, sizeof(which), "%ld+", n);
		if (more)
			refuse_one(t, which, false);
	}
	printf("%s %s (%d runs, %d wrong)\n", t->failures ? "not ok" : "ok", t->name, t->runs,
	       t->failures);
}

int main(int argc, char **argv)
{
	const char *only = NULL, *command = NULL;
	bool all = false, bad = false;
	int option;

	while ((option = getopt(argc, argv, "ac:k:")) > 0) {
		all |= option == 'a';
		command = option == 'c' ? optarg : command;
		only = option == 'k' ? optarg : only;
	}
	if (argc - optind < 3) {
		fprintf(stderr, "usage: run [-a] [-c COMMAND] [-k N] INFER REFUSE.so MODEL...\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	infer = argv[optind];
	library = argv[optind + 1];
	for (int m = optind + 2; m < argc; m++) {
		for (int k = 0; k < NCOMMANDS; k++) {
			if (command && strcmp(command, commands[k][0]) != 0)
				continue;
			const char *slash = strrchr(argv[m], '/');
			char name[256];
			struct torture t = {.name = name, .argv = {"infer"}, .all = all};
			for (int i = 0; commands[k][i]; i++) {
				bool model = !strcmp(commands[k][i], "MODEL");
				t.argv[i + 1] = model ? argv[m] : commands[k][i];
				t.json |= !strcmp(commands[k][i], "--json");
			}
			snprintf(name, sizeof(name), "%s%s %s", commands[k][0],
				 t.json ? " --json" : "", slash ? slash + 1 : argv[m]);
			if (only)
				refuse_one(&t, only, true);
			else
				run_command(&t);
			bad |= t.failures > 0;
		}
	}
	return bad;
}
