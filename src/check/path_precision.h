/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PATH_PRECISION_H
#define CHECK_PATH_PRECISION_H
/*
 * In which precision a value was computed along its path: a model may compute in fp16 and cast its outputs to fp32 at the end, whose
 * rounding is that of fp16 all the same.
 */
#include "ir/graph.h"

/*
 * Returns, indexed by value id, DT_BF16 or DT_F16 if a node of graph g, or of a body, on the path to the value has rounded to that
 * type, the coarser one of both; otherwise DT_NONE. Constants and inputs of such a type are not rounded. g must be sorted.
 */
enum dtype *path_precisions(struct arena *a, const struct graph *g);

/*
 * Returns the largest relative difference that is accepted of a value whose roundings, along its path, are those of type t: `limit`,
 * or more if t cannot achieve it.
 */
double path_limit(enum dtype t, double limit);

/* Returns the type by which rounding is to be judged: that of the path if it is coarser than `own`. */
enum dtype coarser_precision(enum dtype own, enum dtype path);

#endif
