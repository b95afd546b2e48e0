/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tensors from text: numbers separated by blanks or commas, one string per line, or JSON. The
 * same functions make two passes over the text: the first counts and checks the elements, the
 * second stores them.
 */
#include "base/json_read.h"
#include "io/io.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Most characters that a number may have. No person or program writes longer numbers. */
enum { MAX_NUMBER_CHARS = 400 };

struct walk {
	struct json_scan s; /* the text that is still to be read; used for plain text too */
	const char *start;
	enum dtype want;
	struct text_head *head;
	/* set in the second pass: the tensor of numbers, or the strings */
	struct tensor *to;
	const char **text;
	size_t *length;
	int64_t room; /* numbers or strings that fit, in case the file has grown since the first pass */
	/* JSON */
	/*
	 * length of the arrays at each depth of nesting; -1 until the first array of that depth has
	 * ended
	 */
	struct shape dims;
	int64_t at[MAX_RANK]; /* number of elements read so far in the open array of each depth */
	int flat; /* depth at which the scalars are; -1 before the first scalar is read */
};

static bool is_float(enum dtype t)
{
	return dtype_class(t) == DT_FLOAT || dtype_class(t) == DT_COMPLEX;
}

/* Returns how many numbers an element has in the text: a complex number is written as two. */
static int64_t parts_of(enum dtype t)
{
	return dtype_class(t) == DT_COMPLEX ? 2 : 1;
}

static enum dtype part_type(enum dtype t)
{
	return t == DT_C64 ? DT_F32 : t == DT_C128 ? DT_F64 : t;
}

/* Returns true if an integer, given as sign and magnitude, fits into a type of at most 64 bits. */
static bool in_range(enum dtype t, bool negative, uint64_t magnitude)
{
	unsigned bits = t == DT_BOOL ? 1 : dtype_bits(t);
	bool is_signed = dtype_class(t) == DT_INT;
	uint64_t most = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

	if (is_signed)
		most >>= 1;
	if (negative)
		return is_signed ? magnitude <= most + 1 : magnitude == 0;
	return magnitude <= most;
}

static bool read_int(struct walk *w, const char *s, int64_t i)
{
	bool negative = *s == '-';
	char *end;

	errno = 0;
	uint64_t v = strtoull(s + (negative || *s == '+'), &end, 10);
	/* also accept integers that are written as 3.0 or 1e3 */
	if (*end == '.' || *end == 'e' || *end == 'E') {
		double f = strtod(s, &end);
		if (*end || f != nearbyint(f) || fabs(f) >= 0x1p53)
			return json_fail(&w->s,
					 "the model takes integers, and this is not an integer");
		v = (uint64_t)fabs(f);
	}
	if (*end || !isdigit((unsigned char)s[negative || *s == '+']))
		return json_fail(&w->s, "this is no integer");
	if (errno || !in_range(w->want, negative, v))
		return json_fail(&w->s, "this number is out of the type's range");
	if (w->to)
		elem_set_i64(w->want, w->to->data, i, (int64_t)(negative ? 0 - v : v));
	return true;
}

/* Checks number i, whose text has n bytes at p. In the second pass, also stores its value. */
static bool read_number(struct walk *w, const char *p, size_t n, int64_t i)
{
	char s[MAX_NUMBER_CHARS + 1], *end;

	if (!n || n > MAX_NUMBER_CHARS)
		return json_fail(&w->s, "this is no number");
	if (w->to && i >= w->room)
		return json_fail(&w->s, "the file has changed");
	memcpy(s, p, n);
	s[n] = '\0';
	bool yes = !strcasecmp(s, "true"), no = !strcasecmp(s, "false");
	if (yes || no) {
		if (w->want != DT_BOOL)
			return json_fail(&w->s, "true and false are for bool inputs only");
		memcpy(s, yes ? "1" : "0", 2);
	}
	if (!is_float(w->want))
		return read_int(w, s, i);
	double v = strtod(s, &end);
	if (*end || isspace((unsigned char)*s) || strpbrk(s, "xX"))
		return json_fail(&w->s, "this is no number");
	if (w->to)
		elem_set_f64(part_type(w->want), w->to->data, i, v);
	return true;
}

