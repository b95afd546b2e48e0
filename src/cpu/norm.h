/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_NORM_H
#define CPU_NORM_H
/* Helpers that the normalization kernels share, and the kernels of cpu_norm[] defined in row_norm.c. */
#include "backend/backend.h"

static inline double norm_scalar(const struct tensor *t, int64_t i)
{
	return elem_f64(tensor_dtype(t), t->data, i);
}

/*
 * Sets step->workspace to hold `shared` floats for all threads together and `each` floats per
 * thread. Returns a negative code if that size overflows.
 */
int norm_workspace(struct site *s, struct step *step, struct diag *d, int64_t shared, int64_t each);

/* row_norm.c: LayerNormalization, RMSNormalization, SimplifiedLayerNormalization */
int layer_norm_reshape(struct site *s, struct step *step, struct diag *d);
int layer_norm_run(const struct call *c);
/* SkipLayerNormalization, SkipSimplifiedLayerNormalization */
int skip_norm_reshape(struct site *s, struct step *step, struct diag *d);
int skip_norm_run(const struct call *c);
/* EmbedLayerNormalization */
bool embed_norm_accepts(const struct site *s, struct why *w);
int embed_norm_reshape(struct site *s, struct step *step, struct diag *d);
int embed_norm_run(const struct call *c);

#endif
