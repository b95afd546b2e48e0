/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of `infer check`: asks each check in turn whether it applies, opens what it needs once, and runs it. */
#include "check/check.h"
#include "base/str.h"

#include "base/clock.h"
#include "base/mem.h"
#include "check/prepare_inputs.h"
#include "check/reference.h"
#include "check/step_value.h"
#include "input/list.h"
#include "onnx/load.h"
#include "ops/supported.h"
#include "opt/params.h"
#include "opt/pipeline.h"
#include "session/backends.h"

#include <stdarg.h>
#include <string.h>

#define CHECK(name) extern const struct check check_##name;
#include "check/order.def"
#undef CHECK

const struct check *const checks[] = {
#define CHECK(name) &check_##name,
#include "check/order.def"
#undef CHECK
	NULL};

/* ---- services for checks */

const char *check_weights_text(struct arena *a, uint64_t n, int64_t bytes)
{
	return n ? arena_printf(a, "%s of %s", str_many(a, n, "weight"), str_bytes(a, bytes))
		 : "no weights";
}

void check_say(struct check_context *c, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	c->said = arena_vprintf(&c->arena, format, ap);
	va_end(ap);
}

void check_cannot_judge(struct check_context *c, const char *why)
{
	check_say(c, "%s", why);
	c->nothing_to_judge = true;
}

void check_step(const struct check_context *c, uint64_t done, uint64_t total)
{
	if (c->progress.step)
		c->progress.step(c->progress.arg, c->current, done, total);
}

bool check_found(const struct check_context *c, enum code code)
{
	for (const struct finding *f = c->d->first; f; f = f->next)
		if (f->code == code)
			return true;
	return false;
}

int check_rtol(struct check_context *c)
{
	double rtol = c->options->rtol;

	return rtol >= 1 ? FAIL(c->d, E_TOLERANCE, .expected = "an --rtol below 1",
				.actual = fmt(c->d, "%g", rtol))
			 : 0;
}

const struct node *check_file_node(const struct graph *g, const struct node *n)
{
	for (int depth = 0; n && depth < 64; depth++) {
		if (!n->origin || n->origin->number)
			return n;
		const struct value *v = n->nin ? node_in(g, n, 0) : NULL;
		n = value_maker(g, v);
	}
	return NULL;
}

const char *check_node(const struct node *n)
{
	return n->origin && n->origin->name ? n->origin->name : "?";
}

struct model *check_import(const struct check_context *c, bool keep_branches)
{
	const struct load_options load = {.external_root = c->config->external_root};
	struct run_config config = *c->config;
	struct diag quiet = {0};

	config.optimize = OPTIMIZE_NONE;
	config.keep_branches = keep_branches;
	config.outputs.n = 0; /* it is compared with the file */
	struct model *m = onnx_load(c->path, &load, &quiet);
	if (m && opt_run(m, host_backend(), &config, &quiet)) {
		onnx_unload(m);
		m = NULL;
	}
	diag_free(&quiet);
	return m;
}

const struct model *check_imported(struct check_context *c)
{
	if (!c->imported)
		c->imported = check_import(c, false);
	return c->imported;
}

void check_imported_end(struct check_context *c)
{
	onnx_unload(c->imported);
	c->imported = NULL;
}

bool check_number(const struct node *n, const char *name, double *v)
{
	if (!n->op || !n->params)
		return false;
	const struct field *f = params_field(n->op, name);

	return f && params_number(f, n->params, v);
}

const struct ints *check_ints(const struct node *n, const char *name)
{
	if (!n->op || !n->params)
		return NULL;
	const struct field *f = params_field(n->op, name);

	if (!f || f->type != F_INTS)
		return NULL;
	const struct ints *v = (const void *)((const char *)n->params + f->off);
	return v->n >= 0 ? v : NULL;
}

const struct tensor *check_const(const struct graph *g, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(g, n, i);

	return v ? v->init : NULL;
}

bool check_is(const struct node *n, const char *op)
{
	return !*n->domain && !strcmp(n->type, op);
}

enum { NAMES_SHOWN = 4 };

void check_name_add(struct check_names *x, const char *name)
{
	if (x->n < NAMES_SHOWN)
		x->text = arena_printf(x->arena, "%s%s'%s'", x->n ? x->text : "", x->n ? ", " : "",
				       name);
	x->n++;
}

const char *check_name_list(const struct check_names *x)
{
	if (x->n <= NAMES_SHOWN)
		return x->n ? x->text : "";
	return arena_printf(x->arena, "%s and %zu more", x->text, x->n - NAMES_SHOWN);
}

struct session *check_open(struct check_context *c, const struct run_config *config)
{
	return session_open(c->path, config, c->d);
}

struct session *check_open_plain(struct check_context *c)
{
	struct run_config *config = arena_dup(&c->arena, c->config, sizeof(*config));
	struct diag quiet = {0};

