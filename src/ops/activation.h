/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H
/* Activations: the functions of unary.def that other operators apply to their results. */

/* First those that can be fused, whose formulas are in unary.def; then those that attributes alone can name. */
enum act {
	ACT_NONE,
#define ACTIVATION(id, text, op, nparams, alpha, beta) ACT_##id,
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta) ACT_##id,
#include "ops/unary.def"
	ACT_COUNT
};

struct activation {
	const char *text;   /* what rules and programs call it; NULL: it is never fused */
	const char *op;	    /* operator, and name in attributes; NULL: neither */
	int nparams;	    /* how many of alpha and beta an attribute's list gives: 0 to 2 */
	double alpha, beta; /* if neither the operator nor a list gives them */
};
extern const struct activation activations[ACT_COUNT];

/* "none|relu|...": the choices of an attribute `act`, numbered as enum act. */
extern const char act_choices[];

/* The activation of this name in attributes, without regard to case; ACT_NONE if there is none. */
enum act activation_named(const char *name);

#endif
