/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_SAFETENSORS_H
#define IR_SAFETENSORS_H
/*
 * Reads and writes the header of .safetensors files: eight bytes with its length, JSON that names each tensor with its type,
 * shape and place, then the tensors' bytes, without gaps.
 */
#include "base/diag.h"
#include "ir/dtype.h"
#include "ir/shape.h"

struct safetensor {
	const char *name; /* a tensor's name may be any text */
	enum dtype dtype;
	struct shape shape;
	uint64_t at, bytes; /* its elements: offset in the file, and how many bytes */
};
struct safetensors {
	const struct safetensor *list; /* in the order of their bytes */
	size_t n;
};
/*
 * Reads the header of a file of n bytes at p, and checks all that it says of types, shapes and places: each tensor's bytes are as
 * many as its type and shape take, and together they are all bytes behind the header, each once. `what` names the file. Fails with `code`.
 */
int safetensors_head(const void *p, size_t n, const char *what, enum code code, struct arena *a,
		     struct safetensors *out, struct diag *d);
/* Returns the tensor of this name, or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name);

/* The format's name of an element type; NULL if it has none. */
const char *safetensors_type(enum dtype t);
/*
 * Makes the header of these tensors, of which name, dtype, shape and bytes are given; sets their `at`. Returns the header with
 * the eight bytes before it, in the arena, and its length.
 */
const void *safetensors_make(struct safetensor *list, size_t n, struct arena *a, size_t *bytes);

#endif
