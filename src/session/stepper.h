/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_STEPPER_H
#define SESSION_STEPPER_H
/*
 * Runs a model step by step: outputs come back as inputs, long inputs are walked along, and tokens are chosen
 * (input/steps.h). A state stays in the memory of the session's device. Each state has two buffers: a step reads one
 * and writes the other, or adds positions to the one that it reads, so that nothing is copied from step to step.
 *
 *   stepper_new -> stepper_step until *done -> stepper_outputs -> stepper_free
 */
#include "input/steps.h"
#include "session/session.h"

/* What becomes of an output that each step makes anew. */
enum by_step {
	BY_STEP_LAST,  /* only that of the last step */
	BY_STEP_STACK, /* a new first axis counts the steps */
	BY_STEP_JOIN,  /* joined along an axis */
	BY_STEP_EACH,  /* one output for each step */
};

struct stepper_request {
	const struct steps *steps;
	struct texts by_step; /* [OUT=]last|stack|join:AXIS|each */
	struct ints until;    /* ids that end the text */
	int64_t limit; /* most steps; INT_ABSENT for as many as there are pieces, or until an id comes */
	int64_t seed;
};

struct stepper;
/* `inputs` must have been read, for a request with these steps, and outlive the stepper. NULL with findings on error. */
struct stepper *stepper_new(struct session *s, const struct stepper_request *r,
			    const struct input_set *inputs, struct diag *d);
/* Makes the plan of the first step. */
int stepper_prepare(struct stepper *x, struct diag *d);
/* Runs one step. *done becomes true after the last one. Returns 0 or -code. */
int stepper_step(struct stepper *x, bool *done, struct diag *d);
void stepper_free(struct stepper *x);

struct step_output {
	const char *name;
	const struct tensor *tensor; /* in host memory; NULL if there is none */
};
/*
 * Returns the outputs after the last step, and in *n their number: those of the graph, by their kind, and the chosen ids
 * of each --next as "IN.next". They are valid until stepper_free() or the next step. NULL with findings on error.
 */
const struct step_output *stepper_outputs(struct stepper *x, size_t *n, struct diag *d);

/* The state that a feed has handed to the next step; for checks, which compare it with the one of another step. */
const struct tensor *stepper_state(const struct stepper *x, uint32_t feed);

struct step_times { /* nanoseconds */
	int64_t steps;
	uint64_t first;	      /* of the first step */
	uint64_t rest;	      /* of all others */
	uint64_t run;	      /* inside of session_run() in the others, with the plans it made */
	uint64_t planned;     /* making plans in the others */
	uint64_t state_bytes; /* of all states after the last step */
	int64_t grown; /* steps that have written only the new positions of a state, and copied no others */
};
struct step_times stepper_times(const struct stepper *x);

#endif
