/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that run bodies (subgraphs): If, Loop, Scan, SequenceMap. */
#include "ops/control.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>

/* Reduces *a to what holds for both *a and *b: dims or ranks that differ become unknown. Returns true if *a changed. */
static bool merge_info(struct vinfo *a, const struct vinfo *b)
{
	bool changed = false;

	if (a->type.kind == V_NONE && b->type.kind != V_NONE) {
		a->type = b->type;
		changed = true;
	}
	if (a->shape.rank < 0)
		return changed;
	if (a->shape.rank != b->shape.rank) {
		a->shape = SHAPE_UNKNOWN;
		return true;
	}
	for (int i = 0; i < a->shape.rank; i++) {
		if (a->shape.dim[i] == b->shape.dim[i] || a->shape.dim[i] == DIM_UNKNOWN)
			continue;
		a->shape.dim[i] = DIM_UNKNOWN;
		changed = true;
	}
	return changed;
}

/* Type and shape of v without its known elements, which change from one iteration to the next. */
static struct vinfo without_elements(const struct vinfo *v)
{
	return v ? (struct vinfo){.type = v->type, .shape = v->shape}
		 : (struct vinfo){.shape = SHAPE_UNKNOWN};
}

static void set_output(struct infer *c, uint32_t i, const struct vinfo *v)
{
	struct vinfo *o = infer_out(c, i);

	if (!o)
		return;
	*o = without_elements(v);
	if (o->type.kind != V_TENSOR)
		o->shape = SHAPE_UNKNOWN;
}

static const struct graph *body_of(const struct infer *c, int k)
{
	return k >= 0 && (uint32_t)k < c->node->nsub ? c->node->sub[k] : NULL;
}

static int check_body_count(const struct infer *c, const struct graph *g, const char *what,
			    uint32_t want, uint32_t have)
{
	if (!g)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "a body", "none");
	if (want != have)
		return infer_fail(c, E_OP_INPUTS, -1, fmt(c->diag, "a body of %u %s", want, what),
				  fmt(c->diag, "%u", have));
	return 0;
}

/* ---- If ------------------------------------------------------------------------------------------ */

static int infer_branch(struct infer *c, int k, struct vinfo **out)
{
	const struct graph *g = body_of(c, k);
	int err = check_body_count(c, g, "inputs", 0, g ? g->nin : 0);

	if (!err)
		err = check_body_count(c, g, "outputs", c->node->nout, g->nout);
	if (err)
		return err;
	*out = arena_new_n(c->arena, struct vinfo, g->nout + 1);
	return c->body(c, (uint32_t)k, NULL, *out);
}

static int if_infer(struct infer *c)
{
	const struct if_params *p = infer_params(c);
	struct vinfo *yes, *no;
	struct int_list cond;
	const struct vinfo *v = infer_in(c, 0);
	int err = infer_branch(c, p->then_branch, &yes);

	if (!err)
		err = infer_branch(c, p->else_branch, &no);
	if (err)
		return err;
	bool known = v && v->known && list_of(v->known, &cond) && cond.n == 1;
	for (uint32_t i = 0; i < c->node->nout; i++) {
		struct vinfo o = without_elements(&yes[i]), e = without_elements(&no[i]);
		if (known)
			o = cond.v[0] ? o : e;
		else
			merge_info(&o, &e);
		if (o.type.kind == V_TENSOR && e.type.kind == V_TENSOR &&
		    o.type.dtype != e.type.dtype && !known && o.type.dtype && e.type.dtype)
			return infer_fail(c, E_TYPE, -1, "branches of the same type",
					  fmt(c->diag, "%s and %s",
					      dtype_name((enum dtype)o.type.dtype),
					      dtype_name((enum dtype)e.type.dtype)));
		set_output(c, i, &o);
	}
	return 0;
}

/* ---- loops ------------------------------------------------------------------------------------------ */

/*
 * Fails if the body gives the carried value whose initial value is input `input` of the node, another element type than it took.
 * Only what has none yet, as an empty optional, may get one.
 */
