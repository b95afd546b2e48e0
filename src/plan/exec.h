/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_EXEC_H
#define PLAN_EXEC_H
/* Gives a planned segment memory and runs its steps. */
#include "plan/segment.h"

/*
 * An output that lies in the slab of the session's device, and all slots that share its bytes. If the caller gives memory for the
 * output, the tensors of these slots point there instead of into the slab.
 */
struct movable {
	uint32_t *slot, n; /* n is 0 if this output must stay where it is */
	size_t bytes, offset;
};

/* The pointers of a segment: to its tensors, its calls, and the slabs in which the tensors lie. */
struct binding {
	struct arena arena;
	struct instance *x;
	struct segment *s;
	unsigned number;	/* of the slabs that the pointers below refer to */
	bool resolved;		/* the pointers below have been set */
	struct tensor *tensors; /* indexed by slot */
	struct moving *moving;	/* indexed by slot */
	struct call *calls;	/* indexed by step */
	uint32_t *external;	/* slots filled at the start of each run */
	uint32_t nexternal;
	struct movable *movable; /* indexed by output of the graph; NULL if no caller gives memory for outputs */
	struct replay *replays; /* indexed by range */
};

/*
 * Binds the segment to the slab, the block of memory that all segments beginning at the same position of the graph share,
 * and enlarges the slab if necessary. Returns 0 or -code.
 */
int segment_bind(struct instance *x, struct segment *s, struct diag *d);
void binding_free(struct binding *b);
/*
 * Records the steps of a segment that has not run yet for the inputs in x->live and the memory in x->placed, if the session records
 * and the slab is large enough. The recordings of `from`, which may be NULL, are changed into it: it is not expected to run again.
 * The run comes at once if it comes `soon`.
 */
void segment_record(struct instance *x, struct segment *s, struct segment *from, bool soon);
/* Runs a bound segment, which reads its inputs from x->live and stores its results there. Returns 0 or -code. */
int segment_run(struct instance *x, struct segment *s, struct diag *d);
/* Runs the steps from `first` to end - 1 of the binding. Returns 0 or -code. */
int steps_run(struct binding *b, uint32_t first, uint32_t end, struct diag *d);
/* Passes their captures, which are inputs of the call, to the bodies of the call's node. */
void bind_captures(const struct call *c);

/* Frees those slabs of a position that are larger than its cached plans need. */
void slab_fit(struct instance *x, uint32_t position);
/* Frees all slabs of a position; the next segment_bind allocates them again. */
void slab_drop(struct instance *x, uint32_t position);

/* `run` functions of the steps that the planner itself inserts. */
int view_run(const struct call *c); /* the outputs have the bytes of input 0 */
int copy_run(const struct call *c); /* copies between host and device; the copy is complete when it returns */
/*
 * like copy_run, but only queues the copy on the stream; it is complete when the segment's end has waited for the
 * stream
 */
int queue_run(const struct call *c);

#endif
