/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_INTERNAL_H
#define PLAN_INTERNAL_H
/* The insides that lower.c, memory.c, exec.c and instance.c share; see plan.h for the words. */
#include "plan/plan.h"

#define NO_OFFSET SIZE_MAX

/* Where a slot's bytes come from. */
enum place {
	PLACE_CONST,	/* initializer, or a value known when the plan was made */
	PLACE_EXTERNAL, /* an input of the graph, or made by an earlier segment */
	PLACE_SLAB,	/* at an offset of the slab */
	PLACE_VIEW,	/* the bytes of another slot, both fixed: resolved when bound */
	PLACE_RUN,	/* only a run can tell: dynamic outputs, views of external ones */
};

/* One tensor of a segment: a value in one layout. Steps name slots, not values. */
struct slot_plan {
	uint32_t value;
	struct tensor desc; /* type, shape, layout, bytes; data of constants */
	enum place place;
	uint32_t root;	     /* PLACE_VIEW: the slot that has the bytes; else itself */
	size_t offset;	     /* PLACE_SLAB */
	uint32_t born, dies; /* steps; dies NSTEPS: at the end */
	bool keep;	     /* crosses the segment's end */
	bool staged; /* PLACE_EXTERNAL: each run copies it to `offset` of the host's slab, which is pinned */
};
/* desc.device of a slot: where its bytes are. Slabs are kept apart by it. */
enum { HOST = 0, DEVICE = 1, PLACES = 2 };

struct step_plan {
	struct step step;
	uint32_t *in, *out; /* slots, or NO_VALUE */
	size_t workspace_offset;
	int device; /* HOST or DEVICE: where it runs */
	bool reorder, copy;
	bool queued; /* of a copy: nobody reads it on the host before the segment's end */
	int (*run)(const struct call *);
#ifdef FAULTS
	struct fault *fault; /* not NULL: planted; run is fault.c's and must not be captured */
#endif
};

/* What the plan holds for; checked before it is used again. */
struct condition {
	uint32_t value;
	struct type type;
	struct shape shape;
	int device;
	const struct tensor *contents; /* not NULL: the plan read the value */
};

/* Steps that follow each other. Those of a `graph` only launch: they can be recorded and replayed at once. */
struct range {
	uint32_t first, end;
	bool graph;
	/* slots that its steps use and whose bytes can lie elsewhere in the next run */
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
	bool waits;    /* has steps on the device and results on the host */
	bool stages;   /* some slot is staged */
	uint64_t used; /* clock of the LRU */
	struct binding *binding;
	struct segment *next;
};

/* A kernel's state for a node, kept for the session. */
struct node_state {
	const struct kernel *kernel;
	void *state;
	struct node_state *next;
};

/* A body with its captures, as kernels see it. */
struct plan_body {
	struct body body;
	struct instance *instance;
	const struct tensor **in; /* formal inputs, then captures */
	uint32_t nformal;
};

/* Memory that the segments starting at one position share. */
struct slab {
	struct buffer buffer[PLACES];
	bool pinned;  /* buffer[HOST] is the backend's alloc_host */
	bool pending; /* the device may still be reading what was staged here */
};

/* Memory of a caller's. */
struct placed {
	void *data;
	size_t bytes;
};

struct instance {
	const struct graph *graph;
	struct runtime *rt;
	struct arena arena;
	struct node_state **states; /* by node id */
	struct body ***bodies;	    /* by node id, then sub index; NULL until wanted */
	struct segment **segments;  /* by first position: cached plans, newest first */
	struct slab *slabs;	    /* by first position */
	const struct tensor **live; /* by value id: the current tensor, of this run */
	struct placed *placed; /* of a body: by output, where it is to lie in this run; data NULL: anywhere */
	bool body; /* of a control-flow node: run many times in a run, so nothing may wait for the device */
	bool inner; /* a body that a step on the device runs: its results stay where they are made */
	uint64_t clock, plans;
};

/* lower.c: plan the nodes from position `first`; reads x->live. */
int segment_plan(struct instance *x, uint32_t first, struct segment **out, struct diag *d);
void segment_free(struct instance *x, struct segment *s);
/* memory.c: lifetimes to offsets; fills offsets, slab_bytes, workspace offsets. */
int segment_memory(struct segment *s, const struct runtime *rt, struct diag *d);
/* replay.c: which steps can be replayed as CUDA graphs; fills ranges. */
void segment_ranges(struct segment *s, const struct runtime *rt);
/* The values that take most, for messages. */
const char *segment_largest(const struct segment *s, struct diag *d);
/* exec.c */
int segment_bind(struct instance *x, struct segment *s, struct diag *d);
void binding_free(struct binding *b);
int segment_run(struct instance *x, struct segment *s, struct diag *d);
/* Frees the slabs of a position, or what of them is more than its plans need. */
void slab_fit(struct instance *x, uint32_t position);
/* All of its memory is given back; the next bind takes it anew. */
void slab_drop(struct instance *x, uint32_t position);
int view_run(const struct call *c);
int copy_run(const struct call *c);
int queue_run(const struct call *c);

/* A result in the host's slab, with all slots that share its bytes: together they can lie elsewhere. */
struct movable {
	uint32_t *slot, n; /* 0: none */
	size_t bytes, offset;
};

/* A segment's pointers: tensors, calls, and the slab they lie in. */
struct binding {
	struct arena arena;
	struct instance *x;
	struct segment *s;
	const void *base[PLACES]; /* of the slabs that the pointers below are into */
	bool resolved;
	struct tensor *tensors; /* by slot */
	struct moving *moving;	/* by slot */
	struct call *calls;	/* by step */
	uint32_t *external;	/* slots filled at the start of each run */
	uint32_t nexternal;
	struct movable *movable; /* of a body on the host: by output of the graph; else NULL */
	struct replay *replays;	 /* by range */
};
int steps_run(struct binding *b, uint32_t first, uint32_t end, struct diag *d);
int steps_replay(struct binding *b, struct diag *d);
void replays_new(struct binding *b);
void replays_drop(struct binding *b);

/* upload.c: the device's copy of an initializer, made once a session. */
int upload(struct runtime *rt, const struct tensor *t, struct tensor *on_device, struct diag *d);
/* The value in host memory: itself, or a copy in the arena. NULL with a finding. */
const struct tensor *on_host(struct runtime *rt, const struct tensor *t, struct arena *a,
			     struct diag *d);

/* Memory of the host that the device copies from and to by itself; else any. */
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
