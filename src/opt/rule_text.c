/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/pattern.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parser {
	const char *text, *p; /* p: position of the parser in text */
	struct names *vars, *labels;
	struct arena *arena;
	const char *where;
	struct diag *diag;
};

static int fault(struct parser *s, const char *expected)
{
	return FAIL(s->diag, E_INTERNAL, .message = "a rewrite text that cannot be read",
		    .slot = fmt(s->diag, "%s", s->where), .expected = expected,
		    .actual = fmt(s->diag, "'%s'", s->p));
}

int names_find(const struct names *n, const char *name, size_t length)
{
	for (int i = 0; i < n->n; i++) {
		if (strlen(n->name[i]) != length)
			continue;
		if (!(n->any_case ? strncasecmp(n->name[i], name, length)
				  : strncmp(n->name[i], name, length)))
			return i;
	}
	return NO_VAR;
}

static int add_name(struct parser *s, struct names *n, const char *name, size_t length)
{
	int i = names_find(n, name, length);

	if (i != NO_VAR)
		return i;
	if (n->n == (int)(sizeof(n->name) / sizeof(*n->name)))
		return NO_VAR;
	n->name[n->n] = arena_strn(s->arena, name, length);
	return n->n++;
}

static void skip_blanks(struct parser *s)
{
	while (isspace((unsigned char)*s->p))
		s->p++;
}

