/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes ONNX's text form: docs/Syntax.md of onnx, as onnx.parser reads it. An element of a type that has no literal of its own
 * (float16, float8, ...) is its bit pattern as a number; elements smaller than a byte stand packed in numbers of one byte.
 */
#include "base/file.h"
#include "base/str.h"
#include "onnx/forms.h"
#include "onnx/text_words.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct text_writer {
	struct copier *c;
	struct file_out *out;
	int depth;
	size_t lost; /* fields that the form has no place for */
	int rc;	     /* the first error; nothing is written after it */
};

static void put(struct text_writer *w, const char *s)
{
	file_write(w->out, s, strlen(s));
}

static void put_span(struct text_writer *w, struct pb_span s)
{
	if (s.n)
		file_write(w->out, s.p, s.n);
}

static void put_line(struct text_writer *w)
{
	put(w, "\n");
	for (int i = 0; i < w->depth; i++)
		put(w, "   ");
}

/* Records that the form has no words for something. */
static void refuse(struct text_writer *w, const char *what, struct pb_span name)
{
	struct diag *d = w->c->d;

	if (!w->rc)
		w->rc = FAIL(d, E_MODEL_FORMAT,
			     .slot = name.n ? fmt(d, "%s '%.*s'", what,
						  (int)(name.n < 200 ? name.n : 200),
						  (const char *)name.p)
					    : what,
			     .message = "ONNX's text form cannot hold it",
			     .hint = "convert to JSON, which holds everything");
}

/* Counts the fields of a message that the form has no place for. held: bit n stands for field n, which is written. */
static void count_lost(struct text_writer *w, struct pb_span m, uint64_t held)
{
	struct pb_field f;

	while (pb_next(&m, &f))
		if ((f.number >= 64 || !(held >> f.number & 1)) && (f.wire != PB_BYTES || f.bytes.n))
			w->lost++;
}

static bool is_identifier(struct pb_span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] >= 0x80 || !(isalpha(s.p[i]) || s.p[i] == '_' || (i && isdigit(s.p[i]))))
			return false;
	return s.n != 0;
}

static void put_quoted(struct text_writer *w, struct pb_span s)
{
	if (!is_text(s)) {
		refuse(w, "a string that is not UTF-8", (struct pb_span){0});
		return;
	}
	put(w, "\"");
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			put(w, "\\");
		file_write(w->out, s.p + i, 1);
	}
	put(w, "\"");
}

/* Names that begin a type must be quoted, or the parser takes them for one. */
static void put_name(struct text_writer *w, struct pb_span s)
{
	if (is_identifier(s) && !text_is_word(s))
		put_span(w, s);
	else
		put_quoted(w, s);
}

/* A place where the grammar allows no quotes. */
static void put_bare(struct text_writer *w, struct pb_span s, const char *what)
{
	if (!is_identifier(s))
		refuse(w, what, s);
	put_span(w, s);
}

static uint64_t number_of(struct pb_span m, uint32_t field, uint64_t absent)
{
	struct pb_field f;

	while (pb_next(&m, &f))
		if (f.number == field && f.wire != PB_BYTES)
			absent = f.value;
	return absent;
}

static void put_int(struct text_writer *w, int64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, v);
	put(w, text);
}

/* The fewest digits that read back as the same number; always with a point, as -0 would be an integer. */
static void put_real(struct text_writer *w, double v, bool is_float)
{
	char text[40];

	if (!isfinite(v)) {
		put(w, signbit(v) ? "-" : "");
		put(w, isnan(v) ? "nan" : "inf");
		return;
	}
	for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (is_float ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
			break;
	}
	put(w, text);
	if (!strpbrk(text, ".e"))
		put(w, ".0");
}

static void put_names(struct text_writer *w, struct pb_span m, uint32_t field)
{
	struct pb_span s;

	for (bool comma = false; pb_each(&m, field, &s); comma = true) {
		put(w, comma ? ", " : "");
		put_name(w, s);
	}
}

/* ---- types */

static void put_shape(struct text_writer *w, struct pb_span shape)
{
	struct pb_span dim, name;
	bool comma = false;

	count_lost(w, shape, 1 << 1);
	for (; pb_each(&shape, 1, &dim); comma = true) {
		put(w, comma ? "," : "[");
		count_lost(w, dim, 1 << 1 | 1 << 2);
		name = pb_last(dim, 2);
		if (name.n)
			put_name(w, name);
		else if (pb_occurs(dim, 1))
			put_int(w, (int64_t)number_of(dim, 1, 0));
		else
			put(w, "?");
	}
	put(w, comma ? "]" : "");
}

