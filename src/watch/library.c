/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/library.h"

#include "backend/observe.h"
#include "session/backends.h"

#ifdef WATCH_LIBRARY
__asm__(".section .rodata\n.balign 16\nwatch_library_start:\n.incbin \"" WATCH_LIBRARY
	"\"\nwatch_library_end:\n.previous");
extern const unsigned char watch_library_start[], watch_library_end[];

size_t watch_library(const unsigned char **data)
{
	*data = watch_library_start;
	return (size_t)(watch_library_end - watch_library_start);
}
#else
size_t watch_library(const unsigned char **data)
{
	*data = NULL;
	return 0;
}
#endif

/*
 * ---- questions to CUDA that this process asks, outside of the watched program
 *
 * Only CUDA programs can be watched, since the injected library (inject/) intercepts CUDA's functions. This process
 * itself asks the driver only a few questions, through the backend that has process_ops.
 */

static const struct process_ops *driver_processes(void)
{
	for (int i = 0; i < BACKENDS; i++)
		if (backends[i]->processes)
			return backends[i]->processes;
	return NULL;
}

const char *watch_cupti(struct diag *d)
{
	const struct process_ops *p = driver_processes();

	if (p)
		return p->recorder(d);
	FAIL(d, E_LIBRARY, .message = "this build cannot watch programs",
	     .actual = "it was built without CUDA's headers");
	return NULL;
}

bool watch_gpu_memory(int pid, uint64_t *bytes)
{
	const struct process_ops *p = driver_processes();

	*bytes = 0;
	return p && p->memory(pid, bytes);
}

uint64_t watch_gpu_left(void)
{
	const struct process_ops *p = driver_processes();

	return p ? p->least_free() : 0;
}

void watch_gpu_end(void)
{
	const struct process_ops *p = driver_processes();

	if (p)
		p->end();
}