static bool accept(struct parser *s, const char *what)
{
	size_t n = strlen(what);

	skip_blanks(s);
	if (strncmp(s->p, what, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* Length of the identifier at p, or 0 if there is none. With `dots`, it may contain dots. */
static size_t identifier_length(const char *p, bool dots)
{
	size_t n = 0;

	if (!isalpha((unsigned char)*p) && *p != '_')
		return 0;
	while (isalnum((unsigned char)p[n]) || p[n] == '_' || (dots && p[n] == '.'))
		n++;
	return n;
}

/* ---- attributes in braces -------------------------------------------------------------------- */

/* Reads text up to a ',' or '}' outside of brackets; blanks around the text are dropped. */
static const char *attr_value(struct parser *s)
{
	const char *start;
	int depth = 0;

	skip_blanks(s);
	start = s->p;
	while (*s->p && (depth || (*s->p != ',' && *s->p != '}'))) {
		depth += (*s->p == '[') - (*s->p == ']');
		s->p++;
	}
	size_t n = (size_t)(s->p - start);
	while (n && isspace((unsigned char)start[n - 1]))
		n--;
	return arena_strn(s->arena, start, n);
}

static int parse_attr(struct parser *s, struct attr_text *t)
{
	size_t n;

	skip_blanks(s);
	t->label = NO_VAR;
	if (accept(s, "...")) {
		n = identifier_length(s->p, false);
		t->label = names_find(s->labels, s->p, n);
		if (!n || t->label == NO_VAR)
			return fault(s, "a label of the pattern");
		s->p += n;
		return 0;
	}
	n = identifier_length(s->p, false);
	if (!n)
		return fault(s, "the name of an attribute");
	t->name = arena_strn(s->arena, s->p, n);
	s->p += n;
	if (!accept(s, "="))
		return fault(s, "'='");
	t->text = attr_value(s);
	return 0;
}

static int parse_attrs(struct parser *s, struct term *t)
{
	int r;

	t->attrs = arena_new_n(s->arena, struct attr_text, 16);
	while (!accept(s, "}")) {
		if (t->nattrs == 16 || (t->nattrs && !accept(s, ",")))
			return fault(s, "',' or '}'");
		r = parse_attr(s, &t->attrs[t->nattrs++]);
		if (r)
			return r;
	}
	return 0;
}

/* ---- terms ----------------------------------------------------------------------------------- */

static int parse_term(struct parser *s, struct term **out);

/* Reads a name that must have occurred before in the text. */
static int known_name(struct parser *s, int *var)
{
	size_t n = identifier_length(s->p, false);

	*var = names_find(s->vars, s->p, n);
	if (*var == NO_VAR)
		return fault(s, "a name of the pattern");
	s->p += n;
	return 0;
}

static int parse_item(struct parser *s, struct term *t)
{
	int r, i = t->nlist++;
	char *end;

	skip_blanks(s);
	t->list_var[i] = NO_VAR;
	if (accept(s, "1...")) {
		t->fill_at = i;
		t->list[i] = 1;
		return known_name(s, &t->fill_var);
	}
	if (identifier_length(s->p, false)) { /* w[0]: a dimension */
		r = known_name(s, &t->list_var[i]);
		if (r || !accept(s, "["))
			return r ? r : fault(s, "'['");
	}
	t->list[i] = strtoll(s->p, &end, 10);
	if (end == s->p)
		return fault(s, "an integer");
	s->p = end;
	return t->list_var[i] != NO_VAR && !accept(s, "]") ? fault(s, "']'") : 0;
}

static int parse_list(struct parser *s, struct term *t)
{
	t->kind = TERM_LIST;
	t->fill_at = -1;
	while (!accept(s, "]")) {
		if (t->nlist == MAX_LIST || (t->nlist && !accept(s, ",")))
			return fault(s, "',' or ']'");
		int r = parse_item(s, t);
		if (r)
			return r;
	}
	return 0;
}

static int parse_args(struct parser *s, struct term *t)
{
	int r;

	while (!accept(s, ")")) {
		if (t->nargs == 16 || (t->nargs && !accept(s, ",")))
			return fault(s, "',' or ')'");
		r = parse_term(s, &t->args[t->nargs++]);
		if (r)
			return r;
	}
	return accept(s, "{") ? parse_attrs(s, t) : 0;
}

/* Length of the operator name at p, "Op" or "domain::Op"; 0 if there is none. */
static size_t op_name(const char *p)
{
	size_t n = identifier_length(p, true);

	if (n && p[n] == ':' && p[n + 1] == ':')
		return n + 2 + identifier_length(p + n + 2, true);
	return n;
}

static int parse_op(struct parser *s, struct term *t)
{
	t->kind = TERM_OP;
	do {
		skip_blanks(s);
		size_t n = op_name(s->p);
		if (!n || t->nops == MAX_ALTERNATIVES)
			return fault(s, "the name of an operator");
		t->ops[t->nops] = op_named(arena_strn(s->arena, s->p, n));
		if (!t->ops[t->nops++])
			return fault(s, "an operator that this build has");
		s->p += n;
	} while (accept(s, "|"));
	if (!accept(s, "("))
		return fault(s, "'('");
	return parse_args(s, t);
}

/* Whether an operator application begins at p: names joined by '|', then '('. */
static bool at_op(const char *p)
{
	for (;;) {
		size_t n = op_name(p);
		if (!n)
			return false;
		p += n;
		p += strspn(p, " ");
		if (*p != '|')
			return *p == '(';
		p++;
		p += strspn(p, " ");
	}
}

static int parse_attr_ref(struct parser *s, struct term *t)
{
	size_t n = identifier_length(s->p, false);

	t->kind = TERM_ATTR;
	if (s->p[n] == '.') {
		t->label = names_find(s->labels, s->p, n);
		if (t->label == NO_VAR)
			return fault(s, "a label of the pattern");
		s->p += n + 1;
		n = identifier_length(s->p, false);
	}
	if (!n)
		return fault(s, "the name of an attribute");
	t->attr = arena_strn(s->arena, s->p, n);
	s->p += n;
	return 0;
}

static int parse_name(struct parser *s, struct term *t)
{
	size_t n = identifier_length(s->p, false);

	if (n == 1 && *s->p == '_') {
		t->kind = TERM_ABSENT;
		s->p++;
		return 0;
	}
	t->kind = TERM_NAME;
	t->var = add_name(s, s->vars, s->p, n);
	if (t->var == NO_VAR)
		return fault(s, "fewer names");
	s->p += n;
	t->optional = accept(s, "?");
	return 0;
}

static int parse_word(struct parser *s, struct term *t)
{
	size_t n = identifier_length(s->p, false);
	const char *after = s->p + n;

	if (!n)
		return fault(s, "a value");
	if (at_op(s->p))
		return parse_op(s, t);
	after += strspn(after, " ");
	if (*after == ':') {
		t->label = add_name(s, s->labels, s->p, n);
		s->p = after + 1;
		t->open = accept(s, "!");
		return parse_op(s, t);
	}
	return s->p[n] == '.' ? parse_attr_ref(s, t) : parse_name(s, t);
}

static int parse_term(struct parser *s, struct term **out)
{
	struct term *t = *out = arena_new(s->arena, struct term);

	t->var = t->label = t->fill_var = NO_VAR;
	skip_blanks(s);
	if (accept(s, "["))
		return parse_list(s, t);
	if (accept(s, "$"))
		return parse_attr_ref(s, t);
	if (accept(s, "#")) {
		t->constant = true;
		return parse_name(s, t);
	}
	if (accept(s, "!")) {
		int r = parse_word(s, t);
		t->open = true;
		return r;
	}
	if (isdigit((unsigned char)*s->p) || *s->p == '-') {
		char *end;
		t->kind = TERM_NUMBER;
		t->number = strtod(s->p, &end);
		if (end == s->p)
			return fault(s, "a number");
		s->p = end;
		return 0;
	}
	return parse_word(s, t);
}

/* ---- statements ------------------------------------------------------------------------------ */

static int parse_statement(struct parser *s, struct statement *st)
{
	st->outs = arena_new_n(s->arena, int, 16);
	do {
		skip_blanks(s);
		size_t n = identifier_length(s->p, false);
		if (!n || st->nouts == 16)
			return fault(s, "the name of an output");
		bool none = n == 1 && *s->p == '_';
		st->outs[st->nouts++] = none ? NO_VAR : add_name(s, s->vars, s->p, n);
		s->p += n;
	} while (accept(s, ","));
	if (!accept(s, "="))
		return fault(s, "'='");
	return parse_term(s, &st->expr);
}

int text_parse(const char *text, struct names *vars, struct names *labels, struct arena *a,
	       const char *where, struct pattern **out, struct diag *d)
{
	struct parser s = {.text = text,
			   .p = text,
			   .vars = vars,
			   .labels = labels,
			   .arena = a,
			   .where = where,
			   .diag = d};
	struct pattern *p = *out = arena_new(a, struct pattern);
	int max = 1;

	for (const char *c = text; *c; c++)
		max += *c == ';';
	p->statements = arena_new_n(a, struct statement, (size_t)max);
	do {
		skip_blanks(&s);
		if (!*s.p)
			break; /* the text may end with ';' */
		int r = parse_statement(&s, &p->statements[p->n++]);
		if (r)
			return r;
	} while (accept(&s, ";"));
	skip_blanks(&s);
	return *s.p ? fault(&s, "';' or the end") : 0;
}
