/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_SWEEP_H
#define INPUT_SWEEP_H
/* Sizes that free dimensions go through: batch=1..16, x.length=5..100:5, batch=1,8,32; several make a grid. */
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

enum { SWEEP_MOST = 10000 }; /* points */

/* E-OPTION where the text says nothing that can be gone through. */
int sweep_parse(const struct texts *text, struct sweep *out, struct arena *a, struct diag *d);
/* Point k, the last dimension fastest: "batch=4" for each dimension, behind what `more` says. */
struct texts sweep_point(const struct sweep *s, size_t k, const struct texts *more, struct arena *a);
/* "batch=4 length=20" */
const char *sweep_label(const struct sweep *s, size_t k, struct arena *a);
int64_t sweep_size(const struct sweep *s, size_t k, size_t dim);

#endif
