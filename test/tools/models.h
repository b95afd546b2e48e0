/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TOOLS_MODELS_H
#define TEST_TOOLS_MODELS_H
/*
 * Small models, good, odd and hostile, written by hand: bytes as protobuf wants
 * them, and as it does not. test/unit/load.c loads each; test/tools/models.c
 * writes them to files for the command line's tests. Needs nothing of ours.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each file uses some of these. */
#pragma GCC diagnostic ignored "-Wunused-function"

/* ---- a message that grows */

struct w {
	unsigned char *p;
	size_t n, cap;
};

static void w_put(struct w *w, const void *p, size_t n)
{
	if (w->n + n > w->cap) {
		w->cap = (w->n + n) * 2 + 64;
		w->p = realloc(w->p, w->cap);
		if (!w->p)
			abort();
	}
	if (n)
		memcpy(w->p + w->n, p, n);
	w->n += n;
}

static void w_varint(struct w *w, uint64_t v)
{
	do {
		unsigned char b = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		w_put(w, &b, 1);
		v >>= 7;
	} while (v);
}

static void w_int(struct w *w, unsigned field, int64_t v)
{
	w_varint(w, field << 3);
	w_varint(w, (uint64_t)v);
}

static void w_bytes(struct w *w, unsigned field, const void *p, size_t n)
{
	w_varint(w, field << 3 | 2);
	w_varint(w, n);
	w_put(w, p, n);
}

static void w_str(struct w *w, unsigned field, const char *s)
{
	w_bytes(w, field, s, strlen(s));
}

static void w_float(struct w *w, unsigned field, float v)
{
	w_varint(w, field << 3 | 5);
	w_put(w, &v, 4);
}

static void w_free(struct w *w)
{
	free(w->p);
	*w = (struct w){0};
}

/* Puts the inner message in and frees it. */
static void w_msg(struct w *w, unsigned field, struct w inner)
{
	w_bytes(w, field, inner.p, inner.n);
	w_free(&inner);
}

/* ---- parts of a model */

enum {
	F32 = 1,
	U8 = 2,
	I8 = 3,
	I32 = 6,
	I64 = 7,
	STRING = 8,
	BOOL = 9,
	F16 = 10,
	F64 = 11,
	U4 = 21,
	I4 = 22
};

