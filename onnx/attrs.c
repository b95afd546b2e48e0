/* SPDX-License-Identifier: Apache-2.0 */
/* Reads attributes into params by the field table of the operator's row; reads types of values. */
#include "onnx/internal.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>

typedef Onnx__AttributeProto Attr;
#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

/* These attribute values may be large: pb_decode skips them, and they are read where they lie. */
static const struct pb_lazy attr_lazy[] = {
	{&onnx__attribute_proto__descriptor,
	 1u << ATTRIBUTE_T | 1u << ATTRIBUTE_G | 1u << ATTRIBUTE_FLOATS | 1u << ATTRIBUTE_INTS |
		 1u << ATTRIBUTE_STRINGS | 1u << ATTRIBUTE_TENSORS | 1u << ATTRIBUTE_GRAPHS |
		 1u << 13 | 1u << 15 | 1u << ATTRIBUTE_SPARSE | 1u << 23},
	{NULL, 0},
};

static const char *type_name(int type)
{
	static const char *const names[] = {
		"nothing", "a float",	      "an int",		"a string", "a tensor",
		"a graph", "floats",	      "ints",		"strings",  "tensors",
		"graphs",  "a sparse tensor", "sparse tensors", "a type",   "types",
	};
	return type >= 0 && type < (int)(sizeof(names) / sizeof(*names)) ? names[type]
									 : "something unknown";
}

static struct pb_span bytes_of(const Attr *p)
{
	return pb_where(&p->base);
}

/* Early IR versions store no attribute type; it follows from the field that is present. */
static int type_of(const Attr *p)
{
	static const struct {
		uint32_t number;
		int type;
	} by_field[] = {
		{ATTRIBUTE_T, TYPE(TENSOR)},	    {ATTRIBUTE_G, TYPE(GRAPH)},
		{ATTRIBUTE_FLOATS, TYPE(FLOATS)},   {ATTRIBUTE_INTS, TYPE(INTS)},
		{ATTRIBUTE_STRINGS, TYPE(STRINGS)}, {ATTRIBUTE_TENSORS, TYPE(TENSORS)},
		{ATTRIBUTE_GRAPHS, TYPE(GRAPHS)},   {ATTRIBUTE_SPARSE, TYPE(SPARSE_TENSOR)},
	};

	if (p->has_type && p->type)
		return (int)p->type;
	if (p->has_f)
		return TYPE(FLOAT);
	if (p->has_i)
		return TYPE(INT);
	if (p->has_s)
		return TYPE(STRING);
	if (p->tp)
		return TYPE(TYPE_PROTO);
	for (size_t i = 0; i < sizeof(by_field) / sizeof(*by_field); i++)
		if (pb_occurs(bytes_of(p), by_field[i].number))
			return by_field[i].type;
	return TYPE(UNDEFINED);
}

static int attr_fail(struct loader *l, struct pb_span name, const char *expected, const char *actual)
{
	return FAIL(l->d, E_OP_ATTRIBUTE, .slot = fmt(l->d, "attribute '%s'", span_show(l, name)),
		    .message = "wrong value", .expected = expected, .actual = actual);
}

int attr_read(struct loader *l, struct scope *s, struct arena *a, struct pb_span bytes,
	      struct env_attr *out)
{
	struct pb_decoder c = pb_decoder(a, attr_lazy, bytes.n);
	const Attr *p = pb_decode(&c, &onnx__attribute_proto__descriptor, bytes);

	*out = (struct env_attr){.scope = s};
	if (!p)
		return FAIL(l->d, E_MODEL_FORMAT, .message = "an attribute is malformed");
	if (!p->name || !*p->name)
		return FAIL(l->d, E_OP_ATTRIBUTE, .message = "an attribute has no name");
	out->name = (struct pb_span){(const uint8_t *)p->name, strlen(p->name)};
	if (!p->ref_attr_name || !*p->ref_attr_name) {
		out->attr = p;
		return 0;
	}
	if (!s->env)
		return attr_fail(
			l, out->name, "a value",
			fmt(l->d, "a reference to '%s', outside of a function", p->ref_attr_name));
	for (size_t i = 0; i < s->env->n; i++) {
		if (span_is(s->env->v[i].name, p->ref_attr_name)) {
			out->attr = s->env->v[i].attr;
			out->scope = s->env->v[i].scope;
		}
	}
	return 0;
}

