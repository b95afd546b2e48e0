/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizations. */
#include "ops/norm.h"

#include "ops/cast.h"
#include "ops/infer_util.h"
#include "ops/layout.h"
#include "ops/reduce.h"
#include "ops/upgrade.h"

#include <inttypes.h>

#define T_FB T_FLOATS_BF

/* ---- BatchNormalization ---------------------------------------------------------------------- */

static const struct slot bn_in[] = {
	SLOT("X", "T", T_FB, .dims = "_ | _ C _..."), SLOT("scale", "T1", T_FB, .dims = "C"),
	SLOT("B", "T1", T_FB, .dims = "C"),	      SLOT("input_mean", "T2", T_FB, .dims = "C"),
	SLOT("input_var", "T2", T_FB, .dims = "C"),   SLOT_END};
static const struct slot bn_out[] = {SLOT("Y", "T", T_FB), SLOT_OPT("running_mean", "T2", T_FB),
				     SLOT_OPT("running_var", "T2", T_FB), SLOT_END};
static const struct slot bn_14_in[] = {SLOT("X", "T", T_FB, .dims = "_ | _ C _..."),
				       SLOT("scale", "T", T_FB, .dims = "C"),
				       SLOT("B", "T", T_FB, .dims = "C"),
				       SLOT("input_mean", "U", T_FB, .dims = "C"),
				       SLOT("input_var", "U", T_FB, .dims = "C"),
				       SLOT_END};
static const struct slot bn_14_out[] = {SLOT("Y", "T", T_FB), SLOT_OPT("running_mean", "U", T_FB),
					SLOT_OPT("running_var", "U", T_FB), SLOT_END};
static const struct slot bn_9_in[] = {SLOT("X", "T", T_FLOATS),	  SLOT("scale", "T", T_FLOATS),
				      SLOT("B", "T", T_FLOATS),	  SLOT("mean", "T", T_FLOATS),
				      SLOT("var", "T", T_FLOATS), SLOT_END};
static const struct slot bn_9_out[] = {SLOT("Y", "T", T_FLOATS),
				       SLOT_OPT("mean", "T", T_FLOATS),
				       SLOT_OPT("var", "T", T_FLOATS),
				       SLOT_OPT("saved_mean", "T", T_FLOATS),
				       SLOT_OPT("saved_var", "T", T_FLOATS),
				       SLOT_END};

#define EPSILON(type_)	FIELD(type_, epsilon, F_FLOAT, "1e-05", "keeps the root from zero")
#define MOMENTUM(type_) FIELD(type_, momentum, F_FLOAT, "0.9", "weight of the old running values")

static const struct field bn_attrs[] = {
	EPSILON(struct batch_norm),
	MOMENTUM(struct batch_norm),
	FIELD(struct batch_norm, training_mode, F_INT, "0", "1: by the statistics of X"),
	{0}};

struct bn_old {
	float epsilon, momentum;
	int64_t spatial, is_test;
	struct ints consumed_inputs;
};
static const struct field bn_9_attrs[] = {EPSILON(struct bn_old), MOMENTUM(struct bn_old), {0}};
static const struct field bn_7_attrs[] = {EPSILON(struct bn_old),
					  MOMENTUM(struct bn_old),
					  FIELD(struct bn_old, spatial, F_INT, "1",
						"0: statistics of each element, not each channel"),
					  {0}};
static const struct field bn_1_attrs[] = {
	EPSILON(struct bn_old),
	MOMENTUM(struct bn_old),
	FIELD(struct bn_old, spatial, F_INT, "1", "0: statistics of each element, not each channel"),
	FIELD(struct bn_old, is_test, F_INT, "0", "1: by the statistics given"),
	FIELD_IN("-5", struct bn_old, consumed_inputs, F_INTS, NULL, "no longer meaningful"),
	{0}};

/*
 * BatchNormalization with spatial=0: statistics, scale and bias have the shape of one batch element. No newer version has
 * this, so it becomes elementwise nodes: (X - mean) / sqrt(var + epsilon) * scale + B.
 */
static int upgrade_per_element(struct edit *e, float epsilon)
{
	const uint32_t *in = e->node->in;
	uint32_t x = in[0], scale = in[1], bias = in[2], mean = in[3], var = in[4];
	struct shape scalar = {0};
	struct tensor *eps =
		tensor_new(e->graph->arena, edit_dtype(e, 4) ? edit_dtype(e, 4) : DT_F32, &scalar);

	elem_set_f64(tensor_dtype(eps), eps->data, 0, (double)epsilon);
	uint32_t sum[2] = {var, graph_add_const(e->graph, "", eps)->id}, root[1], diff[2] = {x, mean};
	root[0] = edit_before(e, "Add", sum, 2, NULL);
	root[0] = edit_before(e, "Sqrt", root, 1, NULL);
	uint32_t quotient[2] = {edit_before(e, "Sub", diff, 2, NULL), root[0]};
	uint32_t product[2] = {edit_before(e, "Div", quotient, 2, NULL), scale};
	uint32_t last[2] = {edit_before(e, "Mul", product, 2, NULL), bias};
	edit_become(e, "Add");
	node_set_ins(e->graph, e->node, last, 2);
	e->node->nout = 1;
	return 0;
}

