/* SPDX-License-Identifier: Apache-2.0 */
#include "session/internal.h"

#include "backend/choose_ids.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "input/random.h"
#include "session/collect.h"

#include <inttypes.h>

int stepper_derive(struct stepper *x, const struct derive *v, struct positions at,
		   struct step_buffer *r, struct tensor *own, struct diag *d)
{
	const struct shape *declared = &x->graph->value[x->graph->in[v->in]]->info.shape;
	const struct tensor *first = input_info(x->inputs, v->in)->tensor;
	struct shape shape = first->shape;

	if (shape.rank && declared->rank == shape.rank && declared->dim[shape.rank - 1] < 0)
		shape.dim[shape.rank - 1] = DIM_UNKNOWN;
	*own = (struct tensor){.type = first->type,
			       .shape = derive_shape(v->rule, &shape, at, x->batch)};
	if (!tensor_bytes(tensor_dtype(own), &own->shape, LAYOUT_ROW, &own->bytes))
		return FAIL(d, E_SIZE);
	int err = step_buffer_reserve(x->session, r, own->bytes, 0, d);
	if (err)
		return err;
	own->data = r->memory.ptr;
	if (!derive_fill(v->rule, at, own))
		return derive_fail(input_info(x->inputs, v->in)->name, at, own, d);
	return 0;
}

static int set_derived(struct stepper *x, const struct derive *v, struct diag *d)
{
	int err = stepper_derive(x, v, x->at, &x->buffer[v->in][0], &x->own[v->in], d);

	x->in[v->in] = &x->own[v->in];
	return err;
}

int stepper_set_inputs(struct stepper *x, struct diag *d)
{
	int err = 0;

	for (uint32_t k = 0; !err && k < x->steps->nslice; k++) {
		err = stepper_set_piece(x, &x->steps->slice[k], d);
		x->in[x->steps->slice[k].in] = &x->own[x->steps->slice[k].in];
	}
	for (uint32_t k = 0; !err && x->times.steps && k < x->steps->nderive; k++)
		err = set_derived(x, &x->steps->derive[k], d);
	return err;
}

struct positions stepper_positions_after(const struct stepper *x)
{
	return (struct positions){x->at.past + x->at.now, x->steps->nnext ? 1 : x->at.now};
}

static void find_sizes(struct stepper *x)
{
	uint32_t n = input_count(x->inputs);
	const struct shape **shapes = arena_new_n(&x->arena, const struct shape *, n + 1);
	const struct tensor *first = x->steps->nnext	? x->in[x->steps->next->in]
				     : x->steps->nslice ? x->in[x->steps->slice->in]
							: NULL;

	for (uint32_t i = 0; i < n; i++)
		shapes[i] = &x->in[i]->shape;
	x->at = steps_first(x->steps, x->graph, shapes);
	x->batch = first && first->shape.rank > 1 ? first->shape.dim[0] : 1;
}

static struct stepper *new_stepper(struct session *s, const struct stepper_request *r,
				   const struct input_set *inputs)
{
	struct arena a = {0};
	struct stepper *x = arena_new(&a, struct stepper);
	uint32_t n = input_count(inputs);

	x->arena = a;
	x->session = s;
	x->request = *r;
	x->steps = r->steps;
	x->graph = session_model(s)->graph;
	x->inputs = inputs;
	x->in = arena_new_n(&x->arena, const struct tensor *, n + 1);
	x->own = arena_new_n(&x->arena, struct tensor, n + 1);
	x->next = arena_new_n(&x->arena, const struct tensor *, n + 1);
	x->next_own = arena_new_n(&x->arena, struct tensor, n + 1);
	x->buffer = arena_array(&x->arena, n + 1, sizeof(*x->buffer));
	x->newest = arena_new_n(&x->arena, int, n + 1);
	x->out = arena_new_n(&x->arena, const struct tensor *, x->graph->nout + 1);
	x->ids = arena_new_n(&x->arena, int64_t *, x->steps->nnext + 1);
	x->outputs = arena_array(&x->arena, x->graph->nout + 1, sizeof(*x->outputs));
	x->output_bytes = arena_new_n(&x->arena, size_t, x->graph->nout + 1);
	for (int k = 0; k < 2; k++)
		x->queued_out[k] = arena_new_n(&x->arena, struct tensor, x->graph->nout + 1);
	x->ids_capacity = arena_new_n(&x->arena, size_t, x->steps->nnext + 1);
	for (uint32_t i = 0; i < n; i++)
		x->in[i] = input_tensors(inputs)[i];
	find_sizes(x);
	x->ended = arena_new_n(&x->arena, bool, (size_t)x->batch + 1);
	x->random = random_start(r->seed, "--next");
	return x;
}