/* Writes an element type; false if the form has no name for it. */
static bool put_element(struct text_writer *w, uint64_t type)
{
	const char *name = text_type_name(type);

	if (name)
		put(w, name);
	return name != NULL;
}

/* TypeProto.Tensor and TypeProto.SparseTensor */
static bool put_tensor_type(struct text_writer *w, struct pb_span t)
{
	if (!put_element(w, number_of(t, 1, 0)))
		return false;
	if (pb_occurs(t, 2))
		put_shape(w, pb_last(t, 2));
	else
		put(w, "[]");
	return true;
}

/* Returns false, with nothing written, if the type says nothing. */
static bool put_type(struct text_writer *w, struct pb_span type)
{
	struct pb_field f, last = {0};
	struct pb_span rest = type;

	count_lost(w, type, ~(UINT64_C(1) << 6));
	while (pb_next(&rest, &f))
		if (f.wire == PB_BYTES && f.number != 6)
			last = f;
	struct pb_span inner = pb_last(last.bytes, last.number == 5 ? 2 : 1);
	switch (last.number) {
	case 1: return put_tensor_type(w, last.bytes);
	case 4:
	case 9: put(w, last.number == 4 ? "seq(" : "optional("); break;
	case 5:
		put(w, "map(");
		if (!put_element(w, number_of(last.bytes, 1, 0)))
			refuse(w, "key type of a map", (struct pb_span){0});
		put(w, ", ");
		break;
	case 8:
		put(w, "sparse_tensor(");
		if (!put_tensor_type(w, last.bytes))
			refuse(w, "element type of a sparse tensor", (struct pb_span){0});
		put(w, ")");
		return true;
	default: w->lost += type.n != 0; return false;
	}
	if (!put_type(w, inner))
		refuse(w, "type of the elements of a sequence, map or optional", (struct pb_span){0});
	put(w, ")");
	return true;
}

static void put_value(struct text_writer *w, struct pb_span info)
{
	count_lost(w, info, 1 << 1 | 1 << 2);
	if (put_type(w, pb_last(info, VALUE_TYPE)))
		put(w, " ");
	put_name(w, pb_last(info, 1));
}

static void put_values(struct text_writer *w, struct pb_span m, uint32_t field)
{
	struct pb_span info;

	put(w, "(");
	for (bool comma = false; pb_each(&m, field, &info); comma = true) {
		put(w, comma ? ", " : "");
		put_value(w, info);
	}
	put(w, ")");
}

/* ---- tensors */

static void put_element_value(struct text_writer *w, enum dtype type, const uint8_t *p, unsigned size)
{
	char text[32];
	uint64_t v = 0;
	double y;
	float x;

	memcpy(&v, p, size);
	if (type == DT_F32 || type == DT_C64) {
		memcpy(&x, p, sizeof(x));
		put_real(w, (double)x, true);
	} else if (type == DT_F64 || type == DT_C128) {
		memcpy(&y, p, sizeof(y));
		put_real(w, y, false);
	} else if (text_is_signed(type)) {
		put_int(w, (int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size));
	} else {
		snprintf(text, sizeof(text), "%" PRIu64, v);
		put(w, text);
	}
}

static void put_elements(struct text_writer *w, enum dtype type, struct pb_span data)
{
	enum { BLOCK = 1 << 20 }; /* bytes after which pages of the source are given back */
	unsigned size = text_number_size(type);

	for (size_t i = 0; i + size <= data.n; i += size) {
		put(w, i ? "," : "");
		put_element_value(w, type, data.p + i, size);
		if ((i + size) % BLOCK == 0)
			file_release(data.p + i + size - BLOCK, BLOCK);
	}
}

static void put_entries(struct text_writer *w, struct pb_span m, uint32_t field)
{
	struct pb_span entry;

	put(w, "[");
	for (bool comma = false; pb_each(&m, field, &entry); comma = true) {
		put(w, comma ? ", " : "");
		put_quoted(w, pb_last(entry, 1));
		put(w, ": ");
		put_quoted(w, pb_last(entry, 2));
	}
	put(w, "]");
}

static void put_data(struct text_writer *w, struct pb_span tensor, enum dtype type)
{
	struct arena a = {0};
	struct pb_span data, s, rest = tensor;
	bool comma = false;

	put(w, "{");
	if (type == DT_STRING) {
		for (; pb_each(&rest, 6, &s); comma = true) {
			put(w, comma ? ", " : "");
			put_quoted(w, s);
		}
	} else {
		int rc = tensor_data(w->c, tensor, &a, &data);
		if (!rc)
			put_elements(w, type, data);
		w->rc = w->rc ? w->rc : rc;
	}
	put(w, "}");
	arena_free(&a);
}