static int upgrade_batch_norm(struct edit *e)
{
	const struct bn_old *old = e->node->params;
	bool old_spatial = e->old->since < 9, train = false;

	/* a node with more than one output is in training mode, unless is_test says otherwise */
	for (uint32_t i = 1; i < e->node->nout; i++)
		train |= node_out(e->graph, e->node, i) != NULL;
	if (e->old->since < 7 && old->is_test)
		train = false;
	for (uint32_t i = train ? 3 : 1; i < e->node->nout; i++) {
		const struct value *v = node_out(e->graph, e->node, i);
		if (v && (v->nusers || v->is_output))
			return edit_fail(e, E_OP_UNSUPPORTED, "outputs Y, mean and var",
					 "saved_mean or saved_var");
	}
	if (old_spatial && !old->spatial) {
		if (train)
			return edit_fail(e, E_OP_UNSUPPORTED, "spatial=0 in inference", "training");
		return upgrade_per_element(e, old->epsilon);
	}
	struct batch_norm *now = edit_params(e);
	now->epsilon = old->epsilon;
	now->momentum = old->momentum;
	now->training_mode = train;
	if (e->node->nout > (train ? 3u : 1u))
		e->node->nout = train ? 3 : 1;
	return 0;
}

static int infer_batch_norm(struct infer *c)
{
	const struct batch_norm *p = infer_params(c);
	struct shape x = infer_shape(c, 0), m = infer_shape(c, 3);

	if (x.rank == 1 && m.rank == 1 && m.dim[0] >= 0 && m.dim[0] != 1)
		return infer_fail(c, E_SHAPE, 3, "[1], since X has rank 1",
				  fmt(c->diag, "[%" PRId64 "]", m.dim[0]));
	infer_set(c, 0, infer_dtype(c, 0), &x);
	if (!p->training_mode && (infer_out(c, 1) || infer_out(c, 2)))
		return infer_fail(c, E_OP_INPUTS, -1, "one output without training_mode", "more");
	infer_set(c, 1, infer_dtype(c, 3), &m);
	infer_set(c, 2, infer_dtype(c, 3), &m);
	return 0;
}

/* ---- InstanceNormalization, GroupNormalization ----------------------------------------------- */

static const struct slot in_in[] = {SLOT("input", "T", T_FB, .dims = "_ C _..."),
				    SLOT("scale", "T", T_FB, .dims = "C"),
				    SLOT("B", "T", T_FB, .dims = "C"), SLOT_END};
/*
 * in opset 18 scale and bias have one element for each group, in newer versions one for each channel; opset 18's are also read with
 * one for each channel, which exporters wrote before opset 21
 */
static const struct slot gn18_in[] = {SLOT("X", "T", T_FB, .dims = "_ C _..."),
				      SLOT("scale", "T", T_FB, .dims = "$num_groups"),
				      SLOT("bias", "T", T_FB, .dims = "$num_groups"), SLOT_END};
static const struct slot gn_in[] = {SLOT("X", "T", T_FB, .dims = "_ C _..."),
				    SLOT("scale", "T", T_FB, .dims = "$num_groups | C"),
				    SLOT("bias", "T", T_FB, .dims = "$num_groups | C"), SLOT_END};
static const struct slot in_out[] = {SLOT("output", "T", T_FB), SLOT_END};
static const struct field in_attrs[] = {EPSILON(struct epsilon), {0}};
struct in_1 {
	float epsilon;
	struct ints consumed_inputs;
};
static const struct field in_1_attrs[] = {EPSILON(struct in_1), CONSUMED(struct in_1), {0}};

static const struct field gn_attrs[] = {
	EPSILON(struct group_norm),
	FIELD_REQ(struct group_norm, num_groups, F_INT, "groups that the channels fall into"),
	FIELD(struct group_norm, stash_type, F_INT, "1", "type that is computed in"),
	{0}};

/* Refuses a scale or bias with an element for each group in a file whose version wants one for each channel. */
static int check_channels(const struct infer *c, uint32_t i)
{
	const struct group_norm *p = infer_params(c);
	const struct origin *o = c->node->origin;
	struct shape x = infer_shape(c, 0), s = infer_shape(c, i);

	if (!o || strcmp(o->op, "GroupNormalization") != 0 || o->since < 21 || x.rank < 2 ||
	    s.rank != 1 || x.dim[1] < 0 || s.dim[0] != p->num_groups || s.dim[0] == x.dim[1])
		return 0;
	return infer_fail(c, E_SHAPE, (int)i,
			  fmt(c->diag,
			      "[%" PRId64 "], one element for each channel (GroupNormalization-18 has one "
			      "for each group)",
			      x.dim[1]),
			  infer_shape_text(c, &s));
}

