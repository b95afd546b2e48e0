/* SPDX-License-Identifier: Apache-2.0 */
#include "base/field.h"

#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- choices: "a|b|c" */

static size_t choice_length(const char *choice)
{
	return strcspn(choice, "|");
}

static const char *choice_next(const char *choice)
{
	choice += choice_length(choice);
	return *choice ? choice + 1 : NULL;
}

static int choice_find(const char *choices, const char *text)
{
	size_t n = strlen(text);
	int k = 0;

	for (const char *c = choices; c; c = choice_next(c), k++)
		if (choice_length(c) == n && memcmp(c, text, n) == 0)
			return k;
	return -1;
}

/* Returns choice k of "a|b|c", copied to the arena, or NULL if there are fewer choices. */
static const char *field_choice(const char *choices, int k, struct arena *a)
{
	for (const char *c = choices; c && k >= 0; c = choice_next(c), k--)
		if (k == 0)
			return arena_strn(a, c, choice_length(c));
	return NULL;
}

static const char *choice_nearest(const char *choices, const char *text, struct arena *a)
{
	const char *best = NULL;
	const char *names[2];

	for (int k = 0; (names[1] = field_choice(choices, k, a)); k++) {
		names[0] = best;
		best = str_nearest(text, names, 2);
	}
	return best;
}

/* ---- numbers */

struct unit {
	const char *name;
	double factor;
};
static const struct unit sizes[] = {
	{"", 1},       {"B", 1},	{"K", 0x1p10}, {"KiB", 0x1p10}, {"KB", 1e3},
	{"kB", 1e3},   {"k", 0x1p10},	{"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},
	{"G", 0x1p30}, {"GiB", 0x1p30}, {"GB", 1e9},   {"T", 0x1p40},	{"TiB", 0x1p40},
	{"TB", 1e12},  {NULL, 0},
};
static const struct unit durations[] = {
	{"", 1},
	{"s", 1},
	{"ms", 1e-3},
	{"us", 1e-6},
	{"ns", 1e-9},
	{"m", 60},
	{"min", 60},
	{"h", 3600},
	/* words that people write out */
	{"sec", 1},
	{"secs", 1},
	{"second", 1},
	{"seconds", 1},
	{"msec", 1e-3},
	{"usec", 1e-6},
	{"mins", 60},
	{"minute", 60},
	{"minutes", 60},
	{"hour", 3600},
	{"hours", 3600},
	{NULL, 0},
};

/* Refuses an empty text and leading white space, which strtod() would skip. */
static bool starts_number(const char *text)
{
	return *text && !isspace((unsigned char)*text);
}

static bool parse_int(const char *text, int64_t *v)
{
	char *end;

	if (!starts_number(text))
		return false;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	*v = (int64_t)n;
	return end != text && !*end && !errno;
}

static bool parse_double(const char *text, double *v)
{
	char *end;

	if (!starts_number(text))
		return false;
	*v = strtod(text, &end);
	return end != text && !*end;
}

static bool parse_float(const char *text, float *v)
{
	char *end;

	if (!starts_number(text))
		return false;
	*v = strtof(text, &end);
	return end != text && !*end;
}

static bool parse_unit(const char *text, const struct unit *units, double *v)
{
	char *end;

	if (!starts_number(text))
		return false;
	double n = strtod(text, &end);
	if (end == text || !isfinite(n) || n < 0)
		return false;
	while (*end == ' ')
		end++;
	for (; units->name; units++)
		if (strcmp(units->name, end) == 0) {
			*v = n * units->factor;
			return true;
		}
	return false;
}

static bool parse_size(const char *text, int64_t *v)
{
	double n;

	/* a size without a unit is parsed as an integer, since a double would round it */
	if (parse_int(text, v))
		return *v >= 0;
	if (!parse_unit(text, sizes, &n) || n >= 0x1p63)
		return false;
	*v = (int64_t)n;
	return true;
}

static bool parse_bool(const char *text, bool *v)
{
	static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(words[i], text) == 0) {
			*v = i & 1;
			return true;
		}
	return false;
}

static bool in_range(const struct field *f, double v)
{
	return !(f->min < f->max) || (v >= f->min && v <= f->max);
}

