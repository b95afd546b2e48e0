/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_MOVE_H
#define CPU_MATH_MOVE_H
/*
 * For kernels that only move elements, which handle elements of 1, 2, 4, 8 or 16 bytes. Other types are
 * "spread" before such a kernel runs: types of less than 8 bits to one byte per element, strings to
 * struct text (pointer and length). The outputs are packed again afterwards.
 */
#include "backend/backend.h"

struct mover {
	const struct call *call;
	size_t size; /* bytes of an element */
	void **in;   /* for each input its spread copy, or NULL if the tensor's own data serve */
	void **out;  /* for each output its spread buffer, or NULL if the tensor's own data serve */
	struct shape *shape; /* for each output: the shape of its spread buffer */
};

/*
 * Spreads the inputs that have the type of input `like` if that type requires it, runs core, and packs the outputs.
 */
int move_run(const struct call *c, uint32_t like, int (*core)(struct mover *));
const void *move_in(const struct mover *m, uint32_t i);
/*
 * Returns the memory that core writes output i of shape s to, or NULL after a failure. Allocates the output if the
 * step is dynamic.
 */
void *move_out(struct mover *m, uint32_t i, const struct shape *s);
/*
 * Returns a copy of the tensor's elements in spread form: strings as struct text, types of less than 8 bits as a byte
 * each, others unchanged. The caller frees the copy with mem_free. Returns NULL if memory is exhausted.
 */
void *move_spread(const struct tensor *t);
/* Returns the bytes of a spread element of type t. */
size_t move_size(enum dtype t);
/* Allocates output i and fills it from spread elements; types that are not spread are copied. */
int move_pack(const struct call *c, uint32_t i, enum dtype t, const struct shape *s, const void *data);
/* Makes a tensor in the arena from spread elements. Returns NULL if the size overflows. */
struct tensor *move_tensor(struct arena *a, enum dtype t, const struct shape *s, const void *data);
/* Allocates output i with call_alloc if the step is dynamic; the outputs of other steps have memory already. */
int out_ready(const struct call *c, uint32_t i, enum dtype t, const struct shape *s);

/*
 * A copy between two strided views with equal dimensions. Strides are in elements and may be negative; a stride of 0
 * repeats an element.
 */
struct strided {
	int rank;
	int64_t n[MAX_RANK], in[MAX_RANK], out[MAX_RANK];
	int64_t total; /* elements; 0: nothing to do */
	/*
	 * for a transposition: the dimension that is contiguous in the input (the last dimension is contiguous in the
	 * output); otherwise -1
	 */
	int tile;
};
/* Sets up s. Drops dimensions of size 1, and merges adjacent dimensions that are contiguous in both views. */
void strided_set(struct strided *s, int rank, const int64_t *n, const int64_t *in, const int64_t *out);
/* Copies s. `in` and `out` point at the elements with index 0; size is the number of bytes of an element. */
void strided_copy(const struct strided *s, const void *in, void *out, size_t size);

/*
 * The layout for a step that moves elements of its first `images` inputs to outputs of the same rank: LAYOUT_CHANNELS_LAST if
 * more of their bytes lie so, as behind a convolution, than row by row, and else LAYOUT_ROW. Declares it for these inputs and all
 * outputs. Blocks of channels have to be reordered in either case.
 */
enum layout move_in_layout(struct site *s, struct step *step, uint32_t images);
/* The shape with its dimensions in the order in which layout l stores them, and the place of dimension i in it. */
struct shape stored_shape(const struct shape *s, enum layout l);
int stored_dim(int i, int rank, enum layout l);

/* Sets row-major strides. Dimensions of size 1 get a stride as well, unlike in shape_strides. */
void dense_strides(const struct shape *s, int64_t *strides);

/*
 * Does the same as memcpy. The common small sizes are passed as constants, so that the compiler inlines those copies.
 */
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

/* Writes n copies of the one element at src to dst. */
void fill_run(void *dst, const void *src, int64_t n, size_t size);

/* The smallest number of bytes whose move is worth handing to a thread. */
enum { MOVE_GRAIN = 1 << 16 };
/* Returns how many iterations are worth handing to a thread if each of them moves `bytes` bytes. */
static inline int64_t move_grain(int64_t bytes)
{
	return bytes >= MOVE_GRAIN ? 1 : MOVE_GRAIN / (bytes > 0 ? bytes : 1);
}
/* Does the same as memcpy, on all threads of the pool. */
void move_bytes(void *dst, const void *src, size_t bytes);

/*
 * Gets the integers of input i while a kernel is being prepared. Returns false if the input's values are not known
 * yet.
 */
struct int_list;
bool site_list(const struct site *s, uint32_t i, struct int_list *out);
/* Reports an error of the given code with the name and operator of the site's node, and returns -code. */
int site_fail(const struct site *s, struct diag *d, enum code code, const char *expected,
	      const char *actual);

#endif
