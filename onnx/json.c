/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's JSON mapping of a ModelProto, driven by protobuf-c's descriptors: names in lowerCamelCase, 64-bit integers as
 * strings, bytes in base64, enumerators by name. https://protobuf.dev/programming-guides/json/
 */
#include "base/file.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "onnx/forms.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_NAME = 64 }; /* bytes of a field's name; those of the schema are shorter */

/* Sets `name` to the field's name in JSON, as protobuf derives it: op_type becomes opType. */
static void json_name(const ProtobufCFieldDescriptor *f, char name[MAX_NAME])
{
	size_t n = 0;

	for (const char *p = f->name; *p && n < MAX_NAME - 1; p++) {
		bool up = *p == '_' && p[1];
		p += up;
		name[n++] = (char)(up ? toupper((unsigned char)*p) : *p);
	}
	name[n] = '\0';
}

/* ---- writing ---------------------------------------------------------------------------------- */

struct json_writer {
	struct copier *c;
	struct file_out *out;
	int depth;
};

static void put(struct json_writer *w, const char *s)
{
	file_write(w->out, s, strlen(s));
}

static void put_line(struct json_writer *w)
{
	put(w, "\n");
	for (int i = 0; i < w->depth; i++)
		put(w, "  ");
}

static int put_string(struct json_writer *w, struct pb_span s, const char *field)
{
	char text[JSON_ESCAPED_BYTES];

	if (!is_text(s))
		return FAIL(w->c->d, E_MODEL_FORMAT, .slot = fmt(w->c->d, "field %s", field),
			    .expected = "UTF-8, as JSON holds nothing else", .actual = "other bytes");
	put(w, "\"");
	for (size_t i = 0; i < s.n;) {
		i += json_escape((const char *)s.p + i, s.n - i, text);
		put(w, text);
	}
	put(w, "\"");
	return 0;
}

static void put_base64(struct json_writer *w, struct pb_span s)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	enum { GROUPS = 1024 };
	char text[4 * GROUPS];
	size_t n = 0;

	put(w, "\"");
	for (size_t i = 0; i < s.n; i += 3) {
		size_t left = s.n - i;
		uint32_t v = (uint32_t)s.p[i] << 16;
		v |= left > 1 ? (uint32_t)s.p[i + 1] << 8 : 0;
		v |= left > 2 ? s.p[i + 2] : 0;
		text[n++] = digit[v >> 18];
		text[n++] = digit[v >> 12 & 63];
		text[n++] = left > 1 ? digit[v >> 6 & 63] : '=';
		text[n++] = left > 2 ? digit[v & 63] : '=';
		if (n == sizeof(text)) {
			file_write(w->out, text, n);
			n = 0;
		}
	}
	file_write(w->out, text, n);
	file_release(s.p, s.n);
	put(w, "\"");
}

/* Writes the number with the fewest digits that read back as the same one. */
static void put_real(struct json_writer *w, double v, bool is_float)
{
	char text[40];

	if (!isfinite(v)) {
		put(w, isnan(v) ? "\"NaN\"" : v < 0 ? "\"-Infinity\"" : "\"Infinity\"");
		return;
	}
	for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		/* Protobuf's readers refuse digits beyond the largest float, even if they round to it. */
		if (is_float ? strtof(text, NULL) == (float)v &&
				       fabs(strtod(text, NULL)) <= (double)FLT_MAX
			     : strtod(text, NULL) == v)
			break;
	}
	put(w, text);
	if (!strpbrk(text, ".e"))
		put(w, ".0");
}