/* ---- setters, one for each type of field */

struct sink {
	struct loader *l;
	struct scope *s; /* of the node */
	const struct env_attr *attr;
	const struct field *f;
	void *to; /* the member */
	struct bodies *bodies;
	int version; /* of the operator's row; 0 without one */
};

static int fail(const struct sink *k, const char *expected, const char *actual)
{
	return attr_fail(k->l, k->attr->name, expected, actual);
}

static const char *what(const struct sink *k)
{
	return fmt(k->l->d, "attribute '%s'", span_show(k->l, k->attr->name));
}

static bool in_range(const struct field *f, double v)
{
	return !(f->min < f->max) || (v >= f->min && v <= f->max);
}

static int range_fail(const struct sink *k, double v)
{
	return fail(k, fmt(k->l->d, "a number from %.10g to %.10g", k->f->min, k->f->max),
		    fmt(k->l->d, "%.10g", v));
}

/* Refuses a size, step or position (FIELD_ANY_INT) that has more than 32 bits. */
static int check_width(const struct sink *k, int64_t v)
{
	bool any = !k->f || (k->f->flags & FIELD_ANY_INT) || k->f->type == F_BOOL; /* none: Constant */

	if (any || (v >= INT32_MIN && v <= INT32_MAX))
		return 0;
	return fail(k, "an integer of 32 bits", fmt(k->l->d, "%" PRId64, v));
}

static int set_int(const struct sink *k)
{
	int64_t v = k->attr->attr->i;
	int err = check_width(k, v);

	if (err)
		return err;
	if (!in_range(k->f, (double)v))
		return range_fail(k, (double)v);
	if (k->f->type == F_BOOL)
		*(bool *)k->to = v != 0;
	else
		*(int64_t *)k->to = v;
	return 0;
}

static int set_float(const struct sink *k)
{
	float v = k->attr->attr->f;

	if (!in_range(k->f, (double)v))
		return range_fail(k, (double)v);
	if (k->f->type == F_FLOAT)
		*(float *)k->to = v;
	else
		*(double *)k->to = (double)v;
	return 0;
}

/* Index of the text among the choices "a|b|c", or -1. */
static int index_among(const char *choices, const char *text)
{
	size_t n = strlen(text);
	int i = 0;

	for (const char *c = choices; *c; c += *c == '|', i++) {
		size_t m = strcspn(c, "|");
		if (m == n && !memcmp(c, text, n))
			return i;
		c += m;
	}
	return -1;
}

/* Whether a version lies in "A-B", where either end may be left out; "" has all versions. */
static bool version_in(const char *span, int version)
{
	char *end;
	long first = strtol(span, &end, 10);
	long last = *end == '-' ? strtol(end + 1, NULL, 10) : 0;

	/* strtol takes the dash of "-18" for a sign */
	if (first < 0)
		return version <= -first;
	return version >= first && (last <= 0 || version <= last);
}

/* The versions of choice `at` of the field; "" stands for all. */
static const char *span_at(const struct field *f, int at)
{
	const char *span = f->versions;

	for (; span && at > 0; at--)
		span = (span = strchr(span, '|')) ? span + 1 : NULL;
	return span ? span : "";
}

/* Lists the choices that this version has: "nearest, bilinear". */
static const char *choices_of_version(const struct sink *k)
{
	const char *text = "";
	int i = 0;

	for (const char *c = k->f->choices; *c; c += *c == '|', i++) {
		size_t n = strcspn(c, "|");
		if (version_in(span_at(k->f, i), k->version))
			text = arena_printf(k->l->a, "%s%s%.*s", text, *text ? ", " : "", (int)n, c);
		c += n;
	}
	return text;
}

