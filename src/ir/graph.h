/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H
/*
 * A model: values and nodes that refer to each other by ids. The graph is valid for all input shapes; what a plan
 * knows about the values for one set of shapes is in the plan's own array of vinfo, indexed by value id.
 *
 * Everything lives in the graph's arena. Nodes and values never move; a removed node stays, marked dead.
 */
#include "base/arena.h"
#include "base/diag.h"
#include "base/field.h"
#include "ir/tensor.h"

#define NO_VALUE UINT32_MAX /* an optional input or output that is omitted */
#define NO_NODE	 UINT32_MAX

struct op; /* ops/op.h */

/* What is known of a value before the run. */
struct vinfo {
	struct type type;
	struct shape shape;	    /* of a tensor; rank -1 if unknown */
	const struct tensor *known; /* its contents, if all are known; otherwise NULL */
	/*
	 * Contents of an integer tensor with at most one dimension, as far as they are known. They are kept in a
	 * struct shape: ints->rank is the number of elements, and ints->dim[i] is element i, which is a number, a
	 * symbol or DIM_UNKNOWN. NULL if nothing is known.
	 */
	const struct shape *ints;
	enum layout layout;
};

struct value {
	uint32_t id;
	uint32_t producer;	   /* node id; NO_NODE for inputs and initializers */
	const char *name;	   /* "" if the model gives none */
	const struct tensor *init; /* initializer or folded constant; otherwise NULL */
	/* type, shape and size of an initializer whose external data cannot be read; it has no `init` then */
	const struct tensor *missing;
	struct vinfo info; /* what holds for all input shapes */
	uint32_t *users;   /* node ids, one entry per use, captures included */
	uint32_t nusers, cap;
	uint32_t near_user; /* index in users near which the next user to be dropped is looked for */
	bool is_input, is_output;
	bool is_default; /* a constant that the file lists as an input too: its value if the caller gives none */
};

/* Where a node came from; it is kept when rewrites replace the node. */
struct origin {
	/* the node's name in the file; operator and number, as "Relu_3", if it has none */
	const char *name;
	const char *op; /* the operator in the file, with its domain unless that is ai.onnx */
	int since;	/* the operator's version that the imported opset selects; 0 if unknown */
	/*
	 * The node's number among all nodes that are read of the file, those of bodies and functions included, from 1: names need not be
	 * unique. Each load of the file gives the same numbers. 0: the file has no such node, as a Cast that --precision adds.
	 */
	uint32_t number;
	const struct origin *const *fused; /* the nodes that were fused into this one, each once, the first MAX_FUSED at most */
	uint32_t nfused;
};
/* Bounds the lists of a file whose thousands of nodes become one, step by step. */
enum { MAX_FUSED = 128 };

/* An attribute that the file gives a node although the operator has it, or this value of it, in other versions only. */
struct foreign_attribute {
	const char *what;     /* "attribute 'axis'", "mode 'linear'" */
	const char *versions; /* that have it: "13-", see struct field */
};

struct node {
	uint32_t id;
	const struct op *op; /* NULL if this build does not know the operator */
	void *params;	     /* op->params_size bytes */
	uint64_t unread;     /* of an unknown operator: hash of its attributes, bodies apart */
	/* nin formal inputs, then ncap captures: values that the bodies read from this graph */
	uint32_t *in;
	uint32_t *out;
	uint32_t nin, ncap, nout;
	/* bodies: "then_branch" and "else_branch" of an If, the one body of a Loop or Scan */
	struct graph **sub;
	uint32_t nsub;
	const struct origin *origin;
	const char *type, *domain;		 /* as in the file; domain "" for ai.onnx */
	int version;				 /* imported opset version of the domain */
	const struct foreign_attribute *foreign; /* NULL: none, or not a node of a file */
	uint32_t near_in; /* index in `in` near which the next input to be replaced is looked for */
	bool dead;
};

/* A Constant node of the file: the node itself became a value with init. */
struct constant_node {
	const char *name; /* "" if the file gives it none */
	uint32_t value;
	const struct constant_node *next;
};

/* A declaration of the file that cannot be true: for `infer check`. */
struct false_hint {
	uint32_t value;
	struct vinfo told; /* contradicts the constant that it is about, or what the file has declared before */
	int64_t negative; /* a declared size below 0, which is taken as not known; `told` is then nothing; 0: none */
	const struct false_hint *next;
};

