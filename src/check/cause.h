/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_CAUSE_H
#define CHECK_CAUSE_H
/* Tells why a node made NaN or infinities, from the elements that it read, and which infinities are meant. */
#include "base/diag.h"
#include "ir/graph.h"

/*
 * Returns a text such as "the logarithm of a negative number: log(-1.5)" about the first element of `out` that is NaN,
 * or infinite if none is NaN. in[i] is input i of node n of graph g in host memory, or NULL. Returns NULL if the cause
 * is not known. The text lives in d.
 */
const char *cause_of_bad_value(struct diag *d, const struct graph *g, const struct node *n,
			       const struct tensor *const *in, const struct tensor *out);

/* Which infinities a constant has. Ask once: a constant of millions of elements may have thousands of readers. */
struct infinities {
	bool plus, minus;
};
struct infinities infinities_of(const struct tensor *t);

/*
 * Whether these infinities of a constant are meant if node n reads it as input i: -Inf of a mask that is added, of the
 * lower side of a bound, or where a maximum begins; +Inf of the upper side or where a minimum begins; and either of them
 * to choose from or to compare with.
 */
bool infinities_are_meant(const struct node *n, uint32_t i, struct infinities has);

/* Whether NaN in a constant is meant if node n reads it as input i: to choose from, to compare with, or to pad with. */
bool nan_is_meant(const struct node *n, uint32_t i, struct infinities has);

/*
 * Whether all nodes that read constant t as value v of graph g mean its elements so, in the words of one of the functions above.
 * Nodes that only move or convert elements are followed to their readers, and bodies are looked into. If there are more than a
 * thousand values to follow, the readers of the others do not count.
 */
typedef bool is_meant(const struct node *n, uint32_t i, struct infinities has);
bool readers_mean(const struct graph *g, const struct value *v, const struct tensor *t,
		  is_meant *meant);

/*
 * Whether n only moves or converts elements, so that an infinity in its input means what the readers of its only output make of it.
 */
bool moves_elements(const struct node *n);

#endif
