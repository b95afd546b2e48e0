/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_INTERNAL_H
#define ONNX_INTERNAL_H
/* Declarations that the files of the loader share: load.c, nodes.c, attrs.c, function.c. No other folder includes this. */
#include "base/hash.h"
#include "onnx.pb-c.h"
#include "onnx/decode.h"
#include "onnx/load.h"
#include "onnx/weights.h"
#include "ops/op.h"

/* Numbers of the protobuf fields that are read where they lie instead of being decoded. test/unit/load.c compares them with the schema. */
enum {
	MODEL_GRAPH = 7,
	MODEL_OPSET = 8,
	MODEL_META = 14,
	MODEL_CONFIGURATION = 26,
	MODEL_TRAINING = 20,
	MODEL_FUNCTIONS = 25,
	GRAPH_NODE = 1,
	GRAPH_NAME = 2,
	GRAPH_INITIALIZER = 5,
	GRAPH_INPUT = 11,
	GRAPH_OUTPUT = 12,
	GRAPH_VALUE_INFO = 13,
	GRAPH_QUANTIZATION = 14,
	GRAPH_SPARSE = 15,
	ANNOTATION_TENSOR = 1,
	ANNOTATION_PARAMETER = 2,
	VALUE_TYPE = 2,
	NODE_INPUT = 1,
	NODE_OUTPUT = 2,
	NODE_NAME = 3,
	NODE_TYPE = 4,
	NODE_ATTRIBUTE = 5,
	NODE_DOMAIN = 7,
	NODE_OVERLOAD = 8,
	NODE_DEVICES = 10,
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
	CALL_DEPTH = 64,     /* how deep model-local functions may call one another */
	EXPANDED_NODE = 256, /* cost of one node that a function expands to, in addition to its bytes */
	/* limit of the cost of all expanded functions together, to which 8 times the file's size is added */
	EXPANDED_BASE = 64 << 20,
	/* maximal length of a name in an expanded function, and of the caller's name that is put before it */
	TITLE = 256,
	COLLECT_MAX = 200, /* `collect` stops after this many findings */
};

struct opsets {
	const struct opset *v;
	size_t n;
};

/* A model-local function as it is in the file, before any call is expanded. */
struct function {
	struct pb_span bytes, name;
	struct opsets opsets;
	uint64_t cost; /* cost of everything that the function expands to; 0 if not counted yet */
	bool counting;
};

/* An attribute of the function call that is being expanded. */
struct env_attr {
	struct pb_span name;
	const Onnx__AttributeProto *attr;
	struct scope *scope; /* scope in which the names of a graph attribute are looked up */
};
struct env {
	struct env_attr *v;
	size_t n;
};

/* A value of the enclosing graph that a body uses: it is value `outer` in that graph and value `inner` in the body. */
struct capture {
	uint32_t outer, inner;
};

/* The names that nodes of one graph, body or function can refer to. */
struct scope {
	struct graph *g;
	/* maps a name to a value id, or to NO_VALUE if the name stands for an omitted operand */
	struct map names;
	/* scope of the enclosing graph; NULL for a model's graph or a function, which see no names from outside */
	struct scope *up;
	struct opsets opsets;
	const struct env *env; /* in a function: the attributes of the call */
	const char *prefix;    /* put before names: "caller/" in a function, "" elsewhere */
	struct capture *captures;
	uint32_t ncaptures, cap;
	/* in a function: names of its outputs, whose values the caller has already made */
	const struct pb_span *result;
	bool *written;
	uint32_t nresults;
};

struct loader {
	struct model *m;
	struct diag *d;
	struct arena *a;      /* the model's */
	struct arena scratch; /* freed when the load ends */
	const struct load_options *options;
	struct opsets opsets; /* the model's */
	struct function *functions;
	size_t nfunctions;
	size_t listed;		/* bytes of functions that were looked at for nodes without one */
	struct map function_of; /* domain, name, overload */
	struct map symbol_of;	/* dim_param to number */
	struct weights *store;
	struct pb_span bytes; /* the model's */
	unsigned calls;	      /* function calls that are being expanded, one inside another */
	uint64_t expanded;    /* cost so far */
	/*
	 * for tensors in functions: maps a tensor's address in the file to its index in `tensors`, so that calls
	 * share the tensor
	 */
	struct map tensor_of;
	struct tensor **tensors;
	uint32_t ntensors, cap_tensors;
	uint32_t nodes; /* that were read so far: see struct origin */
	size_t faults;	/* faults that `collect` has reported and skipped */
};

