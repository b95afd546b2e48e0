/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RECURRENT_H
#define GPU_KERNELS_RECURRENT_H
/* Parameters of the kernels of recurrent.cu: attention whose heads have a recurrent state. */
#include <stdint.h>

struct gpu_linear_attention {
	const void *q, *k, *v, *past, *decay, *beta;
	void *y, *present; /* present: may be null */
	float *state;	   /* [batch][head][d][dv] */
	int64_t batch, length, q_heads, kv_heads, d, dv, decay_size, beta_heads;
	int64_t window; /* states of the last positions that past and present hold; 0: one state */
	int past_type;	/* type of past and present, as ONNX numbers it */
	float scale;
};

struct gpu_linear_gate {
	const void *a, *b;
	const float *bias, *scale;
	void *decay, *beta; /* beta: may be null */
	int64_t n, heads;
};

struct gpu_delta_net {
	const void *q, *k, *v;
	int64_t q_step, k_step, v_step; /* elements of a token */
	const void *decay, *beta;	/* null if the update rule has none; of type gate_type */
	const float *past, *a_log, *bias;
	const int32_t *starts, *count, *active; /* may be null */
	void *y;
	float *state, *update; /* update: may be null */
	/* workspace: queries and keys as they are used, and by what the states shrink at each token; factor is null without decay */
	float *query, *key, *factor;
	int64_t tokens, batch, heads, vheads, size, vsize;
	int64_t width; /* decays of a token: vheads, or vheads * size */
	int64_t biases, capacity;
	int gate_type, unit, bounded, beta_sigmoid;
	float scale, lower;
	uint64_t *fault, who;
};

#endif
