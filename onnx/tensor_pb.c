/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/tensor_pb.h"

#include "base/file.h"
#include "onnx.pb-c.h"
#include "onnx/weights.h"

#include <inttypes.h>
#include <string.h>

/* ---- reading */

enum {
	SEQUENCE_ELEM = 2,
	SEQUENCE_TENSORS = 3,
	SEQUENCE_SPARSE = 4,
	SEQUENCE_SEQUENCES = 5,
	SEQUENCE_MAPS = 6,
	SEQUENCE_OPTIONALS = 7,
	MAP_KEY_TYPE = 2,
	MAP_KEYS = 3,
	MAP_STRING_KEYS = 4,
	MAP_VALUES = 5,
};

struct reader {
	struct arena *a;
	struct diag *d;
	struct weights_to to;
};

static int bad(struct reader *r, const char *expected, const char *actual)
{
	return FAIL(r->d, E_INPUT_FORMAT, .expected = expected, .actual = actual);
}

static int read_value(struct reader *r, struct pb_span m, struct type expect, struct tensor **out);

static struct type element_type(struct type t)
{
	return (struct type){.kind = t.of, .of = t.of_of, .dtype = t.dtype, .key = t.key};
}

/*
 * Type of a sequence or optional that holds x. An empty one (x is NULL) gets the element type that the caller
 * expects, because the file does not store the type.
 */
static struct type holder_type(enum vkind kind, const struct tensor *x, struct type expect)
{
	if (!x)
		return (struct type){.kind = (uint8_t)kind,
				     .of = expect.of,
				     .of_of = expect.of_of,
				     .dtype = expect.dtype,
				     .key = expect.key};
	return (struct type){.kind = (uint8_t)kind,
			     .of = x->type.kind,
			     .of_of = x->type.of,
			     .dtype = x->type.dtype,
			     .key = x->type.key};
}

/* Value of a singular numeric field, or 0 if it is absent. If the field occurs several times, the last one counts. */
static uint64_t number(struct pb_span m, uint32_t field)
{
	struct pb_values v = pb_values(m, field, PB_VARINT);
	uint64_t x = 0;

	while (pb_value(&v, &x))
		;
	return x;
}

/* Reads an element of a sequence or optional, whose kind follows from the field number. */
static int read_element(struct reader *r, struct pb_span m, uint32_t field, struct type expect,
			struct tensor **out)
{
	static const uint8_t kinds[] = {
		[SEQUENCE_TENSORS] = V_TENSOR,	   [SEQUENCE_SPARSE] = V_TENSOR,
		[SEQUENCE_SEQUENCES] = V_SEQUENCE, [SEQUENCE_MAPS] = V_MAP,
		[SEQUENCE_OPTIONALS] = V_OPTIONAL,
	};

	if (field == SEQUENCE_SPARSE)
		return weights_sparse(&r->to, m, out, NULL);
	expect.kind = kinds[field];
	return read_value(r, m, expect, out);
}

static int read_sequence(struct reader *r, struct pb_span m, struct type expect, struct tensor **out)
{
	struct tensor *t = arena_new(r->a, struct tensor);
	uint64_t elem = number(m, SEQUENCE_ELEM);
	uint32_t field = SEQUENCE_TENSORS;
	struct pb_span rest = m, s;

	if (elem > 5)
		return bad(r, "a kind of elements that ONNX has", fmt(r->d, "number %" PRIu64, elem));
	if (elem)
		field = (uint32_t)(SEQUENCE_TENSORS + elem - 1);
	for (uint32_t f = SEQUENCE_TENSORS; f <= SEQUENCE_OPTIONALS && !elem; f++)
		if (pb_occurs(m, f))
			field = f;
	t->arena = r->a;
	t->items = arena_new_n(r->a, struct tensor *, pb_occurs(m, field));
	while (pb_each(&rest, field, &s)) {
		int rc = read_element(r, s, field, element_type(expect), &t->items[t->nitems]);
		if (rc)
			return rc;
		t->nitems++;
	}
	t->type = holder_type(V_SEQUENCE, t->nitems ? t->items[0] : NULL, expect);
	*out = t;
	return 0;
}

static int read_optional(struct reader *r, struct pb_span m, struct type expect, struct tensor **out)
{
	struct tensor *t = arena_new(r->a, struct tensor);

	t->arena = r->a;
	t->items = arena_new_n(r->a, struct tensor *, 1);
	for (uint32_t f = SEQUENCE_TENSORS; f <= SEQUENCE_OPTIONALS && !t->nitems; f++) {
		struct pb_span s = pb_sub(m, f, r->a);
		if (!s.p)
			continue;
		int rc = read_element(r, s, f, element_type(expect), &t->items[0]);
		if (rc)
			return rc;
		t->nitems = 1;
	}
	t->type = holder_type(V_OPTIONAL, t->nitems ? t->items[0] : NULL, expect);
	*out = t;
	return 0;
}

