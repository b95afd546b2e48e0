/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_DECODE_H
#define ONNX_DECODE_H
/*
 * Reads protobuf messages in place. pb_check checks a whole file once, without allocating; afterwards messages are walked
 * field by field (pb_next) or, if they are small, decoded into protobuf-c's structs (pb_decode). Bytes fields are never
 * copied: they point into the file. protobuf-c's own unpacking copies every weight and recurses without a bound.
 */
#include "base/arena.h"
#include "base/diag.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

/* How deep messages may be nested; other readers of ONNX accept at most this much. */
enum { PB_DEPTH = 100 };

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_span {
	const uint8_t *p;
	size_t n;
};

/* One field of a message, still encoded. */
struct pb_field {
	uint32_t number;
	uint32_t wire;	      /* enum pb_wire */
	uint64_t value;	      /* of a numeric field */
	struct pb_span bytes; /* of PB_BYTES */
};

/* Codes of the findings for the three kinds of fault. */
struct pb_codes {
	enum code format, truncated, depth;
};

/*
 * Checks that the bytes are a well-formed message of this kind at every level, in wire types, lengths and nesting.
 * Returns 0 or -code; the finding names the field and the offset of the first fault.
 */
int pb_check(const ProtobufCMessageDescriptor *desc, struct pb_span file,
	     const struct pb_codes *codes, struct diag *d);

/* Takes the next field off `rest`; false at the end or if the bytes are malformed. */
bool pb_next(struct pb_span *rest, struct pb_field *f);
/*
 * Takes the next bytes field of this number off `rest` and skips all other fields. Use:
 *   for (r = m; pb_each(&r, 5, &s);)
 */
bool pb_each(struct pb_span *rest, uint32_t number, struct pb_span *bytes);
/* How often the field occurs in the message. */
size_t pb_occurs(struct pb_span m, uint32_t number);
/*
 * The bytes of a singular message field; p is NULL if it is absent. If the field occurs several times, protobuf asks for the
 * occurrences to be merged: they are joined in the arena.
 */
struct pb_span pb_sub(struct pb_span m, uint32_t number, struct arena *a);

/* Iterates over the elements of a repeated numeric field, packed or not. wire: wire type of one element. */
struct pb_values {
	struct pb_span rest, pack;
	uint32_t number, wire;
};
struct pb_values pb_values(struct pb_span m, uint32_t number, enum pb_wire wire);
bool pb_value(struct pb_values *v, uint64_t *out);
size_t pb_count(struct pb_span m, uint32_t number, enum pb_wire wire);
/* All elements as one block of the file, if they are of fixed size and stored in one piece; otherwise p is NULL. */
struct pb_span pb_block(struct pb_span m, uint32_t number, enum pb_wire wire);

/* Fields of a message that pb_decode skips because the functions above read them: bit n stands for field n. */
struct pb_lazy {
	const ProtobufCMessageDescriptor *desc; /* NULL ends the table */
	uint64_t fields;
};

struct pb_decoder {
	struct arena *arena;
	const struct pb_lazy *lazy; /* or NULL */
	size_t left;		    /* bytes that may still be taken from the arena */
	unsigned depth;
};
/*
 * A decoder for small messages. It takes at most 2 * n bytes + 1 MiB from the arena, where n is the size of the
 * input, so that a small malicious file cannot make it take much memory.
 */
struct pb_decoder pb_decoder(struct arena *a, const struct pb_lazy *lazy, size_t n);
/* Decodes the message into protobuf-c's struct, in the arena; NULL if it is malformed or needs too much memory. */
void *pb_decode(struct pb_decoder *c, const ProtobufCMessageDescriptor *desc, struct pb_span m);
/* The encoded bytes of a decoded message, from which its skipped fields are read. */
struct pb_span pb_where(const ProtobufCMessage *m);

#endif
