/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_SWEEP_H
#define INPUT_SWEEP_H
/* Sizes to measure free dimensions with: batch=1..16, x.length=5..100:5, batch=1,8,32. Several form a grid. */
#include "base/field.h"

struct sweep_dim {
	const char *name; /* as --dim takes it */
	const int64_t *size;
	size_t n;
};
struct sweep {
	const struct sweep_dim *dim;
	size_t ndims;
	size_t points; /* of the grid; 0 without dimensions */
};

enum { SWEEP_MAX_POINTS = 10000 };

/* Parse the texts of --shapes-sweep, one a dimension. E-OPTION. */
int sweep_parse(const struct texts *text, struct sweep *out, struct arena *a, struct diag *d);
/* The --dim texts of point k ("batch=4" for each dimension) after those of `more`. The last dimension varies fastest. */
struct texts sweep_point(const struct sweep *s, size_t k, const struct texts *more, struct arena *a);
/* Point k for people: "batch=4 length=20". */
const char *sweep_label(const struct sweep *s, size_t k, struct arena *a);
/* The size of dimension `dim` at point k. */
int64_t sweep_size(const struct sweep *s, size_t k, size_t dim);

#endif
