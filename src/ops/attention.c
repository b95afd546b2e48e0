/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/attention.h"

#include "ops/delta_net.h"
#include "ops/infer_util.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int64_t add_dims(int64_t a, int64_t b)
{
	int64_t r;

	if (a == 0)
		return b;
	if (b == 0)
		return a;
	return a < 0 || b < 0 || __builtin_add_overflow(a, b, &r) ? DIM_UNKNOWN : r;
}

static int64_t div_dim(int64_t a, int64_t b)
{
	return a < 0 || b < 1 ? DIM_UNKNOWN : a / b;
}

static struct shape shape_of_4(int64_t a, int64_t b, int64_t c, int64_t d)
{
	return shape_of(4, (int64_t[]){a, b, c, d});
}

/* ---- Attention -------------------------------------------------------------------------------- */

/* Dimensions of a query, key or value: batch, number of heads, sequence length, size of one head. */
struct heads {
	int64_t batch, n, length, size;
};

/* Reads the dimensions from a shape of rank 4, or of rank 3 with n heads side by side; false if the rank is unknown. */
static bool heads_of(const struct shape *s, int64_t n, struct heads *h)
{
	if (s->rank == 4) {
		*h = (struct heads){s->dim[0], s->dim[1], s->dim[2], s->dim[3]};
		return true;
	}
	*h = (struct heads){DIM_UNKNOWN, n, DIM_UNKNOWN, DIM_UNKNOWN};
	if (s->rank == 3)
		*h = (struct heads){s->dim[0], n, s->dim[1], div_dim(s->dim[2], n)};
	return s->rank == 3;
}

/*
 * Checks input i, in which `heads` heads lie side by side if its rank is 3. Heads without elements are refused, since a number of
 * heads that no size bounds would keep the kernels busy for ever.
 */
static int check_merged_heads(const struct infer *c, uint32_t i, int64_t heads, const char *attribute)
{
	struct shape s = infer_shape(c, i);

	if (s.rank == 3 && heads < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "%s for an input of rank 3", attribute), "none");
	if (s.rank == 3 && s.dim[2] == 0)
		return infer_fail_shape(c, (int)i, "heads of at least one element", &s);
	return 0;
}

static int check_attention_heads(const struct infer *c, int64_t heads, int64_t kv_heads)
{
	int err = check_merged_heads(c, 0, heads, "q_num_heads");

	for (uint32_t i = 1; !err && i < 3; i++)
		err = check_merged_heads(c, i, kv_heads, "kv_num_heads");
	return err;
}

/* Checks input i, which is added to scores of this shape, or hides some of them. */
static int check_mask(const struct infer *c, uint32_t i, const struct shape *score)
{
	struct shape s = infer_shape(c, i);

	return shape_broadcasts_to(&s, score)
		       ? 0
		       : infer_fail_shape(c, (int)i,
					  fmt(c->diag, "a shape that broadcasts to %s",
					      infer_shape_text(c, score)),
					  &s);
}

static int attention_infer(struct infer *c)
{
	const struct attention *p = infer_params(c);
	struct shape q = infer_shape(c, ATT_Q), k = infer_shape(c, ATT_K),
		     v = infer_shape(c, ATT_V), y;
	struct shape past = infer_shape(c, ATT_PAST_K), mask = infer_shape(c, ATT_MASK);
	struct heads hq, hk, hv;
	int64_t total, n;
	int rc = check_attention_heads(c, p->q_num_heads, p->kv_num_heads);

	rc = rc ? rc : infer_float_attribute(c, "softmax_precision", p->softmax_precision, true);
	if (rc)
		return rc;
	bool known = heads_of(&q, p->q_num_heads, &hq);
	heads_of(&k, p->kv_num_heads, &hk);
	heads_of(&v, p->kv_num_heads, &hv);
	if (past.rank == 4 && (rc = infer_unify(c, ATT_PAST_K, hk.n, past.dim[1], &n)))
		return rc;
	if (hq.n >= 0 && hk.n >= 0 && (hk.n == 0 || hq.n % hk.n))
		return infer_fail(c, E_SHAPE, ATT_K, fmt(c->diag, "heads that divide %" PRId64, hq.n),
				  fmt(c->diag, "%" PRId64, hk.n));
	total = hk.length;
	if (infer_in(c, ATT_PAST_K))
		total = past.rank == 4 ? add_dims(hk.length, past.dim[2]) : DIM_UNKNOWN;
	struct shape score = shape_of_4(hq.batch, hq.n, hq.length, total);
	/* a mask that is shorter than the number of keys hides the keys beyond the mask's end */
	if (mask.rank > 0 && mask.dim[mask.rank - 1] < total)
		mask.dim[mask.rank - 1] = total;
	if (!shape_broadcasts_to(&mask, &score))
		return infer_fail_shape(
			c, ATT_MASK,
			fmt(c->diag, "a shape that broadcasts to %s", infer_shape_text(c, &score)),
			&mask);
	if (!known)
		y = SHAPE_UNKNOWN;
	else if (q.rank == 4)
		y = shape_of_4(hq.batch, hq.n, hq.length, hv.size);
	else
		y = shape_of(3, (int64_t[]){hq.batch, hq.length, known_product(hq.n, hv.size)});
	infer_set(c, 0, infer_dtype(c, ATT_Q), &y);
	y = shape_of_4(hq.batch, hk.n, total, hk.size);
	infer_set(c, 1, infer_dtype(c, ATT_K), &y);
	y = shape_of_4(hq.batch, hv.n, total, hv.size);
	infer_set(c, 2, infer_dtype(c, ATT_V), &y);
	infer_set(c, 3, infer_dtype(c, ATT_Q), &score);
	return 0;
}

static int64_t attention_macs(const struct infer *c)
{
	const struct attention *p = infer_params(c);
	struct shape q = infer_shape(c, ATT_Q), k = infer_shape(c, ATT_K), v = infer_shape(c, ATT_V);
	struct shape past = infer_shape(c, ATT_PAST_K);
	struct heads hq, hk, hv;

	if (!heads_of(&q, p->q_num_heads, &hq) || !heads_of(&k, p->kv_num_heads, &hk) ||
	    !heads_of(&v, p->kv_num_heads, &hv))
		return 0;
	int64_t keys = past.rank == 4 ? add_dims(hk.length, past.dim[2]) : hk.length;
	int64_t n = known_product(
		known_product(known_product(hq.batch, hq.n), known_product(hq.length, keys)),
		add_dims(hq.size, hv.size));
	return n < 0 ? 0 : n;
}

/* ---- FlexAttention ---------------------------------------------------------------------------- */

static int flex_infer(struct infer *c)
{
	const struct flex_attention *p = infer_params(c);
	struct shape q = infer_shape(c, 0), k = infer_shape(c, 1), v = infer_shape(c, 2), y;
	enum dtype t = infer_dtype(c, 0);
	int rc = infer_float_attribute(c, "softmax_precision", p->softmax_precision, true);

	if (rc)
		return rc;
	if (q.rank == 4 && k.rank == 4 && q.dim[1] >= 0 && k.dim[1] >= 0 &&
	    (k.dim[1] == 0 || q.dim[1] % k.dim[1]))
		return infer_fail_shape(c, 1, fmt(c->diag, "heads that divide %" PRId64, q.dim[1]),
					&k);
	struct vinfo score = {.type = type_tensor(t == DT_F64 ? DT_F64 : DT_F32),
			      .shape = SHAPE_UNKNOWN},
		     out;
	if (p->softmax_precision)
		score.type = type_tensor((enum dtype)p->softmax_precision);
	if (q.rank == 4 && k.rank == 4)
		score.shape = shape_of_4(q.dim[0], q.dim[1], q.dim[2], k.dim[2]);
	const int body[2] = {p->score_mod, p->prob_mod};
	for (int i = 0; i < 2; i++) {
		if (body[i] < 0)
			continue;
		const struct graph *g =
			(uint32_t)body[i] < c->node->nsub ? c->node->sub[body[i]] : NULL;
		if (!g || g->nin != 1 || g->nout != 1)
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  "bodies of one input and one output", NULL);
		rc = c->body(c, (uint32_t)body[i], &score, &out);
		if (rc)
			return rc;
		if (shape_known(&out.shape) && shape_known(&score.shape) &&
		    !shape_equal(&out.shape, &score.shape))
			return infer_fail(c, E_SHAPE, -1, infer_shape_text(c, &score.shape),
					  infer_shape_text(c, &out.shape));
	}
	y = q;
	if (q.rank == 4)
		y.dim[3] = v.rank == 4 ? v.dim[3] : DIM_UNKNOWN;
	infer_set(c, 0, t, &y);
	return 0;
}

static int64_t flex_macs(const struct infer *c)
{
	struct shape q = infer_shape(c, 0), k = infer_shape(c, 1), v = infer_shape(c, 2);
	int64_t n;

	if (q.rank != 4 || k.rank != 4 || v.rank != 4)
		return 0;
	n = known_product(known_product(shape_span(&q, 0, 3), k.dim[2]), add_dims(q.dim[3], v.dim[3]));
	return n < 0 ? 0 : n;
}

/* ---- LinearAttention -------------------------------------------------------------------------- */

