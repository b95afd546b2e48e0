/* SPDX-License-Identifier: Apache-2.0 */
/* Judges Casts that follow each other by what the first one changes in a run of the file's nodes one by one. */
#include "check/casts.h"

#include "base/hash.h"
#include "base/str.h"
#include "check/step_value.h"

#include <math.h>
#include <string.h>

void suspect_cast(struct check_context *c, const struct node *n, const struct node *p,
		  enum dtype from, enum dtype mid, const char *said)
{
	struct cast_pair *x = arena_new(&c->arena, struct cast_pair);

	*x = (struct cast_pair){
		.first = p->origin, .last = n->origin, .from = from, .mid = mid, .said = said};
	*(c->last_cast ? &c->last_cast->next : &c->casts) = x;
	c->last_cast = x;
}

/* Whether the first Cast takes away what is behind the point, or makes truth values: nobody writes that by accident. */
static bool truncates(const struct cast_pair *x)
{
	return x->mid == DT_BOOL ||
	       (dtype_class(x->from) == DT_FLOAT && dtype_class(x->mid) != DT_FLOAT);
}

/* Counts the elements that the Cast has changed or, if it truncates, that do not fit its type. */
static void count_changes(struct cast_pair *x, const struct tensor *a, const struct tensor *b)
{
	enum dtype from = tensor_dtype(a), to = tensor_dtype(b);
	int64_t n = tensor_count(a);

	if (x->mid == DT_BOOL)
		return;
	for (int64_t i = 0; i < n; i++) {
		double u = elem_f64(from, a->data, i), v = elem_f64(to, b->data, i);
		double change = isnan(u) && isnan(v) ? 0 : u == v ? 0 : fabs(u - v);
		bool same = change == 0;
		/* beyond 2^53 a double tells no difference */
		if (dtype_class(from) != DT_FLOAT && dtype_class(to) != DT_FLOAT)
			same = elem_i64(from, a->data, i) == elem_i64(to, b->data, i);
		x->lost += truncates(x) ? !(change < 1) : !same;
		if (change > x->most)
			x->most = change;
	}
	x->count += n;
}

struct cast_run {
	struct observer observer;
	struct check_context *c;
	const struct runtime *rt;
	struct cast_pair **pair;
	struct map pair_of;	  /* the first Cast's number in the file, to its index in `pair` */
	struct value_copy before; /* what the current step reads, which it may overwrite */
};

static bool is_numbers(const struct tensor *t)
{
	return t->type.kind == V_TENSOR && (T_BIT(tensor_dtype(t)) & (T_NUMERIC_BF | T_BIT(DT_BOOL)));
}

static void index_pairs(struct cast_run *r)
{
	uint32_t n = 0;

	for (struct cast_pair *x = r->c->casts; x; x = x->next)
		n++;
	r->pair = arena_new_n(&r->c->arena, struct cast_pair *, n + 1);
	r->pair_of.arena = &r->c->arena;
	n = 0;
	for (struct cast_pair *x = r->c->casts; x; x = x->next) {
		r->pair[n] = x;
		map_set(&r->pair_of, (const char *)&x->first->number, sizeof(x->first->number), n++);
	}
}

/* Returns the pair whose first Cast is this node of the file or of the session, or NULL. */
static struct cast_pair *pair_of(const struct cast_run *r, const struct node *n)
{
	if (!n->origin || !check_is(n, "Cast"))
		return NULL;
	const uint32_t *number = &n->origin->number;
	int64_t at = map_get(&r->pair_of, (const char *)number, sizeof(*number));

	return at < 0 ? NULL : r->pair[at];
}

static struct cast_pair *pair_of_step(const struct cast_run *r, const struct step *s)
{
	return step_moves(r->rt, s) || !s->node ? NULL : pair_of(r, s->node);
}

static void keep_input(struct observer *o, const struct step *s, const struct call *call)
{
	struct cast_run *r = (struct cast_run *)o;

	if (pair_of_step(r, s) && call->in[0])
		(void)value_fetch(r->rt, call, call->in[0], true, &r->before, NULL);
}

static void look_at_output(struct observer *o, const struct step *s, const struct call *call)
{
	struct cast_run *r = (struct cast_run *)o;
	struct cast_pair *x = pair_of_step(r, s);
	struct value_copy after;

	if (x && is_numbers(&r->before.t) && call->out[0] &&
	    !value_fetch(r->rt, call, call->out[0], false, &after, NULL)) {
		x->from = tensor_dtype(&r->before.t);
		if (is_numbers(&after.t) && tensor_count(&after.t) == tensor_count(&r->before.t))
			count_changes(x, &r->before.t, &after.t);
		value_free(&after);
	}
	value_free(&r->before);
}

/* Marks the Casts of the file's graph g itself, not of bodies, that had no step in a run that succeeded. */
static void find_sizes(const struct cast_run *r, const struct graph *g)
{
	for (uint32_t p = 0; p < g->nnodes; p++) {
		struct cast_pair *x = pair_of(r, g->node[p]);
		if (x)
			x->of_sizes = !x->count;
	}
}

static void run_nodes(struct check_context *c)
{
	struct session *s = check_open_plain(c);

	if (!s)
		return;
	struct cast_run r = {.observer = {.begin = keep_input, .end = look_at_output},
			     .c = c,
			     .rt = session_runtime(s)};
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, session_model(s)->graph->nout + 1);
	index_pairs(&r);
	if (check_try_run(c, s, c->in, out, &r.observer))
		find_sizes(&r, c->file->graph);
	value_free(&r.before);
	session_close(s);
}

static void judge(struct check_context *c, const struct cast_pair *x)
{
	struct diag *d = c->d;
	bool seen = x->count || x->of_sizes;
	const char *elements = str_many(&d->arena, (uint64_t)x->count, "element");
	struct finding f = {.code = E_MODEL_CAST,
			    .severity = x->lost || (!seen && !truncates(x)) ? SEV_WARNING : SEV_NOTE,
			    .node = x->last->name,
			    .op = "Cast",
			    .file = __FILE__,
			    .line = __LINE__};

	if (truncates(x)) {
		f.hint = x->lost ? "clip the values first, or cast to a longer type"
				 : "nothing to do if it is there to truncate; otherwise cast once";
		f.message = x->lost ? fmt(d, "%s, into which %s of %s did not fit", x->said,
					  str_count(&d->arena, x->lost), elements)
				    : fmt(d, "%s, which truncates", x->said);
	} else if (!seen) {
		f.message = fmt(d, "%s, which loses precision", x->said);
	} else if (!x->count) {
		f.message = fmt(d, "%s; the values follow from sizes", x->said);
	} else {
		f.message = x->lost ? fmt(d,
					  "%s, which loses precision: %s of %s changed in the run, "
					  "by up to %.3g",
					  x->said, str_count(&d->arena, x->lost), elements, x->most)
				    : fmt(d, "%s; none of %s changed in the run", x->said, elements);
	}
	diag_add(d, &f);
}

static int run_casts(struct check_context *c)
{
	if (c->out)
		run_nodes(c);
	for (const struct cast_pair *x = c->casts; x; x = x->next)
		judge(c, x);
	return 0;
}

static bool is_anything_cast(const struct check_context *c, const char **why)
{
	(void)why;
	return c->casts != NULL;
}

const struct check check_casts = {
	.name = "casts",
	.what = "what Casts that follow each other lose",
	.need = NEED_FILE,
	.cost = COST_RUN,
	.applies = is_anything_cast,
	.run = run_casts,
};
