/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
/*
 * From a graph to launches.
 *
 *   instance  a graph made ready on a device: chosen kernels, packed weights, its cached plans.
 *             A body of a control-flow node is an instance of its own.
 *   segment   the plan of a run of nodes for one set of input shapes: steps, memory offsets.
 *             A whole static model is one segment. Where a shape depends on data that only a run
 *             makes, the graph is cut, and the next segment is planned (or found) when the data
 *             are there.
 *   binding   a segment's pointers: tensors, calls, the slab they lie in.
 */
#include "backend/backend.h"

#include <stdbool.h>

/* Told before and after each step of an observed run. */
struct observer {
	void (*begin)(struct observer *, const struct step *, const struct call *);
	void (*end)(struct observer *, const struct step *, const struct call *);
};

/* What a session and all its instances share. */
struct runtime {
	const struct backend *backend; /* where nodes run; those it does not take run on the host */
	const struct backend *cpu; /* the host; the same as `backend` in a session without a device */
	struct device *device;	   /* of backend */
	struct device *host;	   /* of cpu */
	struct stream *stream;	   /* of device; NULL on the host */
	struct uploads *uploads;   /* initializers copied to the device; upload.c's */
	const struct run_config *config;
	struct store *store;
	struct observer *observer; /* NULL: plain runs */
	bool outputs_stay;	   /* where they are made; else they are copied to the host */
#ifdef FAULTS
	struct fault_spec *faults; /* fault.c's */
#endif
	struct arena *arena; /* as long as the session */
};

/* A planned step, for reports. */
struct step_report {
	const struct origin *from;
	const char *op;	    /* operator that runs, qualified */
	const char *kernel; /* "reorder", "reference" or the operator's fast kernel: see kernel flags */
	bool reference, dynamic, nop, reorder, copy;
	bool host;	/* runs on the host although the session has a device */
	uint32_t graph; /* number of the CUDA graph that replays it, from 1; 0: launched by itself */
	size_t out_bytes, workspace;
	size_t live; /* planned bytes in use while it runs, where it runs */
};
struct segment_report {
	uint32_t nsteps;
	const struct step_report *steps;
	size_t slab_bytes;   /* activations and workspace together, on the session's device */
	size_t host_bytes;   /* the same for steps on the host of a session with a device */
	size_t value_bytes;  /* sum of all values, as without reuse */
	size_t workspace;    /* largest of a step */
	uint32_t first, end; /* positions in the graph's order */
	bool whole;	     /* the segment is the whole graph */
};

struct instance;

/* Makes g ready; chooses nothing yet. g must be sorted and outlive the instance. */
struct instance *instance_new(const struct graph *g, struct runtime *rt);
void instance_free(struct instance *x);
/* Plans are made anew from here on. */
void instance_forget(struct instance *x);

/*
 * Runs the graph. in: one tensor a graph input, captures included, on the host or the device as the
 * backend says; borrowed. out[k] points to the k-th output, valid until the next run or free.
 * The plan for these shapes is made where it is not cached. 0 or -code.
 */
int instance_run(struct instance *x, const struct tensor *const *in, const struct tensor **out,
		 struct diag *d);

/* Makes (or finds) the first segment for these inputs without running it. */
int instance_prepare(struct instance *x, const struct tensor *const *in,
		     struct segment_report *report, struct diag *d);

/* Gives the memory of values back, of its bodies too: outputs are gone, the next run takes it anew. */
void instance_release(struct instance *x);

uint64_t instance_plans(const struct instance *x); /* plans made so far */

#endif
