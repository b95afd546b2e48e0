/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_SEGMENT_H
#define PLAN_SEGMENT_H
/*
 * The data that the units of this folder share: a segment with its slots and steps, and the instance that owns the
 * segments. plan.h defines the words instance, segment and binding.
 */
#include "plan/plan.h"

#define NO_OFFSET SIZE_MAX

/* Where a slot's bytes come from. */
enum place {
	PLACE_CONST,	/* initializer, or a value known when the plan was made */
	PLACE_EXTERNAL, /* an input of the graph, or made by an earlier segment */
	PLACE_SLAB,	/* at an offset of the slab */
	PLACE_VIEW,	/* has the bytes of another slot, whose address is planned */
	PLACE_RUN, /* known only during the run: outputs whose size depends on data, views of external values */
};

/* One tensor of a segment: a value in one layout. Steps name slots, not values. */
struct slot_plan {
	uint32_t value;
	struct tensor desc; /* type, shape, layout, bytes; data of constants */
	enum place place;
	uint32_t root; /* PLACE_VIEW: the slot that has the bytes; otherwise the slot itself */
	size_t offset; /* PLACE_SLAB */
	uint32_t born,
		dies; /* first and last step that uses the slot; dies == nsteps: used after the last step */
	bool keep; /* outlives the segment */
	bool staged; /* PLACE_EXTERNAL: each run copies it to `offset` of the host's slab, which is pinned */
};
/* desc.device of a slot says where its bytes are. Each of the two places has a slab of its own. */
enum { HOST = 0, DEVICE = 1, PLACES = 2 };

struct step_plan {
	struct step step;   /* the first member: a step's address is that of its step_plan */
	uint32_t *in, *out; /* slots, or NO_VALUE */
	size_t workspace_offset;
	int device; /* HOST or DEVICE: where the step runs */
	bool reorder, copy;
	bool queued; /* of a copy: nobody reads the result on the host before the segment's end */
	int (*run)(const struct call *);
#ifdef FAULTS
	struct fault *fault; /* not NULL: a fault is planted; `run` is fault.c's and must not be captured */
#endif
};

/* What the plan assumes of one of its inputs; checked before the plan is used again. */
struct condition {
	uint32_t value;
	struct type type;
	struct shape shape;
	int device;
	const struct tensor *contents; /* not NULL: the plan depends on the input's contents, which must equal these */
};

/* Consecutive steps. If `graph` is set, all of them only launch: they can be recorded and replayed as a CUDA graph. */
struct range {
	uint32_t first, end;
	bool graph;
	/* slots that the steps use and whose bytes may lie elsewhere in the next run */
	uint32_t *moving, nmoving;
};

struct segment {
	struct arena arena;
	uint32_t first, end; /* positions in graph->order */
	struct condition *conditions;
	uint32_t nconditions, cap_conditions;
	struct slot_plan *slots;
	uint32_t nslots, cap_slots;
	struct step_plan *steps;
	uint32_t nsteps, cap_steps;
	uint32_t *results; /* slots of the values that outlive the segment */
	uint32_t nresults;
	struct range *ranges;
	uint32_t nranges;
	size_t slab_bytes[PLACES], value_bytes, workspace;
	bool waits;  /* has steps on the device and results on the host */
	bool stages; /* some slot is staged */
	uint64_t used; /* instance's clock at the last use: the plan used longest ago is evicted first */
	struct binding *binding;
	struct segment *next;
};

/* A kernel's state for a node, kept for the session. */
struct node_state {
	const struct kernel *kernel;
	void *state;
	struct node_state *next;
};

/* A body (If, Loop, Scan) with its captures, as kernels see it. */
struct plan_body {
	struct body body; /* the first member: a body's address is that of its plan_body */
	struct instance *instance;
	const struct tensor **in; /* formal inputs, then captures */
	uint32_t nformal;
};

/* Memory that all segments starting at one position share. */
struct slab {
	struct buffer buffer[PLACES];
	bool pinned;  /* buffer[HOST] comes from the backend's alloc_host */
	bool pending; /* the device may still be reading the inputs that were staged here */
};

/* Memory of the caller's for an output of a body. */
struct placed {
	void *data;
	size_t bytes;
};

struct instance {
	const struct graph *graph;
	struct runtime *rt;
	struct arena arena;
	struct node_state **states; /* indexed by node id */
	struct body ***bodies;	    /* indexed by node id, then sub index; NULL until needed */
	struct segment **segments;  /* indexed by first position: cached plans, newest first */
	struct slab *slabs;	    /* indexed by first position */
	const struct tensor **live; /* indexed by value id: the value's tensor in the current run */
	struct placed *placed; /* of a body, by output: where this run must put it; data NULL: anywhere */
	bool body; /* of a control-flow node: runs many times per run, so nothing in it may wait for the device */
	bool inner; /* a body that a step on the device runs: its results stay where they are made */
	uint64_t clock; /* counts uses of plans, see segment.used */
	uint64_t plans; /* plans made so far */
};

/* Whether the device copies from and to pinned host memory on its own, without the host waiting. */
static inline bool can_pin(const struct runtime *rt)
{
	return rt->backend != rt->cpu && rt->backend->alloc_host && rt->backend->queue_copy;
}
static inline bool has_device(const struct runtime *rt)
{
	return rt->backend != rt->cpu;
}
static inline const struct backend *backend_at(const struct runtime *rt, int device)
{
	return device == DEVICE ? rt->backend : rt->cpu;
}
static inline struct device *device_at(const struct runtime *rt, int device)
{
	return device == DEVICE || !has_device(rt) ? rt->device : rt->host;
}

#endif
