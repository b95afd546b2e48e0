/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_TENSOR_H
#define IR_TENSOR_H
/*
 * A value of a graph, computed by a run or known before the run: a tensor, or a host
 * value made of tensors (sequence, optional, map).
 *
 * Data are row-major and dense unless `layout` says otherwise; types of less than
 * a byte are packed as in ONNX's raw_data (first element in the low bits, no
 * padding of rows). The data of a string tensor are `struct str_ref`s into `blob`.
 */
#include "ir/dtype.h"
#include "ir/shape.h"

enum vkind { V_NONE, V_TENSOR, V_SEQUENCE, V_OPTIONAL, V_MAP };

/* The type of a value. `dtype` is the element type of its tensors, at any level of nesting; for a map it is the type of the map's values. */
struct type {
	uint8_t kind;  /* enum vkind; V_NONE if not known */
	uint8_t dtype; /* enum dtype; DT_NONE if not known */
	uint8_t of;    /* kind of the elements of a sequence or optional */
	uint8_t of_of; /* kind of the elements of a sequence in an optional */
	uint8_t key;   /* element type of a map's keys */
};

/* The order of elements in memory. All but LAYOUT_ROW are for ranks 3 to 5 with channels in dimension 1. */
enum layout {
	LAYOUT_ROW,	      /* row-major order of the dimensions */
	LAYOUT_CHANNELS_LAST, /* N, spatial..., C */
	LAYOUT_BLOCK8,	      /* N, C/8, spatial..., 8; channels padded with zeros */
	LAYOUT_BLOCK16,	      /* N, C/16, spatial..., 16 */
};

struct str_ref {
	uint64_t offset, length; /* in bytes, in the blob */
};

struct tensor {
	struct type type;
	enum layout layout;
	struct shape shape; /* shape of a V_TENSOR, without unknown dimensions; otherwise unused */
	/* NULL until memory is assigned; may be read-only, because initializers are mapped from the file */
	void *data;
	size_t bytes; /* of data */
	char *blob;   /* text of a string tensor */
	size_t blob_bytes;
	/* the elements of a sequence or optional (0 or 1); of a map, the two tensors keys and values */
	struct tensor **items;
	size_t nitems;
	struct arena *arena; /* owns items and dynamic data; NULL if they are borrowed */
	int device;	     /* 0 for host memory, n for the memory of device n - 1 */
	/*
	 * Allocated positions of the last axis but one, by which the rows of the axes before are apart; 0: the tensor is dense.
	 * Nonzero only for a state that is extended in place (session/feed_states.c).
	 */
	int64_t capacity;
};

/* The structs of two kinds of attributes: several tensors (F_TENSORS), and a type with its shape (F_TYPE). */
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
/* Whether the mask (T_*) allows the type. Every mask allows an unknown type. */
bool type_in(struct type t, uint64_t mask);
/* Returns the type as text: "f32", "seq(f32)", "optional(seq(f32))", "map(i64,f32)". */
const char *type_str(struct arena *a, struct type t);

int64_t tensor_count(const struct tensor *t); /* elements */
/*
 * Sets *bytes to the memory that a tensor of this type, shape and layout takes; returns false on overflow or
 * unknown dims.
 */
bool tensor_bytes(enum dtype t, const struct shape *s, enum layout layout, size_t *bytes);

/* Makes a tensor in the arena with zeroed data; meant for small tensors. Returns NULL if the size overflows. */
struct tensor *tensor_new(struct arena *a, enum dtype t, const struct shape *s);
struct tensor *tensor_i64(struct arena *a, int rank, const int64_t *values, int64_t n); /* rank 0 or 1 */
/* Makes a string tensor from as many strings as the shape has elements; they need not end with a NUL. */
struct tensor *tensor_strings(struct arena *a, const struct shape *s, const char *const *text,
			      const size_t *length);
static inline const char *tensor_string(const struct tensor *t, int64_t i, size_t *length)
{
	const struct str_ref *r = (const struct str_ref *)t->data + i;
	*length = (size_t)r->length;
	return t->blob + r->offset;
}
/* A deep copy, in the arena, of any kind of value in host memory. */
struct tensor *tensor_copy(struct arena *a, const struct tensor *t);
/* Whether type, shape and contents are equal, bit for bit: NaN equals itself, 0 differs from -0. */
bool tensor_same(const struct tensor *a, const struct tensor *b);
/* The largest magnitude among the numbers of a dense tensor, 0 if it is empty; infinity if one is NaN or infinite. */
double tensor_largest(const struct tensor *t);

#endif
