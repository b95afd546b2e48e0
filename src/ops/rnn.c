/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/rnn.h"

#include "ops/activation.h"
#include "ops/infer_util.h"

#include <inttypes.h>
#include <strings.h>

/* ---- cells ----------------------------------------------------------------------------------- */

enum rnn_cell rnn_cell(const struct node *n)
{
	int variant = n->op->variant;

	return variant == RNN_PLAIN ? CELL_RNN : variant == RNN_GRU ? CELL_GRU : CELL_LSTM;
}

int rnn_gates(enum rnn_cell c)
{
	return c == CELL_LSTM ? 4 : c == CELL_GRU ? 3 : 1;
}

static int functions_of(enum rnn_cell c)
{
	return c == CELL_LSTM ? 3 : c == CELL_GRU ? 2 : 1;
}

int rnn_activations_needed(const struct rnn *p, enum rnn_cell c)
{
	return functions_of(c) * rnn_directions(p);
}

/* The name of activation function k, counted through all directions; the cell's default if the model names none. */
static const char *function_name(const struct rnn *p, enum rnn_cell c, int k)
{
	if (k < p->activations.n)
		return p->activations.v[k].s;
	return c == CELL_RNN || k % functions_of(c) ? "Tanh" : "Sigmoid";
}

const char *rnn_activations(const struct rnn *p, enum rnn_cell c,
			    struct rnn_activation act[2 * RNN_FUNCTIONS])
{
	const struct floats *alphas = &p->activation_alpha, *betas = &p->activation_beta;
	int64_t a = 0, b = 0;
	int each = functions_of(c);

	for (int k = 0; k < rnn_activations_needed(p, c); k++) {
		const char *name = function_name(p, c, k);
		enum act kind = activation_named(name);
		const struct activation *row = &activations[kind];

		if (kind == ACT_NONE && *name)
			return name;
		act[k / each * RNN_FUNCTIONS + k % each] = (struct rnn_activation){
			.act = (int)kind,
			.alpha = row->nparams > 0 && a < alphas->n ? alphas->v[a++] : (float)row->alpha,
			.beta = row->nparams > 1 && b < betas->n ? betas->v[b++] : (float)row->beta};
	}
	return NULL;
}

/* ---- shapes ----------------------------------------------------------------------------------- */

/*
 * Checks that input i has these dims, where a negative one stands for any size. The input may be left out or of
 * unknown rank.
 */
static int expect_dims(const struct infer *c, uint32_t i, int rank, const int64_t *want)
{
	struct shape s = infer_shape(c, i), w = shape_of(rank, want);

	if (s.rank < 0)
		return 0;
	bool bad = s.rank != rank;
	for (int k = 0; !bad && k < rank; k++)
		bad = s.dim[k] >= 0 && want[k] >= 0 && s.dim[k] != want[k];
	return bad ? infer_fail(c, E_SHAPE, (int)i, infer_shape_text(c, &w), infer_shape_text(c, &s))
		   : 0;
}

/*
 * Compares hidden_size and direction with W [directions, gates * hidden, input] and R [directions, gates * hidden, hidden].
 * If both weights agree with one another and not with the attribute, the attribute is what is wrong.
 */
static int check_attributes(const struct infer *c, const struct rnn *p, const struct shape *w,
			    const struct shape *r, int gates)
{
	int64_t n = rnn_directions(p);

	if (w->rank != 3 || r->rank != 3 || w->dim[0] < 0 || w->dim[1] < 0 || r->dim[2] < 0)
		return 0;
	if (p->hidden_size > 0 && r->dim[2] != p->hidden_size && w->dim[1] == gates * r->dim[2])
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "hidden_size %" PRId64 ", as W %s and R %s have",
				      r->dim[2], infer_shape_text(c, w), infer_shape_text(c, r)),
				  fmt(c->diag, "hidden_size %" PRId64, p->hidden_size));
	if (w->dim[0] != n && w->dim[0] == r->dim[0])
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			fmt(c->diag, "a direction for W %s and R %s, whose first dimension counts them",
			    infer_shape_text(c, w), infer_shape_text(c, r)),
			n == 2 ? "direction bidirectional, which is 2"
			       : "direction forward or reverse, which is 1");
	return 0;
}

