/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_UPGRADE_H
#define OPS_UPGRADE_H
/* Upgrades that many operators share. */
#include "ops/op.h"

/* Opset 1 had a list for in-place buffers on most operators; it never meant anything to results. */
struct no_params {
	struct ints consumed_inputs;
};
extern const struct field upgrade_consumed_attrs[];
#define CONSUMED(type_) FIELD(type_, consumed_inputs, F_INTS, NULL, "no longer meaningful")

/* The old params begin with the newest: what follows them is dropped. */
int upgrade_prefix(struct edit *e);
/*
 * Channels that lie last: the node gets Transposes around it, from and to that layout, for input 0 and
 * output 0. Its own rank must be known.
 */
int edit_channels_first(struct edit *e);
/* A value as a new constant of int64s of rank 1. */
uint32_t edit_ints(struct edit *e, const int64_t *v, int64_t n);

#endif
