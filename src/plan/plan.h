/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
/*
 * Turns a graph into launches of kernels.
 *
 *   instance  a graph made ready on a device: chosen kernels, packed weights, its cached plans.
 *             A body of a control-flow node is an instance of its own.
 *   segment   the plan of consecutive nodes for one set of input shapes: steps, memory offsets.
 *             A model with static shapes is one segment. If a shape depends on data that only a run
 *             makes, the graph is cut there, and the next segment is planned (or found in the cache)
 *             when the data exist.
 *   slot      one tensor of a segment: a value in one layout, on the host or on the device.
 *   slab      one block of memory in which most slots of a segment lie, at planned offsets.
 *   binding   a segment's pointers: tensors, calls, the slabs in which they lie.
 */
#include "backend/backend.h"

#include <stdbool.h>

/* Callbacks before and after each step of an observed run. */
struct observer {
	void (*begin)(struct observer *, const struct step *, const struct call *);
	void (*end)(struct observer *, const struct step *, const struct call *);
};

/* What a session and all its instances share. */
struct runtime {
	/* backend on which nodes run; nodes that it does not support run on the host */
	const struct backend *backend;
	const struct backend *cpu; /* the host's backend; equals `backend` in a session without a device */
	struct device *device;	 /* of backend */
	struct device *host;	 /* of cpu */
	struct stream *stream;	 /* of device; NULL on the host */
	struct uploads *uploads; /* initializers copied to the device; managed by upload.c */
	const struct run_config *config;
	struct store *store;
	struct observer *observer; /* NULL: plain runs */
	/* outputs stay on the device that makes them; otherwise they are copied to the host */
	bool outputs_stay;
	size_t host_limit; /* bytes that values and workspace of a plan may take on the host; 0: no limit */
#ifdef FAULTS
	struct fault_spec *faults; /* fault.c's */
#endif
	uint64_t plan_ns;    /* nanoseconds spent on making plans so far */
	struct arena *arena; /* lives as long as the session */
};

/* Whether the device copies from and to pinned host memory on its own, without the host waiting. */
static inline bool can_pin(const struct runtime *rt)
{
	return rt->backend != rt->cpu && rt->backend->alloc_host && rt->backend->queue_copy;
}

/* A planned step, for reports. */
struct step_report {
	const struct origin *from;
	const char *op; /* operator that runs, qualified */
	/* name of the kernel: "reorder", "reference" or the operator's fast kernel; see kernel flags */
	const char *kernel;
	bool reference, dynamic, nop, reorder, copy;
	bool host; /* the step runs on the host although the session has a device */
	/* number of the CUDA graph that replays the step, from 1; 0 if the step is launched by itself */
	uint32_t graph;
	size_t out_bytes, workspace;
	/* planned bytes in use while the step runs, in the slab of the host or device on which it runs */
	size_t live;
};
struct segment_report {
	uint32_t nsteps;
	const struct step_report *steps;
	size_t slab_bytes; /* activations and workspace together, on the session's device */
	/* activations and workspace of the steps on the host, in a session with a device */
	size_t host_bytes;
	size_t value_bytes; /* sum of the sizes of all values: the memory needed if no memory were reused */
	size_t workspace;    /* the largest workspace of a step */
	uint32_t first, end; /* positions in the graph's order */
	bool whole;	     /* the segment is the whole graph */
};

struct instance;

/* Makes an instance without plans; kernels are chosen by the first run. g must be sorted and outlive the instance. */
struct instance *instance_new(const struct graph *g, struct runtime *rt);
void instance_free(struct instance *x);
/* Drops all cached plans; the next run makes new ones. */
void instance_forget(struct instance *x);

/*
 * Runs the graph. `in` has one borrowed tensor per graph input, captures included, on the host or the device. out[k]
 * points to the k-th output, valid until the next run or instance_free. Plans for these shapes are made if they are
 * not cached. Returns 0 or -code.
 */
int instance_run(struct instance *x, const struct tensor *const *in, const struct tensor **out,
		 struct diag *d);

/* Memory that a caller provides for an output on the device of the session. */
struct placed {
	void *data; /* NULL: none */
	size_t bytes;
	int64_t capacity; /* of the output's tensor, see there */
};
/*
 * Asks the instance to write output k of its next run to the caller's memory, if its bytes suffice. The output's data pointer
 * tells whether it did so. From the first call on, even one without memory, new plans can do so.
 */
void instance_place(struct instance *x, uint32_t k, struct placed to);
/*
 * Whether the run that instance_foresee() has just planned can extend input `in` in place as output `out`: exactly one step reads the former
 * and writes the latter, and takes operands with spare capacity, and whatever else that step continues is fed() as well. *at becomes the
 * value that tells where positions are appended, or NO_VALUE.
 */
typedef bool instance_fed(const void *arg, uint32_t in, uint32_t out);
bool instance_grows(const struct instance *x, uint32_t in, uint32_t out, instance_fed *fed,
		    const void *arg, uint32_t *at);

/*
 * Makes the first segment for inputs that the next run will probably have, and records its launches, while the device still works on
 * the current run: it touches no memory that a run uses. Of inputs on the device only types, sizes and addresses count.
 * Errors, and inputs that differ from the prediction, are handled by that run.
 */
void instance_plan_ahead(struct instance *x, const struct tensor *const *in);
/*
 * Runs that are queued before the run before them has ended, alternately with parity 0 and 1. instance_foresee() plans such a run, and sets
 * bytes[], if it is not NULL, to the sizes of its outputs. It returns false if the run would do more than launch kernels on the device. instance_launch()
 * queues it, when the run before the last has ended; *out is filled in, but the contents are not there yet. Other runs have parity 0,
 * and begin with instance_set_parity() if there were such.
 */
bool instance_foresee(struct instance *x, const struct tensor *const *in, unsigned parity,
		      size_t *bytes);
int instance_launch(struct instance *x, const struct tensor *const *in, unsigned parity,
		    const struct tensor **out, struct diag *d);
void instance_set_parity(struct instance *x, unsigned parity);
/* Drops what has been recorded of the graph's own steps, none of which may be running: later runs record anew. */
void instance_forget_recordings(struct instance *x);
/* Makes (or finds) the first segment for these inputs without running it. */
int instance_prepare(struct instance *x, const struct tensor *const *in,
		     struct segment_report *report, struct diag *d);

/*
 * Frees the memory of the values of the instance and of its bodies. Outputs become invalid; the next run allocates
 * the memory again.
 */
void instance_release(struct instance *x);

uint64_t instance_plans(const struct instance *x); /* plans made so far */

#endif
