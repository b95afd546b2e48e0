/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rewrite rule by itself: its left side is built and run on random inputs with the CPU's
 * kernels, then the rule is applied and the result run again; both must agree. So must they, as far as NaN and infinity
 * stand at the same places, on inputs and constants with special values, unless a guard refuses such constants. And so
 * must they on near misses: samples whose shapes and numbers are a little off, or whose dims are not known while the rule
 * is applied. There a rule need not fire, but what runs before it must run after it and give the same.
 */
#include "backend/evaluate.h"
#include "base/hash.h"
#include "base/str.h"
#include "cpu/cpu.h"
#include "opt/optimizer.h"
#include "opt/pattern.h"
#include "test/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct trial {
	struct arena arena;
	struct diag diag;
	struct model model;
	struct run_config config;
	struct optimizer o;
	struct graph *g;
	struct names vars;
	uint32_t value[MAX_NAMES];
	const struct tensor *input[MAX_NAMES]; /* by var, of inputs */
	uint32_t seed;
	enum kind { AS_IT_IS, SPECIAL, NEAR_MISS } kind;
	bool hidden; /* some of an input's shape is */
};

static double uniform(struct trial *t)
{
	t->seed = t->seed * 1664525u + 1013904223u;
	return (double)(t->seed >> 8) / (double)(1 << 24) * 2 - 1;
}

/*
 * In some tensors of a special trial some elements are no ordinary numbers. The product of two constants may overflow, that
 * of a constant and an input does not: a rule may well avoid such an overflow.
 */
