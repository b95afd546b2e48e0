/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --sensitivity: ranks the nodes of a quantized model, or of a run in less precision, by how much of the loss each causes, and says which
 * of them to keep in fp32. One pass ranks all nodes; the first ones are then undone one by one, and together.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "check/node_errors.h"
#include "check/pair_sides.h"
#include "input/list.h"
#include "onnx/load.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	TRUSTED_PROBES = 16,
	SHOWN_ROWS = 10,   /* nodes in the finding; JSON has all */
	MAX_EXCLUDED = 10, /* nodes that are undone together */
	MIN_PROBES = 4,
	MAX_PROBES = 2, /* of an input: each is a pass backwards */
};
/* The list of nodes to exclude ends where more of them would spare less than this part of the loss. */
static const double WORTH_IT = 0.05;

/* Indexed by metric. A loss below this is no more than the rounding of fp32, so that ranking nodes by it would mean nothing. */
static const double negligible[] = {1e-6, 1e-12, 1e-12, 1e-10};

static const char *const metric_names[] = {"maxabs", "cosine", "l2", "kl"};

struct sensitivity {
	struct check_context *c;
	struct pair pair; /* only the names and configurations of its sides */
	struct node_errors errors;
	size_t *rank;		       /* numbers of errors.node, worst first */
	double left[MAX_EXCLUDED + 1]; /* sum over the inputs of the loss with the first k undone together */
	size_t excluded, steps; /* how many to exclude; entries of `left` after the first */
	const char **exclude;	/* names for the list */
	size_t nexclude;
	/* both models with the errors of all nodes; the pass backwards; undoing nodes by themselves */
	double run_seconds, pass_seconds, undo_seconds;
	bool *chosen; /* by number of errors.node: to be undone by itself */
	size_t first[MAX_EXCLUDED],
		nfirst; /* the first of them, to be run again in the changed model as well */
};

/* What the report needs after the sessions are closed; texts and lists are in the context's arena. */
struct sensitivity_result {
	const char *ref, *got, *metric;
	double loss; /* mean over the inputs */
	size_t inputs;
	uint32_t outputs;
	struct ranked {
		const char *node, *op, *scale;
		/* by the pass; what is left without its error, or with it in fp32; part of the loss that the better of these spares. NAN: not known */
		double share, left, requantized, spared, size, output_part;
		bool opaque;
	} * node;
	size_t n;
	const double *left;
	size_t nleft, excluded;
	const char *const *exclude;
	size_t nexclude, lost;
	double run_seconds, pass_seconds, undo_seconds;
	size_t peak;
};

/* ---- options --------------------------------------------------------------------------------------- */

static bool is_short(int precision)
{
	return precision == PRECISION_TF32 || precision == PRECISION_FP16 ||
	       precision == PRECISION_BF16 || precision == PRECISION_FP8;
}

static int check_options(struct check_context *c)
{
	const struct check_options *o = c->options;
	struct pair p = {0};

	if (!o->sensitivity && o->exclude_list)
		return FAIL(c->d, E_OPTION, .slot = "--exclude-list",
			    .message = "it needs --sensitivity");
	if (o->metric == METRIC_KL && !o->sensitivity)
		return FAIL(c->d, E_OPTION, .slot = "--metric kl", .message = "it needs --sensitivity",
			    .hint = "references are compared by maxabs, cosine or l2");
	if (!o->sensitivity)
		return 0;
	if (pair_sides_ort(o->compare))
		return FAIL(c->d, E_OPTION, .slot = "--sensitivity",
			    .message = "ONNX Runtime cannot be its reference",
			    .expected = "--compare FILE.onnx, the model before it was quantized",
			    .actual = "--compare onnxruntime");
	if (o->compare)
		return pair_sides_parse(c, o->compare, &p);
	if (!is_short(c->config->precision))
		return FAIL(c->d, E_OPTION, .slot = "--sensitivity",
			    .message = "there is nothing to compare with",
			    .expected = "--compare FILE.onnx with the model before it was quantized, or "
					"--precision fp16, bf16 or fp8",
			    .actual = c->config->precision == PRECISION_FP32
					      ? "neither"
					      : precision_names[c->config->precision]);
	return 0;
}

