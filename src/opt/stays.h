/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_STAYS_H
#define OPT_STAYS_H
#include "opt/optimizer.h"

/*
 * What of a graph must stay fp32 with --precision fp16 or bf16 because of where its numbers come from or go to, whatever its
 * operator: sizes, indices and positions; powers beyond the range of fp16; constants that would become 0.
 * Returns for each node, by id, whether it stays. The graph must be sorted.
 */
bool *opt_stays(struct optimizer *o, const struct graph *g, enum dtype small);

#endif
