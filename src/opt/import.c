/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/supported.h"
#include "opt/optimizer.h"
#include "opt/params.h"

#include <string.h>

enum { MAX_UPGRADES = 16 };

/* ---- what is known of a graph's values ------------------------------------------------------- */

static struct graph_info *add_graph(struct optimizer *o, const struct graph *g)
{
	struct graph_info *x = arena_new(&o->scratch, struct graph_info);

	if (o->ngraphs == o->cap_graphs) {
		o->cap_graphs = o->cap_graphs ? 2 * o->cap_graphs : 8;
		o->graphs = arena_grow(&o->scratch, o->graphs, o->ngraphs, o->cap_graphs,
				       sizeof(struct graph_info *));
	}
	x->graph = g;
	infer_begin(&x->c, g, NULL, g->arena, false, o->model, o->cpu, o->diag);
	o->graph_number.arena = &o->scratch;
	map_set(&o->graph_number, (const char *)&x->graph, sizeof(x->graph), o->ngraphs);
	return o->graphs[o->ngraphs++] = x;
}

static struct graph_info *find_graph(struct optimizer *o, const struct graph *g)
{
	int64_t at = -1;

	if (o->recent && o->recent->graph == g)
		return o->recent;
	if (o->ngraphs)
		at = map_get(&o->graph_number, (const char *)&g, sizeof(g));
	return o->recent = at < 0 ? add_graph(o, g) : o->graphs[at];
}

struct graph_info *opt_info(struct optimizer *o, const struct graph *g)
{
	struct graph_info *x = find_graph(o, g);

	if (g->nvalues > x->cap) {
		x->cap = 2 * g->nvalues;
		x->info = arena_grow(&o->scratch, x->info, x->n, x->cap, sizeof(*x->info));
	}
	for (; x->n < g->nvalues; x->n++) {
		const struct value *v = g->value[x->n];
		x->info[x->n] = v->info;
		if (v->init)
			x->info[x->n] = (struct vinfo){
				.type = v->init->type, .shape = v->init->shape, .known = v->init};
		g->value[x->n]->info = x->info[x->n];
	}
	x->c.info = x->info;
	return x;
}

void opt_set_const(struct optimizer *o, struct graph *g, struct value *v, const struct tensor *t)
{
	struct graph_info *x = opt_info(o, g);

	v->init = t;
	v->info = (struct vinfo){.type = t->type, .shape = t->shape, .known = t};
	x->info[v->id] = v->info;
}

/* Fills what inference left unknown in v from the type and shape that the file declares. */
static void take_declared(struct vinfo *v, const struct vinfo *declared)
{
	if (v->type.kind == V_NONE)
		v->type = declared->type;
	if (v->shape.rank < 0)
		v->shape = declared->shape;
	if (v->shape.rank != declared->shape.rank)
		return;
	for (int i = 0; i < v->shape.rank; i++)
		if (v->shape.dim[i] == DIM_UNKNOWN)
			v->shape.dim[i] = declared->shape.dim[i];
}

/*
 * Gives each unknown dimension a new symbol, so that dims derived from the same one are known to be equal. Dimensions
 * in bodies get none, because a value may have another size in each iteration.
 */
static void name_unknown(struct optimizer *o, const struct graph *g, struct vinfo *v)
{
	if (g != o->model->graph)
		return;
	for (int i = 0; i < v->shape.rank; i++)
		if (v->shape.dim[i] == DIM_UNKNOWN)
			v->shape.dim[i] = model_new_dim(o->model);
}

static int prepare_body(struct infer *c, uint32_t k, const struct vinfo *in, void *arg);

int opt_infer_node(struct optimizer *o, struct graph *g, struct node *n)
{
	struct graph_info *x = opt_info(o, g);
	struct infer_env *env = x->c.body_ctx;
	int r;

	if (n->nsub)
		opt_sync_captures(o, g, n);
	env->prepare = prepare_body;
	env->arg = o;
	x->c.node = n;
	struct diag quiet = {0};
	x->c.diag = x->tolerant ? &quiet : o->diag;
	r = infer_node(&x->c);
	diag_free(&quiet);
	if (r && !x->tolerant)
		return r;
	for (uint32_t i = 0; i < n->nout; i++) {
		struct value *v = node_out(g, n, i);
		if (!v)
			continue;
		take_declared(&x->info[v->id], &v->info);
		name_unknown(o, g, &x->info[v->id]);
		v->info = x->info[v->id];
	}
	return 0;
}

