/* SPDX-License-Identifier: Apache-2.0 */
#include "base/field_json.h"

void field_write_json(const struct field *table, const void *obj, struct json *j)
{
	for (const struct field *f = table; f->name; f++) {
		const void *p = (const char *)obj + f->off;
		switch (f->type) {
		case F_BOOL: json_bool(j, f->name, *(const bool *)p); break;
		case F_INT: json_int(j, f->name, *(const int64_t *)p); break;
		case F_DOUBLE: json_number(j, f->name, *(const double *)p); break;
		case F_STRING: json_string(j, f->name, *(const char *const *)p); break;
		default: break;
		}
	}
}

void field_read_json(const struct field *table, void *obj, const struct jvalue *v, struct arena *a)
{
	field_defaults(table, obj, a);
	for (const struct field *f = table; f->name; f++) {
		void *p = (char *)obj + f->off;
		const char *text = jtext(v, f->name);
		switch (f->type) {
		case F_BOOL: *(bool *)p = jbool(v, f->name); break;
		case F_INT: *(int64_t *)p = jint(v, f->name, *(int64_t *)p); break;
		case F_DOUBLE: *(double *)p = jnumber(v, f->name, *(double *)p); break;
		case F_STRING:
			if (text)
				*(const char **)p = arena_str(a, text);
			break;
		default: break;
		}
	}
}
