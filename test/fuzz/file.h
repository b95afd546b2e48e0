/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FUZZ_FILE_H
#define TEST_FUZZ_FILE_H
/* The input of a target as a file, for readers that take a path. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path of a file in memory that holds these bytes until the next call. */
static inline const char *file_with(const uint8_t *data, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd >= 0)
		close(fd);
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

#endif