static bool is_requested(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->sensitivity;
}

/*
 * Sets both sides. The reference runs in fp32 on the host, and neither is optimized: only then each node has its value. fp8 is in products
 * that the optimizer has made of MatMul and Gemm, and of what follows them.
 */
static int set_sides(struct sensitivity *s)
{
	struct check_context *c = s->c;
	struct pair *p = &s->pair;
	int err = 0;

	if (c->options->compare) {
		err = pair_sides_parse(c, c->options->compare, p);
	} else {
		p->ref.config = p->got.config = *c->config;
		p->ref.name = "fp32";
		p->got.name = precision_names[c->config->precision];
	}
	p->ref.config.precision = PRECISION_FP32;
	p->ref.config.device = "cpu";
	p->ref.config.optimize = OPTIMIZE_NONE;
	p->got.config.optimize =
		p->got.config.precision == PRECISION_FP8 ? OPTIMIZE_BASIC : OPTIMIZE_NONE;
	return err;
}

static int open_sides(struct sensitivity *s)
{
	struct check_context *c = s->c;
	struct node_errors *x = &s->errors;
	const char *path = s->pair.ref.path ? s->pair.ref.path : c->path;

	x->c = c;
	x->metric = (enum check_metric)c->options->metric;
	x->sides[0] = &s->pair.ref;
	x->sides[1] = &s->pair.got;
	x->ref = session_open(path, &s->pair.ref.config, c->d);
	x->got = x->ref ? session_open(c->path, &s->pair.got.config, c->d) : NULL;
	if (!x->got)
		return c->d->last ? -(int)c->d->last->code : -(int)E_INTERNAL;
	return node_errors_begin(x);
}

/* ---- all inputs ------------------------------------------------------------------------------------ */

/* Calls f for each input of the request, with its values held. */
static int for_each_input(struct sensitivity *s, int (*f)(struct sensitivity *))
{
	struct check_context *c = s->c;
	struct node_errors *x = &s->errors;
	size_t n = c->cases ? c->cases->n : 1;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct input_set *set = NULL;
		if (c->cases) {
			struct input_request r = input_list_case(c->cases, i);
			set = input_plan(session_model(c->session), &r, c->d);
			if (!set || input_read(set, c->d)) {
				input_free(set);
				return -(int)c->d->last->code;
			}
		}
		err = node_errors_run(x, set ? input_tensors(set) : c->in);
		err = err ? err : f(s);
		/* one input stays held, so that its nodes can be undone without another run */
		if (n > 1 || err)
			node_errors_drop(x);
		input_free(set);
	}
	return err;
}

/* Random vectors of each input. One is too noisy to rank by; the mean over several inputs is not. */
static unsigned probes_of(const struct sensitivity *s)
{
	size_t n = s->c->cases ? s->c->cases->n : 1;

	if (n < MIN_PROBES || s->errors.metric == METRIC_MAXABS)
		return 0;
	return n < TRUSTED_PROBES ? MAX_PROBES : 1;
}

static int add_slopes(struct sensitivity *s)
{
	uint64_t start = clock_ns();
	int err = node_errors_slopes(&s->errors, probes_of(s));

	s->pass_seconds += (double)(clock_ns() - start) / 1e9;
	return err;
}

/* ---- ranking --------------------------------------------------------------------------------------- */

/*
 * The part of the loss that a node causes. A loss that is quadratic in the errors, as all but maxabs are near 0, is half the sum of
 * the slopes (Euler's theorem on homogeneous functions), and maxabs is that sum. A node without a slope has the part that undoing
 * it spares.
 */
