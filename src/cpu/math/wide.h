/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_WIDE_H
#define CPU_MATH_WIDE_H
/*
 * Kernels that compute in f32 (f64 for f64) and round once: operands of narrower float types are
 * converted into the step's workspace, and the results back.
 *
 * reshape: step->workspace = wide_workspace(site) + what else the kernel wants.
 * run:     struct scratch s = scratch_of(call);
 *          const float *x = wide_in(&s, call->in[0]); float *y = wide_out(&s, call->out[0]);
 *          ... wide_done(call->out[0], y);
 */
#include "backend/backend.h"

struct scratch {
	char *at;
};

static inline struct scratch scratch_of(const struct call *c)
{
	return (struct scratch){.at = c->workspace};
}

static inline size_t scratch_size(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* The next bytes of the workspace, 64-byte aligned; not cleared. */
static inline void *scratch_take(struct scratch *s, size_t bytes)
{
	void *p = s->at;

	s->at += scratch_size(bytes);
	return p;
}

/* Types that are computed on as they are. */
static inline bool wide_as_is(enum dtype t)
{
	return t == DT_F32 || t == DT_F64;
}

/* Bytes that a converted operand takes: 0 where it is used as it is, or is no float. */
size_t wide_bytes(enum dtype t, const struct shape *s);
/* All inputs and outputs of the node. */
size_t wide_workspace(const struct site *site);
/* t's elements as f32 (f64 for f64); NULL for NULL. */
const void *wide_in(struct scratch *s, const struct tensor *t);
/* Where to write the elements of t; NULL for NULL. */
void *wide_out(struct scratch *s, const struct tensor *t);
/* Round what was written into t. */
void wide_done(const struct tensor *t, const void *from);

/* A `reshape` for kernels that want nothing else. */
int wide_reshape(struct site *site, struct step *step, struct diag *d);

#endif