/* Notes an attribute, or choice `at` of it with this text, which the operator has in other versions only. */
static void note_foreign(const struct sink *k, int at, const char *text)
{
	const char *span = span_at(k->f, at), *others;

	if (!k->version || k->bodies->foreign || version_in(span, k->version))
		return;
	struct foreign_attribute *f = arena_new(k->l->a, struct foreign_attribute);
	others = text ? choices_of_version(k) : "";
	*f = (struct foreign_attribute){
		*others ? arena_printf(k->l->a, "%s '%s', but %s", k->f->name, text, others)
			: arena_printf(k->l->a, "attribute '%s'", k->f->name),
		arena_strn(k->l->a, span, strcspn(span, "|"))};
	k->bodies->foreign = f;
}

static int set_string(const struct sink *k)
{
	ProtobufCBinaryData s = k->attr->attr->s;
	const char *text = span_text(k->l->a, (struct pb_span){s.data, s.len});
	int at = k->f->choices ? index_among(k->f->choices, text) : 0;

	if (strlen(text) != s.len)
		return fail(k, "a text", "one with NUL bytes");
	if (at < 0)
		return fail(k, fmt(k->l->d, "one of %s", k->f->choices),
			    fmt(k->l->d, "'%.100s'", text));
	if (k->f->type == F_ENUM) {
		*(int *)k->to = at;
		note_foreign(k, at, text);
	} else
		*(const char **)k->to = text;
	return 0;
}

static int set_ints(const struct sink *k)
{
	struct pb_span m = bytes_of(k->attr->attr);
	size_t n = pb_count(m, ATTRIBUTE_INTS, PB_VARINT), i = 0;
	int64_t *v = arena_new_n(k->l->a, int64_t, n);
	struct pb_values it = pb_values(m, ATTRIBUTE_INTS, PB_VARINT);
	uint64_t x;

	int err = 0;

	for (; !err && i < n && pb_value(&it, &x); i++) {
		v[i] = (int64_t)x;
		err = check_width(k, v[i]);
	}
	*(struct ints *)k->to = (struct ints){v, (int64_t)i};
	return err;
}

static int set_floats(const struct sink *k)
{
	struct pb_span m = bytes_of(k->attr->attr);
	size_t n = pb_count(m, ATTRIBUTE_FLOATS, PB_FIXED32), i = 0;
	float *v = arena_new_n(k->l->a, float, n);
	struct pb_values it = pb_values(m, ATTRIBUTE_FLOATS, PB_FIXED32);
	uint64_t x;

	for (; i < n && pb_value(&it, &x); i++)
		memcpy(&v[i], &x, sizeof(*v));
	*(struct floats *)k->to = (struct floats){v, (int64_t)i};
	return 0;
}

static int set_strings(const struct sink *k)
{
	struct pb_span rest = bytes_of(k->attr->attr), s;
	size_t n = pb_occurs(rest, ATTRIBUTE_STRINGS), i = 0;
	struct text *v = arena_new_n(k->l->a, struct text, n);

	for (; i < n && pb_each(&rest, ATTRIBUTE_STRINGS, &s); i++)
		v[i] = (struct text){span_text(k->l->a, s), s.n};
	*(struct texts *)k->to = (struct texts){v, (int64_t)i};
	return 0;
}

static int set_tensor(const struct sink *k)
{
	const Attr *p = k->attr->attr;
	bool sparse = type_of(p) == TYPE(SPARSE_TENSOR);
	struct pb_span m = pb_sub(bytes_of(p), sparse ? ATTRIBUTE_SPARSE : ATTRIBUTE_T, k->l->a);
	struct tensor *t = NULL;
	int rc = load_tensor(k->l, m, sparse, what(k), &t, NULL);

	*(const struct tensor **)k->to = t;
	return rc;
}

