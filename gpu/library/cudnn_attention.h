/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUDNN_ATTENTION_H
#define GPU_LIBRARY_CUDNN_ATTENTION_H
/*
 * Attention by cuDNN, for fp16 and bf16, for head sizes that are multiples of 8 up to 128, with an additive or a causal
 * mask.
 */
#include "gpu/launch/util.h"

struct sdpa;
struct str;
/*
 * Returns cuDNN's plan for a job. The device owns the plan, and equal jobs share it. *workspace gets the number of
 * bytes that the plan needs. Returns NULL and sets *why if cuDNN is missing or refuses the job.
 */
const struct sdpa *sdpa_of(const struct site *s, const struct gpu_attend *job, enum dtype t,
			   size_t *workspace, struct why *why);
/* Builds the graph of a job, for tests, which have no device. Returns NULL and sets *why on failure. */
struct dn;
struct dn_graph;
struct dn_graph *sdpa_graph(struct dn *dn, const struct gpu_attend *job, enum dtype t,
			    struct why *why);
/* Adds two lines for each plan of the device: its description and its engine. */
void sdpa_choices(const struct device *device, struct str *b);
int sdpa_run(const struct call *c, const struct sdpa *p, const struct gpu_attend *job,
	     void *workspace);

#endif
