/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/rules/guards.h"

#include <float.h>
#include <math.h>

double largest_finite(const struct match *m, const char *name)
{
	enum dtype t = match_dtype(m, name);

	return t == DT_F16 ? 65504 : t == DT_F64 ? DBL_MAX : (double)FLT_MAX;
}

double largest(const struct match *m, const char *name)
{
	const struct tensor *t = match_const(m, name);

	if (!t)
		return match_value(m, name) ? (double)INFINITY : 0;
	return tensor_largest(t);
}

/* The largest factor k of a BatchNormalization; infinity if one is NaN or infinite. */
static double largest_factor(const struct match *m)
{
	const struct tensor *s = match_const(m, "s"), *v = match_const(m, "v");
	double most = 0, epsilon = match_attr(m, "n", "epsilon", 0);

	if (!s || !v || tensor_count(s) != tensor_count(v))
		return (double)INFINITY;
	for (int64_t i = 0; i < tensor_count(s); i++) {
		double k = fabs(elem_f64(tensor_dtype(s), s->data, i)) /
			   sqrt(elem_f64(tensor_dtype(v), v->data, i) + epsilon);
		most = k <= most ? most : isnan(k) ? (double)INFINITY : k;
	}
	return most;
}

bool normalization_fits(struct match *m, const char *w, const char *b)
{
	double k = largest_factor(m), most = largest_finite(m, "s");
	double shift = (largest(m, "m") + (b ? largest(m, b) : 0)) * k + largest(m, "o");

	return (k <= most && shift <= most && (!w || largest(m, w) * k <= most)) ||
	       match_why(m, "its factors and shifts would not all be finite numbers");
}
