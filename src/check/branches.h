/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_BRANCHES_H
#define CHECK_BRANCHES_H
/* Branches of an If in which a node's operands do not fit. */
#include "check/check.h"

/*
 * Reports the first such node of each branch: as a warning, as a run whose condition takes the branch fails, or as a note if the condition is
 * constant and takes the other one.
 */
void branches_report(struct check_context *c);

#endif
