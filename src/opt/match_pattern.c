/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/params.h"
#include "opt/pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * The matcher backtracks over choices: the order of the inputs of a commutative operator, and which user of a value is
 * taken as a further root. After a failed try the last choice is changed and the match repeated, until all
 * combinations were tried. choose() returns a number below `of`.
 */
static uint32_t choose(struct match *m, uint32_t of)
{
	if (m->at < m->nchoices)
		return m->choice[m->at++].taken;
	if (m->nchoices == MAX_CHOICES)
		return 0;
	m->choice[m->nchoices++] = (struct choice){0, of};
	m->at++;
	return 0;
}

/*
 * Changes the last choice that has an alternative left and forgets the choices after it; returns false if no choice
 * has one.
 */
static bool next_choice(struct match *m)
{
	m->nchoices = m->at;
	while (m->nchoices) {
		struct choice *c = &m->choice[m->nchoices - 1];
		if (++c->taken < c->of)
			return true;
		m->nchoices--;
	}
	return false;
}

static struct value *value_of(const struct match *m, uint32_t id)
{
	return id == NO_VALUE ? NULL : m->w->graph->value[id];
}

static const struct tensor *constant_of(const struct match *m, uint32_t id)
{
	return value_constant(value_of(m, id));
}

bool will_be_constant(const struct match *m, uint32_t id)
{
	return op_makes_constant(m->w->graph, value_of(m, id));
}

/*
 * Relative difference by which a constant of type t may differ from a number in a pattern that no type holds exactly: its
 * rounding in narrow types, and the few digits (1.4142, 0.7979) that some exporters write.
 */
static double tolerance(enum dtype t)
{
	return t == DT_BF16 ? 2.5e-3 : t == DT_F16 ? 6e-4 : 3e-5;
}

/* Whether every float type holds the number, as it does 0.5, -1 and 6. Then a constant beside it means something else. */
static bool is_exact_everywhere(double v)
{
	int exponent;
	double m = frexp(v, &exponent) * 256;

	return m == rint(m);
}

static bool is_meant(double constant, double number, double rtol)
{
	return constant == number ||
	       (!is_exact_everywhere(number) && fabs(constant - number) <= rtol * fabs(number));
}

static bool is_number(const struct tensor *t)
{
	return t && t->type.kind == V_TENSOR && t->type.dtype != DT_STRING && t->shape.rank <= 1 &&
	       tensor_count(t) == 1 && dtype_class(tensor_dtype(t)) != DT_COMPLEX;
}

