/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/delta_net.h"

#include "ops/attention.h"
#include "ops/infer_util.h"

#include <inttypes.h>

static int64_t dim_of(const struct shape *s, int i)
{
	return i >= 0 && i < s->rank ? s->dim[i] : DIM_UNKNOWN;
}

static int64_t first_known(int64_t a, int64_t b)
{
	return a != DIM_UNKNOWN ? a : b;
}

struct delta_net_sizes delta_net_sizes(const struct shape *in, const bool *has)
{
	const struct shape *q = &in[NET_Q], *k = &in[NET_K], *v = &in[NET_V], *s = &in[NET_STATE],
			   *starts = &in[NET_STARTS];
	struct delta_net_sizes z = {.packed = !has[NET_K]};

	z.lead = q->rank < 0 ? 0 : q->rank - (z.packed ? 1 : 2);
	z.vheads = first_known(z.packed ? DIM_UNKNOWN : dim_of(v, v->rank - 2), dim_of(s, 1));
	z.vsize = first_known(z.packed ? DIM_UNKNOWN : dim_of(v, v->rank - 1), dim_of(s, 2));
	z.size = z.packed ? dim_of(s, 3)
			  : first_known(dim_of(q, q->rank - 1), dim_of(k, k->rank - 1));
	z.heads = z.packed ? DIM_UNKNOWN
			   : first_known(dim_of(q, q->rank - 2), dim_of(k, k->rank - 2));
	if (z.packed) {
		int64_t all = dim_of(q, q->rank - 1), values = known_product(z.vheads, z.vsize);
		if (all >= 0 && values >= 0 && all >= values && z.size > 0)
			z.heads = (all - values) / 2 / z.size;
	}
	z.tokens = z.lead == 2	 ? known_product(q->dim[0], q->dim[1])
		   : z.lead == 1 ? q->dim[0]
				 : DIM_UNKNOWN;
	z.batch = z.lead == 2 ? q->dim[0] : dim_of(s, 0);
	if (has[NET_STARTS])
		z.batch = dim_of(starts, 0) > 0 ? starts->dim[0] - 1 : dim_of(s, 0);
	/* without a decay, and with one for each head, a head has one factor */
	const struct shape *g = &in[NET_DECAY];
	z.width = z.vheads;
	if (has[NET_DECAY])
		z.width = g->rank < 0 || !z.lead  ? DIM_UNKNOWN
			  : g->rank == z.lead + 2 ? known_product(z.vheads, z.size)
						  : z.vheads;
	return z;
}

static int size_fail(const struct infer *c, int slot, const char *expected)
{
	struct shape s = infer_shape(c, (uint32_t)slot);

	return infer_fail(c, E_SHAPE, slot, expected, infer_shape_text(c, &s));
}

/* Whether an input is given exactly if it is wanted. */
static int check_given(const struct infer *c, uint32_t i, bool wanted, const char *why)
{
	if (wanted == (infer_in(c, i) != NULL))
		return 0;
	return infer_fail(c, E_OP_INPUTS, (int)i,
			  wanted ? fmt(c->diag, "a tensor, %s", why) : fmt(c->diag, "none, %s", why),
			  wanted ? "none" : "a tensor");
}

static int check_inputs(const struct infer *c)
{
	const struct delta_net *p = infer_params(c);
	bool gated = p->update_rule == RULE_GATED || p->update_rule == RULE_GATED_DELTA;
	bool delta = p->update_rule == RULE_DELTA || p->update_rule == RULE_GATED_DELTA;
	bool raw = p->gate_activation != GATE_NONE && gated, capture = p->state_update_capacity > 0;
	int err;

	if (p->state_update_capacity < 0 || p->state_update_capacity > MAX_STATE_UPDATES)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "state_update_capacity from 0 to %d", MAX_STATE_UPDATES),
				  fmt(c->diag, "%" PRId64, p->state_update_capacity));
	if ((err = check_given(c, NET_DECAY, gated, "as update_rule says")) ||
	    (err = check_given(c, NET_BETA, delta, "as update_rule says")) ||
	    (err = check_given(c, NET_A_LOG, raw, "as gate_activation says")) ||
	    (err = check_given(c, NET_BIAS, raw, "as gate_activation says")) ||
	    (err = check_given(c, NET_COUNT, capture, "as state_update_capacity says")))
		return err;
	if (infer_out(c, 2) && !capture)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "a state_update_capacity of at least 1 for the output state_update",
				  "0");
	enum dtype gate = infer_dtype(c, gated ? NET_DECAY : NET_BETA);
	if ((gated || delta) && gate != DT_F32 && gate != infer_dtype(c, NET_Q))
		return infer_fail(c, E_TYPE, gated ? NET_DECAY : NET_BETA,
				  "f32 or the type of query", dtype_name(gate));
	if (!infer_in(c, NET_STATE) && !infer_in(c, NET_K))
		return infer_fail(c, E_OP_INPUTS, NET_STATE,
				  "initial_state, as query, key and value are packed", "none");
	return 0;
}

