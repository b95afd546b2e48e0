/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PAIR_SIDES_H
#define CHECK_PAIR_SIDES_H
/*
 * Parses the value of --compare, which names the two ways of running the model that are compared, and decides how far
 * apart their results may be.
 */
#include "check/pair.h"

/* What is accepted of runs that compute in fp16 and bf16, relative to the largest element. */
#define LIMIT_F16  1e-2
#define LIMIT_BF16 5e-2

/*
 * Reads "cpu,cuda:fp16" and sets the names and configurations of both sides. Each word changes one setting of the
 * run's own configuration. If the text has only one side, the other side is the run as configured. A text that ends in .onnx
 * is another model as the reference. Fails with
 * E-OPTION for an unknown word and for two equal sides.
 */
int pair_sides_parse(struct check_context *c, const char *text, struct pair *p);

/* Whether the value of --compare names another model. */
bool pair_sides_model(const char *text);
/* Whether the value of --compare, which may be NULL, names ONNX Runtime as the reference. */
bool pair_sides_ort(const char *text);

/*
 * Returns the value of --compare. Without this option, --all compares with the CPU or, on the CPU, with the
 * unoptimized run. Returns NULL if nothing is to be compared.
 */
const char *pair_sides_text(const struct check_context *c);

/*
 * Returns the largest relative difference that is still accepted of a node: --rtol, or more if one side computes in a precision
 * (tf32, fp16, bf16) that cannot achieve --rtol.
 */
double pair_sides_limit(const struct check_context *c, const struct pair *p);
/*
 * Returns the largest distance of an output that is accepted, whose roundings are those of type t. `limit` is that of the sides. A tolerance
 * that the user gives is kept as it is: types and precisions raise the default alone, and what is accepted of inner nodes.
 */
double pair_sides_output_limit(const struct check_context *c, enum dtype t, double limit);
/* Whether an output's distance exceeds it. */
bool pair_sides_output_over(const struct check_context *c, const struct distance *d, enum dtype t,
			    double limit);
/* Returns that limit as a text for reports. */
const char *pair_sides_output_limit_say(const struct check_context *c, const struct distance *d,
					enum dtype t, double limit);

#endif
