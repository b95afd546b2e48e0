/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference is ONNX Runtime, which runs the file as it is. Its inner values become outputs of a model in memory, a segment
 * of the graph at a time, so that no more of them are held than twice the largest one or 64 MiB; our run of the same inputs
 * is repeated for each segment and compared as it makes its values.
 */
#include "check/compare.h"

#include "backend/evaluate.h"
#include "base/hash.h"
#include "base/str.h"
#include "check/distance.h"
#include "check/path_precision.h"
#include "check/pair_sides.h"
#include "check/prepare_inputs.h"
#include "check/step_value.h"
#include "input/list.h"
#include "onnx/save.h"
#include "ort/ort.h"
#include "session/backends.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
	MAX_ROWS = 20,
	OUTPUT_ROWS = 4,
	/* nodes that are repeated on the reference's inputs until one differs by itself */
	MAX_SUSPECTS = 32,
	SEGMENT_BYTES = 64 << 20,
};

/* A value of the file that both sides make, in the order of our run. */
struct shared_value {
	const struct node *node;
	uint32_t id; /* in the plain session's graph */
	size_t bytes;
	enum dtype dtype, path; /* path: by which `own` is judged, see path_precision.h */
	struct distance own, local;
	struct input_error inputs; /* of its node */
	/* our result of the reference's inputs, and the reference's, from that without rounding, if it is known */
	struct distance own_exact, ref_exact;
};

struct against_ort {
	struct check_context *c;
	struct arena arena;
	struct ort *ort;
	struct input_set *other; /* inputs in place of the context's, of sizes that the reference takes; or NULL */
	double limit;
	/* the input whose outputs are farthest away, and its distances by output */
	size_t worst_case, ncases;
	const char *worst_label;
	size_t cases_over; /* inputs of which an output is over the limit */
	double most;	   /* largest rel of an output */
	struct distance *outputs;
	uint32_t output;	 /* the first that is over the limit, of that input */
	enum dtype output_dtype; /* by which it is judged */
	enum dtype *path;	 /* path_precisions() of the session's graph */
	bool outputs_over;
	uint32_t unknown; /* outputs that cannot be compared */

	/* node by node */
	struct session *plain;
	const struct graph *g;	/* of plain */
	enum dtype *plain_path; /* path_precisions() of it */
	struct shared_value *value;
	size_t nvalues, cap, peak;
	bool *made;	  /* by value id: a node of the file makes a value of this name */
	double *rel;	  /* by value id: distance from the reference, NAN if not known */
	uint32_t *shared; /* by value id: its number in `value` and 1 more, 0 if it has none */
	struct ort_value *have; /* by value id: the reference's value, in the current segment */
	bool *wanted;
	bool plain_over; /* an output of the plain run is over the limit, too */
	struct shared_value *jump, *off, *first,
		*largest; /* off: the first at which the reference is at fault */
	size_t jumps, offs;
	bool tensors; /* the tensors were compared */
};

/* ---- outputs ------------------------------------------------------------------------------------ */

static const char *const *input_names(struct against_ort *a, const struct graph *g)
{
	const char **name = arena_new_n(&a->arena, const char *, g->nin + 1);

	for (uint32_t i = 0; i < g->nin; i++)
		name[i] = g->value[g->in[i]]->name;
	return name;
}

/* Differences of floats up to --atol are none: tails of a Sigmoid are of that size. */
static bool is_within_atol(const struct against_ort *a, const struct distance *d)
{
	return d->known && d->fits && !d->text && !d->wrong && d->max_abs <= a->c->options->atol;
}

/* Whether the distance of a node's result is over the limit. */
static bool is_over(const struct against_ort *a, const struct distance *d, enum dtype t)
{
	return !is_within_atol(a, d) && distance_over(d, t, a->limit);
}

/* Whether the distance is over the limit for roundings of type t along the value's path. */
static bool is_over_path(const struct against_ort *a, const struct distance *d, enum dtype t)
{
	return is_over(a, d, t) && distance_over(d, t, path_limit(t, a->limit));
}

static bool is_output_over(const struct against_ort *a, const struct distance *d, enum dtype t)
{
	return !is_within_atol(a, d) && pair_sides_output_over(a->c, d, t, a->limit);
}

/* Badness of a distance, to find the worst input: what cannot be put in numbers is worse than any number. */
static double badness(const struct distance *d)
{
	if (!d->known)
		return 0;
	/* nothing to relate the difference to: the reference is 0 everywhere */
	if (d->fits && !d->wrong && isinf(d->rel))
		return d->max_abs;
	return !d->fits || d->wrong ? INFINITY : d->rel;
}

