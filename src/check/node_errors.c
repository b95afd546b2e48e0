/* SPDX-License-Identifier: Apache-2.0 */
#include "check/node_errors.h"

#include "base/hash.h"
#include "base/str.h"
#include "check/counterparts.h"
#include "check/derivative.h"
#include "ir/walk.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* An error below this part of the value's largest element is the rounding of f32 sums in another order. */
static const double NOISE = 2e-5;
/* The probes begin with this number, so that every run gives the same. */
enum { SEED = 20260721 };

/* An integer stands for (integer - zero) * scale. */
struct codes {
	double scale, zero;
	const char *scale_name;
};

struct node_errors_work {
	struct held_run h;
	const struct graph *a, *b; /* of reference and changed model */
	uint32_t *of_a, *of_b;	   /* counterparts by value id */
	uint32_t *source; /* by value of a: the value of b that the nodes after it read, or NO_VALUE */
	uint32_t *shown; /* by value of b: the value of a that it stands for, or NO_VALUE */
	uint32_t *raw; /* by value of b: the value of a whose node gives it, before its output is quantized */
	const struct codes **codes; /* by value of b: what its integers mean; NULL if that is not known */
	size_t *number;		    /* by value of a: its node_error + 1; 0 for none */
	struct value_copy *error; /* by value of a, on the held input; of kind V_NONE if it has none */
	struct value_copy *seen; /* by value of a: what the changed model has there, until the reference ran */
	struct value_copy *before;	/* by value of a: the same before its output is quantized */
	float **slope;			/* by value of a, while the pass backwards runs */
	double loss;			/* on the held input */
	const struct tensor *const *in; /* the held input, in the order of the changed model */
	size_t held;
};

/* Counts a value that is held from now on. Returns 0, or -code if --memory-limit does not allow that. */
static int count_bytes(struct node_errors *x, const struct value_copy *v)
{
	int64_t limit = x->c->config->memory_limit;

	x->work->held += v->t.bytes;
	if (x->work->held > x->peak)
		x->peak = x->work->held;
	if (limit <= 0 || x->work->held <= (size_t)limit)
		return 0;
	return FAIL(x->c->d, E_MEMORY_LIMIT,
		    .message = "--sensitivity holds every value between the nodes at once",
		    .expected = fmt(x->c->d, "at most %s bytes", str_count(&x->c->d->arena, limit)),
		    .actual = fmt(x->c->d, "%s bytes so far",
				  str_count(&x->c->d->arena, (int64_t)x->work->held)));
}

/* ---- what integers mean ---------------------------------------------------------------------------- */

static bool is_op(const struct node *n, const char *op)
{
	return !strcmp(n->type, op);
}

/*
 * Whether the node has the operator that the file gives it. What an operator was expressed by says nothing of scales: QLinearAveragePool
 * is a DequantizeLinear by 1, the mean, and a QuantizeLinear by the quotient of both scales.
 */
static bool is_of_file(const struct node *n)
{
	const char *op = n->origin->op, *end = strrchr(op, ':');

	return is_op(n, end ? end + 1 : op);
}

/* The operands of an operator on integers that tell the scale of its output, which has one scale and zero point. */
static const struct {
	const char *op;
	uint32_t scale;
} scales[] = {
	{"QLinearConv", 6},	   {"QLinearMatMul", 6},
	{"QuantizeLinear", 1},	   {"QLinearAdd", 6},
	{"QLinearMul", 6},	   {"QLinearSigmoid", 3},
	{"QLinearLeakyRelu", 3},   {"QLinearGlobalAveragePool", 3},
	{"QLinearAveragePool", 3}, {"QLinearSoftmax", 3},
	{"QLinearConcat", 0},	   {"QGemm", 7},
	{"QLinearReduceMean", 3},  {"QLinearWhere", 7},
};

static bool one_number(const struct graph *g, const struct node *n, uint32_t i, double absent,
		       double *v)
{
	const struct value *x = node_in(g, n, i);

	*v = absent;
	if (x && x->init && tensor_count(x->init) == 1 && x->init->data)
		*v = elem_f64(tensor_dtype(x->init), x->init->data, 0);
	return !x || (x->init && tensor_count(x->init) == 1);
}

/* Keeps the scale that is operand i of a node of graph g, and the zero point behind it, for the value of b of this name. */
static void keep_codes(struct node_errors *x, const struct map *named, const struct graph *g,
		       const struct node *n, uint32_t i, const struct value *v)
{
	struct node_errors_work *w = x->work;
	const struct value *scale = node_in(g, n, i);
	struct codes c = {.scale_name = scale ? scale->name : NULL};
	int64_t id = v && *v->name ? map_get(named, v->name, strlen(v->name)) : -1;

	if (id < 0 || w->codes[id] || !scale || !scale->init || tensor_dtype(scale->init) != DT_F32 ||
	    !one_number(g, n, i, 1, &c.scale) || !one_number(g, n, i + 1, 0, &c.zero))
		return;
	c.scale_name = arena_str(&x->c->arena, c.scale_name);
	w->codes[id] = arena_dup(&x->arena, &c, sizeof(c));
}

/* A node tells the scale of the codes that it makes and, right behind them, of those that it reads. */
static void codes_of_node(struct node_errors *x, const struct map *named, const struct graph *g,
			  const struct node *n)
{
	for (size_t i = 0; i < sizeof(scales) / sizeof(*scales); i++)
		if (is_op(n, scales[i].op))
			keep_codes(x, named, g, n, scales[i].scale, node_out(g, n, 0));
	if (is_op(n, "DequantizeLinear") || is_op(n, "QGemm") ||
	    !strncmp(n->type, "QLinear", strlen("QLinear")))
		for (uint32_t i = 0; i + 1 < n->nin; i++)
			keep_codes(x, named, g, n, i + 1, node_in(g, n, i));
}

/* Moving, choosing and blending (MaxPool, Transpose, Split, Resize) keep the meaning of codes. */
static void codes_of_moved(const struct node_errors_work *w, const struct node *n)
{
	const struct codes *c = n->nin && n->in[0] != NO_VALUE ? w->codes[n->in[0]] : NULL;

	for (uint32_t k = 0; c && k < n->nout; k++) {
		uint32_t id = n->out[k];
		if (id != NO_VALUE && !w->codes[id] &&
		    w->b->value[id]->info.type.dtype == w->b->value[n->in[0]]->info.type.dtype)
			w->codes[id] = c;
	}
}

