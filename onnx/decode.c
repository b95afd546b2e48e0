/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/decode.h"

#include "base/file.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed numbers are read where they lie");

/* ---- the wire */

enum status { OK, END, CUT, TOO_LONG, GROUP, NO_FIELD, NO_WIRE };

static enum status read_varint(struct pb_span *rest, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 10; i++) {
		if (i >= rest->n)
			return CUT;
		uint8_t b = rest->p[i];
		if (i == 9 && b > 1)
			return TOO_LONG;
		v |= (uint64_t)(b & 0x7f) << 7 * i;
		if (!(b & 0x80)) {
			rest->p += i + 1;
			rest->n -= i + 1;
			*out = v;
			return OK;
		}
	}
	return TOO_LONG;
}

static enum status read_fixed(struct pb_span *rest, size_t bytes, uint64_t *out)
{
	*out = 0;
	if (rest->n < bytes)
		return CUT;
	memcpy(out, rest->p, bytes);
	rest->p += bytes;
	rest->n -= bytes;
	return OK;
}

static enum status read_bytes(struct pb_span *rest, struct pb_field *f)
{
	enum status s = read_varint(rest, &f->value);

	if (s != OK)
		return s;
	if (f->value > rest->n)
		return CUT;
	f->bytes = (struct pb_span){rest->p, (size_t)f->value};
	rest->p += f->bytes.n;
	rest->n -= f->bytes.n;
	file_pass(f->bytes.p, f->bytes.n);
	return OK;
}

static enum status read_number(struct pb_span *rest, uint32_t wire, uint64_t *out)
{
	if (wire == PB_VARINT)
		return read_varint(rest, out);
	return read_fixed(rest, wire == PB_FIXED64 ? 8 : 4, out);
}

static enum status read_field(struct pb_span *rest, struct pb_field *f)
{
	uint64_t tag;

	if (!rest->n)
		return END;
	*f = (struct pb_field){0};
	enum status s = read_varint(rest, &tag);
	if (s != OK)
		return s;
	f->wire = tag & 7;
	if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		return NO_FIELD;
	f->number = (uint32_t)(tag >> 3);
	if (f->wire == PB_BYTES)
		return read_bytes(rest, f);
	if (f->wire == 3 || f->wire == 4)
		return GROUP;
	if (f->wire > 5)
		return NO_WIRE;
	return read_number(rest, f->wire, &f->value);
}

bool pb_next(struct pb_span *rest, struct pb_field *f)
{
	if (read_field(rest, f) == OK)
		return true;
	rest->n = 0;
	return false;
}

bool pb_each(struct pb_span *rest, uint32_t number, struct pb_span *bytes)
{
	struct pb_field f;

	while (pb_next(rest, &f)) {
		if (f.number == number && f.wire == PB_BYTES) {
			*bytes = f.bytes;
			return true;
		}
	}
	return false;
}

size_t pb_occurs(struct pb_span m, uint32_t number)
{
	struct pb_field f;
	size_t n = 0;

	while (pb_next(&m, &f))
		n += f.number == number;
	return n;
}

struct pb_span pb_sub(struct pb_span m, uint32_t number, struct arena *a)
{
	struct pb_span all = {0}, s, rest = m;
	size_t pieces = 0, total = 0;

	while (pb_each(&rest, number, &s)) {
		all = s;
		total += s.n;
		pieces++;
	}
	if (pieces < 2)
		return all;
	uint8_t *p = arena_alloc(a, total + 1);
	all = (struct pb_span){p, total};
	for (rest = m; pb_each(&rest, number, &s);) {
		if (s.n)
			memcpy(p, s.p, s.n);
		p += s.n;
	}
	return all;
}

struct pb_values pb_values(struct pb_span m, uint32_t number, enum pb_wire wire)
{
	return (struct pb_values){.rest = m, .number = number, .wire = wire};
}

