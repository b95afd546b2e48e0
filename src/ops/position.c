/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft's operators that bring positions into attention: biases by distance, and Gemma's rotation. */
#include "ops/cast.h"
#include "ops/gather.h"
#include "ops/infer_util.h"
#include "ops/upgrade.h"

#include <inttypes.h>
#include <math.h>

#define NF (T_F32 | T_F16)

/* ---- RelativePositionBias ------------------------------------------------------------------------- */

struct relative_bias {
	int64_t max_distance, is_bidirectional;
};
enum { BIAS_TABLE, BIAS_QUERIES, BIAS_KEYS };
enum { MAX_DISTANCE = 1 << 20 };

static int bias_infer(struct infer *c)
{
	const struct relative_bias *p = infer_params(c);
	struct shape table = infer_shape(c, BIAS_TABLE), n = SHAPE_UNKNOWN, keys = SHAPE_UNKNOWN;
	int64_t heads = table.rank == 2 ? table.dim[1] : DIM_UNKNOWN,
		buckets = table.rank == 2 ? table.dim[0] : DIM_UNKNOWN;

	if (p->max_distance < 1 || p->max_distance > MAX_DISTANCE)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "max_distance from 1 to %d", MAX_DISTANCE),
				  fmt(c->diag, "%" PRId64, p->max_distance));
	if (buckets >= 0 && buckets < (p->is_bidirectional ? 4 : 2))
		return infer_fail(c, E_SHAPE, BIAS_TABLE,
				  p->is_bidirectional ? "4 buckets or more" : "2 buckets or more",
				  infer_shape_text(c, &table));
	const struct tensor *q = infer_value(c, BIAS_QUERIES), *k = infer_value(c, BIAS_KEYS);
	n.rank = keys.rank = 1;
	n.dim[0] = q && tensor_count(q) == 1 ? elem_i64(DT_I64, q->data, 0) : DIM_UNKNOWN;
	keys.dim[0] = k && tensor_count(k) == 1 ? elem_i64(DT_I64, k->data, 0) : DIM_UNKNOWN;
	if ((q && n.dim[0] < 0) || (k && keys.dim[0] < 0))
		return infer_fail(c, E_VALUE, q && n.dim[0] < 0 ? BIAS_QUERIES : BIAS_KEYS,
				  "a length of 0 or more", NULL);
	struct shape y = shape_of(4, (int64_t[]){1, heads, n.dim[0], keys.dim[0]});
	infer_set(c, 0, infer_dtype(c, BIAS_TABLE), &y);
	return 0;
}

/*
 * The bucket of each distance from 0 to max_distance, of `buckets` for one direction: half of them are for one distance each, the
 * others for ever more distances, in float as T5 has it.
 */
static struct tensor *bucket_table(struct arena *a, int64_t buckets, int64_t max_distance)
{
	struct shape s = shape_of(1, (int64_t[]){max_distance + 1});
	struct tensor *t = tensor_new(a, DT_I64, &s);
	int64_t *of = t->data, exact = buckets / 2;

	for (int64_t d = 0; d <= max_distance; d++) {
		of[d] = d;
		if (d < exact)
			continue;
		float share =
			logf((float)d / (float)exact) / logf((float)max_distance / (float)exact);
		int64_t at = share < (float)buckets
				     ? exact + (int64_t)(share * (float)(buckets - exact))
				     : buckets - 1;
		of[d] = at < buckets - 1 && at >= 0 ? at : buckets - 1;
	}
	return t;
}

static uint32_t scalar(struct edit *e, int64_t v)
{
	return graph_add_const(e->graph, "", tensor_i64(e->graph->arena, 0, &v, 1))->id;
}

static uint32_t unary(struct edit *e, const char *op, uint32_t x)
{
	return edit_before(e, op, &x, 1, NULL);
}

static uint32_t binary(struct edit *e, const char *op, uint32_t a, uint32_t b)
{
	return edit_before(e, op, (uint32_t[]){a, b}, 2, NULL);
}

/* Positions 0 to n - 1, as a dimension before or behind one of size 1. */
static uint32_t positions(struct edit *e, uint32_t n, int64_t one_at)
{
	uint32_t length = unary(e, "Squeeze", n);
	uint32_t range =
		edit_before(e, "Range", (uint32_t[]){scalar(e, 0), length, scalar(e, 1)}, 3, NULL);

	return binary(e, "Unsqueeze", range, edit_ints(e, &one_at, 1));
}

