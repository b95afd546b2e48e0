/* SPDX-License-Identifier: Apache-2.0 */
/* Checks weights for NaN, infinities, denormal numbers and 64-bit floats, and quantization scales for missing calibration. */
#include "check/cause.h"
#include "check/check.h"
#include "check/nan_weights.h"
#include "base/hash.h"
#include "base/str.h"
#include "onnx/weights.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

struct weight_check {
	struct check_context *c;
	struct arena a;
	/* checked tensors, keyed by address, because bodies also use tensors of the outer graph */
	struct map seen;
	struct check_names wide;	/* weights in f64 */
	struct check_names tiny;	/* weights with denormal elements */
	const struct node *tiny_reader; /* reads the first of them */
	int64_t tiny_count;
	/* some weight has 1 % of denormal elements or more, a sign of a wrong scale, as training leaves only a few */
	bool tiny_many;
	uint64_t wide_bytes, bytes;
	size_t tensors;
	size_t scales, ones; /* number of scales of activations: all, and those that are exactly 1 */
};

struct odd_elements {
	int64_t nan, inf, denormal, count;
};

static void count_f32(const float *v, int64_t n, struct odd_elements *o)
{
	for (int64_t i = 0; i < n; i++) {
		uint32_t u;
		memcpy(&u, (const char *)v + (size_t)i * sizeof(u), sizeof(u));
		uint32_t e = u >> 23 & 0xff, m = u & 0x7fffff;
		o->nan += e == 0xff && m;
		o->inf += e == 0xff && !m;
		o->denormal += !e && m;
	}
}

static void count_any(const struct tensor *t, struct odd_elements *o)
{
	for (int64_t i = 0; i < o->count; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		o->nan += isnan(v) != 0;
		o->inf += isinf(v) != 0;
	}
}

/* Returns the first node that reads the value, so that a finding can name the node. Returns NULL if there is none. */
static const struct node *first_reader(const struct graph *g, const struct value *v)
{
	return v->nusers ? g->node[v->users[0]] : NULL;
}

static void add_finding(struct weight_check *w, enum severity s, enum code code,
			const struct graph *g, const struct value *v, const char *message,
			const char *hint)
{
	const struct node *n = first_reader(g, v);
	const struct finding f = {
		.code = code,
		.severity = s,
		.node = n ? check_node(n) : NULL,
		.op = n ? n->origin->op : NULL,
		.slot = fmt(w->c->d, "initializer '%s'", v->name),
		.message = message,
		.hint = hint,
		.file = __FILE__,
		.line = __LINE__,
	};
	diag_add(w->c->d, &f);
}

static const char *elements_are(struct diag *d, int64_t n)
{
	return fmt(d, "%s %s", str_many(&d->arena, (uint64_t)n, "element"), n == 1 ? "is" : "are");
}

static void check_weight(struct weight_check *w, const struct graph *g, const struct value *v)
{
	const struct tensor *t = v->init;
	struct odd_elements o = {.count = tensor_count(t)};
	struct diag *d = w->c->d;

	w->tensors++;
	w->bytes += t->bytes;
	if (t->type.kind != V_TENSOR || !(T_BIT(t->type.dtype) & T_FLOATS_BF) || !t->data ||
	    o.count < 1)
		return;
	if (t->type.dtype == DT_F32)
		count_f32(t->data, o.count, &o);
	else
		count_any(t, &o);
	if (o.nan && !v->nusers && !v->is_output)
		add_finding(w, SEV_WARNING, E_WEIGHT_NAN, g, v,
			    fmt(d, "%" PRId64 " of %s NaN, but nothing uses it", o.nan,
				elements_are(d, o.count)),
			    "remove it from the model");
	else if (o.nan)
		suspect_nan(w->c, g, v,
			    fmt(d, "%" PRId64 " of %s NaN", o.nan, elements_are(d, o.count)));
	if (o.inf && !readers_mean(g, v, t, infinities_are_meant))
		add_finding(w, SEV_WARNING, E_WEIGHT_INF, g, v,
			    fmt(d, "%" PRId64 " of %s infinite", o.inf, elements_are(d, o.count)),
			    NULL);
	if (o.denormal) {
		check_name_add(&w->tiny, v->name);
		w->tiny_reader = w->tiny_reader ? w->tiny_reader : first_reader(g, v);
		w->tiny_count += o.denormal;
		w->tiny_many |= o.denormal * 100 >= o.count;
	}
	if (t->type.dtype == DT_F64 && o.count >= 16) {
		check_name_add(&w->wide, v->name);
		w->wide_bytes += t->bytes;
	}
}

static void check_weights_of(struct weight_check *w, const struct graph *g)
{
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const struct value *v = g->value[i];
		if (!v->init || map_get(&w->seen, (const char *)&v->init, sizeof(v->init)) >= 0)
			continue;
		map_set(&w->seen, arena_dup(&w->a, &v->init, sizeof(v->init)), sizeof(v->init), 1);
		check_weight(w, g, v);
		weights_drop(w->c->file, v->init); /* checked: its pages may leave memory */
	}
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; !g->node[i]->dead && k < g->node[i]->nsub; k++)
			check_weights_of(w, g->node[i]->sub[k]);
}

