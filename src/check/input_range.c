/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns about input values that fit the model's types and shapes but are probably a mistake: pixels from 0 to 255 for
 * a model that expects scaled pixels, values that are not finite, ids beyond the rows of their table. Values that do
 * not fit were already refused when the inputs were opened (E-INPUT-*).
 */
#include "check/check.h"
#include "session/model_report.h"

#include <inttypes.h>
#include <math.h>

/*
 * Returns the first node that computes with the input, skipping nodes that only move or convert it. Returns NULL if
 * there is none, or if the value has several readers.
 */
static const struct node *first_computing_node(const struct graph *g, const struct value *v)
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

/* Whether the node may be the model's own scaling of its input, so that raw pixels are right. */
static bool scales_its_input(const struct node *n)
{
	return check_is(n, "Mul") || check_is(n, "Div") || check_is(n, "Sub") || check_is(n, "Add") ||
	       check_is(n, "BatchNormalization") || check_is(n, "QuantizeLinear") ||
	       check_is(n, "InstanceNormalization") || check_is(n, "Resize");
}

static bool looks_like_pixels(const struct tensor *t, const struct statistics *s)
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

static void check_float_range(struct check_context *c, const struct graph *g, const struct value *v,
			      const struct input_info *in)
{
	struct statistics s = report_statistics(in->tensor);
	const struct node *n = first_computing_node(g, v);
	struct diag *d = c->d;

	if (s.nans + s.infs)
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", in->name),
		     .message = fmt(d, "%" PRId64 " of its %" PRId64 " elements are NaN or infinite",
				    s.nans + s.infs, s.count),
		     .hint = "check the source of the data");
	if (!n || !check_is(n, "Conv") || !looks_like_pixels(in->tensor, &s))
		return;
	if (!scales_its_input(n))
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", in->name),
		     .message = fmt(d,
				    "all elements are integers from %g to %g, like raw pixels, and "
				    "Conv '%s' reads them without scaling",
				    s.min, s.max, check_node(n)),
		     .hint = "most models expect scale=1/255, or the mean=... and std=... of their training");
}

/* Reports ids that are beyond the rows of the table in which a Gather looks them up. */
static void check_ids(struct check_context *c, const struct graph *g, const struct value *v,
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
			     .hint = "the ids may come from another vocabulary than the model's");
	}
}

static void check_one_input(struct check_context *c, uint32_t i, size_t *made_up)
{
	const struct input_info *in = input_info(c->inputs, i);
	const struct graph *g = c->file->graph;
	const struct value *v = i < g->nin ? g->value[g->in[i]] : NULL;

	*made_up += in->made_up;
	if (in->made_up || !v || !in->tensor || in->tensor->type.kind != V_TENSOR || !in->tensor->data)
		return;
	if (T_BIT(in->tensor->type.dtype) & T_FLOATS_BF)
		check_float_range(c, g, v, in);
	else if (T_BIT(in->tensor->type.dtype) & T_INTS)
		check_ids(c, g, v, in);
}

static int run_input(struct check_context *c)
{
	size_t made_up = 0, n = input_count(c->inputs);

	for (uint32_t i = 0; i < n; i++)
		check_one_input(c, i, &made_up);
	check_say(c, "%zu input%s%s", n, n == 1 ? " fits" : "s fit",
		  !made_up	 ? ""
		  : made_up == n ? n == 1 ? ", generated" : ", all generated"
				 : ", some generated");
	return 0;
}

const struct check check_input = {
	.name = "inputs",
	.what = "type, shape, size and range against the model",
	.need = NEED_INPUTS,
	.cost = COST_READ,
	.run = run_input,
};
