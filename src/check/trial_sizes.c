/* SPDX-License-Identifier: Apache-2.0 */
#include "check/trial_sizes.h"

#include <inttypes.h>
#include <string.h>

struct free_dim {
	const char *name; /* name as the option --dim takes it, such as "batch" or "x.2" */
	int64_t now;	  /* the dimension's size in the first run; 0 if not known */
};

/*
 * Whether the sweep names the dimension by its name or as INPUT.AXIS; a sweep without dimensions names all. Marks in known[] the
 * dimension of the sweep.
 */
static bool sweep_names(const struct sweep *w, const char *name, const char *placed, bool *known)
{
	bool any = !w->ndims;

	for (size_t i = 0; i < w->ndims; i++) {
		bool same = !strcmp(w->dim[i].name, name) || !strcmp(w->dim[i].name, placed);
		known[i] |= same;
		any |= same;
	}
	return any;
}

/* Whether a text of --dim is about the dimension. */
static bool binds(const struct text *t, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(t->s, name, n) && t->s[n] == '=';
}

/* Removes the texts about a dimension that the sweep names in another way, as x.1 for n: the size of the sweep is the one to try. */
static void drop_texts(struct check_context *c, struct texts *dims, const char *name,
		       const char *placed)
{
	struct text *v = arena_new_n(&c->arena, struct text, (size_t)dims->n + 1);
	int64_t used = 0;

	for (int64_t i = 0; i < dims->n; i++)
		if (!binds(&dims->v[i], name) && !binds(&dims->v[i], placed))
			v[used++] = dims->v[i];
	*dims = (struct texts){v, used};
}

/*
 * Returns the names of all free dimensions, each once. *first becomes the first free dimension that the sweep names, known[i] tells
 * whether there is dimension i of the sweep, and texts about swept dimensions leave *dims.
 */
static const char *list_free_dims(struct check_context *c, const struct sweep *w,
				  struct free_dim *first, bool *known, struct texts *dims)
{
	const struct model *m = session_model(c->session);
	struct check_names list = {&c->arena, "", 0};
	const struct graph *g = m->graph;

	for (uint32_t i = 0; i < g->nin && i < input_count(c->inputs); i++) {
		const struct value *v = g->value[g->in[i]];
		const struct shape *now = &input_info(c->inputs, i)->shape;
		for (int k = 0; v->info.type.kind == V_TENSOR && k < v->info.shape.rank; k++) {
			int64_t dim = v->info.shape.dim[k];
			const char *placed = arena_printf(&c->arena, "%s.%d", v->name, k);
			if (dim >= 0)
				continue;
			const char *name = input_dim_name(m, v, k, &c->arena);
			if (!strstr(list.text, arena_printf(&c->arena, "'%s'", name)))
				check_name_add(&list, name);
			if (!sweep_names(w, name, placed, known))
				continue;
			if (w->ndims && dims->n > 0)
				drop_texts(c, dims, name, placed);
			if (!first->name)
				*first = (struct free_dim){name, k < now->rank ? now->dim[k] : 0};
		}
	}
	return check_name_list(&list);
}

static int fail_unknown_dim(struct check_context *c, const struct trial_sizes *s, const char *name)
{
	struct diag *d = c->d;

	return FAIL(d, E_DIM, .slot = "--shapes-sweep",
		    .message = fmt(d, "the model's inputs have no free dimension '%s'", name),
		    .hint = *s->free ? fmt(d, "free dimensions are %s", s->free)
				     : "all dimensions are fixed");
}

/*
 * Adds the sizes to try for one dimension: twice the current size, the size plus 1, half the size, and, for models
 * whose strides or patches must divide the size, the current size plus 32, 64 (a multiple of usual strides up to 64), and 224
 * (ImageNet's size, which patches of 14, 16, 28 and 32 divide).
 */
static void add_common_sizes(struct check_context *c, struct trial_sizes *s, const struct free_dim *f)
{
	const int64_t tries[] = {f->now * 2, f->now + 1, f->now + 32, f->now / 2, 2, 64, 224, 1};
	const int64_t n = c->request->dim.n;

	s->dims = arena_new_n(&c->arena, struct texts, sizeof(tries) / sizeof(*tries));
	s->label = arena_new_n(&c->arena, const char *, sizeof(tries) / sizeof(*tries));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		if (tries[i] < 1 || tries[i] == f->now)
			continue;
		struct text *v = arena_new_n(&c->arena, struct text, (size_t)n + 1);
		struct text last = {.s = arena_printf(&c->arena, "%s=%" PRId64, f->name, tries[i])};
		last.n = strlen(last.s);
		size_t used = 0;
		/* this text replaces the request's texts about the same dimension */
		for (int64_t k = 0; k < n; k++)
			if (!binds(&c->request->dim.v[k], f->name))
				v[used++] = c->request->dim.v[k];
		v[used++] = last;
		s->dims[s->n] = (struct texts){v, (int64_t)used};
		s->label[s->n++] = last.s;
	}
}

int trial_sizes_list(struct check_context *c, struct trial_sizes *s)
{
	struct free_dim first = {NULL, 0};
	struct sweep w;
	int rc = sweep_parse(&c->options->sweep, &w, &c->arena, c->d);

	if (rc)
		return rc;
	bool *known = arena_new_n(&c->arena, bool, w.ndims + 1);
	struct texts dims = c->request->dim;
	s->free = list_free_dims(c, &w, &first, known, &dims);
	for (size_t i = 0; i < w.ndims; i++)
		if (!known[i])
			return fail_unknown_dim(c, s, w.dim[i].name);
	if (!first.name)
		return 0;
	if (!w.ndims) {
		add_common_sizes(c, s, &first);
		return 0;
	}
	s->n = w.points;
	s->dims = arena_new_n(&c->arena, struct texts, s->n);
	s->label = arena_new_n(&c->arena, const char *, s->n);
	for (size_t k = 0; k < s->n; k++) {
		s->dims[k] = sweep_point(&w, k, &dims, &c->arena);
		s->label[k] = sweep_label(&w, k, &c->arena);
	}
	return 0;
}
