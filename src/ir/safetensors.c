/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/safetensors.h"

#include "base/hash.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/str.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	LENGTH = 8, /* bytes before the header */
	MAX_HEADER = 100 * 1000 * 1000,
	ALIGN = 8, /* writers fill the header up with blanks, so that the data begin at a multiple of this */
};

static const struct {
	const char *name;
	enum dtype t;
} types[] = {
	{"BOOL", DT_BOOL},
	{"U8", DT_U8},
	{"I8", DT_I8},
	{"U16", DT_U16},
	{"I16", DT_I16},
	{"U32", DT_U32},
	{"I32", DT_I32},
	{"U64", DT_U64},
	{"I64", DT_I64},
	{"F16", DT_F16},
	{"BF16", DT_BF16},
	{"F32", DT_F32},
	{"F64", DT_F64},
	{"C64", DT_C64},
	{"F4", DT_F4E2M1},
	{"F6_E2M3", DT_F6E2M3},
	{"F6_E3M2", DT_F6E3M2},
	{"F8_E4M3", DT_F8E4M3FN},
	{"F8_E4M3FNUZ", DT_F8E4M3FNUZ},
	{"F8_E5M2", DT_F8E5M2},
	{"F8_E5M2FNUZ", DT_F8E5M2FNUZ},
	{"F8_E8M0", DT_F8E8M0},
};
enum { TYPES = sizeof(types) / sizeof(*types) };

const char *safetensors_type(enum dtype t)
{
	for (size_t i = 0; i < TYPES; i++)
		if (types[i].t == t)
			return types[i].name;
	return NULL;
}

/* ---- reading */

struct reader {
	struct json_scan s;
	struct arena *arena;
	struct map names;
	struct safetensor *list;
	size_t n, room;
	uint64_t data, size; /* where the tensors' bytes begin, and how many there are */
	const char *name;    /* of the tensor that is being read */
};

/* Records what is wrong; the tensor that is being read is named by the caller. Returns false. */
static bool bad(struct reader *r, const char *why)
{
	return json_fail(&r->s, why);
}

/* Reads a string. Names may not contain NUL, since ours end there. */
static bool read_string(struct reader *r, const char **out)
{
	const char *text;
	size_t n;

	if (!json_take(&r->s, '"'))
		return bad(r, "no string where one is expected");
	if (!json_string_rest(&r->s, &text, &n))
		return false;
	if (memchr(text, 0, n))
		return bad(r, "a NUL in a string");
	*out = arena_strn(r->arena, text, n);
	return true;
}

/* Reads a whole number of at most 63 bits. */
static bool read_number(struct reader *r, uint64_t *out)
{
	struct json_scan *s = &r->s;
	uint64_t v = 0;

	json_skip_blanks(s);
	const char *first = s->p;
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s->p - '0'), &v) || v > INT64_MAX)
			return bad(r, "a number of more than 63 bits");
	if (s->p == first)
		return bad(r, "no whole number of 0 or more where one is expected");
	if (*first == '0' && s->p - first > 1)
		return bad(r, "a number that begins with 0");
	*out = v;
	return true;
}

/* Reads an array of at most `most` whole numbers. */
static bool read_numbers(struct reader *r, uint64_t *out, int most, int *n)
{
	*n = 0;
	if (!json_take(&r->s, '['))
		return bad(r, "no array where one is expected");
	if (json_take(&r->s, ']'))
		return true;
	do {
		if (*n == most)
			return bad(r, "an array with too many numbers");
		if (!read_number(r, &out[(*n)++]))
			return false;
	} while (json_take(&r->s, ','));
	return json_take(&r->s, ']') || bad(r, "an array that does not end");
}

static bool read_type(struct reader *r, struct safetensor *t)
{
	const char *name;

	if (!read_string(r, &name))
		return false;
	for (size_t i = 0; i < TYPES; i++)
		if (!strcmp(types[i].name, name))
			t->dtype = types[i].t;
	return t->dtype != DT_NONE || bad(r, "an unknown dtype");
}

static bool read_shape(struct reader *r, struct safetensor *t)
{
	uint64_t dim[MAX_RANK];

	if (!read_numbers(r, dim, MAX_RANK, &t->shape.rank))
		return false;
	for (int i = 0; i < t->shape.rank; i++)
		t->shape.dim[i] = (int64_t)dim[i];
	return true;
}

