/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FIELD_JSON_H
#define BASE_FIELD_JSON_H
/*
 * The members of a struct as members of a JSON object: a table of fields names each once, for writing and
 * for reading. The table may hold F_BOOL, F_INT, F_DOUBLE and F_STRING; other types are left out.
 */
#include "base/field.h"
#include "base/json_read.h"
#include "base/json_write.h"

/* Into the open object. A string that is NULL is written as null. */
void field_write_json(const struct field *table, const void *obj, struct json *j);
/* From the object v. A member that v lacks, or holds in another type, gets its field's default. */
void field_read_json(const struct field *table, void *obj, const struct jvalue *v, struct arena *a);

#endif
