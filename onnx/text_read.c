/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ONNX's text form (docs/Syntax.md of onnx): a parser by recursive descent that writes a ModelProto as it goes. */
#include "base/file.h"
#include "onnx/forms.h"
#include "onnx/text_words.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum literal_kind { LIT_NONE, LIT_INT, LIT_FLOAT, LIT_STRING };

struct literal {
	enum literal_kind kind;
	struct pb_span text; /* of a string: without quotes and escapes */
};

struct text_reader {
	const uint8_t *p, *end;
	struct arena *arena;	 /* of the node that is read */
	struct arena *keep;	 /* of the model */
	struct file_spill *data; /* takes the data of tensors; NULL: the arena does */
	const char *error;	 /* the first */
	int depth;
};

static bool fail(struct text_reader *r, const char *why)
{
	if (!r->error)
		r->error = why;
	return false;
}

/* ---- tokens */

static void skip(struct text_reader *r)
{
	while (r->p < r->end && (isspace(*r->p) || *r->p == '#'))
		if (*r->p++ == '#')
			while (r->p < r->end && *r->p != '\n')
				r->p++;
}

static int peek(struct text_reader *r)
{
	skip(r);
	return r->p < r->end ? *r->p : 0;
}

static bool take(struct text_reader *r, char c)
{
	if (peek(r) != (uint8_t)c)
		return false;
	r->p++;
	return true;
}

static bool want(struct text_reader *r, char c, const char *why)
{
	return take(r, c) || fail(r, why);
}

/* Takes the identifier that follows. If none does, the result has no bytes. */
static struct pb_span take_identifier(struct text_reader *r)
{
	skip(r);
	const uint8_t *from = r->p;

	if (r->p < r->end && (isalpha(*r->p) || *r->p == '_'))
		while (r->p < r->end && (isalnum(*r->p) || *r->p == '_'))
			r->p++;
	return (struct pb_span){from, (size_t)(r->p - from)};
}

static struct pb_span peek_identifier(struct text_reader *r)
{
	const uint8_t *at = r->p;
	struct pb_span s = take_identifier(r);

	r->p = at;
	return s;
}

static bool same_word(struct pb_span s, const char *word)
{
	return span_is(s, word);
}

/* Takes a string with its quotes; a backslash stands before a quote or a backslash. */
static bool take_string(struct text_reader *r, struct pb_span *out)
{
	if (!want(r, '"', "a string is expected"))
		return false;
	const uint8_t *from = r->p;
	bool escapes = false;
	for (; r->p < r->end && *r->p != '"'; r->p++)
		if (*r->p == '\\' && r->p + 1 < r->end) {
			escapes = true;
			r->p++;
		}
	if (r->p == r->end)
		return fail(r, "this string does not end");
	*out = (struct pb_span){from, (size_t)(r->p++ - from)};
	if (!escapes)
		return true;
	uint8_t *to = arena_alloc(r->keep, out->n);
	size_t n = 0;
	for (size_t i = 0; i < out->n; i++) {
		i += out->p[i] == '\\';
		to[n++] = out->p[i];
	}
	*out = (struct pb_span){to, n};
	return true;
}

/* Takes a name, quoted or not. Returns false, without an error, if none follows. */
static bool take_name(struct text_reader *r, struct pb_span *out)
{
	if (peek(r) == '"')
		return take_string(r, out);
	*out = take_identifier(r);
	return out->n != 0;
}

static bool want_name(struct text_reader *r, struct pb_span *out)
{
	return take_name(r, out) || fail(r, "a name is expected");
}

static bool at_special(struct text_reader *r)
{
	struct pb_span s = peek_identifier(r);

	return text_is_word(s) && !text_type_number(s) &&
	       (s.p[0] == 'n' || s.p[0] == 'N' || s.p[0] == 'i' || s.p[0] == 'I');
}

