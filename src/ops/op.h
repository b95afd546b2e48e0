/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_OP_H
#define OPS_OP_H
/*
 * The row of an operator: the only place that describes what it means.
 *
 * To add an operator to a family F:
 *   1. src/ops/F.c   its row(s) in ops_F[], newest version first, with the shape
 *                    function; src/ops/F.h gets a params struct if it has attributes;
 *   2. src/cpu/F.c   its kernel row(s) in cpu_F[], reference row last;
 *   3. gpu/ops/F.c   its kernel row in gpu_F[] (device code in gpu/kernels/).
 * An operator that other operators can express (`.expand`) needs step 1 only.
 * A new family: one line in families.def and the files.
 *
 * Versions: the row that counts is the one with the greatest `since` that is not
 * above the imported opset. Only the newest row's meaning is run: the import pass
 * calls the old row's upgrade, which turns the node into the newest meaning. An old
 * row without upgrade, infer and attrs (`{"Abs", .since = 6, .types = T_NUMERIC}`)
 * differs in types only and inherits the rest from the row above it.
 */
#include "base/diag.h"
#include "base/field.h"
#include "ir/graph.h"

struct slot {
	const char *name;
	/* type variable: slots with the same one must have equal types; NULL if `types` alone decides */
	const char *tvar;
	uint64_t types; /* T_* */
	bool optional;
	/* allowed for the last slot only: it stands for one or more values, or for any number if it is optional */
	bool variadic;
	bool heterogeneous; /* the values of a variadic slot may differ in type */
	const char *dims; /* of an input: the shapes that it may have; NULL if the row does not say */
	/* of an optional input: name of the input that must be given with this one; NULL if there is none */
	const char *with;
};

/*
 * The text of `.dims` lists the dimensions, with spaces between; where an operand may have different ranks or sizes,
 * alternatives with '|' between, of which the first that fits counts:
 *
 *   C          a variable: the same size in all inputs of the node that name it
 *   4          this size
 *   $group     the attribute's value; any size if that is 0 or less
 *   2*$group*C a product of the three
 *   C?         C, or 1 because the operand is broadcast
 *   _          any size
 *   ...        any number of dimensions, the same in all inputs of the node that have it
 *   _...       any number of dimensions of any size
 *   ()         none: a scalar
 *
 * What is not known yet contradicts nothing. An alternative must not bind variables of a size that another alternative of
 * the same rank may have: "1 | C" is right where C is bound before.
 */

/*
 * Facts about an operator. Code that wants to know one of them asks for the flag (op_flags), and
 * never compares names: a new operator then behaves right everywhere once its row is written.
 */
enum op_flags {
	OP_COMMUTATIVE = 1, /* the two inputs may be swapped: rules match both orders */
	OP_RANDOM = 2,	    /* not deterministic: never folded, never shared */
	OP_VIEW = 4,	    /* output 0 has the bytes of input 0 (Reshape, Squeeze, Identity) */
	/* output element i depends only on the elements at i of the broadcast inputs */
	OP_ELEMENTWISE = 8,
	OP_CONTROL = 16,     /* has bodies */
	OP_HOST_VALUES = 32, /* works on strings, sequences, optionals or maps: runs on the host only */
	OP_INTERNAL = 64,      /* created by the optimizer; a model file may not use it */
	OP_OPTIONAL_OUT = 128, /* outputs may be left out (NO_VALUE): kernels skip these */
	/* a convolution: cuDNN is opened in advance on a GPU, because it may run the operator */
	OP_CONVOLUTION = 256,
	/* a matrix product: cuBLASLt is opened in advance on a GPU, because it may run the operator */
	OP_PRODUCT = 512,
	/* reads only those elements of input 0 that it copies to output 0 (Gather, Slice) */
	OP_READS_PART = 1024,
	/* the kernel finds out the sizes of its outputs and allocates the outputs (NonZero, Unique) */
	OP_RUN_SHAPES = 4096,
	OP_BRANCHES = 2048, /* runs one of its bodies; errors in the others do not matter (If) */
	/* each element of an output is an element of an input, perhaps converted to another type, or 0 (Transpose, Cast, Trilu) */
	OP_PASSES = 8192
};

