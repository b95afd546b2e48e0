/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_MOVE_H
#define CPU_MATH_MOVE_H
/*
 * Kernels that only move elements see elements of 1, 2, 4, 8 or 16 bytes. What else there is
 * becomes that: packed types are spread to a byte an element, strings to (pointer, length).
 */
#include "backend/backend.h"

struct mover {
	const struct call *call;
	size_t size;	     /* bytes of an element */
	void **in;	     /* per input: spread copy, or NULL: the tensor's data are used */
	void **out;	     /* per output: spread buffer, or NULL */
	struct shape *shape; /* per output: of a spread buffer */
};

/* Runs core between spreading the operands (inputs and outputs of the type of input `like`) and packing. */
int move_run(const struct call *c, uint32_t like, int (*core)(struct mover *));
const void *move_in(const struct mover *m, uint32_t i);
/* Memory of output i for this shape, which is given it where the step is dynamic; NULL: failed. */
void *move_out(struct mover *m, uint32_t i, const struct shape *s);
/*
 * A string tensor's elements as struct text, a packed one's as a byte each; others as they are. In
 * memory of the caller's (mem_free); NULL: refused.
 */
void *move_spread(const struct tensor *t);
/* Bytes of an element when spread. */
size_t move_size(enum dtype t);
/* Make output i of what lies spread (plain types: as it is). */
int move_pack(const struct call *c, uint32_t i, enum dtype t, const struct shape *s, const void *data);
/* A tensor in the arena from spread elements; NULL: a size overflows. */
struct tensor *move_tensor(struct arena *a, enum dtype t, const struct shape *s, const void *data);
/* The same for a plain output of a dynamic step: call_alloc where that is wanted. */
int out_ready(const struct call *c, uint32_t i, enum dtype t, const struct shape *s);

/* A copy between two strided views of equal dims. Strides in elements, of any sign, 0 repeats. */
struct strided {
	int rank;
	int64_t n[MAX_RANK], in[MAX_RANK], out[MAX_RANK];
	int64_t total; /* elements; 0: nothing to do */
	int tile; /* dimension that is dense in the input while the last is dense in the output; -1 */
};
/* Drops dims of 1 and joins those that lie together in both views. */
void strided_set(struct strided *s, int rank, const int64_t *n, const int64_t *in, const int64_t *out);
/* in, out: the elements at index 0. */
void strided_copy(const struct strided *s, const void *in, void *out, size_t size);

/* Row-major strides, 1 counts as any size (unlike shape_strides). */
void dense_strides(const struct shape *s, int64_t *strides);

/* Copy of a run, quick for small ones. */
static inline void copy_run(void *dst, const void *src, size_t bytes)
{
	if (bytes == 4)
		memcpy(dst, src, 4);
	else if (bytes == 8)
		memcpy(dst, src, 8);
	else if (bytes == 1)
		memcpy(dst, src, 1);
	else if (bytes == 2)
		memcpy(dst, src, 2);
	else if (bytes == 16)
		memcpy(dst, src, 16);
	else
		memcpy(dst, src, bytes);
}

/* n elements at dst become copies of the one at src. */
void fill_run(void *dst, const void *src, int64_t n, size_t size);

/* Pieces of at least this many bytes are worth a thread. */
enum { MOVE_GRAIN = 1 << 16 };
/* Iterations of `bytes` bytes each that make a piece. */
static inline int64_t move_grain(int64_t bytes)
{
	return bytes >= MOVE_GRAIN ? 1 : MOVE_GRAIN / (bytes > 0 ? bytes : 1);
}
/* memcpy on the pool. */
void move_bytes(void *dst, const void *src, size_t bytes);

/* Input i's integers while a kernel is prepared; false where not known. */
struct int_list;
bool site_list(const struct site *s, uint32_t i, struct int_list *out);
/* FAIL with the node named. */
int site_fail(const struct site *s, struct diag *d, enum code code, const char *expected,
	      const char *actual);

#endif