/* The fields of a NodeProto that are needed before the operator is known; they point into the file. */
struct node_view {
	struct pb_span bytes, name, type, domain, overload;
	uint32_t nin, nout;
	uint32_t index; /* in its graph */
};

/* Bodies of the control-flow node that is being loaded. */
struct bodies {
	struct graph **graph;
	struct scope **scope;
	uint32_t n, cap;
	uint64_t unread; /* see struct node */
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
/* Returns the span as text for a message; long texts are cut. */
const char *span_show(struct loader *l, struct pb_span s);
/* Returns 0 if `collect` lets the load go on after the fault rc, otherwise rc. */
int load_excuse(struct loader *l, int rc);
/* Reads a tensor of the file. Calls of one function share the tensors that its body holds. */
int load_tensor(struct loader *l, struct pb_span m, bool sparse, const char *what,
		struct tensor **out, struct pb_span *name);
/*
 * Reads the imported opsets of a model or function (field `number`). Fails with E-MODEL-VERSION if one is newer than
 * this build knows.
 */
int load_opsets(struct loader *l, struct pb_span bytes, uint32_t number, struct opsets *out);

/* devices.c: reads the multi-device annotations of the model and of its graph's nodes. */
void load_devices(struct loader *l, struct pb_span model, struct pb_span graph);

/* nodes.c */
struct node_view node_view(struct pb_span bytes, uint32_t index);
/* Loads a body, with `up` the enclosing scope, or the model's graph, with `up` NULL. */
int load_graph(struct loader *l, struct pb_span bytes, struct scope *up, struct scope **scope);
/*
 * Both load the nodes of a graph or function into s; `number` is the protobuf field that holds them. load_declare
 * enters the names of all outputs first, because a body may use a value of a node that comes later in the file;
 * load_nodes then makes the nodes.
 */
int load_declare(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number);
int load_nodes(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number);
bool scope_find(struct loader *l, struct scope *s, struct pb_span name, uint32_t *id);
/* The node's name, or OP_K (operator and number) if it has none, with the scope's prefix. */
const char *node_title(struct arena *a, const struct scope *s, const struct node_view *v);
/* Makes the origin of the next node that is read of the file. */
const struct origin *next_origin(struct loader *l, const char *name, const char *op,
				 const struct op *row);

/* attrs.c */
/*
 * Decodes an attribute into the arena a. If the attribute refers to one of the enclosing function, uses the value
 * that the function call gives; out->attr is NULL if the call gives none.
 */
int attr_read(struct loader *l, struct scope *s, struct arena *a, struct pb_span bytes,
	      struct env_attr *out);
/* Reads the node's attributes into params as the operator's row says. Without a row (unknown operator) only bodies are read. */
int attrs_load(struct loader *l, struct scope *s, const struct node_view *v, const struct op *row,
	       void **params, struct bodies *bodies);
/* Reads the value of a Constant node, whichever attribute holds it. */
int attrs_constant(struct loader *l, struct scope *s, const struct node_view *v, struct tensor **out);
/* Reads a TypeProto. Unknown parts stay unknown; with `hint` a type that infer cannot represent is also left unknown, not refused. */
int load_type(struct loader *l, const Onnx__TypeProto *p, bool hint, struct type *type,
	      struct shape *shape);

/* function.c */
int functions_index(struct loader *l, struct pb_span model);
struct function *function_find(struct loader *l, const struct node_view *v);
/* Fails if the model has functions of the node's domain and name, but none of its overload. */
int function_refuse_overload(struct loader *l, const struct node_view *v);
int function_call(struct loader *l, struct scope *s, const struct node_view *v, struct function *f,
		  const uint32_t *in, uint32_t nin, const uint32_t *out, uint32_t nout);

#endif
