/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H
/* Activations: the functions of unary.def that other operators apply to their results. */

/*
 * The activations that can be fused come first; their formulas are in unary.def. Those that only attributes can name
 * follow.
 */
enum act {
	ACT_NONE,
#define ACTIVATION(id, text, op, nparams, alpha, beta) ACT_##id,
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta) ACT_##id,
#include "ops/unary.def"
	ACT_COUNT
};

struct activation {
	/* name in rewrite rules and in programs of infer::Pointwise; NULL if it is never fused */
	const char *text;
	/* name of the operator, which attributes use, too; NULL if there is neither */
	const char *op;
	int nparams;	    /* how many of alpha and beta an attribute's list gives: 0 to 2 */
	double alpha, beta; /* the values if neither the operator nor a list gives them */
};
extern const struct activation activations[ACT_COUNT];

/* The choices "none|relu|..." of an attribute `act`, numbered as enum act. */
extern const char act_choices[];

/* The activation of this name in attributes, without regard to case; ACT_NONE if there is none. */
enum act activation_named(const char *name);

#endif