static int set_tensors(const struct sink *k)
{
	struct pb_span rest = bytes_of(k->attr->attr), m;
	size_t n = pb_occurs(rest, ATTRIBUTE_TENSORS), i = 0;
	const struct tensor **v = arena_new_n(k->l->a, const struct tensor *, n);

	for (; i < n && pb_each(&rest, ATTRIBUTE_TENSORS, &m); i++) {
		struct tensor *t;
		int rc = load_tensor(k->l, m, false, what(k), &t, NULL);
		if (rc)
			return rc;
		v[i] = t;
	}
	*(struct tensors *)k->to = (struct tensors){v, (int64_t)i};
	return 0;
}

static int set_type(const struct sink *k)
{
	struct type_attr *t = arena_new(k->l->a, struct type_attr);

	if (!k->attr->attr->tp)
		return fail(k, "a type", "none");
	*(const struct type_attr **)k->to = t;
	return load_type(k->l, k->attr->attr->tp, false, &t->type, &t->shape);
}

static int add_body(const struct sink *k, struct pb_span bytes)
{
	struct bodies *b = k->bodies;
	struct scope *body;

	if (!k->attr->scope || k->attr->scope->g != k->s->g)
		return FAIL(k->l->d, E_MODEL_FUNCTION,
			    .message = "a graph handed to a function is used inside another body");
	int rc = load_graph(k->l, bytes, k->attr->scope, &body);
	if (rc)
		return rc;
	if (b->n == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 2;
		b->graph = arena_grow(&k->l->scratch, b->graph, b->n, b->cap, sizeof(*b->graph));
		b->scope = arena_grow(&k->l->scratch, b->scope, b->n, b->cap, sizeof(*b->scope));
	}
	b->graph[b->n] = body->g;
	b->scope[b->n++] = body;
	return 0;
}

static int set_graph(const struct sink *k)
{
	struct pb_span m = pb_sub(bytes_of(k->attr->attr), ATTRIBUTE_G, k->l->a);
	int rc = m.p ? add_body(k, m) : fail(k, "a graph", "none");

	if (!rc && k->to)
		*(int *)k->to = (int)k->bodies->n - 1;
	return rc;
}

/* Loads the graphs of an operator without a row, in the order of its attributes, so that `inspect` can show them. */
static int set_graphs(const struct sink *k)
{
	struct pb_span rest = bytes_of(k->attr->attr), m;
	int rc = 0;

	while (!rc && pb_each(&rest, ATTRIBUTE_GRAPHS, &m))
		rc = add_body(k, m);
	return rc;
}

static const struct setter {
	int type;
	int (*set)(const struct sink *);
} setters[] = {
	[F_BOOL] = {TYPE(INT), set_int},
	[F_INT] = {TYPE(INT), set_int},
	[F_SIZE] = {TYPE(INT), set_int},
	[F_FLOAT] = {TYPE(FLOAT), set_float},
	[F_DOUBLE] = {TYPE(FLOAT), set_float},
	[F_DURATION] = {TYPE(FLOAT), set_float},
	[F_STRING] = {TYPE(STRING), set_string},
	[F_ENUM] = {TYPE(STRING), set_string},
	[F_INTS] = {TYPE(INTS), set_ints},
	[F_FLOATS] = {TYPE(FLOATS), set_floats},
	[F_STRINGS] = {TYPE(STRINGS), set_strings},
	[F_LIST] = {TYPE(STRINGS), set_strings},
	[F_TENSOR] = {TYPE(TENSOR), set_tensor},
	[F_TENSORS] = {TYPE(TENSORS), set_tensors},
	[F_TYPE] = {TYPE(TYPE_PROTO), set_type},
	[F_GRAPH] = {TYPE(GRAPH), set_graph},
};

/* ---- a node's attributes */

