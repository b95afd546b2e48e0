/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H
/*
 * A struct described by a table of fields. The options of the command line are one such table, from
 * which YAML, --help, manual pages and completions are made as well; other tables describe the
 * attributes of an operator, or the members of a record in JSON (field_json.h). Tables end with a
 * row whose name is NULL.
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

#define INT_ABSENT INT64_MIN /* value of an optional F_INT that has no default and was not given */

enum ftype {
	F_BOOL,	    /* bool */
	F_INT,	    /* int64_t */
	F_FLOAT,    /* float; absent: NAN */
	F_DOUBLE,   /* double; absent: NAN */
	F_STRING,   /* const char *; absent: NULL */
	F_ENUM,	    /* int: index into choices ("a|b|c"); -1 if absent */
	F_SIZE,	    /* int64_t bytes: 12, 4K, 2MiB, 1.5G, 10MB; INT_ABSENT if absent */
	F_DURATION, /* double seconds: 200ms, 3s, 2m; a bare number means seconds; NAN if absent */
	F_INTS,	    /* struct ints */
	F_FLOATS,   /* struct floats */
	F_STRINGS,  /* struct texts */
	/* struct texts: an option that may be repeated adds one text each time; n is 0 if absent */
	F_LIST,
	/* The following types are for attributes only; onnx/load.c fills their members. */
	F_TENSOR,  /* const struct tensor * */
	F_TENSORS, /* struct tensors */
	F_TYPE,	   /* struct type and shape: const struct type_attr * */
	F_GRAPH,   /* int: index into node->sub; -1 if absent */
};

enum {
	FIELD_REQUIRED = 1, /* attribute must be given */
	/*
	 * An attribute's integers are data, such as labels, or mean "to the end" if they are huge: any of 64 bits is right. Other
	 * attributes are sizes, steps and positions, which kernels add and multiply: they must have 32 bits.
	 */
	FIELD_ANY_INT = 2
};

struct field {
	const char *name;
	enum ftype type;
	size_t off; /* in the struct */
	/* default as text; if NULL, the default is the type's value for absent (see ftype) */
	const char *def;
	const char *help; /* one line */
	unsigned flags;	  /* FIELD_* */
	/*
	 * F_ENUM: the names, such as "auto|cpu|cuda"; F_STRING: the allowed values, or NULL for any
	 */
	const char *choices;
	/*
	 * Attributes only: the versions of the operator in which ONNX gives it the attribute, or for F_ENUM each choice, in the
	 * order of `choices`: "13-" (13 and later), "-18", "11-12" or "" (all), with '|' between. Others are read as well, and
	 * noted in the node (struct foreign_attribute); NULL: all.
	 */
	const char *versions;
	/* options only */
	char sh; /* short option letter or 0 */
	/*
	 * Name of the argument in --help, such as "FILE". In brackets ("[N]"): the argument may be
	 * left out, which means `implied`. NULL: the option takes no argument.
	 */
	const char *arg;
	const char *implied; /* value if an optional argument is left out */
	unsigned cmds;	     /* bit mask of subcommands */
	const char *more;    /* man page paragraph */
	const char *env;     /* environment variable that sets the field, or NULL */
	/*
	 * what shells complete: "file", "dir", "input" (name or file), "name" (of an input), "dim",
	 * "=a|b" (words), or NULL
	 */
	const char *metavar_kind;
	const char *group; /* heading in --help */
	double min, max;   /* limits of a number; there are no limits unless min < max */
	/*
	 * offset of the struct texts that keeps a list "A,B" of values to compare; 0 if the option
	 * takes only one value
	 */
	size_t axis;
};

/*
 * A table row for an attribute, for example FIELD(struct softmax, axis, F_INT, "-1", "axis to sum
 * over").
 */
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
/* A FIELD whose integers may have any value (FIELD_ANY_INT). */
#define FIELD_DATA(type_, member, ftype_, def_, help_)                                             \
	{                                                                                          \
		.name = #member, .type = (ftype_), .off = offsetof(type_, member), .def = (def_),  \
		.help = (help_), .flags = FIELD_ANY_INT                                            \
	}

/*
 * Sets every field of obj to its default, allocating from a. Returns false only if the table itself
 * is wrong.
 */
bool field_defaults(const struct field *table, void *obj, struct arena *a);
/*
 * Parses text into the field; an F_LIST gets one more item. `where` names the origin of the text in
 * messages ("--device", "x.yaml:7: device"). Strings are copied to the arena. Fails with E-OPTION
 * if the field does not accept this text.
 */
int field_set(const struct field *f, void *obj, const char *text, const char *where,
	      struct arena *a, struct diag *d);
/*
 * Returns the value as text that field_set() accepts, or NULL if the value is absent or is a
 * tensor, type or graph.
 */
const char *field_print(const struct field *f, const void *obj, struct arena *a);
const struct field *field_find(const struct field *table, const char *name);
/*
 * Describes the values that the field accepts, for messages and manuals: "an integer from 0 to 64",
 * "one of a, b, c".
 */
const char *field_takes(const struct field *f, struct arena *a);
/*
 * Returns the field name that is nearest to a misspelt name (see str_nearest), or NULL if none is
 * near.
 */
const char *field_nearest(const struct field *table, const char *name);

#endif
