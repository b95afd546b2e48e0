/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/watchdog.h"

#include "base/asan.h"
#include "base/cancel.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/tame.h"
#include "custom/custom.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * A signal handler gets no argument and may call only async-signal-safe functions, so the texts that it writes are
 * prepared in advance and kept in globals. Like a signal's disposition, this state belongs to the whole process.
 */
struct last_message {
	int signal, status;
	bool names_model; /* without memory no finding can be made that would name it */
	char id[32], text[160];
	char head[256], finding[256]; /* parts of the JSON document */
};
enum { INTERRUPT, TIMEOUT, CRASHES, NCRASHES = 5, NMESSAGES = CRASHES + NCRASHES };
static struct last_message last_messages[NMESSAGES];
/* A mapped file may be truncated by another program: a last message for each code that file_map() is called with. */
static const enum code truncated_codes[] = {E_MODEL_TRUNCATED, E_INPUT_OPEN, E_LABELS, E_CONFIG,
					    E_BASELINE_FILE,   E_CACHE,	     E_USAGE,  E_TRUTH,
					    E_CHECK,	       E_OUTPUT};
enum { NTRUNCATED = sizeof(truncated_codes) / sizeof(*truncated_codes) };
static struct last_message truncated[NTRUNCATED], refused, ended;
static bool at_end;	       /* the program ends by itself */
static const char *subcommand; /* its name, for the documents */
static pid_t owner;	       /* the process that writes; a forked child only ends */
static const char *model;      /* path of the model, or NULL */
static volatile sig_atomic_t document_wanted; /* --json, and none has begun */
static volatile sig_atomic_t half_written; /* a document has begun, and no timeout has come since */
/* soft: watchdog_soft() was called; caught: number of the caught signal, or 0 */
static volatile sig_atomic_t soft, caught;
/* the command has asked for the caught signal, so it is about to end by itself */
static volatile sig_atomic_t noticed;
static bool erase_line; /* standard error is a terminal that can */
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

/* Writes a name from a model, with escapes for what could command the terminal or hide in the text. */
static void write_name(int fd, const char *text)
{
	char shown[TAMED_BYTES];
	const char *end = text + strlen(text);

	while (text < end) {
		text += tame_char(text, (size_t)(end - text), false, shown);
		write_text(fd, shown);
	}
}

/* Writes a name inside a JSON string. */
static void write_json_name(int fd, const char *text)
{
	char escaped[JSON_ESCAPED_BYTES];
	const char *end = text + strlen(text);

	while (text < end) {
		text += json_escape(text, (size_t)(end - text), escaped);
		write_text(fd, escaped);
	}
}

/* The node that runs, as far as somebody has said it: an observer of the steps, or the call of a library's operator. */
static const char *running_node(const char **op)
{
	const char *custom = custom_running(op);

	if (custom)
		return custom;
	*op = at_op;
	return at_node;
}

static void write_message(const struct last_message *f)
{
	const char *op, *node = running_node(&op);

	write_text(STDERR_FILENO, "error[");
	write_text(STDERR_FILENO, f->id);
	write_text(STDERR_FILENO, "]: ");
	if (model && f->names_model) {
		write_name(STDERR_FILENO, model);
		write_text(STDERR_FILENO, ": ");
	}
	if (node) {
		write_text(STDERR_FILENO, "node '");
		write_name(STDERR_FILENO, node);
		write_text(STDERR_FILENO, "' (");
		write_name(STDERR_FILENO, op ? op : "?");
		write_text(STDERR_FILENO, "): ");
	}
	write_text(STDERR_FILENO, f->text);
	write_text(STDERR_FILENO, node ? "; this node was running\n" : "\n");
}

static void write_document(const struct last_message *f)
{
	const char *op, *node = running_node(&op), *more = gathered_findings;

	write_text(STDOUT_FILENO, f->head);
	if (more)
		write_text(STDOUT_FILENO, more);
	write_text(STDOUT_FILENO, f->finding);
	const struct {
		const char *name, *text;
	} where[] = {{"model", f->names_model ? model : NULL},
		     {"node", node},
		     {"op", !node ? NULL
			    : op  ? op
				  : "?"}};
	const char *open = ",\n      \"where\": {\n        \"";
	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		if (!where[i].text)
			continue;
		write_text(STDOUT_FILENO, open);
		write_text(STDOUT_FILENO, where[i].name);
		write_text(STDOUT_FILENO, "\": \"");
		write_json_name(STDOUT_FILENO, where[i].text);
		write_text(STDOUT_FILENO, "\"");
		open = ",\n        \"";
	}
	if (where[0].text || node)
		write_text(STDOUT_FILENO, "\n      }");
	write_text(STDOUT_FILENO, "\n    }\n  ]\n}\n");
}