static int made_node(void *arg, struct node *n)
{
	struct made *m = arg;
	return opt_infer_node(m->o, m->g, n);
}

static void told(void *arg, const struct rule *r, const struct node *n, const char *why)
{
	struct optimizer *o = ((struct made *)arg)->o;
	struct opt_note *note;

	if (!o->report || !o->report->explain)
		return;
	note = arena_new(&o->model->arena, struct opt_note);
	*note = (struct opt_note){r->name, n->origin ? n->origin->name : "", why, NULL};
	if (o->report->last)
		o->report->last->next = note;
	else
		o->report->first = note;
	o->report->last = note;
}

struct rewriter opt_rewriter(struct made *m)
{
	return (struct rewriter){.graph = m->g,
				 .arena = m->g->arena,
				 .diag = m->o->diag,
				 .made = made_node,
				 .told = told,
				 .arg = m,
				 .gpu = m->o->config->gpu,
				 .f16 = m->o->config->precision == PRECISION_FP16 ||
					m->o->config->precision == PRECISION_FP8};
}

/* ---- captures -------------------------------------------------------------------------------- */

bool *opt_captured(struct optimizer *o, const struct graph *g)
{
	bool *captured = arena_new_n(&o->scratch, bool, (size_t)g->nvalues + 1);

	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		for (uint32_t k = n->nin; k < n->nin + n->ncap; k++)
			if (n->in[k] != NO_VALUE)
				captured[n->in[k]] = true;
	}
	return captured;
}

void opt_sync_captures(struct optimizer *o, struct graph *g, struct node *n)
{
	opt_info(o, g);
	for (uint32_t k = 0; k < n->nsub; k++) {
		struct graph *s = n->sub[k];
		struct graph_info *x = opt_info(o, s);
		for (uint32_t j = 0; j < s->ncap; j++) {
			struct value *inner = s->value[s->in[s->nin + j]];
			const struct value *outer = g->value[n->in[n->nin + s->capture[j]]];
			if (outer->init) {
				opt_set_const(o, s, inner, outer->init);
				continue;
			}
			inner->info = outer->info;
			x->info[inner->id] = outer->info;
		}
	}
}

/* Whether body s still uses its captured value v. A captured value that became a constant is not needed. */
static bool capture_needed(const struct graph *s, const struct value *v)
{
	if (v->init)
		return false;
	for (uint32_t i = 0; i < s->nout; i++)
		if (s->out[i] == v->id)
			return true;
	return v->nusers > 0;
}