static int read_keys(struct reader *r, struct pb_span m, enum dtype type, struct tensor **out)
{
	bool text = type == DT_STRING;
	size_t n = text ? pb_occurs(m, MAP_STRING_KEYS) : pb_count(m, MAP_KEYS, PB_VARINT), i = 0;
	struct shape shape = {.rank = 1, .dim = {(int64_t)n}};

	if (text) {
		const char **s = arena_new_n(r->a, const char *, n);
		size_t *length = arena_new_n(r->a, size_t, n);
		struct pb_span rest = m, key;
		for (; i < n && pb_each(&rest, MAP_STRING_KEYS, &key); i++) {
			s[i] = (const char *)key.p;
			length[i] = key.n;
		}
		*out = tensor_strings(r->a, &shape, s, length);
		return 0;
	}
	if (dtype_class(type) != DT_INT && dtype_class(type) != DT_UINT)
		return bad(r, "keys of integers or strings", dtype_name(type));
	*out = tensor_new(r->a, type, &shape);
	struct pb_values v = pb_values(m, MAP_KEYS, PB_VARINT);
	uint64_t x;
	for (; i < n && pb_value(&v, &x); i++)
		elem_set_i64(type, (*out)->data, (int64_t)i, (int64_t)x);
	return 0;
}

/* Joins the values of a map, each a tensor of one element, into one tensor. */
static int join_map_values(struct reader *r, const struct tensor *list, enum dtype type,
			   struct tensor **out)
{
	struct shape shape = {.rank = 1, .dim = {(int64_t)list->nitems}};
	size_t size = dtype_bits(type) / 8;

	for (size_t i = 0; i < list->nitems; i++)
		if (tensor_dtype(list->items[i]) != type || tensor_count(list->items[i]) != 1)
			return bad(r, fmt(r->d, "map values of one %s each", dtype_name(type)),
				   dtype_name(tensor_dtype(list->items[i])));
	if (type == DT_STRING) {
		const char **s = arena_new_n(r->a, const char *, list->nitems);
		size_t *length = arena_new_n(r->a, size_t, list->nitems);
		for (size_t i = 0; i < list->nitems; i++)
			s[i] = tensor_string(list->items[i], 0, &length[i]);
		*out = tensor_strings(r->a, &shape, s, length);
		return 0;
	}
	if (!size)
		return bad(r, "map values of whole bytes", dtype_name(type));
	*out = tensor_new(r->a, type, &shape);
	for (size_t i = 0; i < list->nitems; i++)
		memcpy((char *)(*out)->data + i * size, list->items[i]->data, size);
	return 0;
}

static int read_map(struct reader *r, struct pb_span m, struct type expect, struct tensor **out)
{
	struct tensor *t = arena_new(r->a, struct tensor), *list;
	uint64_t key = number(m, MAP_KEY_TYPE);
	struct pb_span values = pb_sub(m, MAP_VALUES, r->a);
	struct type each = {.kind = V_SEQUENCE, .of = V_TENSOR, .dtype = expect.dtype};

	if (!key || key >= DT_COUNT)
		return bad(r, "a type of keys that ONNX has", fmt(r->d, "number %" PRIu64, key));
	t->arena = r->a;
	t->items = arena_new_n(r->a, struct tensor *, 2);
	t->nitems = 2;
	int rc = read_keys(r, m, (enum dtype)key, &t->items[0]);
	if (!rc)
		rc = read_sequence(r, values, each, &list);
	if (rc)
		return rc;
	if (list->type.of != V_TENSOR || (int64_t)list->nitems != tensor_count(t->items[0]))
		return bad(r, fmt(r->d, "%" PRId64 " values", tensor_count(t->items[0])),
			   fmt(r->d, "%zu", list->nitems));
	enum dtype type = list->nitems ? tensor_dtype(list->items[0]) : (enum dtype)expect.dtype;
	rc = join_map_values(r, list, type ? type : DT_F32, &t->items[1]);
	if (rc)
		return rc;
	t->type = (struct type){.kind = V_MAP, .dtype = t->items[1]->type.dtype, .key = (uint8_t)key};
	*out = t;
	return 0;
}

static int read_value(struct reader *r, struct pb_span m, struct type expect, struct tensor **out)
{
	if (expect.kind == V_SEQUENCE)
		return read_sequence(r, m, expect, out);
	if (expect.kind == V_OPTIONAL)
		return read_optional(r, m, expect, out);
	if (expect.kind == V_MAP)
		return read_map(r, m, expect, out);
	return weights_tensor(&r->to, m, out, NULL);
}

