/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_MASK_H
#define INPUT_MASK_H
/* Finds out what a mask's ones and zeros do, by computing one element of what the model makes of them. */
#include "ir/graph.h"

/* Whether the elements of the node's first output are elements of its first input, wherever they lie, up to their type. */
bool keeps_elements(const struct node *n);
/* The constant that the value is, if it has elements in memory. */
const struct tensor *elements_of(const struct value *v);
/*
 * Returns 1 if ones in input v hide scores, as a Softmax leaves nothing of a score of -1000 or less, -1 if zeros hide them, and 0 if neither
 * does. With `softmax`, a Softmax must read what is so low: arithmetic on numbers that are no mask may be low as well.
 */
int mask_hides(const struct graph *g, const struct value *v, bool softmax);

#endif
