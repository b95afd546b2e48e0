/* SPDX-License-Identifier: Apache-2.0 */
#include "check/prepare_inputs.h"
#include "check/counterparts.h"
#include "check/pair_sides.h"
#include "input/list.h"
#include "session/free_sizes.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Returns a copy of the request in which inputs that the user does not give are generated, with values from 0 to 1
 * unless --random sets another range.
 */
static struct input_request *request_generated(struct check_context *c,
					       const struct input_request *from)
{
	struct input_request *r = arena_dup(&c->arena, from, sizeof(*from));
	struct text *v = arena_new_n(&c->arena, struct text, (size_t)from->random.n + 1);

	for (int64_t i = 0; i < from->random.n; i++)
		v[i] = from->random.v[i];
	/* the first range that fits an input counts, so this one is left for inputs without any */
	v[from->random.n] = (struct text){"0..1", 4};
	r->random = (struct texts){v, from->random.n + 1};
	return r;
}

struct input_set *generate_inputs(struct check_context *c, const struct texts *dims, struct diag *d)
{
	struct input_request *r = request_generated(c, c->request);
	const struct model *m = c->session ? session_model(c->session) : c->file;

	/* the shapes of files cannot be changed */
	r->input = (struct texts){NULL, 0};
	r->data_set = NULL;
	if (dims) {
		r->dim = *dims;
		/* with the same seed, a larger batch would begin with the values of the smaller batch */
		r->seed++;
		r->shape = (struct texts){NULL, 0};
	}
	struct input_set *s = input_plan(m, r, d);
	if (s && input_read(s, d)) {
		input_free(s);
		s = NULL;
	}
	return s;
}

/* ---- sizes of free dimensions when all inputs are generated */

/*
 * Replaces the warnings about each guessed dimension by one note: a user who gives no inputs does not rely on their
 * sizes. Sizes that the request gives by --dim, --shape or --batch were not guessed.
 */
static void report_guessed_dims(struct check_context *c, const struct input_request *asked,
				struct diag *d)
{
	struct check_names names = {&c->arena, NULL, 0};
	const struct model *m = session_model(c->session);
	const struct graph *g = m->graph;
	struct shape *given = arena_new_n(&c->arena, struct shape, g->nin + 1);

	if (input_shapes(m, asked, given, NULL))
		return;

	for (struct finding *f = d->first, *next; f; f = next) {
		next = f->next;
		if (f->severity != SEV_ERROR && f->code != E_DIM_DEFAULT && f->code != E_DIM)
			diag_add(c->d, f);
	}
	for (uint32_t i = 0; i < input_count(c->inputs) && i < g->nin; i++) {
		const struct input_info *in = input_info(c->inputs, i);
		if (in->type.kind != V_TENSOR || shape_known(&given[i]))
			continue;
		for (int k = 1; k < given[i].rank; k++)
			c->lengths_guessed |= given[i].dim[k] < 0;
		check_name_add(&names, arena_printf(&c->arena, "%s %s", in->name,
						    shape_str(&c->arena, &in->shape, NULL)));
	}
	c->sizes_guessed = names.n;
	if (names.n)
		NOTE(c->d, E_DIM_DEFAULT,
		     .message = fmt(c->d, "sizes of free dimensions were guessed: %s",
				    check_name_list(&names)));
}

/* Whether the user asks for a check that runs the model, which must not be skipped in silence. */
static bool asks_for_runs(const struct check_options *o)
{
	return o->compare || o->sensitivity || o->bisect || o->leak || o->recreate || o->contexts ||
	       o->determinism || o->expect.n || o->sweep.n;
}

/*
 * Sequences and tensors of unknown rank cannot be generated, which is not the model's fault: such findings become notes,
 * and the checks that need inputs are skipped, unless the user asks for one of them.
 */
static void excuse_missing(struct check_context *c, struct diag *d)
{
	for (struct finding *f = d->first; f; f = f->next) {
		if ((f->code != E_INPUT_MISSING && f->code != E_DIM) || !f->slot ||
		    strncmp(f->slot, "input '", 7) != 0)
			continue;
		if (!asks_for_runs(c->options))
			f->severity = SEV_NOTE;
		c->no_inputs = "an input cannot be generated and must be given";
	}
}

/*
 * If the request names many inputs, which only --sensitivity and --compare onnxruntime take, finds them all and makes the first one the input
 * of the other checks. Returns 0 or -code.
 */