static int check_carried(struct infer *c, uint32_t input, const struct vinfo *before,
			 const struct vinfo *after)
{
	const struct type *b = &before->type, *a = &after->type;
	bool open = b->kind == V_NONE || a->kind == V_NONE || b->kind == V_OPTIONAL ||
		    a->kind == V_OPTIONAL;

	if (open || (b->kind == a->kind && (!b->dtype || !a->dtype || b->dtype == a->dtype)))
		return 0;
	return infer_fail(c, E_TYPE, (int)input,
			  fmt(c->diag, "%s, as the body gives it back", type_str(c->arena, *a)),
			  type_str(c->arena, *b));
}

/*
 * Infers body k again and again until its n carried values (inputs from `at` on, outputs from `oat` on; those of the node
 * from `first` on) keep type and shape. Dims that change become unknown, so the repetition ends.
 */
static int infer_until_stable(struct infer *c, uint32_t k, uint32_t first, struct vinfo *in,
			      uint32_t at, struct vinfo *out, uint32_t oat, uint32_t n)
{
	for (bool again = true; again;) {
		int err = c->body(c, k, in, out);
		if (err)
			return err;
		for (uint32_t i = 0; i < n && !err; i++)
			err = check_carried(c, first + i, &in[at + i], &out[oat + i]);
		if (err)
			return err;
		again = false;
		for (uint32_t i = 0; i < n; i++)
			again |= merge_info(&in[at + i], &out[oat + i]);
	}
	return 0;
}

/*
 * Type and shape of formal input i of the body, a tensor of one element: the shape that the file declares if that has
 * one element, otherwise a scalar.
 */
static struct vinfo formal_of_one(const struct graph *g, uint32_t i, enum dtype t)
{
	const struct shape *s = &g->value[g->in[i]]->info.shape;
	struct vinfo v = {.type = type_tensor(t)};

	if (shape_count(s) == 1)
		v.shape = *s;
	return v;
}

/* Number of iterations if the trip count is known and the condition certainly stays true; otherwise DIM_UNKNOWN. */
static int64_t loop_turns(const struct infer *c, const struct vinfo *cond_out)
{
	const struct vinfo *m = infer_in(c, 0), *cond = infer_in(c, 1);
	struct int_list l;

	if (cond && (!cond->known || !list_of(cond->known, &l) || l.n != 1 || !l.v[0] ||
		     !cond_out->known || !list_of(cond_out->known, &l) || l.n != 1 || !l.v[0]))
		return DIM_UNKNOWN;
	if (!m || !m->known || !list_of(m->known, &l) || l.n != 1)
		return DIM_UNKNOWN;
	return l.v[0] < 0 ? 0 : l.v[0];
}

static int set_stacked_output(struct infer *c, uint32_t i, const struct vinfo *element,
			      int64_t axis, int64_t turns)
{
	struct vinfo o = without_elements(element);

	if (o.shape.rank >= MAX_RANK)
		return infer_fail(c, E_RANK, -1, fmt(c->diag, "at most %d", MAX_RANK - 1),
				  fmt(c->diag, "%d", o.shape.rank));
	if (o.shape.rank >= 0) {
		int a = axis_of(axis, o.shape.rank + 1);
		if (a < 0)
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  fmt(c->diag, "an axis within rank %d", o.shape.rank + 1),
					  fmt(c->diag, "%" PRId64, axis));
		for (int k = o.shape.rank++; k > a; k--)
			o.shape.dim[k] = o.shape.dim[k - 1];
		o.shape.dim[a] = turns;
	}
	set_output(c, i, &o);
	return 0;
}

