/* SPDX-License-Identifier: Apache-2.0 */
#include "watchdog.h"

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
	char message[192];
	char document[512];
};
static struct farewell farewells[3];
static volatile sig_atomic_t write_document;

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

static void on_signal(int number)
{
	for (size_t i = 0; i < sizeof(farewells) / sizeof(*farewells); i++) {
		if (farewells[i].signal != number)
			continue;
		say(STDERR_FILENO, farewells[i].message);
		if (write_document)
			say(STDOUT_FILENO, farewells[i].document);
		_exit(farewells[i].status);
	}
}

static void prepare(struct farewell *f, int number, enum code code, const char *command,
		    const char *text)
{
	struct sigaction action = {.sa_handler = on_signal}, old;

	f->signal = number;
	f->status = code_exit(code);
	snprintf(f->message, sizeof(f->message), "error[%s]: %s\n", code_id(code, SEV_ERROR), text);
	snprintf(f->document, sizeof(f->document),
		 "{\n  \"schema\": \"infer/1\",\n  \"command\": \"%s\",\n  \"ok\": false,\n"
		 "  \"exit_code\": %d,\n  \"env\": {},\n  \"findings\": [\n    {\n      \"id\": \"%s\",\n"
		 "      \"severity\": \"error\",\n      \"message\": \"%s\"\n    }\n  ]\n}\n",
		 command, f->status, code_id(code, SEV_ERROR), text);
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
	snprintf(text, sizeof(text), "not done within the %g s of --timeout", seconds);
	prepare(&farewells[2], SIGALRM, E_TIMEOUT, command, text);
	set_timer(seconds);
}

void watchdog_document(void)
{
	write_document = 0;
}