static bool take_literal(struct text_reader *r, struct literal *out)
{
	*out = (struct literal){LIT_NONE, {NULL, 0}};
	if (peek(r) == '"') {
		out->kind = LIT_STRING;
		return take_string(r, &out->text);
	}
	const uint8_t *from = r->p;
	bool is_float = false;
	r->p += r->p < r->end && *from == '-';
	if (r->p < r->end && isalpha(*r->p)) {
		if (!at_special(r))
			return fail(r, "a number is expected");
		take_identifier(r);
		is_float = true;
	}
	for (; r->p < r->end && (isdigit(*r->p) || *r->p == '.'); r->p++)
		is_float |= *r->p == '.';
	if (r->p < r->end && r->p > from && (*r->p == 'e' || *r->p == 'E')) {
		is_float = true;
		r->p++;
		r->p += r->p < r->end && (*r->p == '+' || *r->p == '-');
		while (r->p < r->end && isdigit(*r->p))
			r->p++;
	}
	out->kind = is_float ? LIT_FLOAT : LIT_INT;
	out->text = (struct pb_span){from, (size_t)(r->p - from)};
	return out->text.n || fail(r, "a value is expected");
}

enum { MAX_NUMBER = 128 }; /* characters of a number */

static bool number_text(struct text_reader *r, const struct literal *x, char text[MAX_NUMBER])
{
	if (x->kind == LIT_STRING || x->text.n >= MAX_NUMBER)
		return fail(r, "a number is expected");
	memcpy(text, x->text.p, x->text.n);
	text[x->text.n] = '\0';
	return true;
}

static bool to_int(struct text_reader *r, const struct literal *x, bool is_unsigned, uint64_t *out)
{
	char text[MAX_NUMBER], *end;

	if (x->kind != LIT_INT || !number_text(r, x, text))
		return fail(r, "an integer is expected");
	errno = 0;
	*out = is_unsigned ? strtoull(text, &end, 10) : (uint64_t)strtoll(text, &end, 10);
	if (errno || *end || end == text || (is_unsigned && *text == '-'))
		return fail(r, "the number is out of range");
	return true;
}

/* Reads a real number; bits: 32 or 64. *out has the bits of the number. */
static bool to_real(struct text_reader *r, const struct literal *x, int bits, uint64_t *out)
{
	char text[MAX_NUMBER], *end;

	*out = 0;
	if (!number_text(r, x, text))
		return false;
	float f = strtof(text, &end);
	double d = strtod(text, &end);
	if (*end || end == text)
		return fail(r, "a number is expected");
	if (bits == 32)
		memcpy(out, &f, sizeof(f));
	else
		memcpy(out, &d, sizeof(d));
	return true;
}

static bool want_int(struct text_reader *r, uint64_t *out)
{
	struct literal x;

	return take_literal(r, &x) && to_int(r, &x, false, out);
}

static void add_name(struct message *m, uint32_t field, struct pb_span s)
{
	msg_bytes(m, field, s.p, s.n);
}

static bool enter(struct text_reader *r)
{
	return ++r->depth <= PB_DEPTH || fail(r, "this is nested too deeply");
}

/* ---- types */

static bool read_shape(struct text_reader *r, struct message *out)
{
	do {
		struct message dim = {.arena = r->arena};
		struct pb_span name;
		uint64_t v;
		if (take(r, '?')) {
			/* neither a number nor a name */
		} else if (take_name(r, &name)) {
			add_name(&dim, 2, name);
		} else if (!want_int(r, &v)) {
			return false;
		} else {
			msg_number(&dim, 1, v);
		}
		msg_message(out, 1, &dim);
	} while (!r->error && take(r, ','));
	return want(r, ']', "',' or ']' is expected");
}

/* The rest of a tensor's type: nothing is a scalar, [] an unknown rank. */
static bool read_tensor_type(struct text_reader *r, uint64_t type, struct message *out)
{
	struct message shape = {.arena = r->arena};

	msg_number(out, 1, type);
	if (take(r, '[')) {
		if (take(r, ']'))
			return true;
		if (!read_shape(r, &shape))
			return false;
	}
	msg_message(out, 2, &shape);
	return true;
}

static bool at_type(struct text_reader *r)
{
	static const char *const kinds[] = {"seq", "map", "optional", "sparse_tensor", "opaque"};
	struct pb_span s = peek_identifier(r);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (same_word(s, kinds[i]))
			return true;
	return text_type_number(s) != 0;
}

static bool read_type(struct text_reader *r, struct message *out);

static bool read_map_type(struct text_reader *r, struct message *x)
{
	struct message value = {.arena = r->arena};
	uint64_t key = text_type_number(take_identifier(r));

	if (!key)
		return fail(r, "the type of a map's keys is expected");
	msg_number(x, 1, key);
	if (!want(r, ',', "',' is expected") || !read_type(r, &value))
		return false;
	msg_message(x, 2, &value);
	return true;
}

