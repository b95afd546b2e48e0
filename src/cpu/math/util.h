/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_UTIL_H
#define CPU_MATH_UTIL_H
/* Helpers for kernels of several operator families. */
#include "backend/backend.h"
#include "base/pool.h"

#include <math.h>
#include <inttypes.h>

/*
 * Written before a loop whose iterations do not depend on each other, so that the compiler vectorizes the loop
 * without checking for overlap. The output may be exactly the same array as an input.
 */
#if defined(__clang__)
#define LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOOP _Pragma("GCC ivdep")
#endif

enum {
	GRAIN = 32 << 10, /* smallest number of elements that is worth a thread, for cheap functions */
	/* smallest number of elements that is worth a thread, for expensive functions such as exp */
	GRAIN_HEAVY = 4 << 10,
	BLOCK = 1024, /* elements converted at once */
};

/* Whether all numbers of an attribute, of which there may be none, have the value. */
static inline bool all_are(struct ints v, int64_t value)
{
	for (int64_t i = 0; i < v.n; i++)
		if (v.v[i] != value)
			return false;
	return true;
}

/* Returns the bytes of one element of a type of at least eight bits. */
static inline int64_t elem_size(enum dtype t)
{
	return (int64_t)dtype_bits(t) / 8;
}

/*
 * Returns how many elements t occupies in memory, including padding: blocked layouts pad the channels to whole
 * blocks.
 */
static inline int64_t physical_count(const struct tensor *t)
{
	size_t bytes;
	enum dtype d = tensor_dtype(t);

	if (t->layout == LAYOUT_ROW || dtype_bits(d) < 8 ||
	    !tensor_bytes(d, &t->shape, t->layout, &bytes))
		return tensor_count(t);
	return (int64_t)bytes / elem_size(d);
}

static inline const void *at(const void *p, int64_t bytes)
{
	return (const char *)p + bytes;
}
static inline void *at_mut(void *p, int64_t bytes)
{
	return (char *)p + bytes;
}

/* Return the lesser and the greater of two numbers, or NaN if one of them is NaN (which fminf and fmaxf drop). */
static inline float least_f32(float a, float b)
{
	return a < b || isnan(a) ? a : b;
}
static inline float greatest_f32(float a, float b)
{
	return a > b || isnan(a) ? a : b;
}

static inline int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}
static inline int64_t greater(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Returns input i of the step's node, or NULL if the input is omitted. */
static inline const struct tensor *optional_in(const struct call *c, uint32_t i)
{
	return i < c->step->node->nin ? c->in[i] : NULL;
}

/* Returns output i of the step's node, or NULL if the output is omitted. */
static inline struct tensor *optional_out(const struct call *c, uint32_t i)
{
	return i < c->step->nout ? c->out[i] : NULL;
}

/* Returns the type of input i of the site's node (site_out_type: of output i), or DT_NONE if the node omits it. */
static inline enum dtype site_type(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);
	return v ? (enum dtype)v->type.dtype : DT_NONE;
}
static inline enum dtype site_out_type(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_out(s, i);
	return v ? (enum dtype)v->type.dtype : DT_NONE;
}

/* Returns the shape of input i of the site's node, or NULL if the input is omitted. */
static inline const struct shape *site_shape(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);
	return v ? &v->shape : NULL;
}

/* Returns whether kernels compute on this type in fp32 and round only the result. */
static inline bool computes_in_f32(enum dtype t)
{
	return t == DT_F16 || t == DT_BF16 || (T_BIT(t) & (T_F8 | T_F8E8M0 | T_F4 | T_F6));
}

/* Returns how many rows of `row` elements each make up a piece of about `grain` elements; at least 1. */
static inline int64_t rows_grain(int64_t grain, int64_t row)
{
	return row >= grain ? 1 : grain / (row > 0 ? row : 1);
}

/* Allows the plan to give output `out` the memory of input `in`. */
static inline void allow_inplace(struct step *step, uint8_t out, uint8_t in)
{
	if (step->ninplace < MAX_INPLACE) {
		step->inplace[step->ninplace].out = out;
		step->inplace[step->ninplace++].in = in;
	}
}

/*
 * A shape divided at one axis into outer * n * inner elements: n is the size of the axis, outer the product of the
 * sizes before it, inner the product of the sizes after it.
 */
struct axis_split {
	int64_t outer, n, inner;
};
static inline struct axis_split split_at(const struct shape *s, int axis)
{
	return (struct axis_split){shape_span(s, 0, axis), s->rank ? s->dim[axis] : 1,
				   s->rank ? shape_span(s, axis + 1, s->rank) : 1};
}

#endif
