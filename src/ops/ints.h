/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_INTS_H
#define OPS_INTS_H
/* Small integer inputs (shapes, axes, pads) as lists, for shape inference and for kernels. */
#include "ops/op.h"

enum { MAX_INTS = 2 * MAX_RANK };

struct int_list {
	int n;
	bool exact; /* true: all elements are values; false: negative elements are symbols or DIM_UNKNOWN */
	int64_t v[MAX_INTS];
};

/* Elements of an integer tensor; false if there are more than MAX_INTS. */
bool list_of(const struct tensor *t, struct int_list *out);
/* What is known of the elements of v (may be NULL); false if nothing is. */
bool list_of_info(const struct vinfo *v, struct int_list *out);
/* Elements of input i; false if nothing is known of them: the input is then noted in c->wanted. */
bool infer_list(struct infer *c, uint32_t i, struct int_list *out);
/* As infer_list, but true only if every element is a value: symbols do not suffice. */
bool infer_exact(struct infer *c, uint32_t i, struct int_list *out);
/*
 * Resolve axes from -rank..rank-1 to 0..rank-1, in place, and set bit a of *mask for each axis a. Returns 0, or -code
 * if an axis is out of range or repeated. slot: the input that the axes come from, -1: an attribute.
 */
int infer_axes(const struct infer *c, int slot, int rank, struct int_list *axes, uint32_t *mask);
/* Output 0 has the elements of input 0: a view of a small integer tensor (Reshape, Squeeze, ...). */
void infer_pass_ints(struct infer *c);
/* Record the elements of output i, if they can be: an exact list with a value below -1 would read as a symbol. */
void infer_give_ints(struct infer *c, uint32_t i, const struct int_list *l);
/* Product of dims from..to-1: a size, a symbol if all other dims are 1, or DIM_UNKNOWN. */
int64_t dim_product(const struct shape *s, int from, int to);
/* a * b and a + b of two dims, each a size or a symbol. DIM_UNKNOWN if the result is neither; on overflow *over is set as well. */
int64_t dim_mul(int64_t a, int64_t b, bool *over);
int64_t dim_add(int64_t a, int64_t b, bool *over);

#endif
