/* SPDX-License-Identifier: Apache-2.0 */
/* A growing array of numbers that are measured one by one. */
#ifndef BASE_SAMPLES_H
#define BASE_SAMPLES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

/* An empty array is all zeros. The owner frees v with free(). */
struct samples {
	double *v;
	size_t n, cap;
};

/* Appends x. Returns false, without a change, if there is no memory. */
bool samples_push(struct samples *s, double x);
/* Returns a copy of the numbers in the arena; never NULL. */
const double *samples_kept(struct arena *a, const struct samples *s);

#endif
