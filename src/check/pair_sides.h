/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PAIR_SIDES_H
#define CHECK_PAIR_SIDES_H
/* The value of --compare: which two ways of running the model are compared, and how far apart they may be. */
#include "check/pair.h"

/*
 * Reads "cpu,cuda:fp16" and sets the names and configurations of both sides. Words change the run's own
 * configuration; with one side only, the other is the run as configured. E-OPTION for an unknown word and for two
 * equal sides.
 */
int pair_sides_parse(struct check_context *c, const char *text, struct pair *p);

/*
 * The value of --compare. Without it, --all compares with the CPU, or on the CPU with the unoptimized run; NULL when
 * nothing is to be compared.
 */
const char *pair_sides_text(const struct check_context *c);

/*
 * The largest relative difference that is still accepted: --rtol, or more when one side computes in a precision
 * (tf32, fp16, bf16) that cannot keep to it.
 */
double pair_sides_limit(const struct check_context *c, const struct pair *p);

#endif
