/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the shapes of a node's inputs against the texts in its operator's slots (`.dims`, explained in ops/op.h). The texts
 * are read each time, since they are a few characters long and compiling them would take a table as large as the registry.
 */
#include "ops/infer_util.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { MAX_VARIABLES = 24 };

/* A part of a text. */
struct part {
	const char *s;
	size_t n;
};

/* The sizes that the variables of one node are bound to. */
struct sizes {
	struct part name[MAX_VARIABLES];
	int64_t size[MAX_VARIABLES];
	int n;
	struct shape rest; /* dimensions that "..." stands for; rank -1 until an operand binds it */
};

struct dims {
	const struct infer *c;
	const struct op *op;
	struct sizes bound;
	bool deferred; /* a product of two unbound variables was skipped, so that another look may tell more */
	/* the attribute that counts as a variable, to find out whether another value of it would fit; NULL if none does */
	const struct field *freed;
	bool quiet; /* only the result counts: make no finding */
	/* an attribute that does not divide the dimension of size `undivided_size`, where a term says that it does; or NULL */
	const struct field *undivided;
	int64_t undivided_size;
	const struct slot *failed; /* of the operand that does not fit */
};

static bool part_is(struct part p, const char *word)
{
	return p.n == strlen(word) && !memcmp(p.s, word, p.n);
}

/* Takes the next part off the text: what stands before one of the separators, without spaces. */
static struct part next_part(struct part *text, char separator)
{
	struct part p;

	while (text->n && *text->s == ' ') {
		text->s++;
		text->n--;
	}
	p = (struct part){text->s, 0};
	while (p.n < text->n && p.s[p.n] != separator)
		p.n++;
	size_t taken = p.n < text->n ? p.n + 1 : p.n;
	text->s += taken;
	text->n -= taken;
	while (p.n && p.s[p.n - 1] == ' ')
		p.n--;
	return p;
}

static struct part text_of(const char *s)
{
	return (struct part){s, strlen(s)};
}

static const struct field *attribute_of(const struct op *op, struct part name)
{
	for (const struct field *f = op->attrs; f && f->name; f++)
		if (part_is(name, f->name) && f->type == F_INT)
			return f;
	return NULL;
}

/* The value of `$name`, or DIM_UNKNOWN if it is not above 0: such a value is absent, or the shape function refuses it. */
static int64_t attribute_size(const struct dims *d, struct part factor)
{
	const struct field *f = attribute_of(d->op, (struct part){factor.s + 1, factor.n - 1});
	int64_t v;

	if (!f || !d->c->node->params || f == d->freed)
		return DIM_UNKNOWN;
	memcpy(&v, (const char *)d->c->node->params + f->off, sizeof(v));
	return v > 0 ? v : DIM_UNKNOWN;
}

static int64_t number_of(struct part p)
{
	int64_t v = 0;

	for (size_t i = 0; i < p.n; i++)
		v = 10 * v + (p.s[i] - '0');
	return v;
}

static int variable_at(const struct sizes *b, struct part name)
{
	for (int i = 0; i < b->n; i++)
		if (b->name[i].n == name.n && !memcmp(b->name[i].s, name.s, name.n))
			return i;
	return -1;
}

/* The size that a factor stands for, or DIM_UNKNOWN. */
static int64_t factor_size(const struct dims *d, struct part factor)
{
	int k;

	if (isdigit((unsigned char)*factor.s))
		return number_of(factor);
	if (*factor.s == '$' &&
	    !(d->freed && attribute_of(d->op, (struct part){factor.s + 1, factor.n - 1}) == d->freed))
		return attribute_size(d, factor);
	k = variable_at(&d->bound, factor);
	return k < 0 ? DIM_UNKNOWN : d->bound.size[k];
}

/*
 * Multiplies the known factors of a term. *open is the factor that is not known, with n = 0 if there is none. Returns false if
 * the term says nothing: two factors are not known, or the product overflows.
 */
static bool term_product(struct dims *d, struct part term, int64_t *product, struct part *open)
{
	*product = 1;
	*open = (struct part){NULL, 0};
	while (term.n) {
		struct part factor = next_part(&term, '*');
		int64_t v = factor_size(d, factor);

		if (v >= 0) {
			if (__builtin_mul_overflow(*product, v, product))
				return false;
		} else if (open->n) {
			d->deferred = true;
			return false;
		} else {
			*open = factor;
		}
	}
	return true;
}

/* The attribute of a term such as "$group*C"; NULL if its first factor is none. */
static const struct field *first_attribute(const struct op *op, struct part term)
{
	struct part factor = next_part(&term, '*');

	return factor.n && *factor.s == '$'
		       ? attribute_of(op, (struct part){factor.s + 1, factor.n - 1})
		       : NULL;
}

