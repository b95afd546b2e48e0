/* SPDX-License-Identifier: Apache-2.0 */
/* --compare: two ways of running the model, node by node, to the first that differs. */
#include "base/str.h"
#include "check/check.h"
#include "check/pair.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the words -------------------------------------------------------------------------------- */

static bool choice(const char *word, size_t n, const char *const *names, int count, int *out)
{
	for (int i = 0; i < count; i++) {
		if (strlen(names[i]) == n && !memcmp(names[i], word, n)) {
			*out = i;
			return true;
		}
	}
	return false;
}

static bool is(const char *word, size_t n, const char *what)
{
	return strlen(what) == n && !memcmp(word, what, n);
}

/* "cuda" or "cuda:1", "fp16", "none", "noplan"; 0 where it is none, else how much of the text it took. */
static size_t parse_word(struct check_context *c, const char *s, size_t n, struct run_config *to)
{
	static const char *const precisions[] = {"fp32", "tf32", "fp16", "bf16"};
	static const char *const levels[] = {"none", "basic", "full"};
	size_t one = 0, digits = 0;

	while (one < n && s[one] != ':')
		one++;
	while (one + 1 + digits < n && s[one] == ':' && s[one + 1 + digits] >= '0' &&
	       s[one + 1 + digits] <= '9')
		digits++;
	if (is(s, one, "cuda") || is(s, one, "cpu") || is(s, one, "auto")) {
		size_t all = digits && is(s, one, "cuda") ? one + 1 + digits : one;
		to->device = arena_strn(&c->arena, s, all);
		return all;
	}
	if (choice(s, one, precisions, 4, &to->precision) || choice(s, one, levels, 3, &to->optimize))
		return one;
	if (!is(s, one, "plan") && !is(s, one, "noplan"))
		return 0;
	to->memory_plan = is(s, one, "plan");
	return one;
}

static int parse_side(struct check_context *c, const char *s, size_t n, struct pair_side *side)
{
	side->config = *c->config;
	side->name = arena_strn(&c->arena, s, n);
	for (size_t at = 0; at < n;) {
		size_t k = parse_word(c, s + at, n - at, &side->config);
		if (!k)
			return FAIL(c->d, E_OPTION,
				    .message = fmt(c->d, "--compare: '%.*s' is no way to run a model",
						   (int)n, s),
				    .expected = "two of cpu, cuda[:N], fp32, tf32, fp16, bf16, none, basic, "
						"full, plan, noplan, or several joined by colons",
				    .actual = fmt(c->d, "'%s'", s));
		at += k;
		at += at < n; /* the colon */
	}
	return 0;
}

static bool same_config(const struct check_context *c, const struct run_config *a)
{
	const struct run_config *b = c->config;
	const char *device = session_device(c->session);
	bool here = (a->device && b->device && !strcmp(a->device, b->device)) ||
		    (a->device && !strcmp(a->device, device));

	return here && a->precision == b->precision && a->optimize == b->optimize &&
	       a->memory_plan == b->memory_plan;
}

int pair_parse(struct check_context *c, const char *text, struct pair *p)
{
	const char *comma = strchr(text, ',');
	int err = parse_side(c, text, comma ? (size_t)(comma - text) : strlen(text), &p->ref);

	if (!err && comma)
		err = parse_side(c, comma + 1, strlen(comma + 1), &p->got);
	if (err)
		return err;
	if (!comma) {
		p->got.config = *c->config;
		p->got.name = "this run";
		if (c->session && p->ref.config.device &&
		    strcmp(p->ref.config.device, session_device(c->session)) != 0)
			p->got.name = session_device(c->session);
	}
	const struct run_config *a = &p->ref.config, *b = &p->got.config;
	if (a->device && b->device && !strcmp(a->device, b->device) && a->precision == b->precision &&
	    a->optimize == b->optimize && a->memory_plan == b->memory_plan)
		return FAIL(
			c->d, E_OPTION,
			.message = fmt(c->d, "--compare %s: both sides are the same run", text),
			.hint = "name another device, precision, level of --optimize, plan or noplan");
	return 0;
}

