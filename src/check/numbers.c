/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the numbers of one run: outputs must be finite and not all zero. --nan also checks the values between the
 * nodes for NaN, infinities, denormal numbers and the range of fp16; --zero checks whether the outputs depend on the
 * input.
 */
#include "base/hash.h"
#include "base/str.h"
#include "check/cause.h"
#include "check/check.h"
#include "check/prepare_inputs.h"
#include "check/reference.h"
#include "check/step_value.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Statistics and hash of every value of the model's graph in one run. */
struct trace {
	struct observer observer;
	struct check_context *c;
	const struct runtime *rt;
	const struct graph *g;
	struct value_stats *stats; /* indexed by value id */
	uint64_t *hash;		   /* indexed by value id */
	bool *seen;		   /* indexed by value id */
	/*
	 * indexed by value id: the values that began this value's NaN or infinities, its zeros, and its elements' being equal; or
	 * NO_VALUE
	 */
	uint32_t *began, *began_zero, *began_constant;
	const struct step *body; /* first step inside the body of a node that makes NaN */
	int err;
};

/*
 * The first node with each defect in the order of the run, or NULL, and the output of this node that shows the
 * defect.
 */
struct first_defects {
	const struct node *nan, *inf, *denormal, *fp16;
	uint32_t nan_value, inf_value, denormal_value, fp16_value;
	/* number of floating-point elements of all nodes: denormal elements, and all elements */
	int64_t denormals, numbers;
	double largest; /* largest absolute value of all nodes */
};

/* A run with another number in each element of arbitrary integers and bools. */
struct retry {
	const char *said;	   /* the number, and the inputs; NULL if the run failed */
	struct value_stats *stats; /* of each output */
	const struct tensor **in;
	struct trace *trace; /* NULL: not traced yet */
};
enum { RETRIES = 4 };

/* With how many other inputs a model whose output is all zero, or does not move, runs before that counts as a fault. */
enum { ZERO_TRIALS = 3, SAME_INTEGERS = 8, INDEPENDENT_TRIALS = 12 };

/* A run with other inputs. A run that fails proves nothing: they may be none that the model takes. */
struct trial {
	bool made, ran;
	struct value_stats *stats; /* of each output */
};

/* What is found out for one output is kept for the others: a model may have thousands of them. */
struct numbers {
	struct trace trace;
	struct first_defects defects;
	/* by value id of the traced graph: what made it NaN or infinite; whether that was looked for. NULL: for none yet */
	const char **cause;
	bool *sought;
	struct trial zero[ZERO_TRIALS];
	struct value_stats *inputs; /* NULL: not counted yet */
	/* by value id of the session's graph: depends on elements of an input; of an arbitrary one. NULL: not known yet */
	bool *varies, *doubtful;
	/* runs the nodes of the file one by one; NULL if the model cannot be run so */
	struct session *plain;
	struct session *traced; /* the session that x->trace is of; NULL: no trace yet */
	struct retry *retries; /* runs with other integers than were generated; NULL: not made yet */
	struct trial larger;   /* with larger sizes, if sizes were guessed */
};

/* ---- tracing a run ---------------------------------------------------------------------------- */

static void record_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct trace *t = (struct trace *)o;
	bool own = step_of(t->g, s);

	if (t->err || step_moves(t->rt, s) || (!own && t->body))
		return;
	for (uint32_t i = 0; i < s->nout && !t->err; i++) {
		struct value_copy v;
		if (!call->out[i])
			continue;
		t->err = value_fetch(t->rt, call, call->out[i], false, &v, t->c->d);
		if (t->err)
			return;
		struct value_stats stats = value_stats(&v.t);
		if (!own) {
			t->body = stats.nan ? s : t->body;
		} else {
			uint32_t id = s->node->out[i];
			t->stats[id] = stats;
			t->seen[id] = true;
			t->hash[id] =
				v.t.type.kind == V_TENSOR ? hash_bytes(v.t.data, v.t.bytes, 0) : 0;
		}
		value_free(&v);
	}
}

static void ignore_begin(struct observer *o, const struct step *s, const struct call *call)
{
	(void)o, (void)s, (void)call;
}

static void record_value(struct trace *t, uint32_t id, const struct tensor *x)
{
	if (!x || t->seen[id])
		return;
	t->stats[id] = value_stats(x);
	t->hash[id] = x->type.kind == V_TENSOR && x->data ? hash_bytes(x->data, x->bytes, 0) : 0;
	t->seen[id] = true;
}

static int trace_run(struct check_context *c, struct session *s, struct trace *t,
		     const struct tensor *const *in)
{
	const struct graph *g = session_model(s)->graph;
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);

	*t = (struct trace){.observer = {.begin = ignore_begin, .end = record_step},
			    .c = c,
			    .rt = session_runtime(s),
			    .g = g};
	t->stats = arena_new_n(&c->arena, struct value_stats, g->nvalues + 1);
	t->hash = arena_new_n(&c->arena, uint64_t, g->nvalues + 1);
	t->seen = arena_new_n(&c->arena, bool, g->nvalues + 1);
	t->began = arena_new_n(&c->arena, uint32_t, g->nvalues + 1);
	t->began_zero = arena_new_n(&c->arena, uint32_t, g->nvalues + 1);
	t->began_constant = arena_new_n(&c->arena, uint32_t, g->nvalues + 1);
	for (uint32_t i = 0; i < g->nin; i++)
		record_value(t, g->in[i], in[i]);
	/* what inference has computed of constants has no step */
	for (uint32_t v = 0; v < g->nvalues; v++)
		record_value(t, v, g->value[v]->init ? NULL : g->value[v]->info.known);
	int err = check_session_run(c, s, in, out, &t->observer);
	return err ? err : t->err;
}

static bool has_numbers(const void *arg, uint32_t v)
{
	const struct trace *t = arg;

	return t->seen[v] || t->g->value[v]->init;
}

/*
 * Returns the value whose record holds the numbers of v: v itself, or the value of which v is a view, as views have
 * no step. Returns NO_VALUE if no step has made the value.
 */
static uint32_t value_with_numbers(struct trace *t, uint32_t v)
{
	if (v == NO_VALUE)
		return v;
	v = follow_views(t->g, v, true, has_numbers, t);
	if (t->g->value[v]->init)
		record_value(t, v, t->g->value[v]->init);
	return t->seen[v] ? v : NO_VALUE;
}

/* Tells whether a value's statistics show a defect. */
typedef bool defect(const struct value_stats *);
static bool has_nan(const struct value_stats *s)
{
	return s->nan != 0;
}
static bool has_inf(const struct value_stats *s)
{
	return s->inf != 0;
}
static bool all_zero(const struct value_stats *s)
{
	return s->count > 0 && s->zero == s->count;
}