/* The table lies in memory as [heads, buckets], although its dimensions are said to be [buckets, heads]. */
static int bias_upgrade(struct edit *e)
{
	const struct relative_bias *p = e->node->params;
	const struct value *table = node_in(e->graph, e->node, BIAS_TABLE);
	const struct shape *s = &table->info.shape;
	void *params;

	if (s->rank != 2 || s->dim[0] < 2 || p->max_distance < 1 || p->max_distance > MAX_DISTANCE)
		return edit_fail(e, E_OP_UNSUPPORTED,
				 "a bias_table of known dimensions with 2 buckets or more", NULL);
	int64_t buckets = p->is_bidirectional ? s->dim[0] / 2 : s->dim[0];
	uint32_t q = positions(e, e->node->in[BIAS_QUERIES], 1),
		 k = positions(e, e->node->in[BIAS_KEYS], 0), behind = binary(e, "Sub", q, k),
		 far = scalar(e, p->max_distance), zero = scalar(e, 0);
	uint32_t list = graph_add_const(e->graph, "",
					bucket_table(e->graph->arena, buckets, p->max_distance))
				->id;
	uint32_t distance =
		p->is_bidirectional ? unary(e, "Abs", behind) : binary(e, "Max", behind, zero);
	uint32_t bucket = binary(e, "Gather", list, binary(e, "Min", distance, far));
	if (p->is_bidirectional) { /* keys that come later have the second half of the buckets */
		uint32_t later = binary(e, "Less", behind, zero);
		later = edit_before(e, "Cast", &later, 1, &params);
		((struct cast *)params)->to = DT_I64;
		bucket = binary(e, "Add", bucket, binary(e, "Mul", later, scalar(e, buckets)));
	}
	uint32_t rows = binary(e, "Reshape", e->node->in[BIAS_TABLE],
			       edit_ints(e, (int64_t[]){s->dim[1], s->dim[0]}, 2));
	uint32_t of_heads = edit_before(e, "Gather", (uint32_t[]){rows, bucket}, 2, &params);
	((struct gather_params *)params)->axis = 1;
	uint32_t last[2] = {of_heads, edit_ints(e, (int64_t[]){0}, 1)};
	edit_become(e, "Unsqueeze");
	node_set_ins(e->graph, e->node, last, 2);
	return 0;
}

/* ---- GatedRelativePositionBias --------------------------------------------------------------------- */

struct gated_bias {
	int64_t num_heads;
};
enum {
	GATED_QUERY,
	GATED_BIAS,
	GATED_POSITION,
	GATED_WEIGHT,
	GATED_WEIGHT_BIAS,
	GATED_ECO,
	GATED_OFFSET
};

static int gated_infer(struct infer *c)
{
	const struct gated_bias *p = infer_params(c);
	struct shape q = infer_shape(c, GATED_QUERY), w = infer_shape(c, GATED_WEIGHT),
		     position = infer_shape(c, GATED_POSITION), at = infer_shape(c, GATED_OFFSET);
	bool packed = infer_in(c, GATED_OFFSET) != NULL;
	int64_t width = q.rank > 0 ? q.dim[q.rank - 1] : DIM_UNKNOWN, same;

	if (q.rank >= 0 && q.rank != (packed ? 2 : 3))
		return infer_fail(c, E_SHAPE, GATED_QUERY, packed ? "rank 2" : "rank 3",
				  infer_shape_text(c, &q));
	if (p->num_heads < 1 || (width >= 0 && width % p->num_heads))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "num_heads that divides the query's last dimension",
				  fmt(c->diag, "%" PRId64, p->num_heads));
	if (w.rank == 2 && w.dim[1] >= 0 && (!w.dim[1] || w.dim[1] % 2))
		return infer_fail(c, E_SHAPE, GATED_WEIGHT, "columns for two gates",
				  infer_shape_text(c, &w));
	int err = w.rank == 2 && width >= 0
			  ? infer_unify(c, GATED_WEIGHT, width / p->num_heads, w.dim[0], &same)
			  : 0;
	const struct shape *lead = packed ? &at : &q;
	int64_t batch = lead->rank > 1 ? lead->dim[0] : DIM_UNKNOWN,
		length = lead->rank > 1 ? lead->dim[1] : DIM_UNKNOWN;
	if (!err && position.rank == 4)
		err = infer_unify(c, GATED_POSITION, length, position.dim[2], &length);
	struct shape y = shape_of(4, (int64_t[]){batch, p->num_heads, length, length});
	infer_set(c, 0, infer_dtype(c, GATED_QUERY), &y);
	return err;
}

