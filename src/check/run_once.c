/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the first run, which the driver has made because this check needs outputs: if it failed, the check is
 * skipped and the driver has reported the node. numbers.c checks the values of the outputs.
 */
#include "check/check.h"
#include "base/str.h"

#include <inttypes.h>

static int report_run(struct check_context *c)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < c->nout; i++)
		bytes += c->out[i] ? c->out[i]->bytes : 0;
	check_say(c, "one run in %.2f ms, %" PRIu32 " output%s of %s",
		  (double)session_times(c->session).run / 1e6, c->nout, c->nout == 1 ? "" : "s",
		  str_bytes(&c->arena, (int64_t)bytes));
	return 0;
}

const struct check check_run_once = {
	.name = "run",
	.what = "one run succeeds",
	.need = NEED_OUTPUTS,
	.cost = COST_RUN,
	.run = report_run,
};