struct dims {
	int n;
	int64_t v[20];
};
#define DIMS(...)                                                                                  \
	((struct dims){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
static const struct dims scalar_dims = {0, {0}};

static struct w m_type(int elem, struct dims dims)
{
	struct w shape = {0}, tensor = {0}, type = {0};

	for (int i = 0; i < dims.n; i++) {
		struct w dim = {0};
		w_int(&dim, 1, dims.v[i]);
		w_msg(&shape, 1, dim);
	}
	w_int(&tensor, 1, elem);
	w_msg(&tensor, 2, shape);
	w_msg(&type, 1, tensor);
	return type;
}

static struct w m_value(const char *name, int elem, struct dims dims)
{
	struct w v = {0};

	w_str(&v, 1, name);
	w_msg(&v, 2, m_type(elem, dims));
	return v;
}

/* Without data. */
static struct w m_tensor(const char *name, int elem, struct dims dims)
{
	struct w t = {0};

	for (int i = 0; i < dims.n; i++)
		w_int(&t, 1, dims.v[i]);
	w_int(&t, 2, elem);
	if (name)
		w_str(&t, 8, name);
	return t;
}

static struct w m_raw(const char *name, int elem, struct dims dims, const void *data, size_t n)
{
	struct w t = m_tensor(name, elem, dims);

	w_bytes(&t, 9, data, n);
	return t;
}

static struct w m_floats(const char *name, int n)
{
	struct w t = m_tensor(name, F32, DIMS(n)), data = {0};

	for (int i = 0; i < n; i++)
		w_put(&data, &(float){(float)i}, 4);
	w_msg(&t, 4, data);
	return t;
}

static void m_entry(struct w *t, const char *key, const char *value)
{
	struct w e = {0};

	w_str(&e, 1, key);
	w_str(&e, 2, value);
	w_msg(t, 13, e);
}

static struct w m_external(const char *name, struct dims dims, const char *location,
			   const char *offset, const char *length)
{
	struct w t = m_tensor(name, F32, dims);

	m_entry(&t, "location", location);
	if (offset)
		m_entry(&t, "offset", offset);
	if (length)
		m_entry(&t, "length", length);
	w_int(&t, 14, 1);
	return t;
}

static void put_names(struct w *w, unsigned field, const char *names)
{
	while (*names) {
		size_t n = strcspn(names, " ");
		w_bytes(w, field, names, n == 1 && *names == '-' ? 0 : n);
		names += n;
		names += *names == ' ';
	}
}

/* Names are parted by spaces; "-" is one that is left out. */
static struct w m_node(const char *type, const char *in, const char *out)
{
	struct w n = {0};

	put_names(&n, 1, in);
	put_names(&n, 2, out);
	w_str(&n, 4, type);
	return n;
}

enum { A_FLOAT = 1, A_INT, A_STRING, A_TENSOR, A_GRAPH, A_FLOATS, A_INTS, A_STRINGS };

static struct w m_attr(const char *name, int type)
{
	struct w a = {0};

	w_str(&a, 1, name);
	w_int(&a, 20, type);
	return a;
}

static void attr_int(struct w *node, const char *name, int64_t v)
{
	struct w a = m_attr(name, A_INT);

	w_int(&a, 3, v);
	w_msg(node, 5, a);
}

static void attr_graph(struct w *node, const char *name, struct w g)
{
	struct w a = m_attr(name, A_GRAPH);

	w_msg(&a, 6, g);
	w_msg(node, 5, a);
}

static void attr_tensor(struct w *node, const char *name, struct w t)
{
	struct w a = m_attr(name, A_TENSOR);

	w_msg(&a, 5, t);
	w_msg(node, 5, a);
}

static void attr_ref(struct w *node, const char *name, int type, const char *ref)
{
	struct w a = m_attr(name, type);

	w_str(&a, 21, ref);
	w_msg(node, 5, a);
}

/* A graph from x to y, f32[2,3], without nodes. */
static struct w m_graph(void)
{
	struct w g = {0};

	w_str(&g, 2, "g");
	w_msg(&g, 11, m_value("x", F32, DIMS(2, 3)));
	w_msg(&g, 12, m_value("y", F32, DIMS(2, 3)));
	return g;
}

static void m_opset(struct w *m, unsigned field, const char *domain, int64_t version)
{
	struct w o = {0};

	if (*domain)
		w_str(&o, 1, domain);
	w_int(&o, 2, version);
	w_msg(m, field, o);
}

/* Fields in the order that writers have: the graph before the opset. */
static void m_model(struct w *m, struct w graph)
{
	w_int(m, 1, 8);
	w_str(m, 2, "test");
	w_msg(m, 7, graph);
	m_opset(m, 8, "", 17);
}

/* y = Relu(x) and whatever is in g already */
static void relu(struct w *m, struct w g)
{
	w_msg(&g, 1, m_node("Relu", "x", "y"));
	m_model(m, g);
}

/* ---- models that load */

static void good(struct w *m)
{
	relu(m, m_graph());
}

static void good_initializer(struct w *m)
{
	struct w g = m_graph();
	float v[300] = {1};

	w_msg(&g, 5, m_raw("w", F32, DIMS(10, 30), v, sizeof(v)));
	relu(m, g);
}

/* Up to IR version 3 an initializer is an input, too. */
static void good_ir3(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 11, m_value("b", F32, DIMS(3)));
	w_msg(&g, 5, m_floats("b", 3));
	w_msg(&g, 1, m_node("Add", "x b", "y"));
	w_int(m, 1, 3);
	w_msg(m, 7, g);
	m_opset(m, 8, "", 9);
}

/* Nodes against the order in which they can run. */
static void good_unsorted(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Relu", "b", "y"));
	w_msg(&g, 1, m_node("Neg", "a", "b"));
	w_msg(&g, 1, m_node("Abs", "x", "a"));
	m_model(m, g);
}

/* A graph in two pieces: protobuf merges them. */
static void good_split(struct w *m)
{
	struct w rest = {0};

	w_int(m, 1, 8);
	w_msg(m, 7, m_graph());
	m_opset(m, 8, "", 17);
	w_msg(&rest, 1, m_node("Relu", "x", "y"));
	w_msg(m, 7, rest);
}

/* Unknown fields of every wire type, which newer writers may add. */
static void good_unknown_fields(struct w *m)
{
	good(m);
	w_int(m, 1000, -1);
	w_str(m, 1001, "new");
	w_float(m, 1002, 1);
	w_varint(m, 1003 << 3 | 1);
	w_put(m, "12345678", 8);
}

/* A body that takes x, w and, through the body inside it, a from around it. */
static void good_captures(struct w *m)
{
	struct w g = m_graph(), then = {0}, other = {0}, inner_then = {0}, inner_else = {0}, n, in;

	w_msg(&inner_then, 1, m_node("Add", "x a", "r"));
	w_msg(&inner_then, 12, m_value("r", F32, DIMS(2, 3)));
	w_msg(&inner_else, 1, m_node("Neg", "x", "r"));
	w_msg(&inner_else, 12, m_value("r", F32, DIMS(2, 3)));
	in = m_node("If", "c", "t");
	attr_graph(&in, "then_branch", inner_then);
	attr_graph(&in, "else_branch", inner_else);
	w_msg(&then, 1, in);
	w_msg(&then, 12, m_value("t", F32, DIMS(2, 3)));
	w_msg(&other, 1, m_node("Add", "x w", "e"));
	w_msg(&other, 12, m_value("e", F32, DIMS(2, 3)));
	n = m_node("If", "c", "y");
	attr_graph(&n, "then_branch", then);
	attr_graph(&n, "else_branch", other);
	w_msg(&g, 11, m_value("c", BOOL, scalar_dims));
	w_msg(&g, 5, m_floats("w", 3));
	w_msg(&g, 1, m_node("Abs", "x", "a"));
	w_msg(&g, 1, n);
	m_model(m, g);
}

static struct w m_function(const char *name, const char *overload, const char *in, const char *out)
{
	struct w f = {0};

	w_str(&f, 1, name);
	put_names(&f, 4, in);
	put_names(&f, 5, out);
	m_opset(&f, 9, "", 17);
	m_opset(&f, 9, "my", 1);
	w_str(&f, 10, "my");
	if (*overload)
		w_str(&f, 13, overload);
	return f;
}

static struct w m_call(const char *type, const char *overload, const char *in, const char *out)
{
	struct w n = m_node(type, in, out);

	w_str(&n, 7, "my");
	if (*overload)
		w_str(&n, 8, overload);
	return n;
}

/* Functions in functions, overloads, attributes with and without defaults, outputs passed through. */
static void good_functions(struct w *m)
{
	struct w g = m_graph(), f, n, a;

	n = m_call("Outer", "", "x", "p q y");
	w_str(&n, 3, "call");
	attr_int(&n, "k", 7);
	w_msg(&g, 1, n);
	m_model(m, g);
	m_opset(m, 8, "my", 1);
	f = m_function("Outer", "", "u v", "u r s");
	w_str(&f, 6, "k");
	n = m_call("Inner", "b", "u v", "r");
	attr_ref(&n, "k2", A_INT, "k");
	w_msg(&f, 7, n);
	w_msg(&f, 7, m_node("Neg", "r", "s"));
	w_msg(m, 25, f);
	f = m_function("Inner", "b", "u v", "r");
	a = m_attr("k2", A_INT);
	w_int(&a, 3, 1);
	w_msg(&f, 11, a);
	a = m_attr("d", A_FLOAT);
	w_float(&a, 2, 0.5f);
	w_msg(&f, 11, a);
	n = m_node("Constant", "", "i");
	attr_ref(&n, "value_int", A_INT, "k2");
	w_msg(&f, 7, n);
	n = m_node("Constant", "", "h");
	attr_ref(&n, "value_float", A_FLOAT, "d");
	w_msg(&f, 7, n);
	w_msg(&f, 7, m_node("Mul", "u h", "r"));
	w_msg(m, 25, f);
	f = m_function("Inner", "", "u", "r");
	w_msg(&f, 7, m_node("Abs", "u", "r"));
	w_msg(m, 25, f);
}

/* An operator that nobody has, twice, one of them in a body. */
static void good_unsupported(struct w *m)
{
	struct w g = m_graph(), then = {0}, other = {0}, n;

	w_msg(&then, 1, m_call("Nobody", "", "x", "r"));
	w_msg(&then, 12, m_value("r", F32, DIMS(2, 3)));
	w_msg(&other, 1, m_node("Nowhere", "x", "r"));
	w_msg(&other, 12, m_value("r", F32, DIMS(2, 3)));
	w_msg(&g, 11, m_value("c", BOOL, scalar_dims));
	w_msg(&g, 1, m_call("Nobody", "", "x", "a"));
	n = m_node("If", "c", "y");
	attr_graph(&n, "then_branch", then);
	attr_graph(&n, "else_branch", other);
	w_msg(&g, 1, n);
	m_model(m, g);
	m_opset(m, 8, "my", 3);
}

/* ---- bytes that are no message */

static void bad_truncated(struct w *m)
{
	good_initializer(m);
	m->n = m->n * 3 / 4;
}

static void bad_truncated_inside(struct w *m)
{
	struct w g = {0};

	w_varint(&g, 1 << 3 | 2);
	w_varint(&g, 100);
	m_model(m, g);
}

static void bad_text(struct w *m)
{
	w_put(m, "name,value\n1,2\n3,4\n", 19);
}

static void bad_lfs(struct w *m)
{
	static const char text[] =
		"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
	w_put(m, text, sizeof(text) - 1);
}

static void bad_empty(struct w *m)
{
	(void)m;
}

static void bad_zeros(struct w *m)
{
	char zeros[64] = {0};
	w_put(m, zeros, sizeof(zeros));
}

static void bad_wire_type(struct w *m)
{
	struct w g = m_graph(), n = {0};

	w_int(&n, 4, 5);
	w_msg(&g, 1, n);
	m_model(m, g);
}

static void bad_group(struct w *m)
{
	w_int(m, 1, 8);
	w_varint(m, 7 << 3 | 3);
	w_varint(m, 7 << 3 | 4);
}

static void bad_field_zero(struct w *m)
{
	w_int(m, 1, 8);
	w_put(m, "\0\0", 2);
}

static void bad_varint(struct w *m)
{
	w_int(m, 1, 8);
	w_varint(m, 5 << 3);
	w_put(m, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
}

static void bad_packed(struct w *m)
{
	struct w g = m_graph(), t = m_tensor("w", F32, DIMS(2));

	w_bytes(&t, 4, "1234567", 7);
	w_msg(&g, 5, t);
	relu(m, g);
}

enum { DEPTH = 60000 };

/* Wraps the message in itself; from the inside out would copy it over and over, so it is written backwards. */
static void nest(struct w *out, const unsigned *fields, int nfields, int depth)
{
	size_t cap = (size_t)depth * (size_t)nfields * 8 + 64, at = cap;
	unsigned char *p = malloc(cap);

	if (!p)
		abort();
	for (int i = 0; i < depth; i++) {
		for (int k = nfields - 1; k >= 0; k--) {
			struct w head = {0};
			w_varint(&head, fields[k] << 3 | 2);
			w_varint(&head, cap - at);
			at -= head.n;
			memcpy(p + at, head.p, head.n);
			w_free(&head);
		}
	}
	w_put(out, p + at, cap - at);
	free(p);
}

/* graph.node.attribute.g.node... */
static void bad_deep_graphs(struct w *m)
{
	struct w g = m_graph();

	nest(&g, (const unsigned[]){1, 5, 6}, 3, DEPTH / 3);
	relu(m, g);
}

/* sequence(sequence(...)) */
static void bad_deep_type(struct w *m)
{
	struct w g = m_graph(), v = {0}, type = {0};

	nest(&type, (const unsigned[]){4, 1}, 2, DEPTH / 2);
	w_str(&v, 1, "deep");
	w_msg(&v, 2, type);
	w_msg(&g, 13, v);
	relu(m, g);
}

/* ---- messages that are no model */

static void bad_no_graph(struct w *m)
{
	w_int(m, 1, 8);
	m_opset(m, 8, "", 17);
}

static void bad_no_ir(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Relu", "x", "y"));
	w_msg(m, 7, g);
	m_opset(m, 8, "", 17);
}

static void bad_future_ir(struct w *m)
{
	struct w g = m_graph();

	w_int(m, 1, 99);
	w_msg(m, 7, g);
	m_opset(m, 8, "", 17);
}

static void bad_future_opset(struct w *m)
{
	good(m);
	m->n -= 4; /* the opset that m_model put last */
	m_opset(m, 8, "", 1000);
}

static void bad_no_opset(struct w *m)
{
	good(m);
	m->n -= 4;
}

static void bad_domain(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_call("Thing", "", "x", "y"));
	m_model(m, g);
}

/* ---- graphs that are none */

static void bad_cycle(struct w *m)
{
	struct w g = m_graph(), a, b;

	a = m_node("Add", "x q", "p");
	w_str(&a, 3, "first");
	b = m_node("Relu", "p", "q");
	w_str(&b, 3, "second");
	w_msg(&g, 1, a);
	w_msg(&g, 1, b);
	relu(m, g);
}

static void bad_self(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Add", "x y", "y"));
	m_model(m, g);
}

static void bad_missing_name(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Add", "x nothing", "y"));
	m_model(m, g);
}

static void bad_missing_output(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 12, m_value("z", F32, DIMS(1)));
	relu(m, g);
}

