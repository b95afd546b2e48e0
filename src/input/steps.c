/* SPDX-License-Identifier: Apache-2.0 */
#include "input/steps.h"

#include "base/str.h"
#include "input/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *word, *text;
	/* usual names of inputs that follow this rule, as exporters of decoders write them */
	const char *name[2];
} rules[DERIVE_RULES] = {
	[DERIVE_ONES] = {"ones", "ones for all positions so far", {"attention_mask"}},
	[DERIVE_POSITIONS] = {"positions",
			      "the positions of this step",
			      {"position_ids", "cache_position"}},
	[DERIVE_TOTAL] = {"total", "the number of positions so far", {"total_sequence_length"}},
	[DERIVE_LAST] = {"last", "the number of the last position", {"seqlens_k"}},
	[DERIVE_PAST] = {"past", "the number of positions before this step", {"past_sequence_length"}},
	[DERIVE_CACHED] = {"cached",
			   "whether there are positions before this step",
			   {"use_cache_branch"}},
};
#define RULE_WORDS "ones, positions, total, last, past or cached"

const char *derive_word(enum derive_rule rule)
{
	return rules[rule].word;
}

const char *derive_text(enum derive_rule rule)
{
	return rules[rule].text;
}

bool steps_wanted(const struct steps_request *r)
{
	return r->feed.n > 0 || r->slice.n > 0 || r->next.n > 0 || r->derive.n > 0;
}

/* ---- patterns */

static bool match_at(const char *p, const char *t, struct stars *s, int star)
{
	for (; *p && *p != '*'; p++, t++)
		if (*p != *t)
			return false;
	if (!*p) {
		s->n = star;
		return !*t;
	}
	if (star == MAX_STARS)
		return false;
	for (const char *end = t;; end++) {
		s->of[star] = t;
		s->length[star] = (size_t)(end - t);
		if (match_at(p + 1, end, s, star + 1))
			return true;
		if (!*end)
			return false;
	}
}

bool pattern_match(const char *pattern, const char *text, struct stars *stars)
{
	return match_at(pattern, text, stars, 0);
}

/* Replaces the stars of the pattern by the texts that those of another pattern stand for. Returns NULL if it has more stars. */
static const char *fill_stars(const char *pattern, const struct stars *s, struct arena *a)
{
	struct str b = {.arena = a};
	int k = 0;

	for (; *pattern; pattern++) {
		if (*pattern != '*') {
			str_add_n(&b, pattern, 1);
			continue;
		}
		if (k == s->n)
			return NULL;
		str_add_n(&b, s->of[k], s->length[k]);
		k++;
	}
	return str_get(&b);
}

/* ---- names */

struct parse {
	const struct steps_request *wanted;
	const struct input_request *request;
	const struct model *model;
	const char **in, **out;
	uint32_t nin, nout;
	struct steps *steps;
	struct arena *arena;
	struct diag *diag;
	const char *option; /* "--feed hn=h", for messages */
};

static int find_name(const char *const *names, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}

static int fail_name(const struct parse *p, const char *what, const char *name,
		     const char *const *names, uint32_t n)
{
	const char *near = str_nearest(name, names, n), *all = input_names(&p->diag->arena, names, n);

	return FAIL(p->diag, E_INPUT_NAME, .slot = p->option,
		    .message = fmt(p->diag, "the model has no %s '%s'", what, name),
		    .hint = near ? fmt(p->diag, "did you mean '%s'? its %ss are %s", near, what, all)
				 : fmt(p->diag, "its %ss are %s", what, all));
}

static int fail_form(const struct parse *p, const char *message, const char *expected,
		     const char *actual)
{
	return FAIL(p->diag, E_STEPS, .slot = p->option, .message = message, .expected = expected,
		    .actual = fmt(p->diag, "'%s'", actual));
}

/* Finds the input of this name; returns its position, or -code with a finding. */
static int find_input(const struct parse *p, const char *name)
{
	int i = find_name(p->in, p->nin, name);

	return i >= 0 ? i : fail_name(p, "input", name, p->in, p->nin);
}

static int find_output(const struct parse *p, const char *name)
{
	int i = find_name(p->out, p->nout, name);

	return i >= 0 ? i : fail_name(p, "output", name, p->out, p->nout);
}

static const struct value *input_value(const struct parse *p, uint32_t i)
{
	return p->model->graph->value[p->model->graph->in[i]];
}