static double share_of(const struct sensitivity *s, const struct node_error *e)
{
	double loss = s->errors.loss;

	if (!(loss > 0))
		return 0;
	if (e->opaque)
		return e->tried ? e->undone / loss : (double)NAN;
	/*
	 * A second-order term larger than the first says that the error is too large for both; on a network whose outputs saturate, such
	 * terms alone would order the nodes. Of few random vectors it is mostly noise: of 8, no more than half of the first is taken,
	 * which leaves the share by Euler's theorem.
	 */
	unsigned probes = probes_of(s);
	if (probes && isfinite(e->bend)) {
		double trust = fmin(1, (double)s->c->cases->n * probes / TRUSTED_PROBES);
		return (e->slope - fmin(e->bend / 2, trust * fabs(e->slope))) / loss;
	}
	return e->slope / loss / (s->errors.metric == METRIC_MAXABS ? 1 : 2);
}

static const struct sensitivity *sorting; /* qsort has no argument for it; one thread sorts at a time */

static int by_share(const void *a, const void *b)
{
	const struct node_error *e = &sorting->errors.node[*(const size_t *)a],
				*f = &sorting->errors.node[*(const size_t *)b];
	double x = share_of(sorting, e), y = share_of(sorting, f);

	x = isnan(x) ? -INFINITY : x;
	y = isnan(y) ? -INFINITY : y;
	return x > y ? -1 : x < y ? 1 : *(const size_t *)a < *(const size_t *)b ? -1 : 1;
}

/*
 * The larger loss reduction of the two ways to undo the node. Undoing it alone misses a large error, because clipping that it causes in
 * later nodes is kept; quantizing all later nodes anew hides a small one, because their roundings change as well.
 */
static double spared(const struct node_error *e)
{
	double a = e->tried ? e->undone : -INFINITY, b = e->rerun ? e->requantized : -INFINITY;

	return a > b ? a : b;
}

/* The order: nodes whose undoing helped, then nodes that were not undone, by their share, then nodes whose undoing hurt. */
static int undone_group(const struct node_error *e)
{
	return !e->tried && !e->rerun ? 1 : spared(e) > 0 ? 0 : 2;
}

static int by_undoing(const void *a, const void *b)
{
	const struct node_error *e = &sorting->errors.node[*(const size_t *)a],
				*f = &sorting->errors.node[*(const size_t *)b];
	int x = undone_group(e), y = undone_group(f);

	if (x != y)
		return x - y;
	if (x != 1 && spared(e) != spared(f))
		return spared(e) > spared(f) ? -1 : 1;
	return by_share(a, b);
}

static int by_size(const void *a, const void *b)
{
	double x = sorting->errors.node[*(const size_t *)a].size,
	       y = sorting->errors.node[*(const size_t *)b].size;

	return x > y ? -1 : x < y ? 1 : by_share(a, b);
}

static void rank_nodes(struct sensitivity *s)
{
	const struct node_errors *x = &s->errors;

	s->rank = arena_new_n(&s->c->arena, size_t, x->n + 1);
	for (size_t i = 0; i < x->n; i++)
		s->rank[i] = i;
	sorting = s;
	qsort(s->rank, x->n, sizeof(*s->rank), by_share);
}

/* ---- undoing --------------------------------------------------------------------------------------- */

typedef int undo_way(struct node_errors *, const size_t *which, size_t n, double *loss);

/* Undoes node i in one way, and adds by how much the loss falls to *gain. *failed: that is not possible, and not tried again. */
static int undo_by(struct sensitivity *s, size_t i, undo_way *undo, bool *failed, bool *done,
		   double *gain)
{
	double loss = 0, before = 0;

	if (*failed)
		return 0;
	int err = undo(&s->errors, &i, 1, &loss);
	err = err ? err : node_errors_undo(&s->errors, NULL, 0, &before);
	*failed = err == -(int)E_OP_UNSUPPORTED;
	*done = !*failed;
	*gain += before - loss;
	return *failed ? 0 : err;
}

static int undo_node(struct sensitivity *s, size_t i)
{
	struct node_error *e = &s->errors.node[i];

	return undo_by(s, i, node_errors_undo, &e->failed, &e->tried, &e->undone);
}

static int rerun_node(struct sensitivity *s, size_t i)
{
	struct node_error *e = &s->errors.node[i];

	return undo_by(s, i, node_errors_requantize, &e->refused, &e->rerun, &e->requantized);
}

