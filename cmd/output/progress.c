/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/progress.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 }; /* characters */

static const uint64_t DELAY_NS = 2000000000; /* before the bar appears */
static const uint64_t REDRAW_NS = 100000000; /* between two updates */

void progress_begin(struct progress *p, const struct options *o)
{
	const char *terminal = getenv("TERM");

	*p = (struct progress){.start = clock_ns()};
	p->last = p->start;
	p->on = !o->quiet && isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

/* Formats the remaining time as "1:05" or "12 s". It is an estimate, so fractions would mislead. */
static void format_remaining(char *text, size_t size, double seconds)
{
	if (!isfinite(seconds) || seconds > 359999)
		snprintf(text, size, "-");
	else if (seconds >= 60)
		snprintf(text, size, "%d:%02d", (int)seconds / 60, (int)seconds % 60);
	else
		snprintf(text, size, "%d s", (int)ceil(seconds));
}

static void draw_bar(struct progress *p, double left)
{
	char bar[BAR_WIDTH * 3 + 1], time[24];
	size_t n = 0, full = (size_t)(p->done * BAR_WIDTH + 0.5);

	for (size_t i = 0; i < BAR_WIDTH; i++) {
		const char *c = i < full ? "\xe2\x94\x81" : "\xe2\x94\x80"; /* heavy, light line */
		memcpy(bar + n, c, 3);
		n += 3;
	}
	bar[n] = '\0';
	format_remaining(time, sizeof(time), left);
	fprintf(stderr, "\r\033[K%s %3.0f %%  %s left  %s", bar, p->done * 100, time, p->what);
	fflush(stderr);
	p->shown = true;
}

void progress_at(struct progress *p, double done, const char *what)
{
	uint64_t now = p->on ? clock_ns() : 0;

	if (!p->on || now - p->last < REDRAW_NS)
		return;
	done = fmin(fmax(done, p->done), 1);
	double seconds = (double)(now - p->last) * 1e-9, speed = (done - p->done) / seconds;
	double whole = done / ((double)(now - p->start) * 1e-9);
	/* expect the mean of the recent (smoothed) and the overall speed */
	p->speed = p->speed > 0 ? 0.9 * p->speed + 0.1 * speed : whole;
	double expect = (p->speed + whole) / 2;
	p->last = now;
	p->done = done;
	snprintf(p->what, sizeof(p->what), "%s", what ? what : "");
	if (now - p->start > DELAY_NS && (p->shown || (1 - done) / expect > 0.5))
		draw_bar(p, (1 - done) / expect);
}

void progress_clear(struct progress *p)
{
	if (!p->shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	p->shown = false;
}