	config->optimize = OPTIMIZE_NONE;
	config->keep_floats = true;
	struct session *s = session_open(c->path, config, &quiet);
	diag_free(&quiet);
	return s;
}

bool check_steps(struct check_context *c)
{
	if (!steps_wanted(&c->options->steps) || c->steps || c->steps_wrong)
		return !c->steps_wrong;
	struct input_request *r = arena_dup(&c->arena, c->request, sizeof(*r));

	r->steps = c->steps =
		steps_parse(&c->options->steps, r, session_model(c->session), &c->arena, c->d);
	c->steps_wrong = !c->steps;
	c->request = r;
	return !c->steps_wrong;
}

/* ---- a run that reports which node it executes */

struct progress_observer {
	struct observer observer;
	struct check_context *c;
	struct observer *inner;
};

static void announce_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct progress_observer *w = (struct progress_observer *)o;
	const struct check_progress *p = &w->c->progress;

	if (p->at)
		p->at(p->arg, s->from ? s->from->name : NULL, s->from ? s->from->op : NULL);
	if (w->inner && w->inner->begin)
		w->inner->begin(w->inner, s, call);
}

static void end_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct progress_observer *w = (struct progress_observer *)o;

	if (w->inner && w->inner->end)
		w->inner->end(w->inner, s, call);
}

int check_session_run(struct check_context *c, struct session *s, const struct tensor *const *in,
		      const struct tensor **out, struct observer *observer)
{
	struct progress_observer w = {{.begin = announce_step, .end = end_step}, c, observer};

	session_observe(s, &w.observer);
	int rc = session_run(s, in, out, c->d);
	session_observe(s, NULL);
	if (c->progress.at)
		c->progress.at(c->progress.arg, NULL, NULL);
	return rc;
}

bool check_try_run(struct check_context *c, struct session *s, const struct tensor *const *in,
		   const struct tensor **out, struct observer *observer)
{
	struct diag quiet = {0}, *all = c->d;

	c->d = &quiet;
	bool ran = !check_session_run(c, s, in, out, observer);
	c->d = all;
	diag_free(&quiet);
	return ran;
}

/* ---- opening what checks need */

void check_merge(struct diag *to, const struct diag *from)
{
	for (const struct finding *f = from->first; f; f = f->next) {
		const struct finding *g = to->first;
		while (g && !(g->code == f->code && g->severity == f->severity &&
			      !strcmp(g->node ? g->node : "", f->node ? f->node : "") &&
			      !strcmp(g->message ? g->message : "", f->message ? f->message : "") &&
			      !strcmp(g->slot ? g->slot : "", f->slot ? f->slot : "")))
			g = g->next;
		if (!g)
			diag_add(to, f);
	}
}

static void open_file(struct check_context *c)
{
	const struct load_options load = {.external_root = c->config->external_root, .collect = true};
	struct diag d = {0};

	c->file = onnx_load(c->path, &load, &d);
	if (c->file)
		(void)ops_supported(c->file, &d);
	c->file_errors = d.errors;
	diag_add_grouped(c->d, &d);
	diag_free(&d);
}

static void open_session(struct check_context *c)
{
	struct diag d = {0};

	if (c->file && !c->file_errors)
		c->session = session_open(c->path, c->config, &d);
	check_merge(c->d, &d);
	diag_free(&d);
}

/* Keeps the shapes of what the first run makes. */
struct shape_observer {
	struct observer observer;
	struct check_context *c;
};

static void keep_shapes(struct observer *o, const struct step *s, const struct call *call)
{
	struct check_context *c = ((struct shape_observer *)o)->c;

	if (!step_computes(session_runtime(c->session), session_model(c->session)->graph, s))
		return;
	for (uint32_t i = 0; i < s->nout; i++)
		if (call->out[i] && call->out[i]->type.kind == V_TENSOR && s->node->out[i] != NO_VALUE)
			c->shapes[s->node->out[i]] =
				arena_dup(&c->arena, &call->out[i]->shape, sizeof(struct shape));
}

/* Runs the model once and copies the outputs, as the session overwrites them in the next run. */
static void run_once(struct check_context *c)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);
	struct diag d = {0}, *all = c->d;

	struct shape_observer shapes = {{.end = keep_shapes}, c};
	c->shapes = arena_new_n(&c->arena, const struct shape *, g->nvalues + 1);
	c->d = &d;
	int rc = check_session_run(c, c->session, c->in, out, &shapes.observer);
	c->d = all;
	if (rc) /* what follows runs on other inputs */
		c->shapes = NULL;
	if (rc && retry_with_other_sizes(c, &d, out))
		rc = 0;
	else if (rc)
		report_failed_shapes(c, &d);
	else
		check_merge(c->d, &d);
	diag_free(&d);
	if (rc)
		return;
	for (uint32_t i = 0; i < g->nout; i++)
		out[i] = out[i] ? tensor_copy(&c->arena, out[i]) : NULL;
	c->out = out;
	c->nout = g->nout;
}

