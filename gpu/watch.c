/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/watch.h"

#include "base/dl.h"

#include <dlfcn.h>

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

const char *watch_cupti(struct diag *d)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", NULL};
	static const char *const folders[] = {"/usr/local/cuda*/extras/CUPTI/lib64",
					      "/usr/local/cuda*/lib64",
					      "/usr/lib/python3*/site-packages/nvidia/*/lib",
					      "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
					      "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
					      NULL};
	static const struct dl_symbol symbols[] = {{"cuptiSubscribe", true}};
	const struct dl_search search = {.folders = folders};
	void *table[1];
	struct dl lib = {0};

	if (dl_find(&lib, names, &search, symbols, table, 1, d))
		return NULL;
	const char *path = fmt(d, "%s", lib.path);
	dlclose(lib.handle); /* only its place was wanted: the watched program opens it */
	return path;
}