#define FIND_BY_INPUT(list, n)                                                                     \
	for (uint32_t i = 0; s && i < s->n; i++)                                                   \
		if (s->list[i].in == in)                                                           \
			return &s->list[i];                                                        \
	return NULL

static const struct slice *slice_of(const struct steps *s, uint32_t in)
{
	FIND_BY_INPUT(slice, nslice);
}

static const struct next *next_of(const struct steps *s, uint32_t in)
{
	FIND_BY_INPUT(next, nnext);
}

/* Returns the option that already sets this input in each step, or NULL. */
static const char *made_by(const struct parse *p, uint32_t in)
{
	const struct steps *s = p->steps;

	return steps_feed_of(s, in)	? "--feed"
	       : slice_of(s, in)	? "--slice"
	       : next_of(s, in)		? "--next"
	       : steps_derive_of(s, in) ? "--derive"
					: NULL;
}

static int refuse_second_maker(const struct parse *p, uint32_t in)
{
	const char *by = made_by(p, in);

	return !by ? 0
		   : FAIL(p->diag, E_STEPS, .slot = p->option,
			  .message = fmt(p->diag, "input '%s' is made twice in each step", p->in[in]),
			  .expected = "one option that makes it",
			  .actual = fmt(p->diag, "%s as well", by));
}

/* Fails if the text begins with an input that the outputs of --output do not need. */
static int refuse_unneeded(const struct parse *p, const char *text)
{
	const struct model *m = p->model;
	const char *rest;
	int i = spec_name(text, "=.", m->unneeded, m->nunneeded, &rest);

	return i < 0 ? 0
		     : FAIL(p->diag, E_INPUT_NAME, .slot = p->option,
			    .message = fmt(p->diag, "none of the outputs of --output needs input '%s'",
					   m->unneeded[i]),
			    .hint = "name an output that needs it as well");
}

/* Splits "A=B" at this '='. Returns the text behind it, or NULL. *left becomes A. */
static const char *split_at(const struct parse *p, const char *text, const char *eq, const char **left)
{
	*left = eq ? arena_strn(p->arena, text, (size_t)(eq - text)) : NULL;
	return eq && eq != text && eq[1] ? eq + 1 : NULL;
}

/*
 * Splits "IN=B" or "IN.AXIS=B" behind the longest name of an input, as names may hold '='. If it begins with none, at the first '='.
 * Returns the text behind, or NULL. *left is what stands before.
 */
static const char *split(const struct parse *p, const char *text, const char **left)
{
	const char *rest = text;

	if (spec_name(text, "=", p->in, p->nin, &rest) >= 0)
		return split_at(p, text, rest - 1, left);
	(void)spec_name(text, ".", p->in, p->nin, &rest);
	return split_at(p, text, strchr(rest, '='), left);
}

/* ---- --feed */

static int add_feed(struct parse *p, uint32_t out, uint32_t in)
{
	const struct graph *g = p->model->graph;
	const struct type from = g->value[g->out[out]]->info.type, to = input_value(p, in)->info.type;
	int rc = refuse_second_maker(p, in);

	if (rc)
		return rc;
	if (from.kind != V_NONE && to.kind != V_NONE &&
	    (from.kind != V_TENSOR || to.kind != V_TENSOR || from.dtype != to.dtype ||
	     from.dtype == DT_STRING))
		return FAIL(p->diag, E_STEPS, .slot = p->option,
			    .message = fmt(p->diag, "output '%s' cannot come back as input '%s'",
					   p->out[out], p->in[in]),
			    .expected = fmt(p->diag, "%s, and a tensor of numbers",
					    type_str(&p->diag->arena, to)),
			    .actual = type_str(&p->diag->arena, from));
	p->steps->feed[p->steps->nfeed++] = (struct feed){out, in};
	return 0;
}

/* Matches the name of an output with a pattern. If an output has the pattern's own text as its name, it alone is meant. */
static bool match_output(const struct parse *p, const char *pattern, uint32_t k, struct stars *stars)
{
	bool same = !strcmp(pattern, p->out[k]);

	return pattern_match(pattern, p->out[k], stars) &&
	       (same || find_name(p->out, p->nout, pattern) < 0);
}