/* ---- lists: "1,2,3" */

static int64_t count_items(const char *text)
{
	int64_t n = *text ? 1 : 0;

	for (; *text; text++)
		n += *text == ',';
	return n;
}

/* Copies the next item of a comma-separated list and advances *text behind the item's comma. */
static char *next_item(const char **text, struct arena *a)
{
	size_t n = strcspn(*text, ",");
	char *item = arena_strn(a, *text, n);

	*text += n + ((*text)[n] == ',');
	return item;
}

static bool set_ints(const struct field *f, struct ints *out, const char *text, struct arena *a)
{
	int64_t n = count_items(text), *v = arena_new_n(a, int64_t, (size_t)n);

	for (int64_t i = 0; i < n; i++)
		if (!parse_int(next_item(&text, a), &v[i]) || !in_range(f, (double)v[i]))
			return false;
	*out = (struct ints){v, n};
	return true;
}

static bool set_floats(const struct field *f, struct floats *out, const char *text, struct arena *a)
{
	int64_t n = count_items(text);
	float *v = arena_new_n(a, float, (size_t)n);

	for (int64_t i = 0; i < n; i++)
		if (!parse_float(next_item(&text, a), &v[i]) || !in_range(f, (double)v[i]))
			return false;
	*out = (struct floats){v, n};
	return true;
}

static bool set_strings(struct texts *out, const char *text, struct arena *a)
{
	int64_t n = count_items(text);
	struct text *v = arena_new_n(a, struct text, (size_t)n);

	for (int64_t i = 0; i < n; i++) {
		v[i].s = next_item(&text, a);
		v[i].n = strlen(v[i].s);
	}
	*out = (struct texts){v, n};
	return true;
}

static bool add_text(struct texts *list, const char *text, struct arena *a)
{
	size_t n = list->n > 0 ? (size_t)list->n : 0;
	struct text *v = arena_append(a, list->v, n, sizeof(*v));

	v[n] = (struct text){arena_str(a, text), strlen(text)};
	*list = (struct texts){v, (int64_t)n + 1};
	return true;
}

/* ---- a field */

static bool set_float_field(const struct field *f, void *p, const char *text)
{
	float v;
	double w;

	if (f->type == F_FLOAT) {
		if (!parse_float(text, &v) || !in_range(f, (double)v))
			return false;
		memcpy(p, &v, sizeof(v));
		return true;
	}
	if (!(f->type == F_DURATION ? parse_unit(text, durations, &w) : parse_double(text, &w)) ||
	    !in_range(f, w))
		return false;
	memcpy(p, &w, sizeof(w));
	return true;
}

static bool set_int_field(const struct field *f, void *p, const char *text)
{
	int64_t v;

	if (!(f->type == F_SIZE ? parse_size(text, &v) : parse_int(text, &v)) ||
	    !in_range(f, (double)v))
		return false;
	memcpy(p, &v, sizeof(v));
	return true;
}

static bool set_enum_field(const struct field *f, void *p, const char *text)
{
	int k = choice_find(f->choices, text);

	if (k < 0)
		return false;
	memcpy(p, &k, sizeof(k));
	return true;
}

static bool set_string_field(const struct field *f, void *p, const char *text, struct arena *a)
{
	if (f->choices && choice_find(f->choices, text) < 0)
		return false;
	const char *copy = arena_str(a, text);
	memcpy(p, &copy, sizeof(copy));
	return true;
}

static bool set_field(const struct field *f, void *obj, const char *text, struct arena *a)
{
	void *p = (char *)obj + f->off;

	switch (f->type) {
	case F_BOOL: return parse_bool(text, p);
	case F_INT:
	case F_SIZE: return set_int_field(f, p, text);
	case F_FLOAT:
	case F_DOUBLE:
	case F_DURATION: return set_float_field(f, p, text);
	case F_STRING: return set_string_field(f, p, text, a);
	case F_ENUM: return set_enum_field(f, p, text);
	case F_INTS: return set_ints(f, p, text, a);
	case F_FLOATS: return set_floats(f, p, text, a);
	case F_STRINGS: return set_strings(p, text, a);
	case F_LIST: return add_text(p, text, a);
	case F_TENSOR:
	case F_TENSORS:
	case F_TYPE:
	case F_GRAPH: break;
	}
	return false;
}

