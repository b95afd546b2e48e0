/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PARAMS_H
#define OPT_PARAMS_H
/* Attributes by name: compare, copy, read and set params structs through their field tables. */
#include "ops/op.h"

/* New params of the row with their defaults. */
void *params_new(const struct op *op, struct arena *a);
const struct field *params_field(const struct op *op, const char *name);
/* Whether two params of the same operator say the same. */
bool params_same(const struct op *op, const void *a, const void *b);
uint64_t params_hash(const struct op *op, const void *p, uint64_t seed);
/* Give field `to` of `obj` the value of field `from` of `src`; false where it cannot have it. */
bool params_copy_field(const struct field *to, void *obj, const struct field *from, const void *src,
		       struct arena *a);
/* All attributes that both have by name and that src has. */
void params_copy(const struct op *to, void *obj, const struct op *from, const void *src,
		 struct arena *a);
/* Numeric attribute (bool, int, enum's index, float, double); false where absent. */
bool params_number(const struct field *f, const void *obj, double *v);
bool params_set_number(const struct field *f, void *obj, double v);
/* An attribute from text; lists with or without brackets. */
bool params_set(const struct field *f, void *obj, const char *text, struct arena *a);

#endif