static bool read_opaque_type(struct text_reader *r, struct message *x)
{
	struct pb_span first = take_identifier(r), second;

	while (first.n && r->p < r->end && *r->p == '.') { /* a domain has dots */
		r->p++;
		second = take_identifier(r);
		first.n = (size_t)(second.p + second.n - first.p);
	}
	if (take(r, ',')) {
		second = take_identifier(r);
		add_name(x, 1, first);
		add_name(x, 2, second);
	} else if (first.n) {
		add_name(x, 2, first);
	}
	return true;
}

/* TypeProto */
static bool read_type(struct text_reader *r, struct message *out)
{
	struct pb_span word = take_identifier(r);
	struct message x = {.arena = r->arena}, inner = {.arena = r->arena};
	uint64_t type = text_type_number(word);
	uint32_t field = 0;
	bool good;

	if (type) {
		good = read_tensor_type(r, type, &x);
		msg_message(out, 1, &x);
		return good;
	}
	if (!enter(r) || !want(r, '(', "a type is expected"))
		return false;
	if (same_word(word, "map")) {
		field = 5;
		good = read_map_type(r, &x);
	} else if (same_word(word, "sparse_tensor")) {
		field = 8;
		type = text_type_number(take_identifier(r));
		good = type ? read_tensor_type(r, type, &x) : fail(r, "an element type is expected");
	} else if (same_word(word, "opaque")) {
		field = 7;
		good = read_opaque_type(r, &x);
	} else if (same_word(word, "seq") || same_word(word, "optional")) {
		field = same_word(word, "seq") ? 4 : 9;
		good = read_type(r, &inner);
		msg_message(&x, 1, &inner);
	} else {
		return fail(r, "a type is expected");
	}
	msg_message(out, field, &x);
	r->depth--;
	return good && want(r, ')', "')' is expected");
}

/* ---- tensors */

/* The element type and dimensions of a tensor, from its type; false if they are not all numbers. */
static bool tensor_head(struct text_reader *r, const struct message *type, struct message *out,
			uint64_t *elem, size_t *count)
{
	struct pb_span t = pb_last(msg_flat(type, r->arena), 1), shape, dim;
	struct pb_field f;

	*count = 1;
	*elem = 0;
	for (struct pb_span rest = t; pb_next(&rest, &f);)
		if (f.number == 1)
			*elem = f.value;
	if (!*elem || !pb_occurs(t, 2))
		return fail(r, "a tensor's type and shape are expected");
	shape = pb_last(t, 2);
	while (pb_each(&shape, 1, &dim)) {
		struct pb_span rest = dim;
		if (!pb_next(&rest, &f) || f.number != 1 || (int64_t)f.value < 0)
			return fail(r, "the dimensions of a tensor are numbers of 0 or more");
		msg_number(out, 1, f.value);
		if (__builtin_mul_overflow(*count, (size_t)f.value, count))
			return fail(r, "the tensor is too large");
	}
	msg_number(out, 2, *elem);
	return true;
}

/* Reads one element into the `size` bytes at `to`. */
static bool read_element(struct text_reader *r, enum dtype type, unsigned size, uint8_t *to)
{
	bool real = type == DT_F32 || type == DT_C64, wide = type == DT_F64 || type == DT_C128;
	struct literal x;
	uint64_t v;

	if (!take_literal(r, &x))
		return false;
	if (real || wide) {
		if (!to_real(r, &x, real ? 32 : 64, &v))
			return false;
	} else {
		if (!to_int(r, &x, type == DT_U32 || type == DT_U64, &v))
			return false;
		/* As in onnx, a pattern may also be given as a negative number. */
		int64_t most = size < 8 ? (int64_t)1 << 8 * size : 0;
		if (size < 8 && ((int64_t)v >= most || (int64_t)v < -most / 2))
			return fail(r, "the number does not fit into the element type");
	}
	memcpy(to, &v, size);
	return true;
}

static bool read_numbers(struct text_reader *r, enum dtype type, size_t count, struct message *out)
{
	unsigned size = text_number_size(type);
	size_t left = (size_t)(r->end - r->p) / 2 + 1,
	       n = 0; /* an element takes two characters or more */
	size_t cap = (count < left ? count : left) + 1;
	uint8_t *data = data_room(r->data, r->keep, cap * size);
	const uint8_t *from = r->p;

	while (peek(r) != '}') {
		if (n == cap)
			data = data_more(r->data, r->keep, data, n * size, 2 * n * size);
		cap = n == cap ? 2 * n : cap;
		if (!read_element(r, type, size, data + n++ * size))
			return false;
		if (n % 4096 == 0) {
			file_pass(from, (size_t)(r->p - from));
			from = r->p;
		}
		if (!take(r, ','))
			break;
	}
	file_pass(from, (size_t)(r->p - from));
	data_put(r->data, out, 9, data, n * size);
	return true;
}

