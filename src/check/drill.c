/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into the bodies of control flow: where a node with bodies differs, both sides run once more, one after
 * the other, and what their bodies made is compared in order. Until the first difference all that goes in
 * is the same, so the node that makes it is the one.
 */
#include "base/hash.h"
#include "check/pair.h"

#include <inttypes.h>
#include <string.h>

enum { KEPT = 256 << 20 }; /* bytes of the reference's values that are kept */

struct drill {
	struct observer observer;
	struct check_context *c;
	const struct runtime *rt;
	const struct graph *g;
	struct arena arena;
	struct map count, of; /* name: how often so far; name and time: number of the value */
	struct value_copy *value;
	uint32_t n, cap;
	size_t bytes;
	bool looking; /* the second side: compare */
	double limit;
	struct drilled *found;
};

static void begin(struct observer *o, const struct step *s, const struct call *call)
{
	(void)o, (void)s, (void)call;
}

/* The body that has the node. */
static const struct graph *graph_of(const struct graph *g, const struct node *n)
{
	const struct graph *found = n->id < g->nnodes && g->node[n->id] == n ? g : NULL;

	for (uint32_t i = 0; i < g->nnodes && !found; i++)
		for (uint32_t k = 0; k < g->node[i]->nsub && !found; k++)
			found = graph_of(g->node[i]->sub[k], n);
	return found;
}

/* "NAME#TIME", TIME counted by side. */
static const char *key_of(struct drill *x, const char *name, uint32_t *time)
{
	const char *own = arena_str(&x->arena, name);
	int64_t k = map_get(&x->count, own, strlen(own));

	*time = k < 0 ? 1 : (uint32_t)k + 1;
	map_set(&x->count, own, strlen(own), *time);
	return arena_printf(&x->arena, "%s#%" PRIu32, name, *time);
}

static void keep(struct drill *x, const char *key, struct value_copy *v)
{
	if (x->n == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 64;
		x->value = arena_grow(&x->arena, x->value, x->n, x->cap, sizeof(*x->value));
	}
	x->bytes += v->t.bytes;
	map_set(&x->of, key, strlen(key), x->n);
	x->value[x->n++] = *v;
}

static void compare(struct drill *x, const struct step *s, const char *key, uint32_t time,
		    const struct tensor *got)
{
	int64_t k = map_get(&x->of, key, strlen(key));

	if (k < 0)
		return;
	struct distance d = distance_of(got, &x->value[k].t);
	if (!distance_over(&d, tensor_dtype(got), x->limit))
		return;
	*x->found = (struct drilled){.node = arena_str(&x->c->d->arena, s->from->name),
				     .op = arena_str(&x->c->d->arena, s->from->op),
				     .time = time,
				     .distance = d};
}

static void look(struct observer *o, const struct step *s, const struct call *call)
{
	struct drill *x = (struct drill *)o;

	if (step_moves(x->rt, s) || step_of(x->g, s) || x->found->node)
		return;
	const struct graph *g = graph_of(x->g, s->node);
	for (uint32_t i = 0; g && i < s->nout && !x->found->node; i++) {
		uint32_t id = s->node->out[i], time;
		struct value_copy v;
		if (!call->out[i] || id == NO_VALUE || !*g->value[id]->name ||
		    call->out[i]->type.kind != V_TENSOR || tensor_dtype(call->out[i]) == DT_STRING)
			continue;
		const char *key = key_of(x, g->value[id]->name, &time);
		if ((!x->looking && x->bytes > KEPT) ||
		    value_fetch(x->rt, call, call->out[i], !x->looking, &v, NULL))
			continue;
		if (!x->looking) {
			keep(x, key, &v);
			continue;
		}
		compare(x, s, key, time, &v.t);
		value_free(&v);
	}
}

static int run_side(struct drill *x, const char *path, const struct run_config *config,
		    const struct tensor *const *in)
{
	struct diag quiet = {0};
	struct session *s = session_open(path, config, &quiet);
	int err = s ? 0 : -E_INTERNAL;

	if (s) {
		const struct graph *g = session_model(s)->graph;
		const struct tensor **out =
			arena_new_n(&x->arena, const struct tensor *, g->nout + 1);
		x->g = g;
		err = session_prepare(s, in, NULL, &quiet);
		x->rt = session_runtime(s);
		session_observe(s, &x->observer);
		err = err ? err : session_run(s, in, out, &quiet);
		session_observe(s, NULL);
	}
	session_close(s);
	diag_free(&quiet);
	return err;
}

bool pair_drill(struct check_context *c, const struct pair *p, const struct tensor *const *in,
		double limit, struct drilled *found)
{
	struct drill x = {
		.observer = {.begin = begin, .end = look}, .c = c, .limit = limit, .found = found};

	*found = (struct drilled){0};
	x.count.arena = x.of.arena = &x.arena;
	int err = run_side(&x, p->path, &p->ref.config, in);
	x.count = (struct map){.arena = &x.arena};
	x.looking = true;
	if (!err)
		(void)run_side(&x, p->path, &p->got.config, in);
	for (uint32_t i = 0; i < x.n; i++)
		value_free(&x.value[i]);
	arena_free(&x.arena);
	return found->node != NULL;
}
