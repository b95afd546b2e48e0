/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_YAML_H
#define BASE_YAML_H
/*
 * A configuration file in YAML: one mapping of field names to values. A list of scalars (or, for
 * name=value options, a mapping of scalars) stands for an option given repeatedly.
 */
#include "base/field.h"

/* Told of each field that was set: where is "FILE:LINE". */
typedef void yaml_seen(void *ctx, const struct field *f, const char *where);

/*
 * Set fields of obj from the file. Only rows for which no bit of `refused` is in their flags may be
 * set. Errors are E-CONFIG with FILE:LINE. seen may be NULL.
 */
int yaml_load(const char *path, const struct field *table, unsigned refused, void *obj,
	      yaml_seen *seen, void *ctx, struct arena *a, struct diag *d);

#endif