static void bad_duplicate_name(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Abs", "x", "y"));
	relu(m, g);
}

static void bad_duplicate_input(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 11, m_value("x", F32, DIMS(1)));
	relu(m, g);
}

static void bad_duplicate_initializer(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 5, m_floats("w", 3));
	w_msg(&g, 5, m_floats("w", 2));
	relu(m, g);
}

static void bad_writes_input(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Abs", "y", "x"));
	relu(m, g);
}

static void bad_nul_name(struct w *m)
{
	struct w g = m_graph(), n = {0};

	w_bytes(&n, 1, "x\0y", 3);
	w_str(&n, 2, "z");
	w_str(&n, 4, "Relu");
	w_msg(&g, 1, n);
	relu(m, g);
}

static void bad_no_type(struct w *m)
{
	struct w g = m_graph(), n = {0};

	w_str(&n, 1, "x");
	w_str(&n, 2, "z");
	w_msg(&g, 1, n);
	relu(m, g);
}

static void bad_unnamed_initializer(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 5, m_raw(NULL, F32, DIMS(1), "1234", 4));
	relu(m, g);
}

static void bad_rank(struct w *m)
{
	struct w g = {0};
	struct dims d = {17, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};

	w_msg(&g, 11, m_value("x", F32, d));
	w_msg(&g, 12, m_value("y", F32, d));
	relu(m, g);
}

