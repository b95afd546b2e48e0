/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_NORM_H
#define OPS_NORM_H
#include "base/field.h"

/*
 * The .variant of a row: NORM_MEAN and NORM_GROUPED subtract the mean, NORM_RMS does not; NORM_GROUPED shares
 * statistics among groups of channels.
 */
enum { NORM_MEAN, NORM_RMS, NORM_GROUPED };

struct batch_norm {
	float epsilon, momentum;
	int64_t training_mode;
};
struct epsilon { /* InstanceNormalization, SkipLayerNormalization, ... */
	float epsilon;
};
enum { GATE_SIGMOID, GATE_SILU, GATE_SWISH };
struct gated_rms { /* GatedRMSNorm */
	float epsilon;
	int activation;
};
struct layer_norm { /* LayerNormalization, RMSNormalization, SimplifiedLayerNormalization */
	int64_t axis, stash_type;
	float epsilon;
};
struct group_norm {
	int64_t num_groups, stash_type;
	float epsilon;
};
struct ms_group_norm {
	int64_t groups, activation, channels_last;
	float epsilon;
};
struct embed_norm {
	float epsilon;
	int64_t mask_index_type;
};
struct lrn {
	int64_t size;
	float alpha, beta, bias;
};
struct mvn {
	struct ints axes;
};
struct lp_norm {
	int64_t axis, p;
};

#endif