int opt_trim_captures(struct optimizer *o, struct graph *g, struct node *n)
{
	uint32_t *now = arena_new_n(&o->scratch, uint32_t, n->ncap + 1);
	uint32_t kept = 0, dropped;

	for (uint32_t k = 0; k < n->nsub; k++) {
		struct graph *s = n->sub[k];
		uint32_t left = 0;
		for (uint32_t j = 0; j < s->ncap; j++) {
			if (!capture_needed(s, s->value[s->in[s->nin + j]]))
				continue;
			s->in[s->nin + left] = s->in[s->nin + j];
			s->capture[left++] = s->capture[j];
			now[s->capture[left - 1]] = 1;
		}
		s->ncap = left;
	}
	for (uint32_t c = 0; c < n->ncap; c++) {
		uint32_t id = n->in[n->nin + c];
		bool keep = now[c];
		now[c] = kept;
		if (keep)
			n->in[n->nin + kept++] = id;
		else
			graph_drop_use(g, id, n->id);
	}
	dropped = n->ncap - kept;
	n->ncap = kept;
	for (uint32_t k = 0; k < n->nsub; k++)
		for (uint32_t j = 0; j < n->sub[k]->ncap; j++)
			n->sub[k]->capture[j] = now[n->sub[k]->capture[j]];
	return (int)dropped;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* Sets type and rank of a formal input of a body; its dims and elements may change from one iteration to the next. */
static void set_formal(struct value *v, const struct vinfo *in)
{
	struct vinfo f = *in;

	f.known = NULL;
	f.ints = NULL;
	for (int i = 0; i < f.shape.rank; i++)
		f.shape.dim[i] = DIM_UNKNOWN;
	take_declared(&v->info, &f);
}

/* Whether some bodies of the node may never run. Shapes that do not fit in such a branch are no error until it runs. */
static bool may_skip_bodies(const struct node *n)
{
	return op_flags(n->op) & OP_BRANCHES;
}

/* Called before body k is inferred: imports the body, since its formal inputs are known by now. */
static int prepare_body(struct infer *c, uint32_t k, const struct vinfo *in, void *arg)
{
	struct optimizer *o = arg;
	struct graph *s = c->node->sub[k];

	if (opt_info(o, s)->imported)
		return 0;
	opt_info(o, s)->tolerant = opt_info(o, c->graph)->tolerant || may_skip_bodies(c->node);
	for (uint32_t i = 0; in && i < s->nin; i++) {
		struct value *v = s->value[s->in[i]];
		set_formal(v, &in[i]);
		opt_info(o, s)->info[v->id] = v->info;
	}
	int r = pass_import(o, s);
	return r < 0 ? r : 0;
}

/*
 * Checks the node against the row of its own version: an upgrade counts on the operands that this version has, and may turn
 * the node into others that take more.
 */
static int check_old(struct optimizer *o, struct graph *g, const struct node *n)
{
	struct graph_info *x = opt_info(o, g);
	struct diag quiet = {0};
	int r;

	x->c.node = n;
	x->c.diag = &quiet;
	r = infer_types(&x->c);
	diag_free(&quiet);
	/* shapes that do not fit are no error in a branch that may never run */
	if (!r || o->config->types_only || (x->tolerant && r == -(int)E_SHAPE))
		return 0;
	x->c.diag = o->diag;
	return infer_types(&x->c);
}

static int upgrade(struct optimizer *o, struct graph *g, struct node *n)
{
	struct op old;
	int r, done = 0;

	for (int i = 0; i < MAX_UPGRADES; i++) {
		const struct op *newest = op_named(op_qualified(n->op)), *before = n->op;
		old = op_resolved(n->op);
		if (!old.upgrade) { /* loop: an upgrade may lead to an operator whose row, even the newest, has an upgrade itself */
			r = before != newest && before->in ? check_old(o, g, n) : 0;
			n->op = newest;
			return r ? r : done;
		}
		struct edit e = {.graph = g, .node = n, .old = before, .diag = o->diag};
		r = check_old(o, g, n);
		if (!r)
			r = old.upgrade(&e);
		if (r) {
			diag_where(o->diag, NULL, n->origin->name, n->origin->op);
			return r;
		}
		done++;
		if (n->op == before) {
			n->op = newest;
			return done;
		}
	}
	return done;
}

static bool inputs_done(const struct graph *g, const struct node *n, const bool *done,
			uint32_t first, uint32_t self)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		uint32_t p = v ? v->producer : NO_NODE;
		if (p == NO_NODE)
			continue;
		if ((p >= first && !done[p - first + 1]) || (p == self && !done[0]))
			return false;
	}
	return true;
}

/* Infers the node and the nodes that its upgrade added (ids from `first` on), each after the nodes it reads from. */
static int infer_around(struct optimizer *o, struct graph *g, struct node *n, uint32_t first)
{
	uint32_t count = g->nnodes - first + 1, left = count;
	bool *done = arena_new_n(&o->scratch, bool, count);

	while (left) {
		uint32_t before = left;
		for (uint32_t k = 0; k < count; k++) {
			struct node *x = k ? g->node[first + k - 1] : n;
			if (done[k] || !inputs_done(g, x, done, first, n->id))
				continue;
			int r = x->dead ? 0 : opt_infer_node(o, g, x);
			if (r)
				return r;
			done[k] = true;
			left--;
		}
		if (left == before)
			return FAIL(o->diag, E_INTERNAL, .node = n->origin->name,
				    .op = n->origin->op, .message = "an upgrade that made a cycle");
	}
	return 0;
}

static int import_node(struct optimizer *o, struct graph *g, struct node *n);

/* ---- an If whose condition is known ---------------------------------------------------------- */

/* The branch of an If that will run, and the attribute that holds it; NULL if the condition is not constant. */
static struct graph *taken_branch(const struct optimizer *o, const struct graph *g,
				  const struct node *n, const char **attribute)
{
	const struct value *c = n->op && may_skip_bodies(n) && n->nsub == 2 ? node_in(g, n, 0) : NULL;
	const struct tensor *t = o->config->keep_branches ? NULL : value_constant(c);

	if (!t || t->type.kind != V_TENSOR || t->type.dtype != DT_BOOL || tensor_count(t) != 1)
		return NULL;
	int k = elem_i64(DT_BOOL, t->data, 0) ? 0 : 1;
	*attribute = k ? "else_branch" : "then_branch";
	const struct field *f = params_field(n->op, *attribute);
	double sub;
	if (f && params_number(f, n->params, &sub) && sub >= 0 && sub < n->nsub)
		k = (int)sub;
	return n->sub[k];
}

