/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of `infer check`: what a check needs is opened once, then each is asked and run in turn. */
#include "check.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "onnx/load.h"
#include "opt/params.h"
#include "opt/pipeline.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define CHECK(name) extern const struct check check_##name;
#include "check/checks.def"
#undef CHECK

const struct check *const checks[] = {
#define CHECK(name) &check_##name,
#include "check/checks.def"
#undef CHECK
	NULL};

/* ---- for checks */

void check_say(struct check_context *c, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	c->said = arena_vprintf(&c->arena, format, ap);
	va_end(ap);
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

const char *check_node(const struct node *n)
{
	return n->origin && n->origin->name ? n->origin->name : "?";
}

const struct model *check_imported(struct check_context *c)
{
	const struct load_options load = {.external_root = c->config->external_root};
	struct run_config config = *c->config;
	struct diag quiet = {0};

	if (!c->imported) {
		config.optimize = OPTIMIZE_NONE;
		c->imported = onnx_load(c->path, &load, &quiet);
		if (c->imported && opt_run(c->imported, &cpu_backend, &config, &quiet)) {
			onnx_unload(c->imported);
			c->imported = NULL;
		}
		diag_free(&quiet);
	}
	return c->imported;
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

/* Every input made up, where nothing else is said. */
static struct input_request *made_up(struct check_context *c, const struct input_request *from)
{
	static const struct text range = {"0..1", 4};
	struct input_request *r = arena_dup(&c->arena, from, sizeof(*from));

	if (!r->random.n)
		r->random = (struct texts){&range, 1};
	return r;
}

struct input_set *check_inputs(struct check_context *c, const struct texts *dims, struct diag *d)
{
	struct input_request *r = made_up(c, c->request);
	const struct model *m = c->session ? session_model(c->session) : c->file;

	/* files have the shape that they have */
	r->input = (struct texts){NULL, 0};
	r->data_set = NULL;
	if (dims) {
		r->dim = *dims;
		r->shape = (struct texts){NULL, 0};
	}
	struct input_set *s = input_plan(m, r, d);
	if (s && input_read(s, d)) {
		input_free(s);
		s = NULL;
	}
	return s;
}

/* ---- a run that knows where it is */

struct watch {
	struct observer observer;
	struct check_context *c;
	struct observer *inner;
};

static void watch_begin(struct observer *o, const struct step *s, const struct call *call)
{
	struct watch *w = (struct watch *)o;
	const struct check_progress *p = &w->c->progress;

	if (p->at)
		p->at(p->arg, s->from ? s->from->name : NULL, s->from ? s->from->op : NULL);
	if (w->inner && w->inner->begin)
		w->inner->begin(w->inner, s, call);
}

static void watch_end(struct observer *o, const struct step *s, const struct call *call)
{
	struct watch *w = (struct watch *)o;

	if (w->inner && w->inner->end)
		w->inner->end(w->inner, s, call);
}

int check_session_run(struct check_context *c, struct session *s, const struct tensor *const *in,
		      const struct tensor **out, struct observer *observer)
{
	struct watch w = {{.begin = watch_begin, .end = watch_end}, c, observer};

	session_observe(s, &w.observer);
	int rc = session_run(s, in, out, c->d);
	session_observe(s, NULL);
	if (c->progress.at)
		c->progress.at(c->progress.arg, NULL, NULL);
	return rc;
}

/* ---- what checks need */

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
	size_t errors = c->d->errors;

	c->file = onnx_load(c->path, &load, c->d);
	if (c->file)
		(void)onnx_check_supported(c->file, c->d);
	c->file_errors = c->d->errors - errors;
}

static void open_session(struct check_context *c)
{
	struct diag d = {0};

	if (c->file && !c->file_errors)
		c->session = session_open(c->path, c->config, &d);
	check_merge(c->d, &d);
	diag_free(&d);
}

/* ---- sizes for free dimensions, where all inputs are made up and nobody says any */

/* Texts "x.2=64" for the free dimensions behind the first; first_only: of the first input that has some. */
static struct texts guess_dims(struct check_context *c, const struct model *m, int64_t size,
			       bool first_only)
{
	const struct graph *g = m->graph;
	struct shape *shapes = arena_new_n(&c->arena, struct shape, g->nin + 1);
	struct texts dims = {NULL, c->request->dim.n};
	struct text *v =
		arena_new_n(&c->arena, struct text, (size_t)dims.n + (size_t)g->nin * MAX_RANK);
	bool done = false;

	for (int64_t i = 0; i < dims.n; i++)
		v[i] = c->request->dim.v[i];
	if (input_shapes(m, c->request, shapes, NULL))
		return (struct texts){v, dims.n};
	for (uint32_t i = 0; i < g->nin && !(first_only && done); i++)
		for (int k = 1; k < shapes[i].rank; k++) {
			if (shapes[i].dim[k] >= 0 ||
			    (dim_is_sym(shapes[i].dim[k]) && shapes[i].dim[k] == shapes[i].dim[0]))
				continue;
			const char *text = arena_printf(&c->arena, "%s.%d=%" PRId64,
							g->value[g->in[i]]->name, k, size);
			v[dims.n++] = (struct text){text, strlen(text)};
			done = true;
		}
	return (struct texts){v, dims.n};
}

/* The inputs of the request, read, and a plan for them. NULL with findings in d. */
static struct input_set *try_inputs(struct check_context *c, const struct input_request *r,
				    struct diag *d)
{
	struct segment_report report;
	struct input_set *s = input_plan(session_model(c->session), r, d);

	if (s && (input_read(s, d) || session_prepare(c->session, input_tensors(s), &report, d))) {
		input_free(s);
		s = NULL;
	}
	return s;
}

/*
 * A dimension that nothing binds is 1, which convolutions and windows do not always take: then the
 * smallest of some usual sizes that the model's shapes allow. out: also a run must go well, whose outputs
 * it gets. NULL: none.
 */
static struct input_set *guess_inputs(struct check_context *c, const struct input_request *base,
				      const struct tensor **out)
{
	static const int16_t sizes[] = {8, 32, 48, 64, 128, 224, 256, 512, 576, 640};
	const struct model *m = session_model(c->session);

	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
		struct input_request *r = arena_dup(&c->arena, base, sizeof(*base));
		struct diag quiet = {0};
		r->dim = guess_dims(c, m, sizes[i / 2], i % 2);
		struct input_set *s = try_inputs(c, r, &quiet);
		if (s && out && session_run(c->session, input_tensors(s), out, &quiet)) {
			input_free(s);
			s = NULL;
		}
		diag_free(&quiet);
		if (!s)
			continue;
		c->request = r; /* later sets are of the same sizes */
		return s;
	}
	return NULL;
}

