/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for LD_PRELOAD in which one request for memory fails, or all from one on: REFUSE=N fails the Nth request of
 * the process, REFUSE=N+ that one and all later ones. Counted are malloc() and its relatives, mmap(), mremap() and
 * pthread_create(), of the program and of all its libraries. The first refusal is told to the descriptor REFUSE_FD by
 * one byte, so that the tester knows when N is beyond the last request.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The allocator of glibc under its own names: dlsym(), which would find it as well, allocates. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static long first;
static int tell = -1;
static bool all;
static atomic_long requests;

/* Requests before this function, of the dynamic linker and of libraries that start earlier, are not refused. */
__attribute__((constructor)) static void begin(void)
{
	const char *n = getenv("REFUSE"), *fd = getenv("REFUSE_FD");
	char *end = NULL;

	tell = fd ? atoi(fd) : -1;
	first = n ? strtol(n, &end, 10) : 0;
	all = end && *end == '+';
	atomic_store(&requests, 0);
}

static bool refused(void)
{
	long k = atomic_fetch_add(&requests, 1) + 1;

	if (!first || k < first || (k > first && !all))
		return false;
	if (k == first && write(tell, "x", 1) < 0)
		tell = -1;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n)
{
	return refused() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return refused() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return refused() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return refused() ? NULL : __libc_memalign(alignment, n);
}

void *memalign(size_t alignment, size_t n)
{
	return refused() ? NULL : __libc_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
	void *block = refused() ? NULL : __libc_memalign(alignment, n);

	if (!block)
		return ENOMEM;
	*p = block;
	return 0;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
	if (refused())
		return MAP_FAILED;
	return (void *)(uintptr_t)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

void *mremap(void *old, size_t n, size_t bigger, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	void *at = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
	va_end(ap);
	if (refused())
		return MAP_FAILED;
	return (void *)(uintptr_t)syscall(SYS_mremap, old, n, bigger, flags, at);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	static int (*_Atomic real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (refused())
		return EAGAIN;
	if (!atomic_load(&real))
		atomic_store(&real, (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
					     void *))(uintptr_t)dlsym(RTLD_NEXT, "pthread_create"));
	return atomic_load(&real)(thread, attr, run, arg);
}