/* Splits "OUT=IN" at the first '=' with an output before it and an input behind it; at the first of all if there is none. */
static const char *split_feed(const struct parse *p, const char *text, const char **out)
{
	struct stars stars;

	for (const char *eq = strchr(text, '='); eq; eq = strchr(eq + 1, '=')) {
		const char *in = split_at(p, text, eq, out);
		for (uint32_t k = 0; in && k < p->nout; k++) {
			const char *name = match_output(p, *out, k, &stars)
						   ? fill_stars(in, &stars, p->arena)
						   : NULL;
			if (name && find_name(p->in, p->nin, name) >= 0)
				return in;
		}
	}
	return split_at(p, text, strchr(text, '='), out);
}

static int parse_feed(struct parse *p, const char *text)
{
	const char *out, *in = split_feed(p, text, &out);
	struct stars stars;
	int rc = 0, n = 0;

	if (!in)
		return fail_form(p, "it does not say which output comes back as which input",
				 "OUT=IN, as 'present.*=past_key_values.*'", text);
	for (uint32_t k = 0; !rc && k < p->nout; k++) {
		if (!match_output(p, out, k, &stars))
			continue;
		const char *name = fill_stars(in, &stars, p->arena);
		if (!name)
			return fail_form(p, "IN has more * than OUT",
					 "as many * on both sides, four at most", text);
		int i = find_input(p, name);
		rc = i < 0 ? i : add_feed(p, k, (uint32_t)i);
		n++;
	}
	if (!rc && !n)
		rc = strchr(out, '*')
			     ? FAIL(p->diag, E_INPUT_NAME, .slot = p->option,
				    .message =
					    fmt(p->diag, "no output of the model matches '%s'", out),
				    .hint = fmt(p->diag, "its outputs are %s",
						input_names(&p->diag->arena, p->out, p->nout)))
			     : fail_name(p, "output", out, p->out, p->nout);
	return rc;
}

/* ---- --slice */

static bool parse_count(const char *s, size_t n, int64_t least, int64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(*v, (int64_t)10, v) ||
		    __builtin_add_overflow(*v, (int64_t)(s[i] - '0'), v))
			return false;
	return n && *v >= least && *v <= INT64_MAX / 4;
}

/* Finds the axis of the input that the text names (a dimension's name or its number), or -1. */
static int find_axis(const struct parse *p, uint32_t in, const char *name)
{
	const struct shape *shape = &input_value(p, in)->info.shape;
	int64_t k;

	for (int i = 0; i < shape->rank; i++)
		if (dim_is_sym(shape->dim[i]) &&
		    !strcmp(p->model->symbols[DIM_SYM_ID(shape->dim[i])], name))
			return i;
	return parse_count(name, strlen(name), 0, &k) && k < shape->rank ? (int)k : -1;
}

/* Finds NAME or NAME.AXIS among the inputs. Returns 0 or -code. */
static int parse_place(const struct parse *p, const char *place, struct slice *s)
{
	const char *axis = NULL;
	int in = find_name(p->in, p->nin, place);

	if (in < 0) {
		in = spec_name(place, ".", p->in, p->nin, &axis);
		if (in < 0)
			return find_input(p, place);
	}
	const struct shape *shape = &input_value(p, (uint32_t)in)->info.shape;
	s->in = (uint32_t)in;
	s->axis = axis ? find_axis(p, s->in, axis) : shape->rank - 1;
	if (s->axis >= 0)
		return 0;
	return FAIL(p->diag, E_STEPS, .slot = p->option,
		    .message = axis ? fmt(p->diag, "input '%s' has no axis '%s'", p->in[in], axis)
				    : fmt(p->diag, "input '%s' has no axis to walk along", p->in[in]),
		    .expected = "NAME.AXIS, the axis by its name or number",
		    .actual = shape_str(&p->diag->arena, shape, p->model->symbols));
}

static bool parse_slice_key(struct slice *s, const char *key)
{
	static const char *const rest[] = {"pad", "drop", "keep"};

	if (str_starts(key, "lead="))
		return parse_count(key + 5, strlen(key + 5), 0, &s->lead);
	for (int i = 0; i < 3 && str_starts(key, "rest="); i++)
		if (!strcmp(key + 5, rest[i])) {
			s->rest = (enum slice_rest)i;
			return true;
		}
	return false;
}