static const char *gated_text(const struct graph *g, const struct node *n)
{
	return arena_printf(g->arena,
			    "%s; q = Reshape(Add(rows, query_bias), [0, 0, %" PRId64 ", -1]); "
			    "gates = Add(MatMul(Transpose(q) {perm=[0,2,1,3]}, weight), bias); "
			    "sums = ReduceSum(Reshape(gates, [0, 0, 0, 2, -1]), [-1]) {keepdims=0}; "
			    "u, r = Split(Sigmoid(sums), [1, 1]) {axis=-1}; "
			    "by = Add(Mul(u, Sub(Mul(r, eco_a), 1)), 2); output = Mul(by, rel_pos)",
			    node_in(g, n, GATED_OFFSET)
				    ? "rows = com.microsoft::RestorePadding(query_layer, token_offset)"
				    : "rows = query_layer",
			    ((const struct gated_bias *)n->params)->num_heads);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

static const struct slot bias_in[] = {SLOT("bias_table", "T", NF, .dims = "_ _"),
				      SLOT("query_length", "U", T_I64, .dims = "() | 1"),
				      SLOT("key_length", "U", T_I64, .dims = "() | 1"), SLOT_END};
static const struct slot output_out[] = {SLOT("output", "T", NF), SLOT_END};
static const struct field bias_attrs[] = {
	FIELD_REQ(struct relative_bias, max_distance, F_INT, "from here on all share the last bucket"),
	FIELD(struct relative_bias, is_bidirectional, F_INT, "0", "1: later keys have buckets, too"),
	{0}};
static const struct slot gated_in[] = {SLOT("query_layer", "T", NF),
				       SLOT("query_bias", "T", NF, .dims = "_"),
				       SLOT("rel_pos", "T", NF, .dims = "1 $num_heads _ _"),
				       SLOT("weight", "T", NF, .dims = "_ D"),
				       SLOT("bias", "T", NF, .dims = "D"),
				       SLOT("eco_a", "T", NF, .dims = "1 $num_heads 1 1"),
				       SLOT_OPT("token_offset", NULL, T_I32, .dims = "_ _"),
				       SLOT_END};
static const struct field gated_attrs[] = {
	FIELD_REQ(struct gated_bias, num_heads, F_INT, "heads of the query"), {0}};
static const struct slot gemma_in[] = {
	SLOT("emb", "U", T_F32, .dims = "B S D"),     SLOT("q", "T", T_F16, .dims = "B H S D"),
	SLOT("q_rot", "T", T_F16, .dims = "B H S D"), SLOT("k", "T", T_F16, .dims = "B K S D"),
	SLOT("k_rot", "T", T_F16, .dims = "B K S D"), SLOT_END};
static const struct slot gemma_out[] = {SLOT("output1", "T", T_F16), SLOT("output2", "T", T_F16),
					SLOT_END};

const struct op ops_position[] = {
	{.name = "RelativePositionBias",
	 MICROSOFT,
	 .in = bias_in,
	 .out = output_out,
	 ATTRS(bias_attrs, struct relative_bias),
	 .infer = bias_infer,
	 .upgrade = bias_upgrade},
	{.name = "GatedRelativePositionBias",
	 MICROSOFT,
	 .in = gated_in,
	 .out = output_out,
	 ATTRS(gated_attrs, struct gated_bias),
	 .infer = gated_infer,
	 .expand_as = gated_text},
	{.name = "GemmaRotaryEmbedding",
	 MICROSOFT,
	 .in = gemma_in,
	 .out = gemma_out,
	 .expand = "s = Unsqueeze(CastLike(Sin(emb), q), [1]); c = Unsqueeze(CastLike(Cos(emb), q), [1]); "
		   "output1 = Add(Mul(q, c), Mul(q_rot, s)); output2 = Add(Mul(k, c), Mul(k_rot, s))"},
	{0}};