/*
 * Chooses the nodes to undo: those without a derivative and, in turn, the first ones by their share and by the size of their error
 * alone. A derivative says nothing of an error as large as the value itself, which is what a wrong scale makes.
 */
static void choose_nodes(struct sensitivity *s)
{
	const struct node_errors *x = &s->errors;
	size_t *large = arena_dup(&s->c->arena, s->rank, (x->n + 1) * sizeof(*large)), at[2] = {0};
	size_t n = (size_t)s->c->options->undo;

	s->chosen = arena_new_n(&s->c->arena, bool, x->n + 1);
	sorting = s;
	qsort(large, x->n, sizeof(*large), by_size);
	for (size_t k = 0; k < n && k < x->n; k++) {
		const size_t *list = k % 2 ? large : s->rank;
		while (at[k % 2] < x->n && s->chosen[list[at[k % 2]]])
			at[k % 2]++;
		s->chosen[list[at[k % 2]]] = true;
		if (k < MAX_EXCLUDED)
			s->first[s->nfirst++] = list[at[k % 2]];
	}
	for (size_t i = 0; i < x->n; i++)
		s->chosen[i] |= x->node[i].opaque;
}

static int undo_nodes(struct sensitivity *s)
{
	struct node_errors *x = &s->errors;
	int err = 0;

	for (size_t i = 0; i < x->n && !err; i++) {
		if (s->chosen[i])
			err = undo_node(s, i);
		check_step(s->c, i + 1, x->n);
	}
	return err;
}

/* A run in less precision holds its values in the short type, so that no node of it can give an exact one. */
static int rerun_nodes(struct sensitivity *s)
{
	int err = 0;

	for (size_t k = 0; k < s->nfirst && !err && s->pair.ref.path; k++) {
		err = rerun_node(s, s->first[k]);
		check_step(s->c, k + 1, s->nfirst);
	}
	return err;
}

/* The loss of the changed model with the first k nodes of the ranking computed by the reference's, or without their errors. */
static int rerun_together(struct sensitivity *s)
{
	double loss = 0;
	int err = node_errors_undo(&s->errors, NULL, 0, &loss);

	s->left[0] += loss;
	for (size_t k = 1; k <= s->steps && !err; k++) {
		err = s->pair.ref.path ? node_errors_exclude(&s->errors, s->rank, k, &loss)
				       : node_errors_undo(&s->errors, s->rank, k, &loss);
		if (err == -(int)E_OP_UNSUPPORTED) {
			s->steps = k - 1;
			return 0;
		}
		s->left[k] += loss;
	}
	return err;
}

/* Repeats for the input that is still held, or for all inputs, whose values are made again. */
static int again(struct sensitivity *s, int (*f)(struct sensitivity *))
{
	struct node_errors *x = &s->errors;

	if (!s->c->cases || s->c->cases->n == 1)
		return f(s);
	double loss = x->loss;
	size_t inputs = x->inputs;
	int err = for_each_input(s, f);
	x->loss = loss;
	x->inputs = inputs;
	return err;
}

static int confirm(struct sensitivity *s)
{
	struct node_errors *x = &s->errors;
	uint64_t start = clock_ns();

	choose_nodes(s);
	int err = again(s, undo_nodes);
	if (err)
		return err;
	s->undo_seconds = (double)(clock_ns() - start) / 1e9;
	err = again(s, rerun_nodes);
	if (err)
		return err;
	sorting = s;
	qsort(s->rank, x->n, sizeof(*s->rank), by_undoing);
	while (s->steps < MAX_EXCLUDED && s->steps < x->n &&
	       undone_group(&x->node[s->rank[s->steps]]) == 0)
		s->steps++;
	err = again(s, rerun_together);
	double best = s->left[0];
	for (size_t k = 1; k <= s->steps; k++)
		best = fmin(best, s->left[k]);
	while (s->excluded < s->steps && s->left[s->excluded] > best + WORTH_IT * s->left[0])
		s->excluded++;
	return err;
}