/* An If whose condition is constant: the nodes of one branch took its place. */
struct inlined {
	const struct node *node; /* dead; its outputs have become those of the branch (graph_became) */
	const char *attribute;	  /* that holds the branch */
	const struct graph *body; /* the branch, as it was */
	const uint32_t *id; /* by value of the body: the value that stands for it in the graph */
	const struct inlined *next; /* an older one; an If that a branch holds comes after the branch */
};

struct graph {
	struct arena *arena;
	struct value **value;
	struct node **node;
	uint32_t nvalues, nnodes, cap_values, cap_nodes;
	uint32_t *in, *out; /* value ids; a body has nin formal inputs, then ncap captures */
	uint32_t nin, ncap, nout;
	/*
	 * In a body only: capture j of the body is capture number capture[j] of the owning node, that is,
	 * node->in[node->nin + capture[j]].
	 */
	uint32_t *capture;
	/*
	 * positions of `in` and `out` among the inputs and outputs of the file, NO_VALUE for a value inside; NULL: all
	 * are there, in the file's order
	 */
	uint32_t *in_place, *out_place;
	const char **out_name; /* outputs keep their names when rewrites replace their values */
	/* for the first nbecame values: the value that took the place of each; NO_VALUE: none (graph_became) */
	uint32_t *became;
	uint32_t nbecame;
	uint32_t *order; /* live nodes in topological order, set by graph_sort */
	uint32_t norder;
	const struct constant_node *constants;
	const struct false_hint *false_hints;
	const struct inlined *inlined; /* the newest first */
	size_t place; /* of a body: where its GraphProto begins in the model's bytes, which tells it from all others; 0: not known */
	const char *name;
	struct model *model;
};

struct opset {
	const char *domain; /* "" for ai.onnx */
	int64_t version;
};
struct meta {
	const char *key, *value;
};

/* A set of devices that the model is annotated for. */
struct device_configuration {
	const char *name;
	int64_t devices;
	const char **device; /* their names; none: 0 */
	size_t ndevice;
};
/* How a node is spread over the devices of a configuration. */
struct placement {
	const char *node, *op, *configuration;
	int64_t stage;	      /* of the pipeline; -1: none is given */
	struct meta *sharded; /* tensors, and in words how each is spread */
	size_t nsharded;
};

/* A loaded model. Owns the arena of its graphs and the memory map of its weights. */
struct model {
	struct arena arena;
	const char *path, *name;
	int64_t ir_version, model_version;
	const char *producer, *producer_version, *domain, *doc;
	struct opset *opsets;
	size_t nopsets;
	struct meta *meta;
	size_t nmeta;
	struct device_configuration *configuration; /* multi-device annotations; they change nothing */
	size_t nconfigurations;
	struct placement *placement; /* of nodes of the main graph, their bodies and functions */
	size_t nplacements;
	const char **symbols; /* dim_param names; DIM_SYM(k) is symbols[k] */
	uint32_t nsymbols, cap_symbols;
	struct dim_times *times; /* symbols that are multiples of others */
	uint32_t ntimes;
	struct graph *graph;
	size_t file_bytes;     /* of the model file */
	size_t external_bytes; /* number of bytes of external data that are mapped */
	/* number of bytes of mapped weights whose pages were released after kernels had packed them */
	size_t dropped_bytes;
	size_t copied_bytes; /* of initializers that are not used in place in the file */
	size_t nfunctions;   /* model-local functions (they are inlined) */
	uint32_t file_nodes; /* number of nodes of the main graph in the file, before any rewrite */
	const char **unneeded; /* inputs that none of the outputs of --output needs; these are no inputs any more */
	uint32_t nunneeded;
	uint32_t nunasked; /* the last outputs of the graph, which --output does not name, but steps need */
	const char **made; /* outputs of steps that --output names, such as ids.next; NULL if all are wanted */
	uint32_t nmade;
	void *maps; /* belongs to onnx/weights.c; released by onnx_unload */
};

struct graph *graph_new(struct arena *a, struct model *m, const char *name);
struct value *graph_add_value(struct graph *g, const char *name);
/* Adds a constant: a value whose init is t. t must live as long as the graph. */
struct value *graph_add_const(struct graph *g, const char *name, const struct tensor *t);
/*
 * Adds a node, and enters it as user of its inputs and producer of its outputs. The ids are copied. params may be NULL.
 * The node has no place in g->order before graph_sort is called.
 */
struct node *graph_add_node(struct graph *g, const struct op *op, void *params, const uint32_t *in,
			    uint32_t nin, const uint32_t *out, uint32_t nout,
			    const struct origin *origin);
/*
 * Changes input i. If i is beyond the last input, the inputs between become NO_VALUE. v may be NO_VALUE. Captures
 * stay.
 */