static int loop_infer(struct infer *c)
{
	const struct loop_params *p = infer_params(c);
	const struct graph *g = body_of(c, p->body);
	uint32_t n = c->node->nin > 2 ? c->node->nin - 2 : 0;
	struct shape scalar = {0};
	int err = check_body_count(c, g, "inputs", n + 2, g ? g->nin : 0);

	if (!err && (g->nout < n + 1 || c->node->nout > g->nout - 1))
		err = infer_fail(c, E_OP_INPUTS, -1,
				 fmt(c->diag, "a body of %u output%s", c->node->nout + 1,
				     c->node->nout ? "s" : ""),
				 fmt(c->diag, "%u", g->nout));
	if (err)
		return err;
	struct vinfo *in = arena_new_n(c->arena, struct vinfo, g->nin + 1);
	struct vinfo *out = arena_new_n(c->arena, struct vinfo, g->nout + 1);
	in[0] = formal_of_one(g, 0, DT_I64);
	in[1] = formal_of_one(g, 1, DT_BOOL);
	/* whenever the body runs, the condition is true */
	struct tensor *yes = tensor_new(c->arena, DT_BOOL, in[1].shape.rank ? &in[1].shape : &scalar);
	*(uint8_t *)yes->data = 1;
	in[1].known = yes;
	for (uint32_t i = 0; i < n; i++)
		in[2 + i] = without_elements(infer_in(c, 2 + i));
	err = infer_until_stable(c, (uint32_t)p->body, 2, in, 2, out, 1, n);
	if (!err && out[0].type.kind == V_TENSOR && out[0].type.dtype && out[0].type.dtype != DT_BOOL)
		err = infer_fail(c, E_TYPE, -1, "bool as condition of the body",
				 dtype_name((enum dtype)out[0].type.dtype));
	if (err)
		return err;
	for (uint32_t i = 0; i < n; i++) {
		/* when the body changes a type (an empty optional that gets its element type), the body's output has the final type */
		struct vinfo o = in[2 + i];
		if (out[1 + i].type.kind != V_NONE)
			o.type = out[1 + i].type;
		set_output(c, i, &o);
	}
	int64_t turns = loop_turns(c, &out[0]);
	for (uint32_t i = n; i < c->node->nout && !err; i++)
		err = set_stacked_output(c, i, &out[1 + i], 0, turns);
	return err;
}

/* ---- Scan ------------------------------------------------------------------------------------------------ */

static int check_scan_lists(const struct infer *c, const struct scan_params *p, uint32_t nstate)
{
	int64_t m = p->num_scan_inputs, k = (int64_t)c->node->nout - nstate;
	const struct ints *in[] = {&p->scan_input_axes, &p->scan_input_directions};
	const struct ints *out[] = {&p->scan_output_axes, &p->scan_output_directions};

	for (int i = 0; i < 2; i++)
		if ((in[i]->n >= 0 && in[i]->n != m) || (out[i]->n >= 0 && out[i]->n < k))
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  "axes and directions for each input and output",
					  "another count");
	return 0;
}

/*
 * Sets *v to one slice of scanned input i: the input's shape without the axis. *turns, the number of iterations, is
 * unified with the size of the axis.
 */
static int scan_slice(const struct infer *c, uint32_t i, int64_t axis, struct vinfo *v, int64_t *turns)
{
	*v = without_elements(infer_in(c, i));
	if (v->shape.rank < 0)
		return 0;
	int a = axis_of(axis, v->shape.rank);
	if (a < 0)
		return infer_fail(c, E_OP_ATTRIBUTE, (int)i,
				  fmt(c->diag, "an axis within rank %d", v->shape.rank),
				  fmt(c->diag, "%" PRId64, axis));
	int err = infer_unify(c, (int)i, *turns, v->shape.dim[a], turns);
	v->shape.rank--;
	for (int k = a; k < v->shape.rank; k++)
		v->shape.dim[k] = v->shape.dim[k + 1];
	return err;
}

