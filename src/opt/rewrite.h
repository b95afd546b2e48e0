/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_REWRITE_H
#define OPT_REWRITE_H
/*
 * Rewrites as text. A text is statements, separated by ';':
 *
 *	y = Relu(c: Conv(x, w, b?))
 *	s = Softplus(x); y = Mul(x, Tanh(s))
 *	a, b = Split(x, [2, 3]) {axis=1}
 *
 * Operators are named as in op_named ("Relu", "infer::Conv"). An argument is a name, an
 * operator with arguments, a number (a scalar), a list of integers (a tensor of rank 1), or `_`
 * (left out). Attributes stand in braces behind an operator.
 *
 * In a pattern:
 *   name		any value; the same name twice is the same value
 *   #name		a constant, or what will be one once constants are folded
 *   name?		may be left out (an argument that the node does not have binds nothing)
 *   label: Op(...)	names the node, for attributes and guards
 *   !Op(...)		its output may have other uses: the node then stays for them
 *   A|B(...)		either operator (same arguments)
 *   0.5		a constant of one element, equal within 1e-4 relatively
 *   [1, -1]		an integer constant with exactly these elements
 *   {axis=-1}		the attribute has this value
 *   name defined by an earlier statement: that operator's output (several uses, one node)
 *   an output `_`	not wanted: has no uses
 * Otherwise an inner value has no uses outside the match. Commutative operators match both ways.
 * What no statement uses are the pattern's outputs; a pattern may have several.
 *
 * In a replacement (and in an operator's .expand, over the names of its slots in any case):
 *   name		a value of the pattern; its definition earlier in the text
 *   name?		left out where the pattern's is; where the slot must be given, the operator
 *			vanishes and its first argument stands for it
 *   0.5		a constant in the type that the slot's type variable has there
 *   [-1, 1...w]	a list of integers; `1...w`: as many ones as fill it up to w's rank
 *   $axis, c.axis	the attribute of the expanded node, of the node labelled c, as a constant
 *   {act=relu}		text as on a command line
 *   {axis=$axis}, {axis=c.axis}, {alpha=1/@s*2}: from an attribute; a product of numbers,
 *			attributes, values @s of constants of one element and dimensions @q[1]
 *   {...c}		first: all attributes that both have by name; later ones win
 * The outputs of the pattern must all be defined. `y = x` makes x take y's place.
 */
#include "backend/backend.h"

enum rule_kind { SIMPLIFY, FUSE };

struct match;
struct rule {
	const char *name;
	enum rule_kind kind;
	const char *from, *to;
	bool (*when)(struct match *); /* NULL: always */
	bool inexact;		      /* changes rounding: not with --optimize basic */
	/*
	 * Shapes to try it with: "x[2,3,8,8] w[4,3,3,3] s=0.5"; `v+[4]`: positive values; `=`: all
	 * elements. Every name of the pattern that no statement defines, optional ones too.
	 */
	const char *sample;
	/* What text cannot say of the attributes of the last statement's node; they are set so far. */
	void (*adjust)(const struct match *, void *params, struct arena *);
};

/* The tables; each ends with a NULL name. */
#define RULE_TABLES(T) T(algebra) T(conv) T(norm) T(activation) T(matmul) T(attention) T(quant)
#define T(name)	       extern const struct rule rules_##name[];
RULE_TABLES(T)
#undef T

/* ---- for guards ------------------------------------------------------------------------------ */

const struct graph *match_graph(const struct match *m);
/* The value bound to a name; NULL where it was left out. */
const struct value *match_value(const struct match *m, const char *name);
/* Its info: rank -1 where left out or not known. */
struct shape match_shape(const struct match *m, const char *name);
int match_rank(const struct match *m, const char *name);
enum dtype match_dtype(const struct match *m, const char *name);
/* The value of a constant (NULL: not known yet, or no constant). */
const struct tensor *match_const(const struct match *m, const char *name);
/* The single element of a constant; false where it is none. */
bool match_number(const struct match *m, const char *name, double *v);
/* Numeric attribute; def where it is absent or the label or attribute is unknown. */
double match_attr(const struct match *m, const char *label, const char *attr, double def);
struct ints match_ints(const struct match *m, const char *label, const char *attr);
/* return match_why(m, "..."): says why it was not taken (--explain); returns false. */
bool match_why(struct match *m, const char *text);
/* Whether dims of both are known (or the same symbols) and equal. */
bool match_same_shape(const struct match *m, const char *a, const char *b);
/* Whether the graph will run on a GPU: some rewrites pay only there. */
bool match_on_gpu(const struct match *m);

/* ---- engine ---------------------------------------------------------------------------------- */

struct pattern; /* a parsed text; opt/pattern.h */
struct names;

struct parsed_rule {
	const struct rule *rule;
	struct pattern *from, *to;
	struct names *vars, *labels;
};

struct rewriter {
	struct graph *graph;
	struct arena *arena; /* of the graph: new params, names */
	struct diag *diag;
	/* Called for each node that was made, in order: infers it into its outputs' value->info. */
	int (*made)(void *arg, struct node *n);
	/* Told of each rule that fired (why NULL) or was refused by its guard; NULL: nobody asks. */
	void (*told)(void *arg, const struct rule *r, const struct node *n, const char *why);
	void *arg;
	bool gpu; /* the graph will run on a GPU */
};

/* Rules of all tables, parsed. */
struct rule_set {
	struct parsed_rule *rules;
	uint32_t n;
};
/* With d NULL rules that this build lacks operators for are left out; else that is an error. */
int rules_parse(struct rule_set *set, struct arena *a, struct diag *d);
/* One rule; for tests. */
int rule_parse(const struct rule *r, struct arena *a, struct parsed_rule *out, struct diag *d);

/*
 * Apply the set's rules until none fires: those of kind SIMPLIFY, or both kinds (most = FUSE);
 * exact: none that changes rounding. counts (may be NULL): by rule, how often it fired.
 * Returns how many fired, or -code.
 */
int rewrite_graph(struct rewriter *w, const struct rule_set *set, enum rule_kind most, bool exact,
		  uint32_t *counts);
/* Put the node's .expand in its place. */
int rewrite_expand(struct rewriter *w, struct node *n);

#endif