/* The file has the scales of all operators; nodes of its functions are in the graph that runs. */
static void find_codes(struct node_errors *x)
{
	struct node_errors_work *w = x->work;
	const struct graph *file = x->c->file ? x->c->file->graph : NULL;
	struct arena tmp = {0};
	struct map named = {.arena = &tmp};

	for (uint32_t i = 0; i < w->b->nvalues; i++)
		if (*w->b->value[i]->name)
			map_set(&named, w->b->value[i]->name, strlen(w->b->value[i]->name), i);
	for (uint32_t i = 0; file && i < file->norder; i++)
		codes_of_node(x, &named, file, file->node[file->order[i]]);
	for (uint32_t i = 0; i < w->b->norder; i++)
		if (is_of_file(w->b->node[w->b->order[i]]))
			codes_of_node(x, &named, w->b, w->b->node[w->b->order[i]]);
	for (uint32_t i = 0; i < w->b->norder; i++)
		codes_of_moved(w, w->b->node[w->b->order[i]]);
	arena_free(&tmp);
}

static double to_code(const struct codes *c, enum dtype t, double v)
{
	double high = ldexp(1, (int)dtype_bits(t) - (dtype_class(t) == DT_INT)) - 1;
	double low = dtype_class(t) == DT_INT ? -high - 1 : 0;

	return fmin(fmax(nearbyint(v / c->scale) + c->zero, low), high);
}

/* ---- what corresponds ------------------------------------------------------------------------------ */

/* The first of the file's nodes that read the value and have this operator, or NULL. */
static const struct node *reader(const struct graph *g, uint32_t id, const char *op)
{
	const struct value *v = g->value[id];

	for (uint32_t i = 0; i < v->nusers; i++)
		if (!g->node[v->users[i]]->dead && is_op(g->node[v->users[i]], op) &&
		    is_of_file(g->node[v->users[i]]))
			return g->node[v->users[i]];
	return NULL;
}

/*
 * Follows a value of the changed model through its QuantizeLinear and DequantizeLinear, or to the codes alone, if operators on integers
 * read them: the rounding then counts to the node that made the value, as it does between pairs, and not to the readers.
 */
static uint32_t after_rounding(const struct graph *g, uint32_t id)
{
	const struct node *q = reader(g, id, "QuantizeLinear");
	const struct node *dq = q ? reader(g, q->out[0], "DequantizeLinear") : NULL;

	return dq ? dq->out[0] : q ? q->out[0] : id;
}

/* The codes that a DequantizeLinear makes the value of; the value itself if none does. */
static uint32_t codes_behind(const struct graph *g, uint32_t id)
{
	const struct node *n = node_making(g, id);

	return n && is_op(n, "DequantizeLinear") && is_of_file(n) && node_in(g, n, 0) ? n->in[0] : id;
}

static const struct node *maker_of_codes(const struct graph *g, uint32_t id)
{
	return node_making(g, codes_behind(g, id));
}

/* The QuantizeLinear that rounded the value, which is its codes or what a DequantizeLinear makes of them; otherwise NULL. */
static const struct node *rounding_of(const struct graph *g, uint32_t id)
{
	const struct node *n = maker_of_codes(g, id);

	return n && is_op(n, "QuantizeLinear") && is_of_file(n) ? n : NULL;
}

static bool is_float(const struct value *v)
{
	return v->info.type.kind == V_TENSOR &&
	       (T_BIT(v->info.type.dtype) & T_FLOATS_BF || !v->info.type.dtype);
}

/* The result of the Relu or Clip that alone reads the value; otherwise NO_VALUE. */
static uint32_t after_clipping(const struct graph *g, uint32_t id)
{
	const struct value *v = g->value[id];
	const struct node *n = v->nusers == 1 && !v->is_output ? g->node[v->users[0]] : NULL;

	return n && (is_op(n, "Relu") || is_op(n, "Clip")) ? n->out[0] : NO_VALUE;
}

/*
 * ONNX Runtime's QOperator form calls the integers of tensor NAME "NAME_quantized". Where it drops a Relu or Clip, whose range the codes
 * keep to, the integers of the tensor before are the result of that; if a DequantizeLinear makes floats of them, these have its name.
 */
static void match_integers(struct node_errors_work *w)
{
	struct arena tmp = {0};
	struct map of = {.arena = &tmp};

	for (uint32_t i = 0; i < w->b->nvalues; i++) {
		const char *name = w->b->value[i]->name;
		size_t n = strlen(name), end = strlen("_quantized");
		if (n > end && !strcmp(name + n - end, "_quantized"))
			map_set(&of, name, n - end, i);
	}
	for (uint32_t i = 0; i < w->a->nvalues; i++) {
		const char *name = w->a->value[i]->name;
		int64_t k = *name && w->of_a[i] == NO_VALUE && !w->a->value[i]->init
				    ? map_get(&of, name, strlen(name))
				    : -1;
		if (k < 0 || w->of_b[k] != NO_VALUE)
			continue;
		uint32_t clipped = after_clipping(w->a, i), to = i;
		if (clipped != NO_VALUE && w->of_a[clipped] != NO_VALUE &&
		    maker_of_codes(w->b, w->of_a[clipped]) == node_making(w->b, (uint32_t)k))
			continue;
		if (clipped != NO_VALUE && w->of_a[clipped] == NO_VALUE &&
		    map_get(&of, w->a->value[clipped]->name, strlen(w->a->value[clipped]->name)) < 0 &&
		    after_clipping(w->b, (uint32_t)k) == NO_VALUE)
			to = clipped;
		w->of_a[to] = (uint32_t)k;
		w->of_b[k] = to;
	}
	arena_free(&tmp);
}

static void match_inputs(struct node_errors_work *w)
{
	for (uint32_t i = 0; i < w->a->nin; i++)
		for (uint32_t k = 0; k < w->b->nin; k++)
			if (w->of_a[w->a->in[i]] == NO_VALUE &&
			    (!strcmp(w->a->value[w->a->in[i]]->name, w->b->value[w->b->in[k]]->name) ||
			     (i == k && w->a->nin == w->b->nin)))
				w->of_a[w->a->in[i]] = w->b->in[k];
}