/* ---- the list of nodes to exclude -------------------------------------------------------------------- */

static void exclude(struct sensitivity *s, const char *name)
{
	for (size_t i = 0; i < s->nexclude; i++)
		if (!strcmp(s->exclude[i], name))
			return;
	s->exclude[s->nexclude++] = name;
}

/*
 * A quantizer rounds a tensor if one of the nodes that make or read it is quantized, so that the nodes that read it must be excluded as
 * well if the error comes from the rounding of an output.
 */
static void list_excluded(struct sensitivity *s)
{
	struct node_errors *x = &s->errors;
	const struct graph *g = session_model(x->ref)->graph;

	s->exclude = arena_new_n(&s->c->arena, const char *, g->nnodes + x->n + 1);
	for (size_t k = 0; k < s->excluded; k++) {
		const struct node_error *e = &x->node[s->rank[k]];
		const struct value *v = g->value[e->value];
		if (e->input == NO_VALUE)
			exclude(s, e->node);
		if (!node_error_is_rounding(e))
			continue;
		for (uint32_t i = 0; i < v->nusers; i++)
			if (!g->node[v->users[i]]->dead)
				exclude(s, arena_str(&s->c->arena, check_node(g->node[v->users[i]])));
	}
}

/* As a JSON array, which is what the parameter nodes_to_exclude is read from, or one name a line. */
static int write_list(const struct sensitivity *s)
{
	const char *path = s->c->options->exclude_list;
	size_t n = path ? strlen(path) : 0, bytes = 0;
	bool as_json = n >= 5 && !strcmp(path + n - 5, ".json");
	char *text = NULL;
	struct json j;

	if (!path)
		return 0;
	FILE *f = open_memstream(&text, &bytes);
	if (!f)
		return FAIL(s->c->d, E_MEMORY, .message = NULL);
	json_begin(&j, f);
	if (as_json)
		json_array(&j, NULL);
	for (size_t i = 0; i < s->nexclude; i++) {
		if (as_json)
			json_string(&j, NULL, s->exclude[i]);
		else
			fprintf(f, "%s\n", s->exclude[i]);
	}
	if (as_json) {
		json_end(&j, ']');
		json_finish(&j);
	}
	fclose(f);
	struct file_out *out = file_create(path, E_OUTPUT, s->c->d);
	if (out)
		file_write(out, text, bytes);
	free(text);
	return out ? file_commit(out, s->c->d) : -(int)E_OUTPUT;
}

/* ---- the report -------------------------------------------------------------------------------------- */

static struct sensitivity_result *copy_result(const struct sensitivity *s)
{
	const struct node_errors *x = &s->errors;
	struct arena *a = &s->c->arena;
	struct sensitivity_result *r = arena_new(a, struct sensitivity_result);
	double n = x->inputs ? (double)x->inputs : 1;

	*r = (struct sensitivity_result){.ref = s->pair.ref.name,
					 .got = s->pair.got.name,
					 .metric = metric_names[x->metric],
					 .loss = x->loss / n,
					 .inputs = x->inputs,
					 .outputs = x->outputs,
					 .n = x->n,
					 .nleft = s->steps + 1,
					 .excluded = s->excluded,
					 .exclude = s->exclude,
					 .nexclude = s->nexclude,
					 .lost = x->lost.n,
					 .run_seconds = s->run_seconds,
					 .pass_seconds = s->pass_seconds,
					 .undo_seconds = s->undo_seconds,
					 .peak = x->peak};
	r->node = arena_new_n(a, struct ranked, x->n + 1);
	double *left = arena_new_n(a, double, s->steps + 1);
	for (size_t k = 0; k <= s->steps; k++)
		left[k] = s->left[k] / n;
	r->left = left;
	for (size_t k = 0; k < x->n; k++) {
		const struct node_error *e = &x->node[s->rank[k]];
		r->node[k] =
			(struct ranked){e->node,
					e->op,
					e->scale,
					share_of(s, e),
					e->tried ? (x->loss - e->undone) / n : (double)NAN,
					e->rerun ? (x->loss - e->requantized) / n : (double)NAN,
					e->tried || e->rerun ? spared(e) / x->loss : share_of(s, e),
					e->size,
					e->output_part,
					e->opaque};
	}
	return r;
}