static const ProtobufCMessageDescriptor *message_of(struct type t)
{
	if (t.kind == V_SEQUENCE)
		return &onnx__sequence_proto__descriptor;
	if (t.kind == V_OPTIONAL)
		return &onnx__optional_proto__descriptor;
	return t.kind == V_MAP ? &onnx__map_proto__descriptor : &onnx__tensor_proto__descriptor;
}

struct tensor *tensor_pb_parse(const void *bytes, size_t n, struct type expect, struct arena *a,
			       struct diag *d)
{
	static const struct pb_codes codes = {E_INPUT_FORMAT, E_INPUT_FORMAT, E_INPUT_FORMAT};
	struct reader r = {.a = a, .d = d, .to = {a, NULL, d, "tensor", true}};
	struct pb_span m = {bytes, n};
	const ProtobufCMessageDescriptor *desc = message_of(expect);
	struct tensor *t = NULL;

	if (pb_check(desc, m, &codes, d)) {
		if (d && !d->last->hint)
			d->last->hint = fmt(d, "the file should hold a %s", desc->short_name);
		return NULL;
	}
	return read_value(&r, m, expect, &t) ? NULL : t;
}

struct tensor *tensor_pb_read(const char *path, struct type expect, struct arena *a, struct diag *d)
{
	struct file_map f;

	if (file_map(path, &f, E_INPUT_OPEN, d))
		return NULL;
	struct tensor *t = tensor_pb_parse(f.data, f.size, expect, a, d);
	file_unmap(&f);
	if (!t)
		diag_where(d, path, NULL, NULL);
	return t;
}

enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_RAW = 9 };

int tensor_pb_head(const void *bytes, size_t n, struct tensor *head, struct diag *d)
{
	static const struct pb_codes codes = {E_INPUT_FORMAT, E_INPUT_FORMAT, E_INPUT_FORMAT};
	struct pb_span m = {bytes, n}, rest = m, raw;
	uint64_t type, dim;
	int rc = pb_check(&onnx__tensor_proto__descriptor, m, &codes, d);

	if (rc)
		return rc;
	*head = (struct tensor){0};
	type = number(m, TENSOR_TYPE);
	if (!type || type >= DT_COUNT)
		return FAIL(d, E_INPUT_FORMAT, .expected = "an element type that ONNX has",
			    .actual = fmt(d, "number %" PRIu64, type));
	head->type = type_tensor((enum dtype)type);
	struct pb_values v = pb_values(m, TENSOR_DIMS, PB_VARINT);
	while (pb_value(&v, &dim)) {
		if (head->shape.rank == MAX_RANK || (int64_t)dim < 0)
			return FAIL(d, E_INPUT_FORMAT, .message = "its dims are too many or negative");
		head->shape.dim[head->shape.rank++] = (int64_t)dim;
	}
	while (pb_each(&rest, TENSOR_RAW, &raw)) {
		head->data = (void *)(uintptr_t)raw.p;
		head->bytes = raw.n;
	}
	return 0;
}

/* ---- writing, through protobuf-c's structs that point to the tensor's own bytes */

static ProtobufCBinaryData binary(const void *p, size_t n)
{
	return (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)p};
}

static Onnx__TensorProto *tensor_message(struct arena *a, const struct tensor *t)
{
	Onnx__TensorProto *p = arena_new(a, Onnx__TensorProto);

	onnx__tensor_proto__init(p);
	p->has_data_type = 1;
	p->data_type = t->type.dtype;
	p->n_dims = (size_t)t->shape.rank;
	p->dims = (int64_t *)(uintptr_t)t->shape.dim;
	if (tensor_dtype(t) != DT_STRING) {
		p->has_raw_data = 1;
		p->raw_data = binary(t->data, t->bytes);
		return p;
	}
	p->n_string_data = (size_t)tensor_count(t);
	p->string_data = arena_new_n(a, ProtobufCBinaryData, p->n_string_data);
	for (size_t i = 0; i < p->n_string_data; i++) {
		size_t n;
		const char *s = tensor_string(t, (int64_t)i, &n);
		p->string_data[i] = binary(s, n);
	}
	return p;
}

static ProtobufCMessage *message(struct arena *a, const struct tensor *t);