static bool is_choice(const struct field *f)
{
	return f->choices && (f->type == F_ENUM || f->type == F_STRING);
}

/* A limit of the field: integers without an exponent. */
static const char *limit_text(const struct field *f, double v, struct arena *a)
{
	return fabs(v) < 1e15 && (f->type == F_INT || f->type == F_INTS) ? arena_printf(a, "%.0f", v)
									 : str_double(a, v);
}

static const char *takes_number(const struct field *f, const char *what, struct arena *a)
{
	if (!(f->min < f->max))
		return what;
	if (isinf(f->max))
		return arena_printf(a, "%s, at least %s", what, limit_text(f, f->min, a));
	return arena_printf(a, "%s from %s to %s", what, limit_text(f, f->min, a),
			    limit_text(f, f->max, a));
}

const char *field_takes(const struct field *f, struct arena *a)
{
	static const char *const what[] = {
		[F_BOOL] = "on or off",
		[F_INT] = "an integer",
		[F_FLOAT] = "a number",
		[F_DOUBLE] = "a number",
		[F_STRING] = "text",
		[F_SIZE] = "a size such as 512MiB",
		[F_DURATION] = "a time such as 200ms, 3s or 2m",
		[F_INTS] = "integers separated by commas",
		[F_FLOATS] = "numbers separated by commas",
		[F_STRINGS] = "texts separated by commas",
		[F_LIST] = "text",
		[F_GRAPH] = NULL,
	};

	if (is_choice(f)) {
		struct str s = {.arena = a};
		str_add(&s, "one of ");
		for (const char *c = f->choices; c; c = choice_next(c))
			str_addf(&s, "%s%.*s", c == f->choices ? "" : ", ", (int)choice_length(c), c);
		return str_get(&s);
	}
	return takes_number(f, what[f->type] ? what[f->type] : "a value of the model", a);
}

/*
 * Parses a list such as "1,2,4" for a field that accepts several values: keeps all values as text,
 * and sets the field to the first one.
 */
static bool set_axis(const struct field *f, void *obj, const char *text, struct arena *a)
{
	struct texts *list = (struct texts *)(void *)((char *)obj + f->axis), all;

	set_strings(&all, text, a);
	for (int64_t i = all.n - 1; i >= 0; i--)
		if (!set_field(f, obj, all.v[i].s, a))
			return false;
	*list = all.n > 1 ? all : (struct texts){NULL, 0};
	return all.n > 0;
}

int field_set(const struct field *f, void *obj, const char *text, const char *where,
	      struct arena *a, struct diag *d)
{
	const char *near = NULL;

	if (f->axis ? set_axis(f, obj, text, a) : set_field(f, obj, text, a))
		return 0;
	if (d && is_choice(f))
		near = choice_nearest(f->choices, text, a);
	return FAIL(d, E_OPTION, .slot = fmt(d, "%s", where), .message = "wrong value",
		    .expected = d ? fmt(d, "%s", field_takes(f, a)) : NULL,
		    .actual = fmt(d, "'%s'", text),
		    .hint = near ? fmt(d, "did you mean '%s'?", near) : NULL);
}

static void set_absent(const struct field *f, void *obj)
{
	static const int64_t absent = INT_ABSENT;
	static const int none = -1;
	static const float not_a_float = NAN;
	static const double not_a_double = NAN;
	static const bool off = false;
	static const struct ints no_ints = {NULL, -1};
	static const struct floats no_floats = {NULL, -1};
	static const struct texts no_strings = {NULL, -1}, no_list = {NULL, 0};
	static const void *const null = NULL;
	static const struct {
		const void *value;
		size_t size;
	} values[] = {
		[F_BOOL] = {&off, sizeof(off)},
		[F_INT] = {&absent, sizeof(absent)},
		[F_FLOAT] = {&not_a_float, sizeof(float)},
		[F_DOUBLE] = {&not_a_double, sizeof(double)},
		[F_STRING] = {&null, sizeof(null)},
		[F_ENUM] = {&none, sizeof(none)},
		[F_SIZE] = {&absent, sizeof(absent)},
		[F_DURATION] = {&not_a_double, sizeof(double)},
		[F_INTS] = {&no_ints, sizeof(no_ints)},
		[F_FLOATS] = {&no_floats, sizeof(no_floats)},
		[F_STRINGS] = {&no_strings, sizeof(no_strings)},
		[F_LIST] = {&no_list, sizeof(no_list)},
		[F_TENSOR] = {&null, sizeof(null)},
		[F_TENSORS] = {NULL, 0}, /* params are cleared before */
		[F_TYPE] = {&null, sizeof(null)},
		[F_GRAPH] = {&none, sizeof(none)},
	};

	if (values[f->type].size)
		memcpy((char *)obj + f->off, values[f->type].value, values[f->type].size);
}

