/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs for checks: those of the user, or values and sizes made up. */
#include "check/prepare_inputs.h"

#include <inttypes.h>
#include <string.h>

/* Every input made up, where nothing else is said. */
static struct input_request *made_up(struct check_context *c, const struct input_request *from)
{
	static const struct text range = {"0..1", 4};
	struct input_request *r = arena_dup(&c->arena, from, sizeof(*from));

	if (!r->random.n)
		r->random = (struct texts){&range, 1};
	return r;
}

struct input_set *random_inputs(struct check_context *c, const struct texts *dims, struct diag *d)
{
	struct input_request *r = made_up(c, c->request);
	const struct model *m = c->session ? session_model(c->session) : c->file;

	/* files have the shape that they have */
	r->input = (struct texts){NULL, 0};
	r->data_set = NULL;
	if (dims) {
		r->dim = *dims;
		r->seed++; /* else a larger batch would begin with the values of the smaller one */
		r->shape = (struct texts){NULL, 0};
	}
	struct input_set *s = input_plan(m, r, d);
	if (s && input_read(s, d)) {
		input_free(s);
		s = NULL;
	}
	return s;
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

/* Sequences, and tensors whose rank the model leaves open, are not made up: no fault of the model's. */
static void excuse(struct check_context *c, struct diag *d)
{
	for (struct finding *f = d->first; f; f = f->next) {
		if ((f->code != E_INPUT_MISSING && f->code != E_DIM) || !f->slot ||
		    strncmp(f->slot, "input '", 7) != 0)
			continue;
		f->severity = SEV_NOTE;
		c->no_inputs = "an input must be given, for it cannot be made up";
	}
}

/* Refused inputs are findings of every input, also of a model that this build cannot run. */
void prepare_inputs(struct check_context *c)
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
	if (all_made_up(c))
		excuse(c, &d);
	check_merge(c->d, &d);
	diag_free(&d);
}

bool retry_with_other_sizes(struct check_context *c, const struct diag *why, const struct tensor **out)
{
	bool shapes = why->last && code_exit(why->last->code) == 3;
	struct input_set *s =
		shapes && all_made_up(c) ? guess_inputs(c, made_up(c, c->request), out) : NULL;

	if (!s)
		return false;
	input_free(c->inputs);
	c->inputs = s;
	c->in = input_tensors(s);
	return true;
}