static int find_cases(struct check_context *c, const struct model *m)
{
	struct input_list *l;

	if (!c->options->sensitivity && !pair_sides_ort(c->options->compare))
		return 0;
	if (!input_names_many(c->request))
		return 0;
	l = arena_new(&c->arena, struct input_list);
	int err = input_list_open(l, m, c->request, c->d);
	if (err)
		return err;
	c->cases = l;
	const struct input_request first = input_list_case(l, 0);
	c->request = arena_dup(&c->arena, &first, sizeof(first));
	return 0;
}

struct other_model {
	struct check_context *c;
	const char *path;
	struct session *session;
};

/* Whether the model that --compare names takes the inputs as well. */
static int plan_other_model(void *arg, const struct input_set *inputs, struct diag *d)
{
	const struct other_model *o = arg;
	struct diag quiet = {0}, *all = o->c->d;
	struct segment_report report;

	if (!o->session)
		return 0; /* the comparison will say why it cannot be opened */
	o->c->d = &quiet;
	const struct tensor *const *in = counterparts_inputs(o->c, session_model(o->session)->graph,
							     o->path, input_tensors(inputs));
	o->c->d = all;
	diag_free(&quiet);
	return in ? session_prepare(o->session, in, &report, d) : 0;
}

/* A comparison needs more than the least sizes with which the model runs, as these hide faults: see widen_sizes. */
static void guess_for_comparison(struct check_context *c, const struct input_request *r)
{
	const char *compare = c->options->compare;
	struct run_config config = *c->config;
	struct other_model other = {c, compare, NULL};
	const struct input_request *found;
	struct diag quiet = {0};
	struct input_set *s;
	struct stat st;

	c->unguessed = r;
	if (!compare)
		return;
	config.optimize = OPTIMIZE_NONE;
	/* a pipe can be read only once */
	if (pair_sides_model(compare) && stat(compare, &st) == 0 && S_ISREG(st.st_mode))
		other.session = session_open(compare, &config, &quiet);
	s = widen_sizes(c->session, r, c->inputs, plan_other_model, &other, &c->arena, &found);
	c->widened = s;
	if (!s && plan_other_model(&other, c->inputs, &quiet))
		s = search_sizes(c->session, r, plan_other_model, &other, &c->arena, &found);
	session_close(other.session);
	diag_free(&quiet);
	if (!s)
		return;
	input_free(c->inputs);
	c->inputs = s;
	c->request = found;
}

void prepare_inputs(struct check_context *c)
{
	const struct model *m = c->session ? session_model(c->session) : c->file;

	c->ranges_given = c->request->random.n;
	if (c->session && !check_steps(c))
		return;
	if (m && m->graph && find_cases(c, m))
		return;
	const struct input_request *r = request_generated(c, c->request);
	struct diag d = {0};

	if (!m || !m->graph)
		return;
	if (c->session && sizes_are_free(c->request)) {
		c->inputs = prepare_inputs_for(c->session, r, &d);
		if (!c->inputs && sizes_may_help(&d))
			c->inputs = search_sizes(c->session, r, NULL, NULL, &c->arena, &c->request);
		if (c->inputs) {
			guess_for_comparison(c, r);
			c->in = input_tensors(c->inputs);
			report_guessed_dims(c, r, &d);
			diag_free(&d);
			return;
		}
		diag_free(&d);
	}
	c->inputs = input_plan(m, r, &d);
	if (c->inputs && c->session && !input_read(c->inputs, &d))
		c->in = input_tensors(c->inputs);
	if (sizes_are_free(c->request))
		excuse_missing(c, &d);
	check_merge(c->d, &d);
	diag_free(&d);
}

struct trial_run {
	struct check_context *c;
	const struct tensor **out;
};

static int run_with_sizes(void *arg, const struct input_set *inputs, struct diag *d)
{
	struct trial_run *t = arg;

	return session_run(t->c->session, input_tensors(inputs), t->out, d);
}

/* Tries other sizes than those that were guessed, the least ones first. */
static struct input_set *try_other_sizes(struct check_context *c, sizes_test *test, void *arg,
					 const struct input_request **found)
{
	const struct input_request *r = c->unguessed;
	struct diag quiet = {0};
	struct input_set *s = c->widened ? prepare_inputs_for(c->session, r, &quiet) : NULL;

	*found = r;
	if (s && test(arg, s, &quiet)) {
		input_free(s);
		s = NULL;
	}
	diag_free(&quiet);
	return s ? s : search_sizes(c->session, r, test, arg, &c->arena, found);
}

