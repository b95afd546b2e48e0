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
	float clip; /* NAN if there is none */
	int direction;
	int64_t hidden_size, layout;
	int64_t input_forget;	     /* LSTM */
	int64_t linear_before_reset; /* GRU */
	int64_t output_sequence; /* attribute below opset 7, not used: the outputs that are present say the same */
};

enum rnn_cell { CELL_RNN, CELL_GRU, CELL_LSTM };
/* Of RNN, GRU, LSTM and DynamicQuantizeLSTM. */
enum rnn_cell rnn_cell(const struct node *n);
/* Number of gates of a cell: 1, 3 or 4. Each gate has hidden_size rows of W and R. */
int rnn_gates(enum rnn_cell c);

enum { RNN_X, RNN_W, RNN_R, RNN_B, RNN_LENS, RNN_H0, RNN_C0, RNN_P };
enum { RNN_Y, RNN_YH, RNN_YC };

static inline int rnn_directions(const struct rnn *p)
{
	return p->direction == RNN_BIDIRECTIONAL ? 2 : 1;
}

/* A cell has up to three activations; ONNX calls them f, g and h. */
enum { RNN_FUNCTIONS = 3 };
struct rnn_activation {
	int act; /* enum act of ops/activation.h */
	float alpha, beta;
};
/*
 * Fills in the activations of the cell, RNN_FUNCTIONS entries for each direction. The lists of alphas and betas go in
 * order to the functions that have such parameters. p->activations must be long enough. Returns NULL, or the name of
 * an unknown activation.
 */
const char *rnn_activations(const struct rnn *p, enum rnn_cell c,
			    struct rnn_activation act[2 * RNN_FUNCTIONS]);
/* How many names p->activations needs if it has any: f, g and h of the cell in each direction. */
int rnn_activations_needed(const struct rnn *p, enum rnn_cell c);

#endif
