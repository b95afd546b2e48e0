/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_COLLECT_H
#define SESSION_COLLECT_H
/* Gathers the outputs that steps make: only the last, or all of them, stacked, joined or one by one. */
#include "session/stepper.h"

struct collector;
/* Parses the request's by_step. NULL with findings on error. The arena lives as long as the collector. */
struct collector *collector_new(struct session *s, const struct stepper_request *r, struct arena *a,
				struct diag *d);
/* Adds the outputs of a step, which may lie on the device. */
int collector_add(struct collector *c, const struct tensor *const *out, struct diag *d);
/* Whether only outputs of the last step are wanted, so that the others need not be read. */
bool collector_wants_last(const struct collector *c);
/* The number of outputs that there are after the last step. */
size_t collector_count(const struct collector *c);
/* Fills `to` with these outputs, in host memory. `last` are those of the last step. */
int collector_finish(struct collector *c, const struct tensor *const *last, struct step_output *to,
		     struct diag *d);
void collector_free(struct collector *c);

#endif