static int check_linear_attributes(const struct infer *c)
{
	const struct linear_attention *p = infer_params(c);
	bool microsoft = c->node->op->variant == LINEAR_MICROSOFT;
	int64_t hk = p->kv_num_heads, hq = p->q_num_heads;

	if (hk < 1 || hq < 1 || (hq % hk && !(microsoft && hk % hq == 0)))
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			microsoft ? "q_num_heads and kv_num_heads of which one is a multiple of the other"
				  : "q_num_heads a multiple of kv_num_heads",
			fmt(c->diag, "%" PRId64 " and %" PRId64, hq, hk));
	if (p->state_window < 0 || p->state_window > MAX_STATE_WINDOW)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "state_window from 0 to %d", MAX_STATE_WINDOW),
				  fmt(c->diag, "%" PRId64, p->state_window));
	return check_attention_heads(c, hq, hk);
}

static int linear_infer(struct infer *c)
{
	const struct linear_attention *p = infer_params(c);
	struct shape q = infer_shape(c, LIN_Q), v = infer_shape(c, LIN_V), y = q,
		     past = infer_shape(c, LIN_PAST);
	bool gated = p->update_rule == RULE_GATED || p->update_rule == RULE_GATED_DELTA;
	bool delta = p->update_rule == RULE_DELTA || p->update_rule == RULE_GATED_DELTA;
	int64_t hk = p->kv_num_heads, hq = p->q_num_heads, window = p->state_window;
	int err = check_linear_attributes(c);

	if (err)
		return err;
	if (gated != (infer_in(c, LIN_DECAY) != NULL) || delta != (infer_in(c, LIN_BETA) != NULL))
		return infer_fail(c, E_OP_INPUTS, -1, "decay and beta as update_rule has them", NULL);
	if (past.rank >= 0 && past.rank != (window ? 5 : 4))
		return infer_fail_shape(c, LIN_PAST,
					window ? "rank 5, with a state for each position of state_window"
					       : "rank 4, without state_window",
					&past);
	struct shape state = shape_of_4(q.rank == 3 ? q.dim[0] : DIM_UNKNOWN, hk,
					q.rank == 3 ? div_dim(q.dim[2], hq) : DIM_UNKNOWN,
					v.rank == 3 ? div_dim(v.dim[2], hk) : DIM_UNKNOWN);
	if (y.rank == 3)
		y.dim[2] = known_product(state.dim[3], hq > hk ? hq : hk);
	if (window)
		state = shape_of(5, (int64_t[]){window, state.dim[0], hk, state.dim[2], state.dim[3]});
	infer_set(c, 0, infer_dtype(c, LIN_Q), &y);
	infer_set(c, 1, infer_in(c, LIN_PAST) ? infer_dtype(c, LIN_PAST) : infer_dtype(c, LIN_Q),
		  &state);
	return 0;
}

static int64_t linear_macs(const struct infer *c)
{
	const struct linear_attention *p = infer_params(c);
	struct shape q = infer_shape(c, LIN_Q), v = infer_shape(c, LIN_V);
	int64_t n;

	if (q.rank != 3 || v.rank != 3)
		return 0;
	n = known_product(known_product(shape_count(&q), div_dim(v.dim[2], p->kv_num_heads)), 2);
	return n < 0 ? 0 : n;
}

static int gate_infer(struct infer *c)
{
	struct shape a = infer_shape(c, 0);

	if (infer_out(c, 1) && !infer_in(c, GATE_B))
		return infer_fail(c, E_OP_INPUTS, GATE_B,
				  "b, from which the output beta is computed", "none");
	infer_set(c, 0, infer_dtype(c, 0), &a);
	infer_set(c, 1, infer_dtype(c, 0), &a);
	return 0;
}

static bool gate_expands(const struct graph *g, const struct node *n)
{
	const struct value *a = node_in(g, n, GATE_A), *bias = node_in(g, n, GATE_BIAS);

	return a && bias && a->info.shape.rank == 3 && bias->info.shape.rank == 1 &&
	       a->info.shape.dim[2] > 0 && a->info.shape.dim[2] == bias->info.shape.dim[0] &&
	       inputs_agree(g, n, GATE_BIAS, GATE_SCALE) &&
	       (!node_in(g, n, GATE_B) || inputs_agree(g, n, GATE_A, GATE_B));
}

/* ---- RotaryEmbedding -------------------------------------------------------------------------- */

/*
 * Checks the caches of cosines and sines, whose rows have an element for each pair of elements that turns. Without num_heads
 * and rotary_embedding_dim, com.microsoft's operator takes the size of a head from them.
 */
static int rotary_infer_at(struct infer *c, uint32_t cos_at)
{
	const struct rotary *p = infer_params(c);
	struct shape x = infer_shape(c, 0), cos = infer_shape(c, cos_at);
	int64_t columns = cos.rank > 0 ? cos.dim[cos.rank - 1] : DIM_UNKNOWN, size = DIM_UNKNOWN;

	if (p->rotary_embedding_dim < 0 || p->num_heads < 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "numbers of at least 0", NULL);
	if (x.rank == 4)
		size = x.dim[3];
	else if (x.rank == 3 && p->num_heads > 0)
		size = div_dim(x.dim[2], p->num_heads);
	else if (x.rank == 3 && p->rotary_embedding_dim > 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "num_heads for rotary_embedding_dim and an input of rank 3",
				  "none");
	int64_t turned = p->rotary_embedding_dim > 0 ? p->rotary_embedding_dim : size;
	if (size >= 0 && turned > size)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "rotary_embedding_dim of at most %" PRId64, size),
				  fmt(c->diag, "%" PRId64, turned));
	if (turned >= 0 && columns >= 0 && (turned % 2 || columns != turned / 2))
		return infer_fail_shape(c, (int)cos_at,
					fmt(c->diag, "a last dimension of half of %" PRId64, turned),
					&cos);
	if (turned < 0 && x.rank == 3 && x.dim[2] >= 0 && columns >= 0 &&
	    (!columns || x.dim[2] % columns || x.dim[2] / columns % 2))
		return infer_fail_shape(c, (int)cos_at,
					fmt(c->diag,
					    "a last dimension of which %" PRId64
					    " is a multiple of the double",
					    x.dim[2]),
					&cos);
	infer_set(c, 0, infer_dtype(c, 0), &x);
	return 0;
}

static int ms_rotary_infer(struct infer *c)
{
	return rotary_infer_at(c, 2);
}

static int mrotary_infer(struct infer *c)
{
	const struct mrotary *p = infer_params(c);
	struct shape cos = infer_shape(c, 2);
	const struct ints *n = &p->mrope_section;
	int64_t sum = 0;

	if (p->mrope_layout != MROTARY_CHUNKS && p->mrope_layout != MROTARY_IN_TURN)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "mrope_layout of 0 or 1",
				  fmt(c->diag, "%" PRId64, p->mrope_layout));
	if (infer_shape(c, 0).rank == 3 && p->rotary.num_heads < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads for an input of rank 3", "none");
	for (int64_t i = 0; i < n->n; i++)
		sum = n->v[i] < 0 ? DIM_UNKNOWN : add_dims(sum, n->v[i]);
	if (n->n != 3 || sum < 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "mrope_section of three numbers of pairs",
				  NULL);
	if (cos.rank == 2 && cos.dim[1] >= 0 && cos.dim[1] != sum)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "a mrope_section of %" PRId64 " pairs", cos.dim[1]),
				  fmt(c->diag, "%" PRId64, sum));
	return rotary_infer_at(c, 2);
}

