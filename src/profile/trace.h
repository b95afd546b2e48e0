/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_TRACE_H
#define PROFILE_TRACE_H
/* Writes a trace for Perfetto and chrome://tracing (Trace Event Format, JSON): runs, nodes, copies, counters of memory. */
#include "profile/node_times.h"

/*
 * Writes the trace; `origin` is the clock_ns that is time 0. The file is written completely or not at all. Fails with
 * E-OUTPUT.
 */
int trace_write(const char *path, const struct node_times *n, const struct record *r,
		uint64_t origin, struct diag *d);

#endif