static int infer_group_norm(struct infer *c)
{
	const struct group_norm *p = infer_params(c);
	struct shape x = infer_shape(c, 0);

	if (p->num_groups < 1 || (x.rank > 1 && x.dim[1] >= 0 && x.dim[1] % p->num_groups))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_groups that divides the channels",
				  fmt(c->diag, "%" PRId64, p->num_groups));
	int rc = infer_float_attribute(c, "stash_type", p->stash_type, false);
	for (uint32_t i = 1; !rc && i < 3; i++)
		rc = check_channels(c, i);
	return rc ? rc : infer_same(c);
}

static const struct slot ms_gn_in[] = {SLOT("X", "T", T_FB, .dims = "_ _ _..."),
				       SLOT("gamma", "M", T_FB, .dims = "C"),
				       SLOT("beta", "M", T_FB, .dims = "C"), SLOT_END};
static const struct slot ms_gn_out[] = {SLOT("Y", "T", T_FB), SLOT_END};
static const struct field ms_gn_attrs[] = {
	EPSILON(struct ms_group_norm),
	FIELD_REQ(struct ms_group_norm, groups, F_INT, "groups that the channels fall into"),
	FIELD_REQ(struct ms_group_norm, activation, F_INT, "1: SiLU behind it"),
	FIELD(struct ms_group_norm, channels_last, F_INT, "1",
	      "whether channels are the last dimension"),
	{0}};

/* ---- LayerNormalization and its like --------------------------------------------------------- */

static const struct slot ln_in[] = {SLOT("X", "T", T_FB), SLOT("Scale", "T", T_FB),
				    SLOT_OPT("B", "T", T_FB), SLOT_END};
static const struct slot ln_out[] = {SLOT("Y", "T", T_FB),
				     SLOT_OPT("Mean", NULL, T_F32 | T_BF16 | T_F64),
				     SLOT_OPT("InvStdDev", NULL, T_F32 | T_BF16 | T_F64), SLOT_END};
static const struct slot rms_in[] = {SLOT("X", "T", T_FB), SLOT("scale", "V", T_FB), SLOT_END};
static const struct slot rms_out[] = {SLOT("Y", "V", T_FB), SLOT_END};
static const struct slot simplified_out[] = {SLOT("Y", "V", T_FB),
					     SLOT_OPT("inv_std_var", NULL, T_F32 | T_F64), SLOT_END};
static const struct field ln_attrs[] = {
	FIELD(struct layer_norm, axis, F_INT, "-1", "first of the dimensions that are normalized"),
	EPSILON(struct layer_norm),
	FIELD(struct layer_norm, stash_type, F_INT, "1", "type of the statistics"),
	{0}};

/*
 * Checks a scale or bias of rows that begin at the axis: it is broadcast to X, or has as many elements as a row, in whatever
 * shape.
 */
static int check_row_operand(const struct infer *c, uint32_t i, const struct shape *x, int axis)
{
	struct shape s = infer_shape(c, i);
	int64_t row = axis < 0 ? DIM_UNKNOWN : shape_span(x, axis, x->rank);

	if (shape_broadcasts_to(&s, x) || (row >= 0 && shape_count(&s) == row))
		return 0;
	return infer_fail(c, E_SHAPE, (int)i,
			  fmt(c->diag, "a shape that broadcasts to %s", infer_shape_text(c, x)),
			  infer_shape_text(c, &s));
}

static int infer_layer_norm(struct infer *c)
{
	const struct layer_norm *p = infer_params(c);
	struct shape x = infer_shape(c, 0), m = x;
	enum dtype t = infer_dtype(c, 0), stash = (enum dtype)p->stash_type;
	const struct vinfo *y = infer_out(c, 0);
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (!err)
		err = infer_float_attribute(c, "stash_type", p->stash_type, false);
	for (uint32_t i = 1; !err && i < c->node->nin; i++)
		err = check_row_operand(c, i, &x, axis);
	if (err)
		return err;
	for (int i = axis < 0 ? 0 : axis; i < m.rank; i++)
		m.dim[i] = 1;
	infer_set(c, 0, y && y->type.dtype ? (enum dtype)y->type.dtype : t, &x);
	infer_set(c, 1, stash, &m);
	infer_set(c, 2, stash, &m);
	return 0;
}

static const struct slot skip_in[] = {SLOT("input", "T", T_FB, .dims = "B S C | S C"),
				      SLOT("skip", "T", T_FB, .dims = "B? S C | S C"),
				      SLOT("gamma", "T", T_FB, .dims = "C"),
				      SLOT_OPT("beta", "T", T_FB, .dims = "C"),
				      SLOT_OPT("bias", "T", T_FB, .dims = "C"),
				      SLOT_END};
static const struct slot skip_simple_in[] = {SLOT("input", "T", T_FB, .dims = "B S C | S C"),
					     SLOT("skip", "T", T_FB, .dims = "B? S C | S C"),
					     SLOT("gamma", "T", T_FB, .dims = "C"),
					     SLOT_OPT("bias", "T", T_FB, .dims = "C"), SLOT_END};
static const struct slot skip_out[] = {SLOT("output", "T", T_FB),
				       SLOT_OPT("mean", NULL, T_F32 | T_F64),
				       SLOT_OPT("inv_std_var", NULL, T_F32 | T_F64),
				       SLOT_OPT("input_skip_bias_sum", "T", T_FB), SLOT_END};
