/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_LOWER_H
#define PLAN_LOWER_H
/* Makes the plan of a segment: nodes become steps with kernels, slots and memory offsets. */
#include "plan/segment.h"

/*
 * Plans the nodes from position `first` of the order, for the shapes of the values in x->live, up to the first node
 * whose shapes depend on data that this segment itself makes. *out becomes a new segment without a binding. Returns 0
 * or -code.
 */
int segment_plan(struct instance *x, uint32_t first, struct segment **out, struct diag *d);
void segment_free(struct instance *x, struct segment *s);

/* ---- shared with derive.c: a plan that is under way */

struct lower {
	struct instance *x;
	struct segment *s;
	const struct graph *g;
	struct vinfo *info; /* indexed by value id */
	uint32_t *slot_of; /* indexed by value id: the slot in which a step made the value, or NO_VALUE */
	uint32_t *newest_slot; /* indexed by value id: the slot that was added last for the value, or NO_VALUE */
	uint32_t *condition_of; /* indexed by value id: the segment's condition on the value, or NO_VALUE */
	/* indexed by value id: last position that reads the value; UINT32_MAX for graph outputs */
	uint32_t *last_use;
	/* indexed by slot: last position that reads the slot's bytes, be it through a view */
	uint32_t *slot_last;
	bool *inside; /* indexed by value id: whether a step of this segment makes the value */
	uint32_t at;  /* position in the order of the node that is being lowered */
	/* set after the last node: values copied to the host from now on are for the caller */
	bool finishing;
	struct diag *diag;
};

/*
 * Tells whether a node can be lowered now, or the segment must end before the node because the node's shapes depend
 * on data not made yet.
 */
enum verdict { GO, CUT_BEFORE, FAILED };

/* Infers the outputs of the node into l->info; *err is set if that FAILED. */
enum verdict lower_infer(struct lower *l, const struct node *n, int *err);
/* Whether the contents of all outputs of the node are known, so that there is nothing to run. */
bool lower_constant(const struct lower *l, const struct node *n);
/* Whether the types and shapes of all outputs of the node are known. */
bool lower_known(const struct lower *l, const struct node *n);
/*
 * Records what the plan assumes of value v: its type, shape and device, and also its contents if `contents` is set.
 */
void lower_condition(struct lower *l, uint32_t v, bool contents);
/* Chooses the node's kernel and prepares it; p gets what does not depend on slots. Returns 0 or -code. */
int lower_prepare(struct lower *l, const struct node *n, struct step_plan *p);

#endif
