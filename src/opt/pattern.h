/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PATTERN_H
#define OPT_PATTERN_H
/* A rewrite text, parsed. Private to src/opt; the language is described in rewrite.h. */
#include "opt/rewrite.h"

enum { MAX_NAMES = 64, NO_VAR = -1, MAX_ALTERNATIVES = 4, MAX_LIST = 16 };

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
	int list_var[MAX_LIST]; /* list[i] is the number of a dimension of this value; NO_VAR: it is itself */
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
	/* of a pattern: by var, the statement that defines it (NO_VAR: none) and its output */
	int defined[MAX_NAMES];
	uint32_t output[MAX_NAMES];
	bool root[MAX_NAMES]; /* by statement: no other uses it */
};

/* Names of one rule: values and labels apart. */
struct names {
	const char *name[MAX_NAMES];
	int n;
	bool any_case; /* of slots: X is x */
};

enum { MAX_MATCHED = 48, MAX_CHOICES = 24 };

struct choice {
	uint32_t taken, of;
};

/* One try to lay a pattern over a graph. */
struct match {
	struct rewriter *w;
	const struct parsed_rule *rule;
	uint32_t value[MAX_NAMES]; /* by var */
	bool bound[MAX_NAMES];
	struct node *label[MAX_NAMES];
	struct node *matched[MAX_MATCHED];
	bool open[MAX_MATCHED], root[MAX_MATCHED];
	struct node *of[MAX_MATCHED]; /* by statement: the node it stands for */
	uint32_t nmatched;
	struct choice choice[MAX_CHOICES];
	uint32_t nchoices, at;
	struct node *self; /* of an expansion */
	const char *why;
};

/* Whether a value is made of constants only (m->w is enough of m). */
bool will_be_constant(const struct match *m, uint32_t id);
/* Lay the rule's pattern over n as the root of its last statement. */
bool match_rule(struct match *m, struct rewriter *w, const struct parsed_rule *r, struct node *n);
/*
 * Make the replacement: 1 where it stands; 0 where it cannot be made or would not have had the
 * type and shape of what it replaces (m->why): the graph is as before.
 */
int match_build(struct match *m);

/* Parse one text; names are entered into vars and labels. where: for messages. */
int text_parse(const char *text, struct names *vars, struct names *labels, struct arena *a,
	       const char *where, struct pattern **out, struct diag *d);
/*
 * Add the nodes of a text to the graph. value (MAX_NAMES of them): of the names that vars has
 * when it is called; afterwards of those that the text defines, too.
 */
int text_build(struct rewriter *w, const char *text, struct names *vars, uint32_t *value);
int names_find(const struct names *n, const char *name, size_t length);

#endif
