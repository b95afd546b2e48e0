/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_RULES_GUARDS_H
#define OPT_RULES_GUARDS_H
/* Functions that guards in several rule tables use. */
#include "opt/rewrite.h"

/* Whether the value has a type that the fused operators (infer::) take. */
static inline bool is_fusable(const struct match *m, const char *name)
{
	enum dtype t = match_dtype(m, name);
	return t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

static inline bool is_float(const struct match *m, const char *name)
{
	return is_fusable(m, name) || match_dtype(m, name) == DT_F64;
}

/* Dimension i, counted from the end if i is negative: a size, a symbol, or DIM_UNKNOWN. */
static inline int64_t dim_at(const struct match *m, const char *name, int i)
{
	struct shape s = match_shape(m, name);

	if (i < 0)
		i += s.rank;
	return i >= 0 && i < s.rank ? s.dim[i] : DIM_UNKNOWN;
}

/* Whether two dims are certainly equal: the same size or the same symbol. */
static inline bool dims_equal(int64_t a, int64_t b)
{
	return a == b && a != DIM_UNKNOWN;
}

/*
 * Whether two dims are known to be equal, or nothing is known of both sizes. A size beside an unknown dim may broadcast: the
 * fused operators do not.
 */
static inline bool dims_agree(int64_t a, int64_t b)
{
	return a == b || (a < 0 && b < 0);
}

/*
 * Returns the largest magnitude in a constant, 0 if the value does not exist, and infinity if an element is NaN or infinite
 * or the value is not constant.
 */
double largest(const struct match *m, const char *name);
/* The largest finite number of the value's type. */
double largest_finite(const struct match *m, const char *name);

/*
 * True if no element of constant a times one of constant b is out of range. Only then may a * b replace both: x * a * b may
 * be finite although a * b is infinite, and infinity * 0 is NaN.
 */
static inline bool products_fit(struct match *m, const char *a, const char *b)
{
	return largest(m, a) * largest(m, b) <= largest_finite(m, a) ||
	       match_why(m, "a product of the constants would be no finite number");
}

/* The same for sums. */
static inline bool sums_fit(struct match *m, const char *a, const char *b)
{
	return largest(m, a) + largest(m, b) <= largest_finite(m, a) ||
	       match_why(m, "a sum of the constants would be no finite number");
}

/*
 * True if a BatchNormalization with these constants (scale, shift, mean, variance) may become x * k + (shift - mean * k): if
 * k = scale / sqrt(variance + epsilon) and the products with k, also those of the weights w and the bias b, are finite.
 * w and b may be NULL.
 */
bool normalization_fits(struct match *m, const char *w, const char *b);

static inline bool all_zero(struct ints l)
{
	for (int64_t i = 0; i < l.n; i++)
		if (l.v[i])
			return false;
	return true;
}

#endif
