/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "onnx/load.h"

int cmd_run(struct options *o, struct diag *d)
{
	struct load_options options = {.external_root = o->config.external_root};
	struct model *m = onnx_load(o->operand[0], &options, d);

	if (!m)
		return -(int)d->last->code;
	fprintf(stderr, "%s: %u inputs, %u outputs\n", o->operand[0], m->graph->nin, m->graph->nout);
	onnx_unload(m);
	return 0;
}