static void find_sources(struct node_errors *x)
{
	struct node_errors_work *w = x->work;

	for (uint32_t i = 0; i < w->b->nvalues; i++)
		w->shown[i] = w->raw[i] = NO_VALUE;
	for (uint32_t i = 0; i < w->a->nvalues; i++) {
		uint32_t id = w->of_a[i];
		w->source[i] = NO_VALUE;
		if (id == NO_VALUE || w->a->value[i]->init || !is_float(w->a->value[i]))
			continue;
		uint32_t after = after_rounding(w->b, id);
		if (w->shown[after] != NO_VALUE || (w->b->value[after]->is_input))
			continue;
		w->source[i] = after;
		w->shown[after] = i;
		const struct node *q = rounding_of(w->b, after);
		if (q)
			w->raw[q->in[0]] = i;
		x->matched += w->a->value[i]->producer != NO_NODE;
	}
}

static bool computes_on_integers(const struct graph *g, const struct node *n)
{
	static const char *const ops[] = {"QLinear",	 "ConvInteger", "MatMulInteger",
					  "MatMulNBits", "QGemm",	"DynamicQuantizeMatMul"};

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		if (!strncmp(n->type, ops[i], strlen(ops[i])))
			return true;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		if (v && v->producer != NO_NODE && is_op(g->node[v->producer], "DequantizeLinear"))
			return true;
	}
	return false;
}

enum { MAX_STEPS_AFTER = 6 }; /* from ConvInteger to its float: Cast, Mul, Add of the bias, Relu */

/* Whether the node's output, or what the next nodes make of it, has a counterpart. */
static bool leads_to_counterpart(const struct node_errors_work *w, const struct node *n)
{
	uint32_t id = n->nout ? n->out[0] : NO_VALUE;

	for (int depth = 0; id != NO_VALUE && depth < MAX_STEPS_AFTER; depth++) {
		const struct value *v = w->b->value[id];
		if (w->of_b[id] != NO_VALUE || w->shown[id] != NO_VALUE)
			return true;
		if (!v->nusers)
			return false;
		const struct node *next = w->b->node[v->users[0]];
		id = next->nout ? next->out[0] : NO_VALUE;
	}
	return false;
}

static void find_lost(struct node_errors *x)
{
	const struct node_errors_work *w = x->work;

	x->lost.arena = &x->c->arena;
	for (uint32_t p = 0; p < w->b->norder; p++) {
		const struct node *n = w->b->node[w->b->order[p]];
		if (!is_op(n, "QuantizeLinear") && !is_op(n, "DequantizeLinear") &&
		    computes_on_integers(w->b, n) && !leads_to_counterpart(w, n))
			check_name_add(&x->lost, check_node(n));
	}
}

int node_errors_begin(struct node_errors *x)
{
	struct node_errors_work *w = x->work = arena_new(&x->arena, struct node_errors_work);

	w->a = session_model(x->ref)->graph;
	w->b = session_model(x->got)->graph;
	w->of_a = arena_new_n(&x->arena, uint32_t, w->a->nvalues + 1);
	w->of_b = arena_new_n(&x->arena, uint32_t, w->b->nvalues + 1);
	w->source = arena_new_n(&x->arena, uint32_t, w->a->nvalues + 1);
	w->shown = arena_new_n(&x->arena, uint32_t, w->b->nvalues + 1);
	w->raw = arena_new_n(&x->arena, uint32_t, w->b->nvalues + 1);
	w->codes = arena_new_n(&x->arena, const struct codes *, w->b->nvalues + 1);
	w->number = arena_new_n(&x->arena, size_t, w->a->nvalues + 1);
	w->error = arena_new_n(&x->arena, struct value_copy, w->a->nvalues + 1);
	w->seen = arena_new_n(&x->arena, struct value_copy, w->a->nvalues + 1);
	w->before = arena_new_n(&x->arena, struct value_copy, w->a->nvalues + 1);
	w->slope = arena_new_n(&x->arena, float *, w->a->nvalues + 1);
	if (x->sides[0]->path)
		counterparts_find(w->a, w->b, w->of_a, w->of_b);
	else
		counterparts_same(w->a, w->b, w->of_a, w->of_b);
	find_codes(x);
	match_integers(w);
	match_inputs(w);
	find_sources(x);
	find_lost(x);
	x->steps = w->a->norder;
	x->seed = SEED;
	return 0;
}

void node_errors_end(struct node_errors *x)
{
	struct arena a = x->arena;

	if (x->work)
		node_errors_drop(x);
	arena_free(&a);
	x->work = NULL;
}

void node_errors_drop(struct node_errors *x)
{
	struct node_errors_work *w = x->work;

	for (uint32_t i = 0; i < w->a->nvalues; i++) {
		value_free(&w->error[i]);
		value_free(&w->seen[i]);
		value_free(&w->before[i]);
		mem_free(w->slope[i]);
		w->slope[i] = NULL;
	}
	held_end(&w->h);
	w->held = 0;
}

/* ---- the run of the changed model ------------------------------------------------------------------ */

struct watching {
	struct observer observer;
	struct node_errors *x;
	const struct runtime *rt;
	int err;
};

/* Turns a fetched value of b into f32. Returns false, with the value freed, if that is impossible. */
static bool to_floats(const struct node_errors_work *w, uint32_t id, struct value_copy *v)
{
	enum dtype t = tensor_dtype(&v->t);
	const struct codes *c = w->codes[id];

	if (v->t.type.kind == V_TENSOR && t == DT_F32)
		return true;
	bool fits =
		v->t.type.kind == V_TENSOR && (T_BIT(t) & T_FLOATS_BF || (c && T_BIT(t) & T_INTS));
	double scale = c && !(T_BIT(t) & T_FLOATS_BF) ? c->scale : 1;
	double zero = c && !(T_BIT(t) & T_FLOATS_BF) ? c->zero : 0;
	int64_t count = fits ? tensor_count(&v->t) : 0;
	float *to = fits ? mem_alloc((size_t)count * sizeof(*to) + 1, MEM_STAGING) : NULL;
	for (int64_t i = 0; i < count && to; i++)
		to[i] = (float)((elem_f64(t, v->t.data, i) - zero) * scale);
	struct tensor made = {.type = type_tensor(DT_F32),
			      .shape = v->t.shape,
			      .data = to,
			      .bytes = (size_t)count * sizeof(*to)};
	value_free(v);
	*v = (struct value_copy){.t = made, .own = to};
	if (!to)
		v->t.type.kind = V_NONE;
	return to != NULL;
}