/* Returns the type by which output k is judged. */
static enum dtype output_type(const struct against_ort *a, const struct graph *g,
			      const struct tensor *const *out, uint32_t k)
{
	return coarser_precision(tensor_dtype(out[k]), a->path[g->out[k]]);
}

static void judge_outputs(struct against_ort *a, const struct graph *g,
			  const struct tensor *const *out, const struct ort_value *ref,
			  size_t number, const char *label)
{
	struct distance *d = arena_new_n(&a->arena, struct distance, g->nout + 1);
	double worst = 0;
	bool over = false;

	for (uint32_t k = 0; k < g->nout; k++) {
		if (!out[k] || ref[k].t.type.kind == V_NONE)
			continue;
		d[k] = distance_of(out[k], &ref[k].t);
		over |= is_output_over(a, &d[k], output_type(a, g, out, k));
		if (badness(&d[k]) > worst)
			worst = badness(&d[k]);
	}
	a->cases_over += over;
	if (a->outputs && !(over && !a->outputs_over) && !(over == a->outputs_over && worst > a->most))
		return;
	a->outputs = d;
	a->outputs_over = over;
	a->most = worst;
	a->worst_case = number;
	a->worst_label = label ? arena_str(&a->arena, label) : NULL;
	a->unknown = 0;
	for (uint32_t k = g->nout; k-- > 0;) {
		a->unknown += !d[k].known;
		if (!out[k] || !is_output_over(a, &d[k], output_type(a, g, out, k)))
			continue;
		a->output = k;
		a->output_dtype = output_type(a, g, out, k);
	}
}

/* Runs both sides on one input and judges the outputs. */
static int compare_outputs(struct against_ort *a, struct ort_session *s,
			   const struct tensor *const *in, size_t number, const char *label)
{
	struct check_context *c = a->c;
	const struct graph *g = session_model(c->session)->graph;
	struct arena tmp = {0};
	const struct tensor **out = arena_new_n(&tmp, const struct tensor *, g->nout + 1);
	struct ort_value *ref = arena_new_n(&tmp, struct ort_value, g->nout + 1);
	int err = ort_run(s, input_names(a, g), in, g->nin, g->out_name, g->nout, ref, c->d);

	if (!err)
		err = check_session_run(c, c->session, in, out, NULL);
	if (!err)
		judge_outputs(a, g, out, ref, number, label);
	for (uint32_t k = 0; k < g->nout; k++)
		ort_value_free(&ref[k]);
	arena_free(&tmp);
	return err;
}

/* Reads the tensors of case i. Returns NULL with a finding on error. */
static struct input_set *read_case(struct against_ort *a, const struct input_list *l, size_t i)
{
	struct check_context *c = a->c;
	struct input_request r = input_list_case(l, i);
	struct input_set *s = input_plan(session_model(c->session), &r, c->d);

	if (s && input_read(s, c->d)) {
		input_free(s);
		s = NULL;
	}
	return s;
}

static int compare_cases(struct against_ort *a, struct ort_session *s)
{
	struct check_context *c = a->c;
	const struct input_list *l = c->cases;
	int err = 0;

	if (!l)
		return compare_outputs(a, s, a->other ? input_tensors(a->other) : c->in, 0, NULL);
	for (size_t i = 0; i < l->n && !err; i++) {
		struct input_set *set = read_case(a, l, i);
		if (!set)
			return -(int)c->d->last->code;
		err = compare_outputs(a, s, input_tensors(set), i, l->label[i]);
		input_free(set);
		check_step(c, i + 1, l->n);
	}
	return err;
}

struct reference_run {
	struct against_ort *a;
	struct ort_session *s;
};

static int run_reference(void *arg, const struct input_set *inputs, struct diag *d)
{
	struct reference_run *r = arg;
	struct against_ort *a = r->a;
	const struct graph *g = session_model(a->c->session)->graph;
	struct ort_value *ref = arena_new_n(&a->arena, struct ort_value, g->nout + 1);
	int err = ort_run(r->s, input_names(a, g), input_tensors(inputs), g->nin, g->out_name,
			  g->nout, ref, d);

	for (uint32_t k = 0; k < g->nout; k++)
		ort_value_free(&ref[k]);
	return err;
}

/* Sizes that were guessed may suit only us, as ONNX Runtime reuses memory by the names of dimensions: then others are tried. */
static int compare_guessed(struct against_ort *a, struct ort_session *s)
{
	struct check_context *c = a->c;
	struct reference_run r = {a, s};
	struct diag *all = c->d, why = {0};

	c->d = &why;
	int err = compare_cases(a, s);
	c->d = all;
	if (err)
		a->other = guess_sizes_again(c, run_reference, &r);
	if (!a->other)
		check_merge(c->d, &why);
	diag_free(&why);
	return a->other ? compare_cases(a, s) : err;
}

/* ---- tensors ------------------------------------------------------------------------------------ */