void node_set_in(struct graph *g, struct node *n, uint32_t i, uint32_t v);
/* Removes one entry of the node from the users of v, which may be NO_VALUE. */
void graph_drop_use(struct graph *g, uint32_t v, uint32_t node);
/* Replaces all inputs of the node by these. Captures stay. */
void node_set_ins(struct graph *g, struct node *n, const uint32_t *in, uint32_t nin);
/* Replaces every use of `old`, graph outputs included, by a use of `with`. graph_became() tells so from then on. */
void graph_replace(struct graph *g, uint32_t old, uint32_t with);
/* Returns the value that is read in place of v after all replacements so far; v itself if it was never replaced. */
uint32_t graph_became(const struct graph *g, uint32_t v);
void graph_remove_node(struct graph *g, struct node *n);
/*
 * Sets g->order to a topological order, in which nodes that could go in any order are sorted by id. A graph with a
 * cycle is the error E-MODEL-CYCLE, which names nodes of the cycle.
 */
int graph_sort(struct graph *g, struct diag *d);
/* Calls f(graph, node, arg) for each live node of the graph and of all control-flow bodies inside it. */
void graph_each_node(const struct graph *g,
		     void (*f)(const struct graph *, const struct node *, void *), void *arg);
/*
 * Returns the name by which the user binds dimension k of an input: the model's own, such as "batch", or input and place
 * ("x.0") if the model gives none.
 */
const char *input_dim_name(const struct model *m, const struct value *input, int k, struct arena *a);
/* Returns the number of the symbol with this name, which is added if it is new. */
uint32_t model_symbol(struct model *m, const char *name);
/* Makes a new symbol that has no name in the model; it is shown as "?1", "?2", ... */
int64_t model_new_dim(struct model *m);
/*
 * dim_times returns the dimension that is `factor` times the symbol `sym`; DIM_UNKNOWN if m is NULL or has too many
 * such multiples. dim_parts is the inverse: if dim is a multiple of a symbol, *base is that symbol and the result
 * is the factor. For a size, *base is 0 and the result is the size; for any other dimension, *base is dim and the
 * result is 1.
 */
int64_t dim_times(struct model *m, int64_t sym, int64_t factor);
int64_t dim_parts(const struct model *m, int64_t dim, int64_t *base);
struct origin *origin_new(struct arena *a, const char *name, const char *op, int since);
/*
 * Makes the origin of a node into which n > 0 others were fused; origins that are themselves fused are flattened. It gets
 * name and operator of of[work].
 */
const struct origin *origin_fused(struct arena *a, const struct origin *const *of, uint32_t n,
				  uint32_t work);

/* The tensor that value v, or NULL, is in every run: an initializer, or what inference has computed. NULL if it is none. */
static inline const struct tensor *value_constant(const struct value *v)
{
	return !v ? NULL : v->init ? v->init : v->info.known;
}

static inline struct value *node_in(const struct graph *g, const struct node *n, uint32_t i)
{
	return i < n->nin && n->in[i] != NO_VALUE ? g->value[n->in[i]] : NULL;
}
static inline struct value *node_out(const struct graph *g, const struct node *n, uint32_t i)
{
	return i < n->nout && n->out[i] != NO_VALUE ? g->value[n->out[i]] : NULL;
}
/* The node that makes the value: NULL for inputs and constants, and if there is no value. */
static inline struct node *value_maker(const struct graph *g, const struct value *v)
{
	return v && v->producer != NO_NODE ? g->node[v->producer] : NULL;
}
/* The same of the value with this id, or of NO_VALUE. */
static inline struct node *node_making(const struct graph *g, uint32_t id)
{
	return id == NO_VALUE ? NULL : value_maker(g, g->value[id]);
}

/*
 * Lists the names of inputs that have a default value, which is a constant here ("a, b and 3 more"); NULL if there are none. Before IR
 * version 4 every initializer was listed as an input, so that this says nothing of such a model.
 */
const char *model_defaults(const struct model *m, struct arena *a);

/* Whether what is known of both, types and dimensions, differs. */
bool vinfo_contradicts(const struct vinfo *a, const struct vinfo *b);

/* Whether a path ends as those of models do, in binary or in text form. JSON has an ending that says nothing of this kind. */
bool path_names_model(const char *path);
/* Returns the value of a key of the model's metadata, or "". */
const char *model_metadata(const struct model *m, const char *key);
/* Returns the version of a domain ("": ai.onnx) that the model imports, or 0. */
int64_t model_opset(const struct model *m, const char *domain);

#endif