static bool read_string(struct walk *w, const char *p, size_t n, int64_t i)
{
	if (w->want != DT_STRING) {
		/* non-finite numbers are strings in JSON */
		static const char *const allowed[] = {"NaN", "Infinity", "-Infinity"};
		for (size_t k = 0; k < 3; k++)
			if (is_float(w->want) && n == strlen(allowed[k]) && !memcmp(p, allowed[k], n))
				return read_number(w, p, n, i);
		return json_fail(&w->s, "a string stands here, and the model takes numbers");
	}
	w->head->strings = true;
	if (w->text && i >= w->room)
		return json_fail(&w->s, "the file has changed");
	if (w->text) {
		w->text[i] = p;
		w->length[i] = n;
	}
	return true;
}

/* ---- plain text */

static bool walk_lines(struct walk *w)
{
	while (w->s.p < w->s.end) {
		const char *nl = memchr(w->s.p, '\n', (size_t)(w->s.end - w->s.p)),
			   *stop = nl ? nl : w->s.end;
		size_t n = (size_t)(stop - w->s.p);
		if (n && w->s.p[n - 1] == '\r')
			n--;
		if (!read_string(w, w->s.p, n, w->head->count++))
			return false;
		w->s.p = nl ? nl + 1 : w->s.end;
	}
	return true;
}

static bool walk_numbers(struct walk *w)
{
	while (w->s.p < w->s.end) {
		if (isspace((unsigned char)*w->s.p) || *w->s.p == ',' || *w->s.p == ';') {
			w->s.p++;
		} else if (*w->s.p == '#') {
			const char *nl = memchr(w->s.p, '\n', (size_t)(w->s.end - w->s.p));
			w->s.p = nl ? nl : w->s.end;
		} else {
			const char *from = w->s.p;
			while (w->s.p < w->s.end && !isspace((unsigned char)*w->s.p) &&
			       !strchr(",;#", *w->s.p))
				w->s.p++;
			if (!read_number(w, from, (size_t)(w->s.p - from), w->head->count)) {
				w->s.p = from;
				return false;
			}
			w->head->count++;
		}
	}
	return true;
}

/* ---- JSON */

static bool json_scalar(struct walk *w, int depth)
{
	const char *from = w->s.p, *s;
	size_t n;

	/* an array that was closed below this depth, even an empty one, would make the shape have more dimensions */
	if ((w->flat >= 0 && w->flat != depth) || w->dims.rank > depth)
		return json_fail(&w->s, "elements stand at different depths");
	w->flat = depth;
	int64_t i = w->head->count;
	if (json_take(&w->s, '"')) {
		if (!json_string_rest(&w->s, &s, &n) || !read_string(w, s, n, i))
			return false;
	} else {
		while (w->s.p < w->s.end && !isspace((unsigned char)*w->s.p) &&
		       !strchr(",]}", *w->s.p))
			w->s.p++;
		if (w->want == DT_STRING || !read_number(w, from, (size_t)(w->s.p - from), i)) {
			w->s.p = from;
			return json_fail(&w->s, "the model takes strings, and this is not a string");
		}
	}
	w->head->count++;
	return true;
}

/* Ends the open array at `depth`, and checks that all arrays of a depth have the same length. */
static bool json_close(struct walk *w, int depth)
{
	if (w->dims.rank <= depth) {
		for (int k = w->dims.rank; k <= depth; k++)
			w->dims.dim[k] = -1;
		w->dims.rank = depth + 1;
	}
	if (w->dims.dim[depth] >= 0 && w->dims.dim[depth] != w->at[depth])
		return json_fail(&w->s, "the arrays have different lengths");
	w->dims.dim[depth] = w->at[depth];
	return true;
}

