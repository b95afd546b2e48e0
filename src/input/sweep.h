/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_SWEEP_H
#define INPUT_SWEEP_H
/*
 * Lists of sizes with which free dimensions are measured: batch=1..16, x.length=5..100:5,
 * batch=1,8,32. Several dimensions form a grid.
 */
#include "base/field.h"

struct sweep_dim {
	const char *name; /* as --dim takes it */
	int64_t *size;
	size_t n;
};
struct sweep {
	const struct sweep_dim *dim;
	size_t ndims;
	size_t points; /* number of points of the grid; 0 without dimensions */
};

enum { SWEEP_MAX_POINTS = 10000 };

/* Parses the texts of --shapes-sweep, one text for each dimension. Fails with E-OPTION. */
int sweep_parse(const struct texts *text, struct sweep *out, struct arena *a, struct diag *d);
/*
 * Returns the texts in `more`, without those about dimensions of the sweep, followed by the --dim texts of grid point k (such as "batch=4", one
 * for each dimension). The last dimension varies fastest.
 */
struct texts sweep_point(const struct sweep *s, size_t k, const struct texts *more, struct arena *a);
/* Describes grid point k for people: "batch=4 length=20". */
const char *sweep_label(const struct sweep *s, size_t k, struct arena *a);
/* Returns the size of dimension `dim` at grid point k. */
int64_t sweep_size(const struct sweep *s, size_t k, size_t dim);

#endif
