/* SPDX-License-Identifier: Apache-2.0 */
#include "check/held_run.h"

#include "backend/evaluate.h"
#include "check/repeat.h"
#include "session/backends.h"

#include <string.h>

struct holding {
	struct observer observer;
	struct held_run *h;
};

static void announce(struct observer *o, const struct step *s, const struct call *call)
{
	const struct check_progress *p = &((struct holding *)o)->h->c->progress;

	(void)call;
	if (p->at)
		p->at(p->arg, s->from ? s->from->name : NULL, s->from ? s->from->op : NULL);
}

static void hold_call(struct observer *o, const struct step *s, const struct call *call)
{
	struct held_run *h = ((struct holding *)o)->h;

	if (step_computes(h->rt, h->g, s))
		h->call[s->node->id] = call;
}

static void index_graph(struct held_run *h)
{
	const struct graph *g = h->g;

	h->call = arena_new_n(&h->arena, const struct call *, g->nnodes + 1);
	h->value = arena_new_n(&h->arena, struct value_copy, g->nvalues + 1);
	h->position = arena_new_n(&h->arena, uint32_t, g->nnodes + 1);
	h->last = arena_new_n(&h->arena, uint32_t, g->nvalues + 1);
	h->out = arena_new_n(&h->arena, struct value_copy, g->nout + 1);
	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = g->node[g->order[p]];
		h->position[n->id] = p;
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			if (n->in[i] != NO_VALUE)
				h->last[n->in[i]] = p;
	}
	for (uint32_t k = 0; k < g->nout; k++)
		h->last[g->out[k]] = g->norder;
}

static int keep(struct held_run *h, const struct tensor *t, struct value_copy *to)
{
	const struct call none = {0};

	return t ? value_fetch(h->rt, &none, t, true, to, h->c->d) : 0;
}

int held_begin(struct check_context *c, struct held_run *h, struct session *s,
	       const struct tensor *const *in)
{
	struct holding o = {{.begin = announce, .end = hold_call}, h};

	*h = (struct held_run){.c = c, .session = s, .g = session_model(s)->graph};
	h->rt = session_runtime(s);
	index_graph(h);
	const struct tensor **out = arena_new_n(&h->arena, const struct tensor *, h->g->nout + 1);
	session_observe(s, &o.observer);
	int err = session_run(s, in, out, c->d);
	session_observe(s, NULL);
	for (uint32_t k = 0; k < h->g->nout && !err; k++)
		err = keep(h, out[k], &h->out[k]);
	for (uint32_t i = 0; i < h->g->nin && !err; i++)
		err = keep(h, in[i], &h->value[h->g->in[i]]);
	return err;
}

void held_end(struct held_run *h)
{
	struct arena a = h->arena;

	for (uint32_t i = 0; h->value && i < h->g->nvalues; i++)
		value_free(&h->value[i]);
	for (uint32_t k = 0; h->out && k < h->g->nout; k++)
		value_free(&h->out[k]);
	arena_free(&a);
	*h = (struct held_run){0};
}

const struct tensor *held_value(const struct held_run *h, const struct value_copy *other, uint32_t id)
{
	if (id == NO_VALUE)
		return NULL;
	if (other && held_has(&other[id]))
		return &other[id].t;
	return held_has(&h->value[id]) ? &h->value[id].t : h->g->value[id]->init;
}

/* A node without a step only changes the shape of what it reads, or its value was known when the plan was made. */
static int evaluate(struct held_run *h, const struct node *n, const struct value_copy *other,
		    struct value_copy *out, struct diag *d)
{
	struct arena a = {0}, made = {0};
	const struct tensor **in = arena_new_n(&a, const struct tensor *, n->nin + 1);
	struct tensor **y = arena_new_n(&a, struct tensor *, n->nout + 1);

	for (uint32_t i = 0; i < n->nin; i++)
		in[i] = held_value(h, other, n->in[i]);
	int err = n->nsub || !n->op ? -(int)E_OP_UNSUPPORTED
				    : eval_node(host_backend(), h->g, n, in, y, &made, d);
	for (uint32_t k = 0; k < n->nout && !err; k++)
		err = y[k] ? keep(h, y[k], &out[k]) : 0;
	arena_free(&made);
	arena_free(&a);
	return err;
}

static int repeat(struct held_run *h, const struct node *n, const struct value_copy *other,
		  struct value_copy *out, struct diag *d)
{
	const struct call *call = h->call[n->id];
	struct repetition r;
	int err = 0;

	repeat_begin(&r, h->rt, call);
	for (uint32_t i = 0; i < call->step->nin && !err; i++) {
		uint32_t id = n->in[i];
		const struct tensor *t =
			call->in[i] && id != NO_VALUE ? held_value(h, other, id) : NULL;
		if (t && t != h->g->value[id]->init && !repeat_input(&r, i, t))
			err = -(int)E_MEMORY;
	}
	r.afterwards = true;
	err = err ? err : repeat_run(&r, d);
	for (uint32_t k = 0; k < n->nout && !err; k++)
		err = r.out[k] && n->out[k] != NO_VALUE
			      ? value_fetch(h->rt, call, r.out[k], true, &out[k], d)
			      : 0;
	repeat_end(&r);
	return err;
}

int held_compute(struct held_run *h, const struct node *n, const struct value_copy *other,
		 struct value_copy *out, struct diag *d)
{
	memset(out, 0, n->nout * sizeof(*out));
	int err = h->call[n->id] ? repeat(h, n, other, out, d) : evaluate(h, n, other, out, d);
	for (uint32_t k = 0; k < n->nout && err; k++)
		value_free(&out[k]);
	return err;
}
