/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_COMPARE_BODIES_H
#define CHECK_COMPARE_BODIES_H
/* Compares two sessions (struct pair) inside the bodies of If, Loop and Scan. */
#include "check/distance.h"
#include "check/pair.h"

struct body_difference {
	const char *node,
		*op; /* name and operator in the diag's arena; NULL if no node of a body differs */
	uint32_t time; /* number of the execution of the body in which the node differed, from 1 */
	struct distance distance;
};
/*
 * Runs both sides of the pair again, one after the other, and finds the first node of a body whose output differs by
 * more than `limit` (see distance_over). Returns false if there is none, or if a run failed.
 */
bool compare_bodies(struct check_context *c, const struct pair *p, const struct tensor *const *in,
		    double limit, struct body_difference *found);

#endif