static int rotary_infer(struct infer *c)
{
	const struct rotary *p = infer_params(c);
	struct shape x = infer_shape(c, 0), cos = infer_shape(c, 1), sin = infer_shape(c, 2);
	int rank = infer_in(c, 3) ? 2 : 3;

	if (x.rank == 3 && p->num_heads < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads for an input of rank 3", "none");
	if (cos.rank >= 0 && cos.rank != rank)
		return infer_fail_shape(
			c, 1,
			infer_in(c, 3) ? "rank 2, a row a position, since there are position_ids"
				       : "rank 3, a row a batch and position, without position_ids",
			&cos);
	if (cos.rank >= 0 && sin.rank >= 0 && sin.rank != cos.rank)
		return infer_fail_shape(c, 2, fmt(c->diag, "cos_cache's rank of %d", cos.rank), &sin);
	return rotary_infer_at(c, 1);
}

/* ---- com.microsoft ---------------------------------------------------------------------------- */

/* Sizes of the scores that com.microsoft's attention computes; rows are the keys without those of the past. */
struct score_sizes {
	int64_t batch, heads, length, rows, keys;
};

static bool dim_is(int64_t dim, int64_t size)
{
	return dim < 0 || size < 0 || dim == size;
}

/*
 * Checks input i, which says which keys count: [B], the ends; [2B], the ends and the starts; [3B+2] as well if `sums` is set;
 * [B, keys], [B, queries, keys] or [B, 1, M, M] with M positions. Where `sums` is set, [B, rows] does not speak of the past.
 */
static int check_key_mask(const struct infer *c, uint32_t i, const struct score_sizes *z, bool sums)
{
	struct shape s = infer_shape(c, i);
	const int64_t *d = s.dim;
	bool fits = true;

	switch (s.rank) {
	case -1: break;
	case 1:
		fits = z->batch < 0 || dim_is(d[0], z->batch) ||
		       dim_is(d[0], known_product(2, z->batch)) ||
		       (sums && dim_is(d[0], add_dims(2, known_product(3, z->batch))));
		break;
	case 2:
		fits = dim_is(d[0], z->batch) &&
		       (dim_is(d[1], z->keys) || (sums && dim_is(d[1], z->rows)));
		break;
	case 3:
		fits = dim_is(d[0], z->batch) && dim_is(d[1], z->length) && dim_is(d[2], z->keys);
		break;
	case 4:
		fits = dim_is(d[0], z->batch) && dim_is(d[1], 1) && dim_is(d[2], d[3]) &&
		       (d[3] < 0 || d[3] >= z->keys);
		break;
	default: fits = false;
	}
	struct shape want = shape_of_4(z->batch, z->heads, z->length, z->keys);
	return fits ? 0
		    : infer_fail_shape(c, (int)i,
				       fmt(c->diag, "a mask of keys for scores of %s",
					   infer_shape_text(c, &want)),
				       &s);
}

/*
 * Shapes of output and present, for com.microsoft::Attention and for infer::ProjectedAttention. columns is the sum of
 * the sizes of q, k and v over all heads; past_at is the number of the input `past`.
 */
static int ms_attention_shapes(struct infer *c, int64_t columns, uint32_t past_at)
{
	int err = 0;

	const struct ms_attention *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x, s = infer_shape(c, past_at);
	int64_t v = div_dim(columns, 3);

	if (p->num_heads < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads of at least 1", NULL);
	if (p->qkv_hidden_sizes.n == 3) {
		const int64_t *z = p->qkv_hidden_sizes.v;
		v = z[2];
		if (z[0] < 1 || z[0] != z[1] || z[2] < 1 || z[0] % p->num_heads ||
		    z[2] % p->num_heads || (columns >= 0 && columns != z[0] + z[1] + z[2]))
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  "qkv_hidden_sizes that fit the weights", NULL);
	} else if (columns >= 0 && (columns % 3 || columns / 3 % p->num_heads || !columns)) {
		return infer_fail(c, E_SHAPE, -1, "columns for q, k and v of every head",
				  fmt(c->diag, "%" PRId64, columns));
	}
	if (y.rank == 3)
		y.dim[2] = v;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	struct shape present = shape_of(
		5, (int64_t[]){2, x.rank == 3 ? x.dim[0] : DIM_UNKNOWN, p->num_heads,
			       x.rank == 3 ? x.dim[1] : DIM_UNKNOWN, div_dim(v, p->num_heads)});
	if (infer_in(c, past_at)) {
		int64_t past = s.rank == 5 ? s.dim[3] : DIM_UNKNOWN, same;
		/* keys and values share the tensor, so that their heads must have one size */
		if (s.rank == 5)
			err = infer_unify(c, (int)past_at, present.dim[4], s.dim[4], &same);
		if (!err && p->qkv_hidden_sizes.n == 3)
			err = infer_unify(c, (int)past_at, p->qkv_hidden_sizes.v[0], v, &same);
		if (err)
			return err;
		present.dim[3] = p->past_present_share_buffer ? past : add_dims(past, present.dim[3]);
	}
	infer_set(c, 1, infer_dtype(c, 0), &present);
	struct shape score = shape_of_4(present.dim[1], p->num_heads,
					x.rank == 3 ? x.dim[1] : DIM_UNKNOWN, present.dim[3]);
	struct score_sizes z = {score.dim[0], score.dim[1], score.dim[2], score.dim[2], score.dim[3]};
	err = check_key_mask(c, past_at - 1, &z, false);
	return err ? err : check_mask(c, past_at + 1, &score);
}

static int ms_attention_infer(struct infer *c)
{
	struct shape w = infer_shape(c, MSA_W);

	return ms_attention_shapes(c, w.rank == 2 ? w.dim[1] : DIM_UNKNOWN, MSA_PAST);
}

static int projected_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	return ms_attention_shapes(c, x.rank == 3 ? x.dim[2] : DIM_UNKNOWN, 2);
}

/* Sizes of a MultiHeadAttention: of the query, of keys without and with those of the past, and of a head. */
struct mha_sizes {
	int64_t batch, length, rows, keys, size, vsize;
};

/* Checks which of query, key and value are given: they may be packed in one input, or key and value in one. */
static int check_mha_operands(const struct infer *c)
{
	struct shape q = infer_shape(c, MHA_Q), k = infer_shape(c, MHA_K), v = infer_shape(c, MHA_V);
	bool packed = k.rank == 5;

	if (q.rank == 5 && infer_in(c, MHA_K))
		return infer_fail(c, E_OP_INPUTS, MHA_K, "none, since query holds it", "a tensor");
	if (q.rank == 3 && !infer_in(c, MHA_K))
		return infer_fail(c, E_OP_INPUTS, MHA_K, "a key, since query has rank 3", "none");
	if (k.rank >= 0 && packed != !infer_in(c, MHA_V))
		return infer_fail(c, E_OP_INPUTS, MHA_V,
				  packed ? "none, since key holds it" : "a value beside the key",
				  packed ? "a tensor" : "none");
	if (k.rank >= 0 && v.rank >= 0 && v.rank != k.rank)
		return infer_fail_shape(c, MHA_V, fmt(c->diag, "key's rank of %d", k.rank), &v);
	return 0;
}

static void mha_read_sizes(const struct infer *c, struct mha_sizes *z)
{
	const struct multi_head *p = infer_params(c);
	struct shape q = infer_shape(c, MHA_Q), k = infer_shape(c, MHA_K),
		     v = infer_shape(c, MHA_V), past = infer_shape(c, MHA_PAST_K);

	*z = (struct mha_sizes){DIM_UNKNOWN, DIM_UNKNOWN, DIM_UNKNOWN,
				DIM_UNKNOWN, DIM_UNKNOWN, DIM_UNKNOWN};
	if (q.rank >= 0) {
		z->batch = q.dim[0];
		z->length = z->keys = q.dim[1];
		z->size = z->vsize = q.rank == 5 ? q.dim[4] : div_dim(q.dim[2], p->num_heads);
	}
	if (infer_in(c, MHA_K))
		z->keys = k.rank == 4 ? k.dim[2] : k.rank >= 3 ? k.dim[1] : DIM_UNKNOWN;
	if (infer_in(c, MHA_V))
		z->vsize = v.rank == 4	 ? v.dim[3]
			   : v.rank == 3 ? div_dim(v.dim[2], p->num_heads)
					 : DIM_UNKNOWN;
	z->rows = z->keys;
	if (!infer_in(c, MHA_PAST_K))
		return;
	int64_t room = past.rank == 4 ? past.dim[2] : DIM_UNKNOWN;
	z->keys = infer_in(c, MHA_PAST_LEN) ? room : add_dims(z->keys, room);
}

static int mha_infer(struct infer *c)
{
	const struct multi_head *p = infer_params(c);
	struct shape bias = infer_shape(c, MHA_BIAS), y;
	struct mha_sizes z;
	int64_t n = p->num_heads;
	enum dtype t = infer_dtype(c, MHA_Q);
	int err = n < 1 ? infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads of at least 1", NULL)
			: check_mha_operands(c);

	if (err)
		return err;
	mha_read_sizes(c, &z);
	if (z.size == 0)
		return infer_fail(c, E_SHAPE, MHA_Q, "heads of at least one element", "none");
	int64_t all = known_product(add_dims(known_product(z.size, 2), z.vsize), n);
	if (bias.rank == 1 && bias.dim[0] >= 0 && all >= 0 && bias.dim[0] != all)
		return infer_fail_shape(c, MHA_BIAS, fmt(c->diag, "[%" PRId64 "]", all), &bias);
	y = shape_of(3, (int64_t[]){z.batch, z.length, known_product(z.vsize, n)});
	infer_set(c, 0, t, &y);
	y = shape_of_4(z.batch, n, z.keys, z.size);
	infer_set(c, 1, t, &y);
	y = shape_of_4(z.batch, n, z.keys, z.vsize);
	infer_set(c, 2, t, &y);
	y = shape_of_4(z.batch, n, z.length, z.keys);
	infer_set(c, 3, t, &y);
	struct score_sizes scores = {z.batch, n, z.length, z.rows, z.keys};
	err = check_key_mask(c, MHA_PADDING, &scores, true);
	return err ? err : check_mask(c, MHA_ATT_BIAS, &y);
}

/* Size of a head, from the query alone or from query, key and value in one. */
static int gqa_head_size(const struct infer *c, int64_t *size)
{
	const struct group_query *p = infer_params(c);
	struct shape q = infer_shape(c, GQA_Q), k = infer_shape(c, GQA_K);
	int64_t heads = infer_in(c, GQA_K) ? p->num_heads : p->num_heads + 2 * p->kv_num_heads;
	int64_t wide = q.rank == 3 ? q.dim[2] : DIM_UNKNOWN;

	*size = div_dim(wide, heads);
	if (wide >= 0 && (wide == 0 || wide % heads))
		return infer_fail_shape(
			c, GQA_Q, fmt(c->diag, "a last dimension for %" PRId64 " heads", heads), &q);
	if (k.rank == 3 && k.dim[2] >= 0 && *size >= 0 &&
	    k.dim[2] != known_product(*size, p->kv_num_heads))
		return infer_fail_shape(c, GQA_K,
					fmt(c->diag,
					    "a last dimension of %" PRId64 " (kv_num_heads %" PRId64
					    " times %" PRId64 ")",
					    known_product(*size, p->kv_num_heads), p->kv_num_heads,
					    *size),
					&k);
	return 0;
}

