/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ASAN_H
#define BASE_ASAN_H
/*
 * WITH_ASAN is 1 in a build with AddressSanitizer, which then replaces malloc and handles the signals of a crash.
 * Allocators of our own tell it with asan_poison() and asan_unpoison() which bytes nobody may touch: without that, an
 * access beyond a block that ends in the next block of the same arena would not be noticed. Other builds do nothing.
 */
#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#define WITH_ASAN __has_feature(address_sanitizer)
#else
#define WITH_ASAN 0
#endif

#if WITH_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* Makes each access to the n bytes at p an error; p is aligned to 8 bytes. */
static inline void asan_poison(const void *p, size_t n)
{
#if WITH_ASAN
	__asan_poison_memory_region(p, n);
#else
	(void)p, (void)n;
#endif
}

/* Allows accesses to exactly the n bytes at p; p is aligned to 8 bytes. */
static inline void asan_unpoison(const void *p, size_t n)
{
#if WITH_ASAN
	__asan_unpoison_memory_region(p, n);
#else
	(void)p, (void)n;
#endif
}

/* Whether an access to the byte at p would be an error; false in other builds. */
static inline bool asan_is_poisoned(const void *p)
{
#if WITH_ASAN
	return __asan_address_is_poisoned(p);
#else
	(void)p;
	return false;
#endif
}

#endif