/* The note about guessed sizes is out already when a run shows that other ones are needed. */
static void note_other_sizes(struct check_context *c, const char *what,
			     const struct input_request *found)
{
	const char *sizes = sizes_as_options(c->unguessed, found, &c->arena);

	NOTE(c->d, E_DIM_DEFAULT,
	     .message = fmt(c->d, "%s does not run with the sizes that were guessed, but with %s",
			    what, *sizes ? sizes : "1 for each"));
}

bool retry_with_other_sizes(struct check_context *c, const struct diag *why, const struct tensor **out)
{
	struct trial_run trial = {c, out};
	const struct input_request *found;
	struct input_set *s = c->unguessed && sizes_may_help(why)
				      ? try_other_sizes(c, run_with_sizes, &trial, &found)
				      : NULL;

	if (!s)
		return false;
	input_free(c->inputs);
	c->inputs = s;
	c->in = input_tensors(s);
	c->request = found;
	note_other_sizes(c, "the model", found);
	return true;
}

struct input_set *guess_sizes_again(struct check_context *c, sizes_test *test, void *arg)
{
	const struct input_request *found;
	struct input_set *s = c->sizes_guessed ? try_other_sizes(c, test, arg, &found) : NULL;

	if (s)
		note_other_sizes(c, "the reference", found);
	return s;
}

struct input_set *generate_larger_inputs(struct check_context *c)
{
	const struct model *m = session_model(c->session);
	const struct graph *g = m->graph;
	struct arena a = {0};
	struct diag quiet = {0};
	struct shape *given = arena_new_n(&a, struct shape, g->nin + 1);
	struct text *v = arena_new_n(&a, struct text, (size_t)g->nin * MAX_RANK + 1);
	int64_t n = 0;

	bool guessed = c->unguessed && !input_shapes(m, c->unguessed, given, NULL);
	for (uint32_t i = 0; guessed && i < g->nin && i < input_count(c->inputs); i++) {
		const struct value *x = g->value[g->in[i]];
		const struct shape *s = &input_info(c->inputs, i)->shape;
		for (int k = 0; k < x->info.shape.rank && k < s->rank; k++) {
			if (x->info.type.kind != V_TENSOR || x->info.shape.dim[k] >= 0)
				continue;
			v[n].s = arena_printf(&a, "%s=%" PRId64, input_dim_name(m, x, k, &a),
					      s->dim[k] + (given[i].dim[k] < 0));
			v[n].n = strlen(v[n].s);
			n++;
		}
	}
	struct input_set *s = guessed ? generate_inputs(c, &(struct texts){v, n}, &quiet) : NULL;
	diag_free(&quiet);
	arena_free(&a);
	return s;
}

/*
 * Adds to d the findings of the same plan, or run if the plan succeeds, without fusion: they name the node of the file
 * that fails, where those of a fused step name the node that the step is called after. Returns false if nothing fails.
 */
static bool fail_without_fusion(struct check_context *c, struct diag *d)
{
	struct session *plain = c->config->optimize == OPTIMIZE_NONE ? NULL : check_open_plain(c);
	const struct tensor **out = plain ? arena_new_n(&c->arena, const struct tensor *,
							session_model(plain)->graph->nout + 1)
					  : NULL;
	struct segment_report report = {0};
	int rc = plain ? session_prepare(plain, c->in, &report, d) : 0;

	if (plain && !rc && c->opened == NEED_OUTPUTS) /* it was a run that failed, not its plan */
		rc = session_run(plain, c->in, out, d);
	session_close(plain);
	return rc != 0;
}

void report_failed_shapes(struct check_context *c, const struct diag *fused)
{
	struct diag apart = {0};
	const struct diag *why = fail_without_fusion(c, &apart) ? &apart : fused;
	const struct input_request *r =
		sizes_are_free(c->request) ? request_generated(c, c->request) : c->request;
	const struct input_request *found;
	struct diag told = {0};
	struct input_set *other =
		recover_sizes(c->session, r, c->inputs, NULL, NULL, why, &c->arena, &found, &told);

	/* a plan with other sizes is no help if a run with them has failed */
	check_merge(c->d, other ? why : &told);
	input_free(other);
	diag_free(&told);
	diag_free(&apart);
}
