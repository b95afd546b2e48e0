/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_SHAPE_H
#define IR_SHAPE_H
/*
 * Shapes. A dimension is a size (>= 0), unknown (-1), or a symbol: a dim_param
 * of the model, numbered by the model's symbol table (DIM_SYM(k) = -2-k).
 * Equal symbols are equal sizes. While a plan is made all shapes are sizes.
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
	int32_t rank; /* -1: not even the rank is known */
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
/* Elements of a known shape; 1 for a scalar; -1 where unknown or over INT64_MAX. */
int64_t shape_count(const struct shape *s);
/* Product of dim[from..to); same errors. */
int64_t shape_span(const struct shape *s, int from, int to);
struct shape shape_of(int rank, const int64_t *dims);
/* numpy broadcasting of a and b, symbols kept where they are safe; false where they cannot. */
bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out);
/* Elements to step over per dimension in row-major order; 0 for a dimension of 1 (broadcast). */
void shape_strides(const struct shape *s, int64_t *strides);
/* Strides of s seen as `as` (right-aligned broadcast): 0 along what repeats. */
void shape_broadcast_strides(const struct shape *s, const struct shape *as, int64_t *strides);
/* axis in -rank..rank-1 to 0..rank-1; -1 where out of range. */
int axis_of(int64_t axis, int rank);
/* "[1,3,224,224]", "[batch,128]" with names (NULL: "?"), "[?]", "[...]" for unknown rank. */
const char *shape_str(struct arena *a, const struct shape *s, const char *const *symbols);

#endif