struct plain_run {
	struct observer observer;
	struct against_ort *a;
	bool counting; /* the first run only tells which values there are */
	size_t at;     /* next entry of a->value */
	int err;
};

static void count_value(struct against_ort *a, const struct step *s, uint32_t id,
			const struct tensor *t)
{
	if (a->nvalues == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 256;
		a->value = arena_grow(&a->arena, a->value, a->nvalues, cap, sizeof(*a->value));
		a->cap = cap;
	}
	a->value[a->nvalues++] =
		(struct shared_value){.node = s->node,
				      .id = id,
				      .bytes = t->bytes,
				      .dtype = tensor_dtype(t),
				      .path = coarser_precision(tensor_dtype(t), a->plain_path[id])};
}

static bool has_rel(const void *arg, uint32_t id)
{
	return !isnan(((const struct against_ort *)arg)->rel[id]);
}

/*
 * Distance of a value from the reference; of one that has no step (a view), that of the value it is a view of. NAN if the value
 * was not compared.
 */
static double rel_of(const struct against_ort *a, uint32_t id)
{
	uint32_t from = follow_views(a->g, id, false, has_rel, a);
	const struct value *v = a->g->value[from];

	return isnan(a->rel[from]) && (v->init || v->producer == NO_NODE) ? 0 : a->rel[from];
}

/* The value itself if both sides make it, or the one of which it is a view; NULL if there is none. */
static struct shared_value *shared_value_of(const struct against_ort *a, uint32_t id)
{
	for (int depth = 0; id != NO_VALUE && depth < 64; depth++) {
		const struct value *v = a->g->value[id];
		if (a->shared[id])
			return &a->value[a->shared[id] - 1];
		const struct node *n = value_maker(a->g, v);
		if (!n || !n->op || !(n->op->flags & OP_VIEW) || !n->nin)
			break;
		id = n->in[0];
	}
	return NULL;
}

/*
 * Returns the input of n of which some quantized elements differ by 1, the first in the run if there are several; NULL if there is none. Such
 * a difference counts as none, but what is made of the input may be far off.
 */
static struct shared_value *stepped_input(const struct against_ort *a, const struct node *n)
{
	struct shared_value *first = NULL;

	for (uint32_t i = 0; i < n->nin; i++) {
		struct shared_value *x = shared_value_of(a, n->in[i]);
		if (x && x->own.known && x->own.steps && (!first || x < first))
			first = x;
	}
	return first;
}

static struct input_error input_error_of(const struct against_ort *a, const struct node *n)
{
	struct input_error e = {0};

	for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
		if (n->in[i] == NO_VALUE)
			continue;
		double rel = rel_of(a, n->in[i]);
		input_error_add(&e, rel, !isnan(rel), a->g->value[n->in[i]]->name);
	}
	return e;
}

static void compare_value(struct plain_run *r, const struct call *call, const struct step *s,
			  uint32_t id, const struct tensor *t)
{
	struct against_ort *a = r->a;
	struct value_copy v;
	struct shared_value *x = NULL;

	if (!a->wanted[id] || a->have[id].t.type.kind == V_NONE)
		return;
	for (size_t i = r->at; i < a->nvalues && !x; i++)
		if (a->value[i].id == id) {
			x = &a->value[i];
			r->at = i + 1;
		}
	if (!x || r->err)
		return;
	r->err = value_fetch(session_runtime(a->plain), call, t, false, &v, a->c->d);
	if (r->err)
		return;
	x->own = distance_of(&v.t, &a->have[id].t);
	a->shared[id] = (uint32_t)(x - a->value) + 1;
	x->inputs = input_error_of(a, s->node);
	x->inputs.steps = stepped_input(a, s->node) != NULL;
	a->rel[id] = x->own.known ? badness(&x->own) : NAN;
	value_free(&v);
}

static void end_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct plain_run *r = (struct plain_run *)o;
	struct against_ort *a = r->a;

	if (!step_computes(session_runtime(a->plain), a->g, s))
		return;
	for (uint32_t i = 0; i < s->nout; i++) {
		uint32_t id = s->node->out[i];
		const struct tensor *t = call->out[i];
		if (id == NO_VALUE || !t || !a->made[id] || t->type.kind != V_TENSOR)
			continue;
		if (r->counting)
			count_value(a, s, id, t);
		else
			compare_value(r, call, s, id, t);
	}
}

static int run_plain(struct against_ort *a, const struct tensor *const *in, struct plain_run *r)
{
	struct arena tmp = {0};
	const struct tensor **out = arena_new_n(&tmp, const struct tensor *, a->g->nout + 1);

	r->observer.end = end_step;
	r->a = a;
	int err = check_session_run(a->c, a->plain, in, out, &r->observer);
	arena_free(&tmp);
	return err ? err : r->err;
}

