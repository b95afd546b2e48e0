/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

/* Returns the monotonic clock's time in nanoseconds since an arbitrary start. */
static inline uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
/* Returns the nanoseconds since exec started the process, from /proc/self/stat. */
uint64_t clock_since_exec(void);

#endif
