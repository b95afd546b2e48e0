/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/prepared.h"

struct prepared {
	struct arena arena; /* holds this struct, and what reshape allocates */
	struct step step;   /* as reshape has left it */
	struct vinfo *info; /* of the inputs, captures included, then of the outputs */
	bool shared;	    /* whether the operands can be compared with those of other plans */
	uint32_t users;	    /* steps that use it */
	struct prepared *next;
};

/* The descriptions of all operands of the site's node, in the arena. An operand that is left out has no type. */
static struct vinfo *operands(const struct site *site, struct arena *a)
{
	const struct node *n = site->node;
	uint32_t nin = n->nin + n->ncap;
	struct vinfo *info = arena_new_n(a, struct vinfo, nin + n->nout + 1);

	for (uint32_t i = 0; i < nin; i++)
		if (n->in[i] != NO_VALUE)
			info[i] = site->info[n->in[i]];
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] != NO_VALUE)
			info[nin + i] = site->info[n->out[i]];
	return info;
}

/*
 * A value that is known for one plan only lives as long as that plan, and reshape may have kept its address. Initializers
 * live as long as the session.
 */
static bool can_be_shared(const struct site *site)
{
	const struct node *n = site->node;

	for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
		if (n->in[i] == NO_VALUE)
			continue;
		const struct vinfo *v = &site->info[n->in[i]];
		if (v->ints || (v->known && v->known != site->graph->value[n->in[i]]->init))
			return false;
	}
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] != NO_VALUE &&
		    (site->info[n->out[i]].known || site->info[n->out[i]].ints))
			return false;
	return !n->nsub;
}

static bool alike(const struct site *site, const struct prepared *p)
{
	const struct node *n = site->node;
	uint32_t nin = n->nin + n->ncap;

	for (uint32_t i = 0; i < nin + n->nout; i++) {
		uint32_t v = i < nin ? n->in[i] : n->out[i - nin];
		if (v == NO_VALUE)
			continue;
		const struct vinfo *now = &site->info[v], *then = &p->info[i];
		/* the layout of an output is set after reshape */
		if (!type_equal(now->type, then->type) || !shape_equal(&now->shape, &then->shape) ||
		    now->known != then->known || (i < nin && now->layout != then->layout))
			return false;
	}
	return true;
}

static struct prepared *find(const struct instance *x, const struct site *site, const struct step *step)
{
	struct prepared *p = can_be_shared(site) ? x->prepared[site->node->id] : NULL;

	while (p && !(p->shared && p->step.kernel == step->kernel && alike(site, p)))
		p = p->next;
	return p;
}

static int prepare_anew(struct instance *x, struct site *site, const struct step *step,
			struct prepared **out, struct diag *d)
{
	struct arena a = {0};
	struct prepared *p = arena_new(&a, struct prepared);
	struct arena *of_plan = site->plan_arena;

	p->arena = a;
	p->step = *step;
	p->shared = can_be_shared(site);
	p->info = operands(site, &p->arena);
	site->plan_arena = &p->arena;
	int err = step->kernel->reshape ? step->kernel->reshape(site, &p->step, d) : 0;
	site->plan_arena = of_plan;
	if (err) {
		a = p->arena;
		arena_free(&a);
		return err;
	}
	p->next = x->prepared[site->node->id];
	x->prepared[site->node->id] = p;
	*out = p;
	return 0;
}

int prepare_step(struct instance *x, struct site *site, struct step *step, struct prepared **out,
		 struct diag *d)
{
	struct prepared *p = find(x, site, step);
	int err = p ? 0 : prepare_anew(x, site, step, &p, d);

	if (err)
		return err;
	p->users++;
	*step = p->step;
	*out = p;
	return 0;
}

bool prepared_is_shared(const struct prepared *p)
{
	return p->shared;
}

void prepared_share(struct prepared *p)
{
	p->users++;
}

void prepared_release(struct instance *x, struct prepared *p)
{
	if (!p || --p->users)
		return;
	struct prepared **at = &x->prepared[p->step.node->id];
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->step.kernel->drop)
		p->step.kernel->drop(&p->step);
	struct arena a = p->arena;
	arena_free(&a);
}