/* Marks the values that nodes of the file's own graph make: only their names mean the same to both sides. */
static int mark_made(struct against_ort *a)
{
	struct onnx_file *f = onnx_file_open(a->c->path, a->c->config->external_root, a->c->d);
	struct arena tmp = {0};
	struct map names = {.arena = &tmp};

	if (!f)
		return -(int)a->c->d->last->code;
	for (uint32_t i = 0; i < onnx_file_nodes(f); i++) {
		const struct onnx_node *n = onnx_file_node(f, i);
		for (uint32_t k = 0; k < n->nout && !n->constant; k++)
			if (*n->out[k])
				map_set(&names, n->out[k], strlen(n->out[k]), 1);
	}
	for (uint32_t i = 0; i < a->g->nvalues; i++) {
		const char *name = a->g->value[i]->name;
		a->made[i] = *name && map_get(&names, name, strlen(name)) >= 0;
	}
	arena_free(&tmp);
	onnx_file_close(f);
	return 0;
}

static bool is_output(const struct graph *g, const char *name)
{
	for (uint32_t k = 0; k < g->nout; k++)
		if (!strcmp(g->out_name[k], name))
			return true;
	return false;
}

/*
 * Has ONNX Runtime make the values of these n ids, into a->have. Values that are outputs of the model already are not added
 * to it a second time.
 */
static int fetch_reference(struct against_ort *a, const struct tensor *const *in,
			   const uint32_t *id, size_t n)
{
	struct check_context *c = a->c;
	struct arena tmp = {0};
	const char **name = arena_new_n(&tmp, const char *, n + 1);
	const char **extra = arena_new_n(&tmp, const char *, n + 1);
	struct ort_value *out = arena_new_n(&tmp, struct ort_value, n + 1);
	size_t nextra = 0, held = 0;

	for (size_t i = 0; i < n; i++) {
		name[i] = a->g->value[id[i]]->name;
		if (!is_output(session_model(c->session)->graph, name[i]))
			extra[nextra++] = name[i];
	}
	struct ort_session *s =
		ort_session_open(a->ort, c->path, extra, nextra, c->config->threads, c->d);
	int err = s ? ort_run(s, input_names(a, a->g), in, a->g->nin, name, n, out, c->d)
		    : -(int)c->d->last->code;
	ort_session_close(s);
	for (size_t i = 0; i < n; i++) {
		a->have[id[i]] = out[i];
		held += out[i].t.bytes;
	}
	if (held > a->peak)
		a->peak = held;
	arena_free(&tmp);
	return err;
}

static void free_reference(struct against_ort *a, const uint32_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ort_value_free(&a->have[id[i]]);
		a->wanted[id[i]] = false;
	}
}

/* Compares the values from `first` on, as many as the budget allows. Returns 0 or -code; *next is set to the first one left. */
static int compare_segment(struct against_ort *a, const struct tensor *const *in, size_t first,
			   size_t budget, size_t *next)
{
	struct arena tmp = {0};
	uint32_t *id = arena_new_n(&tmp, uint32_t, a->nvalues - first + 1);
	size_t n = 0, bytes = 0;

	for (; first + n < a->nvalues && (!n || bytes + a->value[first + n].bytes <= budget); n++) {
		id[n] = a->value[first + n].id;
		a->wanted[id[n]] = true;
		bytes += a->value[first + n].bytes;
	}
	*next = first + n;
	struct plain_run r = {.at = first};
	int err = fetch_reference(a, in, id, n);
	if (!err)
		err = run_plain(a, in, &r);
	free_reference(a, id, n);
	arena_free(&tmp);
	return err;
}

/* ---- the node to blame ---------------------------------------------------------------------------- */

/* The reference's tensor for a node's input: a constant, an input of the model, or a value fetched before; NULL if unknown. */
static const struct tensor *reference_input(const struct against_ort *a,
					    const struct tensor *const *in, uint32_t id)
{
	if (a->g->value[id]->init)
		return a->g->value[id]->init;
	for (uint32_t i = 0; i < a->g->nin; i++)
		if (a->g->in[i] == id)
			return in[i];
	return a->have[id].t.type.kind == V_NONE ? NULL : &a->have[id].t;
}

static bool is_real(const struct tensor *t)
{
	return t->type.kind == V_TENSOR && (T_BIT(tensor_dtype(t)) & T_FLOATS_BF);
}

static bool is_byte(const struct tensor *t)
{
	return t->type.kind == V_TENSOR && (T_BIT(tensor_dtype(t)) & (T_BIT(DT_I8) | T_BIT(DT_U8)));
}

