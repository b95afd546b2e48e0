/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CONTEXT_LIST_H
#define GPU_DRIVER_CONTEXT_LIST_H
/* Which contexts there are on a device, in this process and in others, without a type of CUDA's. */
#include "backend/backend.h"

struct gpu_process {
	unsigned pid;
	uint64_t memory; /* bytes on the device; 0: not told */
	char name[64];	 /* as the system calls it; "" where it does not say */
};

struct gpu_contexts {
	bool own;	     /* the session has a context of its own */
	const void *session; /* its context */
	const void *current; /* on the calling thread, before the session's; NULL: none */
	bool primary_active; /* somebody holds the device's primary context */
	uint64_t woken; /* device memory that it took when a library woke it beside the session's own */
	unsigned primary_flags;
	const char *schedule; /* how a thread waits, of the primary context's flags */
	bool host_memory;     /* of the flags: pinned memory can be mapped */
	bool blocked;	      /* CUDA_LAUNCH_BLOCKING is set */
	const char *no_list;  /* why there is no list of processes; NULL: there is */
	struct gpu_process process[32];
	unsigned nprocesses; /* ours left out */
	uint64_t ours;	     /* bytes that the management library says are ours; 0: not told */
};

/* Strings live in d's arena. 0 or -code. */
int gpu_contexts(struct device *device, struct gpu_contexts *out, struct diag *d);

#endif
