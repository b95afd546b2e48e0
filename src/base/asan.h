/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ASAN_H
#define BASE_ASAN_H
/* WITH_ASAN is 1 in a build with AddressSanitizer, which then replaces malloc and handles the signals of a crash. */
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#define WITH_ASAN __has_feature(address_sanitizer)
#else
#define WITH_ASAN 0
#endif

#endif
