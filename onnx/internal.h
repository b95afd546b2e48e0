/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_INTERNAL_H
#define ONNX_INTERNAL_H
/* What the parts of the loader share; nobody else includes this. */
#include "base/hash.h"
#include "onnx.pb-c.h"
#include "onnx/decode.h"
#include "onnx/load.h"
#include "onnx/weights.h"
#include "ops/op.h"

/* Numbers of the fields that are walked rather than decoded. test/unit/load.c holds them against the schema. */
enum {
	MODEL_GRAPH = 7,
	MODEL_OPSET = 8,
	MODEL_META = 14,
	MODEL_TRAINING = 20,
	MODEL_FUNCTIONS = 25,
	GRAPH_NODE = 1,
	GRAPH_NAME = 2,
	GRAPH_INITIALIZER = 5,
	GRAPH_INPUT = 11,
	GRAPH_OUTPUT = 12,
	GRAPH_VALUE_INFO = 13,
	GRAPH_SPARSE = 15,
	NODE_INPUT = 1,
	NODE_OUTPUT = 2,
	NODE_NAME = 3,
	NODE_TYPE = 4,
	NODE_ATTRIBUTE = 5,
	NODE_DOMAIN = 7,
	NODE_OVERLOAD = 8,
	ATTRIBUTE_T = 5,
	ATTRIBUTE_G = 6,
	ATTRIBUTE_FLOATS = 7,
	ATTRIBUTE_INTS = 8,
	ATTRIBUTE_STRINGS = 9,
	ATTRIBUTE_TENSORS = 10,
	ATTRIBUTE_GRAPHS = 11,
	ATTRIBUTE_SPARSE = 22,
	FUNCTION_NAME = 1,
	FUNCTION_INPUT = 4,
	FUNCTION_OUTPUT = 5,
	FUNCTION_ATTRIBUTE = 6,
	FUNCTION_NODE = 7,
	FUNCTION_OPSET = 9,
	FUNCTION_DOMAIN = 10,
	FUNCTION_DEFAULTS = 11,
	FUNCTION_OVERLOAD = 13,
};

enum {
	CALL_DEPTH = 64,     /* functions that call one another */
	EXPANDED_NODE = 256, /* what a node costs that a function expands to, besides its bytes */
	EXPANDED_BASE = 64 << 20, /* what functions may cost in all, and 8 times the file */
	TITLE = 256,		  /* bytes of a name that are kept of one that is made up */
	COLLECT_MAX = 200,	  /* findings after which `collect` gives up */
};

struct opsets {
	const struct opset *v;
	size_t n;
};

/* A model-local function, as the file has it. */
struct function {
	struct pb_span bytes, name;
	struct opsets opsets;
	uint64_t cost; /* of what it expands to; 0: not counted yet */
	bool counting;
};

/* An attribute of the function call that is being expanded. */
struct env_attr {
	struct pb_span name;
	const Onnx__AttributeProto *attr;
	struct scope *scope; /* where its graph's names are looked up */
};
struct env {
	struct env_attr *v;
	size_t n;
};

/* A value of the graph around a body that the body uses. */
struct capture {
	uint32_t outer, inner;
};

/* Names as they are seen in one graph, body or function. */
struct scope {
	struct graph *g;
	struct map names; /* to value ids; NO_VALUE: known, but left out */
	struct scope *up; /* the graph around a body; NULL: none is seen */
	struct opsets opsets;
	const struct env *env; /* in a function: its attributes */
	const char *prefix;    /* of names: "caller/" in a function, else "" */
	struct capture *captures;
	uint32_t ncaptures, cap;
	/* of a function: its outputs, whose values the caller has made */
	const struct pb_span *result;
	bool *written;
	uint32_t nresults;
};

struct loader {
	struct model *m;
	struct diag *d;
	struct arena *a;      /* the model's */
	struct arena scratch; /* gone after the load */
	const struct load_options *options;
	struct opsets opsets; /* the model's */
	struct function *functions;
	size_t nfunctions;
	struct map function_of; /* domain, name, overload */
	struct map symbol_of;	/* dim_param to number */
	struct weights *store;
	unsigned calls;	   /* function calls one in another */
	uint64_t expanded; /* cost so far */
	struct map tensor_of; /* in functions: where a tensor lies in the file to its place in tensors */
	struct tensor **tensors;
	uint32_t ntensors, cap_tensors;
	size_t faults; /* gone over, with `collect` */
};

/* A NodeProto, looked over. */
struct node_view {
	struct pb_span bytes, name, type, domain, overload;
	uint32_t nin, nout;
	uint32_t index; /* in its graph */
};

/* Bodies of the node that is being made. */
struct bodies {
	struct graph **graph;
	struct scope **scope;
	uint32_t n, cap;
};

static inline bool span_is(struct pb_span s, const char *text)
{
	size_t n = strlen(text);
	return s.n == n && (!n || !memcmp(s.p, text, n));
}
static inline bool span_same(struct pb_span a, struct pb_span b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}
static inline const char *span_text(struct arena *a, struct pb_span s)
{
	return arena_strn(a, (const char *)s.p, s.n);
}
/* load.c */
/* For messages; long ones are cut. */
const char *span_show(struct loader *l, struct pb_span s);
/* Whether to go on after a fault (`collect`): 0, else rc. */
int load_excuse(struct loader *l, int rc);
/* A tensor of the file; in functions one that was read before is not read anew. */
int load_tensor(struct loader *l, struct pb_span m, bool sparse, const char *what,
		struct tensor **out, struct pb_span *name);
/* Imported opsets of a model or function (field `number`); E-MODEL-VERSION for one of the future. */
int load_opsets(struct loader *l, struct pb_span bytes, uint32_t number, struct opsets *out);

/* nodes.c */
struct node_view node_view(struct pb_span bytes, uint32_t index);
/* A body (up: the scope around it) or, with up NULL, the model's graph. */
int load_graph(struct loader *l, struct pb_span bytes, struct scope *up, struct scope **scope);
/* The nodes of s (a graph's or a function's, field `number`): first their outputs' names, then they. */
int load_declare(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number);
int load_nodes(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number);
bool scope_find(struct loader *l, struct scope *s, struct pb_span name, uint32_t *id);
/* A name for the node: its own, or OP_K; with the scope's prefix. */
const char *node_title(struct arena *a, const struct scope *s, const struct node_view *v);

/* attrs.c */
/*
 * The attribute decoded into a, with a reference to the function's attribute followed; out->attr
 * is NULL where that is not given.
 */
int attr_read(struct loader *l, struct scope *s, struct arena *a, struct pb_span bytes,
	      struct env_attr *out);
/* Attributes to params by the row (NULL: unknown operator; graphs only). */
int attrs_load(struct loader *l, struct scope *s, const struct node_view *v, const struct op *row,
	       void **params, struct bodies *bodies);
/* The value of a Constant node. */
int attrs_constant(struct loader *l, struct scope *s, const struct node_view *v, struct tensor **out);
/* A TypeProto; what cannot be told (hint: or cannot be held) stays unknown. */
int load_type(struct loader *l, const Onnx__TypeProto *p, bool hint, struct type *type,
	      struct shape *shape);

/* function.c */
int functions_index(struct loader *l, struct pb_span model);
struct function *function_find(struct loader *l, const struct node_view *v);
int function_call(struct loader *l, struct scope *s, const struct node_view *v, struct function *f,
		  const uint32_t *in, uint32_t nin, const uint32_t *out, uint32_t nout);

#endif