static int scan_infer(struct infer *c)
{
	const struct scan_params *p = infer_params(c);
	const struct graph *g = body_of(c, p->body);
	int64_t m = p->num_scan_inputs, turns = DIM_UNKNOWN;
	int err = check_body_count(c, g, "inputs", c->node->nin, g ? g->nin : 0);

	if (err)
		return err;
	if (m < 1 || m > c->node->nin)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "num_scan_inputs from 1 to %u", c->node->nin),
				  fmt(c->diag, "%" PRId64, m));
	uint32_t n = c->node->nin - (uint32_t)m;
	err = check_body_count(c, g, "outputs", c->node->nout, g->nout);
	if (!err && c->node->nout < n)
		err = infer_fail(c, E_OP_INPUTS, -1,
				 fmt(c->diag, "at least %u output%s", n, n == 1 ? "" : "s"), NULL);
	if (!err)
		err = check_scan_lists(c, p, n);
	if (err)
		return err;
	struct vinfo *in = arena_new_n(c->arena, struct vinfo, g->nin + 1);
	struct vinfo *out = arena_new_n(c->arena, struct vinfo, g->nout + 1);
	for (uint32_t i = 0; i < n; i++)
		in[i] = without_elements(infer_in(c, i));
	for (uint32_t i = n; i < c->node->nin && !err; i++)
		err = scan_slice(c, i, p->scan_input_axes.n < 0 ? 0 : p->scan_input_axes.v[i - n],
				 &in[i], &turns);
	if (!err)
		err = infer_until_stable(c, (uint32_t)p->body, 0, in, 0, out, 0, n);
	for (uint32_t i = 0; i < n && !err; i++)
		set_output(c, i, &in[i]);
	for (uint32_t i = n; i < c->node->nout && !err; i++)
		err = set_stacked_output(c, i, &out[i],
					 p->scan_output_axes.n < 0 ? 0 : p->scan_output_axes.v[i - n],
					 turns);
	return err;
}

/* ---- Scan of opset 8 ---------------------------------------------------------------------------------------- */

/*
 * Sets *v to one slice of input i: the input's shape without dim 0 (the batch) and, if the input is scanned, without
 * dim 1 (the sequence).
 */
static int batched_slice(const struct infer *c, uint32_t i, bool scanned, struct vinfo *v,
			 int64_t *batch, int64_t *turns)
{
	int drop = scanned ? 2 : 1, err;

	*v = without_elements(infer_in(c, i));
	if (v->shape.rank < 0)
		return 0;
	if (v->shape.rank < drop)
		return infer_fail(c, E_SHAPE, (int)i, fmt(c->diag, "rank %d or more", drop),
				  fmt(c->diag, "rank %d", v->shape.rank));
	err = infer_unify(c, (int)i, *batch, v->shape.dim[0], batch);
	if (!err && scanned)
		err = infer_unify(c, (int)i, *turns, v->shape.dim[1], turns);
	v->shape.rank -= drop;
	for (int k = 0; k < v->shape.rank; k++)
		v->shape.dim[k] = v->shape.dim[k + drop];
	return err;
}

static int batched_scan_infer(struct infer *c)
{
	const struct batched_scan_params *p = infer_params(c);
	const struct graph *g = body_of(c, p->body);
	int64_t m = p->num_scan_inputs, turns = DIM_UNKNOWN, batch = DIM_UNKNOWN;
	uint32_t nin = c->node->nin ? c->node->nin - 1 : 0;
	int err = check_body_count(c, g, "inputs", nin, g ? g->nin : 0);

	if (!err)
		err = check_body_count(c, g, "outputs", c->node->nout, g->nout);
	if (!err && (m < 1 || m > nin || (p->directions.n >= 0 && p->directions.n != m)))
		err = infer_fail(c, E_OP_ATTRIBUTE, -1,
				 "num_scan_inputs and directions that fit the inputs", NULL);
	uint32_t n = nin - (uint32_t)m;
	if (!err && c->node->nout < n)
		err = infer_fail(c, E_OP_INPUTS, -1,
				 fmt(c->diag, "at least %u output%s", n, n == 1 ? "" : "s"), NULL);
	if (err)
		return err;
	struct vinfo *in = arena_new_n(c->arena, struct vinfo, g->nin + 1);
	struct vinfo *out = arena_new_n(c->arena, struct vinfo, g->nout + 1);
	for (uint32_t i = 0; i < nin && !err; i++)
		err = batched_slice(c, i + 1, i >= n, &in[i], &batch, &turns);
	if (!err)
		err = infer_until_stable(c, (uint32_t)p->body, 1, in, 0, out, 0, n);
	for (uint32_t i = 0; i < c->node->nout && !err; i++) {
		struct vinfo o = i < n ? in[i] : out[i];
		if (i >= n) {
			err = set_stacked_output(c, i, &o, 0, turns);
			o = infer_out(c, i) ? *infer_out(c, i) : o;
		}
		if (!err)
			err = set_stacked_output(c, i, &o, 0, batch);
	}
	return err;
}

