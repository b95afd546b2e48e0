/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_TENSOR_H
#define IR_TENSOR_H
/*
 * What flows along an edge while a model runs, or is known before: a tensor, or
 * a host value made of tensors (sequence, optional, map).
 *
 * Data are row-major and dense unless `layout` says otherwise; sub-byte types
 * are packed as in raw_data (first element in the low bits, no row padding).
 * A string tensor's data are `struct str_ref`s into `blob`.
 */
#include "ir/dtype.h"
#include "ir/shape.h"

enum vkind { V_NONE, V_TENSOR, V_SEQUENCE, V_OPTIONAL, V_MAP };

/* Static type. `dtype` is the element type of the tensors, wherever nested (a map's: of its values). */
struct type {
	uint8_t kind;  /* enum vkind; V_NONE: not known */
	uint8_t dtype; /* enum dtype; DT_NONE: not known */
	uint8_t of;    /* kind of the elements of a sequence or optional */
	uint8_t of_of; /* kind of the elements of a sequence in an optional */
	uint8_t key;   /* element type of a map's keys */
};

/* Where the elements lie in memory. Any but ROW is for ranks 3..5 with channels in dimension 1. */
enum layout {
	LAYOUT_ROW,	      /* as the dims say */
	LAYOUT_CHANNELS_LAST, /* N, spatial..., C */
	LAYOUT_BLOCK8,	      /* N, C/8, spatial..., 8; channels padded with zeros */
	LAYOUT_BLOCK16,	      /* N, C/16, spatial..., 16 */
};

struct str_ref {
	uint64_t offset, length; /* bytes, in the blob */
};

struct tensor {
	struct type type;
	enum layout layout;
	struct shape shape; /* always known; of a tensor only */
	void *data; /* NULL where it has no bytes yet; may be read-only (initializers are mapped) */
	size_t bytes; /* of data */
	char *blob;   /* strings only */
	size_t blob_bytes;
	struct tensor **items; /* sequence, optional (0 or 1): elements; map: keys, values */
	size_t nitems;
	struct arena *arena; /* owner of items and of dynamic data; NULL: borrowed */
	int device;	     /* 0: host memory; n: device n-1's */
};

/* Attributes that hold several tensors, or a type with its shape (fields F_TENSORS, F_TYPE). */
struct tensors {
	const struct tensor *const *v;
	int64_t n;
};
struct type_attr {
	struct type type;
	struct shape shape; /* of a tensor; rank -1 unknown */
};

static inline enum dtype tensor_dtype(const struct tensor *t)
{
	return (enum dtype)t->type.dtype;
}
static inline struct type type_tensor(enum dtype t)
{
	return (struct type){.kind = V_TENSOR, .dtype = (uint8_t)t};
}
bool type_equal(struct type a, struct type b);
/* Whether the mask (T_*) takes the type. An unknown type fits every mask. */
bool type_in(struct type t, uint64_t mask);
/* "f32", "seq(f32)", "optional(seq(f32))", "map(i64,f32)". */
const char *type_str(struct arena *a, struct type t);

int64_t tensor_count(const struct tensor *t); /* elements */
/* Bytes that a tensor of this type, shape and layout takes; false on overflow or unknown dims. */
bool tensor_bytes(enum dtype t, const struct shape *s, enum layout layout, size_t *bytes);

/* A tensor in the arena with room for its data (cleared). NULL where the size overflows. For small ones. */
struct tensor *tensor_new(struct arena *a, enum dtype t, const struct shape *s);
struct tensor *tensor_i64(struct arena *a, int rank, const int64_t *values, int64_t n); /* rank 0 or 1 */
/* String tensor from n C strings with lengths. */
struct tensor *tensor_strings(struct arena *a, const struct shape *s, const char *const *text,
			      const size_t *length);
static inline const char *tensor_string(const struct tensor *t, int64_t i, size_t *length)
{
	const struct str_ref *r = (const struct str_ref *)t->data + i;
	*length = (size_t)r->length;
	return t->blob + r->offset;
}
/* Deep copy of any kind of value into the arena. */
struct tensor *tensor_copy(struct arena *a, const struct tensor *t);
/* Same type, shape and contents (bytes; NaN equals itself), for values known before the run. */
bool tensor_same(const struct tensor *a, const struct tensor *b);

#endif
