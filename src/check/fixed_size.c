/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confirms or drops the statements that a size is fixed (see fixed_size.h): runs the model with another size of the
 * dimension. The statement stands if that run fails, or if an output does not follow the size; it is dropped if the
 * model runs and all its outputs follow.
 */
#include "check/fixed_size.h"

#include "check/prepare_inputs.h"

#include <inttypes.h>
#include <string.h>

void suspect_fixed_size(struct check_context *c, const struct suspect *s, const struct finding *f)
{
	c->suspects = arena_append(&c->arena, c->suspects, c->nsuspects, sizeof(*s));
	c->suspects[c->nsuspects++] = *s;
	diag_add(&c->suspected, f);
}

/* One run with another size, which serves all statements about the same dimension and this size. */
struct trial {
	const char *dim;
	int64_t size;
	const struct tensor *const *out; /* NULL if there was no run, or if it failed */
	const char *why;		 /* then why, for messages */
	const char *node;		 /* node at which it failed, or NULL */
};

/* Returns the size that the dimension has in the first run, or 0 if no input has it. */
static int64_t size_now(struct check_context *c, const char *dim)
{
	const struct model *m = session_model(c->session);
	const struct graph *g = m->graph;
	struct arena a = {0};
	int64_t now = 0;

	for (uint32_t i = 0; c->inputs && i < g->nin && i < input_count(c->inputs); i++) {
		const struct value *x = g->value[g->in[i]];
		const struct shape *s = &input_info(c->inputs, i)->shape;
		for (int k = 0; x->info.type.kind == V_TENSOR && k < x->info.shape.rank; k++)
			if (x->info.shape.dim[k] < 0 && k < s->rank &&
			    !strcmp(input_dim_name(m, x, k, &a), dim))
				now = s->dim[k];
	}
	arena_free(&a);
	return now;
}

/* Returns all free dimensions with the sizes of the first run as --dim texts, but `dim` with the size n. */
static struct texts bind_dims(struct check_context *c, const char *dim, int64_t n, struct arena *a)
{
	const struct model *m = session_model(c->session);
	const struct graph *g = m->graph;
	struct text *v = arena_new_n(a, struct text, (size_t)g->nin * MAX_RANK + 1);
	int64_t count = 0;

	for (uint32_t i = 0; i < g->nin && i < input_count(c->inputs); i++) {
		const struct value *x = g->value[g->in[i]];
		const struct shape *s = &input_info(c->inputs, i)->shape;
		for (int k = 0; x->info.type.kind == V_TENSOR && k < x->info.shape.rank; k++) {
			if (x->info.shape.dim[k] >= 0 || k >= s->rank)
				continue;
			const char *name = input_dim_name(m, x, k, a);
			bool same = !strcmp(name, dim);
			v[count].s = arena_printf(a, "%s=%" PRId64, name, same ? n : s->dim[k]);
			v[count].n = strlen(v[count].s);
			count++;
		}
	}
	return (struct texts){v, count};
}

/* Runs the model with this size of the dimension. Only the shapes of t->out are good afterwards. */
static void run_with_size(struct check_context *c, struct trial *t)
{
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *,
						session_model(c->session)->graph->nout + 1);
	struct diag quiet = {0}, *all = c->d;
	struct arena a = {0};
	const struct texts dims = bind_dims(c, t->dim, t->size, &a);
	struct input_set *in = generate_inputs(c, &dims, &quiet);

	c->d = &quiet;
	int rc = in ? check_session_run(c, c->session, input_tensors(in), out, NULL) : -E_RUN;
	c->d = all;
	input_free(in);
	arena_free(&a);
	const struct finding *f = quiet.last;
	t->out = rc ? NULL : out;
	if (!in)
		t->why = "inputs of another size cannot be generated, so none was tried";
	else if (rc)
		t->why = fmt(all, "with %s=%" PRId64 " the run fails%s", t->dim, t->size,
			     f && f->node ? fmt(all, " at '%s'", f->node) : "");
	t->node = rc && f && f->node ? arena_str(&c->arena, f->node) : NULL;
	diag_free(&quiet);
}