static bool read_entries(struct text_reader *r, uint32_t field, struct message *out)
{
	if (take(r, ']'))
		return true;
	do {
		struct message x = {.arena = r->arena};
		struct pb_span key, value;
		if (!take_string(r, &key) || !want(r, ':', "':' is expected") ||
		    !take_string(r, &value))
			return false;
		add_name(&x, 1, key);
		add_name(&x, 2, value);
		msg_message(out, field, &x);
	} while (take(r, ','));
	return want(r, ']', "',' or ']' is expected");
}

/* Reads the data of a tensor behind its type and name, as message field `field` of out. */
static bool read_tensor(struct text_reader *r, const struct message *type, struct pb_span name,
			uint32_t field, struct message *out)
{
	struct message x = {.arena = r->arena};
	struct pb_span s;
	uint64_t elem;
	size_t count;
	bool good = tensor_head(r, type, &x, &elem, &count);

	if (name.n)
		add_name(&x, 8, name);
	if (good && take(r, '[')) {
		good = read_entries(r, 13, &x);
		msg_number(&x, 14, 1);
	} else if (good && take(r, '{')) {
		if (elem == DT_STRING)
			while (good && peek(r) == '"') {
				good = take_string(r, &s);
				add_name(&x, 6, s);
				if (!take(r, ','))
					break;
			}
		else if (elem < DT_COUNT && dtype_bits((enum dtype)elem))
			good = read_numbers(r, (enum dtype)elem, count, &x);
		else
			good = fail(r, "this element type is not known");
		good = good && want(r, '}', "',' or '}' is expected");
	}
	msg_message(out, field, &x);
	return good;
}

/* ---- values */

/* A ValueInfoProto, or with `= data` an initializer. An initializer of the inputs' list is also an input. */
static bool read_value_parts(struct text_reader *r, uint32_t field, bool both, struct message *out)
{
	struct message x = {.arena = r->arena}, type = {.arena = r->arena};
	bool typed = at_type(r);
	struct pb_span name;

	if ((typed && !read_type(r, &type)) || !want_name(r, &name))
		return false;
	bool tensor = take(r, '=');
	if (!tensor || both) {
		add_name(&x, 1, name);
		if (typed)
			msg_message(&x, VALUE_TYPE, &type);
		msg_message(out, field, &x);
	}
	return !tensor || read_tensor(r, &type, name, GRAPH_INITIALIZER, out);
}

static bool read_value(struct text_reader *r, uint32_t field, bool both, struct message *out)
{
	struct arena a = {0}, *outer = r->arena;

	r->arena = &a;
	bool good = read_value_parts(r, field, both, out);
	r->arena = outer;
	arena_free(&a);
	return good;
}

static bool read_values(struct text_reader *r, uint32_t field, char close, bool both,
			struct message *out)
{
	if (take(r, close))
		return true;
	do
		if (!read_value(r, field, both, out))
			return false;
	while (take(r, ','));
	return want(r, close, "',' or the end of the list is expected");
}

static bool want_arrow(struct text_reader *r)
{
	if (!want(r, '=', "'=>' is expected"))
		return false;
	return (r->p < r->end && *r->p == '>' && r->p++) || fail(r, "'=>' is expected");
}

/* ---- attributes */

static bool read_graph(struct text_reader *r, struct message *out);

struct attribute {
	struct message *out;
	int type; /* 0: not known yet */
};

static bool set_type(struct text_reader *r, struct attribute *a, int type)
{
	if (a->type && a->type != type)
		return fail(r, "the value has another type than the attribute");
	a->type = type;
	return true;
}

/* A tensor or a type, which both begin with a type. */
static bool read_typed_value(struct text_reader *r, struct attribute *a)
{
	struct message type = {.arena = r->arena};
	struct pb_span name = {0};

	if (!read_type(r, &type))
		return false;
	int next = peek(r);
	if (next != '{' && next != '=' && next != '"' && !peek_identifier(r).n) {
		msg_message(a->out, 14, &type);
		return set_type(r, a, TEXT_TYPE_PROTO);
	}
	take_name(r, &name);
	take(r, '=');
	return set_type(r, a, TEXT_TENSOR) && read_tensor(r, &type, name, ATTRIBUTE_T, a->out);
}

