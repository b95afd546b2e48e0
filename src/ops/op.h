/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_OP_H
#define OPS_OP_H
/*
 * What an operator means: its row, the only description of it.
 *
 * To add an operator to a family F:
 *   1. src/ops/F.c   its row(s) in ops_F[], newest version first, with the shape
 *                    function; src/ops/F.h gets a params struct if it has attributes;
 *   2. src/cpu/F.c   its kernel row(s) in cpu_F[], reference row last;
 *   3. gpu/F.c       its kernel row in gpu_F[] (device code in gpu/kernels/F.cu).
 * An operator that others can express needs step 1 only: `.expand`.
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
	const char *tvar; /* type variable: equal ones must have equal types; NULL: fixed by `types` */
	uint64_t types; /* T_* */
	bool optional;
	bool variadic;	    /* the last slot only: one or more (optional: none or more) */
	bool heterogeneous; /* variadic: each of its own type */
};

/*
 * Facts about an operator. Code that wants to know one of them asks for the flag (op_flags), and
 * never compares names: a new operator then behaves right everywhere once its row is written.
 */
enum op_flags {
	OP_COMMUTATIVE = 1, /* rules match both orders of two inputs */
	OP_RANDOM = 2,	    /* not deterministic: never folded, never shared */
	OP_VIEW = 4,	    /* output 0 has the bytes of input 0 (Reshape, Squeeze, Identity) */
	OP_ELEMENTWISE = 8, /* output element i depends on inputs' elements at i (broadcast) only */
	OP_CONTROL = 16,    /* has bodies */
	OP_HOST_VALUES = 32,   /* works on strings, sequences, optionals, maps: host only */
	OP_INTERNAL = 64,      /* made by the optimizer; no file may name it */
	OP_OPTIONAL_OUT = 128, /* kernels must write only the outputs that are not NO_VALUE */
	OP_CONVOLUTION = 256, /* a convolution: on a GPU cuDNN may run it, and is opened in advance */
	OP_PRODUCT = 512, /* a matrix product: on a GPU cuBLASLt may run it, and is opened in advance */
	OP_READS_PART =
		1024, /* reads only those elements of input 0 that it gives to output 0 (Gather, Slice) */
	OP_RUN_SHAPES =
		4096, /* the kernel finds out the sizes of its outputs and allocates them (NonZero, Unique) */
	OP_BRANCHES = 2048 /* runs one of its bodies; errors in the others do not matter (If) */
};

/* What --precision fp16 and bf16 do with the operator in an fp32 graph (opt/precision.c). */
enum op_reduced {
	REDUCED_NEVER, /* stays fp32, because rounding its inputs could spoil the result */
	REDUCED_COMPUTES, /* computes in the smaller type as well as in fp32: products, norms, activations, short sums */
	REDUCED_MOVES /* moves elements without changing them: takes the smaller type when its input has it */
};

struct infer;
struct edit;

struct op {
	const char *name;
	const char *domain; /* NULL: ai.onnx; "ai.onnx.ml", "com.microsoft", "infer", ... */
	int since;
	const struct slot *in, *out; /* end with a NULL name */
	const struct field *attrs;
	size_t params_size;
	uint64_t types; /* not 0: stands instead of the types of the slots whose tvar is "T" */
	int (*infer)(struct infer *);
	int (*upgrade)(struct edit *);
	const char *expand; /* body as rule text over the slots' names and $attributes */
	/* Which form expands: NULL always; else only where this is true (others have a kernel). */
	bool (*expand_when)(const struct graph *, const struct node *);
	unsigned flags; /* OP_* */
	/*
	 * Which of several operators this is that share kernel functions (CumSum and CumProd, say): an enum in the
	 * family's header names the values. Kernels ask for it instead of comparing names.
	 */
	int variant;
	enum op_reduced reduced;
	/*
	 * Bit i: input i takes the smaller type although its type variable is not that of output 0 (X of
	 * RMSNormalization, the mask of infer::Attention). Inputs with the type variable of output 0 take it anyway.
	 */
	uint32_t reduced_in;
	/* Multiply-adds of the node for --cost; NULL: 0. Shapes in ctx are known. */
	int64_t (*macs)(const struct infer *);
};

/* ---- the registry --------------------------------------------------------------------------- */

