/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_KERNELS_H
#define CPU_ATTENTION_KERNELS_H
/* Kernels that the table cpu_attention[] in attention.c refers to, grouped by the file that implements them. */
#include "backend/backend.h"

/* flex_attention.c: FlexAttention (ai.onnx.preview) */
bool flex_attention_accepts(const struct site *s, struct why *why);
int flex_attention_reshape(struct site *site, struct step *step, struct diag *d);
int flex_attention_run(const struct call *c);

/* linear_attention.c: LinearAttention of ai.onnx and of com.microsoft, and LinearAttentionGate */
int linear_attention_reshape(struct site *site, struct step *step, struct diag *d);
int linear_attention_run(const struct call *c);
int linear_gate_run(const struct call *c);

/* delta_net.c: GatedDeltaNet */
int delta_net_reshape(struct site *site, struct step *step, struct diag *d);
int delta_net_run(const struct call *c);

/* rotary.c: RotaryEmbedding of ai.onnx and of com.microsoft, and MRotaryEmbedding */
int rotary_run(const struct call *c);
int mrotary_reshape(struct site *site, struct step *step, struct diag *d);
int mrotary_run(const struct call *c);
bool ms_rotary_accepts(const struct site *s, struct why *why);
int ms_rotary_run(const struct call *c);

/* multi_head.c: infer::ProjectedAttention (of com.microsoft::Attention) and com.microsoft::MultiHeadAttention */
bool projected_attention_accepts(const struct site *s, struct why *why);
int projected_attention_reshape(struct site *site, struct step *step, struct diag *d);
int projected_attention_run(const struct call *c);
bool multi_head_accepts(const struct site *s, struct why *why);
int multi_head_reshape(struct site *site, struct step *step, struct diag *d);
int multi_head_run(const struct call *c);

/* group_query.c: com.microsoft::GroupQueryAttention */
bool group_query_accepts(const struct site *s, struct why *why);
int group_query_reshape(struct site *site, struct step *step, struct diag *d);
int group_query_run(const struct call *c);

/* sparse_mask.c: infer::SparseMask, the mask of SparseAttention */
int sparse_mask_run(const struct call *c);

/* paged.c: PagedAttention */
bool paged_accepts(const struct site *s, struct why *why);
int paged_reshape(struct site *site, struct step *step, struct diag *d);
int paged_run(const struct call *c);

#endif