bool field_defaults(const struct field *table, void *obj, struct arena *a)
{
	bool ok = true;

	for (const struct field *f = table; f && f->name; f++) {
		set_absent(f, obj);
		if (f->def)
			ok &= set_field(f, obj, f->def, a);
	}
	return ok;
}

/* ---- values as text */

static const char *print_size(int64_t v, struct arena *a)
{
	static const char units[] = "KMGT";
	int u = -1;

	while (v && v % 1024 == 0 && u < 3) {
		v /= 1024;
		u++;
	}
	return u < 0 ? arena_printf(a, "%" PRId64, v) : arena_printf(a, "%" PRId64 "%c", v, units[u]);
}

static const char *print_int(const struct field *f, int64_t v, struct arena *a)
{
	if (v == INT_ABSENT)
		return NULL;
	return f->type == F_SIZE ? print_size(v, a) : arena_printf(a, "%" PRId64, v);
}

static const char *print_texts(const struct texts *t, struct arena *a)
{
	struct str s = {.arena = a};

	if (t->n < 0)
		return NULL;
	for (int64_t i = 0; i < t->n; i++) {
		if (i)
			str_add_n(&s, ",", 1);
		str_add_n(&s, t->v[i].s, t->v[i].n);
	}
	return str_get(&s);
}

static const char *print_numbers(const struct field *f, const void *p, struct arena *a)
{
	const struct ints *ints = p;
	const struct floats *floats = p;
	int64_t n = f->type == F_INTS ? ints->n : floats->n;
	struct str s = {.arena = a};

	if (n < 0)
		return NULL;
	for (int64_t i = 0; i < n; i++) {
		str_add(&s, i ? "," : "");
		if (f->type == F_INTS)
			str_addf(&s, "%" PRId64, ints->v[i]);
		else
			str_add(&s, str_float(a, floats->v[i]));
	}
	return str_get(&s);
}

const char *field_print(const struct field *f, const void *obj, struct arena *a)
{
	const void *p = (const char *)obj + f->off;

	switch (f->type) {
	case F_BOOL: return *(const bool *)p ? "on" : "off";
	case F_INT:
	case F_SIZE: return print_int(f, *(const int64_t *)p, a);
	case F_FLOAT: return isnan(*(const float *)p) ? NULL : str_float(a, *(const float *)p);
	case F_DOUBLE: return isnan(*(const double *)p) ? NULL : str_double(a, *(const double *)p);
	case F_DURATION:
		return isnan(*(const double *)p)
			       ? NULL
			       : arena_printf(a, "%ss", str_double(a, *(const double *)p));
	case F_STRING: return *(const char *const *)p;
	case F_ENUM: return field_choice(f->choices, *(const int *)p, a);
	case F_INTS:
	case F_FLOATS: return print_numbers(f, p, a);
	case F_STRINGS:
	case F_LIST: return print_texts(p, a);
	case F_TENSOR:
	case F_TENSORS:
	case F_TYPE:
	case F_GRAPH: break;
	}
	return NULL;
}

const struct field *field_find(const struct field *table, const char *name)
{
	for (const struct field *f = table; f && f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	return NULL;
}

const char *field_nearest(const struct field *table, const char *name)
{
	const char *best = NULL;

	for (const struct field *f = table; f && f->name; f++) {
		const char *pair[2] = {best, f->name};
		const char *now = str_nearest(name, pair, 2);
		best = now ? now : best;
	}
	return best;
}
