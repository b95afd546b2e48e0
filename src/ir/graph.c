/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/graph.h"

#include "base/file.h"
#include "base/hash.h"

#include <inttypes.h>
#include <string.h>

struct graph *graph_new(struct arena *a, struct model *m, const char *name)
{
	struct graph *g = arena_new(a, struct graph);

	g->arena = a;
	g->model = m;
	g->name = arena_str(a, name ? name : "");
	return g;
}

struct value *graph_add_value(struct graph *g, const char *name)
{
	if (g->nvalues == g->cap_values) {
		g->cap_values = g->cap_values ? 2 * g->cap_values : 64;
		g->value =
			arena_grow(g->arena, g->value, g->nvalues, g->cap_values, sizeof(*g->value));
	}
	struct value *v = arena_new(g->arena, struct value);
	v->id = g->nvalues;
	v->producer = NO_NODE;
	v->name = name && *name ? arena_str(g->arena, name) : "";
	v->info.shape = SHAPE_UNKNOWN;
	g->value[g->nvalues++] = v;
	return v;
}

struct value *graph_add_const(struct graph *g, const char *name, const struct tensor *t)
{
	struct value *v = graph_add_value(g, name);

	v->init = t;
	v->info.type = t->type;
	v->info.shape = t->shape;
	v->info.known = t;
	return v;
}

static void add_use(struct graph *g, uint32_t v, uint32_t node)
{
	if (v == NO_VALUE)
		return;
	struct value *x = g->value[v];
	if (x->nusers == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 2;
		x->users = arena_grow(g->arena, x->users, x->nusers, x->cap, sizeof(*x->users));
	}
	x->users[x->nusers++] = node;
}

/*
 * Returns the index of x in a[0..n-1], or n. The search goes outwards from the index `near`: passes drop uses and
 * replace inputs in the order of the nodes or against it, so that the next one is beside the last one. A search from
 * the first entry would make the work quadratic in the users of a value.
 */
static uint32_t find_near(const uint32_t *a, uint32_t n, uint32_t near, uint32_t x)
{
	uint32_t up = near < n ? near : n, down = up;

	while (up < n || down) {
		if (up < n && a[up++] == x)
			return up - 1;
		if (down && a[--down] == x)
			return down;
	}
	return n;
}

void graph_drop_use(struct graph *g, uint32_t v, uint32_t node)
{
	if (v == NO_VALUE)
		return;
	struct value *x = g->value[v];
	uint32_t i = find_near(x->users, x->nusers, x->near_user, node);
	if (i == x->nusers)
		return;
	x->users[i] = x->users[--x->nusers];
	x->near_user = i < x->nusers || !i ? i : i - 1;
}

struct node *graph_add_node(struct graph *g, const struct op *op, void *params, const uint32_t *in,
			    uint32_t nin, const uint32_t *out, uint32_t nout,
			    const struct origin *origin)
{
	if (g->nnodes == g->cap_nodes) {
		g->cap_nodes = g->cap_nodes ? 2 * g->cap_nodes : 64;
		g->node = arena_grow(g->arena, g->node, g->nnodes, g->cap_nodes, sizeof(*g->node));
	}
	struct node *n = arena_new(g->arena, struct node);
	n->id = g->nnodes;
	n->op = op;
	n->params = params;
	n->in = arena_dup(g->arena, in, nin * sizeof(*in));
	n->nin = nin;
	n->out = arena_dup(g->arena, out, nout * sizeof(*out));
	n->nout = nout;
	n->origin = origin;
	n->type = n->domain = "";
	g->node[g->nnodes++] = n;
	for (uint32_t i = 0; i < nin; i++)
		add_use(g, in[i], n->id);
	for (uint32_t i = 0; i < nout; i++)
		if (out[i] != NO_VALUE)
			g->value[out[i]]->producer = n->id;
	return n;
}

void node_set_in(struct graph *g, struct node *n, uint32_t i, uint32_t v)
{
	/* make room before the captures; the inputs between the last one and i count as omitted */
	if (i >= n->nin) {
		uint32_t *in = arena_new_n(g->arena, uint32_t, i + 1 + n->ncap);
		memcpy(in, n->in, n->nin * sizeof(*in));
		for (uint32_t k = n->nin; k <= i; k++)
			in[k] = NO_VALUE;
		if (n->ncap)
			memcpy(in + i + 1, n->in + n->nin, n->ncap * sizeof(*in));
		n->in = in;
		n->nin = i + 1;
	}
	graph_drop_use(g, n->in[i], n->id);
	n->in[i] = v;
	add_use(g, v, n->id);
}