/*
 * Whether an input of the node already has the defect. Weights count only if the defect is infinities, which are
 * common in masks. If weights are NaN or all 0, the node that reads them is reported.
 */
static bool is_inherited(struct trace *t, const struct node *n, defect *test)
{
	for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
		uint32_t v = n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
		if (v == NO_VALUE || (t->g->value[v]->init && test != has_inf))
			continue;
		if (test(&t->stats[v]))
			return true;
	}
	return false;
}

static bool is_float_value(const struct graph *g, uint32_t v)
{
	const struct type *t = &g->value[v]->info.type;
	return t->kind == V_TENSOR && (T_BIT((enum dtype)t->dtype) & T_FLOATS_BF);
}

static void set_if_first(const struct node **slot, uint32_t *value, const struct node *n, uint32_t v)
{
	if (!*slot) {
		*slot = n;
		*value = v;
	}
}

/* Finds, in the order of the run, the first node with each defect. */
static void find_first_defects(struct trace *t, struct first_defects *w)
{
	for (uint32_t p = 0; p < t->g->norder; p++) {
		const struct node *n = t->g->node[t->g->order[p]];
		for (uint32_t i = 0; i < n->nout; i++) {
			uint32_t v = n->out[i];
			if (v == NO_VALUE || !t->seen[v] || !t->stats[v].number)
				continue;
			const struct value_stats *s = &t->stats[v];
			double most = fmax(fabs(s->min), fabs(s->max));
			if (has_nan(s) && !is_inherited(t, n, has_nan))
				set_if_first(&w->nan, &w->nan_value, n, v);
			if (has_inf(s) && !is_inherited(t, n, has_inf))
				set_if_first(&w->inf, &w->inf_value, n, v);
			if (!is_float_value(t->g, v))
				continue;
			w->numbers += s->count;
			w->denormals += s->denormal;
			if (s->denormal)
				set_if_first(&w->denormal, &w->denormal_value, n, v);
			if (most > float_largest(DT_F16))
				set_if_first(&w->fp16, &w->fp16_value, n, v);
			if (most > w->largest)
				w->largest = most;
		}
	}
}

/* ---- where a defect began ---------------------------------------------------------------------- */

/*
 * Whether the infinities of a value are -Inf where two masks of the lowest numbers were added, as one of lengths and one of causes. They are
 * meant as those of a mask of -Inf are.
 */
static bool is_sum_of_masks(struct trace *t, uint32_t v)
{
	const struct value *x = t->g->value[v];
	const struct node *n = value_maker(t->g, x);
	double most = is_float_value(t->g, v) ? float_largest((enum dtype)x->info.type.dtype)
					      : (double)INFINITY;

	if (!n || n->nin != 2 || !check_is(n, "Add"))
		return false;
	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t from = n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
		const struct value_stats *s = from == NO_VALUE ? NULL : &t->stats[from];
		if (!s || s->nan || s->inf || !(s->min <= -most / 2) || !(s->max < most / 2))
			return false;
	}
	return true;
}

/*
 * Returns the earlier of the value `first` and the value at which the defect of the node's inputs began. Only inputs
 * with the defect count, and those that began as a sum of masks do only if `masks` is set; *any tells whether there is one.
 */
static uint32_t earliest_beginning(struct trace *t, const struct node *n, defect *test, bool masks,
				   const uint32_t *began, const uint32_t *position, bool *any)
{
	uint32_t first = NO_VALUE;

	*any = false;
	for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
		uint32_t v = n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
		if (v == NO_VALUE || t->g->value[v]->init || !test(&t->stats[v]))
			continue;
		*any = true;
		uint32_t from = began[v];
		if (from != NO_VALUE && (masks || !is_sum_of_masks(t, from)) &&
		    (first == NO_VALUE || position[from] < position[first]))
			first = from;
	}
	return first;
}

/* Whether the node takes infinities from a weight that is a mask or a bound, and may pass them on. */
static bool reads_mask(struct trace *t, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t v = n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
		if (v != NO_VALUE && t->g->value[v]->init && has_inf(&t->stats[v]) &&
		    infinities_are_meant(n, i, infinities_of(t->g->value[v]->init)))
			return true;
	}
	return check_is(n, "ConstantOfShape");
}

/*
 * Returns the value at which the NaN or infinities of v, an output of n, began. Infinities of weights and of sums of masks are masks by
 * design and begin no NaN, but the node that turns them into NaN does.
 */
static uint32_t beginning_of_bad(struct trace *t, const struct node *n, uint32_t v,
				 const uint32_t *position)
{
	bool any;
	uint32_t first = earliest_beginning(t, n, has_nan, true, t->began, position, &any);

	if (any)
		return first;
	first = earliest_beginning(t, n, has_inf, !has_nan(&t->stats[v]), t->began, position, &any);
	if (has_nan(&t->stats[v]))
		return first == NO_VALUE ? v : first;
	return any || reads_mask(t, n) ? first : v;
}

static bool is_constant(const struct value_stats *s)
{
	return s->constant;
}

/* Whether a computed input of the node has elements that differ. */
static bool reads_variety(struct trace *t, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t v = n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
		if (v != NO_VALUE && !t->g->value[v]->init && t->stats[v].number &&
		    t->stats[v].count > 1 && !t->stats[v].constant)
			return true;
	}
	return false;
}

/* Returns the value at which the elements of v, an output of n, became equal. */
static uint32_t beginning_of_constant(struct trace *t, const struct node *n, uint32_t v,
				      const uint32_t *position)
{
	bool any;
	uint32_t first =
		earliest_beginning(t, n, is_constant, true, t->began_constant, position, &any);

	return first == NO_VALUE || reads_variety(t, n) ? v : first;
}

/* Fills t->began, t->began_zero and t->began_constant. Nodes are visited in the order of the run, so their inputs are known before them. */
static void find_beginnings(struct trace *t)
{
	uint32_t *position = arena_new_n(&t->c->arena, uint32_t, t->g->nvalues + 1);

	for (uint32_t v = 0; v < t->g->nvalues; v++)
		t->began[v] = t->began_zero[v] = t->began_constant[v] = NO_VALUE;
	for (uint32_t p = 0; p < t->g->norder; p++) {
		const struct node *n = t->g->node[t->g->order[p]];
		for (uint32_t i = 0; i < n->nout; i++) {
			uint32_t v = n->out[i];
			bool any;
			if (v == NO_VALUE || !t->seen[v] || !t->stats[v].number)
				continue;
			position[v] = p;
			if (has_nan(&t->stats[v]) || has_inf(&t->stats[v]))
				t->began[v] = beginning_of_bad(t, n, v, position);
			if (is_constant(&t->stats[v]))
				t->began_constant[v] = beginning_of_constant(t, n, v, position);
			if (!all_zero(&t->stats[v]))
				continue;
			uint32_t first = earliest_beginning(t, n, all_zero, true, t->began_zero,
							    position, &any);
			t->began_zero[v] = any ? first : v;
		}
	}
}

