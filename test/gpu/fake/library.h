/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_LIBRARY_H
#define FAKE_LIBRARY_H
/* Stand-ins for libraries have their work done by the stand-in driver that lies beside them, as a kernel of its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY_API __attribute__((visibility("default")))

typedef int library_launch(const char *kernel, unsigned, unsigned, unsigned, unsigned, unsigned,
			   unsigned, unsigned, void *stream, void **params, void **extra);

/* 0, or what the driver said; 3 where there is none. */
static int library_run(const char *kernel, int64_t elements, const void *job, size_t bytes,
		       void *stream)
{
	static library_launch *_Atomic known; /* any thread may come first */
	static const char own[] = "what lies in this library";
	library_launch *launch = known;
	void *extra[] = {(void *)1, (void *)(uintptr_t)job, (void *)2, &bytes, NULL};
	Dl_info self;
	char path[4096];

	if (!launch && dladdr(own, &self)) {
		const char *slash = strrchr(self.dli_fname, '/');
		snprintf(path, sizeof(path), "%.*slibcuda.so.1",
			 slash ? (int)(slash + 1 - self.dli_fname) : 0, self.dli_fname);
		void *driver = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
		*(void **)&launch = driver ? dlsym(driver, "cuLaunchKernel") : NULL;
		known = launch;
	}
	int64_t blocks = (elements + 63) / 64;
	return !launch ? 3
		       : launch(kernel, (unsigned)(blocks < 4096 ? blocks : 4096), 1, 1, 64, 1, 1,
				0, stream, NULL, extra);
}

#endif
