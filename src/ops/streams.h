/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_STREAMS_H
#define OPS_STREAMS_H
/* com.microsoft's operators of models whose residual connection consists of several streams, and the router of their experts. */
#include <stdint.h>

struct streams {
	int64_t num_branches; /* of flattened streams [..., C * H]; 0: they are [..., C, H] */
	float reduction_scale, epsilon;
};
struct low_rank_mix {
	int64_t num_branches;
	float reduction_scale, epsilon, silu_alpha, gate_div, gate_mul;
};
struct engram_gate {
	float epsilon;
};
struct group_router {
	int64_t top_k, n_group, topk_group, group_topk;
	float router_sentinel;
};

#endif
