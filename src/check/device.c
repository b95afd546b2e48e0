/* SPDX-License-Identifier: Apache-2.0 */
/* Reports which operators the chosen device cannot run, so that they run on the host. */
#include "check/check.h"
#include "check/prepare_inputs.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

/*
 * Adds the operators of the steps that run on the host to x, each operator once, in the order of the run. Counts
 * these steps in *steps.
 */
static void list_host_operators(struct check_names *x, const struct segment_report *r, uint32_t *steps)
{
	for (uint32_t i = 0; i < r->nsteps; i++) {
		const struct step_report *s = &r->steps[i];
		bool seen = false;
		if (!s->host || s->copy || s->nop || s->reorder)
			continue;
		++*steps;
		for (uint32_t k = 0; k < i && !seen; k++)
			seen = r->steps[k].host && !r->steps[k].copy &&
			       !strcmp(r->steps[k].op, s->op);
		if (!seen)
			check_name_add(x, s->op);
	}
}

static int run_device(struct check_context *c)
{
	struct segment_report report = {0};
	struct arena a = {0};
	struct check_names ops = {&a, NULL, 0};
	struct diag *d = c->d;
	uint32_t steps = 0;
	struct diag own = {0};
	int rc = session_prepare(c->session, c->in, &report, &own);

	if (rc)
		report_failed_shapes(c, &own);
	else
		check_merge(d, &own);
	diag_free(&own);
	if (rc)
		return rc;
	list_host_operators(&ops, &report, &steps);
	if (steps)
		NOTE(d, E_OP_DEVICE,
		     .message = fmt(d, "%" PRIu32 " of %" PRIu32 " steps run on the host: %s",
				    steps, report.nsteps, check_name_list(&ops)));
	check_say(c, "%s, %s%s", session_device_text(c->session, &a),
		  str_many(&a, report.nsteps, "step"),
		  report.whole ? "" : ", the others depend on data and are planned during the run");
	arena_free(&a);
	return 0;
}

const struct check check_device = {
	.name = "device",
	.what = "operators that the device runs",
	.need = NEED_INPUTS,
	.cost = COST_READ,
	.run = run_device,
};
