/* SPDX-License-Identifier: Apache-2.0 */
/* One run: does it end, and where does it not. What the outputs hold is the business of `numbers`. */
#include "check/check.h"

#include <inttypes.h>

static int run(struct check_context *c)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < c->nout; i++)
		bytes += c->out[i] ? c->out[i]->bytes : 0;
	check_say(c, "one run in %.2f ms, %" PRIu32 " output%s of %zu bytes",
		  (double)session_times(c->session).run / 1e6, c->nout, c->nout == 1 ? "" : "s",
		  bytes);
	return 0;
}

const struct check check_run_once = {
	.name = "run",
	.what = "one run goes to its end",
	.need = NEED_OUTPUTS,
	.cost = COST_RUN,
	.run = run,
};
