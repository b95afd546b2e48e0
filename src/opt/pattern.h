/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PATTERN_H
#define OPT_PATTERN_H
/* A parsed rewrite text. Private to src/opt; rewrite.h describes the language. */
#include "opt/rewrite.h"

enum { MAX_NAMES = 64, NO_VAR = -1, MAX_ALTERNATIVES = 4, MAX_LIST = 16 };

enum term_kind {
	TERM_NAME,   /* var */
	TERM_OP,     /* ops, args, attrs */
	TERM_NUMBER, /* number */
	TERM_LIST,   /* list; fill_var */
	TERM_ABSENT, /* _ */
	/* attribute attr of the node with this label, or of the expanded node if the label is NO_VAR */
	TERM_ATTR
};

struct attr_text {
	const char *name; /* NULL for all attributes of label (...c) */
	const char *text;
	int label;
};

struct term {
	enum term_kind kind;
	int var;
	bool optional, constant; /* name?, #name */
	const struct op *ops[MAX_ALTERNATIVES];
	int nops, label;
	/* the operator is written with a "!": its output may have uses outside the match */
	bool open;
	struct term *args[16];
	uint32_t nargs;
	struct attr_text *attrs;
	int nattrs;
	double number;
	int64_t list[MAX_LIST];
	/* position of `1...w` and the variable w; fill_at is negative if there is no `1...w` */
	int nlist, fill_at, fill_var;
	/* list[i] is the number of a dimension of this value; if NO_VAR, list[i] is the element itself */
	int list_var[MAX_LIST];
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
	/*
	 * In patterns only: the statement that defines each variable, NO_VAR if none does, and which output of the
	 * statement the variable is.
	 */
	int defined[MAX_NAMES];
	uint32_t output[MAX_NAMES];
	/* indexed by statement: true if no other statement uses its outputs */
	bool root[MAX_NAMES];
};

/* The names of values, or of labels, in one rule. */
struct names {
	const char *name[MAX_NAMES];
	int n;
	bool any_case; /* names are slot names, whose case does not matter: X is x */
};

enum { MAX_MATCHED = 48, MAX_CHOICES = 24 };

struct choice {
	uint32_t taken, of;
};

/* State of matching a pattern against a graph. */
struct match {
	struct rewriter *w;
	const struct parsed_rule *rule;
	uint32_t value[MAX_NAMES]; /* indexed by var */
	bool bound[MAX_NAMES];
	struct node *label[MAX_NAMES];
	struct node *matched[MAX_MATCHED];
	bool open[MAX_MATCHED], root[MAX_MATCHED];
	struct node *of[MAX_MATCHED]; /* indexed by statement: the node that it matched */
	uint32_t nmatched;
	struct choice choice[MAX_CHOICES];
	uint32_t nchoices, at;
	struct node *self; /* of an expansion */
	const char *why;
};

/* Whether a value is computed from constants only, so that folding will make it one. Uses m->w only. */
bool will_be_constant(const struct match *m, uint32_t id);
/* Matches the rule's pattern against the graph, with n as the node of its last statement; then asks the guard. */
bool match_rule(struct match *m, struct rewriter *w, const struct parsed_rule *r, struct node *n);
/*
 * Puts the replacement into the graph and returns 1. Returns 0 and leaves the graph unchanged if the replacement
 * cannot be built or would change type or shape of a value; m->why is then the reason. Returns -code on errors.
 */
int match_build(struct match *m);

/*
 * Parses a text into *out; its names are added to vars and labels. `where` is the name of the text in messages.
 * Returns 0 or -code.
 */
int text_parse(const char *text, struct names *vars, struct names *labels, struct arena *a,
	       const char *where, struct pattern **out, struct diag *d);
/*
 * Adds the nodes of a text to the graph. value (MAX_NAMES entries) holds the ids of the values named in vars; the ids
 * of the values that the text defines are added to it. Returns 0 or -code.
 */
int text_build(struct rewriter *w, const char *text, struct names *vars, uint32_t *value);
int names_find(const struct names *n, const char *name, size_t length);

#endif
