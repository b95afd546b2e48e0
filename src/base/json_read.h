/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H
/*
 * Reads JSON. jread() builds a tree of at most 64 levels from documents that base/json_write.h
 * wrote (baselines, reports). The scanner below serves readers that must not build a tree, such as
 * io/text.c, which reads large arrays of numbers and reports the place of each error.
 */
#include "base/diag.h"

enum jtype { J_NULL, J_BOOL, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

struct jvalue {
	enum jtype type;
	double number;			   /* value of a number; 0 or 1 for a bool */
	const char *text;		   /* of a string */
	const char *key;		   /* in an object */
	const struct jvalue *first, *next; /* members or elements */
	size_t n;			   /* of them */
};

/*
 * Returns the tree, in the arena. If the text is not JSON, returns NULL and adds a finding with
 * `code`, whose message calls the text `what`.
 */
const struct jvalue *jread(const char *text, size_t n, const char *what, enum code code,
			   struct arena *a, struct diag *d);

/*
 * Returns a member of the object v, or NULL if v is NULL, is not an object, or has no such member.
 */
const struct jvalue *jget(const struct jvalue *v, const char *key);
/*
 * Returns the value of a member, or `def` if the member is missing or has another type. "NaN" and
 * "Infinity" are read as numbers.
 */
double jnumber(const struct jvalue *v, const char *key, double def);
int64_t jint(const struct jvalue *v, const char *key, int64_t def);
const char *jtext(const struct jvalue *v, const char *key); /* NULL: none */
bool jbool(const struct jvalue *v, const char *key);
/*
 * Returns the numbers of a member that is an array, in the arena. Sets *n to the number of
 * elements.
 */
double *jnumbers(const struct jvalue *v, const char *key, size_t *n, struct arena *a);

/* ---- the scanner */

struct json_scan {
	/* the text that is still to be read; after an error, p is the place of the error */
	const char *p, *end;
	struct arena *arena; /* holds strings with escapes */
	const char *error;   /* the first; NULL */
};
/* Records the error unless there is an earlier one. Returns false. */
bool json_fail(struct json_scan *s, const char *why);
void json_skip_blanks(struct json_scan *s);
/* Skips blanks and then the character c. Returns false if another character follows the blanks. */
bool json_take(struct json_scan *s, char c);
/*
 * Reads the rest of a string whose opening quote was taken. Sets *text to its *n bytes of UTF-8,
 * which are not NUL-terminated: they stay in place, or are copied to the arena if there were
 * escapes. Returns false and records an error if the string does not end or if an escape is
 * invalid.
 */
bool json_string_rest(struct json_scan *s, const char **text, size_t *n);

#endif