/* Refuses activations that ONNX's text does not list. Case does not matter to ONNX Runtime, nor here. */
static int check_functions(const struct infer *c, const struct rnn *p)
{
	static const char *const listed[] = {
		"Relu",	      "Tanh",	     "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
		"ScaledTanh", "HardSigmoid", "Elu",	"Softsign", "Softplus"};
	enum { COUNT = sizeof(listed) / sizeof(*listed) };

	for (int64_t i = 0; i < p->activations.n; i++) {
		const char *name = p->activations.v[i].s;
		int k = 0;
		while (k < COUNT && strcasecmp(listed[k], name) != 0)
			k++;
		if (k == COUNT && *name)
			return infer_fail(
				c, E_OP_ATTRIBUTE, -1,
				"activations of Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, "
				"ScaledTanh, HardSigmoid, Elu, Softsign, Softplus",
				fmt(c->diag, "'%.100s'", name));
	}
	return 0;
}

static int rnn_common(struct infer *c, int gates)
{
	const struct rnn *p = infer_params(c);
	struct shape x = infer_shape(c, RNN_X), r = infer_shape(c, RNN_R), w = infer_shape(c, RNN_W);
	int64_t n = rnn_directions(p), hidden = p->hidden_size > 0 ? p->hidden_size : DIM_UNKNOWN,
		wide;
	int64_t seq = DIM_UNKNOWN, batch = DIM_UNKNOWN, input = DIM_UNKNOWN;
	bool last = p->layout != 0;
	enum dtype t = infer_dtype(c, RNN_X);
	int rc;

	if (x.rank >= 0 && x.rank != 3)
		return infer_fail(c, E_SHAPE, RNN_X, "rank 3", infer_shape_text(c, &x));
	if (x.rank == 3) {
		seq = x.dim[last ? 1 : 0];
		batch = x.dim[last ? 0 : 1];
		input = x.dim[2];
	}
	if (hidden < 0 && r.rank == 3)
		hidden = r.dim[2];
	if (hidden < 0 && w.rank == 3 && w.dim[1] >= 0)
		hidden = w.dim[1] / gates;
	rc = check_functions(c, p);
	rc = rc ? rc : check_attributes(c, p, &w, &r, gates);
	if (rc)
		return rc;
	wide = hidden >= 0 && hidden < INT64_C(1) << 40 ? gates * hidden : DIM_UNKNOWN;
	int64_t both = wide < 0 ? DIM_UNKNOWN : 2 * wide, peep = wide < 0 ? DIM_UNKNOWN : 3 * hidden;
	const int64_t state[3] = {last ? batch : n, last ? n : batch, hidden};
	if ((rc = expect_dims(c, RNN_W, 3, (int64_t[]){n, wide, input})) ||
	    (rc = expect_dims(c, RNN_R, 3, (int64_t[]){n, wide, hidden})) ||
	    (rc = expect_dims(c, RNN_B, 2, (int64_t[]){n, both})) ||
	    (rc = expect_dims(c, RNN_LENS, 1, (int64_t[]){batch})) ||
	    (rc = expect_dims(c, RNN_H0, 3, state)) ||
	    (gates == 4 && (rc = expect_dims(c, RNN_C0, 3, state))) ||
	    (gates == 4 && (rc = expect_dims(c, RNN_P, 2, (int64_t[]){n, peep}))))
		return rc;
	struct shape y = shape_of(4, (int64_t[]){seq, n, batch, hidden});
	if (last)
		y = shape_of(4, (int64_t[]){batch, seq, n, hidden});
	struct shape s = shape_of(3, state);
	infer_set(c, RNN_Y, t, &y);
	infer_set(c, RNN_YH, t, &s);
	if (gates == 4)
		infer_set(c, RNN_YC, t, &s);
	return 0;
}

static int rnn_infer(struct infer *c)
{
	return rnn_common(c, 1);
}

static int gru_infer(struct infer *c)
{
	return rnn_common(c, 3);
}

static int lstm_infer(struct infer *c)
{
	return rnn_common(c, 4);
}