/* What --precision fp16 and bf16 do with the operator in an fp32 graph (opt/precision.c). */
enum op_reduced {
	REDUCED_NEVER, /* stays fp32, because rounding its inputs could spoil the result */
	/* computes as well in the smaller type as in fp32: products, norms, activations, short sums */
	REDUCED_COMPUTES,
	/* moves elements, or blends neighbours: takes the smaller type if its input has the smaller type */
	REDUCED_MOVES
};

struct infer;
struct edit;

struct op {
	const char *name;
	/* NULL stands for ai.onnx; "ai.onnx.ml", "com.microsoft", "infer", ... */
	const char *domain;
	int since;
	const struct slot *in, *out; /* end with a NULL name */
	const struct field *attrs;
	size_t params_size;
	uint64_t types; /* if not 0, replaces the types of all slots whose tvar is "T" */
	int (*infer)(struct infer *);
	int (*upgrade)(struct edit *);
	/* text that replaces the node, written with slot names and $attributes; the syntax is in opt/rewrite.h */
	const char *expand;
	/*
	 * The text of a node whose attributes or operands decide about it, in place of `expand`; it may lie in the graph's arena.
	 * NULL if too little is known of the operands, which is an error.
	 */
	const char *(*expand_as)(const struct graph *, const struct node *);
	/* Whether this node expands; if NULL, every node does. Nodes that do not expand need a kernel. */
	bool (*expand_when)(const struct graph *, const struct node *);
	unsigned flags; /* OP_* */
	/*
	 * Tells operators apart that share kernel functions, such as CumSum and CumProd; an enum in the family's
	 * header names the values. Kernels look at the variant instead of comparing names.
	 */
	int variant;
	/*
	 * In the newest row of an operator that ONNX has removed: the version of its domain without it, and the name
	 * of the operator that took its place. Models with a later opset still run here.
	 */
	int removed;
	const char *successor;
	enum op_reduced reduced;
	/*
	 * Bit i is set if input i takes the smaller type although its type variable is not that of output 0 (X of
	 * RMSNormalization, the mask of infer::Attention). Inputs with the type variable of output 0 take it anyway.
	 */
	uint32_t reduced_in;
	/*
	 * Number of multiply-adds of the node, for --cost; NULL stands for 0. All shapes are known when macs is
	 * called.
	 */
	int64_t (*macs)(const struct infer *);
};

/* ---- the registry --------------------------------------------------------------------------- */

/*
 * Returns the row with the greatest `since` that is at most version, or NULL if there is none. The domain "" or
 * "ai.onnx" is ONNX's own.
 */
const struct op *op_find(const char *domain, const char *name, int64_t version);
/* Returns the newest row, whose meaning is the one that runs; NULL if there is no such operator. */
const struct op *op_newest(const char *domain, const char *name);
/* Returns the oldest row, whose `since` is the version that the operator came with; NULL if there is no such operator. */
const struct op *op_oldest(const char *domain, const char *name);
/* Returns the newest row of a qualified name such as "Softmax" or "com.microsoft::Gelu"; NULL if there is none. */
const struct op *op_named(const char *qualified);
/* Whether nodes of the row are expressed by other operators. */
static inline bool op_expressed(const struct op *op)
{
	return op->expand || op->expand_as || op->upgrade;
}
/* Qualified name, "Softmax" or "infer::Conv"; lives as long as the program. */
const char *op_qualified(const struct op *op);
/* The OP_* flags of the operator's newest row, whatever version `op` is. */
unsigned op_flags(const struct op *op);
/* Whether kernels of the operator may allocate their outputs; all others need every size before they run. */
static inline bool op_allocates(const struct op *op)
{
	return op_flags(op) & (OP_RUN_SHAPES | OP_HOST_VALUES | OP_CONTROL);
}
/*
 * Refuses a node, with -code, since the shape of its output `slot` does not follow from its operands although its kernel
 * does not allocate outputs (op_allocates). `shape` is what is known of it.
 */
int op_fail_unknown_size(struct diag *d, const struct node *n, const char *slot,
			 const struct shape *shape);
