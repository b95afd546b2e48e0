/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_INTS_H
#define OPS_INTS_H
/* Small integer inputs (shapes, axes, pads) as lists, for shape inference and for kernels. */
#include "ops/op.h"

enum { MAX_INTS = 2 * MAX_RANK };

struct int_list {
	int n;
	/* true if all elements are values; otherwise negative elements are symbols or DIM_UNKNOWN */
	bool exact;
	int64_t v[MAX_INTS];
};

/* Reads the elements of an integer tensor; returns false if there are more than MAX_INTS. */
bool list_of(const struct tensor *t, struct int_list *out);
/* Reads what is known of the elements of v, which may be NULL; returns false if nothing is known. */
bool list_of_info(const struct vinfo *v, struct int_list *out);
/* Reads the elements of input i. If nothing is known of them, notes the input in c->wanted and returns false. */
bool infer_list(struct infer *c, uint32_t i, struct int_list *out);
/* Does what infer_list does, but returns true only if every element is a value: symbols do not suffice. */
bool infer_exact(struct infer *c, uint32_t i, struct int_list *out);
/*
 * Resolves axes from -rank..rank-1 to 0..rank-1, in place, and sets bit a of *mask for each axis a. Returns 0, or
 * -code if an axis is out of range or repeated. slot is the input that the axes come from, or -1 for an attribute.
 */
int infer_axes(const struct infer *c, int slot, int rank, struct int_list *axes, uint32_t *mask);
/*
 * Passes the known elements of input 0 on to output 0, for operators that view a small integer tensor in another
 * shape (Reshape, Squeeze, ...).
 */
void infer_pass_ints(struct infer *c);
/* Records the elements of output i, unless the list is exact and has a value below -1, which would read as a symbol. */
void infer_give_ints(struct infer *c, uint32_t i, const struct int_list *l);
/* Product of dims from..to-1: a size, a symbol if all other dims are 1, or DIM_UNKNOWN. */
int64_t dim_product(const struct shape *s, int from, int to);
/*
 * Return a * b and a + b of two dims, each a size or a symbol; DIM_UNKNOWN if the result is neither. On overflow,
 * *over is set as well.
 */
int64_t dim_mul(int64_t a, int64_t b, bool *over);
int64_t dim_add(int64_t a, int64_t b, bool *over);

#endif