static int set_known(struct sink *k, const struct op *row, void *params, bool *seen)
{
	const struct env_attr *a = k->attr;
	const char *name = arena_strn(&k->l->scratch, (const char *)a->name.p, a->name.n);
	const struct field *f = row->attrs ? field_find(row->attrs, name) : NULL;

	/* such names are for internal use, and no operator's (ONNX's checker skips them) */
	if (!f && str_starts(name, "__"))
		return 0;
	if (!f) {
		const char *near = row->attrs ? field_nearest(row->attrs, name) : NULL;
		return FAIL(k->l->d, E_OP_ATTRIBUTE,
			    .slot = fmt(k->l->d, "attribute '%s'", span_show(k->l, a->name)),
			    .message = "the operator has no such attribute",
			    .hint = near ? fmt(k->l->d, "the nearest one is '%s'", near) : NULL);
	}
	if (seen[f - row->attrs])
		return fail(k, "one attribute of this name", "a second one");
	seen[f - row->attrs] = true;
	const struct setter *set = &setters[f->type];
	int type = type_of(a->attr);
	if (type != set->type && !(f->type == F_TENSOR && type == TYPE(SPARSE_TENSOR)))
		return fail(k, type_name(set->type), type_name(type));
	k->f = f;
	k->to = (char *)params + f->off;
	/* com.microsoft's operators share tables with ONNX's, but not the versions */
	k->version = row->domain && !strcmp(row->domain, "com.microsoft") ? 0 : row->since;
	if (f->type != F_ENUM)
		note_foreign(k, 0, NULL);
	return set->set(k);
}

static uint64_t hash_number(uint64_t h, uint64_t v)
{
	return hash_bytes(&v, sizeof(v), h);
}

static uint64_t hash_numbers(uint64_t h, struct pb_span m, uint32_t number, enum pb_wire wire)
{
	struct pb_values it = pb_values(m, number, wire);

	h = hash_number(h, number);
	for (uint64_t v; pb_value(&it, &v);)
		h = hash_number(h, v);
	return h;
}

/* How the elements of a field are encoded if they are numbers, packed or not; PB_BYTES for all other fields of a tensor. */
static enum pb_wire wire_of_tensor_field(uint32_t number)
{
	switch (number) {
	case 1: /* dims */
	case 5: /* int32_data */
	case 7: /* int64_data */
	case 11: /* uint64_data */ return PB_VARINT;
	case 4: /* float_data */ return PB_FIXED32;
	case 10: /* double_data */ return PB_FIXED64;
	default: return PB_BYTES;
	}
}

/* Hashes a tensor as it is stored, whatever the order of its fields; its name and description mean nothing. */
static uint64_t hash_tensor(uint64_t h, struct pb_span m)
{
	static const uint32_t lists[] = {1, 4, 5, 7, 10, 11};
	uint64_t others = 0;
	struct pb_field f;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		h = hash_numbers(h, m, lists[i], wire_of_tensor_field(lists[i]));
	/* the strings of string_data stand in their order, and so do the entries of external_data */
	for (uint32_t number = 2; number <= 14; number++) {
		struct pb_span rest = m;
		bool meant = wire_of_tensor_field(number) == PB_BYTES && number != 8 && number != 12;
		while (meant && pb_next(&rest, &f)) {
			if (f.number != number)
				continue;
			others = hash_number(others, number);
			others = f.wire == PB_BYTES
					 ? hash_number(hash_bytes(f.bytes.p, f.bytes.n, others),
						       f.bytes.n)
					 : hash_number(others, f.value);
		}
	}
	return hash_number(h, others);
}

/*
 * Hashes what an attribute of an operator without a row says, not how the file writes it: lists of numbers may be packed or not, and
 * fields stand in any order. Types and sparse tensors are hashed as they are written.
 */