/* Reads nested arrays without recursion: at[] counts the elements of the open arrays. */
static bool json_value(struct walk *w)
{
	int depth = 0;

	for (;;) {
		if (json_take(&w->s, '[')) {
			if (depth == MAX_RANK || (w->flat >= 0 && depth >= w->flat))
				return json_fail(&w->s, "arrays are nested too deeply here");
			w->at[depth++] = 0;
			if (!json_take(&w->s, ']'))
				continue;
			if (!json_close(w, --depth))
				return false;
		} else if (!json_scalar(w, depth)) {
			return false;
		}
		/* count the value that has just ended, and close all arrays that end after it */
		for (;;) {
			if (!depth)
				return true;
			w->at[depth - 1]++;
			if (json_take(&w->s, ','))
				break;
			if (!json_take(&w->s, ']'))
				return json_fail(&w->s,
						 "a comma or a closing bracket is missing here");
			if (!json_close(w, --depth))
				return false;
		}
	}
}

static bool json_shape(struct walk *w, struct shape *s)
{
	*s = (struct shape){0};
	if (!json_take(&w->s, '['))
		return json_fail(&w->s, "a shape is an array of sizes");
	while (!json_take(&w->s, ']')) {
		int64_t v = 0;
		json_skip_blanks(&w->s);
		if (w->s.p >= w->s.end || !isdigit((unsigned char)*w->s.p) || s->rank == MAX_RANK)
			return json_fail(&w->s, "a shape is an array of sizes");
		for (; w->s.p < w->s.end && isdigit((unsigned char)*w->s.p); w->s.p++)
			if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
			    __builtin_add_overflow(v, (int64_t)(*w->s.p - '0'), &v))
				return json_fail(&w->s, "this size overflows");
		s->dim[s->rank++] = v;
		json_take(&w->s, ',');
	}
	return true;
}

/*
 * Reads a member of {"dtype": "f32", "shape": [2,3], "data": [...]}; other members must be strings
 * and are skipped.
 */
static bool json_member(struct walk *w, struct shape *shape, bool *data)
{
	const char *key, *s;
	size_t n, len;

	if (!json_take(&w->s, '"') || !json_string_rest(&w->s, &key, &n) || !json_take(&w->s, ':'))
		return json_fail(&w->s, "a member's name is missing here");
	if (n == 5 && !memcmp(key, "shape", 5))
		return json_shape(w, shape);
	if (n == 4 && !memcmp(key, "data", 4)) {
		*data = true;
		return json_value(w);
	}
	if (!json_take(&w->s, '"') || !json_string_rest(&w->s, &s, &len))
		return json_fail(
			&w->s,
			"only \"dtype\", \"shape\", \"data\" and members that are strings are known");
	if (n == 5 && !memcmp(key, "dtype", 5)) {
		char name[32];
		snprintf(name, sizeof(name), "%.*s", (int)(len < 31 ? len : 31), s);
		w->head->dtype = dtype_parse(name);
		if (w->head->dtype == DT_NONE)
			return json_fail(&w->s, "this type is unknown");
	}
	return true;
}

static bool walk_json(struct walk *w)
{
	struct shape shape = SHAPE_UNKNOWN;
	bool data = false;

	if (json_take(&w->s, '{')) {
		do {
			if (!json_member(w, &shape, &data))
				return false;
		} while (json_take(&w->s, ','));
		if (!json_take(&w->s, '}') || !data)
			return json_fail(&w->s, data ? "a comma or a closing brace is missing here"
						     : "there is no \"data\"");
	} else if (!json_value(w)) {
		return false;
	}
	json_skip_blanks(&w->s);
	if (w->s.p < w->s.end)
		return json_fail(&w->s, "something stands behind the end");
	if (shape_count(&w->dims) != w->head->count)
		return json_fail(&w->s, "the arrays and the number of elements do not agree");
	w->head->shape = w->dims;
	/*
	 * If the member "shape" is given, the two numbers of a complex element may simply follow
	 * each other. Otherwise they form the last dimension.
	 */
	if (parts_of(w->want) > 1 && shape.rank < 0) {
		int last = w->dims.rank - 1;
		if (last < 0 || w->dims.dim[last] != 2)
			return json_fail(&w->s, "complex numbers are pairs, [real, imaginary]");
		w->head->shape.rank = last;
	}
	if (shape.rank >= 0) {
		if (w->head->count % parts_of(w->want) ||
		    shape_count(&shape) != w->head->count / parts_of(w->want))
			return json_fail(&w->s, "the shape and the number of elements do not agree");
		w->head->shape = shape;
	}
	return true;
}