/* Number of the operator, below op_ids(); the same for all its versions. */
uint32_t op_id(const struct op *op);
uint32_t op_ids(void);
/* Whether any row has this domain (to tell an unknown domain from an unknown operator). */
bool op_domain_known(const char *domain);
/* Newest version of the domain that this build supports. */
int64_t op_domain_version(const char *domain);
/* Calls f(row, arg) for all rows, family by family, until f returns non-zero, and returns what f returned last. */
int op_each(int (*f)(const struct op *, void *), void *arg);
/* A copy of the row in which slots, attributes and functions that it lacks are inherited from newer rows. */
struct op op_resolved(const struct op *row);

/*
 * Whether value v, which may be NULL, is a constant or computed from constants only, so that folding makes it one. False if that takes
 * more nodes than folding leaves between its passes.
 */
bool op_makes_constant(const struct graph *g, const struct value *v);

/* For a resolved row: whether input i has the type of output 0, as the type variables of the slots say. */
bool op_has_output_type(const struct op *op, uint32_t i);
/* Whether input i takes the smaller type together with the node (enum op_reduced); indices, sizes and conditions do not. */
bool op_lowers_input(const struct op *op, uint32_t i);
/*
 * Adds an operator of one version that no table has, from a library of the user's (custom/custom.h). The row must live as long
 * as the program. Returns false if there is an operator of this name already, or if MAX_ADDED_OPS were added. No other
 * thread may use the registry meanwhile, and no backend's kernels may have been asked for (backend_add_kernel).
 */
bool op_add(const struct op *row);
enum { MAX_ADDED_OPS = 4096 };
/* Checks all tables, for the tests; returns -code with a finding if one is malformed. */
int op_selfcheck(struct diag *d);

/* ---- shape inference ------------------------------------------------------------------------ */

/*
 * What a shape function sees. It sets type and shape of each output that is not left out and
 * reports what does not fit. In the generic pass dims may be symbols or unknown: leave unknown
 * what cannot be known. When a plan is made (concrete) all shapes of inputs are known, and an
 * output dim left unknown means either that a value in `wanted` is needed first (the plan is
 * cut before the node), or that only the kernel can tell (it allocates its outputs).
 * Types are checked against the slots before infer is called, and outputs whose tvar is
 * bound by an input already have their dtype.
 */
struct infer {
	const struct graph *graph;
	const struct node *node;
	struct vinfo *info; /* indexed by value id */
	/* arena in which inference allocates the values that become known; they are valid as long as the arena */
	struct arena *arena;
	struct diag *diag;
	bool concrete;
	/* bit i is set if the value of input i was asked for and is not known */
	uint64_t wanted;
	struct model *model; /* makes new dimension symbols; NULL when concrete */
	/* Infers body k of the node: fills the body's outputs `out` from its formal inputs `in`. */
	int (*body)(struct infer *, uint32_t k, const struct vinfo *in, struct vinfo *out);
	void *body_ctx;
};

/* Type and shape of input or output i; NULL if it is left out. */
const struct vinfo *infer_in(const struct infer *c, uint32_t i);
struct vinfo *infer_out(const struct infer *c, uint32_t i);
/* Adds up the tensors that the node reads and writes. Returns false if a shape is not known. */
bool infer_bytes(const struct infer *c, int64_t *bytes);
static inline const void *infer_params(const struct infer *c)
{
	return c->node->params;
}
/*
 * Returns the value of input i; NULL if the input is left out, or if its value is not known, which is then noted in
 * `wanted`.
 */
const struct tensor *infer_value(struct infer *c, uint32_t i);
/*
 * Reads the elements of input i as integers: out->rank is their number, out->dim has the elements, which may be
 * symbols. Returns false if there are more than MAX_RANK, or if they are not known, which is then noted in `wanted`.
 */
bool infer_ints(struct infer *c, uint32_t i, struct shape *out);
/* Sets type and shape of output i; nothing happens if the output is left out. */
void infer_set(struct infer *c, uint32_t i, enum dtype t, const struct shape *s);
/* Records the elements of integer output i: ints->dim has ints->rank elements, symbols included. */
void infer_set_ints(struct infer *c, uint32_t i, const struct shape *ints);
/*
 * Adds a finding about the node of c and returns -code. slot is the input that is wrong, reported as "input 1 'B'",
 * or -1.
 */