static bool is_available(const struct check_context *c, enum check_need need)
{
	switch (need) {
	case NEED_NOTHING: return true;
	case NEED_FILE: return c->file != NULL;
	case NEED_SESSION: return c->session != NULL;
	case NEED_INPUTS: return c->in != NULL;
	case NEED_OUTPUTS: return c->out != NULL;
	}
	return false;
}

/*
 * Opens the file, session, inputs and outputs in this order, as far as the check needs them. Opening each of them is
 * tried only once.
 */
static bool open_up_to(struct check_context *c, enum check_need need)
{
	static void (*const open[])(struct check_context *) = {NULL, open_file, open_session,
							       prepare_inputs, run_once};

	for (int k = NEED_FILE; k <= (int)need; k++) {
		if (k == NEED_OUTPUTS && !c->in)
			break;
		if (k > (int)c->opened) {
			c->opened = (enum check_need)k;
			open[k](c);
		}
	}
	return is_available(c, need);
}

static const char *why_unavailable(const struct check_context *c)
{
	if (!c->file)
		return "the model cannot be read";
	if (!c->session)
		return "the model cannot be run";
	if (c->dies)
		return "a run crashes the process";
	if (c->in)
		return "the first run failed";
	return c->no_inputs ? c->no_inputs : "the inputs do not fit the model";
}

/* ---- running the checks */

static size_t count_findings(const struct diag *d, enum severity s)
{
	size_t n = 0;

	for (const struct finding *f = d->first; f; f = f->next)
		n += f->severity == s;
	return n;
}

/*
 * Whether an error says that the command line is wrong: a name that the model does not have, a value that an option does not
 * take. It is no finding about the model.
 */
static bool blames_command_line(const struct finding *f)
{
	return f->severity == SEV_ERROR &&
	       (code_exit(f->code) == 2 || f->code == E_DIM || f->code == E_STEPS ||
		f->code == E_INPUT_NAME || f->code == E_INPUT_KEY);
}

static int find_wrong_option(const struct diag *d)
{
	for (const struct finding *f = d->first; f; f = f->next)
		if (blames_command_line(f))
			return -(int)f->code;
	return 0;
}

static void add_result(struct check_context *c, const struct check_result *r)
{
	c->results[c->nresults++] = *r;
	c->current = NULL;
	if (c->progress.ended)
		c->progress.ended(c->progress.arg, c);
}

static void run_check(struct check_context *c, const struct check *check)
{
	struct check_result r = {.check = check, .state = CHECK_SKIPPED};
	uint64_t start = clock_ns();

	if (check->applies && !check->applies(c, &r.said)) {
		if (r.said)
			add_result(c, &r);
		return;
	}
	r.errors = c->d->errors;
	r.warnings = c->d->warnings;
	r.notes = count_findings(c->d, SEV_NOTE);
	c->current = check;
	c->said = NULL;
	c->nothing_to_judge = false;
	c->data = NULL;
	check_step(c, 0, 0);
	if (open_up_to(c, check->need)) {
		int rc = check->run(c);
		if (rc && c->d->errors == r.errors)
			FAIL(c->d, (enum code) - rc, .message = NULL);
		r.said = c->said;
		r.data = c->data;
		r.state = rc ? CHECK_BROKEN : c->nothing_to_judge ? CHECK_SKIPPED : CHECK_PASSED;
	} else {
		r.said = why_unavailable(c);
	}
	r.errors = c->d->errors - r.errors;
	r.warnings = c->d->warnings - r.warnings;
	r.notes = count_findings(c->d, SEV_NOTE) - r.notes;
	/* this includes a check that was skipped because opening what it needs found errors */
	if (r.errors && r.state != CHECK_BROKEN)
		r.state = CHECK_FOUND;
	r.ns = clock_ns() - start;
	add_result(c, &r);
}

int check_run(struct check_context *c)
{
	int err = 0;

	for (size_t i = 0; checks[i] && !err; i++)
		err = checks[i]->asked ? checks[i]->asked(c) : 0;
	c->results = arena_new_n(&c->arena, struct check_result, sizeof(checks) / sizeof(*checks));
	for (size_t i = 0; checks[i] && !err; i++) {
		run_check(c, checks[i]);
		err = find_wrong_option(c->d);
	}
	return err;
}

void check_end(struct check_context *c)
{
	references_free(c);
	input_free(c->inputs);
	if (c->cases)
		input_list_free(c->cases);
	session_close(c->session);
	onnx_unload(c->file);
	check_imported_end(c);
	diag_free(&c->suspected);
	arena_free(&c->arena);
}
