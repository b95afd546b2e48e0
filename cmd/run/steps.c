/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/steps.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "base/str.h"

#include <inttypes.h>

void steps_warn_useless(const struct options *o, struct diag *d)
{
	bool wanted = steps_wanted(&o->steps);
	const char *without = o->by_step.n > 0 && !wanted	       ? "by-step"
			      : o->step_limit != INT_ABSENT && !wanted ? "steps"
			      : o->until.n > 0 && o->steps.next.n <= 0 ? "until"
								       : NULL;

	if (without)
		WARN(d, E_OPTION, .slot = fmt(d, "--%s", without),
		     .message = o->until.n > 0 ? "no ids are chosen without --next"
					       : "the model runs only once",
		     .hint = o->until.n > 0 ? "add --next IN=argmax:OUT"
					    : "add --feed, --slice or --next");
}

int steps_execute(struct step_run *r, struct session *s, const struct input_set *inputs,
		  const struct steps *steps, const struct options *o, struct diag *d)
{
	const struct stepper_request request = {.steps = steps,
						.by_step = o->by_step,
						.until = o->until,
						.limit = o->step_limit,
						.seed = o->seed};
	bool done = false;
	uint64_t start = clock_ns();

	r->stepper = stepper_new(s, &request, inputs, d);
	int rc = r->stepper ? stepper_prepare(r->stepper, d) : -(int)d->last->code;
	r->prepare = clock_ns() - start;
	while (!rc && !done)
		rc = stepper_step(r->stepper, &done, d);
	if (!rc) {
		r->outputs = stepper_outputs(r->stepper, &r->noutputs, d);
		rc = r->outputs ? 0 : -(int)d->last->code;
	}
	return rc;
}

/* The time of one step after the first, in seconds. */
static double each(const struct step_times *t, uint64_t ns)
{
	return t->steps > 1 ? (double)ns / 1e9 / (double)(t->steps - 1) : 0;
}

void steps_print(const struct step_run *r, FILE *f)
{
	const struct step_times t = stepper_times(r->stepper);
	struct arena a = {0};

	fprintf(f, "steps       %s, the first in %s", str_count(&a, t.steps),
		str_seconds(&a, (double)t.first / 1e9));
	if (t.steps > 1)
		fprintf(f, ", the others in %s each (model %s, plans %s, the rest %s)",
			str_seconds(&a, each(&t, t.rest)),
			str_seconds(&a, each(&t, t.run - t.planned)),
			str_seconds(&a, each(&t, t.planned)),
			str_seconds(&a, each(&t, t.rest - t.run)));
	if (t.state_bytes)
		fprintf(f, "; state %s", str_bytes(&a, (int64_t)t.state_bytes));
	if (t.grown)
		fprintf(f, ", extended in place in %s", str_many(&a, (uint64_t)t.grown, "step"));
	fprintf(f, "\n");
	arena_free(&a);
}

void steps_json(const struct step_run *r, struct json *j)
{
	const struct step_times t = stepper_times(r->stepper);

	json_object(j, "steps");
	json_int(j, "count", t.steps);
	json_number(j, "first_s", (double)t.first / 1e9);
	json_number(j, "others_s", (double)t.rest / 1e9);
	json_number(j, "others_model_s", (double)(t.run - t.planned) / 1e9);
	json_number(j, "others_plans_s", (double)t.planned / 1e9);
	json_int(j, "state_bytes", (int64_t)t.state_bytes);
	json_int(j, "in_place_steps", t.grown);
	json_end(j, '}');
}
