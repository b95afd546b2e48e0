/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_REPEAT_H
#define CHECK_REPEAT_H
/*
 * Runs a step of an observed run once more on other values, in memory of its own:
 *
 *   repeat_begin -> repeat_input for each value that differs -> repeat_run -> read r.out -> repeat_end
 */
#include "plan/plan.h"

/* Operands of a repeated step. */
struct repetition {
	const struct runtime *rt; /* of the session whose step it is */
	const struct call *call;  /* of the observed run; not changed */
	const struct tensor **in; /* the call's own inputs, until repeat_input replaces them */
	struct tensor **out; /* in the layout and place of the call's outputs; valid until repeat_end */
	struct tensor *inputs, *outputs; /* the tensors to which the elements of in and out point */
	void **host;			 /* host memory to be freed */
	struct buffer *buffers;		 /* device memory to be freed */
	uint32_t nhost, nbuffers;
	/* set by the caller before repeat_run: the run has ended, and its workspace is gone. For steps on the host */
	bool afterwards;
	/* holds the lists above, and host values (strings, sequences) that the step makes */
	struct arena arena;
};

/* Sets *r up for the step of `call`, which must outlive it. */
void repeat_begin(struct repetition *r, const struct runtime *rt, const struct call *call);
/*
 * Gives input i the value t, a row-major tensor in host memory that the caller owns. It is converted to the type, layout and
 * place of the step's own operand. Returns false if that is impossible or memory is short.
 */
bool repeat_input(struct repetition *r, uint32_t i, const struct tensor *t);
/* Runs the step. Returns 0 or -code. */
int repeat_run(struct repetition *r, struct diag *d);
void repeat_end(struct repetition *r);

#endif