static bool all_made_up(const struct check_context *c)
{
	return !c->request->input.n && !c->request->data_set && !c->request->strict;
}

/* Warnings of single dimensions become one note: whoever gave no input did not care. */
static void tell_dims(struct check_context *c, struct diag *d)
{
	struct check_names names = {&c->arena, NULL, 0};
	const struct graph *g = session_model(c->session)->graph;

	for (struct finding *f = d->first, *next; f; f = next) {
		next = f->next;
		if (f->severity != SEV_ERROR && f->code != E_DIM_DEFAULT && f->code != E_DIM)
			diag_add(c->d, f);
	}
	for (uint32_t i = 0; i < input_count(c->inputs) && i < g->nin; i++) {
		const struct input_info *in = input_info(c->inputs, i);
		const struct shape *s = &g->value[g->in[i]]->info.shape;
		if (in->type.kind == V_TENSOR && !shape_known(s))
			check_name_add(&names, arena_printf(&c->arena, "%s %s", in->name,
							    shape_str(&c->arena, &in->shape, NULL)));
	}
	if (names.n)
		NOTE(c->d, E_DIM_DEFAULT,
		     .message = fmt(c->d, "free dimensions that nothing binds were made up: %s",
				    check_name_list(&names)));
}

/* Refused inputs are findings of every input, also of a model that this build cannot run. */
static void open_inputs(struct check_context *c)
{
	const struct model *m = c->session ? session_model(c->session) : c->file;
	const struct input_request *r = made_up(c, c->request);
	struct diag d = {0};

	if (!m || !m->graph)
		return;
	if (c->session && all_made_up(c)) {
		c->inputs = try_inputs(c, r, &d);
		if (!c->inputs && d.last && code_exit(d.last->code) == 3)
			c->inputs = guess_inputs(c, r, NULL);
		if (c->inputs) {
			c->in = input_tensors(c->inputs);
			tell_dims(c, &d);
			diag_free(&d);
			return;
		}
		diag_free(&d);
	}
	c->inputs = input_plan(m, r, &d);
	if (c->inputs && c->session && !input_read(c->inputs, &d))
		c->in = input_tensors(c->inputs);
	check_merge(c->d, &d);
	diag_free(&d);
}