struct stepper *stepper_new(struct session *s, const struct stepper_request *r,
			    const struct input_set *inputs, struct diag *d)
{
	struct stepper *x = new_stepper(s, r, inputs);
	int err = stepper_set_limit(x, d);

	mem_keep_freed(); /* each step makes a plan, and frees an older one */
	if (!err) {
		x->collector = collector_new(s, r, &x->arena, d);
		err = x->collector ? 0 : -E_STEPS;
	}
	err = err ? err : session_start(s, d); /* a first piece may need room before anything runs */
	err = err ? err : stepper_start_states(x, d);
	if (!err && session_runtime(s)->backend != session_runtime(s)->cpu)
		err = session_outputs_stay(s, true, d);
	err = err ? err : stepper_set_inputs(x, d);
	if (!err) {
		stepper_choose_on_device(x);
		session_plan_ahead(s, stepper_foresee, x, x->chooser != NULL);
		return x;
	}
	stepper_free(x);
	return NULL;
}

int stepper_prepare(struct stepper *x, struct diag *d)
{
	return session_prepare(x->session, x->in, NULL, d);
}

void stepper_add_times(struct stepper *x, uint64_t start, uint64_t run, uint64_t planned)
{
	struct session_times t = session_times(x->session);
	uint64_t took = clock_ns() - start;

	if (!x->times.steps) {
		x->times.first = took;
	} else {
		x->times.rest += took;
		x->times.run += run;
		x->times.planned += t.planned - planned;
	}
	x->times.steps++;
}

/* Names the step in the newest finding. */
static int blame_step(const struct stepper *x, int err, struct diag *d)
{
	if (err && d->last && !d->last->hint && x->times.steps)
		d->last->hint = fmt(d, "this was step %" PRId64, x->times.steps + 1);
	return err;
}

int stepper_step(struct stepper *x, bool *done, struct diag *d)
{
	uint64_t start = clock_ns(), planned = session_times(x->session).planned;
	bool ended = false, ahead = false;
	int err = x->chooser && x->times.steps ? stepper_step_ahead(x, &ahead, done, d) : 0;

	if (err || ahead)
		return blame_step(x, err, d);
	err = x->chooser && x->times.steps ? stepper_choose_on_host(x, d) : 0;
	err = err ? err : stepper_set_inputs(x, d);

	err = err ? err : stepper_place_states(x, false, d);
	err = err ? err : session_run(x->session, x->in, x->out, d);
	err = err ? err : stepper_hand_over(x, d);
	err = err ? err : stepper_choose_next(x, &ended, d);
	err = err ? err : collector_add(x->collector, x->out, d);
	if (err)
		return blame_step(x, err, d);
	x->at = stepper_positions_after(x);
	stepper_add_times(x, start, session_times(x->session).run, planned);
	*done = ended || x->times.steps >= x->limit;
	return 0;
}

const struct tensor *stepper_state(const struct stepper *x, uint32_t feed)
{
	return x->in[x->steps->feed[feed].in];
}

struct step_times stepper_times(const struct stepper *x)
{
	return x->times;
}

/* Whether --output names this output of the steps, or is not given. */
static bool is_asked(const struct stepper *x, const char *made)
{
	const struct model *m = session_model(x->session);

	for (uint32_t i = 0; i < m->nmade; i++)
		if (!strcmp(m->made[i], made))
			return true;
	return !m->made;
}

const struct step_output *stepper_outputs(struct stepper *x, size_t *n, struct diag *d)
{
	size_t outputs = collector_count(x->collector);
	struct step_output *o =
		arena_new_n(&x->arena, struct step_output, outputs + x->steps->nnext + 1);

	if (collector_finish(x->collector, x->out, o, d))
		return NULL;
	for (uint32_t k = 0; k < x->steps->nnext; k++) {
		const char *name = arena_printf(&x->arena, "%s.next",
						input_info(x->inputs, x->steps->next[k].in)->name);
		if (!is_asked(x, name))
			continue;
		o[outputs].name = name;
		o[outputs].tensor = stepper_ids_tensor(x, k);
		if (!o[outputs++].tensor) {
			FAIL(d, E_SIZE);
			return NULL;
		}
	}
	*n = outputs;
	return o;
}

void stepper_free(struct stepper *x)
{
	if (!x)
		return;
	session_plan_ahead(x->session, NULL, NULL, 0);
	if (x->choosing && x->chooser)
		x->choosing->destroy(x->chooser);
	for (uint32_t k = 0; k < x->graph->nout; k++)
		for (int parity = 0; parity < 2; parity++)
			if (x->outputs[k][parity].memory.ptr) {
				step_buffer_free(x->session, &x->outputs[k][parity]);
				(void)session_place(x->session, k, (struct placed){0}, NULL);
			}
	for (uint32_t k = 0; k < x->steps->nfeed; k++)
		if (x->buffer[x->steps->feed[k].in][0].memory.ptr ||
		    x->buffer[x->steps->feed[k].in][1].memory.ptr)
			(void)session_place(x->session, x->steps->feed[k].out, (struct placed){0},
					    NULL);
	for (uint32_t i = 0; i < input_count(x->inputs); i++)
		for (int k = 0; k < 2; k++)
			step_buffer_free(x->session, &x->buffer[i][k]);
	for (uint32_t k = 0; k < x->steps->nnext; k++)
		mem_free(x->ids[k]);
	stepper_free_scores(x);
	collector_free(x->collector);
	struct arena a = x->arena;
	arena_free(&a);
}