static void skip_mark(struct json_scan *s)
{
	if (s->end - s->p >= 3 && !memcmp(s->p, "\xef\xbb\xbf", 3)) /* a byte order mark */
		s->p += 3;
}

static bool walk_text(struct walk *w, enum io_kind kind)
{
	skip_mark(&w->s);
	bool ok = kind == IO_JSON	 ? walk_json(w)
		  : w->want == DT_STRING ? walk_lines(w)
					 : walk_numbers(w);
	if (ok && w->head->count % parts_of(w->want))
		return json_fail(&w->s, "complex numbers are pairs, and one has no imaginary part");
	w->head->count /= parts_of(w->want);
	return ok;
}

static int64_t line_of(const struct walk *w)
{
	int64_t line = 1;

	for (const char *p = w->start; p < w->s.p && p < w->s.end; p++)
		line += *p == '\n';
	return line;
}

static int fail_text(const struct walk *w, const char *what, struct diag *d)
{
	int shown = 0;

	while (w->s.p + shown < w->s.end && shown < 24 && !iscntrl((unsigned char)w->s.p[shown]))
		shown++;
	return FAIL(d, E_INPUT_FORMAT,
		    .message = fmt(d, "%s, line %" PRId64 ", %s%.*s%s: %s", what, line_of(w),
				   w->s.p < w->s.end ? "at '" : "at the end", shown,
				   w->s.p < w->s.end ? w->s.p : "", w->s.p < w->s.end ? "'" : "",
				   w->s.error ? w->s.error : "this cannot be read"));
}

int text_scan(enum io_kind kind, const char *p, size_t n, const char *what, enum dtype want,
	      struct text_head *h, struct diag *d)
{
	struct arena scratch = {0};
	struct walk w = {.s = {.p = p, .end = p + n, .arena = &scratch},
			 .start = p,
			 .want = want,
			 .head = h,
			 .flat = -1};

	*h = (struct text_head){.shape = SHAPE_UNKNOWN};
	bool ok = walk_text(&w, kind);
	arena_free(&scratch);
	if (ok)
		return 0;
	return fail_text(&w, what, d);
}

struct tensor *text_read(enum io_kind kind, const char *p, size_t n, enum dtype want,
			 const struct shape *s, struct arena *a)
{
	struct arena scratch = {0};
	struct text_head h = {.shape = SHAPE_UNKNOWN};
	struct walk w = {.s = {.p = p, .end = p + n, .arena = &scratch},
			 .start = p,
			 .want = want,
			 .head = &h,
			 .room = shape_count(s) * parts_of(want),
			 .flat = -1};
	size_t count = (size_t)shape_count(s) + 1;
	struct tensor *t = NULL;

	if (want == DT_STRING) {
		w.text = arena_new_n(&scratch, const char *, count);
		w.length = arena_new_n(&scratch, size_t, count);
	} else {
		t = w.to = tensor_new(a, want, s);
	}
	bool ok = walk_text(&w, kind);
	ok = ok && h.count * parts_of(want) == w.room;
	if (ok && want == DT_STRING)
		t = tensor_strings(a, s, w.text, w.length);
	arena_free(&scratch);
	return ok ? t : NULL;
}

/* ---- maps */

bool text_holds_maps(struct type t)
{
	bool map = t.kind == V_MAP || (t.kind == V_SEQUENCE && t.of == V_MAP);

	return map && t.key && t.dtype && dtype_class((enum dtype)t.dtype) != DT_COMPLEX;
}

/* Reads the members of the object whose brace was taken: keys by one walk, values by the other, in turn. */
static bool walk_members(struct walk *keys, struct walk *values)
{
	struct json_scan *s = &values->s;
	const char *key;
	size_t n;

	if (json_take(s, '}'))
		return true;
	do {
		if (!json_take(s, '"') || !json_string_rest(s, &key, &n) || !json_take(s, ':'))
			return json_fail(s, "a key is missing here");
		keys->s = *s;
		bool ok = keys->want == DT_STRING ? read_string(keys, key, n, keys->head->count)
						  : read_number(keys, key, n, keys->head->count);
		keys->head->count++;
		*s = keys->s;
		json_skip_blanks(s);
		if (!ok || !json_scalar(values, 0))
			return false;
	} while (json_take(s, ','));
	return json_take(s, '}') || json_fail(s, "a comma or a closing brace is missing here");
}

