/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_PRECISION_H
#define CMD_OUTPUT_PRECISION_H
/* --precision auto: asked for, found (auto_precision.h), told. */
#include "session/auto_precision.h"
#include "cmd/options/options.h"

/*
 * Where config asks for auto: what that is for the model and these inputs, put into config, said on stderr and kept
 * for the JSON document. label: of several; NULL. Before anything else is opened.
 */
void precision_settle(struct options *o, struct run_config *config,
		      const struct input_request *request, const char *label, struct diag *d);
/* Members of the document: what was chosen, where that was asked for. */
void precision_document(const struct options *o, struct json *j);

#endif