static const struct tensor *as_f64(const struct tensor *t, struct arena *a)
{
	struct tensor *x = tensor_new(a, DT_F64, &t->shape);
	int64_t n = tensor_count(t);

	for (int64_t i = 0; x && i < n; i++)
		elem_set_f64(DT_F64, x->data, i, elem_f64(tensor_dtype(t), t->data, i));
	return x;
}

/*
 * Returns the node's output k without rounding: computed in double precision or, where bytes are multiplied and added to integers, as
 * it is, since such sums are exact. Returns NULL if the node is neither such a product nor computable in double precision.
 */
static const struct tensor *exact_result(struct against_ort *a, const struct node *n, uint32_t k,
					 const struct tensor *const *arg,
					 const struct tensor *plain, struct arena *tmp)
{
	const struct tensor **wide = arena_new_n(tmp, const struct tensor *, n->nin + 1);
	struct tensor **out = arena_new_n(tmp, struct tensor *, n->nout + 1);
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < n->nin; i++) {
		bytes += arg[i] && is_byte(arg[i]) && tensor_count(arg[i]) > 1;
		wide[i] = arg[i] && is_real(arg[i]) ? as_f64(arg[i], tmp) : arg[i];
		if (arg[i] && !wide[i])
			return NULL;
	}
	if (bytes > 1 && !is_real(plain))
		return plain;
	if (!is_real(plain) || (op_flags(n->op) & OP_RANDOM) ||
	    eval_node(host_backend(), a->g, n, wide, out, tmp, NULL))
		return NULL;
	return out[k] && out[k]->layout == LAYOUT_ROW && tensor_dtype(out[k]) == DT_F64 ? out[k]
											: NULL;
}

/* Runs the node by our kernel on the reference's inputs and compares its outputs with the reference's. */
static void repeat_node(struct against_ort *a, const struct tensor *const *in, struct shared_value *x)
{
	const struct node *n = x->node;
	struct arena tmp = {0};
	const struct tensor **arg = arena_new_n(&tmp, const struct tensor *, n->nin + 1);
	struct tensor **out = arena_new_n(&tmp, struct tensor *, n->nout + 1);
	bool known = true;

	for (uint32_t i = 0; i < n->nin; i++) {
		arg[i] = n->in[i] == NO_VALUE ? NULL : reference_input(a, in, n->in[i]);
		known &= n->in[i] == NO_VALUE || arg[i];
	}
	if (known && !eval_node(host_backend(), a->g, n, arg, out, &tmp, NULL))
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] == x->id && out[k] && out[k]->layout == LAYOUT_ROW &&
			    a->have[x->id].t.type.kind != V_NONE) {
				x->local = distance_of(out[k], &a->have[x->id].t);
				const struct tensor *exact =
					is_over(a, &x->local, x->dtype)
						? exact_result(a, n, k, arg, out[k], &tmp)
						: NULL;
				if (exact) {
					x->own_exact = distance_of(out[k], exact);
					x->ref_exact = distance_of(&a->have[x->id].t, exact);
				}
			}
	arena_free(&tmp);
}

/* Sets x->local if the reference's inputs of its node can be had. A node with bodies needs more than its inputs. */
static int judge_alone(struct against_ort *a, const struct tensor *const *in, struct shared_value *x)
{
	const struct node *n = x->node;
	struct arena tmp = {0};
	uint32_t *id = arena_new_n(&tmp, uint32_t, n->nin + 1);
	size_t count = 0;

	if (n->nsub)
		return 0;
	id[count++] = x->id;
	for (uint32_t i = 0; i < n->nin; i++) {
		bool again =
			n->in[i] == NO_VALUE || !a->made[n->in[i]] || a->g->value[n->in[i]]->init;
		for (size_t k = 0; k < count; k++)
			again |= id[k] == n->in[i];
		if (!again)
			id[count++] = n->in[i];
	}
	int err = fetch_reference(a, in, id, count);
	if (!err)
		repeat_node(a, in, x);
	free_reference(a, id, count);
	arena_free(&tmp);
	return err;
}

/*
 * Whether the node's result is right here and wrong in the reference, whose Sigmoid has an absolute error, and whose products of
 * bytes saturate on CPUs without VNNI. What our run has made must be what the node alone makes.
 */
static bool reference_is_off(const struct against_ort *a, const struct shared_value *x)
{
	return x->ref_exact.known && x->own_exact.known && is_over(a, &x->ref_exact, x->dtype) &&
	       !is_over(a, &x->own_exact, x->dtype) &&
	       (x->inputs.most > a->limit || fabs(badness(&x->own) - badness(&x->local)) <= a->limit);
}

