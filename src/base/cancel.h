/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H
/*
 * Asks work to end early. Loops that may take long look at cancel_requested() and leave; whoever started the work asks
 * once more when it is back, and does not use its results.
 */
#include <stdbool.h>
#include <stdint.h>

/* Cancels all work from now on. Async-signal-safe: the handlers of --timeout and Ctrl-C call it. */
void cancel_all(void);
/* Whether cancel_all() was called. */
bool cancel_called(void);
/*
 * Sets the moment of clock_ns() after which the work of the calling thread is cancelled, 0 for never, and returns the
 * one that was set before. pool_for() sets the caller's moment in the threads that help it.
 */
uint64_t cancel_at(uint64_t ns);
uint64_t cancel_moment(void);
/* Whether the calling thread should leave its work. Looks at the clock only if cancel_at() has set a moment. */
bool cancel_requested(void);

#endif