static bool read_place(struct reader *r, struct safetensor *t)
{
	uint64_t at[2];
	int n;

	if (!read_numbers(r, at, 2, &n))
		return false;
	if (n != 2 || at[1] < at[0])
		return bad(r, "data_offsets that are not a begin and an end");
	if (at[1] > r->size)
		return bad(r, "data_offsets beyond the end of the file");
	t->at = r->data + at[0];
	t->bytes = at[1] - at[0];
	return true;
}

/* Reads what is said of one tensor, and compares type and shape with the number of bytes. */
static bool read_tensor(struct reader *r, struct safetensor *t)
{
	enum { DTYPE = 1, SHAPE = 2, PLACE = 4, ALL = 7 };
	unsigned seen = 0;

	if (!json_take(&r->s, '{'))
		return bad(r, "no object where one is expected");
	do {
		const char *key;
		if (!read_string(r, &key))
			return false;
		unsigned which = !strcmp(key, "dtype")		? DTYPE
				 : !strcmp(key, "shape")	? SHAPE
				 : !strcmp(key, "data_offsets") ? PLACE
								: 0;
		if (!which || seen & which)
			return bad(r, which ? "a member that is there twice"
					    : "a member that is not dtype, shape or data_offsets");
		seen |= which;
		if (!json_take(&r->s, ':'))
			return bad(r, "no colon after a name");
		if (!(which == DTYPE   ? read_type(r, t)
		      : which == SHAPE ? read_shape(r, t)
				       : read_place(r, t)))
			return false;
	} while (json_take(&r->s, ','));
	if (!json_take(&r->s, '}'))
		return bad(r, "an object that does not end");
	if (seen != ALL)
		return bad(r, "a tensor without dtype, shape or data_offsets");
	int64_t count = shape_count(&t->shape);
	size_t bytes;
	if (count < 0 || !dtype_bytes(t->dtype, count, &bytes))
		return bad(r, "a shape that overflows");
	if (dtype_bits(t->dtype) < 8 && (uint64_t)count * dtype_bits(t->dtype) % 8)
		return bad(r, "elements that end within a byte");
	return bytes == t->bytes ||
	       bad(r, "data_offsets that differ from the bytes of dtype and shape");
}

static bool skip_metadata(struct reader *r)
{
	const char *text;

	if (!json_take(&r->s, '{'))
		return bad(r, "no object as __metadata__");
	if (json_take(&r->s, '}'))
		return true;
	do {
		if (!read_string(r, &text))
			return false;
		if (!json_take(&r->s, ':'))
			return bad(r, "no colon after a name");
		if (!read_string(r, &text))
			return false;
	} while (json_take(&r->s, ','));
	return json_take(&r->s, '}') || bad(r, "__metadata__ that does not end");
}

static struct safetensor *add(struct reader *r)
{
	if (r->n == r->room) {
		size_t room = r->room ? 2 * r->room : 16;
		struct safetensor *list = arena_new_n(r->arena, struct safetensor, room);
		if (r->n)
			memcpy(list, r->list, r->n * sizeof(*list));
		r->list = list;
		r->room = room;
	}
	r->list[r->n] = (struct safetensor){.name = r->name};
	return &r->list[r->n++];
}

static bool read_all(struct reader *r)
{
	if (r->s.p == r->s.end || *r->s.p != '{')
		return bad(r, "a header that does not begin with {");
	r->s.p++;
	if (!json_take(&r->s, '}')) {
		do {
			const char *name;
			r->name = NULL;
			if (!read_string(r, &name))
				return false;
			r->name = name;
			if (!map_set(&r->names, name, strlen(name), 0))
				return bad(r, "a name that is there twice");
			if (!json_take(&r->s, ':'))
				return bad(r, "no colon after a name");
			if (!(strcmp(name, "__metadata__") ? read_tensor(r, add(r))
							   : skip_metadata(r)))
				return false;
		} while (json_take(&r->s, ','));
		r->name = NULL;
		if (!json_take(&r->s, '}'))
			return bad(r, "a header that does not end");
	}
	json_skip_blanks(&r->s);
	return r->s.p == r->s.end || bad(r, "something behind the header's object");
}

