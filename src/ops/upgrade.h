/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_UPGRADE_H
#define OPS_UPGRADE_H
/* Upgrades that many operators share. */
#include "ops/op.h"

/* In opset 1 most operators had the attribute consumed_inputs, a hint about in-place buffers without effect on results. */
struct no_params {
	struct ints consumed_inputs;
};
extern const struct field upgrade_consumed_attrs[];
#define CONSUMED(type_) FIELD(type_, consumed_inputs, F_INTS, NULL, "no longer meaningful")

/* An .upgrade for an old params struct that begins with the members of the newest one; these are copied. */
int upgrade_prefix(struct edit *e);
/*
 * For a node whose attribute says that channels are last: puts a Transpose before input 0 and after output 0, so that
 * the node itself has the channels in dimension 1. The rank of input 0 must be known.
 */
int edit_channels_first(struct edit *e);
/* Puts such a Transpose before input i alone, whose rank must be known. */
int edit_input_channels_first(struct edit *e, uint32_t i);
/* Adds a constant of n int64s of rank 1; returns the id of the value. */
uint32_t edit_ints(struct edit *e, const int64_t *v, int64_t n);

#endif