static void fetch(struct watching *o, const struct call *call, uint32_t k, struct value_copy *to)
{
	struct node_errors *x = o->x;

	if (held_has(to) || o->err)
		return;
	o->err = value_fetch(o->rt, call, call->out[k], true, to, x->c->d);
	if (!o->err && to_floats(x->work, call->step->node->out[k], to))
		o->err = count_bytes(x, to);
}

static void see_step(struct observer *observer, const struct step *s, const struct call *call)
{
	struct watching *o = (struct watching *)observer;
	struct node_errors_work *w = o->x->work;

	if (!step_computes(o->rt, w->b, s))
		return;
	for (uint32_t k = 0; k < s->nout; k++) {
		uint32_t id = call->out[k] ? s->node->out[k] : NO_VALUE;
		if (id != NO_VALUE && w->shown[id] != NO_VALUE)
			fetch(o, call, k, &w->seen[w->shown[id]]);
		if (id != NO_VALUE && w->raw[id] != NO_VALUE && w->raw[id] != w->shown[id])
			fetch(o, call, k, &w->before[w->raw[id]]);
	}
}

static int run_changed(struct node_errors *x, const struct tensor *const *in)
{
	struct watching o = {.observer = {.end = see_step}, .x = x};
	const struct graph *g = x->work->b;
	const struct tensor **out = arena_new_n(&x->arena, const struct tensor *, g->nout + 1);
	int err = session_start(x->got, x->c->d);

	o.rt = session_runtime(x->got);
	err = err ? err : check_session_run(x->c, x->got, in, out, &o.observer);
	return err ? err : o.err;
}

/* ---- errors ---------------------------------------------------------------------------------------- */

/*
 * From which magnitude on an element is a mask, as the -1e9 that an attention's mask adds to scores of about 10: it says nothing of how
 * large the others are. INFINITY if there are no such elements.
 */
static float mask_from(const float *a, int64_t n)
{
	const float least = 1e4F, times = 100;
	float mask = INFINITY, rest = 0;

	for (int64_t i = 0; i < n; i++) {
		float v = fabsf(a[i]);
		mask = v >= least && v < mask ? v : mask;
		rest = v < least && v > rest ? v : rest;
	}
	return rest > 0 && mask >= times * rest ? mask : INFINITY;
}

/* Whether an element is a mask on both sides, so that its size does not matter. */
static bool both_mask(float a, float b, float mask)
{
	return a == b || (fabsf(a) >= mask && a / b > 0.5F && a / b < 2);
}

/* The norm of a or, if b is given, of b - a; without masks. */
static double norm(const float *a, const float *b, int64_t n, float mask)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++) {
		if (b ? both_mask(a[i], b[i], mask) : fabsf(a[i]) >= mask)
			continue;
		double v = b ? (double)b[i] - (double)a[i] : (double)a[i];
		sum += v * v;
	}
	return sqrt(sum);
}

/* The largest |a|, and the largest |b - a|, without masks. NAN if an element of either is not finite. */
static double largest(const float *a, const float *b, int64_t n, float mask, double *apart)
{
	float most = 0, far = 0, nan = 0;

	for (int64_t i = 0; i < n; i++) {
		float v = fabsf(a[i]), e = fabsf(b[i] - a[i]);
		nan += e - e; /* NaN and infinity less itself are NaN */
		most = v > most && v < mask ? v : most;
		far = e > far && !both_mask(a[i], b[i], mask) ? e : far;
	}
	*apart = (double)far;
	return nan == 0 ? (double)most : (double)NAN;
}

static const struct node *node_titled(const struct graph *g, const char *title, size_t n)
{
	for (uint32_t p = 0; p < g->norder; p++) {
		const char *name = check_node(g->node[g->order[p]]);
		if (strlen(name) == n && !memcmp(name, title, n))
			return g->node[g->order[p]];
	}
	return NULL;
}

/*
 * The node of the reference that the changed model quantizes to make this value: the one of the same name as the changed model's, as
 * a quantizer may drop the Relu behind it. The QOperator form adds "_quant" to the names.
 */
static const struct node *quantized_node(const struct node_errors_work *w, uint32_t id)
{
	const struct node *q = rounding_of(w->b, w->source[id]);
	const struct node *made =
		q ? node_making(w->b, q->in[0]) : maker_of_codes(w->b, w->source[id]);
	const struct node *own = w->a->node[w->a->value[id]->producer], *same = NULL;

	if (made) {
		const char *name = check_node(made);
		size_t n = strlen(name), end = strlen("_quant");
		same = node_titled(w->a, name, n);
		if (!same && n > end && !strcmp(name + n - end, "_quant"))
			same = node_titled(w->a, name, n - end);
	}
	return same ? same : own;
}

static struct node_error *add_node(struct node_errors *x, uint32_t id)
{
	struct node_errors_work *w = x->work;
	const struct value *v = w->a->value[id];

	if (x->n == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 64;
		x->node = arena_grow(&x->arena, x->node, x->n, x->cap, sizeof(*x->node));
	}
	struct node_error *e = &x->node[x->n++];
	*e = (struct node_error){.value = id, .input = NO_VALUE, .output_part = NAN};
	w->number[id] = x->n;
	const struct node *q = rounding_of(w->b, w->source[id]);
	const struct codes *c = w->codes[codes_behind(w->b, w->source[id])];
	if (q && node_in(w->b, q, 1))
		e->scale = arena_str(&x->c->arena, node_in(w->b, q, 1)->name);
	else if (c)
		e->scale = c->scale_name;
	if (v->producer != NO_NODE) {
		const struct node *n = quantized_node(w, id);
		e->node = arena_str(&x->c->arena, check_node(n));
		e->op = arena_str(&x->c->arena, n->origin->op);
		return e;
	}
	for (uint32_t i = 0; i < w->a->nin; i++)
		if (w->a->in[i] == id)
			e->input = i;
	e->node = arena_str(&x->c->arena, v->name);
	e->op = "input";
	return e;
}

/*
 * How much of the error rounding the exact value to a short float type would make or, with c, to codes, which an operator on integers
 * gives at once.
 */
static double rounding_part(enum dtype t, const struct codes *c, const struct tensor *exact,
			    const struct tensor *got)
{
	const float *a = exact->data, *b = got->data;
	double of_output = 0, of_node = 0;
	int64_t n = tensor_count(got);

	for (int64_t i = 0; i < n; i++) {
		uint64_t room = 0;
		elem_set_f64(t, &room, 0, c ? to_code(c, t, (double)a[i]) : (double)a[i]);
		double rounded = elem_f64(t, &room, 0);
		rounded = c ? (rounded - c->zero) * c->scale : rounded;
		double e = rounded - (double)a[i], f = (double)b[i] - rounded;
		of_output += e * e;
		of_node += f * f;
	}
	return of_output + of_node > 0 ? of_output / (of_output + of_node) : (double)NAN;
}