int infer_fail(const struct infer *c, enum code code, int slot, const char *expected,
	       const char *actual);
/* The same with a sentence of its own, which takes the place of the code's title. */
int infer_fail_saying(const struct infer *c, enum code code, int slot, const char *message);

/*
 * Does what precedes every shape function: checks the numbers of inputs and outputs, checks input types and shapes against
 * the slots, and sets the type of outputs whose type variable an input binds. Called by infer_node (src/opt) and
 * eval_node.
 */
int infer_types(struct infer *c);
/*
 * Does what follows every shape function: checks the types of the outputs, which attributes may have set, against the slots.
 */
int infer_check_outputs(const struct infer *c);
/*
 * Refuses an attribute that names the element type in which something is computed, unless it is a float type or, where the
 * default is 0, absent.
 */
int infer_float_attribute(const struct infer *c, const char *name, int64_t type, bool may_be_absent);
/* A part of infer_types: checks the shapes of all inputs against the `.dims` of the resolved row. */
int infer_dims(const struct infer *c, const struct op *op);
/* Whether a text of `.dims` is well formed and names attributes that the resolved row has. */
bool dims_valid(const struct op *op, const char *dims);
/*
 * Whether input i of this row, which must be resolved, may have this type; the newest row may take more, so that a model that
 * runs here need not run elsewhere.
 */
bool op_takes(const struct op *resolved, uint32_t i, struct type t);
/* The element types of a mask, "f32, f64", in the arena. */
const char *op_types_text(uint64_t types, struct arena *a);
/* The slot of input or output i; a variadic last slot repeats. NULL if there are fewer slots. */
const struct slot *slot_at(const struct slot *slots, uint32_t i);

/* ---- upgrades -------------------------------------------------------------------------------- */

/*
 * What an upgrade works on: a node with the params of the old row, in a graph whose earlier nodes are upgraded and
 * inferred already. It may replace params, change inputs, and add nodes before or after the node. When it returns,
 * the node must have the meaning and params of the newest row (edit_params).
 */
struct edit {
	struct graph *graph;
	struct node *node;
	const struct op *old; /* the row of the opset that the model imports */
	struct diag *diag;
};
/* Gives the node params of the newest row, set to their defaults, and returns them; the old params stay valid. */
void *edit_params(struct edit *e);
/* Sets input i to a new constant: n int64s of rank 1, or a scalar of type t. */
void edit_const_ints(struct edit *e, uint32_t i, const int64_t *v, int64_t n);
void edit_const_scalar(struct edit *e, uint32_t i, double v, enum dtype t);
/* Type and rank of input i as inferred so far; DT_NONE and -1 if unknown. */
enum dtype edit_dtype(const struct edit *e, uint32_t i);
int edit_rank(const struct edit *e, uint32_t i);
/* Turns the node into another operator (newest row) with default params, which are returned. */
void *edit_become(struct edit *e, const char *qualified);
/*
 * Adds a node before e->node. Returns the id of the new node's single output, a new value. If params is not NULL,
 * *params is set to the new node's params, which have their defaults.
 */
uint32_t edit_before(struct edit *e, const char *qualified, const uint32_t *in, uint32_t nin,
		     void **params);
/*
 * Adds a node after e->node that takes over output k of e->node: e->node writes a new value instead, which is input 0
 * of the new node; the inputs `extra` follow. If params is not NULL, *params is set to the new node's params, which
 * have their defaults.
 */
struct node *edit_after(struct edit *e, uint32_t k, const char *qualified, const uint32_t *extra,
			uint32_t nextra, void **params);
/*
 * Adds a node for the activation `name` after output k, for the fused operators of com.microsoft. alpha and beta are
 * the activation's parameters; NAN stands for the default. Adds nothing if the name is NULL or empty.
 */
int edit_activation(struct edit *e, uint32_t k, const char *name, float alpha, float beta);
int edit_fail(const struct edit *e, enum code code, const char *expected, const char *actual);

#endif