static int scan8_upgrade(struct edit *e)
{
	struct batched_scan_params old = *(const struct batched_scan_params *)e->node->params;

	*(struct batched_scan_params *)edit_become(e, "infer::BatchedScan") = old;
	return 0;
}

/* ---- SequenceMap ------------------------------------------------------------------------------------------------ */

static int sequence_map_infer(struct infer *c)
{
	const struct sequence_map_params *p = infer_params(c);
	const struct graph *g = body_of(c, p->body);
	int err = check_body_count(c, g, "inputs", c->node->nin, g ? g->nin : 0);

	if (!err)
		err = check_body_count(c, g, "outputs", c->node->nout, g->nout);
	if (err)
		return err;
	struct vinfo *in = arena_new_n(c->arena, struct vinfo, g->nin + 1);
	struct vinfo *out = arena_new_n(c->arena, struct vinfo, g->nout + 1);
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct vinfo *v = infer_in(c, i);
		in[i] = without_elements(v);
		if (v && v->type.kind == V_SEQUENCE) {
			in[i].type = (struct type){
				.kind = v->type.of, .of = v->type.of_of, .dtype = v->type.dtype};
			in[i].shape = SHAPE_UNKNOWN;
		}
	}
	err = c->body(c, (uint32_t)p->body, in, out);
	for (uint32_t i = 0; i < g->nout && !err; i++) {
		struct vinfo *o = infer_out(c, i);
		if (o)
			o->type = (struct type){
				.kind = V_SEQUENCE, .of = V_TENSOR, .dtype = out[i].type.dtype};
	}
	return err;
}

/* ---- the rows ----------------------------------------------------------------------------------------------------- */

#define T_ANY (T_ALL | T_SEQ | T_OPT)
static const struct slot if_in[] = {{.name = "cond", .types = T_BOOL}, SLOT_END};
static const struct slot if_out[] = {
	{.name = "outputs", .types = T_ANY, .variadic = true, .heterogeneous = true, .optional = true},
	SLOT_END};
static const struct slot loop_in[] = {
	{.name = "M", .types = T_I64, .optional = true},
	{.name = "cond", .types = T_BOOL, .optional = true},
	{.name = "v_initial", .types = T_ANY, .variadic = true, .heterogeneous = true, .optional = true},
	SLOT_END};
static const struct slot loop_out[] = {{.name = "v_final_and_scan_outputs",
					.types = T_ANY,
					.variadic = true,
					.heterogeneous = true,
					.optional = true},
				       SLOT_END};
static const struct slot scan_in[] = {{.name = "initial_state_and_scan_inputs",
				       .types = T_ALL,
				       .variadic = true,
				       .heterogeneous = true},
				      SLOT_END};
static const struct slot scan8_in[] = {{.name = "sequence_lens", .types = T_I64, .optional = true},
				       {.name = "initial_state_and_scan_inputs",
					.types = T_ALL,
					.variadic = true,
					.heterogeneous = true},
				       SLOT_END};
static const struct slot scan_outs[] = {
	{.name = "final_state_and_scan_outputs", .types = T_ALL, .variadic = true, .heterogeneous = true},
	SLOT_END};
static const struct slot map_in[] = {{.name = "input_sequence", .types = T_ALL | T_SEQ},
				     {.name = "additional_inputs",
				      .types = T_ALL | T_SEQ,
				      .variadic = true,
				      .heterogeneous = true,
				      .optional = true},
				     SLOT_END};
static const struct slot map_out[] = {
	{.name = "out_sequence", .types = T_ALL | T_SEQ, .variadic = true, .heterogeneous = true},
	SLOT_END};

static const struct field if_attrs[] = {
	FIELD_REQ(struct if_params, else_branch, F_GRAPH, "what runs where cond is false"),
	FIELD_REQ(struct if_params, then_branch, F_GRAPH, "what runs where cond is true"),
	{0}};