static void bad_input_type(struct w *m)
{
	struct w g = {0};

	w_msg(&g, 11, m_value("x", 99, DIMS(1)));
	w_msg(&g, 12, m_value("y", F32, DIMS(1)));
	relu(m, g);
}

/* ---- weights */

static void with_weight(struct w *m, struct w t)
{
	struct w g = m_graph();

	w_msg(&g, 5, t);
	relu(m, g);
}

static void bad_negative_dim(struct w *m)
{
	with_weight(m, m_raw("w", F32, DIMS(2, -3), "123456789012345678901234", 24));
}

static void bad_overflow_dims(struct w *m)
{
	with_weight(m, m_raw("w", F32, DIMS(INT64_MAX / 2, 16), "1234", 4));
}

static void bad_overflow_bytes(struct w *m)
{
	with_weight(m, m_raw("w", F64, DIMS(INT64_MAX / 4), "12345678", 8));
}

static void bad_weight_rank(struct w *m)
{
	with_weight(m, m_raw("w", F32, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
			     "1234", 4));
}

static void bad_short_raw(struct w *m)
{
	with_weight(m, m_raw("w", F32, DIMS(2, 3), "12345678901234567890", 20));
}

static void bad_long_raw(struct w *m)
{
	with_weight(m, m_raw("w", F32, DIMS(2), "123456789012", 12));
}

