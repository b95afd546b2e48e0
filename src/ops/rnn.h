/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_RNN_H
#define OPS_RNN_H
#include "ops/op.h"

enum {
	RNN_FORWARD,
	RNN_REVERSE,
	RNN_BIDIRECTIONAL,
	RNN_FOWARD /* misspelt so in the specification of GRU-1 */
};

enum { RNN_PLAIN, RNN_GRU, RNN_LSTM, RNN_QUANTIZED_LSTM }; /* .variant of the rows */
/* RNN, GRU, LSTM */
struct rnn {
	struct texts activations;
	struct floats activation_alpha, activation_beta;
	float clip; /* NAN: none */
	int direction;
	int64_t hidden_size, layout;
	int64_t input_forget;	     /* LSTM */
	int64_t linear_before_reset; /* GRU */
	int64_t output_sequence; /* attribute below opset 7, not used: the outputs that are present say the same */
};

enum { RNN_X, RNN_W, RNN_R, RNN_B, RNN_LENS, RNN_H0, RNN_C0, RNN_P };
enum { RNN_Y, RNN_YH, RNN_YC };

static inline int rnn_directions(const struct rnn *p)
{
	return p->direction == RNN_BIDIRECTIONAL ? 2 : 1;
}

#endif
