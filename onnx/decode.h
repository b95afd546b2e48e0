/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_DECODE_H
#define ONNX_DECODE_H
/*
 * Reading protobuf messages where they lie. A file is checked once, as a whole
 * and without memory (pb_check); afterwards its messages are walked field by
 * field (pb_next), or decoded into protobuf-c's structs where they are small
 * (pb_decode). Bytes are never copied: they point into the file.
 */
#include "base/arena.h"
#include "base/diag.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

/* Messages in messages; more than any other reader of ONNX takes. */
enum { PB_DEPTH = 100 };

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_span {
	const uint8_t *p;
	size_t n;
};

/* One field as it lies in its message. */
struct pb_field {
	uint32_t number;
	uint32_t wire;	      /* enum pb_wire */
	uint64_t value;	      /* of a number */
	struct pb_span bytes; /* of PB_BYTES */
};

/* Which findings a file's faults are. */
struct pb_codes {
	enum code format, truncated, depth;
};

/*
 * Whether the bytes are a message of this kind through and through: wire types,
 * lengths, nesting. Names the field and the byte of the first fault.
 */
int pb_check(const ProtobufCMessageDescriptor *desc, struct pb_span file,
	     const struct pb_codes *codes, struct diag *d);

/* The next field, taken off the rest; false at the end (and where the bytes are none). */
bool pb_next(struct pb_span *rest, struct pb_field *f);
/* The next field of this number that is of bytes: for (r = m; pb_each(&r, 5, &s);) */
bool pb_each(struct pb_span *rest, uint32_t number, struct pb_span *bytes);
/* Occurrences of the field. */
size_t pb_occurs(struct pb_span m, uint32_t number);
/*
 * The bytes of a singular message field; p is NULL where it is absent. Pieces of one
 * that is given several times are merged, as protobuf wants, in the arena.
 */
struct pb_span pb_sub(struct pb_span m, uint32_t number, struct arena *a);

/* The elements of a repeated number, packed or not. wire: of one element. */
struct pb_values {
	struct pb_span rest, pack;
	uint32_t number, wire;
};
struct pb_values pb_values(struct pb_span m, uint32_t number, enum pb_wire wire);
bool pb_value(struct pb_values *v, uint64_t *out);
size_t pb_count(struct pb_span m, uint32_t number, enum pb_wire wire);
/* The elements in one piece where they lie in one (fixed sizes only); p is NULL where they do not. */
struct pb_span pb_block(struct pb_span m, uint32_t number, enum pb_wire wire);

/* Fields of a message that pb_decode leaves alone, for the walkers above: bit n is field n. */
struct pb_lazy {
	const ProtobufCMessageDescriptor *desc; /* NULL ends the table */
	uint64_t fields;
};

struct pb_decoder {
	struct arena *arena;
	const struct pb_lazy *lazy; /* or NULL */
	size_t left;		    /* bytes of arena that may still be used */
	unsigned depth;
};
/* A decoder for small messages: a generous limit for n bytes of input. */
struct pb_decoder pb_decoder(struct arena *a, const struct pb_lazy *lazy, size_t n);
/* The message as protobuf-c's struct; NULL where it is malformed or needs too much memory. */
void *pb_decode(struct pb_decoder *c, const ProtobufCMessageDescriptor *desc, struct pb_span m);
/* Where a decoded message with lazy fields lies in the file. */
struct pb_span pb_where(const ProtobufCMessage *m);

#endif
