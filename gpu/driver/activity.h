/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_ACTIVITY_H
#define GPU_DRIVER_ACTIVITY_H
/*
 * What a device did, for observers: kernels, copies and fills as CUPTI records them. Nothing is recorded, and
 * CUPTI is not even opened, but between open and close: runs that are not observed do not know of it.
 */
#include "backend/backend.h"

enum activity_kind {
	ACTIVITY_KERNEL,
	ACTIVITY_TO_DEVICE,
	ACTIVITY_TO_HOST,
	ACTIVITY_COPY, /* on the device */
	ACTIVITY_SET
};
struct activity {
	uint64_t start, end; /* of clock_ns */
	uint64_t tag;	     /* of activities_push when it was queued; 0: none */
	const char *name;    /* of a kernel; else NULL */
	uint64_t bytes;	     /* of a copy or fill */
	enum activity_kind kind;
};

/*
 * One at a time in a process. NULL with a finding (E-LIBRARY) that says why: no CUPTI, or another program has
 * it, with its name where CUPTI tells.
 */
struct activities;
struct activities *activities_open(struct diag *d);
void activities_close(struct activities *a);
const char *activities_source(const struct activities *a); /* "CUPTI 13.0" */

/* What the calling thread queues from here to the pop belongs to `tag`; they nest. */
void activities_push(struct activities *a, uint64_t tag);
void activities_pop(struct activities *a);

/*
 * What was done since the last read, by start; the stream must have been waited for. Valid until the next
 * read, names until the close. 0 or -code.
 */
int activities_read(struct activities *a, const struct activity **v, size_t *n, struct diag *d);

/* "void ns::gemm<float, 3>(args)": "ns::gemm"; of a wrapper of CUTLASS's what it wraps. */
const char *kernel_short_name(const char *name, struct arena *a);

#endif