static const char *percent(struct diag *d, double share)
{
	return isnan(share) ? "?" : fmt(d, "%.3g %%", 100 * share);
}

static const char *describe(struct diag *d, const struct sensitivity_result *r, const struct ranked *e)
{
	bool both = !isnan(e->left) && !isnan(e->requantized),
	     alone = both && e->left < e->requantized;
	const char *left = "not undone", *from = "";

	if (!isnan(e->requantized) && !alone)
		left = fmt(d, "%.3g left of %.3g with it in fp32", e->requantized, r->loss);
	else if (!isnan(e->left))
		left = fmt(d, "%.3g left of %.3g without its error", e->left, r->loss);
	if (alone)
		left = fmt(d, "%s, %.3g with it in fp32", left, e->requantized);
	if (e->output_part > 0.5)
		from = e->scale ? fmt(d, "; the rounding of its output by '%s'", e->scale)
				: "; the rounding of its output";
	else if (!isnan(e->output_part))
		from = "; its weights, or what it computes with";
	return fmt(d, "'%s' (%s): %s%s", e->node, e->op, left, from);
}

static const char *list_names(const struct sensitivity *s)
{
	struct check_names names = {.arena = &s->c->arena};

	for (size_t i = 0; i < s->nexclude; i++)
		check_name_add(&names, s->exclude[i]);
	return check_name_list(&names);
}

static size_t add_rows(struct sensitivity *s, const struct sensitivity_result *r, struct diag_row *rows)
{
	struct diag *d = s->c->d;
	size_t k = 0;

	rows[k++] = (struct diag_row){"loss", fmt(d, "%s %.4g, mean of %s of %s", r->metric,
						  r->loss, str_many(&d->arena, r->outputs, "output"),
						  str_many(&d->arena, r->inputs, "input"))};
	for (size_t i = 0; i < r->n && i < SHOWN_ROWS; i++)
		rows[k++] = (struct diag_row){percent(d, r->node[i].spared),
					      describe(d, r, &r->node[i])};
	if (r->nexclude)
		rows[k++] = (struct diag_row){"keep in fp32",
					      fmt(d, "%s: %.3g of %.3g would remain", list_names(s),
						  r->left[r->excluded], r->left[0])};
	if (s->errors.lost.n)
		rows[k++] = (struct diag_row){
			"no counterpart",
			fmt(d, "%s: what they cause counts to the next node that has one",
			    check_name_list(&s->errors.lost))};
	return k;
}

/* Whether a few nodes cause most of the loss, so that excluding them is worth more than another way of quantizing all. */
static bool is_concentrated(const struct sensitivity_result *r)
{
	return r->excluded && r->excluded <= 1 + r->n / 5 && r->left[r->excluded] < r->left[0] / 2;
}

static void report(struct sensitivity *s)
{
	struct check_context *c = s->c;
	struct sensitivity_result *r = copy_result(s);
	struct diag_row rows[SHOWN_ROWS + 8];
	const struct ranked *first = r->node;

	c->data = r;
	if (!r->outputs) {
		check_cannot_judge(c, "no output has 32-bit floats in both models");
		return;
	}
	if (r->loss == 0 || (!r->n && isfinite(r->loss))) {
		check_say(c, "no node has an error of its own: the %s is %.3g", r->metric, r->loss);
		return;
	}
	if (!isfinite(r->loss)) {
		WARN(c->d, E_SENSITIVITY, .node = s->errors.not_finite, .op = s->errors.not_finite_op,
		     .message = fmt(
			     c->d,
			     "an output of %s is not finite, so that the nodes cannot be ranked%s",
			     r->got,
			     s->errors.not_finite ? "; this node is the first that gives NaN or infinity"
						  : ""));
		check_say(c, "an output is not finite");
		return;
	}
	if (r->loss < negligible[s->errors.metric]) {
		check_say(c, "the %s is %.3g, no more than the rounding of fp32", r->metric, r->loss);
		return;
	}
	size_t n = add_rows(s, r, rows);
	bool few = is_concentrated(r);
	const char *text = fmt(
		c->d,
		"%s of the loss between %s and %s comes from this node, of %zu that have an error",
		percent(c->d, first->spared), r->got, r->ref, r->n);
	struct finding f = {.code = E_SENSITIVITY,
			    .severity = few ? SEV_WARNING : SEV_NOTE,
			    .node = first->node,
			    .op = first->op,
			    .message = text,
			    .rows = rows,
			    .nrows = n,
			    .file = __FILE__,
			    .line = __LINE__};
	diag_add(c->d, &f);
	check_say(c, "%s %.3g; first '%s' with %s of it; %zu kept in fp32 leave %.3g", r->metric,
		  r->loss, first->node, percent(c->d, first->spared), r->nexclude,
		  r->left[r->excluded]);
}