/* Gives the walk a place for n elements, and sets it to the first. */
static void make_room(struct walk *w, int64_t n, struct tensor **to, struct arena *a)
{
	struct shape s = {.rank = 1, .dim = {n}};

	*w->head = (struct text_head){0};
	w->room = n;
	if (w->want == DT_STRING) {
		w->text = arena_new_n(w->s.arena, const char *, (size_t)n + 1);
		w->length = arena_new_n(w->s.arena, size_t, (size_t)n + 1);
	} else {
		*to = w->to = tensor_new(a, w->want, &s);
	}
}

/* Reads an object as a map: counts its members, then reads them. Moves w->s behind it; NULL after an error. */
static struct tensor *read_map(struct walk *w, struct type type, struct arena *a)
{
	struct text_head heads[2] = {{0}, {0}};
	struct walk keys = {.start = w->start,
			    .want = (enum dtype)type.key,
			    .head = &heads[0],
			    .flat = -1},
		    values = {.s = w->s,
			      .start = w->start,
			      .want = (enum dtype)type.dtype,
			      .head = &heads[1],
			      .flat = -1};
	struct tensor *t = arena_new(a, struct tensor);

	*t = (struct tensor){.type = {.kind = V_MAP, .dtype = type.dtype, .key = type.key},
			     .nitems = 2};
	t->items = arena_new_n(a, struct tensor *, 2);
	bool ok = json_take(&values.s, '{') || json_fail(&values.s, "a map is a JSON object");
	const struct json_scan first = values.s;
	ok = ok && walk_members(&keys, &values);
	if (ok) {
		int64_t n = heads[0].count;
		struct shape s = {.rank = 1, .dim = {n}};
		values.s = first;
		keys.s.arena = first.arena;
		make_room(&keys, n, &t->items[0], a);
		make_room(&values, n, &t->items[1], a);
		ok = walk_members(&keys, &values);
		if (ok && keys.want == DT_STRING)
			t->items[0] = tensor_strings(a, &s, keys.text, keys.length);
		if (ok && values.want == DT_STRING)
			t->items[1] = tensor_strings(a, &s, values.text, values.length);
	}
	w->s = values.s;
	return ok && t->items[0] && t->items[1] ? t : NULL;
}

/* Reads an array of objects as a sequence of maps. */
static struct tensor *read_maps(struct walk *w, struct type type, struct arena *a)
{
	struct tensor *t = arena_new(a, struct tensor), **items = NULL;
	size_t room = 0;

	*t = (struct tensor){.type = type};
	if (!json_take(&w->s, '[')) {
		json_fail(&w->s, "a sequence of maps is an array of JSON objects");
		return NULL;
	}
	if (json_take(&w->s, ']'))
		return t;
	do {
		if (t->nitems == room) {
			room = room ? 2 * room : 16;
			items = arena_new_n(a, struct tensor *, room);
			if (t->nitems)
				memcpy(items, t->items, t->nitems * sizeof(*items));
			t->items = items;
		}
		if (!(t->items[t->nitems++] = read_map(w, type, a)))
			return NULL;
	} while (json_take(&w->s, ','));
	if (json_take(&w->s, ']'))
		return t;
	json_fail(&w->s, "a comma or a closing bracket is missing here");
	return NULL;
}

struct tensor *text_maps(const char *p, size_t n, const char *what, struct type type,
			 struct arena *a, struct diag *d)
{
	struct arena scratch = {0};
	struct walk w = {.s = {.p = p, .end = p + n, .arena = &scratch}, .start = p};

	skip_mark(&w.s);
	struct tensor *t = type.kind == V_MAP ? read_map(&w, type, a) : read_maps(&w, type, a);
	json_skip_blanks(&w.s);
	if (t && w.s.p < w.s.end) {
		json_fail(&w.s, "something stands behind the end");
		t = NULL;
	}
	if (!t)
		fail_text(&w, what, d);
	arena_free(&scratch);
	return t;
}
