/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PARAMS_H
#define OPT_PARAMS_H
/* Attributes of operators by name: compare, copy, read and set params structs through their field tables. */
#include "ops/op.h"

/* Makes a params struct of the row, set to the defaults. */
void *params_new(const struct op *op, struct arena *a);
const struct field *params_field(const struct op *op, const char *name);
/* Whether two params structs of the same operator are equal. */
bool params_same(const struct op *op, const void *a, const void *b);
uint64_t params_hash(const struct op *op, const void *p, uint64_t seed);
/* Copies field `from` of src to field `to` of obj; returns false if the types do not fit. */
bool params_copy_field(const struct field *to, void *obj, const struct field *from, const void *src,
		       struct arena *a);
/* Copies all attributes whose names both operators have and that are present in src. */
void params_copy(const struct op *to, void *obj, const struct op *from, const void *src,
		 struct arena *a);
/* Reads a numeric attribute (bool, int, float, double, number of an enum's choice); returns false if it is absent. */
bool params_number(const struct field *f, const void *obj, double *v);
bool params_set_number(const struct field *f, void *obj, double v);
/*
 * The attribute of node n that holds body k, in whatever order the file has them, or NULL if its operator is not known. *rank is its number
 * among the operator's attributes that are graphs.
 */
const struct field *params_body(const struct node *n, uint32_t k, uint32_t *rank);
/* Sets an attribute from text; lists are written with or without brackets. Returns false if the text does not fit. */
bool params_set(const struct field *f, void *obj, const char *text, struct arena *a);

#endif