static bool read_literal_value(struct text_reader *r, struct attribute *a, bool list)
{
	struct literal x;
	uint64_t v;

	if (!take_literal(r, &x))
		return false;
	if (x.kind == LIT_STRING) {
		add_name(a->out, list ? ATTRIBUTE_STRINGS : 4, x.text);
		return set_type(r, a, list ? TEXT_STRINGS : TEXT_STRING);
	}
	/* An integer serves as a float if the attribute is one. */
	if (x.kind == LIT_FLOAT || a->type == (list ? TEXT_FLOATS : TEXT_FLOAT)) {
		if (!to_real(r, &x, 32, &v))
			return false;
		msg_value(a->out, list ? ATTRIBUTE_FLOATS : 2, PB_FIXED32, v);
		return set_type(r, a, list ? TEXT_FLOATS : TEXT_FLOAT);
	}
	if (!to_int(r, &x, false, &v))
		return false;
	msg_number(a->out, list ? ATTRIBUTE_INTS : 3, v);
	return set_type(r, a, list ? TEXT_INTS : TEXT_INT);
}

static bool read_attribute_value(struct text_reader *r, struct attribute *a)
{
	struct message g = {.arena = r->arena};
	struct pb_span name;
	int next = peek(r);

	if (next == '@') {
		r->p++;
		if (!want_name(r, &name))
			return false;
		add_name(a->out, 21, name);
		return true;
	}
	if (next == '[') {
		r->p++;
		if (take(r, ']'))
			return a->type || fail(r, "an empty list needs the attribute's type");
		do
			if (!read_literal_value(r, a, true))
				return false;
		while (take(r, ','));
		return want(r, ']', "',' or ']' is expected");
	}
	if (at_type(r))
		return read_typed_value(r, a);
	if (!(isalpha(next) || next == '_') || at_special(r))
		return read_literal_value(r, a, false);
	if (!set_type(r, a, TEXT_GRAPH) || !read_graph(r, &g))
		return false;
	msg_message(a->out, ATTRIBUTE_G, &g);
	return true;
}

/* The rest of an attribute, behind its name: [: TYPE] = VALUE */
static bool read_attribute(struct text_reader *r, struct pb_span name, uint32_t field,
			   struct message *out)
{
	struct message x = {.arena = r->arena};
	struct attribute a = {.out = &x};

	add_name(&x, 1, name);
	if (take(r, ':')) {
		a.type = text_attribute_number(take_identifier(r));
		if (!a.type)
			return fail(r, "the type of an attribute is expected");
	}
	if (!want(r, '=', "'=' is expected") || !read_attribute_value(r, &a))
		return false;
	if (a.type)
		msg_number(&x, 20, (uint64_t)a.type);
	msg_message(out, field, &x);
	return true;
}

static bool read_attributes(struct text_reader *r, struct message *out)
{
	struct pb_span name;

	do {
		name = take_identifier(r);
		if (!name.n)
			return fail(r, "the name of an attribute is expected");
		if (!read_attribute(r, name, NODE_ATTRIBUTE, out))
			return false;
	} while (take(r, ','));
	return want(r, '>', "',' or '>' is expected");
}

/* ---- nodes and graphs */

/* Names with commas between; nothing before a comma is the name "", and a comma at the end has no effect. */
static bool read_names(struct text_reader *r, uint32_t field, struct message *out)
{
	struct pb_span name;

	do {
		if (!take_name(r, &name) && (r->error || peek(r) != ','))
			break;
		add_name(out, field, name);
	} while (take(r, ','));
	return !r->error;
}

/* DOMAIN.OPERATOR:OVERLOAD */
static bool read_operator(struct text_reader *r, struct message *x)
{
	struct pb_span id = take_identifier(r), domain = {0}, overload;

	while (id.n && take(r, '.')) {
		/* the domain is the text up to here, as blanks around its dots are unusual */
		domain = domain.n ? (struct pb_span){domain.p, (size_t)(id.p + id.n - domain.p)} : id;
		id = take_identifier(r);
	}
	if (!id.n)
		return fail(r, "an operator is expected");
	if (domain.n)
		add_name(x, NODE_DOMAIN, domain);
	add_name(x, NODE_TYPE, id);
	if (take(r, ':')) {
		overload = take_identifier(r);
		if (!overload.n)
			return fail(r, "an overload is expected");
		add_name(x, NODE_OVERLOAD, overload);
	}
	return true;
}