static void put_tensor(struct text_writer *w, struct pb_span tensor, bool initializer)
{
	enum { HELD = 1 << 1 | 1 << 2 | 0xff0 | 1 << 13 | 1 << 14 };
	struct arena a = {0};
	struct pb_values dims;
	uint64_t dim, type = number_of(tensor, 2, 0);
	bool comma = false;

	if (w->c->location && !w->rc)
		w->rc = copy_flat(w->c, tensor, initializer, &a, &tensor);
	struct pb_span name = pb_last(tensor, 8);
	if (w->rc || !put_element(w, type)) {
		refuse(w, "element type of tensor", name);
		arena_free(&a);
		return;
	}
	count_lost(w, tensor, HELD);
	for (dims = pb_values(tensor, 1, PB_VARINT); pb_value(&dims, &dim); comma = true) {
		put(w, comma ? "," : "[");
		put_int(w, (int64_t)dim);
	}
	put(w, comma ? "] " : " ");
	/* The parser expects a bare name in an attribute; nothing refers to it there, so any other is left out. */
	if (initializer || is_identifier(name))
		put_name(w, name);
	else
		w->lost += name.n != 0;
	put(w, initializer ? " = " : " ");
	if (w->c->location && pb_occurs(tensor, 13))
		put_entries(w, tensor, 13);
	else
		put_data(w, tensor, (enum dtype)type);
	arena_free(&a);
}

/* ---- nodes */

static void put_graph(struct text_writer *w, struct pb_span g, bool body);

/* Numbers of an AttributeProto's fields and types. */
enum { A_F = 2, A_I = 3, A_S = 4, A_TYPE_PROTO = 14, A_TYPE = 20, A_REF = 21 };

static void put_numbers(struct text_writer *w, struct pb_span a, uint32_t field, enum pb_wire wire)
{
	struct pb_values v = pb_values(a, field, wire);
	uint64_t x;

	put(w, "[");
	for (bool comma = false; pb_value(&v, &x); comma = true) {
		uint32_t low = (uint32_t)x;
		float f;
		memcpy(&f, &low, sizeof(f));
		put(w, comma ? ", " : "");
		if (wire == PB_FIXED32)
			put_real(w, (double)f, true);
		else
			put_int(w, (int64_t)x);
	}
	put(w, "]");
}

static void put_strings(struct text_writer *w, struct pb_span a)
{
	struct pb_span s;

	put(w, "[");
	for (bool comma = false; pb_each(&a, ATTRIBUTE_STRINGS, &s); comma = true) {
		put(w, comma ? ", " : "");
		put_quoted(w, s);
	}
	put(w, "]");
}

static void put_attribute_value(struct text_writer *w, struct pb_span a, int type)
{
	uint32_t low = (uint32_t)number_of(a, A_F, 0);
	float f;

	memcpy(&f, &low, sizeof(f));
	switch (type) {
	case TEXT_FLOAT: put_real(w, (double)f, true); break;
	case TEXT_INT: put_int(w, (int64_t)number_of(a, A_I, 0)); break;
	case TEXT_STRING: put_quoted(w, pb_last(a, A_S)); break;
	case TEXT_TENSOR: put_tensor(w, pb_last(a, ATTRIBUTE_T), false); break;
	case TEXT_GRAPH: put_graph(w, pb_last(a, ATTRIBUTE_G), true); break;
	case TEXT_FLOATS: put_numbers(w, a, ATTRIBUTE_FLOATS, PB_FIXED32); break;
	case TEXT_INTS: put_numbers(w, a, ATTRIBUTE_INTS, PB_VARINT); break;
	case TEXT_STRINGS: put_strings(w, a); break;
	case TEXT_TYPE_PROTO:
		if (put_type(w, pb_last(a, A_TYPE_PROTO)))
			break;
		/* fallthrough */
	default: refuse(w, "attribute", pb_last(a, 1));
	}
}

/* The type of an attribute; models of IR version 1 do not give it. */
static int attribute_type(struct pb_span a)
{
	static const uint8_t by_field[][2] = {
		{A_F, TEXT_FLOAT},
		{A_I, TEXT_INT},
		{A_S, TEXT_STRING},
		{ATTRIBUTE_T, TEXT_TENSOR},
		{ATTRIBUTE_G, TEXT_GRAPH},
		{ATTRIBUTE_FLOATS, TEXT_FLOATS},
		{ATTRIBUTE_INTS, TEXT_INTS},
		{ATTRIBUTE_STRINGS, TEXT_STRINGS},
		{A_TYPE_PROTO, TEXT_TYPE_PROTO},
	};
	int type = (int)number_of(a, A_TYPE, 0);

	for (size_t i = 0; !type && i < sizeof(by_field) / sizeof(*by_field); i++)
		if (pb_occurs(a, by_field[i][0]))
			type = by_field[i][1];
	return type;
}