static void bad_huge_dims(struct w *m)
{
	with_weight(m, m_tensor("w", F32, DIMS(1000000, 1000000)));
}

static void bad_short_typed(struct w *m)
{
	struct w t = m_tensor("w", F32, DIMS(3));

	w_float(&t, 4, 1);
	w_float(&t, 4, 2);
	with_weight(m, t);
}

static void bad_wrong_field(struct w *m)
{
	struct w t = m_tensor("w", F32, DIMS(1));

	w_int(&t, 5, 1);
	with_weight(m, t);
}

static void bad_both_fields(struct w *m)
{
	struct w t = m_raw("w", F32, DIMS(1), "1234", 4);

	w_float(&t, 4, 1);
	with_weight(m, t);
}

static void bad_dtype(struct w *m)
{
	with_weight(m, m_raw("w", 77, DIMS(1), "1234", 4));
}

static void bad_raw_strings(struct w *m)
{
	with_weight(m, m_raw("w", STRING, DIMS(1), "1234", 4));
}

static void bad_sparse(struct w *m)
{
	struct w g = m_graph(), s = {0}, index = m_tensor("", I64, DIMS(1));

	w_msg(&s, 1, m_raw("w", F32, DIMS(1), "1234", 4));
	w_int(&index, 7, 99);
	w_msg(&s, 2, index);
	w_int(&s, 3, 5);
	w_msg(&g, 15, s);
	relu(m, g);
}

static void bad_sparse_bomb(struct w *m)
{
	struct w g = m_graph(), s = {0}, index = m_tensor("", I64, DIMS(1));

	w_msg(&s, 1, m_raw("w", F32, DIMS(1), "1234", 4));
	w_int(&index, 7, 0);
	w_msg(&s, 2, index);
	w_int(&s, 3, 1000000);
	w_int(&s, 3, 1000000);
	w_msg(&g, 15, s);
	relu(m, g);
}

/* weights.bin beside the model holds 24 bytes: what these two ask for lies there. */
static void good_external(struct w *m)
{
	with_weight(m, m_external("w", DIMS(2, 2), "weights.bin", "8", "16"));
}

