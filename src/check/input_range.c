/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs against the model. What cannot be read into them was refused before (E-INPUT-*), every input by
 * itself; here is what fits but is hardly meant: pixels of 0 to 255 where the model wants them scaled,
 * values that are not finite, ids beyond their table.
 */
#include "check/check.h"
#include "session/model_report.h"

#include <inttypes.h>
#include <math.h>

/* The nodes that read the input, through those that only move or convert it. */
static const struct node *first_work(const struct graph *g, const struct value *v)
{
	for (int depth = 0; depth < 8 && v && v->nusers == 1; depth++) {
		const struct node *n = g->node[v->users[0]];
		if (!check_is(n, "Cast") && !check_is(n, "Transpose") && !check_is(n, "Identity") &&
		    !check_is(n, "Reshape") && !check_is(n, "Unsqueeze") && !check_is(n, "Squeeze"))
			return n;
		v = node_out(g, n, 0);
	}
	return NULL;
}

/* Whether the model scales its input itself: then it wants it raw. */
static bool scales_itself(const struct node *n)
{
	return check_is(n, "Mul") || check_is(n, "Div") || check_is(n, "Sub") || check_is(n, "Add") ||
	       check_is(n, "BatchNormalization") || check_is(n, "QuantizeLinear") ||
	       check_is(n, "InstanceNormalization") || check_is(n, "Resize");
}

static bool like_pixels(const struct tensor *t, const struct statistics *s)
{
	if (t->shape.rank < 3 || !(s->min >= 0) || !(s->max > 64) || s->max > 255)
		return false;
	for (int64_t i = 0; i < s->count; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		if (v != floor(v))
			return false;
	}
	return true;
}

static void range(struct check_context *c, const struct graph *g, const struct value *v,
		  const struct input_info *in)
{
	struct statistics s = report_statistics(in->tensor);
	const struct node *n = first_work(g, v);
	struct diag *d = c->d;

	if (s.nans + s.infs)
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", in->name),
		     .message = fmt(d, "%" PRId64 " of its %" PRId64 " elements are NaN or infinite",
				    s.nans + s.infs, s.count),
		     .hint = "look where the data come from");
	if (!n || !check_is(n, "Conv") || !like_pixels(in->tensor, &s))
		return;
	if (!scales_itself(n))
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", in->name),
		     .message = fmt(d,
				    "all elements are whole numbers from %g to %g, as of raw pixels, and "
				    "Conv '%s' reads them as they are",
				    s.min, s.max, check_node(n)),
		     .hint = "most models want scale=1/255, or mean=... and std=... of their training");
}

/* Ids beyond the rows of the table that they look up. */
static void ids(struct check_context *c, const struct graph *g, const struct value *v,
		const struct input_info *in)
{
	struct statistics s = report_statistics(in->tensor);
	struct diag *d = c->d;

	for (uint32_t k = 0; k < v->nusers; k++) {
		const struct node *n = g->node[v->users[k]];
		const struct tensor *table = check_is(n, "Gather") ? check_const(g, n, 0) : NULL;
		double axis = 0;
		if (!table || node_in(g, n, 1) != v || !check_number(n, "axis", &axis) ||
		    axis != 0 || table->shape.rank < 1)
			continue;
		double rows = (double)table->shape.dim[0];
		if (s.count && (s.max >= rows || s.min < -rows))
			FAIL(d, E_INPUT_RANGE, .node = check_node(n), .op = n->type,
			     .slot = fmt(d, "input '%s'", in->name),
			     .expected = fmt(d, "ids of a table of %.0f rows", rows),
			     .actual = fmt(d, "%.0f to %.0f", s.min, s.max),
			     .hint = "they come from another vocabulary");
	}
}

static void one(struct check_context *c, uint32_t i, size_t *made_up)
{
	const struct input_info *in = input_info(c->inputs, i);
	const struct graph *g = c->file->graph;
	const struct value *v = i < g->nin ? g->value[g->in[i]] : NULL;

	*made_up += in->made_up;
	if (in->made_up || !v || !in->tensor || in->tensor->type.kind != V_TENSOR || !in->tensor->data)
		return;
	if (T_BIT(in->tensor->type.dtype) & T_FLOATS_BF)
		range(c, g, v, in);
	else if (T_BIT(in->tensor->type.dtype) & T_INTS)
		ids(c, g, v, in);
}

static int run(struct check_context *c)
{
	size_t made_up = 0, n = input_count(c->inputs);

	for (uint32_t i = 0; i < n; i++)
		one(c, i, &made_up);
	check_say(c, "%zu input%s%s", n, n == 1 ? " fits" : "s fit",
		  !made_up	 ? ""
		  : made_up == n ? n == 1 ? ", made up" : ", all made up"
				 : ", some made up");
	return 0;
}

const struct check check_input = {
	.name = "inputs",
	.what = "type, shape, size and range against the model",
	.need = NEED_INPUTS,
	.cost = COST_READ,
	.run = run,
};