static int trace_session(struct check_context *c, struct numbers *x, struct session *s)
{
	int err = trace_run(c, s, &x->trace, c->in);

	if (err)
		return err;
	x->defects = (struct first_defects){0};
	find_first_defects(&x->trace, &x->defects);
	find_beginnings(&x->trace);
	x->traced = s;
	x->cause = NULL;
	return 0;
}

/* Returns a session whose steps are nodes of the file, or NULL if the model cannot be run so. */
static struct session *plain_session(struct check_context *c, struct numbers *x)
{
	x->plain = x->plain ? x->plain : check_open_plain(c);
	return x->plain;
}

/* Traces a run of the file's nodes one by one or, if that fails, a run of the session as it is. */
static int trace_once(struct check_context *c, struct numbers *x)
{
	struct diag quiet = {0}, *all = c->d;
	struct session *s;

	if (x->traced)
		return 0;
	s = plain_session(c, x);
	c->d = &quiet;
	int err = s ? trace_session(c, x, s) : -E_RUN;
	c->d = all;
	diag_free(&quiet);
	return err && s != c->session ? trace_session(c, x, c->session) : err;
}

/*
 * Traces a run in which output k has the defect. If the nodes of the file, run one by one, do not show it, fusing them
 * is what causes it, and the steps of the session are traced instead.
 */
static int trace_defect(struct check_context *c, struct numbers *x, uint32_t k, defect *test)
{
	int err = trace_once(c, x);
	uint32_t v = err ? NO_VALUE : value_with_numbers(&x->trace, x->trace.g->out[k]);

	if (err || x->traced == c->session || (v != NO_VALUE && test(&x->trace.stats[v])))
		return err;
	return trace_session(c, x, c->session);
}

/* ---- reporting -------------------------------------------------------------------------------- */

static const char *value_name(const struct graph *g, uint32_t v)
{
	return *g->value[v]->name ? g->value[v]->name : "without a name";
}

/* Keeps copies of what a step reads and writes, so that the cause can be read from the elements. */
struct witness {
	struct observer observer;
	struct numbers *x;
	const bool *wanted;    /* by node id */
	struct value_copy *in; /* by position: what the current step reads, which it may overwrite */
	struct diag *quiet, *d; /* of the run; of the texts */
};

static bool is_witnessed(const struct witness *w, const struct step *s)
{
	const struct trace *t = &w->x->trace;

	return step_computes(t->rt, t->g, s) && w->wanted[s->node->id];
}

static void keep_inputs(struct observer *o, const struct step *s, const struct call *call)
{
	struct witness *w = (struct witness *)o;

	for (uint32_t i = 0; is_witnessed(w, s) && i < s->nin; i++)
		if (call->in[i])
			(void)value_fetch(w->x->trace.rt, call, call->in[i], true, &w->in[i],
					  w->quiet);
}

static void find_step_cause(struct observer *o, const struct step *s, const struct call *call)
{
	struct witness *w = (struct witness *)o;
	const struct trace *t = &w->x->trace;
	const struct node *n = s->node;
	struct arena a = {0};

	if (!is_witnessed(w, s))
		return;
	const struct tensor **in = arena_new_n(&a, const struct tensor *, n->nin + 1);
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = n->in[i] == NO_VALUE ? NULL : t->g->value[n->in[i]];
		in[i] = v && v->init ? v->init : w->in[i].t.data ? &w->in[i].t : NULL;
	}
	for (uint32_t i = 0; i < s->nout; i++) {
		struct value_copy out = {0};
		if (n->out[i] == NO_VALUE || !w->x->sought[n->out[i]] || !call->out[i] ||
		    value_fetch(t->rt, call, call->out[i], true, &out, w->quiet))
			continue;
		if (out.t.data && !w->x->cause[n->out[i]])
			w->x->cause[n->out[i]] = cause_of_bad_value(w->d, t->g, n, in, &out.t);
		value_free(&out);
	}
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		value_free(&w->in[i]);
	arena_free(&a);
}

static void seek_cause(struct numbers *x, bool *wanted, uint32_t v)
{
	const struct node *n = node_making(x->trace.g, v);

	x->sought[v] = true;
	if (n)
		wanted[n->id] = true;
}

/* Runs the traced session again and finds what made value `out`, and each value at which NaN or infinities began, so. */
static void find_causes(struct numbers *x, uint32_t out)
{
	struct trace *t = &x->trace;
	struct check_context *c = t->c;
	struct diag quiet = {0}, *all = c->d;
	const struct tensor **result = arena_new_n(&c->arena, const struct tensor *, t->g->nout + 1);
	bool *wanted = arena_new_n(&c->arena, bool, t->g->nnodes + 1);
	uint32_t most = 0;

	x->cause = arena_new_n(&c->arena, const char *, t->g->nvalues + 1);
	x->sought = arena_new_n(&c->arena, bool, t->g->nvalues + 1);
	seek_cause(x, wanted, out);
	for (uint32_t v = 0; v < t->g->nvalues; v++) {
		const struct node *n = t->began[v] == v ? node_making(t->g, v) : NULL;
		const struct node *named = n ? check_file_node(t->g, n) : NULL;
		if (n)
			seek_cause(x, wanted, v);
		if (named && named != n && named->nout && named->out[0] != NO_VALUE)
			seek_cause(x, wanted, named->out[0]);
	}
	for (uint32_t i = 0; i < t->g->nnodes; i++)
		if (wanted[i] && t->g->node[i]->nin + t->g->node[i]->ncap > most)
			most = t->g->node[i]->nin + t->g->node[i]->ncap;
	struct witness w = {.observer = {.begin = keep_inputs, .end = find_step_cause},
			    .x = x,
			    .wanted = wanted,
			    .in = arena_new_n(&c->arena, struct value_copy, (size_t)most + 1),
			    .quiet = &quiet,
			    .d = all};
	c->d = &quiet;
	(void)check_session_run(c, x->traced, c->in, result, &w.observer);
	c->d = all;
	for (uint32_t i = 0; i < most; i++)
		value_free(&w.in[i]);
	diag_free(&quiet);
}

/* Returns what made value `out` NaN or infinite, judged by the elements that its node read. Returns NULL if that cannot be told. */
static const char *find_cause(struct numbers *x, uint32_t out)
{
	if (!x->cause || !x->sought[out])
		find_causes(x, out);
	return x->cause[out];
}

enum { MAX_ROWS = 16 };