static uint64_t hash_attribute(const struct env_attr *a)
{
	const Attr *p = a->attr;
	struct pb_span m = bytes_of(p), rest = m;
	struct pb_field f;
	uint64_t h = hash_number(hash_bytes(a->name.p, a->name.n, 0), (uint64_t)type_of(p));

	switch (type_of(p)) {
	case TYPE(INT): return hash_number(h, (uint64_t)p->i);
	case TYPE(FLOAT): return hash_bytes(&p->f, sizeof(p->f), h);
	case TYPE(STRING): return hash_bytes(p->s.data, p->s.len, h);
	case TYPE(INTS): return hash_numbers(h, m, ATTRIBUTE_INTS, PB_VARINT);
	case TYPE(FLOATS): return hash_numbers(h, m, ATTRIBUTE_FLOATS, PB_FIXED32);
	default: break;
	}
	while (pb_next(&rest, &f)) {
		if (f.number == ATTRIBUTE_T || f.number == ATTRIBUTE_TENSORS)
			h = hash_tensor(h, f.bytes);
		else if (f.number == ATTRIBUTE_STRINGS || f.number == ATTRIBUTE_SPARSE ||
			 f.number == 14 || f.number == 15 ||
			 f.number == 23) /* type, types, sparse tensors */
			h = hash_number(hash_bytes(f.bytes.p, f.bytes.n, h), f.bytes.n);
	}
	return h;
}

static int set_unknown(struct sink *k)
{
	int type = type_of(k->attr->attr);

	if (type == TYPE(GRAPH))
		return set_graph(k);
	if (type == TYPE(GRAPHS))
		return set_graphs(k);
	k->bodies->unread += hash_attribute(k->attr); /* in any order */
	return 0;
}

static int set_all(struct loader *l, struct scope *s, struct arena *tmp, const struct node_view *v,
		   const struct op *row, void *params, struct bodies *bodies)
{
	struct pb_span rest = v->bytes, m;
	size_t nfields = 0;

	for (const struct field *f = row ? row->attrs : NULL; f && f->name; f++)
		nfields++;
	bool *seen = arena_new_n(tmp, bool, nfields);
	while (pb_each(&rest, NODE_ATTRIBUTE, &m)) {
		struct env_attr attr;
		struct sink k = {.l = l, .s = s, .attr = &attr, .bodies = bodies};
		int rc = attr_read(l, s, tmp, m, &attr);
		if (!rc && attr.attr)
			rc = row ? set_known(&k, row, params, seen) : set_unknown(&k);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < nfields; i++)
		if ((row->attrs[i].flags & FIELD_REQUIRED) && !seen[i])
			return FAIL(l->d, E_OP_ATTRIBUTE,
				    .slot = fmt(l->d, "attribute '%s'", row->attrs[i].name),
				    .message = "it is missing",
				    .expected = type_name(setters[row->attrs[i].type].type));
	return 0;
}

int attrs_load(struct loader *l, struct scope *s, const struct node_view *v, const struct op *row,
	       void **params, struct bodies *bodies)
{
	struct arena tmp = {0};

	*params = NULL;
	if (row) {
		*params = arena_alloc(l->a, row->params_size);
		if (row->attrs && !field_defaults(row->attrs, *params, l->a))
			return FAIL(l->d, E_INTERNAL, .op = row->name,
				    .message = "a wrong default in an attribute table");
	}
	int rc = set_all(l, s, &tmp, v, row, *params, bodies);
	arena_free(&tmp);
	return rc;
}

/* ---- Constant */

static struct tensor *scalar(struct arena *a, enum dtype t, const void *v, size_t size)
{
	struct tensor *x = tensor_new(a, t, &(struct shape){.rank = 0});

	memcpy(x->data, v, size);
	return x;
}

static struct tensor *string_list(struct arena *a, const struct texts *v)
{
	const char **text = arena_new_n(a, const char *, (size_t)v->n);
	size_t *length = arena_new_n(a, size_t, (size_t)v->n);

	for (int64_t i = 0; i < v->n; i++) {
		text[i] = v->v[i].s;
		length[i] = v->v[i].n;
	}
	return tensor_strings(a, &(struct shape){.rank = 1, .dim = {v->n}}, text, length);
}

