/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_AUTO_PRECISION_H
#define CMD_OUTPUT_AUTO_PRECISION_H
/* Resolves --precision auto for a command (by session/auto_precision.h), and reports the choice. */
#include "session/auto_precision.h"
#include "cmd/options/options.h"

/*
 * If config asks for auto, finds the best precision for the model and these inputs, stores it in config, prints the
 * trials on stderr and keeps them in o for the JSON document. Call it before any device or session is opened.
 * label: the name of the job if a command runs several; otherwise NULL.
 */
void precision_settle(struct options *o, struct run_config *config,
		      const struct input_request *request, const char *label, struct diag *d);
/* Writes the choices of precision_settle() as a member of the document, if there were any. */
void precision_document(const struct options *o, struct json *j);

#endif