static double strange(struct trial *t, double v, bool constant)
{
	static const double numbers[] = {
		(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 0, 1e-30, 1e30, -1e30};
	size_t n = sizeof(numbers) / sizeof(*numbers) - (constant ? 0 : 2);

	return fabs(uniform(t)) < 0.1 ? numbers[(size_t)(fabs(uniform(t)) * (double)n) % n] : v;
}

static uint32_t below(struct trial *t, uint32_t n)
{
	return (uint32_t)((uniform(t) + 1) / 2 * n);
}

/* Makes a near miss of a shape: gives an axis another size, or adds or removes one. */
static void bend_shape(struct trial *t, struct shape *s)
{
	static const int64_t sizes[] = {1, 1, 1, 2, 3, 0};
	uint32_t what = t->kind == NEAR_MISS ? below(t, 12) : 12;

	if (what < 3 && s->rank) {
		s->dim[below(t, (uint32_t)s->rank)] = sizes[below(t, 6)];
	} else if (what == 3 && s->rank) {
		s->rank--;
		memmove(s->dim, s->dim + 1, (size_t)s->rank * sizeof(*s->dim));
	} else if (what == 4) {
		memmove(s->dim + 1, s->dim, (size_t)s->rank * sizeof(*s->dim));
		s->dim[0] = 1 + below(t, 2);
		s->rank++;
	}
}

static double bend_number(struct trial *t, double v)
{
	static const double factors[] = {-1, 1.00008, 0.5, 1.5};

	return t->kind == NEAR_MISS && !below(t, 6) ? v * factors[below(t, 4)] : v;
}

/* In a near miss some of the shape of one input is not known. */
static void hide_dims(struct trial *t, struct shape *s)
{
	if (t->kind != NEAR_MISS || t->hidden || below(t, 4))
		return;
	t->hidden = true;
	for (int i = 0; i < s->rank; i++)
		if (!below(t, 2))
			s->dim[i] = DIM_UNKNOWN;
	if (!below(t, 6))
		*s = SHAPE_UNKNOWN;
}

static void start(struct trial *t, uint32_t seed, enum kind kind)
{
	memset(t, 0, sizeof(*t));
	t->seed = seed;
	t->kind = kind;
	t->config.optimize = OPTIMIZE_FULL;
	t->g = graph_new(&t->arena, &t->model, "trial");
	t->model.graph = t->g;
	t->o = (struct optimizer){
		.model = &t->model, .cpu = &cpu_backend, .config = &t->config, .diag = &t->diag};
}

static void finish(struct trial *t)
{
	arena_free(&t->o.scratch);
	arena_free(&t->model.arena);
	arena_free(&t->arena);
	diag_free(&t->diag);
}

/* ---- samples: "x[2,3] v+[8] b[2]:bool u[3]:u8 s=0.5 c=7:u8 z=[2,-1] b=[0.0] t=false" -------------------------------- */

/* Integers; floats if one is written with a point. */
static struct tensor *list(struct trial *t, const char **p)
{
	double v[16];
	int64_t n = 0;
	bool floats = memchr(*p, '.', strcspn(*p, "]")) != NULL;

	for (*p += 1; **p != ']'; *p += **p == ',') {
		char *end;
		v[n++] = strtod(*p, &end);
		*p = end;
	}
	*p += 1;
	struct tensor *x = tensor_new(&t->arena, floats ? DT_F32 : DT_I64,
				      &(struct shape){.rank = 1, .dim = {n}});
	for (int64_t i = 0; i < n; i++)
		elem_set_f64(tensor_dtype(x), x->data, i, v[i]);
	return x;
}

static struct tensor *number(struct trial *t, const char **p)
{
	struct shape s = {.rank = 0};
	bool is_false = str_starts(*p, "false");

	bend_shape(t, &s);
	for (int i = 0; i < s.rank; i++)
		s.dim[i] = 1;
	char *end = (char *)(uintptr_t)*p;
	double v = is_false ? 0 : strtod(*p, &end);
	enum dtype type = is_false		   ? DT_BOOL
			  : str_starts(end, ":u8") ? DT_U8
			  : str_starts(end, ":i8") ? DT_I8
						   : DT_F32;
	struct tensor *x = tensor_new(&t->arena, type, &s);

	if (is_false) {
		*p += 5;
		return x;
	}
	elem_set_f64(type, x->data, 0, type == DT_F32 ? bend_number(t, v) : v);
	*p = end + (type == DT_F32 ? 0 : strlen(":u8"));
	return x;
}

static struct tensor *random_tensor(struct trial *t, const char **p, bool positive, bool constant)
{
	static const struct {
		const char *text;
		enum dtype type;
	} narrow[] = {{":bool", DT_BOOL}, {":u8", DT_U8}, {":i8", DT_I8}};
	struct shape s = {.rank = 0};
	enum dtype type = DT_F32;
	struct tensor *x;

	for (*p += 1; **p != ']'; *p += **p == ',') {
		char *end;
		s.dim[s.rank++] = strtoll(*p, &end, 10);
		*p = end;
	}
	*p += 1;
	for (size_t i = 0; i < sizeof(narrow) / sizeof(*narrow); i++)
		if (str_starts(*p, narrow[i].text)) {
			type = narrow[i].type;
			*p += strlen(narrow[i].text);
		}
	bend_shape(t, &s);
	x = tensor_new(&t->arena, type, &s);
	/* whether a window that reaches into the padding multiplies 0 with an infinite weight is not said (docs/special-values.md) */
	bool special = t->kind == SPECIAL && uniform(t) > 0 && !(constant && s.rank > 2);
	for (int64_t i = 0; i < tensor_count(x); i++) {
		double v = uniform(t);
		if (type == DT_BOOL)
			v = v > 0 ? 1 : 0;
		else if (type != DT_F32)
			v = floor(type == DT_U8 ? 128 + 120 * v : 120 * v);
		else
			v = positive ? fabs(v) + 0.1 : 2 * v;
		if (special && type == DT_F32)
			v = strange(t, v, constant);
		elem_set_f64(type, x->data, i, v);
	}
	return x;
}

/* Whether the rule's left side says #name (then it is a constant). */
static bool says(const char *text, const char *name, char before, char after)
{
	size_t n = strlen(name);

	for (const char *p = strstr(text, name); p; p = strstr(p + 1, name)) {
		bool whole = p == text || !(p[-1] == '_' || (p[-1] >= 'a' && p[-1] <= 'z'));
		if (before && (p == text || p[-1] != before))
			continue;
		if (whole && (after ? p[n] == after : !(p[n] >= 'a' && p[n] <= 'z')))
			return true;
	}
	return false;
}

static void enter(struct trial *t, const char *name, struct tensor *x, bool constant)
{
	struct value *v = constant ? graph_add_const(t->g, name, x) : graph_add_value(t->g, name);

	v->info.type = x->type;
	v->info.shape = x->shape;
	if (!constant)
		hide_dims(t, &v->info.shape);
	v->is_input = !constant;
	t->value[t->vars.n] = v->id;
	t->input[t->vars.n] = x;
	t->vars.name[t->vars.n++] = arena_str(&t->arena, name);
}

/* The values of a sample; returns the text of the left side. */
static const char *enter_sample(struct trial *t, const struct rule *r, bool optional)
{
	const char *p = r->sample;

	while (*p && *p != ';') {
		char name[32];
		size_t n = strcspn(p, "+[=");
		if (*p == ' ') {
			p++;
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)n, p);
		p += n;
		bool positive = *p == '+', given = *p == '=';
		p += positive || given;
		bool constant = given || says(r->from, name, '#', 0);
		struct tensor *x = !given      ? random_tensor(t, &p, positive, constant)
				   : *p == '[' ? list(t, &p)
					       : number(t, &p);
		if (optional || !says(r->from, name, 0, '?'))
			enter(t, name, x, constant);
	}
	return *p ? p + 1 : r->from;
}