/* One run; its outputs are kept, for they belong to the session until the next. */
static void first_run(struct check_context *c)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);
	struct diag d = {0}, *all = c->d;

	c->d = &d;
	int rc = check_session_run(c, c->session, c->in, out, NULL);
	c->d = all;
	/* shapes that only the run knows */
	struct input_set *other = rc && all_made_up(c) && d.last && code_exit(d.last->code) == 3
					  ? guess_inputs(c, made_up(c, c->request), out)
					  : NULL;
	if (other) {
		input_free(c->inputs);
		c->inputs = other;
		c->in = input_tensors(other);
		rc = 0;
	} else {
		check_merge(c->d, &d);
	}
	diag_free(&d);
	if (rc)
		return;
	for (uint32_t i = 0; i < g->nout; i++)
		out[i] = out[i] ? tensor_copy(&c->arena, out[i]) : NULL;
	c->out = out;
	c->nout = g->nout;
}

static bool have(const struct check_context *c, enum check_need need)
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

/* Opens one thing after the other as far as the check needs; each is tried once. */
static bool provide(struct check_context *c, enum check_need need)
{
	static void (*const open[])(struct check_context *) = {NULL, open_file, open_session,
							       open_inputs, first_run};

	for (int k = NEED_FILE; k <= (int)need; k++) {
		if (k == NEED_OUTPUTS && !c->in)
			break;
		if (k > (int)c->opened) {
			c->opened = (enum check_need)k;
			open[k](c);
		}
	}
	return have(c, need);
}

static const char *missing(const struct check_context *c)
{
	if (!c->file)
		return "the model cannot be read";
	if (!c->session)
		return "the model cannot be run";
	if (c->dies)
		return "a run kills the process";
	return c->in ? "the first run failed" : "the inputs do not fit";
}

/* ---- one check after the other */

static size_t count(const struct diag *d, enum severity s)
{
	size_t n = 0;

	for (const struct finding *f = d->first; f; f = f->next)
		n += f->severity == s;
	return n;
}

static void note_end(struct check_context *c, const struct check_result *r)
{
	c->results[c->nresults++] = *r;
	c->current = NULL;
	if (c->progress.ended)
		c->progress.ended(c->progress.arg, c);
}

static void run_one(struct check_context *c, const struct check *check)
{
	struct check_result r = {.check = check, .state = CHECK_SKIPPED};
	uint64_t start = clock_ns();

	if (check->applies && !check->applies(c, &r.said)) {
		if (r.said)
			note_end(c, &r);
		return;
	}
	r.errors = c->d->errors;
	r.warnings = c->d->warnings;
	r.notes = count(c->d, SEV_NOTE);
	c->current = check;
	c->said = NULL;
	c->data = NULL;
	check_step(c, 0, 0);
	if (provide(c, check->need)) {
		int rc = check->run(c);
		if (rc && c->d->errors == r.errors)
			FAIL(c->d, (enum code) - rc, .message = NULL);
		r.said = c->said;
		r.data = c->data;
		r.state = rc ? CHECK_BROKEN : CHECK_PASSED;
	} else {
		r.said = missing(c);
	}
	r.errors = c->d->errors - r.errors;
	r.warnings = c->d->warnings - r.warnings;
	r.notes = count(c->d, SEV_NOTE) - r.notes;
	if (r.errors && r.state != CHECK_BROKEN) /* also where what it needs could not be had */
		r.state = CHECK_FOUND;
	r.ns = clock_ns() - start;
	note_end(c, &r);
}

int check_run(struct check_context *c)
{
	c->results = arena_new_n(&c->arena, struct check_result, sizeof(checks) / sizeof(*checks));
	for (size_t i = 0; checks[i]; i++)
		run_one(c, checks[i]);
	return 0;
}

void check_end(struct check_context *c)
{
	input_free(c->inputs);
	session_close(c->session);
	onnx_unload(c->file);
	onnx_unload(c->imported);
	arena_free(&c->arena);
}