static bool read_node_parts(struct text_reader *r, struct message *out)
{
	struct message x = {.arena = r->arena};
	struct pb_span name;

	if (take(r, '[')) {
		if (take_name(r, &name))
			add_name(&x, NODE_NAME, name);
		if (!want(r, ']', "']' is expected"))
			return false;
	}
	if (!read_names(r, NODE_OUTPUT, &x) || !want(r, '=', "'=' is expected") ||
	    !read_operator(r, &x))
		return false;
	bool attributes = take(r, '<');
	if (attributes && !read_attributes(r, &x))
		return false;
	if (!want(r, '(', "'(' is expected") || !read_names(r, NODE_INPUT, &x) ||
	    !want(r, ')', "',' or ')' is expected"))
		return false;
	if (!attributes && take(r, '<') && !read_attributes(r, &x))
		return false;
	msg_message(out, GRAPH_NODE, &x);
	return true;
}

static bool read_node(struct text_reader *r, struct message *out)
{
	struct arena a = {0}, *outer = r->arena;

	r->arena = &a;
	bool good = read_node_parts(r, out);
	r->arena = outer;
	arena_free(&a);
	return good;
}

/* Nodes as field GRAPH_NODE of a graph, or FUNCTION_NODE of a function. */
static bool read_nodes(struct text_reader *r, uint32_t field, struct message *out)
{
	struct message all = {.arena = r->arena};
	struct pb_span rest, node;

	if (!want(r, '{', "'{' is expected"))
		return false;
	if (field == GRAPH_NODE) {
		while (!take(r, '}'))
			if (!read_node(r, out))
				return false;
		return true;
	}
	while (!take(r, '}'))
		if (!read_node(r, &all))
			return false;
	for (rest = msg_flat(&all, r->keep); pb_each(&rest, GRAPH_NODE, &node);)
		add_name(out, field, node);
	return true;
}

static bool read_graph(struct text_reader *r, struct message *out)
{
	struct pb_span name;

	if (!enter(r) || !want_name(r, &name))
		return false;
	add_name(out, GRAPH_NAME, name);
	if (take(r, '(') && !read_values(r, GRAPH_INPUT, ')', true, out))
		return false;
	if (!want_arrow(r) || !want(r, '(', "'(' is expected") ||
	    !read_values(r, GRAPH_OUTPUT, ')', false, out))
		return false;
	if (take(r, '<') && !read_values(r, GRAPH_VALUE_INFO, '>', false, out))
		return false;
	bool good = read_nodes(r, GRAPH_NODE, out);
	r->depth--;
	return good;
}

/* ---- functions and the model */

static bool read_opsets(struct text_reader *r, uint32_t field, struct message *out)
{
	if (!want(r, '[', "'[' is expected"))
		return false;
	if (take(r, ']'))
		return true;
	do {
		struct message x = {.arena = r->arena};
		struct pb_span domain;
		uint64_t version;
		if (!take_string(r, &domain) || !want(r, ':', "':' is expected") ||
		    !want_int(r, &version))
			return false;
		add_name(&x, 1, domain);
		msg_number(&x, 2, version);
		msg_message(out, field, &x);
	} while (take(r, ','));
	return want(r, ']', "',' or ']' is expected");
}

/* A key of the header of a model or a function. */
struct key {
	const char *word;
	uint32_t field;
	enum { KEY_STRING, KEY_INT, KEY_OPSETS, KEY_ENTRIES } kind;
};

static bool read_header(struct text_reader *r, const struct key *keys, size_t n, struct message *out)
{
	do {
		struct pb_span word = take_identifier(r), s;
		const struct key *k = keys;
		uint64_t v;
		while (k < keys + n && !same_word(word, k->word))
			k++;
		if (k == keys + n)
			return fail(r, "this key is not known");
		if (!want(r, ':', "':' is expected"))
			return false;
		if (k->kind == KEY_STRING && take_string(r, &s))
			add_name(out, k->field, s);
		else if (k->kind == KEY_INT && want_int(r, &v))
			msg_number(out, k->field, v);
		else if (k->kind == KEY_OPSETS)
			read_opsets(r, k->field, out);
		else if (k->kind == KEY_ENTRIES && want(r, '[', "'[' is expected"))
			read_entries(r, k->field, out);
		if (r->error)
			return false;
	} while (take(r, ','));
	return want(r, '>', "',' or '>' is expected");
}

