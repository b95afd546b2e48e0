/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_STEPS_H
#define CMD_RUN_STEPS_H
/* infer run with --feed, --slice or --next: the model runs step by step (session/stepper.h). */
#include "cmd/options/options.h"
#include "session/stepper.h"

struct step_run {
	struct stepper *stepper; /* owns the outputs; the caller frees it */
	const struct step_output *outputs;
	size_t noutputs;
	uint64_t prepare; /* nanoseconds, to make the plan of the first step */
};
/* Runs all steps. Returns 0 or -code. */
int steps_execute(struct step_run *r, struct session *s, const struct input_set *inputs,
		  const struct steps *steps, const struct options *o, struct diag *d);
/* Prints the number of steps and their times for people, or adds them to the open object. */
void steps_print(const struct step_run *r, FILE *stream);
void steps_json(const struct step_run *r, struct json *j);
/* Warns of options about steps that have no effect, because the model runs only once. */
void steps_warn_useless(const struct options *o, struct diag *d);

#endif