/* How much of the error the quantization of the output makes, by the norms of both parts. */
static double output_part(const struct node_errors *x, uint32_t id, const struct tensor *exact,
			  const struct tensor *got)
{
	const struct node_errors_work *w = x->work;
	const struct value *v = w->a->value[id];
	const struct value_copy *raw = &w->before[id];
	double of_output = 0, of_node = 0;

	uint32_t at = codes_behind(w->b, w->source[id]);
	enum dtype t = (enum dtype)w->b->value[at]->info.type.dtype;

	if (v->producer == NO_NODE)
		return 1;
	if (t == DT_F16 || t == DT_BF16)
		return rounding_part(t, NULL, exact, got);
	if (!held_has(raw) || tensor_count(&raw->t) != tensor_count(got))
		return rounding_of(w->b, w->source[id]) ? (double)NAN
		       : w->codes[at] && T_BIT(t) & T_INTS
			       ? rounding_part(t, w->codes[at], exact, got)
			       : 0;
	/* ONNX Runtime's quantizer drops a Relu or Clip, whose range the QuantizeLinear keeps to */
	const struct node *n = w->a->node[v->producer];
	bool above = is_op(n, "Relu") || is_op(n, "Clip");
	int64_t count = tensor_count(got);
	for (int64_t i = 0; i < count; i++) {
		float r = ((const float *)raw->t.data)[i];
		r = above && r < 0 ? 0 : r;
		double a = (double)((const float *)got->data)[i] - (double)r;
		double b = (double)r - (double)((const float *)exact->data)[i];
		of_output += a * a;
		of_node += b * b;
	}
	return of_output + of_node > 0 ? of_output / (of_output + of_node) : (double)NAN;
}

/*
 * `exact` is what the reference's node makes of the changed model's inputs. The table gets the changed model's value instead, and the
 * difference is kept if it is more than noise.
 */
static int adopt(struct node_errors *x, uint32_t id, struct value_copy *exact)
{
	struct node_errors_work *w = x->work;
	struct value_copy *got = &w->seen[id];

	if (!held_has(got) || !held_floats(&exact->t) ||
	    tensor_count(&got->t) != tensor_count(&exact->t))
		return 0;
	int64_t n = tensor_count(&exact->t);
	float *a = exact->t.data, *b = got->t.data;
	const float mask = mask_from(a, n);
	double most, size = largest(a, b, n, mask, &most);
	bool finite = !isnan(size);
	if (finite && most > NOISE * size) {
		struct node_error *e = w->number[id] ? &x->node[w->number[id] - 1] : add_node(x, id);
		double all = e->size > 0 ? 0 : norm(a, NULL, n, mask);
		if (!(e->size > 0))
			e->size = all > 0 ? norm(a, b, n, mask) / all : INFINITY;
		if (isnan(e->output_part))
			e->output_part = output_part(x, id, &exact->t, &got->t);
		for (int64_t i = 0; i < n; i++) {
			float exactly = a[i];
			a[i] = b[i];
			b[i] -= exactly;
		}
		w->error[id] = *got;
		*got = (struct value_copy){0};
	} else {
		if (!finite && isfinite(norm(a, NULL, n, INFINITY)) && !x->not_finite &&
		    w->a->value[id]->producer != NO_NODE) {
			const struct node *at = quantized_node(w, id);
			x->not_finite = arena_str(&x->c->arena, check_node(at));
			x->not_finite_op = arena_str(&x->c->arena, at->origin->op);
		}
		memcpy(a, b, exact->t.bytes);
	}
	value_free(got);
	value_free(&w->before[id]);
	return 0;
}

static int compute_table(struct node_errors *x)
{
	struct node_errors_work *w = x->work;
	int err = 0;

	for (uint32_t i = 0; i < w->a->nin && !err; i++)
		err = adopt(x, w->a->in[i], &w->h.value[w->a->in[i]]);
	for (uint32_t p = 0; p < w->a->norder && !err; p++) {
		const struct node *n = w->a->node[w->a->order[p]];
		struct value_copy *out = mem_zalloc(n->nout * sizeof(*out) + 1, MEM_STAGING);
		err = out ? held_compute(&w->h, n, NULL, out, x->c->d) : -(int)E_MEMORY;
		for (uint32_t k = 0; k < n->nout && out; k++) {
			if (err || !held_has(&out[k]) || n->out[k] == NO_VALUE) {
				value_free(&out[k]);
				continue;
			}
			w->h.value[n->out[k]] = out[k];
			err = count_bytes(x, &out[k]);
			err = err ? err : adopt(x, n->out[k], &w->h.value[n->out[k]]);
		}
		mem_free(out);
	}
	return err;
}

/* ---- the loss -------------------------------------------------------------------------------------- */

/* Whether output k can be compared: floats on both sides. */
static const struct tensor *comparable(const struct node_errors_work *w, uint32_t k,
				       const struct value_copy *other)
{
	const struct tensor *y = held_value(&w->h, other, w->a->out[k]);

	return held_floats(y) && held_floats(&w->h.out[k].t) &&
			       tensor_count(y) == tensor_count(&w->h.out[k].t)
		       ? y
		       : NULL;
}

static double mean_loss(struct node_errors *x, const struct value_copy *other, uint32_t *outputs)
{
	const struct node_errors_work *w = x->work;
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t k = 0; k < w->a->nout; k++) {
		const struct tensor *y = comparable(w, k, other);
		if (!y)
			continue;
		sum += loss_of(y, &w->h.out[k].t, x->metric, NULL);
		n++;
	}
	if (outputs)
		*outputs = n;
	return n ? sum / n : 0;
}

int node_errors_run(struct node_errors *x, const struct tensor *const *in)
{
	struct node_errors_work *w = x->work;
	const struct tensor *const *ref =
		x->sides[0]->path ? counterparts_inputs(x->c, w->a, x->sides[0]->path, in) : in;

	if (!ref)
		return -(int)E_REFERENCE;
	int err = run_changed(x, in);
	err = err ? err : held_begin(x->c, &w->h, x->ref, ref);
	err = err ? err : compute_table(x);
	if (err)
		return err;
	w->in = in;
	w->loss = mean_loss(x, NULL, &x->outputs);
	x->loss += w->loss;
	x->inputs++;
	return 0;
}

