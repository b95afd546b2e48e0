/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_YAML_H
#define BASE_YAML_H
/*
 * Reads a configuration file in YAML: one mapping of field names to values. An option that may be
 * given several times takes a list of scalars, or, if its values are NAME=VALUE, a mapping of
 * scalars.
 */
#include "base/field.h"

/* A function that is called for each field that was set; `where` is "FILE:LINE". */
typedef void yaml_seen(void *ctx, const struct field *f, const char *where);

/*
 * Sets fields of obj from the file. A field that has one of the flags in `refused` must not be in
 * the file. Errors are E-CONFIG and name FILE:LINE. `seen` may be NULL.
 */
int yaml_load(const char *path, const struct field *table, unsigned refused, void *obj,
	      yaml_seen *seen, void *ctx, struct arena *a, struct diag *d);

#endif
