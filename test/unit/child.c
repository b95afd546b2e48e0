/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include "unit.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void write_word(void *arg, FILE *out)
{
	fputs(arg, out);
}

static void text_and_status_arrive(void)
{
	struct child c;
	char word[] = "measured";

	CHECK(child_fork(&c, 1 << 20, write_word, word));
	child_wait(&c, INFINITY);
	CHECK_INT(c.n, 8);
	CHECK_STR(c.text, "measured");
	CHECK_INT(c.signal, 0);
	CHECK_INT(c.status, 0);
	CHECK(!c.timed_out);
	child_free(&c);
}

static void write_megabytes(void *arg, FILE *out)
{
	(void)arg;
	for (int i = 0; i < 3 << 20; i++)
		fputc('x', out);
}

static void long_text_arrives_whole(void)
{
	struct child c;

	CHECK(child_fork(&c, 1 << 30, write_megabytes, NULL));
	while (child_read(&c, 1000))
		;
	child_wait(&c, INFINITY);
	CHECK_INT(c.n, 3 << 20);
	CHECK_INT(c.status, 0);
	child_free(&c);
}

static void no_more_than_the_limit_is_read(void)
{
	struct child c;

	CHECK(child_fork(&c, 100000, write_megabytes, NULL));
	child_wait(&c, INFINITY);
	CHECK_INT(c.n, 100000);
	CHECK(c.signal == SIGPIPE || c.status == 1);
	child_free(&c);
}

static void kill_itself(void *arg, FILE *out)
{
	(void)arg;
	fputs("before", out);
	fflush(out);
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void the_signal_is_told(void)
{
	struct child c;

	CHECK(child_fork(&c, 1 << 20, kill_itself, NULL));
	child_wait(&c, INFINITY);
	CHECK_STR(c.text, "before");
	CHECK_INT(c.signal, SIGTERM);
	CHECK(!c.timed_out);
	child_free(&c);
}

static void never_end(void *arg, FILE *out)
{
	(void)arg;
	(void)out;
	for (;;)
		pause();
}

static void a_child_is_killed_at_the_deadline(void)
{
	struct child c;

	CHECK(child_fork(&c, 1 << 20, never_end, NULL));
	child_wait(&c, 0.05);
	CHECK(c.timed_out);
	CHECK_INT(c.signal, 0);
	CHECK_INT(c.n, 0);
	child_free(&c);
}

/* This program again, as main() below sees it. */
static const char *const again[] = {"child", "again", NULL};

static void a_program_writes_to_its_variable(void)
{
	struct child c;

	CHECK(child_exec(&c, again, false, "CHILD_TEST_FD", 1 << 20));
	CHECK(getenv("CHILD_TEST_FD") == NULL);
	child_wait(&c, 300);
	CHECK_STR(c.text, "from the program");
	CHECK_INT(c.status, 7);
	child_free(&c);
}

static void a_program_needs_no_pipe(void)
{
	struct child c;

	CHECK(child_exec(&c, again, false, NULL, 0));
	child_wait(&c, 300);
	CHECK_INT(c.n, 0);
	CHECK_INT(c.status, 8);
	child_free(&c);
}

static int run_again(void)
{
	static const char text[] = "from the program";
	const char *fd = getenv("CHILD_TEST_FD");

	if (!fd)
		return 8;
	return write(atoi(fd), text, sizeof(text) - 1) == sizeof(text) - 1 ? 7 : 9;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return run_again();
	UNIT(text_and_status_arrive);
	UNIT(long_text_arrives_whole);
	UNIT(no_more_than_the_limit_is_read);
	UNIT(the_signal_is_told);
	UNIT(a_child_is_killed_at_the_deadline);
	UNIT(a_program_writes_to_its_variable);
	UNIT(a_program_needs_no_pipe);
	return unit_end();
}
