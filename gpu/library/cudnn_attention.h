/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUDNN_ATTENTION_H
#define GPU_LIBRARY_CUDNN_ATTENTION_H
/* Attention by cuDNN: fp16 and bf16, heads of a multiple of 8, a mask that is added, or causal. */
#include "gpu/launch/util.h"

struct sdpa;
struct str;
/*
 * The library's plan for a job, kept by the device for equal ones; NULL with the reason where the library is
 * missing or refuses. *workspace: the bytes it wants.
 */
const struct sdpa *sdpa_of(const struct site *s, const struct gpu_attend *job, enum dtype t,
			   size_t *workspace, struct why *why);
/* The graph that is planned; NULL with the reason. For tests, which have no device. */
struct dn;
struct dn_graph;
struct dn_graph *sdpa_graph(struct dn *dn, const struct gpu_attend *job, enum dtype t,
			    struct why *why);
/* A line each of the plans there are. */
void sdpa_choices(const struct device *device, struct str *b);
int sdpa_run(const struct call *c, const struct sdpa *p, const struct gpu_attend *job,
	     void *workspace);

#endif