static const struct field skip_attrs[] = {
	FIELD(struct epsilon, epsilon, F_FLOAT, "1e-12", "keeps the root from zero"), {0}};

static int infer_skip(struct infer *c)
{
	struct shape x = infer_shape(c, 0), m = x;

	if (m.rank > 0)
		m.dim[m.rank - 1] = 1;
	infer_set(c, 0, infer_dtype(c, 0), &x);
	infer_set(c, 1, DT_F32, &m);
	infer_set(c, 2, DT_F32, &m);
	infer_set(c, 3, infer_dtype(c, 0), &x);
	return 0;
}

static const struct slot embed_in[] = {
	SLOT("input_ids", "T1", T_I32, .dims = "B S"),
	SLOT_OPT("segment_ids", "T1", T_I32, .dims = "B S", .with = "segment_embedding"),
	SLOT("word_embedding", "T", T_FB, .dims = "_ C"),
	SLOT("position_embedding", "T", T_FB, .dims = "_ C"),
	SLOT_OPT("segment_embedding", "T", T_FB, .dims = "_ C"),
	SLOT("gamma", "T", T_FB, .dims = "C"),
	SLOT("beta", "T", T_FB, .dims = "C"),
	SLOT_OPT("mask", "T1", T_I32, .dims = "B S"),
	SLOT_OPT("position_ids", "T1", T_I32, .dims = "B? S"),
	SLOT_END};
static const struct slot embed_out[] = {SLOT("output", "T", T_FB),
					SLOT_OPT("mask_index", NULL, T_I32),
					SLOT_OPT("embedding_sum", "T", T_FB), SLOT_END};
static const struct field embed_attrs[] = {
	FIELD(struct embed_norm, epsilon, F_FLOAT, "1e-12", "keeps the root from zero"),
	FIELD(struct embed_norm, mask_index_type, F_INT, "0", "kind of mask_index"),
	{0}};

static int infer_embed(struct infer *c)
{
	struct shape ids = infer_shape(c, 0), w = infer_shape(c, 2);
	struct shape y = {.rank = 3, .dim = {DIM_UNKNOWN, DIM_UNKNOWN, DIM_UNKNOWN}}, m = {.rank = 1};

	if (ids.rank == 2) {
		y.dim[0] = ids.dim[0];
		y.dim[1] = ids.dim[1];
	}
	if (w.rank == 2)
		y.dim[2] = w.dim[1];
	m.dim[0] = y.dim[0];
	enum dtype t = infer_dtype(c, 2);
	infer_set(c, 0, t, &y);
	infer_set(c, 1, DT_I32, &m);
	infer_set(c, 2, t, &y);
	return 0;
}

/*
 * QEmbedLayerNormalization: embeddings from quantized tables. It becomes the LayerNormalization of the sum of table
 * rows. The rows are gathered before they are dequantized, so that no whole table is dequantized.
 */
static const struct slot qembed_in[] = {
	SLOT("input_ids", "T1", T_I32, .dims = "B S"),
	SLOT_OPT("segment_ids", "T1", T_I32, .dims = "B S", .with = "segment_embedding"),
	SLOT("word_embedding_quant", "T2", T_U8 | T_I8, .dims = "_ C"),
	SLOT("position_embedding_quant", "T2", T_U8 | T_I8, .dims = "_ C"),
	SLOT_OPT("segment_embedding", "T2", T_U8 | T_I8, .dims = "_ C",
		 .with = "segment_embedding_scale"),
	SLOT("gamma_quant", "T2", T_U8 | T_I8, .dims = "C"),
	SLOT("beta_quant", "T2", T_U8 | T_I8, .dims = "C"),
	SLOT_OPT("mask", "T1", T_I32, .dims = "B S"),
	SLOT("word_embedding_scale", "T", T_F32, .dims = "() | 1"),
	SLOT("position_embedding_scale", "T", T_F32, .dims = "() | 1"),
	SLOT_OPT("segment_embedding_scale", "T", T_F32, .dims = "() | 1",
		 .with = "segment_embedding_zero_point"),
	SLOT("gamma_scale", "T", T_F32, .dims = "() | 1"),
	SLOT("beta_scale", "T", T_F32, .dims = "() | 1"),
	SLOT("word_embedding_zero_point", "T2", T_U8 | T_I8, .dims = "() | 1"),
	SLOT("position_embedding_zero_point", "T2", T_U8 | T_I8, .dims = "() | 1"),
	SLOT_OPT("segment_embedding_zero_point", "T2", T_U8 | T_I8, .dims = "() | 1"),
	SLOT("gamma_zero_point", "T2", T_U8 | T_I8, .dims = "() | 1"),
	SLOT("beta_zero_point", "T2", T_U8 | T_I8, .dims = "() | 1"),
	SLOT_END};
static const struct slot qembed_out[] = {SLOT("layernorm_out", "T", T_F32),
					 SLOT_OPT("mask_index_out", "T1", T_I32), SLOT_END};
