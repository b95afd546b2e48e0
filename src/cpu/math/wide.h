/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_WIDE_H
#define CPU_MATH_WIDE_H
/*
 * For kernels that compute in f32 (in f64 if the type is f64) and round only the result. Operands of
 * narrower float types are converted to f32 in the step's workspace, and the results converted back.
 *
 * reshape: step->workspace = wide_workspace(site) + other bytes that the kernel needs.
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

/* Takes the next `bytes` bytes of the workspace, aligned to 64 bytes and not cleared. */
static inline void *scratch_take(struct scratch *s, size_t bytes)
{
	void *p = s->at;

	if (bytes) /* there may be no workspace at all */
		s->at += scratch_size(bytes);
	return p;
}

/* Returns whether kernels compute on this type directly, without conversion. */
static inline bool wide_as_is(enum dtype t)
{
	return t == DT_F32 || t == DT_F64;
}

/*
 * Returns the workspace bytes for an operand's conversion, or 0 if the operand is not converted (f32, f64, or no
 * float type).
 */
size_t wide_bytes(enum dtype t, const struct shape *s);
/* Returns the workspace bytes for the conversion of all inputs and outputs of the node. */
size_t wide_workspace(const struct site *site);
/* Returns t's elements as f32 (as f64 if t is f64), converted if necessary. Returns NULL if t is NULL. */
const void *wide_in(struct scratch *s, const struct tensor *t);
/*
 * Returns the memory that the kernel writes the elements of t to, as f32 (as f64 if t is f64). Returns NULL if t is
 * NULL.
 */
void *wide_out(struct scratch *s, const struct tensor *t);
/* Converts the elements in `from`, the memory that wide_out returned, to t's type and stores them in t. */
void wide_done(const struct tensor *t, const void *from);

/* Serves as the `reshape` function of a kernel that needs a workspace only for these conversions. */
int wide_reshape(struct site *site, struct step *step, struct diag *d);

#endif