static void good_external_whole(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "weights.bin", NULL, NULL));
}

static void bad_external_missing(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "nowhere.bin", NULL, NULL));
}

static void bad_external_short(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "weights.bin", "8", "24"));
}

static void bad_external_length(struct w *m)
{
	with_weight(m, m_external("w", DIMS(2), "weights.bin", "0", "24"));
}

static void bad_external_offset(struct w *m)
{
	with_weight(m, m_external("w", DIMS(2), "weights.bin", "18446744073709551615", "8"));
}

static void bad_external_number(struct w *m)
{
	with_weight(m, m_external("w", DIMS(2), "weights.bin", "-8", "8"));
}

static void bad_external_parent(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "../secret.bin", NULL, NULL));
}

static void bad_external_inner_parent(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "sub/../../secret.bin", NULL, NULL));
}

static void bad_external_absolute(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "/etc/passwd", NULL, NULL));
}

/* link.bin is a symbolic link out of the folder */
static void bad_external_link(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "link.bin", NULL, NULL));
}

static void bad_external_folder(struct w *m)
{
	with_weight(m, m_external("w", DIMS(6), "sub", NULL, NULL));
}

/* ---- nodes */

static void bad_attribute_name(struct w *m)
{
	struct w g = m_graph(), n = m_node("Softmax", "x", "y");

	attr_int(&n, "axes", 1);
	w_msg(&g, 1, n);
	m_model(m, g);
}

static void bad_attribute_type(struct w *m)
{
	struct w g = m_graph(), n = m_node("Softmax", "x", "y"), a = m_attr("axis", A_FLOAT);

	w_float(&a, 2, 1);
	w_msg(&n, 5, a);
	w_msg(&g, 1, n);
	m_model(m, g);
}

static void bad_attribute_twice(struct w *m)
{
	struct w g = m_graph(), n = m_node("Softmax", "x", "y");

	attr_int(&n, "axis", 1);
	attr_int(&n, "axis", 0);
	w_msg(&g, 1, n);
	m_model(m, g);
}

static void bad_attribute_missing(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Cast", "x", "y"));
	m_model(m, g);
}

static void bad_many_inputs(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Relu", "x x", "y"));
	m_model(m, g);
}

static void bad_few_inputs(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Add", "x", "y"));
	m_model(m, g);
}

static void bad_hole(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Add", "- x", "y"));
	m_model(m, g);
}

static void bad_many_outputs(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Relu", "x", "y z"));
	m_model(m, g);
}

static void bad_constant(struct w *m)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_node("Constant", "", "c"));
	relu(m, g);
}

/* ---- functions */

static void with_function(struct w *m, struct w f)
{
	struct w g = m_graph();

	w_msg(&g, 1, m_call("F", "", "x", "y"));
	m_model(m, g);
	m_opset(m, 8, "my", 1);
	w_msg(m, 25, f);
}

static void bad_recursion(struct w *m)
{
	struct w f = m_function("F", "", "u", "r");

	w_msg(&f, 7, m_call("F", "", "u", "r"));
	with_function(m, f);
}

static void bad_mutual_recursion(struct w *m)
{
	struct w f = m_function("F", "", "u", "r"), h = m_function("H", "", "u", "r");

	w_msg(&f, 7, m_call("H", "", "u", "r"));
	w_msg(&h, 7, m_call("F", "", "u", "r"));
	with_function(m, f);
	w_msg(m, 25, h);
}

static void chain(struct w *m, int levels, int calls)
{
	for (int i = 0; i <= levels; i++) {
		char name[16], next[16], in[16], out[16];
		snprintf(name, sizeof(name), i ? "F%d" : "F", i);
		snprintf(next, sizeof(next), "F%d", i + 1);
		struct w f = m_function(name, "", "u0", "r");
		for (int k = 0; k < calls; k++) {
			snprintf(in, sizeof(in), "u%d", k);
			snprintf(out, sizeof(out), "u%d", k + 1);
			w_msg(&f, 7,
			      i < levels ? m_call(next, "", in, k + 1 < calls ? out : "r")
					 : m_node("Relu", in, k + 1 < calls ? out : "r"));
		}
		if (i)
			w_msg(m, 25, f);
		else
			with_function(m, f);
	}
}

/* Thirty functions, each of which calls the next one twice: a billion nodes. */
static void bad_explosion(struct w *m)
{
	chain(m, 30, 2);
}

static void bad_long_chain(struct w *m)
{
	chain(m, 5000, 1);
}

static void good_chain(struct w *m)
{
	chain(m, 10, 2);
}