/*
 * Makes values in g for the values of body s, which is inlined into g. Returns their ids in g, indexed by value id in
 * s.
 */
static uint32_t *map_values(struct graph *g, const struct node *n, const struct graph *s)
{
	uint32_t *id = arena_new_n(g->arena, uint32_t, s->nvalues + 1);

	for (uint32_t i = 0; i < s->nvalues; i++)
		id[i] = NO_VALUE;
	for (uint32_t j = 0; j < s->ncap; j++)
		id[s->in[s->nin + j]] = n->in[n->nin + s->capture[j]];
	for (uint32_t i = 0; i < s->nvalues; i++) {
		const struct value *v = s->value[i];
		if (id[i] != NO_VALUE)
			continue;
		struct value *w = v->init ? graph_add_const(g, v->name, v->init)
					  : graph_add_value(g, v->name);
		if (!v->init)
			w->info = v->info;
		id[i] = w->id;
	}
	/* a branch that was imported as a body may have replaced values already */
	for (uint32_t i = 0; i < s->nbecame; i++) {
		uint32_t now = graph_became(s, i);
		if (now != i && !s->value[i]->is_input && id[now] != id[i])
			graph_replace(g, id[i], id[now]);
	}
	return id;
}

static struct node *copy_node(struct optimizer *o, struct graph *g, const struct node *n,
			      const uint32_t *id)
{
	uint32_t *in = arena_new_n(&o->scratch, uint32_t, n->nin + n->ncap + 1);
	uint32_t *out = arena_new_n(&o->scratch, uint32_t, n->nout + 1);
	struct node *c;

	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		in[i] = n->in[i] == NO_VALUE ? NO_VALUE : id[n->in[i]];
	for (uint32_t i = 0; i < n->nout; i++)
		out[i] = n->out[i] == NO_VALUE ? NO_VALUE : id[n->out[i]];
	c = graph_add_node(g, n->op, n->params, in, n->nin + n->ncap, out, n->nout, n->origin);
	c->nin = n->nin;
	c->ncap = n->ncap;
	c->sub = n->sub;
	c->nsub = n->nsub;
	c->type = n->type;
	c->domain = n->domain;
	c->version = n->version;
	return c;
}

/*
 * Replaces output k of the If by value `with`. A value can be an output of the graph only if a node produces it and
 * if it is not already another output; otherwise an Identity copies `with`.
 */
static void replace_if_output(struct graph *g, const struct node *n, uint32_t k, uint32_t with)
{
	const struct value *old = g->value[n->out[k]];

	if (old->is_output && (g->value[with]->producer == NO_NODE || g->value[with]->is_output)) {
		const struct op *op = op_named("Identity");
		uint32_t out = graph_add_value(g, old->name)->id;
		struct node *id = graph_add_node(g, op, params_new(op, g->arena), &with, 1, &out, 1,
						 n->origin);
		id->type = op->name;
		id->version = op->since;
		with = out;
	}
	graph_replace(g, n->out[k], with);
}

/* Copies all nodes of branch s into g before importing the first, which may be an If that is inlined in turn. */
static int inline_branch(struct optimizer *o, struct graph *g, struct node *n, struct graph *s,
			 const char *attribute)
{
	struct inlined *told = arena_new(g->arena, struct inlined);
	int r = graph_sort(s, o->diag);

	if (r)
		return r;
	uint32_t *id = map_values(g, n, s), first = g->nnodes;
	for (uint32_t i = 0; i < s->norder; i++)
		copy_node(o, g, s->node[s->order[i]], id);
	for (uint32_t k = 0; k < n->nout && k < s->nout; k++)
		if (n->out[k] != NO_VALUE)
			replace_if_output(g, n, k, id[s->out[k]]);
	graph_remove_node(g, n);
	*told = (struct inlined){n, attribute, s, id, g->inlined};
	g->inlined = told;
	uint32_t end = g->nnodes;
	for (uint32_t i = first; r >= 0 && i < end; i++)
		if (!g->node[i]->dead)
			r = import_node(o, g, g->node[i]);
	return r;
}

/* ---- a graph --------------------------------------------------------------------------------- */

/* Stands for an operator that nobody knows, in a model that is written and not run: it is never folded, merged or rewritten. */
static const struct slot any_values[] = {{"values", .optional = true, .variadic = true},
					 {.name = NULL}};