static struct tensor *list(struct arena *a, enum dtype t, const void *v, int64_t n, size_t size)
{
	struct tensor *x = tensor_new(a, t, &(struct shape){.rank = 1, .dim = {n}});

	if (n)
		memcpy(x->data, v, (size_t)n * size);
	return x;
}

static int constant_list(struct sink *k, struct tensor **out)
{
	struct ints ints = {0};
	struct floats floats = {0};
	struct texts texts = {0};
	struct arena *a = k->l->a;

	if (span_is(k->attr->name, "value_ints")) {
		k->to = &ints;
		(void)set_ints(k);
		*out = list(a, DT_I64, ints.v, ints.n, sizeof(int64_t));
	} else if (span_is(k->attr->name, "value_floats")) {
		k->to = &floats;
		(void)set_floats(k);
		*out = list(a, DT_F32, floats.v, floats.n, sizeof(float));
	} else {
		k->to = &texts;
		(void)set_strings(k);
		*out = string_list(a, &texts);
	}
	return 0;
}

static int constant_value(struct sink *k, struct tensor **out)
{
	static const struct {
		const char *name;
		int type;
	} forms[] = {
		{"value", TYPE(TENSOR)},	{"sparse_value", TYPE(SPARSE_TENSOR)},
		{"value_float", TYPE(FLOAT)},	{"value_int", TYPE(INT)},
		{"value_string", TYPE(STRING)}, {"value_floats", TYPE(FLOATS)},
		{"value_ints", TYPE(INTS)},	{"value_strings", TYPE(STRINGS)},
	};
	const Attr *p = k->attr->attr;
	int type = type_of(p), form = -1;

	for (int i = 0; i < 8; i++)
		if (span_is(k->attr->name, forms[i].name))
			form = i;
	if (form < 0)
		return fail(k, "value, sparse_value, value_int or the like", "another name");
	if (type != forms[form].type)
		return fail(k, type_name(forms[form].type), type_name(type));
	if (form < 2) {
		k->to = out;
		return set_tensor(k);
	}
	if (form == 2)
		*out = scalar(k->l->a, DT_F32, &p->f, sizeof(p->f));
	else if (form == 3)
		*out = scalar(k->l->a, DT_I64, &p->i, sizeof(p->i));
	else if (form == 4)
		*out = tensor_strings(k->l->a, &(struct shape){.rank = 0},
				      (const char *const[]){(const char *)p->s.data}, &p->s.len);
	else
		return constant_list(k, out);
	return 0;
}

int attrs_constant(struct loader *l, struct scope *s, const struct node_view *v, struct tensor **out)
{
	struct pb_span rest = v->bytes, m;
	struct arena tmp = {0};
	int given = 0, rc = 0;

	while (!rc && pb_each(&rest, NODE_ATTRIBUTE, &m)) {
		struct env_attr attr;
		struct sink k = {.l = l, .s = s, .attr = &attr};
		rc = attr_read(l, s, &tmp, m, &attr);
		if (!rc && attr.attr) {
			given++;
			rc = constant_value(&k, out);
		}
	}
	arena_free(&tmp);
	if (!rc && given != 1)
		rc = FAIL(l->d, E_OP_ATTRIBUTE, .expected = "one value",
			  .actual = fmt(l->d, "%d", given));
	return rc;
}

/* ---- types */

/*
 * Does what model_symbol does, but with a hash map instead of a linear search: a file may name many thousands of
 * symbols.
 */
static int64_t symbol_number(struct loader *l, const char *name)
{
	struct model *m = l->m;
	int64_t k = map_get(&l->symbol_of, name, strlen(name));

	if (k < 0) {
		if (m->nsymbols == m->cap_symbols) {
			m->cap_symbols = m->cap_symbols ? 2 * m->cap_symbols : 16;
			m->symbols = arena_grow(&m->arena, m->symbols, m->nsymbols, m->cap_symbols,
						sizeof(*m->symbols));
		}
		k = m->nsymbols++;
		m->symbols[k] = arena_str(&m->arena, name);
		map_set(&l->symbol_of, m->symbols[k], strlen(name), (uint32_t)k);
	}
	return DIM_SYM(k);
}