void node_set_ins(struct graph *g, struct node *n, const uint32_t *in, uint32_t nin)
{
	uint32_t *all = arena_new_n(g->arena, uint32_t, nin + n->ncap);

	for (uint32_t i = 0; i < n->nin; i++)
		graph_drop_use(g, n->in[i], n->id);
	if (nin)
		memcpy(all, in, nin * sizeof(*in));
	if (n->ncap)
		memcpy(all + nin, n->in + n->nin, n->ncap * sizeof(*in));
	for (uint32_t i = 0; i < nin; i++)
		add_use(g, in[i], n->id);
	n->in = all;
	n->nin = nin;
}

static void note_replacement(struct graph *g, uint32_t old, uint32_t with)
{
	if (old >= g->nbecame) {
		g->became = arena_grow(g->arena, g->became, g->nbecame, g->cap_values,
				       sizeof(*g->became));
		while (g->nbecame < g->cap_values)
			g->became[g->nbecame++] = NO_VALUE;
	}
	g->became[old] = with;
}

uint32_t graph_became(const struct graph *g, uint32_t v)
{
	/* a value is never read again once it was replaced, so that the chain ends */
	while (v < g->nbecame && g->became[v] != NO_VALUE)
		v = g->became[v];
	return v;
}

void graph_replace(struct graph *g, uint32_t old, uint32_t with)
{
	struct value *o = g->value[old];

	note_replacement(g, old, with);
	for (uint32_t k = 0; k < o->nusers; k++) {
		struct node *n = g->node[o->users[k]];
		/* users has one entry per use, so each entry replaces one input */
		uint32_t i = find_near(n->in, n->nin + n->ncap, n->near_in, old);
		if (i == n->nin + n->ncap)
			continue;
		n->in[i] = with;
		n->near_in = i;
		add_use(g, with, n->id);
	}
	o->nusers = 0;
	for (uint32_t i = 0; i < g->nout; i++) {
		if (g->out[i] == old) {
			g->out[i] = with;
			g->value[with]->is_output = true;
		}
	}
	o->is_output = false;
}

void graph_remove_node(struct graph *g, struct node *n)
{
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		graph_drop_use(g, n->in[i], n->id);
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] != NO_VALUE && g->value[n->out[i]]->producer == n->id)
			g->value[n->out[i]]->producer = NO_NODE;
	n->dead = true;
}

/* Returns the id of a node that makes an input of n and waits as well. Each node that the sort could not place has one. */
static uint32_t waiting_producer(const struct graph *g, const struct node *n, const uint32_t *waits)
{
	for (uint32_t k = 0; k < n->nin + n->ncap; k++) {
		uint32_t p = n->in[k] == NO_VALUE ? NO_NODE : g->value[n->in[k]]->producer;
		if (p != NO_NODE && waits[p])
			return p;
	}
	return n->id;
}

/*
 * Fails with the names of the nodes of a cycle, each of which reads what the one before it makes. waits is indexed by
 * node id and counts the inputs of a node that are not yet computed. The sort cannot place the readers of a cycle either,
 * so the cycle is found by a walk from readers to producers: after as many steps as there are nodes it is in one.
 */
static int report_cycle(struct graph *g, const uint32_t *waits, struct arena *scratch, struct diag *d)
{
	enum { MAX_SHOWN = 5 };
	uint32_t *from = arena_new_n(scratch, uint32_t, g->nnodes), at = NO_NODE, n;
	const char *names = "";
	int shown = 0;

	for (uint32_t i = 0; i < g->nnodes; i++) {
		if (g->node[i]->dead || !waits[i])
			continue;
		from[i] = waiting_producer(g, g->node[i], waits);
		at = i;
	}
	for (uint32_t i = 0; i < g->nnodes; i++)
		at = from[at];
	n = at;
	do {
		names = fmt(d, "'%s'%s%s", g->node[n]->origin->name, shown ? ", " : "", names);
		n = from[n];
	} while (++shown < MAX_SHOWN && n != at);
	return FAIL(d, E_MODEL_CYCLE,
		    .message = fmt(d, "the graph has a cycle: these nodes depend on one another: %s%s",
				   n == at ? "" : "..., ", names));
}