bool pb_value(struct pb_values *v, uint64_t *out)
{
	struct pb_field f;

	for (;;) {
		if (v->pack.n) {
			if (read_number(&v->pack, v->wire, out) == OK)
				return true;
			v->pack.n = 0;
		}
		do {
			if (!pb_next(&v->rest, &f))
				return false;
		} while (f.number != v->number);
		if (f.wire == v->wire) {
			*out = f.value;
			return true;
		}
		if (f.wire == PB_BYTES)
			v->pack = f.bytes;
	}
}

/* Number of elements in a packed field. A varint ends at its first byte below 0x80, so those bytes are counted. */
static size_t count_packed(struct pb_span s, uint32_t wire)
{
	size_t n = 0;

	if (wire != PB_VARINT)
		return s.n / (wire == PB_FIXED64 ? 8 : 4);
	for (size_t i = 0; i < s.n; i++)
		n += !(s.p[i] & 0x80);
	return n;
}

size_t pb_count(struct pb_span m, uint32_t number, enum pb_wire wire)
{
	struct pb_field f;
	size_t n = 0;

	while (pb_next(&m, &f)) {
		if (f.number != number)
			continue;
		if (f.wire == PB_BYTES)
			n += count_packed(f.bytes, wire);
		else
			n += f.wire == wire;
	}
	return n;
}

struct pb_span pb_block(struct pb_span m, uint32_t number, enum pb_wire wire)
{
	struct pb_span s, block = {0};
	size_t bytes = pb_count(m, number, wire) * (wire == PB_FIXED64 ? 8 : 4);

	while (pb_each(&m, number, &s))
		if (s.n == bytes)
			block = s;
	return block;
}

/* ---- wire types by descriptor */

static enum pb_wire wire_of(ProtobufCType type)
{
	static const uint8_t wires[] = {
		[PROTOBUF_C_TYPE_INT32] = PB_VARINT,	 [PROTOBUF_C_TYPE_SINT32] = PB_VARINT,
		[PROTOBUF_C_TYPE_SFIXED32] = PB_FIXED32, [PROTOBUF_C_TYPE_INT64] = PB_VARINT,
		[PROTOBUF_C_TYPE_SINT64] = PB_VARINT,	 [PROTOBUF_C_TYPE_SFIXED64] = PB_FIXED64,
		[PROTOBUF_C_TYPE_UINT32] = PB_VARINT,	 [PROTOBUF_C_TYPE_FIXED32] = PB_FIXED32,
		[PROTOBUF_C_TYPE_UINT64] = PB_VARINT,	 [PROTOBUF_C_TYPE_FIXED64] = PB_FIXED64,
		[PROTOBUF_C_TYPE_FLOAT] = PB_FIXED32,	 [PROTOBUF_C_TYPE_DOUBLE] = PB_FIXED64,
		[PROTOBUF_C_TYPE_BOOL] = PB_VARINT,	 [PROTOBUF_C_TYPE_ENUM] = PB_VARINT,
		[PROTOBUF_C_TYPE_STRING] = PB_BYTES,	 [PROTOBUF_C_TYPE_BYTES] = PB_BYTES,
		[PROTOBUF_C_TYPE_MESSAGE] = PB_BYTES,
	};
	return (enum pb_wire)wires[type];
}

static size_t size_of(ProtobufCType type)
{
	static const uint8_t sizes[] = {
		[PROTOBUF_C_TYPE_INT32] = 4,
		[PROTOBUF_C_TYPE_SINT32] = 4,
		[PROTOBUF_C_TYPE_SFIXED32] = 4,
		[PROTOBUF_C_TYPE_INT64] = 8,
		[PROTOBUF_C_TYPE_SINT64] = 8,
		[PROTOBUF_C_TYPE_SFIXED64] = 8,
		[PROTOBUF_C_TYPE_UINT32] = 4,
		[PROTOBUF_C_TYPE_FIXED32] = 4,
		[PROTOBUF_C_TYPE_UINT64] = 8,
		[PROTOBUF_C_TYPE_FIXED64] = 8,
		[PROTOBUF_C_TYPE_FLOAT] = 4,
		[PROTOBUF_C_TYPE_DOUBLE] = 8,
		[PROTOBUF_C_TYPE_BOOL] = sizeof(protobuf_c_boolean),
		[PROTOBUF_C_TYPE_ENUM] = 4,
		[PROTOBUF_C_TYPE_STRING] = sizeof(char *),
		[PROTOBUF_C_TYPE_BYTES] = sizeof(ProtobufCBinaryData),
		[PROTOBUF_C_TYPE_MESSAGE] = sizeof(void *),
	};
	return sizes[type];
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *desc, uint32_t number)
{
	for (unsigned i = 0; i < desc->n_fields; i++)
		if (desc->fields[i].id == number)
			return &desc->fields[i];
	return NULL;
}