static int by_place(const void *a, const void *b)
{
	const struct safetensor *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Each byte behind the header belongs to one tensor. */
static bool check_places(struct reader *r)
{
	uint64_t at = r->data;

	if (r->n)
		qsort(r->list, r->n, sizeof(*r->list), by_place);
	for (size_t i = 0; i < r->n; at += r->list[i++].bytes) {
		r->name = r->list[i].name;
		if (r->list[i].at != at)
			return bad(r, r->list[i].at < at ? "bytes that belong to another tensor as well"
							 : "a gap before its bytes");
	}
	r->name = NULL;
	return at == r->data + r->size ||
	       bad(r, "bytes at the end of the file that belong to no tensor");
}

static bool is_utf8(const unsigned char *p, size_t n)
{
	for (size_t k; n; p += k, n -= k)
		if (!(k = utf8_length(p, n)))
			return false;
	return true;
}

static int refuse(const char *what, enum code code, const char *expected, const char *actual,
		  struct diag *d)
{
	return FAIL(d, code, .message = fmt(d, "%s is no valid .safetensors file", what),
		    .expected = expected, .actual = actual,
		    .hint = "copy the file or write it again");
}

int safetensors_head(const void *p, size_t n, const char *what, enum code code, struct arena *a,
		     struct safetensors *out, struct diag *d)
{
	const unsigned char *bytes = p;
	uint64_t length = 0;

	*out = (struct safetensors){0};
	if (n < LENGTH)
		return refuse(what, code, "the length of its header in eight bytes",
			      fmt(d, "a file of %zu bytes", n), d);
	for (int i = 0; i < LENGTH; i++)
		length |= (uint64_t)bytes[i] << (8 * i);
	if (length > MAX_HEADER || length > n - LENGTH)
		return refuse(what, code,
			      fmt(d, "a header of at most %" PRIu64 " bytes",
				  (uint64_t)(n - LENGTH < MAX_HEADER ? n - LENGTH : MAX_HEADER)),
			      fmt(d, "one of %" PRIu64, length), d);
	if (!is_utf8(bytes + LENGTH, (size_t)length))
		return refuse(what, code, "a header in UTF-8", "other bytes", d);
	const char *text = (const char *)bytes + LENGTH;
	struct reader r = {.s = {.p = text, .end = text + length, .arena = a},
			   .arena = a,
			   .names.arena = a,
			   .data = LENGTH + length,
			   .size = n - LENGTH - length};
	if (!read_all(&r) || !check_places(&r))
		return refuse(what, code, "a header that describes the file",
			      r.name ? fmt(d, "tensor '%s': %s", r.name, r.s.error) : r.s.error, d);
	*out = (struct safetensors){r.list, r.n};
	return 0;
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->list[i].name, name))
			return &s->list[i];
	return NULL;
}

/* ---- writing */

/* Wide elements come first, so that each tensor begins at a multiple of its elements' size. */
static unsigned alignment(const struct safetensor *t)
{
	unsigned bits = t->dtype == DT_C64 ? 32 : dtype_bits(t->dtype);

	return bits < 8 ? 8 : bits;
}

static void add_tensor(struct str *b, const struct safetensor *t)
{
	const char *p = t->name;
	char escaped[JSON_ESCAPED_BYTES];

	str_add(b, "\"");
	for (size_t n; *p; p += n) {
		n = json_escape(p, strlen(p), escaped);
		str_add(b, escaped);
	}
	str_addf(b, "\":{\"dtype\":\"%s\",\"shape\":[", safetensors_type(t->dtype));
	for (int i = 0; i < t->shape.rank; i++)
		str_addf(b, "%s%" PRId64, i ? "," : "", t->shape.dim[i]);
	str_addf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->at, t->at + t->bytes);
}

static int by_alignment(const void *a, const void *b)
{
	const struct safetensor *x = a, *y = b;
	unsigned m = alignment(x), n = alignment(y);

	return m != n ? (m < n) - (m > n) : strcmp(x->name, y->name);
}

const void *safetensors_make(struct safetensor *list, size_t n, struct arena *a, size_t *bytes)
{
	struct str b = {.arena = a};
	uint64_t at = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_alignment);
	str_add_n(&b, "\0\0\0\0\0\0\0\0{", LENGTH + 1);
	for (size_t i = 0; i < n; at += list[i++].bytes) {
		list[i].at = at;
		str_add(&b, i ? "," : "");
		add_tensor(&b, &list[i]);
	}
	str_add(&b, "}");
	while (b.n % ALIGN)
		str_add(&b, " ");
	for (size_t i = 0; i < n; i++)
		list[i].at += b.n;
	for (int i = 0; i < LENGTH; i++)
		b.s[i] = (char)((uint64_t)(b.n - LENGTH) >> (8 * i));
	*bytes = b.n;
	return b.s;
}