enum {
	QE_IDS,
	QE_SEGMENTS,
	QE_WORD,
	QE_POSITION,
	QE_SEGMENT,
	QE_GAMMA,
	QE_BETA,
	QE_MASK,
	QE_SCALES,
	QE_ZEROS = QE_SCALES + 5
};

/* Dequantizes v with scale and zero point number k, where 0 is word, 1 position, 2 segment, 3 gamma and 4 beta. */
static uint32_t qembed_dequantize(struct edit *e, uint32_t v, int k)
{
	const uint32_t *in = e->node->in;

	return edit_before(e, "DequantizeLinear",
			   (uint32_t[]){v, in[QE_SCALES + k], in[QE_ZEROS + k]}, 3, NULL);
}

static uint32_t qembed_rows(struct edit *e, uint32_t table, uint32_t ids, int k)
{
	return qembed_dequantize(e, edit_before(e, "Gather", (uint32_t[]){table, ids}, 2, NULL), k);
}

static uint32_t dim_of_ids(struct edit *e, int64_t k)
{
	struct shape_params *p;
	void *params;
	uint32_t v = edit_before(e, "Shape", &e->node->in[QE_IDS], 1, &params);

	p = params;
	p->start = k;
	p->end = k + 1;
	return v;
}

/* Input k with the shape of the ids, for Add would otherwise broadcast what does not fit, and a mask would be counted by itself. */
static uint32_t shaped_as_ids(struct edit *e, int k)
{
	uint32_t shape = edit_before(e, "Shape", &e->node->in[QE_IDS], 1, NULL);

	return edit_before(e, "Reshape", (uint32_t[]){e->node->in[k], shape}, 2, NULL);
}

/* Computes the second output if it is used: the number of ones in the mask of each sequence. */
static void qembed_mask(struct edit *e)
{
	uint32_t mask = e->node->nin > QE_MASK ? e->node->in[QE_MASK] : NO_VALUE;
	uint32_t one = edit_ints(e, (int64_t[]){1}, 1);
	const struct op *op = op_named("Identity");
	struct node *n;
	void *params;

	if (e->node->nout < 2)
		return;
	if (mask == NO_VALUE) { /* without a mask the output is 0 for each sequence */
		uint32_t column =
			edit_before(e, "Concat", (uint32_t[]){dim_of_ids(e, 0), one}, 2, &params);
		((struct concat_params *)params)->axis = 0;
		mask = edit_before(e, "Expand",
				   (uint32_t[]){edit_ints(e, (int64_t[]){0}, 1), column}, 2, NULL);
	} else {
		mask = shaped_as_ids(e, QE_MASK);
		mask = edit_before(e, "Cast", &mask, 1, &params);
		((struct cast *)params)->to = DT_I64;
	}
	mask = edit_before(e, "Equal", (uint32_t[]){mask, one}, 2, NULL);
	mask = edit_before(e, "Cast", &mask, 1, &params);
	((struct cast *)params)->to = DT_I32;
	mask = edit_before(e, "ReduceSum", (uint32_t[]){mask, one}, 2, &params);
	((struct reduce *)params)->keepdims = 0;
	if (e->node->out[1] != NO_VALUE) {
		n = graph_add_node(e->graph, op, NULL, &mask, 1, &e->node->out[1], 1, e->node->origin);
		n->type = op->name;
		n->version = op->since;
	}
	e->node->nout = 1;
}

static int infer_qembed(struct infer *c)
{
	struct shape y = SHAPE_UNKNOWN;
	int err = infer_embed(c);

	if (!err && infer_out(c, 0))
		y = infer_out(c, 0)->shape;
	infer_set(c, 0, DT_F32, &y);
	return err;
}

static int qembed_upgrade(struct edit *e)
{
	const struct epsilon *old = e->node->params;
	const uint32_t *in = e->node->in;
	uint32_t begin = edit_ints(e, (int64_t[]){0}, 1), length = dim_of_ids(e, 1), sum, rows,
		 norm[3];
	struct layer_norm *p;

	rows = edit_before(e, "Slice", (uint32_t[]){in[QE_POSITION], begin, length, begin}, 4, NULL);
	sum = edit_before(e, "Add",
			  (uint32_t[]){qembed_rows(e, in[QE_WORD], in[QE_IDS], 0),
				       qembed_dequantize(e, rows, 1)},
			  2, NULL);
	if (in[QE_SEGMENTS] != NO_VALUE)
		sum = edit_before(e, "Add",
				  (uint32_t[]){sum, qembed_rows(e, in[QE_SEGMENT],
								shaped_as_ids(e, QE_SEGMENTS), 2)},
				  2, NULL);
	norm[0] = sum;
	norm[1] = qembed_dequantize(e, in[QE_GAMMA], 3);
	norm[2] = qembed_dequantize(e, in[QE_BETA], 4);
	qembed_mask(e);
	node_set_ins(e->graph, e->node, norm, 3);
	p = edit_become(e, "LayerNormalization");
	p->epsilon = old->epsilon;
	return 0;
}

/* ---- LRN, MeanVarianceNormalization, LpNormalization ----------------------------------------- */

