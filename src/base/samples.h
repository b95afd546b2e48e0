/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that come one by one while something is measured. */
#ifndef BASE_SAMPLES_H
#define BASE_SAMPLES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

/* All zero at first; v is the owner's to free(). */
struct samples {
	double *v;
	size_t n, cap;
};

/* False where there is no memory: then nothing is added. */
bool samples_push(struct samples *s, double x);
/* A copy in the arena; never NULL. */
const double *samples_kept(struct arena *a, const struct samples *s);

#endif