/*
 * Handles the first signal of a command that called watchdog_soft(): the command ends by itself. It
 * gets NOTICE_US to come back from a run and notice, then LEAVE_US more, in which cancel_requested() makes kernels leave,
 * and the results of that run are lost. A command that has noticed the end of its --timeout gets five seconds for its
 * report, or a fifth of the timeout if that is longer, because a busy machine takes long to report. After an interrupt
 * its report may take any time: a second interrupt ends it.
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
		setitimer(ITIMER_REAL, &notice, NULL); /* the rest of --timeout no longer counts */
		return true;
	}
	if (number != SIGALRM || noticed > 1)
		return false;
	if (noticed && caught == SIGINT)
		return true;
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

/*
 * Ends the process. AddressSanitizer allocates memory before each call of a function that it knows not to return, as it knows of
 * _exit(): in a signal handler that waits for ever if the interrupted thread was allocating.
 */
static void end_now(int status)
{
	syscall(SYS_exit_group, status);
}

/* Does not return. */
static void write_last_message(const struct last_message *f)
{
	static atomic_flag taken = ATOMIC_FLAG_INIT;
	static _Thread_local volatile sig_atomic_t mine;
	const char *text = gathered_text;

	if (getpid() != owner)
		end_now(f->status);
	/* Threads that do the same work crash at the same time: the first one writes, and ends the others. */
	while (atomic_flag_test_and_set(&taken) && !mine)
		pause();
	mine = 1;
	if (text && !document_wanted)
		write_text(STDOUT_FILENO, text);
	write_message(f);
	if (document_wanted)
		write_document(f);
	end_now(f->status);
}

/* Finds the last message for an access to a mapped file beyond its present end; NULL if no file is mapped there. */
static const struct last_message *find_truncated(const void *address)
{
	enum code code = file_mapped_at(address);

	for (size_t i = 0; i < NTRUNCATED; i++)
		if (code == truncated_codes[i])
			return &truncated[i];
	return code == E_OK ? NULL : &truncated[0];
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct last_message *f = number == SIGBUS ? find_truncated(info->si_addr) : NULL;

	(void)context;
	/* the terminal has written ^C behind the cursor, perhaps behind a progress bar */
	if (number == SIGINT && erase_line && getpid() == owner)
		write_text(STDERR_FILENO, "\r\033[K");
	if (f)
		write_last_message(f);
	if (defer_to_command(number))
		return;
	if (number == SIGALRM && half_written) { /* the work is done: half a document would be of no use */
		static const struct itimerval rest = {.it_value = {.tv_sec = 1}};
		half_written = 0;
		setitimer(ITIMER_REAL, &rest, NULL);
		return;
	}
	if (number == SIGALRM && caught) /* the timer of defer_to_command() */
		number = caught;
	for (size_t i = 0; i < NMESSAGES; i++)
		if (last_messages[i].signal == number)
			write_last_message(&last_messages[i]);
	/* a bus error that has no last message: the access is repeated and ends the program */
	signal(number, SIG_DFL);
}

static void say_refusal(size_t bytes)
{
	struct last_message f = refused;

	f.names_model = true;
	if (bytes)
		snprintf(f.text, sizeof(f.text), "the system refused %zu bytes of memory", bytes);
	write_last_message(&f);
}

static void prepare_texts(struct last_message *f, enum code code, const char *text)
{
	f->status = code_exit(code);
	snprintf(f->id, sizeof(f->id), "%s", code_id(code, SEV_ERROR));
	snprintf(f->text, sizeof(f->text), "%s", text);
	snprintf(f->head, sizeof(f->head),
		 "{\n  \"schema\": \"infer/1\",\n  \"command\": \"%s\",\n  \"ok\": false,\n"
		 "  \"exit_code\": %d,\n  \"env\": {},\n  \"findings\": [\n",
		 subcommand, f->status);
	snprintf(f->finding, sizeof(f->finding),
		 "    {\n      \"id\": \"%s\",\n      \"severity\": \"error\",\n      \"message\": \"%s\"",
		 f->id, text);
}