const char *pair_text(const struct check_context *c)
{
	if (c->options->compare || !c->options->all || !c->session)
		return c->options->compare;
	if (strcmp(session_device(c->session), "cpu") != 0)
		return "cpu";
	return c->config->optimize == OPTIMIZE_NONE ? NULL : "none";
}

/* ---- the verdict ------------------------------------------------------------------------------ */

struct verdict {
	struct pair pair;
	double limit;
	struct pair_node *first; /* whose own output is off */
	struct pair_node *jump;	 /* that is off with the reference's inputs, too */
	struct pair_node *worst; /* largest distance of its own making */
	size_t jumps;
	bool outputs; /* some output of the model is off */
	double most;  /* largest rel of an output */
};

double pair_limit(const struct check_context *c, const struct pair *p)
{
	static const double least[] = {0, 5e-3, 1e-2, 5e-2, 1e-2};
	double limit = c->options->rtol;

	for (int i = 0; i < 2; i++) {
		int k = i ? p->got.config.precision : p->ref.config.precision;
		if (k >= 0 && k < 5 && least[k] > limit)
			limit = least[k];
	}
	return limit;
}

static bool over(const struct verdict *v, const struct distance *d, enum dtype t)
{
	return distance_over(d, t, v->limit);
}

static void judge(struct verdict *v)
{
	struct pair *p = &v->pair;
	const struct graph *g = session_model(p->got.session)->graph;

	for (size_t i = 0; i < p->n; i++) {
		struct pair_node *n = &p->nodes[i];
		bool own = over(v, &n->own, n->dtype), local = over(v, &n->local, n->dtype);
		if (own && !v->first)
			v->first = n;
		/* what could not be repeated is judged by its inputs */
		if (!n->local.known && own && n->inputs <= v->limit)
			local = true;
		if (local) {
			v->jumps++;
			if (!v->jump)
				v->jump = n;
		}
		if (n->local.known && (!v->worst || n->local.rel > v->worst->local.rel))
			v->worst = n;
	}
	for (uint32_t k = 0; k < p->noutputs; k++) {
		enum dtype t = (enum dtype)g->value[g->out[k]]->info.type.dtype;
		v->outputs |= over(v, &p->outputs[k], t);
		if (p->outputs[k].known && p->outputs[k].rel > v->most)
			v->most = p->outputs[k].rel;
	}
}

enum { ROWS = 20 };

static const char *name_of(const struct verdict *v, uint32_t value)
{
	const char *name = session_model(v->pair.got.session)->graph->value[value]->name;

	return *name ? name : "without a name";
}

static const char *say_fused(struct diag *d, const struct node *n)
{
	const char *text = "";

	for (uint32_t i = 0; i < n->origin->nfused; i++)
		text = fmt(d, "%s%s'%s'", text, i ? ", " : "", n->origin->fused[i]->name);
	return text;
}

static size_t say_outputs(struct check_context *c, const struct verdict *v, struct diag_row *rows)
{
	const struct pair *p = &v->pair;
	const struct graph *g = session_model(p->got.session)->graph;
	size_t n = 0;

	for (uint32_t k = 0; k < p->noutputs && n < 4; k++)
		rows[n++] = (struct diag_row){fmt(c->d, "output '%s'", g->out_name[k]),
					      distance_say(c->d, &p->outputs[k])};
	return n;
}