static int parse_slice(struct parse *p, const char *text)
{
	static const char form[] = "NAME[.AXIS]=SIZE[:STEP][,lead=N][,rest=pad|drop|keep]";
	struct slice s = {0};
	const char *place, *value = split(p, text, &place);
	size_t n = value ? strcspn(value, ":,") : 0, m;

	if (value && n && strspn(value, "0123456789") == n && !parse_count(value, n, 0, &s.size))
		return fail_form(p, "this number of elements is too large", form, text);
	if (!value || !parse_count(value, n, 1, &s.size))
		return fail_form(p, "it does not say how many elements a step gets", form, text);
	s.stride = s.size;
	value += n;
	if (*value == ':') {
		m = strcspn(++value, ",");
		if (!parse_count(value, m, 1, &s.stride))
			return fail_form(p, "STEP is the distance of two pieces, 1 or more", form,
					 text);
		value += m;
	}
	while (*value == ',') {
		m = strcspn(++value, ",");
		const char *key = arena_strn(p->arena, value, m);
		if (!parse_slice_key(&s, key))
			return fail_form(p, fmt(p->diag, "'%s' is no key of --slice", key), form,
					 text);
		value += m;
	}
	int rc = parse_place(p, place, &s);
	rc = rc ? rc : refuse_second_maker(p, s.in);
	if (!rc)
		p->steps->slice[p->steps->nslice++] = s;
	return rc;
}

/* ---- --next */

static bool parse_next_key(struct next *x, const char *key)
{
	char *end;

	if (str_starts(key, "top="))
		return parse_count(key + 4, strlen(key + 4), 1, &x->top);
	if (!str_starts(key, "temperature="))
		return false;
	x->temperature = strtod(key + 12, &end);
	return key[12] && !*end && isfinite(x->temperature) && x->temperature > 0;
}

static bool holds_ids(const struct type t)
{
	return t.kind == V_NONE || (t.kind == V_TENSOR && (t.dtype == DT_I64 || t.dtype == DT_I32));
}

static int check_next(const struct parse *p, const struct next *x)
{
	const struct graph *g = p->model->graph;
	const struct vinfo *in = &input_value(p, x->in)->info, *out = &g->value[g->out[x->out]]->info;

	if (!holds_ids(in->type) || in->shape.rank > 2)
		return FAIL(p->diag, E_STEPS, .slot = p->option,
			    .message = fmt(p->diag, "input '%s' takes no ids", p->in[x->in]),
			    .expected = "i64 or i32 [batch, positions]",
			    .actual = fmt(p->diag, "%s %s", type_str(&p->diag->arena, in->type),
					  shape_str(&p->diag->arena, &in->shape, p->model->symbols)));
	if (out->type.kind != V_NONE &&
	    (out->type.kind != V_TENSOR || !(T_BIT(out->type.dtype) & T_FLOATS_BF)))
		return FAIL(p->diag, E_STEPS, .slot = p->option,
			    .message = fmt(p->diag, "output '%s' holds no scores", p->out[x->out]),
			    .expected = "a tensor of f32, f16, bf16 or f64",
			    .actual = type_str(&p->diag->arena, out->type));
	return 0;
}

static int parse_next(struct parse *p, const char *text)
{
	static const char form[] = "IN=argmax:OUT or IN=sample:OUT[,temperature=T][,top=K]";
	struct next x = {.temperature = 1};
	const char *name, *how = split(p, text, &name);
	size_t n = how ? strcspn(how, ":") : 0;

	if (!how || how[n] != ':' ||
	    !((n == 6 && !strncmp(how, "argmax", n)) || (n == 6 && !strncmp(how, "sample", n))))
		return fail_form(p, "it does not say how the next ids are chosen", form, text);
	x.sample = *how == 's';
	how += n + 1;
	/* the keys stand behind the last commas, as an output's name may hold commas */
	char *out = arena_str(p->arena, how), *comma;
	while (x.sample && (comma = strrchr(out, ',')) != NULL && parse_next_key(&x, comma + 1))
		*comma = '\0';
	int in = find_input(p, name);
	if (in < 0)
		return in;
	const char *key = x.sample ? strrchr(out, ',') : NULL;
	if (key && str_starts(key + 1, "temperature="))
		return FAIL(p->diag, E_STEPS, .slot = p->option,
			    .message = "a temperature divides the scores before an id is drawn",
			    .expected = "a number above 0", .actual = fmt(p->diag, "'%s'", key + 13),
			    .hint = fmt(p->diag,
					"%s=argmax:OUT always takes the best id, as a temperature of 0 would",
					name));
	int k = find_output(p, out);
	if (k < 0) {
		if (strchr(out, ',') && p->diag->last)
			p->diag->last->expected = form;
		return k;
	}
	x.in = (uint32_t)in;
	x.out = (uint32_t)k;
	int rc = refuse_second_maker(p, x.in);
	rc = rc ? rc : check_next(p, &x);
	if (!rc)
		p->steps->next[p->steps->nnext++] = x;
	return rc;
}