/* Adds rows about the node's inputs, its output `out` and the cause. Returns the number of rows. */
static size_t add_node_rows(struct numbers *x, const struct node *n, uint32_t out,
			    struct diag_row *rows)
{
	struct trace *t = &x->trace;
	struct diag *d = t->c->d;
	size_t k = 0;

	rows[k++] =
		(struct diag_row){"first node", fmt(d, "'%s' (%s)", n->origin->name, n->origin->op)};
	for (uint32_t i = 0; i < n->nin && k < MAX_ROWS / 2; i++) {
		uint32_t v = n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
		if (v == NO_VALUE || !t->stats[v].number)
			continue;
		rows[k++] = (struct diag_row){
			t->g->value[v]->init ? "its weight" : "its input",
			fmt(d, "'%s' %s", value_name(t->g, v), value_say(d, &t->stats[v]))};
	}
	rows[k++] = (struct diag_row){"its output", fmt(d, "'%s' %s", value_name(t->g, out),
							value_say(d, &t->stats[out]))};
	bool bad = has_nan(&t->stats[out]) || has_inf(&t->stats[out]);
	const char *why = bad ? find_cause(x, out) : NULL;
	if (why)
		rows[k++] = (struct diag_row){"cause", why};
	return k;
}

static const char *output_slot(struct check_context *c, uint32_t k, const struct tensor *t)
{
	const struct graph *g = session_model(c->session)->graph;

	return fmt(c->d, "output '%s' %s %s", g->out_name[k], type_str(&c->d->arena, t->type),
		   shape_str(&c->d->arena, &t->shape, NULL));
}

/* Describes the first of the model's inputs that has the defect itself. Returns NULL if none has. */
static const char *defective_input(struct check_context *c, struct numbers *x, defect *test)
{
	const struct graph *g = session_model(c->session)->graph;

	if (!x->inputs) {
		x->inputs = arena_new_n(&c->arena, struct value_stats, g->nin + 1);
		for (uint32_t i = 0; i < g->nin; i++)
			x->inputs[i] = value_stats(c->in[i]);
	}
	for (uint32_t i = 0; i < g->nin; i++)
		if (test(&x->inputs[i]))
			return fmt(c->d, "input '%s' %s", g->value[g->in[i]]->name,
				   value_say(c->d, &x->inputs[i]));
	return NULL;
}

static bool has_nan_or_inf(const struct value_stats *s)
{
	return s->nan || s->inf;
}

/*
 * Warns of a weight whose infinities have led to NaN at node n. The check of the weights alone takes them for a mask, but a
 * mask leads to no NaN.
 */
static void report_infinite_weight(struct check_context *c, struct trace *t, const struct node *n)
{
	const struct value *weight = NULL;

	for (int depth = 0; n && !weight && depth < 64; depth++) {
		const struct node *before = NULL;
		for (uint32_t i = 0; i < n->nin && !weight; i++) {
			uint32_t v =
				n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(t, n->in[i]);
			if (v == NO_VALUE || !has_inf(&t->stats[v]))
				continue;
			weight = t->g->value[v]->init ? t->g->value[v] : NULL;
			before = before ? before : node_making(t->g, v);
		}
		n = before;
	}
	if (weight && *weight->name && !check_found(c, E_WEIGHT_INF))
		WARN(c->d, E_WEIGHT_INF, .slot = fmt(c->d, "initializer '%s'", weight->name),
		     .message = fmt(c->d, "%s; they lead to the NaN of an output",
				    value_say(c->d, &t->stats[weight->id])));
}

/* Returns a tensor like t, of integers or bool, with this number in each element. */
static struct tensor *filled_input(struct check_context *c, const struct tensor *t, int64_t number)
{
	struct tensor *x = tensor_copy(&c->arena, t);

	for (int64_t i = 0, n = tensor_count(x); i < n; i++)
		elem_set_i64(tensor_dtype(x), x->data, i, number);
	return x;
}

/* Whether input i holds integers or bools of which nobody knows that the model takes them. */
static bool is_arbitrary(const struct check_context *c, uint32_t i)
{
	return c->inputs && i < input_count(c->inputs) && input_info(c->inputs, i)->arbitrary &&
	       c->in[i]->type.kind == V_TENSOR &&
	       (T_BIT(tensor_dtype(c->in[i])) & (T_INTS | T_BIT(DT_BOOL)));
}

/* Runs the model with `number` in each element of arbitrary integers and bools; if `counting`, the next input has the next number. */
static void retry_run(struct check_context *c, int number, bool counting, struct retry *r)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);
	struct check_names list = {&c->arena, NULL, 0};

	r->in = arena_new_n(&c->arena, const struct tensor *, g->nin + 1);
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct tensor *t = c->in[i];
		bool other = is_arbitrary(c, i);
		r->in[i] = other ? filled_input(c, t, number + (counting ? (int64_t)list.n : 0)) : t;
		if (other)
			check_name_add(&list, input_info(c->inputs, i)->name);
	}
	if (!list.n || !check_try_run(c, c->session, r->in, out, NULL))
		return;
	r->said = fmt(c->d, "with %s in %s, which %s generated",
		      counting ? "0, 1, 2, ..." : fmt(c->d, "%d", number), check_name_list(&list),
		      list.n > 1 ? "were" : "was");
	for (uint32_t k = 0; k < g->nout; k++)
		if (out[k])
			r->stats[k] = value_stats(out[k]);
}

/*
 * Whether the value that began the defect is finite in the retry. If it is not, the other integers only hide it: they may be a mask, and
 * zeros leave nothing of what it masks.
 */
static bool begins_nothing(struct check_context *c, struct numbers *x, struct retry *r, uint32_t first)
{
	struct diag quiet = {0}, *all = c->d;
	int err = 0;

	if (first == NO_VALUE)
		return true;
	if (!r->trace || r->trace->g != x->trace.g) {
		r->trace = arena_new(&c->arena, struct trace);
		c->d = &quiet;
		err = trace_run(c, x->traced, r->trace, r->in);
		c->d = all;
		diag_free(&quiet);
	}
	return err || !r->trace->seen[first] || !has_nan_or_inf(&r->trace->stats[first]);
}

/*
 * Whether output k has no such defect, and value `first` does not begin it, when all arbitrary integers and bools are another number: then it
 * may be those that this model does not take. *said names these inputs and the number.
 */