static void bad_function_output(struct w *m)
{
	struct w f = m_function("F", "", "u", "r");

	w_msg(&f, 7, m_node("Relu", "u", "t"));
	with_function(m, f);
}

static void bad_function_capture(struct w *m)
{
	struct w f = m_function("F", "", "u", "r");

	w_msg(&f, 7, m_node("Add", "u x", "r"));
	with_function(m, f);
}

static void bad_function_twice(struct w *m)
{
	struct w f = m_function("F", "", "u", "r"), again = m_function("F", "", "u", "r");

	w_msg(&f, 7, m_node("Relu", "u", "r"));
	with_function(m, f);
	w_msg(m, 25, again);
}

static void bad_function_inputs(struct w *m)
{
	struct w f = m_function("F", "", "", "r");

	w_msg(&f, 7, m_node("Relu", "u", "r"));
	with_function(m, f);
}

static void bad_reference(struct w *m)
{
	struct w g = m_graph(), n = m_node("Softmax", "x", "y");

	attr_ref(&n, "axis", A_INT, "k");
	w_msg(&g, 1, n);
	m_model(m, g);
}

/* ---- small files that ask for much memory */

enum { MANY = 2000000 };

static void many(struct w *w, unsigned field)
{
	unsigned char two[2] = {(unsigned char)(field << 3 | 2), 0};

	for (int i = 0; i < MANY; i++)
		w_put(w, two, 2);
}

static void bad_many_nodes(struct w *m)
{
	struct w g = m_graph();

	many(&g, 1);
	relu(m, g);
}

static void bad_many_initializers(struct w *m)
{
	struct w g = m_graph();

	many(&g, 5);
	relu(m, g);
}

static void bad_many_graph_inputs(struct w *m)
{
	struct w g = m_graph();

	many(&g, 11);
	relu(m, g);
}

static void bad_many_attributes(struct w *m)
{
	struct w g = m_graph(), n = m_node("Relu", "x", "y");

	many(&n, 5);
	w_msg(&g, 1, n);
	m_model(m, g);
}

static void bad_many_node_inputs(struct w *m)
{
	struct w g = m_graph(), n = m_node("Relu", "x", "y");

	many(&n, 1);
	w_str(&n, 1, "x");
	w_msg(&g, 1, n);
	m_model(m, g);
}

static void bad_many_dims(struct w *m)
{
	struct w g = m_graph(), v = {0}, shape = {0}, tensor = {0}, type = {0};

	many(&shape, 1);
	w_int(&tensor, 1, F32);
	w_msg(&tensor, 2, shape);
	w_msg(&type, 1, tensor);
	w_str(&v, 1, "z");
	w_msg(&v, 2, type);
	w_msg(&g, 11, v);
	relu(m, g);
}

static void bad_many_tensor_dims(struct w *m)
{
	struct w t = m_tensor("w", F32, scalar_dims);

	for (int i = 0; i < MANY; i++)
		w_int(&t, 1, 1);
	with_weight(m, t);
}

static void bad_many_opsets(struct w *m)
{
	good(m);
	many(m, 8);
}

static void bad_many_numbers(struct w *m)
{
	struct w t = m_tensor("w", I64, DIMS(3)), data = {0};

	for (int i = 0; i < MANY; i++)
		w_varint(&data, 1);
	w_msg(&t, 7, data);
	with_weight(m, t);
}

/* ---- the list. code: of the finding, "" where the model loads */