static int find_jump(struct against_ort *a, const struct tensor *const *in)
{
	int err = 0, asked = 0;

	for (size_t i = 0; i < a->nvalues && !err; i++) {
		struct shared_value *x = &a->value[i];
		if (x->own.known && (!a->largest || badness(&x->own) > badness(&a->largest->own)))
			a->largest = x;
		a->plain_over |= is_output(a->g, a->g->value[x->id]->name) &&
				 is_output_over(a, &x->own, x->path);
		if (!is_over_path(a, &x->own, x->path))
			continue;
		if (!a->first)
			a->first = x;
		/* behind a fault of the reference each node is judged by the reference's inputs alone */
		if ((x->inputs.most > a->limit && !a->off) || asked == MAX_SUSPECTS)
			continue;
		asked++;
		err = judge_alone(a, in, x);
		if (!err && x->local.known && !is_over(a, &x->local, x->dtype))
			continue;
		if (reference_is_off(a, x)) {
			a->off = a->off ? a->off : x;
			a->offs++;
			continue;
		}
		if (x->inputs.most > a->limit && !x->local.known)
			continue;
		a->jumps++;
		if (!a->jump)
			a->jump = x;
	}
	return err;
}

/*
 * If a difference that counts as none has led to the first that is over the limit, the node that made it is the first to differ, and it is
 * judged by itself.
 */
static int find_first_step(struct against_ort *a, const struct tensor *const *in)
{
	struct shared_value *x =
		a->first && !a->jump && !a->off ? stepped_input(a, a->first->node) : NULL;

	for (; x; x = stepped_input(a, x->node))
		a->first = x;
	return a->first && a->first->own.steps ? judge_alone(a, in, a->first) : 0;
}

static int compare_tensors_of(struct against_ort *a, const struct tensor *const *in)
{
	struct check_context *c = a->c;
	struct plain_run r = {.counting = true};
	size_t budget = SEGMENT_BYTES;

	a->plain = check_open_plain(c);
	if (!a->plain)
		return 0;
	a->g = session_model(a->plain)->graph;
	a->plain_path = path_precisions(&a->arena, a->g);
	a->made = arena_new_n(&a->arena, bool, a->g->nvalues + 1);
	a->wanted = arena_new_n(&a->arena, bool, a->g->nvalues + 1);
	a->rel = arena_new_n(&a->arena, double, a->g->nvalues + 1);
	a->shared = arena_new_n(&a->arena, uint32_t, a->g->nvalues + 1);
	a->have = arena_new_n(&a->arena, struct ort_value, a->g->nvalues + 1);
	for (uint32_t i = 0; i < a->g->nvalues; i++)
		a->rel[i] = NAN;
	int err = mark_made(a);
	if (!err)
		err = run_plain(a, in, &r);
	for (size_t i = 0; i < a->nvalues; i++)
		if (a->value[i].bytes > budget / 2)
			budget = a->value[i].bytes > SIZE_MAX / 2 ? SIZE_MAX : 2 * a->value[i].bytes;
	for (size_t i = 0; i < a->nvalues && !err;) {
		err = compare_segment(a, in, i, budget, &i);
		check_step(c, i, a->nvalues);
	}
	if (!err)
		err = find_jump(a, in);
	if (!err)
		err = find_first_step(a, in);
	a->tensors = !err;
	return err;
}

/* ---- the report ----------------------------------------------------------------------------------- */

static size_t add_common_rows(struct against_ort *a, const char *limit, struct diag_row *rows)
{
	struct diag *d = a->c->d;
	const struct graph *g = session_model(a->c->session)->graph;
	size_t n = 0;

	for (uint32_t k = 0; k < g->nout && n < OUTPUT_ROWS; k++)
		rows[n++] = (struct diag_row){fmt(d, "output '%s'", g->out_name[k]),
					      distance_say(d, &a->outputs[k])};
	if (a->ncases > 1)
		rows[n++] = (struct diag_row){"worst input",
					      fmt(d, "%s; %zu of %zu inputs are over the limit",
						  a->worst_label, a->cases_over, a->ncases)};
	rows[n++] = (struct diag_row){"limit", limit};
	rows[n++] = (struct diag_row){"reference",
				      fmt(d, "ONNX Runtime %s on the CPU, not optimized (%s)",
					  ort_version(a->ort), ort_path(a->ort))};
	return n;
}