static bool blames_generated(struct check_context *c, struct numbers *x, uint32_t k, defect *test,
			     uint32_t first, const char **said)
{
	/* the last run counts the inputs, as a slice from 1 to 1 is empty */
	static const int8_t numbers[RETRIES] = {1, 0, 2, 0};
	const struct graph *g = session_model(c->session)->graph;

	if (!x->retries) {
		x->retries = arena_new_n(&c->arena, struct retry, RETRIES);
		for (int i = 0; i < RETRIES; i++) {
			x->retries[i].stats = arena_new_n(&c->arena, struct value_stats, g->nout + 1);
			retry_run(c, numbers[i], i + 1 == RETRIES, &x->retries[i]);
		}
	}
	for (int i = 0; i < RETRIES; i++) {
		struct retry *r = &x->retries[i];
		*said = r->said;
		if (r->said && r->stats[k].count && !test(&r->stats[k]) &&
		    begins_nothing(c, x, r, first))
			return true;
	}
	return false;
}

/* Whether a weight that the node reads has NaN: then it is to blame for the node's NaN, which check/nan_weights.c says. */
static bool reads_nan_weight(struct trace *t, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t v = value_with_numbers(t, n->in[i]);
		if (v != NO_VALUE && t->g->value[v]->init && has_nan(&t->stats[v]))
			return true;
	}
	return false;
}

static int report_nan(struct check_context *c, struct numbers *x, uint32_t k,
		      const struct value_stats *s)
{
	struct diag_row rows[MAX_ROWS];
	size_t n = 0;
	const char *input = defective_input(c, x, s->nan ? has_nan : has_inf);
	int err = trace_defect(c, x, k, s->nan ? has_nan : has_nan_or_inf);

	if (err)
		return err;
	struct trace *t = &x->trace;
	uint32_t v = value_with_numbers(t, t->g->out[k]);
	uint32_t first = v == NO_VALUE || input ? NO_VALUE : t->began[v];
	const struct node *node = node_making(t->g, first);
	/* a Cast that --precision added is no node of the file: the node before it made too large a number */
	const struct node *named = node ? check_file_node(t->g, node) : NULL;
	if (named && named != node && named->nout) {
		node = named;
		first = named->out[0];
	}
	rows[n++] = (struct diag_row){"the output", value_say(c->d, s)};
	if (input)
		rows[n++] = (struct diag_row){"already", input};
	else if (node)
		n += add_node_rows(x, node, first, rows + n);
	if (t->body && !input)
		rows[n++] =
			(struct diag_row){"in a body", fmt(c->d, "'%s' (%s) makes NaN first",
							   t->body->from->name, t->body->from->op)};
	bool mask = !s->nan && !node && !input;
	const char *other = NULL;
	bool generated = !mask && !input && !(node && reads_nan_weight(t, node)) &&
			 blames_generated(c, x, k, s->nan ? has_nan : has_nan_or_inf, first, &other);
	if (generated) {
		rows[n++] = (struct diag_row){"finite", other};
		rows[n++] = (struct diag_row){
			"try", "--input, or --random NAME=LO..HI, with numbers that the model is for"};
		if (!c->inputs_to_blame)
			c->inputs_to_blame = arena_new_n(&c->arena, bool, (size_t)c->nout + 1);
		c->inputs_to_blame[k] = true;
	}
	const struct finding f = {
		.code = E_OUT_NAN,
		.severity = mask	? SEV_NOTE
			    : generated ? SEV_WARNING
					: SEV_ERROR,
		.slot = output_slot(c, k, c->out[k]),
		.node = node ? node->origin->name : NULL,
		.op = node ? node->origin->op : NULL,
		.message = mask ? "has infinities, which come from constants of the model, like a mask's"
				: fmt(c->d, "has %s%s", s->nan ? "NaN" : "infinities",
				      input ? ", and so has an input" : ""),
		.rows = rows,
		.nrows = n,
		.file = __FILE__,
		.line = __LINE__};
	diag_add(c->d, &f);
	if (node && s->nan && !generated)
		report_infinite_weight(c, t, node);
	return 0;
}

/* Marks the values that depend on elements of inputs, and not only on their shapes; if `arbitrary`, on those of arbitrary inputs. */
static bool *mark_varying(struct check_context *c, bool arbitrary)
{
	const struct graph *g = session_model(c->session)->graph;
	bool *varies = arena_new_n(&c->arena, bool, g->nvalues + 1);

	for (uint32_t i = 0; i < g->nin; i++)
		varies[g->in[i]] = !arbitrary || is_arbitrary(c, i);
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = g->node[g->order[p]];
		bool any = false;
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			any |= n->in[i] != NO_VALUE && varies[n->in[i]];
		for (uint32_t i = 0; any && i < n->nout; i++)
			if (n->out[i] != NO_VALUE && !check_is(n, "Shape") && !check_is(n, "Size"))
				varies[n->out[i]] = true;
	}
	return varies;
}

/*
 * Whether output k depends on the elements of no input, but at most on their shapes: such an output is a constant by
 * design, like an initial state of zeros.
 */
static bool is_constant_output(struct check_context *c, struct numbers *x, uint32_t k)
{
	x->varies = x->varies ? x->varies : mark_varying(c, false);
	return !x->varies[session_model(c->session)->graph->out[k]];
}

/* Names the arbitrary integers and bools if output k depends on one of them, or returns NULL. */
static const char *arbitrary_inputs(struct check_context *c, struct numbers *x, uint32_t k)
{
	const struct graph *g = session_model(c->session)->graph;
	struct check_names list = {&c->arena, NULL, 0};

	x->doubtful = x->doubtful ? x->doubtful : mark_varying(c, true);
	for (uint32_t i = 0; i < g->nin && x->doubtful[g->out[k]]; i++)
		if (is_arbitrary(c, i))
			check_name_add(&list, input_info(c->inputs, i)->name);
	return list.n ? check_name_list(&list) : NULL;
}

/*
 * Returns a copy of the tensor with its elements in reverse order, and floats also multiplied by 0.75. Returns NULL
 * if that does not change the tensor.
 */
static struct tensor *other_input(struct check_context *c, const struct tensor *t)
{
	if (t->type.kind != V_TENSOR || !(T_BIT(tensor_dtype(t)) & (T_NUMERIC_BF)))
		return NULL;
	enum dtype type = tensor_dtype(t);
	struct tensor *x = tensor_copy(&c->arena, t);
	int64_t n = tensor_count(t);
	bool real = T_BIT(type) & T_FLOATS_BF;
	for (int64_t i = 0; i < n; i++) {
		if (real)
			elem_set_f64(type, x->data, i, 0.75 * elem_f64(type, t->data, n - 1 - i));
		else
			elem_set_i64(type, x->data, i, elem_i64(type, t->data, n - 1 - i));
	}
	return x->bytes && memcmp(x->data, t->data, x->bytes) ? x : NULL;
}

/*
 * Returns another input of the same shape: pseudo-random floats of both signs, wider in each of four trials so that thresholds
 * near the range of t are passed; integers, whose range the model decides, are drawn from the elements of t, and from trial SAME_INTEGERS
 * on from all of its range, but no wider, as they may be sizes of what the model allocates. Returns NULL if that does not change the tensor.
 */
