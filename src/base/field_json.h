/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FIELD_JSON_H
#define BASE_FIELD_JSON_H
/*
 * Writes the members of a struct as members of a JSON object, and reads them back, by one table of
 * fields. Only fields of the types F_BOOL, F_INT, F_DOUBLE and F_STRING are written and read; other
 * fields are left out.
 */
#include "base/field.h"
#include "base/json_read.h"
#include "base/json_write.h"

/* Writes the fields into the open object. A string that is NULL is written as null. */
void field_write_json(const struct field *table, const void *obj, struct json *j);
/*
 * Reads the fields from the object v. If v lacks a member, or if the member has another type, the
 * field gets its default.
 */
void field_read_json(const struct field *table, void *obj, const struct jvalue *v, struct arena *a);

#endif
