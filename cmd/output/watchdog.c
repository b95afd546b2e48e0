/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/watchdog.h"

#include "base/asan.h"
#include "base/cancel.h"
#include "base/diag.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * A signal handler gets no argument and may call only async-signal-safe functions, so the texts that it writes are
 * prepared in advance and kept in globals. Like a signal's disposition, this state belongs to the whole process.
 */
struct farewell {
	int signal, status;
	char id[32], text[160];
	char head[256], finding[256]; /* parts of the JSON document */
};
static struct farewell farewells[7];
static volatile sig_atomic_t document_wanted; /* --json, and none has begun */
/* soft: watchdog_soft() was called; caught: number of the caught signal, or 0 */
static volatile sig_atomic_t soft, caught;
/* the command has asked for the caught signal, so it is about to end by itself */
static volatile sig_atomic_t noticed;
/* seconds that a command has to end by itself after --timeout */
static volatile sig_atomic_t grace_seconds = 5;
static const char *volatile at_node, *volatile at_op;
static const char *volatile gathered_text, *volatile gathered_findings;

static void write_text(int fd, const char *text)
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

/* Writes a name inside a JSON string. Characters that would need an escape become question marks. */
static void write_json_name(int fd, const char *text)
{
	char one[2] = "";

	for (; *text; text++) {
		*one = *text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '?' : *text;
		write_text(fd, one);
	}
}

static void write_message(const struct farewell *f)
{
	const char *node = at_node, *op = at_op;

	write_text(STDERR_FILENO, "error[");
	write_text(STDERR_FILENO, f->id);
	write_text(STDERR_FILENO, "]: ");
	if (node) {
		write_text(STDERR_FILENO, "node '");
		write_text(STDERR_FILENO, node);
		write_text(STDERR_FILENO, "' (");
		write_text(STDERR_FILENO, op ? op : "?");
		write_text(STDERR_FILENO, "): ");
	}
	write_text(STDERR_FILENO, f->text);
	write_text(STDERR_FILENO, node ? "; this node was running\n" : "\n");
}

static void write_document(const struct farewell *f)
{
	const char *node = at_node, *op = at_op, *more = gathered_findings;

	write_text(STDOUT_FILENO, f->head);
	if (more)
		write_text(STDOUT_FILENO, more);
	write_text(STDOUT_FILENO, f->finding);
	if (node) {
		write_text(STDOUT_FILENO, ",\n      \"where\": {\n        \"node\": \"");
		write_json_name(STDOUT_FILENO, node);
		write_text(STDOUT_FILENO, "\",\n        \"op\": \"");
		write_json_name(STDOUT_FILENO, op ? op : "?");
		write_text(STDOUT_FILENO, "\"\n      }");
	}
	write_text(STDOUT_FILENO, "\n    }\n  ]\n}\n");
}

/*
 * Handles the first signal of a command that called watchdog_soft(): the command ends by itself. After --timeout it
 * gets NOTICE_US to come back from a run and notice, then LEAVE_US more, in which cancel_requested() makes kernels leave,
 * and the results of that run are lost. A command that has noticed gets five seconds for its report, or a fifth of the
 * timeout if that is longer, because a busy machine takes long to report.
 */
enum { NOTICE_US = 500000, LEAVE_US = 300000 };

static bool defer_to_command(int number)
{
	const struct itimerval notice = {.it_value.tv_usec = NOTICE_US};
	const struct itimerval leave = {.it_value.tv_usec = LEAVE_US};
	const struct itimerval grace = {.it_value.tv_sec = grace_seconds};

	if (!soft || (number != SIGINT && number != SIGALRM))
		return false;
	if (!caught) {
		caught = number;
		if (number == SIGALRM)
			setitimer(ITIMER_REAL, &notice, NULL);
		return true;
	}
	if (number != SIGALRM || caught != SIGALRM || noticed > 1)
		return false;
	if (noticed) {
		noticed = 2; /* the grace is given once */
		setitimer(ITIMER_REAL, &grace, NULL);
		return true;
	}
	if (cancel_called())
		return false;
	cancel_all();
	setitimer(ITIMER_REAL, &leave, NULL);
	return true;
}

static void on_signal(int number)
{
	if (defer_to_command(number))
		return;
	for (size_t i = 0; i < sizeof(farewells) / sizeof(*farewells); i++) {
		const struct farewell *f = &farewells[i];
		const char *text = gathered_text;
		if (f->signal != number)
			continue;
		if (text && !document_wanted)
			write_text(STDOUT_FILENO, text);
		write_message(f);
		if (document_wanted)
			write_document(f);
		_exit(f->status);
	}
}

static void prepare_farewell(struct farewell *f, int number, enum code code, const char *command,
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
	/* Shells start background jobs with SIGINT ignored; keep it ignored. */
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

	document_wanted = json;
	prepare_farewell(&farewells[0], SIGINT, E_INTERRUPTED, command, code_title(E_INTERRUPTED));
	prepare_farewell(&farewells[1], SIGBUS, E_MODEL_TRUNCATED, command,
			 "a file was truncated while it was being read");
	if (!(seconds > 0))
		return;
	grace_seconds = (sig_atomic_t)fmax(5, fmin(seconds, 1e9) / 5);
	snprintf(text, sizeof(text), "not done within the %g s of --timeout", seconds);
	prepare_farewell(&farewells[2], SIGALRM, E_TIMEOUT, command, text);
	set_timer(seconds);
}

void watchdog_document_begun(void)
{
	document_wanted = 0;
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
	if (caught && !noticed)
		noticed = 1;
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

#if !WITH_ASAN /* AddressSanitizer reports crashes in more detail */
	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
		prepare_farewell(&farewells[3 + i], crashes[i].number, E_RUN, command,
				 crashes[i].text);
#else
	(void)command, (void)crashes;
#endif
}
