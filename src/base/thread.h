/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H
/* Threads of this program, and times for waiting. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/*
 * Starts a thread that leaves Ctrl-C and the timer to other threads. A fault is for the thread that causes it: if the
 * signal were blocked there, the kernel would kill the program without calling the handler. Returns false if the
 * system refuses.
 */
bool thread_start(pthread_t *t, size_t stack, void *(*fn)(void *), void *arg);
/* The moment that many milliseconds from now, for pthread_cond_timedwait() and pthread_timedjoin_np(). */
struct timespec thread_until(long ms);

#endif
