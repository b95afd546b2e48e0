/* SPDX-License-Identifier: Apache-2.0 */
#include "base/columns.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MIN_COLUMNS = 40, MAX_COLUMNS = 10000 };

int columns_wanted(void)
{
	const char *given = getenv("COLUMNS");
	struct winsize w = {0};
	long n = given ? strtol(given, NULL, 10) : 0;

	if (n <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0)
		n = w.ws_col;
	if (n <= 0)
		return 0;
	return n < MIN_COLUMNS ? MIN_COLUMNS : n > MAX_COLUMNS ? MAX_COLUMNS : (int)n;
}

int columns_of(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += !utf8_continues(*s);
	return n;
}

/* Returns the byte offset of column n. */
static size_t offset_of(const char *s, int n)
{
	const char *p = s;

	for (; *p && (n > 0 || utf8_continues(*p)); p++)
		n -= !utf8_continues(p[1]);
	return (size_t)(p - s);
}

const char *columns_shorten(const char *s, int most, struct arena *a)
{
	int n = columns_of(s), head = (most - 1) / 2;

	if (n <= most || most < 1)
		return s;
	return arena_printf(a, "%.*s\xe2\x80\xa6%s", (int)offset_of(s, head), s,
			    s + offset_of(s, n - (most - 1 - head)));
}