/* The nodes that are ready in Kahn's algorithm, as a binary heap of ids: the smallest goes first, which keeps the file's
 * order. */
struct ready {
	uint32_t *ids;
	uint32_t n;
};

static void ready_push(struct ready *r, uint32_t id)
{
	uint32_t i = r->n++;

	while (i && r->ids[(i - 1) / 2] > id) {
		r->ids[i] = r->ids[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	r->ids[i] = id;
}

static uint32_t ready_pop(struct ready *r)
{
	uint32_t top = r->ids[0], last = r->ids[--r->n], i = 0;

	for (;;) {
		uint32_t c = 2 * i + 1;
		if (c >= r->n)
			break;
		if (c + 1 < r->n && r->ids[c + 1] < r->ids[c])
			c++;
		if (r->ids[c] >= last)
			break;
		r->ids[i] = r->ids[c];
		i = c;
	}
	r->ids[i] = last;
	return top;
}

int graph_sort(struct graph *g, struct diag *d)
{
	struct arena scratch = {0};
	uint32_t *waits = arena_new_n(&scratch, uint32_t, g->nnodes);
	struct ready ready = {arena_new_n(&scratch, uint32_t, g->nnodes + 1), 0};
	uint32_t live = 0, *order = arena_new_n(g->arena, uint32_t, g->nnodes);
	int err = 0;

	for (uint32_t i = 0; i < g->nnodes; i++) {
		struct node *n = g->node[i];
		if (n->dead)
			continue;
		live++;
		for (uint32_t k = 0; k < n->nin + n->ncap; k++)
			if (n->in[k] != NO_VALUE && g->value[n->in[k]]->producer != NO_NODE)
				waits[i]++;
		if (!waits[i])
			ready_push(&ready, i);
	}
	g->norder = 0;
	while (ready.n) {
		struct node *n = g->node[ready_pop(&ready)];
		order[g->norder++] = n->id;
		for (uint32_t k = 0; k < n->nout; k++) {
			if (n->out[k] == NO_VALUE)
				continue;
			struct value *v = g->value[n->out[k]];
			for (uint32_t u = 0; u < v->nusers; u++)
				if (--waits[v->users[u]] == 0)
					ready_push(&ready, v->users[u]);
		}
	}
	g->order = order;
	if (g->norder < live)
		err = report_cycle(g, waits, &scratch, d);
	arena_free(&scratch);
	return err;
}

static uint32_t add_symbol(struct model *m, const char *name)
{
	if (m->nsymbols == m->cap_symbols) {
		m->cap_symbols = m->cap_symbols ? 2 * m->cap_symbols : 16;
		m->symbols = arena_grow(&m->arena, m->symbols, m->nsymbols, m->cap_symbols,
					sizeof(*m->symbols));
	}
	m->symbols[m->nsymbols] = arena_str(&m->arena, name);
	return m->nsymbols++;
}

uint32_t model_symbol(struct model *m, const char *name)
{
	for (uint32_t i = 0; i < m->nsymbols; i++)
		if (!strcmp(m->symbols[i], name))
			return i;
	return add_symbol(m, name);
}

int64_t model_new_dim(struct model *m)
{
	return DIM_SYM(model_symbol(m, arena_printf(&m->arena, "?%u", m->nsymbols + 1)));
}

struct dim_times {
	int64_t dim, base, factor;
};
enum { MAX_MULTIPLES = 256 }; /* the list is bounded because it is searched linearly */

int64_t dim_parts(const struct model *m, int64_t dim, int64_t *base)
{
	*base = dim < 0 ? dim : 0;
	for (uint32_t i = 0; m && dim_is_sym(dim) && i < m->ntimes; i++)
		if (m->times[i].dim == dim) {
			*base = m->times[i].base;
			return m->times[i].factor;
		}
	return dim < 0 ? 1 : dim;
}

int64_t dim_times(struct model *m, int64_t sym, int64_t factor)
{
	if (factor == 1 || !factor)
		return factor ? sym : 0;
	if (!m || !dim_is_sym(sym))
		return DIM_UNKNOWN;
	for (uint32_t i = 0; i < m->ntimes; i++)
		if (m->times[i].base == sym && m->times[i].factor == factor)
			return m->times[i].dim;
	if (m->ntimes == MAX_MULTIPLES)
		return DIM_UNKNOWN;
	if (!m->times)
		m->times = arena_new_n(&m->arena, struct dim_times, MAX_MULTIPLES);
	/* the name is for people only: the file may use it for another symbol, so it is not looked up */
	const char *name =
		arena_printf(&m->arena, "%s*%" PRId64, m->symbols[DIM_SYM_ID(sym)], factor);
	int64_t dim = DIM_SYM(add_symbol(m, name));
	m->times[m->ntimes++] = (struct dim_times){dim, sym, factor};
	return dim;
}

struct origin *origin_new(struct arena *a, const char *name, const char *op, int since)
{
	struct origin *o = arena_new(a, struct origin);

	*o = (struct origin){.name = arena_str(a, name), .op = arena_str(a, op), .since = since};
	return o;
}

static bool is_among(const struct origin *o, const struct origin *const *all, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (all[i] == o)
			return true;
	return false;
}

const struct origin *origin_fused(struct arena *a, const struct origin *const *of, uint32_t n,
				  uint32_t work)
{
	struct origin *o = arena_new(a, struct origin);
	const struct origin *all[MAX_FUSED];
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t parts = of[i]->nfused ? of[i]->nfused : 1;
		for (uint32_t j = 0; j < parts && k < MAX_FUSED; j++) {
			const struct origin *part = of[i]->nfused ? of[i]->fused[j] : of[i];
			if (!is_among(part, all, k))
				all[k++] = part;
		}
	}
	*o = (struct origin){.name = of[work]->name,
			     .op = of[work]->op,
			     .number = of[work]->number,
			     .fused = arena_dup(a, all, k * sizeof(*all)),
			     .nfused = k};
	return o;
}

const char *input_dim_name(const struct model *m, const struct value *input, int k, struct arena *a)
{
	int64_t dim = input->info.shape.dim[k];
	/* "?1" and so on stand for dimensions without a name */
	const char *symbol = dim_is_sym(dim) ? m->symbols[DIM_SYM_ID(dim)] : "?";

	return *symbol == '?' ? arena_printf(a, "%s.%d", input->name, k) : symbol;
}

bool vinfo_contradicts(const struct vinfo *a, const struct vinfo *b)
{
	const struct shape *s = &a->shape, *t = &b->shape;

	if (a->type.kind == V_NONE || b->type.kind == V_NONE)
		return false;
	if (a->type.kind != b->type.kind ||
	    (a->type.dtype && b->type.dtype && a->type.dtype != b->type.dtype))
		return true;
	if (a->type.kind != V_TENSOR || s->rank < 0 || t->rank < 0)
		return false;
	bool differs = s->rank != t->rank;
	for (int i = 0; !differs && i < s->rank; i++)
		differs = s->dim[i] >= 0 && t->dim[i] >= 0 && s->dim[i] != t->dim[i];
	return differs;
}

const char *model_metadata(const struct model *m, const char *key)
{
	for (size_t i = 0; i < m->nmeta; i++)
		if (!strcmp(m->meta[i].key, key))
			return m->meta[i].value;
	return "";
}

int64_t model_opset(const struct model *m, const char *domain)
{
	for (size_t i = 0; i < m->nopsets; i++)
		if (!strcmp(m->opsets[i].domain, domain))
			return m->opsets[i].version;
	return 0;
}

bool path_names_model(const char *path)
{
	const char *ext = path_ext(path);

	return !strcmp(ext, ".onnx") || !strcmp(ext, ".onnxtxt");
}

const char *model_defaults(const struct model *m, struct arena *a)
{
	enum { SHOWN = 3 };
	const char *text = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; m->ir_version >= 4 && i < m->graph->nvalues; i++) {
		const struct value *v = m->graph->value[i];
		if (!v->is_default || n++ >= SHOWN)
			continue;
		text = text ? arena_printf(a, "%s, %s", text, v->name) : v->name;
	}
	return n > SHOWN ? arena_printf(a, "%s and %u more", text, n - SHOWN) : text;
}

void graph_each_node(const struct graph *g,
		     void (*f)(const struct graph *, const struct node *, void *), void *arg)
{
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct node *n = g->node[i];
		if (n->dead)
			continue;
		f(g, n, arg);
		/* the loader limits nesting to 64 levels, so that this recursion is bounded */
		for (uint32_t k = 0; k < n->nsub; k++)
			graph_each_node(n->sub[k], f, arg);
	}
}
