/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_USE_H
#define INPUT_USE_H
/* What the nodes that read an input of integers take it for. */
#include "input/random.h"

/* Whether the nodes take the input for lengths of padded sequences. Sets *whole to what the nodes tell of the whole length. */
bool use_as_lengths(const struct graph *g, const struct value *v, struct whole_length *whole);
/* Whether they take it for a size, a number of elements or a step. */
bool use_as_size(const struct graph *g, const struct value *v);
/* Whether they take it for indices as it is, without arithmetic, as a length less 1 is the index of the last element. */
bool use_as_indices(const struct graph *g, const struct value *v);

/* Whether the names are those of a sequence and of its lengths, such as x and x_lengths. */
bool names_belong(const char *sequence, const char *lengths);

/* Whether the text is one of those in the list, which ends with NULL. */
bool is_among(const char *text, const char *const *list);
const char *live_op(const struct node *n); /* the node's operator; "" for a dead node */
/* An attribute that is one integer, or `other` if the node has none of this name. */
int64_t int_attribute(const struct node *n, const char *name, int64_t other);

#endif
