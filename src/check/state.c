/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --feed: checks that each state changes from step to step, and that no output that looks like a state is left out. Without --feed, tells
 * of such outputs in a note.
 */
#include "base/str.h"
#include "base/hash.h"
#include "check/check.h"
#include "session/stepper.h"

#include <inttypes.h>
#include <string.h>

enum { DEFAULT_STEPS = 4 };

/* ---- outputs that look like the next state of an input */

/* How names of a state's output differ from those of its input: a part of one is replaced by a part of the other. */
static const struct {
	const char *out, *in;
} renamed[] = {
	{"present*", "past_key_values*"},
	{"present*", "past*"},
	{"*N", "*"},
	{"*n", "*"},
	{"*_out", "*_in"},
	{"*_out", "*"},
	{"new_*", "*"},
	{"next_*", "*"},
	{"*_next", "*"},
	{"out_*", "in_*"},
	{"*_new", "*"},
};

/* Maps the names of the graph's outputs to their positions. */
static struct map output_names(const struct graph *g, struct arena *a)
{
	struct map names = {.arena = a};

	for (uint32_t k = 0; k < g->nout; k++)
		map_set(&names, g->out_name[k], strlen(g->out_name[k]), k);
	return names;
}

/* Returns the position of the output whose name is made of an input's by this way, or -1. */
static int64_t output_renamed(const struct map *outs, size_t way, const char *in, struct arena *a)
{
	const char *to = renamed[way].out, *star = strchr(to, '*');
	struct stars b;

	if (!pattern_match(renamed[way].in, in, &b))
		return -1;
	const char *name = arena_printf(a, "%.*s%.*s%s", (int)(star - to), to, (int)b.length[0],
					b.of[0], star + 1);
	return map_get(outs, name, strlen(name));
}

/* Whether a value of this description may be an input of the other; sizes that are not known contradict nothing. */
static bool may_come_back(const struct vinfo *out, const struct vinfo *in)
{
	if (out->type.kind != V_TENSOR || in->type.kind != V_TENSOR ||
	    out->type.dtype != in->type.dtype)
		return false;
	if (out->shape.rank < 0 || in->shape.rank < 0)
		return true;
	if (out->shape.rank != in->shape.rank)
		return false;
	for (int i = 0; i < in->shape.rank; i++)
		if (out->shape.dim[i] >= 0 && in->shape.dim[i] >= 0 &&
		    out->shape.dim[i] != in->shape.dim[i])
			return false;
	return true;
}

static bool is_fed(const struct steps *s, uint32_t out)
{
	for (uint32_t k = 0; s && k < s->nfeed; k++)
		if (s->feed[k].out == out)
			return true;
	return false;
}

/*
 * Finds an output that looks like the next state of input i, and is fed nowhere. Returns its position, or -1. Which input
 * a model means by a name is a guess, so types and shapes must agree as well.
 */
static int unfed_state(const struct graph *g, const struct steps *s, const struct map *outs,
		       uint32_t i)
{
	const struct value *in = g->value[g->in[i]];
	struct arena a = {0};
	int found = -1;

	/* a model with a single input works on what it is given, whatever its names */
	for (size_t w = 0;
	     w < sizeof(renamed) / sizeof(*renamed) && g->nin > 1 && !steps_feed_of(s, i); w++) {
		int64_t k = output_renamed(outs, w, in->name, &a);
		if (k >= 0 && (found < 0 || k < found) && !is_fed(s, (uint32_t)k) &&
		    may_come_back(&g->value[g->out[k]]->info, &in->info))
			found = (int)k;
	}
	arena_free(&a);
	return found;
}

static void tell_unfed(struct check_context *c, const struct steps *s)
{
	const struct graph *g = session_model(c->session)->graph;
	struct check_names names = {.arena = &c->arena};
	const char *option = NULL;
	const struct map outs = output_names(g, &c->arena);

	for (uint32_t i = 0; i < g->nin; i++) {
		int k = unfed_state(g, s, &outs, i);
		if (k < 0)
			continue;
		check_name_add(&names, g->out_name[k]);
		if (!option)
			option = fmt(c->d, "--feed '%s=%s'", g->out_name[k], g->value[g->in[i]]->name);
	}
	if (!option)
		return;
	struct finding f = {
		.code = E_STATE_UNFED,
		.severity = s ? SEV_WARNING : SEV_NOTE,
		.slot = fmt(c->d, "output %s", check_name_list(&names)),
		.message = fmt(c->d, "%s like the next state of an input, but %s fed nowhere",
			       names.n > 1 ? "they look" : "it looks", names.n > 1 ? "are" : "is"),
		.hint = fmt(c->d, "%s hands it to the next step", option),
		.file = __FILE__,
		.line = __LINE__};
	diag_add(c->d, &f);
}

