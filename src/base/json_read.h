/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H
/*
 * JSON as a tree, for what base/json_write.h wrote (baselines, reports), of at most 64 levels; and the
 * scanner below it, for a reader that must not build a tree (io/text.c: large arrays of numbers, of which
 * each error is told with its place).
 */
#include "base/diag.h"

enum jtype { J_NULL, J_BOOL, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

struct jvalue {
	enum jtype type;
	double number;			   /* of a number; 0 or 1 of a bool */
	const char *text;		   /* of a string */
	const char *key;		   /* in an object */
	const struct jvalue *first, *next; /* members or elements */
	size_t n;			   /* of them */
};

/* The tree, in the arena. NULL, with a finding of `code`: the text is no JSON; `what` names the text in the message. */
const struct jvalue *jread(const char *text, size_t n, const char *what, enum code code,
			   struct arena *a, struct diag *d);

/* A member of an object; NULL: v is NULL or no object, or has no such member. */
const struct jvalue *jget(const struct jvalue *v, const char *key);
/* The value of a member; `def`: there is none, or it has another type. "NaN" and "Infinity" are read as numbers. */
double jnumber(const struct jvalue *v, const char *key, double def);
int64_t jint(const struct jvalue *v, const char *key, int64_t def);
const char *jtext(const struct jvalue *v, const char *key); /* NULL: none */
bool jbool(const struct jvalue *v, const char *key);
/* The numbers of an array member, in the arena; *n of them. */
double *jnumbers(const struct jvalue *v, const char *key, size_t *n, struct arena *a);

/* ---- the scanner */

struct json_scan {
	const char *p, *end; /* what is still to be read; after an error p is where it is */
	struct arena *arena; /* holds strings with escapes */
	const char *error;   /* the first; NULL */
};
/* Keep the first error. Returns false. */
bool json_fail(struct json_scan *s, const char *why);
void json_skip_blanks(struct json_scan *s);
/* Skip blanks and the character c; false: another one follows. */
bool json_take(struct json_scan *s, char c);
/*
 * The rest of a string whose opening quote was taken, n bytes of UTF-8 without a NUL behind them: in place,
 * or in the arena if there were escapes. false, with an error: it does not end, or an escape is wrong.
 */
bool json_string_rest(struct json_scan *s, const char **text, size_t *n);

#endif