static void put_number(struct json_writer *w, const ProtobufCFieldDescriptor *f, uint64_t v)
{
	const ProtobufCEnumValue *e;
	uint32_t low = (uint32_t)v;
	char text[40];
	float x;
	double y;

	switch (f->type) {
	case PROTOBUF_C_TYPE_FLOAT:
		memcpy(&x, &low, sizeof(x));
		put_real(w, (double)x, true);
		return;
	case PROTOBUF_C_TYPE_DOUBLE:
		memcpy(&y, &v, sizeof(y));
		put_real(w, y, false);
		return;
	case PROTOBUF_C_TYPE_BOOL: put(w, v ? "true" : "false"); return;
	case PROTOBUF_C_TYPE_ENUM:
		e = protobuf_c_enum_descriptor_get_value(f->descriptor, (int)low);
		if (e)
			snprintf(text, sizeof(text), "\"%s\"", e->name);
		else
			snprintf(text, sizeof(text), "%" PRId32, (int32_t)low);
		break;
	case PROTOBUF_C_TYPE_INT64:
		snprintf(text, sizeof(text), "\"%" PRId64 "\"", (int64_t)v);
		break;
	case PROTOBUF_C_TYPE_UINT64: snprintf(text, sizeof(text), "\"%" PRIu64 "\"", v); break;
	default: /* int32 */ snprintf(text, sizeof(text), "%" PRId32, (int32_t)low);
	}
	put(w, text);
}

static enum pb_wire wire_of(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_FLOAT: return PB_FIXED32;
	case PROTOBUF_C_TYPE_DOUBLE: return PB_FIXED64;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE: return PB_BYTES;
	default: return PB_VARINT;
	}
}

static int put_message(struct json_writer *w, const ProtobufCMessageDescriptor *desc,
		       struct pb_span m);

static int put_bytes_field(struct json_writer *w, const ProtobufCMessageDescriptor *desc,
			   const ProtobufCFieldDescriptor *f, struct pb_span s)
{
	if (f->type == PROTOBUF_C_TYPE_STRING)
		return put_string(w, s, f->name);
	if (f->type == PROTOBUF_C_TYPE_BYTES) {
		put_base64(w, s);
		return 0;
	}
	if (f->descriptor != &onnx__tensor_proto__descriptor)
		return put_message(w, f->descriptor, s);
	struct arena a = {0};
	int rc = copy_flat(w->c, s, desc == &onnx__graph_proto__descriptor, &a, &s);
	rc = rc ? rc : put_message(w, f->descriptor, s);
	arena_free(&a);
	return rc;
}

static void put_key(struct json_writer *w, const ProtobufCFieldDescriptor *f, bool *comma)
{
	char name[MAX_NAME];

	json_name(f, name);
	if (*comma)
		put(w, ",");
	*comma = true;
	put_line(w);
	put(w, "\"");
	put(w, name);
	put(w, "\": ");
}

static int put_repeated(struct json_writer *w, const ProtobufCMessageDescriptor *desc,
			const ProtobufCFieldDescriptor *f, struct pb_span m)
{
	struct pb_span rest = m, s;
	bool comma = false, lines = f->type == PROTOBUF_C_TYPE_MESSAGE;
	int rc = 0;

	put(w, "[");
	w->depth++;
	if (wire_of(f) == PB_BYTES) {
		while (!rc && pb_each(&rest, f->id, &s)) {
			put(w, comma ? (lines ? "," : ", ") : "");
			if (lines)
				put_line(w);
			comma = true;
			rc = put_bytes_field(w, desc, f, s);
		}
	} else {
		struct pb_values v = pb_values(m, f->id, wire_of(f));
		for (uint64_t x; pb_value(&v, &x); comma = true) {
			put(w, comma ? ", " : "");
			put_number(w, f, x);
		}
		file_release(m.p, m.n);
	}
	w->depth--;
	if (lines)
		put_line(w);
	put(w, "]");
	return rc;
}

/* Writes a singular field: the last occurrence, or all of a message's occurrences joined. */
static int put_single(struct json_writer *w, const ProtobufCMessageDescriptor *desc,
		      const ProtobufCFieldDescriptor *f, struct pb_span m)
{
	struct pb_span rest = m;
	struct pb_field x;
	uint64_t last = 0;

	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		return put_bytes_field(w, desc, f, pb_sub(m, f->id, w->c->arena));
	if (wire_of(f) == PB_BYTES)
		return put_bytes_field(w, desc, f, pb_last(m, f->id));
	while (pb_next(&rest, &x))
		if (x.number == f->id)
			last = x.value;
	put_number(w, f, last);
	return 0;
}