/* ---- the pass backwards ---------------------------------------------------------------------------- */

struct backwards {
	struct node_errors *x;
	unsigned probes; /* number of passes with a random vector, for second derivatives; 0 in the pass for first ones */
	bool *depends; /* by value: some error reaches it */
	bool *opaque;  /* by value: an operator after it has no derivative */
};

static void find_dependents(const struct backwards *b)
{
	const struct node_errors_work *w = b->x->work;

	for (uint32_t i = 0; i < w->a->nvalues; i++)
		b->depends[i] = held_has(&w->error[i]);
	for (uint32_t p = 0; p < w->a->norder; p++) {
		const struct node *n = w->a->node[w->a->order[p]];
		bool any = false;
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			any |= n->in[i] != NO_VALUE && b->depends[n->in[i]];
		/* integers, such as what Shape gives, have no derivative by what they come from */
		for (uint32_t k = 0; k < n->nout && any; k++)
			if (n->out[k] != NO_VALUE && held_floats(held_value(&w->h, NULL, n->out[k])))
				b->depends[n->out[k]] = true;
	}
}

static bool add_slope(struct node_errors_work *w, uint32_t id, float *slope, int64_t n)
{
	if (!w->slope[id]) {
		w->slope[id] = slope;
		return true;
	}
	for (int64_t i = 0; i < n; i++)
		w->slope[id][i] += slope[i];
	mem_free(slope);
	return true;
}

static int start_at_outputs(const struct backwards *b)
{
	struct node_errors *x = b->x;
	struct node_errors_work *w = x->work;

	for (uint32_t k = 0; k < w->a->nout; k++) {
		const struct tensor *y = comparable(w, k, NULL);
		int64_t n = y ? tensor_count(y) : 0;
		float *slope = y ? mem_zalloc((size_t)n * sizeof(*slope) + 1, MEM_STAGING) : NULL;
		if (!y)
			continue;
		if (!slope)
			return -(int)E_MEMORY;
		if (!b->probes)
			(void)loss_of(y, &w->h.out[k].t, x->metric, slope);
		else if (!loss_probe(y, &w->h.out[k].t, x->metric, &x->seed, slope))
			memset(slope, 0, (size_t)n * sizeof(*slope));
		for (int64_t i = 0; i < n; i++)
			slope[i] /= b->probes ? sqrtf((float)x->outputs) : (float)x->outputs;
		add_slope(w, w->a->out[k], slope, n);
	}
	return 0;
}

/* Takes the product of the error at this value and the derivative, which is complete. */
static void settle(const struct backwards *b, uint32_t id)
{
	struct node_errors_work *w = b->x->work;
	const struct value_copy *e = &w->error[id];

	if (!held_has(e))
		return;
	struct node_error *node = &b->x->node[w->number[id] - 1];
	double sum = 0;
	int64_t n = w->slope[id] ? tensor_count(&e->t) : 0;
	for (int64_t i = 0; i < n; i++)
		sum += (double)w->slope[id][i] * (double)((const float *)e->t.data)[i];
	if (b->probes)
		node->bend += sum * sum / b->probes;
	else
		node->slope += sum;
	node->opaque |= b->opaque[id];
}

static void mark_opaque(const struct backwards *b, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		if (n->in[i] != NO_VALUE)
			b->opaque[n->in[i]] |= b->depends[n->in[i]];
}

static int step_back(const struct backwards *b, const struct node *n)
{
	struct node_errors_work *w = b->x->work;
	struct arena a = {0};
	float **dy = arena_new_n(&a, float *, n->nout + 1),
	      **dx = arena_new_n(&a, float *, n->nin + 1);
	bool *want = arena_new_n(&a, bool, n->nin + 1), any = false, opaque = false, reached = false;
	struct diag quiet = {0};
	int rc = DERIVATIVE_MADE;

	for (uint32_t k = 0; k < n->nout; k++) {
		dy[k] = n->out[k] == NO_VALUE ? NULL : w->slope[n->out[k]];
		opaque |= n->out[k] != NO_VALUE && b->opaque[n->out[k]];
		reached |= dy[k] != NULL;
	}
	for (uint32_t i = 0; i < n->nin; i++) {
		want[i] = n->in[i] != NO_VALUE && b->depends[n->in[i]] &&
			  held_floats(held_value(&w->h, NULL, n->in[i]));
		any |= want[i];
	}
	for (uint32_t i = n->nin; i < n->nin + n->ncap; i++)
		any |= n->in[i] != NO_VALUE && b->depends[n->in[i]];
	if (reached && any && !opaque)
		rc = derivative_of(&w->h, n, dy, want, dx, &quiet);
	if (opaque || rc == DERIVATIVE_NONE)
		mark_opaque(b, n);
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct tensor *t = dx[i] ? held_value(&w->h, NULL, n->in[i]) : NULL;
		if (t && rc == DERIVATIVE_MADE)
			add_slope(w, n->in[i], dx[i], tensor_count(t));
		else
			mem_free(dx[i]);
	}
	diag_free(&quiet);
	arena_free(&a);
	return rc < 0 ? rc : 0;
}

static int pass_backwards(const struct backwards *b)
{
	struct node_errors *x = b->x;
	struct node_errors_work *w = x->work;
	int err = start_at_outputs(b);

	for (uint32_t p = w->a->norder; p-- > 0 && !err;) {
		const struct node *n = w->a->node[w->a->order[p]];
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				settle(b, n->out[k]);
		err = step_back(b, n);
		for (uint32_t k = 0; k < n->nout; k++) {
			if (n->out[k] == NO_VALUE)
				continue;
			mem_free(w->slope[n->out[k]]);
			w->slope[n->out[k]] = NULL;
		}
		check_step(x->c, w->a->norder - p, w->a->norder);
	}
	for (uint32_t i = 0; i < w->a->nin; i++) {
		uint32_t id = w->a->in[i];
		if (!err)
			settle(b, id);
		mem_free(w->slope[id]);
		w->slope[id] = NULL;
	}
	return err;
}