/* ---- --derive */

static bool holds_rule(const struct parse *p, uint32_t in)
{
	const struct type t = input_value(p, in)->info.type;

	return t.kind == V_TENSOR && t.dtype != DT_STRING && dtype_bits((enum dtype)t.dtype) >= 8 &&
	       dtype_class((enum dtype)t.dtype) != DT_COMPLEX;
}

static int parse_derive(struct parse *p, const char *text)
{
	const char *name, *word = split(p, text, &name);
	int rule = 0;

	while (word && rule < DERIVE_RULES && strcmp(word, rules[rule].word) != 0)
		rule++;
	if (!word || rule == DERIVE_RULES)
		return fail_form(p, "it does not say what the input follows from",
				 "NAME=RULE; rules are " RULE_WORDS, text);
	int in = find_input(p, name);
	int rc = in < 0 ? in : refuse_second_maker(p, (uint32_t)in);
	if (rc)
		return rc;
	if (!holds_rule(p, (uint32_t)in))
		return fail_form(p, fmt(p->diag, "input '%s' cannot hold numbers of positions", name),
				 "a tensor of numbers",
				 type_str(&p->diag->arena, input_value(p, (uint32_t)in)->info.type));
	p->steps->derive[p->steps->nderive++] =
		(struct derive){(uint32_t)in, (enum derive_rule)rule, false};
	return 0;
}

/* Whether an --input or --random names this input, so that it is not derived by its name. */
static bool is_given(const struct parse *p, uint32_t in)
{
	const struct texts *const lists[] = {&p->request->input, &p->request->random};
	const char *rest;

	for (int k = 0; k < 2; k++)
		for (int64_t i = 0; i < lists[k]->n; i++)
			if (spec_name(lists[k]->v[i].s, "=:", p->in, p->nin, &rest) == (int)in)
				return true;
	return false;
}

/*
 * Derives inputs by the names that exporters of decoders give them. Each is told, because a name is no proof; --strict
 * asks for the option instead.
 */
static int derive_by_names(struct parse *p)
{
	for (uint32_t i = 0; i < p->nin; i++) {
		for (int r = 0; r < DERIVE_RULES; r++) {
			bool fits = false;
			for (int k = 0; k < 2; k++)
				fits |= rules[r].name[k] && !strcmp(rules[r].name[k], p->in[i]);
			if (!fits || made_by(p, i) || is_given(p, i) || !holds_rule(p, i))
				continue;
			const char *option = fmt(p->diag, "--derive %s=%s", p->in[i], rules[r].word);
			if (p->request->strict)
				return FAIL(p->diag, E_STEPS,
					    .message = fmt(p->diag, "nothing makes input '%s'",
							   p->in[i]),
					    .hint = fmt(p->diag, "its name suggests %s", option));
			NOTE(p->diag, E_STEPS,
			     .message = fmt(p->diag, "input '%s' is derived by its name: %s",
					    p->in[i], rules[r].text),
			     .hint = fmt(p->diag, "%s says the same", option));
			p->steps->derive[p->steps->nderive++] =
				(struct derive){i, (enum derive_rule)r, true};
		}
	}
	return 0;
}

/* ---- all */

static int parse_list(struct parse *p, const char *name, const struct texts *list,
		      int (*parse)(struct parse *, const char *))
{
	int rc = 0;

	for (int64_t i = 0; !rc && i < list->n; i++) {
		const struct input_request *r = p->request;
		const char *by = r->origin ? r->origin(r->options, name, list->v[i].s) : NULL;
		p->option = fmt(p->diag, "%s%s %s", by ? by : "--", by ? "" : name, list->v[i].s);
		rc = parse == parse_feed ? 0 : refuse_unneeded(p, list->v[i].s);
		rc = rc ? rc : parse(p, list->v[i].s);
	}
	return rc;
}

static struct steps *new_steps(const struct parse *p)
{
	struct steps *s = arena_new(p->arena, struct steps);

	s->feed = arena_new_n(p->arena, struct feed, p->nin + 1);
	s->slice = arena_new_n(p->arena, struct slice, p->nin + 1);
	s->next = arena_new_n(p->arena, struct next, p->nin + 1);
	s->derive = arena_new_n(p->arena, struct derive, p->nin + 1);
	return s;
}