/* ---- running --------------------------------------------------------------------------------- */

/* In a near miss a number of the text is another one, or the only element of a tensor of one axis or more. */
static void bend_constants(struct trial *t)
{
	for (uint32_t i = 0; t->kind == NEAR_MISS && i < t->g->nvalues; i++) {
		struct value *v = t->g->value[i];
		struct shape s = {.rank = 0};
		bool of_sample = false;
		for (int k = 0; k < t->vars.n; k++)
			of_sample |= t->value[k] == i && t->input[k];
		if (of_sample || !v->init || v->init->shape.rank || tensor_dtype(v->init) != DT_F32)
			continue;
		bend_shape(t, &s);
		for (int k = 0; k < s.rank; k++)
			s.dim[k] = 1;
		struct tensor *x = tensor_new(&t->arena, DT_F32, &s);
		elem_set_f64(DT_F32, x->data, 0, bend_number(t, elem_f64(DT_F32, v->init->data, 0)));
		v->init = x;
		v->info.shape = s;
		if (v->info.known)
			v->info.known = x;
	}
	for (uint32_t i = 0; t->kind == NEAR_MISS && i < t->g->nnodes; i++)
		opt_infer_node(&t->o, t->g, t->g->node[i]);
}

/* Evaluate every node; the outputs' tensors. */
static bool run(struct trial *t, const struct tensor **out)
{
	const struct tensor **at = arena_new_n(&t->arena, const struct tensor *, t->g->nvalues);

	for (uint32_t i = 0; i < t->g->nvalues; i++)
		at[i] = t->g->value[i]->init;
	for (int i = 0; i < t->vars.n; i++)
		if (t->input[i])
			at[t->value[i]] = t->input[i];
	if (graph_sort(t->g, &t->diag))
		return false;
	for (uint32_t i = 0; i < t->g->norder; i++) {
		const struct node *n = t->g->node[t->g->order[i]];
		const struct tensor *in[16];
		struct tensor *res[16] = {0};
		for (uint32_t k = 0; k < n->nin; k++)
			in[k] = n->in[k] == NO_VALUE ? NULL : at[n->in[k]];
		if (eval_node(&cpu_backend, t->g, n, in, res, &t->arena, &t->diag))
			return false;
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				at[n->out[k]] = res[k];
	}
	for (uint32_t i = 0; i < t->g->nout; i++)
		out[i] = at[t->g->out[i]];
	return true;
}

/* Whether x and y are both NaN, the same infinity, or both finite. */
static bool alike(double x, double y)
{
	return x == y || (isnan(x) && isnan(y)) || (isfinite(x) && isfinite(y));
}

/* Codes of near misses may round the other way. */
static bool near(double x, double y, bool codes)
{
	return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= (codes ? 1 : 2e-5) + 1e-4 * fabs(x);
}

static bool agree(const struct tensor *a, const struct tensor *b, enum kind kind)
{
	if (!a || !b || !type_equal(a->type, b->type) || !shape_equal(&a->shape, &b->shape))
		return false;
	bool codes = kind == NEAR_MISS && tensor_dtype(a) != DT_F32;
	for (int64_t i = 0; i < tensor_count(a); i++) {
		double x = elem_f64(tensor_dtype(a), a->data, i),
		       y = elem_f64(tensor_dtype(b), b->data, i);
		if (kind == SPECIAL ? !alike(x, y) : !near(x, y, codes)) {
			printf("# element %lld: %.9g and %.9g\n", (long long)i, x, y);
			return false;
		}
	}
	return true;
}

/* The outputs are the pattern's: what its roots define, by the names of the text. */
static void set_outputs(struct trial *t, const struct parsed_rule *r)
{
	const struct pattern *p = r->from;

	t->g->out = arena_new_n(&t->arena, uint32_t, 16);
	t->g->out_name = arena_new_n(&t->arena, const char *, 16);
	for (int k = 0; k < p->n; k++) {
		for (uint32_t i = 0; p->root[k] && i < p->statements[k].nouts; i++) {
			int var = p->statements[k].outs[i];
			if (var == NO_VAR)
				continue;
			const char *name = r->vars->name[var];
			uint32_t id = t->value[names_find(&t->vars, name, strlen(name))];
			/* a node behind it, so that the rule may make it an input or a constant */
			uint32_t end = graph_add_value(t->g, name)->id;
			struct node *n =
				graph_add_node(t->g, op_named("Identity"), NULL, &id, 1, &end, 1,
					       origin_new(&t->arena, "out", "Identity", 0));
			t->g->value[end]->is_output = true;
			t->g->out_name[t->g->nout] = name;
			t->g->out[t->g->nout++] = end;
			opt_infer_node(&t->o, t->g, n);
		}
	}
}