static int put_message(struct json_writer *w, const ProtobufCMessageDescriptor *desc, struct pb_span m)
{
	bool comma = false;
	int rc = 0;

	put(w, "{");
	w->depth++;
	for (unsigned i = 0; !rc && i < desc->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &desc->fields[i];
		if (!pb_occurs(m, f->id))
			continue;
		put_key(w, f, &comma);
		rc = f->label == PROTOBUF_C_LABEL_REPEATED ? put_repeated(w, desc, f, m)
							   : put_single(w, desc, f, m);
	}
	w->depth--;
	if (comma)
		put_line(w);
	put(w, "}");
	return rc;
}

int model_to_json(struct copier *c, struct pb_span model, struct file_out *out)
{
	struct json_writer w = {.c = c, .out = out};
	int rc = put_message(&w, &onnx__model_proto__descriptor, model);

	put(&w, "\n");
	return rc;
}

/* ---- reading ---------------------------------------------------------------------------------- */

enum { PASS_AFTER = 1 << 20 };

struct json_reader {
	struct json_scan s;
	struct arena *keep;	 /* of the model */
	struct file_spill *data; /* takes the data of tensors; NULL: the arena does */
	const char *passed;	 /* the text up to here has been given back */
	int depth;
};

/* Gives back the pages of the text that has been read. */
static void pass_text(struct json_reader *r)
{
	file_pass(r->passed, (size_t)(r->s.p - r->passed));
	r->passed = r->s.p;
}