/* DynamicQuantizeLSTM: W [directions, input, 4 * hidden] and R are transposed compared with LSTM, and quantized. */
static int quantized_infer(struct infer *c)
{
	const struct rnn *p = infer_params(c);
	struct shape x = infer_shape(c, RNN_X), r = infer_shape(c, RNN_R);
	int64_t hidden = p->hidden_size > 0 ? p->hidden_size : r.rank == 3 ? r.dim[1] : DIM_UNKNOWN;
	int64_t n = rnn_directions(p), input = x.rank == 3 ? x.dim[2] : DIM_UNKNOWN,
		wide = hidden >= 0 && hidden < INT64_C(1) << 40 ? 4 * hidden : DIM_UNKNOWN;
	int64_t batch = x.rank == 3 ? x.dim[1] : DIM_UNKNOWN, state[3] = {n, batch, hidden};
	int rc;

	if (x.rank >= 0 && x.rank != 3)
		return infer_fail(c, E_SHAPE, RNN_X, "rank 3", infer_shape_text(c, &x));
	if ((rc = expect_dims(c, RNN_W, 3, (int64_t[]){n, input, wide})) ||
	    (rc = expect_dims(c, RNN_R, 3, (int64_t[]){n, hidden, wide})) ||
	    (rc = expect_dims(c, RNN_B, 2, (int64_t[]){n, wide < 0 ? DIM_UNKNOWN : 2 * wide})) ||
	    (rc = expect_dims(c, RNN_LENS, 1, (int64_t[]){batch})) ||
	    (rc = expect_dims(c, RNN_H0, 3, state)) || (rc = expect_dims(c, RNN_C0, 3, state)) ||
	    (rc = expect_dims(c, RNN_P, 2, (int64_t[]){n, wide < 0 ? DIM_UNKNOWN : 3 * hidden})))
		return rc;
	struct shape y =
		shape_of(4, (int64_t[]){x.rank == 3 ? x.dim[0] : DIM_UNKNOWN, n, batch, hidden});
	struct shape s = shape_of(3, state);
	infer_set(c, RNN_Y, DT_F32, &y);
	infer_set(c, RNN_YH, DT_F32, &s);
	infer_set(c, RNN_YC, DT_F32, &s);
	return 0;
}

static int64_t rnn_macs(const struct infer *c)
{
	struct shape x = infer_shape(c, RNN_X), w = infer_shape(c, RNN_W), r = infer_shape(c, RNN_R);
	int64_t weights = shape_count(&w) + shape_count(&r), steps, macs;

	if (x.rank != 3 || weights < 0 || x.dim[0] < 0 || x.dim[1] < 0)
		return 0;
	return __builtin_mul_overflow(x.dim[0], x.dim[1], &steps) ||
			       __builtin_mul_overflow(steps, weights, &macs)
		       ? 0
		       : macs;
}

#define F T_FLOATS_BF
static const struct slot rnn_in[] = {SLOT("X", "T", F),
				     SLOT("W", "T", F),
				     SLOT("R", "T", F),
				     SLOT_OPT("B", "T", F),
				     SLOT_OPT("sequence_lens", NULL, T_I32),
				     SLOT_OPT("initial_h", "T", F),
				     SLOT_END};
static const struct slot rnn_out[] = {SLOT_OPT("Y", "T", F), SLOT_OPT("Y_h", "T", F), SLOT_END};
static const struct slot lstm_in[] = {SLOT("X", "T", F),
				      SLOT("W", "T", F),
				      SLOT("R", "T", F),
				      SLOT_OPT("B", "T", F),
				      SLOT_OPT("sequence_lens", NULL, T_I32),
				      SLOT_OPT("initial_h", "T", F),
				      SLOT_OPT("initial_c", "T", F),
				      SLOT_OPT("P", "T", F),
				      SLOT_END};
static const struct slot lstm_out[] = {SLOT_OPT("Y", "T", F), SLOT_OPT("Y_h", "T", F),
				       SLOT_OPT("Y_c", "T", F), SLOT_END};

#define Q8 (T_U8 | T_I8)
static const struct slot quantized_in[] = {SLOT("X", NULL, T_F32),
					   SLOT("W", "T2", Q8, .dims = "D _ W"),
					   SLOT("R", "T2", Q8, .dims = "D _ W"),
					   SLOT_OPT("B", NULL, T_F32),
					   SLOT_OPT("sequence_lens", NULL, T_I32),
					   SLOT_OPT("initial_h", NULL, T_F32),
					   SLOT_OPT("initial_c", NULL, T_F32),
					   SLOT_OPT("P", NULL, T_F32),
					   SLOT("W_scale", NULL, T_F32, .dims = "D | D W"),
					   SLOT("W_zero_point", "T2", Q8, .dims = "D | D W"),
					   SLOT("R_scale", NULL, T_F32, .dims = "D | D W"),
					   SLOT("R_zero_point", "T2", Q8, .dims = "D | D W"),
					   SLOT_END};
static const struct slot quantized_out[] = {SLOT_OPT("Y", NULL, T_F32), SLOT_OPT("Y_h", NULL, T_F32),
					    SLOT_OPT("Y_c", NULL, T_F32), SLOT_END};