/* Exporters write these names for an unknown dimension, so two dimensions of such a name need not be equal. */
static bool says_nothing(const char *name)
{
	return !*name || !strcmp(name, "?") || !strcmp(name, "-1") || !strcmp(name, "None");
}

static int load_shape(struct loader *l, const Onnx__TensorShapeProto *p, bool hint, struct shape *out)
{
	*out = SHAPE_UNKNOWN;
	if (!p || (hint && p->n_dim > MAX_RANK))
		return 0;
	if (p->n_dim > MAX_RANK)
		return FAIL(l->d, E_RANK, .expected = fmt(l->d, "at most %d dimensions", MAX_RANK),
			    .actual = fmt(l->d, "%zu", p->n_dim));
	out->rank = (int32_t)p->n_dim;
	for (size_t i = 0; i < p->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *d = p->dim[i];
		int64_t dim = DIM_UNKNOWN;
		/* In a hint exporters write 0 for an unknown size. */
		if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
			dim = d->dim_value > 0 || (!hint && !d->dim_value) ? d->dim_value
									   : DIM_UNKNOWN;
		else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
			 !says_nothing(d->dim_param))
			dim = symbol_number(l, d->dim_param);
		out->dim[i] = dim;
	}
	if (shape_countable(out))
		return 0;
	const char *text = shape_str(&l->d->arena, out, NULL);
	*out = SHAPE_UNKNOWN;
	return hint ? 0
		    : FAIL(l->d, E_SIZE, .expected = "a declared size that can be addressed",
			   .actual = text);
}

static bool dtype_ok(int type)
{
	return type > 0 && type < DT_COUNT && dtype_bits((enum dtype)type);
}

/* Converts a TypeProto to *t. Returns false if infer cannot represent the type; *t then has the part that it can. */
static bool type_chain(const Onnx__TypeProto *p, struct type *t)
{
	const Onnx__TypeProto *elem = NULL;
	struct type of = {0};

	*t = (struct type){0};
	if (!p)
		return true;
	if (p->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
		int e = p->tensor_type->has_elem_type ? p->tensor_type->elem_type : 0;
		*t = type_tensor(dtype_ok(e) ? (enum dtype)e : DT_NONE);
		return dtype_ok(e);
	}
	if (p->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE) {
		int key = p->map_type->has_key_type ? p->map_type->key_type : 0;
		bool ok = type_chain(p->map_type->value_type, &of) && of.kind == V_TENSOR &&
			  dtype_ok(key);
		*t = (struct type){.kind = V_MAP, .dtype = of.dtype, .key = ok ? (uint8_t)key : 0};
		return ok;
	}
	if (p->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
		elem = p->sequence_type->elem_type;
	else if (p->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE)
		elem = p->optional_type->elem_type;
	else
		return p->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET;
	bool ok = type_chain(elem, &of) && !of.of_of && !(of.kind == V_MAP && of.of);
	*t = (struct type){.kind = p->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE
					   ? V_SEQUENCE
					   : V_OPTIONAL,
			   .dtype = of.dtype,
			   .of = of.kind,
			   .of_of = of.of,
			   .key = of.key};
	return ok;
}

int load_type(struct loader *l, const Onnx__TypeProto *p, bool hint, struct type *type,
	      struct shape *shape)
{
	*shape = SHAPE_UNKNOWN;
	if (!type_chain(p, type)) {
		*type = (struct type){0};
		if (hint)
			return 0;
		return FAIL(l->d, E_TYPE, .message = "a declared type that this build cannot hold",
			    .expected = "a tensor, or a sequence, optional or map of tensors");
	}
	if (type->kind != V_TENSOR)
		return 0;
	return load_shape(l, p->tensor_type->shape, hint, shape);
}