static void say_jump(struct check_context *c, struct verdict *v)
{
	struct diag *d = c->d;
	struct diag_row rows[ROWS];
	const struct pair_node *n = v->jump;
	size_t k = 0;

	if (n->node->origin->nfused)
		rows[k++] = (struct diag_row){"stands for", say_fused(d, n->node)};
	if (n->since > 1)
		rows[k++] = (struct diag_row){
			"or before", fmt(d, "%" PRIu32 " nodes before it have no counterpart in %s",
					 n->since - 1, v->pair.ref.name)};
	rows[k++] = (struct diag_row){"its inputs", n->inputs > 0
							    ? fmt(d, "agree within %.2g", n->inputs)
							    : "agree to the bit"};
	rows[k++] = (struct diag_row){
		"its output", fmt(d, "'%s' %s", name_of(v, n->value), distance_say(d, &n->own))};
	if (n->local.known)
		rows[k++] = (struct diag_row){"same inputs",
					      fmt(d, "given the inputs of %s: %s", v->pair.ref.name,
						  distance_say(d, &n->local))};
	struct drilled inside = {0};
	if (n->node->nsub && pair_drill(c, &v->pair, c->in, v->limit, &inside))
		rows[k++] = (struct diag_row){"in its body",
					      fmt(d, "'%s' (%s), in run %" PRIu32 " of the body: %s",
						  inside.node, inside.op, inside.time,
						  distance_say(d, &inside.distance))};
	if (v->jumps > 1)
		rows[k++] = (struct diag_row){"also", fmt(d, "%zu later nodes jump", v->jumps - 1)};
	k += say_outputs(c, v, rows + k);
	rows[k++] = (struct diag_row){"limit", fmt(d, "%.2g of the largest element", v->limit)};
	struct finding f = {.code = E_COMPARE_NODE,
			    .severity = v->outputs ? SEV_ERROR : SEV_WARNING,
			    .node = inside.node ? inside.node : n->node->origin->name,
			    .op = inside.node ? inside.op : n->node->origin->op,
			    .message = fmt(d, "%s and %s differ by a jump in this node%s",
					   v->pair.got.name, v->pair.ref.name,
					   v->outputs ? "" : ", which no output shows"),
			    .rows = rows,
			    .nrows = k,
			    .file = __FILE__,
			    .line = __LINE__};
	diag_add(d, &f);
}

static void say_drift(struct check_context *c, struct verdict *v)
{
	struct diag *d = c->d;
	struct diag_row rows[ROWS];
	const struct pair *p = &v->pair;
	size_t k = 0;

	for (size_t i = 0; i < 5 && p->n; i++) {
		const struct pair_node *n = &p->nodes[(p->n - 1) * i / 4];
		rows[k++] = (struct diag_row){i ? "" : "grows", fmt(d, "%.2g at '%s'", n->own.rel,
								    n->node->origin->name)};
	}
	if (v->worst)
		rows[k++] = (struct diag_row){"most of its own",
					      fmt(d, "%.2g at '%s' (%s)", v->worst->local.rel,
						  v->worst->node->origin->name,
						  v->worst->node->origin->op)};
	k += say_outputs(c, v, rows + k);
	rows[k++] = (struct diag_row){"limit", fmt(d, "%.2g of the largest element", v->limit)};
	FAIL(d, E_COMPARE_DRIFT, .node = v->first ? v->first->node->origin->name : NULL,
	     .op = v->first ? v->first->node->origin->op : NULL,
	     .message = fmt(
		     d, "%s and %s drift apart: each node agrees within %.2g, the sum passes the limit%s",
		     p->got.name, p->ref.name, v->worst ? v->worst->local.rel : 0,
		     v->first ? " here" : ""),
	     .rows = rows, .nrows = k);
}

/* An output that is all 0 on one side is that first of all. */
static void say_zero(struct check_context *c, struct verdict *v)
{
	const struct pair *p = &v->pair;
	const struct graph *g = session_model(p->got.session)->graph;
	const struct pair_node *n = v->jump ? v->jump : v->first;

	for (uint32_t k = 0; k < p->noutputs && n; k++) {
		if (!p->outputs[k].zero)
			continue;
		struct diag_row rows[2];
		rows[0] = (struct diag_row){
			"first divergence",
			fmt(c->d, "node '%s' (%s): its inputs agree (%.2g), its output: %s",
			    n->node->origin->name, n->node->origin->op, n->inputs,
			    distance_say(c->d, &n->own))};
		const struct tensor *t = c->out ? c->out[k] : NULL;
		const char *what = t ? fmt(c->d, " %s %s", dtype_name(tensor_dtype(t)),
					   shape_str(&c->d->arena, &t->shape, NULL))
				     : "";
		FAIL(c->d, E_OUT_ZERO, .slot = fmt(c->d, "output '%s'%s", g->out_name[k], what),
		     .node = n->node->origin->name, .op = n->node->origin->op,
		     .message = fmt(c->d, "all %s elements are 0 on %s; on %s %s",
				    str_count(&c->d->arena, p->got_stats[k].count), p->got.name,
				    p->ref.name, value_say(c->d, &p->ref_stats[k])),
		     .rows = rows, .nrows = 1);
	}
}