#define RNN_FIELDS                                                                                 \
	FIELD(struct rnn, activations, F_STRINGS, NULL, "activation functions of each direction"), \
		FIELD(struct rnn, activation_alpha, F_FLOATS, NULL, "their first parameters"),     \
		FIELD(struct rnn, activation_beta, F_FLOATS, NULL, "their second parameters"),     \
		FIELD(struct rnn, clip, F_FLOAT, NULL, "bound of what goes into activations"),     \
		{.name = "direction",                                                              \
		 .type = F_ENUM,                                                                   \
		 .off = offsetof(struct rnn, direction),                                           \
		 .def = "forward",                                                                 \
		 .choices = "forward|reverse|bidirectional|foward", /* GRU-1 spells it so */       \
		 .versions = "|||-6",                                                              \
		 .help = "which way the sequence is read"},                                        \
		FIELD(struct rnn, hidden_size, F_INT, "0", "size of the state")
#define LAYOUT FIELD(struct rnn, layout, F_INT, "0", "1: the batch comes first")
#define OUTPUT_SEQUENCE                                                                            \
	FIELD(struct rnn, output_sequence, F_INT, "0", "whether the sequence is put out")
#define LBR                                                                                        \
	FIELD(struct rnn, linear_before_reset, F_INT, "0",                                         \
	      "1: the reset gate comes after the product")
#define FORGET FIELD(struct rnn, input_forget, F_INT, "0", "1: couple the input and forget gates")
static const struct field rnn_attrs[] = {RNN_FIELDS, LAYOUT, {0}};
static const struct field rnn7_attrs[] = {RNN_FIELDS, {0}};
static const struct field rnn1_attrs[] = {RNN_FIELDS, OUTPUT_SEQUENCE, {0}};
static const struct field gru_attrs[] = {RNN_FIELDS, LAYOUT, LBR, {0}};
static const struct field gru7_attrs[] = {RNN_FIELDS, LBR, {0}};
static const struct field gru3_attrs[] = {RNN_FIELDS, LBR, OUTPUT_SEQUENCE, {0}};
static const struct field gru1_attrs[] = {RNN_FIELDS, OUTPUT_SEQUENCE, {0}};
static const struct field lstm_attrs[] = {RNN_FIELDS, LAYOUT, FORGET, {0}};
static const struct field lstm7_attrs[] = {RNN_FIELDS, FORGET, {0}};
static const struct field lstm1_attrs[] = {RNN_FIELDS, FORGET, OUTPUT_SEQUENCE, {0}};

#define P .params_size = sizeof(struct rnn)

const struct op ops_rnn[] = {{.name = "RNN",
			      .since = 22,
			      .in = rnn_in,
			      .out = rnn_out,
			      .attrs = rnn_attrs,
			      P,
			      .infer = rnn_infer,
			      .macs = rnn_macs,
			      .flags = OP_OPTIONAL_OUT},
			     {.name = "RNN", .since = 14, .types = T_FLOATS},
			     {.name = "RNN", .since = 7, .types = T_FLOATS, .attrs = rnn7_attrs, P},
			     {.name = "RNN", .since = 1, .types = T_FLOATS, .attrs = rnn1_attrs, P},

			     {.name = "GRU",
			      .since = 22,
			      .variant = RNN_GRU,
			      .in = rnn_in,
			      .out = rnn_out,
			      .attrs = gru_attrs,
			      P,
			      .infer = gru_infer,
			      .macs = rnn_macs,
			      .flags = OP_OPTIONAL_OUT},
			     {.name = "GRU", .since = 14, .types = T_FLOATS},
			     {.name = "GRU", .since = 7, .types = T_FLOATS, .attrs = gru7_attrs, P},
			     {.name = "GRU", .since = 3, .types = T_FLOATS, .attrs = gru3_attrs, P},
			     {.name = "GRU", .since = 1, .types = T_FLOATS, .attrs = gru1_attrs, P},

			     {.name = "LSTM",
			      .since = 22,
			      .variant = RNN_LSTM,
			      .in = lstm_in,
			      .out = lstm_out,
			      .attrs = lstm_attrs,
			      P,
			      .infer = lstm_infer,
			      .macs = rnn_macs,
			      .flags = OP_OPTIONAL_OUT},
			     {.name = "LSTM", .since = 14, .types = T_FLOATS},
			     {.name = "LSTM", .since = 7, .types = T_FLOATS, .attrs = lstm7_attrs, P},
			     {.name = "LSTM", .since = 1, .types = T_FLOATS, .attrs = lstm1_attrs, P},

			     {.name = "DynamicQuantizeLSTM",
			      MICROSOFT,
			      .variant = RNN_QUANTIZED_LSTM,
			      .in = quantized_in,
			      .out = quantized_out,
			      .attrs = lstm7_attrs,
			      P,
			      .infer = quantized_infer,
			      .macs = rnn_macs,
			      .flags = OP_OPTIONAL_OUT},
			     {0}};