static const struct tensor *trial_input(const struct tensor *t, int trial, struct arena *a)
{
	static const double factor[] = {1, 3, 10, 100};

	if (t->type.kind != V_TENSOR || !(T_BIT(tensor_dtype(t)) & T_NUMERIC_BF))
		return NULL;
	enum dtype type = tensor_dtype(t);
	bool real = T_BIT(type) & T_FLOATS_BF;
	struct value_stats s = value_stats(t);
	double range = fmax(1, fmax(fabs(s.min), fabs(s.max))) * (real ? factor[trial % 4] : 1);
	struct tensor *x = tensor_copy(a, t);
	uint64_t state = (uint64_t)(trial + 1);
	int64_t n = tensor_count(t);
	for (int64_t i = 0; i < n; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		double y = range * ((double)(state >> 11) * 0x1p-52 - 1);
		if (real)
			elem_set_f64(type, x->data, i, y);
		else if (trial >= SAME_INTEGERS)
			elem_set_i64(type, x->data, i, (int64_t)fmin(fmax(y, -0x1p62), 0x1p62));
		else
			elem_set_i64(type, x->data, i,
				     elem_i64(type, t->data, (int64_t)((state >> 33) % (uint64_t)n)));
	}
	return x->bytes && memcmp(x->data, t->data, x->bytes) ? x : NULL;
}

/* Sets the inputs of a trial, in the arena. Returns whether one differs from the given one. */
static bool trial_inputs(struct check_context *c, uint32_t n, int trial, const struct tensor **in,
			 struct arena *a)
{
	bool other = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct tensor *t = trial_input(c->in[i], trial, a);
		in[i] = t ? t : c->in[i];
		other |= t != NULL;
	}
	return other;
}

/* Runs the model with these inputs, or not if they are NULL. */
static void run_trial(struct check_context *c, struct trial *t, const struct tensor *const *in)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);

	t->made = true;
	t->stats = arena_new_n(&c->arena, struct value_stats, g->nout + 1);
	t->ran = in && check_try_run(c, c->session, in, out, NULL);
	for (uint32_t k = 0; k < g->nout && t->ran; k++)
		if (out[k])
			t->stats[k] = value_stats(out[k]);
}

static void run_zero_trial(struct check_context *c, struct trial *t, int number)
{
	const struct graph *g = session_model(c->session)->graph;
	struct arena a = {0};
	const struct tensor **in = arena_new_n(&a, const struct tensor *, g->nin + 1);

	run_trial(c, t, trial_inputs(c, g->nin, number, in, &a) ? in : NULL);
	arena_free(&a);
}

/* Whether output k is all zero for other inputs as well. Adds to *tried the number of runs that show it. */
static bool stays_zero(struct check_context *c, struct numbers *x, uint32_t k, int *tried)
{
	bool zero = true;

	for (int i = 0; i < ZERO_TRIALS && zero; i++) {
		struct trial *t = &x->zero[i];
		if (!t->made)
			run_zero_trial(c, t, i);
		zero = !t->ran || !t->stats[k].count || all_zero(&t->stats[k]);
		*tried += t->ran;
	}
	return zero;
}

/*
 * Whether output k may be all zero because sizes were guessed: a length of 1 may leave nothing but padding, and a batch of 1 nothing of a
 * difference from its mean.
 */
static bool is_zero_of_guessed_sizes(struct check_context *c, struct numbers *x, uint32_t k)
{
	if (!c->sizes_guessed || c->lengths_guessed)
		return c->lengths_guessed;
	if (!x->larger.made) {
		struct input_set *in = generate_larger_inputs(c);
		run_trial(c, &x->larger, in ? input_tensors(in) : NULL);
		input_free(in);
	}
	return !x->larger.ran || !all_zero(&x->larger.stats[k]);
}

static int report_zero(struct check_context *c, struct numbers *x, uint32_t k,
		       const struct value_stats *s)
{
	struct diag_row rows[MAX_ROWS];
	size_t n = 0;
	const char *input = defective_input(c, x, all_zero);
	const char *count = str_all(&c->d->arena, (uint64_t)s->count, "element");
	int tried = 0;

	if (is_constant_output(c, x, k))
		return 0;
	if (!stays_zero(c, x, k, &tried)) {
		NOTE(c->d, E_OUT_ZERO, .slot = output_slot(c, k, c->out[k]),
		     .message = fmt(c->d, "%s 0 for these inputs, but not for others%s", count,
				    input ? "; an input is all 0 as well" : ""));
		return 0;
	}
	int err = trace_defect(c, x, k, all_zero);
	if (err)
		return err;
	struct trace *t = &x->trace;
	uint32_t v = value_with_numbers(t, t->g->out[k]);
	uint32_t first = v == NO_VALUE ? NO_VALUE : t->began_zero[v];
	const struct node *node = node_making(t->g, first);
	if (input)
		rows[n++] = (struct diag_row){"already", input};
	if (node)
		n += add_node_rows(x, node, first, rows + n);
	const char *arbitrary = arbitrary_inputs(c, x, k);
	bool by_sizes = is_zero_of_guessed_sizes(c, x, k);
	rows[n++] = (struct diag_row){
		"try",
		by_sizes ? "--dim NAME=N, as sizes of free dimensions were guessed, or --input"
		: arbitrary
			? fmt(c->d,
			      "--random NAME=LO..HI, as integers were generated for %s, or --input",
			      arbitrary)
			: "--compare with another device or --optimize none, if this node's output should not be 0"};
	/* generated integers may be none that the model is for */
	struct finding f = {.code = E_OUT_ZERO,
			    .severity = by_sizes || arbitrary ? SEV_WARNING : SEV_ERROR,
			    .slot = output_slot(c, k, c->out[k]),
			    .node = node ? node->origin->name : NULL,
			    .op = node ? node->origin->op : NULL,
			    .message = fmt(c->d, "%s 0%s%s", count,
					   tried ? ", also for other inputs" : "",
					   input ? ", and so are those of an input" : ""),
			    .rows = rows,
			    .nrows = n,
			    .file = __FILE__,
			    .line = __LINE__};
	diag_add(c->d, &f);
	return 0;
}

