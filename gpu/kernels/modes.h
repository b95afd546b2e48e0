/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_MODES_H
#define GPU_KERNELS_MODES_H
/*
 * Values of the members `mode`, `kind`, `op` and the like in the parameters of kernels. C and CUDA both read this file.
 * Some enums mirror an enum of src/ops, which kernels cannot include; gpu/ops checks with GPU_SAME that the two agree.
 */
#define GPU_SAME(gpu, ops) _Static_assert((int)(gpu) == (int)(ops), #gpu " must be " #ops)

/* enum pad_mode of ops/slice.h */
enum { GPU_PAD_CONSTANT, GPU_PAD_REFLECT, GPU_PAD_EDGE, GPU_PAD_WRAP };
/* enum scatter_reduction of ops/gather.h */
enum { GPU_SCATTER_NONE, GPU_SCATTER_ADD, GPU_SCATTER_MUL, GPU_SCATTER_MAX, GPU_SCATTER_MIN };
/* enum resize_nearest of ops/resize.h */
enum {
	GPU_NEAREST_PREFER_FLOOR,
	GPU_NEAREST_PREFER_CEIL,
	GPU_NEAREST_FLOOR,
	GPU_NEAREST_CEIL,
	GPU_NEAREST_SIMPLE
};
/* Mirror the modes and paddings of GridSample in ops/resize.h. */
enum { GPU_GRID_LINEAR, GPU_GRID_NEAREST, GPU_GRID_CUBIC };
enum { GPU_GRID_ZEROS, GPU_GRID_BORDER, GPU_GRID_REFLECTION };
/*
 * Mirrors enum rnn_cell of ops/rnn.h. GPU_CELL_FUNCTIONS is the number of activations that the parameters hold for each
 * direction.
 */
enum { GPU_CELL_RNN, GPU_CELL_GRU, GPU_CELL_LSTM };
enum { GPU_CELL_FUNCTIONS = 3 };
/* enum cast_round of ops/cast.h */
enum { GPU_CAST_UP, GPU_CAST_DOWN, GPU_CAST_NEAREST };
/*
 * Mirrors enum tfidf_mode of ops/text.h: the number of occurrences of an n-gram, its weight if it occurs, or the
 * product of both.
 */
enum { GPU_TFIDF_TF, GPU_TFIDF_IDF, GPU_TFIDF_TFIDF };
/*
 * qk_matmul_output_mode of ONNX's Attention: scores, scores after the soft cap, scores after the masks, probabilities
 */
enum { GPU_QK_RAW, GPU_QK_CAPPED, GPU_QK_MASKED, GPU_QK_PROBABILITIES };

enum { GPU_POOL_MAX, GPU_POOL_AVERAGE, GPU_POOL_LP };
enum { GPU_RANDOM_UNIFORM, GPU_RANDOM_NORMAL, GPU_RANDOM_BERNOULLI };
enum { GPU_SOFTMAX, GPU_LOG_SOFTMAX, GPU_HARDMAX };
/* what the result of a norm is multiplied by: the sigmoid of a gate, or the gate times its sigmoid */
enum { GPU_GATE_NONE, GPU_GATE_SIGMOID, GPU_GATE_SILU };
/* Mirror the activations of ops/experts.h and where the linear part of SwiGLU is. */
enum { GPU_EXPERT_RELU, GPU_EXPERT_GELU, GPU_EXPERT_SILU, GPU_EXPERT_SWIGLU, GPU_EXPERT_IDENTITY };
enum { GPU_SWIGLU_APART, GPU_SWIGLU_IN_TURN, GPU_SWIGLU_HALVES };

#endif