static Onnx__SequenceProto *sequence_message(struct arena *a, const struct tensor *t)
{
	static const uint8_t elem[] = {
		[V_NONE] = ONNX__SEQUENCE_PROTO__DATA_TYPE__TENSOR,
		[V_TENSOR] = ONNX__SEQUENCE_PROTO__DATA_TYPE__TENSOR,
		[V_SEQUENCE] = ONNX__SEQUENCE_PROTO__DATA_TYPE__SEQUENCE,
		[V_OPTIONAL] = ONNX__SEQUENCE_PROTO__DATA_TYPE__OPTIONAL,
		[V_MAP] = ONNX__SEQUENCE_PROTO__DATA_TYPE__MAP,
	};
	Onnx__SequenceProto *p = arena_new(a, Onnx__SequenceProto);
	void **all = arena_new_n(a, void *, t->nitems);

	onnx__sequence_proto__init(p);
	p->has_elem_type = 1;
	p->elem_type = elem[t->type.of];
	for (size_t i = 0; i < t->nitems; i++)
		all[i] = message(a, t->items[i]);
	if (t->type.of == V_SEQUENCE) {
		p->n_sequence_values = t->nitems;
		p->sequence_values = (Onnx__SequenceProto **)all;
	} else if (t->type.of == V_MAP) {
		p->n_map_values = t->nitems;
		p->map_values = (Onnx__MapProto **)all;
	} else if (t->type.of == V_OPTIONAL) {
		p->n_optional_values = t->nitems;
		p->optional_values = (Onnx__OptionalProto **)all;
	} else {
		p->n_tensor_values = t->nitems;
		p->tensor_values = (Onnx__TensorProto **)all;
	}
	return p;
}

static Onnx__OptionalProto *optional_message(struct arena *a, const struct tensor *t)
{
	Onnx__OptionalProto *p = arena_new(a, Onnx__OptionalProto);
	void *x = t->nitems ? message(a, t->items[0]) : NULL;
	enum vkind kind = t->nitems ? (enum vkind)t->items[0]->type.kind : (enum vkind)t->type.of;

	onnx__optional_proto__init(p);
	p->has_elem_type = 1;
	p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__TENSOR;
	if (kind == V_SEQUENCE) {
		p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__SEQUENCE;
		p->sequence_value = x;
	} else if (kind == V_MAP) {
		p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__MAP;
		p->map_value = x;
	} else {
		p->tensor_value = x;
	}
	return p;
}

static Onnx__MapProto *map_message(struct arena *a, const struct tensor *t)
{
	Onnx__MapProto *p = arena_new(a, Onnx__MapProto);
	const struct tensor *keys = t->items[0], *values = t->items[1];
	size_t n = (size_t)tensor_count(keys), size = dtype_bits(tensor_dtype(values)) / 8;
	struct tensor list = {.type = {.kind = V_SEQUENCE, .of = V_TENSOR}, .nitems = n};

	onnx__map_proto__init(p);
	p->has_key_type = 1;
	p->key_type = keys->type.dtype;
	if (tensor_dtype(keys) == DT_STRING) {
		Onnx__TensorProto *k = tensor_message(a, keys);
		p->n_string_keys = k->n_string_data;
		p->string_keys = k->string_data;
	} else {
		p->n_keys = n;
		p->keys = arena_new_n(a, int64_t, n);
		for (size_t i = 0; i < n; i++)
			p->keys[i] = elem_i64(tensor_dtype(keys), keys->data, (int64_t)i);
	}
	list.items = arena_new_n(a, struct tensor *, n);
	for (size_t i = 0; i < n; i++) {
		list.items[i] = arena_new(a, struct tensor);
		*list.items[i] = (struct tensor){.type = values->type,
						 .data = (char *)values->data + i * size,
						 .bytes = size,
						 .blob = values->blob};
	}
	p->values = sequence_message(a, &list);
	return p;
}

static ProtobufCMessage *message(struct arena *a, const struct tensor *t)
{
	if (t->type.kind == V_SEQUENCE)
		return &sequence_message(a, t)->base;
	if (t->type.kind == V_OPTIONAL)
		return &optional_message(a, t)->base;
	if (t->type.kind == V_MAP)
		return &map_message(a, t)->base;
	return &tensor_message(a, t)->base;
}

struct sink {
	ProtobufCBuffer base;
	struct file_out *file;
};

static void append(ProtobufCBuffer *b, size_t n, const uint8_t *p)
{
	file_write(((struct sink *)b)->file, p, n);
}

int tensor_pb_write(const char *path, const struct tensor *t, const char *name, struct diag *d)
{
	struct arena a = {0};
	ProtobufCMessage *m = message(&a, t);
	char *copy = name && *name ? arena_str(&a, name) : NULL;
	struct sink s = {{append}, file_create(path, E_OUTPUT, d)};

	if (t->type.kind == V_SEQUENCE)
		((Onnx__SequenceProto *)m)->name = copy;
	else if (t->type.kind == V_OPTIONAL)
		((Onnx__OptionalProto *)m)->name = copy;
	else if (t->type.kind == V_MAP)
		((Onnx__MapProto *)m)->name = copy;
	else
		((Onnx__TensorProto *)m)->name = copy;
	if (s.file)
		protobuf_c_message_pack_to_buffer(m, &s.base);
	arena_free(&a);
	return s.file ? file_commit(s.file, d) : -E_OUTPUT;
}