/* ---- the check -------------------------------------------------------------------------------- */

/* What is told of a node in JSON, once the sessions are gone. */
struct line {
	const char *node, *op;
	double own, local;
};
struct told {
	const char *ref, *got, *verdict;
	struct line *line;
	size_t n, peak;
};

static struct told *keep_lines(struct check_context *c, const struct verdict *v)
{
	const struct pair *p = &v->pair;
	struct told *t = arena_new(&c->arena, struct told);

	*t = (struct told){p->ref.name, p->got.name, NULL, NULL, p->n, p->peak};
	t->verdict = v->jump ? "jump" : v->outputs ? "drift" : "agree";
	t->line = arena_new_n(&c->arena, struct line, p->n + 1);
	for (size_t i = 0; i < p->n; i++)
		t->line[i] = (struct line){arena_str(&c->arena, p->nodes[i].node->origin->name),
					   arena_str(&c->arena, p->nodes[i].node->origin->op),
					   p->nodes[i].own.rel,
					   p->nodes[i].local.known ? p->nodes[i].local.rel : NAN};
	return t;
}

static void tell(struct check_context *c, struct verdict *v)
{
	const struct pair *p = &v->pair;

	if (v->jump || v->outputs)
		say_zero(c, v);
	if (v->jump)
		say_jump(c, v);
	else if (v->outputs)
		say_drift(c, v);
	if (v->jump)
		check_say(c, "a jump at '%s'", v->jump->node->origin->name);
	else if (v->outputs)
		check_say(c, "drift to %.2g", v->most);
	else
		check_say(c, "%zu of %zu nodes compared, outputs within %.2g%s%s", p->n, p->steps,
			  v->most, v->worst ? ", most at " : "",
			  v->worst ? v->worst->node->origin->name : "");
	c->data = keep_lines(c, v);
}

static int run(struct check_context *c)
{
	struct verdict *v = arena_new(&c->arena, struct verdict);
	struct pair *p = &v->pair;
	int err = pair_parse(c, pair_text(c), p);

	if (err)
		return err;
	v->limit = pair_limit(c, p);
	/* the session at hand is one of them, if it may be */
	if (same_config(c, &p->got.config)) {
		p->got.session = c->session;
		p->got.borrowed = true;
	} else if (same_config(c, &p->ref.config)) {
		p->ref.session = c->session;
		p->ref.borrowed = true;
	}
	err = pair_run(c, p, c->in);
	if (!err) {
		judge(v);
		tell(c, v);
	}
	pair_end(p);
	return err;
}

static int asked(struct check_context *c)
{
	const struct check_options *o = c->options;
	struct pair p = {0};
	int err = o->compare ? pair_parse(c, o->compare, &p) : 0;

	return !err && (o->compare || o->all) ? check_rtol(c) : err;
}

static bool applies(const struct check_context *c, const char **why)
{
	(void)why;
	return pair_text(c) != NULL;
}

static void write_lines(const struct check_result *r, struct json *j)
{
	const struct told *t = r->data;

	if (!t)
		return;
	json_string(j, "reference", t->ref);
	json_string(j, "compared", t->got);
	json_string(j, "verdict", t->verdict);
	json_uint(j, "held_bytes", t->peak);
	json_array(j, "nodes");
	for (size_t i = 0; i < t->n; i++) {
		json_object(j, NULL);
		json_string(j, "node", t->line[i].node);
		json_string(j, "op", t->line[i].op);
		json_number(j, "accumulated", t->line[i].own);
		if (isnan(t->line[i].local))
			json_null(j, "of_its_own");
		else
			json_number(j, "of_its_own", t->line[i].local);
		json_end(j, '}');
	}
	json_end(j, ']');
}

const struct check check_compare = {
	.name = "compare",
	.what = "two ways of running, node by node",
	.need = NEED_INPUTS,
	.cost = COST_RUNS,
	.asked = asked,
	.applies = applies,
	.run = run,
	.write = write_lines,
};