static int check_gqa_past(const struct infer *c, int64_t size)
{
	const struct group_query *p = infer_params(c);
	struct shape past = infer_shape(c, GQA_PAST_K), norm = infer_shape(c, GQA_Q_NORM);
	int64_t same;
	int err = 0;

	if (p->sliding_window_cache &&
	    (p->local_window_size < 1 || !infer_in(c, GQA_PAST_K) ||
	     (past.rank == 4 && past.dim[2] >= 0 && past.dim[2] < p->local_window_size)))
		return infer_fail(c, E_OP_ATTRIBUTE, GQA_PAST_K,
				  "a cache of at least local_window_size", NULL);
	/* two codes of 4 bits lie in a byte */
	bool halves = infer_dtype(c, GQA_PAST_K) == DT_U8 && p->kv_cache_bit_width == 4;
	if (past.rank == 4)
		err = infer_unify(c, GQA_PAST_K, halves ? div_dim(size, 2) : size, past.dim[3], &same);
	if (!err && norm.rank == 1)
		err = infer_unify(c, GQA_Q_NORM, size, norm.dim[0], &same);
	return err;
}

/* Reads total_sequence_length, the most keys that a batch sees. It may be unknown still. */
static int gqa_total(struct infer *c, int64_t length, int64_t *total)
{
	int64_t least = length > 0 ? length : 1;
	const struct tensor *t = infer_value(c, GQA_TOTAL);

	*total = t ? elem_i64(DT_I32, t->data, 0) : DIM_UNKNOWN;
	if (!t || *total >= least)
		return 0;
	return infer_fail(c, E_VALUE, GQA_TOTAL, fmt(c->diag, "at least %" PRId64, least),
			  fmt(c->diag, "%" PRId64, *total));
}

static int gqa_infer(struct infer *c)
{
	const struct group_query *p = infer_params(c);
	struct shape q = infer_shape(c, GQA_Q), past = infer_shape(c, GQA_PAST_K), y;
	int64_t n = p->num_heads, kv = p->kv_num_heads, size, total;
	int64_t batch = q.rank == 3 ? q.dim[0] : DIM_UNKNOWN;
	int64_t length = q.rank == 3 ? q.dim[1] : DIM_UNKNOWN;
	int err = 0;

	if (n < 1 || kv < 1 || n > INT32_MAX || n % kv)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads a multiple of kv_num_heads", NULL);
	if (p->do_rotary && (!infer_in(c, GQA_COS) || !infer_in(c, GQA_SIN)))
		return infer_fail(c, E_OP_INPUTS, infer_in(c, GQA_COS) ? GQA_SIN : GQA_COS,
				  "cos_cache and sin_cache, as do_rotary is set", "none");
	if ((err = gqa_head_size(c, &size)) || (err = check_gqa_past(c, size)) ||
	    (err = gqa_total(c, length, &total)))
		return err;
	/* the plan's sizes follow from total_sequence_length, even if no output's does: ask for it */
	bool wait = c->concrete && total < 0;
	y = shape_of(3, (int64_t[]){batch, wait ? DIM_UNKNOWN : length, known_product(size, n)});
	infer_set(c, 0, infer_dtype(c, GQA_Q), &y);
	int64_t room = total;
	if (infer_in(c, GQA_PAST_K)) {
		int64_t have = past.rank == 4 ? past.dim[2] : DIM_UNKNOWN;
		room = have >= 0 && total >= 0 ? (have > total ? have : total) : DIM_UNKNOWN;
		if (p->sliding_window_cache)
			room = have;
	}
	y = shape_of_4(batch, kv, room,
		       infer_in(c, GQA_PAST_K) && past.rank == 4 ? past.dim[3] : size);
	enum dtype cache =
		infer_in(c, GQA_PAST_K) ? infer_dtype(c, GQA_PAST_K) : infer_dtype(c, GQA_Q);
	infer_set(c, 1, cache, &y);
	infer_set(c, 2, cache, &y);
	y = shape_of_4(batch, n, length, total);
	infer_set(c, 3, infer_dtype(c, GQA_Q), &y);
	struct shape bias = infer_shape(c, GQA_BIAS);
	if (bias.rank == 4 && !dim_is(bias.dim[3], total))
		return infer_fail_shape(c, GQA_BIAS, fmt(c->diag, "%" PRId64 " columns", total),
					&bias);
	return 0;
}

/* ---- SparseAttention -------------------------------------------------------------------------- */

static int check_heads(const struct infer *c, int64_t heads, int64_t kv_heads)
{
	if (heads >= 1 && kv_heads >= 1 && heads <= INT32_MAX && heads % kv_heads == 0)
		return 0;
	return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads a multiple of kv_num_heads",
			  fmt(c->diag, "%" PRId64 " and %" PRId64, heads, kv_heads));
}

static int check_block_size(const struct infer *c, int64_t size)
{
	if (size == 16 || size == 32 || size == 64 || size == 128)
		return 0;
	return infer_fail(c, E_OP_ATTRIBUTE, -1, "sparse_block_size of 16, 32, 64 or 128",
			  fmt(c->diag, "%" PRId64, size));
}

/* Each layout of blocks has a row of the matrix's row indices and one of its column indices; heads take layouts in turn. */
static int check_layouts(const struct infer *c, uint32_t rows_at, int64_t heads)
{
	struct shape rows = infer_shape(c, rows_at), cols = infer_shape(c, rows_at + 1);

	if (rows.rank == 2 && ((rows.dim[0] >= 0 && (!rows.dim[0] || heads % rows.dim[0])) ||
			       (rows.dim[1] >= 0 && rows.dim[1] < 2)))
		return infer_fail_shape(
			c, (int)rows_at,
			fmt(c->diag, "a divisor of %" PRId64 " layouts of one row or more", heads),
			&rows);
	if (rows.rank == 2 && cols.rank == 2 && rows.dim[1] > 1 &&
	    cols.dim[1] > known_product(rows.dim[1] - 1, rows.dim[1] - 1))
		return infer_fail_shape(c, (int)rows_at + 1,
					"no more columns than there are blocks", &cols);
	return 0;
}

static int sparse_infer(struct infer *c)
{
	const struct sparse_attention *p = infer_params(c);
	struct shape q = infer_shape(c, SPARSE_Q), past = infer_shape(c, SPARSE_PAST_K), y = q;
	bool packed = !infer_in(c, SPARSE_K);
	int64_t heads = packed ? p->num_heads + 2 * p->kv_num_heads : p->num_heads, same;
	int err;

	if ((err = check_heads(c, p->num_heads, p->kv_num_heads)) ||
	    (err = check_block_size(c, p->sparse_block_size)) ||
	    (err = check_layouts(c, SPARSE_ROWS, p->num_heads)))
		return err;
	if (p->do_rotary && !infer_in(c, SPARSE_COS))
		return infer_fail(c, E_OP_INPUTS, SPARSE_COS,
				  "cos_cache and sin_cache, as do_rotary is set", "none");
	if (q.rank == 3 && q.dim[2] >= 0 && (!q.dim[2] || q.dim[2] % heads))
		return infer_fail_shape(c, SPARSE_Q,
					fmt(c->diag, "a last dimension for %" PRId64 " heads", heads),
					&q);
	if (q.rank == 3) {
		int64_t size = div_dim(q.dim[2], heads);
		y.dim[2] = known_product(size, p->num_heads);
		if (past.rank == 4 && (err = infer_unify(c, SPARSE_PAST_K, size, past.dim[3], &same)))
			return err;
	}
	infer_set(c, 0, infer_dtype(c, SPARSE_Q), &y);
	infer_set(c, 1, infer_dtype(c, SPARSE_Q), &past);
	infer_set(c, 2, infer_dtype(c, SPARSE_Q), &past);
	return 0;
}

/* A size that the value of total_sequence_length must not exceed. */
static int check_total(const struct infer *c, int64_t total, int64_t most, const char *what)
{
	if (total < 0 || most < 0 || total <= most)
		return 0;
	return infer_fail(c, E_VALUE, MASK_TOTAL, fmt(c->diag, "at most %" PRId64 ", %s", most, what),
			  fmt(c->diag, "%" PRId64, total));
}

static int sparse_mask_infer(struct infer *c)
{
	const struct sparse_attention *p = infer_params(c);
	struct shape q = infer_shape(c, MASK_Q), past = infer_shape(c, MASK_PAST),
		     rows = infer_shape(c, MASK_ROWS);
	const struct tensor *t = infer_value(c, MASK_TOTAL);
	int64_t total = t ? elem_i64(DT_I32, t->data, 0) : DIM_UNKNOWN;
	int64_t batch = q.rank == 3 ? q.dim[0] : DIM_UNKNOWN,
		length = q.rank == 3 ? q.dim[1] : DIM_UNKNOWN;
	int err;

	if ((err = check_heads(c, p->num_heads, 1)) ||
	    (err = check_block_size(c, p->sparse_block_size)) ||
	    (err = check_layouts(c, MASK_ROWS, p->num_heads)))
		return err;
	if (t && total < (length > 0 ? length : 1))
		return infer_fail(c, E_VALUE, MASK_TOTAL,
				  fmt(c->diag, "at least %" PRId64, length > 0 ? length : 1),
				  fmt(c->diag, "%" PRId64, total));
	if (past.rank == 4 && (err = check_total(c, total, past.dim[2], "the rows of the cache")))
		return err;
	if (rows.rank == 2 && rows.dim[1] > 0 &&
	    (err = check_total(c, total, known_product(rows.dim[1] - 1, p->sparse_block_size),
			       "the positions of the blocks")))
		return err;
	int64_t heads = rows.rank == 2 && rows.dim[0] >= 0 ? (rows.dim[0] == 1 ? 1 : p->num_heads)
							   : DIM_UNKNOWN;
	struct shape y = shape_of_4(batch, heads, length, total);
	infer_set(c, 0, infer_dtype(c, MASK_Q), &y);
	y = shape_of_4(batch, 1, past.rank == 4 ? past.dim[2] : DIM_UNKNOWN, 1);
	infer_set(c, 1, DT_BOOL, &y);
	return 0;
}

