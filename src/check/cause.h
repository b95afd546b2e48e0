/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_CAUSE_H
#define CHECK_CAUSE_H
/* Tells why a node made NaN or infinities, from the elements that it read. */
#include "base/diag.h"
#include "ir/graph.h"

/*
 * Returns a text such as "the logarithm of a negative number: log(-1.5)" about the first element of `out` that is NaN,
 * or infinite if none is NaN. in[i] is input i of node n of graph g in host memory, or NULL. Returns NULL if the cause
 * is not known. The text lives in d.
 */
const char *cause_of_bad_value(struct diag *d, const struct graph *g, const struct node *n,
			       const struct tensor *const *in, const struct tensor *out);

#endif