/* ---- the check --------------------------------------------------------------------------------------- */

static int run_study(struct sensitivity *s)
{
	uint64_t start = clock_ns();
	int err = for_each_input(s, add_slopes);

	if (err)
		return err;
	s->run_seconds = (double)(clock_ns() - start) / 1e9 - s->pass_seconds;
	rank_nodes(s);
	if (s->errors.loss > 0 && isfinite(s->errors.loss))
		err = confirm(s);
	if (err)
		return err;
	list_excluded(s);
	err = write_list(s);
	report(s);
	return err;
}

static int run_sensitivity(struct check_context *c)
{
	struct sensitivity *s = arena_new(&c->arena, struct sensitivity);

	*s = (struct sensitivity){.c = c};
	int err = set_sides(s);
	err = err ? err : open_sides(s);
	err = err ? err : run_study(s);
	node_errors_end(&s->errors);
	session_close(s->errors.got);
	session_close(s->errors.ref);
	return err;
}

static void write_node(struct json *j, const struct ranked *e)
{
	json_object(j, NULL);
	json_string(j, "node", e->node);
	json_string(j, "op", e->op);
	json_number(j, "share", e->share);
	json_number(j, "spared", e->spared);
	json_number(j, "loss_if_undone", e->left);
	json_number(j, "loss_if_requantized", e->requantized);
	json_number(j, "error", e->size);
	json_number(j, "output_part", e->output_part);
	json_string(j, "output_scale", e->scale);
	json_bool(j, "without_derivative", e->opaque);
	json_end(j, '}');
}

static void write_json(const struct check_result *result, struct json *j)
{
	const struct sensitivity_result *r = result->data;

	json_string(j, "reference", r->ref);
	json_string(j, "compared", r->got);
	json_string(j, "metric", r->metric);
	json_number(j, "loss", r->loss);
	json_uint(j, "inputs", r->inputs);
	json_uint(j, "outputs", r->outputs);
	json_uint(j, "held_bytes", r->peak);
	json_uint(j, "nodes_without_counterpart", r->lost);
	json_number(j, "run_seconds", r->run_seconds);
	json_number(j, "pass_seconds", r->pass_seconds);
	json_number(j, "undo_seconds", r->undo_seconds);
	json_array(j, "nodes");
	for (size_t i = 0; i < r->n; i++)
		write_node(j, &r->node[i]);
	json_end(j, ']');
	json_array(j, "exclude");
	for (size_t i = 0; i < r->nexclude; i++)
		json_string(j, NULL, r->exclude[i]);
	json_end(j, ']');
	json_array(j, "loss_with_first_undone");
	for (size_t i = 0; i < r->nleft; i++)
		json_number(j, NULL, r->left[i]);
	json_end(j, ']');
}

const struct check check_sensitivity = {
	.name = "sensitivity",
	.what = "which nodes cause the loss of quantization or precision",
	.need = NEED_INPUTS,
	.cost = COST_LONG,
	.asked = check_options,
	.applies = is_requested,
	.run = run_sensitivity,
	.write = write_json,
};
