/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_SHAPE_H
#define IR_SHAPE_H
/*
 * Shapes. A dimension is a size (>= 0), unknown (-1), or a symbol: a dim_param
 * of the model, numbered by the model's symbol table (DIM_SYM(k) = -2-k).
 * Equal symbols are equal sizes. A plan is made for sizes only, without symbols.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAX_RANK = 16 }; /* more is E-RANK at load */

#define DIM_UNKNOWN   ((int64_t)-1)
#define DIM_SYM(k)    (-2 - (int64_t)(k))
#define DIM_SYM_ID(n) ((uint32_t)(-2 - (n)))
static inline bool dim_is_sym(int64_t n)
{
	return n <= -2;
}

struct shape {
	int32_t rank; /* -1 if not even the rank is known */
	int64_t dim[MAX_RANK];
};

#define SHAPE_UNKNOWN ((struct shape){.rank = -1})

static inline bool shape_known(const struct shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] < 0)
			return false;
	return s->rank >= 0;
}
bool shape_equal(const struct shape *a, const struct shape *b);
/* Number of elements; 1 for a scalar; -1 if a dimension is unknown or the number exceeds INT64_MAX. */
int64_t shape_count(const struct shape *s);
/* Product of the dimensions from `from` to `to` - 1; -1 in the cases in which shape_count returns -1. */
int64_t shape_span(const struct shape *s, int from, int to);
/* a * b; DIM_UNKNOWN if either is no known size, or the product exceeds INT64_MAX. */
int64_t known_product(int64_t a, int64_t b);
/*
 * Whether sizes of tensors of this shape can be computed without overflow: the product of the known dimensions that are not 0 is
 * at most 2^40. A dimension of 0 makes none of the others right, since strides and rows are products of a part of the dimensions.
 */
bool shape_countable(const struct shape *s);
struct shape shape_of(int rank, const int64_t *dims);
/*
 * The shape to which a and b are broadcast by numpy's rules. A dimension of the result is a symbol only if that is right
 * for every size, otherwise unknown. False if the shapes cannot be broadcast.
 */
bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out);
/* Whether s can be broadcast to the shape `to`, which stays as it is. Dimensions that are not known contradict nothing. */
bool shape_broadcasts_to(const struct shape *s, const struct shape *to);
/* Row-major strides in elements; 0 for a dimension of size 1, so that it can be broadcast. */
void shape_strides(const struct shape *s, int64_t *strides);
/* Strides in elements for reading s as if it were broadcast to the shape `as`: 0 along the dimensions that repeat. */
void shape_broadcast_strides(const struct shape *s, const struct shape *as, int64_t *strides);
/* Converts an axis from -rank..rank-1 to 0..rank-1; -1 if it is out of range. */
int axis_of(int64_t axis, int rank);
/*
 * Returns the shape as text: "[1,3,224,224]"; "[batch,128]" with names from symbols ("?" if that is NULL); "[?]"
 * for an unknown dimension; "[...]" for an unknown rank.
 */
const char *shape_str(struct arena *a, const struct shape *s, const char *const *symbols);

#endif