int node_errors_slopes(struct node_errors *x, unsigned probes)
{
	struct arena a = {0};
	struct backwards b = {x, 0, arena_new_n(&a, bool, x->work->a->nvalues + 1),
			      arena_new_n(&a, bool, x->work->a->nvalues + 1)};

	find_dependents(&b);
	int err = pass_backwards(&b);
	b.probes = probes;
	for (unsigned i = 0; i < probes && !err; i++)
		err = pass_backwards(&b);
	arena_free(&a);
	return err;
}

/* ---- undoing --------------------------------------------------------------------------------------- */

struct undoing {
	struct node_errors *x;
	struct value_copy *other; /* by value: what it is with the nodes undone, if that differs */
	bool *chosen;		  /* by value: its error is taken away */
	struct arena arena;
};

static void add_floats(struct value_copy *to, const struct value_copy *error, float sign)
{
	float *v = to->t.data;
	const float *e = error->t.data;
	int64_t n = tensor_count(&to->t);

	for (int64_t i = 0; i < n; i++)
		v[i] += sign * e[i];
}

/* The value without its error, if nothing before it has changed. */
static int take_error_away(struct undoing *u, uint32_t id)
{
	const struct node_errors_work *w = u->x->work;
	const struct call none = {0};
	int err = value_fetch(w->h.rt, &none, &w->h.value[id].t, true, &u->other[id], u->x->c->d);

	if (!err)
		add_floats(&u->other[id], &w->error[id], -1);
	return err;
}

static int recompute(struct undoing *u, const struct node *n)
{
	struct node_errors_work *w = u->x->work;
	struct value_copy *out = mem_zalloc(n->nout * sizeof(*out) + 1, MEM_STAGING);
	struct diag quiet = {0};
	int err = out ? held_compute(&w->h, n, u->other, out, &quiet) : -(int)E_MEMORY;

	err = err && err != -(int)E_MEMORY ? -(int)E_OP_UNSUPPORTED : err;
	for (uint32_t k = 0; k < n->nout && out; k++) {
		uint32_t id = n->out[k];
		const struct tensor *was = id == NO_VALUE ? NULL : &w->h.value[id].t;
		if (err || !held_has(&out[k]) || !was) {
			value_free(&out[k]);
			continue;
		}
		if (was->type.kind != V_TENSOR || out[k].t.type.kind != V_TENSOR ||
		    !shape_equal(&was->shape, &out[k].t.shape))
			err = -(int)E_OP_UNSUPPORTED;
		else if (held_has(&w->error[id]) && !u->chosen[id])
			add_floats(&out[k], &w->error[id], 1);
		u->other[id] = out[k];
	}
	mem_free(out);
	diag_free(&quiet);
	return err;
}

static int undo_step(struct undoing *u, const struct node *n, uint32_t at)
{
	struct node_errors_work *w = u->x->work;
	bool changed = false;
	int err = 0;

	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		changed |= n->in[i] != NO_VALUE && held_has(&u->other[n->in[i]]);
	if (changed)
		err = recompute(u, n);
	for (uint32_t k = 0; k < n->nout && !changed && !err; k++)
		if (n->out[k] != NO_VALUE && u->chosen[n->out[k]])
			err = take_error_away(u, n->out[k]);
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		if (n->in[i] != NO_VALUE && w->h.last[n->in[i]] <= at)
			value_free(&u->other[n->in[i]]);
	return err;
}

int node_errors_undo(struct node_errors *x, const size_t *nodes, size_t n, double *loss)
{
	struct node_errors_work *w = x->work;
	struct undoing u = {.x = x};
	int err = 0;

	u.other = arena_new_n(&u.arena, struct value_copy, w->a->nvalues + 1);
	u.chosen = arena_new_n(&u.arena, bool, w->a->nvalues + 1);
	for (size_t i = 0; i < n; i++)
		u.chosen[x->node[nodes[i]].value] = held_has(&w->error[x->node[nodes[i]].value]);
	for (uint32_t i = 0; i < w->a->nin && !err; i++)
		if (u.chosen[w->a->in[i]])
			err = take_error_away(&u, w->a->in[i]);
	for (uint32_t p = 0; p < w->a->norder && !err; p++)
		err = undo_step(&u, w->a->node[w->a->order[p]], p);
	if (!err)
		*loss = mean_loss(x, u.other, NULL);
	for (uint32_t i = 0; i < w->a->nvalues; i++)
		value_free(&u.other[i]);
	arena_free(&u.arena);
	return err;
}

/* ---- the changed model with nodes of the reference ------------------------------------------------- */

struct requantizing {
	struct observer observer;
	struct node_errors *x;
	const struct runtime *rt;
	struct value_copy *now; /* by value of the reference: what it is in this run */
	bool *chosen;		/* by value of the reference */
	struct arena arena;
	int err;
};

/* The exact input: the table has what the changed model's quantization makes of it. */
static int exact_input(struct requantizing *r, uint32_t id)
{
	const struct node_errors_work *w = r->x->work;
	const struct call none = {0};
	int err = held_has(&w->h.value[id]) ? value_fetch(w->h.rt, &none, &w->h.value[id].t, true,
							  &r->now[id], r->x->c->d)
					    : -(int)E_OP_UNSUPPORTED;

	if (!err && held_has(&w->error[id]))
		add_floats(&r->now[id], &w->error[id], -1);
	return err;
}

enum { MAX_REGION = 64 }; /* nodes of the reference between two values that have counterparts */

/* Computes a value of the reference from those of this run that have counterparts. */
static int compute_from_counterparts(struct requantizing *r, uint32_t id, int depth)
{
	struct node_errors_work *w = r->x->work;
	const struct value *v = w->a->value[id];
	int err = 0;

	if (held_has(&r->now[id]) || v->init)
		return 0;
	if (v->producer == NO_NODE)
		return v->is_input ? exact_input(r, id) : 0;
	if (depth == MAX_REGION)
		return -(int)E_OP_UNSUPPORTED;
	const struct node *n = w->a->node[v->producer];
	for (uint32_t i = 0; i < n->nin + n->ncap && !err; i++)
		if (n->in[i] != NO_VALUE)
			err = compute_from_counterparts(r, n->in[i], depth + 1);
	struct value_copy *out = mem_zalloc(n->nout * sizeof(*out) + 1, MEM_STAGING);
	struct diag quiet = {0};
	err = err ? err : !out ? -(int)E_MEMORY : held_compute(&w->h, n, r->now, out, &quiet);
	for (uint32_t k = 0; k < n->nout && out; k++) {
		if (!err && n->out[k] != NO_VALUE && !held_has(&r->now[n->out[k]]))
			r->now[n->out[k]] = out[k];
		else
			value_free(&out[k]);
	}
	mem_free(out);
	diag_free(&quiet);
	return err;
}