static bool take_word(struct json_scan *s, const char *word)
{
	size_t n = strlen(word);

	json_skip_blanks(s);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* Takes a number, or a string that holds one, into `text`. */
static bool take_number(struct json_scan *s, char text[64])
{
	const char *p;
	size_t n = 0;

	if (json_take(s, '"')) {
		if (!json_string_rest(s, &p, &n))
			return false;
	} else {
		p = s->p;
		while (s->p < s->end && *s->p && strchr("+-.0123456789eE", *s->p))
			s->p++;
		n = (size_t)(s->p - p);
	}
	if (!n || n >= 64)
		return json_fail(s, "a number is expected");
	memcpy(text, p, n);
	text[n] = '\0';
	return true;
}

/* Reads a number as a double and as a float, each rounded once. */
static bool read_real(struct json_scan *s, double *out, float *out_float)
{
	char text[64], *end;

	if (!take_number(s, text))
		return false;
	*out = strtod(text, &end);
	*out_float = strtof(text, NULL);
	if (!strcmp(text, "Infinity") || !strcmp(text, "-Infinity") || !strcmp(text, "NaN"))
		return true;
	if (*end || isalpha((unsigned char)*text) || isspace((unsigned char)*text))
		return json_fail(s, "a number is expected");
	return true;
}

static bool read_integer(struct json_scan *s, bool is_unsigned, int64_t least, int64_t most,
			 uint64_t *out)
{
	char text[64], *end;

	if (!take_number(s, text))
		return false;
	errno = 0;
	if (is_unsigned) {
		*out = strtoull(text, &end, 10);
		if (*text == '-')
			return json_fail(s, "a number of 0 or more is expected");
	} else {
		int64_t v = strtoll(text, &end, 10);
		if (v < least || v > most)
			return json_fail(s, "the number is out of range");
		*out = (uint64_t)v;
	}
	if (errno)
		return json_fail(s, "the number is out of range");
	if (*end || end == text || isspace((unsigned char)*text))
		return json_fail(s, "an integer is expected");
	return true;
}

static bool read_enum(struct json_scan *s, const ProtobufCEnumDescriptor *e, uint64_t *out)
{
	const char *at = s->p, *p;
	size_t n;

	json_skip_blanks(s);
	if (s->p < s->end && *s->p != '"')
		return read_integer(s, false, INT32_MIN, INT32_MAX, out);
	if (!json_take(s, '"') || !json_string_rest(s, &p, &n))
		return json_fail(s, "the name of a value is expected");
	for (unsigned i = 0; i < e->n_values; i++) {
		if (strlen(e->values[i].name) == n && !memcmp(e->values[i].name, p, n)) {
			*out = (uint64_t)(int64_t)e->values[i].value;
			return true;
		}
	}
	s->p = at;
	return json_fail(s, "the schema has no value of this name");
}

/* Reads a field that is a number, as the value of its wire type. */
static bool read_value(struct json_scan *s, const ProtobufCFieldDescriptor *f, uint64_t *out)
{
	double v;
	float x;
	uint32_t low;

	*out = 0;
	switch (f->type) {
	case PROTOBUF_C_TYPE_FLOAT:
		if (!read_real(s, &v, &x))
			return false;
		memcpy(&low, &x, sizeof(low));
		*out = low;
		return true;
	case PROTOBUF_C_TYPE_DOUBLE:
		if (!read_real(s, &v, &x))
			return false;
		memcpy(out, &v, sizeof(v));
		return true;
	case PROTOBUF_C_TYPE_BOOL:
		*out = take_word(s, "true");
		return *out || take_word(s, "false") || json_fail(s, "true or false is expected");
	case PROTOBUF_C_TYPE_ENUM: return read_enum(s, f->descriptor, out);
	case PROTOBUF_C_TYPE_INT64: return read_integer(s, false, INT64_MIN, INT64_MAX, out);
	case PROTOBUF_C_TYPE_UINT64: return read_integer(s, true, 0, 0, out);
	default: return read_integer(s, false, INT32_MIN, INT32_MAX, out);
	}
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

static bool read_base64(struct json_reader *r, const char *p, size_t n, struct message *out,
			uint32_t field)
{
	uint32_t v = 0;
	size_t len = 0;

	while (n && p[n - 1] == '=')
		n--;
	uint8_t *to = data_room(r->data, r->keep, n / 4 * 3 + 3);
	for (size_t i = 0; i < n; i++) {
		int x = base64_digit(p[i]);
		if (x < 0)
			return json_fail(&r->s, "base64 is expected");
		v = v << 6 | (uint32_t)x;
		if (i % 4 == 0)
			continue;
		to[len++] = (uint8_t)(v >> (6 - 2 * (i % 4)));
	}
	if (n % 4 == 1)
		return json_fail(&r->s, "the base64 is not complete");
	data_put(r->data, out, field, to, len);
	pass_text(r);
	return true;
}

static bool read_message(struct json_reader *r, const ProtobufCMessageDescriptor *desc,
			 struct message *out);

static bool read_bytes_field(struct json_reader *r, const ProtobufCFieldDescriptor *f,
			     struct message *out)
{
	struct arena a = {0};
	struct message x = {.arena = &a};
	const char *p;
	size_t n;

	if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
		bool good = read_message(r, f->descriptor, &x);
		msg_message(out, f->id, &x);
		arena_free(&a);
		return good;
	}
	if (!json_take(&r->s, '"'))
		return json_fail(&r->s, "a string is expected");
	if (!json_string_rest(&r->s, &p, &n))
		return false;
	if (f->type == PROTOBUF_C_TYPE_BYTES)
		return read_base64(r, p, n, out, f->id);
	msg_bytes(out, f->id, p, n);
	return true;
}

static bool read_single(struct json_reader *r, const ProtobufCFieldDescriptor *f, struct message *out)
{
	uint64_t v;

	if (wire_of(f) == PB_BYTES)
		return read_bytes_field(r, f, out);
	if (!read_value(&r->s, f, &v))
		return false;
	msg_value(out, f->id, wire_of(f), v);
	return true;
}

/* Reads a list of numbers as one packed field, whatever the schema prefers: readers of protobuf must take both. */
static bool read_numbers(struct json_reader *r, const ProtobufCFieldDescriptor *f, struct message *out)
{
	enum { MAX_VARINT = 10 };
	uint8_t *p = NULL;
	size_t n = 0, cap = 0;
	uint64_t x;

	do {
		if (!read_value(&r->s, f, &x))
			return false;
		if (cap - n < MAX_VARINT) {
			cap = cap ? 2 * cap : 64;
			p = data_more(r->data, r->keep, p, n, cap);
		}
		n += encode_number(wire_of(f), x, p + n);
		if (r->s.p - r->passed > PASS_AFTER)
			pass_text(r);
	} while (json_take(&r->s, ','));
	data_put(r->data, out, f->id, p, n);
	return true;
}

static bool read_list(struct json_reader *r, const ProtobufCFieldDescriptor *f, struct message *out)
{
	if (!json_take(&r->s, '['))
		return json_fail(&r->s, "a list is expected");
	if (json_take(&r->s, ']'))
		return true;
	if (wire_of(f) != PB_BYTES) {
		if (!read_numbers(r, f, out))
			return false;
	} else {
		do
			if (!read_bytes_field(r, f, out))
				return false;
		while (json_take(&r->s, ','));
	}
	return json_take(&r->s, ']') || json_fail(&r->s, "',' or ']' is expected");
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *desc,
						  const char *key, size_t n)
{
	char name[MAX_NAME];

	for (unsigned i = 0; i < desc->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &desc->fields[i];
		json_name(f, name);
		if ((strlen(name) == n && !memcmp(name, key, n)) ||
		    (strlen(f->name) == n && !memcmp(f->name, key, n)))
			return f;
	}
	return NULL;
}

static bool read_member(struct json_reader *r, const ProtobufCMessageDescriptor *desc,
			struct message *out)
{
	const char *key;
	size_t n;

	json_skip_blanks(&r->s);
	const char *at = r->s.p;
	if (!json_take(&r->s, '"') || !json_string_rest(&r->s, &key, &n))
		return json_fail(&r->s, "the name of a field is expected");
	const ProtobufCFieldDescriptor *f = find_field(desc, key, n);
	if (!f) {
		r->s.p = at;
		return json_fail(&r->s, "the schema has no field of this name");
	}
	if (!json_take(&r->s, ':'))
		return json_fail(&r->s, "':' is expected");
	if (take_word(&r->s, "null"))
		return true;
	return f->label == PROTOBUF_C_LABEL_REPEATED ? read_list(r, f, out) : read_single(r, f, out);
}

static bool read_message(struct json_reader *r, const ProtobufCMessageDescriptor *desc,
			 struct message *out)
{
	if (!json_take(&r->s, '{'))
		return json_fail(&r->s, "'{' is expected");
	if (json_take(&r->s, '}'))
		return true;
	if (++r->depth > PB_DEPTH)
		return json_fail(&r->s, "the messages are nested too deeply");
	do
		if (!read_member(r, desc, out))
			return false;
	while (json_take(&r->s, ','));
	r->depth--;
	return json_take(&r->s, '}') || json_fail(&r->s, "',' or '}' is expected");
}

bool json_is_model(struct pb_span text)
{
	struct arena a = {0};
	struct json_scan s = {(const char *)text.p, (const char *)text.p + text.n, &a, NULL};
	const char *key;
	size_t n;
	bool is = false;

	if (json_take(&s, '{')) {
		json_skip_blanks(&s);
		is = json_take(&s, '"') && json_string_rest(&s, &key, &n) &&
		     find_field(&onnx__model_proto__descriptor, key, n);
	}
	arena_free(&a);
	return is;
}

int json_to_model(struct pb_span text, struct message *out, struct file_spill *data, struct diag *d)
{
	struct json_reader r = {
		.s = {(const char *)text.p, (const char *)text.p + text.n, out->arena, NULL},
		.keep = out->arena,
		.data = data,
		.passed = (const char *)text.p};
	size_t line = 1;

	if (read_message(&r, &onnx__model_proto__descriptor, out)) {
		json_skip_blanks(&r.s);
		if (r.s.p == r.s.end)
			return 0;
		json_fail(&r.s, "something follows the model");
	}
	for (const char *p = (const char *)text.p; p < r.s.p; p++)
		line += *p == '\n';
	return FAIL(d, E_MODEL_FORMAT, .slot = fmt(d, "line %zu", line),
		    .message = fmt(d, "this is no model in protobuf's JSON form: %s", r.s.error),
		    .hint = json_is_model(text)
				    ? NULL
				    : "infer inspect FILE.json shows a report that --json gave");
}