static int infer_nothing(struct infer *c)
{
	(void)c;
	return 0;
}
static const struct op opaque = {.name = "Opaque",
				 .domain = "infer",
				 .in = any_values,
				 .out = any_values,
				 .infer = infer_nothing,
				 .flags = OP_RANDOM | OP_CONTROL | OP_HOST_VALUES | OP_INTERNAL};

static int import_node(struct optimizer *o, struct graph *g, struct node *n)
{
	const char *attribute;
	struct graph *branch = taken_branch(o, g, n, &attribute);
	uint32_t first = g->nnodes;
	int changes, r;

	if (branch)
		return inline_branch(o, g, n, branch, attribute);
	if (!n->op && o->config->types_only)
		return 0;
	if (!n->op && o->config->to_file) {
		n->op = &opaque;
		return opt_infer_node(o, g, n);
	}
	if (!n->op)
		return FAIL(o->diag, E_OP_UNSUPPORTED, .node = n->origin->name, .op = n->type);
	changes = upgrade(o, g, n);
	if (changes < 0)
		return changes;
	r = infer_around(o, g, n, first);
	return r ? r : changes;
}

/*
 * Fails if the model has operators that this build does not know, or, if it is written and not run, notes that their nodes stay
 * as they are. *left says so.
 */
static int check_supported(struct optimizer *o, bool *left)
{
	struct diag quiet = {0};
	int r = o->config->types_only ? 0 : ops_supported(o->model, &quiet);

	if (r) {
		struct finding f = *quiet.last;
		*left = o->config->to_file;
		if (*left) {
			f.severity = SEV_NOTE;
			f.message = fmt(o->diag,
					"%s: they are left as they are, and so is what depends on the types and shapes of "
					"their results",
					f.message);
			f.hint = "";
		}
		diag_add(o->diag, &f);
		r = *left ? 0 : r;
	}
	diag_free(&quiet);
	return r;
}

int pass_import(struct optimizer *o, struct graph *g)
{
	struct graph_info *x = opt_info(o, g);
	bool whole = g == o->model->graph;
	int changes = 0, r = whole ? check_supported(o, &x->tolerant) : 0;

	x->imported = true;
	/* if only types are wanted, unknown operators are allowed, and that their outputs have no type is no error of the consumers */
	x->tolerant |= o->config->types_only;
	for (uint32_t i = 0; i < g->nin; i++)
		name_unknown(o, g, &x->info[g->in[i]]);
	if (!r)
		r = graph_sort(g, o->diag);
	const uint32_t *order = g->order;
	uint32_t n = g->norder;
	for (uint32_t i = 0; r >= 0 && i < n; i++) {
		r = import_node(o, g, g->node[order[i]]);
		changes += r > 0 ? r : 0;
	}
	if (r > 0)
		r = 0;
	/* import bodies that no shape function asked for */
	for (uint32_t i = 0; r >= 0 && i < g->nnodes; i++)
		for (uint32_t k = 0; r >= 0 && !g->node[i]->dead && k < g->node[i]->nsub; k++)
			if (!opt_info(o, g->node[i]->sub[k])->imported)
				r = pass_import(o, g->node[i]->sub[k]);
	if (r >= 0)
		r = graph_sort(g, o->diag);
	return r < 0 ? r : changes;
}

static bool has_branches(const struct graph *g)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (!g->node[i]->dead && g->node[i]->nsub == 2)
			return true;
	return false;
}

/* The import takes branches whose conditions inference knows. This is for those that folding or the graph outside of a body makes known. */
int pass_branches(struct optimizer *o, struct graph *g)
{
	int changes = 0, taken = 1, r = 0;

	while (r >= 0 && taken && has_branches(g)) {
		taken = 0;
		r = pass_fold(o, g);
		for (uint32_t i = 0; r >= 0 && i < g->nnodes; i++) {
			struct node *n = g->node[i];
			const char *attribute;
			struct graph *branch = n->dead ? NULL : taken_branch(o, g, n, &attribute);
			if (!branch)
				continue;
			r = inline_branch(o, g, n, branch, attribute);
			taken++;
		}
		changes += taken;
		if (r >= 0)
			r = graph_sort(g, o->diag);
	}
	return r < 0 ? r : changes;
}

int pass_infer(struct optimizer *o, struct graph *g)
{
	int r = graph_sort(g, o->diag);

	for (uint32_t i = 0; !r && i < g->norder; i++)
		r = opt_infer_node(o, g, g->node[g->order[i]]);
	return r;
}
