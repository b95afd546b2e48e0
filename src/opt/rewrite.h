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
 *   0.5		a constant of one element: equal, or as near as rounding brings it if no float type holds the number exactly
 *   [1, -1]		an integer constant with exactly these elements
 *   {axis=-1}		the attribute has this value
 *   name defined by an earlier statement: that operator's output (several uses, one node)
 *   an output `_`	not wanted: has no uses
 * Otherwise an inner value has no uses outside the match. Commutative operators match both ways.
 * The values that no statement uses are the pattern's outputs; a pattern may have several.
 *
 * In a replacement (and in an operator's .expand, over the names of its slots in any case):
 *   name		a value of the pattern, or one that the text has defined before
 *   name?		left out if the pattern's value is left out; if the slot must be given, the
 *			operator vanishes and its first argument takes its place
 *   0.5		a constant in the type that the slot's type variable has there
 *   [-1, 1...w]	a list of integers; `1...w` stands for the ones that fill it up to w's rank
 *   $axis, c.axis	the attribute of the expanded node, of the node labelled c, as a constant
 *   {act=relu}		text as on a command line
 *   {axis=$axis}, {axis=c.axis}	the value of an attribute
 *   {alpha=1/@s*2}	a product of numbers, attributes, values @s of constants of one element and
 *			dimensions @q[1]
 *   {...c}		first in the braces: copies all attributes whose names both operators have;
 *			attributes behind it win
 * The outputs of the pattern must all be defined. `y = x` makes x take y's place.
 */
#include "backend/backend.h"

enum rule_kind {
	SIMPLIFY, /* removes nodes */
	QUANTIZE, /* computes on 8-bit codes what stands between DequantizeLinear and QuantizeLinear */
	RECOGNIZE, /* makes one operator of several, or folds constants into weights: what remains is simpler to run and to compare */
	FUSE,	   /* makes what runs faster, such as an activation within a convolution */
	NORMAL /* gives equal mathematics equal words, for models that are compared and not run */
};
/* A set of kinds, as bits. */
#define KIND(kind)  (1u << (kind))
#define KINDS_RUN   (KIND(SIMPLIFY) | KIND(RECOGNIZE) | KIND(FUSE))
#define KINDS_ALIKE (KIND(SIMPLIFY) | KIND(RECOGNIZE) | KIND(NORMAL))

struct match;
struct rule {
	const char *name;
	enum rule_kind kind;
	const char *from, *to;
	bool (*when)(struct match *); /* NULL if the rule always applies */
	bool inexact;		      /* changes rounding: not applied with --optimize basic */
	/*
	 * Inputs for the test of the rule (test/unit/rules.c): "x[2,3,8,8] w[4,3,3,3] s=0.5". `v+[4]` has positive
	 * values; `=` gives the elements themselves. All names that the pattern does not define must be listed,
	 * optional ones too.
	 */
	const char *sample;
	/*
	 * Sets attributes of the last statement's node that text cannot express, after those that the text sets; NULL
	 * if there are none.
	 */
	void (*adjust)(const struct match *, void *params, struct arena *);
};

/* All rule tables. The table NAME is in src/opt/rules/NAME.c and ends with a NULL name. */
#define RULE_TABLES(T)                                                                             \
	T(algebra) T(conv) T(norm) T(activation) T(matmul) T(attention) T(quant) T(normal)
#define T(name) extern const struct rule rules_##name[];
RULE_TABLES(T)
#undef T

/* ---- for guards ------------------------------------------------------------------------------ */

const struct graph *match_graph(const struct match *m);
/* The value bound to a name of the pattern; NULL if it was left out. */
const struct value *match_value(const struct match *m, const char *name);
/* The shape, rank and type of that value; rank -1 and DT_NONE if the value is left out or they are not known. */
struct shape match_shape(const struct match *m, const char *name);
int match_rank(const struct match *m, const char *name);
enum dtype match_dtype(const struct match *m, const char *name);
/* The elements of a constant; NULL if it is not one, or only after folding. */
const struct tensor *match_const(const struct match *m, const char *name);
/* Sets *v to the single element of a constant; returns false if the value is no constant of one element. */
bool match_number(const struct match *m, const char *name, double *v);
/* A numeric attribute of the node with this label; def if the attribute or the label is absent. */
double match_attr(const struct match *m, const char *label, const char *attr, double def);
struct ints match_ints(const struct match *m, const char *label, const char *attr);
/* For `return match_why(m, "...")` in a guard: records the reason of the refusal for --explain and returns false. */
bool match_why(struct match *m, const char *text);
/* Whether both shapes are equal, dim by dim: the same sizes or the same symbols. */
bool match_same_shape(const struct match *m, const char *a, const char *b);
/* Whether the graph will run on a GPU, for rewrites that pay only there. */
bool match_on_gpu(const struct match *m);
/* Whether much of the graph will be computed in fp16, whose largest number is 65504. */
bool match_in_f16(const struct match *m);

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
	struct arena *arena; /* arena of the graph, for params and names of new nodes */
	struct diag *diag;
	/* Called for each new node, in order, to infer value->info of its outputs. Returns 0 or -code. */
	int (*made)(void *arg, struct node *n);
	/*
	 * Called for each rule that was applied (why is NULL) or that its guard refused (why is the reason); may be
	 * NULL.
	 */
	void (*told)(void *arg, const struct rule *r, const struct node *n, const char *why);
	void *arg;
	bool gpu; /* the graph will run on a GPU */
	bool f16; /* much of the graph will be computed in fp16 */
};

/* Rules of all tables, parsed. */
struct rule_set {
	struct parsed_rule *rules;
	uint32_t n;
};
/* Returns all rules, less those with an operator that this build lacks. They are parsed once a process. */
const struct rule_set *rules_all(void);
/* Parses one rule, for tests. */
int rule_parse(const struct rule *r, struct arena *a, struct parsed_rule *out, struct diag *d);

/*
 * Applies the rules of the set to the graph until none matches: those whose kind is among `kinds` (KIND). With `exact`, inexact
 * rules are left out. counts (may be NULL) has a counter for each rule. Returns the number of applications, or -code.
 */
int rewrite_graph(struct rewriter *w, const struct rule_set *set, unsigned kinds, bool exact,
		  uint32_t *counts);
/* Replaces the node by the nodes of its operator's .expand. Returns -code on errors. */
int rewrite_expand(struct rewriter *w, struct node *n);

#endif
