/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H
/*
 * What a model is: values and nodes, joined by ids. The generic graph holds for
 * every shape; what is known of the values for one set of shapes lies in an
 * array of vinfo beside it (a plan's), indexed by value id.
 *
 * Everything lives in the graph's arena. Nodes and values never move; removed
 * ones stay, marked dead.
 */
#include "base/arena.h"
#include "base/diag.h"
#include "base/field.h"
#include "ir/tensor.h"

#define NO_VALUE UINT32_MAX /* an optional input or output that is left out */
#define NO_NODE	 UINT32_MAX

struct op; /* ops/op.h */

/* What is known of a value before the run. */
struct vinfo {
	struct type type;
	struct shape shape;	    /* of a tensor; rank -1 unknown */
	const struct tensor *known; /* its value, where it is known */
	/*
	 * Contents of an integer tensor of rank 0 or 1 as far as they are known,
	 * with symbols: rank is the number of elements. NULL: nothing known.
	 */
	const struct shape *ints;
	enum layout layout;
};

struct value {
	uint32_t id;
	uint32_t producer;	   /* node id; NO_NODE for inputs and initializers */
	const char *name;	   /* "" where the model gives none */
	const struct tensor *init; /* initializer or folded constant */
	struct vinfo info;	   /* generic: as far as it holds for all shapes */
	uint32_t *users;	   /* node ids, one entry a use (captures too) */
	uint32_t nusers, cap;
	bool is_input, is_output;
};

/* Where a node came from; outlives the graph's rewriting. */
struct origin {
	const char *name; /* as the file says; made up as OP_K where it says nothing */
	const char *op;	  /* operator as the file says, with its domain unless ai.onnx */
	int since;	  /* since-version that the imported opset selects; 0 unknown */
	const struct origin *const *fused; /* what a fused node stands for */
	uint32_t nfused;
};

struct node {
	uint32_t id;
	const struct op *op; /* NULL where this build has no row for it */
	void *params;	     /* op->params_size bytes */
	uint32_t *in;	     /* nin formal inputs, then ncap captures of the bodies */
	uint32_t *out;
	uint32_t nin, ncap, nout;
	struct graph **sub; /* bodies: then/else, body */
	uint32_t nsub;
	const struct origin *origin;
	const char *type, *domain; /* as the file says; domain "" for ai.onnx */
	int version;		   /* imported opset version of the domain */
	bool dead;
};

struct graph {
	struct arena *arena;
	struct value **value;
	struct node **node;
	uint32_t nvalues, nnodes, cap_values, cap_nodes;
	uint32_t *in, *out; /* value ids; of a body: nin formal inputs, then ncap captures */
	uint32_t nin, ncap, nout;
	/* of a body: its capture j is the owning node's capture capture[j], node->in[node->nin + capture[j]] */
	uint32_t *capture;
	const char **out_name; /* outputs keep their names through rewriting */
	uint32_t *order;       /* live nodes in topological order, set by graph_sort */
	uint32_t norder;
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
	const char **symbols; /* dim_param names; DIM_SYM(k) is symbols[k] */
	uint32_t nsymbols, cap_symbols;
	struct dim_times *times; /* symbols that are multiples of others */
	uint32_t ntimes;
	struct graph *graph;
	size_t file_bytes;     /* of the model file */
	size_t external_bytes; /* of its external data that are mapped */
	size_t dropped_bytes; /* of mapped weights whose pages were given back, as kernels have packed them */
	size_t nfunctions;   /* model-local functions (they are inlined) */
	uint32_t file_nodes; /* of the main graph as it was read, before anything rewrote it */
	void *maps;	     /* onnx/weights.c's; released by onnx_unload */
};

struct graph *graph_new(struct arena *a, struct model *m, const char *name);
struct value *graph_add_value(struct graph *g, const char *name);
/* A constant: a value whose init is t. */
struct value *graph_add_const(struct graph *g, const char *name, const struct tensor *t);
/*
 * A node with given ids (copied); uses and producers are entered. params may be NULL
 * (cleared ones are made). Put into no order: call graph_sort before using g->order.
 */
struct node *graph_add_node(struct graph *g, const struct op *op, void *params, const uint32_t *in,
			    uint32_t nin, const uint32_t *out, uint32_t nout,
			    const struct origin *origin);
/* Change input i (may be nin: appends; only where ncap is 0). v may be NO_VALUE. */
void node_set_in(struct graph *g, struct node *n, uint32_t i, uint32_t v);
/* Make n's inputs exactly these. Captures stay. */
void node_set_ins(struct graph *g, struct node *n, const uint32_t *in, uint32_t nin);
/* Every use of `old`, graph outputs included, becomes a use of `with`. */
void graph_replace(struct graph *g, uint32_t old, uint32_t with);
void graph_remove_node(struct graph *g, struct node *n);
/* Topological order, stable by node id; E-MODEL-CYCLE names the nodes of a cycle. */
int graph_sort(struct graph *g, struct diag *d);
/* The symbol's number, made where it is new. */
uint32_t model_symbol(struct model *m, const char *name);
/* A symbol nobody named: "?1", "?2", ... */
int64_t model_new_dim(struct model *m);
/*
 * The symbol for `factor` times a symbol, and back: what dim is a multiple of (in *base; 0: it is a
 * size) and how often. m may be NULL, where no dim is a multiple.
 */
int64_t dim_times(struct model *m, int64_t sym, int64_t factor);
int64_t dim_parts(const struct model *m, int64_t dim, int64_t *base);
const struct origin *origin_new(struct arena *a, const char *name, const char *op, int since);
/* Origin of a node that stands for several. */
const struct origin *origin_fused(struct arena *a, const char *op, const struct origin *const *of,
				  uint32_t n);

static inline struct value *node_in(const struct graph *g, const struct node *n, uint32_t i)
{
	return i < n->nin && n->in[i] != NO_VALUE ? g->value[n->in[i]] : NULL;
}
static inline struct value *node_out(const struct graph *g, const struct node *n, uint32_t i)
{
	return i < n->nout && n->out[i] != NO_VALUE ? g->value[n->out[i]] : NULL;
}

#endif