/* ---- PagedAttention --------------------------------------------------------------------------- */

/* Which of key, value and value_cache are given depends on where the values are. */
static int check_paged_operands(const struct infer *c)
{
	const struct paged_attention *p = infer_params(c);
	bool latent = p->kv_cache_layout == PAGED_LATENT, key = infer_in(c, PAGED_K) != NULL;

	if (latent && !key)
		return infer_fail(c, E_OP_INPUTS, PAGED_K, "a key, which holds the latent rows",
				  "none");
	if (latent && infer_in(c, PAGED_V))
		return infer_fail(c, E_OP_INPUTS, PAGED_V, "none, as kv_cache_layout is LATENT",
				  "a tensor");
	if (latent && infer_in(c, PAGED_V_CACHE))
		return infer_fail(c, E_OP_INPUTS, PAGED_V_CACHE,
				  "none, as kv_cache_layout is LATENT", "a tensor");
	if (latent && infer_out(c, 2))
		return infer_fail(c, E_OP_INPUTS, -1,
				  "no output value_cache_out, as kv_cache_layout is LATENT", NULL);
	if (latent)
		return 0;
	if (key != (infer_in(c, PAGED_V) != NULL))
		return infer_fail(c, E_OP_INPUTS, key ? PAGED_V : PAGED_K,
				  "key and value, or none of them", "one");
	if (!infer_in(c, PAGED_V_CACHE))
		return infer_fail(c, E_OP_INPUTS, PAGED_V_CACHE, "a cache of values", "none");
	return 0;
}

static int check_paged_attributes(const struct infer *c, int64_t size)
{
	const struct paged_attention *p = infer_params(c);
	bool latent = p->kv_cache_layout == PAGED_LATENT;
	int err = check_heads(c, p->num_heads, p->kv_num_heads);

	if (err)
		return err;
	if (latent && p->kv_num_heads != 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "kv_num_heads of 1, as kv_cache_layout is LATENT",
				  fmt(c->diag, "%" PRId64, p->kv_num_heads));
	if (p->v_head_size < 0 || (p->v_head_size && !latent) || (size >= 0 && p->v_head_size > size))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  latent ? "v_head_size of no more than the size of a head"
					 : "no v_head_size, as kv_cache_layout is SEPARATE",
				  fmt(c->diag, "%" PRId64, p->v_head_size));
	if (p->v_head_size && p->v_head_size != size && size >= 0 &&
	    (isnan(p->scale) || p->scale == 0))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "a scale, as v_head_size is not the size of a head", "none");
	if (p->rotary_offset < 0 || p->rotary_offset % 8)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "rotary_offset a multiple of 8",
				  fmt(c->diag, "%" PRId64, p->rotary_offset));
	if (p->do_rotary && !infer_in(c, PAGED_COS))
		return infer_fail(c, E_OP_INPUTS, PAGED_COS,
				  "cos_cache and sin_cache, as do_rotary is set", "none");
	return 0;
}

/* A cache: i is 0 for keys, 1 for values. */
static int check_paged_cache(const struct infer *c, uint32_t i, int64_t size)
{
	const struct paged_attention *p = infer_params(c);
	uint32_t slot = PAGED_K_CACHE + i, scale_slot = PAGED_K_SCALE + i;
	int kind = i ? p->v_quant_type : p->k_quant_type;
	const char *named = i ? p->v_cache_dtype : p->k_cache_dtype;
	enum dtype t = infer_dtype(c, slot);
	struct shape cache = infer_shape(c, slot), scale = infer_shape(c, scale_slot);
	bool codes = !(T_BIT(t) & (T_F16 | T_BF16)), halves = t == DT_U8,
	     latent = p->kv_cache_layout == PAGED_LATENT;
	int64_t width = halves && size >= 0 ? size / 2 + size % 2 : size,
		count = shape_count(&scale), same;

	/* without a cache of values there are neither scales for it */
	if (i && latent)
		return kind == PAGED_PLAIN && !infer_in(c, scale_slot)
			       ? 0
			       : infer_fail(c, E_OP_INPUTS, -1,
					    "no v_scale and no v_quant_type, as kv_cache_layout is LATENT",
					    NULL);
	if (named && *named &&
	    (halves ? strcmp(named, "int4") && strcmp(named, "float4e2m1")
		    : strcmp(named, dtype_name(t))))
		return infer_fail(c, E_OP_ATTRIBUTE, (int)slot,
				  halves ? "k_cache_dtype and v_cache_dtype of int4 or float4e2m1"
					 : fmt(c->diag, "the type that its attribute names, %s", named),
				  halves ? named : dtype_name(t));
	if (codes != (kind != PAGED_PLAIN))
		return infer_fail(c, E_OP_ATTRIBUTE, (int)slot,
				  codes ? "k_quant_type and v_quant_type for a quantized cache"
					: "quant_type NONE for a cache that is not quantized",
				  NULL);
	if (codes != (infer_in(c, scale_slot) != NULL))
		return infer_fail(c, E_OP_INPUTS, (int)scale_slot,
				  codes ? "scales of the quantized cache"
					: "none, as the cache is not quantized",
				  codes ? "none" : "a tensor");
	if (kind == PAGED_PER_TENSOR && count >= 0 && count != 1)
		return infer_fail_shape(c, (int)scale_slot,
					"one scale, as the quantization is PER_TENSOR", &scale);
	if (kind == PAGED_PER_CHANNEL && count >= 0 && size >= 0 &&
	    (count != known_product(p->kv_num_heads, size) || scale.rank < 1 ||
	     scale.dim[scale.rank - 1] != size))
		return infer_fail_shape(
			c, (int)scale_slot,
			fmt(c->diag, "[%" PRId64 ",1,%" PRId64 "], as the quantization is PER_CHANNEL",
			    p->kv_num_heads, size),
			&scale);
	return cache.rank == 4 ? infer_unify(c, (int)slot, width, cache.dim[3], &same) : 0;
}

static int check_paged_sizes(const struct infer *c, int64_t size)
{
	const struct paged_attention *p = infer_params(c);
	struct shape starts = infer_shape(c, PAGED_STARTS), past = infer_shape(c, PAGED_PAST),
		     cos = infer_shape(c, PAGED_COS), norm = infer_shape(c, PAGED_Q_NORM);
	int64_t same;
	int err = 0;

	if (starts.rank == 1 && past.rank == 1)
		err = infer_unify(c, PAGED_STARTS, add_dims(past.dim[0], 1), starts.dim[0], &same);
	for (uint32_t i = PAGED_K; i <= PAGED_V && !err; i++) {
		struct shape s = infer_shape(c, i);
		if (s.rank == 2)
			err = infer_unify(c, (int)i, known_product(size, p->kv_num_heads), s.dim[1],
					  &same);
	}
	if (!err && norm.rank == 1)
		err = infer_unify(c, PAGED_Q_NORM, size, norm.dim[0], &same);
	if (!err && p->do_rotary && cos.rank == 2 && size >= 0 && cos.dim[1] >= 0 &&
	    (cos.dim[1] > size / 2 || p->rotary_offset > size - 2 * cos.dim[1]))
		err = infer_fail_shape(
			c, PAGED_COS,
			fmt(c->diag, "rows of at most %" PRId64 " pairs of a head of %" PRId64,
			    p->rotary_offset > size ? 0 : (size - p->rotary_offset) / 2, size),
			&cos);
	return err;
}