/* ---- quantization */

static bool is_scale(const char *slot)
{
	size_t n = strlen(slot);

	return n > 6 && !strcasecmp(slot + n - 6, "_scale");
}

/*
 * Whether the node quantizes or dequantizes weights, such as rows that a Gather takes from a table. Their scale follows from them: 0 makes
 * a channel of zeros, and quantizers write 1 for a table of zeros.
 */
static bool scales_weights(const struct graph *g, const struct node *n)
{
	const struct value *v = node_in(g, n, 0);
	const struct node *before;

	if (!check_is(n, "DequantizeLinear") && !check_is(n, "QuantizeLinear"))
		return false;
	for (int depth = 0; v && !op_makes_constant(g, v); depth++) {
		before = value_maker(g, v);
		if (!before || depth == 64 || !moves_elements(before))
			return false;
		v = node_in(g, before, 0);
	}
	return v != NULL;
}

static void check_scale(struct weight_check *w, const struct graph *g, const struct node *n,
			uint32_t i, const char *slot)
{
	const struct tensor *t = check_const(g, n, i);
	int64_t zeros = 0, bad = 0, ones = 0, count = t ? tensor_count(t) : 0;
	struct diag *d = w->c->d;

	if (count < 1 || !t->data || !(T_BIT(t->type.dtype) & T_FLOATS_BF))
		return;
	for (int64_t k = 0; k < count; k++) {
		double v = elem_f64(tensor_dtype(t), t->data, k);
		zeros += v == 0;
		bad += v < 0 || !isfinite(v);
		ones += v == 1;
	}
	if (!scales_weights(g, n)) {
		w->scales++;
		w->ones += ones == count;
	}
	if (!zeros && !bad)
		return;
	const struct finding f = {
		.code = E_QUANT_SCALE,
		.severity = !bad && scales_weights(g, n) ? SEV_WARNING : SEV_ERROR,
		.node = check_node(n),
		.op = n->origin->op,
		.slot = fmt(d, "input %" PRIu32 " '%s'", i, slot),
		.message =
			bad ? fmt(d, "%" PRId64 " of %" PRId64 " scales are negative or not finite",
				  bad, count)
			    : fmt(d, "%" PRId64 " of %" PRId64 " scales are 0: calibration is missing",
				  zeros, count),
		.file = __FILE__,
		.line = __LINE__,
	};
	diag_add(d, &f);
}

static void check_scales(const struct graph *g, const struct node *n, void *arg)
{
	if (!n->op || n->dead)
		return;
	struct op op = op_resolved(n->op);
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct slot *s = op.in ? slot_at(op.in, i) : NULL;
		if (s && is_scale(s->name))
			check_scale(arg, g, n, i, s->name);
	}
}

static void report_denormals(struct weight_check *w)
{
	const struct node *n = w->tiny_reader;
	struct diag *d = w->c->d;
	const struct finding f = {
		.code = E_WEIGHT_DENORMAL,
		.severity = w->tiny_many ? SEV_WARNING : SEV_NOTE,
		.node = n ? check_node(n) : NULL,
		.op = n ? n->origin->op : NULL,
		.message = fmt(d, "%" PRId64 " denormal elements in %zu weight%s: %s", w->tiny_count,
			       w->tiny.n, w->tiny.n > 1 ? "s" : "", check_name_list(&w->tiny)),
		.file = __FILE__,
		.line = __LINE__,
	};

	if (w->tiny.n)
		diag_add(d, &f);
}

static int run_weights(struct check_context *c)
{
	struct weight_check w = {.c = c};
	struct diag *d = c->d;

	if (!c->file->graph)
		return 0;
	w.seen.arena = w.wide.arena = w.tiny.arena = &w.a;
	check_weights_of(&w, c->file->graph);
	graph_each_node(c->file->graph, check_scales, &w);
	report_denormals(&w);
	if (w.wide.n)
		WARN(d, E_WEIGHT_F64,
		     .message = fmt(d, "%zu weight%s of %" PRIu64 " bytes in f64: %s", w.wide.n,
				    w.wide.n > 1 ? "s" : "", w.wide_bytes, check_name_list(&w.wide)));
	if (w.ones > 1 && w.ones == w.scales)
		WARN(d, E_QUANT_RANGE,
		     .message = fmt(d, "all %zu scales of activations are exactly 1", w.scales));
	check_say(c, "%s", check_weights_text(&w.a, w.tensors, (int64_t)w.bytes));
	arena_free(&w.a);
	return 0;
}

const struct check check_weights = {
	.name = "weights",
	.what = "weights are numbers; scales are positive",
	.need = NEED_FILE,
	.cost = COST_READ,
	.run = run_weights,
};
