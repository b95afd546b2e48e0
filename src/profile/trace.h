/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_TRACE_H
#define PROFILE_TRACE_H
/* A trace in the format that Perfetto and chrome://tracing read: runs, nodes, copies, memory counters. */
#include "profile/node_times.h"

/* origin: the clock_ns that is time 0. Written whole or not at all. E-OUTPUT. */
int trace_write(const char *path, const struct nodes *n, const struct record *r, uint64_t origin,
		struct diag *d);

#endif
