/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* number of the field in /proc/self/stat with the start time, in ticks since boot */
enum { START_FIELD = 22 };

/*
 * Returns the ticks from the machine's boot to the start of the process, or 0 if /proc cannot be
 * read.
 */
static unsigned long long start_ticks(void)
{
	char text[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/*
	 * Start behind the second field, the program's name in parentheses, since the name may
	 * contain spaces and parentheses.
	 */
	const char *p = strrchr(text, ')');
	for (int field = 2; p && field < START_FIELD; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

uint64_t clock_since_exec(void)
{
	struct timespec now, cpu;
	unsigned long long ticks = start_ticks();
	long hz = sysconf(_SC_CLK_TCK);
	uint64_t since = 0, busy = 0;

	if (ticks && hz > 0 && clock_gettime(CLOCK_BOOTTIME, &now) == 0) {
		uint64_t t = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		uint64_t start = ticks / (unsigned long)hz * 1000000000u +
				 ticks % (unsigned long)hz * (1000000000u / (unsigned long)hz);
		since = t > start ? t - start : 0;
	}
	/*
	 * The kernel reports the start time in whole ticks of 10 ms, so assume the middle of the
	 * tick. The process has run for at least the CPU time that it has used.
	 */
	if (hz > 0) {
		uint64_t half = 500000000u / (unsigned long)hz;
		since = since > half ? since - half : 0;
	}
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
		busy = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
	return since > busy ? since : busy;
}
