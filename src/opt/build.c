/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/params.h"
#include "opt/pattern.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State while the nodes of a replacement or expansion are created. */
struct build {
	struct match *m;
	struct rewriter *w;
	struct graph *g;
	const struct names *labels;
	const struct origin *origin;
	uint32_t value[MAX_NAMES];
	bool bound[MAX_NAMES];
	uint32_t first; /* nodes with this id and above belong to the replacement */
};

static int fault(const struct build *b, const char *what)
{
	const struct rule *r = b->m->rule->rule;

	return FAIL(b->w->diag, E_INTERNAL, .node = b->origin ? b->origin->name : NULL,
		    .op = r->name, .message = "a rewrite that cannot be made", .actual = what);
}

static enum dtype dtype_of(const struct build *b, uint32_t id)
{
	if (id == NO_VALUE || b->g->value[id]->info.type.kind != V_TENSOR)
		return DT_NONE;
	return (enum dtype)b->g->value[id]->info.type.dtype;
}

/* Dimension k of the value of var, counted from the end if k is negative; -1 if it is not known. */
static int64_t dim_of(const struct build *b, int var, int64_t k)
{
	uint32_t id = b->bound[var] ? b->value[var] : NO_VALUE;
	const struct shape *s = id == NO_VALUE ? NULL : &b->g->value[id]->info.shape;

	if (s && k < 0)
		k += s->rank;
	return s && k >= 0 && k < s->rank ? s->dim[k] : -1;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* The node whose attribute a text such as "$axis" or "c.axis" names; *text moves on to the name of the attribute. */
static const struct node *attr_owner(const struct build *b, const char **text)
{
	const char *p = *text, *dot = strchr(p, '.');

	if (*p == '$') {
		*text = p + 1;
		return b->m->self;
	}
	if (!dot || !isalpha((unsigned char)*p))
		return NULL;
	int k = names_find(b->labels, p, (size_t)(dot - p));
	*text = dot + 1;
	return k == NO_VAR ? NULL : b->m->label[k];
}

static bool value_number(const struct build *b, const char *name, size_t n, double *v)
{
	int k = names_find(b->m->rule->vars, name, n);

	if (k == NO_VAR || !b->bound[k] || b->value[k] == NO_VALUE)
		return false;
	const struct tensor *t = value_constant(b->g->value[b->value[k]]);
	if (!t || tensor_count(t) != 1 || t->type.dtype == DT_STRING)
		return false;
	*v = elem_f64(tensor_dtype(t), t->data, 0);
	return true;
}

/* "@q[1]": a dimension. */
static bool dim_number(const struct build *b, const char *name, size_t n, const char **p, double *v)
{
	int k = names_find(b->m->rule->vars, name, n);
	char *end;
	long long i = strtoll(*p + 1, &end, 10);

	if (k == NO_VAR || *end != ']')
		return false;
	*p = end + 1;
	*v = (double)dim_of(b, k, i);
	return *v >= 0;
}

/* Computes one factor, which is a number, "@s", "@q[1]", "$axis" or "c.axis", and moves *p behind it. */
static bool factor(const struct build *b, const char **p, double *v)
{
	char *end;
	size_t n;

	if (**p == '@') {
		const char *name = *p + 1;
		n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
		*p = name + n;
		if (**p == '[')
			return dim_number(b, name, n, p, v);
		return value_number(b, name, n, v);
	}
	if (**p == '$' || isalpha((unsigned char)**p)) {
		struct arena scratch = {0};
		n = strcspn(*p, "*/ ");
		const char *text = arena_strn(&scratch, *p, n);
		const struct node *from = attr_owner(b, &text);
		const struct field *f = from ? params_field(from->op, text) : NULL;
		bool ok = f && params_number(f, from->params, v);
		arena_free(&scratch);
		*p += n;
		return ok;
	}
	*v = strtod(*p, &end);
	if (end == *p)
		return false;
	*p = end;
	return true;
}

/* Computes a text of factors joined by * and /, such as "1/@s*2"; returns false if a factor is not known. */
static bool product(const struct build *b, const char *p, double *v)
{
	double w;

	if (!factor(b, &p, v))
		return false;
	while (*p) {
		char c = *p++;
		if ((c != '*' && c != '/') || !factor(b, &p, &w))
			return false;
		*v = c == '*' ? *v * w : *v / w;
	}
	return true;
}

static int set_attr(const struct build *b, const struct op *op, void *params,
		    const struct attr_text *t)
{
	const struct field *f = t->name ? params_field(op, t->name) : NULL;
	double v;

	if (!t->name) {
		const struct node *from = b->m->label[t->label];
		if (from)
			params_copy(op, params, from->op, from->params, b->w->arena);
		return 0;
	}
	if (!f)
		return fault(b, fmt(b->w->diag, "no attribute %s in %s", t->name, op->name));
	const char *text = t->text;
	const struct node *from = strpbrk(text, "*/@") ? NULL : attr_owner(b, &text);
	if (from) {
		const struct field *ff = params_field(from->op, text);
		if (ff && params_copy_field(f, params, ff, from->params, b->w->arena))
			return 0;
	} else if (strpbrk(t->text, "*/@") && f->type != F_STRING) {
		if (product(b, t->text, &v) && params_set_number(f, params, v))
			return 0;
	} else if (params_set(f, params, t->text, b->w->arena)) {
		return 0;
	}
	return fault(b, fmt(b->w->diag, "attribute %s=%s", t->name, t->text));
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool is_literal(const struct term *t)
{
	return t->kind == TERM_NUMBER || t->kind == TERM_LIST || t->kind == TERM_ATTR;
}

/* The element type if the mask has exactly one, otherwise DT_NONE. */
static enum dtype only_type(uint64_t mask)
{
	return mask && !(mask & (mask - 1)) && mask < T_SEQ ? (enum dtype)__builtin_ctzll(mask)
							    : DT_NONE;
}

/* Element type of a literal that becomes input i of op: the type of another input with the same type variable, if any. */
static enum dtype literal_type(const struct build *b, const struct op *op, uint32_t i,
			       const uint32_t *in, uint32_t nin, enum dtype otherwise)
{
	const struct slot *slots = op_resolved(op).in, *s = slot_at(slots, i);
	enum dtype t;

	if (!s)
		return otherwise;
	for (uint32_t k = 0; s->tvar && k < nin; k++) {
		const struct slot *o = slot_at(slots, k);
		if (k != i && o && o->tvar && !strcmp(o->tvar, s->tvar) && dtype_of(b, in[k]))
			return dtype_of(b, in[k]);
	}
	t = only_type(s->types);
	if (t)
		return t;
	if (otherwise && s->types & T_BIT(otherwise))
		return otherwise;
	return s->types & T_I64 ? DT_I64 : s->types & T_F32 ? DT_F32 : otherwise;
}

static uint32_t add_const(const struct build *b, const struct tensor *t)
{
	return graph_add_const(b->g, "", t)->id;
}

static uint32_t scalar(const struct build *b, enum dtype t, double v)
{
	struct shape s = {.rank = 0};
	struct tensor *x = tensor_new(b->w->arena, t, &s);

	elem_set_f64(t, x->data, 0, v);
	return add_const(b, x);
}

static uint32_t int_list(const struct build *b, enum dtype t, const int64_t *v, int64_t n)
{
	struct tensor *x = tensor_new(b->w->arena, t, &(struct shape){.rank = 1, .dim = {n}});

	for (int64_t i = 0; i < n; i++)
		elem_set_i64(t, x->data, i, v[i]);
	return add_const(b, x);
}

static int list_term(const struct build *b, const struct term *t, enum dtype type, uint32_t *out)
{
	int64_t v[MAX_RANK + MAX_LIST];
	int n = 0;

	for (int i = 0; i < t->nlist; i++) {
		int64_t item = t->list[i];
		int times = 1;
		if (t->list_var[i] != NO_VAR) {
			item = dim_of(b, t->list_var[i], item);
			if (item < 0)
				return fault(b, "a dimension that is not known");
		}
		if (i == t->fill_at) {
			uint32_t id = b->value[t->fill_var];
			int rank = id == NO_VALUE ? -1 : b->g->value[id]->info.shape.rank;
			if (rank < 0)
				return fault(b, "a rank that is not known");
			times = rank - (t->nlist - 1);
		}
		for (; times > 0 && n < MAX_RANK + MAX_LIST; times--)
			v[n++] = item;
	}
	*out = int_list(b, type ? type : DT_I64, v, n);
	return 0;
}

static int attr_term(const struct build *b, const struct term *t, enum dtype type, uint32_t *out)
{
	const struct node *n = t->label == NO_VAR ? b->m->self : b->m->label[t->label];
	const struct field *f = n ? params_field(n->op, t->attr) : NULL;
	double v;

	if (f && f->type == F_INTS) {
		const struct ints *l = (const void *)((const char *)n->params + f->off);
		if (l->n >= 0) {
			*out = int_list(b, type ? type : DT_I64, l->v, l->n);
			return 0;
		}
	}
	if (f && f->type == F_TENSOR) {
		const struct tensor *x;
		memcpy(&x, (const char *)n->params + f->off, sizeof(x));
		if (x) {
			*out = add_const(b, x);
			return 0;
		}
	}
	if (!f || !params_number(f, n->params, &v))
		return fault(b, fmt(b->w->diag, "attribute %s is absent", t->attr));
	if (!type)
		type = f->type == F_INT || f->type == F_BOOL ? DT_I64 : DT_F32;
	*out = scalar(b, type, v);
	return 0;
}

static int literal(const struct build *b, const struct term *t, enum dtype type, uint32_t *out)
{
	if (t->kind == TERM_LIST)
		return list_term(b, t, type, out);
	if (t->kind == TERM_ATTR)
		return attr_term(b, t, type, out);
	*out = scalar(b, type ? type : DT_F32, t->number);
	return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int build_op(struct build *b, const struct term *t, uint32_t *out, uint32_t nout);

static int build_term(struct build *b, const struct term *t, uint32_t *out)
{
	*out = NO_VALUE;
	if (t->kind == TERM_NAME) {
		if (!b->bound[t->var])
			return t->optional ? 0 : fault(b, b->m->rule->vars->name[t->var]);
		*out = b->value[t->var];
		return 0;
	}
	if (t->kind == TERM_OP)
		return build_op(b, t, out, 1);
	return is_literal(t) ? literal(b, t, DT_NONE, out) : 0;
}

/* Element type of the value that is replaced. Literals take this type if no other input tells their type. */
static enum dtype result_type(const struct build *b)
{
	const struct node *n = b->m->self ? b->m->self : b->m->matched[0];
	return n && n->nout ? dtype_of(b, n->out[0]) : DT_NONE;
}

static int build_args(struct build *b, const struct term *t, uint32_t *in)
{
	int r = 0;

	for (uint32_t i = 0; i < t->nargs; i++)
		in[i] = NO_VALUE;
	for (uint32_t i = 0; !r && i < t->nargs; i++)
		if (!is_literal(t->args[i]))
			r = build_term(b, t->args[i], &in[i]);
	for (uint32_t i = 0; !r && i < t->nargs; i++) {
		if (!is_literal(t->args[i]))
			continue;
		enum dtype type = literal_type(b, t->ops[0], i, in, t->nargs, result_type(b));
		r = literal(b, t->args[i], type, &in[i]);
	}
	return r;
}

/*
 * Whether the operator is dropped because a required input was left out; *instead is then its first given input,
 * which replaces the operator's result.
 */
static bool is_dropped(const struct term *t, const uint32_t *in, uint32_t *instead)
{
	const struct slot *slots = op_resolved(t->ops[0]).in;
	bool gone = false;

	*instead = NO_VALUE;
	for (uint32_t i = 0; i < t->nargs; i++) {
		const struct slot *s = slot_at(slots, i);
		if (in[i] == NO_VALUE && s && !s->optional && t->args[i]->kind == TERM_NAME)
			gone = true;
		else if (in[i] != NO_VALUE && *instead == NO_VALUE)
			*instead = in[i];
	}
	return gone;
}

/*
 * The origin of a new node. One of an operator that the pattern has once is that node of the file, moved, and keeps its name: what its
 * kernel says of its operands is then said of the node that has them. Others have the name of the whole match (origin_of).
 */
static const struct origin *origin_for(const struct build *b, const struct op *op)
{
	const struct match *m = b->m;
	const struct origin *own = NULL;
	uint32_t same = 0;

	for (uint32_t i = 0; i < m->nmatched && b->origin->nfused; i++)
		if (m->matched[i]->op && op_id(m->matched[i]->op) == op_id(op)) {
			own = m->matched[i]->origin;
			same++;
		}
	if (same != 1 || own->name == b->origin->name)
		return b->origin;
	struct origin *o = arena_new(b->w->arena, struct origin);
	*o = *b->origin;
	o->name = own->name;
	o->op = own->op;
	o->number = own->number;
	return o;
}

static int add_node(struct build *b, const struct term *t, const uint32_t *in, uint32_t *out,
		    uint32_t nout)
{
	const struct op *op = t->ops[0];
	void *params = params_new(op, b->w->arena);
	uint32_t nin = t->nargs;
	int r;

	for (int i = 0; i < t->nattrs; i++) {
		r = set_attr(b, op, params, &t->attrs[i]);
		if (r)
			return r;
	}
	const struct rule *rule = b->m->rule->rule;
	const struct pattern *to = b->m->rule->to;
	if (rule->adjust && to->statements[to->n - 1].expr == t)
		rule->adjust(b->m, params, b->w->arena);
	while (nin && in[nin - 1] == NO_VALUE)
		nin--;
	for (uint32_t i = 0; i < nout; i++)
		out[i] = graph_add_value(b->g, "")->id;
	struct node *n = graph_add_node(b->g, op, params, in, nin, out, nout, origin_for(b, op));
	n->type = op->name;
	n->domain = op->domain ? op->domain : "";
	n->version = op->since;
	return b->w->made ? b->w->made(b->w->arg, n) : 0;
}

static int build_op(struct build *b, const struct term *t, uint32_t *out, uint32_t nout)
{
	uint32_t in[16];
	int r = build_args(b, t, in);

	if (r)
		return r;
	if (nout == 1 && is_dropped(t, in, out))
		return 0;
	return add_node(b, t, in, out, nout);
}

static int build_statements(struct build *b)
{
	const struct pattern *p = b->m->rule->to;
	int r = 0;

	for (int k = 0; !r && k < p->n; k++) {
		const struct statement *s = &p->statements[k];
		uint32_t out[16], nouts = s->nouts;
		while (nouts > 1 && s->outs[nouts - 1] == NO_VAR)
			nouts--;
		r = s->expr->kind == TERM_OP ? build_op(b, s->expr, out, nouts)
					     : build_term(b, s->expr, out);
		for (uint32_t i = 0; !r && i < nouts; i++) {
			if (s->outs[i] == NO_VAR)
				continue;
			b->value[s->outs[i]] = out[i];
			b->bound[s->outs[i]] = true;
		}
	}
	return r;
}

/* ---- putting it in place --------------------------------------------------------------------- */

/*
 * Returns why value `new` cannot replace `old`, namely a different type or shape as far as these are known; NULL if
 * it can.
 */
static const char *why_not_replaceable(const struct build *b, uint32_t old, uint32_t new)
{
	const struct value *o = b->g->value[old], *n = b->g->value[new];

	if (o->is_output && (n->is_input || n->is_output || n->init))
		return "an output of the graph would be an input, a constant or another output";
	if (n->info.type.kind && o->info.type.kind && !type_equal(o->info.type, n->info.type))
		return "the type would change";
	if (o->info.shape.rank < 0 || n->info.shape.rank < 0)
		return NULL;
	if (o->info.shape.rank != n->info.shape.rank)
		return "the rank would change";
	for (int i = 0; i < o->info.shape.rank; i++)
		if (o->info.shape.dim[i] >= 0 && n->info.shape.dim[i] >= 0 &&
		    o->info.shape.dim[i] != n->info.shape.dim[i])
			return "the shape would change";
	return NULL;
}

static void replace(struct build *b, uint32_t old, uint32_t new)
{
	struct value *o = b->g->value[old], *n = b->g->value[new];

	if (n->producer != NO_NODE && n->producer >= b->first) {
		struct vinfo better = n->info;
		n->name = o->name;
		/* keep dims that are known for the old value but not for the new one */
		for (int i = 0; i < better.shape.rank && better.shape.rank == o->info.shape.rank; i++)
			if (better.shape.dim[i] == DIM_UNKNOWN)
				n->info.shape.dim[i] = o->info.shape.dim[i];
		if (better.shape.rank < 0)
			n->info.shape = o->info.shape;
	}
	graph_replace(b->g, old, new);
}

static void remove_built(struct build *b)
{
	for (uint32_t i = b->g->nnodes; i-- > b->first;)
		if (!b->g->node[i]->dead)
			graph_remove_node(b->g, b->g->node[i]);
}

static void remove_matched(struct build *b)
{
	struct match *m = b->m;

	for (uint32_t i = 0; i < m->nmatched; i++) {
		struct node *n = m->matched[i];
		bool used = false;
		for (uint32_t k = 0; m->open[i] && !m->root[i] && k < n->nout; k++) {
			const struct value *v = node_out(b->g, n, k);
			used |= v && (v->nusers || v->is_output);
		}
		if (!used && !n->dead)
			graph_remove_node(b->g, n);
	}
}

/*
 * Checks that the replacement defines all outputs of the pattern with fitting type and shape; with `put`, also
 * replaces the old values by them.
 */
static int check_outputs(struct build *b, bool put)
{
	const struct pattern *p = b->m->rule->from;

	for (int k = 0; k < p->n; k++) {
		for (uint32_t i = 0; p->root[k] && i < p->statements[k].nouts; i++) {
			int var = p->statements[k].outs[i];
			if (var == NO_VAR || b->m->value[var] == NO_VALUE)
				continue;
			uint32_t old = b->m->value[var], new = b->value[var];
			if (new == NO_VALUE || new == old)
				return fault(b, "an output that is not defined");
			if (!put)
				b->m->why = why_not_replaceable(b, old, new);
			if (b->m->why)
				return 0;
			if (put)
				replace(b, old, new);
		}
	}
	return 1;
}

/* The outputs of the pattern are defined anew by the replacement; the match keeps the ids of the old values. */
static void unbind_outputs(struct build *b)
{
	const struct pattern *p = b->m->rule->from;

	for (int k = 0; k < p->n; k++)
		for (uint32_t i = 0; i < p->statements[k].nouts; i++)
			if (p->root[k] && p->statements[k].outs[i] != NO_VAR)
				b->bound[p->statements[k].outs[i]] = false;
}

/* Whether the operator does most of the work among those that it is fused with: convolutions, products, attention. */
static bool is_heavy(const struct op *op)
{
	return op && ((op->flags & (OP_CONVOLUTION | OP_PRODUCT)) || op->macs);
}

/*
 * A fused node is named after the node that does most of its work: a convolution or a product, if there is one, or
 * else the last node of the pattern.
 */
static const struct origin *origin_of(struct match *m, struct arena *a)
{
	const struct origin *all[MAX_MATCHED];
	uint32_t n = 0, work = 0;
	bool heavy = false;

	for (uint32_t i = 0; i < m->nmatched; i++) {
		bool twice = m->open[i] && !m->root[i];
		for (uint32_t k = 0; k < n; k++)
			twice |= all[k] == m->matched[i]->origin;
		if (twice)
			continue;
		if (!heavy && is_heavy(m->matched[i]->op)) {
			heavy = true;
			work = n;
		}
		all[n++] = m->matched[i]->origin;
	}
	return n == 1 ? all[0] : origin_fused(a, all, n, work);
}

int match_build(struct match *m)
{
	struct build b = {.m = m, .w = m->w, .g = m->w->graph, .labels = m->rule->labels};
	int r;

	b.origin = origin_of(m, m->w->arena);
	b.first = b.g->nnodes;
	memcpy(b.value, m->value, sizeof(b.value));
	memcpy(b.bound, m->bound, sizeof(b.bound));
	unbind_outputs(&b);
	r = build_statements(&b);
	if (!r)
		r = check_outputs(&b, false);
	if (r <= 0) {
		remove_built(&b);
		if (r)
			m->why = "the replacement cannot be made";
		return 0;
	}
	r = check_outputs(&b, true);
	remove_matched(&b);
	return r;
}

/* ---- a text by itself ------------------------------------------------------------------------ */

int text_build(struct rewriter *w, const char *text, struct names *vars, uint32_t *value)
{
	struct names labels = {0};
	struct rule rule = {.name = "text"};
	struct parsed_rule parsed = {.rule = &rule, .vars = vars, .labels = &labels};
	struct match *m = arena_new(w->arena, struct match);
	struct build b = {.m = m, .w = w, .g = w->graph, .labels = &labels};
	int given = vars->n;
	int r = text_parse(text, vars, &labels, w->arena, "text", &parsed.to, w->diag);

	if (r)
		return r;
	m->w = w;
	m->rule = &parsed;
	b.origin = origin_new(w->arena, "text", "text", 0);
	b.first = w->graph->nnodes;
	for (int i = 0; i < vars->n; i++) {
		b.bound[i] = i < given;
		b.value[i] = i < given ? value[i] : NO_VALUE;
	}
	r = build_statements(&b);
	memcpy(value, b.value, sizeof(b.value));
	return r;
}

/* ---- expansion ------------------------------------------------------------------------------- */

static void enter_slots(struct names *vars, const struct slot *slots)
{
	for (const struct slot *s = slots; s->name && vars->n < MAX_NAMES; s++)
		if (names_find(vars, s->name, strlen(s->name)) == NO_VAR)
			vars->name[vars->n++] = s->name;
}

/*
 * Replaces the outputs of n by the values that the expansion defines under the names of the output slots. If an input
 * has the same name, the definition that comes last in the text counts.
 */
static int take_outputs(struct build *b, struct node *n, const struct slot *slots,
			const struct names *vars)
{
	for (uint32_t i = 0; i < n->nout; i++) {
		const struct slot *s = slot_at(slots, i);
		int k = s ? names_find(vars, s->name, strlen(s->name)) : NO_VAR;
		if (n->out[i] == NO_VALUE)
			continue;
		if (k == NO_VAR || !b->bound[k] || b->value[k] == NO_VALUE)
			return fault(b, fmt(b->w->diag, "output %u is not defined", i));
		uint32_t new = b->value[k];
		const char *why = why_not_replaceable(b, n->out[i], new);
		if (why && b->g->value[n->out[i]]->is_output && b->g->value[new]->producer < b->first) {
			/*
			 * the new value existed before the expansion, but an output of the graph needs a node of its
			 * own that produces it
			 */
			struct term id = {
				.kind = TERM_OP, .ops = {op_named("Identity")}, .nops = 1, .nargs = 1};
			uint32_t from = new;
			int r = add_node(b, &id, &from, &new, 1);
			if (r)
				return r;
		}
		replace(b, n->out[i], new);
	}
	return 0;
}

int rewrite_expand(struct rewriter *w, struct node *n)
{
	struct op op = op_resolved(n->op);
	struct names vars = {.any_case = true}, labels = {0};
	struct rule rule = {.name = n->op->name};
	struct parsed_rule parsed = {.rule = &rule, .vars = &vars, .labels = &labels};
	struct match *m = arena_new(w->arena, struct match);
	struct build b = {.m = m, .w = w, .g = w->graph, .labels = &labels, .origin = n->origin};
	const char *text = op.expand_as ? op.expand_as(w->graph, n) : op.expand;
	int r;

	enter_slots(&vars, op.in);
	uint32_t nin = (uint32_t)vars.n;
	if (!text)
		return FAIL(w->diag, E_OP_UNSUPPORTED, .node = n->origin->name, .op = n->origin->op,
			    .expected = "operands of known dimensions");
	r = text_parse(text, &vars, &labels, w->arena, op_qualified(n->op), &parsed.to, w->diag);
	if (r)
		return r;
	m->w = w;
	m->rule = &parsed;
	m->self = n;
	b.first = w->graph->nnodes;
	for (uint32_t i = 0; i < nin; i++) {
		b.bound[i] = true;
		b.value[i] = i < n->nin ? n->in[i] : NO_VALUE;
	}
	r = build_statements(&b);
	if (!r)
		r = take_outputs(&b, n, op.out, &vars);
	if (!r)
		graph_remove_node(w->graph, n);
	return r;
}
