/* SPDX-License-Identifier: Apache-2.0 */
/* A growing array of numbers that are measured one by one. */
#ifndef BASE_SAMPLES_H
#define BASE_SAMPLES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

/* Initialize with zeros. The owner frees v with free(). */
struct samples {
	double *v;
	size_t n, cap;
};

/* Append x. false: no memory, and nothing is appended. */
bool samples_push(struct samples *s, double x);
/* A copy in the arena; never NULL. */
const double *samples_kept(struct arena *a, const struct samples *s);

#endif