/* ---- checking a whole file */

struct checker {
	struct pb_span file;
	const struct pb_codes *codes;
	struct diag *d;
	struct {
		const ProtobufCFieldDescriptor *field;
		struct pb_span message; /* message that holds the field */
		const uint8_t *at;
	} path[PB_DEPTH + 1];
	unsigned depth;
	bool known; /* at least one field was known: an unrelated file seldom has one */
};

/* "graph.node[12].op_type (byte 4711)" */
static const char *place(const struct checker *c, const uint8_t *at)
{
	const char *s = "";

	for (unsigned i = 0; i < c->depth; i++) {
		const ProtobufCFieldDescriptor *fd = c->path[i].field;
		struct pb_span before = {c->path[i].message.p,
					 (size_t)(c->path[i].at - c->path[i].message.p)};
		if (!fd)
			continue;
		s = fmt(c->d, "%s%s%s", s, *s ? "." : "", fd->name);
		if (fd->label == PROTOBUF_C_LABEL_REPEATED)
			s = fmt(c->d, "%s[%zu]", s, pb_occurs(before, fd->id));
	}
	return fmt(c->d, "%s%sbyte %zu%s", s, *s ? " (" : "", (size_t)(at - c->file.p), *s ? ")" : "");
}

static const char *wire_name(uint32_t wire)
{
	static const char *const names[] = {"a varint",	     "64 bits",	     "bytes",
					    "a group",	     "a group",	     "32 bits",
					    "nothing known", "nothing known"};
	return names[wire & 7];
}

static int bad(const struct checker *c, const uint8_t *at, const char *expected, const char *actual)
{
	return FAIL(c->d, c->codes->format, .slot = place(c, at),
		    .message = c->known ? "the file is damaged" : NULL, .expected = expected,
		    .actual = actual);
}

/* Adds the finding for a field at `at` that read_field could not read, for the reason s. */
static int bad_field(const struct checker *c, enum status s, const uint8_t *at,
		     const struct pb_span *rest, const struct pb_field *f)
{
	static const char *const actual[] = {
		[CUT] = "a length past the end of its message",
		[TOO_LONG] = "a number of more than 64 bits",
		[GROUP] = "a group, which ONNX does not use",
		[NO_FIELD] = "field number 0",
		[NO_WIRE] = "an unknown wire type",
	};
	const uint8_t *end = c->file.p + c->file.n;

	if (s != CUT || !c->known || rest->p + rest->n != end)
		return bad(c, at, "a protobuf field", actual[s]);
	/* a field that the outermost message does not have: what is cut short is no model */
	if (c->depth == 1 && f->number && !c->path[0].field)
		return FAIL(c->d, c->codes->format, .slot = place(c, at),
			    .message = "bytes that are no part of a model stand behind it",
			    .expected = "the end of the file",
			    .actual = fmt(c->d, "%zu more bytes", (size_t)(end - at)),
			    .hint = "cut them off, or copy or download the file again");
	if (f->wire != PB_BYTES || f->value <= rest->n)
		return FAIL(c->d, c->codes->truncated, .slot = place(c, at),
			    .actual = fmt(c->d, "the end of the file inside a field (%zu bytes in all)",
					  c->file.n));
	return FAIL(c->d, c->codes->truncated, .slot = place(c, at),
		    .expected = fmt(c->d, "%" PRIu64 " more bytes", f->value),
		    .actual = fmt(c->d, "%zu (%zu bytes in all)", rest->n, c->file.n));
}