/* Whether a dimension can be what the term says; binds the variable that it tells. */
static bool dim_fits(struct dims *d, struct part term, int64_t dim)
{
	bool or_one = term.n && term.s[term.n - 1] == '?';
	struct part open;
	int64_t product;

	if (dim < 0 || part_is(term, "_") || (or_one && dim == 1))
		return true;
	term.n -= or_one;
	if (!term_product(d, term, &product, &open))
		return true;
	if (!open.n)
		return dim == product;
	if (!product || dim % product) {
		d->undivided = first_attribute(d->op, term);
		d->undivided_size = dim;
		return false;
	}
	bool variable = *open.s != '$' ||
			(d->freed && part_is((struct part){open.s + 1, open.n - 1}, d->freed->name));
	if (variable && d->bound.n < MAX_VARIABLES) {
		d->bound.name[d->bound.n] = open;
		d->bound.size[d->bound.n++] = dim / product;
	}
	return true;
}

/* Whether the dimensions from `from` on are those that "..." stands for; binds them if they are all known. */
static bool rest_fits(struct dims *d, const struct shape *s, int from, int n)
{
	struct shape rest = shape_of(n, s->dim + from), *bound = &d->bound.rest;

	if (bound->rank < 0) {
		*bound = rest;
		return true;
	}
	if (bound->rank != n)
		return false;
	for (int i = 0; i < n; i++) {
		if (bound->dim[i] < 0)
			bound->dim[i] = rest.dim[i];
		else if (rest.dim[i] >= 0 && rest.dim[i] != bound->dim[i])
			return false;
	}
	return true;
}

static bool is_list(struct part term)
{
	return part_is(term, "...") || part_is(term, "_...");
}

/* Number of terms of an alternative, without lists of dimensions; *lists is set to the number of these. */
static int count_terms(struct part alternative, int *lists)
{
	int n = 0;

	*lists = 0;
	if (part_is(alternative, "()"))
		return 0;
	while (alternative.n) {
		if (is_list(next_part(&alternative, ' ')))
			++*lists;
		else
			n++;
	}
	return n;
}

static bool alternative_fits(struct dims *d, struct part alternative, const struct shape *s)
{
	int lists, n = count_terms(alternative, &lists), at = 0;

	if (lists ? s->rank < n : s->rank != n)
		return false;
	if (part_is(alternative, "()"))
		return true;
	while (alternative.n) {
		struct part term = next_part(&alternative, ' ');
		int many = is_list(term) ? s->rank - n : 1;

		if (!is_list(term) ? !dim_fits(d, term, s->dim[at])
				   : *term.s == '.' && !rest_fits(d, s, at, many))
			return false;
		at += many;
	}
	return true;
}

/* ---- what is expected, as a text --------------------------------------------------------------- */

static const char *term_text(struct dims *d, struct part term)
{
	struct part all = term, open;
	bool or_one = term.s[term.n - 1] == '?';
	int64_t product;

	if (part_is(term, "...") && shape_known(&d->bound.rest)) {
		const char *text = shape_str(&d->c->diag->arena, &d->bound.rest, NULL);
		return fmt(d->c->diag, "%.*s", (int)strlen(text) - 2, text + 1);
	}
	if (is_list(term))
		return "...";
	if (part_is(term, "_"))
		return "?";
	term.n -= or_one;
	if (!term_product(d, term, &product, &open))
		return fmt(d->c->diag, "%.*s", (int)all.n, all.s);
	const char *one = or_one ? " or 1" : "";
	if (!open.n)
		return fmt(d->c->diag, "%" PRId64 "%s", product, one);
	if (product == 1)
		return fmt(d->c->diag, "%.*s%s", (int)open.n, open.s, one);
	return fmt(d->c->diag, "%" PRId64 "*%.*s%s", product, (int)open.n, open.s, one);
}

static const char *alternative_text(struct dims *d, struct part alternative)
{
	const char *text = "";

	if (part_is(alternative, "()"))
		return "[]";
	while (alternative.n) {
		struct part term = next_part(&alternative, ' ');
		const char *dim = term_text(d, term);

		/* "..." may stand for no dimension at all */
		if (*dim)
			text = fmt(d->c->diag, "%s%s%s", text, *text ? "," : "", dim);
	}
	return fmt(d->c->diag, "[%s]", text);
}

static const char *expected_text(struct dims *d, const char *dims)
{
	struct part text = text_of(dims);
	const char *all = "";

	while (text.n) {
		struct part alternative = next_part(&text, '|');

		all = fmt(d->c->diag, "%s%s%s", all, *all ? " or " : "",
			  alternative_text(d, alternative));
	}
	return all;
}

/* ---- the inputs of a node ------------------------------------------------------------------------ */