/* Inputs or outputs of a function: names, which may have types. */
static bool read_operands(struct text_reader *r, uint32_t field, struct message *out)
{
	if (!want(r, '(', "'(' is expected"))
		return false;
	if (take(r, ')'))
		return true;
	do {
		struct message info = {.arena = r->arena}, type = {.arena = r->arena};
		bool typed = at_type(r);
		struct pb_span name;
		if ((typed && !read_type(r, &type)) || !want_name(r, &name))
			return false;
		add_name(out, field, name);
		add_name(&info, 1, name);
		msg_message(&info, VALUE_TYPE, &type);
		if (typed)
			msg_message(out, 12, &info);
	} while (take(r, ','));
	return want(r, ')', "',' or ')' is expected");
}

/* Parameters of a function: names, and attributes with defaults. */
static bool read_parameters(struct text_reader *r, struct message *out)
{
	struct pb_span name;

	do {
		if (!want_name(r, &name))
			return false;
		if (peek(r) != ':' && peek(r) != '=')
			add_name(out, FUNCTION_ATTRIBUTE, name);
		else if (!read_attribute(r, name, FUNCTION_DEFAULTS, out))
			return false;
	} while (take(r, ','));
	return want(r, '>', "',' or '>' is expected");
}

static bool read_function(struct text_reader *r, struct message *out)
{
	static const struct key keys[] = {
		{"opset_import", FUNCTION_OPSET, KEY_OPSETS},
		{"doc_string", 8, KEY_STRING},
		{"domain", FUNCTION_DOMAIN, KEY_STRING},
		{"overload", FUNCTION_OVERLOAD, KEY_STRING},
	};
	struct message x = {.arena = r->arena};
	struct pb_span name;

	if (take(r, '<') && !read_header(r, keys, sizeof(keys) / sizeof(*keys), &x))
		return false;
	if (!want_name(r, &name))
		return false;
	add_name(&x, FUNCTION_NAME, name);
	if (take(r, '<') && !read_parameters(r, &x))
		return false;
	if (!read_operands(r, FUNCTION_INPUT, &x) || !want_arrow(r) ||
	    !read_operands(r, FUNCTION_OUTPUT, &x))
		return false;
	if (take(r, '<') && !read_values(r, 12, '>', false, &x))
		return false;
	if (!read_nodes(r, FUNCTION_NODE, &x))
		return false;
	msg_message(out, MODEL_FUNCTIONS, &x);
	return true;
}

static bool read_model(struct text_reader *r, struct message *out)
{
	static const struct key keys[] = {
		{"ir_version", 1, KEY_INT},	  {"opset_import", MODEL_OPSET, KEY_OPSETS},
		{"producer_name", 2, KEY_STRING}, {"producer_version", 3, KEY_STRING},
		{"domain", 4, KEY_STRING},	  {"model_version", 5, KEY_INT},
		{"doc_string", 6, KEY_STRING},	  {"metadata_props", MODEL_META, KEY_ENTRIES},
	};
	struct message g = {.arena = r->arena};

	if (take(r, '<') && !read_header(r, keys, sizeof(keys) / sizeof(*keys), out))
		return false;
	if (!read_graph(r, &g))
		return false;
	msg_message(out, MODEL_GRAPH, &g);
	while (peek(r))
		if (!read_function(r, out))
			return false;
	return r->p == r->end || fail(r, "something follows the model");
}

int text_to_model(struct pb_span text, struct message *out, struct file_spill *data, struct diag *d)
{
	struct text_reader r = {.p = text.p,
				.end = text.p + text.n,
				.arena = out->arena,
				.keep = out->arena,
				.data = data};
	size_t line = 1, column = 1;

	if (read_model(&r, out))
		return 0;
	for (const uint8_t *p = text.p; p < r.p; p++) {
		column = *p == '\n' ? 1 : column + 1;
		line += *p == '\n';
	}
	return FAIL(d, E_MODEL_FORMAT, .slot = fmt(d, "line %zu, column %zu", line, column),
		    .message = fmt(d, "%s",
				   r.error ? r.error : "this is no model in ONNX's text form"));
}