static int paged_infer(struct infer *c)
{
	const struct paged_attention *p = infer_params(c);
	struct shape q = infer_shape(c, PAGED_Q), y = q, cache = infer_shape(c, PAGED_K_CACHE);
	bool packed = !infer_in(c, PAGED_K);
	int64_t heads = packed ? p->num_heads + 2 * p->kv_num_heads : p->num_heads,
		size = paged_head_size(p, &q, packed);
	int err;

	if ((err = check_paged_operands(c)) || (err = check_paged_attributes(c, size)))
		return err;
	if (q.rank == 2 && q.dim[1] >= 0 && (!q.dim[1] || q.dim[1] % heads))
		return infer_fail_shape(c, PAGED_Q,
					fmt(c->diag, "a last dimension for %" PRId64 " heads", heads),
					&q);
	if ((err = check_paged_cache(c, 0, size)) || (err = check_paged_cache(c, 1, size)) ||
	    (err = check_paged_sizes(c, size)))
		return err;
	if (q.rank == 2)
		y.dim[1] = known_product(p->num_heads, p->v_head_size ? p->v_head_size : size);
	infer_set(c, 0, infer_dtype(c, PAGED_Q), &y);
	infer_set(c, 1, infer_dtype(c, PAGED_K_CACHE), &cache);
	infer_set(c, 2, infer_dtype(c, PAGED_K_CACHE), &cache);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define F  T_FLOATS_BF
#define NF (T_F32 | T_F16 | T_BF16)
#define U  (T_NUMERIC_BF | T_BOOL)
#define ATTENTION_SLOTS                                                                            \
	SLOT("Q", "T", F, .dims = "B S $q_num_heads*E | B H S E"),                                 \
		SLOT("K", "T", F, .dims = "B L $kv_num_heads*E | B KV L E"),                       \
		SLOT("V", "T2", F, .dims = "B L $kv_num_heads*V | B KV L V"),                      \
		SLOT_OPT("attn_mask", "U", U),                                                     \
		SLOT_OPT("past_key", "T", F, .dims = "B KV P E", .with = "past_value"),            \
		SLOT_OPT("past_value", "T2", F, .dims = "B KV P V", .with = "past_key")
static const struct slot attention_in[] = {
	ATTENTION_SLOTS, SLOT_OPT("nonpad_kv_seqlen", NULL, T_I64, .dims = "B"), SLOT_END};
static const struct slot attention23_in[] = {ATTENTION_SLOTS, SLOT_END};
static const struct slot attention_out[] = {SLOT("Y", "T", F), SLOT_OPT("present_key", "T", F),
					    SLOT_OPT("present_value", "T2", F),
					    SLOT_OPT("qk_matmul_output", "T", F), SLOT_END};
static const struct slot flex_in[] = {SLOT("Q", "T1", F, .dims = "B H S E"),
				      SLOT("K", "T1", F, .dims = "B KV L E"),
				      SLOT("V", "T1", F, .dims = "B KV L V"), SLOT_END};
static const struct slot flex_out[] = {SLOT("Y", "T1", F), SLOT_END};
static const struct slot linear_in[] = {
	SLOT("query", "T", NF, .dims = "B S $q_num_heads*E"),
	SLOT("key", "T", NF, .dims = "B S $kv_num_heads*E"),
	SLOT("value", "T", NF, .dims = "B S $kv_num_heads*V"),
	SLOT_OPT("past_state", "S", NF, .dims = "B $kv_num_heads E V"),
	SLOT_OPT("decay", "T", NF, .dims = "B S $kv_num_heads | B S $kv_num_heads*E"),
	SLOT_OPT("beta", "T", NF, .dims = "B S 1 | B S $kv_num_heads"),
	SLOT_END};
static const struct slot ms_linear_in[] = {
	SLOT("query", "T", NF, .dims = "B S $q_num_heads*E"),
	SLOT("key", "T", NF, .dims = "B S $kv_num_heads*E"),
	SLOT("value", "T", NF, .dims = "B S $kv_num_heads*V"),
	SLOT_OPT("past_state", "S", NF,
		 .dims = "B $kv_num_heads E V | $state_window B $kv_num_heads E V"),
	SLOT_OPT("decay", "T", NF, .dims = "B S $kv_num_heads | B S $kv_num_heads*E"),
	SLOT_OPT("beta", "T", NF, .dims = "B S 1 | B S $kv_num_heads"),
	SLOT_END};
static const struct slot linear_out[] = {SLOT("output", "T", NF),
					 SLOT_OPT("present_state", "S", NF), SLOT_END};
static const struct slot gate_in[] = {SLOT("a", "T", NF, .dims = "B S H"),
				      SLOT("dt_bias", NULL, T_F32, .dims = "H"),
				      SLOT("decay_scale", NULL, T_F32, .dims = "H"),
				      SLOT_OPT("b", "T", NF, .dims = "B S H"), SLOT_END};
static const struct slot gate_out[] = {SLOT("decay", "T", NF), SLOT_OPT("beta", "T", NF), SLOT_END};
static const struct slot rotary_in[] = {SLOT("X", "T", NF, .dims = "B S $num_heads*E | B _ S _"),
					SLOT("cos_cache", "T", NF, .dims = "P D | B S D"),
					SLOT("sin_cache", "T", NF, .dims = "P D | B S D"),
					SLOT_OPT("position_ids", NULL, T_I64, .dims = "B S"),
					SLOT_END};
static const struct slot rotary_out[] = {SLOT("Y", "T", NF), SLOT_END};
static const struct slot ms_rotary_in[] = {
	SLOT("input", "T", NF, .dims = "B S $num_heads*E | B _ S _"),
	SLOT("position_ids", NULL, T_I64, .dims = "1 | () | B S"),
	SLOT("cos_cache", "T", NF, .dims = "P D"), SLOT("sin_cache", "T", NF, .dims = "P D"),
	SLOT_END};
static const struct slot mrotary_in[] = {SLOT("input", "T", NF, .dims = "B S $num_heads*E | B _ S _"),
					 SLOT("position_ids", "M", T_I64, .dims = "3 B S"),
					 SLOT("cos_cache", "T", NF, .dims = "P D"),
					 SLOT("sin_cache", "T", NF, .dims = "P D"), SLOT_END};
static const struct slot ms_rotary_out[] = {SLOT("output", "T", NF), SLOT_END};
static const struct slot ms_attention_in[] = {
	SLOT("input", "T", NF, .dims = "B S I"),
	SLOT("weights", "T", NF, .dims = "I W"),
	SLOT_OPT("bias", "T", NF, .dims = "W"),
	SLOT_OPT("mask_index", NULL, T_I32),
	SLOT_OPT("past", "T", NF, .dims = "2 B $num_heads P E"),
	SLOT_OPT("attention_bias", "T", NF, .dims = "B? $num_heads? S _"),
	SLOT_OPT("past_sequence_length", NULL, T_I32, .dims = "() | 1"),
	SLOT_END};
static const struct slot ms_attention_out[] = {SLOT("output", "T", NF),
					       SLOT_OPT("present", "T", NF), SLOT_END};
/* infer::ProjectedAttention: com.microsoft::Attention after its projection; qkv is [batch, length, sizes of q, k and v]. */
static const struct slot projected_in[] = {
	SLOT("qkv", "T", NF, .dims = "B S _"), SLOT_OPT("mask_index", NULL, T_I32),
	SLOT_OPT("past", "T", NF, .dims = "2 B $num_heads P E"),
	SLOT_OPT("attention_bias", "T", NF, .dims = "B? $num_heads? S _"), SLOT_END};
static const struct slot mha_in[] = {
	SLOT("query", "T", NF, .dims = "B S $num_heads*E | B S $num_heads 3 E"),
	SLOT_OPT("key", "T", NF, .dims = "B L $num_heads*E | B $num_heads L E | B L $num_heads 2 E"),
	SLOT_OPT("value", "T", NF, .dims = "B L $num_heads*V | B $num_heads L E", .with = "key"),
	SLOT_OPT("bias", "T", NF, .dims = "_"),
	SLOT_OPT("key_padding_mask", NULL, T_I32),
	SLOT_OPT("attention_bias", "T", NF, .dims = "B? $num_heads? S _"),
	SLOT_OPT("past_key", "T", NF, .dims = "B $num_heads P E", .with = "past_value"),
	SLOT_OPT("past_value", "T", NF, .dims = "B $num_heads P V", .with = "past_key"),
	SLOT_OPT("past_sequence_length", NULL, T_I32, .dims = "() | 1"),
	SLOT_OPT("cache_indirection", NULL, T_I32, .dims = "B _ _"),
	SLOT_END};
static const struct slot mha_out[] = {SLOT("output", "T", NF), SLOT_OPT("present_key", "T", NF),
				      SLOT_OPT("present_value", "T", NF), SLOT_OPT("qk", "QK", NF),
				      SLOT_END};
#define CACHE (NF | T_U8 | T_I8 | T_BIT(DT_F8E4M3FN))
static const struct slot gqa_in[] = {
	SLOT("query", "T", NF, .dims = "B S _"),
	SLOT_OPT("key", "T", NF, .dims = "B S $kv_num_heads*E", .with = "value"),
	SLOT_OPT("value", "T", NF, .dims = "B S $kv_num_heads*E", .with = "key"),
	SLOT_OPT("past_key", "T_CACHE", CACHE, .dims = "B $kv_num_heads P C", .with = "past_value"),
	SLOT_OPT("past_value", "T_CACHE", CACHE, .dims = "B $kv_num_heads P C", .with = "past_key"),
	SLOT("seqlens_k", NULL, T_I32, .dims = "B | B 1"),
	SLOT("total_sequence_length", NULL, T_I32, .dims = "() | 1"),
	SLOT_OPT("cos_cache", "T", NF, .dims = "M R", .with = "sin_cache"),
	SLOT_OPT("sin_cache", "T", NF, .dims = "M R", .with = "cos_cache"),
	SLOT_OPT("position_ids", NULL, T_I64, .dims = "B S"),
	SLOT_OPT("attention_bias", "T", NF, .dims = "B? $num_heads? S _"),
	SLOT_OPT("head_sink", "T", NF, .dims = "$num_heads"),
	SLOT_OPT("k_scale", NULL, T_F32),
	SLOT_OPT("v_scale", NULL, T_F32),
	SLOT_OPT("q_norm_weight", "T", NF, .dims = "E"),
	SLOT_OPT("k_norm_weight", "T", NF, .dims = "E"),
	SLOT_END};
static const struct slot gqa_out[] = {
	SLOT("output", "T", NF), SLOT_OPT("present_key", "T_CACHE", CACHE),
	SLOT_OPT("present_value", "T_CACHE", CACHE), SLOT_OPT("output_qk", "T", NF), SLOT_END};

static const struct slot sparse_in[] = {
	SLOT("query", "T", NF, .dims = "B S _"),
	SLOT_OPT("key", "T", NF, .dims = "B S $kv_num_heads*E", .with = "value"),
	SLOT_OPT("value", "T", NF, .dims = "B S $kv_num_heads*E", .with = "key"),
	SLOT("past_key", "T", NF, .dims = "B $kv_num_heads P E"),
	SLOT("past_value", "T", NF, .dims = "B $kv_num_heads P E"),
	SLOT("block_row_indices", "M", T_I32, .dims = "L _"),
	SLOT("block_col_indices", "M", T_I32, .dims = "L _"),
	SLOT("total_sequence_length", "M", T_I32, .dims = "() | 1"),
	SLOT("key_total_sequence_lengths", "M", T_I32, .dims = "B"),
	SLOT_OPT("cos_cache", "T", NF, .dims = "R D", .with = "sin_cache"),
	SLOT_OPT("sin_cache", "T", NF, .dims = "R D", .with = "cos_cache"),
	SLOT_END};
static const struct slot sparse_out[] = {SLOT("output", "T", NF), SLOT("present_key", "T", NF),
					 SLOT("present_value", "T", NF), SLOT_END};
static const struct slot sparse_mask_in[] = {
	SLOT("query", "T", NF, .dims = "B S _"),
	SLOT("past_key", "T", NF, .dims = "B _ _ _"),
	SLOT("block_row_indices", "M", T_I32, .dims = "L _"),
	SLOT("block_col_indices", "M", T_I32, .dims = "L _"),
	SLOT("total_sequence_length", "M", T_I32, .dims = "() | 1"),
	SLOT("key_total_sequence_lengths", "M", T_I32, .dims = "B"),
	SLOT_END};
/* what is added to the scores, and which rows of the cache stay as they are */
static const struct slot sparse_mask_out[] = {SLOT("bias", "T", NF), SLOT("rest", NULL, T_BOOL),
					      SLOT_END};

#define HALF	    (T_F16 | T_BF16)
#define PAGED_CACHE (HALF | T_I8 | T_U8 | T_BIT(DT_F8E4M3FN))
static const struct slot paged_in[] = {
	SLOT("query", "T", HALF, .dims = "T _"),
	SLOT_OPT("key", "T", HALF, .dims = "T _"),
	SLOT_OPT("value", "T", HALF, .dims = "T _", .with = "key"),
	SLOT("key_cache", "T_CACHE", PAGED_CACHE, .dims = "N Z $kv_num_heads C"),
	SLOT_OPT("value_cache", "T_CACHE", PAGED_CACHE, .dims = "N Z $kv_num_heads C"),
	SLOT("cumulative_sequence_length", "S", T_I32, .dims = "_"),
	SLOT("past_seqlens", "S", T_I32, .dims = "B"),
	SLOT("block_table", "S", T_I32, .dims = "B _"),
	SLOT_OPT("cos_cache", "T", HALF, .dims = "R D", .with = "sin_cache"),
	SLOT_OPT("sin_cache", "T", HALF, .dims = "R D", .with = "cos_cache"),
	SLOT_OPT("slot_mapping", "S", T_I32, .dims = "T"),
	SLOT_OPT("head_sink", "T", HALF, .dims = "$num_heads"),
	SLOT_OPT("q_norm_weight", "T", HALF, .dims = "E", .with = "k_norm_weight"),
	SLOT_OPT("k_norm_weight", "T", HALF, .dims = "E", .with = "q_norm_weight"),
	SLOT_OPT("k_scale", "T_KV_SCALE", T_F32),
	SLOT_OPT("v_scale", "T_KV_SCALE", T_F32),
	SLOT_OPT("attention_metadata", "S", T_I32, .dims = "2 | 3"),
	SLOT_END};
static const struct slot paged_out[] = {
	SLOT("output", "T", HALF), SLOT_OPT("key_cache_out", "T_CACHE", PAGED_CACHE),
	SLOT_OPT("value_cache_out", "T_CACHE", PAGED_CACHE), SLOT_END};

#define ATT24_FIELDS                                                                               \
	FIELD(struct attention, is_causal, F_INT, "0", "1: a query sees no later keys"),           \
		FIELD(struct attention, q_num_heads, F_INT, "0", "heads of Q of rank 3"),          \
		FIELD(struct attention, kv_num_heads, F_INT, "0", "heads of K and V of rank 3"),   \
		FIELD(struct attention, qk_matmul_output_mode, F_INT, "0",                         \
		      "what qk_matmul_output is"),                                                 \
		FIELD(struct attention, softmax_precision, F_INT, "0",                             \
		      "element type of the softmax"),                                              \
		FIELD(struct attention, scale, F_FLOAT, NULL,                                      \
		      "of Q K^T; absent: 1 / sqrt(head size)"),                                    \
		FIELD(struct attention, softcap, F_FLOAT, "0", "bound of the scores; 0: none")
static const struct field attention_attrs[] = {
	ATT24_FIELDS,
	FIELD(struct attention, left_window_size, F_INT, "-1", "keys seen before the query; -1: all"),
	FIELD(struct attention, right_window_size, F_INT, "-1", "keys seen behind the query; -1: all"),
	{0}};
static const struct field flex_attrs[] = {
	FIELD(struct flex_attention, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)"),
	FIELD(struct flex_attention, score_mod, F_GRAPH, NULL, "changes the scores"),
	FIELD(struct flex_attention, prob_mod, F_GRAPH, NULL, "changes the probabilities"),
	FIELD(struct flex_attention, softmax_precision, F_INT, "0", "element type of the softmax"),
	{0}};
#define LINEAR_FIELDS                                                                              \
	FIELD_REQ(struct linear_attention, q_num_heads, F_INT, "heads of query"),                  \
		FIELD_REQ(struct linear_attention, kv_num_heads, F_INT, "heads of key and value"), \
		FIELD(struct linear_attention, chunk_size, F_INT, "64", "a hint"),                 \
		FIELD(struct linear_attention, scale, F_FLOAT, "0",                                \
		      "of the output; 0: 1 / sqrt(key size)"),                                     \
		FIELD_ENUM(struct linear_attention, update_rule, "gated_delta",                    \
			   "linear|gated|delta|gated_delta", "how the state changes")
static const struct field linear_attrs[] = {LINEAR_FIELDS, {0}};
static const struct field ms_linear_attrs[] = {LINEAR_FIELDS,
					       FIELD(struct linear_attention, state_window, F_INT,
						     "0", "number of last states that are kept"),
					       {0}};
#define ROTARY_FIELDS                                                                              \
	FIELD(struct rotary, interleaved, F_INT, "0", "1: pairs lie side by side"),                \
		FIELD(struct rotary, num_heads, F_INT, "0", "heads of an input of rank 3"),        \
		FIELD(struct rotary, rotary_embedding_dim, F_INT, "0",                             \
		      "elements of a head that turn; 0: all")
static const struct field rotary_attrs[] = {ROTARY_FIELDS, {0}};
#define MS_ROTARY_FIELDS                                                                           \
	ROTARY_FIELDS,                                                                             \
		FIELD(struct rotary, is_packed_batching, F_INT, "0",                               \
		      "1: sequences packed without padding"),                                      \
		FIELD(struct rotary, scale, F_FLOAT, "1", "custom scale; not used")
static const struct field ms_rotary_attrs[] = {MS_ROTARY_FIELDS, {0}};
static const struct field mrotary_attrs[] = {
	MS_ROTARY_FIELDS,
	FIELD_REQ(struct mrotary, mrope_section, F_INTS,
		  "pairs that turn by each number of a position"),
	FIELD(struct mrotary, mrope_layout, F_INT, "0", "1: pairs take the numbers in turn"),
	{0}};
static const struct field ms_attention_attrs[] = {
	FIELD_REQ(struct ms_attention, num_heads, F_INT, "heads"),
	FIELD(struct ms_attention, unidirectional, F_INT, "0", "1: a query sees no later keys"),
	FIELD(struct ms_attention, do_rotary, F_INT, "0", "1: turn q and k"),
	FIELD(struct ms_attention, rotary_embedding_dim, F_INT, "0", "elements of a head that turn"),
	FIELD(struct ms_attention, past_present_share_buffer, F_INT, "0",
	      "1: present is past's buffer"),
	FIELD(struct ms_attention, qkv_hidden_sizes, F_INTS, NULL, "sizes of q, k and v"),
	FIELD(struct ms_attention, mask_filter_value, F_FLOAT, "-10000", "score of what is masked"),
	FIELD(struct ms_attention, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)"),
	{0}};
static const struct field mha_attrs[] = {
	FIELD_REQ(struct multi_head, num_heads, F_INT, "heads"),
	FIELD(struct multi_head, unidirectional, F_INT, "0", "1: a query sees no later keys"),
	FIELD(struct multi_head, mask_filter_value, F_FLOAT, "-10000", "score of what is masked"),
	FIELD(struct multi_head, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)"),
	{0}};
static const struct field gqa_attrs[] = {
	FIELD_REQ(struct group_query, num_heads, F_INT, "heads of the query"),
	FIELD_REQ(struct group_query, kv_num_heads, F_INT, "heads of key and value"),
	FIELD(struct group_query, local_window_size, F_INT, "-1",
	      "keys seen before the query; -1: all"),
	FIELD(struct group_query, do_rotary, F_INT, "0", "1: turn q and k"),
	FIELD(struct group_query, rotary_interleaved, F_INT, "0", "1: pairs lie side by side"),
	FIELD(struct group_query, smooth_softmax, F_INT, "-1", "1: the softmax has one more score, 0"),
	FIELD(struct group_query, qk_output, F_INT, "0", "what output_qk is"),
	FIELD(struct group_query, kv_cache_bit_width, F_INT, "0", "of a quantized cache"),
	FIELD(struct group_query, sliding_window_cache, F_INT, "0", "1: the cache is a ring"),
	FIELD(struct group_query, causal, F_INT, "1", "0: every query sees every key"),
	FIELD(struct group_query, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)"),
	FIELD(struct group_query, softcap, F_FLOAT, "0", "bound of the scores; 0: none"),
	FIELD(struct group_query, qk_norm_epsilon, F_FLOAT, "1e-6", "of the norm of q and k"),
	FIELD(struct group_query, q_norm_epsilon, F_FLOAT, NULL, "of the norm of q alone"),
	FIELD(struct group_query, k_norm_epsilon, F_FLOAT, NULL, "of the norm of k alone"),
	FIELD(struct group_query, k_quant_type, F_STRING, "NONE", "of a quantized cache"),
	FIELD(struct group_query, v_quant_type, F_STRING, "NONE", "of a quantized cache"),
	{0}};
#define SPARSE_FIELDS                                                                              \
	FIELD_REQ(struct sparse_attention, num_heads, F_INT, "heads of the query"),                \
		FIELD_REQ(struct sparse_attention, sparse_block_size, F_INT, "positions of a block")
static const struct field sparse_attrs[] = {
	SPARSE_FIELDS,
	FIELD_REQ(struct sparse_attention, kv_num_heads, F_INT, "heads of key and value"),
	FIELD(struct sparse_attention, do_rotary, F_INT, "0", "1: turn q and k"),
	FIELD(struct sparse_attention, rotary_interleaved, F_INT, "0", "1: pairs lie side by side"),
	FIELD(struct sparse_attention, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)"),
	{0}};
static const struct field sparse_mask_attrs[] = {SPARSE_FIELDS, {0}};
static const struct field paged_attrs[] = {
	FIELD_REQ(struct paged_attention, num_heads, F_INT, "heads of the query"),
	FIELD_REQ(struct paged_attention, kv_num_heads, F_INT, "heads of key and value"),
	FIELD(struct paged_attention, do_rotary, F_INT, "0", "1: turn q and k"),
	FIELD(struct paged_attention, rotary_interleaved, F_INT, "0", "1: pairs lie side by side"),
	FIELD(struct paged_attention, rotary_offset, F_INT, "0", "first element of a head that turns"),
	FIELD(struct paged_attention, is_causal, F_INT, "1", "0: every query sees every key"),
	FIELD(struct paged_attention, local_window_size, F_INT, "-1",
	      "keys that a query sees up to its own; -1: all"),
	FIELD(struct paged_attention, v_head_size, F_INT, "0", "of a LATENT cache; 0: all of a head"),
	FIELD(struct paged_attention, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)"),
	FIELD(struct paged_attention, softcap, F_FLOAT, "0", "bound of the scores; 0: none"),
	FIELD(struct paged_attention, qk_norm_epsilon, F_FLOAT, "1e-6", "of the norm of q and k"),
	FIELD_ENUM(struct paged_attention, kv_cache_layout, "SEPARATE", "SEPARATE|LATENT",
		   "LATENT: the values are the first elements of the keys"),
	FIELD_ENUM(struct paged_attention, k_quant_type, "NONE", "NONE|PER_TENSOR|PER_CHANNEL",
		   "of a quantized cache"),
	FIELD_ENUM(struct paged_attention, v_quant_type, "NONE", "NONE|PER_TENSOR|PER_CHANNEL",
		   "of a quantized cache"),
	FIELD(struct paged_attention, k_cache_dtype, F_STRING, "", "type of the cache's elements"),
	FIELD(struct paged_attention, v_cache_dtype, F_STRING, "", "type of the cache's elements"),
	{0}};

const struct op ops_attention[] = {
	{.name = "Attention",
	 .since = 25,
	 .reduced = REDUCED_COMPUTES,
	 .in = attention_in,
	 .out = attention_out,
	 ATTRS(attention_attrs, struct attention),
	 .infer = attention_infer,
	 .macs = attention_macs,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "Attention", .since = 24},
	{.name = "Attention", .since = 23, .in = attention23_in},

	{.name = "FlexAttention",
	 .domain = "ai.onnx.preview",
	 .since = 1,
	 .in = flex_in,
	 .out = flex_out,
	 ATTRS(flex_attrs, struct flex_attention),
	 .infer = flex_infer,
	 .macs = flex_macs,
	 .flags = OP_CONTROL},

	{.name = "LinearAttention",
	 .since = 27,
	 .in = linear_in,
	 .out = linear_out,
	 ATTRS(linear_attrs, struct linear_attention),
	 .infer = linear_infer,
	 .macs = linear_macs,
	 .flags = OP_OPTIONAL_OUT},

	{.name = "LinearAttention",
	 MICROSOFT,
	 .variant = LINEAR_MICROSOFT,
	 .in = ms_linear_in,
	 .out = linear_out,
	 ATTRS(ms_linear_attrs, struct linear_attention),
	 .infer = linear_infer,
	 .macs = linear_macs,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "GatedDeltaNet",
	 MICROSOFT,
	 .in = delta_net_in,
	 .out = delta_net_out,
	 ATTRS(delta_net_attrs, struct delta_net),
	 .infer = delta_net_infer,
	 .macs = delta_net_macs,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "LinearAttentionGate",
	 MICROSOFT,
	 .in = gate_in,
	 .out = gate_out,
	 .infer = gate_infer,
	 .expand_when = gate_expands,
	 .expand = "decay = CastLike(Mul(Softplus(Add(Cast(a) {to=1}, dt_bias)), decay_scale), a); "
		   "beta = Sigmoid(b?)"},

	{.name = "RotaryEmbedding",
	 .since = 23,
	 .reduced = REDUCED_COMPUTES,
	 .in = rotary_in,
	 .out = rotary_out,
	 ATTRS(rotary_attrs, struct rotary),
	 .infer = rotary_infer},

	{.name = "RotaryEmbedding",
	 MICROSOFT,
	 .reduced = REDUCED_COMPUTES,
	 .in = ms_rotary_in,
	 .out = ms_rotary_out,
	 ATTRS(ms_rotary_attrs, struct rotary),
	 .infer = ms_rotary_infer},
	{.name = "MRotaryEmbedding",
	 MICROSOFT,
	 .variant = ROTARY_STREAMS,
	 .reduced = REDUCED_COMPUTES,
	 .in = mrotary_in,
	 .out = ms_rotary_out,
	 ATTRS(mrotary_attrs, struct mrotary),
	 .infer = mrotary_infer},
	{.name = "Attention",
	 MICROSOFT,
	 .in = ms_attention_in,
	 .out = ms_attention_out,
	 ATTRS(ms_attention_attrs, struct ms_attention),
	 .infer = ms_attention_infer,
	 .expand = "p = Add(MatMul(input, weights), bias?); "
		   "output, present = infer::ProjectedAttention(p, "
		   "mask_index?, past?, attention_bias?) {num_heads=$num_heads, "
		   "unidirectional=$unidirectional, do_rotary=$do_rotary, "
		   "past_present_share_buffer=$past_present_share_buffer, "
		   "qkv_hidden_sizes=$qkv_hidden_sizes, "
		   "mask_filter_value=$mask_filter_value, scale=$scale}",
	 .flags = OP_OPTIONAL_OUT},
	{.name = "ProjectedAttention",
	 .domain = "infer",
	 .since = 1,
	 .reduced = REDUCED_COMPUTES,
	 .in = projected_in,
	 .out = ms_attention_out,
	 ATTRS(ms_attention_attrs, struct ms_attention),
	 .infer = projected_infer,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "MultiHeadAttention",
	 MICROSOFT,
	 .reduced = REDUCED_COMPUTES,
	 .in = mha_in,
	 .out = mha_out,
	 ATTRS(mha_attrs, struct multi_head),
	 .infer = mha_infer,
	 .flags = OP_OPTIONAL_OUT},
	{.name = "GroupQueryAttention",
	 MICROSOFT,
	 .reduced = REDUCED_COMPUTES,
	 .in = gqa_in,
	 .out = gqa_out,
	 ATTRS(gqa_attrs, struct group_query),
	 .infer = gqa_infer,
	 .flags = OP_OPTIONAL_OUT},
	/* Rows of the cache that no new key takes stay as they are, which GroupQueryAttention does not promise. */
	{.name = "SparseAttention",
	 MICROSOFT,
	 .in = sparse_in,
	 .out = sparse_out,
	 ATTRS(sparse_attrs, struct sparse_attention),
	 .infer = sparse_infer,
	 .expand =
		 "bias, rest = infer::SparseMask(query, past_key, block_row_indices, block_col_indices, "
		 "total_sequence_length, key_total_sequence_lengths) {num_heads=$num_heads, "
		 "sparse_block_size=$sparse_block_size}; "
		 "output, k, v = com.microsoft::GroupQueryAttention(query, key?, value?, past_key, past_value, "
		 "Sub(key_total_sequence_lengths, 1), total_sequence_length, cos_cache?, sin_cache?, _, bias) "
		 "{num_heads=$num_heads, kv_num_heads=$kv_num_heads, do_rotary=$do_rotary, "
		 "rotary_interleaved=$rotary_interleaved, scale=$scale}; "
		 "present_key = Where(rest, past_key, k); present_value = Where(rest, past_value, v)"},
	{.name = "SparseMask",
	 .domain = "infer",
	 .since = 1,
	 .in = sparse_mask_in,
	 .out = sparse_mask_out,
	 ATTRS(sparse_mask_attrs, struct sparse_attention),
	 .infer = sparse_mask_infer,
	 .flags = OP_INTERNAL},
	{.name = "PagedAttention",
	 MICROSOFT,
	 .in = paged_in,
	 .out = paged_out,
	 ATTRS(paged_attrs, struct paged_attention),
	 .infer = paged_infer,
	 .flags = OP_OPTIONAL_OUT},
	{0}};
