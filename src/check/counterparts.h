/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_COUNTERPARTS_H
#define CHECK_COUNTERPARTS_H
/* Finds which values of two models mean the same, so that their runs can be compared node by node. */
#include "check/check.h"

/*
 * Fills of_ref, indexed by value id of graph ref, with the value of graph got that means the same, and of_got with the
 * inverse; NO_VALUE stands for none. The caller owns both arrays, which need an entry for each value of their graph.
 */
void counterparts_find(const struct graph *ref, const struct graph *got, uint32_t *of_ref,
		       uint32_t *of_got);
/* The same for two graphs of one model: names and the positions of outputs alone decide, as types differ with --precision. */
void counterparts_same(const struct graph *ref, const struct graph *got, uint32_t *of_ref,
		       uint32_t *of_got);
/*
 * Returns the inputs `in` of the context's model in the order of graph g, the model of the file `path`: those of the same names if
 * g has all of them, else those of the same positions. The list is in the context's arena. Returns NULL with a finding if
 * the models have different numbers of inputs.
 */
const struct tensor *const *counterparts_inputs(struct check_context *c, const struct graph *g,
						const char *path, const struct tensor *const *in);

#endif