/* Checks an input of these dimensions; those of `lead` are the tokens. */
static int check_dims(const struct infer *c, uint32_t i, const struct shape *want)
{
	struct shape s = infer_shape(c, i);
	int64_t same;
	int err = 0;

	if (s.rank < 0)
		return 0;
	if (s.rank != want->rank)
		return size_fail(c, (int)i, fmt(c->diag, "rank %d", want->rank));
	for (int k = 0; k < s.rank && !err; k++)
		err = infer_unify(c, (int)i, want->dim[k], s.dim[k], &same);
	return err;
}

/* The shape of an input of tokens: the leading dimensions of query, then a and, if it is not 0, b. */
static struct shape token_shape(const struct shape *q, const struct delta_net_sizes *z, int64_t a,
				int64_t b)
{
	struct shape s = {.rank = z->lead + (b ? 2 : 1)};

	for (int k = 0; k < z->lead; k++)
		s.dim[k] = q->dim[k];
	s.dim[z->lead] = a;
	if (b)
		s.dim[z->lead + 1] = b;
	return s;
}

static int check_heads(const struct infer *c, const struct delta_net_sizes *z)
{
	struct shape q = infer_shape(c, NET_Q);
	int64_t all = z->packed ? dim_of(&q, q.rank - 1) : -1;

	if (z->size == 0 || z->vsize == 0 || z->heads == 0 || z->vheads == 0)
		return size_fail(c, z->packed ? NET_STATE : NET_Q, "heads of at least one element");
	if (all >= 0 && z->heads > 0 && z->vheads > 0 && z->vsize > 0 &&
	    all != 2 * z->heads * z->size + z->vheads * z->vsize)
		return size_fail(c, NET_Q, "the heads of query, key and value that initial_state has");
	if (z->heads > 0 && z->vheads > 0 && z->vheads % z->heads)
		return size_fail(
			c, z->packed ? NET_STATE : NET_V,
			fmt(c->diag, "a number of heads that is a multiple of %" PRId64, z->heads));
	return 0;
}

static int check_tokens(const struct infer *c, const struct delta_net_sizes *z)
{
	struct shape q = infer_shape(c, NET_Q);
	struct shape k = token_shape(&q, z, z->heads, z->size),
		     v = token_shape(&q, z, z->vheads, z->vsize),
		     beta = token_shape(&q, z, z->vheads, 0), g = infer_shape(c, NET_DECAY);
	int err = 0;

	if (z->lead < 1 || z->lead > 2)
		return size_fail(c, NET_Q, z->packed ? "rank 2 or 3" : "rank 3 or 4");
	if (infer_in(c, NET_STARTS) && z->lead == 2)
		return size_fail(c, NET_Q, "tokens in one dimension, as cu_seqlens is given");
	if (!infer_in(c, NET_STARTS) && z->lead == 1 && !infer_in(c, NET_STATE))
		return infer_fail(c, E_OP_INPUTS, NET_STATE,
				  "initial_state or cu_seqlens, which tell the number of sequences",
				  "none");
	if (!infer_in(c, NET_STARTS) && z->tokens >= 0 && z->batch >= 0 &&
	    (z->batch ? z->tokens % z->batch : z->tokens))
		return size_fail(c, NET_Q, fmt(c->diag, "a multiple of %" PRId64 " tokens", z->batch));
	if (!z->packed && ((err = check_dims(c, NET_K, &k)) || (err = check_dims(c, NET_V, &v))))
		return err;
	struct shape decay = g.rank == z->lead + 2 ? token_shape(&q, z, z->vheads, z->size) : beta;
	if (infer_in(c, NET_DECAY))
		err = check_dims(c, NET_DECAY, &decay);
	return !err && infer_in(c, NET_BETA) ? check_dims(c, NET_BETA, &beta) : err;
}

/* The inputs that have no tokens. */
static int check_others(const struct infer *c, const struct delta_net_sizes *z)
{
	struct shape state = shape_of(4, (int64_t[]){z->batch, z->vheads, z->vsize, z->size}),
		     heads = shape_of(1, &z->vheads), count = shape_of(1, &z->batch),
		     starts = infer_shape(c, NET_STARTS), bias = infer_shape(c, NET_BIAS);
	int err = 0;

	if (infer_in(c, NET_STARTS) && starts.rank >= 0 && (starts.rank != 1 || starts.dim[0] == 0))
		return size_fail(c, NET_STARTS, "rank 1, with at least one number");
	if (infer_in(c, NET_STATE))
		err = check_dims(c, NET_STATE, &state);
	if (!err && infer_in(c, NET_A_LOG))
		err = check_dims(c, NET_A_LOG, &heads);
	if (!err && infer_in(c, NET_COUNT))
		err = check_dims(c, NET_COUNT, &count);
	if (err || !infer_in(c, NET_BIAS))
		return err;
	int64_t n = shape_count(&bias), each = known_product(z->vheads, z->size);
	if (n >= 0 && z->vheads >= 0 && n != z->vheads && z->width >= 0 && each >= 0 &&
	    (n != each || z->width != each))
		return size_fail(c, NET_BIAS,
				 "an element for each head, or for each decay of a token");
	return 0;
}

