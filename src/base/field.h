/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H
/*
 * A struct described by a table of fields. One table serves the command line,
 * YAML, --help, man and completions (options), another kind serves a model's
 * attributes (params of an operator). Tables end with a row whose name is NULL.
 */
#include "base/diag.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct ints {
	const int64_t *v;
	int64_t n; /* -1: absent */
};
struct floats {
	const float *v;
	int64_t n; /* -1: absent */
};
struct text { /* bytes; a NUL follows them */
	const char *s;
	size_t n;
};
struct texts {
	const struct text *v;
	int64_t n; /* -1: absent */
};

#define INT_ABSENT INT64_MIN /* an optional F_INT without default that was not given */

enum ftype {
	F_BOOL,	    /* bool */
	F_INT,	    /* int64_t */
	F_FLOAT,    /* float; absent: NAN */
	F_DOUBLE,   /* double; absent: NAN */
	F_STRING,   /* const char *; absent: NULL */
	F_ENUM,	    /* int: index into choices ("a|b|c"); absent: -1 */
	F_SIZE,	    /* int64_t bytes: 12, 4K, 2MiB, 1.5G, 10MB; absent: INT_ABSENT */
	F_DURATION, /* double seconds: 200ms, 3s, 2m; a bare number is seconds; absent: NAN */
	F_INTS,	    /* struct ints */
	F_FLOATS,   /* struct floats */
	F_STRINGS,  /* struct texts */
	F_LIST,	    /* struct texts; option given repeatedly, each adds one; absent: n is 0 */
	/* attributes only: filled by onnx/load.c */
	F_TENSOR,  /* const struct tensor * */
	F_TENSORS, /* struct tensors */
	F_TYPE,	   /* struct type and shape: const struct type_attr * */
	F_GRAPH,   /* int: index into node->sub; -1 absent */
};

enum { FIELD_REQUIRED = 1 /* attribute must be given */ };

struct field {
	const char *name;
	enum ftype type;
	size_t off;	     /* in the struct */
	const char *def;     /* default as text; NULL: absent (see ftype) */
	const char *help;    /* one line */
	unsigned flags;	     /* FIELD_* */
	const char *choices; /* F_ENUM: "auto|cpu|cuda"; F_STRING: allowed values or NULL */
	/* options only */
	char sh; /* short option letter or 0 */
	/* Name of the argument in --help: "FILE"; "[N]": may be left out, then `implied` is meant; NULL: none. */
	const char *arg;
	const char *implied;	  /* value of an optional argument that is left out */
	unsigned cmds;		  /* bit mask of subcommands */
	const char *more;	  /* man page paragraph */
	const char *env;	  /* environment variable that sets it, or NULL */
	const char *metavar_kind; /* completion: "file", "dir", "input" (name or file), "name" (of an input), "dim", "=a|b" (words); NULL */
	const char *group;	  /* heading in --help */
	double min, max;	  /* of a number, where min < max */
	size_t axis; /* offset of a struct texts that keeps a list "A,B", each a value by itself; 0: no lists */
};

/* A row for an attribute: FIELD(struct softmax, axis, F_INT, "-1", "axis to sum over"). */
#define FIELD(type_, member, ftype_, def_, help_)                                                  \
	{                                                                                          \
		.name = #member, .type = (ftype_), .off = offsetof(type_, member), .def = (def_),  \
		.help = (help_)                                                                    \
	}
#define FIELD_REQ(type_, member, ftype_, help_)                                                    \
	{                                                                                          \
		.name = #member, .type = (ftype_), .off = offsetof(type_, member),                 \
		.help = (help_), .flags = FIELD_REQUIRED                                           \
	}

/* Set every field of obj to its default (allocating from a); false only for a wrong table. */
bool field_defaults(const struct field *table, void *obj, struct arena *a);
/*
 * Parse text into the field; F_LIST: adds one. where names the origin for the error ("--device",
 * "x.yaml:7: device"). Strings are copied to the arena. E-OPTION where the text does not fit.
 */
int field_set(const struct field *f, void *obj, const char *text, const char *where,
	      struct arena *a, struct diag *d);
/* The value as field_set would take it; NULL where it is absent or not to be said in text. */
const char *field_print(const struct field *f, const void *obj, struct arena *a);
const struct field *field_find(const struct field *table, const char *name);
/* What the field takes, for messages and manuals: "an integer from 0 to 64", "one of a, b, c". */
const char *field_takes(const struct field *f, struct arena *a);
/* The nearest name by edit distance, or NULL where none is near. */
const char *field_nearest(const struct field *table, const char *name);

#endif
