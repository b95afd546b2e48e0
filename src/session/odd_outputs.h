/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_ODD_OUTPUTS_H
#define SESSION_ODD_OUTPUTS_H
/*
 * Warns of outputs that hold NaN or infinities, or zeros only. The look costs a small part of a run, and does not
 * search for the cause: that is what `infer check` is for.
 */
#include "session/session.h"

/*
 * Adds at most one warning about outputs that are not finite and one about outputs that are all zero. `out` are the
 * outputs of the session's newest run, in host memory.
 */
void warn_of_odd_outputs(const struct session *s, const struct tensor *const *out, struct diag *d);

#endif