/* The node at which both begin to differ: by a fault of ours or, `off`, of the reference alone. */
static void report_jump(struct against_ort *a, const struct shared_value *x, size_t count, bool off)
{
	struct diag *d = a->c->d;
	struct diag_row rows[MAX_ROWS];
	const struct node *n = x->node;
	enum severity shown = off ? SEV_WARNING : SEV_ERROR, hidden = off ? SEV_NOTE : SEV_WARNING;
	size_t k = 0;

	rows[k++] = (struct diag_row){"its inputs", input_error_say(d, &x->inputs)};
	rows[k++] = (struct diag_row){"its output", fmt(d, "'%s' %s", a->g->value[x->id]->name,
							distance_say(d, &x->own))};
	if (x->local.known)
		rows[k++] = (struct diag_row){"same inputs", fmt(d, "with ONNX Runtime's inputs: %s",
								 distance_say(d, &x->local))};
	if (x->ref_exact.known)
		rows[k++] = (struct diag_row){
			"exact",
			fmt(d, "without rounding: this run is off by %.2g, ONNX Runtime by %.2g",
			    badness(&x->own_exact), badness(&x->ref_exact))};
	if (count > 1)
		rows[k++] = (struct diag_row){
			"also", fmt(d, "%zu later nodes differ by themselves", count - 1)};
	const char *limit = distance_limit_say(
		d, &x->own, x->path, distance_limit(x->path, path_limit(x->path, a->limit)));
	k += add_common_rows(a, limit, rows + k);
	struct finding f = {
		.code = E_COMPARE_NODE,
		.severity = a->outputs_over ? shown : hidden,
		.node = n->origin->name,
		.op = n->origin->op,
		.message = fmt(d, "this run and ONNX Runtime begin to differ in this node%s%s",
			       off ? ", where ONNX Runtime is off" : "",
			       a->outputs_over ? "" : ", but no output shows it"),
		.rows = rows,
		.nrows = k,
		.file = __FILE__,
		.line = __LINE__};
	diag_add(d, &f);
}

static const char *why_outputs_differ(const struct against_ort *a)
{
	const struct shared_value *x = a->first;

	if (!a->tensors)
		return "; the model cannot be run node by node";
	if (x && !is_over_path(a, &x->own, x->path) && x->own.steps)
		return fmt(a->c->d,
			   ", and they begin to differ here: %" PRId64 " of %" PRId64
			   " quantized elements are off by 1, a rounding, of which later nodes make a large "
			   "difference",
			   x->own.steps, x->own.count);
	if (x && x->inputs.most <= a->limit)
		return fmt(a->c->d,
			   ", but each node alone agrees: this one, whose inputs %s, makes a large "
			   "difference of a small one",
			   input_error_say(a->c->d, &x->inputs));
	return ", but each node alone agrees: the accumulated error exceeds the limit here";
}

/* An output differs, but no node does by itself. */
static void report_outputs(struct against_ort *a)
{
	struct diag *d = a->c->d;
	struct diag_row rows[MAX_ROWS];
	const struct shared_value *x = a->first;
	size_t k = 0;

	for (size_t i = 0; i < 5 && a->nvalues; i++) {
		const struct shared_value *v = &a->value[(a->nvalues - 1) * i / 4];
		rows[k++] = (struct diag_row){i ? "" : "grows",
					      fmt(d, "%s at '%s'",
						  v->own.steps && badness(&v->own) == 0
							  ? "a step of 1"
							  : fmt(d, "%.2g", badness(&v->own)),
						  v->node->origin->name)};
	}
	if (x && x->own.steps) {
		rows[k++] = (struct diag_row){"its inputs", input_error_say(d, &x->inputs)};
		if (x->local.known)
			rows[k++] = (struct diag_row){"same inputs",
						      fmt(d, "with ONNX Runtime's inputs: %s",
							  distance_say(d, &x->local))};
	}
	k += add_common_rows(a,
			     pair_sides_output_limit_say(a->c, &a->outputs[a->output],
							 a->output_dtype, a->limit),
			     rows + k);
	if (a->tensors && !a->plain_over)
		FAIL(d, E_COMPARE_DRIFT,
		     .message = "an output differs from ONNX Runtime's, but not without optimizations: "
				"--compare none finds the node",
		     .rows = rows, .nrows = k);
	else
		FAIL(d, E_COMPARE_DRIFT, .node = x ? x->node->origin->name : NULL,
		     .op = x ? x->node->origin->op : NULL,
		     .message = fmt(d, "an output differs from ONNX Runtime's%s",
				    why_outputs_differ(a)),
		     .rows = rows, .nrows = k);
}

static void store_comparison(struct against_ort *a)
{
	struct check_context *c = a->c;
	struct comparison *t = arena_new(&c->arena, struct comparison);

	*t = (struct comparison){.ref = arena_printf(&c->arena, "onnxruntime %s", ort_version(a->ort)),
				 .got = "this run",
				 .verdict = a->jump	      ? "jump"
					    : a->off	      ? "reference"
					    : a->outputs_over ? "drift"
							      : "agree",
				 .peak = a->peak,
				 .n = a->nvalues,
				 .inputs = a->ncases};
	t->line = arena_new_n(&c->arena, struct node_result, a->nvalues + 1);
	for (size_t i = 0; i < a->nvalues; i++) {
		const struct shared_value *x = &a->value[i];
		t->line[i] = (struct node_result){arena_str(&c->arena, x->node->origin->name),
						  arena_str(&c->arena, x->node->origin->op),
						  badness(&x->own),
						  x->local.known ? badness(&x->local) : NAN};
	}
	c->data = t;
}

