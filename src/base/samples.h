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
/*
 * Reserves memory for `more` more numbers, which samples_push() then takes for certain: lists whose numbers belong together are
 * reserved together first. Returns false if there is no memory.
 */
bool samples_reserve(struct samples *s, size_t more);
/* Appends x[i] to s[i] for each i, or nothing. Returns false if there is no memory. */
bool samples_push_row(struct samples *s, const double *x, size_t n);
/* Returns a copy of the numbers in the arena; never NULL. */
const double *samples_kept(struct arena *a, const struct samples *s);

#endif