static int report_constant(struct check_context *c, struct numbers *x, uint32_t k,
			   const struct value_stats *s)
{
	struct diag_row rows[MAX_ROWS];
	int err = trace_defect(c, x, k, is_constant);

	if (err)
		return err;
	struct trace *t = &x->trace;
	uint32_t v = value_with_numbers(t, t->g->out[k]);
	uint32_t first = v == NO_VALUE ? NO_VALUE : t->began_constant[v];
	const struct node *node = node_making(t->g, first);
	const struct finding f = {.code = E_OUT_CONSTANT,
				  .severity = SEV_WARNING,
				  .slot = output_slot(c, k, c->out[k]),
				  .node = node ? node->origin->name : NULL,
				  .op = node ? node->origin->op : NULL,
				  .message = value_say(c->d, s),
				  .rows = rows,
				  .nrows = node ? add_node_rows(x, node, first, rows) : 0,
				  .file = __FILE__,
				  .line = __LINE__};
	diag_add(c->d, &f);
	return 0;
}

/* Whether the node divides integers by numbers that only the run knows. */
static bool divides_integers(const struct graph *g, const struct node *n)
{
	const struct value *by = node_in(g, n, 1);

	return (check_is(n, "Div") || check_is(n, "Mod")) && by && !by->init &&
	       by->info.type.kind == V_TENSOR && T_BIT((enum dtype)by->info.type.dtype) & T_INTS;
}

/* Warns of integers that are divided by 0 in the run; graph.c warns of constant divisors. */
static int check_divisors(struct check_context *c, struct numbers *x)
{
	const struct graph *g = session_model(c->session)->graph;
	bool any = false;

	for (uint32_t i = 0; i < g->norder && !any; i++)
		any = divides_integers(g, g->node[g->order[i]]);
	if (!any || trace_once(c, x))
		return 0;
	g = x->trace.g;
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		uint32_t v =
			divides_integers(g, n) ? value_with_numbers(&x->trace, n->in[1]) : NO_VALUE;
		if (v == NO_VALUE || !x->trace.stats[v].zero)
			continue;
		WARN(c->d, E_VALUE, .node = n->origin->name, .op = n->origin->op,
		     .slot = "input 1 'B'",
		     .message =
			     fmt(c->d, CHECK_DIVIDES_BY_0,
				 str_many(&c->d->arena, (uint64_t)x->trace.stats[v].zero, "element")),
		     .hint = "look for what makes the divisor 0");
		return 0;
	}
	return 0;
}

static int check_outputs(struct check_context *c, struct numbers *x)
{
	int err = 0;

	for (uint32_t k = 0; k < c->nout && !err; k++) {
		const struct tensor *t = c->out[k];
		struct value_stats s = t ? value_stats(t) : (struct value_stats){0};
		if (!s.number || !s.count)
			continue;
		bool real = T_BIT(tensor_dtype(t)) & T_FLOATS_BF;
		bool suspicious = s.nan || s.inf || (real && s.count > 1 && all_zero(&s));
		if (suspicious && reference_confirms(c, k))
			NOTE(c->d, s.nan || s.inf ? E_OUT_NAN : E_OUT_ZERO,
			     .slot = output_slot(c, k, t),
			     .message = fmt(c->d, "has %s, and so has the reference",
					    s.nan   ? "NaN"
					    : s.inf ? "infinities"
						    : "zeros only"));
		else if (s.nan || s.inf)
			err = report_nan(c, x, k, &s);
		else if (real && s.count > 1 && all_zero(&s))
			err = report_zero(c, x, k, &s);
		else if (all_zero(&s) && s.count > 1)
			NOTE(c->d, E_OUT_ZERO, .slot = output_slot(c, k, t),
			     .message = "all elements are 0, which may be right for integers");
		else if (real && s.constant)
			err = report_constant(c, x, k, &s);
	}
	return err;
}

/* ---- --nan ------------------------------------------------------------------------------------ */

static int check_intermediate_values(struct check_context *c, struct numbers *x)
{
	struct diag_row rows[MAX_ROWS];
	int err = trace_once(c, x);
	const struct first_defects *w = &x->defects;
	struct diag *d = c->d;

	if (err)
		return err;
	if (w->nan && !check_found(c, E_OUT_NAN)) {
		size_t n = add_node_rows(x, w->nan, w->nan_value, rows);
		WARN(d, E_NUM_NAN, .node = w->nan->origin->name, .op = w->nan->origin->op,
		     .message = "makes NaN, but no output shows it", .rows = rows, .nrows = n);
	}
	if (w->inf && !check_found(c, E_OUT_NAN)) {
		size_t n = add_node_rows(x, w->inf, w->inf_value, rows);
		bool half = x->trace.g->value[w->inf_value]->info.type.dtype == DT_F16;
		struct finding f = {.code = half ? E_NUM_FP16 : E_NUM_INF,
				    .severity = half ? SEV_WARNING : SEV_NOTE,
				    .node = w->inf->origin->name,
				    .op = w->inf->origin->op,
				    .message = "makes infinities, but no output shows them",
				    .rows = rows,
				    .nrows = n,
				    .file = __FILE__,
				    .line = __LINE__};
		diag_add(d, &f);
	}
	if (w->denormal)
		NOTE(d, E_NUM_DENORMAL, .node = w->denormal->origin->name,
		     .op = w->denormal->origin->op,
		     .message = fmt(d, "%s of %s numbers of all nodes are denormal, the first here",
				    str_count(&d->arena, w->denormals),
				    str_count(&d->arena, w->numbers)));
	if (w->fp16) {
		bool asked = c->config->precision == PRECISION_FP16;
		struct finding f = {
			.code = E_NUM_FP16,
			.severity = asked ? SEV_WARNING : SEV_NOTE,
			.node = w->fp16->origin->name,
			.op = w->fp16->origin->op,
			.message = fmt(d,
				       "%s; the range of fp16 ends at 65504, and the largest value of all "
				       "nodes is %.6g",
				       value_say(d, &x->trace.stats[w->fp16_value]), w->largest),
			.file = __FILE__,
			.line = __LINE__};
		diag_add(d, &f);
	}
	return 0;
}

/* ---- --zero: another input -------------------------------------------------------------------- */

/*
 * Returns the first node with an input that differs between the two runs and an output, *value, that does not differ: one of floats, or one of
 * other types, as comparisons, ArgMax and quantization give.
 */
static const struct node *find_independent_node(struct trace *a, struct trace *b, bool floats,
						uint32_t *value)
{
	for (uint32_t p = 0; p < a->g->norder; p++) {
		const struct node *n = a->g->node[a->g->order[p]];
		bool differs = false;
		for (uint32_t i = 0; i < n->nin; i++) {
			uint32_t v =
				n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(a, n->in[i]);
			uint32_t u =
				n->in[i] == NO_VALUE ? NO_VALUE : value_with_numbers(b, n->in[i]);
			differs |= v != NO_VALUE && u != NO_VALUE && a->hash[v] != b->hash[u];
		}
		for (uint32_t i = 0; i < n->nout && differs; i++) {
			uint32_t v = n->out[i];
			if (v == NO_VALUE || is_float_value(a->g, v) != floats || !a->seen[v] ||
			    !b->seen[v] || (floats && a->stats[v].count < 2) ||
			    a->hash[v] != b->hash[v])
				continue;
			*value = v;
			return n;
		}
	}
	return NULL;
}

