/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_INTS_H
#define OPS_INTS_H
/* Small integer inputs (shapes, axes, pads) as lists, while shapes are inferred and kernels prepared. */
#include "ops/op.h"

enum { MAX_INTS = 2 * MAX_RANK };

struct int_list {
	int n;
	bool exact; /* the elements are the values; else negative ones are symbols or not known */
	int64_t v[MAX_INTS];
};

/* The elements of an integer tensor; false where there are more than MAX_INTS. */
bool list_of(const struct tensor *t, struct int_list *out);
/* What is known of v's elements (v may be NULL); false where nothing is. */
bool list_of_info(const struct vinfo *v, struct int_list *out);
/* Input i's elements; false where nothing is known of them (then noted as wanted). */
bool infer_list(struct infer *c, uint32_t i, struct int_list *out);
/* The same where every element must be a value: symbols count as not known. */
bool infer_exact(struct infer *c, uint32_t i, struct int_list *out);
/*
 * Axes: from -rank..rank-1 to 0..rank-1, no axis twice; 0 or -code. slot: the input they come
 * from, or -1 for an attribute. mask gets a bit an axis.
 */
int infer_axes(const struct infer *c, int slot, int rank, struct int_list *axes, uint32_t *mask);
/* Output 0's elements are input 0's (a view of a small integer tensor). */
void infer_pass_ints(struct infer *c);
/* Output i's elements, where they fit: none below -1 (-1 says not known) unless exact symbols. */
void infer_give_ints(struct infer *c, uint32_t i, const struct int_list *l);
/* Product of dims from..to-1: a size, a symbol where all else is 1, or DIM_UNKNOWN. */
int64_t dim_product(const struct shape *s, int from, int to);
/* a * b, a + b of dims (sizes or symbols); -2 of *over: overflow */
int64_t dim_mul(int64_t a, int64_t b, bool *over);
int64_t dim_add(int64_t a, int64_t b, bool *over);

#endif