struct steps *steps_parse(const struct steps_request *w, const struct input_request *r,
			  const struct model *m, struct arena *a, struct diag *d)
{
	const struct graph *g = m->graph;
	struct parse p = {.wanted = w,
			  .request = r,
			  .model = m,
			  .nin = g->nin,
			  .nout = g->nout,
			  .arena = a,
			  .diag = d};

	p.in = arena_new_n(a, const char *, g->nin + 1);
	p.out = arena_new_n(a, const char *, g->nout + 1);
	for (uint32_t i = 0; i < g->nin; i++)
		p.in[i] = g->value[g->in[i]]->name;
	for (uint32_t i = 0; i < g->nout; i++)
		p.out[i] = g->out_name[i];
	p.steps = new_steps(&p);
	int rc = parse_list(&p, "slice", &w->slice, parse_slice);
	rc = rc ? rc : parse_list(&p, "next", &w->next, parse_next);
	rc = rc ? rc : parse_list(&p, "derive", &w->derive, parse_derive);
	rc = rc ? rc : parse_list(&p, "feed", &w->feed, parse_feed);
	if (!rc && p.steps->nnext)
		rc = derive_by_names(&p);
	return rc ? NULL : p.steps;
}

/* ---- positions */

const struct feed *steps_feed_of(const struct steps *s, uint32_t in)
{
	FIND_BY_INPUT(feed, nfeed);
}

const struct derive *steps_derive_of(const struct steps *s, uint32_t in)
{
	FIND_BY_INPUT(derive, nderive);
}

bool steps_grows_by_name(const char *dim)
{
	static const char *const words[] = {"past", "seq", "len", "cache", "kv"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(dim, words[i]))
			return true;
	return false;
}

struct positions steps_first(const struct steps *s, const struct graph *g,
			     const struct shape *const *shape)
{
	struct positions at = {.past = 0, .now = 1};

	if (s->nnext && shape[s->next->in]->rank > 0)
		at.now = shape[s->next->in]->dim[shape[s->next->in]->rank - 1];
	else if (s->nslice)
		at.now = s->slice->size;
	/* a cache that a file gives: the positions are the size of its axis that the model leaves open, behind the batch */
	for (uint32_t k = 0; k < s->nfeed && !at.past; k++) {
		const struct shape *declared = &g->value[g->in[s->feed[k].in]]->info.shape;
		for (int i = 1; i < declared->rank && declared->rank >= 3 && !at.past; i++)
			if (declared->dim[i] < 0)
				at.past = shape[s->feed[k].in]->dim[i];
	}
	return at;
}

struct shape derive_shape(enum derive_rule rule, const struct shape *planned, struct positions at,
			  int64_t batch)
{
	struct shape s = *planned;

	for (int i = 0; i < s.rank; i++) {
		if (s.dim[i] >= 0)
			continue;
		bool last = i == s.rank - 1;
		s.dim[i] = last && rule == DERIVE_ONES	      ? at.past + at.now
			   : last && rule == DERIVE_POSITIONS ? at.now
							      : batch;
	}
	return s;
}

bool derive_fill(enum derive_rule rule, struct positions at, struct tensor *t)
{
	enum dtype type = tensor_dtype(t);
	int64_t n = tensor_count(t), last = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;
	int64_t total = at.past + at.now;

	if (rule == DERIVE_ONES && last < total)
		return false;
	for (int64_t i = 0; i < n; i++) {
		int64_t v = rule == DERIVE_ONES	       ? i % last < total
			    : rule == DERIVE_POSITIONS ? at.past + i % last
			    : rule == DERIVE_TOTAL     ? total
			    : rule == DERIVE_LAST      ? total - 1
			    : rule == DERIVE_PAST      ? at.past
						       : at.past > 0;
		elem_set_i64(type, t->data, i, v);
	}
	return true;
}

int derive_fail(const char *name, struct positions at, const struct tensor *t, struct diag *d)
{
	return FAIL(d, E_STEPS, .slot = fmt(d, "input '%s'", name),
		    .message = "there are more positions than it has room for",
		    .expected = fmt(d, "at most %" PRId64,
				    t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1),
		    .actual = fmt(d, "%" PRId64, at.past + at.now),
		    .hint = "take fewer steps, or a shorter prompt");
}
