/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PATTERN_H
#define OPT_PATTERN_H
/* A rewrite text, parsed. Private to src/opt; the language is described in rewrite.h. */
#include "opt/rewrite.h"

enum { NO_VAR = -1, MAX_ALTERNATIVES = 4, MAX_LIST = 16 };

enum term_kind {
	TERM_NAME,   /* var */
	TERM_OP,     /* ops, args, attrs */
	TERM_NUMBER, /* number */
	TERM_LIST,   /* list; fill_var */
	TERM_ABSENT, /* _ */
	TERM_ATTR    /* attribute `attr` of label (NO_VAR: of the expanded node) */
};

struct attr_text {
	const char *name; /* NULL: all of label's (...c) */
	const char *text;
	int label;
};

struct term {
	enum term_kind kind;
	int var;
	bool optional, constant; /* name?, #name */
	const struct op *ops[MAX_ALTERNATIVES];
	int nops, label;
	bool open; /* !: may have other uses */
	struct term *args[16];
	uint32_t nargs;
	struct attr_text *attrs;
	int nattrs;
	double number;
	int64_t list[MAX_LIST];
	int nlist, fill_at, fill_var; /* fill_at < 0: none */
	const char *attr;
};

struct statement {
	int *outs; /* vars; NO_VAR: `_` */
	uint32_t nouts;
	struct term *expr;
};

struct pattern {
	struct statement *statements;
	int n;
};

/* Names of one rule: values and labels apart. */
struct names {
	const char *name[64];
	int n;
	bool any_case; /* of slots: X is x */
};

/* Parse one text; names are entered into vars and labels. where: for messages. */
int text_parse(const char *text, struct names *vars, struct names *labels, struct arena *a,
	       const char *where, struct pattern **out, struct diag *d);
int names_find(const struct names *n, const char *name, size_t length);

#endif
