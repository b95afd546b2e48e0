/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUDNN_ATTENTION_H
#define GPU_LIBRARY_CUDNN_ATTENTION_H
/* Attention by cuDNN: fp16 and bf16, head sizes that are multiples of 8 up to 128, with an added or a causal mask. */
#include "gpu/launch/util.h"

struct sdpa;
struct str;
/*
 * cuDNN's plan for a job, which the device owns and equal jobs share; NULL with the reason if cuDNN is missing or refuses.
 * *workspace: bytes that it needs.
 */
const struct sdpa *sdpa_of(const struct site *s, const struct gpu_attend *job, enum dtype t,
			   size_t *workspace, struct why *why);
/* The graph of a job; NULL with the reason. For tests, which have no device. */
struct dn;
struct dn_graph;
struct dn_graph *sdpa_graph(struct dn *dn, const struct gpu_attend *job, enum dtype t,
			    struct why *why);
/* Adds two lines for each plan of the device: its description and the engine. */
void sdpa_choices(const struct device *device, struct str *b);
int sdpa_run(const struct call *c, const struct sdpa *p, const struct gpu_attend *job,
	     void *workspace);

#endif