/* Writes floats over a value of the run, in its type, layout and place. */
static int overwrite(struct requantizing *r, const struct call *call, uint32_t k,
		     const struct tensor *from)
{
	struct tensor *own = call->out[k], row = *own;
	enum dtype t = tensor_dtype(own);
	const struct codes *c = r->x->work->codes[call->step->node->out[k]];
	bool is_float = T_BIT(t) & T_FLOATS_BF;
	int64_t n = tensor_count(from);

	row.layout = LAYOUT_ROW;
	row.device = 0;
	if (own->type.kind != V_TENSOR || tensor_count(own) != n ||
	    (!is_float && (!c || !(T_BIT(t) & T_INTS))) ||
	    !tensor_bytes(t, &row.shape, LAYOUT_ROW, &row.bytes))
		return -(int)E_OP_UNSUPPORTED;
	row.data = mem_alloc(row.bytes + 1, MEM_STAGING);
	if (!row.data)
		return -(int)E_MEMORY;
	for (int64_t i = 0; i < n; i++) {
		double v = (double)((const float *)from->data)[i];
		elem_set_f64(t, row.data, i, is_float ? v : to_code(c, t, v));
	}
	const struct tensor *in[] = {&row};
	struct tensor *out[] = {own};
	const struct step step = {.nin = 1, .nout = 1};
	const struct call move = {.step = &step, .in = in, .out = out};
	int err = 0;
	if (own->device)
		err = own->layout != LAYOUT_ROW
			      ? -(int)E_OP_UNSUPPORTED
			      : r->rt->backend->copy(call->stream, own->data, own->device, row.data,
						     0, row.bytes, NULL);
	else if (own->layout != LAYOUT_ROW)
		err = r->rt->cpu->reorder->run(&move);
	else
		memcpy(own->data, row.data, row.bytes);
	if (own->device && !err)
		err = r->rt->backend->wait(call->stream, NULL);
	mem_free(row.data);
	return err;
}

static void replace_step(struct observer *observer, const struct step *s, const struct call *call)
{
	struct requantizing *r = (struct requantizing *)observer;
	struct node_errors_work *w = r->x->work;

	if (!step_computes(r->rt, w->b, s))
		return;
	for (uint32_t k = 0; k < s->nout && !r->err; k++) {
		uint32_t id = call->out[k] ? s->node->out[k] : NO_VALUE;
		id = id == NO_VALUE ? NO_VALUE : w->shown[id];
		if (id == NO_VALUE || held_has(&r->now[id]))
			continue;
		if (r->chosen[id]) {
			r->err = compute_from_counterparts(r, id, 0);
			r->err = r->err ? r->err : overwrite(r, call, k, &r->now[id].t);
			continue;
		}
		r->err = value_fetch(r->rt, call, call->out[k], true, &r->now[id], r->x->c->d);
		if (!r->err)
			(void)to_floats(w, s->node->out[k], &r->now[id]);
	}
}

static double changed_loss(struct requantizing *r, const struct tensor *const *out)
{
	const struct node_errors_work *w = r->x->work;
	const struct call none = {0};
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t k = 0; k < w->a->nout && k < w->b->nout; k++) {
		struct value_copy v = {0};
		if (!comparable(w, k, NULL) || !out[k] ||
		    value_fetch(r->rt, &none, out[k], true, &v, NULL))
			continue;
		if (to_floats(w, w->b->out[k], &v) &&
		    tensor_count(&v.t) == tensor_count(&w->h.out[k].t)) {
			sum += loss_of(&v.t, &w->h.out[k].t, r->x->metric, NULL);
			n++;
		}
		value_free(&v);
	}
	return n ? sum / n : (double)NAN;
}

/* Adds the values that the nodes after this one give, or that what they give without a counterpart leads to. */
static void choose_readers(struct requantizing *r, uint32_t id)
{
	const struct node_errors_work *w = r->x->work;
	const struct walk_place *next;
	struct walk walk = {0};

	walk_to(&walk, w->a, w->a->value[id], 0);
	while ((next = walk_next(&walk))) {
		const struct walk_place p = *next;
		for (uint32_t i = 0; i < p.v->nusers && p.steps < MAX_STEPS_AFTER; i++) {
			const struct node *n = w->a->node[p.v->users[i]];
			for (uint32_t k = 0; k < n->nout; k++) {
				if (n->out[k] == NO_VALUE)
					continue;
				r->chosen[n->out[k]] = true;
				if (w->source[n->out[k]] == NO_VALUE)
					walk_to(&walk, w->a, w->a->value[n->out[k]], p.steps + 1);
			}
		}
	}
	walk_end(&walk);
}

static int run_requantized(struct node_errors *x, const size_t *nodes, size_t n, bool readers,
			   double *loss)
{
	struct node_errors_work *w = x->work;
	struct requantizing r = {.observer = {.end = replace_step}, .x = x};

	r.rt = session_runtime(x->got);
	r.now = arena_new_n(&r.arena, struct value_copy, w->a->nvalues + 1);
	r.chosen = arena_new_n(&r.arena, bool, w->a->nvalues + 1);
	const struct tensor **out = arena_new_n(&r.arena, const struct tensor *, w->b->nout + 1);
	for (size_t i = 0; i < n; i++) {
		const struct node_error *e = &x->node[nodes[i]];
		r.chosen[e->value] = true;
		if (readers && node_error_is_rounding(e) &&
		    !is_float(w->b->value[w->source[e->value]]))
			choose_readers(&r, e->value);
	}
	int err = check_session_run(x->c, x->got, w->in, out, &r.observer);
	err = err ? err : r.err;
	if (!err)
		*loss = changed_loss(&r, out);
	if (!err && isnan(*loss))
		err = -(int)E_OP_UNSUPPORTED;
	for (uint32_t i = 0; i < w->a->nvalues; i++)
		value_free(&r.now[i]);
	arena_free(&r.arena);
	return err;
}

int node_errors_requantize(struct node_errors *x, const size_t *nodes, size_t n, double *loss)
{
	return run_requantized(x, nodes, n, false, loss);
}

int node_errors_exclude(struct node_errors *x, const size_t *nodes, size_t n, double *loss)
{
	return run_requantized(x, nodes, n, true, loss);
}
