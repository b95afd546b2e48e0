/* SPDX-License-Identifier: Apache-2.0 */
#include "check/prepare_inputs.h"

#include <inttypes.h>
#include <string.h>

/*
 * Returns a copy of the request in which inputs that the user does not give are generated, with values from 0 to 1
 * unless --random sets another range.
 */
static struct input_request *request_generated(struct check_context *c,
					       const struct input_request *from)
{
	static const struct text range = {"0..1", 4};
	struct input_request *r = arena_dup(&c->arena, from, sizeof(*from));

	if (!r->random.n)
		r->random = (struct texts){&range, 1};
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

/* ---- guessing sizes of free dimensions when all inputs are generated */

/*
 * Returns the request's --dim texts and adds a text such as "x.2=64" for each free dimension after the first of an
 * input, except a dimension with the same symbol as the first (the batch). If first_only is set, only the first input
 * that has such dimensions gets texts.
 */
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

/*
 * Reads the inputs of the request and plans a run for them, which checks the inputs' shapes. Returns NULL with
 * findings in d on error.
 */
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
 * Whether guessed inputs are small: sizes that suit pictures make far too much of an input with more free dimensions, and a model
 * that no size fits is refused only when all have been tried.
 */
static bool guess_is_small(struct check_context *c, const struct input_request *r)
{
	enum { MAX_GUESSED_BYTES = 16 << 20 };
	const struct model *m = session_model(c->session);
	struct shape *shapes = arena_new_n(&c->arena, struct shape, m->graph->nin + 1);
	size_t sum = 0, bytes;

	if (input_shapes(m, r, shapes, NULL))
		return true;
	for (uint32_t i = 0; i < m->graph->nin; i++) {
		for (int k = 0; k < shapes[i].rank; k++)
			if (shapes[i].dim[k] < 0)
				shapes[i].dim[k] = 1;
		if (shapes[i].rank >= 0 && (!tensor_bytes(DT_F32, &shapes[i], LAYOUT_ROW, &bytes) ||
					    !size_add(sum, bytes, &sum)))
			return false;
	}
	return sum <= MAX_GUESSED_BYTES;
}

/*
 * Free dimensions are 1 by default, which is too small for some convolutions and windows. Tries common sizes in
 * rising order until the model's shapes fit. If out is not NULL, a run must succeed as well, and `out` gets its
 * outputs. Returns NULL if no size works.
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
		if (!guess_is_small(c, r))
			continue;
		struct input_set *s = try_inputs(c, r, &quiet);
		if (s && out && session_run(c->session, input_tensors(s), out, &quiet)) {
			input_free(s);
			s = NULL;
		}
		diag_free(&quiet);
		if (!s)
			continue;
		c->request = r; /* inputs that checks generate later get the same sizes */
		return s;
	}
	return NULL;
}

static bool all_generated(const struct check_context *c)
{
	return !c->request->input.n && !c->request->data_set && !c->request->strict;
}

/*
 * Replaces the warnings about each guessed dimension by one note: a user who gives no inputs does not rely on their
 * sizes.
 */
static void report_guessed_dims(struct check_context *c, struct diag *d)
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
		     .message = fmt(c->d, "sizes of free dimensions were guessed: %s",
				    check_name_list(&names)));
}

/*
 * Sequences and tensors of unknown rank cannot be generated, which is not the model's fault: such findings become notes,
 * and the checks that need inputs are skipped.
 */
static void excuse_missing(struct check_context *c, struct diag *d)
{
	for (struct finding *f = d->first; f; f = f->next) {
		if ((f->code != E_INPUT_MISSING && f->code != E_DIM) || !f->slot ||
		    strncmp(f->slot, "input '", 7) != 0)
			continue;
		f->severity = SEV_NOTE;
		c->no_inputs = "an input cannot be generated and must be given";
	}
}

void prepare_inputs(struct check_context *c)
{
	const struct model *m = c->session ? session_model(c->session) : c->file;
	const struct input_request *r = request_generated(c, c->request);
	struct diag d = {0};

	if (!m || !m->graph)
		return;
	if (c->session && all_generated(c)) {
		c->inputs = try_inputs(c, r, &d);
		if (!c->inputs && d.last && code_exit(d.last->code) == 3)
			c->inputs = guess_inputs(c, r, NULL);
		if (c->inputs) {
			c->in = input_tensors(c->inputs);
			report_guessed_dims(c, &d);
			diag_free(&d);
			return;
		}
		diag_free(&d);
	}
	c->inputs = input_plan(m, r, &d);
	if (c->inputs && c->session && !input_read(c->inputs, &d))
		c->in = input_tensors(c->inputs);
	if (all_generated(c))
		excuse_missing(c, &d);
	check_merge(c->d, &d);
	diag_free(&d);
}

bool retry_with_other_sizes(struct check_context *c, const struct diag *why, const struct tensor **out)
{
	bool shapes = why->last && code_exit(why->last->code) == 3;
	struct input_set *s = shapes && all_generated(c)
				      ? guess_inputs(c, request_generated(c, c->request), out)
				      : NULL;

	if (!s)
		return false;
	input_free(c->inputs);
	c->inputs = s;
	c->in = input_tensors(s);
	return true;
}