static int check_packed(const struct checker *c, const struct pb_field *f, enum pb_wire wire)
{
	struct pb_span s = f->bytes;
	uint64_t v;

	if (wire != PB_VARINT) {
		size_t size = wire == PB_FIXED64 ? 8 : 4;
		return s.n % size ? bad(c, s.p, fmt(c->d, "packed numbers of %zu bytes", size),
					fmt(c->d, "%zu bytes", s.n))
				  : 0;
	}
	while (s.n) {
		const uint8_t *at = s.p;
		if (read_varint(&s, &v) != OK)
			return bad(c, at, "packed numbers", "one that does not end");
	}
	return 0;
}

static int check_message(struct checker *c, const ProtobufCMessageDescriptor *desc, struct pb_span m);

static int check_field(struct checker *c, const ProtobufCFieldDescriptor *fd,
		       const struct pb_field *f, const uint8_t *at)
{
	enum pb_wire wire = wire_of(fd->type);

	if (f->wire != (uint32_t)wire) {
		if (fd->label == PROTOBUF_C_LABEL_REPEATED && f->wire == PB_BYTES)
			return check_packed(c, f, wire);
		return bad(c, at, wire_name(wire), wire_name(f->wire));
	}
	if (fd->type != PROTOBUF_C_TYPE_MESSAGE)
		return 0;
	if (c->depth > PB_DEPTH - 1)
		return FAIL(c->d, c->codes->depth,
			    .slot = fmt(c->d, "byte %zu", (size_t)(at - c->file.p)),
			    .expected = fmt(c->d, "at most %d messages in one another", PB_DEPTH),
			    .actual = "more");
	return check_message(c, fd->descriptor, f->bytes);
}

static int check_message(struct checker *c, const ProtobufCMessageDescriptor *desc, struct pb_span m)
{
	struct pb_span rest = m;
	unsigned level = c->depth++;
	int rc = 0;

	c->path[level].message = m;
	while (rest.n && !rc) {
		struct pb_field f;
		const uint8_t *at = rest.p;
		enum status s = read_field(&rest, &f);
		const ProtobufCFieldDescriptor *fd = field_of(desc, f.number);
		c->path[level].field = fd;
		c->path[level].at = at;
		if (s != OK)
			return bad_field(c, s, at, &rest, &f);
		if (!fd)
			continue;
		rc = check_field(c, fd, &f, at);
		c->known |= fd->type != PROTOBUF_C_TYPE_MESSAGE || !rc;
	}
	c->depth = level;
	return rc;
}

int pb_check(const ProtobufCMessageDescriptor *desc, struct pb_span file,
	     const struct pb_codes *codes, struct diag *d)
{
	struct checker c = {.file = file, .codes = codes, .d = d};

	return check_message(&c, desc, file);
}

/* ---- decoding */

enum { MAX_FIELDS = 32 };

struct pb_decoder pb_decoder(struct arena *a, const struct pb_lazy *lazy, size_t n)
{
	size_t left;

	if (!size_mul(n, 2, &left) || !size_add(left, 1u << 20, &left))
		left = SIZE_MAX;
	return (struct pb_decoder){.arena = a, .lazy = lazy, .left = left};
}

static void *take_memory(struct pb_decoder *c, size_t count, size_t size)
{
	size_t bytes;

	if (!size_mul(count, size, &bytes) || bytes > c->left)
		return NULL;
	c->left -= bytes;
	return arena_alloc(c->arena, bytes);
}

static uint64_t lazy_fields(const struct pb_decoder *c, const ProtobufCMessageDescriptor *desc)
{
	for (const struct pb_lazy *l = c->lazy; l && l->desc; l++)
		if (l->desc == desc)
			return l->fields;
	return 0;
}