static void report(struct against_ort *a)
{
	struct check_context *c = a->c;
	const char *many = a->ncases > 1 ? arena_printf(&c->arena, " of %zu inputs, worst %s,",
							a->ncases, a->worst_label)
					 : "";

	if (a->off)
		report_jump(a, a->off, a->offs, true);
	if (a->jump)
		report_jump(a, a->jump, a->jumps, false);
	else if (a->outputs_over && !a->off)
		report_outputs(a);
	if (!a->jump && a->off)
		check_say(c,
			  "ONNX Runtime %s: they begin to differ at '%s', where ONNX Runtime is off",
			  ort_version(a->ort), a->off->node->origin->name);
	else if (a->jump)
		check_say(c, "ONNX Runtime %s: they begin to differ at '%s'", ort_version(a->ort),
			  a->jump->node->origin->name);
	else if (a->outputs_over)
		check_say(c, "ONNX Runtime %s: outputs%s differ by %.2g", ort_version(a->ort), many,
			  a->most);
	else if (a->unknown == session_model(c->session)->graph->nout)
		check_say(c, "ONNX Runtime %s: no output could be compared", ort_version(a->ort));
	else if (a->tensors)
		check_say(c,
			  "ONNX Runtime %s, not optimized: outputs%s within %.2g, %zu inner tensors%s%s",
			  ort_version(a->ort), many, a->most, a->nvalues,
			  a->largest ? arena_printf(&c->arena, " within %.2g, farthest at ",
						    badness(&a->largest->own))
				     : "",
			  a->largest ? a->largest->node->origin->name : "");
	else
		check_say(c, "ONNX Runtime %s, not optimized: outputs%s within %.2g%s",
			  ort_version(a->ort), many, a->most,
			  a->unknown ? arena_printf(&c->arena, ", %s not comparable",
						    str_many(&c->arena, a->unknown, "output"))
				     : "");
	store_comparison(a);
}

/* Tells of outputs that cannot be compared, as a comparison that was asked for must not pass without one. Returns 0 or -code. */
static int report_unknown(struct against_ort *a)
{
	const struct graph *g = session_model(a->c->session)->graph;
	struct check_names names = {&a->arena, NULL, 0};
	struct diag *d = a->c->d;

	for (uint32_t k = 0; k < g->nout; k++)
		if (!a->outputs[k].known)
			check_name_add(&names, g->out_name[k]);
	if (!names.n)
		return 0;
	const char *message = fmt(d, "%s %s not compared: only tensors can be had of ONNX Runtime",
				  check_name_list(&names), names.n > 1 ? "were" : "was");
	const char *hint =
		"compare values before them by --every-tensor, or them by --expect NAME=FILE";
	if (names.n == g->nout && !a->nvalues)
		return FAIL(d, E_REFERENCE, .slot = "outputs", .message = message, .hint = hint);
	WARN(d, E_REFERENCE, .slot = "outputs", .message = message, .hint = hint);
	return 0;
}

/* Compares tensor by tensor on the input that is farthest away. */
static int compare_worst(struct against_ort *a)
{
	struct check_context *c = a->c;

	if (!c->cases)
		return compare_tensors_of(a, a->other ? input_tensors(a->other) : c->in);
	struct input_set *set = read_case(a, c->cases, a->worst_case);
	if (!set)
		return -(int)c->d->last->code;
	int err = compare_tensors_of(a, input_tensors(set));
	input_free(set);
	return err;
}

int compare_with_ort(struct check_context *c)
{
	struct against_ort a = {.c = c, .ncases = c->cases ? c->cases->n : 1};
	struct pair sides = {.ref.config = *c->config, .got.config = *c->config};

	a.limit = pair_sides_limit(c, &sides);
	a.path = path_precisions(&a.arena, session_model(c->session)->graph);
	a.ort = ort_open(c->d);
	if (!a.ort)
		return -(int)c->d->last->code;
	struct ort_session *s = ort_session_open(a.ort, c->path, NULL, 0, c->config->threads, c->d);
	int err = s ? compare_guessed(&a, s) : -(int)c->d->last->code;
	ort_session_close(s);
	if (!err && (c->options->every_tensor || a.outputs_over))
		err = compare_worst(&a);
	if (!err)
		report(&a);
	if (!err)
		err = report_unknown(&a);
	session_close(a.plain);
	input_free(a.other);
	ort_close(a.ort);
	arena_free(&a.arena);
	return err;
}
