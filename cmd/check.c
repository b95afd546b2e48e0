/* SPDX-License-Identifier: Apache-2.0 */
/* infer check: checks a model, or watches another program (check -- COMMAND, check --pid PID). */
#include "cmd/check/check_model.h"

#include "cmd/options/subcommand.h"
#include "cmd/watch/watch.h"

int cmd_check(struct options *o, struct diag *d)
{
	if (o->after_dashes || o->watch.pid != INT_ABSENT)
		return watch_command(o, d);
	if (watch_misplaced(o, d))
		return -E_USAGE;
	return check_model(o, d);
}
