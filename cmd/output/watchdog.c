/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/watchdog.h"

#include "base/asan.h"
#include "base/diag.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * A signal handler has no argument and may call next to nothing, so what it writes is made before
 * and lies here. This is the program's state as a whole, like the signal's disposition itself.
 */
struct farewell {
	int signal, status;
	char id[32], text[160];
	char head[256], finding[256]; /* of the document */
};
static struct farewell farewells[7];
static volatile sig_atomic_t write_document;
static volatile sig_atomic_t soft, caught; /* see watchdog_soft; the signal */
static volatile sig_atomic_t patience = 5; /* seconds that an end in order may take */
static const char *volatile at_node, *volatile at_op;
static const char *volatile gathered_text, *volatile gathered_findings;

static void say(int fd, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		ssize_t w = write(fd, text, n);
		if (w <= 0)
			return;
		text += w;
		n -= (size_t)w;
	}
}

/* A name inside a string of the document: what would need an escape becomes a question mark. */
static void say_plain(int fd, const char *text)
{
	char one[2] = "";

	for (; *text; text++) {
		*one = *text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '?' : *text;
		say(fd, one);
	}
}

static void say_message(const struct farewell *f)
{
	const char *node = at_node, *op = at_op;

	say(STDERR_FILENO, "error[");
	say(STDERR_FILENO, f->id);
	say(STDERR_FILENO, "]: ");
	if (node) {
		say(STDERR_FILENO, "node '");
		say(STDERR_FILENO, node);
		say(STDERR_FILENO, "' (");
		say(STDERR_FILENO, op ? op : "?");
		say(STDERR_FILENO, "): ");
	}
	say(STDERR_FILENO, f->text);
	say(STDERR_FILENO, node ? "; this node was running\n" : "\n");
}

static void say_document(const struct farewell *f)
{
	const char *node = at_node, *op = at_op, *more = gathered_findings;

	say(STDOUT_FILENO, f->head);
	if (more)
		say(STDOUT_FILENO, more);
	say(STDOUT_FILENO, f->finding);
	if (node) {
		say(STDOUT_FILENO, ",\n      \"where\": {\n        \"node\": \"");
		say_plain(STDOUT_FILENO, node);
		say(STDOUT_FILENO, "\",\n        \"op\": \"");
		say_plain(STDOUT_FILENO, op ? op : "?");
		say(STDOUT_FILENO, "\"\n      }");
	}
	say(STDOUT_FILENO, "\n    }\n  ]\n}\n");
}

/*
 * The first time, where the command asked for it: it ends by itself, within five seconds, or where it had more time
 * within a fifth of that (a busy machine takes long to tell what was gathered).
 */
static bool catch_softly(int number)
{
	const struct itimerval grace = {.it_value.tv_sec = patience};

	if (!soft || caught || (number != SIGINT && number != SIGALRM))
		return false;
	caught = number;
	if (number == SIGALRM)
		setitimer(ITIMER_REAL, &grace, NULL);
	return true;
}

static void on_signal(int number)
{
	if (catch_softly(number))
		return;
	for (size_t i = 0; i < sizeof(farewells) / sizeof(*farewells); i++) {
		const struct farewell *f = &farewells[i];
		const char *text = gathered_text;
		if (f->signal != number)
			continue;
		if (text && !write_document)
			say(STDOUT_FILENO, text);
		say_message(f);
		if (write_document)
			say_document(f);
		_exit(f->status);
	}
}

static void prepare(struct farewell *f, int number, enum code code, const char *command,
		    const char *text)
{
	struct sigaction action = {.sa_handler = on_signal}, old;

	f->signal = number;
	f->status = code_exit(code);
	snprintf(f->id, sizeof(f->id), "%s", code_id(code, SEV_ERROR));
	snprintf(f->text, sizeof(f->text), "%s", text);
	snprintf(f->head, sizeof(f->head),
		 "{\n  \"schema\": \"infer/1\",\n  \"command\": \"%s\",\n  \"ok\": false,\n"
		 "  \"exit_code\": %d,\n  \"env\": {},\n  \"findings\": [\n",
		 command, f->status);
	snprintf(f->finding, sizeof(f->finding),
		 "    {\n      \"id\": \"%s\",\n      \"severity\": \"error\",\n      \"message\": \"%s\"",
		 f->id, text);
	/* A shell's background job ignores interrupts, and so do we then. */
	if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN && number == SIGINT)
		return;
	sigaction(number, &action, NULL);
}

static void set_timer(double seconds)
{
	struct itimerval timer = {0};
	double whole = floor(fmin(seconds, 1e9));

	timer.it_value.tv_sec = (time_t)whole;
	timer.it_value.tv_usec = (suseconds_t)((fmin(seconds, 1e9) - whole) * 1e6);
	if (!timer.it_value.tv_sec && !timer.it_value.tv_usec)
		timer.it_value.tv_usec = 1;
	setitimer(ITIMER_REAL, &timer, NULL);
}

void watchdog_start(const char *command, double seconds, bool json)
{
	char text[96];

	write_document = json;
	prepare(&farewells[0], SIGINT, E_INTERRUPTED, command, code_title(E_INTERRUPTED));
	prepare(&farewells[1], SIGBUS, E_MODEL_TRUNCATED, command,
		"a file became shorter while it was being read");
	if (!(seconds > 0))
		return;
	patience = (sig_atomic_t)fmax(5, fmin(seconds, 1e9) / 5);
	snprintf(text, sizeof(text), "not done within the %g s of --timeout", seconds);
	prepare(&farewells[2], SIGALRM, E_TIMEOUT, command, text);
	set_timer(seconds);
}

void watchdog_document(void)
{
	write_document = 0;
}

void watchdog_at(const char *node, const char *op)
{
	at_op = op;
	at_node = node;
}

void watchdog_gathered(const char *text, const char *findings)
{
	gathered_text = text;
	gathered_findings = findings;
}

void watchdog_soft(void)
{
	soft = 1;
}

enum code watchdog_caught(void)
{
	return caught == SIGINT ? E_INTERRUPTED : caught == SIGALRM ? E_TIMEOUT : E_OK;
}

void watchdog_crash(const char *command)
{
	static const struct {
		int number;
		const char *text;
	} crashes[] = {{SIGSEGV, "the program crashed: invalid memory access"},
		       {SIGFPE, "the program crashed: arithmetic error"},
		       {SIGILL, "the program crashed: illegal instruction"},
		       {SIGABRT, "the program aborted"}};

#if !WITH_ASAN /* which tells more */
	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
		prepare(&farewells[3 + i], crashes[i].number, E_RUN, command, crashes[i].text);
#else
	(void)command, (void)crashes;
#endif
}
