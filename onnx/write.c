/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/write.h"

#include "base/file.h"

#include <inttypes.h>

/* Fields of a TensorProto that say where its data are. */
enum {
	TENSOR_TYPE = 2,
	TENSOR_SEGMENT = 3,
	TENSOR_FLOATS = 4,
	TENSOR_STRINGS = 6,
	TENSOR_INT64S = 7,
	TENSOR_RAW = 9,
	TENSOR_DOUBLES = 10,
	TENSOR_UINT64S = 11,
	TENSOR_EXTERNAL = 13,
	TENSOR_LOCATION = 14,
	EXTERNAL = 1, /* value of TENSOR_LOCATION */
};

/* ---- messages */

enum { COPIED_BELOW = 256, FIRST_BLOCK = 64, MAX_BLOCK = 4096 };

static struct piece *append_piece(struct message *m, const void *p, size_t n)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 4;
		m->v = arena_grow(m->arena, m->v, m->n, m->cap, sizeof(*m->v));
	}
	m->v[m->n] = (struct piece){p, n, false};
	m->bytes += n;
	return &m->v[m->n++];
}

static void copy_piece(struct message *m, const void *p, size_t n)
{
	const char *from = p;

	for (size_t k; n; n -= k, from += k) {
		if (!m->room) {
			m->block = m->block ? 2 * m->block : FIRST_BLOCK;
			m->block = m->block < MAX_BLOCK ? m->block : MAX_BLOCK;
			m->end = arena_alloc(m->arena, m->block);
			m->room = m->block;
		}
		struct piece *last = m->n ? &m->v[m->n - 1] : NULL;
		if (!last || !last->own || (const uint8_t *)last->p + last->n != m->end)
			last = append_piece(m, m->end, 0);
		k = n < m->room ? n : m->room;
		memcpy(m->end, from, k);
		last->own = true;
		last->n += k;
		m->end += k;
		m->room -= k;
		m->bytes += k;
	}
}

void msg_piece(struct message *m, const void *p, size_t n)
{
	struct piece *last = m->n ? &m->v[m->n - 1] : NULL;

	if (last && !last->own && (const char *)last->p + last->n == (const char *)p) {
		last->n += n;
		m->bytes += n;
	} else if (n < COPIED_BELOW) {
		copy_piece(m, p, n);
	} else {
		append_piece(m, p, n);
	}
}