static uint64_t output_hash(const struct tensor *t)
{
	return t && t->type.kind == V_TENSOR && t->data ? hash_bytes(t->data, t->bytes, 0) : 0;
}

/*
 * Runs the model on more and wider inputs, as an output that is constant piece by piece (of a tree, of the nearest neighbours) may well be the
 * same for two. Clears blind[k] of the outputs that move. Returns the number of runs.
 */
static int try_wider(struct check_context *c, struct session *s, bool *blind)
{
	const struct graph *g = session_model(s)->graph;
	const struct tensor **in = arena_new_n(&c->arena, const struct tensor *, g->nin + 1);
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);
	uint64_t *first = arena_new_n(&c->arena, uint64_t, g->nout + 1);
	int tried = 0;
	bool runs = check_try_run(c, s, c->in, out, NULL);

	for (uint32_t k = 0; k < g->nout && runs; k++)
		first[k] = output_hash(out[k]);
	for (int trial = 0; runs && trial < INDEPENDENT_TRIALS; trial++) {
		struct arena a = {0};
		bool left = false;
		for (uint32_t k = 0; k < g->nout; k++)
			left |= blind[k];
		/* a run that fails or gives NaN proves nothing: these inputs may be none that the model takes */
		bool ran = left && trial_inputs(c, g->nin, trial, in, &a) &&
			   check_try_run(c, s, in, out, NULL);
		tried += ran;
		for (uint32_t k = 0; k < g->nout && ran; k++)
			blind[k] &= !out[k] || output_hash(out[k]) == first[k] ||
				    value_stats(out[k]).nan;
		arena_free(&a);
	}
	return tried;
}

/*
 * Reports outputs that do not depend on the input: those of blind[k]. `every` tells that no output that was compared depends on it.
 */
static void report_independent(struct check_context *c, struct numbers *x, struct trace *other,
			       const bool *blind, bool every, int tried)
{
	struct diag_row rows[MAX_ROWS];
	size_t n = 0;
	uint32_t value = NO_VALUE;
	const struct graph *g = x->trace.g;
	const struct node *node = find_independent_node(&x->trace, other, true, &value);
	/* at lengths that were guessed, a window may see nothing but its padding; a comparison may turn at values that nobody tried */
	bool doubtful = c->lengths_guessed;

	if (!node) {
		node = find_independent_node(&x->trace, other, false, &value);
		doubtful |= node != NULL;
	}

	rows[n++] = (struct diag_row){
		"tried", fmt(c->d, "the inputs as given, with their elements in reverse order%s",
			     tried ? fmt(c->d, ", and %s more, up to 100 times as wide",
					 str_count(&c->d->arena, tried))
				   : "")};
	if (node)
		n += add_node_rows(x, node, value, rows + n);
	if (doubtful)
		rows[n++] = (struct diag_row){
			"try",
			c->lengths_guessed
				? "--dim NAME=N, as sizes of free dimensions were guessed, or --input"
				: "--random LO..HI, or --input with values that the model is for"};
	for (uint32_t k = 0; k < g->nout; k++) {
		if (!blind[k] || all_zero(&x->trace.stats[value_with_numbers(&x->trace, g->out[k])]))
			continue;
		struct finding f = {
			.code = E_OUT_INDEPENDENT,
			.severity = every && !doubtful ? SEV_ERROR : SEV_WARNING,
			.slot = fmt(c->d, "output '%s'", g->out_name[k]),
			.node = node ? node->origin->name : NULL,
			.op = node ? node->origin->op : NULL,
			.message = tried ? "is equal to the bit for all inputs that were tried"
					 : "is equal to the bit for two different inputs",
			.rows = rows,
			.nrows = n,
			.file = __FILE__,
			.line = __LINE__};
		diag_add(c->d, &f);
	}
}

static int check_dependence(struct check_context *c, struct numbers *x)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **in = arena_new_n(&c->arena, const struct tensor *, g->nin + 1);
	bool *blind = arena_new_n(&c->arena, bool, g->nout + 1);
	struct trace other;
	uint32_t looked = 0, same = 0, left = 0;
	bool any = false;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct tensor *t = other_input(c, c->in[i]);
		in[i] = t ? t : c->in[i];
		any |= t != NULL;
	}
	if (!any)
		return 0;
	int err = trace_once(c, x);
	err = err ? err : trace_run(c, x->traced, &other, in);
	if (err)
		return err;
	g = x->trace.g; /* the session that is traced may have a graph of its own */
	for (uint32_t k = 0; k < g->nout; k++) {
		uint32_t v = value_with_numbers(&x->trace, g->out[k]),
			 u = value_with_numbers(&other, g->out[k]);
		if (v == NO_VALUE || u == NO_VALUE || !is_float_value(g, g->out[k]) ||
		    x->trace.stats[v].count < 2 || x->trace.stats[v].nan)
			continue;
		looked++;
		blind[k] = x->trace.hash[v] == other.hash[u];
		same += blind[k];
	}
	if (!same)
		return 0;
	int tried = try_wider(c, x->traced, blind);
	for (uint32_t k = 0; k < g->nout; k++)
		left += blind[k];
	if (left)
		report_independent(c, x, &other, blind, left == looked, tried);
	return 0;
}

/* ----------------------------------------------------------------------------------------------- */

static int run_numbers(struct check_context *c)
{
	struct numbers *x = arena_new(&c->arena, struct numbers);
	const struct check_options *o = c->options;
	size_t errors = c->d->errors, warnings = c->d->warnings;
	int err = check_outputs(c, x);

	if (!err)
		err = check_divisors(c, x);
	if (!err && (o->nan || o->all))
		err = check_intermediate_values(c, x);
	if (!err && (o->zero || o->all))
		err = check_dependence(c, x);
	session_close(x->plain);
	if (!err && c->d->errors == errors)
		check_say(c, "%" PRIu32 " output%s: %s%s%s", c->nout, c->nout == 1 ? "" : "s",
			  !check_found(c, E_OUT_NAN)  ? "finite"
			  : c->d->warnings > warnings ? "NaN or infinities, see above"
						      : "NaN or infinities as expected",
			  check_found(c, E_OUT_ZERO) ? "" : ", not all zero",
			  o->zero || o->all ? ", depend on the input" : "");
	return err;
}

const struct check check_numbers = {
	.name = "numbers",
	.what = "NaN, infinities, zeros, constants",
	.need = NEED_OUTPUTS,
	.cost = COST_RUN,
	.run = run_numbers,
};