static void put_attribute(struct text_writer *w, struct pb_span a)
{
	struct pb_span name = pb_last(a, 1), ref = pb_last(a, A_REF);
	int type = attribute_type(a);
	const char *word = text_attribute_word(type);

	count_lost(w, a,
		   0xfff | 1 << A_TYPE_PROTO | 1 << 15 | 1 << A_TYPE | 1 << A_REF |
			   1 << ATTRIBUTE_SPARSE | 1 << 23);
	put_bare(w, name, "attribute");
	if (!word) {
		refuse(w, "attribute", name);
		return;
	}
	put(w, ": ");
	put(w, word);
	put(w, " = ");
	if (ref.n) {
		put(w, "@");
		put_name(w, ref);
	} else {
		put_attribute_value(w, a, type);
	}
}

static void put_attributes(struct text_writer *w, struct pb_span node)
{
	struct pb_span a;

	put(w, " <");
	for (bool comma = false; pb_each(&node, NODE_ATTRIBUTE, &a); comma = true) {
		put(w, comma ? ", " : "");
		put_attribute(w, a);
	}
	put(w, ">");
}

static bool has_body(struct pb_span node)
{
	struct pb_span a;

	while (pb_each(&node, NODE_ATTRIBUTE, &a))
		if (pb_occurs(a, ATTRIBUTE_G))
			return true;
	return false;
}

/* Writes "com.microsoft." of com.microsoft. */
static void put_domain(struct text_writer *w, struct pb_span domain)
{
	while (domain.n) {
		const uint8_t *dot = memchr(domain.p, '.', domain.n);
		size_t n = dot ? (size_t)(dot - domain.p) : domain.n;
		put_bare(w, (struct pb_span){domain.p, n}, "domain");
		put(w, ".");
		domain = (struct pb_span){domain.p + n, domain.n - n};
		if (dot)
			domain = (struct pb_span){domain.p + 1, domain.n - 1};
	}
}

static void put_node(struct text_writer *w, struct pb_span node)
{
	struct pb_span name = pb_last(node, NODE_NAME), overload = pb_last(node, NODE_OVERLOAD);
	bool attributes = pb_occurs(node, NODE_ATTRIBUTE), after = has_body(node);

	count_lost(w, node, 0x1be);
	put_line(w);
	if (name.n) {
		put(w, "[");
		put_name(w, name);
		put(w, "] ");
	}
	put_names(w, node, NODE_OUTPUT);
	put(w, " = ");
	put_domain(w, pb_last(node, NODE_DOMAIN));
	put_bare(w, pb_last(node, NODE_TYPE), "operator");
	if (overload.n) {
		put(w, ":");
		put_bare(w, overload, "overload");
	}
	if (attributes && !after)
		put_attributes(w, node);
	put(w, " (");
	put_names(w, node, NODE_INPUT);
	put(w, ")");
	if (attributes && after)
		put_attributes(w, node);
}

static void put_nodes(struct text_writer *w, struct pb_span m, uint32_t field)
{
	struct pb_span node;

	put(w, "{");
	w->depth++;
	while (!w->rc && pb_each(&m, field, &node))
		put_node(w, node);
	w->depth--;
	put_line(w);
	put(w, "}");
}

/* ---- graphs, functions, the model */

/* The name of a body must be an identifier and must not look like a value; as nothing refers to it, other characters become '_'. */
static void put_body_name(struct text_writer *w, struct pb_span name)
{
	if (is_identifier(name) && !text_is_word(name)) {
		put_span(w, name);
		return;
	}
	put(w, "body_");
	for (size_t i = 0; i < name.n; i++)
		put_span(w, name.p[i] < 0x80 && isalnum(name.p[i])
				    ? (struct pb_span){name.p + i, 1}
				    : (struct pb_span){(const uint8_t *)"_", 1});
}