static const struct slot x_in[] = {SLOT("X", "T", T_FB), SLOT_END};
static const struct slot y_out[] = {SLOT("Y", "T", T_FB), SLOT_END};
static const struct field lrn_attrs[] = {
	FIELD_REQ(struct lrn, size, F_INT, "channels that are summed over"),
	FIELD(struct lrn, alpha, F_FLOAT, "0.0001", "factor of the sum"),
	FIELD(struct lrn, beta, F_FLOAT, "0.75", "exponent"),
	FIELD(struct lrn, bias, F_FLOAT, "1", "summand"),
	{0}};
static const struct field mvn_attrs[] = {
	FIELD(struct mvn, axes, F_INTS, "0,2,3", "dimensions that are normalized over"), {0}};
struct mvn_1 {
	struct ints axes;
	int64_t across_channels, normalize_variance;
};
static const struct field mvn_1_attrs[] = {
	FIELD(struct mvn_1, axes, F_INTS, NULL, "dimensions that are normalized over"),
	FIELD(struct mvn_1, across_channels, F_INT, "0", "whether over channels too"),
	FIELD(struct mvn_1, normalize_variance, F_INT, "1", "whether the variance becomes 1"),
	{0}};
static const struct field lp_attrs[] = {
	FIELD(struct lp_norm, axis, F_INT, "-1", "dimension that is normalized"),
	FIELD(struct lp_norm, p, F_INT, "2", "1 or 2: which norm"),
	{0}};

static int upgrade_mvn(struct edit *e)
{
	static const int64_t channel[] = {0, 2, 3}, all[] = {0, 1, 2, 3};
	const struct mvn_1 *old = e->node->params;
	struct mvn *now = edit_params(e);

	if (!old->normalize_variance)
		return edit_fail(e, E_OP_UNSUPPORTED, "normalize_variance=1", "0");
	if (old->axes.n > 0)
		now->axes = old->axes;
	else
		now->axes = old->across_channels ? (struct ints){all, 4} : (struct ints){channel, 3};
	return 0;
}

static int infer_mvn(struct infer *c)
{
	const struct mvn *p = infer_params(c);
	int axis, err = 0;

	for (int64_t i = 0; !err && i < p->axes.n; i++)
		err = infer_axis(c, 0, p->axes.v[i], &axis);
	return err ? err : infer_same(c);
}

static int infer_lrn(struct infer *c)
{
	const struct lrn *p = infer_params(c);
	struct shape x = infer_shape(c, 0);

	if (p->size < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "size: at least 1",
				  fmt(c->diag, "%" PRId64, p->size));
	if (x.rank >= 0 && x.rank < 2)
		return infer_fail(c, E_SHAPE, 0, "rank 2 and more", fmt(c->diag, "rank %d", x.rank));
	return infer_same(c);
}

static int infer_lp(struct infer *c)
{
	const struct lp_norm *p = infer_params(c);
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (!err && p->p != 1 && p->p != 2)
		err = infer_fail(c, E_OP_ATTRIBUTE, -1, "p: 1 or 2", fmt(c->diag, "%" PRId64, p->p));
	return err ? err : infer_same(c);
}

#define BN_OLD(since_, table)                                                                      \
	{                                                                                          \
		.name = "BatchNormalization", .since = (since_), .in = bn_9_in, .out = bn_9_out,   \
		.types = T_FLOATS, ATTRS(table, struct bn_old), .upgrade = upgrade_batch_norm      \
	}

#define LAYER_NORM(in_, out_)                                                                      \
	.in = (in_), .out = (out_), .types = T_FB, ATTRS(ln_attrs, struct layer_norm),             \
	.infer = infer_layer_norm, .flags = OP_OPTIONAL_OUT
#define SKIP_NORM(in_)                                                                             \
	.in = (in_), .out = skip_out, .types = T_FB, ATTRS(skip_attrs, struct epsilon),            \
	.infer = infer_skip, .flags = OP_OPTIONAL_OUT

/* ---- GatedRMSNorm ------------------------------------------------------------------------------ */

#define T_GATED (T_F32 | T_F16 | T_BF16)
static const struct slot gated_in[] = {SLOT("X", "T", T_GATED, .dims = "..."),
				       SLOT("scale", "T", T_GATED, .dims = "_"),
				       SLOT("gate", "T", T_GATED, .dims = "..."), SLOT_END};
/* The expansion takes the number of a choice as an exponent: gate^0 or gate^1 before the sigmoid of the gate. */
static const struct field gated_attrs[] = {EPSILON(struct gated_rms),
					   FIELD_ENUM(struct gated_rms, activation, "silu",
						      "sigmoid|silu|swish",
						      "what the gate goes through"),
					   {0}};