static bool is_lazy(uint64_t lazy, uint32_t number)
{
	return number < 64 && (lazy >> number & 1);
}

static void *member(void *m, unsigned off)
{
	return (char *)m + off;
}

/* Counts the elements of the message's repeated fields and allocates their arrays, before any is stored. */
static bool make_room(struct pb_decoder *c, const ProtobufCMessageDescriptor *desc,
		      struct pb_span m, uint64_t lazy, ProtobufCMessage *out)
{
	size_t count[MAX_FIELDS] = {0};
	struct pb_field f;

	if (desc->n_fields > MAX_FIELDS)
		return false;
	while (pb_next(&m, &f)) {
		const ProtobufCFieldDescriptor *fd = field_of(desc, f.number);
		if (!fd || fd->label != PROTOBUF_C_LABEL_REPEATED || is_lazy(lazy, f.number))
			continue;
		enum pb_wire wire = wire_of(fd->type);
		count[fd - desc->fields] +=
			f.wire == PB_BYTES && wire != PB_BYTES ? count_packed(f.bytes, wire) : 1;
	}
	for (unsigned i = 0; i < desc->n_fields; i++) {
		const ProtobufCFieldDescriptor *fd = &desc->fields[i];
		if (!count[i])
			continue;
		size_t have = *(size_t *)member(out, fd->quantifier_offset), size = size_of(fd->type);
		void *room = take_memory(c, have + count[i], size);
		if (!room)
			return false;
		if (have)
			memcpy(room, *(void **)member(out, fd->offset), have * size);
		memcpy(member(out, fd->offset), &room, sizeof(room));
	}
	return true;
}

static void store_number(const ProtobufCFieldDescriptor *fd, void *to, uint64_t v)
{
	protobuf_c_boolean truth = v != 0;
	uint32_t u = (uint32_t)v;

	if (fd->type == PROTOBUF_C_TYPE_SINT32)
		u = u >> 1 ^ (0u - (u & 1));
	if (fd->type == PROTOBUF_C_TYPE_SINT64)
		v = v >> 1 ^ (UINT64_C(0) - (v & 1));
	if (fd->type == PROTOBUF_C_TYPE_BOOL)
		memcpy(to, &truth, sizeof(truth));
	else if (size_of(fd->type) == 4)
		memcpy(to, &u, 4);
	else
		memcpy(to, &v, 8);
}

static bool decode_into(struct pb_decoder *c, const ProtobufCMessageDescriptor *desc,
			struct pb_span m, ProtobufCMessage *out);

/* Stores one string, bytes or message value. If `to` already holds a message, the new one is merged into it. */
static bool store_bytes(struct pb_decoder *c, const ProtobufCFieldDescriptor *fd, void *to,
			struct pb_span s)
{
	if (fd->type == PROTOBUF_C_TYPE_BYTES) {
		ProtobufCBinaryData b = {s.n, (uint8_t *)(uintptr_t)s.p};
		memcpy(to, &b, sizeof(b));
		return true;
	}
	if (fd->type == PROTOBUF_C_TYPE_STRING) {
		char *text = take_memory(c, s.n + 1, 1);
		if (text && s.n)
			memcpy(text, s.p, s.n);
		memcpy(to, &text, sizeof(text));
		return text;
	}
	const ProtobufCMessageDescriptor *sub = fd->descriptor;
	ProtobufCMessage *m;
	memcpy(&m, to, sizeof(m));
	if (!m) {
		m = take_memory(c, 1, sub->sizeof_message);
		if (!m)
			return false;
		sub->message_init(m);
		memcpy(to, &m, sizeof(m));
	}
	if (c->depth >= PB_DEPTH)
		return false;
	c->depth++;
	bool ok = decode_into(c, sub, s, m);
	c->depth--;
	return ok;
}