static void put_graph(struct text_writer *w, struct pb_span g, bool body)
{
	struct pb_span rest, m, name = pb_last(g, GRAPH_NAME);
	bool some = false;

	count_lost(w, g, 1 << 1 | 1 << 2 | 1 << 5 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 15);
	if (pb_occurs(g, GRAPH_SPARSE))
		refuse(w, "sparse initializer of graph", name);
	if (body)
		put_body_name(w, name);
	else
		put_name(w, name);
	put(w, " ");
	put_values(w, g, GRAPH_INPUT);
	put(w, " => ");
	put_values(w, g, GRAPH_OUTPUT);
	w->depth++;
	for (rest = g; !w->rc && pb_each(&rest, GRAPH_INITIALIZER, &m); some = true) {
		put(w, some ? "," : " <");
		put_line(w);
		put_tensor(w, m, true);
	}
	for (rest = g; !w->rc && pb_each(&rest, GRAPH_VALUE_INFO, &m); some = true) {
		put(w, some ? "," : " <");
		put_line(w);
		put_value(w, m);
	}
	w->depth--;
	put(w, some ? "> " : " ");
	put_nodes(w, g, GRAPH_NODE);
}

static void put_opsets(struct text_writer *w, struct pb_span m, uint32_t field)
{
	struct pb_span opset;

	put(w, "opset_import: [");
	for (bool comma = false; pb_each(&m, field, &opset); comma = true) {
		put(w, comma ? ", " : "");
		put_quoted(w, pb_last(opset, 1));
		put(w, " : ");
		put_int(w, (int64_t)number_of(opset, 2, 0));
	}
	put(w, "]");
}

static void put_string_key(struct text_writer *w, struct pb_span m, uint32_t field, const char *key)
{
	if (!pb_occurs(m, field))
		return;
	put(w, ",\n   ");
	put(w, key);
	put(w, ": ");
	put_quoted(w, pb_last(m, field));
}

static void put_function(struct text_writer *w, struct pb_span f)
{
	struct pb_span rest, m;
	bool some = false;

	count_lost(w, f, 0x3ff2);
	put(w, "<\n   ");
	put_opsets(w, f, FUNCTION_OPSET);
	put_string_key(w, f, FUNCTION_DOMAIN, "domain");
	if (pb_last(f, FUNCTION_OVERLOAD).n)
		put_string_key(w, f, FUNCTION_OVERLOAD, "overload");
	put_string_key(w, f, 8, "doc_string");
	put(w, "\n>\n");
	put_name(w, pb_last(f, FUNCTION_NAME));
	for (rest = f; pb_each(&rest, FUNCTION_ATTRIBUTE, &m); some = true) {
		put(w, some ? ", " : " <");
		put_name(w, m);
	}
	for (rest = f; pb_each(&rest, FUNCTION_DEFAULTS, &m); some = true) {
		put(w, some ? ", " : " <");
		put_attribute(w, m);
	}
	put(w, some ? "> (" : " (");
	put_names(w, f, FUNCTION_INPUT);
	put(w, ") => (");
	put_names(w, f, FUNCTION_OUTPUT);
	put(w, ") ");
	some = false;
	for (rest = f; pb_each(&rest, 12, &m); some = true) {
		put(w, some ? ", " : "<");
		put_value(w, m);
	}
	put(w, some ? "> " : "");
	put_nodes(w, f, FUNCTION_NODE);
	put(w, "\n");
}

static void put_model(struct text_writer *w, struct pb_span m)
{
	struct pb_span rest = m, f;

	count_lost(w, m, 0x41fe | 1 << MODEL_FUNCTIONS);
	put(w, "<\n   ir_version: ");
	put_int(w, (int64_t)number_of(m, 1, 0));
	put(w, ",\n   ");
	put_opsets(w, m, MODEL_OPSET);
	put_string_key(w, m, 2, "producer_name");
	put_string_key(w, m, 3, "producer_version");
	put_string_key(w, m, 4, "domain");
	if (pb_occurs(m, 5)) {
		put(w, ",\n   model_version: ");
		put_int(w, (int64_t)number_of(m, 5, 0));
	}
	put_string_key(w, m, 6, "doc_string");
	if (pb_occurs(m, MODEL_META)) {
		put(w, ",\n   metadata_props: ");
		put_entries(w, m, MODEL_META);
	}
	put(w, "\n>\n");
	put_graph(w, pb_sub(m, MODEL_GRAPH, w->c->arena), false);
	put(w, "\n");
	while (!w->rc && pb_each(&rest, MODEL_FUNCTIONS, &f))
		put_function(w, f);
}

int model_to_text(struct copier *c, struct pb_span model, struct file_out *out)
{
	struct text_writer w = {.c = c, .out = out};

	put_model(&w, model);
	if (!w.rc && w.lost)
		WARN(c->d, E_MODEL_FORMAT,
		     .message = fmt(
			     c->d,
			     "the text form has no place for %s: documentation, metadata of graphs and nodes, and the like are left out",
			     str_many(&c->d->arena, w.lost, "field")),
		     .hint = "convert to JSON, which holds everything");
	return w.rc;
}