static void catch_signal(int number)
{
	/* Faults are handled on a stack of their own: the thread's may be what overflowed. */
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK},
			 old;

	/* Shells start background jobs with SIGINT ignored; keep it ignored. */
	if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN && number == SIGINT)
		return;
	sigaction(number, &action, NULL);
}

static void prepare_message(struct last_message *f, int number, enum code code, const char *text)
{
	prepare_texts(f, code, text);
	f->signal = number;
	catch_signal(number);
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

/* Reports that a library has called exit(), as libgomp does without memory. */
static void on_exit_call(void)
{
	if (!at_end)
		write_last_message(&ended);
}

/*
 * A write to a closed pipe, or beyond the limit for files, fails with an error if the signal that comes with it has a handler:
 * it is reported like a full disk, or ends the process at a place of our choice (file_reader_gone()).
 */
static void on_failed_write(int number)
{
	(void)number;
}

void watchdog_writes(void)
{
	/* Unlike an ignored signal, one with a handler is not inherited by a program that `check` watches. */
	const struct sigaction action = {.sa_handler = on_failed_write, .sa_flags = SA_RESTART};

	sigaction(SIGPIPE, &action, NULL);
	sigaction(SIGXFSZ, &action, NULL);
}

void watchdog_begin(const char *command, bool json)
{
	subcommand = command;
	owner = getpid();
	document_wanted = json;
	prepare_texts(&refused, E_MEMORY, code_title(E_MEMORY));
	mem_on_refusal(say_refusal);
	prepare_texts(&ended, E_LIBRARY, "a library ended the program");
	if (atexit(on_exit_call) != 0)
		say_refusal(0);
}

void watchdog_end(void)
{
	at_end = true;
}

void watchdog_start(double seconds, bool json)
{
	char text[96];

	const char *terminal = getenv("TERM");

	document_wanted = json;
	erase_line = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
	prepare_message(&last_messages[INTERRUPT], SIGINT, E_INTERRUPTED, code_title(E_INTERRUPTED));
	for (size_t i = 0; i < NTRUNCATED; i++)
		prepare_texts(&truncated[i], truncated_codes[i],
			      "a file was truncated while it was being read");
	catch_signal(SIGBUS);
	if (!(seconds > 0))
		return;
	grace_seconds = (sig_atomic_t)fmax(5, fmin(seconds, 1e9) / 5);
	snprintf(text, sizeof(text), "not done within the %g s of --timeout", seconds);
	prepare_message(&last_messages[TIMEOUT], SIGALRM, E_TIMEOUT, text);
	set_timer(seconds);
}

void watchdog_document_begun(void)
{
	struct sigaction action;

	document_wanted = 0;
	half_written = 1;
	if (!sigaction(SIGALRM, NULL, &action) && (action.sa_flags & SA_SIGINFO)) {
		action.sa_flags |=
			SA_RESTART; /* a timeout is no error of the write that it interrupts */
		sigaction(SIGALRM, &action, NULL);
	}
}

void watchdog_model(const char *path)
{
	model = path;
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
	catch_signal(SIGALRM);
	soft = 1;
}

enum code watchdog_caught(void)
{
	if (caught && !noticed)
		noticed = 1;
	return caught == SIGINT ? E_INTERRUPTED : caught == SIGALRM ? E_TIMEOUT : E_OK;
}

void watchdog_crash(void)
{
	static const struct {
		int number;
		const char *text;
	} crashes[] = {{SIGSEGV, "the program crashed: invalid memory access"},
		       {SIGFPE, "the program crashed: arithmetic error"},
		       {SIGILL, "the program crashed: illegal instruction"},
		       {SIGBUS, "the program crashed: invalid memory access"},
		       {SIGABRT, "the program aborted"}};
	static char stack[1 << 16];
	const stack_t apart = {.ss_sp = stack, .ss_size = sizeof(stack)};

	_Static_assert(sizeof(crashes) / sizeof(*crashes) == NCRASHES, "each has a last message");

#if !WITH_ASAN /* AddressSanitizer reports crashes in more detail */
	sigaltstack(&apart, NULL);
	for (size_t i = 0; i < NCRASHES; i++)
		prepare_message(&last_messages[CRASHES + i], crashes[i].number, E_RUN,
				crashes[i].text);
#else
	(void)apart, (void)crashes;
#endif
}