static bool store_repeated(struct pb_decoder *c, const ProtobufCFieldDescriptor *fd,
			   const struct pb_field *f, ProtobufCMessage *out)
{
	size_t *n = member(out, fd->quantifier_offset), size = size_of(fd->type);
	char *items;
	enum pb_wire wire = wire_of(fd->type);
	struct pb_span pack = f->bytes;
	uint64_t v = f->value;

	memcpy(&items, member(out, fd->offset), sizeof(items));
	if (wire == PB_BYTES)
		return f->wire == PB_BYTES && store_bytes(c, fd, items + (*n)++ * size, f->bytes);
	if (f->wire == (uint32_t)wire) {
		store_number(fd, items + (*n)++ * size, v);
		return true;
	}
	if (f->wire != PB_BYTES)
		return false;
	size_t count = count_packed(pack, wire);
	for (size_t i = 0; i < count; i++) {
		if (read_number(&pack, wire, &v) != OK)
			return false;
		store_number(fd, items + (*n)++ * size, v);
	}
	return !pack.n;
}

static bool store_field(struct pb_decoder *c, const ProtobufCFieldDescriptor *fd,
			const struct pb_field *f, ProtobufCMessage *out)
{
	void *to = member(out, fd->offset);
	uint32_t given = fd->id;

	if (fd->label == PROTOBUF_C_LABEL_REPEATED)
		return store_repeated(c, fd, f, out);
	if (f->wire != (uint32_t)wire_of(fd->type))
		return false;
	if (fd->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
		uint32_t *which = member(out, fd->quantifier_offset);
		if (*which != given)
			memset(to, 0, size_of(fd->type));
		*which = given;
	} else if (fd->quantifier_offset) {
		protobuf_c_boolean yes = 1;
		memcpy(member(out, fd->quantifier_offset), &yes, sizeof(yes));
	}
	if (f->wire == PB_BYTES)
		return store_bytes(c, fd, to, f->bytes);
	store_number(fd, to, f->value);
	return true;
}

/* Records which bytes of the file the message came from, because its skipped fields are read from there later. */
static bool note_where(struct pb_decoder *c, struct pb_span m, ProtobufCMessage *out)
{
	struct pb_span old = pb_where(out);

	if (old.n) {
		uint8_t *both = take_memory(c, old.n + m.n, 1);
		if (!both)
			return false;
		memcpy(both, old.p, old.n);
		if (m.n)
			memcpy(both + old.n, m.p, m.n);
		m = (struct pb_span){both, old.n + m.n};
	}
	if (!out->unknown_fields)
		out->unknown_fields = take_memory(c, 1, sizeof(*out->unknown_fields));
	if (!out->unknown_fields)
		return false;
	out->unknown_fields->len = m.n;
	out->unknown_fields->data = (uint8_t *)(uintptr_t)m.p;
	return true;
}

struct pb_span pb_where(const ProtobufCMessage *m)
{
	if (!m->unknown_fields)
		return (struct pb_span){0};
	return (struct pb_span){m->unknown_fields->data, m->unknown_fields->len};
}

static bool decode_into(struct pb_decoder *c, const ProtobufCMessageDescriptor *desc,
			struct pb_span m, ProtobufCMessage *out)
{
	uint64_t lazy = lazy_fields(c, desc);
	struct pb_field f;

	if (lazy && !note_where(c, m, out))
		return false;
	if (!make_room(c, desc, m, lazy, out))
		return false;
	for (;;) {
		enum status s = read_field(&m, &f);
		if (s != OK)
			return s == END;
		const ProtobufCFieldDescriptor *fd = field_of(desc, f.number);
		if (fd && !is_lazy(lazy, f.number) && !store_field(c, fd, &f, out))
			return false;
	}
}

void *pb_decode(struct pb_decoder *c, const ProtobufCMessageDescriptor *desc, struct pb_span m)
{
	ProtobufCMessage *out = take_memory(c, 1, desc->sizeof_message);

	if (!out)
		return NULL;
	desc->message_init(out);
	return decode_into(c, desc, m, out) ? out : NULL;
}