static int check_input_dims(struct dims *d, uint32_t i, const struct slot *slot)
{
	const struct vinfo *v = infer_in(d->c, i);
	struct part text = text_of(slot->dims);
	const struct sizes before = d->bound;

	if (!v || v->type.kind != V_TENSOR || v->shape.rank < 0)
		return 0;
	while (text.n) {
		struct part alternative = next_part(&text, '|');

		if (alternative_fits(d, alternative, &v->shape))
			return 0;
		d->bound = before;
	}
	d->failed = slot;
	return d->c->diag && !d->quiet
		       ? infer_fail(d->c, E_SHAPE, (int)i, expected_text(d, slot->dims),
				    shape_str(&d->c->diag->arena, &v->shape, NULL))
		       : -(int)E_SHAPE;
}

/*
 * Looks at the inputs that are constants, or at the others. Constants bind the variables first, because what the file fixes is
 * more likely to be right than what a caller feeds: a picture whose channels lie last is to blame, not the weights.
 */
static int check_inputs(struct dims *d, bool constants)
{
	const struct slot *s = d->op->in;
	int err = 0;

	for (uint32_t i = 0; !err && s->name && i < d->c->node->nin; i++) {
		const struct vinfo *v = infer_in(d->c, i);

		if (v && s->dims && constants == (v->known != NULL))
			err = check_input_dims(d, i, s);
		s += !s->variadic;
	}
	return err;
}

static int check_all(struct dims *d)
{
	int err = check_inputs(d, true);

	if (!err)
		err = check_inputs(d, false);
	if (!err && d->deferred)
		err = check_inputs(d, true);
	if (!err && d->deferred)
		err = check_inputs(d, false);
	return err;
}

/*
 * If the shapes agree with one another and only an attribute, such as a group or a number of heads, contradicts them, the
 * attribute is what is wrong. Returns 0 if no attribute is to blame. An attribute that is 1 or absent is never blamed: there the
 * sizes are the more likely mistake.
 */
static int blame_attribute(const struct infer *c, const struct op *op)
{
	for (const struct field *f = op->attrs; f && f->name; f++) {
		struct dims with = {.c = c, .op = op, .bound.rest.rank = -1, .quiet = true},
			    without = with;
		char term[64];
		struct part name = {term, (size_t)snprintf(term, sizeof(term), "$%s", f->name)};

		if (f->type != F_INT || name.n >= sizeof(term))
			continue;
		int64_t now = attribute_size(&with, name);
		without.freed = f;
		if (now <= 1 || check_all(&without))
			continue;
		int k = variable_at(&without.bound, name);
		if (k >= 0)
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  fmt(c->diag,
					      "%s %" PRId64 ", as the shapes of the inputs say",
					      f->name, without.bound.size[k]),
					  fmt(c->diag, "%s %" PRId64, f->name, now));
	}
	return 0;
}

int infer_dims(const struct infer *c, const struct op *op)
{
	struct dims d = {.c = c, .op = op, .bound.rest.rank = -1, .quiet = true};
	int err = check_all(&d);

	if (!err || !c->diag)
		return err;
	/* the size of an operand that may be left out, such as a bias, is wrong more often than what the others agree upon */
	int blamed = d.failed->optional ? 0 : blame_attribute(c, op);
	if (blamed)
		return blamed;
	if (d.undivided) {
		const char *name = d.undivided->name;
		struct part term = {fmt(c->diag, "$%s", name), strlen(name) + 1};
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "a %s that divides %" PRId64, name, d.undivided_size),
				  fmt(c->diag, "%s %" PRId64, name, attribute_size(&d, term)));
	}
	d = (struct dims){.c = c, .op = op, .bound.rest.rank = -1};
	return check_all(&d);
}

/* ---- are the texts well formed? -------------------------------------------------------------- */

static bool is_variable(struct part p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!isalpha((unsigned char)p.s[i]))
			return false;
	return p.n > 0;
}

static bool factor_valid(const struct op *op, struct part factor)
{
	size_t digits = 0;

	while (digits < factor.n && isdigit((unsigned char)factor.s[digits]))
		digits++;
	if (digits)
		return digits == factor.n && digits < 10;
	if (factor.n && *factor.s == '$')
		return attribute_of(op, (struct part){factor.s + 1, factor.n - 1}) != NULL;
	return is_variable(factor);
}

static bool term_valid(const struct op *op, struct part term)
{
	if (is_list(term) || part_is(term, "_"))
		return true;
	if (term.n && term.s[term.n - 1] == '?')
		term.n--;
	if (!term.n)
		return false;
	while (term.n)
		if (!factor_valid(op, next_part(&term, '*')))
			return false;
	return true;
}

bool dims_valid(const struct op *op, const char *dims)
{
	struct part text = text_of(dims);

	do {
		struct part alternative = next_part(&text, '|');
		int lists;

		count_terms(alternative, &lists);
		if (!alternative.n || lists > 1)
			return false;
		if (part_is(alternative, "()"))
			continue;
		while (alternative.n)
			if (!term_valid(op, next_part(&alternative, ' ')))
				return false;
	} while (text.n);
	return true;
}