size_t encode_number(enum pb_wire wire, uint64_t v, uint8_t *b)
{
	size_t n = 0;

	if (wire != PB_VARINT) {
		n = wire == PB_FIXED32 ? 4 : 8;
		for (size_t i = 0; i < n; i++)
			b[i] = (uint8_t)(v >> 8 * i);
		return n;
	}
	while (v >= 0x80) {
		b[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	b[n++] = (uint8_t)v;
	return n;
}

static void add_varint(struct message *m, uint64_t v)
{
	uint8_t b[10];
	size_t n = encode_number(PB_VARINT, v, b);

	copy_piece(m, b, n);
}

void msg_value(struct message *m, uint32_t field, enum pb_wire wire, uint64_t v)
{
	uint8_t b[10];
	size_t n = encode_number(wire, v, b);

	add_varint(m, (uint64_t)field << 3 | wire);
	copy_piece(m, b, n);
}

void msg_number(struct message *m, uint32_t field, uint64_t v)
{
	msg_value(m, field, PB_VARINT, v);
}

void msg_bytes(struct message *m, uint32_t field, const void *p, size_t n)
{
	add_varint(m, (uint64_t)field << 3 | PB_BYTES);
	add_varint(m, n);
	if (n)
		msg_piece(m, p, n);
}

void msg_text(struct message *m, uint32_t field, const char *s)
{
	add_varint(m, (uint64_t)field << 3 | PB_BYTES);
	add_varint(m, strlen(s));
	copy_piece(m, s, strlen(s));
}

void msg_message(struct message *m, uint32_t field, const struct message *x)
{
	add_varint(m, (uint64_t)field << 3 | PB_BYTES);
	add_varint(m, x->bytes);
	for (size_t i = 0; i < x->n; i++)
		(x->v[i].own ? copy_piece : msg_piece)(m, x->v[i].p, x->v[i].n);
}

bool pb_next_raw(struct pb_span *rest, struct pb_field *f, struct pb_span *raw)
{
	const uint8_t *from = rest->p;

	if (!pb_next(rest, f))
		return false;
	*raw = (struct pb_span){from, (size_t)(rest->p - from)};
	return true;
}

struct pb_span pb_last(struct pb_span m, uint32_t number)
{
	struct pb_span s = {0};

	while (pb_each(&m, number, &s))
		;
	return s;
}

/* ---- tensors */

struct tensor_view {
	struct pb_span raw;
	uint64_t type;
	bool external, segment, strings;
};

static struct tensor_view view_tensor(struct pb_span s)
{
	struct tensor_view v = {0};
	struct pb_field f;

	while (pb_next(&s, &f)) {
		if (f.number == TENSOR_TYPE && f.wire == PB_VARINT)
			v.type = f.value;
		else if (f.number == TENSOR_LOCATION && f.wire == PB_VARINT)
			v.external = f.value == EXTERNAL;
		else if (f.number == TENSOR_RAW && f.wire == PB_BYTES)
			v.raw = f.bytes;
		v.segment |= f.number == TENSOR_SEGMENT;
		v.strings |= f.number == TENSOR_STRINGS;
	}
	return v;
}

int tensor_data(struct copier *c, struct pb_span tensor, struct arena *a, struct pb_span *data)
{
	struct tensor_view v = view_tensor(tensor);
	const struct weights_to to = {a, v.external ? c->store : NULL, c->d, "tensor", false};
	struct tensor *t;

	if (!v.external && v.raw.n) {
		*data = v.raw;
		return 0;
	}
	int rc = weights_tensor(&to, tensor, &t, NULL);
	if (!rc)
		*data = (struct pb_span){t->data, t->bytes};
	return rc;
}

static void add_entry(struct message *m, const char *key, const char *value)
{
	struct message x = {.arena = m->arena};

	msg_text(&x, 1, key);
	msg_text(&x, 2, value);
	msg_message(m, TENSOR_EXTERNAL, &x);
}

static int add_external(struct copier *c, struct pb_span data, struct message *m)
{
	uint64_t at;

	if (__builtin_add_overflow(c->offset, EXTERNAL_ALIGN - 1, &at) ||
	    __builtin_add_overflow(at / EXTERNAL_ALIGN * EXTERNAL_ALIGN, data.n, &c->offset))
		return FAIL(c->d, E_SIZE, .slot = "external data",
			    .expected = "fewer bytes than a file can have");
	at = at / EXTERNAL_ALIGN * EXTERNAL_ALIGN;
	if (!c->strip)
		append_piece(&c->data, data.p, data.n);
	add_entry(m, "location", c->location);
	add_entry(m, "offset", arena_printf(c->arena, "%" PRIu64, at));
	add_entry(m, "length", arena_printf(c->arena, "%zu", data.n));
	msg_number(m, TENSOR_LOCATION, EXTERNAL);
	return 0;
}

int put_weight_data(struct copier *c, struct pb_span data, struct message *x)
{
	if (c->location && data.n >= EXTERNAL_MIN)
		return add_external(c, data, x);
	msg_bytes(x, TENSOR_RAW, data.p, data.n);
	return 0;
}

int copy_tensor(struct copier *c, uint32_t field, struct pb_span tensor, bool initializer,
		struct message *out)
{
	enum {
		DATA = 1 << TENSOR_FLOATS | 1 << 5 | 1 << TENSOR_STRINGS | 1 << TENSOR_INT64S |
		       1 << TENSOR_RAW | 1 << TENSOR_DOUBLES | 1 << TENSOR_UINT64S |
		       1 << TENSOR_EXTERNAL | 1 << TENSOR_LOCATION
	};
	struct tensor_view v = view_tensor(tensor);
	bool move = c->location && initializer && !v.segment && !v.strings &&
		    tensor.n >= EXTERNAL_MIN && v.type != DT_STRING;
	struct arena a = {0};
	struct message x = {.arena = &a};
	struct pb_span rest = tensor, raw, data;
	struct pb_field f;
	int rc = 0;

	if (!v.external && !move) {
		msg_bytes(out, field, tensor.p, tensor.n);
		return 0;
	}
	rc = tensor_data(c, tensor, c->arena, &data);
	if (rc)
		return rc;
	while (pb_next_raw(&rest, &f, &raw))
		if (f.number >= 32 || !((uint32_t)DATA >> f.number & 1))
			msg_piece(&x, raw.p, raw.n);
	if (initializer)
		rc = put_weight_data(c, data, &x);
	else
		msg_bytes(&x, TENSOR_RAW, data.p, data.n);
	msg_message(out, field, &x);
	arena_free(&a);
	return rc;
}

/* ---- messages that hold tensors */

int copy_message(struct copier *c, const ProtobufCMessageDescriptor *desc, struct pb_span s,
		 struct message *out)
{
	struct pb_span rest = s, raw;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		const ProtobufCFieldDescriptor *fd =
			f.wire == PB_BYTES ? protobuf_c_message_descriptor_get_field(desc, f.number)
					   : NULL;
		const ProtobufCMessageDescriptor *in =
			fd && fd->type == PROTOBUF_C_TYPE_MESSAGE ? fd->descriptor : NULL;
		struct message x = {.arena = out->arena};

		if (in == &onnx__tensor_proto__descriptor) {
			rc = copy_tensor(c, f.number, f.bytes,
					 desc == &onnx__graph_proto__descriptor, out);
		} else if (in == &onnx__graph_proto__descriptor ||
			   in == &onnx__node_proto__descriptor ||
			   in == &onnx__attribute_proto__descriptor ||
			   in == &onnx__function_proto__descriptor ||
			   in == &onnx__sparse_tensor_proto__descriptor) {
			rc = copy_message(c, in, f.bytes, &x);
			msg_message(out, f.number, &x);
		} else {
			msg_piece(out, raw.p, raw.n);
		}
	}
	return rc;
}

/* ---- files */

/* Writes a piece in blocks, and gives back the pages of each: otherwise all weights would be in memory in the end. */
static void write_piece(struct file_out *out, const struct piece *x)
{
	enum { BLOCK = 1 << 20 };

	for (size_t at = 0; at < x->n; at += BLOCK) {
		size_t n = x->n - at < BLOCK ? x->n - at : BLOCK;
		file_write(out, (const char *)x->p + at, n);
		file_release((const char *)x->p + at, n);
	}
}

int copy_write_data(const struct copier *c, const char *path)
{
	static const char zeros[EXTERNAL_ALIGN];

	if (!c->data.n) /* no weight is large enough: no node would refer to the file */
		return 0;
	const char *to = path_join(c->arena, path_dir(c->arena, path), c->location);
	struct file_out *out = file_create(to, E_OUTPUT, c->d);
	size_t at = 0;

	for (size_t i = 0; out && i < c->data.n; i++) {
		size_t pad = (EXTERNAL_ALIGN - at % EXTERNAL_ALIGN) % EXTERNAL_ALIGN;
		file_write(out, zeros, pad);
		write_piece(out, &c->data.v[i]);
		at += pad + c->data.v[i].n;
	}
	return out ? file_commit(out, c->d) : -E_OUTPUT;
}

int copy_write(const struct copier *c, const struct message *model, const char *path)
{
	int rc = 0;

	if (model->bytes >= INT32_MAX)
		return FAIL(c->d, E_SIZE, .slot = arena_str(&c->d->arena, path),
			    .expected = "a model of less than 2 GiB",
			    .actual = fmt(c->d, "%zu bytes", model->bytes),
			    .hint = "--external writes the weights to a file of their own");
	if (c->location && !c->strip)
		rc = copy_write_data(c, path);
	struct file_out *out = rc ? NULL : file_create(path, E_OUTPUT, c->d);
	for (size_t i = 0; out && i < model->n; i++)
		write_piece(out, &model->v[i]);
	if (rc)
		return rc;
	return out ? file_commit(out, c->d) : -E_OUTPUT;
}