static const struct field loop_attrs[] = {
	FIELD_REQ(struct loop_params, body, F_GRAPH, "what a turn runs"), {0}};
static const struct field scan_attrs[] = {
	FIELD_REQ(struct scan_params, body, F_GRAPH, "what a turn runs"),
	FIELD_REQ(struct scan_params, num_scan_inputs, F_INT, "how many of the inputs are scanned"),
	FIELD(struct scan_params, scan_input_axes, F_INTS, NULL,
	      "axis of each scanned input; default 0"),
	FIELD(struct scan_params, scan_input_directions, F_INTS, NULL, "1: from the end"),
	FIELD(struct scan_params, scan_output_axes, F_INTS, NULL,
	      "axis of each scan output; default 0"),
	FIELD(struct scan_params, scan_output_directions, F_INTS, NULL, "1: prepend"),
	{0}};
static const struct field batched_attrs[] = {
	FIELD_REQ(struct batched_scan_params, body, F_GRAPH, "what a turn runs"),
	FIELD_REQ(struct batched_scan_params, num_scan_inputs, F_INT,
		  "how many of the inputs are scanned"),
	FIELD(struct batched_scan_params, directions, F_INTS, NULL, "1: from the end"),
	{0}};
static const struct field map_attrs[] = {
	FIELD_REQ(struct sequence_map_params, body, F_GRAPH, "what runs for each element"), {0}};

#define OLD_24_TO_16(name_)                                                                        \
	OLD(name_, 24, 0), OLD(name_, 23, 0), OLD(name_, 21, 0), OLD(name_, 19, 0),                \
		OLD(name_, 16, 0)

/*
 * Old versions allow fewer types for values passed to bodies, but the slots accept the newest version's types in all
 * versions.
 */
const struct op ops_control[] = {{.name = "If",
				  .since = 25,
				  .in = if_in,
				  .out = if_out,
				  ATTRS(if_attrs, struct if_params),
				  .infer = if_infer,
				  .flags = OP_BRANCHES | OP_CONTROL},
				 OLD_24_TO_16("If"),
				 OLD("If", 13, 0),
				 OLD("If", 11, 0),
				 OLD("If", 1, 0),
				 {.name = "Loop",
				  .since = 25,
				  .in = loop_in,
				  .out = loop_out,
				  ATTRS(loop_attrs, struct loop_params),
				  .infer = loop_infer,
				  .flags = OP_CONTROL | OP_OPTIONAL_OUT},
				 OLD_24_TO_16("Loop"),
				 OLD("Loop", 13, 0),
				 OLD("Loop", 11, 0),
				 OLD("Loop", 1, 0),
				 {.name = "Scan",
				  .since = 25,
				  .in = scan_in,
				  .out = scan_outs,
				  ATTRS(scan_attrs, struct scan_params),
				  .infer = scan_infer,
				  .flags = OP_CONTROL | OP_OPTIONAL_OUT},
				 OLD_24_TO_16("Scan"),
				 OLD("Scan", 11, 0),
				 OLD("Scan", 9, 0),
				 {.name = "Scan",
				  .since = 8,
				  .in = scan8_in,
				  .out = scan_outs,
				  ATTRS(batched_attrs, struct batched_scan_params),
				  .upgrade = scan8_upgrade},
				 {.name = "BatchedScan",
				  .domain = "infer",
				  .since = 1,
				  .in = scan8_in,
				  .out = scan_outs,
				  ATTRS(batched_attrs, struct batched_scan_params),
				  .infer = batched_scan_infer,
				  .flags = OP_CONTROL | OP_OPTIONAL_OUT | OP_INTERNAL},
				 {.name = "SequenceMap",
				  .since = 17,
				  .in = map_in,
				  .out = map_out,
				  ATTRS(map_attrs, struct sequence_map_params),
				  .infer = sequence_map_infer,
				  .flags = OP_CONTROL | OP_HOST_VALUES | OP_OPTIONAL_OUT},
				 {0}};
