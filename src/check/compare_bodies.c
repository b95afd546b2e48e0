/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a node with bodies (If, Loop, Scan) differs, both sides run once more, one after the other, and the values that
 * their bodies make are compared in the order of the run. Up to the first difference all inputs are equal, so the node
 * that makes the first different value is the one to blame.
 */
#include "base/hash.h"
#include "check/compare_bodies.h"

#include <inttypes.h>
#include <string.h>

/* limit for kept values of the reference; values made after that are not compared */
enum { MAX_KEPT_BYTES = 256 << 20 };

struct body_run {
	struct observer observer;
	struct check_context *c;
	const struct runtime *rt;
	const struct graph *g;
	struct arena arena;
	struct map count; /* maps a value's name to how often this side has made the value so far */
	struct map of;	  /* key of next_key: index in value[] */
	struct value_copy *value;
	uint32_t n, cap;
	size_t bytes;
	/* set while the second side runs: compare its values with the values kept of the first side */
	bool comparing;
	double limit;
	struct body_difference *found;
};

static void ignore_begin(struct observer *o, const struct step *s, const struct call *call)
{
	(void)o, (void)s, (void)call;
}

/* Returns the graph that has the node, which is g or one of the bodies below g, or NULL. */
static const struct graph *find_graph(const struct graph *g, const struct node *n)
{
	const struct graph *found = n->id < g->nnodes && g->node[n->id] == n ? g : NULL;

	for (uint32_t i = 0; i < g->nnodes && !found; i++)
		for (uint32_t k = 0; k < g->node[i]->nsub && !found; k++)
			found = find_graph(g->node[i]->sub[k], n);
	return found;
}

/*
 * Returns a key "NAME#TIME". A value of a body is made once in each execution of the body, and TIME counts the
 * executions of this side.
 */
static const char *next_key(struct body_run *x, const char *name, uint32_t *time)
{
	const char *own = arena_str(&x->arena, name);
	int64_t k = map_get(&x->count, own, strlen(own));

	*time = k < 0 ? 1 : (uint32_t)k + 1;
	map_set(&x->count, own, strlen(own), *time);
	return arena_printf(&x->arena, "%s#%" PRIu32, name, *time);
}

static void keep_reference(struct body_run *x, const char *key, struct value_copy *v)
{
	if (x->n == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 64;
		x->value = arena_grow(&x->arena, x->value, x->n, x->cap, sizeof(*x->value));
	}
	x->bytes += v->t.bytes;
	map_set(&x->of, key, strlen(key), x->n);
	x->value[x->n++] = *v;
}

static void compare_value(struct body_run *x, const struct step *s, const char *key, uint32_t time,
			  const struct tensor *got)
{
	int64_t k = map_get(&x->of, key, strlen(key));

	if (k < 0)
		return;
	struct distance d = distance_of(got, &x->value[k].t);
	if (!distance_over(&d, tensor_dtype(got), x->limit))
		return;
	*x->found = (struct body_difference){.node = arena_str(&x->c->d->arena, s->from->name),
					     .op = arena_str(&x->c->d->arena, s->from->op),
					     .time = time,
					     .distance = d};
}

static void compare_or_keep(struct observer *o, const struct step *s, const struct call *call)
{
	struct body_run *x = (struct body_run *)o;

	if (step_moves(x->rt, s) || step_of(x->g, s) || x->found->node)
		return;
	const struct graph *g = find_graph(x->g, s->node);
	for (uint32_t i = 0; g && i < s->nout && !x->found->node; i++) {
		uint32_t id = s->node->out[i], time;
		struct value_copy v;
		if (!call->out[i] || id == NO_VALUE || !*g->value[id]->name ||
		    call->out[i]->type.kind != V_TENSOR || tensor_dtype(call->out[i]) == DT_STRING)
			continue;
		const char *key = next_key(x, g->value[id]->name, &time);
		if ((!x->comparing && x->bytes > MAX_KEPT_BYTES) ||
		    value_fetch(x->rt, call, call->out[i], !x->comparing, &v, NULL))
			continue;
		if (!x->comparing) {
			keep_reference(x, key, &v);
			continue;
		}
		compare_value(x, s, key, time, &v.t);
		value_free(&v);
	}
}

static int run_side(struct body_run *x, const char *path, const struct run_config *config,
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

bool compare_bodies(struct check_context *c, const struct pair *p, const struct tensor *const *in,
		    double limit, struct body_difference *found)
{
	struct body_run x = {.observer = {.begin = ignore_begin, .end = compare_or_keep},
			     .c = c,
			     .limit = limit,
			     .found = found};

	*found = (struct body_difference){0};
	x.count.arena = x.of.arena = &x.arena;
	int err = run_side(&x, p->path, &p->ref.config, in);
	x.count = (struct map){.arena = &x.arena};
	x.comparing = true;
	if (!err)
		(void)run_side(&x, p->path, &p->got.config, in);
	for (uint32_t i = 0; i < x.n; i++)
		value_free(&x.value[i]);
	arena_free(&x.arena);
	return found->node != NULL;
}