static bool try(const struct rule *r, bool optional, uint32_t seed, enum kind kind)
{
	struct trial t;
	struct parsed_rule parsed;
	const struct tensor *left[16], *right[16];
	bool ok = false;

	start(&t, seed, kind);
	struct made made = {&t.o, t.g};
	struct rewriter w = opt_rewriter(&made);
	const char *text = enter_sample(&t, r, optional);
	if (rule_parse(r, &t.arena, &parsed, &t.diag))
		goto out;
	ok = kind == NEAR_MISS;
	if (text_build(&w, text, &t.vars, t.value))
		goto out;
	bend_constants(&t);
	set_outputs(&t, &parsed);
	if (!run(&t, left))
		goto out;
	struct rule_set one = {&parsed, 1};
	uint32_t fired = 0;
	int changes = rewrite_graph(&w, &one, KIND(r->kind), false, &fired);
	if (!changes) { /* some rules are for GPUs alone */
		w.gpu = true;
		changes = rewrite_graph(&w, &one, KIND(r->kind), false, &fired);
	}
	ok = changes >= 0;
	if (!ok)
		goto out;
	ok = kind != AS_IT_IS || unit_check(fired > 0, "the rule fires", r->name, 0);
	ok = ok && run(&t, right);
	for (uint32_t i = 0; ok && i < t.g->nout; i++)
		ok = unit_check(agree(left[i], right[i], kind), "both sides agree", r->name,
				kind ? (int)seed : (int)i);
out:
	if (!ok) {
		diag_print(&t.diag, stdout, false);
		unit_check(false, optional ? "with what is optional" : "without", r->name, 0);
	}
	finish(&t);
	return ok;
}

#define T(name) rules_##name,
static const struct rule *const tables[] = {RULE_TABLES(T)};
#undef T

static void each(void (*f)(const struct rule *))
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
		for (const struct rule *r = tables[t]; r->name; r++)
			f(r);
}

static void parse_one(const struct rule *r)
{
	struct arena a = {0};
	struct diag d = {0};
	struct parsed_rule parsed;

	if (!unit_check(rule_parse(r, &a, &parsed, &d) == 0, r->from, r->name, 0))
		diag_print(&d, stdout, false);
	unit_check(r->sample != NULL, "a sample", r->name, 0);
	arena_free(&a);
	diag_free(&d);
}

/* Whether the sample can also be entered without the operands that the pattern lets a node leave out. */
static bool has_optional(const struct rule *r)
{
	return strchr(r->from, '?') && !strchr(r->sample, ';');
}

static void try_one(const struct rule *r)
{
	if (!r->sample)
		return;
	if (try(r, true, 7, AS_IT_IS) && has_optional(r))
		try(r, false, 7, AS_IT_IS);
}

static void try_special(const struct rule *r)
{
	/* Where hides a NaN among the scores that it masks; the mask that replaces it is added to them (docs/special-values.md) */
	bool ok = r->sample && !str_starts(r->name, "attention-where");

	for (uint32_t seed = 1; ok && seed <= 40; seed++)
		ok = try(r, !has_optional(r) || seed % 2, seed, SPECIAL);
}

static void try_near(const struct rule *r)
{
	const char *more = getenv("NEAR_MISSES");
	uint32_t n = more ? (uint32_t)strtoul(more, NULL, 10) : 200;

	for (uint32_t seed = 1; r->sample && seed <= n; seed++)
		if (!try(r, !has_optional(r) || seed % 2, seed * 2654435761u, NEAR_MISS))
			break;
}

static void rules_can_be_read(void)
{
	each(parse_one);
}

static void sides_agree(void)
{
	each(try_one);
}

static void special_values_agree(void)
{
	each(try_special);
}

static void near_misses_agree(void)
{
	each(try_near);
}

static void names_differ(void)
{
	struct arena a = {0};
	struct map seen = {.arena = &a};

	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
		for (const struct rule *r = tables[t]; r->name; r++)
			unit_check(map_set(&seen, r->name, strlen(r->name), 0), "a name of its own",
				   r->name, 0);
	arena_free(&a);
}

int main(void)
{
	UNIT(rules_can_be_read);
	UNIT(names_differ);
	UNIT(sides_agree);
	UNIT(special_values_agree);
	UNIT(near_misses_agree);
	return unit_end();
}