static bool match_list(const struct match *m, const struct term *t, const struct node *n, uint32_t i)
{
	const struct tensor *c = constant_of(m, n->in[i]);
	const struct slot *s = slot_at(op_resolved(n->op).in, i);
	const struct value *x = node_in(m->w->graph, n, 0);
	int rank = s && !strcmp(s->name, "axes") && x ? x->info.shape.rank : -1;

	if (!c || c->shape.rank > 1 || c->type.kind != V_TENSOR || tensor_count(c) != t->nlist)
		return false;
	if (dtype_class(tensor_dtype(c)) != DT_INT)
		return false;
	for (int k = 0; k < t->nlist; k++) {
		int64_t v = elem_i64(tensor_dtype(c), c->data, k), w = t->list[k];
		if (v != w && !(rank > 0 && (v - w == rank || w - v == rank)))
			return false;
	}
	return true;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool attr_is(const struct match *m, const struct node *n, const struct attr_text *a)
{
	const struct field *f = params_field(n->op, a->name);
	const struct value *x = node_in(m->w->graph, n, 0);
	void *want;
	double v, w;

	if (!f)
		return false;
	if (f->type != F_ENUM && params_number(f, n->params, &v)) {
		char *end;
		w = strtod(a->text, &end);
		if (*end)
			return false;
		int rank = !strcmp(a->name, "axis") && x ? x->info.shape.rank : -1;
		return is_meant(v, w, tolerance(DT_F32)) || (rank > 0 && fabs(v - w) == (double)rank);
	}
	/* set the attribute to the text in a copy of the params, and compare */
	struct arena scratch = {0};
	struct op r = op_resolved(n->op);
	want = arena_dup(&scratch, n->params, r.params_size);
	bool same = params_set(f, want, a->text, &scratch) && params_same(n->op, want, n->params);
	arena_free(&scratch);
	return same;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool match_term(struct match *m, const struct term *t, const struct node *user, uint32_t i);
static bool match_statement(struct match *m, int k, struct node *n);

static bool has_op(const struct term *t, const struct node *n)
{
	for (int i = 0; i < t->nops; i++)
		if (t->ops[i] == n->op)
			return true;
	return false;
}

static bool record(struct match *m, const struct term *t, struct node *n, bool root)
{
	for (uint32_t i = 0; i < m->nmatched; i++) {
		if (m->matched[i] == n) {
			m->open[i] |= t->open;
			return !root && !m->root[i];
		}
	}
	if (m->nmatched == MAX_MATCHED)
		return false;
	m->matched[m->nmatched] = n;
	m->open[m->nmatched] = t->open;
	m->root[m->nmatched++] = root;
	if (t->label != NO_VAR)
		m->label[t->label] = n;
	return true;
}

/* Whether the term matches an input that the node leaves out. */
static bool left_out(struct match *m, const struct term *t)
{
	if (t->kind != TERM_NAME || !t->optional)
		return t->kind == TERM_ABSENT;
	m->bound[t->var] = true;
	m->value[t->var] = NO_VALUE;
	return true;
}

static bool match_node(struct match *m, const struct term *t, struct node *n, bool root)
{
	bool swap = false;

	if (n->dead || !has_op(t, n) || n->nsub || t->nargs < n->nin || !record(m, t, n, root))
		return false;
	for (int i = 0; i < t->nattrs; i++)
		if (!attr_is(m, n, &t->attrs[i]))
			return false;
	if (n->op->flags & OP_COMMUTATIVE && n->nin == 2)
		swap = choose(m, 2) == 1;
	for (uint32_t i = 0; i < t->nargs; i++) {
		const struct term *a = t->args[swap && i < 2 ? 1 - i : i];
		if (i >= n->nin) { /* the node has fewer inputs, so this one is left out */
			if (!left_out(m, a))
				return false;
		} else if (!match_term(m, a, n, i)) {
			return false;
		}
	}
	return true;
}

static bool match_name(struct match *m, const struct term *t, uint32_t id)
{
	const struct pattern *p = m->rule->from;
	int def = p->defined[t->var];

	if (def != NO_VAR) {
		struct value *v = value_of(m, id);
		if (!v || v->producer == NO_NODE)
			return false;
		if (!m->of[def] && !match_statement(m, def, m->w->graph->node[v->producer]))
			return false;
		struct node *n = m->of[def];
		uint32_t k = p->output[t->var];
		return k < n->nout && n->out[k] == id;
	}
	if (id == NO_VALUE && !t->optional)
		return false;
	if (t->constant && id != NO_VALUE && !will_be_constant(m, id))
		return false;
	if (m->bound[t->var])
		return m->value[t->var] == id;
	m->bound[t->var] = true;
	m->value[t->var] = id;
	return true;
}

static bool match_term(struct match *m, const struct term *t, const struct node *user, uint32_t i)
{
	uint32_t id = user->in[i];

	if (t->kind == TERM_NAME)
		return match_name(m, t, id);
	if (t->kind == TERM_ABSENT)
		return id == NO_VALUE;
	if (t->kind == TERM_NUMBER) {
		const struct tensor *c = constant_of(m, id);
		return is_number(c) && is_meant(elem_f64(tensor_dtype(c), c->data, 0), t->number,
						tolerance(tensor_dtype(c)));
	}
	if (t->kind == TERM_LIST)
		return id != NO_VALUE && match_list(m, t, user, i);
	if (t->kind != TERM_OP)
		return false;
	const struct value *v = value_of(m, id);
	if (!v || v->producer == NO_NODE)
		return false;
	struct node *n = m->w->graph->node[v->producer];
	return n->nout && n->out[0] == id && match_node(m, t, n, false);
}

static bool match_statement(struct match *m, int k, struct node *n)
{
	const struct pattern *p = m->rule->from;
	const struct statement *s = &p->statements[k];

	if (s->expr->kind != TERM_OP || !match_node(m, s->expr, n, p->root[k]))
		return false;
	m->of[k] = n;
	for (uint32_t i = 0; i < s->nouts; i++) {
		if (s->outs[i] == NO_VAR)
			continue;
		m->bound[s->outs[i]] = true;
		m->value[s->outs[i]] = i < n->nout ? n->out[i] : NO_VALUE;
	}
	return true;
}

/* Matches statement k, a further root of the pattern: a node that uses a value which is bound already. */
static bool match_further_root(struct match *m, int k)
{
	const struct term *t = m->rule->from->statements[k].expr;
	struct node *found[32];
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->nargs && !n; i++) {
		const struct term *a = t->args[i];
		if (a->kind != TERM_NAME || !m->bound[a->var] || m->value[a->var] == NO_VALUE)
			continue;
		const struct value *v = value_of(m, m->value[a->var]);
		for (uint32_t u = 0; u < v->nusers && n < 32; u++) {
			struct node *x = m->w->graph->node[v->users[u]];
			bool taken = x->dead || !has_op(t, x);
			for (uint32_t j = 0; j < m->nmatched; j++)
				taken |= m->matched[j] == x;
			if (!taken)
				found[n++] = x;
		}
	}
	return n && match_statement(m, k, found[choose(m, n) % n]);
}

/* ---- uses ------------------------------------------------------------------------------------ */

static bool in_match(const struct match *m, uint32_t node)
{
	for (uint32_t i = 0; i < m->nmatched; i++)
		if (m->matched[i]->id == node)
			return true;
	return false;
}

static bool used_outside(const struct match *m, const struct value *v)
{
	if (v->is_output)
		return true;
	for (uint32_t i = 0; i < v->nusers; i++)
		if (!in_match(m, v->users[i]))
			return true;
	return false;
}

/* Whether the pattern names output k of root n. */
static bool is_wanted(const struct match *m, const struct node *n, uint32_t k)
{
	const struct pattern *p = m->rule->from;

	for (int s = 0; s < p->n; s++)
		if (m->of[s] == n && k < p->statements[s].nouts && p->statements[s].outs[k] != NO_VAR)
			return true;
	return false;
}

static bool uses_fit(const struct match *m)
{
	for (uint32_t i = 0; i < m->nmatched; i++) {
		const struct node *n = m->matched[i];
		if (m->open[i])
			continue;
		for (uint32_t k = 0; k < n->nout; k++) {
			const struct value *v = value_of(m, n->out[k]);
			if (!v || (m->root[i] && is_wanted(m, n, k)))
				continue;
			if (used_outside(m, v))
				return false;
		}
	}
	return true;
}

/* ---- a rule ---------------------------------------------------------------------------------- */

static void reset_match(struct match *m)
{
	m->nmatched = 0;
	m->at = 0;
	memset(m->bound, 0, sizeof(m->bound));
	memset(m->label, 0, sizeof(m->label));
	memset(m->of, 0, sizeof(m->of));
}

static bool try(struct match *m, struct node *n)
{
	const struct pattern *p = m->rule->from;

	reset_match(m);
	if (!match_statement(m, p->n - 1, n))
		return false;
	for (int k = p->n - 2; k >= 0; k--)
		if (!m->of[k] && (!p->root[k] || !match_further_root(m, k)))
			return false;
	if (!uses_fit(m))
		return match_why(m, "a value inside of it has other uses");
	if (!m->rule->rule->when || m->rule->rule->when(m))
		return true;
	return m->why ? false : match_why(m, "types, shapes or constants are not as it wants them");
}

bool match_rule(struct match *m, struct rewriter *w, const struct parsed_rule *r, struct node *n)
{
	const struct pattern *p = r->from;

	if (!has_op(p->statements[p->n - 1].expr, n))
		return false;
	m->w = w;
	m->rule = r;
	m->nchoices = 0;
	m->self = NULL;
	m->why = NULL;
	for (int tries = 0; tries < 256; tries++) {
		if (try(m, n))
			return true;
		if (!next_choice(m))
			return false;
	}
	return false;
}

/* ---- what guards ask ------------------------------------------------------------------------- */

const struct graph *match_graph(const struct match *m)
{
	return m->w->graph;
}

const struct value *match_value(const struct match *m, const char *name)
{
	int i = names_find(m->rule->vars, name, strlen(name));

	return i == NO_VAR || !m->bound[i] ? NULL : value_of(m, m->value[i]);
}

static const struct node *match_node_of(const struct match *m, const char *label)
{
	int i = names_find(m->rule->labels, label, strlen(label));
	return i == NO_VAR ? NULL : m->label[i];
}

struct shape match_shape(const struct match *m, const char *name)
{
	const struct value *v = match_value(m, name);
	return v ? v->info.shape : SHAPE_UNKNOWN;
}

int match_rank(const struct match *m, const char *name)
{
	return match_shape(m, name).rank;
}

enum dtype match_dtype(const struct match *m, const char *name)
{
	const struct value *v = match_value(m, name);
	return v && v->info.type.kind == V_TENSOR ? (enum dtype)v->info.type.dtype : DT_NONE;
}

const struct tensor *match_const(const struct match *m, const char *name)
{
	const struct value *v = match_value(m, name);
	return v ? constant_of(m, v->id) : NULL;
}

bool match_number(const struct match *m, const char *name, double *v)
{
	const struct tensor *t = match_const(m, name);

	if (!is_number(t))
		return false;
	*v = elem_f64(tensor_dtype(t), t->data, 0);
	return true;
}

double match_attr(const struct match *m, const char *label, const char *attr, double def)
{
	const struct node *n = match_node_of(m, label);
	const struct field *f = n ? params_field(n->op, attr) : NULL;
	double v;

	return f && params_number(f, n->params, &v) ? v : def;
}

struct ints match_ints(const struct match *m, const char *label, const char *attr)
{
	const struct node *n = match_node_of(m, label);
	const struct field *f = n ? params_field(n->op, attr) : NULL;
	struct ints none = {NULL, -1};

	if (!f || f->type != F_INTS)
		return none;
	return *(const struct ints *)((const char *)n->params + f->off);
}

bool match_why(struct match *m, const char *text)
{
	m->why = text;
	return false;
}

bool match_on_gpu(const struct match *m)
{
	return m->w->gpu;
}

bool match_in_f16(const struct match *m)
{
	return m->w->f16;
}

bool match_same_shape(const struct match *m, const char *a, const char *b)
{
	struct shape x = match_shape(m, a), y = match_shape(m, b);

	if (x.rank < 0 || x.rank != y.rank)
		return false;
	for (int i = 0; i < x.rank; i++)
		if (x.dim[i] == DIM_UNKNOWN || x.dim[i] != y.dim[i])
			return false;
	return true;
}