static int infer_gated_rms(struct infer *c)
{
	struct shape x = infer_shape(c, 0), scale = infer_shape(c, 1);
	int64_t last = x.rank > 0 ? x.dim[x.rank - 1] : DIM_UNKNOWN,
		n = scale.rank == 1 ? scale.dim[0] : DIM_UNKNOWN;

	if (x.rank == 0)
		return infer_fail(c, E_SHAPE, 0, "rank 1 or more", "a scalar");
	if (n == 0 || (n > 0 && last >= 0 && last % n))
		return infer_fail(c, E_SHAPE, 1, "a size that divides the last dimension of X",
				  fmt(c->diag, "%" PRId64 " for %" PRId64, n, last));
	infer_set(c, 0, infer_dtype(c, 0), &x);
	return 0;
}

static bool gated_rms_expands(const struct graph *g, const struct node *n)
{
	const struct value *x = node_in(g, n, 0), *scale = node_in(g, n, 1);

	return inputs_agree(g, n, 0, 2) && x->info.shape.rank > 0 && scale &&
	       scale->info.shape.rank == 1 && scale->info.shape.dim[0] > 0 &&
	       x->info.shape.dim[x->info.shape.rank - 1] > 0;
}

/* ---- SkipGroupNorm ------------------------------------------------------------------------------ */

static const struct slot skip_gn_in[] = {SLOT("X", "T", T_F32 | T_F16, .dims = "_ _ _ _"),
					 SLOT("gamma", "M", T_F32 | T_F16, .dims = "C"),
					 SLOT("beta", "M", T_F32 | T_F16, .dims = "C"),
					 SLOT("skip", "T", T_F32 | T_F16, .dims = "_ _ _ _ | _ _"),
					 SLOT_OPT("bias", "T", T_F32 | T_F16, .dims = "C"),
					 SLOT_END};
static const struct slot skip_gn_out[] = {SLOT("Y", "T", T_F32 | T_F16),
					  SLOT_OPT("S", "T", T_F32 | T_F16), SLOT_END};

/* skip has the shape of X, or an element for each channel of each image. */
static int infer_skip_group_norm(struct infer *c)
{
	const struct ms_group_norm *p = infer_params(c);
	struct shape x = infer_shape(c, 0), gamma = infer_shape(c, 1), skip = infer_shape(c, 3);
	int64_t channels = x.rank == 4 ? x.dim[p->channels_last ? 3 : 1] : DIM_UNKNOWN, same;
	int err =
		infer_unify(c, 1, channels, gamma.rank == 1 ? gamma.dim[0] : DIM_UNKNOWN, &channels);

	if (err)
		return err;
	if (p->groups < 1 || (channels >= 0 && channels % p->groups))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "groups that divides the channels",
				  fmt(c->diag, "%" PRId64, p->groups));
	for (int i = 0; i < skip.rank && x.rank == 4 && !err; i++) {
		int64_t want = skip.rank == 4 ? x.dim[i] : i ? channels : x.dim[0];
		bool pixels = skip.rank == 4 && i && i != (p->channels_last ? 3 : 1);
		if (!pixels || skip.dim[i] != 1)
			err = infer_unify(c, 3, want, skip.dim[i], &same);
	}
	infer_set(c, 0, infer_dtype(c, 0), &x);
	infer_set(c, 1, infer_dtype(c, 0), &x);
	return err;
}

static const char *skip_gn_text(const struct graph *g, const struct node *n)
{
	bool last = ((const struct ms_group_norm *)n->params)->channels_last;
	bool flat = node_in(g, n, 3)->info.shape.rank == 2;
	const char *skip = !flat  ? "skip"
			   : last ? "Unsqueeze(skip, [1, 2])"
				  : "Unsqueeze(skip, [2, 3])";
	const char *bias = last ? "bias?" : "Unsqueeze(bias, [1, 2])";

	return arena_printf(g->arena,
			    "S = Add(Add(X, %s), %s); "
			    "Y = com.microsoft::GroupNorm(S, gamma, beta) {groups=$groups, "
			    "activation=$activation, channels_last=$channels_last, epsilon=$epsilon}",
			    skip, node_in(g, n, 4) ? bias : "bias?");
}