/* ---- states that never change */

struct walk {
	struct check_context *c;
	struct session *session;
	struct stepper *stepper;
	struct tensor **before; /* by feed: the state before the newest step, in host memory */
	bool *changed;		/* by feed */
	struct arena arena[2]; /* of the states before the newest step and the one before that, in turn */
};

/* Copies the newest state to host memory. */
static struct tensor *copy_state(struct walk *w, uint32_t k, struct arena *a)
{
	const struct tensor *t = stepper_state(w->stepper, k);
	struct tensor *copy = tensor_new(a, tensor_dtype(t), &t->shape);

	if (copy && t->bytes && session_fetch(w->session, copy->data, t, w->c->d))
		return NULL;
	return copy;
}

static int compare_states(struct walk *w, const struct steps *s, int64_t step)
{
	struct arena *a = &w->arena[step & 1];

	arena_free(a);
	for (uint32_t k = 0; k < s->nfeed; k++) {
		const struct tensor *first = input_info(w->c->inputs, s->feed[k].in)->tensor;
		struct tensor *now = copy_state(w, k, a);
		if (!now)
			return -E_MEMORY;
		w->changed[k] |= !tensor_same(now, step ? w->before[k] : first);
		w->before[k] = now;
	}
	return 0;
}

static int run_steps(struct walk *w, const struct steps *s)
{
	struct check_context *c = w->c;
	bool done = false;
	int rc = 0;

	for (int64_t i = 0; !rc && !done; i++) {
		rc = stepper_step(w->stepper, &done, c->d);
		rc = rc ? rc : compare_states(w, s, i);
	}
	return rc;
}

static void tell_unchanged(struct walk *w, const struct steps *s)
{
	struct check_context *c = w->c;
	const struct graph *g = session_model(w->session)->graph;
	int64_t steps = stepper_times(w->stepper).steps;

	for (uint32_t k = 0; k < s->nfeed; k++)
		if (!w->changed[k])
			WARN(c->d, E_STATE_SAME,
			     .slot = fmt(c->d, "output '%s'", g->out_name[s->feed[k].out]),
			     .message = fmt(c->d,
					    "the state that comes back as input '%s' is the same after each of "
					    "%" PRId64 " steps",
					    g->value[g->in[s->feed[k].in]]->name, steps));
	check_say(c, "%s over %s", str_many(&c->arena, s->nfeed, "state"),
		  str_many(&c->arena, (uint64_t)steps, "step"));
}

static int walk(struct walk *w, const struct steps *s)
{
	struct check_context *c = w->c;
	const struct stepper_request request = {.steps = s,
						.until.n = -1,
						.limit = c->options->step_limit == INT_ABSENT
								 ? DEFAULT_STEPS
								 : c->options->step_limit,
						.seed = c->request->seed};

	w->before = arena_new_n(&c->arena, struct tensor *, s->nfeed + 1);
	w->changed = arena_new_n(&c->arena, bool, s->nfeed + 1);
	w->session = check_open(c, c->config);
	w->stepper = w->session ? stepper_new(w->session, &request, c->inputs, c->d) : NULL;
	int rc = w->stepper ? run_steps(w, s) : -(int)c->d->last->code;
	if (!rc)
		tell_unchanged(w, s);
	return rc;
}

static int run_state(struct check_context *c)
{
	struct walk w = {.c = c};
	int rc = 0;

	if (!check_steps(c)) {
		check_cannot_judge(c, "the options of its steps are wrong");
		return 0;
	}
	const struct steps *s = c->steps;
	tell_unfed(c, s);
	if (s && s->nfeed && c->in)
		rc = walk(&w, s);
	else if (s && s->nfeed)
		check_cannot_judge(c, "its inputs could not be made");
	stepper_free(w.stepper);
	session_close(w.session);
	for (int i = 0; i < 2; i++)
		arena_free(&w.arena[i]);
	return rc;
}

static bool has_state(const struct check_context *c, const char **why)
{
	(void)why;
	if (steps_wanted(&c->options->steps) || !c->session)
		return steps_wanted(&c->options->steps);
	const struct graph *g = session_model(c->session)->graph;
	struct arena a = {0};
	const struct map outs = output_names(g, &a);
	bool found = false;

	for (uint32_t i = 0; i < g->nin && !found; i++)
		found = unfed_state(g, NULL, &outs, i) >= 0;
	arena_free(&a);
	return found;
}

const struct check check_state = {
	.name = "state",
	.what = "a state from step to step",
	.need = NEED_SESSION,
	.cost = COST_RUNS,
	.applies = has_state,
	.run = run_state,
};