static const struct model_case {
	const char *name;
	void (*make)(struct w *);
	const char *code;
} model_cases[] = {
#define GOOD(name)                                                                                 \
	{                                                                                          \
#name, good_##name, ""                                                             \
	}
#define BAD(name, code)                                                                            \
	{                                                                                          \
#name, bad_##name, code                                                            \
	}
	{"good", good, ""},
	GOOD(initializer),
	GOOD(ir3),
	GOOD(unsorted),
	GOOD(split),
	GOOD(unknown_fields),
	GOOD(captures),
	GOOD(functions),
	GOOD(unsupported),
	GOOD(chain),
	GOOD(external),
	GOOD(external_whole),
	BAD(truncated, "MODEL_TRUNCATED"),
	BAD(truncated_inside, "MODEL_FORMAT"),
	BAD(text, "MODEL_FORMAT"),
	BAD(lfs, "MODEL_FORMAT"),
	BAD(empty, "MODEL_FORMAT"),
	BAD(zeros, "MODEL_FORMAT"),
	BAD(wire_type, "MODEL_FORMAT"),
	BAD(group, "MODEL_FORMAT"),
	BAD(field_zero, "MODEL_FORMAT"),
	BAD(varint, "MODEL_FORMAT"),
	BAD(packed, "MODEL_FORMAT"),
	BAD(deep_graphs, "MODEL_DEPTH"),
	BAD(deep_type, "MODEL_DEPTH"),
	BAD(no_graph, "MODEL_FORMAT"),
	BAD(no_ir, "MODEL_FORMAT"),
	BAD(future_ir, "MODEL_VERSION"),
	BAD(future_opset, "MODEL_VERSION"),
	BAD(no_opset, "MODEL_DOMAIN"),
	BAD(domain, "MODEL_DOMAIN"),
	BAD(cycle, "MODEL_CYCLE"),
	BAD(self, "MODEL_CYCLE"),
	BAD(missing_name, "MODEL_NAME"),
	BAD(missing_output, "MODEL_NAME"),
	BAD(duplicate_name, "MODEL_NAME"),
	BAD(duplicate_input, "MODEL_NAME"),
	BAD(duplicate_initializer, "MODEL_NAME"),
	BAD(writes_input, "MODEL_NAME"),
	BAD(nul_name, "MODEL_NAME"),
	BAD(no_type, "MODEL_GRAPH"),
	BAD(unnamed_initializer, "MODEL_NAME"),
	BAD(rank, "RANK"),
	BAD(input_type, "TYPE"),
	BAD(negative_dim, "SIZE"),
	BAD(overflow_dims, "SIZE"),
	BAD(overflow_bytes, "SIZE"),
	BAD(weight_rank, "RANK"),
	BAD(short_raw, "WEIGHT_SIZE"),
	BAD(long_raw, "WEIGHT_SIZE"),
	BAD(huge_dims, "WEIGHT_SIZE"),
	BAD(short_typed, "WEIGHT_SIZE"),
	BAD(wrong_field, "WEIGHT_TYPE"),
	BAD(both_fields, "WEIGHT_TYPE"),
	BAD(dtype, "WEIGHT_TYPE"),
	BAD(raw_strings, "WEIGHT_TYPE"),
	BAD(sparse, "WEIGHT_SIZE"),
	BAD(sparse_bomb, "SIZE"),
	BAD(external_missing, "WEIGHT_EXTERNAL"),
	BAD(external_short, "WEIGHT_EXTERNAL"),
	BAD(external_length, "WEIGHT_SIZE"),
	BAD(external_offset, "WEIGHT_EXTERNAL"),
	BAD(external_number, "WEIGHT_EXTERNAL"),
	BAD(external_parent, "WEIGHT_PATH"),
	BAD(external_inner_parent, "WEIGHT_PATH"),
	BAD(external_absolute, "WEIGHT_PATH"),
	BAD(external_link, "WEIGHT_PATH"),
	BAD(external_folder, "WEIGHT_EXTERNAL"),
	BAD(attribute_name, "OP_ATTRIBUTE"),
	BAD(attribute_type, "OP_ATTRIBUTE"),
	BAD(attribute_twice, "OP_ATTRIBUTE"),
	BAD(attribute_missing, "OP_ATTRIBUTE"),
	BAD(many_inputs, "OP_INPUTS"),
	BAD(few_inputs, "OP_INPUTS"),
	BAD(hole, "OP_INPUTS"),
	BAD(many_outputs, "OP_INPUTS"),
	BAD(constant, "OP_ATTRIBUTE"),
	BAD(recursion, "MODEL_FUNCTION"),
	BAD(mutual_recursion, "MODEL_FUNCTION"),
	BAD(explosion, "MODEL_FUNCTION"),
	BAD(long_chain, "MODEL_FUNCTION"),
	BAD(function_output, "MODEL_FUNCTION"),
	BAD(function_capture, "MODEL_NAME"),
	BAD(function_twice, "MODEL_FUNCTION"),
	BAD(function_inputs, "OP_INPUTS"),
	BAD(reference, "OP_ATTRIBUTE"),
	BAD(many_nodes, "MODEL_GRAPH"),
	BAD(many_initializers, "WEIGHT_TYPE"),
	BAD(many_graph_inputs, "MODEL_NAME"),
	BAD(many_attributes, "OP_ATTRIBUTE"),
	BAD(many_node_inputs, "OP_INPUTS"),
	BAD(many_dims, "MODEL_FORMAT"),
	BAD(many_tensor_dims, "RANK"),
	BAD(many_opsets, "MODEL_FORMAT"),
	BAD(many_numbers, "WEIGHT_SIZE"),
#undef GOOD
#undef BAD
};
enum { MODEL_CASES = sizeof(model_cases) / sizeof(*model_cases) };

#endif