int delta_net_infer(struct infer *c)
{
	const struct delta_net *p = infer_params(c);
	struct shape in[NET_INPUTS];
	bool has[NET_INPUTS];
	int err = check_inputs(c);

	for (uint32_t i = 0; i < NET_INPUTS; i++) {
		in[i] = infer_shape(c, i);
		has[i] = infer_in(c, i) != NULL;
	}
	struct delta_net_sizes z = delta_net_sizes(in, has);
	if (!err && in[NET_Q].rank >= 0)
		err = check_tokens(c, &z);
	if (err || (err = check_heads(c, &z)) || (err = check_others(c, &z)))
		return err;
	struct shape y = SHAPE_UNKNOWN,
		     state = shape_of(4, (int64_t[]){z.batch, z.vheads, z.vsize, z.size});
	if (in[NET_Q].rank >= 0)
		y = token_shape(&in[NET_Q], &z, z.vheads, z.vsize);
	int64_t factors = known_product(z.heads, z.size), deltas = known_product(z.vheads, z.vsize),
		one;
	if (z.width < 0 || factors < 0 || deltas < 0 ||
	    __builtin_add_overflow(z.width, factors, &one) ||
	    __builtin_add_overflow(one, deltas, &one))
		one = DIM_UNKNOWN;
	struct shape update =
		shape_of(2, (int64_t[]){z.batch, known_product(one, p->state_update_capacity)});
	infer_set(c, 0, infer_dtype(c, NET_Q), &y);
	infer_set(c, 1, DT_F32, &state);
	infer_set(c, 2, DT_F32, &update);
	return 0;
}

int64_t delta_net_macs(const struct infer *c)
{
	struct shape in[NET_INPUTS];
	bool has[NET_INPUTS];

	for (uint32_t i = 0; i < NET_INPUTS; i++) {
		in[i] = infer_shape(c, i);
		has[i] = infer_in(c, i) != NULL;
	}
	struct delta_net_sizes z = delta_net_sizes(in, has);
	int64_t n = known_product(known_product(z.tokens, z.vheads), known_product(z.vsize, z.size));
	n = known_product(n, 2);
	return n < 0 ? 0 : n;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define NF (T_F32 | T_F16 | T_BF16)
const struct slot delta_net_in[] = {SLOT("query", "T", NF),
				    SLOT_OPT("key", "T", NF, .with = "value"),
				    SLOT_OPT("value", "T", NF, .with = "key"),
				    SLOT_OPT("cu_seqlens", "TI", T_I32),
				    SLOT_OPT("decay", "TG", NF),
				    SLOT_OPT("beta", "TG", NF),
				    SLOT_OPT("initial_state", "TS", T_F32),
				    SLOT_OPT("a_log", "TS", T_F32),
				    SLOT_OPT("dt_bias", "TS", T_F32),
				    SLOT_OPT("capture_count", "TI", T_I32),
				    SLOT_OPT("state_update_active", "TI", T_I32, .dims = "1"),
				    SLOT_END};
const struct slot delta_net_out[] = {SLOT("output", "T", NF), SLOT_OPT("final_state", "TS", T_F32),
				     SLOT_OPT("state_update", "TS", T_F32), SLOT_END};
const struct field delta_net_attrs[] = {
	FIELD(struct delta_net, state_update_capacity, F_INT, "0",
	      "updates that state_update can take"),
	FIELD(struct delta_net, chunk_size, F_INT, "64", "a hint for other runtimes; not used"),
	FIELD(struct delta_net, qk_l2_norm, F_INT, "0", "1: query and key of each head get length 1"),
	FIELD(struct delta_net, scale, F_FLOAT, "0", "of the output; 0: 1 / sqrt(head size)"),
	FIELD(struct delta_net, gate_lower_bound, F_FLOAT, "-5",
	      "of the decay, by gate_activation sigmoid"),
	FIELD_ENUM(struct delta_net, update_rule, "gated_delta", "linear|gated|delta|gated_delta",
		   "how the state is updated"),
	FIELD_ENUM(struct delta_net, gate_activation, "none", "none|softplus|sigmoid|qwen|kda",
		   "what makes the decay of the input decay"),
	FIELD_ENUM(struct delta_net, beta_activation, "none", "none|sigmoid", "of beta"),
	{0}};
