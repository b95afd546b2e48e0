/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_DERIVATIVE_H
#define CHECK_DERIVATIVE_H
/*
 * Derivatives by reverse accumulation (Linnainmaa, "Taylor expansion of the accumulated rounding error", 1976) at the values
 * of a held run: from the derivative of a number by the outputs of a node to that by its inputs. Products and convolutions
 * are turned into the operators that are their transposes; operators that move elements are run on the numbers of the
 * elements; for elementwise operators the difference quotient is taken.
 */
#include "check/held_run.h"

enum { DERIVATIVE_NONE, DERIVATIVE_MADE };

/*
 * Computes the derivatives by the inputs of node n at the values of h. dy has an array of f32 for each output of the node, NULL
 * for those on which nothing depends. dx has an entry for each input, NULL at first: those with `want` set get an array
 * of f32 of mem_alloc, which the caller owns, and which stays NULL if it would be 0 or counts to another entry of the same
 * value. Returns DERIVATIVE_MADE; DERIVATIVE_NONE if no rule covers the node; or -code, with memory short. dx may be set in
 * part then.
 */
int derivative_of(struct held_run *h, const struct node *n, float *const *dy, const bool *want,
		  float **dx, struct diag *d);

#endif
