/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H
/*
 * A struct described by a table of fields. The options of the command line are one such table, from which YAML,
 * --help, manual pages and completions are made as well; the attributes of an operator are another, and the members
 * of a record in JSON a third kind (field_json.h). Tables end with a row whose name is NULL.
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
	F_LIST, /* struct texts; an option that may be repeated, each time adding one; absent: n is 0 */
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
	/* Name of the argument in --help: "FILE"; "[N]": may be left out, which means `implied`; NULL: takes no argument. */
	const char *arg;
	const char *implied;	  /* value if an optional argument is left out */
	unsigned cmds;		  /* bit mask of subcommands */
	const char *more;	  /* man page paragraph */
	const char *env;	  /* environment variable that sets it, or NULL */
	const char *metavar_kind; /* completion: "file", "dir", "input" (name or file), "name" (of an input), "dim", "=a|b" (words); NULL */
	const char *group;	  /* heading in --help */
	double min, max;	  /* limits of a number, if min < max */
	size_t axis; /* offset of a struct texts that keeps a list "A,B" of values to compare; 0: takes one value only */
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
 * Parse text into the field; an F_LIST gets one more item. where names the origin in messages ("--device",
 * "x.yaml:7: device"). Strings are copied to the arena. E-OPTION: the field does not take this text.
 */
int field_set(const struct field *f, void *obj, const char *text, const char *where,
	      struct arena *a, struct diag *d);
/* The value as text for field_set(); NULL: it is absent, or a tensor, type or graph. */
const char *field_print(const struct field *f, const void *obj, struct arena *a);
const struct field *field_find(const struct field *table, const char *name);
/* What the field takes, for messages and manuals: "an integer from 0 to 64", "one of a, b, c". */
const char *field_takes(const struct field *f, struct arena *a);
/* The name nearest to a misspelt one (str_nearest); NULL: none is near. */
const char *field_nearest(const struct field *table, const char *name);

#endif