const struct op ops_norm[] = {
	{.name = "BatchNormalization",
	 .since = 15,
	 .in = bn_in,
	 .out = bn_out,
	 .types = T_FB,
	 ATTRS(bn_attrs, struct batch_norm),
	 .infer = infer_batch_norm,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "BatchNormalization", .since = 14, .in = bn_14_in, .out = bn_14_out, .types = T_FB},
	BN_OLD(9, bn_9_attrs),
	BN_OLD(7, bn_7_attrs),
	BN_OLD(6, bn_1_attrs),
	BN_OLD(1, bn_1_attrs),
	{.name = "InstanceNormalization",
	 .since = 22,
	 .reduced = REDUCED_COMPUTES,
	 .in = in_in,
	 .out = in_out,
	 .types = T_FB,
	 ATTRS(in_attrs, struct epsilon),
	 .infer = infer_same},
	OLD("InstanceNormalization", 6, T_FLOATS),
	{.name = "InstanceNormalization",
	 .since = 1,
	 .in = in_in,
	 .out = in_out,
	 .types = T_FLOATS,
	 ATTRS(in_1_attrs, struct in_1),
	 .upgrade = upgrade_prefix},
	{.name = "GroupNormalization",
	 .since = 21,
	 .variant = NORM_GROUPED,
	 .reduced = REDUCED_COMPUTES,
	 .in = gn_in,
	 .out = in_out,
	 .types = T_FB,
	 ATTRS(gn_attrs, struct group_norm),
	 .infer = infer_group_norm},
	{.name = "GroupNormalization", .since = 18, .in = gn18_in, .types = T_FB, .flags = OP_READ_AS_NEWEST},
	{.name = "LayerNormalization",
	 .since = 17,
	 .reduced = REDUCED_COMPUTES,
	 LAYER_NORM(ln_in, ln_out)},
	/* ONNX Runtime defined the next two operators in ONNX's domain before ONNX had LayerNormalization */
	OLD("LayerNormalization", 1, T_FB),
	{.name = "SimplifiedLayerNormalization",
	 .since = 1,
	 .variant = NORM_RMS,
	 .reduced = REDUCED_COMPUTES,
	 .reduced_in = 1,
	 LAYER_NORM(rms_in, simplified_out)},
	{.name = "RMSNormalization",
	 .since = 23,
	 .variant = NORM_RMS,
	 .reduced = REDUCED_COMPUTES,
	 .reduced_in = 1,
	 .in = rms_in,
	 .out = rms_out,
	 .types = T_FB,
	 ATTRS(ln_attrs, struct layer_norm),
	 .infer = infer_layer_norm},
	{.name = "LRN",
	 .since = 13,
	 .in = x_in,
	 .out = y_out,
	 .types = T_FB,
	 ATTRS(lrn_attrs, struct lrn),
	 .infer = infer_lrn},
	OLD("LRN", 1, T_FLOATS),
	{.name = "MeanVarianceNormalization",
	 .since = 13,
	 .in = x_in,
	 .out = y_out,
	 .types = T_FB,
	 ATTRS(mvn_attrs, struct mvn),
	 .infer = infer_mvn},
	OLD("MeanVarianceNormalization", 9, T_FLOATS),
	{.name = "MeanVarianceNormalization",
	 .since = 1,
	 .in = x_in,
	 .out = y_out,
	 .types = T_FLOATS,
	 ATTRS(mvn_1_attrs, struct mvn_1),
	 .upgrade = upgrade_mvn},
	{.name = "LpNormalization",
	 .since = 22,
	 .in = x_in,
	 .out = y_out,
	 .types = T_FB,
	 ATTRS(lp_attrs, struct lp_norm),
	 .infer = infer_lp},
	OLD("LpNormalization", 1, T_FLOATS),
	{.name = "LayerNormalization", MICROSOFT, LAYER_NORM(ln_in, ln_out)},
	{.name = "SimplifiedLayerNormalization",
	 MICROSOFT,
	 .variant = NORM_RMS,
	 LAYER_NORM(rms_in, simplified_out)},
	{.name = "SkipLayerNormalization", MICROSOFT, .reduced = REDUCED_COMPUTES, SKIP_NORM(skip_in)},
	{.name = "SkipSimplifiedLayerNormalization",
	 MICROSOFT,
	 .variant = NORM_RMS,
	 .reduced = REDUCED_COMPUTES,
	 SKIP_NORM(skip_simple_in)},
	{.name = "QEmbedLayerNormalization",
	 MICROSOFT,
	 .in = qembed_in,
	 .out = qembed_out,
	 ATTRS(skip_attrs, struct epsilon),
	 .infer = infer_qembed,
	 .flags = OP_OPTIONAL_OUT,
	 .upgrade = qembed_upgrade},
	{.name = "EmbedLayerNormalization",
	 MICROSOFT,
	 .in = embed_in,
	 .out = embed_out,
	 ATTRS(embed_attrs, struct embed_norm),
	 .infer = infer_embed,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "GatedRMSNorm",
	 MICROSOFT,
	 .in = gated_in,
	 .out = y_out,
	 .types = T_GATED,
	 ATTRS(gated_attrs, struct gated_rms),
	 .infer = infer_gated_rms,
	 .expand_when = gated_rms_expands,
	 .expand = "rows = Reshape(Cast(X) {to=1}, Concat([-1], Shape(scale)) {axis=0}); "
		   "n = RMSNormalization(rows, Cast(scale) {to=1}) {axis=-1, epsilon=$epsilon}; "
		   "g = Cast(gate) {to=1}; "
		   "a = Mul(Pow(g, Min($activation, 1)), Sigmoid(g)); "
		   "Y = CastLike(Mul(Reshape(n, Shape(X)), a), X)"},
	{.name = "GroupNorm",
	 MICROSOFT,
	 .in = ms_gn_in,
	 .out = ms_gn_out,
	 .types = T_FB,
	 ATTRS(ms_gn_attrs, struct ms_group_norm),
	 .infer = infer_same},
	{.name = "SkipGroupNorm",
	 MICROSOFT,
	 .in = skip_gn_in,
	 .out = skip_gn_out,
	 ATTRS(ms_gn_attrs, struct ms_group_norm),
	 .infer = infer_skip_group_norm,
	 .expand_as = skip_gn_text},
	{0}};