/* The size that tells whether the statement is true. */
static int64_t other_size(const struct suspect *s, int64_t now)
{
	const int64_t fixed = s->fixed ? s->fixed : now;

	return s->fixed && now != fixed ? now : fixed + 1;
}

/* Runs of a hostile model with a thousand free dimensions would take hours. */
enum { MAX_TRIALS = 32 };

/* Returns what is known of the other size, from the first run if that had it. *runs counts the runs so far. */
static struct trial try_other_size(struct check_context *c, const struct suspect *s, int64_t now,
				   int *runs)
{
	struct trial t = {.dim = s->dim, .size = other_size(s, now)};

	if (!c->out)
		t.why = now == t.size
				? fmt(c->d, "the run with %s=%" PRId64 " fails", s->dim, t.size)
				: "no other size was tried, as there was no first run";
	else if (now == t.size)
		t.out = c->out;
	else if (++*runs > MAX_TRIALS)
		t.why = fmt(c->d, "no other size was tried, as %d other dimensions were", MAX_TRIALS);
	else
		run_with_size(c, &t);
	return t;
}

/* Whether the run contradicts the statement. Otherwise *evidence says what the run shows. */
static bool is_refuted(struct check_context *c, const struct suspect *s, const struct finding *f,
		       const struct trial *t, const char **evidence)
{
	const struct graph *g = session_model(c->session)->graph;

	*evidence = t->why;
	if (s->derived)
		return !t->node || strcmp(t->node, f->node) != 0;
	if (!t->out)
		return false;
	for (uint32_t k = 0; s->batch && k < g->nout; k++) {
		const struct shape *shape = t->out[k] ? &t->out[k]->shape : NULL;
		const int64_t wanted = s->output < 0 ? s->fixed : t->size;
		if ((s->output >= 0 && (uint32_t)s->output != k) || !shape || shape->rank < 1 ||
		    shape->dim[0] != wanted)
			continue;
		*evidence = fmt(c->d, "with %s=%" PRId64 " output '%s' is %s", s->dim, t->size,
				g->out_name[k], shape_str(&c->d->arena, shape, NULL));
		return false;
	}
	return true;
}

/* What became of a suspicion. */
struct verdict {
	const struct finding *finding;
	bool judged, refuted;
	const char *evidence;
};

/* Judges suspicion i and all behind it that the same run judges. */
static void judge_from(struct check_context *c, size_t i, struct verdict *v, int *runs)
{
	const char *dim = c->suspects[i].dim;
	int64_t now = size_now(c, dim);
	const struct trial t = try_other_size(c, &c->suspects[i], now, runs);

	for (size_t k = i; k < c->nsuspects; k++) {
		const struct suspect *s = &c->suspects[k];
		if (v[k].judged || strcmp(s->dim, dim) != 0 || other_size(s, now) != t.size)
			continue;
		v[k].judged = true;
		v[k].refuted = is_refuted(c, s, v[k].finding, &t, &v[k].evidence);
	}
}

static int run_fixed_size(struct check_context *c)
{
	struct verdict *v = arena_new_n(&c->arena, struct verdict, c->nsuspects);
	const struct finding *f = c->suspected.first;
	size_t dropped = 0;
	int runs = 0;

	for (size_t i = 0; i < c->nsuspects; i++, f = f->next)
		v[i].finding = f;
	for (size_t i = 0; i < c->nsuspects; i++) {
		struct finding told = *v[i].finding;
		if (!v[i].judged)
			judge_from(c, i, v, &runs);
		dropped += v[i].refuted;
		if (v[i].refuted)
			continue;
		told.message = fmt(c->d, "%s; %s", told.message, v[i].evidence);
		diag_add(c->d, &told);
	}
	if (dropped)
		check_say(c, "%zu of %zu sizes that look fixed are not: the model runs with others",
			  dropped, c->nsuspects);
	return 0;
}

static bool is_anything_suspected(const struct check_context *c, const char **why)
{
	(void)why;
	return c->nsuspects != 0;
}

const struct check check_fixed_size = {
	.name = "sizes",
	.what = "sizes that look fixed, tried with another",
	.need = NEED_SESSION,
	.cost = COST_RUNS,
	.applies = is_anything_suspected,
	.run = run_fixed_size,
};
