/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_WRITE_H
#define ONNX_WRITE_H
/*
 * Builds and writes protobuf messages of ONNX. A message is a list of pieces that point to where the bytes are, mostly into a
 * mapped file, so that writing a model takes no memory for its weights. No other folder includes this.
 */
#include "onnx/internal.h"

struct piece {
	const void *p;
	size_t n;
	bool own; /* bytes that the message holds in its arena */
};
/*
 * What is short is copied, so that a message of thousands of nodes is a few pieces. Copies end with the arena: a message that is only
 * made to become a part of another one may have a scratch arena.
 */
struct message {
	struct arena *arena; /* of the list and of the copies */
	struct piece *v;
	size_t n, cap, bytes;
	uint8_t *end; /* of the copies so far; `room` bytes follow */
	size_t room, block;
};

/* The bytes at p must stay until the message is written, and until those are that it becomes a part of. */
void msg_piece(struct message *m, const void *p, size_t n);
void msg_number(struct message *m, uint32_t field, uint64_t v);
void msg_bytes(struct message *m, uint32_t field, const void *p, size_t n);
void msg_text(struct message *m, uint32_t field, const char *s); /* the text is copied */
/* A number as a field of this wire type; of PB_FIXED32 the low 32 bits count. */
void msg_value(struct message *m, uint32_t field, enum pb_wire wire, uint64_t v);
void msg_message(struct message *m, uint32_t field, const struct message *x);
/* Writes a number as it stands in a field of this wire type, in 10 bytes at most. Returns how many. */
size_t encode_number(enum pb_wire wire, uint64_t v, uint8_t *to);

/* Takes the next field off `rest`, as pb_next() does, and sets *raw to all bytes of it, its number included. */
bool pb_next_raw(struct pb_span *rest, struct pb_field *f, struct pb_span *raw);
/* Returns the last occurrence of a singular bytes field, the one that counts in protobuf; p is NULL if there is none. */
struct pb_span pb_last(struct pb_span m, uint32_t number);

/* Weights of at least this many bytes go to the file of external data, if there is one: onnx's own threshold. */
enum { EXTERNAL_MIN = 1024 };
/* Offsets of external data are multiples of this, so that a reader can map each weight: ONNX recommends a page. */
enum { EXTERNAL_ALIGN = 4096 };

/* Copies parts of a model file to another one. */
struct copier {
	struct arena *arena;
	struct diag *d;
	struct weights *store; /* where external data of the source are found */
	/* name of the file of external data, in the folder of the model that is written; NULL: data go into the model */
	const char *location;
	/* the file of external data is not written: the model only says where the data would be */
	bool strip;
	/* data for that file, in order; each begins at the next multiple of EXTERNAL_ALIGN */
	struct message data;
	uint64_t offset; /* bytes of that file so far */
};

/*
 * Copies a message of this kind byte by byte, except tensors: external data of the source are put into the model or into
 * the new file of external data. Fields that the schema does not know are kept. The message must have passed pb_check().
 */
int copy_message(struct copier *c, const ProtobufCMessageDescriptor *desc, struct pb_span s,
		 struct message *out);
/*
 * Finds the bytes of a tensor that is not of strings, as raw_data would hold them: in the source's files, or decoded in the arena.
 */
int tensor_data(struct copier *c, struct pb_span tensor, struct arena *a, struct pb_span *data);
/*
 * Adds the data of an initializer to its TensorProto x: where they are in the file of external data, or the bytes themselves. They
 * must stay until the model is written.
 */
int put_weight_data(struct copier *c, struct pb_span data, struct message *x);
/*
 * Copies one tensor as field `field`. initializer: it may go to the file of external data; the tensors of attributes always stay in the
 * model, as ONNX Runtime reads some of them before it knows the model's folder.
 */
int copy_tensor(struct copier *c, uint32_t field, struct pb_span tensor, bool initializer,
		struct message *out);
/*
 * Writes the model, and the file of external data in its folder before it, each whole or not at all. Pages of mapped files are given back
 * once they are written. Fails with E-OUTPUT, or with E-SIZE if the model exceeds the 2 GiB that protobuf allows.
 */
int copy_write_data(const struct copier *c, const char *path); /* the file of external data alone */
int copy_write(const struct copier *c, const struct message *model, const char *path);

#endif
