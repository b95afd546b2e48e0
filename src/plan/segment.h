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
	PLACE_CONST,	/* an initializer, or a value that was known when the plan was made */
	PLACE_EXTERNAL, /* an input of the graph, or made by an earlier segment */
	PLACE_SLAB,	/* at an offset of the slab */
	PLACE_VIEW,	/* shares the bytes of another slot, whose address is planned */
	/* address known only during the run: outputs whose size depends on data, and views of external values */
	PLACE_RUN,
};

/* A slot is one tensor of a segment: a value in one layout. Steps refer to slots, not to values. */
struct slot_plan {
	uint32_t value;
	struct tensor desc; /* type, shape, layout and bytes; of a constant also the data */
	enum place place;
	uint32_t sibling; /* the slot added before for the same value, in another layout or place; or NO_VALUE */
	uint32_t root; /* for PLACE_VIEW the slot that owns the bytes; otherwise the slot itself */
	size_t offset; /* PLACE_SLAB */
	/* first and last step that use the slot; `dies` is nsteps if it is used after the last step */
	uint32_t born, dies;
	bool keep; /* outlives the segment */
	/* only for PLACE_EXTERNAL: each run copies the value to `offset` in the host's pinned slab */
	bool staged;
};
/* desc.device of a slot says where its bytes are. Each of the two places has a slab of its own. */
enum { HOST = 0, DEVICE = 1, PLACES = 2 };
/* The slabs: of the host, of the device, and of the host for odd parity, see instance.parity. */
enum { HOST_ODD = PLACES, SLABS };

struct step_plan {
	struct step step; /* must stay first: the address of a step is also the address of its step_plan */
	uint32_t *in, *out; /* slots, or NO_VALUE */
	size_t workspace_offset;
	int device; /* the place where the step runs: HOST or DEVICE */
	bool reorder, copy;
	/* the step is a copy that may be queued: nobody reads it on the host before the segment's end */
	bool queued;
	struct prepared *prepared; /* owns step.state; NULL for a step that the planner itself inserts */
	int (*run)(const struct call *);
#ifdef FAULTS
	/* if not NULL, a fault is planted, and `run` is a function of fault.c, which must not be captured */
	struct fault *fault;
#endif
};

/* What the plan assumes of one of its inputs. This is checked before the plan is used again. */
struct condition {
	uint32_t value;
	struct type type;
	struct shape shape;
	int device;
	/* if not NULL, the plan depends on the input's contents, which must equal these */
	const struct tensor *contents;
	uint32_t at; /* position of the node from which on the contents are known */
};

/* What became of a node: nothing, if its outputs are constant; a step; or only a view, which needs none. */
struct lowered {
	const struct kernel *kernel; /* NULL: the outputs are constant */
	uint32_t step;		     /* or NO_STEP */
};
#define NO_STEP UINT32_MAX

/*
 * A range of consecutive steps. If `graph` is set, all of them only launch kernels, and can be recorded and replayed
 * as a CUDA graph.
 */
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
	bool by_class; /* places in the slab have rooms of a few sizes, see memory.c */
	/* what another plan can be derived from (derive.c) */
	struct vinfo *info;    /* indexed by value id */
	struct lowered *nodes; /* indexed by position behind `first` */
	unsigned parity;       /* instance.parity of the runs that it is for */
	bool waits;	       /* some steps run on the device and some results are on the host */
	bool stages;	       /* some slot is staged */
	uint64_t used; /* instance.clock at the last use: the plan used longest ago is evicted first */
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
	struct body body; /* must stay first: the address of a body is also the address of its plan_body */
	struct instance *instance;
	const struct tensor **in; /* formal inputs, then captures */
	uint32_t nformal;
};

/* Memory that all segments starting at one position share. */
struct slab {
	struct buffer buffer[SLABS];
	unsigned number; /* counts the buffers: another one at the same address is still another one to CUDA graphs */
	bool pinned; /* buffer[HOST] comes from the backend's alloc_host */
	bool pending[2]; /* by parity: the device may still be reading the inputs that were staged here */
};

struct instance {
	const struct graph *graph;
	struct runtime *rt;
	struct arena arena;
	struct node_state **states; /* indexed by node id */
	struct prepared **prepared; /* indexed by node id: what reshape has made, for plans that share it */
	struct body ***bodies;	    /* indexed by node id, then sub index; NULL until needed */
	struct segment **segments;  /* indexed by first position: cached plans, newest first */
	struct slab *slabs;	    /* indexed by first position */
	const struct tensor **live; /* indexed by value id: the value's tensor in the current run */
	/*
	 * indexed by output: memory to which this run must write the output; its data is NULL if there is none. NULL if
	 * no caller has ever given memory
	 */
	struct placed *placed;
	/*
	 * the graph is the body of a control-flow node. It may run many times per run of the model, so nothing in it
	 * may wait for the device.
	 */
	bool body;
	/* the graph is a body that a step on the device runs, so its results stay where they are made */
	bool inner;
	bool steps; /* runs are steps of a decoder: instance_plan_ahead() has been called */
	/*
	 * 0 or 1. If runs are queued before the one before them has ended, they alternate: a run then has other memory of the host
	 * than the one before it, and its own recordings.
	 */
	unsigned parity;
	struct segment *foreseen; /* by the newest instance_foresee(); NULL: none, or it has been freed */
	uint64_t clock;		  /* counts the uses of plans, see segment.used */
	uint64_t plans;		  /* plans made so far */
};

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