/* The row with the greatest since <= version, or NULL. domain: "" or "ai.onnx" for ONNX's own. */
const struct op *op_find(const char *domain, const char *name, int64_t version);
/* The newest row: the one whose meaning runs. */
const struct op *op_newest(const char *domain, const char *name);
/* By "Softmax" or "com.microsoft::Gelu" (newest row). */
const struct op *op_named(const char *qualified);
/* "Softmax" or "infer::Conv"; static or interned string. */
const char *op_qualified(const struct op *op);
/* OP_* of the operator, whatever version the row is of: the flags of its newest row. */
unsigned op_flags(const struct op *op);
/* Whether kernels of the operator may allocate their outputs; all others need every size before they run. */
static inline bool op_allocates(const struct op *op)
{
	return op_flags(op) & (OP_RUN_SHAPES | OP_HOST_VALUES | OP_CONTROL);
}
/* Dense number of the operator (same for all its versions), below op_ids(). */
uint32_t op_id(const struct op *op);
uint32_t op_ids(void);
/* Whether any row has this domain (to tell an unknown domain from an unknown operator). */
bool op_domain_known(const char *domain);
/* Newest version of the domain that any row knows of / that the build supports. */
int64_t op_domain_version(const char *domain);
/* All rows in order of the families: f(row, arg) until it returns non-zero. */
int op_each(int (*f)(const struct op *, void *), void *arg);
/* The inherited view of a version row (slots, attrs, infer filled from newer rows). */
struct op op_resolved(const struct op *row);
/* Fails with a message where a table is not well formed; run by the tests. */
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
	struct vinfo *info;  /* by value id */
	struct arena *arena; /* for known values: the product's */
	struct diag *diag;
	bool concrete;
	uint64_t wanted;     /* inputs (bit i) whose value was asked for and is not known */
	struct model *model; /* for fresh symbols; NULL when concrete */
	/* Inference of body k: in: its formal inputs, out: its outputs. */
	int (*body)(struct infer *, uint32_t k, const struct vinfo *in, struct vinfo *out);
	void *body_ctx;
};

/* info of input / output i; NULL where it is left out. */
const struct vinfo *infer_in(const struct infer *c, uint32_t i);
struct vinfo *infer_out(const struct infer *c, uint32_t i);
static inline const void *infer_params(const struct infer *c)
{
	return c->node->params;
}
/* The value of input i, or NULL (left out, or not known: then noted in wanted). */
const struct tensor *infer_value(struct infer *c, uint32_t i);
/*
 * Input i as integers: true and *out filled (rank = count, elements may be symbols) where they
 * are known. More than MAX_RANK elements: false without an error. Noted in wanted otherwise.
 */
bool infer_ints(struct infer *c, uint32_t i, struct shape *out);
/* Set output i. */
void infer_set(struct infer *c, uint32_t i, enum dtype t, const struct shape *s);
void infer_set_ints(struct infer *c, uint32_t i, const struct shape *ints); /* what its elements are */
/* FAIL with the node's names filled in; slot is "input 1 'B'" made from the row. */
int infer_fail(const struct infer *c, enum code code, int slot, const char *expected,
	       const char *actual);

/*
 * Before a shape function: counts of inputs and outputs, types against the slots, and the element
 * types of outputs whose type variable an input binds. For infer_node (src/opt) and eval_node.
 */
int infer_types(struct infer *c);
/* The slot of input/output i (the last one repeats where it is variadic), or NULL. */
const struct slot *slot_at(const struct slot *slots, uint32_t i);

/* ---- upgrades -------------------------------------------------------------------------------- */

/*
 * What an upgrade sees: a node whose params are the old row's, in a graph whose earlier nodes are
 * upgraded and inferred. It may replace params, change inputs, add nodes before or after.
 * Afterwards the node must have the newest meaning (edit_params sets new params).
 */
struct edit {
	struct graph *graph;
	struct node *node;
	const struct op *old; /* the row that the model's opset selects */
	struct diag *diag;
};
/* New params of the newest row with their defaults set, installed in the node; the old stay valid. */
void *edit_params(struct edit *e);
/* Set input i to a constant of int64s (rank 1) / one scalar of the dtype of input `like`. */
void edit_const_ints(struct edit *e, uint32_t i, const int64_t *v, int64_t n);
void edit_const_scalar(struct edit *e, uint32_t i, double v, enum dtype t);
/* dtype / rank of input i as inferred so far (DT_NONE, -1 unknown). */
enum dtype edit_dtype(const struct edit *e, uint32_t i);
int edit_rank(const struct edit *e, uint32_t i);
/* Turn the node into another operator (newest row), with its default params, which are returned. */
void *edit_become(struct edit *e, const char *qualified);
/* A node before e->node with one new output, whose id is returned; *params gets its default params. */
uint32_t edit_before(struct edit *e, const char *qualified, const uint32_t *in, uint32_t nin,
		     void **params);
/*
 * A node after e->node that takes over its output k: the old node gets a fresh output value
 * and the new node's input 0 is that. extra inputs follow. *params gets its default params.
 */
struct node *edit_after(struct edit *e, uint32_t k, const char *qualified, const uint32_t *extra,
			uint32_t nextra, void **params);
/*
 * The activation of that name behind output k, as com.microsoft's fused operators have them; NAN stands for
 * a parameter's default. None for an empty name.
 */
int edit_activation(struct edit *e, uint32_t k, const char *name, float alpha, float beta);
int edit_fail(const struct edit *e, enum code code, const char *expected, const char *actual);

#endif
